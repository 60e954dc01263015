"""Compiled programs are kept between tests, workers and runs: compiling is most of the time."""

import inspect
import os
import sys
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
        group = "spheres" if _moves_spheres(item) else path
        item.add_marker(pytest.mark.xdist_group(group))


def _moves_spheres(item) -> bool:
    """Whether Numba compiles kernels, for a minute: one worker does that, once, for all."""
    rooms = ("sphere", "fclib", "grains", "toy_wall", "test_recording", "test_drawn", "examples")
    if any(word in item.nodeid for word in rooms):
        return True
    code = getattr(item, "function", None)
    return code is not None and "pheres" in inspect.getsource(code)


@pytest.fixture(autouse=True)
def _no_figure_is_left():
    """A test that counts the open figures does not depend on which one ran before."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
