"""Lyapunov exponents, with the jump of tangent vectors at impacts."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from carom.arguments import suggesting
from carom.errors import StudyError
from carom.programs import compiled
from carom.run.loop import Run, begin
from carom.schemes.event_driven import EventDriven
from carom.schemes.scheme import State
from carom.shown import Shown, counted
from carom.status import Status, text_of
from carom.study.flight import check_smooth
from carom.worlds.system.system import System


@dataclass(frozen=True, eq=False, repr=False)
class Exponents(Shown):
    """Mean growth rates of tangent vectors along a motion."""

    exponents: np.ndarray  # (m,) [1/time], largest first
    growth: np.ndarray  # (n, m) logarithm of the growth in each interval
    interval: float  # length of each [s]
    impact_rate: float  # impacts per time [1/s]

    @property
    def sum(self) -> float:
        """Rate of change of volumes, where m = 2d."""
        return float(np.sum(self.exponents))

    @property
    def history(self) -> np.ndarray:
        """(n, m) the exponents as they were after each interval."""
        time = self.interval * np.arange(1, len(self.growth) + 1)
        return np.cumsum(self.growth, axis=0) / time[:, None]

    def __str__(self) -> str:
        values = ", ".join(f"{x:.6g}" for x in self.exponents)
        text = (
            f"Lyapunov exponents {values} after {counted(len(self.growth), 'interval')} of "
            f"{self.interval:.6g}\n"
            f"  sum                     {self.sum:.6g}\n"
            f"  impacts per time        {self.impact_rate:.6g}"
        )
        rests = int(np.sum(np.any(np.isneginf(self.growth), axis=1)))
        if rests:
            text += (
                f"\n  comes to rest on a gap in {counted(rests, 'interval')}, "
                "and forgets what was before"
            )
        return text

    def plot(self, ax=None):
        """The history, to see whether it has settled; on ``ax``, or new Axes."""
        from carom.study.pictures import plot_exponents

        return plot_exponents(self, ax)


@suggesting
def lyapunov(
    system: System,
    q0,
    v0,
    *,
    interval: float,
    t0: float = 0.0,
    settle: int = 100,
    intervals: int = 1000,
    count: int | None = None,
    scheme: EventDriven | None = None,
) -> Exponents:
    """Lyapunov exponents of the motion from (q0, v0), after ``settle`` intervals.

    Over each interval the orthonormal tangent vectors Q (2d, m) are moved with the motion, through
    the saltation at its impacts, and made orthonormal again:

        dx(t + interval)/dx(t) Q = Q' R,      exponent_i = mean of ln R_ii / interval

    ``interval`` is best the period of the forcing; a fixed time between 0.1 and a few times the
    shortest characteristic time of the system does too.
    For one degree of freedom with damping 2 z v and restitution r, the sum of both exponents is
    -2 z + 2 nu ln r, with nu the impact rate: a check of any result.

    A motion that comes to rest on a gap forgets how fast it came, and from where: R_ii = 0, and the
    exponents of those directions are -inf.  ``growth`` has the intervals in which it did not.

    Parameters
    ----------
    system
        A System without friction.
    q0, v0
        (d,) position and velocity at t0.
    interval
        From one orthonormalisation to the next [s].
    t0
        Start [s].
    settle, intervals
        How many before anything is kept, and how many after.
    count
        m, at most 2d.  None: 2d.
    scheme
        ``carom.EventDriven`` with its options.  None: with its own.
    """
    check_smooth(system, "lyapunov", joints=False)
    q0, v0 = jnp.atleast_1d(jnp.asarray(q0, float)), jnp.atleast_1d(jnp.asarray(v0, float))
    d2 = 2 * q0.shape[0]
    m = d2 if count is None else int(count)
    if not (interval > 0.0 and intervals >= 1 and settle >= 0 and 1 <= m <= d2):
        raise StudyError(
            f"interval {interval}, settle {settle}, intervals {intervals}, count {count}: they "
            f"must be positive, settle may be 0, and count is at most {d2}"
        )
    chosen = (EventDriven() if scheme is None else scheme).over(interval)
    run = Run(system, chosen, jnp.asarray(float(t0)), jnp.asarray(float(interval)))
    grown, impacts, status = _grown(run, q0, v0, jnp.eye(d2, m), int(settle), int(intervals))
    grown, impacts = np.asarray(grown), np.asarray(impacts)
    _check(grown, status)
    return Exponents(
        exponents=grown.mean(axis=0) / interval,
        growth=grown,
        interval=float(interval),
        impact_rate=float(impacts.sum() / (intervals * interval)),
    )


@compiled
def _grown(run: Run, q0, v0, Q, settle: int, intervals: int):
    """Logarithms of R_ii (n, m) and impacts (n,) of each interval, and the status."""
    start = begin(run, q0, v0).carry
    d = q0.shape[0]

    def moved(k, state, status, Q):
        def over(x):
            now = State(run.time(k), x[:d], x[d:], state.memory)
            new, report = run.scheme.step(run.system, now, run.dt)
            return jnp.concatenate([new.q, new.v]), (new.memory, report.struck, report.status)

        x = jnp.concatenate([state.q, state.v])
        column = lambda c: jax.jvp(over, (x,), (c,), has_aux=True)  # noqa: E731
        x, Q, (memory, struck, found) = jax.vmap(column, in_axes=1, out_axes=(None, 1, None))(Q)
        Q, R = jnp.linalg.qr(Q)
        new = State(run.time(k + 1), x[:d], x[d:], memory)
        growth = jnp.log(jnp.abs(jnp.diagonal(R)))
        status = Status.where(status == Status.ok, found, status)
        return new, status, Q, growth, jnp.sum(struck)

    def turn(k, loop):
        state, status, Q, growth, impacts = loop
        state, status, Q, grown, struck = moved(k, state, status, Q)
        row = jnp.maximum(k - settle, 0)  # the rows of the settling are written over
        return state, status, Q, growth.at[row].set(grown), impacts.at[row].set(struck)

    loop = (start.state, start.status, Q, jnp.zeros((intervals, Q.shape[1])))
    loop = (*loop, jnp.zeros(intervals, int))
    _, status, _, growth, impacts = jax.lax.fori_loop(0, settle + intervals, turn, loop)
    return growth, impacts, status


def _check(growth, status):
    if not bool(status == Status.ok):
        raise StudyError(f"the motion could not be followed: {text_of(status)}")
    if np.any(np.isnan(growth)):
        first = int(np.argmax(np.any(np.isnan(growth), axis=1)))
        raise StudyError(
            f"in interval {first} after settling the motion has no derivative: it grazes a gap or "
            "strikes several at once. Start elsewhere, or take fewer intervals"
        )
