"""What is compiled already."""

from typing import Any

from carom.kernels.numba import projection


def kept() -> bool:
    """Whether kernels that were compiled before are on the disk, so that they need not be again."""
    cache: Any = getattr(projection.sweep, "_cache", None)
    return not hasattr(cache, "known") or cache.known()
