"""Compiled programs are kept between tests, workers and runs: compiling is most of the time."""

import os
from pathlib import Path

import pytest

_KEPT = Path(__file__).parents[1] / ".pytest_cache" / "jax"

# Before JAX is imported; another choice of the user's is left alone.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(_KEPT))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

_HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # before -m "not slow" is looked at
def pytest_collection_modifyitems(items):
    """Mark what slow.txt lists."""
    lines = (_HERE / "slow.txt").read_text(encoding="utf-8").splitlines()
    listed = tuple(line for line in lines if line and not line.startswith("#"))
    for item in items:
        path = item.path.relative_to(_HERE).as_posix()
        if f"{path}::{item.name}".startswith(listed):
            item.add_marker(pytest.mark.slow)
