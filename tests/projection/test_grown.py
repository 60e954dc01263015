"""Few contacts in space with large mu, where sweeps and Newton's method alone fail."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import carom
from carom.projection.coulomb import coulomb
from carom.projection.metric import metric_of


def pushed(p, d, seed):
    """Random rows, strongly coupled, all of them approaching: u = 0 is admissible."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(d, d))
    rows = rng.normal(size=(p, 3, d)) * 10.0 ** rng.uniform(-0.5, 0.5)
    v = rng.normal(size=d)
    rows[:, 0] *= -np.sign(rows[:, 0] @ v)[:, None]
    return root @ root.T + 0.5 * np.eye(d), rows, v


@pytest.mark.parametrize(("p", "d"), [(2, 6), (4, 12)])
def test_random_contacts_with_a_large_mu(p, d):
    """By the definition of the law.  Before, 4 and 5 of 30 were not solved with mu = 10."""

    @jax.jit
    def found(M, rows, v, mu):
        law = jnp.zeros((p, 3)), jnp.full(p, mu), jnp.ones(p, bool)
        return coulomb(metric_of(M), v, rows, *law)

    failed = 0
    for mu, seed in [(mu, seed) for mu in (1.5, 10.0, 1e3) for seed in range(30)]:
        M, rows, v = pushed(p, d, seed)
        at = found(M, rows, v, mu)
        if at.status != carom.Status.ok:
            failed += 1
            assert mu == 1e3
            continue
        u, r = rows @ np.asarray(at.point), np.asarray(at.multipliers)
        size = np.max(np.abs(u)) * np.max(np.abs(r)) + np.max(np.abs(rows @ v))
        slip, held = np.linalg.norm(u[:, 1:], axis=1), np.linalg.norm(r[:, 1:], axis=1)
        assert np.min(u[:, 0]) > -1e-9 * size
        assert np.min(r[:, 0]) > -1e-12 * np.max(r)
        assert np.max(held - mu * r[:, 0]) < 1e-9 * size
        assert np.max(np.abs(u[:, 0] * r[:, 0])) < 1e-9 * size
        off = r[:, 1:] * slip[:, None] + mu * r[:, :1] * u[:, 1:]
        assert np.max(np.abs(off)) < 1e-9 * (1.0 + mu) * size
    assert failed <= 10  # of 30 with mu = 1e3, and told: 5 and 8, before 5 and 11
