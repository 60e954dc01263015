"""Checks of what a user hands to ``solve``: each failure names the value and the remedy."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from carom import errors
from carom._jax import is_batched, nothing_traced
from carom.contracts import Model, offers
from carom.projection.metric import check_definite
from carom.run.record import Record
from carom.schemes.named import moved_by
from carom.schemes.scheme import Scheme
from carom.status import Status, text_of


def check_kinds(system, scheme, record) -> None:
    """Refuse what is no world, scheme or Record, and a file that cannot be written."""
    if not offers(system, Model):
        if offers(getattr(system, "system", None), Model):
            remedy = "give its system: solve(p.system, scheme, p.q0, p.v0, ...)"
        else:
            remedy = (
                "it must be a carom.System or carom.Spheres, or another world (carom/contracts.py)"
            )
        raise errors.KindError(f"the first argument is {system!r}; {remedy}")
    if not isinstance(scheme, Scheme):
        raise errors.KindError(f"scheme is {scheme!r}; give one such as carom.Moreau()")
    if record is None:
        return
    if not isinstance(record, Record):
        raise errors.KindError(f"record is {record!r}; give one such as carom.Record(every=10)")
    record.check_path()


def check_needs(system, world, scheme) -> None:
    """Refuse a scheme that asks for more than the world has."""
    if not offers(world, scheme.needs):
        raise errors.KindError(
            f"scheme is {scheme!r}; {type(system).__name__} are moved by "
            f"{', '.join(moved_by(world))}"
        )


def checked_times(t0, t1, dt) -> tuple[float, int, float]:
    """t0, the number of steps, and the dt that makes them end at t1."""
    for name, value in (("t0", t0), ("t1", t1), ("dt", dt)):
        if isinstance(value, Tracer):
            raise errors.TimeError(
                f"{name} is traced, but the number of steps must be known: pass t0, t1 and dt as "
                "plain numbers"
            )
        if isinstance(value, str) or np.iscomplexobj(value) or np.size(value) != 1:
            raise errors.TimeError(f"{name} is {value!r}; it must be a number [s]")
        if not math.isfinite(value):
            raise errors.TimeError(f"{name} is {value}; it must be finite")
    if not dt > 0.0:
        raise errors.TimeError(f"dt is {dt:g}; it must be positive")
    if not t1 > t0:
        raise errors.TimeError(f"t1 = {t1:g} is not after t0 = {t0:g}")
    # A ratio that is a whole number but for rounding is that number.
    steps = max(1, math.ceil((t1 - t0) / dt * (1.0 - 1e-12)))
    return float(t0), steps, (t1 - t0) / steps


def tracing(system, scheme, t0: float, q0: Array, v0: Array) -> tuple[bool, bool]:
    """Whether solve is called inside jit, vmap or a derivative, and whether in a batch."""
    if nothing_traced():
        return False, False

    def functions(t, q, v):
        contacts = system.contacts(t, q)
        law = contacts.rate, contacts.restitution(contacts.velocity(v))
        return system.forces(t, q, v), system.gaps(t, q), system.metric(q).apply(v), law

    # jnp.zeros is traced under jit, where nothing else may be; under vmap or a derivative the
    # values that the functions close over are.
    try:
        closed_over = jax.make_jaxpr(functions)(jnp.asarray(t0), q0, v0).consts
    except Exception:
        system.check_shapes(jnp.asarray(t0), q0, v0)  # which says whose line it is, and what to do
        raise
    leaves = jax.tree_util.tree_leaves((system, scheme, q0, v0, jnp.zeros(()), closed_over))
    tracers = [leaf for leaf in leaves if isinstance(leaf, Tracer)]
    return bool(tracers), any(map(is_batched, tracers))


def check_start(start, t0: float, q0: Array, allowed: Any = 0.0, *, force: bool = True) -> None:
    """Raise what is wrong with the initial data (a ``loop.Start``), most fundamental first.

    What is right but not solved, as a law at t0 that does not converge, is a status of the run.
    ``allowed`` (p,) is by how much gaps, and then joints, may be off: by what a run left at its
    end; ``force`` whether the force must be finite.
    """
    if start.mass is not None:
        check_definite(np.asarray(start.mass), f"mass(q0), at q0 = {q0},")
    tolerance, gap = np.asarray(start.tolerance) + allowed, np.asarray(start.contacts.gap)
    if force:
        _check_finite("force", start.force, t0, q0)
    p = start.shape.p
    _check_finite("gap", gap[:p], t0, q0)
    _check_finite("joint", gap[p:], t0, q0)
    if np.any((gap < -np.where(np.isnan(tolerance), 0.0, tolerance))[:p]):
        worst = int(np.argmin(gap[:p]))
        raise errors.AdmissibilityError(
            f"q0 = {q0} is outside the admissible set: gap {worst} is {gap[worst]:g} at t0 = "
            f"{t0:g} and must be >= 0. Move q0, or check the sign of the gap"
        )
    if np.any(apart := (np.abs(gap) > tolerance)[p:]):
        which = int(np.argmax(apart))
        raise errors.AdmissibilityError(
            f"q0 = {q0} does not fit the joints: joint {which} is {gap[p + which]:g} at t0 = "
            f"{t0:g} and must be 0. Move q0, or check the lengths in joint"
        )
    _check_gradients(np.asarray(start.contacts.rows)[:, 0], gap <= tolerance, p, t0, q0)


def _check_gradients(rows, closed, p, t0, q0):
    _check_finite("the gradient of gap", rows, t0, q0)
    flat = closed & (np.max(np.abs(rows), axis=1, initial=0.0) == 0.0)
    if np.any(flat[p:]):
        raise errors.GradientError(
            f"joint {np.argmax(flat[p:])} at q0 = {q0} has no gradient, so that it holds nothing: "
            "leave it out, or write it so that its gradient is not zero where it is zero"
        )
    if np.any(flat):
        raise errors.GradientError(
            f"gap {np.argmax(flat)} at q0 = {q0}: {text_of(Status.gradient)}"
        )


def _check_finite(name, value, t0, q0):
    if not np.all(np.isfinite(value)):
        raise errors.NonFiniteError(
            f"{name} is {np.asarray(value)} at t0 = {t0:g}, q0 = {q0}: it must be finite there"
        )
