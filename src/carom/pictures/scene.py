"""What stands around spheres, as lines: walls where they cross the room that the spheres take."""

import itertools
import math

import numpy as np

from carom.worlds.spheres.given import at_time
from carom.worlds.spheres.walls import Box

_SIDES = 96  # of a circle
_MARGIN = 0.03  # of the room, around it
_RULES = 8  # straight lines along a cylinder


def room_around(walls, t, x, radius) -> tuple[np.ndarray, np.ndarray]:
    """Corners (3,), (3,) of a room around spheres at x (N, d) and what of ``walls`` has an end.

    Of planes, and along the axis of a cylinder, as much as the spheres take and some more.
    """
    d = x.shape[1]
    x, more = np.pad(x, ((0, 0), (0, 3 - d))), np.max(radius) * (np.arange(3) < d)
    points = [x.min(axis=0) - 1.5 * more, x.max(axis=0) + 1.5 * more]
    for kind, row in zip(*walls.at(t), strict=True):
        points += _ends(kind, row)
    for box in walls.walls:
        if isinstance(box, Box):
            corners = (np.asarray(at_time(c, t, "a corner"), float) for c in (box.low, box.high))
            points += [np.pad(c, (0, 3 - len(c))) for c in corners]
    for centre, r in zip(*walls.obstacles_at(t), strict=True):
        points += [centre - r, centre + r]
    ends = np.where(np.isfinite(points), points, points[0])
    low, high = ends.min(axis=0), ends.max(axis=0)
    margin = _MARGIN * np.max(high - low) * (np.arange(3) < d)  # a wall is not seen on the frame
    return low - margin, high + margin


def _ends(kind, row):
    """Points that a wall reaches; NaN along the axis of a cylinder, which does not end."""
    if kind == 1:
        reach = np.where(np.abs(row[3:6]) < 1e-9, row[9], np.nan)
        return [row[:3] - reach, row[:3] + reach]
    if kind == 2:
        return [row[:3] - row[9], row[:3] + row[9]]
    return [row[:3], row[:3] + row[3:6] + row[6:9]] if kind == 3 else []


def wall_lines(kinds, data, low, high) -> np.ndarray:
    """Segments (s, 2, 3) of walls as the kernels describe them, within the room [low, high].

    Of discs in the plane the room is flat: low[2] = high[2] = 0.
    """
    drawn = {1: _cylinder, 2: _shell, 3: _panel}
    planes = [row for k, row in zip(kinds, data, strict=True) if k == 0]
    found = [_outline(row, planes, low, high) for row in planes]
    found += [drawn[k](row, low, high) for k, row in zip(kinds, data, strict=True) if k in drawn]
    return np.concatenate([np.zeros((0, 2, 3)), *found])


def _outline(row, planes, low, high):
    """The edges of a plane within the room and on the inner side of the other planes."""
    flat = low[2] == high[2]
    tall = np.array([0.0, 0.0, 1.0 if flat else 0.0])
    corners = _plane(row, low - tall, high + tall)
    slack = 1e-6 * np.linalg.norm(high - low)
    for other in planes:
        if other is not row and len(corners):
            corners = _clipped(corners, (corners - other[:3]) @ other[3:6] + slack)
    if not len(corners):
        return np.zeros((0, 2, 3))
    edges = _closed(corners)
    if flat:  # one of them, in a room with a height
        edges = edges[np.all(edges[:, :, 2] < 0.0, axis=1)] * (1.0 - tall)
    return edges


def _clipped(corners, side):
    """The part of a polygon where ``side`` of its corners is >= 0."""
    found = []
    for k in range(len(corners)):
        a, b, x, y = side[k - 1], side[k], corners[k - 1], corners[k]
        if a * b < 0.0:
            found.append(x + a / (a - b) * (y - x))
        if b >= 0.0:
            found.append(y)
    return np.array(found)


def _plane(row, low, high):
    """Corners (c, 3) of where it cuts the room: at edges of the room that it crosses, in turn."""
    point, normal = row[:3], row[3:6]
    point = point - normal * 1e-9 * np.linalg.norm(high - low)
    corners = np.array(list(itertools.product(*zip(low, high, strict=True))))
    side = (corners - point) @ normal
    found = []
    for i, j in itertools.combinations(range(8), 2):
        if np.count_nonzero(corners[i] != corners[j]) <= 1 and side[i] * side[j] < 0.0:
            s = side[i] / (side[i] - side[j])
            found.append(corners[i] + s * (corners[j] - corners[i]))
    if len(found) < 3:
        return np.zeros((0, 3))
    found = np.array(found)
    a, b = _across(normal)
    away = found - found.mean(axis=0)
    return found[np.argsort(np.arctan2(away @ b, away @ a))]


def _across(axis):
    """Two unit vectors across a unit vector."""
    first = np.cross(axis, np.eye(3)[np.argmin(np.abs(axis))])
    first /= np.linalg.norm(first)
    return first, np.cross(axis, first)


def _closed(points):
    return np.stack([points, np.roll(points, -1, axis=0)], axis=1)


def _circle(centre, radius, axis):
    a, b = _across(axis)
    turn = np.linspace(0.0, 2.0 * math.pi, _SIDES, endpoint=False)[:, None]
    return _closed(centre + radius * (np.cos(turn) * a + np.sin(turn) * b))


def _cylinder(row, low, high):
    point, axis, radius = row[:3], row[3:6], row[9]
    corners = np.array(list(itertools.product(*zip(low, high, strict=True))))
    along = (corners - point) @ axis
    ends = [point + s * axis for s in (along.min(), along.max())]
    if high[2] == low[2]:
        return _circle(point, radius, axis)
    rims = [_circle(end, radius, axis) for end in ends]
    step = _SIDES // _RULES
    return np.concatenate([*rims, np.stack([rims[0][::step, 0], rims[1][::step, 0]], axis=1)])


def _shell(row, low, high):
    axes = np.eye(3)[2:] if high[2] == low[2] else np.eye(3)
    return np.concatenate([_circle(row[:3], row[9], axis) for axis in axes])


def _panel(row, low, high):
    corner, edge, other = row[:3], row[3:6], row[6:9]
    if not np.any(edge) or not np.any(other):
        return np.stack([corner, corner + edge + other])[None]
    return _closed(np.stack([corner, corner + edge, corner + edge + other, corner + other]))
