"""Walls and towers of bricks that touch with whole faces: many more contacts than motions."""

import pytest

import carom
from bricks import planks, shaken, tower, wall


def solved(problem, tolerance=1e-8, **law):
    found = problem.solve(tolerance, **law)
    assert found.status == carom.Status.ok
    assert problem.residual(found.r, **law) <= tolerance
    return found


@pytest.mark.parametrize("seed", [2, 5])
def test_sweeps_that_crawl_are_left_early(seed):
    """A tower of thirty cubes: 20,000 sweeps leave 1e-5."""
    assert solved(shaken(tower(30), 0.3, 0.01, seed)).iterations < 5000


@pytest.mark.parametrize("e", [0.0, 0.3])
def test_walls(e):
    for seed in range(3):
        solved(shaken(wall(5, 5), 0.8, 0.01, seed, e))
        solved(shaken(wall(5, 5), 0.3, 1.0, seed, e), convex=True)


@pytest.mark.parametrize(("mu", "kick", "e"), [(0.3, 0.01, 0.0), (0.8, 1.0, 0.0), (0.8, 0.01, 0.3)])
def test_a_large_wall(mu, kick, e):
    """1084 contacts of 100 bricks: sweeps alone end at 1e-5, or astray (1e67)."""
    for tolerance in (1e-4, 1e-8):
        solved(shaken(wall(10, 10), mu, kick, 0, e), tolerance)


@pytest.mark.parametrize(("mu", "kick"), [(0.3, 0.01), (0.8, 1.0)])
def test_sweeps_that_go_astray_are_damped(mu, kick):
    """A tower of 90 planks: with the usual damping 1e-1 is left after 300 sweeps, 1e9 of 300."""
    assert solved(shaken(planks(30), mu, kick, 1), 1e-4).iterations < 1500


def test_a_tall_tower_from_its_matrix_alone():
    """3576 contacts of 300 planks, which took 70 s to 1e-4."""
    problem = shaken(planks(100), 0.8, 0.01, 0)
    assert solved(problem, 1e-4).iterations < 3000


@pytest.mark.parametrize("seed", [0, 1])
def test_bounces_in_a_tower_of_planks(seed):
    solved(shaken(planks(30), 0.8, 0.01, seed, 0.3))
