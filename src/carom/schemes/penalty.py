"""The penalty method of Paoli and Schatzman: a viscoelastic wall."""

from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jax.core import Tracer

from carom._jax import plain
from carom.arguments import suggesting
from carom.contracts import Equations
from carom.errors import PenaltyError
from carom.projection.metric import product
from carom.projection.nearest import nearest
from carom.schemes.runge_kutta import RungeKutta, absolute
from carom.schemes.scheme import NOT_KEPT, Report, Scheme, State, number
from carom.schemes.yielding_wall import through
from carom.status import Status, failing, first_failure

_ATOL = 1e-11  # of the size of the motion, up to 1
_TURNS = 1_000_000  # steps of the method in one step of the caller
_IN_CONTACT = 0.05  # of the duration of a contact: the longest step inside one
_NO_RESTITUTION = 1e-4  # the least e a duration is computed for: critical damping never ends


@suggesting
class Penalty(Scheme):
    """The penalised system (PS93): dt is the spacing of the records, not of the steps.

        q'' = M^-1 f - x / lam - (2 eps / sqrt(lam)) <x, v> x / |x|^2,    x = q - P_K q         (1)
        e = exp(-pi eps / sqrt(1 - eps^2)),   eps = -ln e / sqrt(pi^2 + ln(e)^2)                (2)

    with P_K, <,> and |.| in the kinetic metric; both terms act until the state is back in K.
    With M x = -grad g^T mu, mu >= 0, and w = d_t g + grad g . v the relative normal velocity (so
    that K may move), the push on gap i is

        mu_i ( 1/lam - (2 eps / sqrt(lam)) (mu . w) / |x|^2 ).                                  (3)

    A contact lasts

        pi sqrt(lam) / sqrt(1 - eps^2) = sqrt(lam (pi^2 + ln(e)^2));                            (4)

    give ``lam``, or that ``duration``.  As lam goes to 0 the motion tends to that of the impact
    law, with an error of O(sqrt(lam)).  The push can be a pull just before release: PS93's wall
    lets go by position, not by force.  e = 0 is the limit eps = 1, critical damping: the normal
    velocity dies out as exp(-t / sqrt(lam)) and the point leaves K's boundary only when the force
    pulls it.  Such a contact has no end; its duration is taken to be (4) with e = 1e-4.

    By default the flow is an explicit Runge-Kutta method of order 8 with steps of its own, to
    ``rtol`` and ``atol``, at most a twentieth of a contact inside a contact and at most half the
    way to the wall before it: the work grows as 1 / sqrt(lam), in lasting contact too.

    With ``substeps`` = n there are n equal steps in dt, whatever lam, for batches: Runge-Kutta of
    order 5 without the wall, to (q*, v*), and then the depth y = |x| from (1) with the direction
    x / |x| and the normal acceleration held for the step, solved exactly (yielding_wall.py):

        y'' = a - y / lam - (2 eps / sqrt(lam)) y' where y > 0,      y'' = a elsewhere           (5)

    so that nothing limits the step but the force and the curvature of K.  Where the wall acts, this
    is done twice: a is then taken along the motion that the push of the first time leaves.  Where
    several gaps push in one step x / |x| turns, (5) does not hold, and the step is resolved as by
    default.

    ``atol`` is in the units of q and v.  Without it, with T the length of the run, it is

        1e-11 min(1, S),    S = max( |q0|, |g(t0, q0)|, T |v0|, T^2 |M^-1 f(t0)| )               (6)

    so that a motion of nanometres in metres is as exact as in its own units.

    It starts with the velocity that is given: one that points out of K enters the wall (PS93, 10).

    ``stats.penetration`` is the largest overlap, ``stats.iterations`` the number of steps.
    """

    lam: Array | None = eqx.field(default=None, converter=number)  # [s^2], or
    duration: Array | None = eqx.field(default=None, converter=number)  # of a contact [s]
    rtol: Array = eqx.field(default=1e-8, converter=number)  # of a step, relative
    atol: Array | None = eqx.field(default=None, converter=number)  # None: (6)
    substeps: int | None = None  # equal steps in each dt; None: steps of its own
    span: Array | None = eqx.field(default_factory=lambda: None, init=False, repr=False)  # T of (6)
    needs: ClassVar[type] = Equations
    one_restitution: ClassVar[bool] = True
    rigid: ClassVar[bool] = False

    def __check_init__(self):
        given = [x for x in (self.lam, self.duration) if x is not None]
        known = [x for x in given if not isinstance(x, Tracer)]
        if len(given) != 1 or not all(x.ndim == 0 and x > 0.0 for x in known):
            raise PenaltyError(
                f"Penalty has lam={self.lam}, duration={self.duration}: give one of them, positive"
            )
        if self.substeps is not None and (self.substeps != int(self.substeps) or self.substeps < 1):
            raise PenaltyError(
                f"Penalty has substeps={self.substeps}: it must be a whole number, 1 or more, of "
                "steps in each dt, or None for steps chosen by rtol and atol"
            )

    @property
    def tolerance_of_motion(self):
        return self.rtol

    def contact_duration(self, system) -> Any:
        """How long a contact lasts in free flight, (4)."""
        if NOT_KEPT in (self.lam, self.duration):
            return NOT_KEPT
        return self._wall(system, 0).duration

    @plain
    def over(self, span) -> "Penalty":
        """The scheme for a run of length ``span``."""
        return eqx.tree_at(lambda s: s.span, self, number(span), is_leaf=lambda x: x is None)

    def start(self, world, t, q, v, dt):
        return State(t, q, v, _Memory(jnp.asarray(dt), self._atol(world, t, q, v, dt)))

    def _atol(self, world, t, q, v, dt):
        """(6)."""
        if self.atol is not None:
            return self.atol
        span = dt if self.span is None else self.span
        return absolute(_ATOL, span, world.gaps(t, q), q, v, world.acceleration(t, q, v))

    def step(self, world, state, dt):
        (h, atol), wall = state.memory, self._wall(world, state.q.shape[0])
        t1 = state.t + dt
        p = world.gaps(state.t, state.q).shape[0]
        y = jnp.concatenate([state.q, state.v, jnp.zeros(p)])
        loop = _Loop(state.t, y, h, jnp.zeros(()), jnp.array(0), Status.ok)
        if self.substeps is None:
            loop = self._adaptive(wall, loop, t1, atol)
        else:
            loop = self._fixed(wall, loop, dt / self.substeps, atol)
        q, v, push = wall.split(loop.y)
        return State(t1, q, v, _Memory(loop.h, atol)), Report(
            impulse=push[:, None],
            before=world.normals(state.t, state.q).velocity(state.v)[:, None],
            after=world.normals(t1, q).velocity(v)[:, None],
            residual=jnp.zeros(()),
            iterations=loop.turns,
            contraction=jnp.zeros(()),
            status=loop.status,
            penetration=loop.penetration,
        )

    def _adaptive(self, wall, loop, t1, atol):
        method = RungeKutta()
        loop = jax.lax.while_loop(
            lambda s: (s.t < t1) & (s.turns < _TURNS) & (s.status == Status.ok),
            lambda s: self._turn(wall, method, s, t1, atol),
            loop,
        )
        late = failing(loop.t < t1, Status.unconverged)
        return eqx.tree_at(lambda s: s.status, loop, first_failure(loop.status, late))

    def _fixed(self, wall, loop, h, atol):
        method = RungeKutta("Dopri5")

        def substep(_, s):
            whole, several = wall.substep(method, s, h)
            if wall.split(s.y)[2].shape[0] < 2:
                return whole
            # under vmap a member without such contacts turns no time here
            resolved = self._adaptive(wall, s, jnp.where(several, s.t + h, s.t), atol)
            return jax.tree_util.tree_map(partial(jnp.where, several), resolved, whole)

        return jax.lax.fori_loop(0, self.substeps, substep, loop)

    def _wall(self, world, d):
        e = world.common_restitution()
        log = jnp.log(jnp.where(e > 0.0, e, 1.0))
        eps = jnp.where(e > 0.0, -log / jnp.sqrt(jnp.pi**2 + log**2), 1.0)  # (2)
        length = jnp.sqrt(jnp.pi**2 + jnp.log(jnp.maximum(e, _NO_RESTITUTION)) ** 2)  # (4)
        if self.duration is not None:
            root = self.duration / length
        else:
            root = jnp.sqrt(jnp.asarray(self.lam))
        return _Wall(world, d, eps, root, root * length)

    def _turn(self, wall, method, s, t1, atol):
        """One step of the method."""
        h = jnp.minimum(jnp.minimum(s.h, wall.reach(s.t, s.y)), t1 - s.t)
        y1, error = method.step(wall.rate, s.t, s.y, h)
        d = 2 * wall.d
        scale = atol + self.rtol * jnp.maximum(jnp.abs(s.y), jnp.abs(y1))[:d]
        error = jnp.max(jnp.abs(error[:d]) / scale)
        good = error <= 1.0
        # the jump of (3) at the wall is not smooth at any h: let it by at the finest step
        finest = h <= 1e-7 * _IN_CONTACT * wall.duration
        taken = good | (finest & jnp.isfinite(error))
        proposed = jnp.where(jnp.isfinite(error), method.next_step(h, error), 0.2 * h)
        proposed = jnp.where(good & (h < s.h), jnp.maximum(proposed, s.h), proposed)
        t = jnp.where(taken, jnp.where(s.t + h >= t1, t1, s.t + h), s.t)
        y = jnp.where(taken, y1, s.y)
        deepest = jnp.max(-wall.world.gaps(t, wall.split(y)[0]), initial=0.0)
        broken = ~jnp.isfinite(error) & (h < 1e-13 * (jnp.abs(s.t) + jnp.abs(t1)))
        return _Loop(
            t,
            y,
            proposed,
            jnp.maximum(s.penetration, deepest),
            s.turns + 1,
            failing(broken, Status.nonfinite),
        )


class _Memory(NamedTuple):
    h: Array  # () the next step of the method
    atol: Array  # ()


class _Loop(eqx.Module):
    t: Array
    y: Array  # q, v and the impulses since the start of the step
    h: Array
    penetration: Array
    turns: Array
    status: Status


class _Wall(eqx.Module):
    """The smooth right-hand side of (1)."""

    world: Any
    d: int  # degrees of freedom
    eps: Array
    root: Array  # sqrt(lam)
    duration: Array  # of a contact

    def split(self, y):
        return y[: self.d], y[self.d : 2 * self.d], y[2 * self.d :]

    def nearest(self, metric, t, q):
        P = nearest(self.world, metric, t, q, tolerance=1e-13, iterations=50)
        return replace(P, contacts=self.world.normals(t, q + P.shift))

    def rate(self, t, y):
        q, v, _ = self.split(y)
        metric = self.world.metric(q)
        P = self.nearest(metric, t, q)
        square = jnp.sum(P.shift * metric.apply(P.shift))
        damping = jnp.sum(P.lam * P.contacts.velocity(v)) / jnp.where(square > 0.0, square, 1.0)
        push = P.lam * (1.0 / self.root - 2.0 * self.eps * damping) / self.root  # (3)
        reaction = product(P.contacts.rows.T, push)
        a = metric.solve(self.world.forces(t, q, v) + reaction)
        return jnp.concatenate([v, a, push])

    def substep(self, method, s, h):
        """(5): without the wall, then along the depth as the wall changes it.

        Twice where the wall acts: the force is taken along the motion that the push of the first
        time leaves, not along the one without the wall.  And whether several gaps push on the way:
        x / |x| then turns, and (5) does not hold.
        """
        push = self.split(s.y)[2]

        def turn(carried):
            _, force, turns = carried
            new, several = self._along(method, s, h, force)
            force = (self.split(new.y)[2] - push) / h
            return (new, several), force, turns + 1

        def unfinished(carried):
            _, force, turns = carried
            return (turns < 2) & jnp.any(force != 0.0)

        first = turn((None, jnp.zeros_like(push), 0))
        (new, several), *_ = jax.lax.while_loop(unfinished, turn, first)
        return new, several

    def _free(self, method, s, h, push):
        """Where the force alone leads, taken along the motion under force and push."""
        q, v, _ = self.split(s.y)

        def rate(t, y):
            q, v, _, u = jnp.split(y, 4)
            metric = self.world.metric(q)
            a = metric.solve(self.world.forces(t, q, v))
            kick = metric.solve(product(self.world.normals(t, q).rows.T, push))
            return jnp.concatenate([v, a + kick, u, a])

        return jnp.split(method.step(rate, s.t, jnp.concatenate([q, v, q, v]), h)[0], 4)[2:]

    def _along(self, method, s, h, force):
        """(5), with the motion under this force of each gap as the path."""
        (q, v, push), t1 = self.split(s.y), s.t + h
        q1, v1 = self._free(method, s, h, force)
        metric, metric1 = self.world.metric(q), self.world.metric(q1)
        P, P1 = self.nearest(metric, s.t, q), self.nearest(metric1, t1, q1)
        y, y1 = (jnp.sqrt(2.0 * m.energy(x.shift)) for m, x in ((metric, P), (metric1, P1)))

        # the direction in which the wall acts: at the end, or where that is outside, at the start
        last = y1 > 0.0
        size = jnp.where(last, y1, jnp.where(y > 0.0, y, 1.0))
        normal = -jnp.where(last, P1.shift, P.shift) / size
        share = jnp.where(last, P1.lam, P.lam) / size  # M normal = -grad g^T share

        u, u1 = -jnp.sum(share * P.contacts.velocity(v)), -jnp.sum(share * P1.contacts.velocity(v1))
        a = (u1 - u) / h
        start = jnp.where(y > 0.0, y, jnp.minimum(y1 - h * (u1 + u) / 2, 0.0))
        found = through(start, u, a, h, self.eps, self.root)
        touched = last | (y > 0.0)
        moved = jnp.where(touched, found.y - start - h * (u + u1) / 2, 0.0)
        kicked = jnp.where(touched, found.u - u1, 0.0)
        overlap = -product(P1.contacts.rows, normal) * (share > 0.0)  # of each gap, for one of y
        deepest = jnp.where(touched, found.deepest, 0.0) * jnp.max(overlap, initial=0.0)
        q1, v1 = q1 + moved * normal, v1 + kicked * normal
        y1 = jnp.concatenate([q1, v1, push - kicked * share])
        several = jnp.sum((P.lam > 0.0) | (P1.lam > 0.0) | (self.world.gaps(t1, q1) < 0.0)) > 1
        status = first_failure(
            failing(~metric1.ok(), Status.mass),
            failing(~jnp.all(jnp.isfinite(y1)), Status.nonfinite),
            P1.status,
        )
        new = _Loop(
            t1,
            y1,
            s.h,
            jnp.maximum(s.penetration, deepest),
            s.turns + 1,
            first_failure(s.status, status),
        )
        return new, several

    def reach(self, t, y):
        """The longest step that does not run into a contact unseen."""
        q, v, _ = self.split(y)
        contacts = self.world.normals(t, q)
        w = contacts.velocity(v)
        way = jnp.where(w < 0.0, -0.5 * contacts.gap / jnp.where(w < 0.0, w, -1.0), jnp.inf)
        floor = _IN_CONTACT * self.duration
        way = jnp.where(contacts.gap > 0.0, jnp.maximum(way, floor), floor)
        return jnp.min(way, initial=jnp.inf)
