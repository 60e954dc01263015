"""Paths of straight pieces, to Coulomb's law in the plane."""

import numpy as np
import pytest
from scipy import sparse

from carom import fclib
from carom.projection import lemke, proximal


def at_random(mu, seed, spread=1.0, most=12):
    """Random contacts of random bodies that can rest: b >= 0, so that there are answers."""
    rng = np.random.default_rng(seed)
    p, d = int(rng.integers(1, most)), int(rng.integers(4, 20))
    H = sparse.csr_matrix(rng.normal(size=(2 * p, d)))
    mass, free = 10.0 ** rng.uniform(-spread, spread, d), rng.normal(size=d)
    b = np.zeros((p, 2))
    b[:, 0] = rng.choice([0.0, 0.1], p)
    W = (H @ sparse.diags(1.0 / mass) @ H.T).toarray()
    return fclib.Problem(W=W, q=H @ free + b.ravel(), mu=mu, dim=2)


def path_of(problem, tolerance=1e-8):
    def good(r):
        return problem.residual(r) <= tolerance

    size = proximal.sizes(problem.W, 2)[1]
    return lemke._Path(problem.W, problem.q, problem.mu, size, good)


@pytest.mark.parametrize("mu", [0.0, 0.3, 1.0, 1000.0])
@pytest.mark.parametrize("spread", [0.0, 3.0])
def test_the_path_from_afar_must_lead_to_the_law(mu, spread):
    """Hyperstatic as well (up to 11 contacts of 4 motions), and with masses 1 : 10^6."""
    for seed in range(12):
        problem = at_random(mu, seed, spread)
        path = path_of(problem)
        for number in range(lemke._TRIES):
            if path.found is None:
                path.far(number, 2000)
        assert path.found is not None, seed
        assert problem.residual(path.found) <= 1e-8


@pytest.mark.parametrize("mu", [0.3, 10.0])
def test_a_guess_near_the_answer_is_near_along_the_path(mu):
    rng, pieces = np.random.default_rng(0), []
    for seed in range(12):
        problem = at_random(mu, seed)
        answer = path_of(problem)
        assert answer.far(0, 2000) >= 0
        assert answer.found is not None
        path = path_of(problem)
        pieces.append(path.near(answer.found * rng.uniform(0.99, 1.01, len(answer.found)), 2000))
        assert path.found is not None, seed
    assert np.median(pieces) <= 4


def test_each_point_of_a_path_solves_its_own_problem():
    """F(z) + t d = 0 and z in its cell, wherever a contact changes its mode."""
    problem = at_random(0.5, 8, most=60)
    path, seen, given = path_of(problem), [], []
    renewed, leaving = path.renewed, path.leaving

    def kept(z, t, d, s):
        given[:] = [d]
        return renewed(z, t, d, s)

    def looked(z, dz):
        lack = path.lack(z)
        t = -(lack @ given[0]) / (given[0] @ given[0])
        off = np.max(np.abs(lack + t * given[0]))
        seen.append((off, -np.min(path.room(z))))
        return leaving(z, dz)

    path.renewed, path.leaving = kept, looked
    path.far(0, 2000)
    assert path.found is not None
    assert len(seen) > 20
    assert np.max(seen) <= 1e-9


def test_where_there_is_no_answer_it_ends():
    """A ball in a corner of walls that drive it apart, mu > 1: the path leads to infinity."""
    a = np.sqrt(0.5)
    H = np.array([[a, a], [-a, a], [-a, a], [-a, -a]])  # n, t of both walls
    problem = fclib.Problem(W=H @ H.T, q=np.array([-1.0, 0.0, -1.0, 0.0]), mu=2.0, dim=2)
    path = path_of(problem)
    made = [path.far(number, 2000) for number in range(4)]
    assert path.found is None
    assert max(made) < 100
