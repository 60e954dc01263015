"""Crystals of discs with friction, whose sweeps do not end: straight paths in the plane."""

import numpy as np
import pytest

import carom
from carom.fclib import Problem
from piles import crystal


def solved(seed, wide, high, mu, ratio, noise):
    W, q, mu, dim = crystal(np.random.default_rng(seed), wide, high, mu, ratio, noise)
    problem = Problem(W=W, q=q, mu=mu, dim=dim)
    found = problem.solve(1e-8)
    assert found.status == carom.Status.ok
    assert problem.residual(found.r) <= 1e-8
    return found


@pytest.mark.parametrize(
    ("seed", "wide", "high", "mu", "ratio", "noise"),
    [(0, 7, 7, 0.8, 1e3, 1e-3), (1, 7, 6, 0.5, 1e4, 0.1), (2, 9, 6, 2.0, 100.0, 1.0)],
)
def test_a_short_path_near_what_sweeps_have_found(seed, wide, high, mu, ratio, noise):
    """They took 20,711, 16,718 and 7,330 sweeps and pivots, and 3354, 3469 and 3512 now."""
    assert solved(seed, wide, high, mu, ratio, noise).iterations < 5000


def test_a_path_from_afar():
    """Left at 2.7e-4 by all else."""
    solved(3, 9, 6, 2.0, 100.0, 1.0)
