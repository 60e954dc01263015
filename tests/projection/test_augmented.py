"""The method of multipliers, against the definition and against Clarabel."""

import numpy as np
import pytest
from scipy import sparse

import carom
from carom.projection import augmented
from carom.spheres import Box, lattice


def rows(seed, opposite):
    """Random rows; some are nearly minus the sum of two others, by ``opposite``; masses 1 : 1e4."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 25))
    G = rng.normal(size=(int(rng.integers(2, 2 * n)), n)) * (rng.random(n) < 0.5)
    G[:, 0] += 0.1
    mixed = [-G[k] - G[k - 1] + opposite * rng.normal(size=n) for k in range(0, len(G), 2)]
    G = np.array([*G, *mixed])
    b = rng.uniform(0, 1, len(G)) * (rng.random(len(G)) < 0.3)
    return 10.0 ** rng.uniform(-2, 2, n), G, b, rng.normal(size=n)


def off(mass, G, b, free, lam):
    """|min(w_k, A_kk lam_k)| over the velocities, from the definition."""
    u = free + G.T @ lam / mass
    natural = np.minimum(G @ u + b, (G**2 @ (1.0 / mass)) * lam)
    return np.max(np.abs(natural)) / np.max(np.abs(free))


@pytest.mark.parametrize(("opposite", "within"), [(1.0, 1e-10), (1e-3, 1e-8), (1e-6, 1e-5)])
def test_rows_that_nearly_oppose_each_other(opposite, within):
    """Multipliers grow with 1 / opposite, and their rounding with them."""
    for seed in range(40):
        mass, G, b, free = rows(seed, opposite)

        def good(lam, given=(mass, G, b, free)):
            return off(*given, lam) <= within

        lam, _ = augmented.multipliers(mass, sparse.csr_matrix(G), b, free, 0.0 * b, good)
        assert np.all(lam >= 0.0), seed
        assert off(mass, G, b, free, lam) <= within, seed


def test_against_clarabel():
    clarabel = pytest.importorskip("clarabel")
    for seed in range(10):
        mass, G, b, free = rows(seed, 1.0)
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
        other = clarabel.DefaultSolver(
            sparse.csc_matrix(np.diag(mass)),
            -mass * free,
            sparse.csc_matrix(-G),
            b,
            [clarabel.NonnegativeConeT(len(b))],
            settings,
        ).solve()

        def good(lam, given=(mass, G, b, free)):
            return off(*given, lam) <= 1e-10

        lam, _ = augmented.multipliers(mass, sparse.csr_matrix(G), b, free, 0.0 * b, good)
        np.testing.assert_allclose(free + G.T @ lam / mass, other.x, atol=1e-8)


@pytest.mark.parametrize("scheme", [carom.Maury(), carom.Moreau()])
@pytest.mark.parametrize("counts", [(3, 5), (2, 2, 5), (2, 4, 3)])
def test_a_lattice_that_fills_its_box(counts, scheme):
    """Of many like these sweeps alone leave a quarter unsolved (tests/lattices.py)."""
    rng = np.random.default_rng(1)
    d, N = len(counts), int(np.prod(counts))
    pile = lattice(
        counts,
        0.5,
        velocity=rng.normal(size=(N, d)),
        mass=10.0 ** rng.uniform(-2, 2, N),
        walls=[Box((0,) * d, (*counts[:-1], 9.0))],
        gravity=(0,) * (d - 1) + (-9.81,),
    )
    sol = carom.solve(pile, scheme, t1=0.05, dt=1e-3)
    assert sol.ok
    assert carom.certify(sol).ok is not False
