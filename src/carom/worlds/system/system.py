"""Equations you write: a mass, a force, and the gaps that must stay open."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from carom.errors import RestitutionError, ShapeError
from carom.projection import Projection, project
from carom.projection.fixed_point import Solved, fixed_point
from carom.projection.metric import Metric, check_definite, inertial_force, metric_of, product
from carom.projection.nearest import Nearest, nearest
from carom.projection.sparse import is_sparse, sparse_metric
from carom.status import Status, failing, first_failure


class Contacts(eqx.Module):
    """The gaps linearised at one time and position."""

    gap: Array  # (p,) g_i(t, q), negative means overlap
    rate: Array  # (p,) d_t g_i, the speed at which the boundary itself opens the gap
    rows: Array  # (p, d) grad g_i
    known: Array  # (p,) bool; an open gap without a gradient here (1 - |q| at 0) has a row of zeros

    def velocity(self, v: Array) -> Array:
        """(p,) d_t g + grad g . v, the relative normal velocity; negative means approaching."""
        return self.rate + product(self.rows, v)

    def status(self, metric: Metric, active: Array, point: Array) -> Status:
        """What can be wrong with the data of a step, most fundamental first."""
        flat = jnp.any(active & (jnp.max(jnp.abs(self.rows), axis=1, initial=0.0) == 0.0))
        return first_failure(
            failing(~metric.ok(), Status.mass),
            failing(flat, Status.gradient),
            failing(~jnp.all(jnp.isfinite(point)), Status.nonfinite),
        )


class System(eqx.Module):
    """M(q) q'' = force(t, q, v) while every gap(t, q) >= 0, with restitution at impacts.

    Parameters
    ----------
    force
        ``force(t, q, v) -> (d,)``; it holds all of the right-hand side, inertial terms included.
    gap
        ``gap(t, q) -> (p,)`` or a scalar; admissible where every entry is >= 0.  None: no gap.
    mass
        None (identity), (d,), (d, d), or a function of q that returns either of the last two.
        A constant mass may be a scipy.sparse matrix; it stays sparse.
    restitution
        e in [0, 1], one number or one per gap.
    """

    force: Callable
    gap: Callable | None
    mass: Metric | Callable  # a constant mass is factorised once, here
    restitution: Array  # () or (p,)

    def __init__(self, *, force, gap=None, mass=None, restitution=0.0):
        if not callable(force):
            raise ShapeError(f"force must be a function of (t, q, v), not {force!r}")
        if gap is not None and not callable(gap):
            raise ShapeError(f"gap must be a function of (t, q), not {gap!r}")
        self.force, self.gap = _hashable(force), _hashable(gap)
        self.mass = _hashable(mass) if callable(mass) else _constant_metric(mass)
        self.restitution = _checked_restitution(restitution)

    # What a scheme asks of its world.

    @property
    def xp(self) -> Any:
        """The namespace of its arrays."""
        return jnp

    def metric(self, q: Array) -> Metric:
        """The kinetic metric at q."""
        if isinstance(self.mass, Metric):
            return self.mass
        return metric_of(jnp.asarray(self.mass(q), float))

    def acceleration(self, t: Array, q: Array, v: Array) -> Array:
        """M(q)^-1 force(t, q, v), the free acceleration."""
        return self.metric(q).solve(self.forces(t, q, v))

    def forces(self, t: Array, q: Array, v: Array) -> Array:
        """force(t, q, v) as a float array (d,)."""
        return jnp.reshape(jnp.asarray(self.force(t, q, v), float), q.shape)

    def gaps(self, t: Array, q: Array) -> Array:
        """gap(t, q) as a float array (p,)."""
        if self.gap is None:
            return jnp.zeros(0)
        return jnp.atleast_1d(jnp.asarray(self.gap(t, q), float))

    def contacts(self, t: Array, q: Array) -> Contacts:
        """Gaps, their gradients and their rates at (t, q), by differentiation.

        The gradient of an open gap pushes nothing, so it need not exist there.
        """
        t = jnp.asarray(t, float)
        gap, rate = jax.jvp(lambda t: self.gaps(t, q), (t,), (jnp.ones(()),))
        jacobian = jax.jacfwd if q.shape[0] <= 4 * gap.shape[0] else jax.jacrev
        rows = jacobian(self.gaps, argnums=1)(t, q)
        known = ~(gap > 0.0) | (jnp.all(jnp.isfinite(rows), axis=1) & jnp.isfinite(rate))
        rate, rows = jnp.where(known, rate, 0.0), jnp.where(known[:, None], rows, 0.0)
        return Contacts(gap, rate, rows, known)

    def force_uses_velocity(self, q: Array) -> bool:
        """Whether force depends on v at all, read off its program without running it."""
        program = jax.make_jaxpr(self.forces)(jnp.zeros(()), q, q).jaxpr
        return _depends(program, program.invars[-1])

    def common_restitution(self) -> Array:
        """e, where it is the same for all gaps ()."""
        return jnp.ravel(self.restitution)[0]

    @property
    def potential(self) -> Callable | None:
        """potential(q), where the system is a Lagrangian with one."""
        return getattr(self.force, "potential", None)

    def energy(self, q: Array, v: Array) -> Array:
        """1/2 v^T M(q) v, and the potential where it is known."""
        kinetic = self.metric(q).energy(v)
        if (potential := self.potential) is None:
            return kinetic
        return kinetic + jnp.reshape(potential(q), ())

    def restitutions(self, count: int) -> Array:
        """e, one per gap (p,)."""
        return jnp.broadcast_to(self.restitution, (count,))

    def project(
        self, metric: Metric, target: Array, contacts: Contacts, b: Array, active=None
    ) -> Projection:
        """Project ``target`` onto ``{x : rows x + b >= 0}``, active rows only."""
        return project(target, contacts.rows, b, mass=metric, active=active)

    def keep_open(self, metric: Metric, t: Array, q: Array, free: Array, dt: Array):
        """The velocity nearest to ``free`` that keeps every gap open from q to time t.

        Gaps are linearised at q.  Returns them and the projection.  A gap without a gradient at q
        must be out of reach.
        """
        contacts = self.contacts(t, q)
        moved = self.project(metric, free, contacts, contacts.gap / dt)
        unseen = ~contacts.known & (self.gaps(t, q + dt * moved.point) < 0.0)
        status = first_failure(moved.status, failing(jnp.any(unseen), Status.unseen))
        return contacts, eqx.tree_at(lambda m: m.status, moved, status)

    def nearest(self, metric: Metric, t: Array, W: Array, **how) -> Nearest:
        """The point of ``{gap(t, .) >= 0}`` nearest to W."""
        return nearest(self, metric, t, W, **how)

    def fixed_point(self, phi: Callable, guess: Array, **how) -> Solved:
        """Solve ``x = phi(x).point`` from ``guess`` (projection/fixed_point.py)."""
        return fixed_point(phi, guess, **how)

    def if_any(self, where: Array, yes: Callable, no: Callable):
        """yes() if an entry is True, else no()."""
        return jax.lax.cond(jnp.any(where), yes, no)


class _LagrangianForce(eqx.Module):
    """Inertial terms of mass(q), minus the gradient of the potential, plus an extra force."""

    mass: Callable | None  # None when the mass is constant: no inertial terms
    potential: Callable | None
    force: Callable | None

    def __call__(self, t, q, v):
        total = jnp.zeros_like(q)
        if self.mass is not None:
            total += inertial_force(self.mass, q, v)
        if (potential := self.potential) is not None:
            total -= jax.grad(lambda q: jnp.reshape(potential(q), ()))(q)
        if self.force is not None:
            total += jnp.reshape(jnp.asarray(self.force(t, q, v), float), q.shape)
        return total


def Lagrangian(*, mass=None, potential=None, gap=None, restitution=0.0, force=None) -> System:
    """A System whose equations are those of L = 1/2 v^T M(q) v - potential(q).

        M(q) q'' = dT/dq - (dM/dt) v - d potential/dq + force(t, q, v)

    ``mass`` is what System takes; ``potential(q)`` a scalar; ``force(t, q, v)`` whatever does not
    derive from the potential (damping, forcing).
    """
    inertia = (lambda q: jnp.asarray(mass(q), float)) if callable(mass) else None
    return System(
        force=_LagrangianForce(inertia, potential, force),
        gap=gap,
        mass=mass,
        restitution=restitution,
    )


class _ByIdentity:
    """A callable that hashes: compiled code is kept by what a system is made of."""

    def __init__(self, function):
        self.function = function

    def __call__(self, *arguments):
        return self.function(*arguments)


def _hashable(function) -> Any:
    """The function, wrapped where it is an object that does not hash (a dataclass with arrays)."""
    if isinstance(function, eqx.Module):
        return function
    try:
        hash(function)
    except TypeError:
        return _ByIdentity(function)
    return function


def _depends(program, variable) -> bool:
    """Whether an output of a jaxpr may depend on one of its inputs; nested programs count whole."""
    reached = {variable}
    for equation in program.eqns:
        if any(v in reached for v in equation.invars if not hasattr(v, "val")):
            reached.update(equation.outvars)
    return any(v in reached for v in program.outvars if not hasattr(v, "val"))


def _concrete(x) -> bool:
    return not isinstance(x, Tracer)


def _checked_restitution(restitution) -> Array:
    if callable(restitution) or _is_text(restitution):
        what = "a function" if callable(restitution) else "text"
        raise RestitutionError(
            f"restitution is {restitution!r}, {what}; give a number in [0, 1], or one per gap. One "
            "that depends on the speed or the time of an impact is not available"
        )
    e = jnp.asarray(restitution, float)
    if e.ndim > 1:
        raise ShapeError(f"restitution has shape {e.shape}; give one number, or one per gap (p,)")
    if _concrete(e) and not np.all((np.asarray(e) >= 0.0) & (np.asarray(e) <= 1.0)):
        raise RestitutionError(
            f"restitution is {restitution!r}; it must lie in [0, 1] "
            "(0 keeps no normal velocity at an impact, 1 keeps all of it)"
        )
    return e


def _is_text(values) -> bool:
    """Whether there is text among them, which NumPy would read as numbers."""
    return not isinstance(values, jax.Array) and any(
        isinstance(x, str | bytes) for x in np.asarray(values, object).ravel()
    )


def _constant_metric(mass) -> Metric:
    if mass is None:
        return metric_of(None)
    if is_sparse(mass):
        return sparse_metric(mass)
    M = jnp.asarray(mass, float)
    if M.ndim not in (1, 2) or (M.ndim == 2 and M.shape[0] != M.shape[1]):
        raise ShapeError(
            f"mass has shape {M.shape}; give None, (d,), (d, d), or a function of q that returns "
            "one of the last two"
        )
    if _concrete(M):
        check_definite(np.asarray(M), "mass")
    return metric_of(M)
