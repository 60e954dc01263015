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
