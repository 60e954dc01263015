"""A slender block that rocks on a floor."""

import math
from dataclasses import dataclass

import numpy as np

from carom.models import drawn
from carom.models.ball import floor
from carom.models.problem import ZENO_CUT, ZENO_LISTED, ModelError, Problem, column, piecewise
from carom.worlds.system.system import System


def rocking_block(*, e=0.9, slenderness=0.2, rate=2.0, angle=0.1, t1=None):
    """A slender block tilted and let go rocks from corner to corner and comes to rest.

    With ``q = |theta|`` [rad] the tilt, whichever the side, ``q'' = -p^2 (a - q)``, gap ``q``: a is
    the ``slenderness``, the tilt at which the block would stand on a corner, and p the ``rate``,
    ``p^2 = 3 g/(4 R)`` for a block of half diagonal R. From the tilt q_n at rest the floor is met
    after a quarter period and with a velocity (Housner 1963)

        T_n/4 = arccosh(1/(1 - q_n/a))/p,     v_n = -p sqrt(q_n (2 a - q_n)),                  (1)

    where the block changes corner and keeps e of its angular velocity (Housner's rigid impact
    has ``e = 1 - (3/2) sin^2 a``). So v_n falls as e^n; a half period from impact to impact is
    ``2 artanh(|v|/(p a))/p`` with v the velocity after the first, and for e < 1 they add up to
    a finite time.

    Parameters
    ----------
    e
        Restitution of the angular velocity, in [0, 1].
    slenderness
        a [rad].
    rate
        p [rad/s].
    angle
        Tilt at the start [rad], above 0 and below the slenderness.
    t1
        End [s].  None: a quarter beyond the time of rest; for e = 1 after nine impacts, for e = 0
        twice the fall.
    """
    a, p = slenderness, rate
    if not (a > 0 and p > 0 and 0 < angle < a):
        raise ModelError(f"needs slenderness > angle > 0 and rate > 0, not {a}, {angle}, {p}")
    system = System(force=Restoring(a, p), gap=floor, restitution=e)
    first = math.acosh(1 / (1 - angle / a)) / p
    speed = p * math.sqrt(angle * (2 * a - angle))  # of the first impact
    count = _impact_count(e, first, 2 * math.atanh(speed / (p * a)) / p, t1)
    after = speed * e ** np.arange(1.0, count + 1)
    times = first + np.concatenate([[0.0], np.cumsum(2 * np.arctanh(after / (p * a)) / p)])
    rest = times[-1] if e < 1 else None  # the impacts left out are below rounding
    t1 = _horizon(e, first, times) if t1 is None else float(t1)
    times = times[:-1]

    end = [] if rest is None else [rest]
    starts = np.concatenate([[0.0], times, end])
    tilt = np.where(np.arange(len(starts)) == 0, angle, 0.0)
    v = np.concatenate([[0.0], after, np.zeros(len(end))])
    moves = np.where(np.arange(len(starts)) <= len(times), 1.0, 0.0)

    def flow(s, k):
        x, below = p * s * moves[k], tilt[k] - a
        q = tilt[k] + 2 * below * np.sinh(x / 2) ** 2 + v[k] * np.sinh(x) / p
        return column(q), column(p * below * np.sinh(x) + v[k] * np.cosh(x))

    return Problem(
        name="rocking_block",
        system=system,
        q0=np.array([angle], dtype=float),
        v0=np.zeros(1),
        t0=0.0,
        t1=t1,
        exact=piecewise(starts, flow, t1),
        source="closed form of Housner (1963)",
        looks=drawn.block(a),
        accumulation=rest if e > 0 else None,
        impact_times=times[(times <= t1) & (after >= ZENO_LISTED * e * speed)],
    )


def _impact_count(e, first, half, t1):
    """All impacts above rounding; for e = 1 those before t1, or nine of them."""
    if e == 0:
        return 1
    if e == 1:
        return 9 if t1 is None else max(1, math.ceil((t1 - first) / half))
    return 1 + math.ceil(math.log(ZENO_CUT) / math.log(e))


def _horizon(e, first, times):
    if e == 0:
        return 2 * first
    return 1.25 * times[-1] if e < 1 else times[-1] - 0.3 * (times[-1] - times[-2])


@dataclass(frozen=True)
class Restoring:
    slenderness: float
    rate: float

    def __call__(self, t, q, v):
        return self.rate**2 * (q - self.slenderness)
