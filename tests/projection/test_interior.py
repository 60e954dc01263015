"""The smooth path through the inside of the cones: its algebra, and what it solves."""

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse import linalg

import carom
from carom.fclib import Problem
from carom.projection import interior
from piles import crystal, spheres, stack


def inside(rng, n, m):
    """Points inside of Lorentz's cone."""
    x = rng.normal(size=(n, m))
    x[:, 0] = np.linalg.norm(x[:, 1:], axis=1) + rng.exponential(size=n)
    return x


@pytest.mark.parametrize("m", [2, 3])
def test_the_scaling(m):
    """Theta y = u and back; on the path, u = tau y^-1, it is the derivative of that."""
    rng = np.random.default_rng(m)
    y, u = inside(rng, 50, m), inside(rng, 50, m)
    theta, back = interior._scaling(y, u), interior._scaling(u, y)
    np.testing.assert_allclose(np.einsum("kab,kb->ka", theta, y), u, rtol=1e-10)
    np.testing.assert_allclose(theta @ back, np.broadcast_to(np.eye(m), theta.shape), atol=1e-9)
    assert np.min(np.linalg.eigvalsh(theta)) > 0.0
    d, h = 1e-7 * rng.normal(size=y.shape), 0.3
    theta = interior._scaling(y, h * interior._inverse(y))
    change = h * (interior._inverse(y + d) - interior._inverse(y - d)) / 2
    np.testing.assert_allclose(-np.einsum("kab,kb->ka", theta, d), change, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("m", [2, 3])
def test_the_edge_of_a_cone(m):
    rng = np.random.default_rng(m)
    for x, d in zip(inside(rng, 200, m), 3.0 * rng.normal(size=(200, m)), strict=True):

        def room(s, x=x, d=d):
            return (x + s * d)[0] - np.linalg.norm((x + s * d)[1:])

        found = interior._edge(x[None], d[None])
        if np.isfinite(found):
            assert abs(room(found)) < 1e-9 * (1.0 + found)
            assert room(0.999 * found) > 0.0
        else:
            assert room(1e6) > 0.0


@pytest.mark.parametrize("options", [{}, interior._PIVOTS])
def test_the_sign_of_a_determinant(options):
    rng = np.random.default_rng(1)
    for _ in range(100):
        A = rng.normal(size=2 * (rng.integers(2, 9),))
        factor = linalg.splu(sparse.csc_matrix(A), **options)
        assert interior._sign(factor) == np.sign(np.linalg.det(A))


def followed(W, q, mu, dim, turns=800):
    """The residual of the best r on the way, without any other method, and factorisations."""
    problem, best = Problem(W=W, q=q, mu=mu, dim=dim), [np.inf]

    def good(r):
        best[0] = min(best[0], problem.residual(r))
        return best[0] <= 1e-6

    made = interior.solve(W, q, mu, dim, problem._sizes, good, good, turns)
    return best[0], made


@pytest.mark.parametrize("ratio", [1.0, 1e3])
@pytest.mark.parametrize("mu", [0.1, 0.5, 1.5])
@pytest.mark.parametrize(("kind", "bodies"), [(stack, 6), (spheres, 30)])
def test_the_path_alone_leads_to_answers(kind, bodies, mu, ratio):
    """Hyperstatic, by the measure of carom.fclib, which is written apart."""
    rng = np.random.default_rng(3)
    given = (bodies, mu, ratio) if kind is stack else (bodies, 3, mu, ratio)
    left, made = followed(*kind(rng, *given))
    assert left <= 1e-6
    assert made < 300


def test_a_crystal_of_many_masses():
    """1 : 10^4 with mu = 1, whose path turns back."""
    W, q, mu, dim = crystal(np.random.default_rng(4), 6, 6, 1.0, 1e4, 1e-3)
    problem = Problem(W=W, q=q, mu=mu, dim=dim)
    found = problem.solve(1e-8)
    assert found.status == carom.Status.ok
    assert problem.residual(found.r) <= 1e-8


@pytest.mark.slow
def test_crystals_that_all_else_leaves():
    """Twelve of up to 299 contacts; one of 242, mu = 2, was left at 9.4e-5 after 24 s."""
    rng = np.random.default_rng(1)
    for _ in range(12):
        wide, high = (int(rng.integers(5, 12)) for _ in range(2))
        mu = float(rng.choice([0.3, 0.5, 0.8, 1.0, 2.0]))
        ratio, noise = float(rng.choice([1.0, 1e2, 1e3, 1e4])), float(rng.choice([1e-3, 0.1, 1.0]))
        W, q, mu, dim = crystal(rng, wide, high, mu, ratio, noise)
        problem = Problem(W=W, q=q, mu=mu, dim=dim)
        assert problem.residual(problem.solve(1e-8).r) <= 1e-8
