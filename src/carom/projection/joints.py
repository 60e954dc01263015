"""Joints are eliminated before contacts are looked at.

In the whitened unknown y, x = target + W^T y (projection/exact.py), a joint is a row N_J y + c = 0.
With y0 the shortest y that keeps the joints best and Q an orthonormal basis of their rows,

    y = y0 + z,   Q z = 0:      a contact's row N keeps  N (I - Q^T Q)                        (1)

and what is left is a problem of contacts alone, with the identity for its metric.  Rows that repeat
each other, or contradict each other by what they have drifted, are met in the least-squares sense.
"""

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from carom.projection.metric import Metric, product

_DEPENDENT = 1e-10  # relative singular value below which joints repeat each other


class Free(eqx.Module):
    """The contacts of a problem, its joints gone."""

    rows: Array  # (n, m, d) of (1)
    b: Array  # (n, m) at y0
    y0: Array  # (d,)
    contacts: Array  # (n, m, d) N, joints not taken out
    joints: Array  # (k, d)
    offset: Array  # (k,) c

    def joint_impulse(self, y: Array, r: Array) -> Array:
        """(k,) the shortest s with N_J^T s = y - N^T r."""
        if not self.joints.shape[0]:
            return self.offset
        left = y - jnp.einsum("iak,ia->k", self.contacts, r)
        return jnp.linalg.pinv(self.joints.T, rtol=_DEPENDENT) @ left

    def residual(self, y: Array) -> Array:
        """How far y is from the joints' best, relative to its size."""
        if not self.joints.shape[0]:
            return jnp.zeros(())
        better = jnp.linalg.pinv(self.joints, rtol=_DEPENDENT) @ (self.joints @ y + self.offset)
        size = jnp.max(jnp.abs(y)) + jnp.max(jnp.abs(self.y0))
        return jnp.max(jnp.abs(better)) / jnp.maximum(size, 1e-300)


def free_of_joints(metric: Metric, target: Array, rows: Array, b: Array, joints: int) -> Free:
    """Take out the last ``joints`` of rows (p, m, d) and b (p, m); they hold by their first."""
    p, m, d = rows.shape
    n = p - joints
    N = metric.whiten(rows.reshape(p * m, d)).reshape(p, m, -1)
    w = b + product(rows, target)
    J, c = N[n:, 0], w[n:, 0]
    if not joints:
        return Free(N, w, jnp.zeros(N.shape[2]), N, J, c)
    _, size, basis = jnp.linalg.svd(J, full_matrices=False)
    basis = jnp.where((size > _DEPENDENT * size[0])[:, None], basis, 0.0)
    y0 = -jnp.linalg.pinv(J, rtol=_DEPENDENT) @ c
    left = N[:n] - jnp.einsum("iak,jk,jl->ial", N[:n], basis, basis)
    whole = jnp.linalg.norm(N[:n], axis=2, keepdims=True)
    held = jnp.linalg.norm(left, axis=2, keepdims=True) <= _DEPENDENT * whole
    return Free(jnp.where(held, 0.0, left), w[:n] + N[:n] @ y0, y0, N[:n], J, c)
