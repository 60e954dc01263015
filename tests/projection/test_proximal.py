"""Newton's method on proximal problems."""

import numpy as np
import pytest
from scipy import sparse

from carom.projection import proximal


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("eps", [1.0, 1e-2, 1e-5])
def test_a_step_by_bodies_is_that_by_contacts(dim, eps):
    """Open, sticking and slipping contacts, more of them than motions: (3) against (2)."""
    rng = np.random.default_rng(dim)
    p, d = 80, 60
    G = sparse.csr_matrix(rng.normal(size=(dim * p, d)) * (rng.uniform(size=(dim * p, d)) < 0.05))
    y, u = rng.normal(size=(p, dim)), rng.normal(size=(p, dim))
    y[:, 0] = abs(y[:, 0])
    law = proximal._Law(rng.uniform(0.1, 1.0, p), dim, True, np.ones(dim * p))
    B = law.newton(y.ravel(), u.ravel())[1]
    assert {0.0, float(dim)} < set(np.trace(B, axis1=1, axis2=2))  # open and stick, and slips
    A = (G @ G.T).tocsc()
    known = proximal._step(law, A, y.ravel(), u.ravel(), eps)
    found = proximal._step(law, A, y.ravel(), u.ravel(), eps, G)
    assert np.linalg.norm(found - known) <= 1e-13 / eps * np.linalg.norm(known)
