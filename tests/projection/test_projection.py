"""``carom.project`` against the KKT conditions and a QP library."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import carom
from carom import Status
from carom.projection.exact import kkt_residual as own_residual
from carom.projection.metric import metric_of
from projections import (
    FAMILIES,
    PROMISED,
    N,
    assert_projected,
    clarabel_solution,
    close,
    distance,
    has,
    kkt_residual,
    masses,
    norm,
    problems,
    project,
    project_batch,
    times,
    transposed,
)

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


def nearly_opposite(angle, p, d):
    """Cones G x >= 0, which hold x = 0 whatever the rows: never a contradiction."""
    rng = np.random.default_rng(2)
    G = close(angle)(rng, N, p, d) * rng.choice([-1.0, 1.0], (N, p, 1))
    return rng.normal(size=(N, d)), G, np.zeros((N, p)), masses("diagonal", rng, N, d)


@pytest.mark.parametrize(
    ("angle", "residual"), [(1e-3, 1e-12), (1e-5, 1e-12), (1e-7, 1e-9), (1e-9, 1e-9)]
)
def test_nearly_opposite_rows(angle, residual):
    """As many rows as dimensions: every cone has an interior."""
    problem = t, G, b, mass = nearly_opposite(angle, 10, 10)
    found = project_batch(*problem)
    assert has(found, Status.ok).all()
    assert np.max(kkt_residual(t, G, b, mass, found.point, found.multipliers)) < residual


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


# Against a QP library.


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


@pytest.mark.slow
def test_second_derivatives_of_what_depends_on_a_projection():
    def square(a):
        rows = jnp.array([[jnp.cos(a), jnp.sin(a)], [1.0, 10.0]])
        return jnp.sum(carom.project([-1.0, 0.5], G=rows, b=jnp.zeros(2)).point ** 2)

    h, slope = 1e-5, jax.jit(jax.jacfwd(square))
    by_difference = (slope(0.3 + h) - slope(0.3 - h)) / (2.0 * h)
    second = jax.jit(jax.jacfwd(jax.jacfwd(square)))(0.3)
    assert float(second) == pytest.approx(float(by_difference), rel=1e-8)
