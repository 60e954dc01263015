"""Mechanisms in redundant coordinates, held together by joints, against the same in free ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import simpson

import carom
from by_trait import STEPPING_WITH_FRICTION, WITH_FRICTION

G = 9.81
STEPS = (4e-3, 2e-3, 1e-3, 5e-4)


def gravity(masses):
    """On points in the plane, (x, y) each."""
    return lambda t, q, v: jnp.array([c for m in masses for c in (0.0, -m * G)])


def apart(a, b, length):
    """Of the dimension of a length, zero where |a - b| = length."""
    return (jnp.sum((a - b) ** 2) - length**2) / (2.0 * length)


def pendulum_pair(wall=0.35, e=0.6):
    """Two bobs beside a wall: in Cartesian coordinates and in angles, and from those to these."""
    masses, rods = (2.0, 1.0), (1.0, 0.8)

    def places(q):
        x, y = jnp.cumsum(jnp.array(rods) * jnp.sin(q)), -jnp.cumsum(jnp.array(rods) * jnp.cos(q))
        return jnp.stack([x, y], axis=1).ravel()

    def mass(q):
        c = masses[1] * rods[0] * rods[1] * jnp.cos(q[0] - q[1])
        return jnp.array([[sum(masses) * rods[0] ** 2, c], [c, masses[1] * rods[1] ** 2]])

    free = carom.Lagrangian(
        mass=mass,
        potential=lambda q: G * (masses[0] * places(q)[1] + masses[1] * places(q)[3]),
        gap=lambda t, q: wall - places(q)[::2],
        restitution=e,
    )
    held = carom.System(
        mass=np.repeat(masses, 2),
        force=gravity(masses),
        gap=lambda t, q: wall - q[::2],
        joint=lambda t, q: jnp.array(
            [apart(q[:2], jnp.zeros(2), rods[0]), apart(q[2:], q[:2], rods[1])]
        ),
        restitution=e,
    )
    return held, free, places, [-1.0, -1.4], 1.2


def slider_crank(clearance=0.05, e=0.4):
    """A crank, a rod, and a slider that rattles between two guides."""
    masses, rods = (1.0, 0.6), (0.5, 1.2)

    def places(q):
        crank = rods[0] * jnp.array([jnp.cos(q[0]), jnp.sin(q[0])])
        return jnp.concatenate([crank, crank + rods[1] * jnp.array([jnp.cos(q[1]), jnp.sin(q[1])])])

    def mass(q):
        c = masses[1] * rods[0] * rods[1] * jnp.cos(q[0] - q[1])
        return jnp.array([[sum(masses) * rods[0] ** 2, c], [c, masses[1] * rods[1] ** 2]])

    def guides(y):
        return jnp.array([clearance - y, y + clearance])

    free = carom.Lagrangian(
        mass=mass,
        potential=lambda q: G * (masses[0] * places(q)[1] + masses[1] * places(q)[3]),
        gap=lambda t, q: guides(places(q)[3]),
        restitution=e,
    )
    held = carom.System(
        mass=np.repeat(masses, 2),
        force=gravity(masses),
        gap=lambda t, q: guides(q[3]),
        joint=lambda t, q: jnp.array(
            [apart(q[:2], jnp.zeros(2), rods[0]), apart(q[2:], q[:2], rods[1])]
        ),
        restitution=e,
    )
    return held, free, places, [0.6, -np.arcsin(0.5 * np.sin(0.6) / 1.2)], 0.8


@pytest.mark.slow
@pytest.mark.parametrize("scheme", [*WITH_FRICTION, carom.MoreauJean(theta=0.8)], ids=str)
@pytest.mark.parametrize("mechanism", [pendulum_pair, slider_crank])
def test_the_same_motion_as_in_free_coordinates(mechanism, scheme):
    """Of order 1 through impacts, in both coordinates; joints stay closed, of order 2 in dt."""
    held, free, places, angles, t1 = mechanism()
    q0, v0, rest = np.asarray(places(jnp.array(angles))), np.zeros(4), np.zeros(2)
    reference = carom.solve(free, carom.EventDriven(), angles, rest, t1=t1, dt=t1 / 40)
    assert len(reference.impacts) >= 1
    exact = np.stack([np.asarray(places(jnp.array(q))) for q in reference.q])
    errors, drifts = [], []
    for dt in STEPS:
        record = carom.Record(times=np.asarray(reference.t[1:-1]))
        sol = carom.solve(held, scheme, q0, v0, t1=t1, dt=dt * 0.987, record=record)
        errors.append(np.max(np.abs(sol.q - exact[1:-1])))
        whole = carom.solve(held, scheme, q0, v0, t1=t1, dt=dt)
        drifts.append(_largest(held.joint, whole))
    order, order_of_drift = (np.polyfit(np.log(STEPS), np.log(x), 1)[0] for x in (errors, drifts))
    assert errors[-1] < 0.02
    assert 0.8 < order < 1.3
    assert order_of_drift > 1.7


@pytest.mark.parametrize(("theta", "order"), [(0.5, 2.0), (0.75, 1.0), (1.0, 1.0)])
def test_the_theta_method_between_impacts(theta, order):
    """A double pendulum: the order that it has without joints, and drift of order 2."""
    held, free, places, angles, _ = pendulum_pair(wall=10.0)
    q0, v0 = np.asarray(places(jnp.array(angles))), np.zeros(4)
    end = carom.solve(free, carom.EventDriven(), angles, np.zeros(2), t1=1.0, dt=1.0).q[-1]
    errors, drifts = [], []
    for dt in STEPS:
        sol = carom.solve(held, carom.MoreauJean(theta=theta), q0, v0, t1=1.0, dt=dt)
        errors.append(np.max(np.abs(sol.q[-1] - places(jnp.array(end)))))
        drifts.append(_largest(held.joint, sol))
    found, of_drift = (np.polyfit(np.log(STEPS), np.log(x), 1)[0] for x in (errors, drifts))
    assert found == pytest.approx(order, abs=0.15)
    assert of_drift == pytest.approx(2.0, abs=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [pendulum_pair, slider_crank])
def test_the_theta_method_through_impacts(mechanism):
    """With theta = 1/2 the part of a step at which an impact falls is nearly all of the error: a
    draw within a bound of order 1."""
    held, free, places, angles, t1 = mechanism()
    q0, v0 = np.asarray(places(jnp.array(angles))), np.zeros(4)
    end = carom.solve(free, carom.EventDriven(), angles, np.zeros(2), t1=t1, dt=t1).q[-1]
    for dt in np.geomspace(8e-3, 1.25e-4, 10):
        sol = carom.solve(held, carom.MoreauJean(), q0, v0, t1=t1, dt=dt)
        assert np.max(np.abs(sol.q[-1] - places(jnp.array(end)))) < 5.0 * dt


@pytest.mark.parametrize("scheme", STEPPING_WITH_FRICTION, ids=str)
def test_redundant_bars(scheme):
    """A parallelogram with a bar in the middle that is not needed moves as a pendulum does."""
    halved = 4.0 if scheme == carom.MoreauJean() else 2.0  # errors, where dt is

    def bars(t, q):
        ends = [(q[:2], 0.0), (q[2:], 2.0), (0.5 * (q[:2] + q[2:]), 1.0)]
        links = [apart(p, jnp.array([x, 0.0]), 1.0) for p, x in ends]
        return jnp.array([*links, apart(q[:2], q[2:], 2.0)])

    frame = carom.System(mass=[1.0] * 4, force=gravity((1.0, 1.0)), joint=bars)
    angle = 0.7
    q0 = np.array([np.sin(angle), -np.cos(angle), 2.0 + np.sin(angle), -np.cos(angle)])
    pendulum = carom.Lagrangian(mass=[1.0], potential=lambda q: -G * jnp.cos(q[0]))
    exact = carom.solve(pendulum, carom.EventDriven(), [angle], [0.0], t1=2.0, dt=2.0).q[-1, 0]
    errors = []
    for dt in (2e-3, 1e-3):
        sol = carom.solve(frame, scheme, q0, np.zeros(4), t1=2.0, dt=dt)
        x = sol.q[-1]
        errors.append(np.hypot(x[0] - np.sin(exact), x[1] + np.cos(exact)))
        np.testing.assert_allclose(x[2:] - x[:2], [2.0, 0.0], atol=1e-4)
        assert np.max(np.abs(sol.joint_impulse)) < 1.0  # 2 g dt shared by the bars
    assert errors[1] < 0.01
    assert 0.75 < errors[0] / errors[1] / halved < 1.3


# Under event detection: to its tolerance.


def test_events_a_pendulum():
    """In Cartesian coordinates, against the same in an angle; the rod's length to rounding."""
    held = carom.System(
        force=gravity((1.0,)), joint=lambda t, q: apart(q, jnp.zeros(2), 1.0), mass=[1.0, 1.0]
    )
    sol = carom.solve(held, carom.EventDriven(), [1.0, 0.0], [0.0, 0.0], t1=4.0, dt=0.5)
    free = carom.Lagrangian(mass=[1.0], potential=lambda q: -G * jnp.cos(q[0]))
    x = carom.solve(free, carom.EventDriven(), [np.pi / 2], [0.0], t1=4.0, dt=0.5)
    angle, rate = x.q[:, 0], x.v[:, 0]
    np.testing.assert_allclose(sol.q.T, [np.sin(angle), -np.cos(angle)], atol=1e-10)
    np.testing.assert_allclose(np.hypot(*sol.q.T), 1.0, atol=1e-15)
    assert sol.stats.residual < 1e-14
    # the rod's force g cos + rate^2, over each record
    fine = carom.solve(free, carom.EventDriven(), [np.pi / 2], [0.0], t1=4.0, dt=0.005)
    force = G * np.cos(fine.q[:, 0]) + fine.v[:, 0] ** 2
    pull = [simpson(force[k : k + 101], dx=0.005) for k in range(0, 800, 100)]
    np.testing.assert_allclose(-sol.joint_impulse[1:, 0], pull, atol=1e-7)
    assert np.ptp(0.5 * rate**2 - G * np.cos(angle)) < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [pendulum_pair, slider_crank])
def test_events_of_mechanisms(mechanism):
    """Impacts and impulses too."""
    held, free, places, angles, t1 = mechanism()
    q0, v0, rest = np.asarray(places(jnp.array(angles))), np.zeros(4), np.zeros(2)
    exact = carom.solve(free, carom.EventDriven(), angles, rest, t1=t1, dt=t1 / 40)
    sol = carom.solve(held, carom.EventDriven(), q0, v0, t1=t1, dt=t1 / 40)
    assert len(sol.impacts) == len(exact.impacts) >= 1
    np.testing.assert_allclose(sol.q, [places(jnp.array(q)) for q in exact.q], atol=1e-11)
    for name in ("time", "velocity_before", "impulse"):
        np.testing.assert_allclose(sol.impacts[name], exact.impacts[name], atol=1e-9)
    np.testing.assert_allclose(sol.impulse, exact.impulse, atol=1e-9)
    assert sol.stats.residual < 1e-14


@pytest.mark.slow
def test_events_of_redundant_bars():
    """Three parallel bars share the load, wherever the stages of a step lie."""

    def bars(t, q):
        ends = [(q[:2], 0.0), (q[2:], 2.0), (0.5 * (q[:2] + q[2:]), 1.0)]
        links = [apart(p, jnp.array([x, 0.0]), 1.0) for p, x in ends]
        return jnp.array([*links, apart(q[:2], q[2:], 2.0)])

    frame = carom.System(mass=[1.0] * 4, force=gravity((1.0, 1.0)), joint=bars)
    q0 = np.array([np.sin(0.7), -np.cos(0.7), 2.0 + np.sin(0.7), -np.cos(0.7)])
    pendulum = carom.Lagrangian(mass=[1.0], potential=lambda q: -G * jnp.cos(q[0]))
    angle = carom.solve(pendulum, carom.EventDriven(), [0.7], [0.0], t1=2.0, dt=0.1).q[:, 0]
    sol = carom.solve(frame, carom.EventDriven(), q0, np.zeros(4), t1=2.0, dt=0.1)
    np.testing.assert_allclose(sol.q[:, :2].T, [np.sin(angle), -np.cos(angle)], atol=1e-11)
    np.testing.assert_allclose(sol.q[:, 2:] - sol.q[:, :2], [[2.0, 0.0]] * 21, atol=1e-14)
    for other in (1, 2):
        np.testing.assert_allclose(sol.joint_impulse[:, other], sol.joint_impulse[:, 0], atol=1e-12)


@pytest.mark.slow
def test_events_on_a_rod_that_turns():
    """A joint that moves: a bead flung against a stop, where it comes to rest, as on a line."""
    w = 1.3
    rod = carom.System(
        force=lambda t, q, v: 0.0 * q,
        joint=lambda t, q: -jnp.sin(w * t) * q[0] + jnp.cos(w * t) * q[1],
        gap=lambda t, q: 2.0 - jnp.sqrt(q @ q),
        restitution=0.5,
    )
    line = carom.System(force=lambda t, r, v: w * w * r, gap=lambda t, r: 2.0 - r, restitution=0.5)
    sol = carom.solve(rod, carom.EventDriven(), [1.0, 0.0], [0.0, w], t1=6.0, dt=0.25)
    exact = carom.solve(line, carom.EventDriven(), [1.0], [0.0], t1=6.0, dt=0.25)
    assert len(sol.impacts) == len(exact.impacts)
    np.testing.assert_allclose(np.hypot(*sol.q.T), exact.q[:, 0], atol=1e-10)
    np.testing.assert_allclose(sol.impulse, exact.impulse, atol=1e-7)
    assert exact.v[-1, 0] == 0.0


@pytest.mark.slow
def test_events_and_derivatives():
    """Of a Cartesian pendulum that strikes a wall, with respect to gravity, by differences."""

    def end(g):
        held = carom.System(
            force=lambda t, q, v: jnp.array([0.0, -g]),
            joint=lambda t, q: apart(q, jnp.zeros(2), 1.0),
            gap=lambda t, q: q[0] + 0.4,
            restitution=0.7,
        )
        return carom.solve(held, carom.EventDriven(), [1.0, 0.0], [0.0, 0.0], t1=2.0, dt=2.0).q[-1]

    h = 1e-4
    difference = (end(G + h) - end(G - h)) / (2 * h)
    np.testing.assert_allclose(jax.jacfwd(end)(G), difference, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", STEPPING_WITH_FRICTION, ids=str)
def test_a_million_steps(scheme):
    """The length of a pendulum is off by O(dt^2), however long it swings."""
    held = carom.System(
        force=gravity((1.0,)), joint=lambda t, q: apart(q, jnp.zeros(2), 1.0), mass=[1.0, 1.0]
    )
    drift = []
    for t1 in (10.0, 1000.0):
        record = carom.Record(every=997)
        sol = carom.solve(held, scheme, [1.0, 0.0], [0.0, 0.0], t1=t1, dt=1e-3, record=record)
        drift.append(np.max(np.abs(np.hypot(*sol.q.T) - 1.0)))
    assert int(sol.stats.steps) == 1_000_000
    assert drift[1] <= drift[0] * 1.01
    assert drift[1] < 3e-5


def _stretched(t, q):
    """Two rods of length 1 between pins that are 1 + t apart."""
    return jnp.array([jnp.hypot(q[0], q[1]) - 1.0, jnp.hypot(q[0] - 1.0 - t, q[1]) - 1.0])


def _past_its_reach(t, q):
    """A crank of length 1, its tip driven along x beyond it."""
    return jnp.array([jnp.hypot(q[0], q[1]) - 1.0, q[0] - 0.5 - 0.5 * t])


def _largest(joint, sol):
    return max(float(jnp.max(jnp.abs(joint(t, q)))) for t, q in zip(sol.t, sol.q, strict=True))


@pytest.mark.parametrize("scheme", STEPPING_WITH_FRICTION, ids=str)
@pytest.mark.parametrize("joint", [_stretched, _past_its_reach])
def test_joints_that_cannot_hold_end_a_run(scheme, joint):
    """They are straight at t = 1 and have no place after it; a run ends within three steps."""
    system = carom.System(force=lambda t, q, v: jnp.array([0.0, -G]), joint=joint)
    for dt in (1e-2, 1e-3):
        start = (
            [0.5, -np.sqrt(0.75)],
            [0.5, 0.5 / np.sqrt(3.0) if joint is _past_its_reach else 0.0],
        )
        sol = carom.solve(system, scheme, *start, t1=1.5, dt=dt, throw=False)
        assert sol.status == carom.Status.infeasible
        assert 1.0 - 1.5 * dt < sol.t[-1] < 1.0 + 3.5 * dt
        assert _largest(joint, sol) < dt  # before, 0.4 and 3.5 at t = 1.5, with status ok


CONTRADICTIONS = {
    "at once": lambda t, q: jnp.array([q[0], q[0] - t]),
    "by a part": lambda t, q: jnp.array([q[0] - t, q[0] - 1.4 * t]),
    "by little": lambda t, q: jnp.array([q[0] - 0.1 * t, q[0] - 0.1 * jnp.sin(t)]),
    "beside what is fast": lambda t, q: jnp.array([q[0], q[0] - 1e-3 * t, q[1] - 1e3 * t]),
}


@pytest.mark.parametrize(
    ("scheme", "kind"),
    [
        *((carom.Moreau(), kind) for kind in CONTRADICTIONS),
        (carom.Maury(), "by a part"),
        (carom.MoreauJean(), "by a part"),
        (carom.EventDriven(), "by a part"),
    ],
    ids=str,
)
def test_joints_that_contradict_each_other(scheme, kind):
    """One repeats the gradient of another, and is not zero: however slowly they part."""
    joint = CONTRADICTIONS[kind]
    system = carom.System(force=lambda t, q, v: 0.0 * q, mass=[1.0, 1e3], joint=joint)
    speed = -np.asarray(jax.jacfwd(joint)(0.0, jnp.zeros(2)))
    v0 = [speed[0], 1e3 if kind == "beside what is fast" else 0.0]
    with pytest.raises(carom.errors.InfeasibleError, match="joints zero") as told:
        carom.solve(system, scheme, [0.0, 0.0], v0, t1=1.0, dt=1e-2)
    assert _largest(joint, told.value.solution) < 1e-3


DRIVES = {
    "from rest": lambda t: 1.0 - jnp.cos(t),
    "fast from rest": lambda t: 1.0 - jnp.cos(30.0 * t),
    "set off in a step": lambda t: jnp.maximum(t - 0.50003, 0.0),
    "stopped in a step": lambda t: jnp.minimum(t, 0.50003),
}


@pytest.mark.parametrize(
    ("scheme", "kind"),
    [
        *((carom.Moreau(), kind) for kind in DRIVES),
        (carom.Maury(), "set off in a step"),
        (carom.MoreauJean(), "set off in a step"),
    ],
    ids=str,
)
def test_a_joint_may_be_set_in_motion(scheme, kind):
    """Moreau follows a step late: by all of what is driven in the first."""
    drive = DRIVES[kind]
    system = carom.System(force=lambda t, q, v: 0.0 * q, joint=lambda t, q: q[0] - drive(t))
    v0 = [float(jax.grad(drive)(0.0)), 0.0]
    for dt in (1e-2, 1e-3):
        sol = carom.solve(system, scheme, [0.0, 0.0], v0, t1=1.0, dt=dt)
        assert abs(sol.q[-1, 0] - float(drive(1.0))) <= 500.0 * dt**2


@pytest.mark.parametrize("scheme", [*STEPPING_WITH_FRICTION, carom.PaoliSchatzman()], ids=str)
@pytest.mark.parametrize("wall", [0.0, 1.0])
def test_where_the_origin_is_does_not_matter(scheme, wall):
    """Two masses on a joint come to rest at a wall; at q = 0 all that is left is rounding."""
    for ratio in (1.0, 2.0):
        system = carom.System(
            force=lambda t, q, v: jnp.array([-1.0, 0.0]),
            gap=lambda t, q: q[0] - wall,
            joint=lambda t, q, ratio=ratio: q[1] - wall - ratio * (q[0] - wall),
        )
        for dt in (1e-2, 1e-3):
            start = np.array([0.1, 0.1 * ratio])
            sol = carom.solve(system, scheme, wall + start, -10.0 * start, t1=0.5, dt=dt)
            assert np.abs(sol.q[-1] - wall).max() < 2.0 * dt  # Moreau enters by a step


def test_no_joint_at_all_is_said_so():
    system = carom.System(force=lambda t, q, v: 0.0 * q, joint=lambda t, q: jnp.zeros(0))
    with pytest.raises(carom.errors.ShapeError, match="joint=None"):
        carom.solve(system, carom.Moreau(), [0.0], [0.0], t1=0.1, dt=1e-2)
