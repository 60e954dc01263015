"""Sparse masses against dense ones, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp

import carom
from carom.projection.metric import DenseMetric, DiagonalMetric
from carom.projection.sparse import BandedMetric, sparse_metric


def banded(d, b, *, seed=0, shuffled=False):
    """A random symmetric positive definite matrix of bandwidth b, its rows in any order."""
    rng = np.random.default_rng(seed)
    half = sp.diags_array(
        [rng.uniform(0.1, 1.0, d - k) for k in range(b + 1)], offsets=range(b + 1)
    )
    matrix = (half + half.T + 2.0 * (b + 1) * sp.eye_array(d)).tocsr()
    order = rng.permutation(d) if shuffled else np.arange(d)
    return matrix[order][:, order]


@pytest.mark.parametrize(
    ("d", "b", "shuffled"), [(40, 1, False), (40, 1, True), (30, 4, True), (7, 6, False)]
)
def test_the_same_metric_as_dense(d, b, shuffled):
    matrix = banded(d, b, shuffled=shuffled)
    sparse, dense = sparse_metric(matrix), DenseMetric(jnp.asarray(matrix.toarray()))
    assert isinstance(sparse, BandedMetric)
    assert sparse.left.shape == (d, b)  # the order of the rows is found again
    rng = np.random.default_rng(1)
    v, rows = jnp.asarray(rng.normal(size=d)), jnp.asarray(rng.normal(size=(3, d)))
    close = {"rtol": 1e-13, "atol": 1e-13}
    np.testing.assert_allclose(sparse.apply(v), dense.apply(v), **close)
    np.testing.assert_allclose(sparse.solve(v), dense.solve(v), **close)
    np.testing.assert_allclose(sparse.energy(v), dense.energy(v), **close)
    white = sparse.whiten(rows)
    np.testing.assert_allclose(
        white @ white.T, rows @ np.linalg.inv(matrix.toarray()) @ rows.T, **close
    )
    np.testing.assert_allclose(jax.vmap(sparse.lift)(white), jax.vmap(dense.solve)(rows), **close)


def test_a_diagonal_one_is_a_diagonal_metric():
    metric = sparse_metric(sp.diags_array([2.0, 3.0], offsets=0))
    assert isinstance(metric, DiagonalMetric)


def test_sparse_times_vector():
    matrix = sp.random_array((6, 9), density=0.3, rng=np.random.default_rng(2))
    x = np.arange(9.0)
    np.testing.assert_allclose(jax.jit(lambda x: carom.Sparse(matrix) @ x)(x), matrix @ x)
    assert np.all(np.asarray(carom.Sparse(sp.csr_array((2, 2))) @ jnp.ones(2)) == 0.0)
    with pytest.raises(carom.errors.ShapeError, match=r"\(6, 9\) times .*\(6,\)"):
        carom.Sparse(matrix) @ jnp.ones(6)


SCHEMES = [carom.Moreau(), carom.Maury(), carom.PaoliSchatzman(), carom.EventDriven()]


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda s: type(s).__name__)
def test_the_same_motion_as_dense(scheme):
    """A chain of masses on springs falls on a floor, its end node first."""
    d = 5
    mass = banded(d, 1)
    stiffness = sp.diags_array(
        [-np.ones(d - 1), 2.0 * np.ones(d), -np.ones(d - 1)], offsets=[-1, 0, 1]
    )
    K, dense = carom.Sparse(20.0 * stiffness), jnp.asarray(20.0 * stiffness.toarray())

    def run(mass, K):
        system = carom.System(
            force=lambda t, q, v: -(K @ q) - 1.0, gap=lambda t, q: q[:1] + 0.05, mass=mass
        )
        return carom.solve(system, scheme, np.zeros(d), np.zeros(d), t1=2.0, dt=2e-2)

    a, b = run(mass, K), run(mass.toarray(), dense)
    assert np.max(b.impulse) > 0.0
    np.testing.assert_allclose(a.q, b.q, rtol=0, atol=1e-11)
    np.testing.assert_allclose(a.impulse, b.impulse, rtol=0, atol=1e-11)


@pytest.mark.parametrize(
    ("matrix", "error", "text"),
    [
        (sp.csr_array([[1.0, 0.5], [0.0, 1.0]]), carom.errors.MassError, "not symmetric"),
        (sp.csr_array([[1.0, 2.0], [2.0, 1.0]]), carom.errors.MassError, "not positive definite"),
        (sp.csr_array([[1.0, 0.0], [0.0, 0.0]]), carom.errors.MassError, "must be positive"),
        (sp.csr_array([[1.0, np.nan], [np.nan, 1.0]]), carom.errors.MassError, "not finite"),
        (sp.csr_array(np.ones((2, 3))), carom.errors.ShapeError, r"\(2, 3\)"),
    ],
    ids=["skew", "indefinite", "massless", "nan", "oblong"],
)
def test_bad_masses(matrix, error, text):
    with pytest.raises(error, match=text):
        carom.System(force=lambda t, q, v: -q, mass=matrix)
