"""Checks of what a user hands to ``solve``: each failure names the value and the remedy."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from carom import errors
from carom.projection.metric import check_definite
from carom.run.record import Record
from carom.schemes.scheme import Scheme
from carom.status import Status, exception_of, is_ok, text_of
from carom.worlds.system.system import System


def check_kinds(system, scheme, record) -> None:
    """Refuse what is not a System, a scheme or a Record."""
    if not isinstance(system, System):
        raise errors.KindError(
            f"the first argument is {system!r}; it must be a carom.System or carom.Spheres"
        )
    check_record(scheme, record)


def check_record(scheme, record) -> None:
    """Refuse what is not a scheme, not a Record, and a file that cannot be written."""
    if not isinstance(scheme, Scheme):
        raise errors.KindError(f"scheme is {scheme!r}; give one such as carom.Moreau()")
    if not isinstance(record, Record):
        raise errors.KindError(f"record is {record!r}; give one such as carom.Record(every=10)")
    record.check_path()


def checked_times(t0, t1, dt) -> tuple[float, int, float]:
    """t0, the number of steps, and the dt that makes them end at t1."""
    for name, value in (("t0", t0), ("t1", t1), ("dt", dt)):
        if isinstance(value, Tracer):
            raise errors.TimeError(
                f"{name} is traced, but the number of steps must be known: pass t0, t1 and dt as "
                "plain numbers"
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


def checked_vectors(q0, v0) -> tuple[Array, Array]:
    """q0 and v0 as float arrays of one shape (d,)."""
    if q0 is None or v0 is None:
        raise errors.ShapeError("a System needs its initial state: solve(..., q0=[...], v0=[...])")
    q0, v0 = jnp.asarray(q0, float), jnp.asarray(v0, float)
    if q0.ndim != 1 or v0.shape != q0.shape or q0.shape[0] == 0:
        raise errors.ShapeError(
            f"q0 has shape {q0.shape} and v0 {v0.shape}; both must be (d,). For many initial "
            "states use jax.vmap"
        )
    for name, value in (("q0", q0), ("v0", v0)):
        if not isinstance(value, Tracer) and not np.all(np.isfinite(value)):
            raise errors.NonFiniteError(f"{name} is {value}; it must be finite")
    return q0, v0


def check_shapes(system, t: Array, q: Array, v: Array) -> None:
    """Check what the system's functions return, without running them."""

    def everything(t, q, v):
        mass = jnp.asarray(system.mass(q)) if callable(system.mass) else system.mass.apply(v)
        return jnp.asarray(system.force(t, q, v)), system.gaps(t, q), mass

    d = q.shape[0]
    force, gap, mass = (a.shape for a in jax.eval_shape(everything, t, q, v))
    if force != (d,) and not (force == () and d == 1):
        raise errors.ShapeError(
            f"force returns shape {force}; for q0 of shape {(d,)} it must be {(d,)}"
        )
    if len(gap) != 1:
        raise errors.ShapeError(f"gap returns shape {gap}; it must be a scalar or (p,)")
    if mass not in ((d,), (d, d)):
        raise errors.ShapeError(
            f"mass has shape {mass}; for q0 of shape {(d,)} it must be {(d,)} or {(d, d)}"
        )
    e, mu = system.restitution, system.friction
    if e.ndim and e.shape != gap:
        raise errors.ShapeError(f"restitution has shape {e.shape}, but there are {gap[0]} gaps")
    if mu is not None and mu.ndim and mu.shape != gap:
        raise errors.ShapeError(f"friction has shape {mu.shape}, but there are {gap[0]} gaps")
    if system.slip is not None:
        slip = jax.eval_shape(lambda v: jnp.asarray(system.slip(t, q, v)), v).shape
        if slip not in ((gap[0],), (gap[0], 2)) and not (gap[0] == 1 and slip in ((), (2,))):
            raise errors.ShapeError(
                f"slip returns shape {slip}; for {gap[0]} gaps it must be ({gap[0]},) in the plane "
                f"or ({gap[0]}, 2) in space"
            )


def check_restitution(system, scheme) -> None:
    """Refuse one e per gap where a scheme has one e for all."""
    e = system.restitution
    if e.ndim == 0 or not scheme.one_restitution:
        return
    if isinstance(e, Tracer) or np.any(np.asarray(e) != np.ravel(e)[0]):
        raise errors.RestitutionError(
            f"restitution is {e}, but {type(scheme).__name__} has one e for all gaps: give one "
            "number, or use Moreau or Maury"
        )


def check_laws(system, scheme) -> None:
    """Refuse a scheme that does not know the law of the contacts."""
    name = type(scheme).__name__
    if system.friction is not None and not scheme.frictional:
        raise errors.FrictionError(
            f"{name} has no law of friction: use Moreau or Maury, or leave friction out"
        )
    if system.glue and not scheme.gluey:
        raise errors.KindError(f"{name} does not carry what glue remembers: use Maury")
    if system.joint is not None and not scheme.jointed:
        raise errors.KindError(
            f"{name} does not hold joints: use Moreau, Maury or PaoliSchatzman, or coordinates in "
            "which the joint needs no equation"
        )


def tracing(system, scheme, t0: float, q0: Array, v0: Array) -> tuple[bool, bool]:
    """Whether solve is called inside jit, vmap or a derivative, and whether in a batch."""
    if _top_level():
        return False, False

    def functions(t, q, v):
        mass = system.mass(q) if callable(system.mass) else v
        return system.force(t, q, v), system.gaps(t, q), mass

    # jnp.zeros is traced under jit, where nothing else may be; under vmap or a derivative the
    # values that the functions close over are.
    closed_over = jax.make_jaxpr(functions)(jnp.asarray(t0), q0, v0).consts
    leaves = jax.tree_util.tree_leaves((system, scheme, q0, v0, jnp.zeros(()), closed_over))
    tracers = [leaf for leaf in leaves if isinstance(leaf, Tracer)]
    return bool(tracers), any(type(t).__name__ == "BatchTracer" for t in tracers)


def _top_level() -> bool:
    """Whether JAX traces nothing at all; False where this JAX does not say."""
    try:
        from jax._src.core import trace_state_clean  # no public name; saves 3 ms a call
    except ImportError:
        return False
    return trace_state_clean()


def check_slip(system, t0: float, q0: Array) -> None:
    """Refuse a sliding velocity that is not affine in v."""
    if system.slip is None:
        return
    rng, zero = np.random.default_rng(0), jnp.zeros_like(q0)
    a, other = (jnp.asarray(rng.normal(size=q0.shape)) for _ in range(2))
    for b in (other, -3.0 * a):
        at0, ata, atb, both = (
            np.asarray(system.slip(t0, q0, x), float) for x in (zero, a, b, a + b)
        )
        off, size = np.abs(both - ata - atb + at0), np.abs([at0, ata, atb, both])
        if not np.max(off, initial=0.0) <= 1e-9 * np.max(size, initial=0.0):
            raise errors.FrictionError(
                "slip is not affine in v: slip(t, q, a + b) is not slip(a) + slip(b) - slip(0), by "
                f"{np.max(off):.2g}. Return the sliding velocity itself, not its length or "
                "direction"
            )


def check_start(start, t0: float, q0: Array, allowed: Any = 0.0, *, force: bool = True) -> None:
    """Raise what is wrong with the initial data (a ``loop.Start``), most fundamental first.

    ``allowed`` (p,) is by how much gaps may be negative: by what a run left at its end; ``force``
    whether the force must be finite.
    """
    if start.mass is not None:
        check_definite(np.asarray(start.mass), f"mass(q0), at q0 = {q0},")
    tolerance, gap = np.asarray(start.tolerance) + allowed, np.asarray(start.contacts.gap)
    rows = np.asarray(start.contacts.rows)[:, 0]
    if force:
        _check_finite("force", start.force, t0, q0)
    _check_finite("gap", gap, t0, q0)
    if np.any(gap < -np.where(np.isfinite(tolerance), tolerance, 0.0)):
        worst = int(np.argmin(gap))
        raise errors.AdmissibilityError(
            f"q0 = {q0} is outside the admissible set: gap {worst} is {gap[worst]:g} at t0 = "
            f"{t0:g} and must be >= 0. Move q0, or check the sign of the gap"
        )
    _check_finite("the gradient of gap", rows, t0, q0)
    flat = (gap <= tolerance) & (np.max(np.abs(rows), axis=1, initial=0.0) == 0.0)
    if np.any(flat):
        raise errors.GradientError(
            f"gap {np.argmax(flat)} at q0 = {q0}: {text_of(Status.gradient)}"
        )
    if not is_ok(start.carry.status):
        raise exception_of(start.carry.status)(f"at t0 = {t0:g}: {text_of(start.carry.status)}")


def _check_finite(name, value, t0, q0):
    if not np.all(np.isfinite(value)):
        raise errors.NonFiniteError(
            f"{name} is {np.asarray(value)} at t0 = {t0:g}, q0 = {q0}: it must be finite there"
        )
