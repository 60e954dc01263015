"""``solve``: one compiled loop, driven in pieces so that nothing is lost and memory stays small."""

import contextlib
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from carom import errors
from carom.impacts import ImpactLog
from carom.record import Plan, Record
from carom.schemes.scheme import Scheme, State, contact_status, rebound
from carom.solution import Origin, Solution, Stats
from carom.status import Status, exception_of, first_failure, text_of
from carom.system import Contacts, System, check_definite

_PIECE_BYTES = 4 * 2**20  # of the buffer that one compiled piece fills
_PIECE_STEPS = 2**20  # between two words to the outside: about 50 ms for a small system
# A gap within this of zero, relative to the size of its terms, is closed in the initial data.
_CLOSED = 1e-10


def solve(
    system: System,
    scheme: Scheme,
    q0=None,
    v0=None,
    *,
    t0: float = 0.0,
    t1: float,
    dt: float,
    record: Record | None = None,
    progress: bool = False,
    throw: bool = True,
) -> Solution:
    """Move a system from t0 to t1 through its impacts.

    ``dt`` is shortened so that a whole number of equal steps ends at ``t1``.  A velocity ``v0``
    that points out of the admissible set is an impact at t0: the run starts with what the impact
    law makes of it, and the impulse is in the first row.

    A run that fails raises a CaromError whose ``solution`` holds everything up to that time (and
    saves it, if ``record`` has a path); with ``throw=False`` that solution is returned and its
    ``status`` says what happened.  Inside ``jax.jit`` or ``jax.vmap`` there is always a status per
    member and never an exception: a member that fails keeps its last good state.
    """
    record = Record() if record is None else record
    t0, steps, dt = _checked_times(t0, t1, dt)
    q0, v0 = _checked_vectors(q0, v0)
    traced = _checked_shapes(system, scheme, t0, q0, v0)
    run = _Run(system, scheme, jnp.asarray(t0), jnp.asarray(dt))
    plan = record.plan(t0, dt, steps)
    if traced:
        return _solve_traced(run, q0, v0, plan, record)
    return _solve_in_pieces(run, q0, v0, plan, record, steps, progress, throw)


# ---- compiled ------------------------------------------------------------------------------


class _Run(eqx.Module):
    """What is fixed during a run."""

    system: System
    scheme: Scheme
    t0: Array  # ()
    dt: Array  # ()


class _Carry(eqx.Module):
    """What goes round the loop."""

    state: State
    impulse: Array  # (p,) since the last record
    before: Array  # (p,) relative normal velocity before the reaction of the last step
    after: Array  # (p,) and after it
    stats: Stats
    status: Status

    def row(self, q: Array, v: Array) -> Array:
        """One record, side by side in one array: a single write in the compiled loop."""
        return jnp.concatenate([q, v, self.impulse, self.before, self.after])


class _Start(eqx.Module):
    """The initial data as the system sees them."""

    carry: _Carry
    row: Array  # the record at t0, with v the right limit
    contacts: Contacts
    tolerance: Array  # (p,) below which a gap counts as closed
    force: Array  # (d,)
    mass: Array | None


def _begin(run: _Run, q0: Array, v0: Array) -> _Start:
    """Initial data, through an impact at t0 when v0 points out of K."""
    system, t0 = run.system, run.t0
    metric, contacts = system.metric(q0), system.contacts(t0, q0)
    tolerance = _CLOSED * (
        jnp.abs(contacts.rows) @ jnp.abs(q0) + jnp.abs(contacts.rate * t0) + 1e-4
    )
    closed = contacts.gap <= tolerance
    impact = rebound(system, metric, contacts, v0, closed)
    carry = _Carry(
        state=run.scheme.start(system, t0, q0, impact.point, run.dt),
        impulse=impact.multipliers,
        before=contacts.velocity(v0),
        after=contacts.velocity(impact.point),
        stats=Stats.start(impact),
        status=first_failure(contact_status(metric, contacts, closed, impact.point), impact.status),
    )
    force = system.forces(t0, q0, v0)
    mass = system.mass(q0) if callable(system.mass) else None
    return _Start(carry, carry.row(q0, impact.point), contacts, tolerance, force, mass)


def _one_step(run: _Run, carry: _Carry) -> _Carry:
    """Advance by one step; a failed run keeps its last good state."""
    new, report = run.scheme.step(run.system, carry.state, run.dt)
    good = (carry.status == Status.ok) & (report.status == Status.ok)
    stats = carry.stats.after(report, good)

    def chosen(new, old):
        return jnp.where(good, new, old)

    return _Carry(
        state=State(
            run.t0 + stats.steps * run.dt,  # not t + dt, which drifts
            chosen(new.q, carry.state.q),
            chosen(new.v, carry.state.v),
        ),
        impulse=carry.impulse + chosen(report.impulse, 0.0),
        before=chosen(report.before, carry.before),
        after=chosen(report.after, carry.after),
        stats=stats,
        status=first_failure(carry.status, report.status),
    )


def _advance(run: _Run, carry: _Carry, strides, fractions, records, capacity: int):
    """Through ``records`` records, the r-th after ``strides[r]`` more steps (None: one each)."""

    def keep(r, loop):
        carry, rows = loop
        if strides is None:
            carry = _one_step(run, carry)
        else:
            carry = jax.lax.fori_loop(0, strides[r], lambda _, c: _one_step(run, c), carry)
        q = carry.state.q
        if fractions is not None:
            q = q + fractions[r] * (_one_step(run, carry).state.q - q)
        rows = jax.lax.dynamic_update_slice(rows, carry.row(q, carry.state.v)[None], (r, 0))
        return _without_impulse(carry), rows

    width = 2 * carry.state.q.shape[0] + 3 * carry.impulse.shape[0]
    return jax.lax.fori_loop(0, records, keep, (carry, jnp.zeros((capacity, width))))


def _without_impulse(carry: _Carry) -> _Carry:
    return eqx.tree_at(lambda c: c.impulse, carry, jnp.zeros_like(carry.impulse))


_begin_compiled = eqx.filter_jit(_begin)
_advance_compiled = eqx.filter_jit(_advance)


# ---- inside jit or vmap --------------------------------------------------------------------


def _solve_traced(run, q0, v0, plan, record) -> Solution:
    if record.impacts and record.every != 1:
        raise errors.RecordError(
            "inside jit or vmap the table of impacts needs every step: use Record() and then "
            "sol[i].impacts, or leave impacts=True out"
        )
    start = _begin(run, q0, v0)
    first, marks = _first_record(plan)
    carry = _without_impulse(start.carry) if first else start.carry
    strides = jnp.asarray(np.diff(marks, prepend=0))
    fractions = None if plan.fractions is None else jnp.asarray(plan.fractions)
    one_each = plan.fractions is None and bool(np.all(np.diff(marks, prepend=0) == 1))
    # The number of records is passed as an array: it keeps the loop from being unrolled into a
    # reverse-differentiable scan, whose derivative would be silently wrong at every impact.
    carry, rows = _advance(
        run, carry, None if one_each else strides, fractions, jnp.asarray(len(marks)), len(marks)
    )
    if first:
        rows = jnp.concatenate([start.row[None], rows])
    return _solution(run, plan, rows, carry, system=None, impacts=None)


def _first_record(plan: Plan) -> tuple[bool, np.ndarray]:
    """Whether the initial data are a record of their own, and the marks left for the loop."""
    first = plan.fractions is None and plan.marks[0] == 0
    return first, plan.marks[1:] if first else plan.marks


# ---- driven from Python --------------------------------------------------------------------


def _solve_in_pieces(run, q0, v0, plan, record, steps, progress, throw) -> Solution:
    start = _begin_compiled(run, q0, v0)
    _check_start(start, float(run.t0), q0)
    first, marks = _first_record(plan)
    carry = _without_impulse(start.carry) if first else start.carry
    ticks = _ticks(marks, plan, steps, record)
    collected = _Collected(run, start, first, marks, record)
    strides = np.diff(ticks, prepend=0)
    one_each = plan.fractions is None and bool(np.all(strides == 1))
    capacity = _capacity(start.row.shape[0], len(ticks))
    done = 0
    with _progress_bar(progress, steps) as show:
        while done < len(ticks):
            piece = slice(done, done + _piece_length(strides[done:], capacity))
            carry, rows = _advance_compiled(
                run,
                carry,
                None if one_each else _padded(strides[piece], capacity),
                None if plan.fractions is None else _padded(plan.fractions[piece], capacity),
                jnp.asarray(len(strides[piece])),
                capacity,
            )
            good = int(carry.stats.steps)
            collected.add(ticks[piece], np.asarray(rows)[: len(strides[piece])], good)
            done = piece.stop
            show(good)
            if bool(carry.status != Status.ok):
                return _failed(collected.solution(plan, carry), run, steps, record, throw)
    solution = collected.solution(plan, carry)
    if record.path is not None:
        solution.save(record.path)
    return solution


def _ticks(marks, plan, steps, record) -> np.ndarray:
    """The steps at which the compiled loop hands out a row: the marks, and more where needed."""
    if record.impacts:
        return np.arange(1, steps + 1)  # a look at every step
    if plan.fractions is not None:
        return marks
    return np.unique(np.concatenate([marks, np.arange(_PIECE_STEPS, steps, _PIECE_STEPS)]))


def _capacity(width: int, records: int) -> int:
    """Rows in one piece: one of two sizes for a given width, so at most two compilations."""
    full = max(64, 2 ** int(math.log2(_PIECE_BYTES / (8 * width))))
    return min(full, 1024) if records <= 1024 else full


def _piece_length(strides: np.ndarray, capacity: int) -> int:
    """How many records go into the next piece: at most ``capacity``, and not too many steps."""
    ahead = np.cumsum(strides[:capacity])
    return max(1, int(np.searchsorted(ahead, _PIECE_STEPS, side="right")))


def _padded(values: np.ndarray, capacity: int) -> Array:
    return jnp.asarray(np.pad(values, (0, capacity - len(values))))


class _Collected:
    """Rows on the host, thinned to the marks, and the impacts seen on the way."""

    def __init__(self, run, start, first, marks, record):
        self.run, self.marks = run, marks
        self.d, self.p = len(start.carry.state.q), len(start.carry.impulse)
        self.rows = [np.asarray(start.row)[None]] if first else []
        self.steps = [np.zeros(1, int)] if first else []
        self.pending = np.zeros(self.p)  # impulse of rows dropped since the last kept one
        self.log = ImpactLog(self.p) if record.impacts else None
        if self.log is not None:
            self._look(np.zeros(1, int), np.asarray(start.row)[None])

    def add(self, ticks, rows, good):
        if self.log is not None:
            self._look(ticks[ticks <= good], rows[ticks <= good])
        kept = np.isin(ticks, self.marks)
        if not np.all(kept):
            rows = self._thinned(rows, kept)
        kept_ticks = ticks[kept]
        self.rows.append(rows[kept_ticks <= good].copy())
        self.steps.append(kept_ticks[kept_ticks <= good])

    def _thinned(self, rows, kept):
        impulse = slice(2 * self.d, 2 * self.d + self.p)
        total = np.cumsum(rows[:, impulse], axis=0)
        total[:, :] += self.pending
        thin = rows[kept].copy()
        thin[:, impulse] = np.diff(total[kept], axis=0, prepend=np.zeros((1, self.p)))
        self.pending = total[-1] - (total[kept][-1] if np.any(kept) else 0.0)
        return thin

    def _look(self, ticks, rows):
        impulse, before, after = np.split(rows[:, 2 * self.d :], 3, axis=1)
        t = float(self.run.t0) + ticks * float(self.run.dt)
        self.log.feed(ticks, t, impulse, before, after)

    def solution(self, plan, carry) -> Solution:
        rows, steps = np.concatenate(self.rows), np.concatenate(self.steps)
        good = int(carry.stats.steps)
        if bool(carry.status != Status.ok) and (not len(steps) or steps[-1] < good):
            last = np.asarray(carry.row(carry.state.q, carry.state.v))  # the last good state
            rows, steps = np.vstack([rows, last]), np.append(steps, good)
        plan = Plan(steps, None if plan.fractions is None else plan.fractions[: len(steps)])
        impacts = None if self.log is None else self.log.table()
        return _solution(self.run, plan, rows, carry, self.run.system, impacts)


def _solution(run, plan, rows, carry, system, impacts) -> Solution:
    d, p = carry.state.q.shape[0], carry.impulse.shape[0]
    q, v, impulse, before, after = (
        rows[:, a:b] for a, b in _spans(d, d, p, p, p)
    )
    numbers = np if isinstance(rows, np.ndarray) else jnp
    offset = plan.marks if plan.fractions is None else plan.marks + plan.fractions
    t = numbers.asarray(run.t0) + offset * numbers.asarray(run.dt)
    gaps = _gaps_compiled if isinstance(rows, np.ndarray) else _gaps
    gap = numbers.asarray(gaps(run.system, t, q))
    return Solution(
        t=t,
        q=q,
        v=v,
        gap=gap,
        impulse=impulse,
        velocity_before=before,
        velocity_after=after,
        stats=carry.stats,
        status=carry.status,
        dt=run.dt,
        origin=Origin(run.scheme, system, impacts),
    )


def _spans(*widths):
    ends = np.cumsum(widths)
    return zip(ends - widths, ends, strict=True)


def _gaps(system, t, q):
    return jax.vmap(system.gaps)(t, q)


_gaps_compiled = eqx.filter_jit(_gaps)


@contextlib.contextmanager
def _progress_bar(wanted: bool, steps: int):
    if not wanted:
        yield lambda done: None
        return
    from rich.progress import MofNCompleteColumn, Progress

    with Progress(*Progress.get_default_columns(), MofNCompleteColumn()) as bar:
        task = bar.add_task("steps", total=steps)
        yield lambda done: bar.update(task, completed=done)


def _failed(solution, run, steps, record, throw) -> Solution:
    """A run that stopped on the way: save, then raise with the solution, or return it."""
    if record.path is not None:
        solution.save(record.path)
    if not throw:
        return solution
    done, dt = int(solution.stats.steps), float(run.dt)
    text = (
        f"{text_of(solution.status)}. The run stopped after step {done} of {steps}, at "
        f"t = {float(run.t0) + done * dt:g}, q = {solution.q[-1]}, v = {solution.v[-1]}; "
        "everything up to there is in error.solution"
    )
    factor = float(solution.stats.contraction)
    if factor >= 1.0:
        text += f". Measured contraction factor {factor:.3g}: dt below {0.9 * dt / factor:.3g} would contract"
    if record.path is not None:
        text += f" and in {record.path}"
    error = exception_of(solution.status)(text)
    error.solution = solution
    raise error


# ---- checks of the input -------------------------------------------------------------------


def _checked_times(t0, t1, dt) -> tuple[float, int, float]:
    for name, value in (("t0", t0), ("t1", t1), ("dt", dt)):
        if isinstance(value, jax.core.Tracer):
            raise errors.TimeError(
                f"{name} is traced; the number of steps must be known: pass t0, t1 and dt as "
                "plain numbers and vary something else"
            )
        if not math.isfinite(value):
            raise errors.TimeError(f"{name} is {value}; it must be finite")
    if not dt > 0.0:
        raise errors.TimeError(f"dt is {dt:g}; it must be positive")
    if not t1 > t0:
        raise errors.TimeError(f"t1 = {t1:g} is not after t0 = {t0:g}")
    # A ratio that is a whole number but for rounding is that number.
    steps = max(1, math.ceil((t1 - t0) / dt * (1.0 - 1e-12)))
    return float(t0), steps, (t1 - t0) / steps


def _checked_vectors(q0, v0) -> tuple[Array, Array]:
    if q0 is None or v0 is None:
        raise errors.ShapeError("a System needs its initial state: solve(..., q0=[...], v0=[...])")
    q0, v0 = jnp.asarray(q0, float), jnp.asarray(v0, float)
    if q0.ndim != 1 or v0.shape != q0.shape or q0.shape[0] == 0:
        raise errors.ShapeError(
            f"q0 has shape {q0.shape} and v0 {v0.shape}; both must be (d,). For many initial "
            "states use jax.vmap"
        )
    return q0, v0


def _checked_shapes(system, scheme, t0, q0, v0) -> bool:
    """Check what the system's functions return; say whether a JAX transformation is at work."""
    d = q0.shape[0]
    program = jax.make_jaxpr(
        lambda t, q, v: (
            jnp.asarray(system.force(t, q, v)),
            system.gaps(t, q),
            jnp.asarray(system.mass(q)) if callable(system.mass) else system.mass.apply(v),
        )
    )(jnp.asarray(t0), q0, v0)
    force, gap, mass = (a.shape for a in program.out_avals)
    if force != (d,) and not (force == () and d == 1):
        raise errors.ShapeError(f"force returns shape {force}; with q0 of shape {(d,)} it must be {(d,)}")
    if len(gap) != 1:
        raise errors.ShapeError(f"gap returns shape {gap}; it must be a scalar or (p,)")
    if mass not in ((d,), (d, d)):
        raise errors.ShapeError(f"mass(q) has shape {mass}; it must be {(d,)} or {(d, d)}")
    e = system.restitution
    if e.ndim == 1 and e.shape != gap:
        raise errors.ShapeError(f"restitution has shape {e.shape}, but there are {gap[0]} gaps")
    if e.ndim == 1 and scheme.one_restitution:
        _check_one_restitution(e, scheme)
    leaves = jax.tree_util.tree_leaves((system, q0, v0, jnp.zeros(()), program.consts))
    return any(isinstance(leaf, jax.core.Tracer) for leaf in leaves)


def _check_one_restitution(e, scheme):
    name = type(scheme).__name__
    if isinstance(e, jax.core.Tracer) or np.any(np.asarray(e) != np.asarray(e)[0]):
        raise errors.RestitutionError(
            f"restitution is {e}, but {name} has one e for all gaps; give one number, or use "
            "Moreau or Maury"
        )


def _check_start(start: _Start, t0: float, q0: Array) -> None:
    """Raise what is wrong with the initial data, most fundamental first."""
    if start.mass is not None:
        check_definite(np.asarray(start.mass), f"mass(q0), at q0 = {q0},")
    contacts, tolerance = start.contacts, np.asarray(start.tolerance)
    gap, rows = np.asarray(contacts.gap), np.asarray(contacts.rows)
    _check_finite("force", start.force, t0, q0)
    _check_finite("gap", gap, t0, q0)
    worst = np.argmin(gap + tolerance) if gap.size else 0
    if gap.size and gap[worst] < -tolerance[worst]:
        raise errors.AdmissibilityError(
            f"q0 = {q0} is outside the admissible set: gap {worst} is {gap[worst]:g} at t0 = "
            f"{t0:g} and must be >= 0. Move q0, or check the sign of the gap"
        )
    _check_finite("the gradient of gap", rows, t0, q0)
    flat = (gap <= tolerance) & (np.max(np.abs(rows), axis=1, initial=0.0) == 0.0)
    if np.any(flat):
        raise errors.GradientError(f"gap {np.argmax(flat)} at q0 = {q0}: {text_of(Status.gradient)}")
    if bool(start.carry.status != Status.ok):
        raise exception_of(start.carry.status)(f"at t0 = {t0:g}: {text_of(start.carry.status)}")


def _check_finite(name, value, t0, q0):
    if not np.all(np.isfinite(value)):
        raise errors.NonFiniteError(
            f"{name} is {np.asarray(value)} at t0 = {t0:g}, q0 = {q0}: it must be finite there"
        )
