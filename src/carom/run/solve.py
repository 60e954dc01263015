"""``solve``: the compiled loop, driven in pieces so that nothing is lost and memory stays small."""

import contextlib
import math
import time
from collections.abc import Callable
from typing import Any, overload

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from carom.derivatives import differentiable, refusing
from carom.errors import RecordError, ShapeError
from carom.results.impacts import COLUMNS, ImpactLog, listed
from carom.results.solution import Motion, Origin, Solution
from carom.run.checks import (
    check_kinds,
    check_laws,
    check_record,
    check_restitution,
    check_slip,
    check_start,
    checked_vectors,
    tracing,
)
from carom.run.going_on import check_end, check_untraced, clock, end_of, gone_on
from carom.run.loop import (
    FIELDS,
    Carry,
    Run,
    advance,
    advance_compiled,
    advance_each,
    advance_each_compiled,
    advance_listed_compiled,
    begin,
    begin_compiled,
    shape_of,
    split_rows,
    with_force_apart,
)
from carom.run.record import Plan, Record
from carom.schemes.scheme import Scheme
from carom.status import Status, exception_of, is_ok, text_of
from carom.worlds.spheres.model import Spheres
from carom.worlds.spheres.run import solve_spheres
from carom.worlds.spheres.solution import SpheresSolution
from carom.worlds.system.system import System

_PIECE_BYTES = 4 * 2**20  # of the buffer that one compiled piece fills
_PIECE_STEPS = 2**20  # the most in one piece: about 50 ms for a small system
_PIECE_SECONDS = 0.2  # of a piece, where somebody looks or a file is written
_FIRST_STEPS = 256  # of the first piece then, before its pace is known


@overload
def solve(
    system: Spheres,
    scheme: Scheme,
    *,
    start: SpheresSolution | None = None,
    t0: float | None = None,
    t1: float,
    dt: float,
    record: Record | None = None,
    progress: bool | Callable[[Any], object] = False,
    throw: bool = True,
) -> SpheresSolution: ...
@overload
def solve(
    system: System,
    scheme: Scheme,
    q0: ArrayLike | None = None,
    v0: ArrayLike | None = None,
    *,
    start: Solution | None = None,
    t0: float | None = None,
    t1: float,
    dt: float,
    record: Record | None = None,
    progress: bool | Callable[[Any], object] = False,
    throw: bool = True,
) -> Solution: ...
def solve(
    system: Any,
    scheme: Scheme,
    q0: ArrayLike | None = None,
    v0: ArrayLike | None = None,
    *,
    start: Any = None,
    t0: float | None = None,
    t1: float,
    dt: float,
    record: Record | None = None,
    progress: bool | Callable[[Any], object] = False,
    throw: bool = True,
) -> Any:
    """Move a system, or spheres, from t0 to t1 through impacts; a Solution or SpheresSolution.

    ``dt`` is shortened so that a whole number of equal steps ends at ``t1``.  A velocity ``v0``
    that points out of the admissible set is an impact at t0: the run starts with what the impact
    law makes of it, and the impulse is in the first row.

    ``start``, a solution, takes the place of q0, v0 and t0: the run goes on from its last state
    with all that its scheme remembers, as if it had not stopped (bit for bit where dt is the same
    number), small overlaps included.  Another scheme starts at the nearest admissible point.

    A run that fails raises a CaromError whose ``solution`` holds everything up to that time (and
    saves it, if ``record`` has a path); with ``throw=False`` that solution is returned and its
    ``status`` says what happened.  ``progress`` is True for a bar, or a function that is called
    with the run, whose ``step`` is the number of steps done: now and then (a System), or after each
    step (Spheres).

    With a path in ``record`` the run is written to that file as it goes, and what is returned reads
    the file; ``resume=True`` there goes on with a run that was stopped, to the same bits.

    Inside ``jax.jit`` or ``jax.vmap`` there is always a status per member and never an exception:
    a member that fails keeps its last good state.

    Parameters
    ----------
    system
        A System, or Spheres, which have positions and velocities of their own.
    scheme
        How to step: ``carom.Moreau()``, ``Maury()``, ...; an object, with its options.
    q0, v0
        (d,) position and velocity at t0, of a System.
    t0, t1
        Start and end of the run [s].
    dt
        Length of a step [s], with EventDriven and Penalty the spacing of the records.
    record
        A Record: what is kept, and where.  None: every step (Spheres: about a hundred records).
    start
        A solution to go on from, in place of q0, v0 and t0.
    throw
        False: a failed run is returned, not raised.
    progress
        True for a bar, or a function of the run.

    Returns
    -------
    Solution or SpheresSolution
        Arrays over the n records: ``t`` (n,), ``q`` and ``v`` (n, d), ``gap`` and ``impulse``
        (n, p); of Spheres ``x`` and ``v`` (n, N, d).

    Examples
    --------
    A ball dropped from 1 m on a floor, with half of its speed kept at each bounce:

    >>> import carom
    >>> ball = carom.System(force=lambda t, q, v: 0 * q - 9.81, gap=lambda t, q: q, restitution=0.5)
    >>> sol = carom.solve(ball, carom.Moreau(), q0=[1.0], v0=[0.0], t1=2.0, dt=1e-3)
    >>> sol.q.shape, sol.ok
    ((2001, 1), True)
    >>> print(f"first impact at {sol.impacts.time[0]:.3f} s")
    first impact at 0.453 s
    """
    if isinstance(system, Spheres):
        if q0 is not None or v0 is not None:
            raise ShapeError("Spheres carry their own state: leave q0 and v0 out")
        check_record(scheme, Record() if record is None else record)
        end = check_end(start, SpheresSolution, t0)
        times, first = clock(end, t0, t1, dt)
        return solve_spheres(system, scheme, *times, first, start, record, progress, throw)
    record = Record() if record is None else record
    check_kinds(system, scheme, record)
    end = check_end(start, Motion, t0, q0, v0)
    (t0, steps, dt), first = clock(end, t0, t1, dt)
    q0, v0 = checked_vectors(q0, v0) if end is None else (jnp.asarray(end.q), jnp.asarray(end.v))
    if not scheme.rigid:
        record = record.without_impacts()
    check_restitution(system, scheme)
    check_laws(system, scheme)
    traced, batched = tracing(system, scheme, t0, q0, v0)
    scheme = scheme.over(steps * dt)
    run = Run(
        with_force_apart(system) if batched and scheme.lockstep else system,
        scheme,
        jnp.asarray(t0, float),
        jnp.asarray(dt, float),
        jnp.asarray(first, int),
    )
    plan = record.plan(t0 + first * dt, dt, steps)
    if traced:
        check_untraced(start)
        return _solve_traced(run, q0, v0, plan, record)
    return _solve_in_pieces(run, q0, v0, start, plan, record, steps, progress, throw)


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
            steps = jnp.asarray(len(marks))
            carry, rows = advance_each(run, carry, start.shape, steps, len(marks))
        else:
            strides = jnp.asarray(np.diff(marks, prepend=0))
            into = None if plan.fractions is None else jnp.asarray(plan.fractions)
            carry, rows = advance(
                run, carry, start.shape, strides, into, jnp.asarray(len(marks)), len(marks)
            )
        if first:
            rows = jnp.concatenate([start.row[None, : rows.shape[1]], rows])
        return carry, rows

    right = run.scheme.differentiable or run.system.gap is None
    lockstep = run.scheme.lockstep
    safe = (
        differentiable(moved, lockstep=lockstep)
        if right
        else refusing(moved, _no_derivative(run.scheme))
    )
    carry, rows = safe(q0, v0)
    return _solution(run, _record_steps(plan), rows, carry, shape_of(run.system, q0))


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
    return np.asarray(plan.marks) if plan.fractions is None else plan.marks + plan.fractions


def _solve_in_pieces(run, q0, v0, before, plan, record, steps, progress, throw) -> Any:
    start = begin_compiled(run, q0, v0) if before is None else gone_on(run, before)
    allowed: Any = 0.0
    if before is not None:  # what the run before left is let by
        left = np.maximum(-np.asarray(before.gap[-1]), 0.0)
        allowed = np.pad(left, (0, start.shape.k), constant_values=np.inf)
    check_start(start, float(run.time(0)), q0, allowed, force=run.scheme.at_ends)
    check_slip(run.system, float(run.time(0)), q0)
    pieces = Pieces(run, start, (q0, v0), plan, record, steps, paced=bool(record.path or progress))
    with (
        _progress_bar(progress, steps) as show,
        contextlib.closing(_begun(pieces, record)) as store,
    ):
        while not pieces.ended:
            store.add(*pieces.advance(), pieces)
            show(pieces)
        store.add(*pieces.rest(), pieces)
        solution = store.solution(pieces)
    if throw and not solution.ok:
        raise _failure(solution, run, steps, record)
    return solution


def _begun(pieces, record) -> Any:
    """Where the records go: memory, a new file, or the file of a run that was stopped."""
    store: Any = _InMemory(pieces)
    if record.path is not None:
        from carom.io.netcdf import Recording

        store = Recording.resume(record.path, pieces) if record.resume else None
        if store is not None:
            return store
        store = Recording.start(record.path, pieces, record.description)
    try:
        store.add(*pieces.first_records(), pieces)
        return store
    except BaseException:
        store.close()
        raise


class Pieces:
    """A run, piece by piece: what is handed out does not depend on where the pieces end.

    Each piece gives (at, rows, impacts): where its records lie, in steps from t0, their fields by
    name, and the rows of the table of impacts that no further step changes.
    """

    def __init__(self, run: Run, start, given, plan: Plan, record: Record, steps: int, *, paced):
        self.run, self.start, self.plan, self.steps = run, start, plan, steps
        self.q0, self.v0 = given
        self.marks, self.total = plan.marks, len(plan.marks)  # records, if all goes well
        self.first = plan.fractions is None and plan.marks[0] == 0  # the start is one of them
        self.carry: Carry = start.carry.without_impulse() if self.first else start.carry
        self.shape = start.shape
        self.d, self.p = self.shape.d, self.shape.p
        self.each = record.impacts or record.every == 1  # a look at every step
        self.full = self.each and self.total == steps + 1  # and all of it kept
        width = self.shape.full(run.scheme) if self.each else self.shape.short
        self.width = width if self.full else self.shape.short
        self.pushes = slice(self.shape.short - self.shape.pushes, self.shape.short)
        self.capacity = _capacity(width, steps if self.each else self.total + 1)
        self.done, self.finished = int(self.first), False  # records; whether ``rest`` was asked for
        self.pending = np.zeros(self.shape.pushes)  # impulse of steps since the last record
        self.log = ImpactLog(self.p) if record.impacts else None
        self.struck, self.pushed = (
            0,
            np.zeros(self.shape.pushes),
        )  # impacts so far; the last impulses
        self.pace = _Pace(paced)

    @property
    def step(self) -> int:
        """How far the run is."""
        return int(self.carry.stats.steps)

    @property
    def ended(self) -> bool:
        """Whether all records are made, or the run cannot go on."""
        return self.done == self.total or not is_ok(self.carry.status)

    def times(self, at) -> np.ndarray:
        """Of records that lie ``at`` so many steps from the start."""
        run = self.run
        return np.asarray(run.t0) + (np.asarray(run.first) + at) * np.asarray(run.dt)

    def first_records(self):
        """What there is before the first step."""
        row = np.asarray(self.start.row)[None]
        self._look(np.zeros(1, int), row)
        return self._handed(np.zeros(int(self.first)), row[: int(self.first), : self.width])

    def advance(self):
        """The next piece."""
        began, reached = time.perf_counter(), int(self.carry.step)
        at, rows = self._steps(reached) if self.each else self._strides(reached)
        self.pace.took(time.perf_counter() - began)
        return self._handed(at, rows)

    def rest(self):
        """What is left when the run has ended: its last good state, where a failure cut it off."""
        good, state = self.step, self.carry.state
        nothing, self.finished = self.finished, True
        impacts = np.zeros(0, COLUMNS) if nothing or self.log is None else self.log.rest()
        if nothing or self.done == self.total or (self.done and self._last_at() >= good):
            return np.zeros(0), self._fields(np.zeros((0, self.width))), impacts
        gap = self.run.system.gaps(self.run.time(jnp.asarray(good)), state.q)
        pushed = self.pending + np.asarray(self.carry.impulse)
        last = np.concatenate([state.q, state.v, gap, pushed])
        last = np.pad(last, (0, self.width - len(last)), constant_values=-1.0)
        return np.array([good]), self._fields(last[None]), impacts

    def _last_at(self):
        """Where the last record lies."""
        into = self.plan.fractions
        return self.marks[self.done - 1] + (0.0 if into is None else into[self.done - 1])

    def _steps(self, reached):
        """Step by step."""
        count = min(self.capacity, self.pace.steps, self.steps - reached)
        if self.run.scheme.events_per_step:
            rows = self._listed(reached, reached + count)
            count = len(rows)
        else:
            self.carry, rows = advance_each_compiled(
                self.run, self.carry, self.shape, jnp.asarray(count), self.capacity
            )
            count = min(count, self.step - reached)  # those after the last good step do not count
            rows, ticks = np.asarray(rows)[:count], np.arange(reached + 1, reached + count + 1)
            self._look(ticks, rows)
        self.pushed = rows[-1:, self.pushes].sum(axis=0)
        kept = self._marks_up_to(reached + count)
        return kept, rows if self.full else self._thinned(rows, kept - reached - 1)

    def _listed(self, reached, until):
        """The rows of the steps up to ``until``, where a step may have several on the way."""
        parts = []
        while True:
            self.carry, rows, used = advance_listed_compiled(
                self.run, self.carry, self.shape, jnp.asarray(until), self.capacity
            )
            parts.append(np.asarray(rows)[: int(used)])
            if int(self.carry.step) >= until or not is_ok(self.carry.status):
                break
        rows = np.concatenate(parts)
        rows, done = rows[:, :-1], rows[:, -1] > 0.0
        ticks = reached + 1 + np.cumsum(done) - done
        self._look(ticks, rows)
        # a step has the events and the velocities before it of its first row
        first = np.flatnonzero(np.concatenate([[True], done[:-1]]))[: np.count_nonzero(done)]
        p, short = self.p, self.shape.short
        kept = rows[done]
        kept[:, short : short + p] = rows[first, short : short + p]
        kept[:, short + 2 * p :] = rows[first, short + 2 * p :]
        return kept

    def _strides(self, reached):
        """From record to record, and some steps on the way to the next."""
        end = reached + self.pace.steps
        ahead = self.marks[self.done : self.done + self.capacity - 1]
        count = int(np.searchsorted(ahead, end, side="right"))
        strides = np.diff(ahead[:count], prepend=reached)
        if count < len(ahead):
            strides = np.append(strides, end - reached - np.sum(strides))
        into = self.plan.fractions
        if into is not None:
            into = _padded(into[self.done : self.done + count], self.capacity)
        self.carry, rows = advance_compiled(
            self.run,
            self.carry,
            self.shape,
            _padded(strides, self.capacity),
            into,
            jnp.asarray(len(strides)),
            self.capacity,
            jnp.asarray(count),
        )
        rows = np.asarray(rows)[:count]
        good = self._marks_up_to(min(self.step, int(ahead[count - 1])) if count else -1)
        lost = rows[len(good) :, self.pushes].sum(axis=0)
        self.pending = self.pending + lost  # of good steps that a failure cut off from their record
        self.pushed = np.asarray(self.carry.impulse)  # since the last record
        if not np.any(self.pushed) and len(good):
            self.pushed = rows[len(good) - 1, self.pushes]
        return good, rows[: len(good)]

    def _marks_up_to(self, step):
        """The next marks, which are done now."""
        first = self.done
        self.done = max(first, int(self.marks.searchsorted(step, side="right")))
        return self.marks[first : self.done]

    def _thinned(self, rows, kept):
        """The rows at ``kept``, with the impulses since the row before, added one after another."""
        impulse = rows[:, self.pushes]
        pushed = np.flatnonzero(np.any(impulse != 0.0, axis=1))
        total = np.zeros((len(kept) + 1, impulse.shape[1]))
        total[0] = self.pending
        for i in range(impulse.shape[1]):
            np.add.at(total[:, i], np.searchsorted(kept, pushed), impulse[pushed, i])
        self.pending = total[-1]
        rows = rows[kept, : self.width].copy()
        rows[:, self.pushes] = total[:-1]
        return rows

    def _look(self, ticks, rows):
        if self.log is not None:
            found = dict(zip(FIELDS, split_rows(rows, self.shape), strict=True))
            seen = (found[n] for n in ("impulse", "velocity_before", "velocity_after", "events"))
            self.log.feed(ticks, self.times(ticks), *seen)

    def _handed(self, marks, rows):
        at = np.asarray(marks)
        if self.plan.fractions is not None:
            at = at + self.plan.fractions[self.done - len(at) : self.done]
        impacts = np.zeros(0, COLUMNS) if self.log is None else self.log.drained()
        self.struck += len(impacts)
        return at, self._fields(rows), impacts

    def _fields(self, rows) -> dict[str, np.ndarray]:
        found = dict(zip(FIELDS, split_rows(rows, self.shape), strict=True))
        return {name: values for name, values in found.items() if values is not None}


class _Pace:
    """How many steps to take between two words to the outside: some tenths of a second's worth."""

    def __init__(self, paced: bool):
        self.paced = paced
        self.steps = min(_FIRST_STEPS, _PIECE_STEPS) if paced else _PIECE_STEPS
        self.began = time.perf_counter()

    def took(self, seconds: float) -> None:
        """For the last piece; in a run of hours a thousandth of it may pass between two."""
        if self.paced:
            wanted = _PIECE_SECONDS + 1e-3 * (time.perf_counter() - self.began)
            change = min(4.0, max(0.25, wanted / max(seconds, 1e-9)))
            self.steps = min(_PIECE_STEPS, max(1, int(change * self.steps)))


def _capacity(width: int, records: int) -> int:
    """Rows in one piece: one of two sizes for a given width, so at most two compilations."""
    full = max(64, 2 ** int(math.log2(_PIECE_BYTES / (8 * width))))
    return min(full, 1024) if records <= 1024 else full


def _padded(values: np.ndarray, capacity: int) -> Array:
    return jnp.asarray(np.pad(values, (0, capacity - len(values))))


class _InMemory:
    """Keeps the records of a run; what a carom.io.netcdf.Recording does in a file."""

    def __init__(self, pieces):
        self.at, self.count = np.empty(pieces.total), 0
        self.rows: dict[str, np.ndarray] = {}
        self.total, self.table = pieces.total, []

    def add(self, at, rows, impacts, pieces):
        end = self.count + len(at)
        self.at[self.count : end] = at
        for name, values in rows.items():
            if name not in self.rows:
                self.rows[name] = np.empty((self.total, *values.shape[1:]))
            self.rows[name][self.count : end] = values
        self.count = end
        if len(impacts):
            self.table.append(impacts)

    def solution(self, pieces) -> Solution:
        """What was kept."""
        found = {name: values[: self.count] for name, values in self.rows.items()}
        table = None
        if pieces.log is not None:
            table = listed(np.concatenate([np.zeros(0, COLUMNS), *self.table]))
        run, carry = pieces.run, pieces.carry
        return Solution(
            t=pieces.times(self.at[: self.count]),
            **{name: found.get(name) for name in FIELDS},
            stats=jax.tree_util.tree_map(lambda x: x.item(), carry.stats),
            status=carry.status,
            dt=run.dt.item(),
            end=jax.tree_util.tree_map(np.asarray, end_of(run, carry)),
            origin=Origin(run.scheme, run.system, table),
        )

    def close(self):
        pass


def _solution(run, at, rows, carry, shape) -> Solution:
    """Inside jit or vmap."""
    fields = split_rows(rows, shape)
    return Solution(
        t=jnp.asarray(run.t0) + (run.first + at) * jnp.asarray(run.dt),
        **dict(zip(FIELDS, fields, strict=True)),
        stats=carry.stats,
        status=carry.status,
        dt=run.dt,
        end=end_of(run, carry),
        origin=Origin(run.scheme),
    )


@contextlib.contextmanager
def _progress_bar(wanted, steps: int):
    if not wanted or callable(wanted):
        yield wanted or (lambda run: None)
        return
    from rich.progress import MofNCompleteColumn, Progress

    with Progress(*Progress.get_default_columns(), MofNCompleteColumn()) as bar:
        task = bar.add_task("steps", total=steps)
        yield lambda run: bar.update(task, completed=run.step)


def _shorter(factor, dt, scheme) -> str:
    """What to do where a fixed point, whose factor is in proportion to dt, does not contract."""
    text = "" if getattr(scheme, "newton", True) else ". Newton's method needs none: newton=True"
    named = f"{0.5 * dt / max(1.0, factor):.3g}"
    return f"{text}. The contraction factor was {factor:.3g}: dt = {named} would do"


def _failure(solution, run, steps, record):
    """The exception for a run that stopped on the way, with the solution in it."""
    done, dt = int(solution.stats.steps), float(run.dt)
    text = (
        f"{text_of(solution.status)}. The run stopped after step {done} of {steps}, at "
        f"t = {float(run.time(done)):g}, q = {solution.q[-1]}, v = {solution.v[-1]}"
    )
    if bool(solution.status == Status.contraction):
        text += _shorter(solution.stats.contraction, dt, run.scheme)
    text += "; everything up to there is in error.solution"
    if record.path is not None:
        text += f" and in {record.path}"
    error = exception_of(solution.status)(text)
    error.solution = solution
    return error
