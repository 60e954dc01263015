"""What rests stays at rest, whatever rounding makes of its velocity."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import carom

G = 9.81


class Weight(eqx.Module):
    m: jnp.ndarray

    def __call__(self, t, q, v):
        return jnp.array([0.0, -G]) * self.m


def floor(t, q):
    return q[1]


@pytest.mark.parametrize("scheme", [carom.Moreau(), carom.MoreauJean()])
@pytest.mark.parametrize("along", [0.0, 1.0])
def test_a_resting_contact_carries_the_weight_in_every_step(scheme, along):
    """v_n is zero to rounding, and opens the gap by that: it was lost for a step, and fell."""
    for m in (1.5, 3.0, 0.7, 0.1, 1e-6, 1e7):
        for dt in (1e-3, 7e-4, 1e-2):
            block = carom.System(
                mass=[m, m], force=Weight(jnp.array(m)), gap=floor, restitution=0.5
            )
            sol = carom.solve(block, scheme, [0.0, 0.0], [along, 0.0], t1=200 * dt, dt=dt)
            np.testing.assert_allclose(sol.impulse[1:, 0], m * G * dt, rtol=1e-6)
            assert np.max(np.abs(sol.q[:, 1])) <= 1e-8 * G * dt**2


@pytest.mark.parametrize("kind", ["gap", "joint"])
@pytest.mark.parametrize("scheme", [carom.PaoliSchatzman(), carom.Moreau(correct=True)], ids=str)
def test_the_bottom_of_a_bowl_is_the_origin(scheme, kind):
    """In metres or millimetres: near q = 0 the terms of the gap, R, are not seen in the gap."""
    for R, slope in ((1.0, 0.0), (1e3, 0.03)):

        def bowl(t, q, R=R):
            return R - jnp.sqrt(q[0] ** 2 + (q[1] - R) ** 2)

        def force(t, q, v, R=R):
            return jnp.array([0.0, -G * R]) - 0.5 * v

        ball = carom.System(force=force, **{kind: bowl})
        start = [R * np.sin(slope), R - R * np.cos(slope)], [0.0, 0.0]
        record = carom.Record(every=1)
        sol = carom.solve(ball, scheme, *start, t1=10.0, dt=1e-2, record=record)
        pushed = sol.impulse[1:, 0] if kind == "gap" else sol.joint_impulse[1:, 0]
        np.testing.assert_allclose(np.abs(pushed[-200:]), G * R * 1e-2, rtol=2e-3)
        assert np.max(np.abs(bowl(0.0, sol.q.T))) <= 1e-4 * R


@pytest.mark.parametrize("scheme", [carom.Moreau(), carom.Maury(), carom.PaoliSchatzman()], ids=str)
def test_units_do_not_decide_when_a_ball_bounces(scheme):
    """For e = 1/2 every flight ends with a step: by rounding it bounced there, or one later."""
    last = None
    for length, time in ((1.0, 1.0), (1e3, 1.0), (1e6, 1.0), (1.0, 1e-3)):
        g = length / time**2
        ball = carom.System(
            force=Weight(jnp.array(g)), gap=lambda t, q: q[1], restitution=0.5, mass=[1.0, 1.0]
        )
        start = [0.0, length], [length / time, 0.0]
        sol = carom.solve(ball, scheme, *start, t1=2.0 * time, dt=2e-3 * time)
        last = sol.q / length if last is None else last
        np.testing.assert_allclose(sol.q / length, last, atol=1e-9)
