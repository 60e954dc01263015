"""Compiled programs are kept between tests, workers and runs: compiling is most of the time."""

import os
from pathlib import Path

_KEPT = Path(__file__).parents[1] / ".pytest_cache" / "jax"

# Before JAX is imported; another choice of the user's is left alone.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(_KEPT))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
