"""What bounds a world of spheres: planes, boxes, containers, panels, and obstacles.

Every argument that is a point, a direction or a radius may be a function of t.

With friction the surface of a wall takes spheres along (surfaces.py): ``velocity`` and ``spin`` say
how it moves, as a belt or a turntable does that stays where it is; None: as the wall itself.
"""

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np

from carom.arguments import suggesting
from carom.contracts import Wall
from carom.errors import KindError, ShapeError
from carom.worlds.spheres import surfaces
from carom.worlds.spheres.given import at_time, short

_TICKS = 64  # units of rounding of t, between two times of a difference, at least
_DATA = 10  # numbers that describe a wall to the kernels (kernels/numba/rows.py)


@dataclass(frozen=True)
class Within:
    """A function of t that is asked within [t0, t1] only; beyond, it goes straight on.

    f(end + s) = 2 f(end) - f(end - s),    end = t0 or t1                                     (1)
    """

    function: Any
    t0: float
    t1: float

    def __call__(self, t: float) -> np.ndarray:
        end = min(max(t, self.t0), self.t1)
        if t == end:
            return self.function(t)
        back = min(max(2.0 * end - t, self.t0), self.t1)
        return 2.0 * at_time(self.function, end) - at_time(self.function, back)  # (1)


def padded(value, t: float, name: str) -> np.ndarray:
    """A vector of 2 or 3 numbers at time t, as 3."""
    found = at_time(value, t, name)
    if found.shape not in ((2,), (3,)) or not np.all(np.isfinite(found)):
        raise ShapeError(f"{name} is {found}; it must be a vector of 2 or 3 finite numbers")
    return np.pad(found, (0, 3 - len(found)))


def _unit(value, t, name):
    found = padded(value, t, name)
    if not np.any(found):
        raise ShapeError(f"{name} is {found}; its length must be positive")
    length = np.linalg.norm(found)
    if not 1e-150 < length < 1e150:  # its square is no number
        found = found / np.max(np.abs(found))
        length = np.linalg.norm(found)
    return found / length


def _radius(value, t, name):
    found = at_time(value, t, name)
    if found.shape != () or not np.isfinite(found) or not found > 0.0:
        raise ShapeError(f"{name} is {short(found)}; it must be one positive, finite number")
    return found


def described(kind: int, *data) -> tuple[int, np.ndarray]:
    """A wall as the kernels read it: its kind and at most ten numbers."""
    found = np.concatenate([np.ravel(x) for x in data])
    if len(found) > _DATA:
        raise ShapeError(
            f"a wall of kind {kind} is described by {len(found)} numbers; the kernels read {_DATA}"
        )
    return kind, np.pad(found, (0, _DATA - len(found)))


@suggesting
@dataclass(frozen=True)
class Plane:
    """A half-space: spheres stay on the side that ``normal`` points to.

    gap = normal . (x - point) - r, the normal taken with length 1.
    """

    point: Any  # (d,) [m], or a function of t
    normal: Any  # (d,), or a function of t
    velocity: Any = None  # (d,) [m/s] of the surface at ``point``
    spin: Any = None  # (3,), in two dimensions a number [rad/s], of the surface about ``point``
    material: str | None = None  # its name, for coefficients by pairs (materials.py)

    def pieces(self, t: float) -> list:
        """What the kernels need."""
        return [described(0, padded(self.point, t, "point"), _unit(self.normal, t, "normal"))]


@suggesting
@dataclass(frozen=True)
class Box:
    """The inside of a box with faces along the axes; low = -inf or high = inf opens a side."""

    low: Any  # (d,) [m]
    high: Any  # (d,) [m]
    velocity: Any = None  # (d,) [m/s] of all its faces
    material: str | None = None  # its name, for coefficients by pairs (materials.py)

    def pieces(self, t: float) -> list:
        """Planes; axis by axis, first the low one."""
        low, high = at_time(self.low, t, "low"), at_time(self.high, t, "high")
        if low.shape != high.shape or low.shape not in ((2,), (3,)) or not np.all(low < high):
            raise ShapeError(f"the box from {low} to {high}: low must be below high, axis by axis")
        faces = []
        for axis in range(len(low)):
            normal = np.eye(3)[axis]
            for corner, sign in ((low, 1.0), (high, -1.0)):
                if np.isfinite(corner[axis]):
                    point = np.where(np.isfinite(corner), corner, 0.0)
                    faces.append(described(0, np.pad(point, (0, 3 - len(low))), sign * normal))
        return faces

    def drift(self, before: float, after: float) -> np.ndarray:
        """(faces, 3) [m/s] how these move: each with its side, and along itself as its edges do.

        Of two sides that move alike, it goes with both; else with the slower, and with none where
        they move against each other.  It goes with one side whose other is open.
        """

        def speed(corner):  # nan where it is open
            early, late = (at_time(corner, t, "a corner") for t in (before, after))
            shut = np.where(np.isfinite(early) & np.isfinite(late), 1.0, np.nan)
            return (np.nan_to_num(late) - np.nan_to_num(early)) * shut / (after - before)

        low, high = speed(self.low), speed(self.high)
        slower = np.sign(low) * np.fmin(np.abs(low), np.abs(high)) * (low * high > 0.0)
        along = np.where(np.isnan(low), high, np.where(np.isnan(high), low, slower))
        sides = np.stack([low, high], axis=1)  # axis by axis, first the low one
        axis, side = np.nonzero(~np.isnan(sides))
        found = np.tile(np.nan_to_num(along), (len(axis), 1))
        found[np.arange(len(axis)), axis] = sides[axis, side]
        return np.pad(found, ((0, 0), (0, 3 - len(low))))


@suggesting
@dataclass(frozen=True)
class Cylinder:
    """The inside of an endless cylinder (in two dimensions: of a circle, axis (0, 0, 1))."""

    point: Any  # (d,) [m], on the axis
    axis: Any  # (3,)
    radius: Any  # [m], or a function of t
    velocity: Any = None  # (d,) [m/s] of the surface, as of ``point``
    spin: Any = None  # (3,), in two dimensions a number [rad/s], of the surface about ``point``
    material: str | None = None  # its name, for coefficients by pairs (materials.py)

    def pieces(self, t: float) -> list:
        """What the kernels need."""
        point, axis = padded(self.point, t, "point"), _unit(self.axis, t, "axis")
        return [described(1, point, axis, np.zeros(3), _radius(self.radius, t, "radius"))]


@suggesting
@dataclass(frozen=True)
class Shell:
    """The inside of a sphere (of a circle in two dimensions)."""

    center: Any  # (d,) [m]
    radius: Any  # [m], or a function of t
    velocity: Any = None  # (d,) [m/s] of the surface, as of ``center``
    spin: Any = None  # (3,), in two dimensions a number [rad/s], of the surface about ``center``
    material: str | None = None  # its name, for coefficients by pairs (materials.py)

    def pieces(self, t: float) -> list:
        """What the kernels need."""
        center = padded(self.center, t, "center")
        return [described(2, center, np.zeros(6), _radius(self.radius, t, "radius"))]


@suggesting
@dataclass(frozen=True)
class Panel:
    """A rectangle that keeps spheres off on both sides; in two dimensions a segment.

    It is spanned by ``edge`` and ``other_edge``, orthogonal to each other, from ``corner``.
    """

    corner: Any  # (d,) [m]
    edge: Any  # (d,) [m]
    other_edge: Any = (0.0, 0.0)  # (d,) [m]
    velocity: Any = None  # (d,) [m/s] of the surface, as of its middle
    spin: Any = None  # (3,), in two dimensions a number [rad/s], of the surface about its middle
    material: str | None = None  # its name, for coefficients by pairs (materials.py)

    def pieces(self, t: float) -> list:
        """What the kernels need."""
        edge, other = padded(self.edge, t, "edge"), padded(self.other_edge, t, "other_edge")
        if not np.any(edge) and not np.any(other):
            raise ShapeError(f"the edges {edge} and {other} of a Panel: one must have a length")
        if abs(edge @ other) > 1e-9 * np.linalg.norm(edge) * np.linalg.norm(other):
            raise ShapeError(f"the edges {edge} and {other} of a Panel must be orthogonal")
        return [described(3, padded(self.corner, t, "corner"), edge, other)]


@suggesting
@dataclass(frozen=True)
class Obstacles:
    """Spheres that stay, or move as they are told: position(t)."""

    position: Any  # (K, d) [m], or a function of t
    radius: Any  # () or (K,) [m], or a function of t
    velocity: Any = None  # (d,) or (K, d) [m/s] of their surfaces, as of their centres
    spin: Any = None  # (3,) or (K, 3), in two dimensions a number [rad/s]
    material: str | None = None  # its name, for coefficients by pairs (materials.py)

    def at(self, t: float) -> tuple[np.ndarray, np.ndarray]:
        """Positions (K, 3) and radii (K,) at time t."""
        x = np.atleast_2d(at_time(self.position, t, "the position of obstacles"))
        if x.ndim != 2 or x.shape[1] not in (2, 3) or not np.all(np.isfinite(x)):
            raise ShapeError(f"obstacles at {short(x)}: it must be (K, 2) or (K, 3), finite")
        r = at_time(self.radius, t, "the radius of obstacles")
        if r.shape not in ((), (1,), (len(x),)):
            raise ShapeError(f"the radius of {len(x)} obstacles has shape {r.shape}")
        if not np.all(np.isfinite(r) & (r > 0.0)):
            raise ShapeError(f"the radius of obstacles is {short(r)}; it must be positive, finite")
        return np.pad(x, ((0, 0), (0, 3 - x.shape[1]))), np.array(np.broadcast_to(r, (len(x),)))


_KINDS = (Plane, Box, Cylinder, Shell, Panel, Obstacles)


def _is_wall(wall) -> bool:
    """One of these, or another dataclass with ``pieces`` (contracts.Wall)."""
    return isinstance(wall, _KINDS) or (isinstance(wall, Wall) and is_dataclass(wall))


def known(wall) -> bool:
    """Whether a file can hold it: a wall of one's own is a class that it does not know."""
    return type(wall) in _KINDS


def _moves(wall) -> bool:
    return any(callable(value) for value in vars(wall).values())


class Walls:
    """All walls of a world, as arrays at a time."""

    def __init__(self, walls, start: float | None = None, end: float = np.inf):
        """``start`` and ``end`` of the run; None where it is not known yet."""
        walls = [walls] if _is_wall(walls) else _listed(walls)
        for wall in walls:
            if not _is_wall(wall):
                names = ", ".join(kind.__name__ for kind in _KINDS)
                raise KindError(f"{short(wall)} is not a wall; there are {names}")
        self.start = 0.0 if start is None else start
        self.span = -np.inf if start is None else start, end
        self.walls = [w for w in walls if not isinstance(w, Obstacles)]
        self.obstacles = [w for w in walls if isinstance(w, Obstacles)]
        self.moving = any(_moves(w) for w in self.walls)
        self.drifting = any(_moves(w) for w in self.obstacles)
        self._count = self._bodies_count = self._surfaces = None
        self._still = None if self.moving else self._pieces(0.0)
        self._standing = None if self.drifting else self._bodies(0.0)
        if start is not None:
            self._count = len(self.at(start)[0])
            self._bodies_count = len(self.obstacles_at(start)[0])

    def during(self, t0: float, t1: float) -> "Walls":
        """The same, their functions asked within [t0, t1] only."""

        def bound(wall):
            return replace(
                wall, **{n: Within(v, t0, t1) for n, v in vars(wall).items() if callable(v)}
            )

        return Walls([bound(wall) for wall in [*self.walls, *self.obstacles]], t0, t1)

    def around(self, t: float, over: float) -> tuple[float, float]:
        """Times before and after t, ``over`` apart where the run has both, for a difference.

        What goes straight on beyond the run (Within) does not turn: edges there are askew.  Some
        units of rounding lie between them, however far t is from 0.
        """
        over = max(over, _TICKS * np.spacing(abs(t)))
        return max(t - 0.5 * over, self.span[0]), min(t + 0.5 * over, self.span[1])

    def at(self, t: float) -> tuple[np.ndarray, np.ndarray]:
        """Kinds (W,) and data (W, 10) at time t."""
        return self._pieces(t) if self._still is None else self._still

    def obstacles_at(self, t: float) -> tuple[np.ndarray, np.ndarray]:
        """Positions (K, 3) and radii (K,) at time t."""
        return self._bodies(t) if self._standing is None else self._standing

    def surfaces_at(self, t: float, dt: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Points, velocities and spins (W, 3) of the surfaces of walls at time t (surfaces.py)."""
        if self._still is None:
            return surfaces.of_walls(self, t, dt)
        if self._surfaces is None:
            self._surfaces = surfaces.of_walls(self, t, dt)
        return self._surfaces

    def obstacles_surface_at(self, t: float, dt: float) -> tuple[np.ndarray, np.ndarray]:
        """Velocities and spins (K, 3) of obstacles at time t."""
        return surfaces.of_obstacles(self, t, dt)

    def driven(self) -> bool:
        """Whether a surface may move where the wall stays."""
        found = [*self.walls, *self.obstacles]
        return any(getattr(w, n, None) is not None for w in found for n in ("velocity", "spin"))

    def curved(self) -> bool:
        """Whether a wall bends around the spheres: its gap is not a convex function."""
        kinds, _ = self._pieces(self.start) if self._still is None else self._still
        return bool(np.any((kinds == 1) | (kinds == 2)))

    def check(self, period: np.ndarray, t: float) -> None:
        """Refuse walls out of the plane, and such as contradict their images where space repeats.

        ``period`` (d,) is 0 where space does not repeat.
        """
        repeats = np.pad(period, (0, 3 - len(period)))
        for wall in [*self.walls, *self.obstacles]:
            if len(period) == 3 and type(wall) in _KINDS:
                _check_numbers(wall, t)
        for kind, data in zip(*self.at(t), strict=True):
            if len(period) == 2:
                _check_plane(kind, data)
            if np.any(repeats):
                _check_images(kind, data, repeats)
        surfaces.check(self, t, len(period))
        x, _ = self.obstacles_at(t)
        if len(period) == 2 and np.any(x[:, 2]):
            raise ShapeError("obstacles of disks lie in the plane: give (K, 2) numbers")

    def _pieces(self, t):
        found = [piece for wall in self.walls for piece in wall.pieces(t)]
        if self._count not in (None, len(found)):
            raise ShapeError(
                f"there are {len(found)} faces of walls at t = {t:g}, and {self._count} at the "
                "start: a Box must be open on the same sides all the time"
            )
        kinds = np.array([kind for kind, _ in found], np.int64)
        return kinds, np.array([data for _, data in found], float).reshape(-1, _DATA)

    def _bodies(self, t):
        found = [o.at(t) for o in self.obstacles]
        x = np.concatenate([np.zeros((0, 3)), *(x for x, _ in found)])
        if self._bodies_count not in (None, len(x)):
            raise ShapeError(
                f"there are {len(x)} obstacles at t = {t:g}, and {self._bodies_count} at the "
                "start: their number must stay the same"
            )
        return x, np.concatenate([np.zeros(0), *(r for _, r in found)])


def _check_numbers(wall, t):
    """Refuse two numbers for a place or a direction in space."""
    for field in fields(wall):
        value = getattr(wall, field.name)
        if value is None or field.name in ("radius", "spin", "material"):
            continue
        found = at_time(value, t, field.name)
        if found.ndim and found.shape[-1] == 2 and np.any(found):
            raise ShapeError(
                f"{field.name} = {short(found)} of {type(wall).__name__} has 2 numbers, and the "
                "spheres are in space: give 3"
            )


def _listed(walls):
    try:
        return list(walls)
    except TypeError:
        raise KindError(f"walls is {short(walls)}; give a wall, or a list of them") from None


def _check_plane(kind, data):
    """What bounds disks is in their plane; the axis of a Cylinder is across it."""
    out = {0: data[[5]], 1: data[3:5], 2: data[[2]], 3: data[[2, 5, 8]]}.get(int(kind), data[:0])
    if np.any(np.abs(out) > 1e-12):
        raise ShapeError(
            f"a wall is described by {data}, in space, but disks move in the plane: its points and "
            "directions have 2 numbers, and the axis of a Cylinder is (0, 0, 1)"
        )


def _check_images(kind, data, period):
    """A plane along the directions that repeat, a container that fits, a panel not too long."""
    repeats, along = period > 0.0, np.abs(data[3:6]) > 1e-12
    if kind == 0 and np.any(along & repeats):
        raise ShapeError(
            f"a plane with normal {data[3:6]} lies across the period {period}: no place is on the "
            "open side of all its images. Turn it along the period, or take a Panel"
        )
    if kind == 1 and np.any(along & repeats) and np.count_nonzero(along) > 1:
        raise ShapeError(
            f"a Cylinder with axis {data[3:6]} lies askew to the period {period}: turn its axis "
            "along one direction, or out of those that repeat"
        )
    across = repeats & ~along if kind == 1 else repeats
    if kind in (1, 2) and np.any(2.0 * data[9] > period[across]):
        raise ShapeError(
            f"a container of radius {data[9]:g} does not fit into the period {period}: make it "
            "smaller, or the period longer"
        )
    if kind == 3:
        edges = np.abs(data[3:9].reshape(2, 3))
        long = repeats & (edges.sum(axis=0) > period)
        askew = np.any((edges > 0.0) & long & (np.count_nonzero(edges, axis=1) > 1)[:, None])
        if askew:
            raise ShapeError(
                f"a Panel with edges {data[3:6]} and {data[6:9]} is longer than the period "
                f"{period} and askew to it: cut it into shorter ones"
            )
