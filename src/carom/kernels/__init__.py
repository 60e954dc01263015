"""Compiled arithmetic of many bodies, one folder for each backend (contracts.Kernels).

``from carom.kernels import rows`` is the room ``rows`` of the backend, loaded when first asked for.
"""

import importlib
from typing import Any

BACKEND = "carom.kernels.numba"


def __getattr__(name: str) -> Any:
    place = f"{BACKEND}.{name}"
    try:
        found = importlib.import_module(place)
    except ModuleNotFoundError as problem:
        if problem.name != place:  # what the backend itself needs is not installed
            raise
        raise AttributeError(f"{BACKEND} has no room {name!r}") from None
    globals()[name] = found
    return found
