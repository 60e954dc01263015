"""Bricks that touch with whole faces, four contacts to a face, as frictional problems."""

import numpy as np
from scipy import sparse

from carom.fclib import Problem

BRICK, CUBE = np.array([0.5, 0.25, 0.25]), np.full(3, 0.5)


def wall(long, high):
    """Bricks in running bond, centres and half sizes."""
    places = [(l + 0.5 * (k % 2), 0.0, 0.25 + 0.5 * k) for k in range(high) for l in range(long)]
    return [(np.array(x), BRICK) for x in places]


def tower(high):
    return [(np.array([0.0, 0.0, 0.5 + k]), CUBE) for k in range(high)]


def planks(high):
    """Three to a layer, crosswise."""
    found = []
    for k in range(high):
        for side in (-0.9, 0.0, 0.9):
            x, half = np.array([0.0, side, 0.1 + 0.2 * k]), np.array([1.2, 0.15, 0.1])
            turned = [1, 0, 2] if k % 2 else [0, 1, 2]
            found.append((x[turned], half[turned]))
    return found


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
