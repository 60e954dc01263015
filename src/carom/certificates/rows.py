"""The rows of a System beside its normals: directions of sliding, and joints.

With p gaps, s components of sliding each (0 without friction) and k joints, the impulses beside the
normal ones are r = p s + k numbers: friction along ``slip``, gap by gap, and then joints.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from carom.worlds.system.contacts import Normals


class Rows(NamedTuple):
    rows: Any  # (r, d)
    rate: Any  # (r,) the velocity along them of what is at rest


def normals(system, t, q) -> Normals:
    """Of the gaps alone."""
    found = system.normals(t, q)
    p = found.gap.shape[0] - found.joints
    return Normals(found.gap[:p], found.rate[:p], found.rows[:p], found.known[:p])


def sliding(system, t, q) -> Rows:
    """(p s, d)"""
    if system.slip is None:
        return Rows(jnp.zeros((0, q.shape[0])), jnp.zeros(0))

    def slip(v):
        return jnp.ravel(jnp.asarray(system.slip(t, q, v), float))

    still = jnp.zeros_like(q)
    return Rows(jax.jacfwd(slip)(still), slip(still))


def joints(system, t, q) -> Rows:
    """(k, d)"""
    if system.joint is None:
        return Rows(jnp.zeros((0, q.shape[0])), jnp.zeros(0))
    rate = jax.jvp(lambda t: system.joints(t, q), (jnp.asarray(t, float),), (jnp.ones(()),))[1]
    return Rows(jax.jacfwd(system.joints, argnums=1)(t, q), rate)


def beside(system, t, q) -> Rows:
    """(r, d)"""
    one, two = sliding(system, t, q), joints(system, t, q)
    return Rows(jnp.concatenate([one.rows, two.rows]), jnp.concatenate([one.rate, two.rate]))


def count(system, t, q) -> tuple[int, int]:
    """s and k."""
    p = system.gaps(t, q).shape[0]
    along = 0 if system.slip is None else jnp.size(system.slip(t, q, 0.0 * q)) // max(p, 1)
    return along, system.joints(t, q).shape[0]
