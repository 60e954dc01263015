"""What is compiled already."""

from typing import Any

from carom.kernels.numba import projection


def kept() -> bool:
    """Whether kernels were compiled before, here or on the disk, so that they need not be again."""
    sweep: Any = projection.sweep
    cache: Any = getattr(sweep, "_cache", None)
    return bool(sweep.signatures) or (hasattr(cache, "known") and cache.known())
