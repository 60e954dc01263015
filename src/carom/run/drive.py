"""The driver: any run, from its start or from where its file stands, to its end.

A run in progress is a course (contracts.Course): compiled.py has that of worlds of JAX arrays,
stepped.py that of NumPy's.  It hands out pieces, a store keeps them: memory, or a file format
(contracts.Store).  What is kept does not depend on where the pieces end.
"""

import contextlib
import gc
import signal
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np

from carom.io.formats import format_of
from carom.io.recording import Piece
from carom.results.impacts import COLUMNS
from carom.run.progress import bar


@dataclass(frozen=True)
class Clock:
    """The times of a run: the only place that knows dt."""

    t0: float
    first: int  # steps since t0 where it starts: a run that goes on
    steps: int  # from there
    dt: float

    def time(self, at) -> Any:
        """Of so many steps of this run: not a sum of dt, which drifts."""
        return self.t0 + (self.first + at) * self.dt

    @property
    def start(self) -> float:
        """Where it starts."""
        return self.time(0)


def drive(course, record, progress, throw: bool) -> Any:
    """Move a run to its end; the solution that its store makes."""
    with (
        course.running(),
        _bar(progress, course.steps) as show,
        contextlib.closing(_begun(course, record)) as store,
        _interruptible() as stop_if_asked,
    ):
        while not course.ended:
            store.add(course.advance(), course)
            stop_if_asked()
            show(course)
        store.add(course.rest(), course)
        solution = store.solution(course)
    if throw and not solution.ok:
        raise course.failure(solution, record)
    return solution


def _begun(course, record) -> Any:
    """Where the records go: memory, a new file, or the file of a run that was stopped."""
    store: Any = None
    if record.path is not None:
        kind = format_of(record.path, course.world)
        if record.resume:
            store = kind.resume(record.path, course)
        if store is not None:
            return store
    course.start()
    store = Kept(course)
    if record.path is not None:
        store = kind.start(record.path, course, record.description)
    try:
        store.add(course.first_records(), course)
        return store
    except BaseException:
        store.close()
        raise


class Kept:
    """Keeps the records of a run in memory: what a format does in a file."""

    def __init__(self, course):
        self.total, self.count = course.total, 0
        self.at, self.rows, self.table = np.empty(course.total), {}, []

    def add(self, piece: Piece, course) -> None:
        """One more piece."""
        end = self.count + len(piece.at)
        if end > self.total:  # a run that was cut off has its last state besides
            self.at = np.append(self.at, np.empty(end - self.total))
        self.at[self.count : end] = piece.at
        for name, values in piece.rows.items():
            if isinstance(values, list):
                self.rows.setdefault(name, []).extend(values)
                continue
            if name not in self.rows:
                self.rows[name] = np.empty((len(self.at), *values.shape[1:]), values.dtype)
            if end > len(self.rows[name]):
                more = np.empty((end - len(self.rows[name]), *values.shape[1:]), values.dtype)
                self.rows[name] = np.concatenate([self.rows[name], more])
            self.rows[name][self.count : end] = values
        self.count = end
        if len(piece.impacts):
            self.table.append(piece.impacts)

    def solution(self, course) -> Any:
        """What was kept."""
        rows = {name: values[: self.count] for name, values in self.rows.items()}
        impacts = np.concatenate([np.zeros(0, COLUMNS), *self.table])
        return course.solution(self.at[: self.count], rows, impacts)

    def close(self) -> None:
        """Nothing is open."""


@contextlib.contextmanager
def _bar(wanted, steps: int):
    """What is called with the course after each piece: a bar, nothing, or what is given."""
    if not wanted or callable(wanted):
        yield wanted or (lambda course: None)
        return
    with bar("steps", steps) as update:
        yield lambda course: update(course.step)


@contextlib.contextmanager
def _interruptible():
    """Ctrl-C ends a run wherever it arrives; what is given does so after a piece.

    From inside a compiled kernel it comes as a SystemError, and inside a callback of the garbage
    collector, of which JAX has one, Python would drop it, and print that it does.
    """
    asked, usual = [], signal.default_int_handler

    def note(number, frame):
        asked.append(number)
        if not any(frame.f_code is getattr(c, "__code__", None) for c in gc.callbacks):
            usual(number, frame)

    def stop_if_asked():
        if asked:
            raise KeyboardInterrupt

    main = threading.current_thread() is threading.main_thread()
    ours = main and signal.getsignal(signal.SIGINT) is usual
    if ours:
        signal.signal(signal.SIGINT, note)
    try:
        yield stop_if_asked
    except SystemError as problem:
        if isinstance(problem.__cause__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        raise
    finally:
        if ours:
            signal.signal(signal.SIGINT, usual)
