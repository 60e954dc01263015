"""The loops of moreau.c, compiled with the flags asked for: what speed.py measures against."""

import ctypes
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
W = 2.5  # of the forcing, where nothing else is said


class Run(ctypes.Structure):
    _fields_ = [(name, ctypes.c_double) for name in ("t0", "h", "s", "e")] + [("n", ctypes.c_long)]


@functools.cache
def c_library(*flags):
    """moreau.c compiled with these flags, as a ctypes library."""
    if shutil.which("cc") is None:
        raise SystemExit("no C compiler: install one as `cc`, or choose sections with --only")
    out = Path(tempfile.mkdtemp()) / "moreau.so"
    command = ["cc", *flags, "-fopenmp", "-shared", "-fPIC", HERE / "moreau.c", "-o", out, "-lm"]
    subprocess.run(command, check=True)
    library = ctypes.CDLL(out)
    shutil.rmtree(out.parent)
    return library


def pointer(array):
    return array.ctypes.data_as(ctypes.POINTER(ctypes.c_double))


def c_final(library, run, q, v, w=W):
    q, v = np.array([q]), np.array([v])
    library.final_state(ctypes.byref(run), ctypes.c_double(w), pointer(q), pointer(v))
    return q[0], v[0]


def c_every(library, run, q, v, w=W):
    arrays = [np.empty(run.n + 1) for _ in range(5)]
    scalars = (ctypes.c_double(x) for x in (w, q, v))
    library.every_step(ctypes.byref(run), *scalars, *map(pointer, arrays))
    return arrays


def c_batch(library, run, ws, q, v, lanes=False):
    q, v = np.full(ws.size, q), np.full(ws.size, v)
    loop = library.batch_lanes if lanes else library.batch
    loop(ctypes.byref(run), ctypes.c_long(ws.size), pointer(ws), pointer(q), pointer(v))
    return q, v
