"""A run of a System in a process of its own, for tests that kill it: see test_system_recording.py.

``python system_run.py FOLDER SCHEME SEED COUNT`` makes whole.nc, then COUNT times starts the run
anew in killed.nc, kills it at a random instant, looks at what is left and resumes it.  Processes
are forked before anything is compiled, which saves their start.
"""

import functools
import json
import random
import sys
from pathlib import Path

import h5py
import jax.numpy as jnp
import numpy as np

import carom
import stopping
from carom.io.netcdf import records_of
from carom.run import compiled as SOLVE
from carom.schemes.named import scheme_of_text

SCHEMES = {
    "Moreau": 1_000_000,
    "Moreau(implicit=True)": 100_000,
    "Maury": 200_000,
    "PaoliSchatzman": 100_000,
    "Penalty(lam=1e-4, substeps=4)": 20_000,
    "Penalty(lam=1e-4)": 20_000,
    "EventDriven": 40_000,
}


@functools.cache
def oscillator():
    """A driven, damped mass between two stops, one of them moving: impacts for ever."""
    return carom.System(
        force=lambda t, q, v: 2.0 * jnp.sin(1.7 * t) - 0.1 * v - q,
        gap=lambda t, q: jnp.stack([q[0] + 0.4, 0.5 + 0.05 * jnp.sin(t) - q[0]]),
        mass=[1.2],
        restitution=0.7,
    )


def run(
    path, scheme, *, steps=None, resume=False, fresh=False, seconds=0.005, record=None, **options
):
    """Pieces of some milliseconds, so that there are many of them."""
    SOLVE._PIECE_SECONDS = seconds
    steps = SCHEMES[scheme] if steps is None else steps
    record = {"every": 10 if steps > 200_000 else 1} if record is None else record
    return carom.solve(
        oscillator(),
        scheme_of_text(scheme),
        [0.1],
        [0.5],
        t1=40.0,
        dt=40.0 / steps,
        record=carom.Record(path, resume=resume, overwrite=fresh, **record),
        **options,
    )


def forked(path, scheme, at_record=2, kill_after=None, **options):
    """Run in a forked process; seconds since a record is there, or None if it was killed."""
    return stopping.forked(
        lambda: run(path, scheme, **options), lambda: records(path) >= at_record, kill_after
    )


def records(path):
    """How many are in the file; 0 if it grows in the very instant that HDF5 looks at its size."""
    try:
        with h5py.File(path, "r", locking=False) as h5:
            return records_of(h5)
    except (OSError, KeyError):
        return 0


def contents(path):
    """Everything that a reader of the file finds, by name."""
    with h5py.File(path, "r", locking=False) as h5:
        n = records_of(h5)
        impacts = min([a.shape[0] for name, a in h5.items() if name.startswith("impact")] or [0])
        found = {}
        for name, data in h5.items():
            if isinstance(data, h5py.Dataset) and data.chunks is not None and name != "impact":
                found[name] = data[: impacts if name.startswith("impact_") else n]
        return found


def same(a, b):
    """Whether two of ``contents`` agree in every bit."""
    return a.keys() == b.keys() and all(a[name].tobytes() == b[name].tobytes() for name in a)


def beginning_of(part, whole):
    """Whether ``part`` is what ``whole`` begins with."""
    return all(whole[name][: len(part[name])].tobytes() == part[name].tobytes() for name in part)


def main(folder, scheme, seed, count):
    """Print, as JSON, the number of records that each kill left."""
    folder, chance = Path(folder), random.Random(seed)
    whole, killed = folder / "whole.nc", folder / "killed.nc"
    whole.unlink(missing_ok=True)
    took = forked(whole, scheme)
    reference = contents(whole)
    assert np.count_nonzero(reference["impulse"]) > 20
    total, left = len(reference["time"]), []
    for _ in range(count):
        killed.unlink(missing_ok=True)
        # at a random record, and then at a random instant of the pieces that come next
        if forked(killed, scheme, chance.randrange(total), chance.uniform(0.0, 0.02)) is None:
            if not killed.exists():  # killed before it had begun: a file appears when it is whole
                continue
            part = contents(killed)
            assert beginning_of(part, reference)
            assert len({len(a) for name, a in part.items() if not name.startswith("impact")}) == 1
            left.append(len(part["time"]))
            forked(killed, scheme, resume=True)
            assert same(contents(killed), reference)
    print(json.dumps({"records": left, "seconds": took, "of": total}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
