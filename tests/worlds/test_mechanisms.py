"""Closed loops whose joints repeat each other, against the equations of their one angle."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import carom

G = 9.81
MASSES = (1.0, 3.0)


def apart(a, b, length):
    """Of the dimension of a length, zero where |a - b| = length."""
    return (jnp.sum((a - b) ** 2) - length**2) / (2.0 * length)


def shaken(t, of=jnp):
    """The angle of the ground that carries the pivots."""
    return 0.8 * of.sin(3.0 * t)


def bars(t, q):
    """Three parallel cranks on the ground, which turns to and fro, and a coupler: one too many."""
    ground = jnp.array([jnp.cos(shaken(t)), jnp.sin(shaken(t))])
    ends = [(q[:2], 0.0), (q[2:], 2.0), (0.5 * (q[:2] + q[2:]), 1.0)]
    return jnp.array([*(apart(p, x * ground, 1.0) for p, x in ends), apart(q[:2], q[2:], 2.0)])


def pull(t, q, v):
    return jnp.array([2.0, -MASSES[0] * G, 0.0, -MASSES[1] * G])


def crank(angle, t1):
    """Its angle at t1, from a rate of 0.3."""

    def rates(t, y):
        a, rate, change = shaken(t, np), 2.4 * np.cos(3.0 * t), -7.2 * np.sin(3.0 * t)
        out, across = np.array([np.cos(a), np.sin(a)]), np.array([-np.sin(a), np.cos(a)])
        carried = 2.0 * MASSES[1] * (change * across - rate**2 * out)
        along = np.array([np.cos(y[0]), np.sin(y[0])])
        return [y[1], (np.array([2.0, -sum(MASSES) * G]) - carried) @ along / sum(MASSES)]

    return solve_ivp(rates, (0.0, t1), [angle, 0.3], rtol=1e-12, atol=1e-12).y[0, -1]


@pytest.mark.parametrize(
    "scheme",
    [
        carom.Maury(),
        carom.Moreau(),
        pytest.param(carom.PaoliSchatzman(), marks=pytest.mark.slow),
        pytest.param(carom.EventDriven(), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_joints_that_repeat_each_other_only_where_they_hold(scheme):
    """Off it they are independent by a little: Maury stood still with impulses of 1e9, at any dt,
    and Moreau was thrown about at 4e-3, both of them without a word; PaoliSchatzman stopped."""
    frame = carom.System(mass=np.repeat(MASSES, 2), force=pull, joint=bars)
    angle, t1 = 0.7, 0.7
    place, way = np.array([np.sin(angle), -np.cos(angle)]), np.array([np.cos(angle), np.sin(angle)])
    q0 = np.tile(place, 2) + np.array([0.0, 0.0, 2.0, 0.0])
    v0 = 0.3 * np.tile(way, 2) + np.array([0.0, 0.0, 0.0, 4.8])
    end = crank(angle, t1)
    exact = np.array([np.sin(end), -np.cos(end)])
    errors = []
    for dt in (4e-3, 2e-3):
        sol = carom.solve(frame, scheme, q0, v0, t1=t1, dt=dt)
        errors.append(np.linalg.norm(sol.q[-1, :2] - exact))
        drift = max(np.max(np.abs(bars(t, q))) for t, q in zip(sol.t[::5], sol.q[::5], strict=True))
        assert drift < 15.0 * dt**2
        assert np.max(np.abs(sol.joint_impulse[1:])) < 70.0 * dt
        np.testing.assert_allclose(  # three parallel cranks share what they carry
            sol.joint_impulse[9:, 0] + sol.joint_impulse[9:, 1],
            2.0 * sol.joint_impulse[9:, 2],
            atol=60.0 * dt**2,
        )
    if isinstance(scheme, carom.EventDriven):
        assert errors[0] < 1e-11
    else:
        assert errors[1] < 5e-3
        assert 1.8 < errors[0] / errors[1] < 2.3


class Dumbbell(eqx.Module):
    """Two masses on a rod that slide on a floor, pulled at the first."""

    masses: jax.Array  # (2,)
    rod: jax.Array
    pull: jax.Array

    def arms(self):
        """From the middle of mass to the first and to the second."""
        return self.rod / jnp.sum(self.masses) * jnp.array([-self.masses[1], self.masses[0]])

    def places(self, q):
        along = jnp.stack([jnp.cos(q[2]), jnp.sin(q[2])])
        return (q[:2] + self.arms()[:, None] * along).ravel()


class InPoints(Dumbbell):
    def force(self, t, q, v):
        return jnp.stack([self.pull, -self.masses[0] * G, 0.0 * self.pull, -self.masses[1] * G])

    def joint(self, t, q):
        return apart(q[2:], q[:2], self.rod)


class AsBody(Dumbbell):
    def force(self, t, q, v):
        turn = -self.pull * self.arms()[0] * jnp.sin(q[2])
        return jnp.stack([self.pull, -jnp.sum(self.masses) * G, turn])

    def gap(self, t, q):
        return self.places(q)[1::2]

    def slip(self, t, q, v):
        return jax.jvp(self.places, (q,), (v,))[1][::2]


@jax.jit
def both_ways(masses, rod, pull, mu, e, q, v):
    """The same motion in points with a joint, and as a body: q, v, impulses, friction, status."""
    points, body = InPoints(masses, rod, pull), AsBody(masses, rod, pull)
    held = carom.System(
        mass=jnp.repeat(masses, 2),
        force=points.force,
        gap=lambda t, q: q[1::2],
        slip=lambda t, q, v: v[::2],
        joint=points.joint,
        friction=mu,
        restitution=e,
    )
    inertia = jnp.sum(masses * body.arms() ** 2)
    free = carom.System(
        mass=jnp.stack([jnp.sum(masses), jnp.sum(masses), inertia]),
        force=body.force,
        gap=body.gap,
        slip=body.slip,
        friction=mu,
        restitution=e,
    )
    x, u = jax.jvp(body.places, (q,), (v,))
    A = carom.solve(held, carom.EventDriven(), x, u, t1=1.0, dt=0.1)
    B = carom.solve(free, carom.EventDriven(), q, v, t1=1.0, dt=0.1)
    seen = jax.vmap(body.places)(B.q)
    status = A.status._value + B.status._value
    return (A.q, A.impulse, A.friction), (seen, B.impulse, B.friction), status


@pytest.mark.slow
def test_a_dumbbell_that_slides_and_falls_in_two_sets_of_coordinates():
    """With friction at both ends: the same motion, impulses and friction."""
    rng = np.random.default_rng(3)
    for k in range(6):
        masses, rod = jnp.array(rng.uniform(0.5, 3.0, 2)), jnp.array(rng.uniform(0.5, 2.0))
        pull, mu = jnp.array(4.0 * rng.normal()), jnp.array(rng.uniform(0.1, 0.6))
        angle = rng.uniform(0.3, 1.2) if k % 2 else 0.0
        low = masses[1] / jnp.sum(masses) * rod * np.sin(angle)
        q = jnp.array([0.0, low + (rng.uniform(0.0, 0.3) if k % 2 else 0.0), angle])
        v = jnp.array([2.0 * rng.normal(), 0.0, rng.normal() if k % 2 else 0.0])
        held, free, status = both_ways(masses, rod, pull, mu, jnp.array(0.0), q, v)
        assert status == 0
        for a, b in zip(held, free, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-9)


def four_bar(units, twice=()):
    """A crank, a coupler and a rocker, bodies of (x, y, angle), the coupler beside a stop."""
    bars, ground = (1.0, 2.3, 1.9), jnp.array([2.6, 0.0])
    masses = np.array([0.5, 1.2, 0.8])

    def way(angle):
        return jnp.stack([jnp.cos(angle), jnp.sin(angle)])

    def place(angle):
        A = bars[0] * way(angle)
        across = ground - A
        far = jnp.sqrt(across @ across)
        along = (far**2 + bars[1] ** 2 - bars[2] ** 2) / (2.0 * far)
        n = across / far
        up = jnp.sqrt(bars[1] ** 2 - along**2) * jnp.stack([-n[1], n[0]])
        B = A + along * n + up
        turns = [jnp.arctan2(*(x - y)[::-1]) for x, y in ((B, A), (B, ground))]
        parts = (0.5 * A, angle), (0.5 * (A + B), turns[0]), (0.5 * (B + ground), turns[1])
        return jnp.concatenate([jnp.append(x, a) for x, a in parts])

    def joint(t, q):
        x, half = q.reshape(3, 3), [0.5 * L * way(a) for L, a in zip(bars, q[2::3], strict=True)]
        ends = [(x[i, :2] - half[i], x[i, :2] + half[i]) for i in range(3)]
        found = jnp.concatenate(
            [ends[0][0], ends[0][1] - ends[1][0], ends[1][1] - ends[2][1], ends[2][0] - ground]
        )
        return jnp.concatenate([found, found[jnp.array(twice, int)]]) * jnp.array(units)

    def gap(t, q):  # of a point of the coupler
        return q[3] - 0.05 * jnp.cos(q[5]) - 0.8 * jnp.sin(q[5]) + 0.2

    def force(t, q, v):
        return jnp.array([x for m in masses for x in (0.0, -G * m, 0.0)])

    inertia = masses * np.array(bars) ** 2 / 12.0
    mass = np.stack([masses, masses, inertia], axis=1).ravel()
    held = carom.System(mass=mass, force=force, joint=joint, gap=gap, restitution=0.5)
    return held, place, mass, force, gap


def one_angle(t, start):
    """q of the linkage at the times t, from its start at rest: its crank's angle alone."""
    _, place, mass, force, gap = four_bar(np.ones(8))
    turns, bends = jax.jit(jax.jacfwd(place)), jax.jit(jax.jacfwd(jax.jacfwd(place)))
    pulls = np.asarray(force(0.0, 0.0, 0.0))

    def rates(t, y):
        J, K = np.asarray(turns(y[0])), np.asarray(bends(y[0]))
        return [y[1], (J @ pulls - (mass * J) @ K * y[1] ** 2) / ((mass * J) @ J)]

    def open_by(t, y):
        return float(gap(t, place(y[0])))

    open_by.terminal, open_by.direction = True, -1
    how = {"rtol": 1e-12, "atol": 1e-13, "max_step": 0.05, "method": "DOP853"}
    fall = solve_ivp(rates, (0.0, t[-1]), [start, 0.0], events=open_by, dense_output=True, **how)
    hit, (angle, rate) = fall.t[-1], fall.y[:, -1]
    after = solve_ivp(rates, (hit, t[-1]), [angle, -0.5 * rate], dense_output=True, **how)
    angles = np.where(t < hit, fall.sol(t)[0], after.sol(np.maximum(t, hit))[0])
    assert fall.status == 1
    assert min(open_by(0.0, [x]) for x in after.y[0]) > -1e-12
    return np.array([place(x) for x in angles])


UNITS = np.array([1e6, 1.0, 1.0, 1e-6, 1.0, 1e6, 1.0, 1.0])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scheme", "allowed"),
    [
        (carom.Moreau(), 4e-3),
        (carom.Maury(), 4e-3),
        (carom.PaoliSchatzman(), 4e-3),
        (carom.EventDriven(), 1e-11),
    ],
    ids=str,
)
def test_joints_in_units_of_their_own(scheme, allowed):
    """A linkage with an impact, some joints in megametres and some in micrometres: Moreau and Maury
    let go of the latter and it fell apart, without a word; EventDriven was off by 2e-2."""
    times = np.linspace(0.0, 0.9, 31)[1:-1]
    exact, record = one_angle(times, 1.9), carom.Record(times=times)
    found = []
    for units, twice in ((np.ones(8), ()), (UNITS, ()), (np.append(UNITS, [1e3, 1.0]), (3, 4))):
        held, place, *_ = four_bar(units, twice)
        dt = 0.03 if isinstance(scheme, carom.EventDriven) else 5e-4
        q0 = np.asarray(place(jnp.array(1.9)))
        sol = carom.solve(held, scheme, q0, np.zeros(9), t1=0.9, dt=dt, record=record)
        np.testing.assert_allclose(sol.q, exact, atol=allowed)
        assert sol.stats.residual < 1e-12
        pulls = np.asarray(sol.joint_impulse) * units
        for k, i in enumerate(twice):  # what repeats another pulls with it
            pulls[:, i] += pulls[:, 8 + k]
        found.append((sol.q, pulls[:, :8]))
    for q, pulls in found[1:]:
        np.testing.assert_allclose(q, found[0][0], atol=1e-9)
        np.testing.assert_allclose(pulls, found[0][1], atol=1e-8)
