"""Projections at the edge of rounding: each solved to its residual, or reported, and none wrong.

    python tests/degenerate.py [problems of each kind] [seed]

prints the counts by kind.  Every problem has an admissible point, so that none is infeasible.
"""

import sys
from typing import NamedTuple

import jax
import numpy as np

import carom
from carom import Status
from projections import (
    badly_scaled,
    close,
    dependent,
    duplicate,
    has,
    kkt_residual,
    masses,
    norm,
    times,
)

OK = 1e-9  # the residual that "ok" stands for
SHAPES = ((8, 3), (10, 10), (4, 2))


def opposite(angle):
    def rows(rng, n, p, d):
        return close(angle)(rng, n, p, d) * rng.choice([-1.0, 1.0], (n, p, 1))

    return rows


def scaled_opposite(rng, n, p, d):
    return opposite(1e-6)(rng, n, p, d) * 10.0 ** rng.uniform(-4, 4, (n, p, 1))


ANGLES = (1e-3, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9)
KINDS = {f"opposite {a:g}": opposite(a) for a in ANGLES}
KINDS |= {f"parallel {a:g}": close(a) for a in ANGLES}
KINDS |= {
    "duplicate": duplicate,
    "dependent": dependent,
    "badly scaled": badly_scaled,
    "scaled opposite": scaled_opposite,
}


@jax.jit
def projected(*problems):
    """One after another: a hard one holds up no other."""
    return jax.lax.map(lambda x: carom.project(*x[:3], mass=x[3]), problems)


class Count(NamedTuple):
    problems: int
    reported: int  # as unconverged
    wrong: int  # ok, and above what ok stands for; or infeasible
    loose: int  # ok, and above 1e-12
    worst: float  # residual of those that are ok


def counted(kind, rng, n, p, d, *, cone: bool) -> Count:
    """Problems of one kind: cones with the point 0, or rows that leave a random point inside."""
    G, mass, t = KINDS[kind](rng, n, p, d), masses("diagonal", rng, n, d), rng.normal(size=(n, d))
    b = np.zeros((n, p))
    if not cone:
        inside = rng.normal(size=(n, d))
        b = rng.exponential(size=(n, p)) * norm(G) * (rng.random((n, p)) < 0.5) - times(G, inside)
    found = projected(t, G, b, mass)
    ok, reported = has(found, Status.ok), has(found, Status.unconverged)
    residual = kkt_residual(t, G, b, mass, found.point, found.multipliers).astype(float)
    wrong = (ok & ~(residual < OK * (1.0 + 1e-6))) | (~ok & ~reported)
    loose = ok & ~(residual < 1e-12)
    worst = float(np.max(residual[ok], initial=0.0))
    return Count(n, *(int(np.count_nonzero(x)) for x in (reported, wrong, loose)), worst)


def every(n, seed):
    """(name, Count) of all kinds and shapes, n problems each."""
    rng = np.random.default_rng(seed)
    for p, d in SHAPES:
        for kind in KINDS:
            for cone in (True, False):
                name = f"{p} x {d} {kind}{', cone' if cone else ''}"
                yield name, counted(kind, rng, n, p, d, cone=cone)


def main(n=2100, seed=0):
    """The table."""
    total = np.zeros(4, int)
    for name, count in every(n, seed):
        total += count[:4]
        if any(count[1:4]):
            print(f"{name:34} {count}", flush=True)
    print("all: {} problems, {} reported, {} wrong, {} above 1e-12".format(*total))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
