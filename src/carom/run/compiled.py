"""The course of a world of JAX arrays: the compiled loop, driven in pieces.

Nothing is lost whatever stops it, and memory stays small.
"""

import math
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from carom.dump import dumped, restored
from carom.errors import KindError
from carom.fields import MOTION, Field
from carom.io.recording import Piece
from carom.results.impacts import COLUMNS, ImpactLog, listed, resting
from carom.results.solution import STATS, End, Origin, Solution, scheme_text
from carom.run.checks import check_start
from carom.run.drive import Clock
from carom.run.going_on import end_of, gone_on
from carom.run.loop import (
    EVENT_FIELDS,
    FIELDS,
    Carry,
    Run,
    advance_compiled,
    advance_each_compiled,
    advance_listed_compiled,
    begin_compiled,
    split_rows,
)
from carom.run.record import Every, Plan, Record
from carom.status import Status, exception_of, is_ok, text_of

_PIECE_BYTES = 4 * 2**20  # of the buffer that one compiled piece fills
_PIECE_STEPS = 2**20  # the most in one piece: about 50 ms for a small system
_PIECE_SECONDS = 0.2  # of a piece, where somebody looks or a file is written
_FIRST_STEPS = 256  # of the first piece then, before its pace is known


class Compiled:
    """A run, piece by piece (contracts.Course)."""

    def __init__(self, run: Run, clock: Clock, given, before, plan: Plan, record: Record, *, paced):
        """From the state ``given``, or the end of the solution ``before``."""
        self.run, self.world, self.scheme, self.clock = run, run.system, run.scheme, clock
        self.q0, self.v0 = given
        self.went_on = before is not None
        self.plan, self.steps = plan, clock.steps
        self.begun = start = _begun(run, clock.start, given, before)
        self.marks, self.total = plan.marks, len(plan.marks)  # records, if all goes well
        self.first = plan.fractions is None and plan.marks[0] == 0  # the start is one of them
        self.carry: Carry = start.recorded() if self.first else start.carry
        self.shape = start.shape
        self.p = self.shape.p
        self.each = record.impacts or record.every == 1  # a look at every step
        self.full = self.each and self.total == self.steps + 1  # and all of it kept
        width = self.shape.full(run.scheme) if self.each else self.shape.short
        self.width = width if self.full else self.shape.short
        self.pushes = slice(self.shape.short - self.shape.pushes, self.shape.short)
        self.capacity = _capacity(width, self.steps if self.each else self.total + 1)
        self.done, self.finished = int(self.first), False  # records; whether ``rest`` was asked for
        self.pending = np.zeros(self.shape.pushes)  # impulse of steps since the last record
        self.log = ImpactLog(self.p, self._resting()) if record.impacts else None
        self.struck = 0  # impacts so far
        self.pushed = np.zeros(self.shape.pushes)  # the last impulses
        self.pace = _Pace(paced)

    def _resting(self) -> np.ndarray:
        """The gaps that are closed at the start, and at rest."""
        row = dict(
            zip(FIELDS, split_rows(np.asarray(self.begun.row)[None], self.shape), strict=True)
        )
        gap, after, v = (row[name][0] for name in ("gap", "velocity_after", "v"))
        return resting(gap, after, v, np.asarray(self.begun.tolerance)[: self.p])

    @property
    def step(self) -> int:
        """How far the run is."""
        return int(self.carry.stats.steps)

    @property
    def ended(self) -> bool:
        """Whether all records are made, or the run cannot go on."""
        return self.done == self.total or not is_ok(self.carry.status)

    def running(self) -> Any:
        """A context for as long as it lasts."""
        return self.world.running()

    def start(self) -> None:
        """It is at its start already."""

    @property
    def status(self) -> Any:
        """How it stands."""
        return self.carry.status

    @property
    def stats(self) -> dict[str, Any]:
        """What was done, by name."""
        return {name: getattr(self.carry.stats, name) for name in STATS}

    @property
    def fields(self) -> dict[Field, tuple[int, ...]]:
        """What a record holds, with the shape of each."""
        shape, events = self.shape, self.run.scheme.events_per_step
        size = {"q": (shape.d,), "v": (shape.n,), "joint_impulse": (shape.k,)}
        size |= {"friction": (shape.p, shape.m - 1)[: 2 if shape.m > 2 else 1]}
        size |= {"events": (events, EVENT_FIELDS)}
        kept = {f: size.get(f.name, (shape.p,)) for f in MOTION}
        left_out = {"friction"} if shape.m == 1 else set()
        if not self.full:
            left_out |= {"velocity_before", "velocity_after", "events"}
        if shape.n != shape.d:
            kept = {f._replace(axes=("speed",)) if f.name == "v" else f: n for f, n in kept.items()}
        return {f: n for f, n in kept.items() if f.name not in left_out and all(n)}

    @property
    def impacts(self) -> int | None:
        """How many the table of impacts can have; None where there is none.

        A contact begins after a step without; located impacts are counted step by step.
        """
        if self.log is None:
            return None
        p, events = self.p, self.run.scheme.events_per_step
        return p + (events * self.steps if events else p * (self.steps // 2 + 1)) + 1

    def settings(self) -> dict[str, Any]:
        """What a file says of it."""
        return {
            "scheme": scheme_text(self.scheme),
            "t0": self.clock.t0,
            "first": self.clock.first,
            "steps": self.steps,
            "dt": self.clock.dt,
            "gaps": self.p,
            "each": self.full,
            "glued": None if (glued := self._glued()) is None else glued.tolist(),
        }

    def parts(self) -> dict[str, Any]:
        """What must be the same to go on; functions are compared by their values at the start."""
        begun, plan, clock = self.begun, self.plan, self.clock
        law = _arrays(begun.contacts.law)
        return {
            "q0 or v0": [np.asarray(self.q0), np.asarray(self.v0)],
            "the force at t0": begun.force,
            "the gaps at t0": [begun.contacts.gap, begun.contacts.rate, begun.contacts.rows],
            "the mass": _arrays(self.world.metric(self.q0)),
            "the restitution": law[:1],
            "the friction": law[1:],
            "the scheme": [scheme_text(self.scheme)],
            "t0, t1 or dt": [clock.t0, clock.first, clock.dt, clock.steps],
            "what is recorded": [
                str(plan.marks) if isinstance(plan.marks, Every) else plan.marks,
                np.asarray([] if plan.fractions is None else plan.fractions),
                self.log is not None,
            ],
        }

    def saved(self) -> bytes:
        """All that the rest of it depends on; always of the same length."""
        log = self.log or ImpactLog(self.p)
        held = log.held()
        room = 2 - len(held["index"])
        for name, a in held.items():
            held[name] = np.pad(a, [(0, room), *[(0, 0)] * (a.ndim - 1)])
        counts = [self.done, self.finished, self.struck, 2 - room]
        tree = {"carry": self.carry, "held": held, "pending": self.pending}
        tree |= {"counts": np.array(counts), "largest": np.array(log.largest)}
        return dumped(tree, short=False)

    @property
    def room(self) -> int:
        """How long ``saved`` can be."""
        return len(self.saved())

    def restore(self, data: bytes) -> None:
        """Put it where it was."""
        log = self.log or ImpactLog(self.p)
        zero = np.zeros(())
        like = {"carry": self.carry, "held": log.held(), "pending": zero}
        found = restored(data, {**like, "counts": zero, "largest": zero})
        self.done, self.finished, self.struck, held = (int(n) for n in found["counts"])
        self.pending = found["pending"]
        if self.log is not None:
            state = {name: a[:held] for name, a in found["held"].items()}
            self.log = ImpactLog.holding(self.p, state, float(found["largest"]), self._resting())
        self.carry = jax.tree_util.tree_map(
            lambda x, like: jnp.asarray(x, like.dtype), found["carry"], self.carry
        )

    def told(self) -> str:
        """Energy and contacts, for the line of progress."""
        pushing = _count(np.count_nonzero(self.pushed[: self.p] > 0.0), "contact")
        text = f"{self.world.told(self.carry.state)}, {pushing}"
        return text if self.log is None else f"{text}, {_count(self.struck, 'impact')}"

    def solution(self, at, rows, impacts) -> Solution:
        """Of what was kept."""
        run, carry = self.run, self.carry
        return Solution(
            t=self.times(at),
            **{name: rows.get(name) for name in FIELDS},
            stats=jax.tree_util.tree_map(lambda x: x.item(), carry.stats),
            status=carry.status,
            dt=run.dt.item(),
            end=end_of(run, carry, np.asarray),
            origin=Origin(
                run.scheme,
                run.system,
                None if self.log is None else listed(impacts),
                self._glued(),
            ),
        )

    def _glued(self) -> np.ndarray | None:
        """(p,) what glue remembers from the run before; None: there is none."""
        if not self.went_on or not getattr(self.world, "glue", False):
            return None
        return np.asarray(self.begun.carry.state.memory)[: self.p]

    def failure(self, solution, record) -> Exception:
        """The exception for a run that stopped on the way, with the solution in it."""
        done, clock = int(solution.stats.steps), self.clock
        text = (
            f"{text_of(solution.status)}. The run stopped after step {done} of {self.steps}, at "
            f"t = {clock.time(done):g}, q = {solution.q[-1]}, v = {solution.v[-1]}"
        )
        if bool(solution.status == Status.contraction):
            text += _shorter(solution.stats.contraction, clock.dt, self.scheme)
        text += "; everything up to there is in error.solution"
        if record.path is not None:
            text += f" and in {record.path}"
        error = exception_of(solution.status)(text)
        error.solution = solution
        return error

    def times(self, at) -> np.ndarray:
        """Of records that lie ``at`` so many steps from the start."""
        return self.clock.time(np.asarray(at))

    def first_records(self) -> Piece:
        """What there is before the first step."""
        row = np.asarray(self.begun.row)[None]
        self._look(np.zeros(1, int), row)
        return self._handed(np.zeros(int(self.first)), row[: int(self.first), : self.width])

    def advance(self) -> Piece:
        """The next piece."""
        began, reached = time.perf_counter(), int(self.carry.step)
        at, rows = self._steps(reached) if self.each else self._strides(reached)
        self.pace.took(time.perf_counter() - began)
        return self._handed(at, rows)

    def rest(self) -> Piece:
        """What is left when the run has ended: its last good state, where a failure cut it off."""
        good, state = self.step, self.carry.state
        nothing, self.finished = self.finished, True
        impacts = np.zeros(0, COLUMNS) if nothing or self.log is None else self.log.rest()
        if nothing or self.done == self.total or (self.done and self._last_at() >= good):
            return Piece(np.zeros(0), self._fields(np.zeros((0, self.width))), impacts)
        gap = self.run.system.gaps(self.run.time(jnp.asarray(good)), state.q)
        pushed = self.pending + np.asarray(self.carry.impulse)
        last = np.concatenate([state.q, state.v, gap, pushed])
        last = np.pad(last, (0, self.width - len(last)), constant_values=-1.0)
        return Piece(np.array([good]), self._fields(last[None]), impacts)

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
                self.run, self.carry, self.shape, np.asarray(count), self.capacity
            )
            count = min(count, self.step - reached)  # those after the last good step do not count
            rows = np.asarray(rows)[:count]
            if reached == 0 and count and self.scheme.pushes_at_start:
                rows = self.begun.leading(rows)
            self._look(np.arange(reached + 1, reached + count + 1), rows)
        self.pushed = rows[-1:, self.pushes].sum(axis=0)
        kept = self._marks_up_to(reached + count)
        return kept, rows if self.full else self._thinned(rows, kept - reached - 1)

    def _listed(self, reached, until):
        """The rows of the steps up to ``until``, where a step may have several on the way."""
        parts = []
        while True:
            self.carry, rows, used = advance_listed_compiled(
                self.run, self.carry, self.shape, np.asarray(until), self.capacity
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
            np.asarray(len(strides)),
            self.capacity,
            np.asarray(count),
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
        return Piece(at, self._fields(rows), impacts)

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


def _padded(values: np.ndarray, capacity: int) -> np.ndarray:
    padded = np.zeros(capacity, values.dtype)
    padded[: len(values)] = values
    return padded


def _begun(run, t0, given, before) -> Any:
    """The start of a run, checked."""
    q0 = given[0]
    allowed: Any = 0.0
    if before is None:
        begun = begin_compiled(run, *given)
    elif not isinstance(before.end, End):
        raise KindError(f"start is {before!r}; give a solution of such a system")
    else:  # what the run before left is let by
        begun = gone_on(run, before)
        left = np.maximum(-np.asarray(before.gap[-1]), 0.0)
        allowed = np.pad(left, (0, begun.shape.k), constant_values=np.inf)
    check_start(begun, t0, q0, allowed, force=run.scheme.at_ends)
    run.system.check_data(t0, q0)
    return begun


def _arrays(tree) -> list:
    return [np.asarray(x) for x in jax.tree_util.tree_leaves(tree)]


def _count(number, name) -> str:
    return f"{number} {name}" if number == 1 else f"{number} {name}s"


def _shorter(factor, dt, scheme) -> str:
    """What to do where a fixed point, whose factor is in proportion to dt, does not contract."""
    text = "" if getattr(scheme, "newton", True) else ". Newton's method needs none: newton=True"
    named = f"{0.5 * dt / max(1.0, factor):.3g}"
    return f"{text}. The contraction factor was {factor:.3g}: dt = {named} would do"
