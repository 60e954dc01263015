"""Compiled functions of flat arrays: the only folder with Numba decorators.

Bodies are rows of (B, 3) arrays; a world of two dimensions has a third coordinate of zero.  Every
result is the same to the last bit whatever the number of threads: what runs in parallel writes
only its own entries, and sums are taken over pieces of a fixed size, in a fixed order.
"""

import os

# Threads that wait for each other spin for a short while, then sleep.  Spinning on, which is the
# default, makes a step five times as long on cores that are shared with other programs.  It has an
# effect if nothing has loaded the OpenMP library before; a value of the user's own is kept.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "30000")
