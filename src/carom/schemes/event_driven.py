"""Event detection: the smooth motion at high order, cut at every impact and release."""

from functools import partial
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.tree_util import tree_map

from carom._jax import plain
from carom.arguments import suggesting
from carom.contracts import Equations
from carom.derivatives import derivative_of, no_derivative_where
from carom.schemes.flow import Flow, logged, pressing, size_of, speed_of
from carom.schemes.held import held, is_held
from carom.schemes.isolation import KNOTS, PIECES, POINTS, START, TURNS, Pieces, dense, integral
from carom.schemes.kinks import Kink, short_at_kink
from carom.schemes.linearly_implicit import LinearlyImplicit
from carom.schemes.resting import independent, reaction, second, spent, stilled
from carom.schemes.runge_kutta import RungeKutta, absolute
from carom.schemes.scheme import Report, Scheme, State, number, rebound
from carom.schemes.sliding import Sliding, after_event, at_start, by_contact, check, frictional
from carom.status import Status, failing, first_failure

_ATOL = 1e-13  # of the size of the motion, up to 1
_SAME = 1e-12  # speeds and gaps below this, relative to the size of their terms, are rounding
_EPS = float(np.finfo(float).eps)
_SLACK = 32.0 * _EPS  # of the size of a gap: below this it has no sign
_SHORTEST = 4.0 * _EPS  # of the time: a step that no error shortens further
_DEFECT = 1e3  # tolerances: what (1) may be off between the knots of a step
_MISSED = 10.0  # tolerances: what the integral of (1) over a step may be off
_CROWD = 40  # events within 1e-12 of the time: an accumulation over several gaps in turn
_TURNS = 300_000  # of one step of the caller
_DERIVATIVES = 2  # through an impact are right to this order


@suggesting
class EventDriven(Scheme):
    """Event detection: smooth flow to each impact; dt is the spacing of the records, not of steps.

    Between events, with A the gaps in lasting contact,

        M q'' = f + sum_A lam_i grad g_i,    d^2 g_i / dt^2 = 0 on A                          (1)

    by an explicit Runge-Kutta method of order 8 with steps of its own, to ``rtol`` and ``atol``;
    with ``stiff=True`` by a linearly implicit one (linearly_implicit.py), whose steps strong
    springs and dampers do not shorten once their own motion has died out.  A step is accepted if
    the errors of a quarter, three quarters and the whole of it are below the tolerance, (1) holds
    on the polynomial between them and in its integral, which a kink of the force inside of the step
    breaks whatever the method thinks of it, and every function

        g_i, i not in A,      lam_i, i in A                                                   (2)

    stays positive all through it, by a bound (isolation.py).  Where one of them vanishes the step
    is cut, again and again, until the first zero is its end:

        impact       g_i reaches zero: the impact law, over all closed gaps at once           (3)
        release      lam_i reaches zero: i leaves A

    and where the bound does not tell, the step is shortened until it does.  After an event, A is
    the part of the closed gaps at rest that pushes in the acceleration

        q'' = proj( M^-1 f, { a : d^2 g_i / dt^2 >= 0 } )                                     (4)

    Accumulation: after an impact of e < 1 that leaves with normal speed w while the acceleration
    presses back with a, the rest of the bounces takes 2 w / (a (1-e)).  It is passed in one go,
    into lasting contact, once what it could move is below the tolerance:

        2 w^2 / (a (1-e)) <= (atol + rtol |grad g| |q|) / 10                                  (5)

    which bounds the error in q made there; a is that with the contacts at rest held, and with those
    that (5) adds to them, until it adds none.  An accumulation that runs over several gaps in turn
    may not end this way; after 40 events within 1e-12 of the time its gaps are taken to be at
    rest, and ``stats.fallbacks`` counts it.  No threshold is left to the user.

    Joints are held (held.py), and contacts may have friction in the plane (sliding.py).

    ``atol`` is in the units of q and v.  Without it, with T the length of the run, it is

        1e-13 min(1, S),    S = max( |q0|, |g(t0, q0)|, T |v0|, T^2 |q''(t0)| )               (7)

    so that a motion of nanometres in metres is as exact as in its own units.

    What is looked at is a function at finitely many times: some 40 of the force and 22 of each gap
    in a step.  A force or a gap that does something between them, and nothing at them, is not seen.
    ``max_step`` is the longest step; without it, a 50th of the run.  ``jumps`` (k,) are times
    at which force or gap jump or have a kink: no step passes over one, and what is before it is
    evaluated before it.  Jumps that are not told are found by short steps.

    Derivatives (``jax.grad``, ``jax.jacfwd``) of states, impulses and the located impacts in
    ``sol.events`` are those of the motion, to second order: with the parameters an impact time
    moves by dt = -dg / (d_t g + grad g . v), and x+ - x- = (rate(x-) - rate(x+)) dt goes with the
    impact law (saltation).  They are NaN from an event on where they do not exist: several gaps
    struck at once, an accumulation over several gaps, and a graze, where with normal speed w and
    the gap's acceleration a > 0

        |g - w^2 / (2 a)| <= 10 (atol + rtol |grad g| |q|)                                    (6)

    Through an accumulation they hold to the square root of the tolerance.  Steps end beside a kink
    of the force (kinks.py), so that they hold through it.  Of the time of a jump of the force they
    know only if ``jumps`` tells it.  They belong to the motion as it is computed, that of a start
    within the tolerance: where it is chaotic they are off by as much as such a start changes them.

    ``sol.impacts`` has every impact with its time.  ``sol.events``, for use inside jit and vmap,
    has the first ``events_per_step`` of each step of dt; ``stats.unlisted`` counts the others.
    """

    rtol: Array = eqx.field(default=1e-11, converter=number)  # of a step, relative
    atol: Array = eqx.field(default=None, converter=number)  # None: (7)
    events_per_step: int = 16  # room in ``sol.events``
    stiff: bool = False  # a linearly implicit method
    max_step: Array | None = eqx.field(default=None, converter=number)  # [s]; None: T/50
    jumps: Array | None = eqx.field(default=None, converter=number)  # (k,) times [s]
    needs: ClassVar[type] = Equations
    one_restitution: ClassVar[bool] = False
    rigid: ClassVar[bool] = True
    differentiable: ClassVar[bool] = True
    lockstep: ClassVar[bool] = False
    frictional: ClassVar[bool] = True
    jointed: ClassVar[bool] = True
    dense: ClassVar[bool] = True
    located: ClassVar[bool] = True

    @property
    def tolerance_of_motion(self):
        return self.rtol

    @plain
    def over(self, span) -> "EventDriven":
        """The scheme for a run of length ``span``: with the longest step that goes with it."""
        if self.max_step is not None:
            return self
        return eqx.tree_at(
            lambda s: s.max_step, self, number(span) / 50.0, is_leaf=lambda x: x is None
        )

    def start(self, world, t, q, v, dt):
        world = held(world, t, q)
        contacts = world.normals(t, q)
        a = world.acceleration(t, q, v)
        atol = self._atol(contacts.gap, q, v, a, dt)
        closed = contacts.gap <= 1e-10 * size_of(contacts, q) + 0.1 * atol
        resting = closed & (jnp.abs(contacts.velocity(v)) <= _SAME * speed_of(contacts, v))
        large, fast = (jnp.max(jnp.abs(x)) for x in (jnp.append(q, v), jnp.append(v, a)))
        h = jnp.clip(0.00973 * large / jnp.where(fast > 0.0, fast, 1.0), 1e-6 * dt, dt)
        h = jax.lax.stop_gradient(jnp.where(fast > 0.0, h, dt))
        mode, since = self._first_mode(world, t, q, v, h, resting), jnp.asarray(t, float)
        since = jax.lax.stop_gradient(since)
        return State(t, q, v, _Memory(mode, h, jnp.array(0), since, atol))

    def _atol(self, gap, q, v, a, dt):
        """(7)."""
        if self.atol is not None:
            return self.atol
        span = dt if self.max_step is None else jnp.maximum(dt, 50.0 * self.max_step)
        return absolute(_ATOL, span, gap, q, v, a)

    def _first_mode(self, world, t, q, v, h, resting):
        """Which contacts last, and how."""
        if not frictional(world):
            return pressing(world, t, q, v, resting)
        check(world, t, q)
        still = _flow(world, jnp.zeros(resting.shape, int), (-jnp.inf, jnp.inf), q.shape[0])
        return at_start(still, t, q, v, h, resting)

    def step(self, world, state, dt):
        """To t + dt; impacts beyond ``events_per_step`` are counted, not listed."""
        return self._moved(world, state, state.t + dt, pausing=False)

    def portion(self, world, state, t1):
        """To t1, or as far as the table of impacts has room; the state has the time reached."""
        return self._moved(world, state, t1, pausing=True)

    def _moved(self, world, state, t1, pausing):
        scheme = eqx.tree_at(lambda s: s.atol, self, state.memory.atol, is_leaf=lambda x: x is None)
        p = world.gaps(state.t, state.q).shape[0]
        k = 0 if getattr(world, "joint", None) is None else world.joints(state.t, state.q).shape[0]
        zero = jnp.array(0)
        loop = _Loop(
            t=jnp.asarray(state.t, float),
            q=state.q,
            v=state.v,
            push=jnp.zeros(2 * p + k if frictional(world) else p + k),
            mode=state.memory.mode,
            h=short_at_kink(world, state, jnp.asarray(state.memory.h, float)),
            cut=jnp.asarray(jnp.inf),
            tries=zero,
            kink=Kink.none(),
            table=jnp.full((self.events_per_step, 5), -1.0),
            struck=jnp.zeros(p, int),
            crowd=state.memory.crowd,
            since=state.memory.since,
            passed=zero,
            turns=zero,
            status=Status.ok,
        )
        method = LinearlyImplicit() if self.stiff else RungeKutta()
        full = self.events_per_step - p

        def going(s):
            paused = pausing & (jnp.sum(s.struck) > full) & (self.events_per_step > p)
            return (s.t < t1) & (s.turns < _TURNS) & (s.status == Status.ok) & ~paused

        loop = jax.lax.while_loop(going, lambda s: scheme._turn(world, method, s, t1), loop)
        lost = failing((loop.t < t1) & (loop.turns >= _TURNS), Status.unconverged)
        world = held(world, loop.t, loop.q)
        before = _relative_velocity(world, state.t, state.q, state.v)
        after = _relative_velocity(world, loop.t, loop.q, loop.v)
        new = State(
            loop.t, loop.q, loop.v, _Memory(loop.mode, loop.h, loop.crowd, loop.since, scheme.atol)
        )
        return new, Report(
            impulse=by_contact(loop.push, p) if frictional(world) else loop.push[:, None],
            before=before,
            after=after,
            residual=world.drift(loop.t, loop.q) if is_held(world) else jnp.zeros(()),
            iterations=loop.turns,
            contraction=jnp.zeros(()),
            status=first_failure(loop.status, lost),
            fallbacks=loop.passed,
            events=loop.table,
            struck=loop.struck,
        )

    def _turn(self, world, method, s, t1):
        """One step of the method: accepted, ended by an event, or shortened."""
        world = held(world, s.t, s.q)
        stop, window = self._next_stop(s.t, t1)
        flow = _flow(world, s.mode, window, s.q.shape[0])
        y = jnp.concatenate([s.q, s.v, s.push])
        longest = jnp.inf if self.max_step is None else self.max_step
        wanted = jnp.minimum(jnp.minimum(s.h, s.cut), longest)
        shortest = _SHORTEST * (jnp.abs(s.t) + jnp.abs(t1))
        wanted = jax.lax.stop_gradient(jnp.maximum(wanted, shortest))
        # stretched a little to the stop, but not past what cut it: that may be just before the stop
        stretch = jnp.where(s.cut < jnp.minimum(s.h, longest), 1.0, 1.0001)
        last = s.t + stretch * wanted >= stop
        h = jnp.where(last, stop - s.t, wanted)
        t_end = jnp.where(last, stop, s.t + h)
        tiny = h <= shortest

        # what is decided has no derivative; what is reached has
        seen, error, good, end = jax.lax.stop_gradient(
            self._tried(flow, method, s, y, t_end, h, tiny)
        )
        event, whole = good & seen.event, good & seen.clear
        length = jnp.where(seen.at_once, 0.0, h)
        t = jnp.where(seen.at_once, s.t, t_end)
        turns = jnp.where(event & seen.hit, 1 + _DERIVATIVES, jnp.where(event | whole, 1, 0))
        end = jnp.where(seen.at_once, jax.lax.stop_gradient(y), end)
        y1, shift = end, jnp.zeros(())
        if not frictional(world):  # which has no derivatives
            moving = _reached(flow, method, s.t, y, length, seen, turns)
            y1, shift = derivative_of(moving, (y1, shift))
        broken = failing(tiny & ~jnp.isfinite(error), Status.nonfinite)
        outcomes = [
            lambda: eqx.tree_at(lambda s: s.status, s, broken),
            lambda: self._whole(world, flow, s, seen, y1, t),
            lambda: (
                after_event(self, world, flow, s, y1, t, seen, _CROWD)
                if frictional(world)
                else self._after_event(world, flow, method, s, y1, t, shift)
            ),
        ]
        which = jnp.where(event, 2, jnp.where(whole, 1, 0))
        new = jax.lax.switch(which, outcomes if s.mode.shape[0] else outcomes[:2])
        proposed = jnp.where(jnp.isfinite(error), method.next_step(h, error), 0.2 * h)
        # a step cut by an event or a record says nothing against a longer one
        proposed = jnp.where(good & (h < s.h), jnp.maximum(proposed, s.h), proposed)
        # one that a gap shortened, because it does not tell, does
        proposed = jnp.where(good & ~event & ~whole & ~seen.crossing, 4.0 * seen.length, proposed)
        again = ~(event | whole)
        cut = jnp.where(good & again, seen.length, jnp.inf)
        cut = jnp.where(~good, jnp.minimum(s.cut, proposed), cut)
        tries = jnp.where(again & good & seen.crossing, s.tries + 1, jnp.where(again, s.tries, 0))
        kink = tree_map(
            partial(jnp.where, good),
            tree_map(partial(jnp.where, again), s.kink, s.kink.taken(s.t, h)),
            s.kink.refused(s.t, h, error),
        )
        proposed = kink.limited(new.t, proposed)
        # the motion does not depend on them
        proposed, cut, kink = jax.lax.stop_gradient((proposed, cut, kink))
        return eqx.tree_at(
            lambda s: (s.h, s.cut, s.tries, s.kink, s.turns),
            new,
            (proposed, cut, tries, kink, s.turns + 1),
        )

    def _tried(self, flow, method, s, y, t_end, h, tiny):
        """What a step of length h has in it, its error in tolerances, if it will do, its end."""
        ends, errors = jax.vmap(lambda x: method.step(flow.rate, s.t, y, x * h))(KNOTS[1:])
        path = _Path.along(flow, method, s.t, y, ends, h)
        errors = jnp.max(jnp.abs(errors[:, : 2 * flow.d]), axis=0)
        largest = jnp.maximum(jnp.abs(y), jnp.max(jnp.abs(ends), axis=0))[: 2 * flow.d]
        errors = s.kink.strict(errors, 1e4 * _EPS * h * path.steep)
        doubts = jnp.maximum(path.defect / _DEFECT, path.missed / _MISSED)
        error = jnp.maximum(errors, doubts) / (self.atol + self.rtol * largest)
        finite = jnp.all(jnp.isfinite(ends)) & jnp.all(jnp.isfinite(path.lam))
        error = jnp.where(finite, jnp.max(error), jnp.inf)
        good = finite & ((error <= 1.0) | tiny)
        if not s.mode.shape[0]:
            return _Seen.nothing(), error, good, ends[-1]
        return self._seen(flow, s, path, ends[-1], t_end, h, tiny), error, good, ends[-1]

    def _next_stop(self, t, t1):
        """What no step may pass, and the times between the jumps, off them by their rounding."""
        if self.jumps is None:
            return t1, (-jnp.inf, jnp.inf)
        now = jax.lax.stop_gradient(t)
        found = []
        for side, far in ((self.jumps <= now, -jnp.inf), (self.jumps > now, jnp.inf)):
            nearest = jnp.argmax(jnp.where(side, -jnp.sign(far) * self.jumps, -jnp.inf))
            found.append(jnp.where(jnp.any(side), self.jumps[nearest], far))
        before, jump = found
        off = [64.0 * _EPS * jnp.where(jnp.abs(x) < jnp.inf, jnp.abs(x), 0.0) for x in found]
        return jnp.minimum(jump, t1), (before + off[0], jump - off[1])

    def _seen(self, flow, s, path, y, t, h, tiny):
        """What the functions (2) do in a step that ends at (t, y)."""
        mode = flow.lasting
        q, v, _ = flow.split(y)
        contacts = flow.normals(t, q)
        before = flow.normals(s.t, s.q)
        size = jnp.maximum(size_of(contacts, q), size_of(before, s.q))
        timed = jnp.maximum(jnp.abs(contacts.rate), jnp.abs(before.rate)) * jnp.abs(t)
        start = jnp.minimum(before.gap, 0.0)  # of a gap that leaves, zero but for rounding
        pieces = Pieces.of(jnp.where(mode, path.lam, path.gap - start))
        pressed = jnp.max(jnp.abs(path.lam), axis=0)
        fine = jnp.where(mode, _SAME * pressed, self._rounding(size + timed))
        fine = flow.rounding(fine, path, t, q, v, h, lambda x: self.atol + self.rtol * x)
        wide = self.atol + self.rtol * size
        coarse = jnp.where(mode, 1e-9 * pressed, 0.1 * wide)
        # what is not resolved may be rounding; up to a part of the tolerance it has no sign
        slack = jnp.maximum(fine, jnp.minimum(2.0 * pieces.rest, coarse))
        pieces = pieces.raised(slack)
        f = jnp.where(mode, path.lam, path.gap - start) + slack
        doubtful = (pieces.least <= 0.0) & ~tiny  # (pieces, p)
        first = jnp.argmax(jnp.any(doubtful, axis=1))
        here = doubtful[first]

        w = contacts.velocity(v)
        slope = jnp.where(mode, f[-1] - f[-2], w)
        near = 2.0 * slack + 8.0 * _EPS * (jnp.abs(t) + h) * jnp.abs(w)
        # what rounding keeps from being met is met less closely, within the tolerance
        near = jnp.minimum(near * 2.0**s.tries, jnp.maximum(near, jnp.where(mode, jnp.inf, wide)))
        least = jnp.where(mode | (s.tries > 8), 0.0, _SAME * speed_of(contacts, v))
        least = flow.unseen(least, fine)
        sinking = (slope < -least) | (mode & (f[-1] <= 0.0)) | (s.tries > 30)
        ending = (f[-1] <= near) & ((f[-1] >= -near) | tiny) & sinking
        # doubts that are about nothing but the end
        about_end = (first == PIECES - 1) & jnp.all(~here | ending)
        gone = mode & (f[START] < 0.0)  # the force jumped: released at once
        clear = ~jnp.any(doubtful)
        event = jnp.any(gone) | (jnp.any(ending) & (clear | about_end))

        crossing = pieces.crossing()[first]
        all_cross = jnp.any(doubtful) & jnp.all(~here | crossing)
        i = jnp.argmin(jnp.where(here & crossing, pieces.secant()[first], jnp.inf))
        x = pieces.zero(first, i, jnp.where(all_cross, TURNS, 0))
        # from the last piece, by the speed at the end itself
        above = jnp.where(jnp.max(f, axis=0) > 4.0 * slack, slack, 0.0)[i]
        newton = 1.0 - (f[-1, i] - above) / jnp.where(w[i] < 0.0, w[i] * h, -1.0)
        close = (first == PIECES - 1) & (w[i] < 0.0) & ~mode[i] & (jnp.abs(newton - x) < 0.02)
        x = jnp.where(close, newton, x)
        shorter = jnp.where(first > 0, first / PIECES, 1.0 / PIECES)
        length = h * jnp.where(all_cross, jnp.clip(x, _EPS, 1.0), shorter)

        turning = ~mode & (before.velocity(s.v) < 0.0) & (w > 0.0)
        graze = jnp.any(turning & (jnp.min(pieces.least, axis=0) <= 10.0 * wide))
        j = jnp.argmin(jnp.where(ending & ~mode, f[-1], jnp.inf))
        hit = event & ending[j] & ~mode[j] & (w[j] < 0.0) & ~jnp.any(gone)
        slope = jnp.where(hit, w[j], -1.0)
        ended = (ending | gone) if frictional(flow.world) else None
        return _Seen(
            clear & ~event, event, jnp.any(gone), hit, j, slope, all_cross, length, graze, ended
        )

    def _rounding(self, size):
        """(p,) below which a gap has no sign."""
        return jnp.maximum(_SLACK * size, 0.01 * self.atol)

    def _whole(self, world, flow, s, seen, y, t):
        """The state at the end of a step in which nothing happens."""
        q, v, push = flow.settled(t, y)
        q, v = flow.back_on(t, q, v)
        q, v, push = no_derivative_where(seen.graze, (q, v, push))
        status = failing(~world.metric(q).ok(), Status.mass)
        return eqx.tree_at(lambda s: (s.t, s.q, s.v, s.push, s.status), s, (t, q, v, push, status))

    def _after_event(self, world, flow, method, s, y, t, shift):
        """The state behind an event at (t + shift, y): (3), (5), then (4)."""
        q, v, push = flow.settled(t, y, shift)
        metric, contacts = world.metric(q), flow.normals(t + shift, q)
        w = contacts.velocity(v)
        reach = _SAME * (size_of(contacts, q) + jnp.abs(s.h * w))
        closed = s.mode | (contacts.gap <= jnp.maximum(reach, 0.1 * self.atol))
        hit = closed & ~s.mode & (w < -_SAME * speed_of(contacts, v))
        both = world.contacts(flow.at(t + shift), q)
        struck = rebound(world, metric, both, v, closed)
        v1 = jnp.where(jnp.any(hit), struck.point, v)
        blow = jnp.where(jnp.any(hit), struck.multipliers[:, 0], 0.0)

        # (5): what is left of an accumulation is passed in one go
        w1 = contacts.velocity(v1)
        e = world.restitutions(w.shape[0], -jnp.abs(w1))

        # v1 may be what is left of blows that cancel
        blows = jax.vmap(lambda row, b: reaction(metric, row[None], b[None]))(
            contacts.rows, flow.of_gaps(blow)
        )
        sizes = jnp.maximum(jnp.abs(v), jnp.abs(v1)) + jnp.sum(jnp.abs(blows), axis=0)
        still = jnp.abs(w1) <= _SAME * speed_of(contacts, sizes)
        wide = self.atol + self.rtol * size_of(contacts, q)
        # or below what has no sign, which each bounce would fall through anew
        unseen = self._rounding(size_of(contacts, q) + jnp.abs(contacts.rate * t))

        def bent(v, mode):
            a = Flow(world, mode, flow.window, flow.d).acceleration(t, q, v)
            return second(flow.gaps, t, q, v, a)

        def beside(_, loop):
            """With those that are spent beside the ones at rest: a ball on another, a foot."""
            resting, _ = loop
            lasting = independent(metric, contacts.rows, pressing(flow, t, q, v1, resting))
            a0, a = jax.vmap(bent)(
                *jax.lax.stop_gradient((jnp.stack([v, v1]), jnp.stack([s.mode, lasting])))
            )
            return resting | (closed & spent(w1, a, e, wide, unseen)), a0

        late = jax.lax.stop_gradient(t) - s.since > 1e-12 * jnp.abs(t)
        crowd = jnp.where(late, 0, s.crowd + jnp.any(hit))
        crowded = crowd >= _CROWD
        already = (closed & (crowded | still), jnp.zeros_like(w1))
        resting, a0 = jax.lax.fori_loop(0, len(w1), beside, already)
        v2 = stilled(metric, contacts, v1, independent(metric, contacts.rows, resting))

        mode = pressing(flow, t, q, v2, resting)
        several = jnp.any(hit) & (jnp.sum(closed & ~s.mode) > 1)
        close = 10.0 * (
            self.atol + self.rtol * jnp.maximum(size_of(contacts, q), size_of(contacts, s.q))
        )
        graze = jnp.any(~s.mode & _grazing(contacts.gap, w, a0, close))
        q, v2, push, blow, shift = no_derivative_where(
            several | graze | crowded, (q, v2, push, blow, shift)
        )
        table, count = logged(s, t + shift, w, w1, flow.of_gaps(blow))
        # back to the time of the step, which does not move with the parameters
        after = Flow(world, mode, flow.window, flow.d)
        y = jnp.concatenate([q, v2, push + blow])
        y = derivative_of(method.step(after.rate, t, y, -shift)[0], jax.lax.stop_gradient(y))
        q, v2, push = flow.split(y)
        status = first_failure(failing(~jnp.all(jnp.isfinite(v2)), Status.nonfinite), struck.status)
        return _Loop(
            t=t,
            q=q,
            v=v2,
            push=push,
            mode=mode,
            h=s.h,
            cut=s.cut,
            tries=s.tries,
            kink=s.kink,
            table=table,
            struck=count,
            crowd=jnp.where(crowded, 0, crowd),
            since=jnp.where(late, jax.lax.stop_gradient(t), s.since),
            passed=s.passed + crowded,
            turns=s.turns,
            status=status,
        )


class _Memory(eqx.Module):
    mode: Array  # (p,) bool: A, the gaps in lasting contact
    h: Array  # () the step the method would take
    crowd: Array  # () int, impacts in a row that are as good as simultaneous
    since: Array  # () the time of the first of them
    atol: Array  # ()


class _Loop(eqx.Module):
    t: Array
    q: Array
    v: Array
    push: Array  # (p,) impulse since the start of the step
    mode: Array
    h: Array  # () the step that the error allows
    cut: Array  # () what an event ahead, or a gap in doubt, allows
    tries: Array  # () int, to meet an event
    kink: Kink  # of the force, ahead
    table: Array  # (k, 5)
    struck: Array  # (p,) int, impacts
    crowd: Array  # () int, impacts in a row that are as good as simultaneous
    since: Array  # () the time of the first of them
    passed: Array  # () int, accumulations over several gaps
    turns: Array  # () int
    status: Status


class _Seen(eqx.Module):
    """What a step has in it."""

    clear: Array  # () bool: nothing
    event: Array  # () bool: an event at its end, or at its start
    at_once: Array  # () bool: at its start
    hit: Array  # () bool: gap ``which`` closes there, with the speed ``slope``
    which: Array  # () int
    slope: Array  # ()
    crossing: Array  # () bool: one inside, where ``length`` leads
    length: Array  # () the step to take instead
    graze: Array  # () bool
    ended: Any = None  # (n,) bool: the functions that vanish, where contacts have friction

    @staticmethod
    def nothing():
        no = jnp.array(False)
        none, zero = jnp.array(0), jnp.zeros(())
        return _Seen(~no, no, no, no, none, zero, no, zero, no)


class _Path(eqx.Module):
    """A step of the method at POINTS."""

    gap: Array  # (m, p)
    lam: Array  # (m, p)
    defect: Array  # (2d,) what (1) is off there, over the step
    missed: Array  # (2d,) what y(h) - y(0) differs from the integral of the rates there
    steep: Array  # (2d,) the largest rates

    @staticmethod
    def along(flow, method, t, y, ends, h):
        x = jnp.concatenate([y[None], ends])
        x, slopes = dense(x, jax.vmap(flow.rate)(t + h * KNOTS, x), h)
        times = t + h * POINTS
        rates = jax.vmap(flow.rate)(times, x)
        d = flow.d
        missed = ends[-1] - y - h * integral(rates)
        fault = jnp.concatenate([h * (rates - slopes), missed[None]])
        fault = jnp.abs(method.damped(flow.rate, t, y, h, fault)[:, : 2 * d])
        gap, lam = flow.looked_at(times, x, rates)
        steep = jnp.max(jnp.abs(rates[:, : 2 * d]), axis=0)
        return _Path(gap, lam, jnp.max(fault[:-1], axis=0), fault[-1], steep)


def _flow(world, mode, window, d) -> Any:
    return (Sliding if frictional(world) else Flow)(world, mode, window, d)


def _reached(flow, method, t, y, h, seen, turns):
    """The state after h, or with an impact that moves: (y(h + x), x), x = 0 with its derivatives.

    x = x - g_i(t + h + x, y(h + x)) / w,    one turn for each order of derivatives
    """

    def turn(_, loop):
        ahead, _, _ = loop
        there = method.step(flow.rate, t, y, h + ahead)[0]
        later = ahead
        if flow.mode.shape[0]:
            gap = flow.gaps(t + h + ahead, flow.split(there)[0])[seen.which]
            moved = (gap - jax.lax.stop_gradient(gap)) / seen.slope
            later = ahead - jnp.where(seen.hit, moved, 0.0)
        return later, there, ahead

    zero = jnp.zeros(())
    return jax.lax.fori_loop(0, turns, turn, (zero, y, zero))[1:]


def _relative_velocity(world, t, q, v):
    """(p, m), that of sliding where there is friction."""
    if frictional(world):
        return world.contacts(t, q).velocity(v)
    return world.normals(t, q).velocity(v)[:, None]


def _grazing(gap, w, a, close):
    """(p,) (6): an impact and a miss that the tolerance does not tell apart."""
    lowest = gap - 0.5 * w**2 / jnp.where(a > 0.0, a, 1.0)
    return (gap <= 100.0 * close) & (a > 0.0) & (jnp.abs(lowest) <= close)
