"""The projection of many bodies where sweeps crawl: the method of multipliers.

Sweeps take as many turns as multipliers are large: where rows nearly oppose each other, as in a
lattice that fills its box, these are thousands of times the momentum that is stopped.  About a
guess c of them (Hestenes 1969, Powell 1969; Rockafellar 1976: the proximal point of the dual),

    u = argmin 1/2 |u - free|^2_M + sum_k s_k/2 l_k(u)^2,   l_k(u) = max(0, c_k - w_k(u)/s_k)  (1)

with w = G u + b and s_k = eps A_kk has no constraints.  Its gradient and second derivative are

    M (u - free) - G^T l(u),            M + G^T diag(1/s_k where l_k > 0) G                   (2)

so that Newton's method ends at the minimum after finitely many steps; along each the slope only
grows, and it goes to where the slope is 0.  Of the rows where l_k > 0 there

    M (u - free) = G^T l,               G u + b + s (l - c) = 0                               (3)

gives l without the rounding of w over s.  Then c <- l, which makes the error smaller by a factor
of the order of eps, and eps falls.  What does not change any more has w_k = 0 where l_k > 0 and
w_k >= 0 elsewhere: the projection.
"""

from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import linalg

_EPS, _FALL, _LEAST = 1e-3, 0.1, 1e-12
_OUTER, _INNER = 40, 60  # turns
_DESCENT = 0.1  # of the slope along a Newton step, which may be left at its end
_HALVES = 30  # of it, where more is left
_ENOUGH, _ROUNDING = 1e-13, 1e-9  # of the terms of the gradient: it is 0, it may be as it falls
# The matrix of (2) is symmetric and positive: any pivot will do
_POSITIVE: Any = {
    "permc_spec": "MMD_AT_PLUS_A",
    "diag_pivot_thresh": 0.0,
    "options": {"SymmetricMode": True},
}


def multipliers(mass, G, b, free, lam, good) -> tuple[np.ndarray, int]:
    """lam (p,) >= 0 of the projection of ``free`` (n,) with masses (n,), from a guess; and turns.

    ``G`` (p, n) is sparse.  ``good(lam)`` says when it will do.
    """
    G = sparse.csr_matrix(G)
    stiff = np.asarray(G.multiply(G) @ (1.0 / mass)).ravel()
    stiff[stiff == 0.0] = np.max(stiff, initial=0.0) or 1.0  # of rows that can do nothing
    c, u, eps, turns = lam, free + G.T @ lam / mass, _EPS, 0
    for _ in range(_OUTER):
        given = mass, G, b, free, c, eps * stiff
        u, made = _minimum(*given, u)
        c, turns = _exactly(*given, u), turns + made
        if not np.all(np.isfinite(c)) or good(c):
            break
        eps = max(_FALL * eps, _LEAST)
    return c, turns


def _pushed(G, b, c, s, u):
    """l(u)"""
    return np.maximum(c - (G @ u + b) / s, 0.0)


def _minimum(mass, G, b, free, c, s, u):
    """u of (1), from a guess, and the Newton steps it took."""
    last = np.inf
    for turn in range(_INNER):
        lam = _pushed(G, b, c, s, u)
        slope = mass * (u - free) - G.T @ lam
        left = np.max(np.abs(slope), initial=0.0)
        size = np.max(mass * np.abs(u - free), initial=0.0) + np.max(lam, initial=0.0)
        if left <= _ENOUGH * size or (left >= last and left <= _ROUNDING * size):
            return u, turn
        last, rows = left, lam > 0.0
        near = G[rows]
        H = sparse.diags(mass) + near.T @ sparse.diags(1.0 / s[rows]) @ near  # (2)
        step = -linalg.splu(sparse.csc_matrix(H), **_POSITIVE).solve(slope)
        u = u + _part(mass, G, b, free, c, s, u, step) * step
    return u, _INNER


def _part(mass, G, b, free, c, s, u, step):
    """Of a Newton step, to where the slope along it is 0."""
    w, dw = G @ u + b, G @ step
    heavy, kick = mass @ step**2, mass @ ((u - free) * step)

    def along(part):
        return kick + part * heavy - np.maximum(c - (w + part * dw) / s, 0.0) @ dw

    if along(1.0) <= -_DESCENT * along(0.0):
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(_HALVES):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if along(middle) < 0.0 else (low, middle)
    return high


def _exactly(mass, G, b, free, c, s, u):
    """l of (3), at the u of (1)."""
    rows = np.flatnonzero(_pushed(G, b, c, s, u) > 0.0)
    near = G[rows]
    K = sparse.bmat([[sparse.diags(mass), -near.T], [near, sparse.diags(s[rows])]], format="csc")
    x = linalg.splu(K).solve(np.concatenate([mass * free, s[rows] * c[rows] - b[rows]]))
    lam = np.zeros(len(c))
    lam[rows] = np.maximum(x[len(mass) :], 0.0)
    return lam
