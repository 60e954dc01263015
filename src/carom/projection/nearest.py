"""The nearest point of the admissible set, curved boundaries included."""

from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from carom.projection.metric import logarithm, product
from carom.status import Status, failing, first_failure

# A gap that cancels large numbers stops the iteration short of the tolerance; this much is let by.
_ROUNDING_SLACK = 1e3
SMALL = 1e-5  # of W: near W = 0 the terms of a gap are not seen in its gradient times W
_FINE = 1e-6  # of the motion of a step, and of SMALL: a gap so small that falls no more is rounding


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)  # a Module takes as long to make as a sphere to move
class Nearest:
    """P_K(W), as its distance from W; arrays of the world's own namespace."""

    shift: Any  # (d,) P_K(W) - W
    back: Any  # (d,) W as a tangent vector at P_K(W): -shift, or the velocity of the geodesic
    lam: Any  # (p,) multipliers
    residual: Any  # () of (1), relative
    iterations: Any
    status: Status
    contacts: Any  # at P_K(W), where a world has them from its search; None: it is asked for them
    memory: Any = None  # what the next step starts from


def nearest(
    world,
    metric,
    t: Array,
    W: Array,
    *,
    tolerance: float,
    iterations: int,
    geodesics: bool = False,
    leaving: Array | None = None,
    since: tuple[Array, Array] | None = None,
    motion: Array | float = 0.0,
) -> Nearest:
    """The point x of K = { g(t, .) >= 0 } nearest to W.

        M (x - W) = grad g(x)^T lam,    0 <= lam  perp  g(x) >= 0                             (1)

    in the given ``metric``; with ``geodesics``, in the Riemannian distance of M(q): M = M(x) and
    x - W is minus the initial velocity of the geodesic from x to W.  W is projected onto K
    linearised at the last iterate until (1) holds to ``tolerance``, relative to the size of W; the
    error falls by a factor of the order of curvature times distance each time.

    With ``leaving``, a displacement, a gap that it opens may still be closed by as much: g is then
    g + max(0, grad g . leaving).  With ``since``, a time and a point, what overlaps there may go on
    to: g is then g + max(0, -g(since)).  ``motion`` (d,) is how far the step goes without K.  Where
    W is near the origin and g is made of larger terms (a bowl of radius R with its bottom there),
    these are not seen: what does not fall any more, and is _FINE of the motion, is their rounding.
    """
    curved = geodesics and callable(world.mass)

    def near(x):  # the metric in which W is seen from x
        return world.metric(x) if curved else metric

    def turn(state):  # g(x) + grad g(x) . y >= 0, in the displacement y from x = W + shift
        P, _ = state
        every = jnp.ones(P.contacts.gap.shape, bool)
        y = world.project(near(W + P.shift), P.back, P.contacts, P.contacts.gap, every)
        shift = P.shift + y.point
        x = W + shift
        back = logarithm(world.mass, x, W) if curved else -shift
        contacts = seen(x)
        balance, gap, part = _residuals(near(x), back, y.multipliers, contacts, W, motion)
        residual = jnp.maximum(balance, gap)
        idle = (P.iterations > 0) & (residual >= P.residual)
        rounding = idle & (part <= _FINE) & (balance <= _ROUNDING_SLACK * tolerance)
        new = Nearest(shift, back, y.multipliers, residual, P.iterations + 1, y.status, contacts)
        return new, rounding

    def unfinished(state):
        P, rounding = state
        outside = (P.iterations == 0) & jnp.any(~(P.contacts.gap >= 0.0) | joined)
        more = (P.residual > tolerance) & (P.iterations < iterations)
        return (outside | more) & ~rounding & (P.status == Status.ok)

    def seen(x):
        contacts = world.normals(t, x)
        gap = contacts.gap
        if contacts.joints > 1:
            contacts = replace(contacts, acting=world.not_repeating(t, x, contacts))
        if leaving is not None:
            gap = gap + jnp.maximum(product(contacts.rows, leaving), 0.0)
        if since is not None:
            gap = gap + jnp.pad(overlap, (0, contacts.joints))
        return eqx.tree_at(lambda c: c.gap, contacts, gap)

    def free():
        zero, none = jnp.zeros_like(W), jnp.zeros_like(first.gap)
        return Nearest(zero, zero, none, jnp.zeros(()), jnp.array(0), Status.ok, None)

    def pushed():
        start = replace(free(), contacts=seen(W)), jnp.array(False)
        P, rounding = jax.lax.while_loop(unfinished, turn, start)
        flat = jnp.any((P.lam != 0.0) & (jnp.max(jnp.abs(P.contacts.rows), axis=1) == 0.0))
        status = first_failure(
            failing(~metric.ok(), Status.mass),
            failing(flat, Status.gradient),
            P.status,
            failing(~rounding & (P.residual > _ROUNDING_SLACK * tolerance), Status.unconverged),
        )
        return replace(P, status=status, contacts=None)

    overlap = 0.0 if since is None else jnp.maximum(-world.gaps(*since), 0.0)
    first = seen(W)  # inside of K no more than its gaps are found
    joined = first.bilateral() & (first.gap != 0.0)
    return world.if_any(~(first.gap >= 0.0) | joined, pushed, free)


def _residuals(metric, back, lam, contacts, W, motion):
    """The largest violations of (1), relative to |W|, and of the gaps relative to the motion."""
    size = jnp.abs(W) + jnp.abs(back) + motion
    balance = jnp.max(jnp.abs(metric.apply(back) + product(contacts.rows.T, lam)))
    balance_scale = jnp.maximum(jnp.max(metric.apply(size)), 1e-300)
    held = (lam > 0.0) | contacts.bilateral()
    gap = jnp.where(held, jnp.abs(contacts.gap), jnp.maximum(-contacts.gap, 0.0))
    rows = jnp.abs(contacts.rows)

    def relative(size):
        return jnp.max(gap / jnp.maximum(product(rows, size), 1e-300), initial=0.0)

    small = jnp.zeros_like(W) + motion + SMALL
    return balance / balance_scale, relative(size + SMALL), relative(small)
