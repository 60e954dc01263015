"""PaoliSchatzman: an impact within the first step is one like any other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import carom
from carom.certificates.certificate import Verdict

MOMENTS = np.array([1e-6, 0.1, 0.5, 0.9, 1.0, 1.5, 2.5])  # of the impact, in steps


@pytest.mark.parametrize("e", [0.0, 0.7])
def test_a_ball_leaves_by_the_law_whenever_it_strikes(e):
    ball = carom.System(force=lambda t, q, v: 0 * q, gap=lambda t, q: q, restitution=e)
    for moment in MOMENTS:
        sol = carom.solve(ball, carom.PaoliSchatzman(), [1e-3 * moment], [-1.0], t1=0.01, dt=1e-3)
        assert sol.v[0, 0] == -1.0
        assert sol.v[-1, 0] == pytest.approx(e, abs=1e-9), moment
        assert np.sum(sol.impulse) == pytest.approx(1.0 + e), moment
        assert sol.impacts.velocity_before == pytest.approx([-1.0])
    few = carom.solve(
        ball, carom.PaoliSchatzman(), [5e-4], [-1.0], t1=0.01, dt=1e-3, record=carom.Record(every=5)
    )
    assert np.sum(few.impulse) == pytest.approx(1.0 + e)


@pytest.mark.slow
@pytest.mark.parametrize("e", [0.0, 0.3, 0.7, 1.0])
def test_random_blows_on_a_disc(e):
    """250 points of random inertia under a force meet a disc; the law at the place of the blow."""
    h, draw = 1e-4, np.random.default_rng(int(10 * e))
    n = 250
    mass = np.exp(draw.uniform(-1, 1, (n, 2)))
    angle, speed = draw.uniform(0, 2 * np.pi, n), draw.uniform(0.5, 2.0, n)
    normal = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    v0 = speed[:, None] * (-normal + draw.uniform(-1, 1, (n, 1)) * normal[:, ::-1] * [-1, 1])
    moment = draw.uniform(0.0, 3.0, n)
    q0 = normal - (h * moment)[:, None] * v0

    @jax.jit
    @jax.vmap
    def end(mass, q0, v0):
        disc = carom.System(
            force=lambda t, q, v: 0 * q + 1.0,
            gap=lambda t, q: jnp.linalg.norm(q) - 1.0,
            mass=mass,
            restitution=e,
        )
        record = carom.Record(every=8)
        sol = carom.solve(disc, carom.PaoliSchatzman(), q0, v0, t1=8 * h, dt=h, record=record)
        return sol.v[-1], sol.impulse[-1], sol.status == carom.Status.ok

    v1, lam, ok = (np.asarray(x) for x in end(mass, q0, v0))
    assert np.all(ok)
    approach = np.sum(normal * v0, axis=1)
    push = -(1.0 + e) * approach / np.sum(normal**2 / mass, axis=1)
    assert np.max(np.abs(v1 - v0 - push[:, None] * normal / mass)) < 200 * h
    assert np.max(np.abs(lam[:, 0] - push)) < 200 * h


def row_of_balls(masses, moment, dt):
    """At rest and touching, and one that strikes it after so many steps."""
    x, v = np.arange(len(masses)) * 1.0, np.zeros(len(masses))
    x[0], v[0] = -moment * dt, 1.0
    return x, v


@pytest.mark.parametrize("dt", [1e-2, 1e-4])
def test_a_row_of_spheres_moves_on_together(dt):
    draw = np.random.default_rng(3)
    for moment in MOMENTS:
        mass = np.exp(draw.uniform(-1, 1, 6))
        x, v = row_of_balls(mass, moment, dt)
        pile = carom.Spheres(np.stack([x, 0 * x], 1), 0.5, np.stack([v, 0 * v], 1), mass=mass)
        sol = carom.solve(pile, carom.PaoliSchatzman(), t1=10 * dt, dt=dt)
        expected = mass[0] / np.sum(mass)
        assert sol.v[-1, :, 0] == pytest.approx(np.full(6, expected), abs=5e-4), moment
        assert carom.certify(sol).verdict is not Verdict.NOT


def test_what_overlaps_at_the_start_is_not_thrown_apart():
    """The last state of a run is a start, also from the middle of an impact."""
    floor = carom.Plane((0, 0), (0, 1))
    pile = carom.Spheres([[0, 0.4995]], 0.5, [[0, -1.0]], restitution=0.7, walls=[floor])
    sol = carom.solve(pile, carom.PaoliSchatzman(), t1=0.02, dt=1e-3)
    assert sol.v[-1, 0, 1] == pytest.approx(0.7)
