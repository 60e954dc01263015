"""What bounds a world of spheres: planes, boxes, containers, panels, and obstacles.

Every argument that is a point, a direction or a radius may be a function of t.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from carom.errors import KindError, ShapeError

_DATA = 10  # numbers that describe a wall to the kernels (kernels/rows.py)


def at_time(value, t: float) -> np.ndarray:
    """``value``, or value(t) where it is a function."""
    return np.asarray(value(t) if callable(value) else value, float)


def padded(value, t: float, name: str) -> np.ndarray:
    """A vector of 2 or 3 numbers at time t, as 3."""
    found = at_time(value, t)
    if found.shape not in ((2,), (3,)) or not np.all(np.isfinite(found)):
        raise ShapeError(f"{name} is {found}; it must be a vector of 2 or 3 finite numbers")
    return np.pad(found, (0, 3 - len(found)))


def _unit(value, t, name):
    found = padded(value, t, name)
    length = np.linalg.norm(found)
    if not length > 0.0:
        raise ShapeError(f"{name} is {found}; its length must be positive")
    return found / length


def _described(kind, *numbers):
    return kind, np.pad(np.concatenate([np.ravel(x) for x in numbers]), (0, _DATA))[:_DATA]


@dataclass(frozen=True)
class Plane:
    """A half-space: spheres stay on the side that ``normal`` points to.

    gap = normal . (x - point) - r, the normal taken with length 1.
    """

    point: Any  # (d,) [m], or a function of t
    normal: Any  # (d,), or a function of t

    def pieces(self, t: float) -> list:
        """What the kernels need."""
        return [_described(0, padded(self.point, t, "point"), _unit(self.normal, t, "normal"))]


@dataclass(frozen=True)
class Box:
    """The inside of a box with faces along the axes; low = -inf or high = inf opens a side."""

    low: Any  # (d,) [m]
    high: Any  # (d,) [m]

    def pieces(self, t: float) -> list:
        """Planes; axis by axis, first the low one."""
        low, high = at_time(self.low, t), at_time(self.high, t)
        if low.shape != high.shape or low.shape not in ((2,), (3,)) or not np.all(low < high):
            raise ShapeError(f"the box from {low} to {high}: low must be below high, axis by axis")
        faces = []
        for axis in range(len(low)):
            normal = np.eye(3)[axis]
            for edge, sign in ((low[axis], 1.0), (high[axis], -1.0)):
                if np.isfinite(edge):
                    faces.append(_described(0, edge * normal, sign * normal))
        return faces


@dataclass(frozen=True)
class Cylinder:
    """The inside of an endless cylinder (in two dimensions: of a circle, axis (0, 0, 1))."""

    point: Any  # (d,) [m], on the axis
    axis: Any  # (3,)
    radius: Any  # [m], or a function of t

    def pieces(self, t: float) -> list:
        """What the kernels need."""
        point, axis = padded(self.point, t, "point"), _unit(self.axis, t, "axis")
        return [_described(1, point, axis, np.zeros(3), at_time(self.radius, t))]


@dataclass(frozen=True)
class Shell:
    """The inside of a sphere (of a circle in two dimensions)."""

    center: Any  # (d,) [m]
    radius: Any  # [m], or a function of t

    def pieces(self, t: float) -> list:
        """What the kernels need."""
        center = padded(self.center, t, "center")
        return [_described(2, center, np.zeros(6), at_time(self.radius, t))]


@dataclass(frozen=True)
class Panel:
    """A rectangle that keeps spheres off on both sides; in two dimensions a segment.

    It is spanned by ``edge`` and ``other_edge``, orthogonal to each other, from ``corner``.
    """

    corner: Any  # (d,) [m]
    edge: Any  # (d,) [m]
    other_edge: Any = (0.0, 0.0)  # (d,) [m]

    def pieces(self, t: float) -> list:
        """What the kernels need."""
        edge, other = padded(self.edge, t, "edge"), padded(self.other_edge, t, "other_edge")
        if abs(edge @ other) > 1e-9 * np.linalg.norm(edge) * np.linalg.norm(other):
            raise ShapeError(f"the edges {edge} and {other} of a Panel must be orthogonal")
        return [_described(3, padded(self.corner, t, "corner"), edge, other)]


@dataclass(frozen=True)
class Obstacles:
    """Spheres that stay, or move as they are told: position(t)."""

    position: Any  # (K, d) [m], or a function of t
    radius: Any  # () or (K,) [m], or a function of t

    def at(self, t: float) -> tuple[np.ndarray, np.ndarray]:
        """Positions (K, 3) and radii (K,) at time t."""
        x = np.atleast_2d(at_time(self.position, t))
        if x.ndim != 2 or x.shape[1] not in (2, 3) or not np.all(np.isfinite(x)):
            raise ShapeError(f"obstacles at {x}: position must be (K, 2) or (K, 3), finite")
        x = np.pad(x, ((0, 0), (0, 3 - x.shape[1])))
        return x, np.broadcast_to(at_time(self.radius, t), (len(x),)).astype(float)


_KINDS = (Plane, Box, Cylinder, Shell, Panel, Obstacles)


def _moves(wall) -> bool:
    return any(callable(value) for value in vars(wall).values())


class Walls:
    """All walls of a world, as arrays at a time."""

    def __init__(self, walls):
        walls = [walls] if isinstance(walls, _KINDS) else list(walls)
        for wall in walls:
            if not isinstance(wall, _KINDS):
                names = ", ".join(kind.__name__ for kind in _KINDS)
                raise KindError(f"{wall!r} is not a wall; there are {names}")
        self.walls = [w for w in walls if not isinstance(w, Obstacles)]
        self.obstacles = [w for w in walls if isinstance(w, Obstacles)]
        self.moving = any(_moves(w) for w in self.walls)
        self.drifting = any(_moves(w) for w in self.obstacles)
        self._still = None if self.moving else self._pieces(0.0)
        self._standing = None if self.drifting else self._bodies(0.0)

    def at(self, t: float) -> tuple[np.ndarray, np.ndarray]:
        """Kinds (W,) and data (W, 10) at time t."""
        return self._pieces(t) if self._still is None else self._still

    def obstacles_at(self, t: float) -> tuple[np.ndarray, np.ndarray]:
        """Positions (K, 3) and radii (K,) at time t."""
        return self._bodies(t) if self._standing is None else self._standing

    def curved(self) -> bool:
        """Whether a wall bends around the spheres: its gap is not a convex function."""
        return bool(np.any(np.isin(self.at(0.0)[0], (1, 2))))

    def _pieces(self, t):
        found = [piece for wall in self.walls for piece in wall.pieces(t)]
        kinds = np.array([kind for kind, _ in found], np.int64)
        return kinds, np.array([data for _, data in found], float).reshape(-1, _DATA)

    def _bodies(self, t):
        found = [o.at(t) for o in self.obstacles]
        x = np.concatenate([np.zeros((0, 3)), *(x for x, _ in found)])
        return x, np.concatenate([np.zeros(0), *(r for _, r in found)])
