"""What is compiled already."""

from pathlib import Path

from carom.kernels.numba import projection


def kept() -> bool:
    """Whether kernels that were compiled before are on the disk, so that they need not be again."""
    folder = getattr(getattr(projection.sweep, "_cache", None), "cache_path", None)
    return folder is None or any(Path(folder).glob("*.nbi"))
