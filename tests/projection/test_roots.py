"""Roots of W with few entries: by the blocks of M, and by the bodies that W's entries tell."""

import numpy as np
import pytest
from scipy import sparse

import piles
from bricks import planks, shaken, tower, wall
from carom.fclib import Problem
from carom.projection import proximal, roots


def found(W, dim):
    return roots.of_bodies(sparse.csc_matrix(W), dim, proximal.sizes(sparse.csc_matrix(W), dim)[1])


@pytest.mark.parametrize("bricks", [wall(4, 4), tower(20), planks(6)])
def test_bricks_have_six_motions_each(bricks):
    W = shaken(bricks, 0.3, 0.01, 0).W
    G = found(W, 3)
    assert G.shape == (W.shape[0], 6 * len(bricks))
    assert G.nnz <= 2 * 6 * W.shape[0]  # a contact has two bodies
    np.testing.assert_allclose((G @ G.T).toarray(), W.toarray(), atol=1e-12 * abs(W).max())


def test_bricks_in_any_order_and_turned():
    """Contacts renumbered, each with axes of its own."""
    W, rng = shaken(wall(4, 4), 0.3, 0.01, 0).W, np.random.default_rng(0)
    n = W.shape[0] // 3
    turns = [np.linalg.qr(rng.normal(size=(3, 3)))[0] for _ in range(n)]
    order = (3 * rng.permutation(n)[:, None] + np.arange(3)).ravel()
    T = sparse.block_diag(turns).tocsr()[order]
    G = found(T @ W @ T.T, 3)
    assert G.shape[1] == 6 * 16
    assert abs(G @ G.T - T @ W @ T.T).max() <= 1e-12 * abs(W).max()


def test_planar_towers():
    """Blocks two corners wide on each other, of masses that differ."""
    rng, high = np.random.default_rng(1), 12
    H = np.zeros((4 * high, 3 * high))
    for k in range(high):
        for side in (0, 1):
            row, x = 4 * k + 2 * side, side - 0.5
            for body, sign, y in ((k, 1.0, -0.5), (k - 1, -1.0, 0.5)):
                if body >= 0:
                    H[row, 3 * body : 3 * body + 3] = sign * np.array([0.0, 1.0, x])
                    H[row + 1, 3 * body : 3 * body + 3] = sign * np.array([-1.0, 0.0, y])
    W = H @ np.diag(10.0 ** rng.uniform(-1, 1, 3 * high)) @ H.T
    G = found(W, 2)
    np.testing.assert_allclose((G @ G.T).toarray(), W, atol=1e-9 * np.max(W))


def test_what_is_no_root_is_not_returned():
    """Single points of spheres, and a W without bodies."""
    for seed in range(4):
        W = piles.spheres(np.random.default_rng(seed), 30, 3)[0]
        G = found(W, 3)
        assert G is None or abs(G @ G.T - W).max() <= 1e-7 * abs(W).max()
    full = np.random.default_rng(0).normal(size=(30, 40))
    G = found(full @ full.T + 1e-3 * full[:, :30], 3)
    assert G is None


def test_blocks_of_a_mass_matrix():
    rng = np.random.default_rng(2)
    blocks = [np.diag([2.0] * 3), *(B @ B.T + np.eye(3) for B in rng.normal(size=(5, 3, 3)))]
    M = sparse.block_diag(blocks).tocsc()
    L = roots.lower(M)
    np.testing.assert_allclose((L @ M @ L.T).toarray(), np.eye(18), atol=1e-13)
    assert roots.lower(sparse.diags([[-1.0] * 29, [4.0] * 30, [-1.0] * 29], [-1, 0, 1])) is None
    H, f = sparse.random(18, 12, 0.4, rng=rng), rng.normal(size=18)
    problem = Problem.from_global(M=M, H=H, f=f, w=np.zeros(12), mu=0.5)
    dense = H.T @ np.linalg.solve(M.toarray(), H.toarray())
    np.testing.assert_allclose(problem.W.toarray(), dense, atol=1e-13)
    np.testing.assert_allclose((problem._root @ problem._root.T).toarray(), dense, atol=1e-13)
