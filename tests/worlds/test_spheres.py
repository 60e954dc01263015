"""Spheres: known answers, identities, and what must be refused."""

import importlib.util
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import carom
from by_trait import OF_ANY_WORLD
from carom import errors
from carom.kernels.numba import threads
from carom.spheres import Box, Cylinder, Obstacles, Panel, Shell
from carom.worlds.spheres.world import World

EVERY = carom.Record(every=1)


def largest_overlap(sol):
    """Over all records and pairs, by brute force."""
    worst, period = 0.0, np.where(sol.pile.period > 0.0, sol.pile.period, np.inf)
    for x, r in zip(sol.x, sol.radius, strict=True):
        d = x[None] - x[:, None]
        d = d - np.where(np.isfinite(period), period, 0.0) * np.rint(d / period)
        gap = np.sqrt(np.sum(d**2, axis=-1)) - r[:, None] - r
        worst = max(worst, -np.min(gap[np.triu_indices(len(x), 1)]))
    return worst


# ---- one step, both worlds ----------------------------------------------------------------------


def as_system(pile):
    """The same disks as a System: every pair and the floor, written out."""
    n, r = len(pile), jnp.asarray(pile.radius_at(0.0))
    i, j = np.triu_indices(n, 1)

    def gap(t, q):
        x = q.reshape(n, 2)
        pairs = jnp.sqrt(jnp.sum((x[i] - x[j]) ** 2, axis=1)) - r[i] - r[j]
        return jnp.concatenate([pairs, x[:, 1] - r])

    weight = np.repeat(pile.mass, 2) * np.tile(pile.gravity, n)
    return carom.System(
        force=lambda t, q, v: jnp.asarray(weight) - 0.3 * v,
        gap=gap,
        mass=np.repeat(pile.mass, 2),
        restitution=pile.restitution,
    )


@pytest.mark.parametrize("scheme", OF_ANY_WORLD, ids=lambda s: type(s).__name__)
def test_both_worlds_move_alike(scheme):
    """Five disks on a floor, e = 0.4, masses, drag: the same scheme in JAX and in Numba."""
    x = np.array([[0.0, 0.5], [1.01, 0.52], [2.1, 0.6], [0.5, 1.6], [1.6, 1.8]])
    pile = carom.Spheres(
        position=x,
        radius=0.5,
        velocity=np.array([[0.0, 0.0], [-0.5, 0.0], [-2.0, 0.0], [0.3, -1.0], [0.0, -2.0]]),
        mass=[1.0, 2.0, 0.5, 1.5, 1.0],
        walls=[carom.Plane(point=(0, 0), normal=(0, 1))],
        gravity=(0.0, -9.81),
        force=lambda t, x, v: -0.3 * v,
        restitution=0.4,
        tolerance=1e-13,
    )
    options = {"t1": 0.3, "dt": 0.01, "record": EVERY}
    ours = carom.solve(pile, scheme, **options)
    theirs = carom.solve(as_system(pile), scheme, x.ravel(), pile.velocity.ravel(), **options)
    assert np.max(theirs.impulse[:, :10].sum(axis=0)) > 0.1  # pairs have met
    np.testing.assert_allclose(ours.x.reshape(31, 10), theirs.q, atol=1e-9)
    np.testing.assert_allclose(ours.v.reshape(31, 10), theirs.v, atol=1e-7)
    on_floor = theirs.impulse[:, 10:].sum(axis=1)
    np.testing.assert_allclose(-ours.wall_impulse[:, 0, 1], on_floor, atol=1e-8)


# ---- problems with known answers ----------------------------------------------------------------


def row(n, *, gap=0.0, **options):
    """n balls of radius 0.5 on a line; the first comes at 1."""
    x, v = np.zeros((n, 3)), np.zeros((n, 3))
    x[:, 0], v[0, 0] = (1.0 + gap) * np.arange(n), 1.0
    return carom.Spheres(position=x, radius=0.5, velocity=v, tolerance=1e-12, **options)


@pytest.mark.parametrize("n", [2, 3, 7])
@pytest.mark.parametrize("e", [0.0, 0.5, 1.0])
def test_p9_touching_row(n, e):
    """All at once: ((1 + e) / N - e, (1 + e) / N, ...), from an impact at t0."""
    sol = carom.solve(row(n, restitution=e), carom.Maury(), t1=0.1, dt=0.1)
    expected = np.full(n, (1.0 + e) / n)
    expected[0] -= e
    np.testing.assert_allclose(sol.v[0, :, 0], expected, atol=1e-9)
    np.testing.assert_allclose(sol.momentum()[:, 0], 1.0, atol=1e-12)


def test_p9_row_with_gaps():
    """One after the other: the last flies off with all of it."""
    sol = carom.solve(row(4, gap=0.05, restitution=1.0), carom.Maury(), t1=0.4, dt=1e-3)
    np.testing.assert_allclose(sol.v[-1, :, 0], [0.0, 0.0, 0.0, 1.0], atol=1e-9)


@pytest.mark.parametrize("scheme", OF_ANY_WORLD, ids=lambda s: type(s).__name__)
def test_p10_column(scheme):
    """It stays, and contact i carries what is above it."""
    n, m = 8, 2.5
    pile = carom.spheres.column(n, 0.5, mass=m, tolerance=1e-11)
    sol = carom.solve(pile, scheme, t1=0.5, dt=1e-2)
    # Moreau's constraint acts once a gap has closed: by rounding, a step of fall may come first,
    # for each gap
    entered = 2.0 * 9.81 * 1e-2**2 if isinstance(scheme, carom.Moreau) else 1e-8
    below = np.concatenate([[[0.0, 0.0, -0.5]], sol.x[-1, :-1]])
    np.testing.assert_allclose(sol.x[-1] - below, np.tile([0, 0, 1.0], (n, 1)), atol=entered)
    table = sol.contacts[-1]
    lower = np.where(table.pairs[:, 1] < 0, -1, np.min(table.pairs, axis=1))
    force = table.force[np.argsort(lower)]
    np.testing.assert_allclose(force, m * 9.81 * np.arange(n, 0, -1), rtol=1e-7)
    np.testing.assert_allclose(sol.wall_force()[-1, 0], [0, 0, -n * m * 9.81], rtol=1e-7)
    # sum of force times branch: n contacts, the lowest with a branch of one radius
    branch = np.append(0.5, np.ones(n - 1))
    total = m * 9.81 * np.sum(np.arange(n, 0, -1) * branch)
    np.testing.assert_allclose(sol.stress(volume=1.0)[-1, 2, 2], total, rtol=max(1e-6, entered))
    assert sol.pressure(volume=1.0)[-1] == pytest.approx(total / 3.0, rel=max(1e-6, entered))
    assert sol.contact_number()[-1] == pytest.approx((2 * (n - 1) + 1) / n)


def test_p10_column_that_falls():
    """Dropped from a height with gaps between, e = 0: it ends in a column."""
    x = np.zeros((5, 2))
    x[:, 1] = 0.5 + 1.1 * np.arange(5) + 0.3
    pile = carom.Spheres(x, 0.5, walls=[carom.Plane((0, 0), (0, 1))], gravity=(0, -9.81))
    sol = carom.solve(pile.replaced(tolerance=1e-11), carom.Maury(), t1=2.0, dt=5e-3)
    np.testing.assert_allclose(sol.x[-1, :, 1], 0.5 + np.arange(5), atol=1e-5)
    energy = sol.energy()
    assert np.all(np.diff(energy) <= 1e-8)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "critical"), [(3, 7 - 4 * 3**0.5), (2, 3 - 2 * 2**0.5)])
def test_p10_collapse(n, critical):
    """Balls lose their relative motion for ever below a critical e, and part above it."""
    for e, ends in ((0.5 * critical, True), (2.0 * critical, False)):
        x, v = np.zeros((n, 2)), np.zeros((n, 2))
        if n == 3:  # two outer balls run into the middle one
            x[:, 0], v[:, 0], walls = [0.0, 1.1, 2.27], [1.0, 0.0, -1.0], []
        else:  # two balls against a wall
            x[:, 0], v[:, 0], walls = [0.55, 1.75], [-1.0, -3.0], [carom.Plane((0, 0), (1, 0))]
        pile = carom.Spheres(x, 0.5, velocity=v, walls=walls, restitution=e, tolerance=1e-10)
        sol = carom.solve(pile, carom.Maury(), t1=2.0, dt=5e-4, record=carom.Record(final=True))
        apart = np.diff(sol.v[-1, :, 0])
        assert (np.max(np.abs(apart)) < 0.02) == ends


# ---- no overlap, whatever dt --------------------------------------------------------------------


@pytest.mark.parametrize("dt", [1e-3, 0.1, 1.0])
def test_no_overlap_whatever_the_step(dt):
    """A fast gas in a box; steps up to many diameters.  Gaps by brute force, every step."""
    pile = carom.spheres.random(120, 0.25, periodic=False, radius=np.linspace(0.1, 0.3, 120))
    rng = np.random.default_rng(0)
    pile = pile.replaced(velocity=3.0 * rng.normal(size=(120, 3)), tolerance=1e-8)
    sol = carom.solve(pile, carom.Maury(), t1=12 * dt, dt=dt, record=EVERY)
    assert largest_overlap(sol) <= 1e-8 * pile.smallest
    assert sol.stats.overlap <= 1e-8 * pile.smallest
    assert np.all(np.diff(sol.kinetic_energy()) <= 1e-9)
    assert carom.certify(sol).ok


def test_growing_radii_push_apart():
    """Two dimensions, periodic: a gas of disks grows to a packing of 0.7 without overlap."""
    pile = carom.spheres.random(80, 0.2, dimension=2)
    big = (0.7 / 0.2) ** 0.5
    pile = pile.replaced(radius=lambda t: 1.0 + (big - 1.0) * t, tolerance=1e-7)
    sol = carom.solve(pile, carom.Maury(), t1=1.0, dt=0.02, record=EVERY)
    assert largest_overlap(sol) <= 1e-7
    assert sol.packing_fraction()[-1] == pytest.approx(0.7, rel=1e-12)
    assert sol.packing_fraction()[0] == pytest.approx(0.2, rel=1e-12)


@pytest.mark.parametrize("container", [Shell((0, 0, 0), 2.0), Cylinder((0, 0, 0), (0, 1, 0), 2.0)])
def test_curved_walls_hold(container):
    """A wall that bends around the spheres is not a convex gap, and holds all the same."""
    rng = np.random.default_rng(1)
    x = rng.uniform(-0.9, 0.9, (8, 3))
    x[:, 1] = 0.42 * (np.arange(8) - 3.5)
    v = 4.0 * rng.normal(size=x.shape) * (1, 0, 1)
    pile = carom.Spheres(x, 0.2, velocity=v, walls=[container], gravity=(0, 0, -9.81))
    sol = carom.solve(pile, carom.Maury(), t1=1.0, dt=0.02, record=EVERY)
    off = sol.x * (1.0, isinstance(container, Shell), 1.0)
    assert np.max(np.linalg.norm(off, axis=2)) <= 1.8 + 2e-6 * 0.2
    assert largest_overlap(sol) <= 2e-6 * 0.2
    assert np.max(np.abs(sol.wall_impulse)) > 0.1


def test_panel_keeps_off_on_both_sides():
    shelf = Panel((-1.0, 0.0), (2.0, 0.0))
    pile = carom.Spheres(
        [[0.5, 1.0], [-0.5, -1.0], [3.0, 1.0]],
        0.3,
        velocity=[[0, -5.0], [0, 5.0], [0, -5.0]],
        walls=[shelf],
    )
    sol = carom.solve(pile, carom.Maury(), t1=1.0, dt=0.01)
    np.testing.assert_allclose(sol.x[-1, :, 1], [0.3, -0.3, -4.0], atol=1e-6)


def test_moving_plane_and_obstacle():
    """A floor that rises carries a ball; an obstacle on its way pushes another ahead."""
    pile = carom.Spheres(
        [[0.0, 0.5], [5.0, 10.0]],
        0.5,
        walls=[
            carom.Plane(point=lambda t: (0.0, 2.0 * t), normal=(0, 1)),
            Obstacles(lambda t: [[3.0 + 2.0 * t, 10.0]], 0.5),
        ],
        gravity=(0.0, -1e-3),
    )
    sol = carom.solve(pile, carom.Maury(), t1=1.0, dt=0.01)
    np.testing.assert_allclose(sol.x[-1, 0], [0.0, 2.5], atol=1e-4)
    np.testing.assert_allclose(sol.x[-1, 1], [6.0, 10.0], atol=1e-3)
    np.testing.assert_allclose(sol.v[-1], [[0.0, 2.0], [2.0, 0.0]], atol=2e-3)


def test_elastic_floor_that_moves():
    """w = d_t g + grad g . v: a ball at rest met by a floor at 1, e = 1, leaves at 2."""
    floor = carom.Plane(point=lambda t: (0.0, t - 0.503), normal=(0, 1))
    pile = carom.Spheres([[0.0, 0.5]], 0.5, walls=[floor], restitution=1.0, tolerance=1e-10)
    sol = carom.solve(pile, carom.Maury(), t1=1.0, dt=1e-2)
    np.testing.assert_allclose(sol.v[-1], [[0.0, 2.0]], atol=1e-7)


def test_a_period_is_only_a_name():
    """A collision across the border equals the same one inside."""
    found = []
    for shift in (0.0, 4.7):
        x = np.array([[4.0, 5.0, 5.0], [6.0, 5.3, 5.1]])
        x[:, 0] = (x[:, 0] + shift) % 10.0
        v = [[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]]
        pile = carom.Spheres(x, 0.5, velocity=v, periodic=(10, 10, None), restitution=0.7)
        found.append(carom.solve(pile, carom.Maury(), t1=2.0, dt=0.01).v[-1])
    assert found[0][0, 1] < -0.01  # they have met
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)


def test_momentum_of_a_periodic_gas():
    pile = carom.spheres.random(200, 0.3)
    v = np.random.default_rng(2).normal(size=(200, 3))
    pile = pile.replaced(velocity=v, restitution=0.9, mass=np.linspace(1, 3, 200))
    sol = carom.solve(pile, carom.Maury(), t1=2.0, dt=0.02)
    np.testing.assert_allclose(
        sol.momentum(), np.tile(sol.momentum()[0], (len(sol), 1)), atol=1e-11
    )
    assert sol.temperature()[-1] < 0.9 * sol.temperature()[0]
    assert sol.stats.overlap <= 1e-6


# ---- the record ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def settled():
    """A small pile, every step recorded."""
    pile = carom.spheres.lattice(
        (4, 4, 5),
        0.01,
        spacing=0.023,
        jitter=0.001,
        gravity=(0, 0, -9.81),
        mass=0.01,
        walls=[Box((0, 0, 0), (0.092, 0.092, np.inf))],
    )
    return carom.solve(pile, carom.Maury(), t1=0.3, dt=2e-3, record=EVERY)


def test_shapes(settled):
    n, N = 151, 80
    assert settled.ok
    assert settled.t.shape == (n,)
    assert settled.x.shape == settled.q.shape == settled.v.shape == settled.impulse.shape
    assert settled.x.shape == (n, N, 3)
    assert settled.wall_impulse.shape == settled.wall_force().shape == (n, 5, 3)
    assert settled.stress().shape == (n, 3, 3)
    assert len(settled.contacts) == n
    table = settled.contacts[-1]
    assert table.pairs.shape == (len(table), 2)
    assert table.position.shape == table.normal.shape == table.branch.shape == (len(table), 3)
    np.testing.assert_allclose(np.linalg.norm(table.normal, axis=1), 1.0, atol=1e-12)
    assert "80" in str(settled)


def test_contact_tables_give_the_impulses(settled):
    """Sum over the table of -/+ impulse normal, sphere by sphere and wall by wall."""
    for k in (50, 150):
        table = settled.contacts[k]
        total, wall = np.zeros((80, 3)), np.zeros((5, 3))
        for (i, j), push, n in zip(table.pairs, table.impulse, table.normal, strict=True):
            total[i] -= push * n
            if j >= 0:
                total[j] += push * n
            else:
                wall[-1 - j] += push * n
        np.testing.assert_allclose(settled.impulse[k], total, atol=1e-15)
        np.testing.assert_allclose(settled.wall_impulse[k], wall, atol=1e-15)
        np.testing.assert_allclose(table.force, table.impulse / settled.dt)


def test_every_kth_step_holds_the_same(settled):
    sol = carom.solve(settled.pile, carom.Maury(), t1=0.3, dt=2e-3, record=carom.Record(every=10))
    np.testing.assert_array_equal(sol.x, settled.x[::10])
    np.testing.assert_allclose(
        sol.impulse[1:].sum(axis=0), settled.impulse[1:].sum(axis=0), atol=1e-14
    )
    np.testing.assert_allclose(sol.work.sum(), settled.work.sum(), rtol=1e-12)
    assert sol.overlap.max() == settled.overlap.max()


def test_certificate(settled):
    certificate = carom.certify(settled)
    assert certificate.ok, str(certificate)


@pytest.mark.parametrize("scheme", OF_ANY_WORLD, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("e", [0.0, 0.6])
def test_certificates_of_other_runs(settled, scheme, e):
    """No clause fails; what the other schemes cannot be asked is left open."""
    pile = settled.pile.replaced(restitution=e)
    sol = carom.solve(pile, scheme, t1=0.1, dt=1e-3)
    assert carom.certify(sol).ok is not False


@pytest.mark.parametrize(("tolerance", "dt", "gain"), [(1e-4, 1e-3, 3e-3), (1e-6, 5e-4, 1e-3)])
def test_a_pile_that_is_corrected_does_not_boil(settled, tolerance, dt, gain):
    """What a correction opens would fall shut, be lifted again, and so on.

    The gain is of the order of the scheme: at 1e-6 it is 4e-2, 4e-3 and 4e-5 for dt = 2, 1, 0.5 ms.
    """
    still = np.zeros((80, 3))
    pile = carom.spheres.relax(settled.pile.replaced(position=settled.x[-1], velocity=still))
    pile = pile.replaced(tolerance=tolerance)
    sol = carom.solve(pile, carom.Moreau(correct=True), t1=0.2, dt=dt)
    energy = sol.energy()
    assert np.max(energy) <= energy[0] + gain * 80 * 0.01 * 9.81 * 0.01  # of a weight, a radius up
    assert energy[-1] < energy[0]
    assert np.max(sol.overlap) < 1e-2 * 0.01


@pytest.mark.parametrize(
    ("clause", "tamper"),
    [
        ("feasibility", lambda s: s.x[100].__setitem__(3, s.x[100, 4] + 1e-3)),
        ("feasibility, run", lambda s: s.overlap.__setitem__(20, 1e-4)),
        ("sign", lambda s: s.contacts[120].impulse.__setitem__(0, -1e-9)),
        ("momentum", lambda s: s.impulse[80].__setitem__(5, 2.0 * s.impulse[80, 5] + 1e-7)),
        ("momentum, total", lambda s: s.wall_impulse.__setitem__(90, 1.01 * s.wall_impulse[90])),
        ("kinematics", lambda s: s.v.__setitem__(60, 1.001 * s.v[60])),
        ("energy", lambda s: s.v.__setitem__(100, 1.5 * s.v[100])),
        ("complementarity", lambda s: s.x.__setitem__(149, 1.01 * s.x[149])),
    ],
)
def test_certificate_sees(settled, clause, tamper):
    """Each clause fails when what it speaks of is changed."""
    import copy

    changed = copy.deepcopy(settled)
    tamper(changed)
    assert carom.certify(changed)[clause].ok is False


def test_packing_fraction_of_a_slice():
    """One unit sphere in the box around it: pi / 6; its lower half, the same; and a cap."""
    sol = carom.solve(carom.Spheres([[0, 0, 0.0]], 1.0), carom.Maury(), t1=0.1, dt=0.1)
    assert sol.packing_fraction()[0] == pytest.approx(np.pi / 6)
    assert sol.packing_fraction(between=(2, -1.0, 0.0))[0] == pytest.approx(np.pi / 6)
    cap = np.pi * 0.5**2 * (3 - 0.5) / 3
    assert sol.packing_fraction(between=(2, 0.5, 1.0))[0] == pytest.approx(cap / (4 * 0.5))
    disk = carom.solve(carom.Spheres([[0, 0.0]], 1.0), carom.Maury(), t1=0.1, dt=0.1)
    assert disk.packing_fraction(between=(1, 0.0, 1.0))[0] == pytest.approx(np.pi / 4)


def test_the_same_bits_with_any_number_of_threads(settled, monkeypatch):
    pile = settled.pile.replaced(position=settled.x[60], velocity=settled.v[60])
    found = []
    for least in (1_000_000, 1):
        monkeypatch.setattr(threads, "_SPHERES_PER_THREAD", least)
        found.append(carom.solve(pile, carom.Maury(), t1=0.006, dt=2e-3, record=EVERY))
    assert found[0].stats.iterations > 10
    np.testing.assert_array_equal(found[0].x, found[1].x)
    np.testing.assert_array_equal(found[0].impulse, found[1].impulse)


# ---- starts -------------------------------------------------------------------------------------


def test_random_is_what_it_says():
    r = np.linspace(0.1, 1.0, 150)
    for periodic in (True, False):
        pile = carom.spheres.random(150, 0.4, radius=r, periodic=periodic, seed=3)
        sol = carom.solve(pile, carom.Maury(), t1=0.01, dt=0.01)
        assert largest_overlap(sol) <= 1e-5 * 0.1
    volume = np.prod(carom.spheres.random(150, 0.4, radius=r).period)
    assert np.sum(4 / 3 * np.pi * r**3) / volume == pytest.approx(0.4)


@pytest.mark.parametrize(("ratio", "fraction"), [(10.0, 0.1), (5.0, 0.3), (3.0, 0.45)])
def test_random_of_two_sizes(ratio, fraction):
    """Thirty: one large, or half of them; a few large are too wide for a box that repeats."""
    for large in (1, 15) if ratio > 3.0 else (15,):
        r = np.where(np.arange(30) < large, 1.0, 1.0 / ratio)
        pile = carom.spheres.random(30, fraction, radius=r)
        world = World(pile, 1.0)
        assert np.min(world.contacts(0.0, pile.position).gap, initial=0.0) >= 0.0
    r = np.where(np.arange(30) < 3, 1.0, 1.0 / ratio)
    if ratio < 10.0:
        enough, less = {5.0: (45, 0.204), 3.0: (54, 0.254)}[ratio]
        wanted = f"{enough} or more spheres of these sizes, a fraction of {less} or less"
        with pytest.raises(carom.errors.ShapeError, match=f"{wanted}, or periodic=False"):
            carom.spheres.random(30, fraction, radius=r)
        carom.spheres.random(30, less, radius=r)
        carom.spheres.random(60, fraction, radius=np.tile(r, 2))


def test_relax():
    x = carom.spheres.lattice((4, 4, 4), 0.5).position
    x = x + np.random.default_rng(0).uniform(-0.02, 0.02, x.shape)
    pile = carom.Spheres(x, 0.5, walls=[carom.Plane((0, 0, 0), (0, 0, 1))], tolerance=1e-9)
    with pytest.raises(errors.AdmissibilityError):
        carom.solve(pile, carom.Maury(), t1=1.0, dt=0.1)
    relaxed = carom.spheres.relax(pile)
    assert largest_overlap(carom.solve(relaxed, carom.Maury(), t1=0.1, dt=0.1)) <= 5e-9
    assert np.max(np.abs(relaxed.position - x)) < 0.1
    with pytest.raises(errors.ShapeError, match="largest"):
        carom.spheres.relax(pile.replaced(radius=0.8))


def test_hopper_and_drum_start():
    for pile in (
        carom.spheres.hopper(60, 0.01, opening=0.06, width=0.15),
        carom.spheres.drum(60, 0.01, drum_radius=0.15, turn=2.0),
    ):
        sol = carom.solve(pile, carom.Maury(), t1=0.1, dt=5e-3)
        assert sol.stats.overlap <= 2e-8


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("hopper", {"N": 150, "t1": 0.3}),
        ("drum", {"N": 100, "t1": 0.3}),
        ("jamming", {"N": 100, "fraction": 0.5, "t1": 2.0}),
    ],
)
def test_examples(name, options, tmp_path):
    """Each of the three examples, smaller: no overlap beyond the tolerance, and a picture."""
    path = Path(__file__).parents[2] / "examples" / f"spheres_{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sol = module.main(tmp_path, **options)
    assert sol.stats.overlap <= 1.6 * sol.pile.tolerance * sol.pile.smallest
    assert (tmp_path / f"spheres_{name}.png").stat().st_size > 5_000


# ---- errors -------------------------------------------------------------------------------------


def test_overlap_names_the_worst_pair():
    x = [[0.0, 0.0, 0.0], [1.9, 0.0, 0.0], [10.0, 0.0, 0.0], [11.5, 0.0, 0.0]]
    with pytest.raises(errors.AdmissibilityError, match=r"spheres 2 and 3 overlap by 0\.5.*relax"):
        carom.solve(carom.Spheres(x, 1.0), carom.Maury(), t1=1.0, dt=0.1)
    floor = carom.Plane((0, 0, 0.5), (0, 0, 1))
    with pytest.raises(errors.AdmissibilityError, match=r"sphere 0 and wall 0 overlap by 1\.5"):
        carom.solve(carom.Spheres([[0, 0, 0.0]], 1.0, walls=[floor]), carom.Maury(), t1=1, dt=0.1)


def test_not_converged_keeps_the_data():
    pile = carom.spheres.column(30, tolerance=1e-10, iterations=25)
    with pytest.raises(errors.ConvergenceError, match="smallest radii after") as caught:
        carom.solve(pile, carom.Maury(), t1=1.0, dt=0.01)
    sol = caught.value.solution
    assert not sol.ok
    assert len(sol) >= 1
    np.testing.assert_array_equal(sol.x[0], pile.position)
    assert not carom.solve(pile, carom.Maury(), t1=1.0, dt=0.01, throw=False).ok


def test_a_force_that_fails():
    pile = carom.Spheres([[0.0, 0.0]], 1.0, force=lambda t, x, v: x + (np.nan if t > 0.5 else 1.0))
    with pytest.raises(errors.NonFiniteError) as caught:
        carom.solve(pile, carom.Maury(), t1=1.0, dt=0.01)
    assert 0.4 < caught.value.solution.t[-1] <= 0.5


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"position": [1.0, 2.0]}, errors.ShapeError, "position has shape"),
        ({"radius": [1.0, 2.0, 3.0]}, errors.ShapeError, "radius has shape"),
        ({"radius": -1.0}, errors.ShapeError, "must be positive"),
        ({"mass": [1.0, 0.0]}, errors.MassError, r"mass\[1\] is 0"),
        ({"restitution": 80}, errors.RestitutionError, "80"),
        ({"velocity": [[1.0, np.nan], [0, 0]]}, errors.NonFiniteError, "velocity"),
        ({"periodic": (1.0,)}, errors.ShapeError, "one period per direction"),
        ({"walls": ["floor"]}, errors.KindError, "not a wall"),
        ({"tolerance": 0.0}, errors.ShapeError, "tolerance"),
        ({"force": 3.0}, errors.ShapeError, "force"),
    ],
)
def test_bad_input(options, kind, text):
    with pytest.raises(kind, match=text):
        carom.Spheres(**({"position": [[0.0, 0.0], [5.0, 0.0]], "radius": 1.0} | options))


def test_what_spheres_do_not_take():
    pile = carom.Spheres([[0.0, 0.0]], 1.0)
    with pytest.raises(errors.KindError, match="Spheres are moved by"):
        carom.solve(pile, carom.Penalty(lam=1e-3), t1=1.0, dt=0.1)
    with pytest.raises(errors.ShapeError, match="own state"):
        carom.solve(pile, carom.Maury(), q0=[0.0], v0=[0.0], t1=1.0, dt=0.1)
    short = carom.Spheres([[0.0, 0.0], [2.5, 2.5]], 1.0, periodic=(3.0, 10.0))
    with pytest.raises(errors.ShapeError, match="period 3 along axis 0"):
        carom.solve(short, carom.Maury(), t1=1.0, dt=0.1)


def test_a_solution_animates_itself(tmp_path):
    pile = carom.Spheres([[0.0, 0.0], [0.0, 1.1]], 0.5, velocity=[[0.0, 0.0], [0.0, -1.0]])
    sol = carom.solve(pile, carom.Maury(), t1=0.2, dt=0.1)
    sol.animate(tmp_path / "pair.gif", forces=True, seconds=1.0)
    assert (tmp_path / "pair.gif").read_bytes().startswith(b"GIF89a")
    with pytest.raises(carom.errors.RecordError, match=r"\.gif"):
        sol.animate(tmp_path / "pair.avi")
