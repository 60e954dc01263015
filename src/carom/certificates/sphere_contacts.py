"""The contacts of a record of spheres, measured from the definition of a gap."""

import numpy as np

from carom import kernels

MARGIN = 2.0
ROUNDING = 1e-12
VELOCITY = 300.0  # tolerances, (5)
SHIFT = 1e-4  # of a radius: differences of a wall's gap
_ELSEWHERE = 1e-6  # of the largest change of a velocity in the step


def measured(m, k, table):
    """Gap, relative speed, distance, and whether it pushes, for the contacts of a record."""
    x, t, N = m.sol.x[k], m.sol.t[k], len(m.pile)
    gap, apart = gaps(m, t, x, table)
    i, j = table.pairs.T
    wall, count = j < 0, N + len(m.pile.walls.obstacles_at(t)[0])
    other = np.where(wall, 0, j)
    v = np.zeros((count, x.shape[1]))
    v[:N] = m.sol.v[k]
    inverse = np.zeros(count)
    inverse[:N] = 1.0 / m.pile.mass
    relative = np.linalg.norm(v[i] - np.where(wall[:, None], 0.0, v[other]), axis=1)
    diagonal = inverse[i] + np.where(wall, 0.0, inverse[other])
    free = np.max(m.speed[max(k - 1, 0) : k + 1]) + m.h * np.linalg.norm(m.pile.gravity)
    small = MARGIN * tolerated(m, k, table) + ROUNDING * free  # what rounding leaves is no push
    return gap, relative, apart, table.impulse * diagonal > small


def gaps(m, t, x, table):
    """(c,) the gaps of contacts where spheres are at x (N, d), and distances, of walls radii."""
    wide = padded(x)
    bodies, r = m.world.bodies(t, wide), m.world.radii(t)
    i, j = table.pairs.T
    wall = j < 0
    other = np.where(wall, 0, j)
    apart = np.linalg.norm(m.world.cell.nearest_image(bodies[other] - bodies[i]), axis=1)
    gap = apart - r[i] - r[other]
    if np.any(wall):
        gap[wall] = _wall_gaps(m, t, wide, i[wall], j[wall])
    return gap, np.where(wall, r[i], apart)


def normals(m, t, x, table):
    """(c, 3) from the first to the second of contacts where spheres are at x (N, d); of walls the
    slope of the gap, by differences."""
    wide = padded(x)
    bodies, r, (i, j) = m.world.bodies(t, wide), m.world.radii(t), table.pairs.T
    wall = j < 0
    apart = m.world.cell.nearest_image(bodies[np.where(wall, 0, j)] - bodies[i])
    if np.any(wall):
        away = SHIFT * r[: len(x), None]
        for axis, one in enumerate(np.eye(3)[: x.shape[1]]):
            there, back = (
                _wall_gaps(m, t, wide + side * away * one, i[wall], j[wall]) for side in (1.0, -1.0)
            )
            apart[wall, axis] = back - there
        apart[wall, x.shape[1] :] = 0.0
    return apart / np.maximum(np.linalg.norm(apart, axis=1), 1e-300)[:, None]


def tolerated(m, k, table):
    """(c,) (5), of the step that ends at record k."""
    N, pile, (i, other) = len(m.pile), m.pile, _bodies(m, table)
    change, turn = given_by(m, k, table)
    c = np.append(np.linalg.norm(change, axis=1) / pile.mass, 0.0)
    if pile.spins:
        r = m.world.radii(m.last_whole[k])[:N]
        c[:N] = np.maximum(c[:N], r * np.linalg.norm(turn, axis=1) / pile.inertia)
    own = np.maximum(np.maximum(c[i], c[other]), _ELSEWHERE * np.max(c))
    return np.minimum(m.length / m.h, VELOCITY * pile.tolerance * own)


def _bodies(m, table):
    """(c,) twice: the bodies of contacts; N for walls and obstacles, which do not move."""
    i, j = table.pairs.T
    return i, np.where((j < 0) | (j >= len(m.pile)), len(m.pile), j)


def given_by(m, k, table):
    """(N, 3) twice: the impulses and the angular impulses of the contacts of record k, (1), (4)."""
    N, (i, other) = len(m.pile), _bodies(m, table)
    change, turn = np.zeros((N + 1, 3)), np.zeros((N + 1, 3))
    P = pushes(table)
    np.add.at(change, i, -P)
    np.add.at(change, other, P)
    if m.pile.spins:
        r = np.append(m.world.radii(m.last_whole[k])[:N], 0.0)
        lever = np.cross(padded(table.normal), padded(table.friction))
        for body in (i, other):
            np.add.at(turn, body, -r[body, None] * lever)
        if m.pile.rolls:
            np.add.at(turn, i, -couple(table))
            np.add.at(turn, other, couple(table))
    return change[:N], turn[:N]


def pushes(table):
    """(c, 3) what the second of each contact receives."""
    return padded(table.impulse[:, None] * table.normal + table.friction)


def _wall_gaps(m, t, x, i, source):
    kinds, data = m.pile.walls.at(t)
    gap, i = np.empty(len(i)), i.astype(np.int32)
    cell = m.world.cell
    kernels.rows.measure(
        x,
        m.world.radii(t),
        i,
        i,
        source.astype(np.int32),
        cell.period,
        cell.inverse,
        kinds,
        data,
        gap,
    )
    return gap


def couple(table):
    return about(table.couple)


def about(w):
    """(c, 3) of what turns in space, or in the plane about z."""
    return w if w.ndim == 2 else np.pad(w[:, None], ((0, 0), (2, 0)))


def padded(x):
    return np.pad(x, ((0, 0), (0, 3 - x.shape[1])))
