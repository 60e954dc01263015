"""Checks of a System: each failure names the value and the remedy."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from carom import errors
from carom.projection.metric import IdentityMetric
from carom.shown import counted
from carom.worlds.system.tried import tried


def check_shapes(system, t: Array, q: Array, v: Array) -> None:
    """Check what the system's functions return, without running them."""

    d = q.shape[0]
    force = tried("force", lambda *a: jnp.asarray(system.force(*a)), t, q, v).shape
    gap = tried("gap", system.gaps, t, q).shape
    given = (lambda *a: jnp.asarray(system.gap(*a))) if system.gap else system.gaps
    if tried("gap", given, t, q).dtype == bool:
        raise errors.KindError(
            "gap returns True or False; it must say how far the contact is open [m]: q - 0.1, not "
            "q > 0.1"
        )
    mass = _mass_shape(system.mass, q)
    joint = tried("joint", system.joints, t, q).shape
    if len(joint) != 1:
        raise errors.ShapeError(f"joint returns shape {joint}; it must be a scalar or (k,)")
    if system.joint is not None and joint == (0,):
        raise errors.ShapeError("joint returns no number at all: leave it out, joint=None")
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
    if callable(e):
        tried("restitution", lambda speed: jnp.asarray(e(speed)), jnp.zeros(gap))
    elif e.ndim and e.shape != gap:
        raise errors.ShapeError(f"restitution has shape {e.shape}, but there {_gaps(gap[0])}")
    if mu is not None and mu.ndim and mu.shape != gap:
        raise errors.ShapeError(f"friction has shape {mu.shape}, but there {_gaps(gap[0])}")
    if system.slip is not None:
        p = gap[0]
        slip = tried("slip", lambda *a: jnp.asarray(system.slip(*a)), t, q, v).shape
        if slip not in ((p,), (p, 2)) and not (p == 1 and slip in ((), (2,))):
            raise errors.ShapeError(
                f"slip returns shape {slip}; for {counted(p, 'gap')} it must be ({p},) in the "
                f"plane or ({p}, 2) in space: an entry for each gap, also where friction is 0"
            )


def _mass_shape(mass, q: Array) -> tuple[int, ...]:
    if callable(mass):
        return tried("mass", lambda q: jnp.asarray(mass(q)), q).shape
    return q.shape if isinstance(mass, IdentityMetric) else mass.mass.shape


def _gaps(p: int) -> str:
    one = "one number" if p == 1 else f"one number, or {p} of them"
    return f"{'is' if p == 1 else 'are'} {counted(p, 'gap')}: give {one}"


def check_potential(potential, q: Array) -> None:
    """Refuse a potential that is not one number."""
    shape = tried("potential", lambda q: jnp.asarray(potential(q)), q).shape
    if math.prod(shape) != 1:
        raise errors.ShapeError(f"potential returns shape {shape}; it must be one number [J]")


def check_restitution(system, scheme) -> None:
    """Refuse one e per gap where a scheme has one e for all."""
    e = system.restitution
    if not scheme.one_restitution or (not callable(e) and e.ndim == 0):
        return
    if callable(e) or isinstance(e, Tracer) or np.any(np.asarray(e) != np.ravel(e)[0]):
        raise errors.RestitutionError(
            f"restitution is {e}, but {type(scheme).__name__} has one e for all gaps: give one "
            "number, or use Moreau or Maury"
        )


def check_laws(system, scheme) -> None:
    """Refuse a scheme that does not know the law of the contacts."""
    name = type(scheme).__name__
    if system.friction is not None and not scheme.frictional:
        raise errors.FrictionError(
            f"{name} has no law of friction: use Moreau, MoreauJean or Maury (in the plane "
            "EventDriven too), or leave it out"
        )
    if system.glue and not scheme.gluey:
        raise errors.KindError(f"{name} does not carry what glue remembers: use Maury")
    if system.joint is not None and not scheme.jointed:
        raise errors.KindError(
            f"{name} does not hold joints: use Moreau, MoreauJean, Maury, PaoliSchatzman or "
            "EventDriven, or coordinates in which the joint needs no equation"
        )


def check_slip(system, t0: float, q0: Array) -> None:
    """Refuse a sliding velocity that is not affine in v, or does not depend on it."""
    if system.slip is None:
        return
    _check_moved(system, t0, q0)
    rng, zero = np.random.default_rng(0), jnp.zeros_like(q0)
    a, other = (jnp.asarray(rng.normal(size=q0.shape)) for _ in range(2))
    for b in (other, -3.0 * a):
        at0, ata, atb, both = (
            np.asarray(system.slip(t0, q0, x), float) for x in (zero, a, b, a + b)
        )
        off, size = np.abs(both - ata - atb + at0), np.abs([at0, ata, atb, both])
        if not np.all(np.isfinite(size)):
            raise errors.NonFiniteError(
                f"slip is {at0} at t0 = {t0:g}, q0 = {q0}, v = 0 and {ata} at v = {a}: it must be "
                "finite there"
            )
        if not np.max(off, initial=0.0) <= 1e-9 * np.max(size, initial=0.0):
            raise errors.FrictionError(
                "slip is not affine in v: slip(t, q, a + b) is not slip(a) + slip(b) - slip(0), by "
                f"{np.max(off):.2g}. Return the sliding velocity itself, not its length or "
                "direction"
            )


def _check_moved(system, t0: float, q0: Array) -> None:
    """Refuse friction at a gap whose slip is the same for every v, at q0 and beside it."""
    mu, rng = system.friction, np.random.default_rng(1)
    moved = jnp.asarray(rng.normal(size=q0.shape))
    beside = q0 + 1e-3 * moved * jnp.maximum(1.0, jnp.abs(q0))  # q0 may be singular
    still = [np.asarray(system.slip(t0, q, 0 * moved), float) for q in (q0, beside)]
    change = [
        np.asarray(system.slip(t0, q, moved), float) - u
        for q, u in zip((q0, beside), still, strict=True)
    ]
    gaps = len(system.gaps(t0, q0))  # slip of one contact may be given as (2,)
    deaf = np.all(np.reshape(change, (2, gaps, -1)) == 0.0, axis=(0, 2))
    rubbing = True if isinstance(mu, Tracer) else np.asarray(mu) > 0.0
    _check_across(system, t0, (q0, beside), moved, change, rubbing)
    for k in np.flatnonzero(deaf & rubbing):
        raise errors.FrictionError(
            f"slip of gap {k} does not depend on v (it is {still[0].reshape(gaps, -1)[k]} for "
            "every v at q0), so that friction there does nothing: return the velocity with which "
            "the contact slides, v[0], not q[0]; where nothing rubs give friction 0"
        )


def _check_across(system, t0, places, v, change, rubbing) -> None:
    """Refuse friction where a component of slip is the velocity at which its gap opens."""
    rates = [np.asarray(jax.jvp(lambda x: system.gaps(t0, x), (q,), (v,))[1]) for q in places]
    normal = np.array(rates)[:, :, None]
    along = np.reshape(np.array(change), (*normal.shape[:2], -1))
    count = along.shape[-1]
    apart = np.minimum(np.abs(along - normal), np.abs(along + normal))
    same = np.all((apart <= 1e-12 * np.abs(normal)) & (normal != 0.0), axis=0)
    for k, component in np.argwhere(same & np.reshape(rubbing, (-1, 1))):
        name = f"slip of gap {k}" + (f", component {component}," if count > 1 else "")
        raise errors.FrictionError(
            f"{name} is the velocity at which the gap opens: return the velocities along the "
            "contact alone, v[0] and not v where the gap is q[1]"
        )
