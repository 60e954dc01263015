"""``solve`` for Spheres: a Python loop over compiled kernels."""

import contextlib
from typing import Any

import numpy as np

from carom import errors
from carom.dump import arrays_of, dumped, restored
from carom.run.record import Record
from carom.schemes.maury import Maury
from carom.schemes.moreau import Moreau
from carom.schemes.paoli_schatzman import PaoliSchatzman
from carom.schemes.scheme import State, rebound
from carom.status import Status, exception_of, text_of
from carom.worlds.spheres.model import Spheres
from carom.worlds.spheres.solution import (
    Frame,
    SpheresEnd,
    SpheresSolution,
    SphereStats,
    contact_table,
    turning,
)
from carom.worlds.spheres.world import World

_RECORDS = 100  # kept when nothing is said
_INITIAL_SLACK = 10.0  # overlap of the initial state that is let by, in tolerances ...
_ENTERED = 0.5  # ... and under Moreau, which holds velocities, not gaps, in smallest radii
_SCHEMES = (Maury, Moreau, PaoliSchatzman)


def solve_spheres(
    pile: Spheres,
    scheme,
    t0: float,
    steps: int,
    dt: float,
    first: int,
    before: SpheresSolution | None,
    record,
    progress,
    throw,
) -> SpheresSolution:
    """Move spheres through ``steps`` steps of dt, from t0 + first dt, or the end of ``before``."""
    if not isinstance(scheme, _SCHEMES):
        names = ", ".join(kind.__name__ for kind in _SCHEMES)
        raise errors.KindError(f"scheme is {scheme!r}; Spheres are moved by {names}")
    _check_options(pile, scheme, record)
    from carom.kernels.numba.threads import enough_for

    start, end = t0 + first * dt, t0 + (first + steps) * dt
    at, steps = first + _places(record, start, dt, steps), first + steps
    world = World(pile.during(start, end), dt)
    with enough_for(len(pile)), _bar(progress, steps) as show:
        run = _begun(world, scheme, t0, first, before, steps, at, record)
        with contextlib.closing(run.kept), _interruptible():
            while run.step < steps and run.status is Status.ok:
                run.advance()
                show(run)
            solution = run.kept.solution(run)
    solution.error = run.error
    if throw and not solution.ok:
        raise _failure(solution, steps - first, t0 + first * dt)
    return solution


def _check_options(pile, scheme, record) -> None:
    """Refuse options that are of Systems, and friction under a scheme that has none."""
    if pile.spins and not scheme.frictional:
        raise errors.KindError(
            f"{scheme} is a scheme of positions, for which no law of friction is known, and the "
            f"pile has friction = {pile.friction:g} and spin: take Maury() or Moreau()"
        )
    if record is not None and record.with_impacts:
        raise errors.RecordError(
            "Record(impacts=True) is for a System: Spheres have no table of impacts. Leave it out; "
            "sol.contacts has the contacts that pushed, record by record"
        )
    if isinstance(scheme, Maury) and scheme.mean is not None:
        raise errors.KindError("Maury(mean=...) is for a System: for Spheres use Maury(points=...)")
    if isinstance(scheme, PaoliSchatzman):
        if scheme.geodesics:
            raise errors.KindError(
                "PaoliSchatzman(geodesics=True) is for a System whose mass depends on q: spheres "
                "have constant masses, leave it out"
            )
        if scheme.tolerance != PaoliSchatzman().tolerance:
            raise errors.KindError(
                f"PaoliSchatzman(tolerance={scheme.tolerance:g}) is for a System: spheres have a "
                "tolerance of their own, Spheres(..., tolerance=...)"
            )


def _places(record, t0, dt, steps) -> np.ndarray:
    """Where the records lie, in steps from t0 (n,): about a hundred when nothing is said."""
    record = Record(every=max(1, steps // _RECORDS)) if record is None else record
    plan = record.plan(t0, dt, steps)
    marks = np.asarray(plan.marks)
    return marks.astype(float) if plan.fractions is None else marks + plan.fractions


def _begun(world, scheme, t0, first, before, steps, at, record) -> "_Run":
    """A run at its start, at the end of another, or where a file says that it was."""
    run = _Run(world, scheme, t0, first, at, _InMemory())
    if record is None or record.path is None:
        run.check(before)
        return run.started(before)
    from carom.io.vtkhdf import Recording

    if record.resume:
        run.kept, state = Recording.resume(record.path, world, scheme, t0, steps, at)
        if state:
            run.restore(state)
            run.done = run.kept.count
            return run
        run.kept.close()
    run.check(before)
    run.kept = Recording.start(record.path, run, steps, record.description)
    try:
        return run.started(before)
    except BaseException:
        run.kept.close()
        raise


class _InMemory:
    """Keeps the records of a run; what a carom.io.vtkhdf.Recording does in a file."""

    def __init__(self):
        self.frames, self.last_step = [], -1

    def add(self, frame, run):
        self.frames.append(frame)
        self.last_step = frame.step

    def solution(self, run) -> SpheresSolution:
        """What was kept."""
        world = run.world
        stats = SphereStats(
            run.step - run.first,
            run.iterations,
            run.residual,
            max(run.overlap, run.largest),
            int(run.state.memory.rebuilds),
        )
        return SpheresSolution(
            self.frames,
            stats=stats,
            status=run.status,
            dt=world.dt,
            scheme=run.scheme,
            pile=world.pile,
            end=SpheresEnd(run.t0, run.step, world.dt, run.saved()),
        )

    def close(self):
        pass


def check_overlap(world: World, scheme, t0: float, x=None, left: float = 0.0) -> None:
    """Refuse an initial state with overlaps that the scheme would not leave; names the worst pair.

    Maury leaves none.  A state of Moreau or PaoliSchatzman has overlaps of a step's motion, and may
    be one's start; at x, the end of a run, there may be what that run ``left``.
    """
    pile = world.pile
    x = pile.position if x is None else x
    contacts = world.contacts(t0, _wide(x))
    allowed, rule = _INITIAL_SLACK * pile.tolerance * pile.smallest, "Maury starts without overlaps"
    if isinstance(scheme, Moreau):
        allowed = max(allowed, _ENTERED * pile.smallest)
        rule = f"Moreau starts with overlaps up to {_ENTERED:g} of the smallest radius"
    if isinstance(scheme, PaoliSchatzman):
        fastest = np.max(np.linalg.norm(pile.velocity, axis=1)) + world.dt * np.linalg.norm(
            pile.gravity
        )
        allowed = max(allowed, 2.0 * world.dt * fastest / max(pile.restitution, 0.1))
        rule = "PaoliSchatzman starts with overlaps up to a step before an impact, 2 dt |v| / e"
    allowed = max(allowed, left)
    if not len(contacts.gap) or np.min(contacts.gap) >= -allowed:
        return
    k = int(np.argmin(contacts.gap))
    i, source = int(contacts.i[k]), int(contacts.source[k])
    if source < 0:
        whom = f"sphere {i} and wall {-1 - source}"
    else:
        j = int(contacts.j[k])
        i, j = min(i, j), max(i, j)
        whom = f"spheres {i} and {j}" if j < world.N else f"sphere {i} and obstacle {j - world.N}"
    raise errors.AdmissibilityError(
        f"{whom} overlap by {-contacts.gap[k]:.3g} at t0 = {t0:g} (radius {pile.radius_at(t0)[i]:g}"
        f", sphere {i} at {x[i]}); {np.sum(contacts.gap < 0.0)} gaps are negative, "
        f"and {rule}. Move them apart, or remove small overlaps with carom.spheres.relax(pile)"
    )


class _Run:
    """The state of a run, and its records."""

    def __init__(self, world, scheme, t0, first, at, kept: Any):
        self.world, self.scheme, self.t0, self.at, self.kept = world, scheme, t0, at, kept
        self.first = first  # steps since t0 at its start
        self.done = 0  # records of those ``at`` so many steps from t0
        self.step, self.iterations, self.residual, self.overlap = first, 0, 0.0, 0.0
        self.status: Any = Status.ok
        self.error: Any = None  # what stopped the run, where a status does not say it
        self._before = b""  # the state before a step with records inside
        self.state: Any = None
        self.last: Any = None
        self._clear()

    def check(self, before) -> None:
        """Refuse overlaps, but those that a run left at its end."""
        if before is None:
            check_overlap(self.world, self.scheme, self.t0)
            return
        found, world = arrays_of(before.end.state), self.world
        t, d = self.t0 + self.step * world.dt, world.dimension
        bodies = world.bodies(t, _wide(world.pile.position))
        q, listed = found["state.q"], found["state.memory.pairs.x"]
        if listed.shape != bodies.shape or q.shape != (world.N, 3):
            raise errors.ShapeError(
                f"start= is a run of {len(q)} spheres, the pile has {world.N}, or their "
                "obstacles differ: go on with the pile that was moved"
            )
        left = 1.01 * before.stats.overlap
        check_overlap(world, self.scheme, t, q[:, :d], left)

    def started(self, before: SpheresSolution | None) -> "_Run":
        """At t0, or at the end of another run."""
        if before is not None:
            return self._gone_on(before.end)
        world, t0 = self.world, self.t0
        q, v = self._given()
        memory = world.memory(t0, q)
        contacts = world.contacts(t0, q, memory)  # an inadmissible velocity is an impact at t0
        impact = rebound(world, world.metric(q), contacts, v, contacts.closed())
        self.status = impact.status
        self._received(contacts, impact.multipliers)
        self.last = contacts, impact.multipliers
        self.moved = np.zeros_like(q)
        self.state = State(t0, q, impact.point, memory)
        if self.at[0] == 0.0:
            self._keep_planned()
        self.state = self.scheme.start(world, t0, q, impact.point, world.dt)
        return self

    def _gone_on(self, end):
        """Where another run stands, with its lists and guesses."""
        self.restore(end.state)
        self.step, self.iterations, self.residual, self.overlap = self.first, 0, 0.0, 0.0
        v: Any = _with_spin(self.world.pile, self.state.v)
        t, q, memory = self.t0 + self.step * self.world.dt, self.state.q, self.state.memory
        self.state = State(t, q, v, self.world.remembered(memory))
        nothing = self.world.contacts(t, q, self.state.memory)
        self.last = nothing, np.zeros((len(nothing.gap), 1))
        self.moved = np.zeros_like(self.state.q)
        if self._next() == self.step:
            self._keep_planned()
        return self

    def advance(self):
        """One step; whatever stops it, the last good state is kept."""
        try:
            self._advance()
        except (errors.RecordError, SystemError):  # no file to keep it in; Ctrl-C in a kernel
            raise
        except Exception as problem:
            self.status, self.error = Status.error, problem
            with contextlib.suppress(Exception):
                self._keep_last()

    def _advance(self):
        world, before = self.world, self.state
        inside = self._next() < self.step + 1
        self._before = self.saved() if inside else b""
        state, report = self._stepped()
        self.iterations += int(report.iterations)
        if report.status is not Status.ok:
            self.status = report.status
            self.residual = max(self.residual, float(report.residual))
            self._keep_last()
            return
        t = self.t0 + (self.step + 1) * world.dt
        f = world.forces(before.t + 0.5 * world.dt, before.q, before.v)
        overlap = world.overlap(report.contacts, t, state.q)
        while self._next() < self.step + 1:
            self._keep_planned(state.q - before.q)
        self.step += 1
        self.moved = state.q - before.q
        self.state = State(t, state.q, state.v, state.memory)
        self.work += float(np.sum(f[:, :3] * self.moved))
        self._received(report.contacts, report.impulse)
        self.residual = max(self.residual, float(report.residual))
        self.largest = max(self.largest, overlap)
        self.last = report.contacts, report.impulse
        self._before = b""
        if self._next() == self.step:
            self._keep_planned()

    def _next(self):
        """Where the next record lies, in steps from t0."""
        return self.at[self.done] if self.done < len(self.at) else np.inf

    def saved(self) -> bytes:
        """All that the rest of the run depends on, at the last whole step."""
        self.overlap = max(self.overlap, self.largest)
        return self._before or dumped(self._tree(self.state))

    def restore(self, data: bytes) -> None:
        """Put the run where it was."""
        like = self.scheme.start(self.world, self.t0, *self._given(), self.world.dt)
        found = restored(data, self._tree(like))
        self.step, self.iterations = int(found["step"]), int(found["iterations"])
        self.residual, self.overlap = float(found["residual"]), float(found["overlap"])
        self.state = found["state"]

    def _tree(self, state) -> dict:
        names = "step", "iterations", "residual", "overlap"
        return {name: np.array(getattr(self, name)) for name in names} | {"state": state}

    def room(self) -> int:
        """How long ``saved`` can be: 10 contacts a sphere and one with each wall, at most."""
        world = self.world
        start = State(self.t0, *self._given(), world.memory(self.t0, _wide(world.pile.position)))
        walls, size = start.memory.wall.shape[1], 4 if world.pile.spins else 1
        return len(dumped(self._tree(start))) + 16 * size * world.N * (10 + walls) + 4096

    def _given(self) -> tuple[Any, Any]:
        pile = self.world.pile
        return _wide(pile.position), _with_spin(pile, _wide(pile.velocity))

    def _stepped(self) -> Any:
        return self.scheme.step(self.world, self.state, self.world.dt)

    def _clear(self):
        world = self.world
        self.impulse = np.zeros((world.N, 6 if world.pile.spins else 3))
        self.wall_impulse = np.zeros((len(world.pile.walls.at(self.t0)[0]), 3))
        self.work, self.push, self.largest = 0.0, 0.0, 0.0

    def _received(self, contacts, lam):
        """Add the impulses of a step: H^T lam on the spheres, and what walls receive."""
        from carom.kernels.numba import projection
        from carom.kernels.numba import sliding as kernel

        c, each = contacts, np.zeros((contacts.bodies, 2))
        each[: self.world.N] = 1.0
        total, pushed = np.zeros((c.bodies, self.impulse.shape[1])), lam[:, 0].copy()
        if c.sliding is None:
            projection.push(c.start, c.i, c.j, c.normal, each[:, 0].copy(), pushed, total)
        else:
            kernel.push(c.start, c.i, c.j, c.normal, c.sliding.arm, each, lam, total)
        self.impulse += total[: self.world.N]
        self.push += float(np.sum(pushed))
        wall = contacts.source < 0
        place, push = -1 - contacts.source[wall], pushed[wall, None] * contacts.normal[wall]
        if c.sliding is not None:
            push = push + lam[wall, 1:]
        for d in range(3):
            self.wall_impulse[:, d] += np.bincount(
                place, weights=push[:, d], minlength=len(self.wall_impulse)
            )

    def _keep_planned(self, ahead: Any = None):
        """The next record; inside of a step that moves by ``ahead``, x is linear, v constant."""
        into = self._next() - self.step
        self._keep(into, self.state.q if ahead is None else self.state.q + into * ahead)
        self.done += 1

    def _keep_last(self):
        """The last good state, where it is no record yet."""
        if self.kept.last_step != self.step:
            self._keep(0.0, self.state.q)

    def _keep(self, into: float, q):
        d, world = self.world.dimension, self.world
        contacts, impulse = self.last
        t = self.t0 + (self.step + into) * world.dt
        self.overlap = max(self.overlap, self.largest)
        frame = Frame(
            step=self.step,
            t=t,
            x=q[:, :d].copy(),
            v=self.state.v[:, :d].copy(),
            moved=self.moved[:, :d].copy(),
            radius=world.pile.radius_at(t),
            impulse=self.impulse[:, :d].copy(),
            spin=turning(self.state.v[:, 3:], d),
            angular_impulse=turning(self.impulse[:, 3:], d),
            wall_impulse=self.wall_impulse[:, :d].copy(),
            work=self.work,
            push=self.push,
            overlap=self.largest,
            contacts=contact_table(world, contacts, impulse, q, t),
        )
        self._clear()
        self.kept.add(frame, self)


def _with_spin(pile, v):
    """(N, 6) v and w where spheres spin, (N, 3) where they do not; w of v, or of the pile."""
    if not pile.spins or v.shape[1] == 6:
        return v if pile.spins else v[:, :3]
    spin = pile.spin if pile.dimension == 3 else np.pad(pile.spin[:, None], ((0, 0), (2, 0)))
    return np.concatenate([v, spin], axis=1)


def _wide(x):
    return np.pad(x, ((0, 0), (0, 3 - x.shape[1])))


@contextlib.contextmanager
def _interruptible():
    """Ctrl-C inside a compiled kernel comes out of it as a SystemError: say what it was."""
    try:
        yield
    except SystemError as problem:
        if isinstance(problem.__cause__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        raise


@contextlib.contextmanager
def _bar(wanted, steps: int):
    """What is called with the run after each step: a bar, nothing, or what is given."""
    if not wanted or callable(wanted):
        yield wanted or (lambda run: None)
        return
    from rich.progress import MofNCompleteColumn, Progress

    with Progress(*Progress.get_default_columns(), MofNCompleteColumn()) as bar:
        task = bar.add_task("steps", total=steps)
        yield lambda run: bar.update(task, completed=run.step)


def _failure(solution, steps, t0):
    done, problem = solution.stats.steps, solution.error
    where = f"The run stopped after step {done} of {steps}, at t = {t0 + done * solution.dt:g}"
    kept = "everything up to there is in error.solution"
    if problem is None:
        error = exception_of(solution.status)(
            f"{text_of(solution.status)}. {where}, with a residual of "
            f"{solution.stats.residual:.2e} smallest radii after {solution.stats.iterations} "
            f"sweeps in all (tolerance {solution.pile.tolerance:g}); {kept}"
        )
    elif isinstance(problem, errors.CaromError):
        error = type(problem)(f"{problem}. {where}; {kept}")
    else:
        error = errors.RunError(f"{type(problem).__name__}: {problem}. {where}; {kept}")
    error.solution, error.__cause__ = solution, problem
    return error
