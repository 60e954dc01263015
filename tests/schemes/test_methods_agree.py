"""One problem, five methods: two degrees of freedom, q-dependent mass, each at its rate."""

import jax.numpy as jnp
import numpy as np
import pytest

import carom

T = 2.8


def pendulum():
    """A double pendulum of unit rods and masses, whose tip swings against a wall."""

    def mass(q):
        c = jnp.cos(q[0] - q[1])
        return jnp.array([[2.0, c], [c, 1.0]])

    def potential(q):
        return -9.81 * (2.0 * jnp.cos(q[0]) + jnp.cos(q[1]))

    def gap(t, q):
        return jnp.sin(q[0]) + jnp.sin(q[1]) + 0.4

    return carom.Lagrangian(mass=mass, potential=potential, gap=gap, restitution=0.7)


SYSTEM = pendulum()
Q0, V0 = [0.6, 0.9], [0.0, 0.0]


def solved(scheme, dt):
    return carom.solve(SYSTEM, scheme, Q0, V0, t1=T, dt=dt)


@pytest.fixture(scope="module")
def reference():
    sol = solved(carom.EventDriven(), T / 40)
    assert len(sol.impacts) >= 2
    return sol


def error(sol, reference):
    return np.max(np.abs(sol.at(reference.t)[0] - reference.q))


def test_event_detection_is_converged(reference):
    loose = solved(carom.EventDriven(rtol=1e-8, atol=1e-10), T / 40)
    assert error(loose, reference) < 1e-5
    tight = solved(carom.EventDriven(rtol=1e-12, atol=1e-14), T / 40)
    assert error(tight, reference) < 1e-8


@pytest.mark.parametrize(
    "scheme",
    [carom.Moreau(), carom.Maury(), carom.PaoliSchatzman()],
    ids=lambda s: type(s).__name__,
)
def test_time_stepping_is_first_order(scheme, reference):
    steps = np.array([997, 1409, 1999, 2833, 4001, 5657, 8009, 11317, 16001])
    errors = [error(solved(scheme, T / n), reference) for n in steps]
    slope = -np.polyfit(np.log(steps), np.log(errors), 1)[0]
    assert abs(slope - 1.0) < 0.2
    assert errors[-1] < 5e-3


def test_penalty_is_of_order_one_half_in_lam(reference):
    lams = np.array([1e-4, 1e-5, 1e-6, 1e-7])
    errors = [error(solved(carom.Penalty(lam=x), T / 40), reference) for x in lams]
    assert abs(np.polyfit(np.log(lams), np.log(errors), 1)[0] - 0.5) < 0.1
