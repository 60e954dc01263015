"""A point that bounces to rest in a corner of two walls that rub, in space.

Each of its last bounces makes it slide along the other wall, by as little: at 1e-8 of what the
force does in a step, the direction of that slip decides, and no step was solved.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import carom

GRID = [(mu, e, th) for mu in (0.3, 0.6, 0.8, 0.95) for e in (0.3, 0.6, 0.9) for th in (0.3, 0.8)]


def corner(mu, e, th):
    weight = -9.81 * jnp.array([jnp.cos(th), jnp.sin(th), 0.0])
    return carom.System(
        force=lambda t, q, v: weight + 2.0 * jnp.array([0.0, 0.0, jnp.cos(5.0 * t)]),
        gap=lambda t, q: q[:2],
        slip=lambda t, q, v: jnp.stack([v[1:], v[jnp.array([0, 2])]]),
        friction=mu,
        restitution=e,
    )


START = {"q0": [0.1, 0.2, 0.0], "v0": [1.0, -0.5, 0.3], "dt": 1e-2, "progress": False}


@pytest.mark.slow
@pytest.mark.parametrize("scheme", [carom.Moreau(), carom.MoreauJean(), carom.Maury()], ids=str)
def test_it_comes_to_rest_whatever_bounces(scheme):
    def end(mu, e, th):
        sol = carom.solve(corner(mu, e, th), scheme, t1=6.0, throw=False, **START)
        return sol.status._value, sol.stats.residual, sol.q[-1], sol.v[-1]

    status, residual, q, v = jax.jit(jax.vmap(lambda x: end(*x)))(jnp.array(GRID))
    assert np.all(np.asarray(status) == carom.Status.ok._value)
    assert np.max(residual) <= 1e-9
    assert np.min(q[:, :2]) > -5e-2  # as deep as a blow in a step
    rests = np.array(GRID)[:, 1] < 0.9  # what bounces higher takes longer
    assert np.max(np.abs(q[rests, :2])) < 5e-2
    slow = 9.81 * START["dt"] if scheme.keeps_open else 1e-6  # Maury's v at rest is of order h
    assert np.max(np.abs(v[rests])) < slow


@pytest.mark.parametrize("scheme", [carom.Moreau(), carom.MoreauJean()], ids=str)
def test_that_is_a_solution(scheme):
    sol = carom.solve(corner(0.3, 0.3, 0.8), scheme, t1=1.5, **START)  # it ended at 0.64
    assert np.max(np.abs(sol.v[-1])) < 1e-6
    assert carom.certify(sol).ok is not False
    finer = carom.solve(corner(0.3, 0.3, 0.8), scheme, t1=1.5, **(START | {"dt": 1e-3}))
    finest = carom.solve(corner(0.3, 0.3, 0.8), scheme, t1=1.5, **(START | {"dt": 1e-4}))
    coarse, fine = (np.max(np.abs(one.q[-1] - finest.q[-1])) for one in (sol, finer))
    assert fine < 0.2 * coarse
