"""Joints are eliminated before contacts are looked at.

In the whitened unknown y, x = target + W^T y (projection/exact.py), a joint is a row N_J y + c = 0.
With y0 the shortest y that keeps the joints best and Q an orthonormal basis of their rows,

    y = y0 + z,   Q z = 0:      a contact's row N keeps  N (I - Q^T Q)                        (1)

and what is left is a problem of contacts alone, with the identity for its metric.  Rows that repeat
each other, or contradict each other by what they have drifted, are met in the least-squares sense.

Joints of a mechanism that repeat each other do so only where they all hold.  A step away from there
(by their drift, by their own motion) the rows are independent by a little, and what they ask for,
divided by that little, would hold what is free to move.  So which joints repeat others is found
where they hold, near by, and only the others act; of the impulses s_I that these have, with
J = C J_I to first order, the smallest are

    s = C (C^T C)^-1 s_I,  and what J^T s lacks is added to s_I.                              (2)
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from carom.projection.metric import Metric, product, solve_dense

_DEPENDENT = 1e-10  # relative singular value below which joints repeat each other
_REPEATS = 1e-8  # of a row, what those before it leave of one that repeats them
_APART = 0.1  # and of one that is looked at no further
_TURNS = 30  # at most, towards where joints hold
_HOLDS = 1e-14  # relative
# Of q: at q = 0 the terms of a joint, |q - p| - L, are not seen in its gradient times q, and what
# it is off by is their rounding.
SMALL = 1e-8


class Free(eqx.Module):
    """The contacts of a problem, its joints gone."""

    rows: Array  # (n, m, d) of (1)
    b: Array  # (n, m) at y0
    y0: Array  # (d,)
    contacts: Array  # (n, m, d) N, joints not taken out
    joints: Array  # (k, d) of length 1, or 0 for those that repeat others
    offset: Array  # (k,) c, in the same units
    length: Array  # (k,) of the rows as they are given
    every: tuple[Array, Array] | None = None  # (k, d) of all joints, and which of them act

    def joint_impulse(self, y: Array, r: Array) -> Array:
        """(k,) the shortest s with N_J^T s = y - N^T r."""
        if not self.joints.shape[0]:
            return self.offset
        left = y - jnp.einsum("iak,ia->k", self.contacts, r)
        inverse = jnp.linalg.pinv(self.joints.T, rtol=_DEPENDENT) / self.length[:, None]
        s = inverse @ left
        if self.every is None:
            return s
        J, kept = self.every

        def shared():  # (2)
            least = jnp.linalg.pinv(inverse @ J.T, rtol=_DEPENDENT) @ s
            return least + inverse @ (left - J.T @ least)

        return jax.lax.cond(jnp.all(kept), lambda: s, shared)

    def residual(self, y: Array) -> Array:
        """How far y is from the joints' best, relative to its size."""
        if not self.joints.shape[0]:
            return jnp.zeros(())
        better = jnp.linalg.pinv(self.joints, rtol=_DEPENDENT) @ (self.joints @ y + self.offset)
        size = jnp.max(jnp.abs(y)) + jnp.max(jnp.abs(self.y0))
        return jnp.max(jnp.abs(better)) / jnp.maximum(size, 1e-300)


def independent(rows: Array, mask: Array) -> tuple[Array, Array]:
    """(p,) the part of the mask whose rows are linearly independent, the first of them kept; and
    what those before leave of each row, relative to it."""

    def turn(i, loop):
        basis, kept, left = loop
        rest = rows[i] - product(basis.T, product(basis, rows[i]))
        length, whole = jnp.sqrt(jnp.sum(rest * rest)), jnp.sqrt(jnp.sum(rows[i] * rows[i]))
        new = mask[i] & (length > _REPEATS * whole)
        row = jnp.where(new, rest / jnp.where(new, length, 1.0), 0.0)
        part = length / jnp.where(whole > 0.0, whole, 1.0)
        return basis.at[i].set(row), kept.at[i].set(new), left.at[i].set(part)

    start = (jnp.zeros_like(rows), jnp.zeros_like(mask), jnp.ones(len(mask)))
    return jax.lax.fori_loop(0, len(mask), turn, start)[1:]


def where_they_hold(
    joints: Callable, t: Array, q: Array, asked: Array | bool = True
) -> tuple[Array, Array]:
    """J (k, d) of joints(t, q), rows of length 1, at a q near by where they hold; and how far off
    they are there, relative to their terms: 0 where they hold.  At q itself if it is not asked.

    Levenberg and Marquardt, damped by how far it is: converges as fast as Newton's method though
    rows become dependent (Yamashita and Fukushima 2001), and stays near by.
    """

    def seen(turns, q):
        c, J = joints(t, q), jax.jacfwd(joints, argnums=1)(t, q)
        size = jnp.sqrt(jnp.sum(J * J, axis=1, keepdims=True))
        size = jnp.where(size > 0.0, size, 1.0)
        c, J = c / size[:, 0], J / size
        terms = jnp.abs(c) + product(jnp.abs(J), jnp.abs(q) + SMALL)
        return turns, q, c, J, jnp.max(jnp.abs(c) / jnp.maximum(terms, 1e-300))

    def further(loop):
        return asked & (loop[0] < _TURNS) & (loop[4] > _HOLDS)

    def towards(loop):
        turns, q, c, J, off = loop
        A = J @ J.T + jnp.maximum(off, _HOLDS) * jnp.eye(J.shape[0])
        return seen(turns + 1, q - product(J.T, solve_dense(A, c)))

    start = seen(0, jax.lax.stop_gradient(q))
    return jax.lax.while_loop(further, towards, start)[3:]


def not_repeating(joints: Callable, t: Array, q: Array, rows: Array) -> Array:
    """(k,) the joints(t, q) that do not repeat those before them, where all of them hold."""
    every = jnp.ones(rows.shape[0], bool)

    def looked_at():
        return independent(where_they_hold(joints, t, q)[0], every)[0]

    left = independent(jax.lax.stop_gradient(rows), every)[1]
    return jax.lax.cond(jnp.any(left < _APART), looked_at, lambda: every)


def free_of_joints(
    metric: Metric, target: Array, rows: Array, b: Array, joints: int, kept: Array | None = None
) -> Free:
    """Take out the last ``joints`` of rows (p, m, d) and b (p, m); they hold by their first.

    With ``kept`` (joints,), only those of them act.
    """
    p, m, d = rows.shape
    n = p - joints
    N = metric.whiten(rows.reshape(p * m, d)).reshape(p, m, -1)
    w = b + product(rows, target)
    J, c = N[n:, 0], w[n:, 0]
    length = jnp.sqrt(jnp.sum(J * J, axis=1))
    if not joints:
        return Free(N, w, jnp.zeros(N.shape[2]), N, J, c, length)
    every = None
    if kept is not None and joints > 1:
        every = J, kept
        J, c = jnp.where(kept[:, None], J, 0.0), jnp.where(kept, c, 0.0)
    # in units of its own each: a joint may be written in kilometres, or hold what is heavy
    length = jnp.where(length > 0.0, length, 1.0)
    J, c = J / length[:, None], c / length
    _, size, basis = jnp.linalg.svd(J, full_matrices=False)
    basis = jnp.where((size > _DEPENDENT * size[0])[:, None], basis, 0.0)
    y0 = -jnp.linalg.pinv(J, rtol=_DEPENDENT) @ c
    left = N[:n] - jnp.einsum("iak,jk,jl->ial", N[:n], basis, basis)
    whole = jnp.linalg.norm(N[:n], axis=2, keepdims=True)
    held = jnp.linalg.norm(left, axis=2, keepdims=True) <= _DEPENDENT * whole
    return Free(jnp.where(held, 0.0, left), w[:n] + N[:n] @ y0, y0, N[:n], J, c, length, every)
