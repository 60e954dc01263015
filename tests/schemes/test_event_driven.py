"""EventDriven against exact motions: through accumulations, sliding, release and several gaps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import carom
from carom import models

SCHEME = carom.EventDriven()

# problem, bound on sup |q - exact| over the whole run, accumulations included
EXACT = {
    "P1 e = 0": (models.bouncing_ball(e=0.0, t1=10.0), 1e-12),
    "P1 e = 0.5": (models.bouncing_ball(e=0.5, t1=10.0), 1e-12),
    "P1 e = 0.9": (models.bouncing_ball(e=0.9, t1=10.0), 1e-11),
    "P1 e = 1": (models.bouncing_ball(e=1.0, t1=10.0), 1e-11),
    "P2": (models.stopped_oscillator(), 1e-12),
    "P3": (models.impact_oscillator(), 1e-10),
    "P4": (models.resonance(), 1e-9),
    "P5 inside, accumulating, then sliding": (models.disc(e=0.5), 1e-11),
    "P5 polar": (models.disc_polar(e=0.5), 1e-11),
    "P5 outside": (models.outside_disc(), 1e-11),
    "P5 wedge": (models.wedge(), 1e-11),
    "P6": (models.lift_off(), 1e-10),
    "P7": (models.line_polar(), 1e-11),
    "P8 e = 0.5": (models.vibrating_table(e=0.5), 1e-11),
    "P8 e = 0": (models.vibrating_table(e=0.0), 1e-9),
    "P9": (models.row_of_balls(), 1e-11),
    "P9 with gaps": (models.row_of_balls(spacing=0.3), 1e-11),
    "P10": (models.stack(), 1e-12),
    "P10 dropped": (models.stack(height=0.5), 1e-11),
}


def run(problem, steps=100, scheme=SCHEME):
    dt = (problem.t1 - problem.t0) / steps
    return carom.solve(
        problem.system, scheme, problem.q0, problem.v0, t0=problem.t0, t1=problem.t1, dt=dt
    )


# to compile
SLOW = (
    "P2",
    "P5 outside",
    "P5 polar",
    "P5 wedge",
    "P7",
    "P8 e = 0",
    "P9 with gaps",
    "P10",
    "P10 dropped",
)


@pytest.mark.parametrize(
    "title", [pytest.param(t, marks=pytest.mark.slow) if t in SLOW else t for t in EXACT]
)
def test_exact_motion(title):
    problem, bound = EXACT[title]
    sol = run(problem)
    assert np.max(np.abs(sol.q - problem.exact(sol.t)[0])) < bound
    assert sol.stats.fallbacks == 0


def test_the_spacing_of_records_does_not_matter():
    problem = models.bouncing_ball(e=0.9, t1=10.0)
    for steps in (1, 7, 5000):
        sol = run(problem, steps)
        assert np.max(np.abs(sol.q - problem.exact(sol.t)[0])) < 1e-11


def test_impact_times_and_speeds():
    problem = models.bouncing_ball(e=0.8, t1=4.0)
    sol = run(problem)
    times = problem.impact_times[problem.impact_times < 3.9]
    found = sol.impacts[: len(times)]
    np.testing.assert_allclose(found.time, times, atol=1e-12)
    np.testing.assert_allclose(found.velocity_after, -0.8 * found.velocity_before, rtol=1e-13)
    np.testing.assert_allclose(found.impulse, -1.8 * found.velocity_before, rtol=1e-13)


def test_rest_after_the_accumulation():
    """At rest the reaction is the weight, and the total impulse that of P1, but for the last
    speed that the passage into contact drops: w^2 <= rtol a (1-e) / 20."""
    problem = models.bouncing_ball(e=0.5, t1=3.0)
    sol = run(problem, 300)
    rest = sol.t > problem.accumulation + 0.02
    assert np.max(np.abs(sol.q[rest])) < 1e-12
    assert np.max(np.abs(sol.v[rest])) < 1e-12
    np.testing.assert_allclose(sol.impulse[rest, 0], 9.81 * sol.dt, rtol=1e-9)
    dropped = np.sqrt(SCHEME.rtol * 9.81 * 0.5 / 20)
    assert sol.impulse.sum() == pytest.approx(9.81 * 3.0, abs=dropped)


def test_sliding_reaction():
    """After the accumulation in a disc the reaction is centripetal: v^2 / R."""
    problem = models.disc(e=0.5)
    sol = run(problem)
    late = sol.t > problem.accumulation + 0.2
    np.testing.assert_allclose(sol.impulse[late, 0], sol.dt, rtol=1e-9)
    assert np.max(np.abs(sol.gap[late])) < 1e-12


def test_grazing_is_not_missed_and_not_invented():
    """A smooth motion whose minimum lies just above, or just below, the boundary, inside one
    long step: x = 1 + d - sin t."""

    def system(d):
        return carom.System(force=_Sine(), gap=_Above(jnp.asarray(d)), restitution=0.5)

    for d, hits in ((1e-6, 0), (-1e-6, 1)):
        sol = carom.solve(system(d), SCHEME, [1.0], [-1.0], t1=3.0, dt=3.0)
        assert len(sol.impacts) == hits, d
        assert sol.gap.min() >= -1e-12


class _Sine:
    def __call__(self, t, q, v):
        return jnp.sin(t)[None]

    def __eq__(self, other):
        return isinstance(other, _Sine)

    def __hash__(self):
        return 1


@jax.tree_util.register_pytree_node_class
class _Above:
    def __init__(self, d):
        self.d = d

    def __call__(self, t, q):
        return q + self.d

    def tree_flatten(self):
        return (self.d,), None

    @classmethod
    def tree_unflatten(cls, _, leaves):
        return cls(*leaves)


@pytest.mark.slow
def test_an_accumulation_over_several_gaps_is_passed():
    """Two balls dropped on a floor: infinitely many impacts alternate between the two gaps before
    they rest, in a time that is passed in one go; the end is rest."""
    system = carom.System(
        force=lambda t, q, v: jnp.full(2, -9.81),
        gap=lambda t, q: jnp.array([q[0], q[1] - q[0] - 0.1]),
        restitution=0.5,
    )
    sol = carom.solve(system, SCHEME, [0.5, 1.0], [0.0, 0.0], t1=4.0, dt=0.05)
    assert sol.ok
    assert sol.stats.fallbacks == 0  # each gap ends by (5), beside the other at rest
    assert sol.gap.min() > -1e-9
    np.testing.assert_allclose(sol.q[-1], [0.0, 0.1], atol=1e-12)
    np.testing.assert_allclose(sol.impulse[-1], 9.81 * sol.dt * np.array([2.0, 1.0]), rtol=1e-9)
    energy = 0.5 * np.sum(sol.v**2, axis=1) + 9.81 * np.sum(sol.q, axis=1)
    assert np.all(np.diff(energy) < 1e-9)


def test_batch_with_different_impact_times():
    """vmap: members with different numbers of impacts equal their single runs."""

    def final(e):
        system = carom.System(force=_gravity, gap=lambda t, q: q, restitution=e)
        return carom.solve(system, SCHEME, [1.0], [0.0], t1=3.0, dt=0.1)

    es = jnp.array([0.0, 0.5, 0.8, 1.0])
    batch = jax.jit(jax.vmap(final))(es)
    for k, e in enumerate(es):
        exact = models.bouncing_ball(e=float(e), t1=3.0).exact(np.asarray(batch.t[k]))[0]
        assert np.max(np.abs(batch.q[k] - exact)) < 1e-11
    assert len(batch[1].impacts) > len(batch[0].impacts) == 1


def _gravity(t, q, v):
    return jnp.array([-9.81])


def test_moving_floor_accelerates_the_ball():
    """An elastic impact with a floor rising at c sends a resting ball off at 2 c."""
    system = carom.System(
        force=lambda t, q, v: jnp.zeros(1), gap=lambda t, q: q - 0.7 * t, restitution=1.0
    )
    sol = carom.solve(system, SCHEME, [0.35], [0.0], t1=2.0, dt=0.25)
    (impact,) = sol.impacts
    assert impact.time == pytest.approx(0.5, abs=1e-13)
    assert sol.v[-1, 0] == pytest.approx(1.4, abs=1e-12)


@pytest.mark.parametrize("left", [0.0, 1e-30, -1e-30])
def test_a_gap_that_opens_and_closes_again_within_a_step(left):
    """From a closed gap, and a speed that an impact of e = 0 left by rounding, the acceleration
    a (1 - t/T) opens the gap, for 3 T.  It is a difference, q + 5: at first it moves by less than
    its rounding."""
    a, T = 38.0, 1e-3

    def force(t, q, v):
        return (a * (1 - t / T))[None]

    system = carom.System(force=force, gap=lambda t, q: q[:1] + 5.0, restitution=0.0)
    sol = carom.solve(system, SCHEME, [-5.0], [left], t1=0.1, dt=0.05)
    assert sol.stats.fallbacks == 0
    assert sol.stats.iterations < 100
    struck = sol.impacts.time[sol.impacts.impulse > 1e-9]
    np.testing.assert_allclose(struck, [3 * T], atol=1e-9)
    np.testing.assert_allclose(sol.q[-1], -5.0, rtol=1e-14)


@pytest.mark.parametrize("steps", [20, 33, 57])
def test_touching_balls_that_come_to_rest_where_q_is_zero(steps):
    """After the second blow of a cradle all but one ball stand still at q = 0: what is left of
    their q and v is rounding, which has no size of its own to be compared with."""
    problem = models.newtons_cradle()
    sol = run(problem, steps=steps)
    assert sol.stats.fallbacks == 0
    assert sol.stats.iterations < 200
    assert np.max(np.abs(sol.q - problem.exact(np.asarray(sol.t))[0])) < 1e-11
