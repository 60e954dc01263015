"""Where functions of a step stay positive: polynomials through nodes, bounded piece by piece.

On a step [0, h], with s = t/h, the motion is known at the lengths KNOTS of the step, with its rate:

    x(s) = sum_k A_k(s) x_k + h B_k(s) x'_k,    s_k in KNOTS, of degree 7 (Hermite)           (1)

A function f of it (a gap, a multiplier) is interpolated by a polynomial p of degree 15 at Chebyshev
nodes.  What p leaves out is estimated by its last coefficients c_12..c_15 and measured at further
points s_m:

    |f - p| <= r,    r = 4 sum |c_k|  +  4 max |f(s_m) - p(s_m)|                              (2)

On each of PIECES equal pieces of the step, p lies above the least of its Bernstein coefficients b:

    f >= min b - r                                                                            (3)

A piece where (3) is positive holds no zero: a bound for p, and for f to the extent of (2).  A piece
with b_0 > r, b_15 < -r and a single change of sign in b holds one zero of p.
"""

from math import comb
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.polynomial import chebyshev, polynomial

from carom.projection.metric import times

KNOTS = np.array([0.0, 0.25, 0.75, 1.0])
DEGREE = 15
PIECES = 8
_TAIL = 4  # coefficients
TURNS = 20  # of the search for a zero
_CHECKS = np.array([0.0, 0.0871, 0.3437, 0.6126, 0.8909, 1.0])  # of (2); not among the nodes

_NODES = 0.5 - 0.5 * np.cos((2 * np.arange(DEGREE + 1) + 1) * np.pi / (2 * DEGREE + 2))
POINTS = np.concatenate([_NODES, _CHECKS])  # (m,) where a function is asked for; the last is 1
START = DEGREE + 1  # which of them is 0


def _hermite():
    """A, B of (1) and their slopes at POINTS, each (m, 4)."""
    s, x, k = KNOTS - 0.5, POINTS[:, None] - 0.5, np.arange(8)

    def powers(x):
        return x**k, np.where(k > 0, k * x ** np.maximum(k - 1, 0), 0.0)

    inverse = np.linalg.inv(np.concatenate(powers(s[:, None])))
    value, slope = (rows @ inverse for rows in powers(x))
    return value[:, :4], value[:, 4:], slope[:, :4], slope[:, 4:]


_A, _B, _DA, _DB = _hermite()


def _piecewise():
    """From node values to Chebyshev coefficients, and to Bernstein ones of each piece."""
    n = DEGREE
    to_chebyshev = np.linalg.inv(chebyshev.chebvander(2 * _NODES - 1, n))  # (16, 16)
    monomials = np.zeros((PIECES, n + 1, n + 1))
    for i in range(PIECES):  # u in [0, 1] on the piece, x = 2 (i + u) / PIECES - 1
        line = [2 * i / PIECES - 1.0, 2.0 / PIECES]
        before, now = np.array([1.0]), np.array(line)
        rows = [before, now]
        for _ in range(n - 1):
            before, now = now, polynomial.polysub(2 * polynomial.polymul(line, now), before)
            rows.append(now)
        for j, row in enumerate(rows):
            monomials[i, : len(row), j] = row
    choose = np.array([[comb(k, j) / comb(n, j) for j in range(n + 1)] for k in range(n + 1)])
    return to_chebyshev, choose @ monomials @ to_chebyshev


_COEFFICIENTS, _BERNSTEIN = _piecewise()
_WEIGHTS = chebyshev.chebint(np.eye(DEGREE + 1), lbnd=-1, axis=0).sum(axis=0) @ _COEFFICIENTS / 2
_AT_CHECKS = chebyshev.chebvander(2 * _CHECKS - 1, DEGREE) @ _COEFFICIENTS  # (checks, 16)


def dense(x: Array, rate: Array, h: Array) -> tuple[Any, Any]:
    """(1) at POINTS: values and rates (m, n), from x and rate (4, n) at KNOTS."""
    return times(_A, x) + h * times(_B, rate), times(_DA, x) / h + times(_DB, rate)


def integral(f: Array) -> Any:
    """(n,) over the step, as a part of it, of f (m, n) given at POINTS."""
    return times(_WEIGHTS, f[: DEGREE + 1])


class Pieces(eqx.Module):
    """What is known of functions f (m, p) given at POINTS."""

    bernstein: Array  # (pieces, 16, p)
    rest: Array  # (p,) r of (2)

    @staticmethod
    def of(f: Array) -> "Pieces":
        """From values at POINTS."""
        nodes, checks = f[: DEGREE + 1], f[DEGREE + 1 :]
        tail = jnp.sum(jnp.abs(times(_COEFFICIENTS[-_TAIL:], nodes)), axis=0)
        fault = jnp.max(jnp.abs(checks - times(_AT_CHECKS, nodes)), axis=0)
        # in a loop: what reads them does not compute them again
        bernstein = jax.lax.map(lambda B: times(B, nodes), jnp.asarray(_BERNSTEIN))
        return Pieces(bernstein, 4.0 * (tail + fault))

    def raised(self, by: Array) -> "Pieces":
        """Of f + by, (p,)."""
        return Pieces(self.bernstein + by, self.rest)

    @property
    def least(self) -> Array:
        """(pieces, p) the bound (3)."""
        return jnp.min(self.bernstein, axis=1) - self.rest

    def crossing(self) -> Array:
        """(pieces, p) bool: one zero, downwards."""
        b, r = self.bernstein, self.rest
        changes = jnp.sum((b[:, 1:] < 0.0) != (b[:, :-1] < 0.0), axis=1)
        return (b[:, 0] > r) & (b[:, -1] < -r) & (changes == 1)

    def secant(self) -> Array:
        """(pieces, p) where the chord of each piece is zero, as a part of the step."""
        first, last = self.bernstein[:, 0], self.bernstein[:, -1]
        u = first / jnp.where(first == last, 1.0, first - last)
        return (jnp.arange(PIECES)[:, None] + jnp.clip(u, 0.0, 1.0)) / PIECES

    def zero(self, piece: Array, i: Array, turns: Any = TURNS) -> Array:
        """The zero of function i in a piece that it crosses, as a part of the step.

        Newton's method, or bisection where that leaves what is known to hold the zero; p and its
        slope by de Casteljau's, b_k <- (1 - u) b_k + u b_{k+1}.
        """
        b = self.bernstein[piece, :, i]

        def turn(_, loop):
            u, low, high = loop
            c = jax.lax.fori_loop(0, DEGREE - 1, lambda _, c: c + u * (jnp.roll(c, -1) - c), b)
            slope = DEGREE * (c[1] - c[0])
            p = c[0] + u * (c[1] - c[0])
            low, high = jnp.where(p > 0.0, u, low), jnp.where(p > 0.0, high, u)
            next = u - p / jnp.where(slope == 0.0, 1.0, slope)
            return jnp.where((next >= low) & (next <= high), next, 0.5 * (low + high)), low, high

        start = (self.secant()[piece, i] * PIECES - piece, jnp.zeros(()), jnp.ones(()))
        return (piece + jax.lax.fori_loop(0, turns, turn, start)[0]) / PIECES
