"""Friction under event detection: closed forms to 1e-9, at any spacing, and another route."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import carom
import hybrid_friction as by_hand
from carom.schemes.sliding import Sliding, chosen

G = 9.81
EVENTS = carom.EventDriven()


class Pulled(eqx.Module):
    """Gravity on a slope and a spring: new numbers compile nothing anew."""

    slope: jax.Array
    stiffness: jax.Array

    def __call__(self, t, q, v):
        along = G * jnp.sin(self.slope) - self.stiffness * q[0]
        return jnp.stack([along, -G * jnp.cos(self.slope)])


class Belt(eqx.Module):
    """The sliding velocity on a belt whose speed jumps to another at t = 1."""

    speed: jax.Array
    later: jax.Array

    def __call__(self, t, q, v):
        return v[0] - jnp.where(t < 1.0, self.speed, self.later)


def floor(t, q):
    return q[1]


def block(mu, slope=0.0, stiffness=0.0, speed=0.0, later=None, e=0.0):
    numbers = (slope, stiffness, speed, speed if later is None else later)
    slope, stiffness, speed, later = (jnp.asarray(x, float) for x in numbers)
    return carom.System(
        force=Pulled(slope, stiffness),
        gap=floor,
        slip=Belt(speed, later),
        friction=mu,
        restitution=e,
    )


def run(system, x0, v0, t1, dt, scheme=EVENTS):
    return carom.solve(system, scheme, [x0, 0.0], [v0, 0.0], t1=t1, dt=dt)


def test_a_block_on_a_slope_and_on_the_level():
    """It rests, slides, stops, goes up and comes back; rests where tan th = mu."""
    for dt in (0.1, 0.5):
        rests = run(block(0.5, 0.3), 0.0, 0.0, 1.0, dt)
        np.testing.assert_array_equal(rests.q, 0.0)
        np.testing.assert_allclose(rests.friction[1:, 0], -G * np.sin(0.3) * dt, rtol=1e-13)
        np.testing.assert_array_equal(run(block(np.tan(0.3), 0.3), 0.0, 0.0, 1.0, dt).q, 0.0)
        slides = run(block(0.3, 0.5), 0.0, 0.0, 1.0, dt)
        a = G * (np.sin(0.5) - 0.3 * np.cos(0.5))
        np.testing.assert_allclose(slides.q[:, 0], 0.5 * a * slides.t**2, atol=1e-13)
        stops = run(block(0.3), 0.0, 2.0, 1.0, dt)
        assert stops.q[-1, 0] == pytest.approx(4.0 / (0.6 * G), rel=1e-13)
        assert stops.v[-1, 0] == 0.0
        back = run(block(0.3, 0.5), 0.0, -2.0, 2.0, dt)
        t = 2.0 / (G * (np.sin(0.5) + 0.3 * np.cos(0.5)))
        assert back.q[-1, 0] == pytest.approx(-t + 0.5 * a * (2.0 - t) ** 2, rel=1e-11)


@pytest.mark.parametrize("speed", [-1.0, 0.0, 1.0])
def test_no_friction_either_way(speed):
    """mu = 0 slides whichever way, and turns with no event."""
    sol = run(block(0.0, 0.5), 0.0, speed, 1.0, 0.5)
    exact = speed * sol.t + 0.5 * G * np.sin(0.5) * sol.t**2
    np.testing.assert_allclose(sol.q[:, 0], exact, atol=1e-13)


def test_spring_and_dry_friction():
    """Turning points (-1)^k (x0 - 2 k mu g), then it sticks."""
    sol = run(block(0.06 / G, stiffness=1.0), 1.0, 0.0, 10 * np.pi, np.pi)
    k = np.arange(9)
    np.testing.assert_allclose(sol.q[:9, 0], (-1.0) ** k * (1.0 - 0.12 * k), atol=1e-11)
    np.testing.assert_allclose(sol.q[8:, 0], 0.04, atol=1e-11)
    np.testing.assert_array_equal(sol.v[9:], 0.0)


def test_stick_slip_on_a_belt():
    """Carried until the spring pulls as much as friction; then it swings and just grazes stick."""
    mu, speed, k = 0.3, 0.5, 4.0
    sol = run(block(mu, stiffness=k, speed=speed), 0.0, speed, 9.0, 0.3)
    edge, w = mu * G / k, np.sqrt(k)
    swings = edge + speed / w * np.sin(w * (sol.t - edge / speed))
    exact = np.where(sol.t < edge / speed, speed * sol.t, swings)
    np.testing.assert_allclose(sol.q[:, 0], exact, atol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("told", [True, False])
def test_a_belt_that_turns_back_at_once(told):
    """A block that sticks to it slides, told of the jump or not."""
    mu = 0.3
    scheme = carom.EventDriven(jumps=[1.0]) if told else EVENTS
    sol = run(block(mu, speed=1.0, later=-1.0), 0.0, 1.0, 3.0, 0.1, scheme)
    d, a = np.maximum(sol.t - 1.0, 0.0), mu * G
    slides = 1.0 + d - 0.5 * a * d**2
    exact = np.where(d == 0.0, sol.t, np.where(d < 2 / a, slides, 1.0 + 2 / a - d))
    np.testing.assert_allclose(sol.q[:, 0], exact, atol=1e-10)


def ball(mu, e, inertia=0.4):
    return carom.System(
        mass=jnp.array([1.0, 1.0, inertia]),
        force=lambda t, q, v: jnp.array([0.0, -G, 0.0]),
        gap=lambda t, q: q[1] - 1.0,
        slip=lambda t, q, v: v[0] + v[2],
        friction=mu,
        restitution=e,
    )


@pytest.mark.slow
def test_a_ball_that_bounces_rolls_in_the_end():
    """(5 v0 - 2 w0) / 7, through an accumulation of oblique impacts; J_t = min(mu J_n, 2/7 |s|)."""
    for height, e in ((1.0, 0.0), (1.5, 0.6)):
        sol = carom.solve(ball(0.3, e), EVENTS, [0.0, height, 0.0], [3.0, 0.0, 1.0], t1=6.0, dt=0.5)
        np.testing.assert_allclose(sol.v[-1, [0, 2]], np.array([2.6, -2.6]) / 1.4, rtol=1e-13)
    for mu in (0.05, 0.8):
        sol = carom.solve(ball(mu, 0.7), EVENTS, [0.0, 1.5, 0.0], [2.0, -3.0, 0.5], t1=0.5, dt=0.5)
        normal = 1.7 * np.sqrt(9.0 + G)
        assert sol.impulse[1, 0] == pytest.approx(normal, rel=1e-12)
        assert sol.friction[1, 0] == pytest.approx(-min(mu * normal, 5.0 / 7.0), rel=1e-12)


@pytest.mark.slow
def test_no_friction_and_endless_friction():
    plain = carom.System(force=Pulled(jnp.array(0.2), jnp.array(0.0)), gap=floor, restitution=0.5)
    start, span = ([0.0, 0.3], [1.0, 0.0]), {"t1": 3.0, "dt": 0.1}
    without = carom.solve(plain, EVENTS, *start, **span)
    zero = carom.solve(block(0.0, 0.2, e=0.5), EVENTS, *start, **span)
    np.testing.assert_allclose(zero.q, without.q, atol=1e-11)
    endless = carom.solve(block(1e3, 0.2, e=0.5), EVENTS, *start, **span)
    first = int(np.argmax(endless.impulse[:, 0] > 0.0))
    assert np.max(np.abs(np.diff(endless.q[first:, 0]))) < 0.1 * G * 0.2
    np.testing.assert_allclose(endless.v[-5:, 0], 0.0, atol=1e-12)


# A body in the plane with one or two feet: springs, waves, a belt that swings.


class Body(eqx.Module):
    """The functions of by_hand, of its parameters x."""

    x: jax.Array

    @property
    def feet(self):
        return self.x[by_hand.HEAD :: 2], self.x[by_hand.HEAD + 1 :: 2]

    def force(self, t, q, v):
        x = self.x
        wave = jnp.array([jnp.sin(x[7] * t), 0.0, jnp.cos(x[7] * t)])
        springs = jnp.array([-x[3] * q[0], -x[0] * x[2], -x[4] * q[2]])
        return springs + jnp.array([x[5], 0.0, x[6]]) * wave

    def gap(self, t, q):
        a, b = self.feet
        return q[1] + a * jnp.sin(q[2]) + b * jnp.cos(q[2])

    def slip(self, t, q, v):
        (a, b), x = self.feet, self.x
        return (
            v[0]
            - (a * jnp.sin(q[2]) + b * jnp.cos(q[2])) * v[2]
            - (x[8] + x[9] * jnp.sin(x[10] * t))
        )

    def system(self):
        x = self.x
        return carom.System(
            mass=x[jnp.array([0, 0, 1])],
            force=_Of(self, "force"),
            gap=_Of(self, "gap"),
            slip=_Of(self, "slip"),
            friction=x[11],
            restitution=x[12],
        )


class _Of(eqx.Module):
    body: Body
    name: str = eqx.field(static=True)

    def __call__(self, *args):
        return getattr(self.body, self.name)(*args)


def random_body(rng, feet):
    """Parameters and a state that is admissible."""
    x, length = np.zeros(by_hand.HEAD + 2 * feet), rng.uniform(0.3, 1.0)

    def maybe(low, high):
        return rng.choice([0.0, rng.uniform(low, high)])

    x[0] = rng.uniform(0.5, 2.0)
    x[1] = x[0] * length**2 * rng.uniform(0.2, 0.6)
    x[2:8] = G, maybe(5, 60), maybe(0, 20), maybe(1, 12), maybe(0, 3), rng.uniform(1, 12)
    x[8:13] = maybe(-1, 1), maybe(0, 1), rng.uniform(1, 9), rng.uniform(0.05, 0.8), maybe(0, 0.8)
    wide = [rng.uniform(-0.05, 0.05)] if feet == 1 else rng.uniform(0.5, 1.0, 2) * [-length, length]
    x[by_hand.HEAD :: 2], x[by_hand.HEAD + 1 :: 2] = wide, -length * rng.uniform(0.3, 1.0, feet)
    angle, lift = rng.uniform(-0.5, 0.5), maybe(0.05, 0.3)
    low = np.min(x[by_hand.HEAD :: 2] * np.sin(angle) + x[by_hand.HEAD + 1 :: 2] * np.cos(angle))
    v = rng.normal(size=3) * [1.0, 1.0, 2.0]
    return x, [0.2 * rng.normal(), lift - low, angle], v if lift else 0.0 * v


def compared(feet, count, seed, t1=1.5):
    """Errors of count random bodies, and how each of the two routes ended."""
    rng = np.random.default_rng(seed)
    data = [random_body(rng, feet) for _ in range(count)]

    def one(given):
        x, q0, v0 = given
        sol = carom.solve(Body(x).system(), EVENTS, q0, v0, t1=t1, dt=t1 / 3)
        return jnp.concatenate([sol.q[-1], sol.v[-1]]), sol.status, sol.stats.fallbacks

    given = tuple(jnp.asarray(np.array(z)) for z in zip(*data, strict=True))
    ends, status, fallbacks = jax.jit(lambda g: jax.lax.map(one, g))(given)
    rows = []
    for k, (x, q0, v0) in enumerate(data):
        y, code, hits, changes = by_hand.moved(x, np.concatenate([q0, v0]), t1, 2e-3)[:4]
        error = np.max(np.abs(np.asarray(ends[k]) - y) / (1.0 + np.abs(y)))
        rows.append((error, code, bool(status._value[k] == 0), int(fallbacks[k]), hits, changes))
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("feet", [1, 2])
def test_random_bodies(feet):
    """Where the law has one answer all along, both routes find it."""
    rows = compared(feet, 40, 100 + feet)
    alike = [row for row in rows if row[1] == by_hand.OK]
    assert len(alike) >= 36
    for error, _, ok, _, _, _ in alike:
        assert ok
        assert error < 1e-7
    assert sum(row[4] for row in alike) > 20  # impacts
    assert sum(row[5] for row in alike) > 100  # changes


@pytest.mark.slow
def test_bounces_that_end_on_two_feet():
    """A foot's bounces press it on only once the other rests: both are spent then, not neither."""
    rng = np.random.default_rng(2026)
    x, q0, v0 = [random_body(rng, 2) for _ in range(58)][-1]
    sol = carom.solve(Body(jnp.asarray(x)).system(), EVENTS, q0, v0, t1=1.5, dt=0.5)
    assert sol.stats.iterations < 1000  # 300,000 and unconverged where only one of them rests
    np.testing.assert_allclose(sol.v[-1], [x[8], 0.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(sol.gap[-1], 0.0, atol=1e-10)
    y = by_hand.moved(x, np.concatenate([q0, v0]), 1.5, 2e-3)[0]
    np.testing.assert_allclose(sol.q[-1], y[:3], atol=1e-7)


@pytest.mark.slow
def test_moreau_tends_to_it():
    """At order 1."""
    x, q0, v0 = random_body(np.random.default_rng(5), 2)
    system = Body(jnp.asarray(x)).system()
    exact = carom.solve(system, EVENTS, q0, v0, t1=1.0, dt=0.5).q[-1]
    errors = [
        np.max(np.abs(carom.solve(system, carom.Moreau(), q0, v0, t1=1.0, dt=dt).q[-1] - exact))
        for dt in (1e-3, 1e-4)
    ]
    assert errors[1] < 0.2 * errors[0] < 0.02


@pytest.mark.slow
@pytest.mark.parametrize("dt", [0.02, 0.1, 0.5])
def test_certified_at_any_spacing(dt):
    """Long records too: what was between them is asked of the scheme, and judged."""
    sol = carom.solve(block(0.3, 0.3, e=0.5), EVENTS, [0.0, 0.5], [-1.0, 0.0], t1=3.0, dt=dt)
    assert carom.certify(sol).ok
    for field in ("q", "v", "impulse", "friction"):
        wrong = np.array(getattr(sol, field))
        wrong[len(wrong) // 2] += 0.1
        wrong = eqx.tree_at(lambda s, field=field: getattr(s, field), sol, wrong)
        assert not carom.certify(wrong).ok  # not a solution, or not to be told


@pytest.mark.slow
@pytest.mark.parametrize("dt", [0.08, 0.1, 0.12, 0.3, 1.5])
def test_joints_that_answer_an_impact_are_certified(dt):
    """A pendulum in the plane that strikes: its rod pulls at the impact and pushes back after."""
    system = carom.System(
        force=lambda t, q, v: jnp.array([0.0, -G]),
        gap=lambda t, q: q[0] + 0.3,
        joint=lambda t, q: q @ q - 1.0,
        restitution=0.7,
    )
    sol = carom.solve(system, EVENTS, [1.0, 0.0], [0.0, 0.0], t1=6.0, dt=dt)
    assert carom.certify(sol).ok


# What it says of cases that are not for it.


@pytest.mark.slow
def test_painleve():
    """No acceleration obeys the law: the tip is caught, as by Moreau's scheme, and that is said."""
    system = carom.System(  # a rod whose lower end, (-cos, -sin) from its middle, slides
        mass=[1.0, 1.0, 1.0 / 3.0],
        force=lambda t, q, v: jnp.array([0.0, -G, 0.0]),
        gap=lambda t, q: q[1] - jnp.sin(q[2]),
        slip=lambda t, q, v: v[0] + jnp.sin(q[2]) * v[2],
        friction=2.0,
    )
    q0, v0 = [0.0, np.sin(1.0), 1.0], [-1.5, 0.0, 0.0]
    sol = carom.solve(system, EVENTS, q0, v0, t1=0.1, dt=0.05)
    moreau = carom.solve(system, carom.Moreau(), q0, v0, t1=0.1, dt=1e-5)
    assert sol.stats.fallbacks >= 1
    np.testing.assert_allclose(sol.q[-1], moreau.q[-1], atol=1e-4)


def test_what_is_refused():
    def space(t, q, v):
        return v[:2]

    system = carom.System(
        force=lambda t, q, v: jnp.array([0.0, 0.0, -G]),
        gap=lambda t, q: q[2],
        slip=space,
        friction=0.3,
    )
    with pytest.raises(carom.errors.FrictionError, match="in space"):
        carom.solve(system, EVENTS, [0.0] * 3, [1.0, 0.0, 0.0], t1=1.0, dt=0.1)
    many = carom.System(
        force=lambda t, q, v: -q, gap=lambda t, q: q, slip=lambda t, q, v: v, friction=0.3
    )
    with pytest.raises(carom.errors.FrictionError, match="5 gaps"):
        carom.solve(many, EVENTS, [1.0] * 5, [0.0] * 5, t1=1.0, dt=0.1)
    with pytest.raises(carom.errors.DerivativeError, match="friction"):
        jax.grad(lambda mu: run(block(mu, 0.5), 0.0, 0.0, 1.0, 0.5).q[-1, 0])(0.3)


def test_a_rod_that_falls_flat_on_a_foot_that_sticks():
    """The masses at its ends do not feel each other: a blow on one leaves rounding on the other."""
    inertia = jnp.array([[3.0, 0.0, 0.0], [0.0, 3.0, 2.0], [0.0, 2.0, 2.0]])  # masses 1 and 2
    rod = carom.System(
        mass=inertia,
        force=lambda t, q, v: -9.81 * jnp.array([0.0, 3.0, 2.0]),
        gap=lambda t, q: jnp.array([q[1], q[1] + q[2]]),
        slip=lambda t, q, v: jnp.array([v[0], v[0]]),
        friction=0.3,
        restitution=0.3,
    )
    start = {"q0": [0.0, 0.0, 1e-5], "v0": [0.0, 0.0, -0.03]}
    sol = carom.solve(rod, carom.EventDriven(), **start, t1=0.05, dt=0.05)
    assert np.max(np.abs(sol.q[-1])) < 1e-12
    received = [9.81 * 0.05, 2 * 9.81 * 0.05 + 0.06]
    assert np.allclose(np.sum(sol.impulse, axis=0), received, atol=1e-4)


@pytest.mark.parametrize(
    ("resting", "count"), [((), 1), ((0, 1), 16), ((0, 1, 2, 3), 256)], ids=str
)
def test_only_modes_that_can_be_are_solved(monkeypatch, resting, count):
    """Of the 4^p modes of four corners: those that rest stick, slip or open, the others are open.

    All 256 were solved at every event, five times over: 12 boxes took 2.8 s, and take 0.4.
    """
    corners = jnp.array([-1.5, -0.5, 0.5, 1.5])
    body = carom.System(
        mass=[1.0, 1.0, 1.0],
        force=lambda t, q, v: jnp.array([0.0, -G, 0.0]),
        gap=lambda t, q: q[1] + corners * q[2],
        slip=lambda t, q, v: v[0] + 0.1 * corners * v[2],
        friction=0.5,
    )
    solved, svd = [], jnp.linalg.svd

    def counted(B, **how):
        jax.debug.callback(lambda _: solved.append(1), B[0, 0])
        return svd(B, **how)

    monkeypatch.setattr(jnp.linalg, "svd", counted)
    flow = Sliding(body, jnp.zeros(4, int), (-jnp.inf, jnp.inf), 3)
    rests = jnp.isin(jnp.arange(4), jnp.array(resting, int))
    no, still = jnp.zeros(4, bool), jnp.zeros(3)
    chosen(flow, jnp.zeros(()), still, still, rests, jnp.ones(4, bool), no, no)
    jax.effects_barrier()
    assert len(solved) == count


def test_the_origin_of_time_does_not_decide():
    """A shaken rough floor; at t0 = 1e5 what the surface moves by in the rounding of t was slip."""

    def last(t0):
        system = carom.System(
            force=lambda t, q, v: jnp.array([0.0, -9.81]),
            gap=lambda t, q: q[1] - 0.1 * jnp.sin(6 * (t - t0)),
            slip=lambda t, q, v: v[0] - jnp.cos(5 * (t - t0)),
            friction=0.3,
            restitution=0.3,
        )
        about = {"t0": t0, "t1": t0 + 1.0, "dt": 0.05}
        sol = carom.solve(system, carom.EventDriven(), [0.0, 0.1], [1.0, 0.0], **about)
        return np.concatenate([sol.q[-1], sol.v[-1]])

    right = last(0.0)
    for t0 in (1e5, 1e6):
        assert np.max(np.abs(last(t0) - right)) < 1e-14 * t0
