"""Several impacts within a step: where their order matters, no verdict without it."""

import numpy as np
import pytest

from carom import Maury, Moreau, models
from carom.certificates.certify import certify
from carom.certificates.order import _in_turn, _struck
from certified import solved

ROW = 2.0 * np.eye(4) - np.eye(4, k=1) - np.eye(4, k=-1)  # W of five equal balls
FIRST = np.array([-1.0, 0.0, 0.0, 0.0])  # the first one comes


def after(lam):
    """Velocities of the balls, from the impulses between them."""
    return np.array([1.0, 0, 0, 0, 0]) - np.append(lam, 0.0) + np.append(0.0, lam)


def test_one_after_the_other_and_all_at_once():
    touching = _in_turn(ROW, np.array([1e-3, 0, 0, 0]), FIRST, np.ones(4), np.full(4, 1e-12), 1.0)
    at_once = _struck(ROW, FIRST, np.ones(4), np.ones(4, bool))
    np.testing.assert_allclose(after(touching), [-0.6, 0.4, 0.4, 0.4, 0.4], rtol=0, atol=1e-11)
    np.testing.assert_allclose(at_once, touching, rtol=0, atol=1e-11)
    apart = _in_turn(ROW, np.full(4, 1e-3), FIRST, np.ones(4), np.full(4, 1e-12), 1.0)
    np.testing.assert_allclose(after(apart), [0, 0, 0, 0, 1], rtol=0, atol=1e-11)


def true_error(problem, sol):
    exact = problem.exact(sol.t)[0]
    return np.max(np.abs(sol.q - exact)) / np.max(np.ptp(exact, axis=0))


@pytest.mark.slow
@pytest.mark.parametrize("spacing", [1e-6, 1e-4])
def test_balls_almost_touching_are_too_coarse_to_tell(spacing):
    """A step strikes all at once; the balls strike one by one."""
    problem = models.newtons_cradle(spacing=spacing)
    sol = solved(problem, Maury(), 1009)
    assert true_error(problem, sol) > 0.3
    assert not certify(sol).ok


@pytest.mark.slow
@pytest.mark.parametrize("steps", [1009, 8009, 8010, 32624])
def test_moreau_converges_on_the_touching_cradle(steps):
    """Rounding of earlier steps does not part balls that touch, nor in the middle, where q = 0."""
    problem = models.newtons_cradle()
    sol = solved(problem, Moreau(), steps)
    assert true_error(problem, sol) < 100.0 / steps
    if steps < 10_000:
        assert certify(sol).ok
