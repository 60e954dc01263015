"""Spheres with friction and spin, against the answers of dry friction."""

import numpy as np
import pytest

import carom
from by_trait import WITH_FRICTION
from carom import errors
from carom.kernels.numba import threads
from carom.worlds.spheres.world import World
from stopping import assert_same, recorded_and_resumed

G, R = 9.81, 0.5
EVERY = carom.Record(every=1)
FLOOR = {2: carom.Plane((0, 0), (0, 1)), 3: carom.Plane((0, 0, 0), (0, 0, 1))}


def on_the_level(d, v0=0.0, w0=0.0, **options):
    """A ball or a disc on a floor; w0 > 0 rolls it on."""
    x, v = np.zeros((1, d)), np.zeros((1, d))
    x[0, -1], v[0, 0] = R, v0
    spin = [-w0] if d == 2 else [[0.0, w0, 0.0]]
    options = {"walls": [FLOOR[d]], "gravity": (0.0,) * (d - 1) + (-G,)} | options
    return carom.Spheres(x, R, velocity=v, spin=spin, **options)


def rolled(sol):
    """(n,) the spin that goes with rolling on."""
    return -sol.spin[:, 0] if sol.pile.dimension == 2 else sol.spin[:, 0, 1]


# ---- answers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", WITH_FRICTION, ids=str)
@pytest.mark.parametrize(("d", "part"), [(3, 5 / 7), (2, 2 / 3)])
def test_sliding_turns_into_rolling(scheme, d, part):
    """v = v0 - mu g t until v = part v0, at t = (1 - part) v0 / (mu g); then nothing changes."""
    mu, dt = 0.2, 1e-3
    sol = carom.solve(on_the_level(d, v0=1.0, friction=mu), scheme, t1=0.3, dt=dt, record=EVERY)
    end = (1.0 - part) / (mu * G)
    v, slides = sol.v[:, 0, 0], sol.t <= end
    np.testing.assert_allclose(v[slides], 1.0 - mu * G * sol.t[slides], atol=1e-12)
    np.testing.assert_allclose(v[sol.t >= end + dt], part, rtol=1e-12)
    np.testing.assert_allclose(R * rolled(sol)[sol.t >= end + dt], part, rtol=1e-12)
    assert np.count_nonzero(slides) > 50
    assert carom.certify(sol).ok in (True, None)


@pytest.mark.parametrize("scheme", WITH_FRICTION, ids=str)
@pytest.mark.parametrize(("e", "mu", "w0"), [(0.0, 0.3, 7.0), (0.6, 0.1, -9.0), (0.5, 2.0, 30.0)])
def test_a_ball_with_spin_ends_at_a_speed_of_its_own(scheme, e, mu, w0):
    """(5 v0 + 2 r w0) / 7, bouncing or not: no contact changes m v r - I w at the floor."""
    pile = on_the_level(3, v0=1.0, w0=w0, friction=mu, restitution=e)
    pile = pile.replaced(position=[[0, 0, R + 0.1]])
    sol = carom.solve(pile, scheme, t1=8.0, dt=4e-3)
    assert sol.v[-1, 0, 0] == pytest.approx((5.0 + 2.0 * R * w0) / 7.0, abs=1e-9)
    assert R * rolled(sol)[-1] == pytest.approx(sol.v[-1, 0, 0], abs=1e-9)


@pytest.mark.parametrize("scheme", WITH_FRICTION, ids=str)
@pytest.mark.parametrize(("mu", "rolls"), [(0.25, True), (0.1, False)])
def test_on_a_slope_at_order_one(scheme, mu, rolls):
    """tan th = 0.7: rolls iff mu >= 0.2, a = 5/7 g sin th; else a = g (sin th - mu cos th)."""
    th = np.arctan(0.7)
    down, across = G * np.sin(th), G * np.cos(th)
    a = 5 / 7 * down if rolls else down - mu * across
    spun = a / R if rolls else 2.5 * mu * across / R
    off = []
    for dt in (0.02, 0.01):
        pile = on_the_level(3, friction=mu, gravity=(down, 0.0, -across))
        sol = carom.solve(pile, scheme, t1=1.0, dt=dt)
        np.testing.assert_allclose(sol.v[-1, 0], [a, 0, 0], atol=1e-11)
        assert rolled(sol)[-1] == pytest.approx(spun)
        off.append(sol.x[-1, 0, 0] - a / 2)
    assert off[0] == pytest.approx(2.0 * off[1], rel=1e-6)  # a dt t / 2, of explicit Euler
    assert abs(off[1]) == pytest.approx(a * 0.01 / 2, rel=1e-6)


@pytest.mark.parametrize("scheme", WITH_FRICTION, ids=str)
@pytest.mark.parametrize("mu", [0.05, 0.3, 1e3])
@pytest.mark.parametrize("d", [2, 3])
def test_an_oblique_impact(scheme, mu, d):
    """J_n = m (1 + e) |v_n|, J_t = min(mu J_n, 2/7 m |s|), s the slip before; a disc: 1/3 m |s|."""
    e, m, v, w0 = 0.7, 2.0, np.array([1.0, -2.0]), 3.0
    pile = on_the_level(d, friction=mu, restitution=e, w0=w0, mass=m, gravity=None)
    x, velocity = np.zeros((1, d)), np.zeros((1, d))
    x[0, -1], velocity[0, [0, -1]] = R + 0.0101, v
    pile = pile.replaced(position=x, velocity=velocity)
    sol = carom.solve(pile, scheme, t1=0.02, dt=1e-3, record=EVERY)
    slip, part = v[0] - R * w0, 2 / 7 if d == 3 else 1 / 3
    normal = m * (1 + e) * 2.0
    along = -np.sign(slip) * min(mu * normal, part * m * abs(slip))
    inertia = (0.4 if d == 3 else 0.5) * m * R**2
    np.testing.assert_allclose(sol.v[-1, 0, [0, -1]], [1.0 + along / m, e * 2.0], rtol=1e-12)
    assert rolled(sol)[-1] == pytest.approx(w0 - R * along / inertia, rel=1e-12)
    struck = next(c for c in sol.contacts if len(c))
    assert struck.impulse == pytest.approx(normal)
    np.testing.assert_allclose(struck.friction[0, 0], -along)  # on the wall, the second
    np.testing.assert_allclose(
        np.sum(sol.angular_impulse), np.sum(np.diff(sol.spin, axis=0)) * inertia
    )


@pytest.mark.parametrize("d", [2, 3])
def test_a_touch_at_the_end_of_a_step(d):
    """A push that rounding makes of a gap is no bounce, and leaves no friction in v and w."""
    dt, made = 1e-2, 0
    for seed in range(40):
        rng = np.random.default_rng([d, seed])
        n, point, belt = rng.normal(size=(3, d)) * [[1.0], [1e3], [1e3]]
        n /= np.linalg.norm(n)
        speed = rng.uniform(1.0, 2.0)
        x = point + n * (R * (1 + 0.5e-6) + dt * speed)  # half a tolerance off at the end
        floor = carom.Plane(point, n, velocity=belt - n * (n @ belt))
        options = {"walls": [floor], "friction": 100.0, "restitution": 1.0}
        pile = carom.Spheres([x], R, [-speed * n], **options)
        sol = carom.solve(pile, carom.Maury(), t1=dt, dt=dt, record=EVERY)
        if np.any(sol.impulse):  # more than rounding: it bounced
            continue
        np.testing.assert_allclose(sol.v[1], sol.v[0], rtol=0, atol=1e-13)
        np.testing.assert_allclose(sol.spin, 0.0, atol=1e-13)
        made += 1
    assert made > 10


@pytest.mark.parametrize("scheme", WITH_FRICTION, ids=str)
@pytest.mark.parametrize("mu", [0.05, 1.0])
def test_two_equal_balls(scheme, mu):
    """Half of the masses of the wall's: J_n = m/2 (1 + e) |v_n|, J_t = min(mu J_n, m/7 |s|)."""
    e, rng = 0.4, np.random.default_rng(0)
    n = rng.normal(size=3)
    n /= np.linalg.norm(n)
    across = np.cross(n, [0.0, 0.0, 1.0])
    v = np.array([1.5 * n + 0.8 * across, -0.5 * n])
    w = rng.normal(size=(2, 3))
    pile = carom.Spheres(
        [-(R + 0.005) * n, (R + 0.005) * n], R, v, restitution=e, friction=mu, spin=w
    )
    sol = carom.solve(pile, scheme, t1=0.02, dt=1e-3)
    slip = v[1] - v[0] - np.cross(R * (w[0] + w[1]), n)
    slip -= (slip @ n) * n
    # the normal turns a little in the step: order one
    J_n, J_t = 0.5 * (1 + e) * 2.0, min(mu * (1 + e), np.linalg.norm(slip) / 7)
    J = J_n * n - J_t * slip / np.linalg.norm(slip)
    np.testing.assert_allclose(sol.v[-1], v + np.array([-J, J]), atol=4e-3)
    turn = np.cross(n, -J_t * slip / np.linalg.norm(slip)) * R / (0.4 * R**2)
    np.testing.assert_allclose(sol.spin[-1], w - turn, atol=4e-2)
    np.testing.assert_allclose(sol.momentum()[-1], np.sum(v, axis=0), atol=1e-13)
    whole = [_angular_momentum(sol, k) for k in (0, -1)]
    np.testing.assert_allclose(*whole, atol=3e-3)  # arms r, centres 2 r + gap: order one


def _angular_momentum(sol, k):
    pile = sol.pile
    return np.sum(np.cross(sol.x[k], sol.v[k]), 0) + np.sum(pile.inertia[:, None] * sol.spin[k], 0)


@pytest.mark.parametrize("scheme", WITH_FRICTION, ids=str)
@pytest.mark.parametrize(("mu", "rests"), [(0.25, False), (0.29, True)])
def test_a_disc_on_two_rests_by_friction(scheme, mu, rests):
    """Without a force between the lower ones it rests iff mu >= tan 15 deg = 0.268."""
    x = [[-0.5, 0.5], [0.5, 0.5], [0.0, 0.5 + np.sqrt(0.75)]]
    pile = carom.Spheres(x, 0.5, walls=[FLOOR[2]], gravity=(0, -G), friction=mu)
    sol = carom.solve(pile, scheme, t1=0.5, dt=2e-3)
    fell = x[2][1] - sol.x[-1, 2, 1]
    assert (fell < 1e-4) if rests else (fell > 5e-3)


# ---- what moves spheres -------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", WITH_FRICTION, ids=str)
@pytest.mark.parametrize(("d", "part"), [(3, 2 / 7), (2, 1 / 3)])
@pytest.mark.parametrize("how", ["belt", "moved", "obstacle"])
def test_a_belt_takes_a_ball_along(scheme, d, part, how):
    """From rest to 2/7 of its velocity (a disc: 1/3), and to rolling on it."""
    V, along, up = 0.7, np.eye(d)[0], np.eye(d)[-1]
    floor = carom.Plane(np.zeros(d), up, velocity=V * along)
    if how == "moved":
        floor = carom.Plane(lambda t: V * t * along, up)
    if how == "obstacle":  # so large that it is flat
        floor = carom.spheres.Obstacles([-1e6 * up], 1e6, velocity=V * along)
    pile = on_the_level(d, friction=0.4, walls=[floor])
    sol = carom.solve(pile, scheme, t1=0.3, dt=2e-3)
    assert sol.v[-1, 0, 0] == pytest.approx(part * V, rel=1e-6)
    assert R * rolled(sol)[-1] == pytest.approx((part - 1.0) * V, rel=1e-6)
    if how == "belt":
        assert sol.wall_impulse[:, 0, 0].sum() == pytest.approx(-part * V)
        assert carom.certify(sol).ok is not False


@pytest.mark.parametrize("scheme", WITH_FRICTION, ids=str)
def test_a_ball_on_a_turntable_goes_in_circles(scheme):
    """At 2/7 of the table's rate, about a centre of its own."""
    rate, turns = 2.0, []
    for dt in (4e-3, 2e-3):
        v0 = np.array([0.3, 0.0, 0.0])
        surface = np.cross([0, 0, rate], [0.4, 0, 0])
        spin = np.cross([0, 0, 1], v0 - surface) / R  # v - surface = r w x n, no slip
        table = carom.Plane((0, 0, 0), (0, 0, 1), spin=(0, 0, rate))
        pile = carom.Spheres(
            [[0.4, 0, R]], R, [v0], walls=[table], gravity=(0, 0, -G), friction=1.0, spin=[spin]
        )
        sol = carom.solve(pile, scheme, t1=1.0, dt=dt)
        v = sol.v[-1, 0]
        turns.append(np.arctan2(v[1], v[0]))
        assert carom.certify(sol)["slip"].ok
    off = np.array(turns) - 2 / 7 * rate
    assert abs(off[1]) < 2e-3
    assert off[0] == pytest.approx(2.0 * off[1], rel=0.1, abs=1e-6)


def test_a_drum_spins_what_lies_in_it():
    """A disc at the bottom stays there if it spins with the wall, and climbs if it does not."""
    big, rate = 3.0, 0.8
    drum = carom.spheres.Cylinder((0, 0), (0, 0, 1), big, spin=rate)
    disc = carom.Spheres(
        [[0, R - big]], R, walls=[drum], gravity=(0, -G), friction=0.5, spin=[rate * big / R]
    )
    sol = carom.solve(disc, carom.Maury(), t1=1.0, dt=5e-3)
    np.testing.assert_allclose(sol.x[-1, 0], [0, R - big], atol=1e-9)
    sol = carom.solve(disc.replaced(spin=[0.0]), carom.Maury(), t1=0.2, dt=5e-3)
    assert sol.x[-1, 0, 0] > 0.02


def test_a_drum_that_nearly_fits_says_by_how_much_a_step_fails():
    """It turns by 5 mm in a step, with 2 mm to spare: wherever it is linearised, it is entered."""
    drum = carom.spheres.Shell((0, 0), 1.002 * R, spin=1.0)
    disc = carom.Spheres([[0, -0.002 * R]], R, walls=[drum], gravity=(0, -G), friction=0.3)
    sol = carom.solve(disc, carom.Maury(), t1=0.1, dt=1e-2, throw=False)
    assert sol.status == carom.Status.unconverged
    assert 1e-5 < sol.stats.residual < 0.1
    assert carom.solve(disc, carom.Maury(), t1=0.1, dt=1e-3).ok


@pytest.mark.parametrize("side", ["low", "high"])
def test_a_floor_stays_while_one_side_of_its_box_moves(side):
    """And goes with a box whose sides move alike."""

    def rests(low, high):
        box = carom.spheres.Box(lambda t: (-5.0 + low * t, 0.0), lambda t: (5.0 + high * t, np.inf))
        sol = carom.solve(
            on_the_level(2, friction=0.5, walls=[box]), carom.Maury(), t1=0.1, dt=2e-3
        )
        return sol.v[-1, 0, 0]

    assert rests(*((0.4, 0.0) if side == "low" else (0.0, 0.4))) == 0.0
    assert rests(*((0.4, -0.4) if side == "low" else (-0.4, 0.4))) == 0.0
    assert rests(0.3, 0.3) == pytest.approx(0.1)  # a disc that rolls is taken along by a third


def test_a_panel_that_turns_carries_its_surface():
    """A paddle about its end: the velocity of its surface is that of the turning."""
    from carom.worlds.spheres.walls import Walls

    rate, t = 1.3, 0.4
    paddle = carom.spheres.Panel(
        (0.1, 0.2, 0.0),
        lambda t: 2.0 * np.array([np.cos(rate * t), np.sin(rate * t), 0.0]),
        (0.0, 0.0, 1.0),
    )
    point, velocity, spin = Walls([paddle], 0.0).surfaces_at(t, 1e-2)
    tip = np.array([np.cos(rate * t), np.sin(rate * t), 0.0])
    np.testing.assert_allclose(spin, [[0, 0, rate]], atol=1e-8)
    np.testing.assert_allclose(point, [np.array([0.1, 0.2, 0.5]) + tip], atol=1e-12)
    np.testing.assert_allclose(velocity, [rate * np.array([-tip[1], tip[0], 0.0])], atol=1e-8)


# ---- piles --------------------------------------------------------------------------------------


def pile_of(d, seed=0, **options):
    shape = (4, 4, 4) if d == 3 else (6, 6)
    side = 1.1 * shape[0]
    box = carom.spheres.Box((0,) * d, (side,) * (d - 1) + (np.inf,))
    gravity = (0,) * (d - 1) + (-G,)
    options = {"walls": [box], "gravity": gravity} | options
    return carom.spheres.lattice(shape, R, spacing=1.1, jitter=0.04, seed=seed, **options)


@pytest.mark.parametrize("scheme", WITH_FRICTION, ids=str)
@pytest.mark.parametrize("d", [2, 3])
def test_without_friction_spin_stays_and_changes_nothing(scheme, d):
    rng = np.random.default_rng(1)
    plain = pile_of(d, restitution=0.3)
    spun = plain.replaced(spin=rng.normal(size=(len(plain), 3) if d == 3 else len(plain)))
    a, b = (carom.solve(p, scheme, t1=0.4, dt=4e-3) for p in (plain, spun))
    np.testing.assert_allclose(b.x, a.x, atol=1e-11)
    np.testing.assert_array_equal(b.spin, np.broadcast_to(spun.spin, b.spin.shape))
    assert len(a.contacts[-1]) > 10
    assert not np.any(a.spin)
    assert a.spin.shape == b.spin.shape


@pytest.mark.parametrize("scheme", WITH_FRICTION, ids=str)
@pytest.mark.parametrize(("d", "mu"), [(2, 0.3), (3, 0.2), (3, 0.5)])
def test_a_pile_is_certified_and_gains_no_energy(scheme, d, mu):
    rng = np.random.default_rng(2)
    pile = pile_of(d, seed=3, friction=mu)
    N = len(pile)
    pile = pile.replaced(
        velocity=rng.normal(size=(N, d)),
        spin=5.0 * rng.normal(size=(N, 3) if d == 3 else N),
        mass=10.0 ** rng.uniform(-0.5, 0.5, N),
    )
    sol = carom.solve(pile, scheme, t1=0.8, dt=4e-3, record=EVERY)
    found = carom.certify(sol)
    if isinstance(scheme, carom.Maury):  # Moreau leaves overlaps of fast impacts, here as without
        assert found.ok is True, str(found)
    for name in ("momentum", "momentum, total", "angular momentum", "cone", "slip", "energy"):
        assert found[name].ok is True, str(found)
    assert sum(map(len, sol.contacts)) > 1000
    if isinstance(scheme, carom.Maury):
        assert sol.stats.overlap <= pile.tolerance * R
    sliding = sol.contacts[-1]
    assert np.any(np.linalg.norm(sliding.friction, axis=1) > 1e-3 * sliding.impulse)


@pytest.mark.parametrize("mu", [10.0, 1e3])
def test_a_pile_with_much_friction_comes_to_an_end(mu):
    """Sweeps alone stop in it."""
    pile = pile_of(2, seed=1, friction=mu)
    sol = carom.solve(pile, carom.Maury(), t1=0.8, dt=4e-3, record=EVERY)
    assert sol.stats.loose == 0
    assert sol.stats.overlap <= pile.tolerance * R
    found = carom.certify(sol)
    for name in ("momentum", "angular momentum", "cone", "slip", "energy"):
        assert found[name].ok is True, str(found)


@pytest.mark.slow
@pytest.mark.parametrize(("N", "mu", "seed"), [(50, 1.0, 0), (100, 0.5, 1), (200, 0.7, 5)])
def test_random_spheres_come_to_rest_to_the_tolerance(N, mu, seed):
    """Sweeps and the path of smooth laws alone stop in them."""
    r = 0.5 * np.random.default_rng(seed).uniform(0.8, 1.2, N)
    about = {"radius": r, "periodic": False, "seed": seed, "gravity": (0, 0, -G), "friction": mu}
    sol = carom.solve(carom.spheres.random(N, 0.3, **about), carom.Maury(), t1=1.2, dt=2e-3)
    assert sol.stats.loose == 0
    assert sol.stats.residual <= sol.pile.tolerance
    assert sol.stats.overlap <= sol.pile.tolerance * sol.pile.smallest


@pytest.mark.slow
def test_discs_of_many_masses_come_to_rest_to_the_tolerance():
    """Masses 1 : 10^6: one step was loose with the path of contacts that yield alone."""
    rng, k = np.random.default_rng(0), np.arange(100)
    x = 1.1 * np.stack([k % 10, k // 10], axis=1) + 0.55 + 0.02 * rng.uniform(-1, 1, (100, 2))
    r, m = 0.5 * rng.uniform(0.9, 1.0, 100), 1e6 ** rng.uniform(0, 1, 100)
    walls = [carom.spheres.Box((0, 0), (11.0, np.inf))]
    about = {"mass": m, "friction": 0.5, "gravity": (0, -1.0), "walls": walls, "tolerance": 1e-4}
    sol = carom.solve(carom.Spheres(x, r, **about), carom.Maury(), t1=5.0, dt=0.02, throw=False)
    assert sol.ok
    assert sol.stats.loose == 0
    assert sol.stats.residual <= 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("mu", [0.5, 1.0])
@pytest.mark.parametrize(("shape", "seed"), [((3, 3, 4), 1), ((5, 8), 0)])
def test_piles_of_many_masses(shape, seed, mu):
    """1 : 10^6; of twelve runs one was loose, and steps took up to 8 s, before smooth paths."""
    grid = carom.spheres.lattice(shape, 0.5, spacing=1.1, jitter=0.04, seed=seed).position
    rng, d = np.random.default_rng(seed), len(shape)
    x = grid - grid.min(axis=0) + 0.5
    box = carom.spheres.Box(
        (-0.2,) * (d - 1) + (-0.05,), (*(1.1 * n + 0.3 for n in shape[:-1]), 50)
    )
    pile = carom.Spheres(
        *(x, 0.5 * rng.uniform(0.8, 1.0, len(x))),
        velocity=rng.normal(size=x.shape),
        mass=1e6 ** rng.random(len(x)),
        walls=[box],
        gravity=(0,) * (d - 1) + (-G,),
        friction=mu,
        tolerance=1e-4,
    )
    sol = carom.solve(pile, carom.Maury(), t1=0.6, dt=5e-3)
    assert sol.stats.loose == 0
    assert sol.stats.residual <= 1e-4


@pytest.mark.slow
def test_spheres_with_too_much_friction_do_not_stop():
    """mu = 1e3: solved to the tolerance."""
    pile = pile_of(3, seed=1, friction=1e3)
    sol = carom.solve(pile, carom.Maury(), t1=0.4, dt=4e-3, record=EVERY)
    assert sol.stats.loose == 0
    found = carom.certify(sol)
    for name in ("feasibility", "momentum", "angular momentum", "cone", "energy"):
        assert found[name].ok is True, str(found)
    assert found["slip"].ok is True


@pytest.mark.parametrize(
    ("d", "stages"),
    [
        (2, ["afresh", "near", "inside", "far", "path", "multipliers"]),
        (3, ["afresh", "inside", "multipliers", "narrowed", "path"]),
    ],
)
def test_each_way_to_solve_a_block_takes_its_turn(d, stages, monkeypatch):
    """What those before it leave a way solves alone, to the measure of the law."""
    from carom.worlds.spheres import sliding, wedged

    def captured(part, still, bounces, planar, limit):
        blocks.append([np.copy(x) if isinstance(x, np.ndarray) else x for x in part])
        return tried(part, still, bounces, planar, limit)

    blocks, tried = [], wedged._block
    monkeypatch.setattr(wedged, "_block", captured)
    monkeypatch.setattr(sliding, "_SWEEPS", 3)
    carom.solve(pile_of(d, seed=1, friction=2.0), carom.Maury(), t1=0.2, dt=4e-3)
    block = max(blocks, key=lambda part: len(part[1]))
    monkeypatch.setattr(wedged._Block, "newton", lambda self, turns: 0)
    assert np.max(wedged._lacking(block)) > 1.0
    for stage in stages:
        part = [np.copy(x) if isinstance(x, np.ndarray) else x for x in block]
        assert wedged._at_once(part, d == 2, 15, 20_000)[1], stage
        assert np.max(wedged._lacking(part)) <= 1.0
        monkeypatch.setattr(wedged._Block, stage, lambda self, most: 0)
    assert wedged._at_once(block, d == 2, 15, 20_000) == (0, False)


def test_a_step_that_no_way_solves_is_counted(monkeypatch, tmp_path):
    """Gaps stay open and impulses in their cones; the slip is off, and the certificate says so."""
    from carom.worlds.spheres import sliding, wedged

    monkeypatch.setattr(wedged, "_tried", lambda part, planar, limit: (0, False))
    for name, value in (("_LOOSE", 1.0), ("_LOOSELY", 10.0)):
        monkeypatch.setattr(sliding, name, value)
    pile = pile_of(2, seed=1, friction=10.0)
    record = carom.Record(every=1, path=tmp_path / "loose.vtkhdf")
    with pytest.raises(carom.errors.ConvergenceError, match=r"They are \d+ of 200, the worst") as e:
        carom.solve(pile, carom.Maury(), t1=0.8, dt=4e-3, record=record)
    sol = e.value.solution
    assert not sol.ok
    assert carom.load(tmp_path / "loose.vtkhdf").status is sol.status is carom.Status.loose
    assert sol.stats.steps == 200
    assert sol.stats.loose > 0
    assert sol.stats.residual > pile.tolerance
    assert f"off the tolerance       {sol.stats.loose} step" in str(sol)
    found = carom.certify(sol)
    for name in ("feasibility", "momentum", "angular momentum", "cone", "energy"):
        assert found[name].ok is True, str(found)
    assert found["slip"].ok is False


def test_what_friction_holds_does_not_bounce():
    """In a corner Newton's law has no answer with mu >= 1; next to it discs bounce as they do.

    On a floor that is by v+ = e (g dt - v-), which ends at e g dt / (1 + e).
    """
    e, dt = 0.5, 4e-3
    pile = pile_of(2, seed=1, friction=1.0, restitution=e)
    sol = carom.solve(pile, carom.Maury(), t1=0.6, dt=dt)
    up = sol.v[-1, :6, 1]  # of the lowest
    assert abs(up[0]) < pile.tolerance
    np.testing.assert_allclose(up[1:5], e * G * dt / (1.0 + e), rtol=1e-4)


def faulty(sol, k, **changes):
    """The solution with the contacts of one record changed."""
    from dataclasses import replace

    table = sol.contacts[k]
    sol.contacts[k] = replace(table, **{name: make(table) for name, make in changes.items()})
    return sol


def test_planted_faults_are_found():
    pile = on_the_level(3, v0=1.0, friction=0.2)

    def run():
        return carom.solve(pile, carom.Maury(), t1=0.3, dt=2e-3, record=EVERY)

    slides, rolls = 20, 140
    assert carom.certify(run()).ok
    along = faulty(run(), slides, friction=lambda c: -c.friction)
    assert carom.certify(along)["slip"].ok is False
    outside = faulty(run(), slides, friction=lambda c: 1.01 * c.friction)
    assert carom.certify(outside)["cone"].ok is False
    sticks = faulty(run(), slides, friction=lambda c: 0.5 * c.friction)
    assert carom.certify(sticks)["slip"].ok is False
    spun = run()
    spun.spin[rolls] += 1e-3
    assert carom.certify(spun)["angular momentum"].ok is False
    assert carom.certify(spun)["slip"].ok is False


def test_the_law_is_held_by_another_measure():
    """A step of a pile as a problem of its own, measured by the natural map of carom.fclib."""
    pile = pile_of(3, seed=5, friction=0.4, tolerance=1e-10)
    sol = carom.solve(pile, carom.Maury(), t1=0.8, dt=4e-3)
    world = World(pile.replaced(position=sol.x[-1]).during(0.0, 1.0), 4e-3)
    q = sol.x[-1]
    v = np.concatenate([sol.v[-1], sol.spin[-1]], axis=1)
    free = v + world.dt * world.metric(q).solve(world.forces(0.0, q, v))
    contacts, moved = world.keep_open(world.metric(q), world.dt, q, free, world.dt)
    assert moved.status is carom.Status.ok
    p, N = len(contacts.gap), world.N
    H = np.zeros((p, 3, N + 1, 6))
    lam = np.zeros((p, 3))
    for k, (i, j, n) in enumerate(zip(contacts.i, contacts.j, contacts.normal, strict=True)):
        t = np.linalg.svd(n[None])[2][1:]
        for row, e in enumerate((n, *t)):
            H[k, row, j, :3] += e
            H[k, row, i, :3] -= e
            if row:  # (w x n) . e = w . (n x e)
                for body in (i, j):
                    H[k, row, body, 3:] -= R * np.cross(n, e)
        lam[k] = [moved.multipliers[k, 0], *(t @ moved.multipliers[k, 1:])]
    H = H[:, :, :N].reshape(3 * p, 6 * N)
    inverse = 1.0 / np.repeat(np.stack([pile.mass, pile.inertia], 1), 3, axis=1).ravel()
    b = np.zeros((p, 3))
    b[:, 0] = contacts.gap / world.dt
    problem = carom.fclib.Problem(
        W=(H * inverse) @ H.T, q=b.ravel() + H @ free.ravel(), mu=0.4, dim=3
    )
    assert p > 100
    assert problem.residual(lam.ravel()) < 1e-7
    other = problem.solve(tolerance=1e-10)
    mine = H @ moved.point.ravel() + b.ravel()
    np.testing.assert_allclose(mine, other.u, atol=1e-6 * np.max(np.abs(problem.q)))


# ---- the same bits ------------------------------------------------------------------------------


def test_the_same_bits_with_any_number_of_threads(monkeypatch):
    pile = carom.spheres.lattice(
        (5, 5, 8), R, spacing=1.02, gravity=(0, 0, -G), walls=[FLOOR[3]], friction=0.5, jitter=0.01
    )
    found = []
    for least in (1_000_000, 1):
        monkeypatch.setattr(threads, "_SPHERES_PER_THREAD", least)
        found.append(carom.solve(pile, carom.Maury(), t1=0.1, dt=4e-3))
    assert found[0].stats.iterations > 50
    assert_same(*found)


@pytest.mark.parametrize("d", [2, 3])
def test_recorded_and_resumed(tmp_path, monkeypatch, d):
    pile = pile_of(d, friction=0.5, restitution=0.2)
    belt = FLOOR[d]
    pile = pile.replaced(
        walls=[carom.Plane(belt.point, belt.normal, velocity=np.eye(d)[0])],
        spin=np.ones((len(pile), 3)) if d == 3 else np.ones(len(pile)),
    )

    recorded_and_resumed(pile, tmp_path, monkeypatch, pile.replaced(friction=0.4), "friction")


def test_a_run_goes_on_from_another():
    pile = pile_of(3, friction=0.5)
    whole = carom.solve(pile, carom.Maury(), t1=0.8, dt=4e-3, record=carom.Record(every=100))
    first = carom.solve(pile, carom.Maury(), t1=0.4, dt=4e-3)
    then = carom.solve(pile, carom.Maury(), start=first, t1=0.8, dt=4e-3)
    np.testing.assert_array_equal(then.spin[-1], whole.spin[-1])
    np.testing.assert_array_equal(then.x[-1], whole.x[-1])


# ---- refused ------------------------------------------------------------------------------------


def test_what_is_refused():
    with pytest.raises(errors.KindError, match="Maury"):
        carom.solve(on_the_level(3, friction=0.1), carom.PaoliSchatzman(), t1=1.0, dt=0.1)
    for mu in (-0.1, np.nan, np.inf, [0.1, 0.2], "rough"):
        with pytest.raises(errors.FrictionError, match="friction"):
            carom.Spheres([[0, 0]], 1.0, friction=mu)
    with pytest.raises(errors.ShapeError, match="spin"):
        carom.Spheres([[0, 0]], 1.0, spin=[[0, 0, 1.0]])
    with pytest.raises(errors.ShapeError, match="spin"):
        carom.Spheres([[0, 0, 0]], 1.0, spin=[1.0])
    with pytest.raises(errors.ShapeError, match="inertia"):
        carom.Spheres([[0, 0, 0]], 1.0, inertia=0.0)
    for surface in ({"velocity": 1.0}, {"spin": (1.0, 0, 0)}, {"velocity": (np.nan, 0)}):
        with pytest.raises(errors.ShapeError, match="surface"):
            carom.Spheres([[0, 2.0]], 1.0, walls=[carom.Plane((0, 0), (0, 1), **surface)])


@pytest.mark.parametrize("walls", ["still", "turning"])
def test_what_the_certificate_leaves_open(walls):
    """Restitution may gain energy, walls that turn do work, corrected positions hide the slip."""
    drum = carom.spheres.Cylinder((0, 0), (0, 0, 1), 4.0, spin=1.0 if walls == "turning" else None)
    x = carom.spheres.lattice((3, 3), R, spacing=1.1).position - 1.65
    options = {"walls": [drum], "gravity": (0, -G), "friction": 0.5}
    pile = carom.Spheres(x, R, **options)
    found = carom.certify(carom.solve(pile, carom.Maury(), t1=0.5, dt=5e-3))
    assert found["energy"].ok is (None if walls == "turning" else True)
    assert found["slip"].ok is True
    bounced = carom.certify(
        carom.solve(pile.replaced(restitution=0.5), carom.Moreau(correct=True), t1=0.5, dt=5e-3)
    )
    assert bounced["energy"].ok is None
    assert bounced["slip"].ok is None
    one = carom.solve(pile, carom.Maury(), t1=5e-3, dt=5e-3, record=carom.Record(times=[5e-3]))
    assert carom.certify(one).ok is not False
