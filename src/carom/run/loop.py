"""The compiled loop: initial data, one step, and a piece of a run with its records."""

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from carom._jax import jit_for_once
from carom.derivatives import no_derivative_where
from carom.fields import MOTION
from carom.programs import compiled
from carom.results.solution import Stats
from carom.schemes.held import held
from carom.schemes.scheme import Report, Scheme, State, rebound, started
from carom.status import Status, failing, first_failure

EVENT_FIELDS = 5  # time, gap, normal velocity before and after, impulse

# A gap within this of zero, relative to the size of its terms, is closed in the initial data.
_CLOSED = 1e-10
_ROUNDING = 4.0 * float(np.finfo(float).eps)  # of such terms, which contacts know


class Run(eqx.Module):
    """What is fixed during a run."""

    system: Any  # a world of JAX arrays
    scheme: Scheme
    t0: Any  # () array
    dt: Any  # () array
    first: Any = 0  # () int, steps since t0 where it starts: a run that goes on

    def time(self, steps: Array) -> Array:
        """Of so many steps of this run, t0 + (first + steps) dt: not a sum of dt, which drifts."""
        return self.t0 + (self.first + steps) * self.dt


class Carry(eqx.Module):
    """What goes round the loop."""

    step: Array  # () int, the same for every member of a batch
    state: State
    impulse: Array  # (Shape.pushes,) since the last record
    stats: Stats
    status: Status

    def without_impulse(self) -> "Carry":
        """After a record."""
        return dataclasses.replace(self, impulse=jnp.zeros_like(self.impulse))


class Shape(NamedTuple):
    """How many numbers a record has of each kind."""

    d: int  # coordinates
    n: int  # velocities
    p: int  # gaps
    k: int  # joints
    m: int  # components of an impulse

    @property
    def pushes(self) -> int:
        """Impulses: normal ones, those of joints, friction."""
        return self.p * self.m + self.k

    @property
    def short(self) -> int:
        """The length of a row: q, v, gap, impulses."""
        return self.d + self.n + self.p + self.pushes

    def full(self, scheme: Scheme) -> int:
        """The length of a row of a step recorded in full."""
        return self.short + 2 * self.p + EVENT_FIELDS * scheme.events_per_step

    def normal(self, velocity: Array) -> Array:
        """(p,) of (p + k, m)."""
        return velocity[: self.p, 0]


# A record is one row, q, v, gap, impulses side by side: a single write in the compiled loop.  Where
# every step is kept, the normal velocities before and after its reaction follow.


FIELDS = tuple(field.name for field in MOTION)


def split_rows(rows, shape: Shape):
    """The FIELDS, None where there are none: no joint, no friction, or it was not kept."""
    d, n, p, k, m = shape
    widths = [d, n, p, p, k, p * (m - 1), p, p]
    ends = np.cumsum(widths)
    parts = [rows[:, a:b] for a, b in zip([0, *ends], ends, strict=False)]
    parts[4] = parts[4] if k else None
    parts[5] = parts[5].reshape(-1, p, m - 1)[:, :, slice(None) if m > 2 else 0] if m > 1 else None
    if rows.shape[1] < ends[-1]:
        return [*parts[:6], None, None, None]
    count = (rows.shape[1] - ends[-1]) // EVENT_FIELDS
    events = rows[:, ends[-1] :].reshape(rows.shape[0], count, EVENT_FIELDS)
    return [*parts, events if count else None]


class Start(eqx.Module):
    """The initial data as the system sees them."""

    carry: Carry
    row: Array  # the full record at t0, with v the right limit
    push: Array  # (Shape.pushes,) of the start of the scheme, which belongs to the first step
    before: Array  # (p,) relative normal velocity before it
    contacts: Any
    tolerance: Array  # (p,) below which a gap counts as closed
    force: Array  # (d,)
    mass: Array | None  # mass(q0), when it is a function
    shape: Shape = eqx.field(static=True)

    def recorded(self) -> Carry:
        """The carry after a record at t0."""
        return eqx.tree_at(lambda c: c.impulse, self.carry, self.push)

    def leading(self, rows):
        """The rows of all steps, the first with what the start of the scheme did."""
        own = slice(self.shape.short, self.shape.short + self.shape.p)
        if isinstance(rows, np.ndarray):  # in no time, where JAX would compile each operation
            struck, rows = np.asarray(self.push)[: self.shape.p] > 0.0, rows.copy()
            rows[0, own] = np.where(struck, np.asarray(self.before), rows[0, own])
            return rows
        struck = self.push[: self.shape.p] > 0.0
        return rows.at[0, own].set(jnp.where(struck, self.before, rows[0, own]))


class _AtOnce:
    """A world that projects without a look whether anything pushes: that is for loops (law.py)."""

    def __init__(self, world):
        self._world = world

    def __getattr__(self, name):
        return getattr(self._world, name)

    def project(self, metric, target, contacts, b, active=None):
        """Onto the set that the law allows."""
        return contacts.law.project(metric, target, contacts.rows, b, active)


def begin(run: Run, q0: Array, v0: Array) -> Start:
    """Initial data, through an impact at t0 when v0 points out of K and the wall is rigid."""
    system, t0 = run.system, run.time(jnp.array(0))
    system.check_shapes(t0, q0, v0)  # once: it is not part of the compiled program
    metric, contacts = system.metric(q0), system.contacts(t0, q0)
    shape = shape_of(contacts, q0, v0)
    tolerance = _tolerance(contacts)
    bilateral = contacts.law.bilateral()
    closed = (contacts.gap <= tolerance) | bilateral
    apart = (contacts.gap < -tolerance) | (bilateral & (contacts.gap > tolerance))
    struck = closed & run.scheme.rigid  # a wall that yields takes any velocity (PS93, 10)
    if run.scheme.differentiable:
        world, (q, impact) = system, _impact_at_start(system, t0, q0, v0, contacts, struck)
    else:
        world = _AtOnce(system)
        q, impact = q0, rebound(world, metric, contacts, v0, struck)
    state, report = started(run.scheme, world, t0, q, impact.point, run.dt)
    push, pushed = jnp.zeros(shape.pushes), jnp.zeros(shape.p)
    if report is not None:
        push, pushed = _flat(report.impulse, shape.pushes), shape.normal(report.before)
    carry = Carry(
        step=jnp.array(0),
        state=_remembering(system, state, impact),
        impulse=_flat(impact.multipliers, shape.pushes),
        stats=Stats.start(impact),
        status=first_failure(
            contacts.law.status(),
            failing(~(jnp.all(jnp.isfinite(q0)) & jnp.all(jnp.isfinite(v0))), Status.nonfinite),
            failing(jnp.any(apart), Status.outside),
            contacts.status(metric, closed, impact.point),
            impact.status,
            Status.ok if report is None else report.status,
        ),
    )
    # a member that fails here keeps what it was given
    good = carry.status == Status.ok
    v = jnp.where(good, impact.point, v0)
    blow, push = (jnp.where(good, x, 0.0) for x in (_flat(impact.multipliers, shape.pushes), push))
    kept = jax.tree_util.tree_map(lambda x: jnp.where(good, x, jnp.zeros_like(x)), carry.state)
    kept = State(t0, jnp.where(good, kept.q, q0), jnp.where(good, kept.v, v0), kept.memory)
    carry = eqx.tree_at(lambda c: (c.state, c.impulse), carry, (kept, blow + push))
    carry = jax.tree_util.tree_map(lambda x: jax.lax.convert_element_type(x, x.dtype), carry)
    before, after = (shape.normal(contacts.velocity(x)) for x in (v0, v))
    return Start(
        carry=carry,
        row=_start_row(run, q0, v, contacts.gap[: shape.p], blow, before, after),
        push=push,
        before=pushed,
        contacts=contacts,
        tolerance=tolerance,
        force=system.forces(t0, q0, v0),
        mass=system.inertia(q0),
        shape=shape,
    )


def go_on(run: Run, state: State) -> Start:
    """From the end of another run, without a new start of its scheme."""
    system, t, q, v = run.system, state.t, state.q, state.v
    system.check_shapes(t, q, v)
    contacts = system.contacts(t, q)
    shape = shape_of(contacts, q, v)
    zero, none, w = jnp.zeros(shape.pushes), jnp.array(0), shape.normal(contacts.velocity(v))
    stats = Stats(none, jnp.zeros(()), none, jnp.zeros(()), jnp.zeros(()), none)
    return Start(
        carry=Carry(jnp.array(0), state, zero, stats, Status.ok),
        row=_start_row(run, q, v, contacts.gap[: shape.p], zero, w, w),
        push=zero,
        before=w,
        contacts=contacts,
        tolerance=_tolerance(contacts),
        force=system.forces(t, q, v),
        mass=system.inertia(q),
        shape=shape,
    )


def _tolerance(contacts):
    """(p,) below which a gap counts as closed."""
    return _CLOSED * (contacts.rounding / _ROUNDING + 1e-4)


def _impact_at_start(system, t0, q0, v0, contacts, closed):
    """Position and impact at t0, with the derivative of an impact that q0 moves to t0 + shift.

    In value the shift is zero; a q0 that moves off the gap meets it that much later.
    """
    w = contacts.velocity(v0)[:, 0]
    hit = closed & (w < 0.0)
    if contacts.law.joints:  # a joint is met at all times
        hit, system = hit & ~contacts.law.bilateral(), held(system, t0, q0)
    moved = contacts.gap - jax.lax.stop_gradient(contacts.gap)
    shift = jnp.sum(jnp.where(hit, -moved / jnp.where(hit, w, 1.0), 0.0))
    shift = no_derivative_where(jnp.sum(hit) > 1, shift)
    q, v = q0 + shift * v0, v0 + shift * system.acceleration(t0, q0, v0)
    found = rebound(system, system.metric(q), system.contacts(t0 + shift, q), v, closed)
    v = found.point - shift * system.acceleration(t0, q0, found.point)
    return q - shift * found.point, eqx.tree_at(lambda f: f.point, found, v)


def _remembering(system, state, impact):
    """With what contacts that remember keep of a blow at t0."""
    memory = system.memory(state.t, state.q)
    if memory is None:
        return state
    kept = system.contacts(state.t, state.q, memory).kept(impact.multipliers)
    return State(state.t, state.q, state.v, kept)


def _flat(impulse, pushes: int):
    """(pushes,) of (p + k, m): normal impulses, those of joints, friction."""
    count, m = impulse.shape
    if m == 1 or count == 1:
        return jnp.ravel(impulse)
    p = (pushes - count) // (m - 1)
    return jnp.concatenate([impulse[:, 0], jnp.ravel(impulse[:p, 1:])])


def shape_of(contacts, q: Array, v: Array) -> Shape:
    """The Shape of the records."""
    k = contacts.law.joints
    return Shape(q.shape[0], v.shape[0], contacts.gap.shape[0] - k, k, contacts.rate.shape[1])


def _start_row(run, *parts):
    """The record at t0; no event lies inside it."""
    row = jnp.concatenate(parts)
    return jnp.pad(row, (0, EVENT_FIELDS * run.scheme.events_per_step), constant_values=-1.0)


def _held(system, old: State, new: State, status) -> Status:
    """Whether joints held in a step, where a world has some and nothing failed before."""
    told = getattr(system, "joint_status", None)
    return Status.ok if told is None else told(old, new, status == Status.ok)


def one_step(run: Run, carry: Carry) -> tuple[Carry, Report]:
    """Advance by one step; a failed run keeps its last good state."""
    old = carry.state
    new, report = run.scheme.step(run.system, old, run.dt)
    status = first_failure(report.status, _held(run.system, old, new, carry.status))
    good = (carry.status == Status.ok) & (status == Status.ok)
    step = carry.step + 1
    state = jax.tree_util.tree_map(lambda new, old: jnp.where(good, new, old), new, carry.state)
    carry = Carry(
        step=step,
        state=State(run.time(step), state.q, state.v, state.memory),
        impulse=carry.impulse + jnp.where(good, _flat(report.impulse, carry.impulse.shape[0]), 0.0),
        stats=carry.stats.after(report, good),
        status=first_failure(carry.status, status),
    )
    return carry, report


def advance_each(run: Run, carry: Carry, shape: Shape, steps, capacity: int):
    """Through ``steps`` steps, each recorded in full.

    Returns the carry and the rows, (capacity, shape.full), of which the first ``steps`` count.
    """

    def keep(r, loop):
        carry, report = one_step(run, loop[0])
        state = carry.state
        gap = run.system.gaps(state.t, state.q)
        good = carry.status == Status.ok
        before, after = (
            jnp.where(good, shape.normal(x), 0.0) for x in (report.before, report.after)
        )
        row = [state.q, state.v, gap, carry.impulse, before, after]
        if report.events is not None:
            row.append(jnp.where(good, jnp.ravel(report.events), -1.0))
        return carry.without_impulse(), _written(loop[1], row, r)

    rows = jnp.zeros((capacity, shape.full(run.scheme)))
    return jax.lax.fori_loop(0, steps, keep, (carry, rows))


def advance_listed(run: Run, carry: Carry, shape: Shape, until, capacity: int):
    """Up to step ``until``, with a row for each step and one more whenever a table is full.

    For a scheme that locates impacts: none of them is lost, however many there are in a step.
    Returns the carry, the rows (capacity, shape.full + 1), the last entry 1 where a step is done
    and 0 on the way, and how many of the rows count.
    """

    def going(loop):
        carry, _, r = loop
        return (carry.step < until) & (r < capacity) & (carry.status == Status.ok)

    scheme: Any = run.scheme  # one that is dense

    def keep(loop):
        carry, rows, r = loop
        t1 = run.time(carry.step + 1)
        old = carry.state
        new, report = scheme.portion(run.system, old, t1)
        status = first_failure(report.status, _held(run.system, old, new, carry.status))
        good = status == Status.ok
        done = good & (new.t >= t1)
        state = State(jnp.where(done, t1, new.t), new.q, new.v, new.memory)
        push = jnp.where(good, _flat(report.impulse, carry.impulse.shape[0]), 0.0)
        carry = Carry(
            step=carry.step + done,
            state=jax.tree_util.tree_map(lambda a, b: jnp.where(good, a, b), state, carry.state),
            impulse=carry.impulse + push,
            stats=carry.stats.after(report, done),
            status=status,
        )
        state = carry.state
        gap = run.system.gaps(state.t, state.q)
        row = [
            state.q,
            state.v,
            gap,
            carry.impulse,
            *map(shape.normal, (report.before, report.after)),
        ]
        row += [jnp.where(good, jnp.ravel(report.events), -1.0), jnp.stack([done.astype(float)])]
        left = jnp.where(done, 0.0, carry.impulse)
        return eqx.tree_at(lambda c: c.impulse, carry, left), _written(rows, row, r), r + 1

    rows = jnp.zeros((capacity, shape.full(run.scheme) + 1))
    return jax.lax.while_loop(going, keep, (carry, rows, jnp.array(0)))


def advance(
    run: Run, carry: Carry, shape: Shape, strides, fractions, turns, capacity: int, records=None
):
    """Through ``turns`` turns, the r-th of ``strides[r]`` steps and with a record at its end.

    With ``fractions`` a record lies that far into the step that follows: where a shorter step
    leads, for a scheme that is exact at any length, else on the line to the end of the step.  With
    ``records`` the turns from there on are on the way to a record that a later piece makes.
    Returns the carry and the rows, (capacity, shape.short), of which those of the records count.
    """

    def keep(r, loop):
        carry = jax.lax.fori_loop(0, strides[r], lambda _, c: one_step(run, c)[0], loop[0])
        t, q, v = carry.state.t, carry.state.q, carry.state.v
        push = carry.impulse
        if fractions is not None:
            part = run.dt * fractions[r]
            t = t + part
            if run.scheme.dense:
                ahead, report = run.scheme.step(run.system, carry.state, part)
                q, v = ahead.q, ahead.v
                push = push + _flat(report.impulse, push.shape[0])
            else:
                q = run.system.between(q, one_step(run, carry)[0].state.q, fractions[r])
        row = [q, v, run.system.gaps(t, q), push]
        kept = True if records is None else r < records
        left = carry.impulse - jnp.where(kept, push, 0.0)
        carry = eqx.tree_at(lambda c: c.impulse, carry, left)
        return carry, _written(loop[1], row, r)

    return jax.lax.fori_loop(0, turns, keep, (carry, jnp.zeros((capacity, shape.short))))


def _written(rows, row, r):
    return jax.lax.dynamic_update_slice(rows, jnp.concatenate(row)[None], (r, 0))


go_on_compiled = compiled(go_on, jit_for_once)
begin_compiled = compiled(begin, jit_for_once)
advance_compiled = compiled(advance)
advance_listed_compiled = compiled(advance_listed)
advance_each_compiled = compiled(advance_each)
