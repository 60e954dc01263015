"""Planar friction of two or three contacts by a few Newton steps: the first thing coulomb.py tries.

In the scales of projection/cones.py, with z = r - u and u = A r + w, a contact is taken to be

    open    where z_n <= 0:          r = 0
    stick   where |z_t| <= mu z_n:   u_n = 0,  u_t = 0                                        (1)
    slip    elsewhere:               u_n = 0,  r_t = mu r_n sign(z_t)

and the next r solves these linear equations: Newton's method for (4) there, which ends where (1)
repeats itself.  It starts at r = 0, with one step outside of the loop.  Impulses need not be unique
(two feet of one body), so that a step has A + eps in place of A, which does not change where it
ends:

    (A + eps) (r' - r) = -u   in the rows of (1) that ask for u = 0                           (2)

and (A + eps) d = eps (r' - r), its d added to r', takes most of the eps back with the same factors.
Of impulses that make the same motion it finds the smallest that the modes from r = 0 lead to, as
the proximal points of cones.py do.  It may go in circles, and then has no answer: what is left of
the law says so.  Where Coulomb's law has several answers this decides which: the one these steps
from r = 0 end at, and where they do not that of cones.py; alone and in a batch alike.

Written in single numbers, as projection/planar.py is, and for the same reason: what is divided is
kept, and what is made of it does not compute it anew.
"""

from functools import reduce

import jax
import jax.numpy as jnp
from jax import Array

_EPS = 3e-8  # of rounding, 1e-16 / eps is left in impulses that are not unique
_TURNS = 10  # most need one
_ROUNDING = 4e-15  # of the terms of u


def newton_planar(A: Array, w: Array, mu: Array, active: Array) -> tuple[Array, Array]:
    """r (p, 2) and turns, for A (p, 2, p, 2), w (p, 2), mu (p,) and active (p,)."""
    p, m = w.shape
    A, flat = A.reshape(p * m, p * m), range(p * m)
    a = [[A[min(i, j), max(i, j)] for j in flat] for i in flat]
    free, law = list(w.reshape(-1)), (list(mu), list(active))

    def unfinished(state):
        r, u, turns = state
        return _left(r, u, free, *law) & (turns < _TURNS)

    def turn(state):
        r, u, turns = state
        K, f, moves = _equations(a, r, u, *law)
        solve = _factored(K)
        d = solve(f)
        more = solve([jnp.where(on, _EPS * x, 0.0) for on, x in zip(moves, d, strict=True)])
        d = [x + y for x, y in zip(d, more, strict=True)]
        r = [x + y for x, y in zip(r, d, strict=True)]
        u = [x + _dot(row, d) for x, row in zip(u, a, strict=True)]
        return r, u, turns + 1

    start = [jnp.zeros(())] * (p * m), free, jnp.array(0)
    r, _, turns = jax.lax.while_loop(unfinished, turn, turn(start))
    return jnp.stack(r).reshape(p, m), turns


def _dot(x, y):
    return reduce(jnp.add, map(jnp.multiply, x, y))


def _left(r, u, w, mu, active):
    """Whether more than rounding is left of (4) of cones.py."""
    off, size = [], [*r, *w]
    for k, on in enumerate(active):
        (r_n, r_t), (u_n, u_t) = r[2 * k : 2 * k + 2], u[2 * k : 2 * k + 2]
        push = jnp.where(r_n > u_n, r_n - u_n, 0.0)
        reach, along = mu[k] * push, r_t - u_t
        along = jnp.where(along > reach, reach, jnp.where(along < -reach, -reach, along))
        off += [jnp.where(on, r_n - push, 0.0), jnp.where(on, r_t - along, 0.0)]
    return ~(_dot(off, off) <= _ROUNDING**2 * _dot(size, size))


def _equations(a, r, u, mu, active):
    """The matrix and the right-hand side of (2), and which of its rows ask for u = 0."""
    flat = range(len(r))
    K, f, moves = [], [], []
    for k, on in enumerate(active):
        n, t = 2 * k, 2 * k + 1
        push, along = r[n] - u[n], r[t] - u[t]
        closed = on & (push > 0.0)
        sticks = closed & (jnp.abs(along) <= mu[k] * push)
        slope = jnp.where(closed, jnp.where(along < 0.0, -mu[k], mu[k]), 0.0)
        normal = [jnp.where(closed, a[n][j], 0.0) for j in flat]
        tangent = [jnp.where(sticks, a[t][j], 0.0) for j in flat]
        normal[n] = jnp.where(closed, a[n][n] + _EPS, 1.0)
        tangent[n] = jnp.where(sticks, a[t][n], -slope)
        tangent[t] = jnp.where(sticks, a[t][t] + _EPS, 1.0)
        K += [normal, tangent]
        f += [jnp.where(closed, -u[n], -r[n]), jnp.where(sticks, -u[t], slope * r[n] - r[t])]
        moves += [closed, sticks]
    return K, f, moves


def _factored(K):
    """f -> K^-1 f, by blocks of two, one contact after the other."""
    size, K = len(K), [list(row) for row in K]
    D, below = {}, {}
    for n in range(0, size, 2):
        t = n + 1
        D[n] = K[n][n] * K[t][t] - K[n][t] * K[t][n]
        for i in range(t + 1, size):
            x = (K[i][n] * K[t][t] - K[i][t] * K[t][n]) / D[n]
            y = (K[i][t] * K[n][n] - K[i][n] * K[n][t]) / D[n]
            below[i, n] = x, y
            for j in range(t + 1, size):
                K[i][j] = K[i][j] - x * K[n][j] - y * K[t][j]

    def solve(f):
        f = list(f)
        for (i, n), (x, y) in below.items():
            f[i] = f[i] - x * f[n] - y * f[n + 1]
        for n in reversed(range(0, size, 2)):
            t = n + 1
            for j in range(t + 1, size):
                f[n], f[t] = f[n] - K[n][j] * f[j], f[t] - K[t][j] * f[j]
            x = (K[t][t] * f[n] - K[n][t] * f[t]) / D[n]
            y = (K[n][n] * f[t] - K[t][n] * f[n]) / D[n]
            f[n], f[t] = x, y
        return f

    return solve
