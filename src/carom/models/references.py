"""Computed references, stored with the package, for models without a closed form.

``python -m carom.models.rebuild`` computes them again and says how far that moved them.

The smooth motion is integrated by SciPy's DOP853 (Hairer, Norsett and Wanner 1993), none of whose
code is used by the schemes of carom, in steps so short that its interpolant is as good as its
steps; impacts are roots of the gap along it, followed by the impact law for one gap. The result is
kept as Chebyshev series.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.polynomial.chebyshev import chebpts2, chebvander

from carom.law import alone
from carom.models.problem import ModelError, piecewise

RTOL, ATOL = 1e-13, 1e-14
DEGREE = 19  # of a series
_TAIL = 3e-14  # what its last coefficients may reach, relative to the values
_ACCUMULATION = 1e-6  # impacts this close, relative to t1, are taken for an accumulation

DATA = Path(__file__).parent / "data"


class Equations(Protocol):
    """Free motion and one gap, in NumPy."""

    step: float  # the longest step

    def acceleration(self, t: float, q: np.ndarray, v: np.ndarray) -> np.ndarray: ...

    def gap(self, q: np.ndarray) -> float: ...

    def normal(self, q: np.ndarray) -> np.ndarray:
        """grad gap (d,)"""
        ...

    def mass(self, q: np.ndarray) -> np.ndarray: ...


class Reference(NamedTuple):
    """Series for q and v on consecutive pieces; an impact is where a piece starts."""

    starts: np.ndarray  # (m + 1,) and the end
    series: np.ndarray  # (m, degree + 1, 2 d)
    impact_times: np.ndarray  # (k,)

    def exact(self, t1) -> Callable:
        lengths, d = np.diff(self.starts), self.series.shape[-1] // 2

        def flow(s, k):
            k = np.minimum(k, len(lengths) - 1)
            powers = chebvander(2 * s / lengths[k] - 1, self.series.shape[1] - 1)
            y = np.einsum("...j,...jd->...d", powers.reshape(*s.shape, -1), self.series[k])
            return y[..., :d], y[..., d:]

        return piecewise(self.starts[:-1], flow, t1)


def reference(name: str, parameters: dict, t1: float, compute: Callable) -> tuple[Reference, str]:
    """The stored reference where it has these parameters and reaches t1, or ``compute(t1)``.

    Also where it comes from, in words.
    """
    how = f"SciPy's DOP853 at rtol {RTOL:g} between impacts, roots for their times"
    kept = stored(name, parameters, t1)
    if kept is None:
        return compute(t1), f"{how}; computed on demand"
    return kept, f"{how}; stored, rebuilt by python -m carom.models.rebuild"


def computed(name: str) -> bool:
    """Whether the exact motion of a model is computed, which takes the longer the longer it is."""
    return (DATA / f"{name}.npz").exists()


def stored(name: str, parameters: dict, t1: float) -> Reference | None:
    """The stored reference up to t1, if it has these parameters and reaches t1."""
    path = DATA / f"{name}.npz"
    if not path.exists():
        return None
    with np.load(path) as data:
        if json.loads(str(data["parameters"])) != parameters or data["starts"][-1] < t1:
            return None
        hits = data["impact_times"]
        return Reference(data["starts"], data["series"], hits[hits <= t1])


def follow(equations: Equations, e: float, q0, v0, t1: float) -> Reference:
    """The motion on [0, t1]."""
    from scipy.integrate import solve_ivp

    d = len(q0)

    def rate(t, y):
        return np.concatenate([y[d:], equations.acceleration(t, y[:d], y[d:])])

    def gap(t, y):
        return equations.gap(y[:d])

    gap.terminal, gap.direction = True, -1.0
    t, y = 0.0, np.concatenate([q0, v0]).astype(float)
    impacts, pieces = [], []
    while t < t1:
        run = solve_ivp(
            rate, (t, t1), y, "DOP853", dense_output=True, events=gap,
            rtol=RTOL, atol=ATOL, max_step=equations.step,
        )  # fmt: skip
        end, y = float(run.t[-1]), run.y[:, -1]
        pieces += _pieces(run.sol, t, end)
        if run.status == 1:
            if end - t < _ACCUMULATION * t1:
                raise ModelError(f"impacts accumulate near {end}: take t1 below it, not {t1}")
            impacts.append(end)
            y = np.concatenate([y[:d], _rebound(equations, e, y[:d], y[d:])])
        t = end
    starts, series = zip(*pieces, strict=True)
    return Reference(np.array([*starts, t1]), np.array(series), np.array(impacts))


def _pieces(motion, a, b):
    """(start, series) on parts of [a, b], halved until the last coefficients are rounding."""
    x = chebpts2(DEGREE + 1)
    values = motion(a + (b - a) * (x + 1) / 2).T  # (DEGREE + 1, 2 d)
    series = np.linalg.solve(chebvander(x, DEGREE), values)
    if np.all(np.abs(series[-3:]) <= _TAIL * (1 + np.abs(values).max(axis=0))):
        return [(a, series)]
    middle = (a + b) / 2
    return _pieces(motion, a, middle) + _pieces(motion, middle, b)


def _rebound(equations, e, q, v):
    n = equations.normal(q)
    push = np.linalg.solve(equations.mass(q), n)
    return v + alone(e, n @ v, n @ push)[0] * push
