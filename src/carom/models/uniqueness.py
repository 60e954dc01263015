"""A smooth force under which a point may rest or bounce (P13)."""

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.polynomial import Chebyshev

from carom.models.ball import floor
from carom.models.problem import ModelError, Problem, column, piecewise
from carom.worlds.system.system import System

# Of the infinitely many bumps; the speed of the bounce before them is 2^-81, below rounding.
_BUMPS = 9
# The bump is smooth but not analytic: its series reaches rounding at about this degree.
_DEGREE = 240


def nonunique(*, e=0.5, bouncing=False, t1=1.25):
    """A point at rest that a smooth force presses on a floor, and that may bounce as well (P13).

    ``q'' = f(t) <= 0``, gap ``q``, at rest at 0. With ``a_n = 2^-n`` and ``V_n = 2^(-n^2)``, f is
    on each ``[a_(n+1), a_n]``, of length d_n, one smooth bump of integral -J_n centred at c_n,

        J_n = V_(n+1) + V_n/e,    a_n - c_n = d_n V_(n+1)/J_n.                                 (1)

    Then ``q = 0`` is a motion (the default), and so is (``bouncing=True``) the one that leaves the
    floor at every a_n at the speed V_n: the bump takes V_(n+1) to -V_n/e and brings the point back
    at a_n. Its bounces accumulate at t = 0, forwards in time. f is zero from t = 1 on. (Examples
    of this kind: Bressan 1960, Schatzman 1978, Ballard 2000.)

    Parameters
    ----------
    e
        Restitution, in (0, 1].
    bouncing
        True: ``exact`` is the motion that bounces.
    t1
        End [s].
    """
    system = System(force=BumpForce(e), gap=floor, restitution=e)
    if e <= 0:
        raise ModelError(f"needs e > 0: without rebound there is rest alone, not {e}")
    exact, impacts = _bouncing(e, t1) if bouncing else (_at_rest(t1), np.zeros(0))
    return Problem(
        name="nonunique",
        system=system,
        q0=np.zeros(1),
        v0=np.zeros(1),
        t0=0.0,
        t1=float(t1),
        exact=exact,
        source="closed form but for the primitives of a bump, benchmarks P13",
        accumulation=0.0 if bouncing else None,
        impact_times=impacts,
    )


class Bumps(NamedTuple):
    """The bumps of f and the flights around them, the last in time first; each ``(n,)``."""

    start: np.ndarray  # a_(n+1), where the flight leaves the floor
    end: np.ndarray  # a_n, where it comes back
    centre: np.ndarray
    width: np.ndarray  # half of the bump's support
    size: np.ndarray  # J_n
    speed: np.ndarray  # V_(n+1), at the start


def bumps(e) -> Bumps:
    """(1) of `nonunique`."""
    n = np.arange(_BUMPS)
    V = 2.0 ** -(np.arange(_BUMPS + 1.0) ** 2)
    start, end = 2.0 ** -(n + 1.0), 2.0**-n
    J = V[1:] + V[:-1] / e
    centre = end - (end - start) * V[1:] / J
    return Bumps(start, end, centre, np.minimum(end - centre, centre - start), J, V[1:])


def _at_rest(t1):
    def flow(s, _):
        return np.zeros((*s.shape, 1)), np.zeros((*s.shape, 1))

    return piecewise(np.zeros(1), flow, t1)


def _bouncing(e, t1):
    """The motion, and the times of its impacts."""
    last = bumps(e)
    b = Bumps(*(x[::-1] for x in last))  # in order of time
    starts = np.array([0.0, *b.start, 1.0])  # rest, the flights, and the one after the force
    speed = np.array([0.0, *b.speed, 1.0])
    J = np.array([0.0, *b.size, 0.0])
    width = np.array([1.0, *b.width, 1.0])
    centre = np.array([0.5, *(b.centre - b.start), 0.5])  # after the start of its piece
    step, ramp = primitives()

    def flow(s, k):
        x = (s - centre[k]) / width[k]
        inside = np.clip(x, -1.0, 1.0)
        swept = width[k] * (ramp(inside) + np.maximum(x - 1.0, 0.0))
        return column(speed[k] * s - J[k] * swept), column(speed[k] - J[k] * step(inside))

    return piecewise(starts, flow, t1), starts[2:][starts[2:] <= t1]


@cache
def primitives():
    """On [-1, 1]: the integral of the unit bump from -1, and the integral of that."""
    step = _series().integ(lbnd=-1)
    step = step / step(1.0)
    return step, step.integ(lbnd=-1)


@cache
def _series():
    def bump(x):
        inside = np.abs(x) < 1.0
        return np.where(inside, np.exp(-1.0 / np.where(inside, 1.0 - x**2, 1.0)), 0.0)

    return Chebyshev.interpolate(bump, _DEGREE)


@dataclass(frozen=True)
class BumpForce:
    e: float

    def __call__(self, t, q, v):
        b, area = bumps(self.e), _series().integ(lbnd=-1)(1.0)
        x = (t - b.centre) / b.width
        inside = jnp.abs(x) < 1.0
        bump = jnp.exp(-1.0 / jnp.where(inside, 1.0 - x**2, 1.0)) / area
        return -jnp.sum(jnp.where(inside, b.size / b.width * bump, 0.0), keepdims=True)
