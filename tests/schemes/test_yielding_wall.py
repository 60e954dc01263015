"""The exact contact of one dimension against an integrator that is cut at the wall."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import carom  # double precision
from carom.schemes.yielding_wall import through

assert carom


def integrated(y, u, a, h, eps, root):
    """y, u and the greatest depth after h; None where there are more than two contacts."""
    t, state, deepest = 0.0, np.array([y, u]), max(y, 0.0)
    inside = y > 0.0 or (y == 0.0 and (u > 0.0 or (u == 0.0 and a > 0.0)))
    contacts = int(inside)
    while contacts <= 2:

        def face(t, s):
            return s[0]

        face.terminal, face.direction = True, -1 if inside else 1
        k, c = (1 / root**2, 2 * eps / root) if inside else (0.0, 0.0)
        run = solve_ivp(
            lambda t, s, k=k, c=c: [s[1], a - c * s[1] - k * s[0]], (t, h), state,
            method="DOP853", rtol=1e-12, atol=1e-14, events=face,
            max_step=root / 5 if inside else np.inf,
        )  # fmt: skip
        t, state, deepest = run.t[-1], run.y[:, -1], max(deepest, run.y[0].max())
        if run.status == 0:
            return (*state, deepest)
        state[0], inside = 0.0, not inside
        contacts += inside
    return None


def test_against_an_integrator():
    rng, n = np.random.default_rng(0), 60
    y = rng.normal(size=n) * rng.choice([0.0, 1e-3, 1.0], n)
    u, a = rng.normal(size=n), rng.normal(size=n) * rng.choice([0.0, 1.0, 10.0], n)
    h, e, root = rng.uniform(0, 3, n), rng.choice([0.0, 0.2, 0.8, 1.0], n), rng.choice([0.1, 1], n)
    log = np.log(np.where(e > 0, e, 1.0))
    eps = np.where(e > 0, -log / np.sqrt(np.pi**2 + log**2), 1.0)
    found = jax.jit(jax.vmap(through))(*map(jnp.asarray, (y, u, a, h, eps, root)))
    compared = 0
    for k in range(n):
        wanted = integrated(y[k], u[k], a[k], h[k], eps[k], root[k])
        if wanted is not None:
            compared += 1
            size = 1.0 + abs(wanted[0])
            assert found.y[k] == pytest.approx(wanted[0], abs=1e-8 * size), k
            assert found.u[k] == pytest.approx(wanted[1], abs=1e-7 * size), k
            assert found.deepest[k] == pytest.approx(wanted[2], abs=1e-2 * root[k] * size), k
    assert compared > 50


@pytest.mark.parametrize("e", [0.1, 0.5, 1.0])
def test_leaves_with_e_times_the_speed(e):
    """P12, in one step ten thousand contacts long."""
    eps = -np.log(e) / np.hypot(np.pi, np.log(e))
    found = jax.jit(through)(*map(jnp.asarray, (-1.0, 2.0, 0.0, 1.0, eps, 1e-5)))
    assert found.u == pytest.approx(-2.0 * e, rel=1e-12)
