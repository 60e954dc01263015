"""Full Newton steps where W is regular: bodies that deform, on which sweeps crawl."""

import numpy as np
import pytest
from scipy import sparse

import piles
from carom.fclib import Problem
from carom.projection import proximal
from piles import measured

STIFF = {
    "five blocks": (5, 3, 0.9, 1e3),
    "soft": (4, 3, 0.5, 10.0),
    "stiff": (3, 3, 0.5, 1e6),
    "mu = 100": (3, 3, 100.0, 1e3),
    "two large ones": (2, 5, 0.7, 1e4),
}


@pytest.mark.parametrize("kind", STIFF)
def test_bodies_that_deform(kind):
    """Sweeps alone take up to 20,000."""
    for seed in range(4):
        W, q, mu, dim = piles.elastic(np.random.default_rng(seed), *STIFF[kind])
        assert proximal.regular(W)
        for convex in (False, True):
            found = Problem(W=W, q=q, mu=mu, dim=dim).solve(1e-8, convex=convex)
            assert measured(W, q, mu, dim, found.r, s=0.0 if convex else 1.0) <= 1e-8
            assert found.iterations < 1100


def test_whether_a_matrix_is_regular():
    rng = np.random.default_rng(5)
    assert not proximal.regular(piles.stack(rng, 4)[0])
    for missing in (0, 1):
        for scale in (1e-12, 1.0, 1e12):
            W = piles.coupled(rng, 12, rank=36 - missing, scale=scale)[0]
            assert proximal.regular(W) == (missing == 0)
    for lost in (W - 1e-3 * scale * sparse.eye(36), sparse.diags([1.0, 1.0, 0.0])):
        assert not proximal.regular(lost.tocsc())


@pytest.mark.parametrize(("limit", "looks"), [(20_000, 3), (3000, 2), (150, 0)])
def test_steps_that_go_astray_leave_it_to_the_sweeps(monkeypatch, limit, looks):
    problem = piles.elastic(np.random.default_rng(0), *STIFF["five blocks"])
    W, q, mu, dim = problem
    own, seen = proximal.plain, []

    def astray(*data):
        seen.append(own(*data)[1])
        return np.zeros_like(q), seen[-1], np.inf

    monkeypatch.setattr(proximal, "plain", astray)
    found = Problem(W=W, q=q, mu=mu, dim=dim).solve(1e-8, limit=limit)
    assert len(seen) == looks
    assert measured(*problem, found.r) == pytest.approx(found.residual, rel=1e-3)
    assert found.residual <= 1e-8
