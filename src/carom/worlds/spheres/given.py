"""What a user gives, as numbers: errors name it."""

import numpy as np

from carom.errors import CaromError, RunError, ShapeError


def numbers(value, name: str) -> np.ndarray:
    """``value`` as an array of floats."""
    try:
        found = np.asarray(value)
        if found.dtype.kind not in "biuf":
            found = found.astype(float) if found.dtype.kind == "O" else None
        if found is not None:
            return found.astype(float)
    except (ValueError, TypeError, OverflowError):
        pass
    raise ShapeError(f"{name} is {short(value)}; it must be a number or an array of numbers")


def short(value) -> str:
    """``value``, as a message can show it."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."


def at_time(value, t: float, name: str = "a function of t") -> np.ndarray:
    """``value``, or value(t) where it is a function."""
    return numbers(asked(value, name, t) if callable(value) else value, name)


def asked(function, name: str, *arguments):
    """What a function of the user returns; what it raises is said to be of it."""
    try:
        return function(*arguments)
    except CaromError:
        raise
    except Exception as problem:
        raise RunError(
            f"{name} raised {type(problem).__name__} at t = {arguments[0]:g}: {problem}"
        ) from problem
