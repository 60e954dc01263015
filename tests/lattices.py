"""Touching lattices of spheres that fill their box, hit at random: which runs do not end.

    python tests/lattices.py SEED COUNT

Prints how many of COUNT stop, with sweeps alone and with the method of multipliers after them
(worlds/spheres/stalled.py), and what these are.
"""

import sys

import numpy as np

import carom
from carom.spheres import Box, lattice
from carom.worlds.spheres import stalled

SCHEMES = (carom.Maury(), carom.Moreau(), carom.Moreau(correct=True), carom.PaoliSchatzman())


def drawn(rng):
    """A pile, a scheme and dt; of some boxes the lid is closed too."""
    d = int(rng.integers(2, 4))
    counts = tuple(int(n) for n in rng.integers(2, 6, d))
    decades, N = rng.choice([0, 1, 2, 3]), int(np.prod(counts))
    e, high = float(rng.choice([0.0, 0.0, 0.5])), float(counts[-1] if rng.random() < 0.3 else 9.0)
    pile = lattice(
        counts,
        0.5,
        velocity=rng.normal(size=(N, d)),
        mass=10.0 ** rng.uniform(-decades, decades, N),
        walls=[Box((0.0,) * d, (*map(float, counts[:-1]), high))],
        gravity=(0.0,) * (d - 1) + (-9.81,),
        restitution=e,
        force=(lambda t, x, v: -3.0 * v) if rng.random() < 0.3 else None,
    )
    about = f"{counts}, e = {e:g}, masses 1 : {10.0 ** (2 * decades):g}, lid at {high:g}"
    return pile, SCHEMES[rng.integers(len(SCHEMES))], float(rng.choice([1e-3, 1e-2])), about


def stopped(seed, count):
    """What does not end."""
    rng, found = np.random.default_rng(seed), []
    for number in range(count):
        pile, scheme, dt, about = drawn(rng)
        how = {"throw": False, "record": carom.Record(final=True)}
        sol = carom.solve(pile, scheme, t1=0.05, dt=dt, **how)
        if not sol.ok:
            found.append(f"{number}: {scheme}, dt = {dt:g}, {about}: {sol.stats.residual:.1e}")
    return found


def main(seed, count):
    usual = stalled._MOST
    for name, most in (("sweeps alone", 0), ("and multipliers", usual)):
        stalled._MOST = most
        found = stopped(int(seed), int(count))
        print(f"{name}: {len(found)} of {count} stop", *found, sep="\n    ", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
