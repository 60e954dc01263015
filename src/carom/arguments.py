"""Names of arguments that are not there, told with the nearest that is."""

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

from carom.errors import KindError

_F = TypeVar("_F", bound=Callable[..., Any])

_ELSEWHERE = {  # names that other tools and books have for it
    "mu": "friction",
    "e": "restitution",
    "y0": "q0",
    "x0": "q0",
    "t_span": "t1",
    "t_eval": "record",
    "diameter": "radius",
    "force": "overwrite",
}


def nearest_name(name: str, names: Iterable[str]) -> str:
    """``; did you mean 'restitution'?``, or a full stop where no name is near."""
    small = {other.lower(): other for other in names}
    said = name.lower()
    close = [_ELSEWHERE[said]] if _ELSEWHERE.get(said) in small else []
    close = close or [x for x in small if len(said) > 2 and said in x]
    close = close or difflib.get_close_matches(said, small, 1, cutoff=0.6)
    close = close or [x for x in small if len(x) > 2 and x in said]
    return f"; did you mean {small[close[0]]!r}?" if close else "."


def absent(thing, name: str, elsewhere: dict[str, str]) -> AttributeError:
    """For an attribute that is not there: what it is called here, or the nearest that is."""
    kind = type(thing).__name__
    if name.startswith("_"):
        return AttributeError(f"{kind!r} object has no attribute {name!r}")
    there = [other for other in dir(thing) if not other.startswith("_")]
    hint = f": use {elsewhere[name]}" if name in elsewhere else nearest_name(name, there)
    return AttributeError(f"{kind} has no {name!r}{hint.removesuffix('.')}", name=name, obj=thing)


def suggesting(function: _F) -> _F:
    """The same function or class, which names the nearest of its arguments for one it has not."""
    if isinstance(function, type):
        function.__init__ = suggesting(function.__init__)
        return cast(_F, function)
    names = list(inspect.signature(function).parameters)
    what = function.__qualname__.removesuffix(".__init__")

    @functools.wraps(function)
    def called(*args, **options):
        try:
            return function(*args, **options)
        except TypeError:
            wrong = [name for name in options if name not in names]
            if not wrong:
                raise
            hint = nearest_name(wrong[0], names)
            listed = ", ".join(name for name in names if name != "self")
            text = f"{what} has no argument {wrong[0]!r}{hint} Its arguments are {listed}"
        raise KindError(text)

    return cast(_F, called)
