"""Contacts at rest: the reactions that hold them, and which of them are enough."""

import jax
import jax.numpy as jnp

from carom.projection import joints
from carom.projection.metric import product, solve_dense


def reaction(metric, rows, lam):
    """M^-1 G^T lam."""
    return metric.lift(product(metric.whiten(rows).T, lam))


def second(values, t, q, v, a):
    """d^2/dt^2 of values(t, q) along a motion with velocity v and acceleration a."""

    def rate(t, q, v):
        return jax.jvp(values, (t, q), (jnp.ones(()), v))[1]

    return jax.jvp(rate, (t, q, v), (jnp.ones(()), v, a))[1]


def equal(metric, rows, value, mask, solve=solve_dense):
    """x with (G M^-1 G^T x)_i = value_i on the mask, and x_i = 0 elsewhere."""
    N = metric.whiten(rows)
    both = mask[:, None] & mask[None, :]
    A = jnp.where(both, jnp.sum(N[:, None, :] * N[None, :, :], axis=-1), jnp.eye(len(mask)))
    return solve(A, jnp.where(mask, value, 0.0))


def independent(metric, rows, mask):
    """(p,) the part of the mask whose rows are linearly independent, the first of them kept."""
    if len(mask) < 2:
        return mask
    return joints.independent(metric.whiten(jax.lax.stop_gradient(rows)), mask)[0]


def stilled(metric, contacts, v, mask):
    """v with the normal velocities of the mask taken out."""
    w = contacts.velocity(v)
    return v - reaction(metric, contacts.rows, equal(metric, contacts.rows, w, mask))


def spent(w, a, e, wide, unseen):
    """(5), with the speed w and the acceleration a: what is left of an accumulation."""
    left = -8.0 * a * unseen / jnp.where(e < 1.0, 1.0 - e, jnp.inf)
    return (a < 0.0) & (2.0 * w**2 <= jnp.maximum(0.1 * wide * -a * (1.0 - e), left))
