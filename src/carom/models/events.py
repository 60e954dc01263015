"""When a gap known in closed form is next zero."""

import math
from typing import Any

import numpy as np

_CHUNK = 128


def first_zero(gap, *, step, limit, start=None):
    """The first s in (0, limit] at which ``gap(s)`` falls through zero, to rounding; inf if none.

    ``gap`` takes s (n,) and is smooth on the scale of ``step``; it may start from zero, and is
    sampled from ``start`` on, at first that finely. Minima between two samples are looked into.
    """
    s = np.concatenate([[0.0], _growing(step if start is None else min(start, step), step)])
    while s[0] < limit:
        g = gap(s)
        if s[0] == 0.0:
            g[0] = math.inf  # a zero that the gap leaves does not count
        found = _bracket(gap, s, g)
        if found:
            root = _root(gap, *found)
            return root if root <= limit else math.inf
        s = s[-2] + (s[-1] - s[-2]) * np.arange(_CHUNK)  # two samples twice, for the minima
    return math.inf


def _growing(first, step):
    """Samples from ``first`` on, whose spacing grows to ``step``."""
    count = max(0, math.ceil(math.log(step / first) / math.log(1.25)))
    spacing = np.concatenate([first * 1.25 ** np.arange(count), np.full(_CHUNK, step)])
    return np.cumsum(spacing)


def _bracket(gap, s, g):
    """Two neighbouring times, the first one open and the second one not; None if there are none."""
    below = np.flatnonzero(g < 0.0)
    end = below[0] if len(below) else len(g)
    left, here, right = g[: end - 1], g[1:end], np.append(g, np.inf)[2 : end + 1]
    dips = (here <= left) & (here <= right) & (here < left + right - 2 * here)
    for i in np.flatnonzero(dips & np.isfinite(right)) + 1:
        lowest = _lowest(gap, s[i - 1], s[i + 1])
        if gap(lowest) < 0.0:
            return s[i - 1], lowest
    return (s[end - 1], s[end]) if len(below) else None


def _root(gap, a, b) -> float:
    from scipy.optimize import brentq

    if gap(a) <= 0.0 or gap(b) >= 0.0:  # asked again, one at a time, it is rounding
        return float(a if gap(a) <= 0.0 else b)
    return float(brentq(gap, a, b, xtol=4e-16 * b, rtol=np.float64(1e-15)))  # type: ignore


def _lowest(gap, a, b) -> float:
    from scipy.optimize import minimize_scalar

    found: Any = minimize_scalar(gap, bounds=(a, b), method="bounded")
    return float(found.x)
