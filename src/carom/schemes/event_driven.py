"""Event detection: the smooth motion at high order, cut at every impact and release."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from carom.derivatives import no_derivative_where
from carom.projection.metric import product, solve_dense
from carom.schemes.linearly_implicit import LinearlyImplicit
from carom.schemes.maury import Maury
from carom.schemes.runge_kutta import RungeKutta
from carom.schemes.scheme import Report, Scheme, State, number, rebound
from carom.status import Status, failing, first_failure

_EVENTS = 20_000  # in one step of the caller: beyond, impacts accumulate on several gaps in turn
_FALLBACK_STEPS = 1000  # of Maury's scheme, over what is left of that step
_SAME = 1e-12  # speeds and gaps below this, relative to the size of their terms, are rounding
_ROOT_TURNS = 100


class EventDriven(Scheme):
    """Event detection: smooth flow to each impact; dt is the spacing of the records, not of steps.

    Between events, with A the gaps in lasting contact,

        M q'' = f + sum_A lam_i grad g_i,    d^2 g_i / dt^2 = 0 on A                          (1)

    by an explicit Runge-Kutta method of order 8 with steps of its own, to ``rtol`` and ``atol``;
    with ``stiff=True`` by a linearly implicit one (linearly_implicit.py), whose steps strong
    springs and dampers do not shorten once their own motion has died out.
    A step in which something happens is cut there, the time found on the step itself:

        impact       g_i reaches zero: the impact law, over all closed gaps at once           (2)
        release      lam_i reaches zero: i leaves A                                           (3)
        near miss    g_i has a minimum that could be below zero: cut there, or where g_i is zero

    After an event, A is the part of the closed gaps at rest that pushes in the acceleration

        q'' = proj( M^-1 f, { a : d^2 g_i / dt^2 >= 0 } )                                     (4)

    Accumulation: after an impact of e < 1 that leaves with normal speed w while the acceleration
    presses back with a, the rest of the bounces takes 2 w / (a (1-e)).  It is passed in one go,
    into lasting contact, once what it could move is below the tolerance:

        2 w^2 / (a (1-e)) <= (atol + rtol |grad g| |q|) / 10                                  (5)

    which bounds the error in q made there.  No threshold is left to the user.  An accumulation
    that runs over several gaps in turn does not end this way; after 20 000 events the remainder of
    the step is handed to Maury's scheme, and ``stats.fallbacks`` counts it.

    Derivatives (``jax.grad``, ``jax.jacfwd``) of states, impulses and the located impacts in
    ``sol.events`` are those of the motion: with the parameters an impact time moves by
    dt = -dg / (d_t g + grad g . v), and the remainder of the flight with it.  They are NaN from an
    event on where they do not exist: several gaps struck at once, a step handed to Maury's scheme,
    and a graze, where with normal speed w and the gap's acceleration a > 0

        |g - w^2 / (2 a)| <= 10 (atol + rtol |grad g| |q|)                                    (6)

    Through an accumulation they hold to the square root of the tolerance.

    ``sol.impacts`` has the located times, up to ``events_per_step`` for each step of dt.
    """

    rtol: Array = eqx.field(default=1e-11, converter=number)
    atol: Array = eqx.field(default=1e-13, converter=number)
    events_per_step: int = 16
    stiff: bool = False
    one_restitution: ClassVar[bool] = False
    rigid: ClassVar[bool] = True
    differentiable: ClassVar[bool] = True

    def start(self, world, t, q, v, dt):
        contacts = world.normals(t, q)
        closed = contacts.gap <= 1e-10 * (_size(contacts, q) + 1e-4)
        resting = closed & (jnp.abs(contacts.velocity(v)) <= _SAME * _speed(contacts, v))
        return State(t, q, v, _Memory(_pressing(world, t, q, v, resting), dt))

    def step(self, world, state, dt):
        p = world.gaps(state.t, state.q).shape[0]
        loop = _Loop(
            t=state.t,
            q=state.q,
            v=state.v,
            push=jnp.zeros(p),
            mode=state.memory.mode,
            h=jnp.asarray(state.memory.h, float),
            table=jnp.full((self.events_per_step, 5), -1.0),
            impacts=jnp.array(0),
            turns=jnp.array(0),
            status=Status.ok,
        )
        t1 = state.t + dt
        method = LinearlyImplicit() if self.stiff else RungeKutta()
        loop = jax.lax.while_loop(
            lambda s: (s.t < t1) & (s.turns < _EVENTS) & (s.status == Status.ok),
            lambda s: self._turn(world, method, s, t1),
            loop,
        )
        late = (loop.t < t1) & (loop.status == Status.ok)
        loop = jax.lax.cond(late, lambda s: _fallback(world, s, t1), lambda s: s, loop)
        q, v, push = no_derivative_where(late, (loop.q, loop.v, loop.push))
        before = world.normals(state.t, state.q).velocity(state.v)
        after = world.normals(t1, q).velocity(v)
        new = State(t1, q, v, _Memory(loop.mode, loop.h))
        return new, Report(
            impulse=push[:, None],
            before=before[:, None],
            after=after[:, None],
            residual=jnp.zeros(()),
            iterations=loop.turns,
            contraction=jnp.zeros(()),
            status=loop.status,
            fallbacks=late.astype(int),
            events=loop.table,
        )

    def _turn(self, world, method, s, t1):
        """One step of the method, to its end or to the first event in it."""
        flow = _Flow(world, s.mode, s.q.shape[0])
        y = jnp.concatenate([s.q, s.v, s.push])
        last = s.t + s.h >= t1
        h = jnp.where(last, t1 - s.t, s.h)
        y1, error = method.step(flow.rate, s.t, y, h)
        d = 2 * s.q.shape[0]
        scale = self.atol + self.rtol * jnp.maximum(jnp.abs(y), jnp.abs(y1))[:d]
        error = jnp.max(jnp.abs(error[:d]) / scale)
        good = error <= 1.0
        start, end = flow.watch(s.t, y), flow.watch(s.t + h, y1)
        happening = _happening(start, end, s.mode, h)
        found = good & jnp.any(happening.any)

        def at(length):
            return method.step(flow.rate, s.t, y, length)[0]

        def cut(_):
            length = _first_event(flow, at, s.t, start, end, happening, h)
            return self._after_event(world, flow, s, at(length), s.t + length)

        def whole(_):
            t = jnp.where(last, t1, s.t + h)
            q, v, push = flow.split(y1)
            q, v = _back_on(world, t, q, v, s.mode)
            status = failing(~jnp.all(jnp.isfinite(y1)), Status.nonfinite)
            status = first_failure(failing(~world.metric(q).ok(), Status.mass), status)
            return eqx.tree_at(
                lambda s: (s.t, s.q, s.v, s.push, s.status),
                s,
                (t, q, v, push, status),
            )

        def rejected(_):
            small = h < 1e-13 * (jnp.abs(s.t) + jnp.abs(t1))
            broken = small | ~jnp.isfinite(s.q).all()
            return eqx.tree_at(lambda s: s.status, s, failing(broken, Status.nonfinite))

        new = jax.lax.cond(found, cut, lambda _: jax.lax.cond(good, whole, rejected, None), None)
        proposed = jnp.where(jnp.isfinite(error), method.next_step(h, error), 0.2 * h)
        # a step cut by a record says nothing against a longer one
        proposed = jnp.where(good & (h < s.h), jnp.maximum(proposed, s.h), proposed)
        proposed = jax.lax.stop_gradient(proposed)  # the motion does not depend on the steps
        return eqx.tree_at(lambda s: (s.h, s.turns), new, (proposed, s.turns + 1))

    def _after_event(self, world, flow, s, y, t):
        """The state behind an event at (t, y): (2), (5), then (4)."""
        q, v, push = flow.split(y)
        metric, contacts = world.metric(q), world.normals(t, q)
        w = contacts.velocity(v)
        closed = s.mode | (contacts.gap <= _SAME * (_size(contacts, q) + jnp.abs(s.h * w)))
        hit = closed & ~s.mode & (w < -_SAME * _speed(contacts, v))
        struck = rebound(world, metric, world.contacts(t, q), v, closed)
        v1 = jnp.where(jnp.any(hit), struck.point, v)
        blow = jnp.where(jnp.any(hit), struck.multipliers[:, 0], 0.0)

        # (5): what is left of an accumulation is passed in one go
        w1 = contacts.velocity(v1)
        e = world.restitutions(w.shape[0])
        a = flow.second(t, q, v1, metric.solve(world.forces(t, q, v1)))
        wide = self.atol + self.rtol * _size(contacts, q)
        spent = (a < 0.0) & (2.0 * w1**2 <= 0.1 * wide * -a * (1.0 - e))
        sizes = jnp.maximum(jnp.abs(v), jnp.abs(v1))  # v1 may be the small difference of two
        resting = closed & (spent | (jnp.abs(w1) <= _SAME * _speed(contacts, sizes)))
        v2 = _still(metric, contacts, v1, resting)

        released = s.mode & (flow.multiplier(t, q, v) <= 0.0)
        mode = _pressing(world, t, q, v2, resting & ~(released & ~jnp.any(hit)))
        several = jnp.any(hit) & (jnp.sum(closed & ~s.mode) > 1)
        close = 10.0 * (
            self.atol + self.rtol * jnp.maximum(_size(contacts, q), _size(contacts, s.q))
        )
        rough = several | jnp.any(~s.mode & _grazing(flow, t, q, v, contacts.gap, w, close))
        t, q, v2, push, blow = no_derivative_where(rough, (t, q, v2, push, blow))
        table, count = _logged(s, t, w, w1, blow)
        status = first_failure(failing(~jnp.all(jnp.isfinite(v2)), Status.nonfinite), struck.status)
        return _Loop(t, q, v2, push + blow, mode, s.h, table, count, s.turns, status)


class _Memory(eqx.Module):
    mode: Array  # (p,) bool: A, the gaps in lasting contact
    h: Array  # () the step the method would take


class _Loop(eqx.Module):
    t: Array
    q: Array
    v: Array
    push: Array  # (p,) impulse since the start of the step
    mode: Array
    h: Array
    table: Array  # (k, 5)
    impacts: Array  # () int
    turns: Array  # () int
    status: Status


class _Watch(eqx.Module):
    """What can make an event, at one time."""

    gap: Array  # (p,)
    w: Array  # (p,) normal velocity
    lam: Array  # (p,) multiplier on A, 0 elsewhere
    second: Array  # (p,) derivative of w
    departs: Array  # (p,) w, or where it is zero its derivative: which way the gap will go
    rounding: Array  # (p,) below which a gap is zero


class _Flow(eqx.Module):
    """The smooth motion (1) with A fixed; y is q, v and the impulses of the contacts."""

    world: Any
    mode: Array
    d: int

    def split(self, y):
        return y[: self.d], y[self.d : 2 * self.d], y[2 * self.d :]

    def rate(self, t, y):
        q, v, _ = self.split(y)
        a, lam = self._accelerated(t, q, v)
        return jnp.concatenate([v, a, lam])

    def acceleration(self, t, q, v):
        return self._accelerated(t, q, v)[0]

    def multiplier(self, t, q, v):
        return self._accelerated(t, q, v)[1]

    def watch(self, t, y):
        q, v, _ = self.split(y)
        contacts = self.world.normals(t, q)
        w, (a, lam) = contacts.velocity(v), self._accelerated(t, q, v)
        still = jnp.abs(w) <= _SAME * _speed(contacts, v)
        second = self.second(t, q, v, a)
        departs = jnp.where(still, second, w)
        return _Watch(contacts.gap, w, lam, second, departs, _SAME * _size(contacts, q))

    def second(self, t, q, v, a):
        """d^2 g / dt^2 along an acceleration a."""
        return _second(self.world, t, q, v, a)

    def _accelerated(self, t, q, v):
        metric = self.world.metric(q)
        free = metric.solve(self.world.forces(t, q, v))
        rows = self.world.normals(t, q).rows
        lam = -_equal(metric, rows, self.second(t, q, v, free), self.mode)
        return free + _push(metric, rows, lam), lam


def _second(world, t, q, v, a):
    def normal(t, q, v):
        return jax.jvp(world.gaps, (t, q), (jnp.ones(()), v))[1]

    return jax.jvp(normal, (t, q, v), (jnp.ones(()), v, a))[1]


def _size(contacts, q):
    """(p,) the size of the terms of a gap."""
    return product(jnp.abs(contacts.rows), jnp.abs(q)) + jnp.abs(contacts.gap)


def _speed(contacts, v):
    """(p,) the size of the terms of a normal velocity."""
    return product(jnp.abs(contacts.rows), jnp.abs(v)) + jnp.abs(contacts.rate)


def _push(metric, rows, lam):
    """M^-1 G^T lam."""
    return metric.lift(product(metric.whiten(rows).T, lam))


def _equal(metric, rows, value, mask):
    """x with (G M^-1 G^T x)_i = value_i on the mask, and x_i = 0 elsewhere."""
    N = metric.whiten(rows)
    both = mask[:, None] & mask[None, :]
    A = jnp.where(both, jnp.sum(N[:, None, :] * N[None, :, :], axis=-1), jnp.eye(len(mask)))
    return solve_dense(A, jnp.where(mask, value, 0.0))


def _still(metric, contacts, v, mask):
    """v with the normal velocities of the mask taken out."""
    w = contacts.velocity(v)
    return v - _push(metric, contacts.rows, _equal(metric, contacts.rows, w, mask))


def _back_on(world, t, q, v, mode):
    """Undo the drift of a lasting contact: g = 0 and d g/dt = 0 on A."""
    metric, contacts = world.metric(q), world.normals(t, q)
    q = q - _push(metric, contacts.rows, _equal(metric, contacts.rows, contacts.gap, mode))
    return q, _still(metric, world.normals(t, q), v, mode)


def _pressing(world, t, q, v, resting):
    """(4): which of the gaps at rest stay closed."""
    metric, contacts = world.metric(q), world.normals(t, q)
    free = metric.solve(world.forces(t, q, v))
    bend = _second(world, t, q, v, jnp.zeros_like(v))
    metric, contacts, free, bend = jax.lax.stop_gradient((metric, contacts, free, bend))
    found = world.project(metric, free, contacts, bend, resting)
    opening = bend + product(contacts.rows, found.point)
    rounding = _SAME * (jnp.abs(bend) + product(jnp.abs(contacts.rows), jnp.abs(found.point)))
    return resting & ((found.multipliers > 0.0) | (opening <= rounding))


def _grazing(flow, t, q, v, gap, w, close):
    """(p,) (6): an impact and a miss that the tolerance does not tell apart."""
    a = flow.second(t, q, v, flow.acceleration(t, q, v))
    lowest = gap - 0.5 * w**2 / jnp.where(a > 0.0, a, 1.0)
    return (gap <= 100.0 * close) & (a > 0.0) & (jnp.abs(lowest) <= close)


class _Happening(eqx.Module):
    impact: Array  # (p,) bool
    near_miss: Array
    release: Array
    leaving: Array  # (p,) bool: closed when the step began, so its zero there does not count

    @property
    def any(self):
        return self.impact | self.near_miss | self.release


def _happening(start, end, mode, h):
    """What a step from ``start`` to ``end`` has passed over."""
    leaving = start.gap <= start.rounding
    rounding = jnp.maximum(start.rounding, end.rounding)  # where q = 0 a gap has no size of its own
    sunk = jnp.where(leaving, end.gap - start.gap, end.gap) < -rounding
    # a minimum inside the step, and the tangents at its ends meet below zero
    turns = (start.w < 0.0) & (end.w > 0.0) & ~leaving
    bend = jnp.where(turns, start.w - end.w, -1.0)
    meet = start.gap + start.w * (end.gap - end.w * h - start.gap) / bend
    return _Happening(
        impact=~mode & sunk,
        near_miss=~mode & ~sunk & turns & (meet < -rounding),
        release=mode & (end.lam < 0.0),
        leaving=leaving,
    )


def _first_event(flow, at, t, start, end, happening, h):
    """The length of the step at which the first thing happens: regula falsi (Illinois)."""

    def first(gap, now):  # positive before the first event
        signs = (
            jnp.where(happening.impact, gap, jnp.inf),
            jnp.where(happening.near_miss, jnp.minimum(gap, -now.w), jnp.inf),
            jnp.where(happening.release, now.lam, jnp.inf),
        )
        return jnp.min(jnp.stack(signs))

    resting = jax.lax.stop_gradient(start.gap)  # where leaving, zero but for rounding
    rounding = jax.lax.stop_gradient(jnp.maximum(start.rounding, end.rounding))

    def after(length, now):  # the zero that a leaving gap starts from is divided out
        moved = now.gap - resting
        rate = start.w + 0.5 * start.second * length
        # at first the gap has moved by less than its rounding, which says nothing
        early = jnp.maximum(jnp.abs(moved), jnp.abs(rate * length)) <= rounding
        moved = jnp.where(early, rate, moved / length)
        return first(jnp.where(happening.leaving, moved, now.gap), now)

    def ahead(length):
        return after(length, flow.watch(t + length, at(length)))

    step = 4e-16 * (jnp.abs(t) + h)  # the finest distinction of two times

    at_once = first(jnp.where(happening.leaving, start.departs, start.gap), start)

    def unfinished(loop):
        a, b, *_, turns = loop
        return (b - a > 2.5 * step) & (turns < _ROOT_TURNS)

    def bracketed(ahead, h):
        def turn(loop):
            a, b, fa, fb, side, turns = loop
            x = jnp.clip((a * fb - b * fa) / (fb - fa), a + step, b - step)
            x = jnp.where(turns % 8 == 7, 0.5 * (a + b), x)
            f = ahead(x)
            after = f <= 0.0
            fa1 = jnp.where(after, jnp.where(side > 0, 0.5 * fa, fa), f)
            fb1 = jnp.where(after, f, jnp.where(side < 0, 0.5 * fb, fb))
            return (
                jnp.where(after, a, x),
                jnp.where(after, x, b),
                fa1,
                fb1,
                jnp.where(after, 1, -1),
                turns + 1,
            )

        loop = (jnp.zeros(()), h, at_once, after(h, end), jnp.array(0), jnp.array(0))
        return jax.lax.while_loop(unfinished, turn, loop)[1]

    # its derivative is that of the root, from the implicit function theorem
    found = jax.lax.custom_root(ahead, jax.lax.stop_gradient(h), bracketed, _divided)
    return jnp.where(at_once <= 0.0, 0.0, found)


def _divided(slope, value):
    """The solution of slope(x) = value; 0 where the event is where it is whatever the value."""
    rate = slope(jnp.ones_like(value))
    return jnp.where(rate == 0.0, 0.0, value / jnp.where(rate == 0.0, 1.0, rate))


def _logged(s, t, before, after, blow):
    """The table of impacts with one more row for each gap that was struck."""
    table, count = s.table, s.impacts
    for i in range(blow.shape[0]):
        row = jnp.stack([t, jnp.asarray(float(i)), before[i], after[i], blow[i]])
        here = (jnp.arange(table.shape[0]) == count) & (blow[i] > 0.0)
        table = jnp.where(here[:, None], row, table)
        count = count + (blow[i] > 0.0)
    return table, count


def _fallback(world, s, t1):
    """What is left of the step, by Maury's scheme."""
    s = jax.tree_util.tree_map(jax.lax.stop_gradient, s)  # its derivative is not to be used
    h = (t1 - s.t) / _FALLBACK_STEPS
    scheme = Maury()

    def step(_, carried):
        state, push, status = carried
        state, report = scheme.step(world, state, h)
        return state, push + report.impulse[:, 0], first_failure(status, report.status)

    state, push, status = jax.lax.fori_loop(
        0, _FALLBACK_STEPS, step, (State(s.t, s.q, s.v), s.push, s.status)
    )
    metric, contacts = world.metric(state.q), world.normals(t1, state.q)
    a = metric.solve(world.forces(t1, state.q, state.v))
    slow = jnp.abs(contacts.velocity(state.v)) <= 2.0 * h * _speed(contacts, a)
    resting = slow & (contacts.gap <= _SAME * (_size(contacts, state.q) + 1.0))
    v = _still(metric, contacts, state.v, resting)
    mode = _pressing(world, t1, state.q, v, resting)
    return _Loop(t1, state.q, v, push, mode, s.h, s.table, s.impacts, s.turns, status)
