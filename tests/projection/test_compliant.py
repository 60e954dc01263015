"""The path of contacts that yield, to Coulomb's law."""

import numpy as np
import pytest
from scipy import sparse

import piles
from carom import fclib
from carom.projection import compliant, proximal


def at_random(dim, mu, seed, spread=1.0):
    """Random contacts of random bodies that can rest: b >= 0, so that there are answers."""
    rng = np.random.default_rng(seed)
    p, d = int(rng.integers(1, 12)), int(rng.integers(4, 20))
    H = sparse.csr_matrix(rng.normal(size=(dim * p, d)))
    mass, free = 10.0 ** rng.uniform(-spread, spread, d), rng.normal(size=d)
    b = np.zeros((p, dim))
    b[:, 0] = rng.choice([0.0, 0.1], p)
    W = (H @ sparse.diags(1.0 / mass) @ H.T).toarray()
    return fclib.Problem(W=W, q=H @ free + b.ravel(), mu=mu, dim=dim)


def followed(problem, start=None):
    """What the path finds, and its residual by the measure of carom.fclib."""

    def good(r):
        return problem.residual(r) <= 1e-8

    size = proximal.sizes(problem.W, problem.dim)[1]
    start = np.zeros(len(problem.q)) if start is None else start
    data = problem.W, problem.q, problem.mu, problem.dim, size
    found = compliant.solve(*data, start, 3000, good)
    return *found, problem.residual(found[0])


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("mu", [0.3, 100.0])
def test_it_leads_to_the_law(dim, mu):
    """Contacts at random couple normal and tangential motion so strongly that sweeps fail."""
    for seed in range(6):
        assert followed(at_random(dim, mu, seed))[-1] <= 1e-8, seed


@pytest.mark.slow
@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("mu", [0.1, 1.0, 10.0, 1000.0])
@pytest.mark.parametrize("spread", [1.0, 3.0])
def test_it_leads_to_the_law_from_anywhere(dim, mu, spread):
    """Hyperstatic as well (up to 11 contacts of 4 motions), and with masses 1 : 10^6."""
    rng, missed = np.random.default_rng(0), []
    for seed in range(100, 130):
        problem = at_random(dim, mu, seed, spread)
        r = rng.exponential(size=(len(problem.mu), 1)) * np.eye(dim)[:1]
        if not followed(problem, r.ravel())[-1] <= 1e-8:
            missed.append(seed)
    assert not missed


@pytest.mark.parametrize("dim", [2, 3])
def test_it_begins_at_the_edge_of_wide_cones(dim):
    """Where mu = 1000, and contacts nearly slip: most of these paths did not begin."""
    for seed in range(5):
        problem, rng = at_random(dim, 1e3, seed), np.random.default_rng(seed)
        r = rng.exponential(size=(len(problem.mu), dim))
        r[:, 0] = 1.001e-3 * np.linalg.norm(r[:, 1:], axis=1)
        assert followed(problem, r.ravel())[-1] <= 1e-8, seed


def test_masses_apart():
    """Masses 1 : 10^6 give impulses 10^4 times those of one contact: the answer is there at
    eps = 1e-11 only."""
    problem = at_random(3, 10.0, 124, 3.0)
    r = np.random.default_rng(124).exponential(size=(len(problem.mu), 1)) * np.eye(3)[:1]
    assert followed(problem, r.ravel())[-1] <= 1e-8


def test_any_unit_of_velocity():
    """The law has no scale: a pile that creeps is solved as one that falls."""
    for scale in (1e-12, 1e12):
        for seed in range(3):
            fast = at_random(3, 0.3, seed)
            problem = fclib.Problem(W=fast.W, q=scale * fast.q, mu=fast.mu, dim=3)
            assert followed(problem)[-1] <= 1e-8, (scale, seed)


def test_nearly_parallel_normals():
    """A stack whose normals differ by 1e-4, mu = 0: what tells contacts apart on the way, divided
    by the least eigenvalue of W, must not be what ends it."""
    for seed in range(2):
        W, q, mu, dim = piles.stack(np.random.default_rng(seed), 8, 0.0, noise=0.0, tilt=1e-4)
        problem = fclib.Problem(W=W, q=q, mu=mu, dim=dim)
        assert followed(problem)[-1] <= 1e-8, seed


def corner(mu, b):
    """A disc in a corner of two walls that drive it out with the speed -b, with spin."""
    H = np.array([[1, 0, 0], [0, 1, 1], [0, 1, 0], [-1, 0, 1]], float)  # normal, tangential, twice
    free = np.array([-0.3, -1.0, 0.0])
    q = H @ free + np.array([b, 0.0, b, 0.0])
    return H, fclib.Problem(W=(H * [1.0, 1.0, 2.0]) @ H.T, q=q, mu=mu, dim=2)


def test_where_there_is_no_answer_it_tells_what_lacks():
    """mu >= 1 holds a disc in a corner: r = (1, mu', 1, -mu') does nothing, and b . r < 0.

    With what the path leaves, the law has an answer; with mu < 1 it has one as it is.
    """
    H, problem = corner(2.0, -0.1)
    r, _, lacks, residual = followed(problem)
    assert residual > 1e-3
    relaxed = fclib.Problem(W=problem.W, q=problem.q + lacks, mu=problem.mu, dim=2)
    assert relaxed.residual(r) < 1e-6
    still = np.array([1.0, -1.0, 1.0, 1.0])
    assert np.max(np.abs(H.T @ still)) == 0.0
    np.testing.assert_allclose(lacks @ still, 0.2, rtol=1e-5)  # least: along what does nothing
    np.testing.assert_allclose(lacks, 0.05 * still, rtol=1e-4)
    _, _, lacks, residual = followed(corner(0.5, -0.1)[1])
    assert residual <= 1e-8
    assert not np.any(lacks)
    assert followed(corner(2.0, 0.0)[1])[-1] <= 1e-8


@pytest.mark.parametrize(("dim", "mu", "least"), [(2, 1.0, 20), (3, 1.0, 20), (2, 100.0, 12)])
def test_sweeps_and_newton_lead(dim, mu, least):
    """The ways of carom.fclib, on the same problems."""
    found = [at_random(dim, mu, k).solve(tolerance=1e-8, limit=5000) for k in range(20)]
    assert sum(one.residual <= 1e-8 for one in found) >= least
