"""The course of a world of NumPy arrays: a Python loop over its steps.

What is kept of it the world knows: its ``observer`` adds up what happens between records, and
makes a record (contracts.Observer).
"""

from typing import Any

import numpy as np

from carom import errors
from carom.dump import dumped, restored
from carom.io.recording import Piece
from carom.run.drive import Clock
from carom.run.record import Plan
from carom.schemes.scheme import State, rebound, started
from carom.status import Status, exception_of, text_of


class Stepped:
    """A run, step by step (contracts.Course)."""

    def __init__(self, world, scheme, clock: Clock, given, before, plan: Plan):
        """From the state ``given``, or the end of the solution ``before``."""
        self.world, self.scheme, self.clock = world, scheme, clock
        self.given, self.before = given, before
        marks = np.asarray(plan.marks)
        self.at = marks.astype(float) if plan.fractions is None else marks + plan.fractions
        self.steps, self.total = clock.steps, len(self.at)
        self.step, self.done, self.last_kept = 0, 0, -1  # steps, records, the step of the last one
        self.iterations, self.residual = 0, 0.0
        self.stopped: Any = Status.ok  # why it cannot go on
        self.error: Any = None  # what stopped the run, where a status does not say it
        self.state: Any = None
        self.seen = world.observer(clock)

    # What the driver asks.

    @property
    def ended(self) -> bool:
        """Whether all steps are done, or the run cannot go on."""
        return self.step >= self.steps or self.stopped is not Status.ok

    @property
    def status(self) -> Any:
        """How it stands; at its end, whether every step was solved as asked."""
        if self.stopped is Status.ok and self.step >= self.steps:
            return self.seen.verdict()
        return self.stopped

    def running(self) -> Any:
        """A context for as long as it lasts."""
        return self.world.running()

    def start(self) -> None:
        """At t0, through an impact where v0 is not admissible, or at the end of another run."""
        world, t0 = self.world, self.clock.start
        t: Any = t0
        if self.before is not None:
            q, v, memory = world.gone_on(self.before, self.scheme, t0)
            self.state = State(t, q, v, memory)
            self.seen.stands(self.state)
            return
        q, v = self.given
        world.check_start(self.scheme, t0)
        memory = world.memory(t0, q)
        contacts = world.contacts(t0, q, memory)
        impact = rebound(world, world.metric(q), contacts, v, contacts.closed())
        self.stopped = impact.status
        self.state = State(t, q, impact.point, memory)
        self.impact = contacts, impact.multipliers
        self.residual = float(impact.residual)
        self.seen.struck(self.state, contacts, impact.multipliers, impact.residual)

    def first_records(self) -> Piece:
        """What there is before the first step."""
        made = [self._made(0.0)] if self._next() == 0.0 else []
        if self.before is None:
            t0, dt = self.clock.start, self.clock.dt
            self.state, report = started(
                self.scheme, self.world, t0, self.state.q, self.state.v, dt
            )
            self.state = self.world.struck(self.state, *self.impact)
            if report is not None:
                self._pushed_first(report)
        return self._piece(made)

    def _pushed_first(self, report) -> None:
        """What the start of the scheme did belongs to the first step."""
        self.iterations += int(report.iterations)
        self.residual = max(self.residual, float(report.residual))
        if self.stopped is Status.ok:
            self.stopped = report.status
        if np.any(report.impulse != 0.0):
            self.seen.struck(self.state, report.contacts, report.impulse, report.residual)

    def advance(self) -> Piece:
        """One step; whatever stops it, the last good state is kept."""
        made: list = []
        try:
            self._advance(made)
        except (errors.RecordError, SystemError):  # no file to keep it in; Ctrl-C in a kernel
            raise
        except Exception as problem:
            self.stopped, self.error = Status.error, problem
        return self._piece(made)

    def _advance(self, made: list) -> None:
        before, dt = self.state, self.clock.dt
        state, report = self.scheme.step(self.world, before, dt)
        self.iterations += int(report.iterations)
        self.residual = max(self.residual, float(report.residual))
        if report.status is not Status.ok:
            self.stopped = report.status
            return
        t = self.clock.time(self.step + 1)
        state = State(t, state.q, state.v, state.memory)
        found = self.seen.of_step(before, state, report)
        while self._next() < self.step + 1:
            part = self._next() - self.step
            made.append(self._made(part, self.world.between(before.q, state.q, part)))
        self.step, self.state = self.step + 1, state
        self.seen.add(found)
        if self._next() == self.step:
            made.append(self._made(0.0))

    def rest(self) -> Piece:
        """The last good state, where a failure cut the run off and it is no record yet."""
        if self.stopped is Status.ok or self.last_kept == self.step or self.state is None:
            return self._piece([])
        try:
            return self._piece([self._made(0.0)])
        except Exception as problem:
            self.error = self.error or problem
            return self._piece([])

    # Where it stands.

    def saved(self) -> bytes:
        """All that the rest of the run depends on."""
        return dumped(self._tree(self.state, self._next() < self.step + 1))

    def restore(self, data: bytes) -> None:
        """Put the run where it was."""
        like = self.scheme.start(self.world, self.clock.start, *self.given, self.clock.dt)
        found = restored(data, self._tree(like, False))
        self.step, self.done, self.last_kept, self.iterations = (int(n) for n in found["counts"])
        self.residual, self.state = float(found["residual"]), found["state"]
        self.seen.restore(found["seen"])

    def _tree(self, state, inside: bool) -> dict:
        counts = np.array([self.step, self.done, self.last_kept, self.iterations])
        seen = self.seen.tree(inside)
        return {"counts": counts, "residual": np.array(self.residual), "state": state, "seen": seen}

    @property
    def room(self) -> int:
        """How long ``saved`` can be."""
        inside = bool(np.any(self.at != np.floor(self.at)))
        return len(dumped(self._tree(self.state, False))) + self.seen.most_bytes(inside)

    def settings(self) -> dict[str, Any]:
        """What a file says of it."""
        clock = self.clock
        return {
            "scheme": str(self.scheme),
            "t0": clock.t0,
            "first": clock.first,
            "steps": clock.steps,
            "dt": clock.dt,
        }

    def parts(self) -> dict[str, Any]:
        """What must be the same to go on."""
        clock = self.clock
        return self.world.parts(clock.start) | {
            "the scheme": [str(self.scheme)],
            "t0, t1 or dt": [clock.t0, clock.first, clock.dt, clock.steps],
            "what is recorded": self.at,
        }

    # What is handed out.

    @property
    def stats(self) -> dict[str, Any]:
        """What was done, by name."""
        told = {"steps": self.step, "iterations": self.iterations, "residual": self.residual}
        return told | self.seen.stats(self.state)

    def times(self, at) -> np.ndarray:
        """Of records that lie ``at`` so many steps from the start."""
        return self.clock.time(np.asarray(at))

    def told(self) -> str:
        """For the line of progress."""
        return self.seen.told(self.state)

    def solution(self, at, rows, impacts) -> Any:
        """Of what was kept."""
        return self.seen.solution(self, self.times(at), rows)

    def failure(self, solution, record) -> Exception:
        """The exception for a run that stopped on the way, with the solution in it."""
        problem, done = self.error, self.step
        where = f"The run stopped after step {done} of {self.steps}, at t = {self.times(done):g},"
        kept = "everything up to there is in error.solution"
        if self.stopped is Status.ok:
            where = f"They are {self.stats['loose']} of {done}, the worst"
            kept = "the whole run is in error.solution, and throw=False returns it"
        if record.path is not None:
            kept += f" and in {record.path}"
        if problem is None:
            about = self.world.about(self.residual, self.iterations)
            text = f"{text_of(self.status)}. {where}{about}; {kept}"
            error = exception_of(self.status)(text)
        elif isinstance(problem, errors.CaromError):
            error = type(problem)(f"{problem}. {where}; {kept}")
        else:
            error = errors.RunError(f"{type(problem).__name__}: {problem}. {where}; {kept}")
        error.solution, error.__cause__ = solution, problem
        return error

    def _next(self):
        """Where the next record lies, in steps from the start."""
        return self.at[self.done] if self.done < len(self.at) else np.inf

    def _made(self, part: float, q=None) -> tuple[float, dict]:
        """A record, ``part`` of a step after the state: v constant, at q."""
        at = self.step + part
        if self._next() == at:
            self.done += 1
        self.last_kept = self.step
        q = self.state.q if q is None else q
        return at, self.seen.record(self.step, self.clock.time(at), q, self.state.v)

    def _piece(self, made: list) -> Piece:
        rows: dict[str, Any] = {}
        for name in made[0][1] if made else ():
            values = [row[name] for _, row in made]
            rows[name] = values if self.seen.ragged(name) else np.stack(values)
        return Piece(np.array([at for at, _ in made], float), rows)
