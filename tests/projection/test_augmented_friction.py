"""The method of multipliers with friction, against the definition."""

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import carom
import piles
from carom.fclib import Problem
from carom.projection import augmented_friction, proximal
from carom.spheres import Box, lattice


def solved(problem, coulomb, within=1e-10, q=1.0, mass=1.0, rooted=True):
    """The residual of carom.fclib, and Newton steps, with q and masses that many times as large."""
    W, free, mu, dim = problem
    square, axes = np.linalg.eigh(W.toarray() / mass)
    root = sparse.csr_matrix(axes * np.sqrt(np.maximum(square, 0.0)))
    asked = Problem(W=W / mass, q=q * free, mu=mu, dim=dim)

    def good(r):
        return asked.residual(r, convex=not coulomb) <= within

    size, none = proximal.sizes(asked.W, dim)[1], np.zeros(len(free))
    given = root if rooted else None, asked.q, mu, dim, size, none, good, 400, coulomb, asked.W
    r, steps = augmented_friction.solve(*given)
    return asked.residual(r, convex=not coulomb), steps


@pytest.mark.parametrize("coulomb", [True, False])
@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("rooted", [True, False])
def test_piles_by_the_definition(coulomb, dim, rooted):
    for seed in range(6):
        rng = np.random.default_rng(seed)
        problem = piles.spheres(rng, 12, dim, ratio=100.0)
        assert solved(problem, coulomb, rooted=rooted)[0] <= 1e-10, seed


@pytest.mark.parametrize("coulomb", [True, False])
def test_units_do_not_matter(coulomb):
    problem = piles.spheres(np.random.default_rng(3), 12, 3, ratio=10.0)
    usual = solved(problem, coulomb, 1e-8)[1]
    for q, mass in ((2.0**-40, 1.0), (1.0, 2.0**20), (2.0**30, 2.0**-20)):
        assert solved(problem, coulomb, 1e-8, q, mass)[1] == usual


def test_the_convex_law_of_what_is_held():
    """Nine contacts of six discs in a box, mu = 1, which stayed at 2.8e-8 where 1e-8 was asked."""
    z = np.load(Path(__file__).parent / "data" / "held.npz")
    about = {"H": z["H"], "f": z["f"], "w": z["w"], "mu": z["mu"]}
    problem = Problem.from_global(M=sparse.diags(z["mass"]).tocsc(), **about)
    found = problem.solve(1e-8, convex=True)
    assert found.status == carom.Status.ok
    assert problem.residual(found.r, convex=True) <= 1e-8
    r, t = found.r.reshape(-1, 3), found.r.reshape(-1, 3)[:, 1:]
    assert np.all(np.linalg.norm(t, axis=1) <= z["mu"] * r[:, 0] + 1e-8)


def test_a_lattice_that_fills_its_box():
    """Impulses grow while contacts slide; the path of contacts that yield took 15 s, and failed."""
    counts, rng = (2, 2, 5), np.random.default_rng(1)
    pile = lattice(
        counts,
        0.5,
        velocity=rng.normal(size=(20, 3)),
        mass=10.0 ** rng.uniform(-1, 1, 20),
        walls=[Box((0, 0, 0), (2, 2, 9.0))],
        gravity=(0, 0, -9.81),
        friction=0.5,
        tolerance=1e-6,
    )
    sol = carom.solve(pile, carom.Maury(), t1=0.01, dt=1e-3)
    assert sol.ok
    assert carom.certify(sol).ok is not False
