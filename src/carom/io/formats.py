"""File formats by the ending of a name: one list."""

import os
import pkgutil
from typing import Any

from carom.errors import RecordError

# An ending, and what writes and reads such files: a class with ``start``, ``resume`` and ``load``
# (contracts.Format), or where it is, as it is imported when it is needed.
FORMATS: dict[str, Any] = {
    ".nc": "carom.io.netcdf:Recording",
    ".vtkhdf": "carom.io.vtkhdf:Recording",
}


def format_of(path, world=None) -> Any:
    """The format of a file by its name; of a name without a known ending, that of the world."""
    ending = os.path.splitext(os.fspath(path))[1]
    own = getattr(world, "format", ".nc")
    found = FORMATS[ending if ending in FORMATS else own]
    if isinstance(found, str):
        found = pkgutil.resolve_name(found)
    if world is not None and not found.holds(world):
        raise RecordError(
            f"{os.fspath(path)!r}: files that end in {ending} do not hold such a world: take a "
            f"name that ends in {own}"
        )
    return found
