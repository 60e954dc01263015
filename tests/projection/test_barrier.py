"""The path of smooth laws to Coulomb's law."""

import numpy as np
import pytest
from scipy import sparse

from carom import fclib
from carom.projection import barrier


def at_random(dim, mu, seed):
    """H, b, mass, free of random contacts of random bodies that can rest, and the problem of it."""
    rng = np.random.default_rng(seed)
    p, d = int(rng.integers(1, 12)), int(rng.integers(4, 20))
    H = sparse.csr_matrix(rng.normal(size=(dim * p, d)))
    mass, free = 10.0 ** rng.uniform(-1, 1, d), rng.normal(size=d)
    b = np.zeros((p, dim))
    b[:, 0] = rng.choice([0.0, 0.1], p)
    W = (H @ sparse.diags(1.0 / mass) @ H.T).toarray()
    return H, b, mass, free, fclib.Problem(W=W, q=H @ free + b.ravel(), mu=mu, dim=dim)


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize(("mu", "least"), [(0.3, 18), (1.0, 12)])
def test_it_leads_to_the_law(dim, mu, least):
    """Measured by the natural map of carom.fclib.

    Contacts at random couple normal and tangential motion so strongly that with mu = 1 some paths
    turn back, and with mu = 100 most; spheres do not (tests/worlds/test_spheres_friction.py).
    """
    led = 0
    for seed in range(20):
        H, b, mass, free, problem = at_random(dim, mu, seed)

        def good(r, problem=problem):
            return problem.residual(r.ravel()) <= 1e-8

        a_n, start = problem.W.diagonal()[::dim], np.zeros_like(b)
        r, turns = barrier.solve(H, b, mass, free, a_n, mu, start, 1.0, 100, good)
        led += good(r)
        assert turns > 1
    assert led >= least


@pytest.mark.parametrize(("dim", "mu", "least"), [(2, 1.0, 20), (3, 1.0, 20), (2, 100.0, 12)])
def test_where_paths_turn_back_sweeps_and_newton_lead(dim, mu, least):
    """The other ways of worlds/spheres/wedged.py, on the same problems."""
    found = [at_random(dim, mu, k)[-1].solve(tolerance=1e-8, limit=5000) for k in range(20)]
    assert sum(one.residual <= 1e-8 for one in found) >= least
