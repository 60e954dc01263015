"""Exact motions of carom.models against the equations they claim to solve.

Every case goes through the same conformance tests: admissible, the equation of motion between
impacts (derivatives by Chebyshev interpolation), the impact law at each impact (the cone by
non-negative least squares), no impact that is not listed. The rest are stored values.
"""

import math
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import nnls

from carom import models
from carom.errors import RestitutionError, TimeError
from carom.models import ModelError
from carom.models.uniqueness import bumps


def bump_parts(e):
    """The bumps of the force of nonunique in parts, the outer ones too short to interpolate."""
    b = bumps(e)
    return np.concatenate([b.centre + b.width * x for x in (-1, -0.75, -0.375, 0, 0.375, 0.75, 1)])


LAUNCH = math.asin(1 / 1.2) / 10  # where the ball leaves the table of the e = 0 default
LIFT = math.acos(-1 / 3) / 2  # where the follower leaves the cam of the default

# Model, parameters, times other than impacts where the acceleration is not smooth.
CASES = {
    "ball": (models.bouncing_ball, {}, []),
    "ball e=0": (models.bouncing_ball, {"e": 0.0}, []),
    "ball e=0.8": (models.bouncing_ball, {"e": 0.8}, []),
    "ball e=0.8 thrown up": (models.bouncing_ball, {"e": 0.8, "v0": 3.0, "t1": 3.0}, []),
    "ball e=0.9 thrown down": (models.bouncing_ball, {"e": 0.9, "v0": -2.0, "g": 1.5}, []),
    "ball e=1": (models.bouncing_ball, {"e": 1.0, "q0": 0.3}, []),
    "stopped": (models.stopped_oscillator, {}, []),
    "stopped e=0": (models.stopped_oscillator, {"e": 0.0, "frequency": 2.0}, []),
    "stopped e=1 undamped": (models.stopped_oscillator, {"e": 1.0, "damping": 0.0}, []),
    "impact": (models.impact_oscillator, {}, []),
    "impact e=1": (models.impact_oscillator, {"e": 1.0, "frequency": 2.6}, []),
    "impact two periods": (models.impact_oscillator, {"frequency": 4.3, "periods": 2}, []),
    "impact stop>0": (models.impact_oscillator, {"frequency": 2.2, "stop": 0.1}, []),
    "impact stop<0": (models.impact_oscillator, {"frequency": 2.8, "stop": -0.05, "e": 0.6}, []),
    "resonance": (models.resonance, {}, []),
    "resonance e=0.6": (models.resonance, {"e": 0.6, "v0": 0.2}, []),
    "resonance e=0": (models.resonance, {"e": 0.0, "v0": 0.0}, []),
    "disc": (models.disc, {}, []),
    "disc e=0": (models.disc, {"e": 0.0, "position": (0.2, 0.1), "radius": 2.0}, []),
    "disc e=1": (models.disc, {"e": 1.0, "position": (0.3, -1.2), "radius": 2.0}, []),
    "disc clockwise": (models.disc, {"position": (0.1, 0.2), "velocity": (0.9, 0.3)}, []),
    "disc by the centre": (models.disc, {"e": 0.8, "velocity": (-1.0, 0.0), "t1": 9.0}, []),
    "disc along the wall": (models.disc, {"velocity": (0.0, 1.0)}, []),
    "disc polar": (models.disc_polar, {}, []),
    "disc polar e=1": (models.disc_polar, {"e": 1.0, "position": (0.3, 0.4)}, []),
    "disc polar clockwise": (models.disc_polar, {"e": 0.7, "velocity": (-0.5, -1.0)}, []),
    "outside disc": (models.outside_disc, {}, []),
    "outside disc e=0": (models.outside_disc, {"e": 0.0, "offset": -0.8}, []),
    "outside disc head on": (models.outside_disc, {"e": 0.5, "offset": 0.0}, []),
    "wedge": (models.wedge, {}, []),
    "wedge 2": (models.wedge, {"count": 2, "speed": 0.7}, []),
    "wedge 7": (models.wedge, {"count": 7, "offset": 0.2}, []),
    "lift off": (models.lift_off, {}, [math.pi / 2]),
    "line polar": (models.line_polar, {}, []),
    "line polar e=0": (models.line_polar, {"e": 0.0, "mass": 0.7, "wall_angle": -2.0,
                                          "position": (-0.5, -2.0), "velocity": (0.4, 1.0)}, []),
    "line polar away": (models.line_polar, {"velocity": (1.0, 0.2)}, []),
    "table": (models.vibrating_table, {}, []),
    "table e=1": (models.vibrating_table, {"e": 1.0, "acceleration": 2.0}, []),
    "table two periods": (models.vibrating_table, {"e": 0.8, "acceleration": 3.0,
                                                   "periods": 2}, []),
    "table e=0": (models.vibrating_table, {"e": 0.0}, [LAUNCH]),
    "row": (models.row_of_balls, {}, []),
    "row of five e=0.5": (models.row_of_balls, {"count": 5, "e": 0.5, "speed": 2.0}, []),
    "row of four e=0": (models.row_of_balls, {"count": 4, "e": 0.0}, []),
    "row with gaps": (models.row_of_balls, {"count": 5, "spacing": 0.3}, []),
    "row with gaps e=0.7": (models.row_of_balls, {"count": 4, "e": 0.7, "spacing": 0.2,
                                                  "t1": 60.0}, []),
    "row with gaps e=0": (models.row_of_balls, {"count": 4, "e": 0.0, "spacing": 0.2,
                                                "t1": 5.0}, []),
    "stack": (models.stack, {}, []),
    "stack dropped": (models.stack, {"count": 4, "height": 0.3, "mass": 2.5}, []),
    "stack dropped e=0.5": (models.stack, {"count": 3, "height": 0.3, "e": 0.5}, []),
    "wall": (models.wall, {}, []),
    "wall e=0": (models.wall, {"e": 0.0, "speed": 3.0}, []),
    "nonunique": (models.nonunique, {}, []),
    "nonunique bouncing": (models.nonunique, {"bouncing": True}, bump_parts(0.5)),
    "nonunique bouncing e=0.6": (models.nonunique, {"bouncing": True, "e": 0.6}, bump_parts(0.6)),
    "pair": (models.impact_pair, {}, []),
    "pair e=1": (models.impact_pair, {"e": 1.0, "clearance": 1.0}, []),
    "pair e=0.2": (models.impact_pair, {"e": 0.2, "amplitude": 0.3, "frequency": 5.0,
                                        "clearance": 1.2}, []),
    "block": (models.rocking_block, {}, []),
    "block e=0": (models.rocking_block, {"e": 0.0}, []),
    "block e=1": (models.rocking_block, {"e": 1.0, "angle": 0.19}, []),
    "block e=0.5": (models.rocking_block, {"e": 0.5, "slenderness": 1.0, "angle": 0.9,
                                           "rate": 1.3}, []),
    "cradle": (models.newtons_cradle, {}, []),
    "cradle two raised e=0.5": (models.newtons_cradle, {"raised": 2, "e": 0.5}, []),
    "cradle e=0": (models.newtons_cradle, {"count": 3, "e": 0.0, "frequency": 3.0}, []),
    "cradle with gaps": (models.newtons_cradle, {"spacing": 0.1}, []),
    "cradle with gaps e=0.8": (models.newtons_cradle, {"spacing": 0.02, "e": 0.8, "raised": 2,
                                                       "count": 4}, []),
    "cam": (models.cam_and_follower, {}, LIFT + math.pi * np.arange(3)),
    "cam e=0.5": (models.cam_and_follower, {"e": 0.5, "preload": 2.0, "t1": 4.0},
                  [math.acos(-2 / 3) / 2]),
    "cam e=0.9": (models.cam_and_follower, {"e": 0.9, "mass": 0.5, "stiffness": 0.6,
                                            "preload": 0.4}, [math.acos(-2 / 7) / 2]),
    "double pendulum": (models.double_pendulum, {}, np.arange(0.0, 7.0, 0.2)),
    "double pendulum e=0.3": (models.double_pendulum, {"e": 0.3, "masses": (2.0, 1.0), "t1": 3.0,
                                                       "rods": (0.7, 1.1)}, np.arange(0, 3, 0.2)),
    # cut where an interpolation needs it, for the fastest mode
    "cantilever": (models.cantilever, {"modes": 3}, np.arange(0.0, 11.5, 0.2)),
    "cantilever e=1 undamped": (models.cantilever, {"e": 1.0, "damping": 0.0},
                                np.arange(0.0, 11.5, 0.5)),
    "cantilever sticks": (models.cantilever, {"e": 0.5, "force": 1.0, "t1": 0.4}, []),
    "cantilever sticks e=0": (models.cantilever, {"e": 0.0, "modes": 3, "t1": 1.34},
                              np.arange(0.0, 1.2, 0.2)),
    "cantilever, one element": (models.cantilever, {"elements": 1}, np.arange(0.0, 11.5, 0.2)),
    "cantilever e=0.6": (models.cantilever, {"e": 0.6, "force": 0.6, "rate": 2.0,
                                             "frequency": 6.0}, np.arange(0.0, 6.0, 0.3)),
    "cam without flight": (models.cam_and_follower, {"e": 0.5, "preload": 4.0}, []),
}  # fmt: skip


@cache
def case(name):
    model, parameters, breaks = CASES[name]
    return model(**parameters), breaks


@pytest.fixture(params=CASES)
def problem(request):
    return case(request.param)[0]


@pytest.fixture(params=CASES)
def problem_and_breaks(request):
    return case(request.param)


def slow_impacts(problem):
    """The interval before an accumulation where impacts are too slow to be listed; may be empty."""
    if problem.accumulation in (None, problem.t0) or problem.accumulation > problem.t1:
        return problem.t1, problem.t1
    return problem.impact_times[-1], problem.accumulation


def smooth_pieces(problem, breaks):
    """(k, 2): parts of the first and last intervals between impacts, breaks and the ends."""
    slow = slow_impacts(problem)
    times = np.unique([problem.t0, problem.t1, *problem.impact_times, *breaks, *slow])
    pairs = np.stack([times[:-1], times[1:]], axis=-1)
    pairs = pairs[(np.diff(pairs)[:, 0] > 3e-2) & (pairs[:, 0] != slow[0])]
    cuts = [np.linspace(a, b, 5) for a, b in [*pairs[:4], *pairs[4:][-2:]]]
    return np.concatenate([np.stack([x[:-1], x[1:]], axis=-1) for x in cuts])


def differentiate(problem, pieces, nodes=20):
    """t (n,), q, q', v, v' (n, d): derivatives by interpolation on each piece (a, b)."""
    cheb = np.polynomial.chebyshev
    x = cheb.chebpts1(nodes)
    half = np.diff(pieces)[:, 0] / 2
    t = pieces.mean(axis=1)[:, None] + half[:, None] * x
    # (nodes, nodes): values at x to derivatives at x
    D = cheb.chebval(x, cheb.chebder(np.linalg.inv(cheb.chebvander(x, nodes - 1)))).T
    q, v = problem.exact(t.ravel())

    def slope(y):
        return (D @ y.reshape(*t.shape, -1) / half[:, None, None]).reshape(y.shape)

    return t.ravel(), q, slope(q), v, slope(v)


@eqx.filter_jit
def evaluate_batch(system, t, q, v):
    def gap(t, q):
        return jnp.atleast_1d(system.gap(t, q))

    def one(t, q, v):
        M = jax.vmap(system.metric(q).apply)(jnp.eye(len(q)))
        rate, rows = jax.jacfwd(gap, (0, 1))(t, q)
        return gap(t, q), rate, rows, M, system.force(t, q, v)

    return jax.vmap(one)(t, q, v)


def evaluate(problem, t, q, v, batch=512):
    """gap (n, p), d_t gap (n, p), grad gap (n, p, d), M (n, d, d) and force (n, d).

    In batches of one size, so that each pair of functions is compiled once.
    """
    pad = np.minimum(np.arange(-(-len(t) // batch) * batch), len(t) - 1)
    parts = [evaluate_batch(problem.system, t[k], q[k], v[k]) for k in pad.reshape(-1, batch)]
    return [np.concatenate(x)[: len(t)] for x in zip(*parts, strict=True)]


def test_starts_from_its_data(problem):
    q, v = problem.exact(np.array([problem.t0]))
    assert np.allclose(q[0], problem.q0, rtol=0, atol=1e-14)
    assert np.allclose(v[0], problem.v0, rtol=0, atol=1e-14)
    assert problem.q0.shape == problem.v0.shape == q[0].shape


def test_shapes_and_range(problem):
    t = np.linspace(problem.t0, problem.t1, 7)
    q, v = problem.exact(t)
    assert q.shape == v.shape == (7, len(problem.q0))
    # one time alone, the last one, is the same as in a batch
    assert np.allclose(problem.exact(t[-1]), (q[-1], v[-1]), 0, 1e-14)
    with pytest.raises(TimeError, match="larger t1"):
        problem.exact(np.array([problem.t1 + 1e-3]))


def test_admissible(problem):
    t = np.concatenate([np.linspace(problem.t0, problem.t1, 3001), problem.impact_times])
    gap, *_ = evaluate(problem, t, *problem.exact(t))
    assert gap.min() >= -1e-12


def test_equation_of_motion(problem_and_breaks):
    """q' = v and M v' - f = sum of lam_i grad g_i, lam_i >= 0, over the gaps that are closed."""
    problem, breaks = problem_and_breaks
    t, q, dq, v, dv = differentiate(problem, smooth_pieces(problem, breaks))
    scale = 1 + np.abs(v).max() + np.abs(dv).max()
    assert np.abs(dq - v).max() < 1e-10 * scale
    gap, _, rows, M, force = evaluate(problem, t, q, v)
    reaction = np.einsum("nij,nj->ni", M, dv) - force
    for g, G, r in zip(gap, rows, reaction, strict=True):
        closed = G[g < 1e-11]
        lam = np.linalg.lstsq(closed.T, r)[0] if len(closed) else np.zeros(0)
        assert np.abs(closed.T @ lam - r).max() < 1e-9 * scale
        assert np.all(lam > -1e-9 * scale)


def test_impact_law(problem):
    """v+ = v- + (1+e) M^-1 G^T lam, where lam >= 0 projects v- onto the admissible velocities."""
    t = problem.impact_times[:30]
    if not len(t):
        return
    before = 1e-13 * max(problem.t1, 1.0)
    q, after = problem.exact(t)
    q_minus, v = problem.exact(t - before)
    speed = np.abs(v).max()
    assert np.abs(q - q_minus).max() < 1e-11 * (1 + speed)
    gap, rate, rows, M, _ = evaluate(problem, t, q, v)
    for i in range(len(t)):
        closed = gap[i] < 1e-12
        G, c = rows[i][closed], rate[i][closed]
        assert np.any(c + G @ v[i] < 0)  # an impact, not a passage
        expected = impact(M[i], G, c, v[i], float(problem.system.restitution))
        assert np.abs(after[i] - expected).max() < 1e-11 * (1 + speed)


def impact(M, G, rate, v, e):
    """The impact law by non-negative least squares: min |B lam - b|, B = L^-1 G^T, M = L L^T."""
    L = np.linalg.cholesky(M)
    B = np.linalg.solve(L, G.T)
    b = -L.T @ v - B @ np.linalg.solve(B.T @ B, rate)
    lam = nnls(B, b)[0]
    return v + (1 + e) * np.linalg.solve(L.T, B @ lam)


def test_no_other_impact(problem):
    """Between two times of a fine grid without a listed impact, v moves by no more than |a| dt."""
    t = np.linspace(problem.t0, problem.t1, 20001)
    _, v = problem.exact(t)
    jump = np.abs(np.diff(v, axis=0)).max(axis=-1)
    listed = np.isin(np.arange(len(t) - 1), np.searchsorted(t, problem.impact_times) - 1)
    last, accumulation = slow_impacts(problem)
    assert accumulation - last < 1e-5 * problem.t1
    listed |= (t[1:] > last) & (t[:-1] < accumulation)
    smooth = jump[~listed]
    # a smooth v has jumps of similar size from one step to the next; an impact stands out
    assert np.abs(np.diff(smooth)).max() < 1e-3 * (1 + np.abs(v).max())
    assert smooth.max() < 5e-2 * (1 + np.abs(v).max())


def test_ball_values():
    ball = models.bouncing_ball(e=0.5)
    assert ball.accumulation == pytest.approx(1.3545709229571927, abs=1e-15)
    assert np.allclose(ball.exact(1.0), [[0.0612555656575454], [0.156255565657545]], 0, 1e-14)
    assert np.all(np.array(ball.exact(np.linspace(1.36, ball.t1, 9))) == 0.0)
    ball = models.bouncing_ball(e=0.8)
    assert ball.accumulation == pytest.approx(4.063712768871579, abs=3e-15)
    assert np.allclose(ball.exact(3.0), [[0.068707460965766], [-0.015354133384739]], 0, 3e-14)


def test_ball_total_impulse():
    """Impulses (1+e) V e^(n-1) up to rest add up to V (1+e)/(1-e)."""
    ball = models.bouncing_ball(e=0.5, q0=2.0, g=3.0)
    after = ball.exact(ball.impact_times)[1][:, 0]
    impulse = np.sum(after * (1 + 1 / 0.5))
    V = math.sqrt(2 * 3.0 * 2.0)
    assert impulse == pytest.approx(V * 1.5 / 0.5, rel=2e-6)  # impacts below 1e-6 V are not listed


def test_ball_almost_elastic():
    """e near 1 joins e = 1 without cancellation."""
    t = np.linspace(0, 4, 101)
    near = models.bouncing_ball(e=1 - 1e-13, t1=4.0).exact(t)[0]
    assert np.allclose(near, models.bouncing_ball(e=1.0, t1=4.0).exact(t)[0], 0, 1e-11)


def test_impact_oscillator_values():
    problem = models.impact_oscillator(e=0.8, frequency=2.5, stop=0.0)
    after = problem.exact(problem.impact_times)[1][:, 0]
    assert np.allclose(after, -0.8 * 0.6453521784141956, 0, 1e-14)
    assert np.allclose(np.diff(problem.impact_times), 2 * math.pi / 2.5, 0, 1e-14)


def test_impact_oscillator_two_periods():
    problem = models.impact_oscillator(frequency=4.3, periods=2)
    assert np.allclose(np.diff(problem.impact_times), 4 * math.pi / 4.3, 0, 1e-14)


def test_resonance_speeds():
    problem = models.resonance(e=1.0, v0=1.0)
    after = problem.exact(problem.impact_times)[1][:, 0]
    assert np.allclose(after, 1 + 4 / 3 * np.arange(1, 11), 1e-14)
    problem = models.resonance(e=0.5, t1=200.0)
    assert problem.exact(problem.impact_times[-1:])[1][0, 0] == pytest.approx(0.5 * 8 / 3)


def test_disc_values():
    problem = models.disc(e=0.5)
    T = problem.accumulation
    assert pytest.approx(2.7661860071294866, abs=2e-15) == T
    angle = 3.48657324094468 + np.array([0.0, 0.4])
    q, v = problem.exact(T + np.array([0.0, 0.4]))
    assert np.allclose(q, np.stack([np.cos(angle), np.sin(angle)], -1), 0, 1e-14)
    assert np.allclose(v, np.stack([-np.sin(angle), np.cos(angle)], -1), 0, 1e-14)


def test_disc_elastic_invariants():
    problem = models.disc(e=1.0, position=(0.3, -1.2), velocity=(-1.0, 1.0), radius=2.0)
    q, v = problem.exact(np.linspace(0, problem.t1, 501))
    assert np.allclose(q[:, 0] * v[:, 1] - q[:, 1] * v[:, 0], 0.3 - 1.2, 0, 1e-13)
    assert np.allclose(np.diff(problem.impact_times, 2), 0, 0, 1e-13)


@pytest.mark.parametrize("e", [0.0, 0.5, 0.9, 1.0])
def test_disc_polar_is_the_disc(e):
    start = {"e": e, "position": (0.4, 0.5), "velocity": (-0.2, -0.9)}
    polar, cartesian = models.disc_polar(**start), models.disc(**start)
    t = np.linspace(0, polar.t1, 1001)
    (r, th), (dr, dth) = (x.T for x in polar.exact(t))
    q, v = cartesian.exact(t)
    radial, across = np.stack([np.cos(th), np.sin(th)], -1), np.stack([-np.sin(th), np.cos(th)], -1)
    assert np.allclose(r[:, None] * radial, q, 0, 1e-13)
    assert np.allclose(dr[:, None] * radial + (r * dth)[:, None] * across, v, 0, 1e-13)
    assert np.abs(np.diff(th)).max() < 1.0  # continuous: no jump of 2 pi


def test_disc_polar_values():
    problem = models.disc_polar(e=0.5)
    q, _ = problem.exact(problem.accumulation)
    assert np.allclose(q, [1.0, 3.48657324094468], 0, 1e-14)


@pytest.mark.parametrize("offset", [-0.9, 0.0, 0.5])
def test_outside_disc_deflection(offset):
    _, v = models.outside_disc(offset=offset, radius=1.0).exact(4.0)
    turned = math.atan2(v[1], v[0])
    assert math.cos(turned - 2 * math.acos(offset)) == pytest.approx(1.0, abs=1e-14)
    assert np.linalg.norm(v) == pytest.approx(1.0, abs=1e-14)


@pytest.mark.parametrize("count", [2, 3, 5, 12])
def test_wedge_reflections(count):
    problem = models.wedge(count=count, distance=30.0)
    assert len(problem.impact_times) == count
    t = np.array([problem.t1, problem.t1 * 0.999])
    gap, *_ = evaluate(problem, t, *problem.exact(t))
    assert np.all(gap[0] > gap[1])  # it recedes from both walls: no more impacts


def test_lift_off_values():
    q, v = models.lift_off().exact(np.array([1.5, 2.0, 6.0]))
    assert np.allclose(q[:, 0], [0, 2 - math.pi / 2 + math.cos(2), 6 - math.pi / 2 + math.cos(6)])
    assert np.allclose(v[:, 0], [0, 1 - math.sin(2), 1 - math.sin(6)])


def test_line_polar_reflection():
    """In Cartesian coordinates the tangential velocity is kept and the normal one times -e."""
    problem = models.line_polar(e=0.8, wall_angle=0.3, velocity=(-1.0, 0.7))
    (r, th), (dr, dth) = problem.exact(problem.t1)
    u = np.array([[math.cos(th), -math.sin(th)], [math.sin(th), math.cos(th)]]) @ [dr, r * dth]
    n, across = np.array([[math.cos(0.3), math.sin(0.3)], [-math.sin(0.3), math.cos(0.3)]])
    assert u @ across == pytest.approx(across @ [-1.0, 0.7], abs=1e-14)
    assert u @ n == pytest.approx(-0.8 * n @ [-1.0, 0.7], abs=1e-14)


def test_table_orbit():
    problem = models.vibrating_table(e=0.5, acceleration=1.2, frequency=10.0)
    T = 2 * math.pi / 10
    assert np.allclose(np.diff(problem.impact_times), T, 0, 1e-14)
    assert np.allclose(problem.exact(problem.impact_times)[1], 9.81 * T / 2, 1e-14)
    assert math.cos(10 * problem.impact_times[0]) == pytest.approx(math.pi / 3 / 1.2, abs=1e-14)


def test_table_launch():
    problem = models.vibrating_table(e=0.0, acceleration=1.2, frequency=10.0)
    t = np.array([0.9 * LAUNCH, LAUNCH + 0.01])
    gap = evaluate(problem, t, *problem.exact(t))[0][:, 0]
    assert abs(gap[0]) < 1e-16
    assert gap[1] > 0
    assert problem.t1 > LAUNCH
    with pytest.raises(TimeError, match="lands"):
        models.vibrating_table(e=0.0, t1=problem.t1 * 1.5)


@pytest.mark.parametrize(("count", "e"), [(3, 1.0), (3, 0.4), (6, 0.0), (6, 0.9)])
def test_touching_row(count, e):
    _, v = models.row_of_balls(count=count, e=e).exact(2.0)
    assert np.allclose(v, (1 + e) / count - e * np.eye(count)[0], 0, 1e-15)


def test_row_with_gaps_passes_the_speed_on():
    problem = models.row_of_balls(count=5, e=1.0, spacing=0.3)
    _, v = problem.exact(problem.t1)
    assert np.array_equal(v, np.eye(5)[4])
    assert np.allclose(problem.impact_times, 1.0 + 0.3 * np.arange(4), 0, 1e-14)


def test_row_with_gaps_and_loss_meets_again():
    """Balls that kept some speed catch up: more collisions than pairs, momentum kept."""
    problem, _ = case("row with gaps e=0.7")
    assert len(problem.impact_times) > 3
    _, v = problem.exact(np.linspace(0, problem.t1, 50))
    assert np.allclose(v.sum(axis=-1), 1.0, 0, 1e-13)


def test_stack_contact_forces():
    count, m, g = 5, 2.0, 9.81
    problem = models.stack(count=count, mass=m, g=g)
    t = np.array([0.5])
    q, v = problem.exact(t)
    assert np.allclose(q[0], 0.5 * (2 * np.arange(1, count + 1) - 1), 0, 1e-15)
    _, _, rows, _, force = evaluate(problem, t, q, v)
    lam = np.linalg.solve(rows[0].T, -force[0])
    assert np.allclose(lam, (count - np.arange(count)) * m * g, 1e-14)


SCENES = {"granular_gas", "settling_spheres"}  # spheres: test_grains.py
# the exact motion of the bar is that of the continuous one, not of its elements: test_bar.py
# friction: test_rubbing.py
RUBBING = {"block_on_slope", "dry_oscillator", "stick_slip", "skidding_ball", "painleve_rod"}
RUBBING |= {"brake_squeal", "woodpecker", "dimer"}
ELSEWHERE = {"elastic_bar", *SCENES, *RUBBING}


def test_catalogue():
    names = models.catalogue()
    assert all(getattr(models, name)().name == name for name in names)
    assert set(names) == set(models.__all__) - {"ModelError", "Problem", "Scene", "catalogue"}
    assert {model.__name__ for model, _, _ in CASES.values()} == set(names) - ELSEWHERE
    assert all(text.endswith(".") and "\n" not in text for text in names.values())


def test_equal_parameters_give_equal_functions():
    """So that a compiler's cache, keyed by them, serves both."""
    for name in set(models.catalogue()) - SCENES:
        first, second = (getattr(models, name)().system for _ in range(2))
        assert first.force == second.force
        assert hash(first.gap) == hash(second.gap)
        assert first.gap == second.gap


@pytest.mark.parametrize(
    ("model", "parameters"),
    [
        (models.bouncing_ball, {"q0": -1.0}),
        (models.stopped_oscillator, {"damping": 1.0}),
        (models.impact_oscillator, {"frequency": 1.0}),
        (models.impact_oscillator, {"stop": 5.0}),
        (models.resonance, {"v0": -1.0}),
        (models.disc, {"position": (2.0, 0.0)}),
        (models.disc_polar, {"velocity": (-1.0, 0.0)}),
        (models.outside_disc, {"offset": 1.5}),
        (models.wedge, {"count": 1}),
        (models.line_polar, {"position": (-2.0, 0.0)}),
        (models.vibrating_table, {"acceleration": 1.0}),
        (models.vibrating_table, {"e": 0.0, "acceleration": 0.9}),
        (models.row_of_balls, {"count": 1}),
        (models.row_of_balls, {"e": 0.05, "spacing": 0.1, "t1": 50.0}),
        (models.wall, {"speed": -1.0}),
        (models.nonunique, {"e": 0.0}),
        (models.impact_pair, {"clearance": 40.0}),
        (models.impact_pair, {"clearance": 0.01}),
        (models.rocking_block, {"angle": 0.3}),
        (models.newtons_cradle, {"raised": 5}),
        (models.cam_and_follower, {"preload": -1.0}),
        (models.cantilever, {"damping": 1.0}),
        (models.double_pendulum, {"angles": (-1.0, -1.0)}),
        (models.double_pendulum, {"rods": (1.0, 0.0)}),
        (models.newtons_cradle, {"e": 0.05, "spacing": 0.1, "t1": 50.0}),
    ],
)
def test_no_such_motion(model, parameters):
    with pytest.raises(ModelError):
        model(**parameters)


@pytest.mark.parametrize("name", sorted(set(models.catalogue()) - {"wedge"} - ELSEWHERE))
def test_restitution_is_checked(name):
    with pytest.raises(RestitutionError):
        getattr(models, name)(e=1.2)


def test_horizon_is_checked():
    with pytest.raises(TimeError):
        models.bouncing_ball(t1=-1.0)
