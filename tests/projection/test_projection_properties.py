"""``carom.project``: closed forms, the properties of a projection, and what it takes."""

import numpy as np
import pytest

import carom
from carom import Status
from projections import (
    PROMISED,
    N,
    assert_infeasible,
    contradictory,
    dense,
    distance,
    has,
    masses,
    norm,
    problems,
    project,
    project_batch,
    times,
    transposed,
)


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
