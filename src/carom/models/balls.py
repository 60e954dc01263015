"""Equal balls in a row and in a stack (P9, P10)."""

import math
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from carom.models import drawn
from carom.models.ball import bounces
from carom.models.billiard import no_force
from carom.models.problem import ModelError, Problem, exact_motion_of, straight
from carom.worlds.system.system import System

# Three balls closer than this times their first spacing are about to collapse: infinitely many
# collisions in finite time.
COLLAPSE = 1e-8


def row_of_balls(*, count=3, e=1.0, spacing=0.0, distance=1.0, speed=1.0, radius=0.5, t1=None):
    """A ball hits a row of equal balls at rest, touching or ``spacing`` apart (P9).

    No force, gaps ``q[i+1] - q[i] - 2 radius``. The first ball comes from ``distance`` at
    ``speed``. Balls that touch (v- and v+ their velocities, left to right) obey

        v+ = (1+e) P v- - e v-,    P v = nearest nondecreasing sequence (isotonic regression),

    which is the impact law in the kinetic metric. Touching row: the speeds become
    ``(1+e)/N - e, (1+e)/N, ...``. With spacing and e = 1 the speed passes from ball to ball. With
    spacing and e < 1 collisions are followed one by one; raises ``ModelError`` if they accumulate.

    Parameters
    ----------
    count
        N, the balls in all, >= 2.
    e
        Restitution, in [0, 1].
    spacing
        Between the balls at rest [m], >= 0.
    distance
        Between the first ball and the row [m], > 0.
    speed
        Of the first ball [m/s], > 0.
    radius
        Of the balls [m].
    t1
        End [s].  None: 2 (distance + (N-1) spacing)/speed.
    """
    if count < 2 or spacing < 0 or distance <= 0 or speed <= 0:
        raise ModelError(
            "needs count >= 2, spacing >= 0, distance > 0, speed > 0, "
            f"not {count}, {spacing}, {distance}, {speed}"
        )
    system = System(force=no_force, gap=RowGaps(radius), restitution=e)
    gaps = np.full(count - 1, float(spacing))
    gaps[0] = distance
    q0 = np.concatenate([[0.0], np.cumsum(gaps + 2 * radius)])
    v0 = np.where(np.arange(count) == 0, float(speed), 0.0)
    t1 = 2 * (np.sum(gaps) + spacing) / speed if t1 is None else t1
    collapse = COLLAPSE * spacing if 0 < e < 1 and spacing > 0 else -math.inf
    known = {"name": "row_of_balls", "system": system, "q0": q0, "v0": v0, "t1": float(t1)}
    known["looks"] = drawn.row(radius)
    with exact_motion_of(**known):
        starts, q, v = _collisions(q0, v0, e, 2 * radius, t1, collapse)
    return Problem(
        **known,
        t0=0.0,
        exact=straight(starts, q, v, float(t1)),
        source="closed form between collisions, benchmarks P9",
        impact_times=starts[1:],
    )


def _collisions(q, v, e, diameter, t1, collapse):
    """Times (m,) of the collisions before t1, and ``q (m, N)``, ``v (m, N)`` right after each.

    Raises where two gaps side by side are both below ``collapse``.
    """
    touch = 1e-13 * np.ptp(q)
    t, pieces = 0.0, [(0.0, q, v)]
    while True:
        gap, closing = np.diff(q) - diameter, -np.diff(v)
        meet = closing > 1e-14 * np.max(np.abs(v))
        wait = np.min(np.maximum(gap[meet], 0.0) / closing[meet], initial=math.inf)
        if t + wait > t1:
            return tuple(np.array(part) for part in zip(*pieces, strict=True))
        t, q = t + wait, q + wait * v
        gap = np.diff(q) - diameter
        if np.any(np.maximum(gap[1:], gap[:-1]) < collapse):
            raise ModelError(f"collisions accumulate near {t}: take t1 below it, not {t1}")
        v = _simultaneous_impact(v, e, (gap <= touch) & (closing >= 0))
        pieces.append((t, q, v))


def _simultaneous_impact(v, e, struck):
    """The law in each run of struck pairs ``(N-1,)``: v does not increase, so P v is its mean."""
    runs = np.split(v, np.flatnonzero(~struck) + 1)
    return np.concatenate([run + (1 + e) * (run.mean() - run) for run in runs])


def stack(*, count=5, e=0.0, height=0.0, radius=0.5, mass=1.0, g=9.81, t1=None):
    """A column of touching balls at rest on a floor, or dropped on it from ``height`` (P10).

    ``m q_i'' = -m g``, gaps ``q[0] - radius`` and ``q[i+1] - q[i] - 2 radius``. At rest the i-th
    contact from the floor carries ``(N-i+1) m g``. All contacts act at once when the column
    lands, and the law gives every ball ``v+ = -e v-``: the column moves as one bouncing ball.

    Parameters
    ----------
    count
        N, the balls.
    e
        Restitution, in [0, 1].
    height
        Of the fall [m]; 0: at rest on the floor.
    radius
        Of the balls [m].
    mass
        m of each ball [kg].
    g
        Gravity [m/s^2], > 0.
    t1
        End [s].  None: as of `bouncing_ball`; 1 at rest.
    """
    system = System(
        force=Weight(mass * g),
        gap=StackGaps(radius),
        mass=np.full(count, float(mass)),
        restitution=e,
    )
    column = bounces(e=e, height=height, speed=0.0, g=g, t1=t1)
    rest = radius * (2.0 * np.arange(count) + 1)

    def exact(t):
        y, u = column.motion(t)
        return y[..., None] + rest, u[..., None] + np.zeros(count)

    return Problem(
        name="stack",
        system=system,
        q0=rest + height,
        v0=np.zeros(count),
        t0=0.0,
        t1=column.t1,
        exact=exact,
        source="closed form, benchmarks P10 and P1",
        accumulation=column.accumulation,
        impact_times=column.impact_times,
        looks=drawn.column(radius),
    )


@dataclass(frozen=True)
class RowGaps:
    radius: float

    def __call__(self, t, q):
        return q[1:] - q[:-1] - 2 * self.radius


@dataclass(frozen=True)
class Weight:
    weight: float

    def __call__(self, t, q, v):
        return jnp.full_like(q, -self.weight)


@dataclass(frozen=True)
class StackGaps:
    radius: float

    def __call__(self, t, q):
        return jnp.concatenate([q[:1] - self.radius, q[1:] - q[:-1] - 2 * self.radius])
