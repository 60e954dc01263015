"""``project_cones``: friction of few contacts under jit and vmap, against Clarabel and the law."""

import clarabel
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse

import carom
from carom.projection.cones import project_cones

N = 100


@jax.jit
def _coulomb(t, H, b, mu, mass, active, free):
    return jax.vmap(
        lambda t, H, b, mu, M, active, free: project_cones(
            t, H, b, mu, mass=M, active=active, free=free
        )
    )(t, H, b, mu, mass, active, free)


@jax.jit
def _convex(t, H, b, mu, mass, active, free):
    return jax.vmap(
        lambda t, H, b, mu, M, active, free: project_cones(
            t, H, b, mu, mass=M, active=active, free=free, convex=True
        )
    )(t, H, b, mu, mass, active, free)


def bodies(rng, p, m, d, mus):
    """Contacts that can all open along the first coordinate; p m > d is hyperstatic."""
    H = rng.normal(size=(N, p, m, d))
    H[:, :, 0, 0] = np.abs(H[:, :, 0, 0]) + 2.0
    H[:, :, 1:, 0] *= 0.1
    t = rng.normal(size=(N, d))
    t[:, 0] -= 3.0
    b = 0.1 * rng.normal(size=(N, p, m))
    every = np.ones((N, p), bool)
    return t, H, b, rng.choice(mus, (N, p)), 10.0 ** rng.uniform(-1, 1, (N, d)), every, ~every


def law_residual(t, H, b, mu, mass, active, free, x, lam, s):
    """From the definition, one problem: balance, and the natural map as a velocity."""
    balance = mass * (x - t) - np.einsum("kmd,km->d", H, lam)
    worst = np.max(np.abs(balance)) / np.max(mass * (np.abs(x) + np.abs(t)))
    u = np.einsum("kmd,d->km", H, x) + b
    for k in np.flatnonzero(active):
        size = np.linalg.norm(H[k] / np.sqrt(mass)) ** 2
        push = u[k].copy()
        if free[k]:
            worst = max(worst, np.max(np.abs(push)))
            continue
        push[0] += s * mu[k] * np.linalg.norm(push[1:])
        z = lam[k] - push / size
        length = np.linalg.norm(z[1:])
        if length > mu[k] * z[0]:
            normal = max(0.0, (z[0] + mu[k] * length) / (1 + mu[k] ** 2))
            z = np.concatenate([[normal], z[1:] * (mu[k] * normal / max(length, 1e-300))])
        terms = np.linalg.norm(H[k]) * (np.linalg.norm(x) + np.linalg.norm(t)) + 1.0
        worst = max(worst, np.linalg.norm(lam[k] - z) * size / terms)
    assert np.all(lam[~active] == 0.0)
    return worst


def assert_law(data, found, s):
    assert np.all(np.asarray(found.status == carom.Status.ok))
    x, lam = np.asarray(found.point), np.asarray(found.multipliers)
    worst = max(law_residual(*(a[i] for a in data), x[i], lam[i], s) for i in range(N))
    assert worst < 1e-12
    assert np.max(found.residual) < 1e-12


def test_coulomb_in_the_plane():
    for seed in range(5):
        data = bodies(np.random.default_rng(seed), 4, 2, 3, [0.0, 0.3, 0.6])
        assert_law(data, _coulomb(*data), 1.0)


@pytest.mark.slow
def test_coulomb_in_space():
    """Up to eight contacts of one body, which is hyperstatic: compiling takes most of the time."""
    for seed, p in enumerate([1, 2, 8]):
        data = bodies(np.random.default_rng(seed), p, 3, 6, [0.0, 0.3, 0.6])
        assert_law(data, _coulomb(*data), 1.0)


def test_the_convex_law_is_that_of_clarabel():
    data = bodies(np.random.default_rng(3), 3, 3, 4, [0.0, 0.3, 1.0])
    found, apart = _convex(*data), []
    assert_law(data, found, 0.0)
    for i in range(N):
        t, H, b, mu, mass, _, _ = (a[i] for a in data)
        x = clarabel_point(t, H, b, mu, mass)
        apart.append(np.max(np.abs(found.point[i] - x)) / (1 + np.max(np.abs(t))))
    # the square of the distance is below Clarabel's gap of 1e-12, so that 1e-6 is what it promises
    assert np.median(apart) < 1e-8
    assert np.max(apart) < 1e-6


def clarabel_point(t, H, b, mu, mass):
    """min 1/2 |x - t|^2_M with (u_n, mu u_t) in the second-order cone."""
    options = clarabel.DefaultSettings()
    options.verbose = False
    options.tol_gap_abs = options.tol_gap_rel = options.tol_feas = 1e-12
    scaled = H * np.where(np.arange(H.shape[1]) == 0, 1.0, mu[:, None])[:, :, None]
    shift = b * np.where(np.arange(H.shape[1]) == 0, 1.0, mu[:, None])
    cones = [clarabel.SecondOrderConeT(H.shape[1])] * len(mu)
    rows = sparse.csc_matrix(-scaled.reshape(-1, len(t)))
    M = sparse.csc_matrix(np.diag(mass))
    return np.array(
        clarabel.DefaultSolver(M, -mass * t, rows, shift.ravel(), cones, options).solve().x
    )


def test_joints_and_contacts_left_out():
    rng = np.random.default_rng(5)
    t, H, b, mu, mass, active, free = bodies(rng, 4, 2, 3, [0.3, 0.6])
    free[:, 3] = True
    H[:, 3, 1] = 0.0  # a joint has one row
    H[:, 3, 0, 0] = 0.0  # and leaves the contacts room to open
    b[:, 3, 1] = 0.0
    active[:, 1] = False
    data = t, H, b, mu, mass, active, free
    assert_law(data, _coulomb(*data), 1.0)


def test_without_friction_it_is_project():
    rng = np.random.default_rng(6)
    t, H, b, mu, mass, active, free = bodies(rng, 4, 2, 3, [0.0])
    found = _coulomb(t, H, b, mu, mass, active, free)
    exact = jax.jit(jax.vmap(lambda t, G, b, M: carom.project(t, G, b, mass=M)))(
        t, H[:, :, 0], b[:, :, 0], mass
    )
    assert np.max(np.abs(found.point - exact.point)) < 1e-12
    assert np.all(found.multipliers[:, :, 1] == 0.0)


def test_derivative_of_a_slide():
    """A block thrown on the level: v_t = 5 - mu |v_n|."""

    def speed(mu):
        H = jnp.array([[[0.0, 1.0], [1.0, 0.0]]])
        return project_cones(jnp.array([5.0, -2.0]), H, jnp.zeros((1, 2)), mu[None]).point[0]

    value, slope = jax.jit(jax.value_and_grad(speed))(jnp.array(0.3))
    assert abs(value - (5.0 - 0.3 * 2.0)) < 1e-14
    assert abs(slope + 2.0) < 1e-12


def test_what_cannot_be_said_so():
    """No rows and a push: infeasible, not a number invented."""
    found = project_cones(jnp.zeros(2), jnp.zeros((1, 2, 2)), jnp.array([[-1.0, 0.0]]), 0.5)
    assert found.status == carom.Status.infeasible
