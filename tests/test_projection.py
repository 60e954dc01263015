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
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from scipy.optimize import linprog

import carom
from carom import Status
from carom.metric import metric_of
from carom.projection.exact import kkt_residual as own_residual

PROMISED = 1e-12  # relative KKT residual
TINY = 1e-300  # keeps 0 / 0 at 0
N = 200  # problems in a batch; shapes are few, for each is compiled


def _project(t, G, b, mass, active):
    return carom.project(t, G, b, mass=mass, active=active)


_project_one = jax.jit(_project)
_project_batch = jax.jit(jax.vmap(_project))


def project_batch(t, G, b, mass):
    return _project_batch(t, G, b, mass, np.ones(b.shape, bool))


def project(t, G, b, mass=None, active=True):
    """One problem in up to 3 dimensions; fewer than 8 rows are filled up with 0 x + 1 >= 0."""
    p, d = np.shape(G)
    rows, offsets, target, M = np.zeros((8, 3)), np.ones(8), np.zeros(3), np.eye(3)
    among = np.ones(8, bool)
    rows[:p, :d], offsets[:p], target[:d], among[:p] = G, b, t, active
    M[:d, :d] = np.eye(d) if mass is None else mass
    found = _project_one(target, rows, offsets, M, among)
    return carom.projection.Projection(
        found.point[:d], found.multipliers[:p], found.residual, found.iterations, found.status
    )


# The definition.


def norm(x):
    return np.sqrt(np.sum(x * x, axis=-1))


def times(A, x):
    """A @ x over leading axes, in any precision."""
    return np.sum(A * x[..., None, :], axis=-1)


def transposed(A):
    return np.swapaxes(A, -1, -2)


def dense(mass, t):
    """The mass of targets ``t`` (..., d) as (..., d, d), in extended precision."""
    one = np.eye(t.shape[-1], dtype=np.longdouble)
    if mass is None:
        return one
    mass = np.asarray(mass, np.longdouble)
    return mass if mass.ndim > t.ndim else one * mass[..., None, :]


def kkt_residual(t, G, b, mass, x, lam):
    """M (x - t) = G^T lam,  0 <= lam  perp  G x + b >= 0; each clause relative to its own terms.

    The sign of lam is exact: a negative one counts in full, and so does what is not a number.
    """
    t, G, b, x, lam = (np.asarray(a, np.longdouble) for a in (t, G, b, x, lam))
    M, size = dense(mass, t), norm(G)
    off_balance = norm(times(M, x - t) - times(transposed(G), lam))
    balance_scale = norm(times(M, x)) + norm(times(M, t)) + np.sum(size * np.abs(lam), axis=-1)
    slack_scale = size * (norm(x) + norm(t))[..., None] + np.abs(b)
    slack = (times(G, x) + b) / np.maximum(slack_scale, TINY)
    clauses = [
        off_balance / np.maximum(balance_scale, TINY),
        np.max(np.where(lam > 0.0, np.abs(slack), np.maximum(-slack, 0.0)), axis=-1),
        np.where(np.min(lam, axis=-1) < 0.0, np.inf, 0.0),
    ]
    worst = np.max(np.stack(clauses), axis=0)
    return np.where(np.isnan(worst), np.inf, worst)


def distance(x, y, mass):
    """|x - y| in the kinetic norm."""
    z = np.asarray(x, np.longdouble) - np.asarray(y)
    return np.sqrt(np.sum(z * times(dense(mass, z), z), axis=-1))


def has(found, status):
    return np.asarray(found.status == status)


def assert_projected(found, t, G, b, mass=None):
    assert has(found, Status.ok).all()
    worst = np.max(kkt_residual(t, G, b, mass, found.point, found.multipliers))
    assert worst < PROMISED
    return worst


def assert_infeasible(found):
    assert has(found, Status.infeasible).all()
    assert np.isfinite(found.point).all()
    assert np.isfinite(found.multipliers).all()
    assert np.min(found.multipliers) >= 0.0


# Families of rows.


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
    """Equal, and parallel with other lengths: with their offsets, redundant rows."""
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


def problems(family, rng, n, p, d):
    """Targets (n, d), rows (n, p, d), offsets (n, p): half of the rows pass through one point,
    the others leave it inside."""
    G = FAMILIES[family](rng, n, p, d)
    inside = rng.integers(-2, 3, (n, d)).astype(float)
    open_by = rng.exponential(size=(n, p)) * norm(G) * (rng.random((n, p)) < 0.5)
    t = inside + rng.normal(size=(n, d)) * rng.choice([0.1, 1.0, 10.0], (n, 1))
    return t, G, open_by - times(G, inside)


def masses(kind, rng, n, d):
    if kind == "identity":
        return None
    if kind == "diagonal":
        return 10.0 ** rng.uniform(-1, 1, (n, d))
    A = rng.normal(size=(n, d, d))
    return A @ transposed(A) / d + 0.1 * np.eye(d)


# Every family, against the definition.

# mass, p, d, problems of each family
SHAPES = [
    ("diagonal", 10, 10, N),
    ("dense", 8, 3, N),
    ("identity", 64, 10, 60),
    ("dense", 64, 200, 6),
]


@pytest.mark.parametrize(("kind", "p", "d", "n"), SHAPES)
def test_kkt_of_every_family(kind, p, d, n):
    """Some 5 300 problems in all."""
    rng = np.random.default_rng(p * d)
    for family in [*FAMILIES] * (2 if d == 3 else 1):
        t, G, b = problems(family, rng, n, p, d)
        mass = masses(kind, rng, n, d)
        worst = assert_projected(project_batch(t, G, b, mass), t, G, b, mass)
        print(f"{kind:9} p={p} d={d} {family:13} {n} problems, worst {worst:.1e}")


@pytest.mark.parametrize("family", FAMILIES)
def test_degenerate_vertex(family):
    """All 8 rows pass through one point in 3 dimensions, and every target is pushed back to it."""
    rng = np.random.default_rng(1)
    G, mass = FAMILIES[family](rng, N, 8, 3), masses("dense", rng, N, 3)
    vertex, push = rng.integers(-2, 3, (N, 3)).astype(float), rng.uniform(0.0, 1.0, (N, 8))
    t = vertex - np.linalg.solve(mass, times(transposed(G), push)[..., None])[..., 0]
    b = -times(G, vertex)
    found = project_batch(t, G, b, mass)
    assert_projected(found, t, G, b, mass)
    if family in ("gaussian", "integer"):  # elsewhere data that are rounded do not fix the point
        assert np.max(norm(found.point - vertex) / (norm(vertex) + norm(t))) < 1e-12


@pytest.mark.parametrize("angle", [1e-3, 1e-6, 1e-9])
@pytest.mark.parametrize("t", [[1.0, -1.0], [-1.0, -1.0], [-1.0, 0.5], [2.0, 3.0]])
def test_thin_wedge(angle, t):
    """Two rows that are opposite but for an angle."""
    t, G, b = np.array(t), np.array([[0.0, 1.0], [angle, -1.0]]), np.zeros(2)
    assert_projected(project(t, G, b), t, G, b)


INACCURATE = pytest.mark.xfail(
    strict=True, reason="rows nearly opposite to within 1e-8: the pseudo-inverse loses its digits"
)


def nearly_opposite(angle, p, d):
    """Cones G x >= 0, which hold x = 0 whatever the rows: never a contradiction."""
    rng = np.random.default_rng(2)
    G = close(angle)(rng, N, p, d) * rng.choice([-1.0, 1.0], (N, p, 1))
    return rng.normal(size=(N, d)), G, np.zeros((N, p)), masses("diagonal", rng, N, d)


@pytest.mark.parametrize("angle", [1e-3, 1e-5, 1e-7, pytest.param(1e-9, marks=INACCURATE)])
def test_nearly_opposite_rows(angle):
    """As many rows as dimensions: every cone has an interior."""
    problem = t, G, b, mass = nearly_opposite(angle, 10, 10)
    assert_projected(project_batch(*problem), t, G, b, mass)


def test_nearly_opposite_rows_are_not_a_contradiction():
    """8 rows in 3 dimensions: most of these cones are the point 0 and nothing else."""
    t, G, b, mass = nearly_opposite(1e-6, 8, 3)
    found = project_batch(t, G, b, mass[..., None] * np.eye(3))
    assert not has(found, Status.infeasible).any()


def test_an_equality_written_as_two_rows_is_not_a_contradiction():
    """K = {x >= 0, y = 0}: in it the row (1e-3, 1) is x >= 0."""
    found = project([-1.0, 0.0], [[1e-3, 1.0], [0.0, 1.0], [0.0, -1.0]], np.zeros(3))
    assert has(found, Status.ok)
    assert np.allclose(found.point, 0.0, rtol=0, atol=1e-12)


def test_ok_is_not_said_of_a_large_residual():
    """What could not be solved must say so."""
    found = project_batch(*nearly_opposite(1e-9, 10, 10))
    assert not np.any(has(found, Status.ok) & (np.asarray(found.residual) > 1e-9))


def test_own_residual_is_small_and_sees_a_wrong_answer():
    rng = np.random.default_rng(3)
    t, G, b = problems("gaussian", rng, N, 8, 3)
    mass = masses("dense", rng, N, 3)
    found = project_batch(t, G, b, mass)
    assert np.max(found.residual) < PROMISED

    @jax.jit
    def residual(x, lam):
        return own_residual(
            metric_of(jnp.asarray(mass[0])), t[0], G[0], b[0], np.ones(8, bool), x, lam
        )

    x, lam = np.asarray(found.point[0]), np.asarray(found.multipliers[0])
    for wrong_x, wrong_lam in [(x + 1e-6, lam), (x, lam + 1e-6), (x, lam - 1e-6)]:
        measured = float(kkt_residual(t[0], G[0], b[0], mass[0], wrong_x, wrong_lam))
        assert residual(wrong_x, wrong_lam) > min(measured, 1e-6) / 10
        assert measured > 1e-9


def test_own_residual_is_relative_to_the_vectors():
    """The row x >= 0 meets x = -1e-16 beside y of order 1, which is no fault."""
    t, b = np.array([0.0, 1.0, 1.0]), np.array([-2.0, 0.0, -2.0])
    G = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 0.0], [-2.0, -2.0, -2.0]])
    found = project(t, G, b)
    assert_projected(found, t, G, b)
    assert found.residual < PROMISED


# Against a QP library.


def clarabel_solution(t, G, b, mass):
    options = clarabel.DefaultSettings()
    options.verbose = False
    M = np.asarray(dense(mass, t), float)
    rows, cone = sparse.csc_matrix(-G), [clarabel.NonnegativeConeT(len(b))]
    found = clarabel.DefaultSolver(
        sparse.csc_matrix(np.triu(M)), -M @ t, rows, b, cone, options
    ).solve()
    return str(found.status), np.array(found.x)


@pytest.mark.parametrize(("kind", "p", "d"), [("dense", 8, 3), ("diagonal", 10, 10)])
@pytest.mark.parametrize("family", FAMILIES)
def test_clarabel_finds_the_same_point(kind, p, d, family):
    """3 200 problems.  The point is unique, and the square of its distance is below the gap."""
    rng = np.random.default_rng(4)
    t, G, b = problems(family, rng, N, p, d)
    mass = masses(kind, rng, N, d)
    found = project_batch(t, G, b, mass)
    apart, statuses = [], []
    for i in range(N):
        status, x = clarabel_solution(t[i], G[i], b[i], mass[i])
        statuses.append(status)
        if status == "Solved":
            scale = distance(t[i], 0.0, mass[i]) + distance(x, 0.0, mass[i])
            apart.append(distance(found.point[i], x, mass[i]) / scale)
    print(f"{family:13} {len(apart)} solved, median {np.median(apart):.1e}, most {max(apart):.1e}")
    assert max(apart) < 1e-4
    assert np.median(apart) < 1e-7
    assert len(apart) >= 0.9 * N
    assert "PrimalInfeasible" not in statuses


# No feasible point.


def contradictory(rng, n, p, d, margin):
    """sum_i y_i G_i = 0 and y . b = -margin with y > 0: Farkas' proof that there is no point."""
    G, y = rng.normal(size=(n, p, d)), rng.uniform(0.1, 1.0, (n, p))
    G[:, -1] = -np.sum(y[:, :-1, None] * G[:, :-1], axis=1) / y[:, -1:]
    b = rng.normal(size=(n, p))
    b[:, -1] = -(np.sum(y[:, :-1] * b[:, :-1], axis=1) + margin) / y[:, -1]
    return rng.normal(size=(n, d)), G, b


@pytest.mark.parametrize("margin", [1.0, 1e-3, 1e-6, 1e-9])
@pytest.mark.parametrize(("kind", "p", "d"), [("dense", 8, 3), ("diagonal", 10, 10)])
def test_contradictory_rows_are_infeasible(kind, p, d, margin):
    rng = np.random.default_rng(5)
    t, G, b = contradictory(rng, N, p, d, margin)
    assert_infeasible(project_batch(t, G, b, masses(kind, rng, N, d)))


def test_clarabel_agrees_that_they_are_infeasible():
    t, G, b = contradictory(np.random.default_rng(5), N, 8, 3, 1.0)
    statuses = {clarabel_solution(*one, None)[0] for one in zip(t, G, b, strict=True)}
    assert statuses == {"PrimalInfeasible"}


def test_a_zero_row_with_a_negative_offset_is_infeasible():
    t, G, b = np.ones(3), np.eye(8, 3), np.zeros(8)
    assert_projected(project(t, G, b), t, G, b)
    b[-1] = -1e-3
    assert_infeasible(project(t, G, b))
    found = project_batch(np.ones((N, 3)), np.zeros((N, 1, 3)), np.full((N, 1), -1e-3), None)
    assert_infeasible(found)  # one row has its own formula


@pytest.mark.parametrize("width", [1.0, 0.0, -1e-9, -1.0])
def test_a_wall_and_the_opposite_wall(width):
    """0 <= x + 2 y <= width."""
    G = np.array([[1.0, 2.0], [-1.0, -2.0]])
    found = project([3.0, 1.0], G, [0.0, width])
    if width >= 0.0:
        assert has(found, Status.ok)
        assert G[0] @ found.point == pytest.approx(width, abs=1e-14)
    else:
        assert_infeasible(found)


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


def assert_settled(t, G, b, m, found):
    """Small whole numbers: projected, or infeasible by a margin that an LP confirms."""
    if has(found, Status.ok):
        assert_projected(found, t, G, b, m)
    else:
        assert_infeasible(found)
        assert largest_smallest_slack(G, b) < -1e-3


def test_a_wall_the_opposite_wall_and_another():
    """2 y - z >= 1 and 2 y - z <= 0."""
    G, b = [[0.0, 2.0, -1.0], [2.0, -1.0, 2.0], [0.0, -2.0, 1.0]], [-1.0, 2.0, 0.0]
    assert_infeasible(project([-1.0, -2.0, -1.0], G, b))


SMALL = {"elements": st.integers(-2, 2), "dtype": int}


@settings(
    max_examples=300,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],  # an example is small enough as it is
)
@given(
    t=hnp.arrays(shape=(3,), **SMALL),
    G=hnp.arrays(shape=(6, 3), **SMALL),
    b=hnp.arrays(shape=(6,), **SMALL),
    m=hnp.arrays(shape=(3,), elements=st.integers(1, 3), dtype=int),
)
def test_small_whole_numbers(t, G, b, m):
    """Ties, zeros, copies and contradictions of all kinds; small numbers are never nearly so."""
    t, G, b, m = (np.asarray(a, float) for a in (t, G, b, m))
    assert_settled(t, G, b, m, project(t, G, b, np.diag(m)))


def test_many_small_whole_numbers():
    """4 000 problems; about a quarter are infeasible."""
    rng = np.random.default_rng(17)
    for _ in range(20):
        t, m = rng.integers(-2, 3, (N, 3)).astype(float), rng.integers(1, 4, (N, 3)).astype(float)
        G, b = integer(rng, N, 8, 3), rng.integers(-2, 3, (N, 8)).astype(float)
        left_out = np.arange(8) >= rng.integers(2, 9)
        G[:, left_out], b[:, left_out] = 0.0, 1.0
        found = project_batch(t, G, b, m[..., None] * np.eye(3))
        ok = has(found, Status.ok)
        residual = kkt_residual(t, G, b, m, found.point, found.multipliers)
        assert np.max(residual[ok]) < PROMISED
        assert (ok | has(found, Status.infeasible)).all()
        assert all(largest_smallest_slack(*one) < -1e-3 for one in zip(G[~ok], b[~ok], strict=True))


# Closed forms.


@pytest.mark.parametrize("kind", ["identity", "diagonal", "dense"])
def test_one_row(kind):
    """lam = (-(g t + b))_+ / (g M^-1 g)."""
    rng = np.random.default_rng(7)
    t, G, b = rng.normal(size=(N, 3)), rng.normal(size=(N, 1, 3)), rng.normal(size=(N, 1))
    mass = masses(kind, rng, N, 3)
    found = project_batch(t, G, b, mass)
    M = np.asarray(dense(mass, t), float) * np.ones((N, 1, 1))
    direction = np.linalg.solve(M, transposed(G))[..., 0]
    lam = np.maximum(-(times(G, t) + b), 0.0)[:, 0] / np.sum(G[:, 0] * direction, axis=1)
    assert has(found, Status.ok).all()
    assert np.allclose(found.multipliers[:, 0], lam, rtol=1e-13, atol=0)
    assert np.max(norm(found.point - t - lam[:, None] * direction) / (norm(t) + lam)) < 1e-13
    assert np.array_equal(found.iterations, lam > 0.0)
    assert np.max(found.residual) < PROMISED


def test_no_rows():
    found = carom.project([1.0, 2.0], np.zeros((0, 2)), np.zeros(0))
    assert found.point.tolist() == [1.0, 2.0]
    assert found.multipliers.shape == (0,)
    assert has(found, Status.ok)


def test_orthant():
    t = np.array([1.0, -2.0, -0.5])
    found = project(t, np.eye(3), np.zeros(3), np.diag([1.0, 2.0, 4.0]))
    assert np.allclose(found.point, np.maximum(t, 0.0), rtol=0, atol=1e-15)
    assert np.allclose(found.multipliers, [0.0, 4.0, 2.0], rtol=1e-14)


def pooled(values, weights):
    """Weighted isotonic regression by pooling adjacent violators."""
    blocks = []
    for value, weight in zip(values, weights, strict=True):
        blocks.append((value, weight, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (u, w, m), (x, y, n) = blocks[-2:]
            blocks[-2:] = [((u * w + x * y) / (w + y), w + y, m + n)]
    return np.concatenate([np.full(n, value) for value, _, n in blocks])


@pytest.mark.parametrize("trend", [-3.0, 0.0, 3.0])
def test_a_row_of_balls_is_isotonic_regression(trend):
    """Rows x[i+1] - x[i] >= 0 (and a zero row): independent, so the multipliers are unique too."""
    rng = np.random.default_rng(8)
    t = rng.normal(size=(N, 10)) + trend * np.linspace(0.0, 1.0, 10)
    mass = 10.0 ** rng.uniform(-2, 2, (N, 10))
    G = np.zeros((N, 10, 10))
    G[:, :9] = np.diff(np.eye(10), axis=0)
    found = project_batch(t, G, np.zeros((N, 10)), mass)
    exact = np.array([pooled(*one) for one in zip(t, mass, strict=True)])
    push = -np.cumsum(mass * (exact - t), axis=1)
    assert np.max(np.abs(found.point - exact)) < 1e-12
    assert np.max(np.abs(found.multipliers - push) / mass.sum(axis=1, keepdims=True)) < 1e-12


# Properties of a projection.


def test_idempotent():
    rng = np.random.default_rng(9)
    t, G, b = problems("gaussian", rng, N, 8, 3)
    mass = masses("dense", rng, N, 3)
    once = project_batch(t, G, b, mass)
    twice = project_batch(once.point, G, b, mass)
    assert np.max(distance(twice.point, once.point, mass) / norm(t)) < 1e-13
    inside = project_batch(once.point, G, b + 1e-3, mass)
    assert np.array_equal(inside.point, once.point)
    assert np.all(np.asarray(inside.multipliers) == 0.0)


def test_nonexpansive_in_the_kinetic_norm():
    rng = np.random.default_rng(10)
    t, G, b = problems("duplicate", rng, N, 8, 3)
    s, mass = t + rng.normal(size=t.shape), masses("dense", rng, N, 3)
    x, y = (project_batch(u, G, b, mass).point for u in (t, s))
    assert np.all(distance(x, y, mass) <= distance(t, s, mass) * (1 + 1e-12))


def test_a_cone_and_its_polar_split_the_target():
    """b = 0: x is orthogonal to t - x in the kinetic metric (Moreau's decomposition)."""
    rng = np.random.default_rng(11)
    t, G, _ = problems("gaussian", rng, N, 8, 3)
    mass = masses("dense", rng, N, 3)
    x = np.asarray(project_batch(t, G, np.zeros((N, 8)), mass).point)
    product = np.sum(x * times(mass, t - x), axis=1)
    assert np.max(np.abs(product) / norm(t) ** 2) < 1e-12


def test_commutes_with_changes_of_coordinates():
    """x = A z + s: the mass becomes A^T M A, the rows G A; the same point and the same reaction."""
    rng = np.random.default_rng(12)
    t, G, b = problems("gaussian", rng, N, 8, 3)
    mass, s = masses("dense", rng, N, 3), rng.normal(size=(N, 3))
    A = rng.normal(size=(N, 3, 3)) / 3 + 2 * np.eye(3)
    z = np.linalg.solve(A, (t - s)[..., None])[..., 0]
    here = project_batch(t, G, b, mass)
    there = project_batch(z, G @ A, b + times(G, s), transposed(A) @ mass @ A)
    seen = times(A, np.asarray(there.point)) + s
    assert np.max(distance(seen, here.point, mass) / (norm(t) + norm(s))) < 1e-10
    reaction = [times(transposed(G), np.asarray(found.multipliers)) for found in (here, there)]
    assert np.max(norm(reaction[0] - reaction[1]) / (1.0 + norm(reaction[0]))) < 1e-10


def test_units():
    """Rows in other units divide the multipliers; a mass in other units multiplies them."""
    rng = np.random.default_rng(13)
    t, G, b = problems("gaussian", rng, N, 8, 3)
    mass, unit = masses("dense", rng, N, 3), 2.0 ** rng.integers(-20, 20, (N, 8))
    plain = project_batch(t, G, b, mass)
    scaled = project_batch(t, G * unit[..., None], b * unit, 1024.0 * mass)
    assert np.max(norm(scaled.point - plain.point) / norm(t)) < 1e-13
    assert np.allclose(scaled.multipliers * unit / 1024.0, plain.multipliers, rtol=1e-9, atol=1e-11)


# The interface.


def test_inactive_rows_are_left_out():
    rng = np.random.default_rng(14)
    t, G, b = (a[0] for a in problems("gaussian", rng, 1, 8, 3))
    for _ in range(20):
        active = rng.random(8) < 0.5
        masked, removed = project(t, G, b, active=active), project(t, G[active], b[active])
        assert np.allclose(masked.point, removed.point, rtol=0, atol=1e-13)
        assert np.all(np.asarray(masked.multipliers)[~active] == 0.0)
    assert np.array_equal(project(t, G, b, active=False).point, t)


def test_an_inactive_contradiction_is_no_contradiction():
    t, G, b = np.ones(3), np.zeros((8, 3)), np.full(8, -1.0)
    assert has(project(t, G, b, active=False), Status.ok)
    assert_infeasible(project(t, G, b, active=np.arange(8) == 3))


def test_vmap_is_the_loop():
    rng = np.random.default_rng(15)
    t, G, b = problems("gaussian", rng, N, 8, 3)
    mass = masses("dense", rng, N, 3)
    t[::3], G[::3], b[::3] = (a[::3] for a in contradictory(rng, N, 8, 3, 1.0))
    batch = project_batch(t, G, b, mass)
    infeasible = has(batch, Status.infeasible)
    assert np.array_equal(infeasible, np.arange(N) % 3 == 0)
    assert len(np.unique(batch.iterations)) > 4
    for i in range(N):
        one = project(t[i], G[i], b[i], mass[i])
        assert has(one, Status.infeasible) == infeasible[i]
        if not infeasible[i]:
            assert norm(one.point - batch.point[i]) < 1e-12 * norm(t[i])
            assert np.allclose(one.multipliers, batch.multipliers[i], rtol=1e-9, atol=1e-9)


def test_lists_without_jit():
    found = carom.project([-1.0, -2.0], [[1.0, 0.0], [0.0, 1.0]], [0.0, 1.0], mass=[2.0, 1.0])
    assert np.allclose(found.point, [0.0, -1.0], rtol=0, atol=1e-15)
    assert np.allclose(found.multipliers, [2.0, 1.0], rtol=1e-15)
    assert int(found.iterations) == 2


def test_active_may_be_a_list():
    found = carom.project([-1.0], [[1.0]], [0.0], active=[True])
    assert found.point.tolist() == [0.0]


@pytest.mark.parametrize("spoilt", ["target", "G", "b"])
def test_what_is_not_a_number_is_said(spoilt):
    given = {"target": np.ones(3), "G": np.ones((8, 3)), "b": np.zeros(8)}
    given[spoilt][(0,) * given[spoilt].ndim] = np.nan
    assert has(project(*given.values()), Status.nonfinite)
