"""Joints under event detection: a world whose free motion keeps them.

With J the gradients of the joints c(t, q) = 0 and A = J M^-1 J^T,

    M a = f + J^T s,     s = -A^-1 ( J M^-1 f + [d^2 c / dt^2] at a = 0 )                     (1)

is the acceleration nearest to M^-1 f that keeps d^2 c / dt^2 = 0.  The gradient G of a gap moves
what the joints leave free, and their own motion is part of its rate:

    G P,   P = 1 - M^-1 J^T A^-1 J,      d_t g - G M^-1 J^T A^-1 d_t c                        (2)

so that M with the rows (2) and the force f + J^T s is a world of gaps alone, whose impacts and
reactions leave J v + d_t c = 0.  Its contacts pull on the joints by

    s - A^-1 J M^-1 G^T lam                                                                   (3)

Joints that repeat others do so only where they all hold, which the stages of a step do to its error
alone: which are independent is found at its start, and A has the rows of those.  Of the forces
s_I that they ask for, with J = C J_I, the smallest that do it are s = C (C^T C)^-1 s_I.  Each joint
is taken in a unit of its own, in which its row has length 1: A is as regular as the mechanism.

What a step leaves of c and of its rate is taken out at its end, in the metric M.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from carom.projection.metric import product, solve_dense, solve_in_loop
from carom.schemes.resting import equal, independent, reaction, second

_WRITTEN_OUT = 2  # joints: more of them are solved for in a loop, of which a step has many


def held(world: Any, t: Array, q: Array) -> Any:
    """The world with its joints held, for a step from (t, q); itself where there are none."""
    if getattr(world, "joint", None) is None:
        return world
    J, metric = jax.jacfwd(world.joints, argnums=1)(t, q), world.metric(q)
    kept = independent(metric, J, jnp.ones(J.shape[0], bool))
    size = jax.lax.stop_gradient(jnp.sqrt(jnp.sum(metric.whiten(J) ** 2, axis=1)))
    return Held(world, kept, 1.0 / jnp.where(kept, size, 1.0))


def is_held(world: Any) -> bool:
    """Whether a world, or that of a flow, has joints that are held."""
    return isinstance(world, Held) or isinstance(getattr(world, "world", None), Held)


def bent(world: Any, t, q, v, free, rows):
    """(p,) d^2 g / dt^2 less what the rows make of the acceleration ``free``."""
    if not is_held(world):
        return second(world.gaps, t, q, v, jnp.zeros_like(v))
    return second(world.gaps, t, q, v, free) - product(rows, free)


class Held(eqx.Module):
    """A world whose gaps are all that is left to look at."""

    world: Any
    kept: Array  # (k,) bool: joints that do not repeat those before them
    unit: Array  # (k,) in which each c is taken: one may be written in kilometres

    def joints(self, t, q):
        """(k,) c, each in its unit."""
        return self.unit * self.world.joints(t, q)

    def gaps(self, t, q):
        """(p,)"""
        return self.world.gaps(t, q)

    def metric(self, q):
        """M."""
        return self.world.metric(q)

    def restitutions(self, count, before=None):
        """(p,)"""
        return self.world.restitutions(count, before)

    def contacts(self, t, q):
        """Gaps and joints with their law, for impacts."""
        return self.world.contacts(t, q, acting=self.kept)

    def project(self, metric, target, contacts, b, active):
        """What the law allows; joints act whatever gaps are active."""
        joints = jnp.ones(b.shape[0] - active.shape[0], bool)
        return self.world.project(metric, target, contacts, b, jnp.concatenate([active, joints]))

    def normals(self, t, q):
        """The gaps with (2)."""
        n = self.world.normals(t, q)
        p = n.gap.shape[0] - n.joints
        moved, J = self.unit * n.rate[p:], self.unit[:, None] * n.rows[p:]
        rate, rows = self._freed(q, n.rate[:p], n.rows[:p], moved, J)
        return type(n)(n.gap[:p], rate, rows, n.known[:p])

    @property
    def friction(self):
        """mu."""
        return self.world.friction

    def slip(self, t, q, v):
        """u_t of the contacts."""
        return self.world.slip(t, q, v)

    def freed(self, t, q, rate, G):
        """(2) for any directions G (n, d) with their rate (n,)."""
        _, moved, J = self._linear(t, q)
        return self._freed(q, rate, G, moved, J)

    def _freed(self, q, rate, G, moved, J):
        X = self._pull(q, G, J)
        left = G - X @ J
        # what the joints hold has no row
        size = jnp.sqrt(jnp.sum(G * G, axis=1, keepdims=True))
        left = jnp.where(
            jnp.sqrt(jnp.sum(left**2, axis=1, keepdims=True)) > 1e-10 * size, left, 0.0
        )
        return rate - X @ moved, left

    def forces(self, t, q, v):
        """f + J^T s."""
        _, _, J = self._linear(t, q)
        f = self.world.forces(t, q, v)
        return f + product(J.T, self._force(t, q, v, f))

    def acceleration(self, t, q, v):
        """Of no contact."""
        return self.metric(q).solve(self.forces(t, q, v))

    def tension(self, t, q, v, lam, G):
        """(k,) the forces of the joints (3), those that repeat others taking their share."""
        _, _, J = self._linear(t, q)
        s = self._force(t, q, v, self.world.forces(t, q, v))
        if lam.shape[0]:
            s = s - product(self._pull(q, G, J).T, lam)
        return self._shared(q, J, s) if s.shape[0] > 1 else self.unit * s

    def settled(self, t, q, v):
        """(q, v) with the drift taken out."""
        metric = self.metric(q)
        c, _, J = self._linear(t, q)
        q = q - reaction(metric, J, self._equal(metric, J, c))
        metric = self.metric(q)
        _, rate, J = self._linear(t, q)
        return q, v - reaction(metric, J, self._equal(metric, J, rate + product(J, v)))

    def drift(self, t, q):
        """() the largest c, relative to the size of its terms."""
        c, rate, J = self._linear(t, q)
        size = product(jnp.abs(J), jnp.abs(q)) + jnp.abs(rate * t)
        return jnp.max(jnp.abs(c) / jnp.maximum(size, 1e-300))

    def _linear(self, t, q):
        """c, d_t c, J."""
        c, rate = jax.jvp(lambda t: self.joints(t, q), (jnp.asarray(t, float),), (jnp.ones(()),))
        return c, rate, jax.jacfwd(self.joints, argnums=1)(t, q)

    def _force(self, t, q, v, f):
        """(k,) s of (1), of the joints that are kept."""
        metric = self.metric(q)
        _, _, J = self._linear(t, q)
        bend = second(self.joints, t, q, v, metric.solve(f))
        return -self._equal(metric, J, bend)

    def _pull(self, q, G, J):
        """(p, k) G M^-1 J^T A^-1."""
        metric = self.metric(q)
        across = metric.whiten(G) @ metric.whiten(J).T
        return jax.vmap(lambda x: self._equal(metric, J, x))(across)

    def _equal(self, metric, J, value):
        """(k,) A^-1 value, of the joints that are kept."""
        return equal(metric, J, value, self.kept, _solve(J.shape[0]))

    def _shared(self, q, J, s):
        """The smallest forces that do what s does, all of it on joints that are kept; without
        the units."""
        N, kept, unit = self.metric(q).whiten(J), self.kept, self.unit
        A = N @ N.T
        eye, solve = jnp.eye(s.shape[0]), _solve(s.shape[0])
        both = kept[:, None] & kept[None, :]
        C = jax.vmap(lambda x: solve(jnp.where(both, A, eye), jnp.where(kept, x, 0.0)))(A)
        C = jnp.where(kept[:, None], eye, C * unit / unit[:, None])
        inner = jnp.where(both, C.T @ C, eye)
        return C @ solve(inner, jnp.where(kept, unit * s, 0.0))


def _solve(k):
    """Of k equations."""
    return solve_dense if k <= _WRITTEN_OUT else solve_in_loop
