"""``carom.project`` where there may be no feasible point: it must say so, and only then."""

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import linprog

from carom import Status
from projections import (
    PROMISED,
    N,
    assert_infeasible,
    assert_projected,
    clarabel_solution,
    contradictory,
    has,
    integer,
    kkt_residual,
    masses,
    project,
    project_batch,
)


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
