"""Walls and towers of bricks that touch with whole faces: many more contacts than motions."""

import numpy as np
import pytest
from scipy import sparse

import carom
from carom.fclib import Problem

BRICK, CUBE = np.array([0.5, 0.25, 0.25]), np.full(3, 0.5)


def wall(long, high):
    """Bricks in running bond, centres and half sizes."""
    places = [(l + 0.5 * (k % 2), 0.0, 0.25 + 0.5 * k) for k in range(high) for l in range(long)]
    return [(np.array(x), BRICK) for x in places]


def tower(high):
    return [(np.array([0.0, 0.0, 0.5 + k]), CUBE) for k in range(high)]


def corners(bricks):
    """Contacts (i, j, point, normal from i to j) at the corners of faces; -1 is the floor."""
    found = []
    for i, (x, a) in enumerate(bricks):
        for j, (y, b) in enumerate(bricks):
            low, high = np.maximum(x - a, y - b), np.minimum(x + a, y + b)
            for axis in range(3):
                one, two = (d for d in range(3) if d != axis)
                meet = abs((x + a)[axis] - (y - b)[axis]) < 1e-9
                if meet and high[one] > low[one] and high[two] > low[two]:
                    found += _face(i, j, axis, low, high)
        if abs(x[2] - a[2]) < 1e-9:
            found += _face(-1, i, 2, x - a, x + a * [1, 1, -1])
    return found


def _face(i, j, axis, low, high):
    one, two = (d for d in range(3) if d != axis)
    points = []
    for a in (low[one], high[one]):
        for b in (low[two], high[two]):
            point = low.copy()
            point[one], point[two] = a, b
            points.append((i, j, point, np.eye(3)[axis]))
    return points


def shaken(bricks, mu, kick, seed, e=0.0):
    """The first millisecond of bricks with random velocities, as W, q, mu."""
    rng, places = np.random.default_rng(seed), corners(bricks)
    mass, v = [], []
    for _, a in bricks:
        m = 8.0 * np.prod(a)
        mass += [m] * 3 + list(m / 3 * (a @ a - a**2))
        v += [*(rng.normal(size=3) * [1, 1, 0.3] * kick - [0, 0, 9.81e-3])]
        v += [*(rng.normal(size=3) * kick / np.max(a))]
    H = sparse.lil_matrix((3 * len(places), len(mass)))
    for k, (i, j, point, n) in enumerate(places):
        t = np.cross(n, [0.3, 0.5, 0.8])
        t /= np.linalg.norm(t)
        for row, d in enumerate((n, t, np.cross(n, t))):
            for body, sign in ((i, -1.0), (j, 1.0)):
                if body >= 0:
                    turn = np.cross(point - bricks[body][0], d)
                    H[3 * k + row, 6 * body : 6 * body + 6] = sign * np.append(d, turn)
    H = H.tocsc()
    q = H @ np.array(v)
    q[::3] += e * np.minimum(q[::3], 0.0)
    return Problem(W=H @ sparse.diags(1.0 / np.array(mass)) @ H.T, q=q, mu=mu, dim=3)


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
