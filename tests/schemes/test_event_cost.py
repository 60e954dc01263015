"""What a member of EventDriven costs: its loops are compiled as one kernel each."""

import jax
import jax.numpy as jnp
import pytest

import carom


def _corner(e):
    system = carom.System(
        force=lambda t, q, v: jnp.array([0.3, -9.81]),
        gap=lambda t, q: jnp.stack([q[1], 1.0 - q[0]]),
        restitution=e,
    )
    return carom.solve(system, carom.EventDriven(), [0.0, 1.0], [0.0, 0.0], t1=1.0, dt=0.1).q[-1]


@pytest.mark.slow
def test_every_loop_is_one_kernel():
    # a dot, a scatter or a large sum in it would make it a list of kernels: ten times as long
    text = jax.jit(_corner).lower(0.5).compile().as_text()
    assert text.count("xla_cpu_small_call") == text.count(" while(") > 0
