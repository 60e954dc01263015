"""Galperin's billiard: a ball, a heavier one and a wall count the digits of pi."""

import jax.numpy as jnp
import numpy as np
import pytest

import carom


def still(t, q, v):
    return jnp.zeros(2)


def wall_and_ball(t, q):
    return jnp.stack([q[0], q[1] - q[0]])


def collisions(digits, dt):
    """Of masses 1 : 100^digits, all over by t = 9."""
    system = carom.System(
        force=still, gap=wall_and_ball, mass=np.array([1.0, 100.0**digits]), restitution=1.0
    )
    return carom.solve(system, carom.EventDriven(), [1.0, 2.0], [0.0, -1.0], t1=10.0, dt=dt)


@pytest.mark.parametrize(
    ("digits", "count"), [(0, 3), (1, 31), (2, 314), pytest.param(3, 3141, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("dt", [10.0, 0.1])
def test_digits_of_pi(digits, count, dt):
    sol = collisions(digits, dt)
    assert len(sol.impacts) == count
    heavy = 100.0**digits
    energy = 0.5 * (sol.v[-1, 0] ** 2 + heavy * sol.v[-1, 1] ** 2)
    assert energy == pytest.approx(0.5 * heavy, rel=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("dt", [10.0, 0.5, 0.01])
def test_31415(dt):
    """Every one of them is in the table, on the two gaps in turn."""
    sol = collisions(4, dt)
    assert len(sol.impacts) == 31415
    assert np.all(np.diff(sol.impacts.time) > 0.0)
    assert np.array_equal(sol.impacts.constraint, 1 - np.arange(31415) % 2)
    assert 1e8 * sol.v[-1, 1] ** 2 + sol.v[-1, 0] ** 2 == pytest.approx(1e8, rel=1e-10)
