"""A ball on a floor (P1)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from carom.models import drawn
from carom.models.problem import ZENO_CUT, ZENO_LISTED, ModelError, Problem, column, piecewise
from carom.worlds.system.system import System


def bouncing_ball(*, e=0.5, q0=1.0, v0=0.0, g=9.81, t1=None):
    """A ball falls on a floor, bounces infinitely often in finite time and rests (P1).

    ``q'' = -g``, gap ``q``. With V the speed of the first impact, at ``t_1``: the n-th impact is at
    ``t_n = t_1 + (2V/g)(e + ... + e^(n-1))``, leaves at ``e^n V``, and the ball is at rest from
    ``t_1 + (2V/g) e/(1-e)``.

    Parameters
    ----------
    e
        Restitution, in [0, 1].
    q0
        Height at the start [m], >= 0.
    v0
        Velocity at the start [m/s], upwards.
    g
        Gravity [m/s^2], > 0.
    t1
        End [s].  None: a quarter beyond the time of rest; for e = 1 ten flights after the first
        impact, for e = 0 twice the fall.
    """
    system = System(force=Gravity(g), gap=floor, restitution=e)
    ball = bounces(e=e, height=q0, speed=v0, g=g, t1=t1)

    def exact(t):
        y, u = ball.motion(t)
        return column(y), column(u)

    return Problem(
        name="bouncing_ball",
        system=system,
        q0=np.array([q0], dtype=float),
        v0=np.array([v0], dtype=float),
        t0=0.0,
        t1=ball.t1,
        exact=exact,
        source="closed form, benchmarks P1",
        accumulation=ball.accumulation,
        impact_times=ball.impact_times,
        looks=drawn.ball(max(q0, v0**2 / (2 * g)) or 1.0),
    )


@dataclass(frozen=True)
class Gravity:
    g: float

    def __call__(self, t, q, v):
        return jnp.full_like(q, -self.g)


def floor(t, q):
    return q


class Bounces(NamedTuple):
    """The height of a point bouncing under gravity, from `bounces`."""

    motion: Callable  # t (n,) -> height (n,), velocity (n,)
    impact_times: np.ndarray
    accumulation: float | None
    t1: float


def bounces(*, e, height, speed, g, t1):
    """Parabolas from ``height``, ``speed``, then rest; ``t1=None`` goes past the accumulation."""
    if height < 0 or g <= 0:
        raise ModelError(f"needs a height >= 0 and g > 0, not {height} and {g}")
    V = math.sqrt(speed**2 + 2 * g * height)
    first = (V + speed) / g if speed >= 0 else 2 * height / (V - speed)
    flight = 2 * V / g  # from one impact to the next if e were 1
    rest = first + flight * e / (1 - e) if e < 1 and V > 0 else None
    if t1 is None:
        t1 = _horizon(e, first, flight, rest)

    n = np.arange(1, _impact_count(e, first, flight, t1) + 1)
    times = first + flight * _geometric_sum(e, n)
    end = [] if rest is None else [rest]
    starts = np.concatenate([[0.0], times, end])
    u = np.concatenate([[speed], V * e ** n.astype(float), np.zeros(len(end))])
    y = np.where(np.arange(len(starts)) == 0, height, 0.0)
    a = np.where((np.arange(len(starts)) <= len(n)) & (V > 0), -g, 0.0)

    def flow(s, k):
        return y[k] + s * (u[k] + s * a[k] / 2), u[k] + s * a[k]

    return Bounces(
        motion=piecewise(starts, flow, t1),
        impact_times=times[(times <= t1) & (e ** (n - 1.0) >= ZENO_LISTED)],
        accumulation=rest if e > 0 else None,
        t1=float(t1),
    )


def _horizon(e, first, flight, rest):
    """A quarter more than what happens before rest, or ten flights."""
    if rest is None:
        return first + 10 * flight if flight > 0 else 1.0
    return 1.25 * rest if e > 0 else 2 * rest


def _impact_count(e, first, flight, t1):
    """How many impacts to build: all those before t1, or those above rounding."""
    if flight == 0:
        return 0
    if e == 0:
        return 1
    flights = (t1 - first) / flight
    if e == 1:
        return max(1, 1 + math.ceil(flights))
    left = max(1 - flights * (1 - e) / e, ZENO_CUT)  # e^(n-1) at the last impact before t1
    return max(1, 1 + math.ceil(math.log(left) / math.log(e)))


def _geometric_sum(e, n):
    """``e + e^2 + ... + e^(n-1)``, without cancellation for e near 1."""
    if e in (0, 1):
        return e * (n - 1.0)
    return -e * np.expm1((n - 1) * math.log(e)) / (1 - e)
