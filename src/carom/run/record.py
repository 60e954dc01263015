"""What of a run is kept."""

import copy
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from carom.errors import RecordError, TimeError


class Record:
    """What ``solve`` keeps, and where.

    Record()                 every step, and the table of impacts
    Record(every=k)          every k-th step, the first and the last
    Record(times=ts)         chosen times: q linear, v constant between steps, as in the papers
    Record(impacts=True)     the table of impacts, the first and the last state
    Record(final=True)       the last state only

    ``impacts=True`` may be added to ``every``; it costs a look at every step.

    With a ``path`` (first argument) the run is written as it goes, a System to netCDF, which xarray
    opens, Spheres to VTKHDF, which ParaView opens; memory does not grow with the records.  With
    ``resume=True`` a run that was stopped in any way goes on from where its file stands.
    """

    def __init__(
        self,
        path: str | os.PathLike | None = None,
        *,
        every: int | None = None,
        times=None,
        impacts: bool | None = None,
        final: bool = False,
        resume: bool = False,
    ):
        chosen = [every is not None, times is not None, final]
        if sum(chosen) > 1:
            raise RecordError(
                f"Record was given every={every}, times={times}, final={final}; choose one of them"
            )
        if impacts and (final or times is not None):
            raise RecordError("impacts=True goes with every=k or alone, not with times or final")
        if every is not None and (int(every) != every or every < 1):
            raise RecordError(f"every is {every}; it must be a whole number of steps, 1 or more")
        if not any(chosen) and not impacts:
            every = 1
        self.path = path
        self.every = None if every is None else int(every)
        self.times = None if times is None else np.ravel(np.asarray(times, float))
        self.final, self.resume = bool(final), bool(resume)
        self.description = ""  # of the run, for the file: how the command would make it again
        self.impacts = every == 1 if impacts is None else bool(impacts)
        self.with_impacts = bool(impacts)  # whether they were asked for

    def without_impacts(self) -> "Record":
        """The same, without the table of impacts."""
        kept = copy.copy(self)
        kept.impacts = False
        return kept

    def plan(self, t0: float, dt: float, steps: int) -> "Plan":
        """The steps to keep, for a run of ``steps`` steps."""
        if self.times is not None:
            return _plan_times(self.times, t0, dt, steps)
        if self.every is not None:
            return Plan(Every(self.every, steps), None)
        return Plan(np.array([steps] if self.final else [0, steps]), None)


@dataclass(frozen=True)
class Every:
    """The steps 0, every, 2 every, ... and the last: what an array would be, without its memory."""

    every: int
    steps: int

    def __len__(self) -> int:
        return 1 + -(-self.steps // self.every)

    def __getitem__(self, which) -> Any:
        if isinstance(which, slice):
            return np.minimum(np.arange(*which.indices(len(self))) * self.every, self.steps)
        return min(range(len(self))[which] * self.every, self.steps)

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        return self[:].astype(int if dtype is None else dtype)

    def searchsorted(self, step: int, side: str = "right") -> int:
        """How many are at most ``step``."""
        return len(self) if step >= self.steps else max(0, step // self.every + 1)


@dataclass(frozen=True)
class Plan:
    """Steps to keep, and how far into the step that follows each record lies."""

    marks: Any  # (n,) int, increasing; equal where two chosen times share a step
    fractions: np.ndarray | None  # (n,) in [0, 1), or None for records on the steps themselves


def _plan_times(times, t0, dt, steps):
    position = (times - t0) / dt
    outside = ~((position >= -1e-9) & (position <= steps + 1e-9))
    if times.size == 0 or np.any(np.diff(times) <= 0) or np.any(outside):
        raise TimeError(
            f"record times must increase within [{t0:g}, {t0 + steps * dt:g}]; got {times}"
        )
    nearest = np.rint(position)
    position = np.where(np.abs(position - nearest) < 1e-9, nearest, position)
    marks = np.clip(np.floor(position), 0, steps).astype(int)
    return Plan(marks, np.clip(position - marks, 0.0, 1.0))
