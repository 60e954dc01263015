"""Models with friction: values known by hand, the law along the motion, and the schemes."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import carom
from by_trait import WITH_FRICTION
from carom import models
from carom.models.problem import ModelError

G = 9.81
CASES = {
    "slides back": (models.block_on_slope, {}),
    "stays": (models.block_on_slope, {"mu": 0.8, "speed": 3.0}),
    "from rest": (models.block_on_slope, {"speed": 0.0}),
    "oscillator": (models.dry_oscillator, {}),
    "oscillator, stop": (models.dry_oscillator, {"stop": -0.3}),
    "oscillator, inelastic stop": (models.dry_oscillator, {"stop": -0.2, "e": 0.0}),
    "belt": (models.stick_slip, {}),
    "ball": (models.skidding_ball, {}),
    "ball, elastic": (models.skidding_ball, {"e": 1.0, "mu": 0.02}),
    "ball on the floor": (models.skidding_ball, {"height": 0.0, "e": 0.0, "spin": -30.0}),
    "rod": (models.painleve_rod, {}),
    "rod, other way": (models.painleve_rod, {"slip": 2.0, "angle": 1.0, "mu": 0.3}),
}
each_case = pytest.mark.parametrize("case", CASES)


def made(case):
    model, options = CASES[case]
    return model(**options)


def test_values_by_hand():
    stays = models.block_on_slope(mu=0.8, slope=0.5, speed=3.0)
    decel = G * (0.8 * math.cos(0.5) - math.sin(0.5))
    np.testing.assert_allclose(stays.exact(2.0)[0], [4.5 / decel, 0.0], rtol=1e-14)
    dry = models.dry_oscillator(mu=0.06 / G)
    k = np.arange(9)
    turns = dry.exact(k * math.pi)[0][:, 0]
    np.testing.assert_allclose(turns, (-1.0) ** k * (1 - 0.12 * k), atol=1e-14)
    np.testing.assert_allclose(dry.exact(12 * math.pi)[0], [0.04, 0.0], atol=1e-14)
    for e, height in ((0.5, 0.4), (0.0, 0.4), (0.9, 0.1), (0.5, 0.0)):
        ball = models.skidding_ball(e=e, height=height, speed=2.0, spin=-15.0)
        v = ball.exact(ball.t1)[1]
        np.testing.assert_allclose(v, [1.0, 0.0, 10.0], atol=1e-9)  # (2 - 0.4 1.5) / 1.4
    for options in ({"slope": 2.0}, {"mu": -1.0}):
        with pytest.raises(ModelError):
            models.block_on_slope(**options)
    with pytest.raises(ModelError, match="slide all along"):
        models.painleve_rod(slip=-2.0, t1=0.25)


QUICK = ("slides back", "oscillator, stop", "ball", "rod")


@pytest.mark.parametrize(
    "case", [c if c in QUICK else pytest.param(c, marks=pytest.mark.slow) for c in CASES]
)
def test_the_law_along_the_motion(case):
    """Between events: M q'' - f is a force of the contacts inside the cone, against the slip."""
    problem = made(case)
    system, h = problem.system, 1e-5
    t = np.linspace(problem.t0, problem.t1, 203)[1:-1] + 1e-3 / math.pi
    q, v = problem.exact(t)
    low, high = problem.exact(t - h), problem.exact(t + h)
    np.testing.assert_allclose((high[0] - low[0]) / (2 * h), v, atol=0.02)  # q' = v, but at impacts
    smooth = np.max(np.abs((high[1] - v) - (v - low[1])), axis=1) < 1e-7
    assert np.mean(smooth) > 0.8
    a = (high[1] - low[1]) / (2 * h)
    mu = np.broadcast_to(np.asarray(system.friction), np.shape(system.gaps(0.0, problem.q0)))

    def data(t, q, v, a):
        c = system.contacts(t, q)
        return c.gap, c.rows, c.velocity(v), system.metric(q).apply(a) - system.forces(t, q, v)

    gaps, all_rows, all_u, lefts = map(np.asarray, jax.jit(jax.vmap(data))(t, q, v, a))
    for i in np.flatnonzero(smooth):
        closed, left = gaps[i] < 1e-9, lefts[i]
        rows = all_rows[i, closed].reshape(-1, len(q[i]))
        lam, *_ = np.linalg.lstsq(rows.T, left, rcond=None)
        np.testing.assert_allclose(rows.T @ lam, left, atol=3e-5)
        lam, u = lam.reshape(-1, 2), all_u[i, closed]
        bound = mu[closed] * lam[:, 0]
        assert np.all(lam[:, 0] > -1e-4)
        assert np.all(np.abs(lam[:, 1]) <= bound + 1e-4)
        slides = np.abs(u[:, 1]) > 1e-6
        against = -np.sign(u[:, 1]) * bound
        np.testing.assert_allclose(lam[slides, 1], against[slides], atol=1e-4)


@pytest.mark.slow
@each_case
def test_event_detection_finds_it(case):
    problem = made(case)
    span = {"t0": problem.t0, "t1": problem.t1, "dt": (problem.t1 - problem.t0) / 40}
    sol = carom.solve(problem.system, carom.EventDriven(), problem.q0, problem.v0, **span)
    q, v = problem.exact(sol.t)
    np.testing.assert_allclose(sol.q, q, atol=1e-8)
    known = problem.impact_times
    far = np.min(np.abs(sol.t[:, None] - np.append(known, -1.0)), axis=1) > 1e-3
    np.testing.assert_allclose(sol.v[far], v[far], atol=2e-6)
    assert sol.stats.fallbacks == 0
    if len(known):
        np.testing.assert_allclose(sol.impacts.time[: len(known)], known, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", WITH_FRICTION, ids=str)
@pytest.mark.parametrize("case", ["slides back", "oscillator", "belt", "ball", "rod"])
def test_time_stepping_tends_to_it(case, scheme):
    problem = made(case)
    errors = []
    for steps in (1009, 8009):
        dt = (problem.t1 - problem.t0) / steps
        sol = carom.solve(problem.system, scheme, problem.q0, problem.v0, t1=problem.t1, dt=dt)
        errors.append(np.max(np.abs(sol.q - problem.exact(np.minimum(sol.t, problem.t1))[0])))
    assert errors[1] < 0.3 * errors[0]


@pytest.mark.slow
@pytest.mark.parametrize("steps", [1009, 3001, 8009, 24007])
def test_the_theta_method_bounces_until_it_rolls(steps):
    """Its error is a draw, the part of a step at which a bounce falls, within a bound of order 1
    (13 dt in q, whose last entry is the angle; Moreau is off by up to 17.5 dt)."""
    problem = made("ball")
    dt, start = problem.t1 / steps, (problem.q0, problem.v0)
    for theta in (0.5, 0.75, 1.0):
        sol = carom.solve(
            problem.system, carom.MoreauJean(theta=theta), *start, t1=problem.t1, dt=dt
        )
        exact = problem.exact(np.minimum(sol.t, problem.t1))[0]
        assert np.max(np.abs(sol.q - exact)) < 13.0 * dt


@pytest.mark.slow
@pytest.mark.parametrize("model", [models.stick_slip, models.painleve_rod, models.brake_squeal])
def test_the_theta_method_is_of_order_two(model):
    """While nothing strikes and no slip turns round from one step to the next."""
    problem = model()
    errors = []
    for steps in (1009, 4001):
        dt = (problem.t1 - problem.t0) / steps
        start = problem.q0, problem.v0
        sol = carom.solve(problem.system, carom.MoreauJean(), *start, t1=problem.t1, dt=dt)
        errors.append(np.max(np.abs(sol.q - problem.exact(np.minimum(sol.t, problem.t1))[0])))
    assert errors[1] < 1.2 * errors[0] * (1009 / 4001) ** 2


# carom.study.


def shaken(amplitude):
    """A mass on a rough floor that is shaken, between springs."""

    def force(t, q, v):
        return jnp.stack([amplitude * jnp.cos(2.0 * t) - q[0], jnp.asarray(-G)])

    return carom.System(force=force, gap=lambda t, q: q[1], slip=lambda t, q, v: v[0], friction=0.2)


@pytest.mark.slow
def test_a_sweep_a_diagram_and_basins():
    """Den Hartog: shaken by less than mu g it never moves; by more it swings, alike each time."""
    options = {"q0": jnp.zeros(2), "v0": jnp.zeros(2)}
    shakes = np.array([0.5, 0.9, 1.5, 3.0]) * 0.2 * G
    scheme = carom.EventDriven()
    ends = carom.study.sweep(
        shaken, {"amplitude": shakes}, scheme=scheme, dt=math.pi, steps=4, **options
    )
    assert np.all(ends.status == 0)
    moved = np.abs(ends.q.values[:, 0]) > 0.0
    np.testing.assert_array_equal(moved, [False, False, True, True])
    diagram = carom.study.bifurcation(
        shaken, shakes, period=math.pi, scheme=scheme, steps=1, settle=40, keep=3, carried=False,
        **options,
    )  # fmt: skip
    strobe = diagram.strobe_q.values[0, :, :, 0]
    np.testing.assert_allclose(strobe, strobe[:, :1] * np.ones(3), atol=1e-6)
    fine = carom.study.bifurcation(
        shaken, shakes, period=math.pi, scheme=carom.Moreau(), steps=2000, settle=40, keep=3,
        carried=False, **options,
    )  # fmt: skip
    np.testing.assert_allclose(fine.strobe_q.values[0, :, :, 0], strobe, atol=5e-3)
    found = carom.study.basins(
        shaken(jnp.asarray(shakes[3])), {"x": np.array([-1.0, 0.0, 2.0])}, period=math.pi,
        q0=lambda x: jnp.stack([x, 0.0]), v0=lambda: jnp.zeros(2), scheme=scheme, steps=1,
        settle=40, keep=4,
    )  # fmt: skip
    np.testing.assert_array_equal(found.attractor, 0)


def test_studies_that_need_derivatives_say_so():
    system = shaken(jnp.asarray(1.0))
    with pytest.raises(carom.errors.StudyError, match="friction"):
        carom.study.lyapunov(system, [0.0, 0.0], [0.0, 0.0], interval=1.0)
    with pytest.raises(carom.errors.StudyError, match="friction"):
        carom.study.orbit(system, [0.0, 0.0], [0.0, 0.0], period=1.0)
