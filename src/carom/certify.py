"""Whether a motion is a solution: each clause of the definition, measured on its records.

    M(q) dv = f(t, q, v) dt + sum_i grad g_i dLam_i,      q' = v,      v of bounded variation   (1)
    g_i(t, q) >= 0,     dLam_i >= 0,     dLam_i = 0 where g_i > 0                               (2)
    v+ = proj(v-, V) - e proj(v-, N*)   at every impact                                        (3)

(DMP09, Definition 1; several gaps and moving ones as in docs/schemes.md).  With the relative normal
velocity w = d_t g + grad g . v, the law (3) is, by the conditions of Kuhn and Tucker,

    w_i+ = -e_i w_i-  where gap i pushes,      w_i+ >= -e_i w_i-  where it is closed           (4)

Force, mass, gap and gradient are evaluated here; nothing is taken from the scheme but t, q, v and
the impulses.  A record holds q, the right limit v, and the impulse lam received since the record
before.  Over the step from record a to record b, of length h, Dx = x_b - x_a, and M, f, grad g
stand for the means of both ends.  What is allowed is what a scheme of first order may do: take each
argument of f, M and grad g anywhere in the step, and find an impact a step early or late.
docs/certificate.md has the bounds and where they come from.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from carom.errors import NonFiniteError, RecordError, ShapeError, TimeError
from carom.status import name_of
from carom.system import System

# Every bound is this times the first-order estimate of what a scheme may do in a step.
_MARGIN = 2.0
_CHUNK = (1024, 8192)  # records evaluated by one call: two sizes, so two compilations at most


def certify(
    sol, system: System | None = None, *, q0=None, v0=None, resolution=None, tolerance=1e-12
) -> "Certificate":
    """Check a Solution, of any scheme, against the definition of a motion with impacts.

    ``system`` is needed where the solution does not carry it (after vmap, jit or load).  With
    ``q0``, ``v0`` the first record must follow from these data, through an impact at t0 if v0
    points out of the admissible set.

    ``resolution`` is the time within which the motion resolves an impact, where that is longer
    than a step: the duration of a contact for a penalty method.  Records closer than this are
    taken together.  ``tolerance`` is the relative size of errors that have nothing to do with the
    step: rounding, or the tolerance of an integrator.

    Clauses that need every step are left open (``ok`` is None) where ``sol`` holds fewer records.
    For a motion from elsewhere see ``certify_arrays``.
    """
    if np.ndim(sol.t) != 1:
        raise RecordError("this is a batch of solutions: index it first, certify(sol[i], system)")
    system = sol.system if system is None else system
    if system is None:
        raise RecordError(
            "this solution carries no system (functions are lost by vmap, jit and load): "
            "certify(sol, system)"
        )
    how = "" if sol.ok else f", stopped at t = {sol.t[-1]:g} ({name_of(sol.status)})"
    options = _Options(
        title=f"{sol.scheme}, dt = {float(sol.dt):.4g}{how}",
        sparse_dt=None if sol.velocity_before is not None else float(sol.dt),
        resolution=resolution,
        tolerance=tolerance,
    )
    return _certificate(system, (sol.t, sol.q, sol.v, sol.impulse), q0, v0, options)


def certify_arrays(
    system: System, t, q, v, impulse=None, *, q0=None, v0=None, resolution=None, tolerance=1e-12
) -> "Certificate":
    """Check a motion given by its records, dense enough to show every impact.

    ``t`` (n,) does not decrease; ``q`` is (n, d); ``v`` (n, d), right limits; ``impulse`` (n, p),
    received since the record before, or None for none at all.  Two records at one time are the two
    sides of a jump.  The rest is as in ``certify``.
    """
    if np.size(t) < 2:
        raise ShapeError(f"t has shape {np.shape(t)}; a motion has two records or more")
    options = _Options(f"{np.size(t)} records", None, resolution, tolerance)
    return _certificate(system, (t, q, v, impulse), q0, v0, options)


@dataclass(frozen=True)
class Clause:
    """One line of a certificate."""

    name: str
    formula: str  # what the definition asks
    bound: str  # what is allowed, as a formula; symbols in docs/certificate.md
    value: float  # size of the violation, where it is largest beside what is allowed
    allowed: float  # there
    time: float  # there
    ok: bool | None  # None: not checked, and ``note`` says why
    note: str = ""
    t: np.ndarray = field(default_factory=lambda: np.zeros(0), repr=False)
    ratio: np.ndarray = field(default_factory=lambda: np.zeros(0), repr=False)  # value / allowed


@dataclass(frozen=True)
class Certificate:
    """What was checked.  ``certificate["impact law"]`` is one clause; print it for the table."""

    title: str
    clauses: tuple[Clause, ...]

    @property
    def ok(self) -> bool | None:
        """True: every clause holds.  False: one does not.  None: none fails, but some are open."""
        found = [clause.ok for clause in self.clauses]
        return False if False in found else None if None in found else True

    def __getitem__(self, name: str) -> Clause:
        for clause in self.clauses:
            if clause.name == name:
                return clause
        raise KeyError(f"{name!r} is not a clause; there are {[c.name for c in self.clauses]}")

    def __str__(self) -> str:
        rows = [_HEADER, *(_cells(c) for c in self.clauses)]
        width = [max(len(r[i]) for r in rows) for i in range(len(_HEADER))]
        lines = [
            "  ".join(c.ljust(w) for c, w in zip(r, width, strict=True)).rstrip() for r in rows
        ]
        return "\n".join([f"{self.title}: {self._verdict()}", *lines])

    def _repr_html_(self) -> str:
        from html import escape

        def row(cells, tag):
            return "<tr>" + "".join(f"<{tag}>{escape(c)}</{tag}>" for c in cells) + "</tr>"

        body = "".join(row(_cells(c), "td") for c in self.clauses)
        head = f"<p>{escape(self.title)}: <b>{self._verdict()}</b></p>"
        return f"{head}<table>{row(_HEADER, 'th')}{body}</table>"

    def _verdict(self):
        return {True: "a solution", False: "NOT a solution", None: "not fully checked"}[self.ok]

    def plot(self, axes=None):
        """Violation over what is allowed, clause by clause, against time; returns the Axes."""
        import matplotlib.pyplot as plt

        if axes is None:
            _, axes = plt.subplots(figsize=(8, 5), layout="constrained")
        for clause in self.clauses:
            if len(clause.t):
                axes.plot(clause.t, np.maximum(clause.ratio, 1e-6), linewidth=1, label=clause.name)
        axes.axhline(1.0, color="k", linewidth=0.8)
        axes.set(yscale="log", xlabel="time", ylabel="violation / allowed", title=self.title)
        axes.legend(fontsize="small", ncols=2)
        return axes


_HEADER = ("clause", "formula", "violation", "allowed", "at t", "ok")


def _cells(clause):
    if clause.ok is None:
        return (clause.name, clause.formula, "", "", "", f"not checked: {clause.note}")
    numbers = (f"{clause.value:.2e}", f"{clause.allowed:.2e}", f"{clause.time:.6g}")
    note = f" ({clause.note})" if clause.note else ""
    return (clause.name, clause.formula, *numbers, ("yes" if clause.ok else "NO") + note)


# ---- what is measured ---------------------------------------------------------------------------


class _Options(NamedTuple):
    title: str
    sparse_dt: float | None  # the step, where not every step is a record
    resolution: float | None
    tolerance: float


class _Record(NamedTuple):
    """At one record, right limit."""

    gap: Any  # (p,)
    rate: Any  # (p,) d_t g
    w: Any  # (p,) d_t g + grad g . v
    bend: Any  # (p,) |grad g . a| + |g'' along v|: how fast w changes in free motion
    inverse_mass: Any  # (p,) grad g . M^-1 grad g
    a: Any  # (d,) M^-1 f
    kick: Any  # (d,) M^-1 grad g lam
    energy: Any  # () kinetic


def _at_record(system, t, q, v, lam):
    metric, contacts = system.metric(q), system.contacts(t, q)
    a, normals = metric.solve(system.forces(t, q, v)), metric.whiten(contacts.rows)

    def speed(s):
        return jax.jvp(lambda s: system.gaps(t + s, q + s * v), (s,), (jnp.ones(()),))[1]

    curved = jax.jvp(speed, (jnp.zeros(()),), (jnp.ones(()),))[1]
    return _Record(
        gap=contacts.gap,
        rate=contacts.rate,
        w=contacts.velocity(v),
        bend=jnp.abs(contacts.rows @ a) + jnp.abs(curved),
        inverse_mass=jnp.sum(normals**2, axis=1),
        a=a,
        kick=metric.lift(normals.T @ lam),
        energy=metric.energy(v),
    )


class _Step(NamedTuple):
    """Over one step; ``moved`` is what shifting one argument by a step does to the balance."""

    gained: Any  # (d,) M Dv
    force: Any  # (d,) f
    push: Any  # (d,) grad g lam
    inertia: Any  # () 1/4 (v_a DM v_a + v_b DM v_b)
    moved_force: Any  # (3, d) h times the change of f over the step in t, in q, in v
    moved_mass: Any  # (3, d) DM Dv, with DM over the step before, this one and the next
    moved_normal: Any  # (3, d) D(grad g) lam, likewise


def _over_step(system, t, q, va, vb, lam):
    """Records k - 1 to k + 2, t (4,) and q (4, d); the step is from k to k + 1."""
    h, dv = t[2] - t[1], vb - va
    fa, fb = system.forces(t[1], q[1], va), system.forces(t[2], q[2], vb)
    elsewhere = [(t[2], q[1], va), (t[1], q[2], va), (t[1], q[1], vb)]
    momentum = jax.vmap(lambda q: system.metric(q).apply(dv))(q)
    push = jax.vmap(lambda t, q: system.contacts(t, q).rows.T @ lam)(t, q)
    Ma, Mb = system.metric(q[1]), system.metric(q[2])
    return _Step(
        gained=(momentum[1] + momentum[2]) / 2,
        force=(fa + fb) / 2,
        push=(push[1] + push[2]) / 2,
        inertia=sum(v @ (Mb.apply(v) - Ma.apply(v)) for v in (va, vb)) / 4,
        moved_force=h * jnp.stack([system.forces(*x) - fa for x in elsewhere]),
        moved_mass=jnp.diff(momentum, axis=0),
        moved_normal=jnp.diff(push, axis=0),
    )


@eqx.filter_jit
def _records(system, arrays):
    return jax.vmap(lambda *x: _at_record(system, *x))(*arrays)


@eqx.filter_jit
def _steps(system, arrays):
    return jax.vmap(lambda *x: _over_step(system, *x))(*arrays)


@eqx.filter_jit
def _masses(system, q):
    eye = jnp.eye(q.shape[1])
    return jax.vmap(lambda q: jax.vmap(system.metric(q).apply)(eye))(q)


def _in_chunks(function, system, arrays):
    """``function`` over the leading axis, in calls of one size: the last is padded."""
    n = len(arrays[0])
    size = _CHUNK[0] if n <= _CHUNK[0] else _CHUNK[1]
    padded = [np.concatenate([a, np.repeat(a[-1:], -n % size, axis=0)]) for a in arrays]
    found = [function(system, [a[k : k + size] for a in padded]) for k in range(0, n, size)]
    return type(found[0])(*(np.concatenate(x)[:n] for x in zip(*found, strict=True)))


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


class _Measured:
    """A motion with what is measured on it; n records, m = n - 1 steps."""

    def __init__(self, system, arrays, options):
        self.system, self.tolerance = system, options.tolerance
        self.sparse_dt = options.sparse_dt
        self.t, self.q, self.v, self.lam = t, q, v, lam = arrays
        self.at = _in_chunks(_records, system, (t, q, v, lam))
        self.e = np.asarray(system.restitutions(lam.shape[1]))
        self.norm = _Norm(system, q)
        self.pushes = lam[1:] > self.tolerance * np.max(lam, initial=0.0)  # (m, p)

    @cached_property
    def h(self):
        """(m,) length of each step."""
        return np.diff(self.t)

    @cached_property
    def H(self):
        """(m,) the longest of a step and its neighbours."""
        return _widest(self.h)

    @cached_property
    def over(self):
        """What ``_Step`` says, for each step."""
        k = np.clip(np.arange(-1, len(self.t) - 2)[:, None] + np.arange(4), 0, len(self.t) - 1)
        arrays = (self.t[k], self.q[k], self.v[:-1], self.v[1:], self.lam[1:])
        return _in_chunks(_steps, self.system, arrays)

    @cached_property
    def residual(self):
        """(m, d) of the momentum balance."""
        return self.over.gained - self.h[:, None] * self.over.force - self.over.push

    @cached_property
    def size_v(self):
        """() the largest velocity, or change of velocity."""
        sizes = [self.norm.velocity(x) for x in (self.v, self.at.kick)]
        push = self.h * np.maximum(*_ends(self.norm.velocity(self.at.a)))
        return max(np.max(x, initial=0.0) for x in (*sizes, push))

    @cached_property
    def small_v(self):
        """(m,) a velocity that is rounding.

        A position to ``tolerance`` may be divided by h; in a contact, bounces that move a position
        by less than that may be left out, and their velocity is (2 a dq)^1/2.
        """
        dq = self.tolerance * np.max(self.norm.velocity(self.q))
        a = np.maximum(*_ends(self.norm.velocity(self.at.a)))
        bounce = np.where(self.quiet, 0.0, np.sqrt(2.0 * a * dq))
        return self.tolerance * self.size_v + dq / np.maximum(self.H, 1e-300) + bounce

    @cached_property
    def small_v_run(self):
        """(m,) rounding of a sum of velocities: that of positions does not add up."""
        steps = np.arange(1, len(self.h) + 1)
        return np.maximum.accumulate(self.small_v) + steps * self.tolerance * self.size_v

    @cached_property
    def small_w(self):
        """(m, p) the same in the normal velocities."""
        return self.small_v[:, None] * np.sqrt(np.maximum(*_ends(self.at.inverse_mass)))

    @cached_property
    def small_gap(self):
        """(n, p) a gap that is rounding."""
        size = np.sqrt(self.at.inverse_mass) * np.max(self.norm.velocity(self.q))
        return self.tolerance * (size + np.abs(self.at.rate * self.t[:, None]))

    @cached_property
    def dw(self):
        """(m, p) h max(bend): the change of w in a step of free motion, neighbours included."""
        return self.H[:, None] * _widest(np.maximum(*_ends(self.at.bend)))

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
        return dv + self.H * np.maximum(*_ends(a)) + self.norm.velocity(self.at.kick[1:])

    @cached_property
    def lifted(self):
        """(m,) how far a gap that was entered may be set back, without an impulse: a distance."""
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
        loud = np.any(self.pushes, axis=1) | (self.lifted > 0.0)
        return ~(_widest(loud) | self.first)

    @cached_property
    def first(self):
        """(m,) bool, the first step of positive length: velocities may be staggered from here."""
        return np.arange(len(self.h)) == np.argmax(self.h > 0.0)

    @cached_property
    def balance(self):
        """(m,) b: what the momentum balance of a step may be off by, in the norm of momenta."""
        force = np.sum(_widest(self.norm.momentum(self.over.moved_force)), axis=1)
        mass = np.max(self.norm.momentum(self.over.moved_mass), axis=1)
        normal = np.max(self.norm.momentum(self.over.moved_normal), axis=1)
        staggered = self.first * self.h * self.norm.momentum(self.over.force)
        return force + mass + normal + staggered

    @cached_property
    def law(self):
        """(m, p) |w+ + e w-| over the step, or over two steps with it where that is less."""
        w, k, last = self.at.w, np.arange(len(self.h)), len(self.t) - 1
        windows = [(k, k + 1), (k, np.minimum(k + 2, last)), (np.maximum(k - 1, 0), k + 1)]
        return np.min([np.abs(w[b] + self.e * w[a]) for a, b in windows], axis=0)

    @cached_property
    def split(self):
        """(m, p) bool: an impact that this step begins and the next one ends."""
        alone = np.abs(self.at.w[1:] + self.e * self.at.w[:-1]) <= _MARGIN * self.law_bound
        return self.pushes & ~alone & _later(self.pushes, True)

    @cached_property
    def before(self):
        """(m, p) w- of the impact that a push belongs to."""
        return np.where(_earlier(self.split, False), _earlier(self.at.w[:-1], 0.0), self.at.w[:-1])

    @cached_property
    def law_bound(self):
        """(m, p) the change of w in two steps of free motion."""
        return 2.0 * self.dw + self.small_w


def _ends(x):
    return x[:-1], x[1:]


def _earlier(x, start):
    """The entry before, along the first axis."""
    return np.concatenate([np.full_like(x[:1], start), x[:-1]])


def _later(x, end):
    """The entry after."""
    return np.concatenate([x[1:], np.full_like(x[:1], end)])


def _widest(x):
    """The largest of an entry and its neighbours along the first axis."""
    padded = np.concatenate([x[:1], x, x[-1:]])
    return np.maximum(np.maximum(padded[:-2], padded[1:-1]), padded[2:])


# ---- the clauses --------------------------------------------------------------------------------


def _feasibility(m):
    """DMP09, Lemma 4: a gap is entered by at most one step of approach, then by drift."""
    if m.sparse_dt is None:
        H, dw = (np.concatenate([x[:1], x]) for x in (m.H[:, None], m.dw))
        drift = np.concatenate([np.zeros_like(dw[:1]), np.cumsum(m.h[:, None] * m.dw, axis=0)])
        drift -= np.maximum.accumulate(np.where(m.at.gap > 0.0, drift, 0.0), axis=0)
    else:
        H, bend = m.sparse_dt, np.max(m.at.bend, axis=0)
        dw, drift = H * bend, H * (m.t - m.t[0])[:, None] * bend
    return -m.at.gap, _MARGIN * (H * (m.speed + dw) + drift) + m.small_gap, m.t


def _sign(m):
    """Pushes only; a force too small to push is rounding."""
    return -m.lam, np.full(m.lam.shape, m.tolerance * np.max(np.abs(m.lam), initial=0.0)), m.t


def _complementarity(m):
    """A gap that pushes is within a step of being closed."""
    open_by = np.where(m.pushes, np.minimum(*_ends(m.at.gap)), 0.0)
    speed = np.maximum(*_ends(np.abs(m.at.w)))
    bound = _MARGIN * m.H[:, None] * (speed + m.dw) + m.small_gap[1:]
    return open_by, bound, m.t[1:]


def _momentum(m):
    return m.norm.momentum(m.residual), _MARGIN * (m.balance + m.small_v), m.t[1:]


def _momentum_run(m):
    """Each argument may be shifted by a part of a step, the same in every quiet one."""
    quiet = m.quiet[:, None]
    shifts = [*np.moveaxis(m.over.moved_force, 1, 0), m.over.moved_mass[:, 1]]
    bound = sum(_shifted(np.where(quiet, x, 0.0), m.norm.momentum) for x in shifts)
    loud = np.cumsum(np.where(m.quiet, 0.0, m.balance))
    found = m.norm.momentum(np.cumsum(m.residual, axis=0))
    return found, _MARGIN * (bound + loud + m.small_v_run), m.t[1:]


def _shifted(x, norm):
    """Largest |sum of x| so far, and what is left when a shift is not quite the same each step."""
    change = norm(x - _earlier(x, 0.0))
    return np.maximum.accumulate(norm(np.cumsum(x, axis=0))) + np.cumsum(change)


def _kinematics(m):
    return m.norm.velocity(_moved(m)), _MARGIN * m.stray, m.t[1:]


def _kinematics_run(m):
    shift = (m.h * m.quiet)[:, None] * np.diff(m.v, axis=0)
    loud = np.cumsum(np.where(m.quiet, m.H * m.small_v, m.stray))
    found = m.norm.velocity(np.cumsum(_moved(m), axis=0))
    return found, _MARGIN * (_shifted(shift, m.norm.velocity) + loud), m.t[1:]


def _moved(m):
    """(m, d) Dq - h v."""
    return np.diff(m.q, axis=0) - m.h[:, None] * (m.v[1:] + m.v[:-1]) / 2


def _impact_law(m):
    """Each push belongs to a window of one or two steps at whose ends (4) holds."""
    judged = m.pushes.copy()
    judged[-1] &= ~m.split[-1]  # it may go on after the last record
    return np.where(judged, m.law, 0.0), _MARGIN * m.law_bound, m.t[1:]


def _passivity(m):
    """Work of the reaction over each unbroken contact, relative to moving gaps."""
    touching = np.any(m.pushes, axis=1)
    starts = np.flatnonzero(touching & ~_earlier(touching, False))
    if not len(starts):
        return np.zeros(0), np.zeros(0), np.zeros(0)
    work = np.add.reduceat(np.sum(m.lam[1:] * (m.at.w[1:] + m.at.w[:-1]) / 2, axis=1), starts)
    bound = np.add.reduceat(np.sum(m.lam[1:] * m.law_bound, axis=1), starts)
    return work, _MARGIN * bound, m.t[1:][starts]


def _energy(m):
    """dT = f . dq + 1/2 v . dM v - d_t g dLam - (1-e)/2 |w-| dLam, the last two at contacts."""
    work = np.sum(m.over.force * np.diff(m.q, axis=0), axis=1) + m.over.inertia
    moving = np.sum(m.lam[1:] * (m.at.rate[1:] + m.at.rate[:-1]) / 2, axis=1)
    loss = np.sum((m.e - 1) / 2 * m.before * m.lam[1:], axis=1)
    found = np.abs(np.cumsum(np.diff(m.at.energy) - work + moving + loss))
    found[np.any(m.split, axis=1)] = 0.0  # in the middle of an impact
    return found, _MARGIN * _energy_bound(m), m.t[1:]


def _energy_bound(m):
    """The bounds of momentum, kinematics and impact law, times what they do work on."""
    mean_v, dv = (m.v[1:] + m.v[:-1]) / 2, np.diff(m.v, axis=0)
    shifts = [np.sum(mean_v * x, axis=1) for x in np.moveaxis(m.over.moved_force, 1, 0)]
    shifts += [np.sum(mean_v * m.over.moved_mass[:, 1], axis=1)]
    shifts += [m.h * np.sum(m.over.force * dv, axis=1)]
    quiet = sum(_shifted(np.where(m.quiet, x, 0.0), np.abs) for x in shifts)
    loud = np.maximum(*_ends(m.norm.velocity(m.v))) * m.balance
    loud += m.norm.momentum(m.over.force) * m.stray + np.sum(m.lam[1:] * m.law_bound, axis=1)
    return quiet + np.cumsum(np.where(m.quiet, 0.0, loud)) + m.size_v * m.small_v_run


def _variation(m):
    """|M Dv| summed; what is allowed is the triangle inequality in (1)."""
    found, force, push = (m.norm.momentum(x) for x in (m.over.gained, m.over.force, m.over.push))
    bound = m.h * force + push + _MARGIN * m.balance
    return np.cumsum(found), np.cumsum(bound) + _MARGIN * m.small_v_run, m.t[1:]


class _Row(NamedTuple):
    check: Callable  # of a _Measured, to (violation, allowed, t)
    name: str
    formula: str
    bound: str


_CLAUSES = [
    _Row(_feasibility, "feasibility", "g_i(t, q) >= 0", "2 h (W + dw) + 2 sum of h dw if closed"),
    _Row(_sign, "sign", "lam_i >= 0", "rounding"),
    _Row(_complementarity, "complementarity", "lam_i > 0 only if g_i = 0", "2 h (|w| + dw)"),
    _Row(_momentum, "momentum", "M Dv = h f + grad g lam, each step", "2 b"),
    _Row(_momentum_run, "momentum, run", "M Dv = h f + grad g lam, summed", "2 |sum of b|"),
    _Row(_kinematics, "kinematics", "Dq = h v, each step", "2 s"),
    _Row(_kinematics_run, "kinematics, run", "Dq = h v, summed", "2 |sum of s|"),
    _Row(_impact_law, "impact law", "w_i+ = -e_i w_i- if lam_i > 0", "4 dw"),
    _Row(_passivity, "passivity", "lam . (w+ + w-) <= 0, each contact", "4 sum of lam dw"),
    _Row(_energy, "energy", "DT = work - loss at impacts, summed", "2 |sum of v b + f s + lam dw|"),
    _Row(_variation, "variation", "sum |M Dv| <= sum h |f| + |grad g lam|", "2 sum of b"),
]
_AT_RECORDS = {"feasibility", "sign"}  # what can be said of records that are not every step


# ---- putting them together ----------------------------------------------------------------------


def _certificate(system, arrays, q0, v0, options) -> Certificate:
    arrays = _checked(system, *arrays)
    if options.sparse_dt is None:
        if options.resolution is not None:
            arrays = _thinned(options.resolution, *arrays)
        arrays = _with_start(system, *arrays, q0, v0)
    measured = _Measured(system, arrays, options)
    rows = [r for r in _CLAUSES if r.name != "passivity" or len(set(measured.e)) <= 1]
    return Certificate(options.title, tuple(_clause(row, measured) for row in rows))


def _clause(row, measured) -> Clause:
    if measured.sparse_dt is None:
        return _judged(row, *row.check(measured))
    if row.name in _AT_RECORDS:
        return _judged(row, *row.check(measured), note="at the records")
    nan = float("nan")
    return Clause(row.name, row.formula, row.bound, nan, nan, nan, None, "needs every step")


def _judged(row, value, allowed, t, note="") -> Clause:
    """The worst of a violation and its bound, (n,) or (n, p)."""
    if not np.size(value):
        return Clause(row.name, row.formula, row.bound, 0.0, 0.0, float("nan"), True, note)
    value, allowed = np.reshape(value, (len(t), -1)), np.reshape(allowed, (len(t), -1))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(value == 0.0, 0.0, value / allowed)
    k, i = np.unravel_index(np.argmax(ratio), ratio.shape)
    return Clause(
        row.name,
        row.formula,
        row.bound,
        value=float(value[k, i]) + 0.0,  # not -0
        allowed=float(allowed[k, i]),
        time=float(t[k]),
        ok=bool(np.all(value <= allowed)),
        note=note,
        t=t,
        ratio=np.max(ratio, axis=1),
    )


def _checked(system, t, q, v, lam):
    t, q, v = (np.asarray(a, float) for a in (t, q, v))
    if t.ndim != 1 or q.ndim != 2 or v.shape != q.shape or len(q) != len(t) or not len(t):
        raise ShapeError(
            f"t has shape {t.shape}, q {q.shape}, v {v.shape}; they must be (n,), (n, d), (n, d)"
        )
    if np.any(np.diff(t) < 0.0):
        raise TimeError(f"t decreases after t = {t[np.argmax(np.diff(t) < 0.0)]}: sort the records")
    p = len(system.gaps(t[0], q[0]))
    lam = np.zeros((len(t), p)) if lam is None else np.asarray(lam, float)
    if lam.shape != (len(t), p):
        raise ShapeError(f"impulse has shape {lam.shape}; for {p} gaps it must be {(len(t), p)}")
    for name, x in (("t", t), ("q", q), ("v", v), ("impulse", lam)):
        if not np.all(np.isfinite(x)):
            raise NonFiniteError(f"{name} is not finite in every record: certify what comes before")
    return t, q, v, lam


def _with_start(system, t, q, v, lam, q0, v0):
    """With a step of no length at t0, for an impact there: v- is v0, or what lam implies."""
    if q0 is None and v0 is None and not np.any(lam[0]):
        return t, q, v, lam
    q0 = q[0] if q0 is None else np.asarray(q0, float)
    if v0 is None:
        at = _in_chunks(_records, system, (t[:1], q0[None], v[:1], lam[:1]))
        v0 = v[0] - at.kick[0]
    start = t[0], q0, np.asarray(v0, float), np.zeros(lam.shape[1])
    return tuple(np.concatenate([[a], b]) for a, b in zip(start, (t, q, v, lam), strict=True))


def _thinned(resolution, t, q, v, lam):
    """Records at least ``resolution`` apart, not within a contact unless it lasts."""
    push = np.any(lam != 0.0, axis=1)
    calm = np.flatnonzero(~(push | np.append(push[1:], False)))
    kept = [0]
    while kept[-1] < len(t) - 1:
        early, late = np.searchsorted(t, t[kept[-1]] + resolution * np.array([1.0, 4.0]))
        found = calm[np.searchsorted(calm, early) :][:1]
        k = found[0] if len(found) and found[0] < late else late
        kept.append(min(max(k, kept[-1] + 1), len(t) - 1))
    total = np.cumsum(lam, axis=0)[kept]
    return t[kept], q[kept], v[kept], np.diff(total, axis=0, prepend=np.zeros_like(total[:1]))
