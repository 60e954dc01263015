"""Names of arguments that are not there, told with the nearest that is."""

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

from carom.errors import KindError

_F = TypeVar("_F", bound=Callable[..., Any])


def nearest_name(name: str, names: Iterable[str], cutoff: float = 0.5) -> str:
    """``; did you mean 'restitution'?``, or nothing where no name is near."""
    close = difflib.get_close_matches(name, list(names), 1, cutoff=cutoff)
    return f"; did you mean {close[0]!r}?" if close else ""


def suggesting(function: _F) -> _F:
    """The same function, which names the nearest argument where it is given one it has not."""
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
            hint = nearest_name(wrong[0], names) or "."
            listed = ", ".join(name for name in names if name != "self")
            text = f"{what} has no argument {wrong[0]!r}{hint} Its arguments are {listed}"
        raise KindError(text)

    return cast(_F, called)
