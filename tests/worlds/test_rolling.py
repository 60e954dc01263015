"""Spheres that resist rolling and twisting, against what is known of one, and the definition."""

import clarabel
import numpy as np
import pytest
from scipy import sparse

import carom
from by_trait import WITH_FRICTION
from carom import errors
from carom.worlds.spheres import sliding, wedged
from carom.worlds.spheres.world import World
from stopping import recorded_and_resumed

G, R = 9.81, 0.5
EVERY = carom.Record(every=1)
FLOOR = {2: carom.Plane((0, 0), (0, 1)), 3: carom.Plane((0, 0, 0), (0, 0, 1))}
PART = {2: 2 / 3, 3: 5 / 7}  # 1 / (1 + I / (m r^2))


def on_a_slope(d, angle=0.0, v0=0.0, rolls=True, **options):
    """A ball or a disc on a slope, rolling down it at v0, or sliding."""
    x, v = np.zeros((1, d)), np.zeros((1, d))
    x[0, -1], v[0, 0] = R, v0
    w0 = v0 / R if rolls else 0.0
    spin = [-w0] if d == 2 else [[0.0, w0, 0.0]]
    gravity = np.zeros(d)
    gravity[[0, -1]] = G * np.sin(angle), -G * np.cos(angle)
    given = {"walls": [FLOOR[d]], "gravity": gravity, "friction": 0.8, "spin": spin}
    return carom.Spheres(x, R, velocity=v, **(given | options))


def pile_of(d, seed=0, **options):
    shape = (3, 3, 3) if d == 3 else (5, 4)
    side = 1.1 * shape[0]
    box = carom.spheres.Box((0,) * d, (side,) * (d - 1) + (np.inf,))
    gravity = (0,) * (d - 1) + (-G,)
    options = {"walls": [box], "gravity": gravity, "friction": 0.5, "rolling": 0.2} | options
    return carom.spheres.lattice(shape, R, spacing=1.1, jitter=0.04, seed=seed, **options)


# ---- one contact --------------------------------------------------------------------------------


def disc(x, most):
    """The points of discs nearest to x (p, 3)."""
    size = np.maximum(np.linalg.norm(x, axis=1), 1e-300)
    return x * np.minimum(1.0, most / size)[:, None]


def test_one_contact_by_force():
    """The closed forms against many small steps down a convex function, over discs."""
    from carom.kernels.numba import rolling

    rng, p = np.random.default_rng(0), 200
    n = rng.normal(size=(p, 3))
    n /= np.linalg.norm(n, axis=1)[:, None]
    inverse = rng.uniform(0.2, 2.0, (p, 2, 2))
    inverse[rng.random(p) < 0.2, 1] = 0.0  # a wall
    r, law = rng.uniform(0.2, 1.0, (p, 2)), rng.uniform(0.0, 1.0, (p, 4))
    a_n, a_r = inverse.sum(axis=1).T
    a_t = a_n + np.sum(r**2 * inverse[..., 1], axis=1)
    c = r[:, 0] * inverse[:, 0, 1] - r[:, 1] * inverse[:, 1, 1]
    w = np.column_stack([-rng.uniform(0.1, 1.0, p), np.cross(n, rng.normal(size=(p, 3)))])
    o = rng.normal(size=(p, 3)) * rng.choice([0.1, 1.0], (p, 1))
    found, steps = np.zeros((p, 7)), 1.0 / np.column_stack([a_n, a_t, a_r])
    for k in range(p):
        given = np.zeros(7), tuple(w[k]), tuple(o[k]), n[k], steps[k], c[k], law[k], found[k]
        rolling.solved(*given)
    push, step, z = -w[:, 0] / a_n, 1.0 / (a_t + a_r + np.abs(c)), np.cross(o, n)
    most, o_n = law[:, :3] * push[:, None], np.einsum("ij,ij->i", o, n)
    T, K, twist = np.zeros((p, 3)), np.zeros((p, 3)), np.zeros(p)
    for _ in range(1500):
        slip = w[:, 1:] + a_t[:, None] * T + c[:, None] * K
        roll = z + c[:, None] * T + a_r[:, None] * K
        T = disc(T - step[:, None] * slip, most[:, 0])
        K = disc(K - step[:, None] * roll, most[:, 1])
        twist = np.clip(twist - step * (o_n + a_r * twist), -most[:, 2], most[:, 2])
    np.testing.assert_allclose(found[:, :4], np.column_stack([push, T]), atol=1e-9)
    C = np.cross(n, K) + twist[:, None] * n
    np.testing.assert_allclose(found[:, 4:], C, atol=1e-9)
    sizes = [np.linalg.norm(x, axis=1) < 0.999 * most[:, k] for k, x in enumerate((T, K))]
    assert len(set(zip(*sizes, strict=True))) == 4  # either inside or at the edge
    after = o + a_r[:, None] * C + c[:, None] * np.cross(n, T)
    for k in range(p):
        assert rolling.law_residual(tuple(after[k]), found[k], n[k], 1 / a_r[k], law[k]) < 1e-8


# ---- answers ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("scheme", WITH_FRICTION, ids=str)
@pytest.mark.parametrize("d", [2, 3])
def test_rolling_comes_to_rest(scheme, d):
    """(I + m r^2) dw/dt = -rolling r m g: v = v0 - part rolling g t, until it rests, for good."""
    rho, dt = 0.1, 5e-3
    sol = carom.solve(
        on_a_slope(d, v0=1.0, rolling=rho, mass=3.0), scheme, t1=1.8, dt=dt, record=EVERY
    )
    end = 1.0 / (PART[d] * rho * G)
    before, after = sol.t <= end, sol.t > end + dt
    np.testing.assert_allclose(sol.v[before, 0, 0], 1 - PART[d] * rho * G * sol.t[before], 1e-10)
    np.testing.assert_allclose(sol.v[after], 0.0, atol=1e-12)
    np.testing.assert_allclose(sol.spin[after], 0.0, atol=1e-12)
    torque = np.array([np.linalg.norm(np.atleast_1d(c.torque)) for c in sol.contacts[2:200]])
    np.testing.assert_allclose(torque, rho * R * 3.0 * G, rtol=1e-9)
    assert carom.certify(sol).ok is not False


@pytest.mark.slow
@pytest.mark.parametrize("scheme", WITH_FRICTION, ids=str)
@pytest.mark.parametrize("d", [2, 3])
def test_a_slope_is_rolled_down_if_it_is_steep(scheme, d):
    """It rests iff tan(angle) <= rolling; else a = part g (sin - rolling cos)."""
    rho = 0.2
    for tangent in (0.05, 0.199, 0.201, 0.4):
        angle = np.arctan(tangent)
        sol = carom.solve(on_a_slope(d, angle, rolling=rho), scheme, t1=0.5, dt=5e-3)
        a = PART[d] * G * max(np.sin(angle) - rho * np.cos(angle), 0.0)
        np.testing.assert_allclose(sol.v[-1, 0, 0], 0.5 * a, atol=1e-10)
        np.testing.assert_allclose(R * np.abs(sol.spin[-1]).max(), 0.5 * a, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", WITH_FRICTION, ids=str)
def test_a_top_is_slowed_down_and_a_turntable_spins_it_up(scheme):
    """I dw/dt = -twisting r m g sign(w - spin of the wall), and nothing else changes."""
    tau, dt, rate = 0.05, 2e-3, 0.05 * G / (0.4 * R)
    for table in (0.0, 3.0):
        walls = [carom.Plane((0, 0, 0), (0, 0, 1), spin=(0, 0, table))]
        pile = on_a_slope(3, twisting=tau, spin=[[0, 0, 1.0]], walls=walls)
        sol = carom.solve(pile, scheme, t1=1.0, dt=dt, record=EVERY)
        lasts, sign = abs(1.0 - table) / rate, np.sign(table - 1.0)
        turns = sol.t <= lasts
        spin = sol.spin[:, 0, 2]
        np.testing.assert_allclose(spin[turns], 1.0 + sign * rate * sol.t[turns], rtol=1e-9)
        np.testing.assert_allclose(spin[sol.t > lasts + dt], table, atol=1e-9)
        np.testing.assert_allclose(sol.v, 0.0, atol=1e-12)
        assert carom.certify(sol).ok is not False


@pytest.mark.slow
def test_much_of_it_blocks_rolling_and_none_is_plain_friction():
    """What cannot roll slides like a block; with 0 the bits are those without the argument."""
    for d in (2, 3):
        held = on_a_slope(d, v0=1.0, rolls=False, rolling=100.0, friction=0.2)
        sol = carom.solve(held, carom.Maury(), t1=0.6, dt=2e-3)
        slides = sol.t < 1.0 / (0.2 * G)
        np.testing.assert_allclose(sol.v[slides, 0, 0], 1 - 0.2 * G * sol.t[slides], atol=1e-10)
        np.testing.assert_allclose(sol.spin, 0.0, atol=1e-12)
        np.testing.assert_allclose(sol.v[-1], 0.0, atol=1e-12)
        plain = carom.solve(pile_of(d, rolling=0.0), carom.Maury(), t1=0.4, dt=4e-3)
        assert not plain.pile.rolls
        assert not np.any(plain.contacts[-1].couple)
        none = plain.pile.replaced(rolling=1e-14)
        little = carom.solve(none, carom.Maury(), t1=0.1, dt=4e-3)
        there = np.flatnonzero(plain.t <= little.t[-1] + 1e-9)[-1]
        np.testing.assert_allclose(little.x[-1], plain.x[there], atol=1e-9)


@pytest.mark.slow
def test_two_balls_roll_over_each_other_with_the_effective_radius():
    """A couple of up to rolling r_1 r_2 / (r_1 + r_2) holds each; the sum of both spins stays."""
    r, rho, push = np.array([0.5, 0.25]), 0.1, 2.0
    pile = carom.Spheres(
        [[0.0, 0, 0], [0.75, 0, 0]],
        r,
        spin=[[0, 0, 1.0], [0, 0, -2.0]],  # r_1 w_1 + r_2 w_2 = 0: it rolls
        inertia=1e4,  # so that neither v nor w changes
        friction=0.5,
        rolling=rho,
        force=lambda t, x, v: np.array([[push, 0, 0], [-push, 0, 0]]),
    )
    sol = carom.solve(pile, carom.Maury(), t1=0.1, dt=1e-2, record=EVERY)
    couple = rho * (0.5 * 0.25 / 0.75) * push
    np.testing.assert_allclose(sol.contacts[-1].torque, [[0, 0, couple]], rtol=1e-6)
    gained = 1e4 * (sol.spin[-1] - sol.spin[0])[:, 2]
    np.testing.assert_allclose(gained, [-0.1 * couple, 0.1 * couple], rtol=1e-4)


# ---- piles --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("scheme", WITH_FRICTION, ids=str)
@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("rho", [0.02, 1.0])
def test_a_pile_is_certified_and_gains_no_energy(scheme, d, rho):
    pile = pile_of(d, rolling=rho, twisting=0.1 * (d == 3))
    sol = carom.solve(pile, scheme, t1=1.5, dt=5e-3, record=EVERY)
    if scheme.keeps_open:  # Moreau's energy in flight is that of half a step off
        assert np.all(np.diff(sol.energy()) < 1e-6 * np.ptp(sol.energy()))
    found = carom.certify(sol)
    assert found.ok in (True, None)
    for name in ("couple", "rolling", "work of rolling", "angular momentum"):
        assert found[name].ok
    pushing = sol.contacts[-1]
    assert len(pushing) > 15
    assert np.any(pushing.couple != 0.0)


@pytest.mark.slow
def test_the_same_in_another_frame():
    """A pile, its walls and gravity turned: the same motion, turned."""
    turn = np.linalg.qr(np.random.default_rng(3).normal(size=(3, 3)))[0]
    turn *= np.linalg.det(turn)
    plain = pile_of(3, twisting=0.1)
    walls = [
        carom.Plane(p, n)
        for p, n in [((0, 0, 0), (0, 0, 1)), ((0, 0, 0), (1, 0, 0)), ((0, 0, 0), (0, 1, 0))]
    ]
    w = np.random.default_rng(4).normal(size=(len(plain), 3))
    turned = [carom.Plane(p, turn @ n) for p, n in [(wall.point, wall.normal) for wall in walls]]
    plain = plain.replaced(walls=walls, spin=w)
    other = plain.replaced(
        walls=turned,
        spin=w @ turn.T,
        position=plain.position @ turn.T,
        gravity=turn @ plain.gravity,
    )
    one, two = (carom.solve(p, carom.Maury(), t1=0.12, dt=4e-3) for p in (plain, other))
    assert len(one.contacts[-1]) > 3
    np.testing.assert_allclose(two.x[-1], one.x[-1] @ turn.T, atol=1e-6)
    np.testing.assert_allclose(two.spin[-1], one.spin[-1] @ turn.T, atol=1e-3)


@pytest.mark.slow
def test_tables_by_pairs_of_materials():
    """Of two balls on one slope one rolls: each material has a resistance of its own."""
    slope = np.arctan(0.15)
    gravity = G * np.array([np.sin(slope), 0.0, -np.cos(slope)])
    table = {("rubber", "wood"): 0.3, None: 0.01}
    pile = carom.Spheres(
        [[0, 0, R], [0, 3, R]],
        R,
        material=["rubber", "steel"],
        walls=[carom.Plane((0, 0, 0), (0, 0, 1), material="wood")],
        gravity=gravity,
        friction=0.8,
        rolling=table,
    )
    sol = carom.solve(pile, carom.Maury(), t1=0.5, dt=5e-3)
    a = PART[3] * G * (np.sin(slope) - 0.01 * np.cos(slope))
    np.testing.assert_allclose(sol.v[-1, :, 0], [0.0, 0.5 * a], atol=1e-10)


def cluster(d, seed):
    """Touching spheres in a corner with a belt, moving at random."""
    rng, shape = np.random.default_rng([d, seed]), (3, 3, 3) if d == 3 else (5, 4)
    x = carom.spheres.lattice(shape, R, spacing=1.0001).position
    n, up, side = len(x), np.eye(d)[-1], np.eye(d)[0]
    belt = {"velocity": rng.normal(size=d) * (1 - side)}
    belt |= {"spin": rng.normal() * side} if d == 3 else {}
    return carom.Spheres(
        x,
        np.where(rng.random(n) < 0.7, R, R * rng.uniform(0.6, 1.0, n)),
        velocity=rng.normal(size=(n, d)) * rng.choice([0.01, 1.0]),
        mass=10.0 ** rng.uniform(-0.5, 0.5, n),
        spin=rng.normal(size=(n, 3) if d == 3 else n) * rng.choice([0.1, 3.0]),
        walls=[carom.Plane(0 * up, up), carom.Plane(0 * side, side, **belt)],
        gravity=-G * up,
        friction=rng.choice([0.1, 0.3, 0.6]),
        rolling=rng.choice([0.01, 0.1, 0.5]),
        twisting=rng.choice([0.0, 0.05, 0.2]) if d == 3 else 0.0,
    )


def stepped(pile, dt):
    """One step of a cluster: its start, its free velocities, its contacts and what is found."""
    world = World(pile.during(0.0, 1.0), dt)
    q, v = pile.initial(None, None)
    free = v + dt * world.metric(q).solve(world.forces(0.0, q, v))
    c, moved = world.keep_open(world.metric(q), dt, q, free, dt)
    assert moved.status is carom.Status.ok
    return q, free, c, moved


def relative(pile, q, c, u):
    """Velocities and spins (c, 3) at the contacts of a cluster with velocities u (N, 6)."""
    n, r, u = c.normal, np.append(pile.radius, 0.0), np.concatenate([u, np.zeros((1, 6))])
    belt, there = pile.walls.walls[1], (c.source == -2)[:, None]
    speed = there * np.pad(belt.velocity, (0, 3 - pile.dimension))
    spin = there * (np.zeros(3) if belt.spin is None else belt.spin)
    speed = speed + np.cross(spin, q[c.i] + r[c.i, None] * n)
    speed -= np.einsum("ij,ij->i", speed, n)[:, None] * n
    turn = r[c.j, None] * u[c.j, 3:] + r[c.i, None] * u[c.i, 3:]
    w = u[c.j, :3] - u[c.i, :3] - np.cross(turn, n) + speed
    return w, u[c.j, 3:] - u[c.i, 3:] + spin


def bounds(pile, c):
    """(3, c) friction, couple of rolling and of twisting that a unit of push allows."""
    r = np.append(pile.radius, 0.0)
    length = np.where(c.source < 0, r[c.i], r[c.i] * r[c.j] / np.maximum(r[c.i] + r[c.j], 1e-300))
    most = np.array(
        [np.full(len(r[c.i]), pile.friction), *np.outer([pile.rolling, pile.twisting], length)]
    )
    return most, length


def lacking(pile, dt):
    """A step from the definition: what the law lacks, of what is allowed, and the momentum."""
    N = len(pile)
    q, free, c, moved = stepped(pile, dt)
    u = np.concatenate([moved.point, np.zeros((1, 6))])
    lam, n, r = moved.multipliers, c.normal, np.append(pile.radius, 0.0)
    inverse = np.zeros((N + 1, 2))
    inverse[:N] = np.stack([1 / pile.mass, 1 / pile.inertia], axis=1)
    w, o = relative(pile, q, c, moved.point)
    w_n, o_n = (np.einsum("ij,ij->i", x, n) for x in (w, o))
    push, T, C = lam[:, 0], lam[:, 1:4], lam[:, 4:]
    C_n = np.einsum("ij,ij->i", C, n)
    a_n, a_r = (inverse[c.i] + inverse[c.j]).T
    a_t = a_n + r[c.i] ** 2 * inverse[c.i, 1] + r[c.j] ** 2 * inverse[c.j, 1]
    across = [w - w_n[:, None] * n, o - o_n[:, None] * n, o_n[:, None] * n]
    held = [T, C - C_n[:, None] * n, C_n[:, None] * n]
    most, length = bounds(pile, c)
    off = [np.abs(np.minimum(w_n + c.ahead(dt)[:, 0], a_n * push))]
    for x, h, m, a, unit in zip(
        across, held, most, (a_t, a_r, a_r), (1, length, length), strict=True
    ):
        lacks = h - disc(h - x / a[:, None], m * push)
        off.append(unit * a * np.linalg.norm(lacks, axis=1))
    change = np.append(np.linalg.norm((u[:N] - free)[:, :3], axis=1), 0.0)
    turned = r[:N] * np.linalg.norm((u[:N] - free)[:, 3:], axis=1)
    change[:N] = np.maximum(change[:N], turned)
    own = np.maximum(np.maximum(change[c.i], change[c.j]), 1e-6 * change.max())
    allowed = np.minimum(0.5 * pile.tolerance * pile.smallest / dt, 300 * pile.tolerance * own)
    given = np.zeros((N + 1, 6))
    P, lever = push[:, None] * n + T, np.cross(n, T)
    for body, sign in ((c.j, 1.0), (c.i, -1.0)):
        np.add.at(given, body, np.hstack([sign * P, -r[body, None] * lever + sign * C]))
    gained = (u[:N] - free) / np.repeat(inverse[:N], 3, axis=1)
    missing = np.abs(gained - given[:N]).max() / max(np.abs(given).max(), 1e-12)
    return np.max(np.array(off) / (allowed + 1e-12)), missing, np.count_nonzero(push)


@pytest.mark.slow
@pytest.mark.parametrize("d", [2, 3])
def test_random_clusters_obey_the_definition(d):
    pushing = 0
    for seed in range(100):
        lacks, missing, contacts = lacking(cluster(d, seed), 1e-2 if seed % 2 else 1e-3)
        assert lacks < 1.01, seed
        assert missing < 1e-9, seed
        pushing += contacts
    assert pushing > 800


def by_clarabel(pile, dt, q, free, c, shift):
    """The nearest velocities to ``free``, in the kinetic metric, among those with

        w_n + g/h + shift >= mu |w_t| + rho |o_t| + tau |o_n|

    at all contacts: K* of the product cones.  Unknowns are u in units of 1 / sqrt(mass), and the
    three terms on the right at each contact."""
    N, p, n = len(pile), len(c.normal), c.normal
    unit = 1.0 / np.sqrt(np.repeat(np.stack([pile.mass, pile.inertia], 1), 3, axis=1)).ravel()

    def rows(x):  # w_n, w_t, o_t and o_n of every contact, and the way along n
        w, o = relative(pile, q, c, (unit * x).reshape(N, 6))
        w_n, o_n = (np.sum(z * n, axis=1) for z in (w, o))
        return np.hstack([w_n[:, None], w - w_n[:, None] * n, o - o_n[:, None] * n, o_n[:, None]])

    at = rows(np.zeros(6 * N))
    H = np.stack([rows(x) - at for x in np.eye(6 * N)], axis=-1)  # (p, 8, 6 N)
    most, _ = bounds(pile, c)
    terms = np.eye(3 * p).reshape(p, 3, 3 * p)
    A, b = [np.hstack([H[:, 0], -terms.sum(axis=1)])], [at[:, 0] + c.ahead(dt)[:, 0] + shift]
    cones = [clarabel.NonnegativeConeT(p)]
    for k in range(p):
        for a, part in enumerate((slice(1, 4), slice(4, 7), slice(7, 8))):
            turned = np.pad(most[a, k] * H[k, part], ((0, 0), (0, 3 * p)))
            A.append(np.vstack([np.append(np.zeros(6 * N), terms[k, a]), turned]))
            b.append(np.append(0.0, most[a, k] * at[k, part]))
            cones.append(clarabel.SecondOrderConeT(len(b[-1])))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    P = sparse.diags(np.append(np.ones(6 * N), np.zeros(3 * p)), format="csc")
    linear = np.append(-(free.ravel() / unit), np.zeros(3 * p))
    A = sparse.csc_matrix(-np.vstack(A))
    solver = clarabel.DefaultSolver(P, linear, A, np.concatenate(b), cones, settings)
    found = solver.solve()
    assert found.status == clarabel.SolverStatus.Solved
    return unit * np.array(found.x)[: 6 * N]


@pytest.mark.slow
@pytest.mark.parametrize("d", [2, 3])
def test_it_is_the_projection_with_its_own_shift(d):
    """De Saxce's form: with s = mu |w_t| + rho |o_t| + tau |o_n| of the answer held fixed, it is
    the nearest point of a convex set: in the set, and as near as what another solver finds.

    Distances agree to 1e-8, points to the root of it: the distance is flat at its least."""
    pushing = 0
    for seed in range(1, 16, 2):
        pile, dt = cluster(d, seed).replaced(tolerance=1e-11), 1e-2
        q, free, c, moved = stepped(pile, dt)
        root = np.sqrt(np.stack([pile.mass, pile.inertia], 1))
        w, o = relative(pile, q, c, moved.point)
        w_n, o_n = (np.sum(z * c.normal, axis=1) for z in (w, o))
        assert np.min(w_n + c.ahead(dt)[:, 0]) > -1e-9  # it is in the set: s cancels
        across = w - w_n[:, None] * c.normal, o - o_n[:, None] * c.normal
        lengths = [*(np.linalg.norm(z, axis=1) for z in across), np.abs(o_n)]
        shift = np.sum(bounds(pile, c)[0] * lengths, axis=0)
        other = by_clarabel(pile, dt, q, free, c, shift).reshape(-1, 6)
        ours, theirs, apart = (
            np.linalg.norm(np.repeat(root, 3, axis=1) * x)
            for x in (moved.point - free, other - free, moved.point - other)
        )
        assert abs(ours - theirs) < 1e-8 * theirs, seed
        assert apart < 1e-4 * theirs, seed
        pushing += np.count_nonzero(moved.multipliers[:, 0])
    assert pushing > 80


@pytest.mark.slow
@pytest.mark.parametrize("d", [2, 3])
def test_contacts_on_levers_have_the_same_answers(monkeypatch, d):
    """Without sweeps: what solves friction alone, two or three contacts for each."""
    monkeypatch.setattr(sliding, "_SWEEPS", 0)
    for seed in range(6):
        assert lacking(cluster(d, seed), 1e-2)[0] < 1.01, seed


@pytest.mark.slow
@pytest.mark.parametrize("d", [2, 3])
def test_a_step_that_no_way_solves_is_counted(monkeypatch, d):
    """Gaps stay open, impulses and couples in their cones; what is off the certificate finds."""
    monkeypatch.setattr(wedged, "_tried", lambda part, planar, limit: (0, False))
    for name, value in (("_LOOSE", 1.0), ("_LOOSELY", 10.0), ("_SWEEPS", 3)):
        monkeypatch.setattr(sliding, name, value)
    pile = pile_of(d, friction=2.0, rolling=0.5)
    sol = carom.solve(pile, carom.Maury(), t1=0.6, dt=4e-3, record=EVERY, throw=False)
    assert sol.status is carom.Status.loose
    assert sol.stats.loose > 0
    found = carom.certify(sol)
    for name in ("feasibility", "momentum", "angular momentum", "cone", "couple"):
        assert found[name].ok is True, str(found)
    assert found["slip"].ok is False


# ---- records ------------------------------------------------------------------------------------


def faulty(sol, k, make):
    from dataclasses import replace

    table = sol.contacts[k]
    sol.contacts[k] = replace(table, couple=make(table.couple))
    return sol


@pytest.mark.slow
def test_planted_faults_are_found():
    def run(**options):
        pile = on_a_slope(3, v0=1.0, rolling=0.1, **options)
        return carom.solve(pile, carom.Maury(), t1=0.3, dt=2e-3, record=EVERY)

    assert carom.certify(run()).ok
    along = carom.certify(faulty(run(), 20, lambda c: -c))
    assert along["rolling"].ok is False
    assert along["work of rolling"].ok is False
    assert carom.certify(faulty(run(), 20, lambda c: 1.01 * c))["couple"].ok is False
    assert carom.certify(faulty(run(), 20, lambda c: 0.5 * c))["rolling"].ok is False
    twisted = faulty(run(twisting=0.1), 20, lambda c: c + np.array([0, 0, 1e-3]))
    assert carom.certify(twisted)["rolling"].ok is False
    assert (
        carom.certify(faulty(run(), 20, lambda c: c + np.array([0, 0, 1e-9])))["couple"].ok is False
    )


def test_one_ball_in_a_box_is_certified():
    """More walls than bodies: the arm of a wall is 0, however many there are."""
    box = carom.spheres.Box((-1, -1, 0), (1, 1, 2))
    pile = on_a_slope(3, v0=1.0, rolling=0.1, walls=[box]).replaced(position=[[0.49, 0.5, R]])
    sol = carom.solve(pile, carom.Maury(), t1=0.05, dt=1e-2, record=EVERY)
    assert {-2, -5} <= {int(j) for c in sol.contacts for j in c.pairs[:, 1]}
    assert carom.certify(sol)["couple"].ok


@pytest.mark.slow
@pytest.mark.parametrize("d", [2, 3])
def test_recorded_and_resumed(tmp_path, monkeypatch, d):
    belt = FLOOR[d]
    walls = [carom.Plane(belt.point, belt.normal, velocity=np.eye(d)[0])]
    pile = pile_of(d, restitution=0.2, walls=walls, twisting=0.1 * (d == 3))

    about = pile, tmp_path, monkeypatch, pile.replaced(rolling=0.1), "resistance to rolling"
    whole, again = recorded_and_resumed(*about)
    assert again.pile.rolling == 0.2
    assert np.shape(whole.to_xarray().contact_torque)[1:] == ((3,) if d == 3 else ())


@pytest.mark.slow
def test_a_run_goes_on_with_or_without():
    """start= of a run without resistance has no couples to begin with."""
    pile = pile_of(3)
    whole = carom.solve(pile, carom.Maury(), t1=0.4, dt=4e-3, record=carom.Record(every=50))
    first = carom.solve(pile, carom.Maury(), t1=0.2, dt=4e-3)
    then = carom.solve(pile, carom.Maury(), start=first, t1=0.4, dt=4e-3)
    np.testing.assert_array_equal(then.spin[-1], whole.spin[-1])
    plain = carom.solve(pile.replaced(rolling=0.0), carom.Maury(), start=first, t1=0.3, dt=4e-3)
    assert carom.solve(pile, carom.Maury(), start=plain, t1=0.4, dt=4e-3).ok


# ---- refused ------------------------------------------------------------------------------------


def test_what_is_refused():
    for name in ("rolling", "twisting"):
        for bad in (-0.1, np.nan, np.inf, [0.1, 0.2], "rough", {("a",): 0.1}):
            with pytest.raises(errors.FrictionError, match=name):
                carom.Spheres([[0, 0, 0]], 1.0, friction=0.1, **{name: bad})
        with pytest.raises(errors.FrictionError, match=f"{name} is 0.2 without friction"):
            carom.Spheres([[0, 0, 0]], 1.0, **{name: 0.2})
    with pytest.raises(errors.FrictionError, match=r"twisting is 0.1 in two dimensions"):
        carom.Spheres([[0, 0]], 1.0, friction=0.1, twisting=0.1)
    with pytest.raises(errors.FrictionError, match="no entry"):
        carom.Spheres([[0, 0], [3, 0]], 1.0, friction=1, rolling={("a", "b"): 1}, material="a")
    with pytest.raises(errors.KindError, match="Maury"):
        carom.solve(on_a_slope(3, rolling=0.1), carom.PaoliSchatzman(), t1=1.0, dt=0.1)
    assert repr(on_a_slope(2, rolling=0.1)).endswith("rolling=0.1, twisting=0)")


def between_belts():
    """Two spheres between two planes and a cylinder, of which two are belts; mu = 3."""
    x = np.array([[0.0, 0.0, 0.0], [0.752, -0.739, -0.652]])
    r = np.array([0.781, np.linalg.norm(x[1]) - 0.781])
    walls = []
    for n, belt in (
        ((-0.614, -0.374, -0.695), (0.0, 0.0, 0.0)),
        ((0.071, -0.613, 0.787), (1.722, 0.830, -1.012)),
    ):
        n = np.array(n) / np.linalg.norm(n)
        belt = np.array(belt) - n @ belt * n
        walls.append(carom.Plane(n * np.min(x @ n - r), n, velocity=belt))
    axis, y = np.array([0.604, 0.604, 0.520]), x - x[1] / 2.0
    axis /= np.linalg.norm(axis)
    y -= np.outer(y @ axis, axis)
    wide = np.max(np.linalg.norm(y, axis=1) + r) * (1.0 + 1e-15)
    walls.append(carom.spheres.Cylinder(x[1] / 2.0, axis, wide, velocity=(-0.678, 0.292, -0.196)))
    return carom.Spheres(
        x,
        r,
        mass=[1.24, 1.84],
        inertia=[0.116, 0.0246],
        spin=[(2.95, 1.53, -21.1), (14.9, 5.49, -5.65)],
        walls=walls,
        gravity=(0.111, 1.748, -0.386),
        friction=3.0,
        rolling=1.0,
    )


def test_where_a_guess_is_worse_than_none():
    """From the guess that sweeps leave no method ends; from no impulses Newton's does."""
    sol = carom.solve(between_belts(), carom.Maury(), t1=5.7e-3, dt=1.425e-3)
    assert sol.ok
    assert sol.stats.loose == 0
    assert sol.stats.residual <= sol.pile.tolerance
