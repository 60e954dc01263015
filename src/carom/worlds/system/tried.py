"""A user's function, tried: what it raises is told with its line, and with what to write there."""

import linecache
import re
from pathlib import Path
from typing import Any

import equinox
import jax
import numpy as np

from carom.errors import CaromError, KindError

_OURS = Path(__file__).parents[2]
_OTHERS = tuple(str(Path(module.__file__ or "").parent) for module in (jax, np, equinox))
_TRACED = (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError)

_CALLED = {"force": "(t, q, v)", "slip": "(t, q, v)", "gap": "(t, q)", "joint": "(t, q)"}
_CALLED |= {"mass": "(q)", "potential": "(q)", "restitution": "(speed)"}
_LONGEST = 80  # of a line that is shown


def tried(name: str, function, *arguments) -> Any:
    """What ``function`` returns for the shapes of ``arguments``, without running it."""
    try:
        return jax.eval_shape(function, *arguments)
    except CaromError:
        raise
    except Exception as problem:
        raise KindError(f"{name}{_place(problem)}: {_remedy(name, problem)}") from problem


def _place(problem) -> str:
    """The line of the user's file that raised it."""
    frame = _frame(problem)
    if frame is None:
        return ""
    line = linecache.getline(*frame).strip()
    shown = f", `{line}`" if 0 < len(line) <= _LONGEST else ""
    return f", {frame[0]}, line {frame[1]}{shown}"


def _frame(problem) -> tuple[str, int] | None:
    """File and line of the innermost call that is neither ours nor of a library below."""
    found, trace = None, problem.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith((str(_OURS), *_OTHERS, "<")):
            found = file, trace.tb_lineno
        trace = trace.tb_next
    return found


def _remedy(name, problem) -> str:
    frame = _frame(problem)
    line = "" if frame is None else linecache.getline(*frame)
    if isinstance(problem, jax.errors.TracerBoolConversionError):
        return (
            "a value that is not known before the run decides (if, while, and, or, min, max): "
            "write jnp.where(condition, a, b), jnp.minimum, jnp.maximum"
        )
    text = " ".join(str(problem).split())
    if isinstance(problem, _TRACED) or "converted to Python scalars" in text:
        used = re.findall(r"\b((?:math|np|numpy)\.(\w+))\(|\b((float|int|bool))\(", line)
        swap = [f"jnp.{b} for {a}" for a, b, _, _ in used if b]
        swap += [f"no {c}()" for _, _, c, _ in used if c]
        what = ", ".join(dict.fromkeys(swap)) or "jnp.sin for math.sin, jnp.array for np.array"
        return f"functions are written with `import jax.numpy as jnp`: {what}"
    if "item assignment" in text:
        return "arrays are not written into: make one, jnp.array([...]), or q = q.at[0].set(value)"
    called = f"; it is called as {name}{_CALLED[name]}" if frame is None else ""
    return f"{type(problem).__name__}: {text}{called}"
