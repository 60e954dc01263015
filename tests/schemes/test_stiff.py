"""EventDriven on stiff systems with impacts, and the method under it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import carom
from carom import models
from carom.schemes.linearly_implicit import LinearlyImplicit

DAMPER, SPRING = 1e5, 1e5  # of the second degree of freedom: rates of about 1e5 and 1


def follower():
    """A bouncing ball, and a light body that a strong damper and spring tie to a slow motion."""

    def force(t, q, v):
        return jnp.array([-9.81, -DAMPER * (v[1] - jnp.cos(t)) - SPRING * (q[1] - jnp.sin(t))])

    return carom.System(force=force, gap=lambda t, q: q[:1], restitution=0.5)


SYSTEM = follower()  # one object, compiled once


@pytest.fixture(scope="module")
def runs():
    """Up to the first impact and beyond it."""
    return [
        carom.solve(SYSTEM, carom.EventDriven(stiff=x), [1.0, 0.0], [0.0, 1.0], t1=0.5, dt=0.05)
        for x in (False, True)
    ]


def test_ten_times_fewer_steps(runs):
    explicit, stiff = (sol.stats.iterations for sol in runs)
    assert stiff < explicit / 10
    assert runs[0].stats.fallbacks == runs[1].stats.fallbacks == 0
    np.testing.assert_allclose(runs[1].q, runs[0].q, atol=1e-9)


def test_impacts_of_a_stiff_system():
    """P1 through its accumulation, beside q2 = sin t up to the inertia of the follower."""
    ball = models.bouncing_ball(e=0.5, t1=2.0)
    scheme = carom.EventDriven(stiff=True)
    sol = carom.solve(SYSTEM, scheme, [1.0, 0.0], [0.0, 1.0], t1=2.0, dt=0.05)
    assert np.max(np.abs(sol.q[:, 0] - ball.exact(sol.t)[0][:, 0])) < 1e-9
    # x'' + D (x - s)' + K (x - s) = 0 with s = sin t: x - s = O(1 / D)
    assert np.max(np.abs(sol.q[:, 1] - np.sin(sol.t))) < 2.0 / DAMPER
    assert sol.stats.fallbacks == 0
    assert carom.certify(sol, tolerance=1e-9)["impact law"].ok


def stepped(rate, y):
    """The error and its estimate after one step, as functions of h."""
    method = LinearlyImplicit()
    return jax.jit(lambda h: method.step(rate, jnp.zeros(()), jnp.asarray(y), h))


def test_order():
    """A rotation: the error of one step falls as h^9."""
    step = stepped(lambda t, y: jnp.array([y[1], -y[0]]), [1.0, 0.0])
    errors = [np.linalg.norm(step(h)[0] - np.array([np.cos(h), -np.sin(h)])) for h in (0.8, 0.4)]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(9.0, abs=0.5)
    assert errors[1] < np.linalg.norm(step(0.4)[1]) < 100 * errors[1]


def test_a_step_a_million_times_the_relaxation():
    """y' = -L (y - cos t) - sin t on y = cos t."""
    step = stepped(lambda t, y: -1e6 * (y - jnp.cos(t)) - jnp.sin(t), [1.0])
    for h in (0.1, 1.0):
        assert step(h)[0][0] == pytest.approx(np.cos(h), abs=1e-12)
