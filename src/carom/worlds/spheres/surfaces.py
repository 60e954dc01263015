"""How the surfaces of walls move, for friction.

At a place x of its surface a wall moves with

    velocity + spin x (x - point)                                                             (1)

where point is that of the wall (of a Panel its middle).  What is not given is that of the wall's
own motion: the velocity of the point, and the turning of its directions,

    spin = 1/2 sum_a  a x da/dt,       a: an orthonormal frame that is carried along          (2)

(which is a x da/dt for a wall with one direction: it does not turn about that by itself), both by a
difference over a hundredth of a step.  The faces of a Box, whose sides may move each by itself,
have a motion of their own along them (``Box.drift``).
"""

import numpy as np

from carom import errors
from carom.worlds.spheres.given import at_time

_OVER = 1e-2  # of a step
_PLANE, _PANEL = 0, 3  # kinds of walls (kernels/numba/rows.py)


def of_walls(walls, t: float, dt: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points, velocities and spins (W, 3) of (1)."""
    point, _ = _placed(*walls.at(t))
    velocity, spin = np.zeros_like(point), np.zeros_like(point)
    if walls.moving:
        before, after = walls.around(t, _OVER * dt)
        early, frame0 = _placed(*walls.at(before))
        late, frame1 = _placed(*walls.at(after))
        over = after - before
        velocity, spin = (late - early) / over, _turning(frame0, frame1, over)
    at = 0
    for wall in walls.walls:
        pieces = slice(at, at + len(wall.pieces(t)))
        at = pieces.stop
        if wall.velocity is not None:
            velocity[pieces] = given_velocity(wall.velocity, t)
        elif walls.moving and hasattr(wall, "drift"):
            velocity[pieces] = wall.drift(*walls.around(t, _OVER * dt))
        if getattr(wall, "spin", None) is not None:
            spin[pieces] = given_spin(wall.spin, t)
    return point, velocity, spin


def of_obstacles(walls, t: float, dt: float) -> tuple[np.ndarray, np.ndarray]:
    """Velocities and spins (K, 3) of obstacles."""
    velocity = np.zeros_like(walls.obstacles_at(t)[0])
    if walls.drifting:
        before, after = walls.around(t, _OVER * dt)
        early, late = walls.obstacles_at(before)[0], walls.obstacles_at(after)[0]
        velocity = (late - early) / (after - before)
    spin, at = np.zeros_like(velocity), 0
    for some in walls.obstacles:
        these = slice(at, at + len(some.at(t)[0]))
        at = these.stop
        if some.velocity is not None:
            velocity[these] = given_velocity(some.velocity, t)
        if some.spin is not None:
            spin[these] = given_spin(some.spin, t)
    return velocity, spin


def check(walls, t: float, dimension: int) -> None:
    """Refuse surfaces whose motion cannot be read, or leaves the plane of disks."""
    counts = [1] * len(walls.walls) + [len(some.at(t)[0]) for some in walls.obstacles]
    for wall, many in zip([*walls.walls, *walls.obstacles], counts, strict=True):
        velocity, spin = wall.velocity, getattr(wall, "spin", None)
        v = np.zeros((1, 3)) if velocity is None else given_velocity(velocity, t)
        w = np.zeros((1, 3)) if spin is None else given_spin(spin, t)
        if dimension == 3 and spin is not None and at_time(spin, t, "spin").size == 1:
            raise errors.ShapeError(
                f"spin = {w[0, 2]:g} of the surface of {type(wall).__name__} is one number: among "
                "spheres in space it has three, about the axes"
            )
        for name, found in (("velocity", v), ("spin", w)):
            if len(found) not in (1, many) or not np.all(np.isfinite(found)):
                raise errors.ShapeError(
                    f"the {name} of the surface of {type(wall).__name__} is {found.tolist()}; it "
                    "must be finite, one for the wall or one for each obstacle"
                )
        if dimension == 2 and (np.any(v[:, 2]) or np.any(w[:, :2])):
            raise errors.ShapeError(
                f"the surface of {type(wall).__name__} moves with {v.tolist()} and spins by "
                f"{w.tolist()}, out of the plane of the disks: velocity has 2 numbers, spin is one"
            )
        if hasattr(wall, "pieces"):
            _check_along(wall, v[0], w[0], t, dimension)


def _check_along(wall, velocity, spin, t, dimension):
    """Refuse a surface that leaves a flat wall which stays."""
    its_own = (value for name, value in vars(wall).items() if name not in ("velocity", "spin"))
    pieces = [] if any(map(callable, its_own)) else wall.pieces(t)
    if len(pieces) != 1:
        return
    (kind, data), name = pieces[0], type(wall).__name__
    across = _normal(kind, data, dimension)
    least = 1e-9 * np.linalg.norm(across)
    if abs(velocity @ across) > least * np.linalg.norm(velocity):
        raise errors.ShapeError(
            f"velocity = {velocity.tolist()} of the surface of a {name} is not along the "
            f"{name.lower()}: for one that moves itself give where it is as a function of t"
        )
    if np.linalg.norm(np.cross(spin, across)) > least * np.linalg.norm(spin):
        raise errors.ShapeError(
            f"spin = {spin.tolist()} turns the surface of a {name} out of the {name.lower()}: "
            "it turns about the normal (in the plane there is no such spin); for one that moves "
            "itself give where it is as a function of t"
        )


def _normal(kind, data, dimension):
    """(3,) of a flat wall, of any length; 0 of others."""
    if kind == _PLANE:
        return data[3:6]
    if kind == _PANEL:
        edge, other = data[3:6], data[6:9]
        return np.cross(edge, (0.0, 0.0, 1.0) if dimension == 2 else other)
    return np.zeros(3)


def given_velocity(value, t: float) -> np.ndarray:
    """(1, 3) or (K, 3)."""
    found = at_time(value, t, "velocity")
    if found.ndim not in (1, 2) or found.shape[-1] not in (2, 3):
        raise errors.ShapeError(
            f"velocity of a surface has shape {found.shape}; it must be a vector of 2 or 3 numbers"
        )
    found = np.atleast_2d(found)
    return np.pad(found, ((0, 0), (0, 3 - found.shape[1])))


def given_spin(value, t: float) -> np.ndarray:
    """(1, 3) or (K, 3); a number turns the plane."""
    found = at_time(value, t, "spin")
    if found.shape == () or found.shape == (1,):
        return np.array([[0.0, 0.0, found.item()]])
    if found.ndim in (1, 2) and found.shape[-1] == 3:
        return np.atleast_2d(found)
    raise errors.ShapeError(
        f"spin of a surface has shape {found.shape}; it must be (3,), or in two dimensions a number"
    )


def _placed(kinds, data):
    """Points (W, 3) of walls and their frames (W, 3, 3): directions that turn with them, or 0."""
    point, frame = data[:, :3].copy(), np.zeros((len(data), 3, 3))
    one, panel = kinds < 2, kinds == _PANEL  # a plane or a cylinder has one direction
    frame[one, 0] = data[one, 3:6]
    edges = data[panel, 3:9].reshape(-1, 2, 3)
    point[panel] += 0.5 * edges.sum(axis=1)
    length = np.linalg.norm(edges, axis=2, keepdims=True)
    edges = np.divide(edges, length, out=np.zeros_like(edges), where=length > 0.0)
    frame[panel, :2] = edges
    frame[panel, 2] = np.cross(edges[:, 0], edges[:, 1])
    return point, frame


def _turning(early, late, over):
    """(2): of one direction a x da/dt, of three half of the sum."""
    turned = np.cross(0.5 * (early + late), (late - early) / over).sum(axis=1)
    whole = np.any(early[:, 2] != 0.0, axis=1)
    return np.where(whole[:, None], 0.5 * turned, turned)
