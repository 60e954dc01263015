"""The kinetic metric against NumPy, and its geodesics against curves that are known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from carom.projection.metric import (
    DenseMetric,
    DiagonalMetric,
    IdentityMetric,
    geodesic,
    inertial_force,
    logarithm,
    metric_of,
    product,
    solve_dense,
)

SIZES = [1, 3, 6, 7, 40]  # written out up to 6, LAPACK above


def random_mass(kind, d, rng):
    """What metric_of takes, and the matrix it stands for."""
    if kind == "identity":
        return None, np.eye(d)
    if kind == "diagonal":
        m = 10.0 ** rng.uniform(-2, 2, d)
        return jnp.asarray(m), np.diag(m)
    A = rng.normal(size=(d, d))
    M = A @ A.T + 0.1 * np.eye(d)
    return jnp.asarray(M), M


@jax.jit
def everything(mass, v, f, rows):
    metric = metric_of(mass)
    return {
        "apply": metric.apply(v),
        "solve": metric.solve(f),
        "energy": metric.energy(v),
        "whiten": metric.whiten(rows),
        "lift": jax.vmap(metric.lift)(metric.whiten(rows)),
        "ok": metric.ok(),
    }


def close(found, expected, tolerance=1e-12):
    return np.linalg.norm(found - expected) <= tolerance * np.linalg.norm(expected)


@pytest.mark.parametrize("d", SIZES)
@pytest.mark.parametrize("kind", ["identity", "diagonal", "dense"])
def test_every_kind_against_numpy(kind, d):
    rng = np.random.default_rng(d)
    mass, M = random_mass(kind, d, rng)
    v, f, rows = rng.normal(size=d), rng.normal(size=d), rng.normal(size=(5, d))
    found = everything(mass, v, f, rows)
    lost = 1e-14 * np.linalg.cond(M)
    assert close(found["apply"], M @ v)
    assert close(found["solve"], np.linalg.solve(M, f), lost)
    assert found["energy"] == pytest.approx(0.5 * v @ M @ v, rel=1e-12)
    assert close(found["lift"], np.linalg.solve(M, rows.T).T, lost)
    # whitened covectors have the Euclidean products of the kinetic metric of momenta
    assert close(found["whiten"] @ found["whiten"].T, rows @ np.linalg.solve(M, rows.T), lost)
    assert bool(found["ok"])


def test_kinds():
    assert isinstance(metric_of(None), IdentityMetric)
    assert isinstance(metric_of(jnp.ones(3)), DiagonalMetric)
    assert isinstance(metric_of(jnp.eye(3)), DenseMetric)


@pytest.mark.parametrize("d", SIZES)
def test_factor_is_the_inverse_of_choleskys(d):
    _, M = random_mass("dense", d, np.random.default_rng(d))
    W = jax.jit(lambda M: DenseMetric(M).inverse_factor)(M)
    assert close(W, np.linalg.inv(np.linalg.cholesky(M)), 1e-14 * np.linalg.cond(M))
    assert np.array_equal(W, np.tril(W))


ok = jax.jit(lambda mass: metric_of(mass).ok())


@pytest.mark.parametrize("d", [2, 7])
def test_ok_finds_what_is_not_positive_definite(d):
    one = np.eye(d)
    indefinite, singular, spoilt = one.copy(), one.copy(), one.copy()
    indefinite[0, 1] = indefinite[1, 0] = 2.0
    singular[-1, -1] = 0.0
    spoilt[0, 0] = np.nan
    assert bool(ok(one))
    assert not bool(ok(indefinite))
    assert not bool(ok(singular))
    assert not bool(ok(spoilt))
    for entry in (-1.0, 0.0, np.nan, np.inf):
        assert not bool(ok(np.append(np.ones(d - 1), entry)))


@pytest.mark.parametrize(("m", "n"), [(1, 1), (3, 5), (16, 16), (17, 16), (40, 40)])
def test_product_on_both_sides_of_its_threshold(m, n):
    rng = np.random.default_rng(m)
    A, x = rng.normal(size=(m, n)), rng.normal(size=n)
    assert close(product(jnp.asarray(A), jnp.asarray(x)), A @ x, 1e-14)


solve = jax.jit(jax.vmap(solve_dense))


@pytest.mark.parametrize("d", SIZES)
def test_solve_dense(d):
    """Not symmetric, and with zeros where a pivot would be."""
    rng = np.random.default_rng(d)
    A, b = rng.normal(size=(50, d, d)), rng.normal(size=(50, d))
    A[::2, 0, 0] = 0.0 if d > 1 else 1.0
    A[::3] *= 10.0 ** rng.uniform(-8, 8, (len(A[::3]), d, 1))
    x = np.asarray(solve(A, b))
    fault = np.abs((A @ x[..., None])[..., 0] - b)
    size = (np.abs(A) @ np.abs(x)[..., None])[..., 0] + np.abs(b)
    assert np.max(fault / size) < 1e-13


def test_solve_dense_of_permutations():
    for d in (2, 3, 6):
        P = np.stack([np.eye(d)[np.random.default_rng(k).permutation(d)] for k in range(50)])
        b = np.tile(np.arange(1.0, d + 1), (50, 1))
        assert np.array_equal(solve(P, b), np.einsum("nij,ni->nj", P, b))


# Inertial terms.


def polar_mass(q):
    """A particle of mass 2 in the plane, q = (r, th)."""
    return 2.0 * jnp.stack([1.0, q[0] ** 2])


def pendulum_mass(q):
    """Double pendulum, m1 = 1.5, m2 = 0.5, l1 = 1, l2 = 0.7, absolute angles."""
    c = 0.5 * 0.7 * jnp.cos(q[0] - q[1])
    return jnp.stack([jnp.stack([2.0, c]), jnp.stack([c, 0.5 * 0.49])])


def pendulum_inertia(q, v):
    s = 0.5 * 0.7 * np.sin(q[0] - q[1])
    return np.array([-s * v[1] ** 2, s * v[0] ** 2])


inertia = jax.jit(inertial_force, static_argnums=0)


def test_inertial_force_in_polar_coordinates():
    """(m r th'^2, -2 m r r' th')."""
    for r, th, dr, dth in np.random.default_rng(0).uniform(0.5, 2.0, (20, 4)):
        f = inertia(polar_mass, np.array([r, th]), np.array([dr, -dth]))
        assert np.allclose(f, [2 * r * dth**2, 4 * r * dr * dth], rtol=1e-14)


def test_inertial_force_of_the_double_pendulum():
    rng = np.random.default_rng(1)
    for q, v in zip(rng.normal(size=(20, 2)), rng.normal(size=(20, 2)), strict=True):
        f = inertia(pendulum_mass, q, v)
        assert np.allclose(f, pendulum_inertia(q, v), rtol=1e-13, atol=1e-14)


def test_inertial_force_keeps_the_energy():
    """d/dt (1/2 v^T M v) = v . f + 1/2 v^T (dM/dt) v = 0 for M q'' = f."""

    def energy_rate(q, v):
        def mass_along(s):
            return pendulum_mass(q + s * v)

        _, mass_rate = jax.jvp(mass_along, (0.0,), (1.0,))
        return v @ inertial_force(pendulum_mass, q, v) + 0.5 * v @ mass_rate @ v

    rng = np.random.default_rng(2)
    rates = jax.jit(jax.vmap(energy_rate))(rng.normal(size=(50, 2)), rng.normal(size=(50, 2)))
    assert np.max(np.abs(rates)) < 1e-14


def test_constant_mass_has_no_inertial_force():
    f = inertial_force(lambda q: jnp.array([1.0, 2.0]), jnp.ones(2), jnp.ones(2))
    assert np.array_equal(f, [0.0, 0.0])


# Geodesics.

exponential = jax.jit(geodesic, static_argnums=0)
log = jax.jit(logarithm, static_argnums=0)


def to_polar(x):
    return np.array([np.hypot(*x), np.arctan2(x[1], x[0])])


def straight_line(q, xi):
    """The Cartesian straight line that leaves q with velocity xi, at time 1, in polar again."""
    (r, th), (dr, dth) = q, xi
    along, across = np.array([np.cos(th), np.sin(th)]), np.array([-np.sin(th), np.cos(th)])
    return to_polar((r + dr) * along + r * dth * across)


def test_geodesics_of_the_plane_are_straight_lines():
    """Fourth order: with half the velocity the error falls by 2^5."""
    q, xi = np.array([1.3, 0.4]), np.array([0.2, -0.3])
    errors = [
        np.max(np.abs(exponential(polar_mass, q, s * xi) - straight_line(q, s * xi)))
        for s in (1.0, 0.5, 0.25)
    ]
    assert errors[0] < 1e-4
    assert errors[0] / errors[1] > 24
    assert errors[1] / errors[2] > 24
    assert (
        np.max(np.abs(exponential(polar_mass, q, 1e-3 * xi) - straight_line(q, 1e-3 * xi))) < 1e-15
    )


def test_geodesics_of_a_constant_mass_are_straight():
    mass = jnp.diag(jnp.array([1.0, 5.0])) + 0.3

    def constant(q):
        return mass

    assert np.allclose(exponential(constant, np.ones(2), np.array([2.0, -1.0])), [3.0, 0.0])


@pytest.mark.parametrize("mass", [polar_mass, pendulum_mass])
@pytest.mark.parametrize("size", [1e-4, 1e-2])
def test_logarithm_is_the_inverse(mass, size):
    rng = np.random.default_rng(3)
    for _ in range(10):
        q, xi = rng.uniform(0.5, 2.0, 2), size * rng.normal(size=2)
        assert np.max(np.abs(log(mass, q, exponential(mass, q, xi)) - xi)) < 1e-14
        target = q + xi
        assert np.max(np.abs(exponential(mass, q, log(mass, q, target)) - target)) < 1e-14


def test_logarithm_in_the_plane_is_the_difference_of_cartesian_positions():
    q, target = np.array([1.3, 0.4]), np.array([1.31, 0.41])
    (r, th), (R, Th) = q, target
    x = np.array([R * np.cos(Th - th) - r, R * np.sin(Th - th)])  # along, across
    assert np.allclose(log(polar_mass, q, target), [x[0], x[1] / r], rtol=0, atol=1e-11)
