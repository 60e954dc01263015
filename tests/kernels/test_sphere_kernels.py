"""Compiled kernels against plain NumPy: pairs, rows, sweeps, projections."""

import clarabel
import numba
import numpy as np
import pytest
import scipy.sparse as sparse
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

import carom
from carom import kernels
from carom.kernels import projection, rows
from carom.spheres import Box, Cylinder, Obstacles, Panel, Plane, Shell
from carom.worlds.spheres.neighbours import Cell, PairList
from carom.worlds.spheres.walls import Walls
from carom.worlds.spheres.world import World
from conformance import conforming_kernels

# ---- neighbours ---------------------------------------------------------------------------------


def brute_force(x, r, margin, cell, free):
    """Every pair within reach, from the definition."""
    d, a = cell.nearest_image(x[None] - x[:, None]), r + margin
    near = np.sqrt(np.sum(d**2, axis=-1)) <= a[:, None] + a
    return {(i, j) for i, j in np.argwhere(np.triu(near, 1)).tolist() if i < free}


def listed(pairs):
    return list(zip(pairs.first.tolist(), pairs.second.tolist(), strict=True))


@st.composite
def scenes(draw):
    """Spheres with radii up to 1 : 10 and more, some of them obstacles, periodic or not."""
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    dimension = draw(st.sampled_from([2, 3]))
    n = draw(st.integers(1, 120))
    largest = draw(st.sampled_from([0.02, 0.1, 0.24]))
    r = largest * rng.uniform(draw(st.sampled_from([0.05, 0.1, 0.9])), 1.0, n)
    margin = draw(st.sampled_from([0.0, 0.005, 0.01])) * rng.uniform(size=n)
    fast = rng.uniform(size=n) < draw(st.sampled_from([0.0, 0.02, 0.3]))  # a few reach far
    margin = np.where(fast, 10.0 ** rng.uniform(-2, 3, n), margin)
    low, spread = draw(st.sampled_from([-1.0, 0.0, 5.0])), draw(st.sampled_from([0.3, 1.0, 30.0]))
    x = low + spread * rng.uniform(size=(n, 3))
    periods = [draw(st.sampled_from([0.0, 1.0, 1.7])) for _ in range(3)]
    if dimension == 2:
        x[:, 2], periods[2] = 0.0, 0.0
    free = n - draw(st.integers(0, n // 3))
    if any(periods):
        margin = np.minimum(margin, 0.01)
    return x, r, margin, Cell(np.full(3, low), np.array(periods), dimension), free


def test_the_backend_conforms():
    conforming_kernels(kernels)
    assert kernels.BACKEND == "carom.kernels.numba"
    with pytest.raises(AttributeError, match="has no room 'colours'"):
        _ = kernels.colours


@settings(max_examples=150, deadline=None)
@given(scenes())
def test_pairs_equal_brute_force(scene):
    """As sets, and each pair once; slabs of one parity share no free sphere (but the last)."""
    x, r, margin, cell, free = scene
    pairs = PairList(x, r, margin, cell, free)
    found = [
        tuple(sorted(p)) for p in zip(pairs.first.tolist(), pairs.second.tolist(), strict=True)
    ]
    assert len(found) == len(set(found))
    assert set(found) == brute_force(x, r, margin, cell, free)

    slabs = pairs.slabs
    assert sorted(slabs.pair_of.tolist()) == list(range(len(found)))
    assert sorted(slabs.body_of.tolist()) == list(range(free))
    for parity in (0, 1):
        seen = set()
        for s in range(parity, len(slabs.pair_start) - 2, 2):
            of = slabs.pair_of[slabs.pair_start[s] : slabs.pair_start[s + 1]]
            here = {*pairs.first[of].tolist(), *pairs.second[of].tolist()}
            here |= set(slabs.body_of[slabs.body_start[s] : slabs.body_start[s + 1]].tolist())
            here = {body for body in here if body < free}
            assert not seen & here
            seen |= here


@settings(max_examples=100, deadline=None)
@given(scenes(), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.05, 0.5, 1.0]))
def test_a_renewed_list_is_one_made_anew(scene, seed, part):
    """Bodies that moved and reach further or less: the same arrays, whichever way they are made."""
    x, r, margin, cell, free = scene
    rng = np.random.default_rng(seed)
    old = PairList(x, r, margin, cell, free)
    bodies = rng.uniform(size=len(x)) < part
    y = x + 0.3 * rng.normal(size=x.shape) * (np.arange(3) < cell.dimension)
    s = margin[rng.permutation(len(x))]
    found = old.renewed(bodies, y, 1.1 * r, s)
    mixed = [np.where(bodies, a, b) for a, b in ((1.1 * r, r), (s, margin))]
    made = PairList(np.where(bodies[:, None], y, x), *mixed, cell, free)
    assert listed(found) == listed(made)
    assert {*listed(found)} == brute_force(made.x, *mixed, cell, free)
    assert np.all(found.first < found.second)
    for name in ("pair_of", "pair_start", "body_of", "body_start"):
        np.testing.assert_array_equal(getattr(found.slabs, name), getattr(made.slabs, name))


@pytest.mark.parametrize("count", [3, 300])
def test_many_that_reach_far(count):
    """On levels of their own, which look into the finer ones."""
    rng = np.random.default_rng(count)
    x, r = rng.uniform(0.0, 1.0, (1500, 3)), np.full(1500, 0.015)
    margin = np.full(1500, 0.002)
    margin[:count] = 10.0 ** rng.uniform(-1.5, -0.5, count)
    cell = Cell(np.zeros(3), np.zeros(3), 3)
    made = PairList(x, r, margin, cell, 1490)
    assert {*listed(made)} == brute_force(x, r, margin, cell, 1490)
    assert len(made.second) == len({*listed(made)})


def test_a_sphere_far_away_costs_nothing():
    """Cells are hashed: one sphere at 1e9 does not coarsen them."""
    rng = np.random.default_rng(0)
    x, r = rng.uniform(0.0, 1.0, (200, 3)), np.full(200, 0.05)
    x[17] = (1e9, -1e9, 1e9)
    cell = Cell(np.zeros(3), np.zeros(3), 3)
    margin = np.full(200, 0.005)
    pairs = PairList(x, r, margin, cell, 200)
    found = {
        tuple(sorted(p)) for p in zip(pairs.first.tolist(), pairs.second.tolist(), strict=True)
    }
    assert found == brute_force(x, r, margin, cell, 200)


def test_values_follow_their_pairs():
    rng = np.random.default_rng(1)
    x, r = rng.uniform(0.0, 1.0, (150, 3)), rng.uniform(0.01, 0.1, 150)
    cell = Cell(np.zeros(3), np.ones(3), 3)
    old = PairList(x, r, np.full(150, 0.01), cell, 150)
    value = rng.uniform(1.0, 2.0, len(old.second))
    new = PairList(x + 0.02 * rng.normal(size=x.shape), r * 1.02, np.full(150, 0.01), cell, 150)
    told = {
        frozenset(p): v
        for *p, v in zip(old.first.tolist(), old.second.tolist(), value, strict=True)
    }
    expected = [
        told.get(frozenset(p), 0.0)
        for p in zip(new.first.tolist(), new.second.tolist(), strict=True)
    ]
    np.testing.assert_array_equal(new.carried(old, value), expected)
    assert 0 < np.count_nonzero(expected) < len(expected)


def test_the_bound_of_the_list():
    """(3): |x - y| + reach + growth <= margin, body by body."""
    rng = np.random.default_rng(2)
    x, r = rng.uniform(0.0, 1.0, (50, 3)), np.full(50, 0.02)
    x1, reach, r1 = x + 0.1 * rng.normal(size=x.shape), rng.uniform(size=50), r * 1.1
    needed = np.linalg.norm(x1 - x, axis=1) + reach + 0.002
    pairs = PairList(x, r, needed * (1 + 1e-12), Cell(np.zeros(3), np.zeros(3), 3), 50)
    assert pairs.covers(x1, r1, reach)
    for i in (0, 17, 49):
        further = reach.copy()
        further[i] += 1e-9
        assert not pairs.covers(x1, r1, further)
    reach[3] = np.nan
    assert not pairs.covers(x1, r1, reach)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 10.0, 1000.0]))
def test_no_pair_is_missed_on_the_way(seed, speed):
    """Swept scenes: each pair with a row that a step by u could close is found, with one list.

    Brute force over all pairs: gap + n . h (u_j - u_i) at the start, and the gap at the end.
    """
    rng = np.random.default_rng(seed)
    n, h = 60, 1e-3
    pile = carom.Spheres(rng.uniform(0.0, 1.0, (n, 3)), rng.uniform(0.01, 0.05, n))
    world, x = World(pile, h), pile.position
    i, j = np.triu_indices(n, 1)
    for _ in range(6):
        u = rng.normal(size=(n, 3))
        u[rng.integers(n)] *= 1.0 + speed * rng.uniform()
        reach = h * np.linalg.norm(u, axis=1) * (1 + 1e-12)
        found = world._contacts(0.0, x, reach)
        told = {tuple(sorted(p)) for p in zip(found.i.tolist(), found.j.tolist(), strict=True)}
        d = x[j] - x[i]
        length = np.linalg.norm(d, axis=1)
        gap = length - pile.radius[i] - pile.radius[j]
        closing = gap + h * np.sum((u[j] - u[i]) * d, axis=1) / length
        within = gap <= reach[i] + reach[j]
        assert told == set(zip(i[within].tolist(), j[within].tolist(), strict=True))
        x = x + h * u
        after = np.linalg.norm(x[j] - x[i], axis=1) - pile.radius[i] - pile.radius[j]
        assert np.all(within[(closing <= 0.0) | (after <= 0.0)])


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([3.0, 30.0, 300.0]))
@example(0, 300.0)  # momentum alone goes to and fro for ever
def test_what_is_pushed_beyond_its_reach_is_seen(seed, speed):
    """A bullet into spheres at rest between walls: no gap closes, brute force over all of them."""
    rng = np.random.default_rng(seed)
    grid = np.stack(np.meshgrid(*[np.arange(3.0)] * 3), axis=-1).reshape(-1, 3)
    x = grid + rng.uniform(-0.1, 0.1, grid.shape)
    v = np.zeros_like(x)
    v[rng.integers(len(x))] = speed * rng.normal(size=3)
    walls = [Plane((0, 0, -0.6), (0, 0, 1)), Plane((2.7, 0, 0), (-1, 0, 0))]
    pile, h = carom.Spheres(x, 0.4, v, walls=walls), 1e-2
    world = World(pile, h)
    i, j = np.triu_indices(len(x), 1)
    for _ in range(3):
        _, found = world.keep_open(world.metric(x), 0.0, x, v, h)
        assert found.status is carom.Status.ok
        d, u = x[j] - x[i], found.point
        length = np.linalg.norm(d, axis=1)
        ahead = length - 0.8 + h * np.sum((u[j] - u[i]) * d, axis=1) / length
        x, v = x + h * u, u
        assert np.min(ahead) >= -1e-6
        assert np.min(np.linalg.norm(x[j] - x[i], axis=1)) >= 0.8 - 1e-6
        assert np.min(x[:, 2]) >= -0.2 - 1e-6
        assert np.max(x[:, 0]) <= 2.3 + 1e-6


# ---- rows ---------------------------------------------------------------------------------------


def distance_to(wall, x):
    """The distance of points (n, 3) to a wall, in plain words."""
    if isinstance(wall, Plane):
        normal = np.array(wall.normal) / np.linalg.norm(wall.normal)
        return (x - wall.point) @ normal
    if isinstance(wall, Cylinder):
        axis = np.array(wall.axis) / np.linalg.norm(wall.axis)
        off = x - wall.point
        return wall.radius - np.linalg.norm(off - np.outer(off @ axis, axis), axis=1)
    if isinstance(wall, Shell):
        return wall.radius - np.linalg.norm(x - wall.center, axis=1)
    a, b = np.array(wall.edge), np.array(wall.other_edge)
    s = np.clip((x - wall.corner) @ a / (a @ a), 0, 1)
    t = np.clip((x - wall.corner) @ b / (b @ b), 0, 1)
    return np.linalg.norm(x - wall.corner - np.outer(s, a) - np.outer(t, b), axis=1)


WALLS = [
    Plane((0.1, 0.0, 0.2), (1.0, 2.0, -1.0)),
    Cylinder((0.4, 0.5, 0.0), (0.0, 1.0, 3.0), 0.9),
    Shell((0.5, 0.5, 0.4), 1.2),
    Panel((0.2, 0.2, 0.3), (0.5, 0.0, 0.0), (0.0, 0.3, 0.3)),
]


def all_rows(x, r, near, walls=(), cell=None, free=None, at=None):
    """Rows of ``fill_rows`` as a dict, sorted by slab."""
    cell = Cell(np.zeros(3), np.zeros(3), 3) if cell is None else cell
    pairs = PairList(x, r, np.full(len(x), near), cell, len(x) if free is None else free)
    kinds, data = Walls(walls).at(0.0)
    slabs = pairs.slabs
    lists = (pairs.first, pairs.second, slabs.pair_of, slabs.pair_start, slabs.body_of)
    lists += (slabs.body_start, cell.period, cell.inverse, kinds, data)
    reach, whole = np.full(len(x), near), np.zeros(len(x), bool)
    start = rows.count_rows(x, r, reach, whole, *lists)
    p = start[-1]
    i, j, source = (np.empty(p, np.int32) for _ in range(3))
    normal, gap = np.empty((p, 3)), np.empty(p)
    at = x if at is None else at
    rows.fill_rows(x, at, r, reach, whole, *lists, start, i, j, source, normal, gap)
    return {"i": i, "j": j, "source": source, "normal": normal, "gap": gap, "start": start}


def test_rows_have_the_gaps_and_gradients_of_their_definition():
    rng = np.random.default_rng(3)
    x, r, near = rng.uniform(0.0, 1.0, (60, 3)), rng.uniform(0.02, 0.06, 60), 0.1
    found = all_rows(x, r, near, WALLS)
    pair = found["source"] >= 0
    i, j = found["i"][pair], found["j"][pair]
    d = x[j] - x[i]
    length = np.linalg.norm(d, axis=1)
    np.testing.assert_allclose(found["gap"][pair], length - r[i] - r[j], atol=1e-15)
    np.testing.assert_allclose(found["normal"][pair], d / length[:, None], atol=1e-14)
    separation = np.linalg.norm(x[None] - x[:, None], axis=-1)
    close = np.triu(separation - r[:, None] - r <= 2.0 * near, 1)
    assert np.count_nonzero(close) == np.count_nonzero(pair)
    for w, wall in enumerate(WALLS):
        mine = found["source"] == -1 - w
        i, gap = found["i"][mine], distance_to(wall, x) - r
        assert sorted(i) == np.flatnonzero(gap <= near).tolist()
        np.testing.assert_allclose(found["gap"][mine], gap[i], atol=1e-14)
        slope = [
            (distance_to(wall, x + 1e-6 * e) - distance_to(wall, x - 1e-6 * e))[i] / 2e-6
            for e in np.eye(3)
        ]
        np.testing.assert_allclose(-found["normal"][mine], np.transpose(slope), atol=1e-8)


def test_measure_is_the_gap():
    rng = np.random.default_rng(4)
    x, r = rng.uniform(0.0, 1.0, (60, 3)), rng.uniform(0.02, 0.06, 60)
    cell = Cell(np.zeros(3), np.array([1.0, 0.0, 1.0]), 3)
    f = all_rows(x, r, 0.1, WALLS, cell)
    kinds, data = Walls(WALLS).at(0.0)
    gap = np.empty(len(f["gap"]))
    rows.measure(x, r, f["i"], f["j"], f["source"], cell.period, cell.inverse, kinds, data, gap)
    np.testing.assert_allclose(gap, f["gap"], atol=1e-15)


def test_opening_rate():
    """Growing radii, a drifting obstacle, a moving plane: against a difference of gaps."""
    x = np.array([[0.0, 0.0, 0.0], [0.1, 0.0, 0.0], [0.0, 0.1, 0.0]])
    growth, drift = np.array([0.1, 0.2, 0.3]), np.zeros((3, 3))
    drift[2] = (0.5, 2.0, 0.0)
    f = all_rows(x, np.full(3, 0.04), 0.2, [Plane((0, 0, -0.1), (0, 0, 1))], free=2)
    kinds, data = Walls([Plane((0, 0, -0.1), (0, 0, 1))]).at(0.0)
    later = data.copy()
    later[0, 2] += 0.01
    rate = np.empty(len(f["gap"]))
    open_space = np.zeros(3), np.zeros(3)
    args = (f["i"], f["j"], f["source"], f["normal"], *open_space, kinds, data, later, 0.1)
    rows.opening_rate(x, growth, drift, *args, rate)
    told = {
        (int(i), int(s) if s < 0 else int(j)): v
        for i, j, s, v in zip(f["i"], f["j"], f["source"], rate, strict=True)
    }
    assert told[(0, 1)] == pytest.approx(-0.3)
    assert told[(0, 2)] == pytest.approx(-0.4 + 2.0)
    assert told[(0, -1)] == pytest.approx(-0.1 - 0.1)
    assert told[(1, -1)] == pytest.approx(-0.2 - 0.1)


# ---- the projection -----------------------------------------------------------------------------


def problem(seed, n=150, density=0.5, masses=True):
    """A QP of a crowded step: overlapping pairs, random velocities, a floor."""
    rng = np.random.default_rng(seed)
    side = (n * 4 / 3 * np.pi * 0.05**3 / density) ** (1 / 3)
    x, r = rng.uniform(0.0, side, (n, 3)), np.full(n, 0.05)
    f = all_rows(x, r, 0.02, [Plane((0, 0, 0), (0, 0, 1)), Plane((0, 0, side), (0, 0, -1))])
    inverse = np.append(1.0 / rng.uniform(0.5, 5.0, n) if masses else np.ones(n), 0.0)
    free = np.vstack([rng.normal(size=(n, 3)), np.zeros(3)])
    b = np.maximum(f["gap"], 0.0) / 0.01
    return f, inverse, free, b


def solved(f, inverse, free, b, tolerance=1e-11, guess=None, iterations=100_000):
    lam = np.zeros(len(b)) if guess is None else guess.copy()
    u, residual, sweeps = projection.accelerated_gauss_seidel(
        *(f["start"], f["i"], f["j"], f["normal"], b, inverse, free, free),
        *(lam, tolerance, 1e30, iterations),
    )
    return u, lam, residual * tolerance, sweeps


def matrix(f, bodies):
    """G, (p, 3 bodies): what the rows say, as a sparse matrix."""
    p = len(f["gap"])
    k = np.repeat(np.arange(p), 3)
    cols_i, cols_j = (3 * f[c][:, None] + np.arange(3) for c in "ij")
    n = f["normal"].ravel()
    G = sparse.csc_matrix((-n, (k, cols_i.ravel())), shape=(p, 3 * bodies))
    return G + sparse.csc_matrix((n, (k, cols_j.ravel())), shape=(p, 3 * bodies))


def by_clarabel(f, inverse, free, b):
    """min 1/2 |u - free|^2_M subject to G u + b >= 0, by an interior-point method."""
    n = len(free) - 1
    mass = np.repeat(1.0 / inverse[:-1], 3)
    G = matrix(f, n + 1)[:, : 3 * n]
    options = clarabel.DefaultSettings()
    options.verbose = False
    options.tol_gap_abs = options.tol_gap_rel = options.tol_feas = 1e-12
    P = sparse.diags(mass, format="csc")
    target = -mass * free[:-1].ravel()
    cones = [clarabel.NonnegativeConeT(len(b))]
    found = clarabel.DefaultSolver(P, target, -G.tocsc(), b, cones, options).solve()
    assert found.status == clarabel.SolverStatus.Solved
    return np.reshape(found.x, (n, 3))


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_projection_equals_clarabel(seed):
    f, inverse, free, b = problem(seed, n=100 + 60 * seed)
    u, lam, residual, _ = solved(f, inverse, free, b)
    assert residual <= 1e-11
    assert np.count_nonzero(lam) > 50
    np.testing.assert_allclose(u[:-1], by_clarabel(f, inverse, free, b), atol=1e-8)


def test_kkt_from_the_definition():
    """M (u - free) = G^T lam, lam >= 0, G u + b >= 0, complementary: in plain NumPy."""
    f, inverse, free, b = problem(7)
    u, lam, residual, _ = solved(f, inverse, free, b)
    G = matrix(f, len(free))
    mass = np.repeat(1.0 / inverse[:-1], 3)
    push = (G.T @ lam)[:-3]
    np.testing.assert_allclose(mass * (u - free)[:-1].ravel(), push, atol=1e-12)
    assert np.min(lam) >= 0.0
    w, diagonal = G @ u.ravel() + b, inverse[f["i"]] + inverse[f["j"]]
    assert np.min(w) >= -1e-11
    assert np.max(np.abs(np.minimum(w, diagonal * lam))) == pytest.approx(
        residual, rel=0.01, abs=1e-13
    )


def plain_sweep(f, inverse, b, u, lam):
    """Gauss-Seidel, row after row in the order of even slabs, then odd ones."""
    slabs = [slice(a, e) for a, e in zip(f["start"][:-1], f["start"][1:], strict=True)]
    for part in [*slabs[:-1:2], *slabs[1:-1:2], slabs[-1]]:
        for k in range(part.start, part.stop):
            i, j, n = f["i"][k], f["j"][k], f["normal"][k]
            new = max(lam[k] - (n @ (u[j] - u[i]) + b[k]) / (inverse[i] + inverse[j]), 0.0)
            u[i] -= inverse[i] * (new - lam[k]) * n
            u[j] += inverse[j] * (new - lam[k]) * n
            lam[k] = new


def test_a_sweep_is_gauss_seidel():
    f, inverse, free, b = problem(5)
    assert len(f["start"]) > 3
    u, lam = free.copy(), np.zeros(len(b))
    step = 1.0 / (inverse[f["i"]] + inverse[f["j"]])
    twin_u, twin_lam = u.copy(), lam.copy()
    args = (f["start"], f["start"][1:], np.arange(len(b), dtype=np.int32))
    args += (f["i"], f["j"], f["normal"], b, inverse, step, 0.0, np.full(len(b), 1e-3))
    for _ in range(3):
        before = lam.copy()
        *_, over = projection.sweep(*args, u, free.copy(), lam, lam.copy())
        assert over == np.sum(np.abs(lam - before) / step > 1e-3)
        plain_sweep(f, inverse, b, twin_u, twin_lam)
    np.testing.assert_allclose(lam, twin_lam, atol=1e-12)
    np.testing.assert_allclose(u, twin_u, atol=1e-12)


def test_rows_that_are_far_from_closed_are_left_out():
    f, _, free, b = problem(5)
    start, i, j = f["start"], f["i"], f["j"]
    rng = np.random.default_rng(1)
    lam, before = (np.where(rng.random(len(b)) < 0.1, 1.0, 0.0) for _ in range(2))
    u, allowed = free + rng.normal(size=free.shape), rng.random(len(b))
    w = b + np.sum(f["normal"] * (u[j] - u[i]), axis=1)
    far = 0.5 * np.linalg.norm(u - free, axis=1)
    wanted = (lam > 0.0) | (before > 0.0) | (w <= allowed + far[i] + far[j])
    assert 0.1 < np.mean(wanted) < 0.9
    then, listed, end = free.copy(), np.full(len(b), -1, np.int32), np.zeros_like(start[1:])
    projection.choose(start, i, j, f["normal"], b, u, then, lam, before, allowed, end, listed)
    for s, (first, last) in enumerate(zip(start[:-1], end, strict=True)):
        rows = np.arange(first, start[s + 1])
        np.testing.assert_array_equal(listed[first:last], rows[wanted[rows]])
    np.testing.assert_array_equal(then, u)


def test_the_end_is_local():
    """Few rows are changed, none is over afterwards, and u stays what lam makes it."""
    f, inverse, free, b = problem(7, n=400)
    u, lam, *_ = solved(f, inverse, free, b, tolerance=1e-4)
    step = 1.0 / (inverse[f["i"]] + inverse[f["j"]])
    lam[5] += 1e-2 * step[5]  # one row is off, by 1e-2 in its velocity
    u = free.copy()
    projection.push(f["start"], f["i"], f["j"], f["normal"], inverse, lam, u)
    rows, allowed = (f["i"], f["j"], f["normal"], b), np.full(len(b), 2e-4)
    assert projection.residual(*rows, step, u, lam, allowed) > 5.0
    of = projection.rows_of(f["i"], f["j"], inverse)
    made, too_much = projection.finish(*of, *rows, inverse, step, u, lam, allowed)
    assert 1 <= made < len(b) / 4
    assert not too_much
    assert projection.residual(*rows, step, u, lam, allowed) <= 1.0
    again = free.copy()
    projection.push(f["start"], f["i"], f["j"], f["normal"], inverse, lam, again)
    np.testing.assert_allclose(u, again, atol=1e-13)


def test_the_same_bits_with_any_number_of_threads():
    f, inverse, free, b = problem(6, n=400)
    found = []
    for count in (1, 2):
        numba.set_num_threads(min(count, numba.config.NUMBA_NUM_THREADS))
        found.append(solved(f, inverse, free, b, tolerance=1e-9))
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)


def test_a_good_guess_needs_no_sweep():
    f, inverse, free, b = problem(8)
    _, lam, _, cold = solved(f, inverse, free, b, tolerance=1e-8)
    _, _, residual, warm = solved(f, inverse, free, b, tolerance=1e-8, guess=lam)
    assert cold > 20
    assert warm == 0
    assert residual <= 1e-8


def test_not_converged_is_measured():
    f, inverse, free, b = problem(9)
    _, _, residual, sweeps = solved(f, inverse, free, b, tolerance=1e-12, iterations=3)
    assert sweeps == 3
    assert residual > 1e-12


def test_nonsense_is_seen():
    f, inverse, free, b = problem(9)
    free[3] = np.nan
    assert np.isnan(solved(f, inverse, free, b, iterations=50)[2])


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 40))
def test_a_row_of_balls_is_isotonic_regression(seed, n):
    """Touching balls on a line, e = 0: u is the weighted isotonic regression of free (P9)."""
    rng = np.random.default_rng(seed)
    x = np.zeros((n, 3))
    x[:, 0] = 0.1 * np.arange(n)
    f = all_rows(x, np.full(n, 0.05), 1e-3)
    assert len(f["gap"]) == n - 1
    mass = rng.uniform(0.2, 5.0, n)
    free = np.zeros((n + 1, 3))
    free[:-1, 0] = rng.normal(size=n)
    u, _, _, _ = solved(f, np.append(1.0 / mass, 0.0), free, np.zeros(n - 1), tolerance=1e-12)
    expected = isotonic_regression(free[:-1, 0], weights=mass).x
    np.testing.assert_allclose(u[:-1, 0], expected, atol=1e-9)
    np.testing.assert_array_equal(u[:, 1:], 0.0)


def test_walls_that_make_no_sense():
    from carom.errors import KindError, ShapeError

    with pytest.raises(KindError, match="not a wall"):
        Walls(["floor"])
    with pytest.raises(ShapeError, match="length must be positive"):
        Walls([Plane((0, 0, 0), (0, 0, 0))])
    with pytest.raises(ShapeError, match="orthogonal"):
        Walls([Panel((0, 0), (1, 0), (1, 1))])
    with pytest.raises(ShapeError, match="below high"):
        Walls([Box((0, 0), (1, 0))])
    with pytest.raises(ShapeError, match="obstacles"):
        Walls([Obstacles([1.0, np.nan], 1.0)])


# ---- walls where space repeats ------------------------------------------------------------------


def test_rows_of_walls_where_space_repeats():
    """Every image of a panel, a cylinder, a shell: against all images written out."""
    rng = np.random.default_rng(8)
    period = np.array([1.0, 0.0, 2.0])
    cell = Cell(np.zeros(3), period, 3)
    r, near = np.full(200, 0.05), 0.1
    walls = [
        Panel((0.6, -1.0, 0.3), (0.9, 0.0, 0.0), (0.0, 2.0, 0.0)),  # a slit of 0.1 is left
        Panel((0.2, -1.0, 1.9), (0.0, 0.0, 0.3), (0.0, 2.0, 0.0)),  # across the end of a period
        Panel((-3.0, 0.2, 0.0), (7.0, 0.0, 0.0), (0.0, 0.0, 5.0)),  # spans all of it
        Cylinder((0.9, 0.0, 1.9), (0.0, 1.0, 0.0), 0.4),
    ]
    x = rng.uniform((-3.0, -1.0, -3.0), (4.0, 1.0, 4.0), (200, 3))
    found = all_rows(x, r, near, walls, cell)
    shifts = [period * (a, 0, c) for a in range(-6, 7) for c in range(-4, 5)]
    for w, wall in enumerate(walls):
        gaps = np.array([distance_to(wall, x + shift) - r for shift in shifts])
        mine = found["source"] == -1 - w
        told = sorted(zip(found["i"][mine], found["gap"][mine].round(9), strict=True))
        if w == 2:  # its images lie in each other
            gaps = np.min(gaps, axis=0, keepdims=True)
        if w == 3:  # a sphere is inside of one image
            gaps = np.max(gaps, axis=0, keepdims=True)
        expected = sorted((i, round(gaps[m, i], 9)) for m, i in np.argwhere(gaps <= near))
        assert told == [(i, pytest.approx(g, abs=2e-9)) for i, g in expected]
    measured = np.empty(len(found["gap"]))
    kinds, data = Walls(walls).at(0.0)
    args = (found["i"], found["j"], found["source"], cell.period, cell.inverse, kinds, data)
    rows.measure(x, r, *args, measured)
    assert np.all(measured <= found["gap"] + 1e-12)
