"""Where the energy goes with friction."""

import jax.numpy as jnp
import numpy as np
import pytest

import carom


def test_the_work_of_friction_is_no_error_of_the_scheme():
    """A block that slides to rest on a rough floor."""
    block = carom.System(
        force=lambda t, q, v: jnp.array([0.0, -9.81]),
        gap=lambda t, q: q[1],
        slip=lambda t, q, v: v[0],
        friction=0.3,
    )
    sol = carom.solve(block, carom.Moreau(), [0.0, 0.0], [1.0, 0.0], t1=0.5, dt=1e-3)
    budget = sol.energy_budget()
    assert budget.friction[-1] == pytest.approx(-0.5, rel=1e-2)
    assert np.max(np.abs(budget.error)) < 1e-2
