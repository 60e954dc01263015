"""The path of smooth laws to Coulomb's law."""

import numpy as np
import pytest
from scipy import sparse

from carom import fclib
from carom.projection import barrier


@pytest.mark.parametrize("dim", [2, 3])
def test_it_leads_to_the_law(dim):
    """Random contacts of random bodies that can rest, measured by the natural map of carom.fclib.

    Large mu is tried on spheres (tests/worlds/test_spheres_friction.py): contacts at random couple
    normal and tangential motion so strongly that with mu >= 1 most paths turn back.
    """
    led, mu = 0, 0.3
    for seed in range(20):
        rng = np.random.default_rng(seed)
        p, d = int(rng.integers(1, 12)), int(rng.integers(4, 20))
        H = sparse.csr_matrix(rng.normal(size=(dim * p, d)))
        mass, free = 10.0 ** rng.uniform(-1, 1, d), rng.normal(size=d)
        b = np.zeros((p, dim))
        b[:, 0] = rng.choice([0.0, 0.1], p)
        W = (H @ sparse.diags(1.0 / mass) @ H.T).toarray()
        problem = fclib.Problem(W=W, q=H @ free + b.ravel(), mu=mu, dim=dim)

        def good(r, problem=problem):
            return problem.residual(r.ravel()) <= 1e-8

        a_n = W.diagonal()[::dim]
        r, turns = barrier.solve(H, b, mass, free, a_n, mu, np.zeros((p, dim)), 1.0, 100, good)
        led += good(r)
        assert turns > 1
    assert led >= 18
