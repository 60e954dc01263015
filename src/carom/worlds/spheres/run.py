"""``solve`` for Spheres: a Python loop over compiled kernels."""

import contextlib
from typing import Any

import numpy as np

from carom import errors
from carom.run.record import Record
from carom.schemes.maury import Maury
from carom.schemes.moreau import Moreau
from carom.schemes.paoli_schatzman import PaoliSchatzman
from carom.schemes.scheme import State, rebound
from carom.status import Status, exception_of, text_of
from carom.worlds.spheres.model import Spheres
from carom.worlds.spheres.solution import Frame, SpheresSolution, SphereStats, contact_table
from carom.worlds.spheres.world import World

_RECORDS = 100  # kept when nothing is said
_INITIAL_SLACK = 10.0  # overlap of the initial state that is let by, in tolerances
_SCHEMES = (Maury, Moreau, PaoliSchatzman)


def solve_spheres(
    pile: Spheres, scheme, t0: float, steps: int, dt: float, record, progress, throw
) -> SpheresSolution:
    """Move spheres from t0 through ``steps`` steps of dt."""
    if not isinstance(scheme, _SCHEMES):
        names = ", ".join(kind.__name__ for kind in _SCHEMES)
        raise errors.KindError(f"scheme is {scheme!r}; Spheres are moved by {names}")
    from carom.kernels.numba.threads import enough_for

    marks = _marks(record, t0, dt, steps)
    world = World(pile, dt)
    with enough_for(len(pile)), _bar(progress, steps) as show:
        run = _begun(world, scheme, t0, steps, marks, record)
        with contextlib.closing(run.kept), _interruptible():
            while run.step < steps and run.status is Status.ok:
                run.advance()
                show(run)
            solution = run.kept.solution(run)
    if throw and not solution.ok:
        raise _failure(solution, steps, t0)
    return solution


def _marks(record, t0, dt, steps) -> set:
    """The steps to keep: about a hundred when nothing is said."""
    record = Record(every=max(1, steps // _RECORDS)) if record is None else record
    plan = record.plan(t0, dt, steps)
    marks = plan.marks if plan.fractions is None else np.rint(plan.marks + plan.fractions)
    return set(np.asarray(marks, int).tolist())


def _begun(world, scheme, t0, steps, marks, record) -> "_Run":
    """A run at its start, or where a file says that it was."""
    if record is None or record.path is None:
        check_overlap(world, t0)
        return _Run(world, scheme, t0, marks, _InMemory()).started()
    from carom.io.vtkhdf import Recording
    from carom.worlds.spheres.checkpoint import restore

    run = _Run(world, scheme, t0, marks, _InMemory())
    if record.resume:
        run.kept, state = Recording.resume(record.path, world, scheme, t0, steps, marks)
        if state:
            restore(run, state)
            return run
        run.kept.close()
    check_overlap(world, t0)
    run.kept = Recording.start(record.path, world, scheme, t0, steps, marks, record.description)
    try:
        return run.started()
    except BaseException:
        run.kept.close()
        raise


class _InMemory:
    """Keeps the records of a run; what a carom.vtkhdf.Recording does in a file."""

    def __init__(self):
        self.frames, self.last_step = [], -1

    def add(self, frame, run):
        self.frames.append(frame)
        self.last_step = frame.step

    def solution(self, run) -> SpheresSolution:
        """What was kept."""
        world = run.world
        stats = SphereStats(
            run.step, run.iterations, run.residual, max(run.overlap, run.largest), world.rebuilds
        )
        return SpheresSolution(
            self.frames,
            stats=stats,
            status=run.status,
            dt=world.dt,
            scheme=run.scheme,
            pile=world.pile,
        )

    def close(self):
        pass


def check_overlap(world: World, t0: float) -> None:
    """Refuse an initial state with overlaps, naming the worst pair."""
    pile = world.pile
    contacts = world.contacts(t0, _wide(pile.position))
    if not len(contacts.gap) or np.min(contacts.gap) >= -_INITIAL_SLACK * (
        pile.tolerance * pile.smallest
    ):
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
        f", sphere {i} at {pile.position[i]}); {np.sum(contacts.gap < 0.0)} gaps are negative. "
        "Move them apart, or remove small overlaps with carom.spheres.relax(pile)"
    )


class _Run:
    """The state of a run, and its records."""

    def __init__(self, world, scheme, t0, marks, kept: Any):
        self.world, self.scheme, self.t0, self.marks, self.kept = world, scheme, t0, marks, kept
        self.step, self.iterations, self.residual, self.overlap = 0, 0, 0.0, 0.0
        self.status: Any = Status.ok
        self.state: Any = None
        self.last: Any = None
        self._clear()

    def started(self) -> "_Run":
        """At t0."""
        world, t0 = self.world, self.t0
        q: Any = _wide(world.pile.position)
        v: Any = _wide(world.pile.velocity)
        contacts = world.contacts(t0, q)  # an inadmissible velocity is an impact at t0
        impact = rebound(world, world.metric(q), contacts, v, contacts.gap <= 0.0)
        self.status = impact.status
        self._received(contacts, impact.multipliers)
        self.last = contacts, impact.multipliers
        self.moved = np.zeros_like(q)
        self.state = State(t0, q, impact.point)
        if 0 in self.marks:
            self._keep()
        self.state = self.scheme.start(world, t0, q, impact.point, world.dt)
        return self

    def advance(self):
        """One step."""
        world, before = self.world, self.state
        state, report = self._stepped()
        self.iterations += int(report.iterations)
        if report.status is not Status.ok:
            self.status = report.status
            self.residual = max(self.residual, float(report.residual))
            if self.kept.last_step != self.step:
                self._keep()
            return
        self.step += 1
        self.moved = state.q - before.q
        self.state = State(self.t0 + self.step * world.dt, state.q, state.v)
        f = world.forces(before.t + 0.5 * world.dt, before.q, before.v)
        self.work += float(np.sum(f * (state.q - before.q)))
        self._received(report.contacts, report.impulse)
        self.residual = max(self.residual, float(report.residual))
        self.largest = max(self.largest, world.overlap(report.contacts, self.state.t, state.q))
        self.last = report.contacts, report.impulse
        if self.step in self.marks:
            self._keep()

    def _stepped(self) -> Any:
        return self.scheme.step(self.world, self.state, self.world.dt)

    def _clear(self):
        world = self.world
        self.impulse = np.zeros((world.N, 3))
        self.wall_impulse = np.zeros((len(world.pile.walls.at(self.t0)[0]), 3))
        self.work, self.push, self.largest = 0.0, 0.0, 0.0

    def _received(self, contacts, lam):
        """Add the impulses of a step: G^T lam on the spheres, and what walls receive."""
        from carom.kernels.numba import projection

        total = np.zeros((contacts.bodies, 3))
        c, each = contacts, np.zeros(contacts.bodies)
        each[: self.world.N] = 1.0
        projection.push(c.start, c.i, c.j, c.normal, each, lam, total)
        self.impulse += total[: self.world.N]
        self.push += float(np.sum(lam))
        wall = contacts.source < 0
        place, push = -1 - contacts.source[wall], lam[wall, None] * contacts.normal[wall]
        for d in range(3):
            self.wall_impulse[:, d] += np.bincount(
                place, weights=push[:, d], minlength=len(self.wall_impulse)
            )

    def _keep(self):
        d, state, world = self.world.dimension, self.state, self.world
        contacts, impulse = self.last
        t = self.t0 + self.step * world.dt
        self.overlap = max(self.overlap, self.largest)
        frame = Frame(
            step=self.step,
            t=t,
            x=state.q[:, :d].copy(),
            v=state.v[:, :d].copy(),
            moved=self.moved[:, :d].copy(),
            radius=world.pile.radius_at(t),
            impulse=self.impulse[:, :d].copy(),
            wall_impulse=self.wall_impulse[:, :d].copy(),
            work=self.work,
            push=self.push,
            overlap=self.largest,
            contacts=contact_table(world, contacts, impulse, state.q, t),
        )
        self._clear()
        self.kept.add(frame, self)


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
    done = solution.stats.steps
    error = exception_of(solution.status)(
        f"{text_of(solution.status)}. The run stopped after step {done} of {steps}, at "
        f"t = {t0 + done * solution.dt:g}, with a residual of {solution.stats.residual:.2e} "
        f"smallest radii after {solution.stats.iterations} sweeps in all (tolerance "
        f"{solution.pile.tolerance:g}); everything up to there is in error.solution"
    )
    error.solution = solution
    return error
