"""How many threads a piece of work is worth; results do not depend on it."""

import contextlib

import numba

_SPHERES_PER_THREAD = 3_000  # below this, waiting for each other costs more than is saved


@contextlib.contextmanager
def enough_for(spheres: int):
    """Use as many of the threads that Numba has as so many spheres can occupy."""
    before = numba.get_num_threads()
    numba.set_num_threads(max(1, min(before, spheres // _SPHERES_PER_THREAD)))
    try:
        yield
    finally:
        numba.set_num_threads(before)
