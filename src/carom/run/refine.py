"""How large the error is: the same run at smaller and smaller dt."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from carom.arguments import suggesting
from carom.errors import CaromError
from carom.run.checks import checked_times
from carom.run.record import Record
from carom.run.solve import solve
from carom.schemes.scheme import Scheme
from carom.shown import Shown, counted, table_html

_RECENT = 3  # differences that an estimate looks at, for one alone may be small by luck
_SAFETY = 2.0  # with this, it held in 98 of 100 refinements (tests/run/test_refine.py prints them)
_CONVERGES = 0.5  # the least observed order that is called convergence
_ROUNDING = 1e-11  # differences below this, relative to |q|, say nothing about an order


class RefineError(CaromError, ValueError):
    """What is asked of refine makes no sense."""


@suggesting
def refine(
    system: Any,
    scheme: Scheme,
    q0=None,
    v0=None,
    *,
    t0: float = 0.0,
    t1: float,
    dt: float,
    times=None,
    error: float | None = None,
    levels: int = 6,
) -> "Refinement":
    """Run at about dt, dt/2, dt/4, ... and estimate the error of q from the differences.

        d_k(t)      = max over coordinates of |q_k(t) - q_{k-1}(t)|,   d_k = max over times     (1)
        order       = median over pairs of levels of the slope of log d_k against log dt_k      (2)
        estimate(t) = 2 max over the last three k of  d_k(t) dt / (dt_{k-1} - dt_k)             (3)

    with dt that of the finest run.  It stops as soon as the estimate is below ``error`` at all
    ``times``, or after ``levels`` runs; at least three are made.

    (3) is Richardson's estimate for order 1, that of the time-stepping schemes through impacts,
    made safer; in smooth motion it is too large.  The error of such a scheme is c dt, with c
    depending on where in a step the impacts fall, so that two runs may agree by luck.  Hence prime
    numbers of steps, which do not meet the impacts in the same way twice, and in (3) the largest of
    three, doubled.  It is an estimate, not a bound: on the models of carom the error was below it
    in 98 cases of 100, and at most twice it.  It means nothing where the solution is not unique or
    does not depend continuously on its data (several impacts at once, chaos over a long time);
    as a rule ``converges`` is then False.

    Parameters
    ----------
    system
        A System, or Spheres.
    scheme
        How to step.
    q0, v0
        (d,) position and velocity at t0, of a System.
    t0, t1
        Start and end [s].
    dt
        About the step of the first run [s].
    times
        (n,) at which q is compared [s].  None: the ends of 32 equal intervals.
    error
        The estimate that is enough, in the units of q.  None: all levels are run.
    levels
        The most runs, 3 or more.

    Examples
    --------
    >>> import carom
    >>> ball = carom.models.bouncing_ball(t1=1.0)
    >>> runs = carom.refine(
    ...     ball.system, carom.Moreau(), ball.q0, ball.v0, t1=1.0, dt=1e-2, levels=4
    ... )
    >>> runs.converges, len(runs.dt)
    (True, 4)
    """
    t0, first, _ = checked_times(t0, t1, dt)
    times = np.linspace(t0, t1, 33)[1:] if times is None else np.ravel(np.asarray(times, float))
    if levels < 3:
        raise RefineError(f"levels is {levels}; an order needs 3 runs or more")
    if error is not None and not error > 0.0:
        raise RefineError(f"error is {error}; it must be positive, or None to run all levels")
    runs = []
    while len(runs) < levels and not (len(runs) >= 3 and _refinement(runs, error).reached):
        h = (t1 - t0) / _prime_from(first * 2 ** len(runs))
        record = Record(times=times)
        runs.append(solve(system, scheme, q0, v0, t0=t0, t1=t1, dt=h, record=record))
    return _refinement(runs, error)


@dataclass(frozen=True, repr=False)
class Refinement(Shown):
    """Runs of one motion at levels of dt; print it for the table."""

    t: np.ndarray  # (n,) times of comparison
    dt: np.ndarray  # (levels,)
    q: np.ndarray  # (levels, n, d), of spheres (levels, n, N, d)
    differences: np.ndarray  # (levels - 1,) d_k of (1)
    order: float  # (2); NaN where the differences are rounding
    estimate: np.ndarray  # (n,) of the error of q[-1], (3)
    estimates: np.ndarray  # (levels,) the largest of (3), had the level been the last; NaN before
    error: float | None  # what was wanted
    solution: Any  # the finest, recorded at the times t

    @property
    def converges(self) -> bool:
        """Whether the differences shrink as they should."""
        return not self.order < _CONVERGES

    @property
    def reached(self) -> bool | None:
        """Whether the wanted error is reached; None if none was wanted."""
        if self.error is None:
            return None
        return self.converges and bool(self.estimates[-1] <= self.error)

    def __str__(self) -> str:
        width = (12, 12, 6, 12)
        rows = [
            "  ".join(f"{cell:>{w}}" for cell, w in zip(row, width, strict=True)).rstrip()
            for row in self._table()
        ]
        return "\n".join([*rows, self._verdict()])

    def _table(self):
        """The names of the columns, then the rows, as text."""
        yield "dt", "difference", "order", "estimate"
        d = np.concatenate([[np.nan], self.differences])
        order = np.concatenate([[np.nan, np.nan], _slopes(self.dt[1:], self.differences)])
        for row in zip(self.dt, d, order, self.estimates, strict=True):
            h, *cells = row
            yield f"{h:.6g}", *("" if math.isnan(x) else f"{x:.3g}" for x in cells)

    def __repr__(self) -> str:
        return f"<Refinement: {counted(len(self.dt), 'level')}, {self._verdict()}>"

    def _repr_html_(self) -> str:
        head, *rows = self._table()
        return table_html(self._verdict(), head, rows)

    def _verdict(self):
        norm = "sup norm of q over times and coordinates"
        if not self.converges:
            return (
                f"no convergence (order {self.order:.2g}): the estimate means nothing; take a "
                "smaller dt or a shorter time, and see whether the motion is unique"
            )
        order = "at rounding" if math.isnan(self.order) else f"order {self.order:.2f}"
        text = f"error about {self.estimates[-1]:.2g}, {order} ({norm})"
        if self.reached is None:
            return text
        wanted = f"wanted {self.error:.2g}"
        more = math.ceil(math.log2(max(self.estimates[-1] / (self.error or 1.0), 1.0)))
        return f"{text}; {wanted}: " + (
            "reached" if self.reached else f"not reached, some {more} levels more would do"
        )

    def plot(self, axes=None):
        """Differences and estimates against dt, with a line of slope 1; on ``axes`` or new ones."""
        import matplotlib.pyplot as plt

        if axes is None:
            _, axes = plt.subplots(layout="constrained")
        axes.loglog(self.dt[1:], self.differences, "o-", label="difference to the run before")
        axes.loglog(self.dt, self.estimates, "s-", label="estimated error")
        scale = self.differences[-1] / self.dt[-1]
        axes.loglog(self.dt, scale * self.dt, "k:", linewidth=1, label="slope 1")
        axes.set(xlabel="dt", ylabel="sup norm of q")
        axes.legend()
        return axes


def _refinement(runs, error) -> Refinement:
    times, q = np.asarray(runs[-1].t), np.stack([np.asarray(run.q) for run in runs])
    dt = np.array([float(run.dt) for run in runs])
    apart = np.max(np.abs(np.diff(q, axis=0)), axis=tuple(range(2, q.ndim)))  # (levels - 1, n)
    estimates = [_estimate(apart[:k], dt[: k + 1]) for k in range(len(runs))]
    d = np.max(apart, axis=1)
    return Refinement(
        t=times,
        dt=dt,
        q=q,
        differences=d,
        order=_order(dt[1:], d, np.max(np.abs(q))),
        estimate=estimates[-1],
        estimates=np.array([np.max(x) for x in estimates]),
        error=error,
        solution=runs[-1],
    )


def _estimate(apart, dt):
    """(3) from d_k(t), (k, n); NaN from less than two differences."""
    if len(apart) < 2:
        return np.full(apart.shape[1], np.nan)
    scaled = apart / (dt[:-1] - dt[1:])[:, None]
    return _SAFETY * dt[-1] * np.max(scaled[-_RECENT:], axis=0)


def _order(dt, d, size):
    """Median slope over all pairs (Theil and Sen)."""
    if np.max(d) <= _ROUNDING * size:
        return math.nan
    i, j = np.triu_indices(len(d), 1)
    log_d = np.log(np.maximum(d, 1e-300))
    return float(np.median((log_d[i] - log_d[j]) / np.log(dt[i] / dt[j])))


def _slopes(dt, d):
    """From each difference to the next; NaN where one is zero."""
    log_d = np.log(np.where(d > 0.0, d, np.nan))
    return np.diff(log_d) / np.diff(np.log(dt))


def _prime_from(n: int) -> int:
    """The first prime that is n or more."""
    while n < 2 or any(n % k == 0 for k in range(2, math.isqrt(n) + 1)):
        n += 1
    return n
