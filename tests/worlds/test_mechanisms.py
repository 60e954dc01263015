"""Closed loops whose joints repeat each other, against the equations of their one angle."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import carom

G = 9.81
MASSES = (1.0, 3.0)


def apart(a, b, length):
    """Of the dimension of a length, zero where |a - b| = length."""
    return (jnp.sum((a - b) ** 2) - length**2) / (2.0 * length)


def shaken(t, of=jnp):
    """The angle of the ground that carries the pivots."""
    return 0.8 * of.sin(3.0 * t)


def bars(t, q):
    """Three parallel cranks on the ground, which turns to and fro, and a coupler: one too many."""
    ground = jnp.array([jnp.cos(shaken(t)), jnp.sin(shaken(t))])
    ends = [(q[:2], 0.0), (q[2:], 2.0), (0.5 * (q[:2] + q[2:]), 1.0)]
    return jnp.array([*(apart(p, x * ground, 1.0) for p, x in ends), apart(q[:2], q[2:], 2.0)])


def pull(t, q, v):
    return jnp.array([2.0, -MASSES[0] * G, 0.0, -MASSES[1] * G])


def crank(angle, t1):
    """Its angle at t1, from a rate of 0.3."""

    def rates(t, y):
        a, rate, change = shaken(t, np), 2.4 * np.cos(3.0 * t), -7.2 * np.sin(3.0 * t)
        out, across = np.array([np.cos(a), np.sin(a)]), np.array([-np.sin(a), np.cos(a)])
        carried = 2.0 * MASSES[1] * (change * across - rate**2 * out)
        along = np.array([np.cos(y[0]), np.sin(y[0])])
        return [y[1], (np.array([2.0, -sum(MASSES) * G]) - carried) @ along / sum(MASSES)]

    return solve_ivp(rates, (0.0, t1), [angle, 0.3], rtol=1e-12, atol=1e-12).y[0, -1]


@pytest.mark.parametrize(
    "scheme",
    [
        carom.Maury(),
        carom.Moreau(),
        pytest.param(carom.PaoliSchatzman(), marks=pytest.mark.slow),
        pytest.param(carom.EventDriven(), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_joints_that_repeat_each_other_only_where_they_hold(scheme):
    """Off it they are independent by a little: Maury stood still with impulses of 1e9, at any dt,
    and Moreau was thrown about at 4e-3, both of them without a word; PaoliSchatzman stopped."""
    frame = carom.System(mass=np.repeat(MASSES, 2), force=pull, joint=bars)
    angle, t1 = 0.7, 0.7
    place, way = np.array([np.sin(angle), -np.cos(angle)]), np.array([np.cos(angle), np.sin(angle)])
    q0 = np.tile(place, 2) + np.array([0.0, 0.0, 2.0, 0.0])
    v0 = 0.3 * np.tile(way, 2) + np.array([0.0, 0.0, 0.0, 4.8])
    end = crank(angle, t1)
    exact = np.array([np.sin(end), -np.cos(end)])
    errors = []
    for dt in (4e-3, 2e-3):
        sol = carom.solve(frame, scheme, q0, v0, t1=t1, dt=dt)
        errors.append(np.linalg.norm(sol.q[-1, :2] - exact))
        drift = max(np.max(np.abs(bars(t, q))) for t, q in zip(sol.t[::5], sol.q[::5], strict=True))
        assert drift < 15.0 * dt**2
        assert np.max(np.abs(sol.joint_impulse[1:])) < 70.0 * dt
        np.testing.assert_allclose(  # three parallel cranks share what they carry
            sol.joint_impulse[9:, 0] + sol.joint_impulse[9:, 1],
            2.0 * sol.joint_impulse[9:, 2],
            atol=60.0 * dt**2,
        )
    if isinstance(scheme, carom.EventDriven):
        assert errors[0] < 1e-11
    else:
        assert errors[1] < 5e-3
        assert 1.8 < errors[0] / errors[1] < 2.3


class Dumbbell(eqx.Module):
    """Two masses on a rod that slide on a floor, pulled at the first."""

    masses: jax.Array  # (2,)
    rod: jax.Array
    pull: jax.Array

    def arms(self):
        """From the middle of mass to the first and to the second."""
        return self.rod / jnp.sum(self.masses) * jnp.array([-self.masses[1], self.masses[0]])

    def places(self, q):
        along = jnp.stack([jnp.cos(q[2]), jnp.sin(q[2])])
        return (q[:2] + self.arms()[:, None] * along).ravel()


class InPoints(Dumbbell):
    def force(self, t, q, v):
        return jnp.stack([self.pull, -self.masses[0] * G, 0.0 * self.pull, -self.masses[1] * G])

    def joint(self, t, q):
        return apart(q[2:], q[:2], self.rod)


class AsBody(Dumbbell):
    def force(self, t, q, v):
        turn = -self.pull * self.arms()[0] * jnp.sin(q[2])
        return jnp.stack([self.pull, -jnp.sum(self.masses) * G, turn])

    def gap(self, t, q):
        return self.places(q)[1::2]

    def slip(self, t, q, v):
        return jax.jvp(self.places, (q,), (v,))[1][::2]


@jax.jit
def both_ways(masses, rod, pull, mu, e, q, v):
    """The same motion in points with a joint, and as a body: q, v, impulses, friction, status."""
    points, body = InPoints(masses, rod, pull), AsBody(masses, rod, pull)
    held = carom.System(
        mass=jnp.repeat(masses, 2),
        force=points.force,
        gap=lambda t, q: q[1::2],
        slip=lambda t, q, v: v[::2],
        joint=points.joint,
        friction=mu,
        restitution=e,
    )
    inertia = jnp.sum(masses * body.arms() ** 2)
    free = carom.System(
        mass=jnp.stack([jnp.sum(masses), jnp.sum(masses), inertia]),
        force=body.force,
        gap=body.gap,
        slip=body.slip,
        friction=mu,
        restitution=e,
    )
    x, u = jax.jvp(body.places, (q,), (v,))
    A = carom.solve(held, carom.EventDriven(), x, u, t1=1.0, dt=0.1)
    B = carom.solve(free, carom.EventDriven(), q, v, t1=1.0, dt=0.1)
    seen = jax.vmap(body.places)(B.q)
    status = A.status._value + B.status._value
    return (A.q, A.impulse, A.friction), (seen, B.impulse, B.friction), status


@pytest.mark.slow
def test_a_dumbbell_that_slides_and_falls_in_two_sets_of_coordinates():
    """With friction at both ends: the same motion, impulses and friction."""
    rng = np.random.default_rng(3)
    for k in range(6):
        masses, rod = jnp.array(rng.uniform(0.5, 3.0, 2)), jnp.array(rng.uniform(0.5, 2.0))
        pull, mu = jnp.array(4.0 * rng.normal()), jnp.array(rng.uniform(0.1, 0.6))
        angle = rng.uniform(0.3, 1.2) if k % 2 else 0.0
        low = masses[1] / jnp.sum(masses) * rod * np.sin(angle)
        q = jnp.array([0.0, low + (rng.uniform(0.0, 0.3) if k % 2 else 0.0), angle])
        v = jnp.array([2.0 * rng.normal(), 0.0, rng.normal() if k % 2 else 0.0])
        held, free, status = both_ways(masses, rod, pull, mu, jnp.array(0.0), q, v)
        assert status == 0
        for a, b in zip(held, free, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-9)
