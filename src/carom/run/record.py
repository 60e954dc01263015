"""What of a run is kept."""

import copy
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from carom.arguments import suggesting
from carom.errors import KindError, RecordError, TimeError
from carom.shown import Shown, call_text


class Record(Shown):
    """What ``solve`` keeps, and where.

        Record()                 every step, and the table of impacts
        Record(every=k)          every k-th step, the first and the last
        Record(times=ts)         chosen times: q linear, v constant between steps, as in the
                                 papers; under EventDriven the motion at these times
        Record(impacts=True)     the table of impacts, the first and the last state
        Record(final=True)       the last state only

    ``impacts=True`` may be added to ``every``; it costs a look at every step.

    With a ``path`` (first argument) the run is written as it goes, a System to netCDF, which xarray
    opens, Spheres to VTKHDF, which ParaView opens; memory does not grow with the records.  With
    ``resume=True`` a run that was stopped in any way goes on from where its file stands.  A file
    that is there is written over with ``overwrite=True`` only.

    Parameters
    ----------
    path
        A file: ``.nc`` of a System, ``.vtkhdf`` of Spheres.  None: memory alone.
    every
        Steps from record to record.
    times
        (n,) [s], increasing, within the run.
    impacts
        True: the table of impacts is kept.  None: where every step is.
    final
        True: the last state alone.
    resume
        True: go on with the file.
    overwrite
        True: write over the file.

    Examples
    --------
    >>> import carom
    >>> ball = carom.models.bouncing_ball()
    >>> record = carom.Record("ball.nc", every=10)
    >>> sol = carom.solve(
    ...     ball.system, carom.Moreau(), ball.q0, ball.v0, t1=1.0, dt=1e-3, record=record
    ... )
    >>> sol.t.shape
    (101,)
    """

    @suggesting
    def __init__(
        self,
        path: str | os.PathLike | None = None,
        *,
        every: int | None = None,
        times: Any = None,
        impacts: bool | None = None,
        final: bool = False,
        resume: bool = False,
        overwrite: bool = False,
    ) -> None:
        chosen = [every is not None, times is not None, final]
        if sum(chosen) > 1:
            raise RecordError(
                f"Record was given every={every}, times={times}, final={final}; choose one of them"
            )
        if impacts and (final or times is not None):
            raise RecordError("impacts=True goes with every=k or alone, not with times or final")
        if every is not None and not _whole(every):
            raise RecordError(f"every is {every!r}; it must be a whole number of steps, 1 or more")
        if resume and overwrite:
            raise RecordError(
                "resume=True goes on with a file, overwrite=True begins anew: not both"
            )
        if path is not None and not isinstance(path, str | os.PathLike):
            raise KindError(f"path is {path!r}; it must be the name of a file")
        if not any(chosen) and not impacts:
            every = 1
        self.path = path
        self.every = None if every is None else int(every)
        self.times = None if times is None else _times(times)
        self.final, self.resume, self.overwrite = bool(final), bool(resume), bool(overwrite)
        self.description = ""  # of the run, for the file: how the command would make it again
        self.impacts = every == 1 if impacts is None else bool(impacts)
        self.with_impacts = bool(impacts)  # whether they were asked for

    def __str__(self) -> str:
        path = [] if self.path is None else [repr(os.fspath(self.path))]
        times = None if self.times is None else f"{len(self.times)} of them"
        options = {
            "every": None if self.every == 1 else self.every,
            "times": times,
            "impacts": self.with_impacts or None,
            "final": self.final or None,
            "resume": self.resume or None,
            "overwrite": self.overwrite or None,
        }
        return call_text("Record", *path, **options)

    def __repr__(self) -> str:
        return str(self)

    def check_path(self) -> None:
        """Refuse a folder that cannot be written to, and a file that would be lost."""
        if self.path is None:
            return
        name = os.fspath(self.path)
        folder = os.path.dirname(os.path.abspath(name))
        if not os.access(folder, os.W_OK):
            raise RecordError(
                f"cannot write {name!r}: the folder {folder!r} does not exist or is read-only. "
                "Make it first, or choose another path"
            )
        if os.path.lexists(name) and not (self.resume or self.overwrite):
            raise RecordError(
                f"{name!r} is there already. Go on with it, if it is a run that was stopped: "
                "Record(path, resume=True) or `carom run --resume FILE`; write over it: "
                "Record(path, overwrite=True) or `carom run --force`; or choose another path"
            )

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


def _whole(value) -> bool:
    try:
        return int(value) == value and value >= 1
    except (TypeError, ValueError, OverflowError):
        return False


def _times(values) -> np.ndarray:
    try:
        return np.ravel(np.asarray(values, float))
    except (TypeError, ValueError, OverflowError):
        raise TimeError(f"record times must be numbers; got {values!r}") from None


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
