"""Spheres at every dt, and at every speed: what is small is small against the motion of a step."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

import carom
from by_trait import OF_ANY_WORLD
from carom.spheres import Panel
from carom.worlds.spheres import stalled
from carom.worlds.spheres.world import World

FINAL = carom.Record(final=True)
EVERY = carom.Record(every=1)


def named(scheme):
    return type(scheme).__name__


# ---- every dt -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dt", [1e-2, 1e-4, 1e-5, 1e-7])
def test_a_row_that_is_hit(dt):
    """Six touching balls, e = 0: 1/6 each, at default settings."""
    x, v = np.zeros((6, 3)), np.zeros((6, 3))
    gap = min(5e-4, 100 * dt)
    x[:, 0], v[0, 0] = np.arange(6.0), 1.0
    x[0, 0] = -gap
    steps = int(gap / dt) + 5
    sol = carom.solve(carom.Spheres(x, 0.5, v), carom.Maury(), t1=steps * dt, dt=dt, record=FINAL)
    np.testing.assert_allclose(sol.v[-1, :, 0], 1 / 6, atol=1e-4)


@pytest.mark.parametrize("scheme", OF_ANY_WORLD, ids=named)
@pytest.mark.parametrize("dt", [1e-3, 1e-5, 1e-7])
def test_a_column_at_rest(scheme, dt):
    """The floor carries the weight, every ball stays."""
    sol = carom.solve(carom.spheres.column(10, 0.5), scheme, t1=60 * dt, dt=dt, record=EVERY)
    force = -sol.wall_force()[1:, 0, 2]
    rounding = 2e-15 / dt / (9.81 * 60 * dt)  # of ten metres, in a velocity, against 60 g dt
    assert np.mean(force) == pytest.approx(98.1, rel=1e-4 + rounding)
    # Moreau acts once a gap has closed: until then those above fall
    entered = 10.0 * 9.81 * dt**2 if isinstance(scheme, carom.Moreau) else 1e-3 * dt
    np.testing.assert_allclose(np.diff(sol.x[-1, :, 2]), 1.0, atol=entered + 1e-14)


@pytest.mark.parametrize("dt", [1e-2, 1e-4, 1e-6])
def test_a_ball_at_rest_does_not_sink(dt):
    sol = carom.solve(carom.spheres.column(1), carom.Moreau(), t1=100 * dt, dt=dt, record=FINAL)
    np.testing.assert_allclose(sol.x[-1], sol.pile.position, atol=1e-15)


def test_moreau_starts_from_the_step_before():
    """A column of ten takes 39 sweeps from nothing."""
    sol = carom.solve(carom.spheres.column(10), carom.Moreau(), t1=0.05, dt=1e-3, record=FINAL)
    assert sol.stats.iterations < 6 * 50


@pytest.mark.parametrize("dt", [1e-3, 1e-6])
def test_an_elastic_bounce_of_paoli_schatzman(dt):
    """One ball between others at rest that it never meets, e = 1: it leaves at its speed."""
    start = 0.5 + 20.3 * dt
    pile = carom.Spheres(
        [[0.0, start]], 0.5, [[0.3, -1.0]], walls=[carom.Plane((0, 0), (0, 1))], restitution=1.0
    )
    sol = carom.solve(pile, carom.PaoliSchatzman(), t1=60 * dt, dt=dt, record=FINAL)
    np.testing.assert_allclose(sol.v[-1], [[0.3, 1.0]], atol=1e-3)


def test_a_fast_one_elsewhere_loosens_nothing():
    """The column beside a ball that comes down at 1000 m/s stands as still as alone."""
    alone = carom.spheres.column(6, 0.5)
    x = np.vstack([alone.position, [[50.0, 0.0, 0.6]]])
    v = np.zeros_like(x)
    v[-1, 2] = -1000.0
    both = alone.replaced(position=x, velocity=v, mass=1.0, radius=0.5)
    for dt in (1e-3, 1e-5):
        sol = carom.solve(both, carom.Maury(), t1=30 * dt, dt=dt, record=EVERY)
        assert abs(sol.v[-1, 6, 2]) < 1e-3  # it has landed
        assert np.max(np.abs(sol.v[:, :6])) < 5e-3 * 9.81 * dt


@pytest.mark.slow
def test_what_the_residual_of_velocities_costs():
    """10,000 settled: at most a tenth more sweeps than for the overlap alone, at the usual dt."""
    box = carom.spheres.Box((0, 0, 0), (0.63, 0.63, np.inf))
    pile = carom.spheres.lattice(
        (28, 28, 13), 0.01, spacing=0.022, jitter=8e-4, walls=[box], gravity=(0, 0, -9.81)
    ).replaced(tolerance=1e-4)
    dt, scheme = 2e-3, carom.Maury()

    def moved(state, steps, relative=None):
        world, sweeps = World(pile, dt), 0
        if relative is not None:
            world._relative = lambda: relative
        for _ in range(steps):
            state, report = scheme.step(world, state, dt)
            sweeps += report.iterations
        return state, sweeps

    settled, _ = moved(scheme.start(World(pile, dt), 0.0, pile.position, pile.velocity, dt), 400)
    assert moved(settled, 20)[1] <= 1.1 * moved(settled, 20, 1e30)[1]


# ---- touching means touching --------------------------------------------------------------------


@pytest.mark.parametrize("x0", [0.0, 0.3, 1e3, -7.7])
@pytest.mark.parametrize("size", [1.0, 1e-6])
def test_touching_balls_whatever_the_rounding(x0, size):
    x, v = np.zeros((5, 2)), np.zeros((5, 2))
    x[:, 0], v[0, 0] = (x0 + np.arange(5.0)) * size, 1.0
    pile = carom.Spheres(x, 0.5 * size, v, restitution=1.0, tolerance=1e-9)
    for scheme in (carom.Maury(), carom.Moreau()):
        sol = carom.solve(pile, scheme, t1=1e-4 * size, dt=1e-4 * size, record=EVERY)
        np.testing.assert_allclose(sol.v[0, :, 0], [-0.6, 0.4, 0.4, 0.4, 0.4], atol=1e-6)


@pytest.mark.parametrize("x0", [0.0, 0.9])
@pytest.mark.parametrize("size", [1.0, 1e-6])
def test_touching_system_whatever_the_rounding(x0, size):
    """The same five balls as a System: they meet in the first step of Moreau, together."""
    system = carom.System(
        force=lambda t, q, v: jnp.zeros(5),
        gap=lambda t, q: q[1:] - q[:-1] - size,
        restitution=1.0,
    )
    q0 = (x0 + np.arange(5.0)) * size
    gaps = q0[1:] - q0[:-1] - size
    q0[0] -= 1e-5 * size  # on its way
    assert x0 == 0.0 or np.any(gaps > 0.0)  # open, by rounding
    v0 = np.eye(5)[0]
    sol = carom.solve(system, carom.Moreau(), q0, v0, t1=4e-5 * size, dt=2e-5 * size)
    np.testing.assert_allclose(sol.v[-1], [-0.6, 0.4, 0.4, 0.4, 0.4], atol=1e-12)


# ---- one that is fast ---------------------------------------------------------------------------


def rows_of_a_step(pile, dt):
    """Rows within reach of a step, and pairs in the list."""
    world, scheme = World(pile, dt), carom.Maury()
    wide = np.pad(pile.position, ((0, 0), (0, 3 - pile.dimension)))
    state = scheme.start(world, 0.0, wide, np.pad(pile.velocity, ((0, 0), (0, 0))), dt)
    rebuilds = []
    for _ in range(6):
        state, report = scheme.step(world, state, dt)
        assert report.status is carom.Status.ok
        rebuilds.append(int(state.memory.rebuilds))
    return len(report.contacts.gap), len(state.memory.pairs.second), rebuilds[-1]


def test_one_fast_sphere_does_not_slow_the_others():
    """Rows, pairs and lists of 1000 spheres at rest beside one at any speed."""
    base = carom.spheres.lattice((10, 10, 10), 0.5, spacing=1.0)
    x = np.vstack([base.position, [[5.0, 5.0, 10.6]]])
    counts = []
    for speed in (0.0, 10.0, 1000.0):
        v = np.zeros_like(x)
        v[-1, 2] = speed  # away from them, so that all speeds leave them at rest
        counts.append(rows_of_a_step(carom.Spheres(x, 0.5, v), 2e-3))
    still = counts[0]
    for rows, pairs, rebuilds in counts[1:]:
        assert rows <= still[0] + 1000  # at most one row with each of the others
        assert pairs <= still[1] + 1000
        assert rebuilds <= still[2] + 3


def test_what_has_fallen_out_of_a_hopper_costs_nothing():
    """Counted: pairs and rows of a step with the last 30 of 300 far below, at up to 30 m/s."""
    full = carom.spheres.hopper(300, 0.01, opening=0.04, width=0.12)
    x, v = full.position.copy(), np.zeros((300, 3))
    v[-30:, 2] = -np.linspace(5.0, 30.0, 30)
    x[-30:, 2] = -(v[-30:, 2] ** 2) / (2 * 9.81)
    fallen = full.replaced(position=x, velocity=v)
    without = full.replaced(position=x[:-30], velocity=v[:-30], radius=0.01, mass=full.mass[:-30])
    (rows, pairs, _), still = (rows_of_a_step(pile, 2e-3) for pile in (fallen, without))
    assert pairs <= still[1] + 30
    assert rows <= still[0] + 8 * 30  # at most one with each wall


def test_what_is_hit_by_a_fast_one_is_found():
    """A bullet through a loose row: reach grows with what is pushed, no overlap is left."""
    x = np.zeros((30, 2))
    x[:, 0] = 1.3 * np.arange(30)
    v = np.zeros_like(x)
    v[0, 0] = 500.0
    sol = carom.solve(carom.Spheres(x, 0.5, v), carom.Maury(), t1=0.1, dt=0.02, record=EVERY)
    assert np.min(np.diff(sol.x[:, :, 0], axis=1)) >= 1.0 - 1e-6
    np.testing.assert_allclose(sol.momentum()[:, 0], 500.0, rtol=1e-12)


def met_by_a_fast_one(**options):
    """216 spheres that nearly touch, and one that goes 20 m a step."""
    k, rng = np.arange(216), np.random.default_rng(0)
    x = 0.021 * np.stack([k % 6, k // 6 % 6, k // 36], axis=1) + 1.5e-4 * rng.uniform(
        -1, 1, (216, 3)
    )
    x, v = np.vstack([x, [0.06, 0.05, 0.135]]), np.zeros((217, 3))
    v[-1] = 1e3, 0.0, -1e4
    pile = carom.Spheres(x, 0.01, v, tolerance=1e-4, **options)
    sol = carom.solve(pile, carom.Maury(), t1=4e-3, dt=2e-3, record=EVERY)
    assert sol.stats.iterations < 10_000
    np.testing.assert_allclose(np.sum(sol.v[-1], axis=0), v[-1], rtol=1e-12, atol=1e-8)
    return sol


def test_a_step_that_may_meet_all_of_them(monkeypatch):
    """10 km/s and 20 m a step: sweeps, whose momentum grew without end, are enough."""
    monkeypatch.setattr(stalled, "_MOST", 0)
    met_by_a_fast_one()


@pytest.mark.slow
@pytest.mark.parametrize("mu", [0.1, 0.3, 0.5])
def test_a_step_that_may_meet_all_of_them_with_friction(mu):
    """Of 13,000 contacts within reach 300 push, and those alone are solved where sweeps do not end
    (their momentum grew to 1e14 of what is allowed, and the run stopped after minutes)."""
    assert carom.certify(met_by_a_fast_one(friction=mu)).ok


# ---- seams --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dt", [0.5, 2e-2, 2e-3, 1e-4])
def test_sixty_panels_are_one_plane(dt):
    """A disk slides over them: its speed stays, at every dt."""
    edges = np.linspace(0.0, 6.0, 61)
    panels = [Panel((a, 0.0), (b - a, 0.0)) for a, b in itertools.pairwise(edges)]
    for start in (0.25, 2.9999):
        pile = carom.Spheres([[start, 0.1]], 0.1, [[1.0, 0.0]], walls=panels, gravity=(0.0, -9.81))
        steps = min(round(2.0 / dt), 120)
        sol = carom.solve(pile, carom.Maury(), t1=steps * dt, dt=dt)
        np.testing.assert_allclose(sol.v[:, 0, 0], 1.0, atol=1e-6)
        np.testing.assert_allclose(sol.x[:, 0, 1], 0.1, atol=1e-7)


@pytest.mark.parametrize("scheme", OF_ANY_WORLD, ids=named)
def test_a_plane_of_a_thousand_panels(scheme):
    """As many as 2,000 triangles, rolled over aslant by three spheres."""
    panels = [
        Panel((0.1 * a, 0.2 * b, 0.0), (0.1, 0.0, 0.0), (0.0, 0.2, 0.0))
        for a in range(40)
        for b in range(25)
    ]
    x = [[0.55, 0.7, 0.3], [2.9, 1.0, 0.3], [1.0, 4.0, 0.3]]
    v = np.array([[1.0, 0.7, 0.0], [-0.5, 1.0, 0.0], [1.0, 0.0, 0.0]])
    for dt in (0.1, 1e-2):
        pile = carom.Spheres(x, 0.3, v, walls=panels, gravity=(0, 0, -9.81))
        sol = carom.solve(pile, scheme, t1=10 * dt, dt=dt, record=FINAL)
        np.testing.assert_allclose(sol.v[-1, :, :2], v[:, :2], atol=1e-6)


def test_edges_that_are_edges_hold():
    """A ridge, the rim of a hole, and a valley met at a step of many radii."""
    ridge = [Panel((-1.0, -1.0), (1.0, 1.0)), Panel((0.0, 0.0), (1.0, -1.0))]
    slit = [Panel((-2.0, 0.0), (1.9, 0.0)), Panel((0.1, 0.0), (1.9, 0.0))]
    valley = [Panel((0.0, 0.0), (3.0, 0.0)), Panel((3.0, 0.0), (3.0, 3.0))]
    for walls, x, v in (
        (ridge, [0.0, 1.0], [0.0, -1.0]),
        (slit, [0.0, 1.0], [0.0, -1.0]),
        (valley, [0.5, 0.2], [4.0, 0.0]),
    ):
        for dt in (2.0, 0.05):
            pile = carom.Spheres([x], 0.2, [v], walls=walls, gravity=(0.0, -1e-3))
            sol = carom.solve(pile, carom.Maury(), t1=4.0, dt=dt, record=EVERY)
            for wall in walls:
                a, e = np.array(wall.corner), np.array(wall.edge)
                s = np.clip((sol.x[:, 0] - a) @ e / (e @ e), 0, 1)
                off = np.linalg.norm(sol.x[:, 0] - a - s[:, None] * e, axis=1)
                assert np.min(off) >= 0.2 * (1 - 2e-6)
