"""Newton's cradle: pendulums in a row."""

import math
from dataclasses import dataclass

import numpy as np

from carom.models import drawn
from carom.models.problem import ModelError, Problem, exact_motion_of, piecewise
from carom.worlds.system.system import System

# Impacts this many times in a row within this part of a swing [rad] accumulate.
_ACCUMULATION = 1e-6
_IN_A_ROW = 3


def newtons_cradle(*, count=5, e=1.0, spacing=0.0, raised=1, amplitude=1.0, frequency=1.0, t1=None):
    """Newton's cradle: pendulums in a row, touching or ``spacing`` apart, the first ones raised.

    ``q_i'' = -w^2 q_i``, with ``q_i`` the displacement of the i-th of equal pendulums from where it
    hangs; gaps ``spacing + q[i+1] - q[i]``. The first ``raised`` ones are let go at
    ``-amplitude``. In flight, s after an impact,

        q = q_k cos(w s) + v_k/w sin(w s),                                                     (1)
        gap = spacing + R cos(w s - p),   zero again at  w s = p + arccos(-spacing/R),         (2)

    and the impact law for pendulums that touch is that of `row_of_balls`, with P v the nearest
    nondecreasing sequence,

        v+ = (1+e) P v- - e v-.                                                                (3)

    Touching: all meet at the bottom, every half period. With m the mean and u the deviations of
    the velocities after the first impact, those after the k-th are ``(-1)^(k-1) m + e^(k-1) u``:
    the simultaneous law does not pass the speed on, and the pendulums end up swinging together.
    With spacing and e = 1 the impacts come one by one and pass it on. With spacing and e < 1 they
    are followed one by one; raises ``ModelError`` if they accumulate.

    Parameters
    ----------
    count
        The pendulums, >= 2.
    e
        Restitution, in [0, 1].
    spacing
        Between pendulums that hang [m], >= 0.
    raised
        How many are raised, at least one and not all.
    amplitude
        How far they are raised [m], > 0.
    frequency
        w of each pendulum [rad/s], > 0.
    t1
        End [s].  None: 2.1 periods.
    """
    if not (count >= 2 and 1 <= raised < count) or spacing < 0 or min(amplitude, frequency) <= 0:
        raise ModelError(
            "needs count > raised >= 1, spacing >= 0, amplitude > 0, frequency > 0, "
            f"not {count}, {raised}, {spacing}, {amplitude}, {frequency}"
        )
    w, period = frequency, 2 * math.pi / frequency
    system = System(force=Pendulums(w), gap=CradleGaps(spacing), restitution=e)
    q0 = np.where(np.arange(count) < raised, -float(amplitude), 0.0)
    t1 = 2.1 * period if t1 is None else float(t1)
    known = {"name": "newtons_cradle", "system": system, "q0": q0, "v0": np.zeros(count), "t1": t1}
    known["looks"] = drawn.cradle(amplitude, spacing)
    with exact_motion_of(**known):
        starts, q, v = _impacts(q0, e, spacing, w, t1)

    def flow(s, k):
        c, n = np.cos(w * s)[..., None], np.sin(w * s)[..., None]
        return q[k] * c + v[k] / w * n, v[k] * c - q[k] * w * n

    return Problem(
        **known,
        t0=0.0,
        exact=piecewise(starts, flow, t1),
        source="closed form between impacts, whose times are closed forms too",
        impact_times=starts[1:],
    )


def _impacts(q, e, spacing, w, t1):
    """Times (m,) of the impacts before t1, and ``q (m, N)``, ``v (m, N)`` right after each."""
    from scipy.optimize import isotonic_regression

    touch = 1e-13 * (np.ptp(q) + spacing)
    t, v, quick = 0.0, np.zeros_like(q), 0
    pieces = [(t, q, v)]
    while True:
        wait = _next_impact(np.diff(q), np.diff(v), spacing, w, touch)
        if t + wait > t1:
            return tuple(np.array(part) for part in zip(*pieces, strict=True))
        quick = quick + 1 if w * wait < _ACCUMULATION else 0
        if quick >= _IN_A_ROW:
            raise ModelError(f"impacts accumulate near {t}: take t1 below it, not {t1}")
        c, n = math.cos(w * wait), math.sin(w * wait)
        t, q, v = t + wait, q * c + v / w * n, v * c - q * w * n
        apart = np.flatnonzero(np.diff(q) + spacing > touch) + 1
        runs = np.split(v, apart)
        v = np.concatenate([(1 + e) * isotonic_regression(u).x - e * u for u in runs])
        pieces.append((t, q, v))


def _next_impact(dq, dv, spacing, w, touch):
    """The first s > 0 at which (2) has a gap closing; ``dq``, ``dv (N-1,)`` at s = 0."""
    size, phase = np.hypot(dq, dv / w), np.arctan2(dv / w, dq)
    meets = size > np.maximum(spacing, touch)
    turn = phase[meets] + np.arccos(-spacing / size[meets])
    # a gap that opens now closes again within a period; rounding must not put it at once
    turn = np.where(turn > 1e-12, turn, turn + 2 * math.pi)
    return np.min(turn, initial=math.inf) / w


@dataclass(frozen=True)
class Pendulums:
    frequency: float

    def __call__(self, t, q, v):
        return -(self.frequency**2) * q


@dataclass(frozen=True)
class CradleGaps:
    spacing: float

    def __call__(self, t, q):
        return self.spacing + q[1:] - q[:-1]
