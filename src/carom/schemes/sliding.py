"""Planar friction under event detection: contacts stick, slip either way, and change over.

With u = (u_n, u_t) the relative velocity of a contact, u' its rate and lam = (lam_n, lam_t) its
force, the closed contacts of the smooth motion obey

    stick      u_n' = u_t' = 0
    slip       u_n' = 0,    lam_t = -s mu lam_n,    s = sign u_t                              (1)

and the functions that stay positive until something happens are, beside gaps and lam_n,

    stick      mu lam_n - lam_t,   mu lam_n + lam_t          slip      s u_t                  (2)

Where one of them vanishes, and after an impact, the modes of the contacts at rest in the normal
direction are those in which the accelerations obey Coulomb's law:

    open       lam = 0,  u_n' >= 0            stick    u_t = 0,  |lam_t| <= mu lam_n
    slip       lam_n >= 0, and s u_t' >= 0 where u_t = 0                                      (3)

found by trying all of the 4^p, p <= 4, that can be and whose equations (1) are regular: of forces
that are not unique (a body on two feet that stick) some end of their range is taken, with a foot at
the edge of its cone.  An impact is Coulomb's law in impulses, over all closed contacts
(projection/coulomb.py).

Where (3) has no solution (Painleve), the impulse of a short time is that of an impact without a
collision: the law in impulses for v + h a, h -> 0.  Where it has several, with accelerations that
differ, the one with the least forces is taken.  Both are counted in ``stats.fallbacks``.

What is left of an accumulation of bounces is taken out along the force of (1), so that friction has
the share of it that the bounces would give it.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from carom.errors import FrictionError
from carom.projection.metric import product, solve_dense
from carom.schemes.flow import Flow, logged
from carom.schemes.held import is_held
from carom.schemes.isolation import START
from carom.schemes.resting import spent
from carom.schemes.scheme import rebound
from carom.status import Status, failing, first_failure

OPEN, STICK, FORWARD, BACKWARD = range(4)
MOST = 4  # contacts: 256 modes
_SAME = 1e-12  # of the terms of a velocity or a force: rounding
_STILL = 1e-10  # the same of what an impact leaves, which is solved for
_CONSISTENT = 1e-9  # to this (3) holds, relative to the terms of its contact
_REGULAR = 1e-9  # singular values of equations that are solved
_APART = 1e-6  # accelerations that differ
_SHOCK = 1e-9  # of the velocity: h a of an impact without a collision
_IDLE = 1e3  # tolerances: what a step may be off between its knots
_TINY = 1e-300
_TICKS = 16.0 * float(np.finfo(float).eps)  # of t: what it is known to


def frictional(world: Any) -> bool:
    """Whether its contacts have friction."""
    return getattr(world, "friction", None) is not None


class Rows(eqx.Module):
    """Contacts in units in which each direction has the inertia 1: normals, then tangents."""

    N: Array  # (2p, d) whitened, of length 1
    length: Array  # (2p,) before
    mu: Array  # (p,) in these units

    @property
    def A(self):
        """(2p, 2p)"""
        return jnp.sum(self.N[:, None] * self.N[None], axis=-1)

    def forces(self, b, mode):
        """(2p,) lam of (1), where it is b without."""
        B, C, on = self.equations(mode)
        return product(C, solve_dense(B, jnp.where(on, -b, 0.0)))

    def equations(self, mode):
        """B z = -b on the rows that hold, and lam = C z: lam_t = z_t - s mu z_n."""
        p = mode.shape[0]
        side = jnp.where(mode == FORWARD, 1.0, jnp.where(mode == BACKWARD, -1.0, 0.0))
        C = jnp.eye(2 * p).at[jnp.arange(p, 2 * p), jnp.arange(p)].set(-side * self.mu)
        on = jnp.concatenate([mode != OPEN, mode == STICK])
        return jnp.where(on[:, None] & on[None, :], self.A @ C, jnp.eye(2 * p)), C, on


class Sliding(Flow):
    """The smooth motion (1); mode (p,) is one of OPEN, STICK, FORWARD, BACKWARD.

    y is q, v, and the impulses: normal ones, tangential ones, those of joints.
    """

    def _contacts(self, t, q):
        """gap (p,), rate (2p,), rows (2p, d), mu (p,); joints taken out."""
        c, p = self.world.contacts(self.at(t), q), self.mode.shape[0]
        rate, rows = c.rate[:p].T.ravel(), c.rows[:p].swapaxes(0, 1).reshape(2 * p, -1)
        if is_held(self):
            rate, rows = self.world.freed(self.at(t), q, rate, rows)
        return c.gap[:p], rate, rows, c.law.mu[:p]

    def linear(self, t, q) -> tuple[Any, Array, Rows]:
        """The metric, the rate of the contacts, and their rows."""
        metric = self.metric(q)
        _, rate, rows, mu = self._contacts(t, q)
        N = metric.whiten(rows)
        length = jnp.sqrt(jnp.sum(N * N, axis=1))
        length = jnp.where(length > 0.0, length, 1.0)
        n, s = jnp.split(length, 2)
        return metric, rate, Rows(N / length[:, None], length, mu * s / n)

    def velocity(self, t, q, v):
        """(2p,) u and the size of its terms."""
        _, rate, rows, _ = self._contacts(t, q)
        return rate + product(rows, v), jnp.abs(rate) + product(jnp.abs(rows), jnp.abs(v))

    def driven(self, t, q, v):
        """(2p,) the size of the terms of u': what is at rest has rounding of its own."""
        metric, _, rows = self.linear(t, q)
        return rows.length * jnp.sqrt(2.0 * metric.energy(metric.solve(self.forces(t, q, v))))

    def ticked(self, t, q, v):
        """(2p,) what u changes by in the rounding of t, with obstacles that move."""
        return _TICKS * jnp.abs(t) * jnp.abs(self.bend(t, q, v, jnp.zeros_like(v)))

    def bend(self, t, q, v, a):
        """(2p,) u'."""
        p = self.mode.shape[0]

        def relative(t, q, v):
            normal = jax.jvp(self.gaps, (t, q), (jnp.ones(()), v))[1]
            slip = jnp.asarray(self.world.slip(self.at(t), q, v), float)
            return jnp.concatenate([normal, jnp.reshape(slip, (p,))])

        return jax.jvp(relative, (t, q, v), (jnp.ones(()), v, a))[1]

    def _accelerated(self, t, q, v):
        metric, _, rows = self.linear(t, q)
        free = metric.solve(self.forces(t, q, v))
        lam = rows.forces(self.bend(t, q, v, free) / rows.length, self.mode)
        return free + metric.lift(product(rows.N.T, lam)), lam / rows.length

    def _pull(self, t, q, v, lam):
        c, p = self.world.contacts(self.at(t), q), self.mode.shape[0]
        rows = c.rows[:p].swapaxes(0, 1).reshape(2 * p, -1)
        return self.world.tension(self.at(t), q, v, lam, rows)

    @property
    def lasting(self):
        return jnp.concatenate([self.mode != OPEN, jnp.ones(2 * self.mode.shape[0], bool)])

    def normals(self, t, q):
        """Those of the gaps, and none for the functions (2)."""
        n = super().normals(t, q)
        more = 2 * n.gap.shape[0]
        gap, rate, known = (jnp.pad(x, (0, more)) for x in (n.gap, n.rate, n.known))
        return type(n)(gap, rate, jnp.pad(n.rows, ((0, more), (0, 0))), known)

    def looked_at(self, times, x, rates):
        """(m, 3p) the gaps, and then lam_n and (2); 1 where there is nothing to look at."""
        d, p, mode = self.d, self.mode.shape[0], self.mode

        def one(t, x, rate):
            q, v, lam = x[:d], x[d : 2 * d], rate[2 * d : 2 * d + 2 * p]
            gap, _, _, mu = self._contacts(t, q)
            u = self.velocity(t, q, v)[0][p:]
            n, s = jnp.split(lam, 2)
            torn = jnp.abs(u) > 1e3 * _STILL * size  # the obstacle's speed has jumped
            low, high = mu * n - s, mu * n + s
            slip = jnp.where(mode == FORWARD, u, -u)
            sticks, slips = mode == STICK, (mode > STICK) & (mu > 0.0)
            low = jnp.where(sticks, jnp.where(torn, -1.0 - jnp.abs(low), low), 1.0)
            high = jnp.where(sticks, high, 1.0)
            still = jnp.zeros(2 * p)
            functions = jnp.concatenate([n, jnp.where(slips, slip, low), high])
            return jnp.concatenate([gap, still]), functions

        ends = (self.velocity(times[k], *self.split(x[k])[:2])[1][p:] for k in (START, -1))
        shaken = self.driven(times[START], *self.split(x[START])[:2])[p:]
        size = jnp.maximum(*ends) + (times[-1] - times[START]) * shaken
        return jax.vmap(one)(times, x, rates)

    def rounding(self, fine, path, t, q, v, h, tolerance):
        p = self.mode.shape[0]
        largest = jnp.max(jnp.abs(path.lam), axis=0)
        edge = jnp.maximum(largest[p : 2 * p], largest[2 * p :])
        speed = (self.velocity(t, q, v)[1] + h * self.driven(t, q, v))[p:]
        size = jnp.where(self.mode == STICK, _SAME * edge, _SAME * speed + self.ticked(t, q, v)[p:])
        # one that others hold, at the edge of its cone, rests to the error of a step
        wide = tolerance(speed)
        idle = (self.mode > STICK) & (jnp.abs(path.lam[START, p : 2 * p]) <= wide)
        size = jnp.where(idle, jnp.maximum(size, _IDLE * wide), size)
        return jnp.maximum(fine, jnp.concatenate([jnp.zeros_like(size), size, size]))

    def unseen(self, least, fine):
        p = self.mode.shape[0]
        return jnp.concatenate([least[:p], 0.5 * fine[p:]])

    def back_on(self, t, q, v):
        metric, _, rows = self.linear(t, q)
        gap = self._contacts(t, q)[0]
        closed = jnp.where(self.mode == OPEN, OPEN, FORWARD)
        smooth = Rows(rows.N, rows.length, 0.0 * rows.mu)
        off = jnp.concatenate([gap, jnp.zeros_like(gap)]) / rows.length
        q = q + metric.lift(product(rows.N.T, smooth.forces(off, closed)))
        return q, self.stilled(t, q, v)

    def stilled(self, t, q, v):
        """v without what the modes hold, along the forces of (1)."""
        metric, _, rows = self.linear(t, q)
        lam = rows.forces(self.velocity(t, q, v)[0] / rows.length, self.mode)
        return v + metric.lift(product(rows.N.T, lam))


class Chosen(eqx.Module):
    """The modes of (3)."""

    mode: Array  # (p,) int
    none: Array  # () bool: no mode satisfies it
    several: Array  # () bool: several do


def chosen(flow: Sliding, t, q, v, resting, zero, loose, lifted) -> Chosen:
    """(3) for the contacts ``resting``, of which those ``zero`` do not slide.

    Where two modes are the same motion, the contacts ``loose`` no longer stick, and the ``lifted``
    are no longer closed; else stick comes before slip.
    """
    p = resting.shape[0]
    modes = np.indices((4,) * p).reshape(p, -1).T  # (4^p, p)
    metric, _, rows = flow.linear(t, q)
    b = flow.bend(t, q, v, metric.solve(flow.forces(t, q, v))) / rows.length
    ahead = flow.velocity(t, q, v)[0][p:] > 0.0

    def possible(mode):
        way = jnp.where(mode == FORWARD, zero | ahead, zero | ~ahead)
        way = jnp.where(rows.mu > 0.0, way, mode == FORWARD)  # without friction: whichever way
        may = jnp.where(mode == STICK, zero & (rows.mu > 0.0), (mode == OPEN) | way)
        return jnp.all(may & (resting | (mode == OPEN)))

    def tried(mode):
        B, C, on = rows.equations(mode)
        lam = product(C, solve_dense(B, jnp.where(on, -b, 0.0)))
        values = jnp.linalg.svd(B, compute_uv=False)
        regular = values[-1] > _REGULAR * values[0]
        lam = jnp.where(jnp.all(jnp.isfinite(lam)) & regular, lam, 0.0)
        a = product(rows.A, lam) + b
        terms = jnp.abs(b) + product(jnp.abs(rows.A), jnp.abs(lam)) + jnp.abs(lam)
        terms = jnp.maximum(jnp.max(terms.reshape(2, p), axis=0), _TINY)
        (a_n, a_t), (n, s) = jnp.split(a, 2), jnp.split(lam, 2)
        slips = jnp.where(mode == FORWARD, a_t, -a_t)
        fault = jnp.where(mode == OPEN, jnp.where(resting, -a_n, 0.0), -n)
        edge = jnp.abs(s) - rows.mu * n
        fault = jnp.maximum(fault, jnp.where(mode == STICK, edge, 0.0))
        fault = jnp.maximum(fault, jnp.where((mode > STICK) & zero & (rows.mu > 0), -slips, 0.0))
        dear = jnp.where(mode == OPEN, 2.0, jnp.where(mode == STICK, 0.0, 1.0))
        dear = dear + 10.0 * ((mode != OPEN) & (lifted | (n <= _CONSISTENT * terms)))
        dear = dear + 10.0 * ((mode == STICK) & loose)
        return regular, jnp.max(fault / terms), jnp.sum(dear), jnp.sum(n), a

    def left_out(mode):
        return jnp.zeros((), bool), *jnp.zeros(3), b

    def one(mode):
        return jax.lax.cond(possible(mode), tried, left_out, mode)

    may, fault, dear, load, a = jax.lax.map(one, jnp.asarray(modes))
    good = may & (fault <= _CONSISTENT)
    least = jnp.min(jnp.where(good, load, jnp.inf))
    size = jnp.max(jnp.abs(b))
    cost = jnp.where(good, dear + 1e3 * (load - least > _APART * size), 1e6 * (1.0 + fault))
    best = jnp.argmin(jnp.where(may, cost, jnp.inf))
    other = good & (jnp.max(jnp.abs(a - a[best]), axis=1) > _APART * size)
    return Chosen(jnp.asarray(modes)[best], ~jnp.any(good), jnp.any(other))


def at_start(flow: Sliding, t, q, v, h, resting) -> Array:
    """The modes of the first step."""
    p = resting.shape[0]
    u, size = flow.velocity(t, q, v)
    size = size + h * flow.driven(t, q, v)
    small = jnp.abs(u) <= _STILL * size + flow.ticked(t, q, v)
    zero, no = small[p:], jnp.zeros(p, bool)
    return chosen(flow, t, q, v, resting, zero, no, no).mode


def check(world: Any, t, q) -> None:
    """Refuse friction that this is not made for."""
    c = jax.eval_shape(world.contacts, jnp.asarray(t, float), q)
    p = c.gap.shape[0] - c.law.joints
    if type(c.law).__name__ != "Coulomb" or c.rate.shape[1] != 2:
        what = "in space" if c.rate.shape[1] == 3 else "with a law of its own"
        raise FrictionError(
            f"EventDriven has no friction {what}: use Moreau or Maury, whose steps do not look for "
            "where a contact begins to slip"
        )
    if p > MOST:
        raise FrictionError(
            f"EventDriven tries all ways in which contacts with friction can stick or slip, and "
            f"{p} gaps have 4^{p} of them: it takes {MOST} gaps at most. Use Moreau or Maury"
        )


def by_contact(push: Array, p: int) -> Array:
    """(p + k, 2) of the impulses (2p + k,) of a flow."""
    along = jnp.pad(push[p : 2 * p], (0, push.shape[0] - 2 * p))
    return jnp.stack([jnp.concatenate([push[:p], push[2 * p :]]), along], axis=1)


def after_event(scheme, world, flow: Sliding, s, y, t, seen, crowd_of: int):
    """The state behind an event at (t, y): impact, what is left of an accumulation, then (3)."""
    q, v, push = flow.settled(t, y)
    p = flow.mode.shape[0]
    metric = flow.metric(q)
    normals = flow.normals(t, q)
    u, terms = flow.velocity(t, q, v)
    w, speed = u[:p], terms[:p]
    size = (product(jnp.abs(normals.rows), jnp.abs(q)) + jnp.abs(normals.gap))[:p]
    reach = jnp.maximum(_SAME * (size + jnp.abs(s.h * w)), 0.1 * scheme.atol)
    was = s.mode != OPEN
    closed = was | (normals.gap[:p] <= reach)
    hit = closed & ~was & (w < -_SAME * speed)
    struck = rebound(world, metric, world.contacts(flow.at(t), q), v, closed)
    any_hit = jnp.any(hit)
    v1 = jnp.where(any_hit, struck.point, v)
    blow = jnp.where(any_hit, struck.multipliers, 0.0)
    sizes = jnp.maximum(jnp.abs(v), jnp.abs(v1))

    shaken, ticked = s.h * flow.driven(t, q, v), flow.ticked(t, q, v)

    def at_rest(v1, hit):
        """Normal and tangential, where neither is more than rounding."""
        u1, _ = flow.velocity(t, q, v1)
        terms = flow.velocity(t, q, sizes + jnp.abs(v1))[1] + shaken
        small = jnp.abs(u1) <= _STILL * terms + ticked
        ended = ~hit & (s.mode > STICK) & seen.ended[p : 2 * p]
        return u1, small[:p], small[p:] | ended

    loose = (s.mode == STICK) & (seen.ended[p : 2 * p] | seen.ended[2 * p :]) & ~any_hit
    lifted = was & seen.ended[:p] & ~any_hit
    u1, still, zero = at_rest(v1, any_hit)
    # nor does one begin to stick that others held at its edge: together they are at the end of it
    loose = loose | (jnp.any(loose) & (s.mode > STICK) & zero)
    first = chosen(flow, t, q, v1, closed & still, zero, loose, lifted)

    # no acceleration obeys the law: an impact without a collision
    pressed = closed & still & first.none
    shock = _shock(world, flow, metric, t, q, v1, pressed)
    v1 = jnp.where(first.none, shock.point, v1)
    blow = blow + jnp.where(first.none, shock.multipliers, 0.0)
    u1, still, zero = at_rest(v1, any_hit | first.none)
    # what is left of an accumulation, beside what rests already: a foot on its other
    w1 = u1[:p]
    e = world.restitutions(p, -jnp.abs(w1))
    wide = scheme.atol + scheme.rtol * size
    unseen = scheme._rounding(size + jnp.abs(normals.rate[:p] * t))

    def beside(resting, now):
        lasting = eqx.tree_at(lambda f: f.mode, flow, jnp.where(now.none, OPEN, now.mode))
        a = flow.bend(t, q, v1, lasting.acceleration(t, q, v1))[:p]
        return resting | (closed & spent(w1, a, e, wide, unseen))

    def again(loop):
        resting, _, _ = loop
        now = chosen(flow, t, q, v1, resting, zero, loose, lifted)
        more = beside(resting, now)
        return more, now, jnp.any(more != resting)

    late = t - s.since > 1e-12 * jnp.abs(t)
    crowd = jnp.where(late, 0, s.crowd + any_hit)
    crowded = crowd >= crowd_of
    resting = beside(closed & (crowded | still), first)
    start = resting, first, jnp.ones((), bool)
    _, final, _ = jax.lax.while_loop(lambda loop: loop[2], again, start)
    after = eqx.tree_at(lambda f: f.mode, flow, final.mode)
    v2 = after.stilled(t, q, v1)

    table, count = logged(s, t, w, w1, blow[:p, 0])
    flat = jnp.concatenate([blow[:p, 0], blow[:p, 1], blow[p:, 0]])
    lost = closed & ~jnp.isfinite(u1[p:])  # an endless speed is no rounding of itself
    status = first_failure(
        failing(~jnp.all(jnp.isfinite(v2)) | jnp.any(lost), Status.nonfinite),
        failing(any_hit & (struck.status != Status.ok), Status.unconverged),
        failing(final.none, Status.unconverged),
    )
    return eqx.tree_at(
        lambda s: (
            s.t, s.q, s.v, s.push, s.mode, s.table, s.struck, s.crowd, s.since, s.passed, s.status
        ),
        s,
        (
            t, q, v2, push + flat, final.mode, table, count, jnp.where(crowded, 0, crowd),
            jnp.where(late, t, s.since), s.passed + crowded + first.none + final.several, status,
        ),
    )  # fmt: skip


def _shock(world, flow, metric, t, q, v, pressed):
    """The law in impulses for v + h a, without the h a."""
    a = metric.solve(flow.forces(t, q, v))
    fast = jnp.max(jnp.abs(a))
    h = _SHOCK * jnp.max(jnp.abs(v)) / jnp.where(fast > 0.0, fast, 1.0)
    contacts = world.contacts(flow.at(t), q)
    found = world.project(metric, v + h * a, contacts, contacts.rate, pressed)
    return eqx.tree_at(lambda f: f.point, found, found.point - h * a)
