"""A free particle in polar coordinates, reflected by a straight wall (P7)."""

import math
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from carom.looks import Segment
from carom.models import drawn
from carom.models.problem import ModelError, Problem, straight
from carom.worlds.system.system import System


def line_polar(
    *,
    e=0.8,
    mass=2.0,
    wall_angle=0.3,
    wall_distance=0.5,
    position=(2.0, 0.0),
    velocity=(-1.0, 0.7),
    t1=None,
):
    """A straight line and its reflection by a wall, in polar coordinates (P7).

    ``q = (r, th)``, ``M = diag(m, m r^2)``, ``f = (m r th'^2, -2 m r r' th')``, gap
    ``r cos(th - a) - d`` with a the angle of the wall's normal and ``d > 0`` its distance from the
    origin. ``position`` and ``velocity`` are Cartesian. In Cartesian coordinates the particle moves
    straight and ``n . v`` becomes ``-e n . v`` at the wall, ``n = (cos a, sin a)``.

    Parameters
    ----------
    e
        Restitution, in [0, 1].
    mass
        m [kg].
    wall_angle
        a [rad].
    wall_distance
        d [m], > 0.
    position
        (2,) start [m], not behind the wall.
    velocity
        (2,) at the start [m/s].
    t1
        End [s].  None: twice the time of the impact, 1 without one.
    """
    x, u = np.array(position, dtype=float), np.array(velocity, dtype=float)
    n = np.array([math.cos(wall_angle), math.sin(wall_angle)])
    if not (wall_distance > 0 and x @ n >= wall_distance):
        raise ModelError(
            f"needs wall_distance > 0 and the position on the far side, not {wall_distance}, {x}"
        )
    system = System(
        force=PolarInertia(mass),
        gap=StraightWall(wall_angle, wall_distance),
        mass=PolarMass(mass),
        restitution=e,
    )
    starts, xs, us = np.zeros(1), x[None], u[None]
    impact = (x @ n - wall_distance) / -(u @ n) if u @ n < 0 else math.inf
    if t1 is None:
        t1 = 2.0 * impact if math.isfinite(impact) else 1.0
    if impact <= t1:
        starts = np.array([0.0, impact])
        xs = np.array([x, x + impact * u])
        us = np.array([u, u - (1 + e) * (u @ n) * n])
    cartesian = straight(starts, xs, us, float(t1))

    def exact(t):
        return to_polar(*cartesian(t), axis=wall_angle)

    q0, v0 = to_polar(x, u, wall_angle)
    foot, along = wall_distance * n, 2 * wall_distance * np.array([-n[1], n[0]])
    return Problem(
        name="line_polar",
        system=system,
        q0=q0,
        v0=v0,
        t0=0.0,
        t1=float(t1),
        exact=exact,
        source="closed form in Cartesian coordinates, benchmarks P7",
        looks=drawn.point_in_plane(Segment(*(foot - along), *(foot + along)), polar=True),
        impact_times=starts[1:],
    )


def to_polar(x, u, axis=0.0):
    """``x, u (..., 2)`` to ``(r, th)`` and its rate, with th within pi of ``axis``."""
    r2 = np.sum(x * x, axis=-1)
    r = np.sqrt(r2)
    along = x @ np.array([math.cos(axis), math.sin(axis)])
    across = x @ np.array([-math.sin(axis), math.cos(axis)])
    spin = x[..., 0] * u[..., 1] - x[..., 1] * u[..., 0]
    q = np.stack([r, axis + np.arctan2(across, along)], axis=-1)
    return q, np.stack([np.sum(x * u, axis=-1) / r, spin / r2], axis=-1)


@dataclass(frozen=True)
class PolarMass:
    mass: float

    def __call__(self, q):
        return self.mass * jnp.stack([jnp.ones_like(q[0]), q[0] ** 2])


@dataclass(frozen=True)
class PolarInertia:
    """The force that makes ``M(q) q'' = f`` a straight line."""

    mass: float

    def __call__(self, t, q, v):
        r, (dr, dth) = q[0], v
        return self.mass * jnp.stack([r * dth**2, -2 * r * dr * dth])


@dataclass(frozen=True)
class StraightWall:
    angle: float
    distance: float

    def __call__(self, t, q):
        return q[0] * jnp.cos(q[1] - self.angle) - self.distance
