"""Gaps and joints linearised at one time and position."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array

from carom.errors import FrictionError
from carom.law import Law, free, in_normal, project_both, unless_free
from carom.projection.exact import Projection
from carom.projection.metric import Metric, product, summed
from carom.status import Status, failing, first_failure
from carom.worlds.system.apart import once

_OF_STEP = 1e-8  # of what a step can make of a gap: one so small is closed
_AT_THE_END = 1e-10  # of a step: a contact so late is one of the next
_TIMES = 16.0  # roundings of a gap, which those of steps before add up to


class Normals(eqx.Module):
    """The normal directions alone: what is flat, positions included, needs no more."""

    gap: Array  # (p,) g_i(t, q), negative means overlap; then joints
    rate: Array  # (p,) d_t g_i, the speed at which the boundary itself opens the gap
    rows: Array  # (p, d) grad g_i
    known: Array  # (p,) bool; an open gap without a gradient here (1 - |q| at 0) has a row of zeros
    joints: int = eqx.field(static=True, default=0)  # how many at the end are joints
    acting: Array | None = None  # (joints,) bool: those that do not repeat others; None: all

    def velocity(self, v: Array) -> Array:
        """(p,) d_t g + grad g . v, the relative normal velocity; negative means approaching."""
        return self.rate + product(self.rows, v)

    def bilateral(self) -> Array:
        """(p,) which of them are joints."""
        count = self.gap.shape[0]
        return jnp.arange(count) >= count - self.joints

    def project(self, metric: Metric, target: Array, b: Array, active) -> Projection:
        """Onto { x : rows x + b >= 0, and = 0 for joints }; b and multipliers (p,)."""
        active = _with_joints(active, b.shape[0], self.joints, self.acting)
        return project_both(target, self.rows, b, metric, active, self.joints)

    def status(self, metric: Metric, active: Array, point: Array) -> Status:
        """What can be wrong with the data of a step."""
        return _status(metric, self.gap, self.rows, active, point)


class OfSpeed:
    """A restitution that depends on the speed of an impact; the same if its function is."""

    def __init__(self, function: Callable):
        self.function = function

    def __call__(self, before: Array) -> Array:
        """(p,) e of normal velocities (p,); nan, which ends a run, where it is not in [0, 1]."""
        speed = jnp.maximum(-before, 0.0)
        e = jnp.broadcast_to(jnp.asarray(self.function(speed), float), speed.shape)
        return jnp.where((e >= 0.0) & (e <= 1.0), e, jnp.nan)

    def __eq__(self, other):
        return isinstance(other, OfSpeed) and self.function is other.function

    def __hash__(self):
        return id(self.function)


class Contacts(eqx.Module):
    """With the directions of sliding, and the law: m components a contact, normal first."""

    gap: Array  # (p,) g_i(t, q), negative means overlap; then joints
    rate: Array  # (p, m) relative velocity of a system at rest
    rows: Array  # (p, m, d) its gradients
    known: Array  # (p,) bool; an open gap without a gradient here (1 - |q| at 0) has a row of zeros
    rounding: Array  # (p,) what g_i may be off by
    law: Law
    of_speed: OfSpeed | None = eqx.field(static=True, default=None)
    alive: Array | None = None  # in a batch, for what it evaluates once (apart.py)
    acting: Array | None = None  # (joints,) bool: those that do not repeat others; None: all

    def velocity(self, v: Array) -> Array:
        """(p, m) the relative velocity: of opening, negative means approaching, and of sliding."""
        p, m, d = self.rows.shape
        return self.rate + product(self.rows.reshape(p * m, d), v).reshape(p, m)

    def closed(self, metric: Metric | None = None, moved: Array | None = None) -> Array:
        """(p,) where the law acts on velocities: at gaps that are zero to rounding.

        Steps before leave theirs too: what rests has a velocity that is zero to rounding, and opens
        by that.  Where a step freely moves by x = ``moved`` (d,), a gap is closed that could be so
        1e-8 of it earlier or later:

            g_i < 1e-8 |x|_M |grad g_i|_M^-1

        Else a contact is lost for a step, falls and strikes; of several, another order of impacts
        is another motion.
        """
        closed = ~(self.gap > self.rounding) | self.law.bilateral()  # a gap that is no number, too
        if metric is None or moved is None:
            return closed
        across = summed(metric.whiten(self.rows[:, 0]) ** 2)
        reach = 2.0 * _OF_STEP**2 * metric.energy(moved) * across
        return closed | (self.gap * self.gap < reach)  # squares: a root takes long

    def beyond_rounding(self, metric: Metric, free: Array, moved: Projection, dt: Array):
        """The projection ``moved`` of ``free`` without pushes of rounding, where these are bounces.

        What touches at the very end of a step, as it does under a constant force in every flight
        between bounces with e = 1/2 or 1, is pushed by what rounding makes of its gap, or not at
        all: by that it would bounce in this step, or in the next.  It is one of the next, whatever
        the units; so e = 1 keeps the energy.
        """
        before, lam = self.velocity(free), moved.multipliers
        depth = dt * jnp.abs(lam[:, 0]) * summed(metric.whiten(self.rows[:, 0]) ** 2)
        late = _AT_THE_END * dt * jnp.abs(before[:, 0]) + _TIMES * self.rounding
        bounces = (self.restitution(before) > 0.0) & ~self.law.bilateral()
        comes = bounces & (depth <= late) & (self.gap > late)  # and does not rest there
        made = jnp.where(comes[:, None], lam, 0.0)
        p, m, d = self.rows.shape
        back = metric.solve(product(self.rows.reshape(p * m, d).T, made.reshape(-1)))
        return replace(moved, point=moved.point - back, multipliers=lam - made)

    def ahead(self, dt: Array) -> Array:
        """b (p, m) that keeps gaps open, and joints together, at the end of a step from here."""
        return in_normal(self.rate, self.gap / dt)

    def bounced(self, before: Array, dt: Array) -> Array:
        """b (p, m) of the impact law; what a joint has drifted apart is made good in a step."""
        apart = jnp.where(jnp.isnan(self.gap), self.gap, 0.0)  # what is no number ends the run
        if self.law.joints:
            apart = jnp.where(self.law.bilateral(), self.gap / dt, apart)
        b = self.struck(before)
        return in_normal(b, b[:, 0] + apart)

    def struck(self, before: Array) -> Array:
        """b (p, m) of the impact law alone."""
        if self.of_speed is None:
            return self.law.shift(self.rate, before)
        law = eqx.tree_at(lambda law: law.e, self.law, self.restitution(before))
        return law.shift(self.rate, before)

    def restitution(self, before: Array) -> Array:
        """(p,) e of an impact with the relative velocities ``before`` (p, m)."""
        if self.of_speed is None:
            return self.law.e
        return jnp.where(self.law.bilateral(), 0.0, self.of_speed(before[:, 0]))

    def kept(self, lam: Array) -> Any:
        """What the next step starts from, after the impulses lam (p, m)."""
        return self.law.kept(lam)

    def project(self, metric: Metric, target: Array, b: Array, active) -> Projection:
        """Onto the set that the law allows; b and multipliers (p, m)."""
        active = _with_joints(active, b.shape[0], self.law.joints, self.acting)
        if self.alive is None:
            return unless_free(self.law, metric, target, self.rows, b, active)
        active = jnp.ones(b.shape[:1], bool) if active is None else active
        pushed = partial(self.law.project, metric)
        return once(
            self.alive, pushed, lambda x, H, b, on: free(x, b), target, self.rows, b, active
        )

    def frictional(self, b: Array, active) -> tuple[Any, Any, Any, int]:
        """H (d, m n), w (m n,), mu (n,) and m of the active contacts (carom/fclib)."""
        p, m, d = self.rows.shape
        mu = getattr(self.law, "mu", None)
        if mu is None or m == 1 or self.law.joints:
            what = "has joints" if self.law.joints else "has no friction"
            raise FrictionError(f"the system {what}: that is no problem of contacts with friction")
        chosen = np.ones(p, bool) if active is None else np.asarray(active)
        rows, w = np.asarray(self.rows)[chosen], np.asarray(b)[chosen]
        mu = np.broadcast_to(np.asarray(mu), (p,))[chosen]
        return rows.reshape(-1, d).T, w.ravel(), mu, m

    def status(self, metric: Metric, active: Array, point: Array) -> Status:
        """What can be wrong with the data of a step."""
        return _status(metric, self.gap, self.rows[:, 0], active, point)


def _with_joints(active, count: int, joints: int, kept):
    """``active`` (p,) with those joints, whatever gaps are, that do not repeat others."""
    if not joints:
        return active
    active = jnp.ones(count, bool) if active is None else active
    kept = jnp.ones(joints, bool) if kept is None else kept
    return jnp.concatenate([active[: count - joints], kept])


def _status(metric, gap, rows, active, point):
    """Most fundamental first."""
    flat = jnp.any(active & (jnp.max(jnp.abs(rows), axis=1, initial=0.0) == 0.0))
    return first_failure(
        failing(~metric.ok(), Status.mass),
        failing(jnp.any(jnp.isnan(gap)), Status.nonfinite),
        failing(flat, Status.gradient),
        failing(~jnp.all(jnp.isfinite(point)), Status.nonfinite),
    )
