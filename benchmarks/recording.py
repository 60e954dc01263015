"""What recording costs: size of the file, memory and time, for many spheres.

python benchmarks/recording.py [SPHERES] [STEPS] [EVERY]

Spheres fall into a box on top of each other.  Times are of the processor, of all threads.
"""

import os
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import carom
from carom.io.vtkhdf import Recording
from carom.spheres import Box, lattice


def resident():
    """Memory of this process [MB]."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def main(N=100_000, steps=60, every=5):
    """Print a line a record, and the share of the time that recording took."""
    side = round((N / 4) ** (1 / 3))
    shape = (side, side, -(-N // side**2))
    pile = lattice(
        shape,
        0.5,
        spacing=1.02,
        jitter=0.009,
        velocity=(0.0, 0.0, -1.0),
        gravity=(0.0, 0.0, -9.81),
        walls=[Box((0, 0, 0), (1.02 * side, 1.02 * side, np.inf))],
    )
    print(f"{len(pile)} spheres, {steps} steps, a record every {every}")
    spent, add = [0.0], Recording.add

    def timed(self, piece, course):
        began = time.process_time()
        add(self, piece, course)
        spent[0] += time.process_time() - began
        if not len(piece.at):
            return
        size = os.path.getsize(self.path) / 1e6
        rows = piece.rows
        count = len(rows["contacts"][-1])
        data = sum(rows[name][-1].nbytes for name in ("x", "v", "moved", "impulse", "radius"))
        data += 40 * count + 8 * len(rows["x"][-1])
        print(
            f"record {self.count:3}  step {course.step:4}  contacts {count:7}  "
            f"data {data / 1e6:6.1f} MB  file {size:7.1f} MB  memory {resident():6.0f} MB",
            flush=True,
        )

    Recording.add = timed
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pile.vtkhdf"
        options = {"t1": steps * 2e-3, "dt": 2e-3}
        carom.solve(pile, carom.Maury(), t1=2e-3, dt=2e-3)  # compiles
        began = time.process_time()
        carom.solve(pile, carom.Maury(), **options, record=carom.Record(path, every=every))
        total = time.process_time() - began
        print(
            f"run {total:.1f} s, recording {spent[0]:.2f} s of it: {100 * spent[0] / total:.1f} %"
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
