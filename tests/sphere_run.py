"""A run of spheres in a process of its own, for tests that kill it: see test_recording.py.

``python sphere_run.py FOLDER SEED COUNT`` makes whole.vtkhdf, then COUNT times starts the run anew
in killed.vtkhdf, kills it at a random instant, looks at what is left and resumes it.  Processes are
forked before any kernel runs, which saves their start.
"""

import json
import random
import sys
from pathlib import Path

import h5py
import numpy as np

import carom
import stopping
from carom.spheres import Box, lattice

STEPS = 30


def run(path, *, resume=False, progress=False, every=2):
    """2,000 spheres fall into a box; a thousandth of a second a step."""
    pile = lattice(
        (10, 10, 20),
        0.05,
        spacing=0.102,
        jitter=0.0009,
        velocity=(0.0, 0.0, -1.0),
        walls=[Box((0, 0, 0), (1.02, 1.02, np.inf))],
        gravity=(0.0, 0.0, -9.81),
        restitution=0.3,
    )
    record = carom.Record(path, every=every, resume=resume)
    return carom.solve(pile, carom.Maury(), t1=STEPS * 1e-3, dt=1e-3, record=record)


def forked(path, at_record=1, kill_after=None, **options):
    """Run in a forked process; seconds since a record is there, or None if it was killed."""
    return stopping.forked(
        lambda: run(path, **options), lambda: records(path) >= at_record, kill_after
    )


def records(path):
    """How many are in the file; 0 if it grows in the very instant that HDF5 looks at its size."""
    try:
        with h5py.File(path, "r", locking=False) as h5:
            return int(h5["VTKHDF/Steps"].attrs["NSteps"])
    except (OSError, KeyError):
        return 0


def contents(path):
    """Everything that a reader of the file finds, but chunks not counted."""
    with h5py.File(path, "r") as h5:
        n = int(h5["VTKHDF/Steps"].attrs["NSteps"])
        N = int(h5["VTKHDF/NumberOfPoints"][0])
        found = {name: a[: n * N] for name, a in h5["VTKHDF/PointData"].items()}
        found["x"] = h5["VTKHDF/Points"][: n * N]
        found["frames"] = h5["carom/frames"][:n]
        last = found["frames"][-1] if n else None
        total = int(last["first_contact"] + last["contacts"]) if n else 0
        found["contacts"] = h5["carom/contacts"][:total]
        found["t"] = h5["VTKHDF/Steps/Values"][:n]
        return found


def same(a, b):
    """Whether two of ``contents`` agree in every bit."""
    return all(a[name].tobytes() == b[name].tobytes() for name in a)


def beginning_of(part, whole):
    """Whether ``part`` is what ``whole`` begins with."""
    return all(whole[name][: len(part[name])].tobytes() == part[name].tobytes() for name in part)


def main(folder, seed, count):
    """Print, as JSON, the number of records that each kill left."""
    folder, chance = Path(folder), random.Random(seed)
    whole, killed = folder / "whole.vtkhdf", folder / "killed.vtkhdf"
    for _ in range(2):  # the first one compiles
        whole.unlink(missing_ok=True)
        took = forked(whole)
    reference = contents(whole)
    total, left = len(reference["t"]), []
    for _ in range(count):
        killed.unlink(missing_ok=True)
        # at a random record, and then at a random instant of the steps up to the next ones
        if forked(killed, chance.randrange(total), chance.uniform(0.0, 2 * took / total)) is None:
            if not killed.exists():  # killed before it had begun: a file appears when it is whole
                continue
            part = contents(killed)
            assert beginning_of(part, reference)
            left.append(len(part["t"]))
            forked(killed, resume=True)
            assert same(contents(killed), reference)
    print(json.dumps({"records": left, "seconds": took}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
