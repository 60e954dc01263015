"""``carom.project`` against the KKT conditions, a QP library and problems with known answers.

The conditions are written out here from the definition, in extended precision, and never taken from
the package: a point with multipliers that satisfies them is the projection, for the problem is
strictly convex.
"""

import clarabel
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from scipy.optimize import linprog

import carom
from carom import Status

PROMISED = 1e-12  # relative KKT residual
TINY = 1e-300  # keeps 0 / 0 at 0

project = jax.jit(lambda t, G, b, mass=None: carom.project(t, G, b, mass=mass))
project_batch = jax.jit(jax.vmap(lambda t, G, b, mass: carom.project(t, G, b, mass=mass)))
project_masked = jax.jit(lambda t, G, b, active: carom.project(t, G, b, active=active))


# The definition.


def norm(x):
    return np.sqrt(np.sum(x * x, axis=-1))


def times(A, x):
    """A @ x over leading axes, in any precision."""
    return np.sum(A * x[..., None, :], axis=-1)


def dense(mass, like):
    """(..., d, d) in extended precision from None, (..., d) or (..., d, d)."""
    one = np.eye(like.shape[-1], dtype=np.longdouble)
    if mass is None:
        return one
    mass = np.asarray(mass, np.longdouble)
    return mass if mass.shape[-1:] * 2 == mass.shape[-2:] and mass.ndim > like.ndim else (
        one * mass[..., None, :]
    )


def kkt_residual(t, G, b, mass, x, lam):
    """M (x - t) = G^T lam,  0 <= lam  perp  G x + b >= 0; each clause relative to its own terms.

    lam < 0 counts in full: a multiplier's sign is exact.
    """
    t, G, b, x, lam = (np.asarray(a, np.longdouble) for a in (t, G, b, x, lam))
    M = dense(mass, t)
    size = norm(G)
    off_balance = norm(times(M, x - t) - times(np.swapaxes(G, -1, -2), lam))
    balance_scale = norm(times(M, x)) + norm(times(M, t)) + np.sum(size * np.abs(lam), axis=-1)
    slack = times(G, x) + b
    slack = slack / np.maximum(size * (norm(x) + norm(t))[..., None] + np.abs(b), TINY)
    clauses = [
        off_balance / np.maximum(balance_scale, TINY),
        np.max(np.where(lam > 0.0, np.abs(slack), np.maximum(-slack, 0.0)), axis=-1),
        np.where(np.min(lam, axis=-1) < 0.0, np.inf, 0.0),
    ]
    worst = np.max(np.stack(clauses), axis=0)
    return np.where(np.isnan(worst), np.inf, worst)


def is_status(found, status):
    return np.asarray(found == status)


def distance(x, y, mass):
    """|x - y| in the kinetic norm."""
    M, z = dense(mass, np.asarray(x)), np.asarray(x, np.longdouble) - np.asarray(y)
    return np.sqrt(np.sum(z * times(M, z), axis=-1))


# Families of rows.  Each is feasible by construction: half of the rows pass through one point.


def gaussian(rng, n, p, d):
    return rng.normal(size=(n, p, d))


def dependent(rng, n, p, d):
    rank = max(1, min(p, d) // 2)
    return rng.normal(size=(n, p, rank)) @ rng.normal(size=(n, rank, d))


def among_few(rng, n, p, d):
    """Rows drawn from a third as many directions."""
    few = rng.integers(0, max(1, p // 3), (n, p))
    return np.take_along_axis(gaussian(rng, n, p, d), few[..., None], axis=1)


def duplicate(rng, n, p, d):
    """Equal, and parallel with other lengths: with random offsets, redundant rows."""
    return among_few(rng, n, p, d) * rng.choice([1.0, 1.0, 0.1, 7.0], (n, p, 1))


def close(angle):
    def rows(rng, n, p, d):
        return among_few(rng, n, p, d) + angle * rng.normal(size=(n, p, d))

    return rows


def some_zero(rng, n, p, d):
    return gaussian(rng, n, p, d) * (rng.random((n, p, 1)) > 0.3)


def badly_scaled(rng, n, p, d):
    return gaussian(rng, n, p, d) * 10.0 ** rng.uniform(-6, 6, (n, p, 1))


def integer(rng, n, p, d):
    return rng.integers(-2, 3, (n, p, d)).astype(float)


FAMILIES = {
    "gaussian": gaussian,
    "dependent": dependent,
    "duplicate": duplicate,
    "angle 1e-6": close(1e-6),
    "angle 1e-9": close(1e-9),
    "some zero": some_zero,
    "badly scaled": badly_scaled,
    "integer": integer,
}


def problems(family, rng, n, p, d, tight=0.5):
    """Targets (n, d), rows (n, p, d), offsets (n, p)."""
    G = FAMILIES[family](rng, n, p, d)
    inside = rng.integers(-2, 3, (n, d)).astype(float)
    open_by = rng.exponential(size=(n, p)) * norm(G) * (rng.random((n, p)) >= tight)
    t = inside + rng.normal(size=(n, d)) * rng.choice([0.1, 1.0, 10.0], (n, 1))
    return t, G, open_by - times(G, inside)


def masses(kind, rng, n, d):
    if kind == "identity":
        return None
    if kind == "diagonal":
        return 10.0 ** rng.uniform(-1, 1, (n, d))
    A = rng.normal(size=(n, d, d))
    return A @ np.swapaxes(A, 1, 2) / d + 0.1 * np.eye(d)


# (mass, p, d, problems of each family)
SHAPES = [
    ("identity", 8, 3, 100),
    ("diagonal", 8, 3, 100),
    ("dense", 8, 3, 100),
    ("diagonal", 10, 10, 100),
    ("identity", 64, 10, 60),
    ("dense", 64, 200, 6),
]


def assert_projected(found, t, G, b, mass):
    assert is_status(found.status, Status.ok).all()
    assert np.max(kkt_residual(t, G, b, mass, found.point, found.multipliers)) < PROMISED


@pytest.mark.parametrize(("kind", "p", "d", "n"), SHAPES)
def test_kkt_of_every_family(kind, p, d, n):
    """Some 3 700 problems, a batch for each family of rows."""
    rng = np.random.default_rng(p * d)
    for family in FAMILIES:
        t, G, b = problems(family, rng, n, p, d)
        mass = masses(kind, rng, n, d)
        found = project_batch(t, G, b, mass)
        worst = np.max(kkt_residual(t, G, b, mass, found.point, found.multipliers))
        print(f"{kind:9} p={p} d={d} {family:13} {n} problems, worst {worst:.1e}")
        assert_projected(found, t, G, b, mass)


@pytest.mark.parametrize("family", ["gaussian", "duplicate", "angle 1e-6", "angle 1e-9", "integer"])
def test_degenerate_vertex(family):
    """All 8 rows pass through one point in 3 dimensions, and every target is pushed back to it."""
    rng = np.random.default_rng(1)
    G = FAMILIES[family](rng, 200, 8, 3)
    vertex = rng.integers(-2, 3, (200, 3)).astype(float)
    push = rng.uniform(0.0, 1.0, (200, 8))
    t, b = vertex - times(np.swapaxes(G, 1, 2), push), -times(G, vertex)
    found = project_batch(t, G, b, None)
    assert_projected(found, t, G, b, None)
    if not family.startswith("angle"):  # where the point is as well determined as the residual
        assert np.max(norm(found.point - vertex) / (norm(vertex) + norm(t))) < 1e-12


def wedge(angle):
    """n and -n turned by ``angle``: a wedge that thin, with its apex at 0."""
    return np.array([[0.0, 1.0], [angle, -1.0]])


@pytest.mark.parametrize("angle", [1e-3, 1e-6, 1e-9])
@pytest.mark.parametrize("t", [[1.0, -1.0], [-1.0, -1.0], [-1.0, 0.5], [2.0, 3.0]])
def test_thin_wedge(angle, t):
    t, G, b = np.array(t), wedge(angle), np.zeros(2)
    assert_projected(project(t, G, b), t, G, b, None)


def nearly_opposite_cones(angle, n, p, d):
    """G x >= 0 holds at x = 0, whatever the rows."""
    rng = np.random.default_rng(2)
    G = close(angle)(rng, n, p, d) * rng.choice([-1.0, 1.0], (n, p, 1))
    return rng.normal(size=(n, d)), G, np.zeros((n, p))


@pytest.mark.parametrize(
    ("angle", "p", "d"), [(1e-3, 8, 3), (1e-6, 8, 3), (1e-6, 10, 10), (1e-9, 10, 10)]
)
def test_nearly_opposite_rows(angle, p, d):
    t, G, b = nearly_opposite_cones(angle, 400, p, d)
    assert_projected(project_batch(t, G, b, None), t, G, b, None)


def test_an_equality_written_as_two_rows_is_not_a_contradiction():
    """K = {x >= 0, y = 0}: the row (1e-3, 1) repeats x >= 0 there."""
    t, G, b = np.array([-1.0, 0.0]), np.array([[1e-3, 1.0], [0.0, 1.0], [0.0, -1.0]]), np.zeros(3)
    found = project(t, G, b)
    assert bool(found.status == Status.ok)
    assert np.allclose(found.point, 0.0, atol=1e-12)


def test_ok_is_not_said_of_a_large_residual():
    """Whatever cannot be solved must say so: a status other than ok, or a small residual."""
    t, G, b = nearly_opposite_cones(1e-9, 400, 10, 10)
    found = project_batch(t, G, b, None)
    unproven = np.asarray(found.residual) > 1e-9
    assert not np.any(unproven & is_status(found.status, Status.ok))


def test_own_residual_is_that_of_the_definition():
    rng = np.random.default_rng(3)
    t, G, b = problems("gaussian", rng, 100, 8, 3)
    mass = masses("dense", rng, 100, 3)
    found = project_batch(t, G, b, mass)
    assert np.max(found.residual) < PROMISED
    # and it sees a wrong answer
    from carom.metric import metric_of
    from carom.projection.exact import kkt_residual as own

    x, lam, everywhere = np.asarray(found.point[0]), found.multipliers[0], np.ones(8, bool)
    wrong = own(metric_of(jnp.asarray(mass[0])), t[0], G[0], b[0], everywhere, x + 1e-6, lam)
    assert wrong > 1e-8


def test_own_residual_is_relative_to_the_vectors():
    """K = {x >= 0, y = 0}; the point is (0, 1e-50), and that is no fault."""
    t, G, b = np.array([-1.0, 0.0]), np.array([[0.0, -1.0], [0.01, 1.0], [0.0, 1.0]]), np.zeros(3)
    found = project(t, G, b)
    assert_projected(found, t, G, b, None)
    assert found.residual < PROMISED


# Against a QP library.


def clarabel_solution(t, G, b, mass):
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    M = np.asarray(dense(mass, t), float)
    solver = clarabel.DefaultSolver(
        sparse.csc_matrix(np.triu(M)),
        -M @ t,
        sparse.csc_matrix(-G),
        b,
        [clarabel.NonnegativeConeT(len(b))],
        settings,
    )
    found = solver.solve()
    return str(found.status), np.array(found.x)


@pytest.mark.parametrize(("kind", "p", "d"), [("dense", 8, 3), ("diagonal", 10, 10)])
@pytest.mark.parametrize("family", FAMILIES)
def test_clarabel_finds_the_same_point(kind, p, d, family):
    """The point is unique; Clarabel's gap of 1e-8 leaves it some 1e-4 in the kinetic norm."""
    rng = np.random.default_rng(4)
    t, G, b = problems(family, rng, 100, p, d)
    mass = masses(kind, rng, 100, d)
    found = project_batch(t, G, b, mass)
    solved = 0
    for i in range(len(t)):
        status, x = clarabel_solution(t[i], G[i], b[i], mass[i])
        scale = distance(t[i], 0.0 * t[i], mass[i]) + distance(x, 0.0 * x, mass[i])
        if status == "Solved":
            solved += 1
            assert distance(found.point[i], x, mass[i]) < 2e-4 * scale
        assert status in ("Solved", "AlmostSolved")
    assert solved >= 90


# No feasible point.


def contradictory(rng, n, p, d, margin):
    """sum_i y_i G_i = 0 and y . b = -margin with y > 0: Farkas' certificate that no point exists."""
    G, y = rng.normal(size=(n, p, d)), rng.uniform(0.1, 1.0, (n, p))
    G[:, -1] = -np.sum(y[:, :-1, None] * G[:, :-1], axis=1) / y[:, -1:]
    b = rng.normal(size=(n, p))
    b[:, -1] = -(np.sum(y[:, :-1] * b[:, :-1], axis=1) + margin) / y[:, -1]
    return rng.normal(size=(n, d)), G, b


@pytest.mark.parametrize("margin", [1.0, 1e-3, 1e-6, 1e-9])
@pytest.mark.parametrize(("kind", "p", "d"), [("dense", 8, 3), ("diagonal", 10, 10)])
def test_contradictory_rows_are_infeasible(kind, p, d, margin):
    rng = np.random.default_rng(5)
    t, G, b = contradictory(rng, 200, p, d, margin)
    mass = masses(kind, rng, 200, d)
    found = project_batch(t, G, b, mass)
    assert is_status(found.status, Status.infeasible).all()
    assert np.isfinite(found.point).all()
    assert np.isfinite(found.multipliers).all()
    assert np.min(found.multipliers) >= 0.0


def test_clarabel_agrees_that_they_are_infeasible():
    t, G, b = contradictory(np.random.default_rng(6), 50, 8, 3, 1.0)
    assert {clarabel_solution(*one, None)[0] for one in zip(t, G, b, strict=True)} == {
        "PrimalInfeasible"
    }


@pytest.mark.parametrize("rows", [1, 8])
def test_a_zero_row_with_a_negative_offset_is_infeasible(rows):
    t, G, b = np.ones(3), np.zeros((rows, 3)), np.zeros(rows)
    b[-1] = -1e-3
    found = project(t, G, b)
    assert bool(found.status == Status.infeasible)
    assert np.isfinite(found.point).all()
    assert np.isfinite(found.multipliers).all()


def test_a_wall_and_the_opposite_wall():
    """x >= 0 and x <= width: a slab while width >= 0, nothing below."""
    G = np.array([[1.0, 2.0, 0.0], [-1.0, -2.0, 0.0]])
    for width, status in [(1.0, Status.ok), (0.0, Status.ok), (-1e-9, Status.infeasible)]:
        found = project(np.array([3.0, 1.0, 1.0]), G, np.array([0.0, width]))
        assert bool(found.status == status)
        if width >= 0.0:
            assert G[0] @ found.point == pytest.approx(width, abs=1e-14)


def largest_smallest_slack(G, b):
    """max over x of min_i (G x + b)_i, capped at 1."""
    p, d = G.shape
    best = linprog(
        np.append(np.zeros(d), -1.0),
        A_ub=np.hstack([-G, np.ones((p, 1))]),
        b_ub=b,
        bounds=[(None, None)] * d + [(None, 1.0)],
    )
    return -best.fun


SMALL = {"elements": st.integers(-2, 2), "dtype": int}


@settings(max_examples=500, deadline=None, derandomize=True)
@given(
    hnp.arrays(shape=(3,), **SMALL),
    hnp.arrays(shape=(6, 3), **SMALL),
    hnp.arrays(shape=(6,), **SMALL),
    hnp.arrays(shape=(3,), elements=st.integers(1, 3), dtype=int),
)
def test_small_whole_numbers(t, G, b, mass):
    """Ties, zeros, copies and contradictions of all kinds; small numbers are never nearly so."""
    t, G, b, mass = (np.asarray(a, float) for a in (t, G, b, mass))
    found = project(t, G, b, mass)
    if bool(found.status == Status.ok):
        assert kkt_residual(t, G, b, mass, found.point, found.multipliers) < PROMISED
    else:
        assert bool(found.status == Status.infeasible)
        assert largest_smallest_slack(G, b) < -1e-3
        assert np.isfinite(found.point).all()
        assert np.isfinite(found.multipliers).all()


# Closed forms.


@pytest.mark.parametrize("kind", ["identity", "diagonal", "dense"])
def test_one_row(kind):
    """lam = (-(g t + b))_+ / (g M^-1 g)."""
    rng = np.random.default_rng(7)
    t, G, b = rng.normal(size=(50, 3)), rng.normal(size=(50, 1, 3)), rng.normal(size=(50, 1))
    mass = masses(kind, rng, 50, 3)
    M = np.asarray(dense(mass, t) * np.ones((50, 1, 1)), float)
    found = project_batch(t, G, b, mass)
    assert is_status(found.status, Status.ok).all()
    for i in range(50):
        direction = np.linalg.solve(M[i], G[i, 0])
        lam = max(-(G[i, 0] @ t[i] + b[i, 0]), 0.0) / (G[i, 0] @ direction)
        assert found.multipliers[i, 0] == pytest.approx(lam, rel=1e-13)
        assert np.allclose(found.point[i], t[i] + lam * direction, rtol=0, atol=1e-13 * (1 + lam))
        assert int(found.iterations[i]) == (lam > 0.0)


def test_no_rows():
    found = carom.project([1.0, 2.0], np.zeros((0, 2)), np.zeros(0))
    assert found.point.tolist() == [1.0, 2.0]
    assert found.multipliers.shape == (0,)
    assert bool(found.status == Status.ok)


def test_orthant():
    t = np.array([1.0, -2.0, 0.0, -0.5])
    found = project(t, np.eye(4), np.zeros(4), np.array([1.0, 2.0, 3.0, 4.0]))
    assert np.allclose(found.point, np.maximum(t, 0.0), rtol=0, atol=1e-15)
    assert np.allclose(found.multipliers, [0.0, 4.0, 0.0, 2.0], rtol=1e-14)


def pooled(values, weights):
    """Weighted isotonic regression by pooling adjacent violators."""
    blocks = []
    for value, weight in zip(values, weights, strict=True):
        blocks.append((value, weight, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (u, w, m), (x, y, n) = blocks[-2:]
            blocks[-2:] = [((u * w + x * y) / (w + y), w + y, m + n)]
    return np.concatenate([np.full(n, value) for value, _, n in blocks])


def test_a_row_of_balls_is_isotonic_regression():
    rng = np.random.default_rng(8)
    d = 24
    G = np.diff(np.eye(d), axis=0)
    for trend in (-3.0, 0.0, 3.0):
        for _ in range(20):
            t = rng.normal(size=d) + trend * np.linspace(0, 1, d)
            mass = 10.0 ** rng.uniform(-2, 2, d)
            found, exact = project(t, G, np.zeros(d - 1), mass), pooled(t, mass)
            assert np.allclose(found.point, exact, rtol=0, atol=1e-12)
            push = -np.cumsum(mass * (exact - t))[:-1]  # the rows are independent: lam is unique
            assert np.allclose(found.multipliers, push, rtol=0, atol=1e-12 * mass.sum())


# Properties of a projection.


def test_idempotent():
    rng = np.random.default_rng(9)
    t, G, b = problems("gaussian", rng, 100, 8, 3)
    mass = masses("dense", rng, 100, 3)
    once = project_batch(t, G, b, mass)
    twice = project_batch(once.point, G, b, mass)
    assert np.max(distance(twice.point, once.point, mass) / (1.0 + norm(t))) < 1e-13
    inside = project_batch(once.point, G, b + 1e-3, mass)
    assert np.array_equal(inside.point, once.point)
    assert np.all(inside.multipliers == 0.0)


def test_nonexpansive_in_the_kinetic_norm():
    rng = np.random.default_rng(10)
    t, G, b = problems("duplicate", rng, 200, 8, 3)
    s, mass = t + rng.normal(size=t.shape), masses("dense", rng, 200, 3)
    x, y = (project_batch(u, G, b, mass).point for u in (t, s))
    assert np.all(distance(x, y, mass) <= distance(t, s, mass) * (1 + 1e-12))


def test_a_cone_and_its_polar_split_the_target():
    """b = 0: x is orthogonal to t - x in the kinetic metric (Moreau's decomposition)."""
    rng = np.random.default_rng(11)
    t, G, _ = problems("gaussian", rng, 200, 8, 3)
    mass = masses("dense", rng, 200, 3)
    x = np.asarray(project_batch(t, G, np.zeros((200, 8)), mass).point)
    product = np.sum(x * times(np.asarray(dense(mass, t), float), t - x), axis=1)
    assert np.max(np.abs(product) / norm(t) ** 2) < 1e-12


def test_commutes_with_changes_of_coordinates():
    """x = A z + s: the mass becomes A^T M A, the rows G A; the same point and the same pushes."""
    rng = np.random.default_rng(12)
    n, p, d = 100, 10, 10
    t, G, b = problems("gaussian", rng, n, p, d)
    mass = masses("dense", rng, n, d)
    A, s = rng.normal(size=(n, d, d)) / 3 + 2 * np.eye(d), rng.normal(size=(n, d))
    A_T = np.swapaxes(A, 1, 2)
    z = np.linalg.solve(A, (t - s)[..., None])[..., 0]
    here = project_batch(t, G, b, mass)
    there = project_batch(z, G @ A, b + times(G, s), A_T @ mass @ A)
    assert np.max(distance(times(A, np.asarray(there.point)) + s, here.point, mass)) < 1e-10
    assert np.allclose(there.multipliers, here.multipliers, rtol=1e-7, atol=1e-9)


def test_units():
    """Rows in other units divide the multipliers; mass in other units multiplies them."""
    rng = np.random.default_rng(13)
    t, G, b = problems("gaussian", rng, 50, 8, 3)
    mass, unit = masses("dense", rng, 50, 3), 2.0 ** rng.integers(-20, 20, (50, 8))
    plain = project_batch(t, G, b, mass)
    scaled = project_batch(t, G * unit[..., None], b * unit, 1024.0 * mass)
    assert np.allclose(scaled.point, plain.point, rtol=0, atol=1e-13 * (1 + norm(t).max()))
    assert np.allclose(scaled.multipliers * unit / 1024.0, plain.multipliers, rtol=1e-9, atol=1e-12)


# The interface.


def test_inactive_rows_are_left_out():
    rng = np.random.default_rng(14)
    t, G, b = (a[0] for a in problems("gaussian", rng, 1, 8, 3))
    for _ in range(20):
        active = rng.random(8) < 0.5
        masked = project_masked(t, G, b, active)
        removed = project(t, np.where(active[:, None], G, 0.0), np.where(active, b, 1.0))
        assert np.allclose(masked.point, removed.point, rtol=0, atol=1e-13)
        assert np.all(np.asarray(masked.multipliers)[~active] == 0.0)
    assert np.array_equal(project_masked(t, G, b, np.zeros(8, bool)).point, t)


def test_an_inactive_contradiction_is_no_contradiction():
    t, G, b = np.ones(3), np.zeros((8, 3)), np.full(8, -1.0)
    assert bool(project_masked(t, G, b, np.zeros(8, bool)).status == Status.ok)
    only = np.arange(8) == 3
    assert bool(project_masked(t, G, b, only).status == Status.infeasible)


def test_vmap_is_the_loop():
    rng = np.random.default_rng(15)
    t, G, b = problems("integer", rng, 100, 8, 3)
    mass = masses("dense", rng, 100, 3)
    t[::7] += 40.0
    b[::5, 0] -= 60.0 * np.max(np.abs(b))  # some end infeasible, some later than others
    batch = project_batch(t, G, b, mass)
    for i in range(100):
        one = project(t[i], G[i], b[i], mass[i])
        assert bool(one.status == batch.status[i])
        assert int(one.iterations) == int(batch.iterations[i])
        assert np.allclose(one.point, batch.point[i], rtol=1e-12, atol=1e-12)
        assert np.allclose(one.multipliers, batch.multipliers[i], rtol=1e-10, atol=1e-10)
    assert 5 < np.sum(is_status(batch.status, Status.infeasible)) < 60


def test_jit_changes_nothing():
    rng = np.random.default_rng(16)
    t, G, b = (a[0] for a in problems("gaussian", rng, 1, 8, 3))
    plain, compiled = carom.project(t, G, b), project(t, G, b)
    assert np.allclose(plain.point, compiled.point, rtol=0, atol=1e-14)
    assert int(plain.iterations) == int(compiled.iterations)


def test_lists_are_taken():
    found = carom.project([-1.0, 2.0], [[1.0, 0.0]], [0.0], mass=[2.0, 1.0], active=[True])
    assert found.point.tolist() == [0.0, 2.0]
    assert found.multipliers.tolist() == [2.0]


@pytest.mark.parametrize("rows", [1, 8])
@pytest.mark.parametrize("spoilt", ["target", "G", "b"])
def test_what_is_not_a_number_is_said(rows, spoilt):
    given = {"target": np.ones(3), "G": np.ones((rows, 3)), "b": np.zeros(rows)}
    given[spoilt][(0,) * given[spoilt].ndim] = np.nan
    assert bool(project(*given.values()).status == Status.nonfinite)
