"""Spheres: many bodies, and what they are made of."""

from collections.abc import Callable
from typing import Any

import numpy as np

from carom import errors
from carom.worlds.spheres.walls import Walls, at_time


class Spheres:
    """Spheres (disks in two dimensions) with contacts that only push.

        m_i dv_i = (m_i gravity + force_i) dt + sum of contact impulses,    gaps >= 0
        gap of two spheres: |x_i - x_j| - r_i - r_j

    Parameters
    ----------
    position
        (N, 2) or (N, 3) [m].
    radius
        A number or (N,) [m], or a function of t that returns either.
    velocity
        (N, d) [m/s]; None: at rest.
    mass
        A number or (N,) [kg]; None: 1 each.
    walls
        carom.Plane and what else is in carom.spheres: Box, Cylinder, Shell, Panel, Obstacles.
    gravity
        (d,) [m/s^2]; None: none.
    force
        ``force(t, x, v) -> (N, d)`` [N], beside gravity.
    restitution
        e in [0, 1], for all contacts.
    periodic
        The period of each direction (d,) [m], None where space does not repeat.
    tolerance
        The largest overlap at the end of a step, in smallest radii; complementarity is held to the
        same length (kernels/numba/projection.py, (3)).
    iterations
        The most sweeps that one projection may take.
    """

    def __init__(
        self,
        position,
        radius,
        velocity=None,
        mass=None,
        walls=(),
        gravity=None,
        restitution: float = 0.0,
        periodic=None,
        *,
        force: Callable | None = None,
        tolerance: float = 1e-6,
        iterations: int = 20_000,
    ):
        x = np.array(position, float)
        if x.ndim != 2 or x.shape[1] not in (2, 3) or len(x) == 0:
            raise errors.ShapeError(f"position has shape {x.shape}; it must be (N, 2) or (N, 3)")
        N, d = x.shape
        self.position = _finite("position", x)  # (N, d) [m]
        self.velocity = _finite("velocity", _vectors("velocity", velocity, (N, d)))  # (N, d) [m/s]
        self.radius = radius if callable(radius) else _scalars("radius", radius, N)
        self.mass = _scalars("mass", 1.0 if mass is None else mass, N)  # (N,) [kg]
        self.walls = Walls(walls)
        self.gravity = _finite("gravity", _vectors("gravity", gravity, (d,)))  # (d,) [m/s^2]
        self.period = _period(periodic, d)  # (d,) [m], 0 where space does not repeat
        if force is not None and not callable(force):
            raise errors.ShapeError(f"force must be a function of (t, x, v), not {force!r}")
        if not 0.0 <= restitution <= 1.0:
            raise errors.RestitutionError(
                f"restitution is {restitution!r}; it must be one number in [0, 1]"
            )
        if not tolerance > 0.0:
            raise errors.ShapeError(f"tolerance is {tolerance}; it must be positive, such as 1e-6")
        self.force, self.restitution = force, float(restitution)
        self.tolerance, self.iterations = float(tolerance), int(iterations)
        self.smallest = float(np.min(self.radius_at(0.0)))  # [m], the unit of tolerances

    @property
    def dimension(self) -> int:
        """2 or 3."""
        return self.position.shape[1]

    def __len__(self) -> int:
        """N."""
        return len(self.position)

    def __repr__(self) -> str:
        return f"Spheres(N={len(self)}, dimension={self.dimension}, e={self.restitution:g})"

    def radius_at(self, t: float) -> np.ndarray:
        """(N,) radii at time t."""
        return _scalars("radius", at_time(self.radius, t), len(self))

    def replaced(self, **changes: Any) -> "Spheres":
        """The same with some arguments changed."""
        walls = [*self.walls.walls, *self.walls.obstacles]
        kept = {
            "position": self.position,
            "radius": self.radius,
            "velocity": self.velocity,
            "mass": self.mass,
            "walls": walls,
            "gravity": self.gravity,
            "restitution": self.restitution,
            "periodic": self.period,
            "force": self.force,
            "tolerance": self.tolerance,
            "iterations": self.iterations,
        }
        unknown = set(changes) - set(kept)
        if unknown:
            raise errors.KindError(f"{sorted(unknown)} are not arguments of Spheres")
        return Spheres(**(kept | changes))


def _finite(name, value):
    if not np.all(np.isfinite(value)):
        bad = np.argwhere(~np.isfinite(value))[0]
        raise errors.NonFiniteError(f"{name}{list(bad)} is {value[tuple(bad)]}: it must be finite")
    return value


def _vectors(name, value, shape):
    if value is None:
        return np.zeros(shape)
    found = np.asarray(value, float)
    try:
        return np.array(np.broadcast_to(found, shape))
    except ValueError:
        raise errors.ShapeError(f"{name} has shape {found.shape}; it must be {shape}") from None


def _scalars(name, value, N):
    found = _vectors(name, value, (N,))
    if not np.all(found > 0.0) or not np.all(np.isfinite(found)):
        worst = int(np.argmin(np.where(np.isfinite(found), found, -np.inf)))
        kind = errors.MassError if name == "mass" else errors.ShapeError
        raise kind(f"{name}[{worst}] is {found[worst]}: every {name} must be positive and finite")
    return found


def _period(periodic, d):
    if periodic is None:
        return np.zeros(d)
    given = [periodic] * d if np.ndim(periodic) == 0 else list(periodic)
    if len(given) != d:
        raise errors.ShapeError(
            f"periodic is {periodic!r}; give one period per direction, None where there is none"
        )
    found = np.array([0.0 if p is None or p == np.inf else float(p) for p in given])
    if not np.all(found >= 0.0):
        raise errors.ShapeError(f"periodic is {periodic!r}; a period must be positive")
    return found
