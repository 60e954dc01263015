"""What every model returns: a system, its data and its exact motion."""

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from carom.errors import CaromError, TimeError
from carom.shown import Shown, counted
from carom.worlds.system.system import System

# An infinite sequence of impacts is cut where the speed, relative to the first one, is below
# rounding: what follows is the limit motion (rest or sliding).
ZENO_CUT = 1e-18
# ... and `Problem.impact_times` lists the impacts above this relative speed only.
ZENO_LISTED = 1e-6


class ModelError(CaromError, ValueError):
    """The parameters of a model describe no motion, or one whose exact form is not known.

    ``known`` has what there is of the Problem all the same, its system for one: it can be solved
    from any start.
    """

    known: dict | None = None


@contextmanager
def exact_motion_of(**known):
    """What is raised inside, where an exact motion is looked for, carries what is known."""
    try:
        yield
    except ModelError as problem:
        problem.known = known
        raise


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Problem(Shown):
    """A system with initial data on ``[t0, t1]`` and its exact motion.

    ``exact(t)`` takes times ``t (n,)`` in ``[t0, t1]`` and returns ``q (n, d)``, ``v (n, d)``,
    where v is the right limit; it raises ``TimeError`` for a time outside.
    """

    name: str  # of the model
    system: System  # that moves
    q0: np.ndarray  # (d,) position at t0
    v0: np.ndarray  # (d,) velocity at t0
    t0: float  # start [s]
    t1: float  # end [s]
    exact: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
    source: str  # where the exact motion comes from, in one line
    accumulation: float | None = None  # where infinitely many impacts accumulate, even past t1
    impact_times: np.ndarray | None = None  # (k,) in [t0, t1]; the first ones if they accumulate
    reaction: Callable[[np.ndarray], np.ndarray] | None = None  # t (n,) to the gaps' forces (n, p)
    period: float | None = None  # of the forcing
    looks: Callable | None = None  # (t, q) to shapes, carom.looks
    frequency: float | None = None  # highest natural one: an explicit scheme needs dt < 2/frequency

    def __str__(self) -> str:
        impacts = "accumulating" if self.accumulation is not None else None
        if impacts is None and self.impact_times is not None:
            impacts = len(self.impact_times)
        size = counted(len(self.q0), "coordinate")
        return (
            f"{self.name}, {size}, t = {self.t0:g} to {self.t1:.6g}\n"
            f"  system                  {self.system}\n"
            f"  impacts                 {'not listed' if impacts is None else impacts}\n"
            f"  exact motion            {self.source}"
        )

    def __post_init__(self):
        if not self.t1 > self.t0:
            raise TimeError(f"t1 must be above t0 = {self.t0}, not {self.t1}")


def piecewise(starts, flow, t1):
    """The motion ``exact(t)`` made of pieces: ``flow(s, k)`` at the time s after ``starts[k]``.

    ``starts (m,)`` is sorted. Where several pieces start at one time the last is taken, so at an
    impact the motion is the one that leaves.
    """

    def motion(t):
        k = np.maximum(np.searchsorted(starts, t, side="right") - 1, 0)
        return flow(t - starts[k], k)

    return within(starts[0], t1, motion)


def within(t0, t1, motion):
    """The function ``motion`` of times t (n,), which refuses times outside [t0, t1]."""
    slack = 1e-9 * (t1 - t0)  # a grid built by adding steps may end this far beyond t1

    def exact(t):
        t = np.asarray(t, dtype=float)
        if not np.all((t >= t0 - slack) & (t <= t1 + slack)):
            raise TimeError(
                f"the exact motion is known for {t0} <= t <= {t1}; "
                "build the problem with a larger t1"
            )
        return motion(t)

    return exact


def straight(starts, q, v, t1):
    """Free flight at constant velocity from ``q (m, d)``, ``v (m, d)`` at ``starts (m,)``."""
    return piecewise(starts, lambda s, k: (q[k] + s[..., None] * v[k], v[k]), t1)


def column(values):
    """One degree of freedom: ``(n,)`` to ``(n, 1)``."""
    return values[..., None]
