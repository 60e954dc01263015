"""Long runs of spheres, with the figures they must show."""

import math

import numpy as np
import pytest

import carom
from carom.spheres import Box

pytestmark = pytest.mark.slow


def test_p14_haff():
    """A granular gas cools as T0 / (1 + t / tau)^2, within 3 %, to t = 3 tau."""
    N, eta, e = 1000, 0.05, 0.95
    v = np.random.default_rng(1).normal(size=(N, 3))
    v -= v.mean(axis=0)
    pile = carom.spheres.random(N, eta, radius=0.5, seed=2).replaced(restitution=e, velocity=v)
    T0 = np.sum(v**2) / (3 * N)
    n, g2 = N / np.prod(pile.period), (1 - eta / 2) / (1 - eta) ** 3
    tau = 3 / (2 * (1 - e**2) * n * g2 * math.sqrt(math.pi * T0))
    free_time = 1 / (4 * n * g2 * math.sqrt(math.pi * T0))
    sol = carom.solve(pile, carom.Maury(), t1=3 * tau, dt=0.01 * free_time)
    law = T0 / (1 + sol.t / tau) ** 2
    off = np.abs(sol.temperature() / law - 1)
    print(
        f"Haff: largest departure {off.max():.4f} over {sol.stats.steps} steps, T to {law[-1]:.4f}"
    )
    assert np.max(off) < 0.03
    assert sol.stats.overlap <= 1e-6 * 0.5
    np.testing.assert_allclose(sol.momentum(), 0.0, atol=1e-9)


def test_p15_settled_pile():
    """At rest: the floor carries the weight to 1e-6, about 6 contacts a sphere, packing 0.6."""
    pile = carom.spheres.lattice(
        (8, 8, 10),
        0.01,
        spacing=0.0225,
        jitter=0.001,
        gravity=(0, 0, -9.81),
        seed=4,
        walls=[Box((0, 0, 0), (0.18, 0.18, np.inf))],
    )
    N = len(pile)
    spread = 0.01 * np.random.default_rng(4).uniform(0.85, 1.0, N)  # no crystals
    pile = pile.replaced(radius=spread)
    # a drag brings them to rest sooner; the last run is without
    drag = pile.replaced(force=lambda t, x, v: -10.0 * v)
    final = carom.Record(final=True)
    for _ in range(15):
        start = carom.spheres.relax(drag.replaced(tolerance=1e-7))
        sol = carom.solve(start, carom.Maury(), t1=0.8, dt=2e-3, record=final)
        drag = drag.replaced(position=sol.x[-1], velocity=0.0 * sol.v[-1])
        if np.max(np.abs(sol.v[-1])) < 1e-4:
            break
    rest = carom.spheres.relax(drag.replaced(force=None, tolerance=1e-9))
    sol = carom.solve(rest, carom.Maury(), t1=0.1, dt=2e-3, record=carom.Record(every=10))
    weight = N * 9.81
    force = -sol.wall_force()[-1, :, 2].sum()
    top = np.max(sol.x[-1, :, 2])
    bulk = sol.packing_fraction(between=(2, 0.02, top - 0.03))[-1]
    print(
        f"pile: fastest {np.max(np.abs(sol.v[-1])):.1e}, floor / weight - 1 = "
        f"{force / weight - 1:.1e}, coordination {sol.coordination()[-1]:.2f}, packing {bulk:.3f}, "
        f"overlap {sol.stats.overlap / pile.smallest:.1e} r"
    )
    assert force == pytest.approx(weight, rel=1e-6)
    assert 5.8 < sol.coordination()[-1] < 6.2
    assert 0.55 < bulk < 0.7
    assert sol.stats.overlap <= 1e-9 * pile.smallest


def test_ten_thousand_poured():
    """Poured into a box and left to rest: overlap, energy, momentum, certificate."""
    r = 0.01
    pile = carom.spheres.lattice(
        (23, 23, 19),
        r,
        spacing=2.25 * r,
        jitter=0.1 * r,
        gravity=(0, 0, -9.81),
        walls=[Box((0, 0, 0), (23 * 2.25 * r, 23 * 2.25 * r, np.inf))],
        tolerance=1e-4,
    )
    assert len(pile) > 10_000
    sol = carom.solve(pile, carom.Maury(), t1=0.8, dt=2e-3, record=carom.Record(every=5))
    certificate = carom.certify(sol)
    print(sol, certificate, sep="\n")
    assert certificate.ok
    assert sol.stats.overlap <= 1e-4 * r
    step = sol.push[1:] * 2 * 1e-4 * r / sol.dt
    assert np.all(np.diff(sol.energy()) <= step)
    speed = np.sqrt(2 * sol.kinetic_energy()[-1] / len(pile))
    assert speed < 0.05  # it fell at more than 1 m/s


def test_jamming():
    """A gas grows from 0.3 to a packing of 0.6 without overlap."""
    pile = carom.spheres.random(400, 0.3, seed=5)
    v = 0.3 * np.random.default_rng(5).normal(size=(400, 3))
    grown = 2 ** (1 / 3)
    pile = pile.replaced(radius=lambda t: 1 + (grown - 1) * t / 10, velocity=v, tolerance=1e-6)
    sol = carom.solve(pile, carom.Maury(), t1=10.0, dt=0.02)
    print(sol, f"packing {sol.packing_fraction()[-1]:.4f}, pressure {sol.pressure()[-1]:.3g}")
    assert sol.packing_fraction()[-1] == pytest.approx(0.6)
    assert sol.stats.overlap <= 1.01e-6
