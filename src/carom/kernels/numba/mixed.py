"""Coulomb's law where mu differs from contact to contact: sweeps as in sliding.py, mu (p,).

Contact after contact is set to sliding.py, (5), with its own mu_k, from an extrapolated point; the
momentum starts again where it points uphill and after every window of sweeps, and sweeps are damped
for a while in turn.  The residual is (6) against what is allowed there.
"""

import numpy as np
from numba import njit

from carom.kernels.numba.projection import _FUSED, _RENEW, _SHARE, largest
from carom.kernels.numba.sliding import (
    _CEILING,
    _DAMPED,
    _DAMPING,
    _PHASE,
    _WINDOW,
    _pushed,
    _relative,
    _solved,
    allow,
    law_residual,
    push,
    steps_of,
)


@njit(cache=True, fastmath=_FUSED)
def _sweep(i_of, j_of, normal, arm, b, mu, inverse, step, beta, u, u_before, lam, before):
    """One accelerated sweep; the restart sum."""
    uphill = 0.0
    for i in range(u.shape[0]):
        for d in range(6):
            now = u[i, d]
            u[i, d] = now + beta * (now - u_before[i, d])
            u_before[i, d] = now
    old, y = np.empty(4), np.empty(4)
    for k in range(i_of.shape[0]):
        i, j = i_of[k], j_of[k]
        w = _relative(k, i, j, normal, arm, b, u)
        for d in range(4):
            old[d] = lam[k, d]
            y[d] = old[d] + beta * (old[d] - before[k, d])
            before[k, d] = old[d]
        new = _solved(y[0], y[1], y[2], y[3], w, step[k, 0], step[k, 1], mu[k])
        lam[k, 0], lam[k, 1], lam[k, 2], lam[k, 3] = new
        for d in range(4):
            uphill -= (lam[k, d] - y[d]) * (lam[k, d] - old[d]) / step[k, min(d, 1)]
        _pushed(
            *(k, i, j, normal, arm, inverse),
            *(new[0] - y[0], new[1] - y[1], new[2] - y[2], new[3] - y[3]),
            u,
        )
    return uphill


@njit(cache=True)
def lacking(start, i_of, j_of, normal, arm, b, mu, inverse, free, lam, most, relative):
    """(p,) R_k / tol_k of lam, with u by (3)."""
    u = free.copy()
    return _measured(start, i_of, j_of, normal, arm, b, mu, inverse, free, lam, most, relative, u)


@njit(cache=True)
def _measured(start, i_of, j_of, normal, arm, b, mu, inverse, free, lam, most, relative, u):
    """The same; u is set, anew, so that no rounding of sweeps is left in it."""
    u[:] = free
    push(start, i_of, j_of, normal, arm, inverse, lam, u)
    rows = i_of.shape[0]
    allowed, found = np.empty(rows), np.empty(rows)
    allow(i_of, j_of, arm, b, free, u, most, relative, allowed)
    step = steps_of(i_of, j_of, arm, inverse)
    for k in range(rows):
        w = _relative(k, i_of[k], j_of[k], normal, arm, b, u)
        R = law_residual(w, lam[k], step[k, 0], step[k, 1], mu[k])
        found[k] = R / allowed[k] if R > 0.0 else R  # 0 / 0 is none
    return found


@njit(cache=True)
def accelerated_gauss_seidel(
    start, i_of, j_of, normal, arm, b, mu, inverse, free, lam, most, relative, iterations
):
    """u, the residual in terms of what is allowed, and sweeps; ``lam`` (p, 4) is overwritten."""
    step = steps_of(i_of, j_of, arm, inverse)
    taken, damped = step, step / (1.0 + _DAMPING)
    u, before = free.copy(), lam.copy()
    push(start, i_of, j_of, normal, arm, inverse, lam, u)
    u_before, theta, beta, done, look = u.copy(), 1.0, 0.0, 0, _WINDOW
    while True:
        ends = done >= iterations
        if ends or done % _RENEW == 0:
            lacks = _measured(
                start, i_of, j_of, normal, arm, b, mu, inverse, free, lam, most, relative, u
            )
            left = largest(lacks)
            if ends or not left > _SHARE:
                return u, left, done
        uphill = _sweep(
            i_of, j_of, normal, arm, b, mu, inverse, taken, beta, u, u_before, lam, before
        )
        done += 1
        if uphill > 0.0:
            theta, beta = 1.0, 0.0
        else:
            following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * theta * theta))
            theta, beta = following, min((theta - 1.0) / following, _CEILING)
        if done >= look:
            slowly = (done // _PHASE) % 2 == 1
            taken, look = (damped, done + _DAMPED) if slowly else (step, done + _WINDOW)
            theta, beta = 1.0, 0.0
