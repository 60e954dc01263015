"""What the laboratory looks at: a model of carom.models, or a file of one's own, with its numbers.

The numbers of a model are the parameters of its function.  Those of a Python file are the literals
given to a name at its top level (``e = 0.8``, ``g, l = 9.81, 0.5``) or to a keyword of the call
that makes ``problem`` (``restitution=0.8``; of a list each entry, ``friction.0``): a value is put
into the text in its place, so that the text with new values is again a run file.
"""

import ast
import dataclasses
import inspect
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from carom import models
from carom.app import runfile
from carom.arguments import nearest_name
from carom.contracts import Equations, offers
from carom.errors import CaromError, KindError
from carom.models.problem import Problem
from carom.models.references import computed
from carom.worlds.system.system import System

_OF_RUN = (
    "dt",
    "t0",
    "t1",
    "q0",
    "v0",
    "every",
    "period",
)  # names of a file that are not parameters
_UNIT = ("e", "restitution", "friction", "mu", "damping")  # between 0 and 1


class LabError(CaromError, ValueError):
    """The laboratory cannot do what it is asked."""


def parameter(name: str, value) -> dict:
    """A number that can be changed: its name, value and the range of its slider."""
    kind = "yes" if isinstance(value, bool) else "whole" if isinstance(value, int) else "number"
    if kind == "yes":
        low, high, value = 0, 1, int(value)
    elif kind == "whole":
        low, high = min(1, value), max(10, 3 * value)
    elif name.partition(".")[0] in _UNIT:
        low, high = 0.0, max(1.0, value)
    elif value == 0:
        low, high = -1.0, 1.0
    else:
        low, high = sorted((0.0, 2.5 * value))
    return {"name": name, "value": value, "low": low, "high": high, "kind": kind}


class Model:
    """A model of carom.models."""

    ending = ".toml"

    def __init__(self, name: str):
        if name not in systems():
            hint = nearest_name(name, systems())
            raise LabError(
                f"there is no model {name!r} here{hint} There are {', '.join(systems())}"
            )
        self.name, self.about = name, systems()[name]
        self._defaults = {
            key: p.default
            for key, p in inspect.signature(getattr(models, name)).parameters.items()
            if key != "t1" and p.default is not None
        }
        self.parameters = [parameter(key, x) for key, x in self._spread().items()]
        self.scheme = "Moreau"

    def _spread(self) -> dict[str, Any]:
        """A number for each entry of a tuple: ``position.0``, ``position.1``."""
        found = {}
        for key, x in self._defaults.items():
            parts = {f"{key}.{k}": y for k, y in enumerate(x)} if isinstance(x, tuple) else {key: x}
            found |= parts
        return found

    def _gathered(self, values: dict) -> dict:
        found = {}
        for key, x in self._defaults.items():
            if isinstance(x, tuple):
                found[key] = tuple(values.get(f"{key}.{k}", y) for k, y in enumerate(x))
            elif key in values:
                found[key] = type(x)(values[key])
        return found

    def problem(self, values: dict, q0=None, v0=None) -> Problem:
        """With these numbers; where no exact motion is known, from the start of the defaults."""
        parameters = self._gathered(values)
        if computed(self.name):  # which the laboratory does not ask for
            parameters["t1"] = 1e-3
        try:
            made = runfile.started_model(self.name, parameters, q0, v0)
        except models.ModelError as unknown:
            if unknown.known is None:
                raise
            usual = getattr(models, self.name)()
            q0 = unknown.known.get("q0", usual.q0) if q0 is None else q0
            v0 = unknown.known.get("v0", usual.v0) if v0 is None else v0
            made = runfile.started_model(self.name, parameters, q0, v0)
        return dataclasses.replace(made, system=lifted(made.system, made.q0))

    def natural(self) -> dict:
        """Step and end that show it."""
        t1 = float(getattr(models, self.name)().t1)
        return {"t1": float(f"{t1:.4g}"), "dt": _round(t1 / 2000)}

    def run_file(self, asked: dict) -> str:
        """As ``carom run`` takes it."""
        made = self.problem(asked["parameters"], asked["q0"], asked["v0"])
        start = {"q0": made.q0, "v0": made.v0} if self._moved(asked) else {}
        lines = [f'model = "{self.name}"', f'scheme = "{asked["scheme"]}"']
        lines += [f"dt = {asked['dt']!r}", f"t1 = {asked['t1']!r}"]
        lines += [f"{key} = {[float(x) for x in found]}" for key, found in start.items()]
        lines += ["[parameters]"]
        for key, x in self._gathered(asked["parameters"]).items():
            shown = str(x).lower() if isinstance(x, bool) else repr(x)
            lines.append(f"{key} = {list(x) if isinstance(x, tuple) else shown}")
        return "\n".join(lines) + "\n"

    def _moved(self, asked) -> bool:
        """Whether the start must be written down."""
        if asked["q0"] is not None or asked["v0"] is not None:
            return True
        try:
            getattr(models, self.name)(**self._gathered(asked["parameters"]))
        except models.ModelError:
            return True
        return False


class OwnFile:
    """A Python file that defines ``problem``."""

    ending = ".py"

    def __init__(self, path: Path):
        self.path, self.name = path, path.name
        plan = runfile.read(path)
        if not offers(plan.system, Equations):
            raise KindError(f"{path}: the laboratory is of Systems; look at spheres by carom view")
        self._text = path.read_text(encoding="utf-8")
        self._places = _numbers(ast.parse(self._text))
        self.about = (ast.get_docstring(ast.parse(self._text)) or self.name).partition("\n")[0]
        self.parameters = [parameter(key, x) for key, (x, _) in self._places.items()]
        self.scheme = str(plan.scheme)
        self._natural = {"t1": plan.t1, "dt": plan.dt}
        self._made: dict[str, Problem] = {}  # by text: what is made again compiles again

    def _with(self, values: dict) -> str:
        lines = self._text.splitlines(keepends=True)
        places = sorted(self._places.items(), key=lambda item: item[1][1], reverse=True)
        for key, (usual, (line, start, end)) in places:
            x = type(usual)(values.get(key, usual))
            row = lines[line].encode()
            lines[line] = (row[:start] + repr(x).encode() + row[end:]).decode()
        return "".join(lines)

    def problem(self, values: dict, q0=None, v0=None) -> Problem:
        """With these numbers in its text."""
        text = self._with(values)
        if text not in self._made:
            if len(self._made) > 50:
                self._made.clear()
            made = runfile.from_text(self.path, text, {}).problem
            self._made[text] = dataclasses.replace(made, system=lifted(made.system, made.q0))
        start = {"q0": q0, "v0": v0}
        start = {key: np.asarray(x, float) for key, x in start.items() if x is not None}
        return dataclasses.replace(self._made[text], **start)

    def natural(self) -> dict:
        """As the file says."""
        return self._natural

    def run_file(self, asked: dict) -> str:
        """The file with these numbers; what it says at its end holds."""
        more = {key: asked[key] for key in ("scheme", "dt", "t1", "q0", "v0")}
        lines = [f"{key} = {x!r}" for key, x in more.items() if x is not None]
        return "\n".join([self._with(asked["parameters"]).rstrip("\n"), *lines, ""])


def systems() -> dict[str, str]:
    """The models that are systems, with a line about each."""
    return {
        name: line
        for name, line in models.catalogue().items()
        if name not in ("granular_gas", "settling_spheres")
    }


def subject_of(name: str) -> Model | OwnFile:
    """A model by name, a Python file, or the model of a TOML file."""
    path = Path(name)
    if path.suffix == ".py":
        return OwnFile(path)
    if path.suffix == ".toml":
        raise LabError(f"{name}: give a Python file, or its model: carom lab MODEL")
    return Model(name)


def _numbers(tree: ast.Module) -> dict[str, tuple[float, tuple[int, int, int]]]:
    """Name to value and place (line, first and last column in bytes) of the literals that vary."""
    found = {}
    for key, value in _named(tree):
        number = _literal(value)
        name = key.partition(".")[0]
        if number is not None and name not in _OF_RUN and value.lineno == value.end_lineno:
            place = (value.lineno - 1, value.col_offset, value.end_col_offset or 0)
            found[key] = (number, place)
    return found


def _named(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """What stands after ``e =``, ``g, l =`` and ``restitution=``; entries of lists one by one."""
    for node in tree.body:
        if not isinstance(node, ast.Assign):
            continue
        target, value = node.targets[0], node.value
        pairs = [(target, value)]
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            pairs = list(zip(target.elts, value.elts, strict=False))
        named = [(name.id, x) for name, x in pairs if isinstance(name, ast.Name)]
        if named and named[0][0] == "problem" and isinstance(value, ast.Call):
            named = [(k.arg, k.value) for k in value.keywords if k.arg]
        for key, x in named:
            entries = x.elts if isinstance(x, ast.List | ast.Tuple) else None
            yield from (
                [(key, x)]
                if entries is None
                else [(f"{key}.{k}", entry) for k, entry in enumerate(entries)]
            )


def _literal(node) -> float | None:
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError):
        return None
    return value if isinstance(value, int | float) and math.isfinite(value) else None


def _round(x: float) -> float:
    """The next lower of 1, 2, 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(x))
    return float(f"{max(k for k in (1, 2, 5) if k * power <= x * (1 + 1e-9)) * power:.3g}")


# ---- no compiling where a number alone changes ---------------------------------------------------


class _Lifted(eqx.Module):
    """A dataclass with its numbers apart, as arrays: another number is no other program."""

    numbers: dict
    like: Any = eqx.field(static=True)

    def __call__(self, *arguments):
        return _with_numbers(self.like, self.numbers)(*arguments)


def _is_plain(x) -> bool:
    return dataclasses.is_dataclass(x) and not isinstance(x, eqx.Module | type)


def _numbers_of(x) -> dict:
    found = {}
    for field in dataclasses.fields(x):
        value = getattr(x, field.name)
        if isinstance(value, float):
            found[field.name] = jnp.asarray(value)
        elif _is_plain(value):
            found[field.name] = _numbers_of(value)
    return found


def _with_numbers(x, numbers):
    changes = {
        key: _with_numbers(getattr(x, key), found) if isinstance(found, dict) else found
        for key, found in numbers.items()
    }
    return dataclasses.replace(x, **changes)


def _blank(numbers):
    return {k: _blank(x) if isinstance(x, dict) else 0.0 for k, x in numbers.items()}


def _lifted_function(function):
    if not _is_plain(function):
        return function
    numbers = _numbers_of(function)
    return _Lifted(numbers, _with_numbers(function, _blank(numbers))) if numbers else function


def lifted(system: System, q0) -> System:
    """The same system, whose dataclasses hand their numbers to the compiled program as arrays.

    But for those that do with their numbers what cannot be done with arrays.
    """
    t, q = jnp.zeros(()), jnp.asarray(q0, float)
    for name, given in {"force": (t, q, q), "gap": (t, q), "mass": (q,)}.items():
        function = getattr(system, name)
        found = _lifted_function(function)
        if found is not function and _traced(found, given):
            system = eqx.tree_at(lambda s, name=name: getattr(s, name), system, found)
    return system


def _traced(function, given) -> bool:
    try:
        eqx.filter_eval_shape(lambda f, *arguments: f(*arguments), function, *given)
    except Exception:  # whatever NumPy says of an array that is not known
        return False
    return True
