"""What a certificate measures on a motion: at each record, over each step, and in the whole."""

from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from carom.certificates.error import estimated
from carom.certificates.rows import beside, joints, normals, sliding
from carom.certificates.spans import MARGIN, earlier, ends, in_chunks, later, widest
from carom.programs import compiled

_STILL = 1e-6  # of |q| and |a| T^2: a motion that is smaller is rest
_INSIDE = np.arange(1, 512) / 512  # parts of a step at which the force is looked at again
_AGAIN = 64  # steps, at most
_SPEEDS = 257  # at which a restitution that depends on speed is looked at


class Options(NamedTuple):
    title: str
    sparse_dt: float | None  # the step, where not every step is a record
    resolution: float | None  # the duration of a contact, where walls yield
    tolerance: float
    located: bool = False  # impacts are records of their own, so that nothing happens between them
    inside: bool = False  # impacts lie inside of steps
    glued: Any = None  # (p,) gamma at the first record; None: of the impulses there


class _Record(NamedTuple):
    """At one record, right limit."""

    gap: Any  # (p,)
    rate: Any  # (p,) d_t g
    w: Any  # (p,) d_t g + grad g . v
    bend: Any  # (p,) |grad g . a| + |g'' along v|: how fast w changes in free motion
    inverse_mass: Any  # (p,) grad g . M^-1 grad g
    coupled: Any  # (p,) what other gaps, friction and joints push w by, each in its own direction
    a: Any  # (d,) M^-1 f, with what joints add
    kick: Any  # (d,) M^-1 grad g lam, with friction and joints
    energy: Any  # () kinetic
    beside: Any  # (r,) velocities of sliding and of joints
    beside_rate: Any  # (r,) of what is at rest
    beside_bend: Any  # (r,) how fast they change in free motion
    beside_inverse: Any  # (r,) as inverse_mass
    beside_coupled: Any  # (r,) what all impulses push them by, each in its own direction
    joint: Any  # (k,)


def _at_record(system, t, q, v, lam, impulse):
    metric, contacts = system.metric(q), normals(system, t, q)
    free = metric.solve(system.forces(t, q, v))
    a = _on_joints(system, metric, t, q, v, free)
    others, across = beside(system, t, q), metric.whiten(contacts.rows)

    def along(s):
        rows = beside(system, t + s, q + s * v)
        return rows.rows @ v + rows.rate

    def speed(s):
        return jax.jvp(lambda s: system.gaps(t + s, q + s * v), (s,), (jnp.ones(()),))[1]

    every = jnp.concatenate([across, metric.whiten(others.rows)])
    pushed = jnp.abs(every @ every.T) @ jnp.abs(jnp.concatenate([lam, impulse]))
    curved = jax.jvp(speed, (jnp.zeros(()),), (jnp.ones(()),))[1]
    return _Record(
        gap=contacts.gap,
        rate=contacts.rate,
        w=contacts.velocity(v),
        bend=jnp.abs(contacts.rows @ a) + jnp.abs(curved),
        inverse_mass=jnp.sum(across**2, axis=1),
        coupled=pushed[: len(lam)] - jnp.sum(across**2, axis=1) * jnp.abs(lam),
        a=a,
        kick=metric.lift(across.T @ lam + metric.whiten(others.rows).T @ impulse),
        energy=metric.energy(v),
        beside=others.rows @ v + others.rate,
        beside_rate=others.rate,
        beside_coupled=pushed[len(lam) :],
        beside_inverse=jnp.sum(metric.whiten(others.rows) ** 2, axis=1),
        beside_bend=jnp.maximum(jnp.abs(others.rows @ free), jnp.abs(others.rows @ a))
        + jnp.abs(jax.jvp(along, (jnp.zeros(()),), (jnp.ones(()),))[1]),
        joint=system.joints(t, q),
    )


def _on_joints(system, metric, t, q, v, a):
    """The acceleration, with the reactions of joints, which stay zero."""
    if system.joint is None:
        return a

    def speed(s):
        rows = joints(system, t + s, q + s * v)
        return rows.rows @ (v + s * a) + rows.rate

    bent = jax.jvp(speed, (jnp.zeros(()),), (jnp.ones(()),))[1]
    rows = metric.whiten(joints(system, t, q).rows)
    A = rows @ rows.T
    A = A + jnp.diag(1e-11 * jnp.maximum(jnp.diagonal(A), 1e-300))
    return a - metric.lift(rows.T @ jnp.linalg.solve(A, bent))


class _Step(NamedTuple):
    """Over one step; ``moved`` is what shifting one argument by a step does to the balance."""

    gained: Any  # (d,) M Dv
    force: Any  # (d,) f
    push: Any  # (d,) grad g lam, with friction and joints
    inertia: Any  # () 1/4 (v_a DM v_a + v_b DM v_b)
    moved_force: Any  # (5, d) h times the change of f over the step in t, in q, in v, and where
    # the push of the step may lead inside of it, in q and in v
    moved_mass: Any  # (3, d) DM Dv, with DM over the step before, this one and the next
    moved_normal: Any  # (3, d) D(grad g) lam, likewise
    moved_hidden: Any  # (3, r, d) the same of friction and joints that cancel within the step


def _over_step(system, t, q, va, vb, lam, impulse):
    """Records k - 1 to k + 2, t (4,) and q (4, d); the step is from k to k + 1."""
    h, dv = t[2] - t[1], vb - va
    fa, fb = system.forces(t[1], q[1], va), system.forces(t[2], q[2], vb)

    def pushed(t, q):
        return normals(system, t, q).rows.T @ lam + beside(system, t, q).rows.T @ impulse

    kick = system.metric(q[1]).solve(pushed(t[1], q[1]))
    elsewhere = [(t[2], q[1], va), (t[1], q[2], va), (t[1], q[1], vb)]
    elsewhere += [(t[1], q[1] + h * kick, va), (t[1], q[1], va + kick)]
    momentum = jax.vmap(lambda q: system.metric(q).apply(dv))(q)
    push = jax.vmap(pushed)(t, q)
    rows = jax.vmap(lambda t, q: beside(system, t, q).rows)(t, q)
    Ma, Mb = system.metric(q[1]), system.metric(q[2])
    return _Step(
        gained=(momentum[1] + momentum[2]) / 2,
        force=(fa + fb) / 2,
        push=(push[1] + push[2]) / 2,
        inertia=sum(v @ (Mb.apply(v) - Ma.apply(v)) for v in (va, vb)) / 4,
        moved_force=h * jnp.stack([system.forces(*x) - fa for x in elsewhere]),
        moved_mass=jnp.diff(momentum, axis=0),
        moved_normal=jnp.diff(push, axis=0),
        moved_hidden=jnp.diff(rows, axis=0) * _hidden(system, t[1], q[1], lam)[:, None],
    )


def _hidden(system, t, q, lam):
    """(r,) what friction and joints may give at an impact in a step, and take back within it.

    |r_t| <= mu lam,    and joints answer each push on a row G by x,  H M^-1 H^T x = -H M^-1 G^T
    """
    along, held = sliding(system, t, q).rows, joints(system, t, q).rows
    mu = jnp.zeros(len(lam)) if system.friction is None else system.friction
    rubbed = jnp.repeat(mu * jnp.abs(lam), len(along) // max(len(lam), 1))
    if not len(held):
        return rubbed
    metric = system.metric(q)
    N, pushed = (metric.whiten(x) for x in (held, jnp.append(normals(system, t, q).rows, along, 0)))
    A = N @ N.T
    A = A + jnp.diag(1e-11 * jnp.maximum(jnp.diagonal(A), 1e-300))
    answers = jnp.abs(jnp.linalg.solve(A, N @ pushed.T))
    return jnp.append(rubbed, answers @ jnp.append(jnp.abs(lam), rubbed))


class _Inside(NamedTuple):
    off: Any  # (d,) h times the most that f inside of a step is off the line between its ends


@compiled
def _insides(system, arrays):
    def one(t, q, v):
        def force(s):
            return system.forces(*((1.0 - s) * x[0] + s * x[1] for x in (t, q, v)))

        def off(s):
            return jnp.abs(force(s) - (1.0 - s) * force(0.0) - s * force(1.0))

        return _Inside((t[1] - t[0]) * jnp.max(jax.vmap(off)(_INSIDE), axis=0))

    return jax.vmap(one)(*arrays)


class _Face(NamedTuple):
    moved: Any  # (d,) the change of grad g lam from q to the face of each gap that is entered


def _at_face(system, t, q, lam):
    """A wall that yields pushes along the normal of its face, at the point nearest to q."""
    metric, contacts = system.metric(q), normals(system, t, q)
    across = metric.whiten(contacts.rows)
    size = jnp.maximum(jnp.sum(across**2, axis=1), 1e-300)
    out = across * (jnp.maximum(-contacts.gap, 0.0) / size)[:, None]
    rows = jax.vmap(lambda x: normals(system, t, q + metric.lift(x)).rows)(out)
    own = rows[jnp.arange(len(lam)), jnp.arange(len(lam))]
    return _Face((own - contacts.rows).T @ lam)


@compiled
def _faces(system, arrays):
    return jax.vmap(lambda *x: _at_face(system, *x))(*arrays)


@compiled
def records(system, arrays):
    return jax.vmap(lambda *x: _at_record(system, *x))(*arrays)


@compiled
def _steps(system, arrays):
    return jax.vmap(lambda *x: _over_step(system, *x))(*arrays)


@compiled
def _masses(system, q):
    eye = jnp.eye(q.shape[1])
    return jax.vmap(lambda q: jax.vmap(system.metric(q).apply)(eye))(q)


class _Norm:
    """The kinetic norm of the mean mass along the motion: one norm for the whole run."""

    def __init__(self, system, q):
        chosen = q[np.linspace(0, len(q) - 1, 256).astype(int)]
        self.factor = np.linalg.cholesky(np.mean(_masses(system, chosen), axis=0))

    def velocity(self, x):
        """(x . M x)^1/2, of (..., d)."""
        return np.linalg.norm(x @ self.factor, axis=-1)

    def momentum(self, x):
        """(x . M^-1 x)^1/2."""
        return np.linalg.norm(x @ np.linalg.inv(self.factor).T, axis=-1)


class Measured:
    """A motion with what is measured on it; n records, m = n - 1 steps.

    With ``kept``, the indices of some of the records, the first and the last included, these are
    the records, and a step is made of those of ``fine``, the motion with all of them.
    """

    def __init__(self, system, arrays, options, kept=None):
        self.system, self.options, self.kept = system, options, kept
        self.tolerance = options.tolerance
        self.sparse_dt, self.resolution = options.sparse_dt, options.resolution
        self.fine = self if kept is None else _Fine(self, arrays)
        t, q, v, lam, beside = arrays if kept is None else _at_kept(kept, *arrays)
        self.t, self.q, self.v, self.lam, self.beside = t, q, v, lam, beside
        self.at = in_chunks(records, system, (t, q, v, lam, beside))
        self.e = self._most_kept()
        self.norm = _Norm(system, q)
        acts = np.abs(lam) if system.glue else lam  # what is glued may pull
        self.pushes = acts[1:] > self.tolerance * np.max(acts, initial=0.0)  # (m, p)

    def accelerations(self, t, q, v, lam, beside):
        """(n, d) those of ``_Record``, elsewhere than at the records."""
        return in_chunks(records, self.system, (t, q, v, lam, beside)).a

    def e_of(self, w):
        """(..., p) restitution of impacts with the normal velocities w."""
        return np.asarray(self.system.restitutions(self.lam.shape[1], w))

    def _most_kept(self):
        """(p,) e; where it is a function of speed, the most of a change of speed that it keeps."""
        if not callable(self.system.restitution):
            return self.e_of(None)
        fastest = np.max(np.abs(self.at.w), axis=0, initial=0.0)
        w = -np.linspace(0.0, 1.0, _SPEEDS)[:, None] * fastest
        slope = np.gradient(self.e_of(w) * w, axis=0) * (_SPEEDS - 1) / np.maximum(fastest, 1e-300)
        return np.maximum(np.max(np.abs(slope), axis=0), np.max(self.e_of(w), axis=0))

    def summed(self, x):
        """Over each step, what is given for each of the steps it is made of."""
        return x if self.kept is None else np.add.reduceat(x, self.kept[:-1], axis=0)

    def ended(self, x):
        """What is given for each of the steps that a step is made of, at the last of them."""
        return x if self.kept is None else x[self.kept[1:] - 1]

    @cached_property
    def overlap(self):
        """(n, p) the largest since the record before."""
        if self.kept is None:
            return -self.at.gap
        return np.maximum.reduceat(-self.fine.at.gap, [0, *(self.kept[:-1] + 1)], axis=0)

    @cached_property
    def h(self):
        """(m,) length of each step."""
        return np.diff(self.t)

    @cached_property
    def H(self):
        """(m,) the longest of a step and its neighbours."""
        return widest(self.h)

    @cached_property
    def over(self):
        """What ``_Step`` says, for each step."""
        k = np.clip(np.arange(-1, len(self.t) - 2)[:, None] + np.arange(4), 0, len(self.t) - 1)
        arrays = (self.t[k], self.q[k], self.v[:-1], self.v[1:], self.lam[1:], self.beside[1:])
        return in_chunks(_steps, self.system, arrays)

    @cached_property
    def residual(self):
        """(m, d) of the momentum balance; in flight what is left of it by the own integration."""
        found = self.over.gained - self.h[:, None] * self.over.force - self.over.push
        flight, defect = self.flown
        found[flight] = defect[:, self.q.shape[1] :] @ (self.norm.factor @ self.norm.factor.T)
        return found

    @cached_property
    def unsure(self):
        """(m,) relative: what the own integration of a step in flight may be off by."""
        found = np.zeros(len(self.h))
        flight, _ = self.flown
        if len(flight):
            found[flight] = self.estimate.unsure[~np.any(self.estimate.windows.held, axis=1)]
        return 2.0 * found

    @cached_property
    def strayed(self):
        """(m, d) Dq - h v; in flight by the own integration."""
        found = np.diff(self.q, axis=0) - self.h[:, None] * (self.v[1:] + self.v[:-1]) / 2
        flight, defect = self.flown
        found[flight] = defect[:, : self.q.shape[1]]
        return found

    @cached_property
    def flown(self):
        """Steps in flight, and their defects (k, 2d)."""
        w, none = self.estimate.windows, np.zeros(0, int)
        if self.resolution is not None or self.at.joint.shape[1]:  # not steps, or never free
            return none, np.zeros((0, 2 * self.q.shape[1]))
        flight = ~np.any(w.held, axis=1)
        return w.first[flight], self.estimate.defect[flight]

    @cached_property
    def size_v(self):
        """() the largest velocity, or change of velocity."""
        sizes = [self.norm.velocity(x) for x in (self.v, self.at.kick)]
        push = self.h * np.maximum(*ends(self.norm.velocity(self.at.a)))
        return max(np.max(x, initial=0.0) for x in (*sizes, push))

    @cached_property
    def estimate(self):
        """The error of the motion, window by window."""
        return estimated(self)

    @cached_property
    def length(self):
        """() the size of the motion in q: how far it goes from its mean."""
        away = np.max(self.norm.velocity(self.q - np.mean(self.q, axis=0)))
        span = self.t[-1] - self.t[0]
        still = np.max(self.norm.velocity(self.q)) + span**2 * np.max(self.norm.velocity(self.at.a))
        return max(away, _STILL * still, 1e-300)

    @cached_property
    def fastest(self):
        """() the size of the motion in v."""
        span = self.t[-1] - self.t[0]
        return max(np.max(self.norm.velocity(self.v)), self.length / max(span, 1e-300))

    @cached_property
    def gap_size(self):
        """(p,) what the gaps are measured against: the size of the motion, across them."""
        return self.length * np.sqrt(np.max(self.at.inverse_mass, axis=0))

    @cached_property
    def small_v(self):
        """(m,) a velocity that is rounding.

        A position to ``tolerance`` may be divided by h, in a contact with a yielding wall by the
        time in which it turns a motion; bounces that move a position by less than that may be left
        out of a contact, and their velocity is (2 a dq)^1/2.
        """
        dq = self.tolerance * np.max(self.norm.velocity(self.q))
        along = self.at.bend / np.sqrt(np.maximum(self.at.inverse_mass, 1e-300))  # curvature too
        a = np.max(along, axis=1, initial=0.0)
        a = np.maximum(*ends(np.maximum(a, self.norm.velocity(self.at.a))))
        bounce = np.where(self.quiet, 0.0, np.sqrt(2.0 * a * dq))
        turn = self.H
        if self.resolution is not None:
            turn = np.where(self.quiet, turn, np.minimum(turn, self.resolution / np.pi))
        return self.tolerance * self.size_v + dq / np.maximum(turn, 1e-300) + bounce

    @cached_property
    def small_v_run(self):
        """(m,) rounding of a sum of velocities: that of positions does not add up."""
        steps = np.arange(1, len(self.h) + 1)
        return np.maximum.accumulate(self.small_v) + steps * self.tolerance * self.size_v

    @cached_property
    def small_w(self):
        """(m, p) the same in the normal velocities."""
        return self.small_v[:, None] * np.sqrt(np.maximum(*ends(self.at.inverse_mass)))

    @cached_property
    def small_gap(self):
        """(n, p) a gap that is rounding."""
        size = np.sqrt(self.at.inverse_mass) * np.max(self.norm.velocity(self.q))
        return self.tolerance * (size + np.abs(self.at.rate * self.t[:, None]))

    @cached_property
    def dw(self):
        """(m, p) h times bend: the change of w in a step of free motion, neighbours included."""
        bend = np.maximum(*ends(self.fine.at.bend))
        if self.kept is not None:  # its mean over the step
            bend = self.summed(self.fine.h[:, None] * bend) / np.maximum(self.h, 1e-300)[:, None]
        return self.H[:, None] * widest(bend)

    @cached_property
    def speed(self):
        """(p,) W: the fastest approach, seen at a record or told by an impulse."""
        told = self.lam * self.at.inverse_mass
        return np.max(np.maximum(-self.at.w, told), axis=0, initial=0.0)

    @cached_property
    def jump(self):
        """(m,) |Dv| + h |a| + |M^-1 grad g lam|: how far v may stray in a step."""
        a = self.norm.velocity(self.at.a)
        dv = self.norm.velocity(np.diff(self.v, axis=0))
        return dv + self.H * np.maximum(*ends(a)) + self.norm.velocity(self.at.kick[1:])

    @cached_property
    def lifted(self):
        """(m,) how far a gap that was entered may be set back, without an impulse: a distance.

        A wall that yields sets nothing back: what leaves it has a velocity.
        """
        if self.resolution is not None:
            return np.zeros(len(self.h))
        depth, scale = np.maximum(-self.at.gap, 0.0), np.sqrt(self.at.inverse_mass[:-1])
        again = np.minimum(depth[:-1], self.H[:, None] * self.dw)
        back = np.maximum(-np.diff(depth, axis=0), again)
        return np.max(back / np.maximum(scale, 1e-300), axis=1, initial=0.0)

    @cached_property
    def stray(self):
        """(m,) s: what the position may be off by in a step, in the norm of velocities."""
        return self.h * self.jump + self.lifted + self.H * self.small_v

    @cached_property
    def quiet(self):
        """(m,) bool: no contact in the step nor beside it, nothing lifted, and not the first."""
        loud = np.any(self.pushes, axis=1) | (self.lifted > 0.0) | np.any(self.beside[1:], axis=1)
        return ~(widest(loud) | self.first)

    @cached_property
    def first(self):
        """(m,) bool, the first step of positive length: velocities may be staggered from here."""
        moves = self.h > 0.0
        return moves & (np.cumsum(moves) == 1)

    @cached_property
    def balance(self):
        """(m,) b: what the momentum balance of a step may be off by, in the norm of momenta."""
        return self._at_ends + self.inside

    @cached_property
    def _at_ends(self):
        """(m,) b, if the force in a step is as it is between its ends."""
        force = np.sum(widest(self.norm.momentum(self.over.moved_force)), axis=1)
        mass = np.max(self.norm.momentum(self.over.moved_mass), axis=1)
        normal = np.max(self.norm.momentum(self.over.moved_normal), axis=1)
        if self.options.inside:
            hidden = self.norm.momentum(self.over.moved_hidden)
            normal = normal + np.sum(np.max(hidden, axis=1), axis=1)
        staggered = self.first * self.h * self.norm.momentum(self.over.force)
        return force + mass + normal + staggered

    @cached_property
    def inside(self):
        """(m,) what a force may do in a step that its ends do not tell, in the norm of momenta.

        Looked for where the balance lacks most: a push that answers it, or a motion without it.
        """
        found = np.zeros(len(self.h))
        lacks = self.norm.momentum(self.residual) - self._at_ends
        worst = np.argsort(lacks)[::-1][:_AGAIN]
        if len(worst := worst[lacks[worst] > self.small_v[worst]]):
            k = worst[:, None] + np.arange(2)
            arrays = (self.t[k], self.q[k], self.v[k])
            inside = in_chunks(_insides, self.system, arrays, (_AGAIN, _AGAIN))
            found[worst] = self.norm.momentum(inside.off)
        return found

    @cached_property
    def inside_w(self):
        """(m, p) the same in the normal velocities, neighbours included."""
        scale = np.sqrt(np.maximum(*ends(self.at.inverse_mass)))
        return widest(self.ended(self.fine.inside))[:, None] * scale

    @cached_property
    def law(self):
        """(m, p) |w+ + e w-| over the step, or over two steps with it where that is less."""
        w, k, last = self.at.w, np.arange(len(self.h)), len(self.t) - 1
        windows = [(k, k + 1), (k, np.minimum(k + 2, last)), (np.maximum(k - 1, 0), k + 1)]
        return np.min([np.abs(w[b] + self.e_of(w[a]) * w[a]) for a, b in windows], axis=0)

    @cached_property
    def split(self):
        """(m, p) bool: an impact that this step begins and the next one ends."""
        alone = (
            np.abs(self.at.w[1:] + self.e_of(self.at.w[:-1]) * self.at.w[:-1])
            <= MARGIN * self.law_bound
        )
        return self.pushes & ~alone & later(self.pushes, True)

    @cached_property
    def before(self):
        """(m, p) w- of the impact that a push belongs to."""
        return np.where(earlier(self.split, False), earlier(self.at.w[:-1], 0.0), self.at.w[:-1])

    @cached_property
    def law_bound(self):
        """(m, p) the change of w in two steps of free motion, short forces included.

        Contacts with walls that yield, and impacts that lie inside of a step, are shorter than it,
        so that several may follow each other in it: what the others do to w comes on top.
        """
        bound = 2.0 * (self.dw + self.inside_w) + self.small_w
        if self.resolution is not None or self.options.inside:
            follow = self.h[:, None] > 2.0 * (self.resolution or 0.0)
            bound = bound + np.where(follow, self.at.coupled[1:], 0.0)
        return bound


class _Fine(Measured):
    """All records of a motion with yielding walls; ``whole`` says what is quiet, or rounding."""

    def __init__(self, whole, arrays):
        super().__init__(whole.system, arrays, whole.options)
        self.whole = whole

    def _spread(self, x):
        return np.repeat(x, np.diff(self.whole.kept), axis=0)

    @cached_property
    def jump(self):
        """Neighbours included: a wall that pushes and then pulls in one step leaves no Dv in it."""
        return widest(super().jump)

    @cached_property
    def balance(self):
        if not self.lam.shape[1]:
            return super().balance
        sides = zip(ends(self.t), ends(self.q), strict=True)
        found = [in_chunks(_faces, self.system, (t, q, self.lam[1:])).moved for t, q in sides]
        return super().balance + np.max(self.norm.momentum(np.stack(found)), axis=0)

    @cached_property
    def quiet(self):
        return self._spread(self.whole.quiet)

    @cached_property
    def small_v(self):
        return self._spread(self.whole.small_v)

    @cached_property
    def small_v_run(self):
        return self._spread(self.whole.small_v_run)


def _at_kept(kept, t, q, v, *impulses):
    """The kept records, with the impulses since the one before."""
    totals = [np.cumsum(x, axis=0)[kept] for x in impulses]
    since = (np.diff(x, axis=0, prepend=np.zeros_like(x[:1])) for x in totals)
    return t[kept], q[kept], v[kept], *since
