"""Planar friction of a few contacts by their modes: the last resort of coulomb.py.

A contact is open, sticks, or slips to one side, s = 1 or -1:

    open:   r = 0;      stick:  u_n = 0, u_t = 0;      slip:  u_n = 0, r_t = -s mu r_n        (1)

and for given modes of all contacts u = A r + w is a linear system.  The law holds where

    open:   u_n >= 0;   stick:  |r_t| <= mu r_n;       slip:  r_n >= 0,  s u_t >= 0           (2)

so that 4^p systems of 2 p unknowns hold every solution but those of systems without an inverse;
where impulses are not unique some mode with fewer of them is regular.  With unit rows n_i of the
whitened unknown (projection/exact.py), those of A = N N^T, and G the unit combinations of rows
along which (1) lets impulses act, the system is

    N_C (G^T z) = -w_C,    z = 0 elsewhere                                                    (3)

C the rows in which (1) asks for u = 0.  Masses over many orders make rows nearly parallel and
N_C G^T nearly singular, and iterative refinement with N_C (G^T z) gives back what it loses.

(2) is not asked for: the measure of the law is, in which a violation is a residual.
"""

import jax
import jax.numpy as jnp
from jax import Array

from carom.projection.metric import product, solve_in_loop

MOST = 5  # contacts: 1024 modes
_CARE = 1e-13  # a residual that no other mode has to better
_REFINED = 4  # solutions of (3), the first included
_OPEN, _STICK = 0, 1  # and 2, 3 slip with s = 1, -1


def best_mode(rows, w, mu, active, judged, r, limit) -> tuple[Array, Array, Array]:
    """The r (p, 2) of least ``judged(r)``, that residual, and how many modes were tried.

    ``rows`` (p, 2, d) are whitened; ``r`` comes from elsewhere.  It looks only where that of r is
    above ``limit``: a loop without a turn in most steps, and in a batch too unless some member
    needs it.
    """
    p, residual = mu.shape[0], judged(r)
    count = jnp.where(residual <= limit, 0, 4**p)

    def unfinished(state):
        mode, _, least = state
        return (mode < count) & ~(least <= _CARE)

    def turn(state):
        mode, best, least = state
        digits = mode // 4 ** jnp.arange(p) % 4
        new = _answer(rows, w, mu, jnp.where(active, digits, _OPEN))
        found = judged(new)
        better = found < least  # False where the system has no answer
        return mode + 1, jnp.where(better, new, best), jnp.where(better, found, least)

    least = jnp.where(jnp.isnan(residual), jnp.inf, residual)
    tried, r, least = jax.lax.while_loop(unfinished, turn, (jnp.array(0), r, least))
    return r, least, tried


def _answer(rows, w, mu, mode):
    """r of (3)."""
    p, m, d = rows.shape
    length = _length(rows)
    N, w = rows / length[..., None], w / length
    side = jnp.where(mode == _STICK, 0.0, jnp.where(mode == 2, 1.0, -1.0))
    slope = -side * mu * length[:, 1] / length[:, 0]  # of a scaled impulse that slips
    slips = N[:, 0] + slope[:, None] * N[:, 1]
    wide = _length(slips)
    G = jnp.stack([slips / wide[:, None], N[:, 1]], axis=1).reshape(p * m, d)
    N, w = N.reshape(p * m, d), w.reshape(-1)
    asked = jnp.stack([mode != _OPEN, mode == _STICK], axis=1).reshape(-1)
    K = jnp.where(asked[:, None], jnp.sum(N[:, None] * G[None], axis=-1), jnp.eye(p * m))

    def refined(_, z):
        u = product(N, product(G.T, z)) + w
        return z - solve_in_loop(K, jnp.where(asked, u, z))

    z = jax.lax.fori_loop(0, _REFINED, refined, jnp.zeros(p * m)).reshape(p, m)
    n = z[:, 0] / wide
    return jnp.stack([n, z[:, 1] + slope * n], axis=1) / length


def _length(x):
    size = jnp.sqrt(jnp.sum(x * x, axis=-1))
    return jnp.where(size > 0.0, size, 1.0)
