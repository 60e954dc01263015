"""Two and three contacts in the plane by Newton's method alone: how often, and what it finds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import carom
from carom.projection.coulomb import coulomb
from carom.projection.metric import metric_of
from carom.status import Status


def _feet(x, height=0.5):
    """Rows (p, 2, 3) of feet at x (p,) below the centre of one body: W is singular."""
    one, none = np.ones_like(x), np.zeros_like(x)
    return np.stack([np.stack([none, one, x], 1), np.stack([one, none, height * one], 1)], 1)


def _solved(target, x, mu=0.3):
    H = _feet(np.asarray(x))
    p = len(H)
    metric, every = metric_of(jnp.array([1.0, 1.0, 0.2])), jnp.ones(p, bool)
    return coulomb(metric, target, jnp.array(H), jnp.zeros((p, 2)), jnp.full(p, mu), every)


@pytest.mark.parametrize("x", [[-1.0, 1.0], [-1.0, 0.3, 1.0]])
def test_a_body_that_slides_or_rests_takes_two_turns(x):
    """Sweeps and Newton steps in turn took 5 to 300."""
    found = jax.jit(jax.vmap(lambda speed: _solved(jnp.array([speed, -0.1, 0.0]), x)))(
        np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
    )
    assert bool(jnp.all(found.status == Status.ok))
    assert int(jnp.max(found.iterations)) <= 2
    assert float(jnp.max(found.residual)) < 1e-13


def test_impulses_that_are_not_unique_are_the_smallest():
    """Feet that are each other's image push alike; two that stick share what they hold."""
    found = jax.jit(lambda v: _solved(v, [-1.0, 1.0], mu=1.0))(jnp.array([0.01, -1.0, 0.0]))
    np.testing.assert_allclose(found.point, np.zeros(3), atol=1e-13)
    (_, left), (_, right) = np.asarray(found.multipliers)
    np.testing.assert_allclose(left, right, rtol=1e-6)
    np.testing.assert_allclose(left + right, -0.01, rtol=1e-12)


@pytest.mark.parametrize("contacts", [2, 3])
def test_a_batch_in_a_box_is_its_members(contacts):
    N, T = jnp.array([[0.0, 1], [-1, 0], [1, 0]]), jnp.array([[1.0, 0], [0, 1], [0, 1]])

    def moved(speed):
        system = carom.System(
            force=lambda t, q, v: jnp.array([0.0, -9.81]),
            gap=lambda t, q: (N @ q + jnp.array([0.0, 0.01, 0.01]))[:contacts],
            slip=lambda t, q, v: (T @ v)[:contacts],
            friction=0.3,
            restitution=0.5,
        )
        about = {"q0": jnp.zeros(2), "v0": jnp.array([speed, 0.1]), "t1": 0.1, "dt": 1e-3}
        sol = carom.solve(system, carom.Moreau(), **about)
        return sol.q[-1], sol.stats.iterations, sol.stats.residual

    speeds = np.linspace(-1.0, 1.0, 5)
    q, turns, residual = jax.jit(jax.vmap(moved))(speeds)
    alone = jax.jit(moved)
    np.testing.assert_allclose(q, [alone(s)[0] for s in speeds], atol=1e-13)
    assert float(jnp.max(residual)) < 1e-12
    assert int(jnp.max(turns)) <= 3 * 100


def test_its_derivative_is_that_of_the_answer():
    """Stick, and slip to both sides."""

    def point(target):
        return _solved(target, [-1.0, 0.7]).point

    at, h = jnp.array([[0.01, -1.0, 0.1], [1.0, -1.0, 0.1], [-1.0, -1.0, 0.1]]), 1e-6
    slope, many = jax.jit(jax.vmap(jax.jacobian(point)))(at), jax.jit(jax.vmap(point))
    steps = h * np.eye(3)
    by_differences = np.stack([(many(at + e) - many(at - e)) / (2 * h) for e in steps], axis=2)
    np.testing.assert_allclose(slope, by_differences, atol=1e-7)
