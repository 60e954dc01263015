"""``solve``: what is given, checked, and moved by the driver (drive.py)."""

from collections.abc import Callable
from typing import Any, overload

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from carom.arguments import suggesting
from carom.contracts import Model
from carom.derivatives import differentiable, refusing
from carom.errors import RecordError
from carom.results.solution import End, Origin, Solution
from carom.run.checks import check_kinds, check_needs, tracing
from carom.run.compiled import Compiled
from carom.run.drive import Clock, drive
from carom.run.going_on import check_end, check_untraced, clock, end_of
from carom.run.loop import FIELDS, Run, advance, advance_each, begin, shape_of, split_rows
from carom.run.record import Plan, Record
from carom.run.stepped import Stepped
from carom.schemes.scheme import Scheme, kept
from carom.worlds.spheres.model import Spheres
from carom.worlds.spheres.solution import SpheresSolution
from carom.worlds.system.system import System


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
@overload
def solve(
    system: Model,
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
) -> Any: ...
@suggesting
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
    """Move a world from t0 to t1 through impacts: a Solution, of Spheres a SpheresSolution.

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
    check_kinds(system, scheme, record)
    end = check_end(start, t0, q0, v0)
    (t0, steps, dt), first = clock(end, t0, t1, dt)
    times = Clock(t0, first, steps, dt)
    if record is None:
        every = 1 if system.records is None else max(1, steps // system.records)
        record = Record(every=every)
    system.check(scheme, record)
    old = isinstance(end, End)
    given: Any = tuple(map(jnp.asarray, (end.q, end.v))) if old else system.initial(q0, v0)
    plan = record.plan(times.start, dt, steps)
    world = system.world(times.start, times.time(steps), dt)
    check_needs(system, world, scheme)
    if world.xp is not jnp:
        course = Stepped(world, scheme, times, given, start, plan)
        return drive(course, record, progress, throw)
    if not scheme.rigid:
        record = record.without_impacts()
    traced, batched = tracing(world, scheme, t0, *given)
    run = Run(
        world.for_batch() if batched and scheme.lockstep else world,
        scheme.over(steps * dt),
        np.asarray(t0, float),  # of NumPy: JAX takes as long to make one as for many steps
        np.asarray(dt, float),
        np.asarray(first, int),
    )
    if traced:
        check_untraced(start)
        return _solve_traced(run, given[0], given[1], plan, record)
    paced = bool(record.path or progress)
    course = Compiled(run, times, given, start, plan, record, paced=paced)
    return drive(course, record, progress, throw)


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
        carry = start.recorded() if first else start.carry
        if record.every == 1:
            steps = jnp.asarray(len(marks))
            carry, rows = advance_each(run, carry, start.shape, steps, len(marks))
            if run.scheme.pushes_at_start and len(marks):
                rows = start.leading(rows)
        else:
            strides = jnp.asarray(np.diff(marks, prepend=0))
            into = None if plan.fractions is None else jnp.asarray(plan.fractions)
            carry, rows = advance(
                run, carry, start.shape, strides, into, jnp.asarray(len(marks)), len(marks)
            )
        if first:
            rows = jnp.concatenate([start.row[None, : rows.shape[1]], rows])
        return carry, rows

    contacts = run.system.contacts(run.t0, q0)
    slides = contacts.rate.ndim > 1 and contacts.rate.shape[1] > 1
    right = (run.scheme.differentiable and not slides) or contacts.gap.shape[0] == 0
    lockstep = run.scheme.lockstep
    safe = (
        differentiable(moved, lockstep=lockstep)
        if right
        else refusing(moved, _SLIDES if slides else _no_derivative(run.scheme))
    )
    carry, rows = safe(q0, v0)
    return _solution(run, _record_steps(plan), rows, carry, shape_of(contacts, q0, v0))


_SLIDES = (
    "a derivative of a motion with friction was asked for: where a contact begins or ceases to "
    "slip it has a kink that is not followed. Take differences of runs with EventDriven, "
    "whose error is that of its tolerance"
)


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
        origin=Origin(kept(run.scheme)),
    )
