"""``solve``: the compiled loop, driven in pieces so that nothing is lost and memory stays small."""

import contextlib
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from carom.checks import (
    check_kinds,
    check_record,
    check_restitution,
    check_start,
    checked_times,
    checked_vectors,
    tracing,
)
from carom.derivatives import differentiable, refusing
from carom.errors import RecordError, ShapeError
from carom.impacts import ImpactLog
from carom.loop import (
    Carry,
    Run,
    advance,
    advance_compiled,
    advance_each,
    advance_each_compiled,
    begin,
    begin_compiled,
    full_width,
    split_rows,
    with_force_apart,
)
from carom.record import Plan, Record
from carom.schemes.scheme import Scheme
from carom.solution import Origin, Solution
from carom.spheres.model import Spheres
from carom.spheres.run import solve_spheres
from carom.status import Status, exception_of, is_ok, text_of
from carom.system import System

_PIECE_BYTES = 4 * 2**20  # of the buffer that one compiled piece fills
_PIECE_STEPS = 2**20  # between two words to the outside: about 50 ms for a small system


def solve(
    system: System | Spheres,
    scheme: Scheme,
    q0=None,
    v0=None,
    *,
    t0: float = 0.0,
    t1: float,
    dt: float,
    record: Record | None = None,
    progress: bool | Callable = False,
    throw: bool = True,
) -> Any:
    """Move a system, or spheres, from t0 to t1 through impacts; a Solution or SpheresSolution.

    ``dt`` is shortened so that a whole number of equal steps ends at ``t1``.  A velocity ``v0``
    that points out of the admissible set is an impact at t0: the run starts with what the impact
    law makes of it, and the impulse is in the first row.

    A run that fails raises a CaromError whose ``solution`` holds everything up to that time (and
    saves it, if ``record`` has a path); with ``throw=False`` that solution is returned and its
    ``status`` says what happened.  ``progress`` is True for a bar, or a function that is called now
    and then, with the steps done (a System) or after each step with the run (Spheres).

    Inside ``jax.jit`` or ``jax.vmap`` there is always a status per member and never an exception:
    a member that fails keeps its last good state.
    """
    if isinstance(system, Spheres):
        if q0 is not None or v0 is not None:
            raise ShapeError("Spheres carry their own state: leave q0 and v0 out")
        check_record(scheme, Record() if record is None else record)
        times = checked_times(t0, t1, dt)
        return solve_spheres(system, scheme, *times, record, progress, throw)
    record = Record() if record is None else record
    check_kinds(system, scheme, record)
    if record.resume:
        raise RecordError("resume=True is for Spheres; a System is saved when its run ends")
    t0, steps, dt = checked_times(t0, t1, dt)
    q0, v0 = checked_vectors(q0, v0)
    if not scheme.rigid:
        record = record.without_impacts()
    check_restitution(system, scheme)
    traced, batched = tracing(system, scheme, t0, q0, v0)
    run = Run(
        with_force_apart(system) if batched else system, scheme, jnp.asarray(t0), jnp.asarray(dt)
    )
    plan = record.plan(t0, dt, steps)
    if traced:
        return _solve_traced(run, q0, v0, plan, record)
    return _solve_in_pieces(run, q0, v0, plan, record, steps, progress, throw)


def _solve_traced(run, q0, v0, plan, record) -> Solution:
    """Inside jit or vmap: one piece, everything in arrays."""
    if record.impacts and record.every != 1:
        raise RecordError(
            "inside jit or vmap the table of impacts needs every step: use Record() and then "
            "sol[i].impacts, or leave impacts=True out"
        )
    first, marks = _first_record(plan)

    def moved(q0, v0):
        start = begin(run, q0, v0)
        carry = start.carry.without_impulse() if first else start.carry
        if record.every == 1:
            carry, rows = advance_each(run, carry, jnp.asarray(len(marks)), len(marks))
        else:
            strides = jnp.asarray(np.diff(marks, prepend=0))
            into = None if plan.fractions is None else jnp.asarray(plan.fractions)
            carry, rows = advance(run, carry, strides, into, jnp.asarray(len(marks)), len(marks))
        if first:
            rows = jnp.concatenate([start.row[None, : rows.shape[1]], rows])
        return carry, rows

    right = run.scheme.differentiable or run.system.gap is None
    safe = differentiable(moved) if right else refusing(moved, _no_derivative(run.scheme))
    carry, rows = safe(q0, v0)
    return _solution(run, _record_steps(plan), rows, carry, system=None, impacts=None)


def _no_derivative(scheme) -> str:
    return (
        f"a derivative of solve with {type(scheme).__name__} was asked for, and it would be wrong: "
        "the step in which an impact falls does not move with the parameters. Use EventDriven, "
        "whose derivatives are right at impacts"
    )


def _first_record(plan: Plan) -> tuple[bool, np.ndarray]:
    """Whether the initial data are a record of their own, and the marks left for the loop."""
    first = plan.fractions is None and plan.marks[0] == 0
    return first, plan.marks[1:] if first else plan.marks


def _record_steps(plan: Plan) -> np.ndarray:
    """Where the records lie, in steps from t0."""
    return plan.marks if plan.fractions is None else plan.marks + plan.fractions


def _solve_in_pieces(run, q0, v0, plan, record, steps, progress, throw) -> Solution:
    start = begin_compiled(run, q0, v0)
    check_start(start, float(run.t0), q0)
    first, marks = _first_record(plan)
    carry = start.carry.without_impulse() if first else start.carry
    ticks = _ticks(marks, plan, steps, record)
    kept = _Kept(run, start, first, marks, ticks, record)
    every_step = record.impacts or record.every == 1
    capacity = _capacity(kept.width, len(ticks))
    done = 0
    with _progress_bar(progress, steps) as show:
        while done < len(ticks) and is_ok(carry.status):
            reached = ticks[done - 1] if done else 0
            piece = slice(done, done + _piece_length(ticks[done : done + capacity] - reached))
            count = jnp.asarray(piece.stop - done)
            if every_step:
                carry, rows = advance_each_compiled(run, carry, count, capacity)
            else:
                ahead = _padded(np.diff(ticks[piece], prepend=reached), capacity)
                into = None if plan.fractions is None else _padded(plan.fractions[piece], capacity)
                carry, rows = advance_compiled(run, carry, ahead, into, count, capacity)
            good = int(carry.stats.steps)
            kept.add(ticks[piece], np.asarray(rows)[: piece.stop - done], good)
            done = piece.stop
            show(good)
    solution = kept.solution(plan, carry)
    if record.path is not None:
        solution.save(record.path)
    if throw and not solution.ok:
        raise _failure(solution, run, steps, record)
    return solution


def _ticks(marks, plan, steps, record) -> np.ndarray:
    """The steps at which the compiled loop hands out a row: the marks, and more where needed."""
    if record.impacts:
        return np.arange(1, steps + 1)  # a look at every step
    if plan.fractions is not None or np.max(np.diff(marks, prepend=0)) <= _PIECE_STEPS:
        return marks
    return np.union1d(marks, np.arange(_PIECE_STEPS, steps, _PIECE_STEPS))


def _capacity(width: int, records: int) -> int:
    """Rows in one piece: one of two sizes for a given width, so at most two compilations."""
    full = max(64, 2 ** int(math.log2(_PIECE_BYTES / (8 * width))))
    return min(full, 1024) if records <= 1024 else full


def _piece_length(ahead: np.ndarray) -> int:
    """How many of the next records, so many steps ahead, go into a piece: not too many steps."""
    return max(1, int(np.searchsorted(ahead, _PIECE_STEPS, side="right")))


def _padded(values: np.ndarray, capacity: int) -> Array:
    return jnp.asarray(np.pad(values, (0, capacity - len(values))))


class _Kept:
    """Rows on the host, thinned from the ticks to the marks, and the impacts seen on the way."""

    def __init__(self, run, start, first, marks, ticks, record):
        self.run, self.marks = run, marks
        self.d, self.p = len(start.carry.state.q), len(start.carry.impulse)
        self.all = len(marks) == len(ticks)
        every_step = record.impacts or record.every == 1
        short = 2 * (self.d + self.p)
        self.width = full_width(run.scheme, self.d, self.p) if every_step else short
        self.rows = np.empty((first + len(marks), self.width if self.all else short))
        self.count = int(first)
        row = np.asarray(start.row)
        self.rows[: self.count] = row[: self.rows.shape[1]]
        self.pending = np.zeros(self.p)  # impulse of rows dropped since the last kept one
        self.log = ImpactLog(self.p) if record.impacts else None
        self._look(np.zeros(1, int), row[None])

    def add(self, ticks, rows, good):
        """Rows of the next ticks; those after the last good step do not count."""
        count = np.count_nonzero(ticks <= good)
        last = rows[count:, 2 * self.d + self.p : 2 * (self.d + self.p)].sum(axis=0)
        ticks, rows = ticks[:count], rows[:count]
        self._look(ticks, rows)
        if not self.all:
            rows = self._thinned(rows, np.isin(ticks, self.marks))
        self.pending = self.pending + last  # of good steps that a failure cut off from their record
        self.rows[self.count : self.count + len(rows)] = rows
        self.count += len(rows)

    def _thinned(self, rows, kept):
        impulse = slice(2 * self.d + self.p, 2 * self.d + 2 * self.p)
        total = np.cumsum(np.vstack([self.pending, rows[:, impulse]]), axis=0)
        at_kept = np.vstack([np.zeros(self.p), total[1:][kept]])
        self.pending = total[-1] - at_kept[-1]
        rows = rows[kept, : self.rows.shape[1]]
        rows[:, impulse] = np.diff(at_kept, axis=0)
        return rows

    def _look(self, ticks, rows):
        if self.log is not None:
            _, _, _, impulse, before, after, events = split_rows(rows, self.d, self.p)
            t = float(self.run.t0) + ticks * float(self.run.dt)
            self.log.feed(ticks, t, impulse, before, after, events)

    def solution(self, plan, carry: Carry) -> Solution:
        rows, at = self.rows[: self.count], _record_steps(plan)[: self.count]
        good, state = int(carry.stats.steps), carry.state
        if self.count < len(self.rows) and (not len(at) or at[-1] < good):
            gap = self.run.system.gaps(self.run.time(jnp.asarray(good)), state.q)
            last = np.concatenate([state.q, state.v, gap, self.pending])  # the last good state
            last = np.pad(last, (0, rows.shape[1] - len(last)), constant_values=-1.0)
            rows, at = np.vstack([rows, last]), np.append(at, good)
        impacts = None if self.log is None else self.log.table()
        return _solution(self.run, at, rows, carry, self.run.system, impacts)


def _solution(run, at, rows, carry, system, impacts) -> Solution:
    q, v, gap, impulse, before, after, events = split_rows(
        rows, len(carry.state.q), len(carry.impulse)
    )
    on_host = isinstance(rows, np.ndarray)
    numbers = np if on_host else jnp
    return Solution(
        t=numbers.asarray(run.t0) + at * numbers.asarray(run.dt),
        q=q,
        v=v,
        gap=gap,
        impulse=impulse,
        velocity_before=before,
        velocity_after=after,
        events=events,
        stats=jax.tree_util.tree_map(lambda x: x.item(), carry.stats) if on_host else carry.stats,
        status=carry.status,
        dt=run.dt.item() if on_host else run.dt,
        origin=Origin(run.scheme, system, impacts),
    )


@contextlib.contextmanager
def _progress_bar(wanted, steps: int):
    if not wanted or callable(wanted):
        yield wanted or (lambda done: None)
        return
    from rich.progress import MofNCompleteColumn, Progress

    with Progress(*Progress.get_default_columns(), MofNCompleteColumn()) as bar:
        task = bar.add_task("steps", total=steps)
        yield lambda done: bar.update(task, completed=done)


def _failure(solution, run, steps, record):
    """The exception for a run that stopped on the way, with the solution in it."""
    done, dt = int(solution.stats.steps), float(run.dt)
    text = (
        f"{text_of(solution.status)}. The run stopped after step {done} of {steps}, at "
        f"t = {float(run.t0) + done * dt:g}, q = {solution.q[-1]}, v = {solution.v[-1]}"
    )
    if bool(solution.status == Status.contraction):
        factor = solution.stats.contraction  # in proportion to dt
        text += f". The contraction factor was {factor:.3g}: dt = {0.5 * dt / factor:.3g} would do"
    text += "; everything up to there is in error.solution"
    if record.path is not None:
        text += f" and in {record.path}"
    error = exception_of(solution.status)(text)
    error.solution = solution
    return error
