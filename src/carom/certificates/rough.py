"""The certificate's own motion through contacts with friction: implicit steps over the law.

A step from (t, q, v) to t1 = t + s, with f, M and the directions H of the reaction in the middle,
at q + s/2 v, and relative velocities u at the end, at q + s v:

    M (v1 - v) = s f + H^T r,       q1 = q + s (v + v1) / 2                                   (1)
    0 <= r_n  perp  u_n(v1) >= 0,   |r_t| <= mu r_n,   r_t = -mu r_n u_t / |u_t| or u_t = 0   (2)

over the gaps that are held, u = 0 for joints.  Of second order where nothing changes between stick
and slip.  An impact is (2) with u_n + e u_n(v-) in the place of u_n, and s = 0.

(2) is solved gap by gap, each in turn for its own r_n and then r_t, until nothing changes:

    r_n <- max(r_n - u_n / a_n, 0),     r_t <- the nearest point of |x| <= mu r_n to r_t - u_t / a_t

whose fixed points are the solutions of (2); joints are solved together.

The friction of a step is against the u of its end.  Where a slip turns round or ends in a window,
from u to u' with u . u' <= 0, all of n steps may so agree on what is wrong in a part of one of
them: an impulse along u of

    min( 2 mu r_n / n,  what stops u )                                                        (3)
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from carom.certificates.rows import Rows, joints, normals, sliding
from carom.programs import compiled

_SWEEPS = 500
_SAME = 1e-13  # relative
_STILL = 1e-6  # of what friction may change u by: slower is stick
_REDUNDANT = 1e-11  # relative: what makes rows that say the same solvable


def _stacked(system, t, q):
    """Rows (p + p s + k, d) and rates: normals, sliding, joints."""
    parts = normals(system, t, q), sliding(system, t, q), joints(system, t, q)
    rows = jnp.concatenate([x.rows for x in parts])
    return Rows(rows, jnp.concatenate([x.rate for x in parts]))


def solved(W, c, mu, held, k):
    """r of (2): u = c + W r, rows in the order of ``_stacked``, k joints, mu and held (p,)."""
    size, p = len(c), len(mu)
    s = (size - k) // p - 1
    diagonal = jnp.maximum(jnp.diagonal(W), 1e-300)
    J = slice(size - k, size)
    block = W[J, J] + jnp.diag(_REDUNDANT * diagonal[J])

    def sweep(r):
        for i in range(p):
            rn = jnp.maximum(r[i] - (c[i] + W[i] @ r) / diagonal[i], 0.0)
            r = r.at[i].set(jnp.where(held[i], rn, 0.0))
            T = slice(p + i * s, p + (i + 1) * s)
            a = jnp.max(diagonal[T])
            x = r[T] - (c[T] + W[T] @ r) / a
            long, most = jnp.linalg.norm(x), mu[i] * r[i]
            r = r.at[T].set(x * jnp.where(long > most, most / jnp.maximum(long, 1e-300), 1.0))
        if k:
            r = r.at[J].add(-jnp.linalg.solve(block, c[J] + W[J] @ r))
        return r

    def go_on(state):
        r, change, n = state
        return (n < _SWEEPS) & (change > _SAME * jnp.max(jnp.abs(r)))

    def turn(state):
        r, _, n = state
        new = sweep(r)
        return new, jnp.max(jnp.abs(new - r)), n + 1

    start = jnp.zeros(size), jnp.asarray(jnp.inf), jnp.array(0)
    return jax.lax.while_loop(go_on, turn, start)[0]


def _moved(system, t, q, metric, v, there: Rows, ahead: Rows, held, shift: Any = 0.0):
    """v + M^-1 H^T r, with H the rows ``there``, and u those ``ahead`` with ``shift`` added."""
    mu, k = jnp.broadcast_to(system.friction, held.shape), system.joints(t, q).shape[0]
    one, two = metric.whiten(there.rows), metric.whiten(ahead.rows)
    r = solved(two @ one.T, ahead.rows @ v + ahead.rate + shift, mu, held, k)
    return v + metric.lift(one.T @ r)


def flow(system, t, x, h, n, held):
    """x after h, by n steps of (1)."""
    s = h / n

    def one(i, x):
        now, (q, v) = t + i * s, jnp.split(x, 2)
        middle = q + 0.5 * s * v
        metric = system.metric(middle)
        free = v + s * metric.solve(system.forces(now + 0.5 * s, middle, v))
        there = _stacked(system, now + 0.5 * s, middle)
        ahead = _stacked(system, now + s, q + s * v)
        v1 = _moved(system, now, middle, metric, free, there, ahead, held)
        return jnp.concatenate([q + 0.5 * s * (v + v1), v1])

    return jax.lax.fori_loop(0, n, one, x)


def jump(system, t, x, held):
    """An impact over all gaps held."""
    q, v = jnp.split(x, 2)
    p, rows = len(held), _stacked(system, t, q)
    w = rows.rows[:p] @ v + rows.rate[:p]
    shift = jnp.zeros_like(rows.rate).at[:p].set(system.restitutions(p, w) * w)
    v1 = _moved(system, t, q, system.metric(q), v, rows, rows, held, shift)
    return jnp.concatenate([q, v1])


class Turned(NamedTuple):
    """Of a window."""

    turns: Any  # () bool: a slip turns round, or ends
    kick: Any  # (2d,) what (3) changes


@compiled
def turned(system, arrays):
    """(3) of many windows at once, with lam (p,) of the gaps that last and n steps in each."""

    def one(t, x, t1, x1, lam, n):
        (q, v), (q1, v1), p = jnp.split(x, 2), jnp.split(x1, 2), len(lam)
        here, there, metric = sliding(system, t, q), sliding(system, t1, q1), system.metric(q)
        u = (here.rows @ v + here.rate).reshape(p, -1)
        u1 = (there.rows @ v1 + there.rate).reshape(p, -1)
        speed = jnp.linalg.norm(u, axis=1)
        rows = metric.whiten(here.rows).reshape(*u.shape, -1)
        along = jnp.einsum("ps,psd->pd", u / jnp.maximum(speed, 1e-300)[:, None], rows)
        a = jnp.maximum(jnp.sum(along**2, axis=1), 1e-300)
        most = 2.0 * system.friction * lam
        turns = (most > 0.0) & (speed > _STILL * a * most) & (jnp.sum(u * u1, axis=1) <= 0.0)
        kick = metric.lift(along.T @ jnp.where(turns, jnp.minimum(most / n, speed / a), 0.0))
        return Turned(jnp.any(turns), jnp.concatenate([(t1 - t) * kick, kick]))

    return jax.vmap(one)(*arrays)
