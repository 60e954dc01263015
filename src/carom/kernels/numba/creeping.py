"""Sweeps over contacts of spheres that yield: the proximal problem of Coulomb's law.

About a centre c, with a = (a_n, a_t, a_r) of sliding.py and rolling.py, part by part of lam,

    w = H u + b + eps a (lam - c)                                                             (1)

takes the place of w in the law.  One contact is solved as there, with (1 + eps) a in the place of
a.  For eps large enough sweeps do not run in circles, and where lam = c its answer is the law's.
The velocities of the bodies are what is kept, not H M^-1 H^T: a sweep reads as much as one of
sliding.py, less than half of what the matrix has.
"""

import math

import numpy as np

from carom.kernels.numba import rolling
from carom.kernels.numba.disk import kernel
from carom.kernels.numba.projection import _FUSED
from carom.kernels.numba.sliding import _pushed, _relative, _solved, law_residual, steps_of

_WINDOW, _CEILING = 20, 0.98  # sweeps, after which the momentum starts again; its most


@kernel(fastmath=_FUSED)
def _sweep(i_of, j_of, normal, arm, b, mu, inverse, step, eps, centre, beta, u, lam, before):
    """One accelerated sweep; the restart sum."""
    uphill, part = 0.0, 1.0 / (1.0 + eps)
    for row in range(i_of.shape[0]):
        k = np.uint64(row)
        i, j = np.uint64(i_of[k]), np.uint64(j_of[k])
        on, ox, oy, oz = lam[k, 0], lam[k, 1], lam[k, 2], lam[k, 3]
        yn = on + beta * (on - before[k, 0])
        yx = ox + beta * (ox - before[k, 1])
        yy = oy + beta * (oy - before[k, 2])
        yz = oz + beta * (oz - before[k, 3])
        w = _relative(k, i, j, normal, arm, b, u)
        an, at = 1.0 / step[k, 0], 1.0 / step[k, 1]
        w = (
            w[0] + eps * an * (yn - centre[k, 0]),
            w[1] + eps * at * (yx - centre[k, 1]),
            w[2] + eps * at * (yy - centre[k, 2]),
            w[3] + eps * at * (yz - centre[k, 3]),
        )
        n, x, y, z = _solved(yn, yx, yy, yz, w, part * step[k, 0], part * step[k, 1], mu[k])
        before[k, 0], before[k, 1], before[k, 2], before[k, 3] = on, ox, oy, oz
        lam[k, 0], lam[k, 1], lam[k, 2], lam[k, 3] = n, x, y, z
        cn, cx, cy, cz = n - yn, x - yx, y - yy, z - yz
        uphill -= cn * (n - on) * an + (cx * (x - ox) + cy * (y - oy) + cz * (z - oz)) * at
        _pushed(k, i, j, normal, arm, inverse, cn, cx, cy, cz, u)
    return uphill


@kernel(fastmath=_FUSED)
def _shifted(w, a, lam, centre, first):
    """(1), three parts of it."""
    return (
        w[0] + a * (lam[first] - centre[first]),
        w[1] + a * (lam[first + 1] - centre[first + 1]),
        w[2] + a * (lam[first + 2] - centre[first + 2]),
    )


@kernel(fastmath=_FUSED)
def _seen(k, i, j, normal, arm, b, u, step, eps, lam, centre):
    """w (4), and o (3) of (1), which is 0 without couples."""
    w = _relative(k, i, j, normal, arm, b, u)
    n = w[0] + eps / step[0] * (lam[0] - centre[0])
    t = _shifted((w[1], w[2], w[3]), eps / step[1], lam, centre, 1)
    o = 0.0, 0.0, 0.0
    if step.shape[0] > 2:
        o = _shifted(rolling.turning(k, i, j, b, u), eps / step[2], lam, centre, 4)
    return (n, t[0], t[1], t[2]), o


@kernel(fastmath=_FUSED)
def _rolling_sweep(
    i_of, j_of, normal, arm, b, law, inverse, step, eps, centre, beta, u, lam, before
):
    """The same with couples."""
    uphill, stiff = 0.0, step / (1.0 + eps)
    y, new = np.empty(7), np.empty(7)
    for k in range(i_of.shape[0]):
        i, j = i_of[k], j_of[k]
        for d in range(7):
            y[d] = lam[k, d] + beta * (lam[k, d] - before[k, d])
        w, o = _seen(k, i, j, normal, arm, b, u, step[k], eps, y, centre[k])
        c = arm[k, 0] * inverse[i, 1] - arm[k, 1] * inverse[j, 1]
        rolling.solved(y, w, o, normal[k], stiff[k], c, law[k], new)
        for d in range(7):
            uphill -= (new[d] - y[d]) * (new[d] - lam[k, d]) / step[k, (d + 2) // 3]
            before[k, d], lam[k, d] = lam[k, d], new[d]
            new[d] -= y[d]
        _pushed(k, i, j, normal, arm, inverse, new[0], new[1], new[2], new[3], u)
        rolling.turned(i, j, inverse, new[4], new[5], new[6], u)
    return uphill


@kernel()
def sweeps(i_of, j_of, normal, arm, b, law, inverse, u, lam, centre, eps, count):
    """So many sweeps over the proximal problem from lam, which is overwritten, and so is its u."""
    step = steps_of(i_of, j_of, arm, inverse, law)
    before, last, theta, beta = lam.copy(), u.copy(), 1.0, 0.0
    rows = i_of, j_of, normal, arm, b, law, inverse
    for turn in range(1, count + 1):
        for i in range(u.shape[0]):
            for d in range(6):
                now = u[i, d]
                u[i, d], last[i, d] = now + beta * (now - last[i, d]), now
        if law.ndim == 1:
            uphill = _sweep(*rows, step, eps, centre, beta, u, lam, before)
        else:
            uphill = _rolling_sweep(*rows, step, eps, centre, beta, u, lam, before)
        if uphill > 0.0 or turn % _WINDOW == 0:
            theta, beta = 1.0, 0.0
        else:
            following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * theta * theta))
            theta, beta = following, min((theta - 1.0) / following, _CEILING)


@kernel()
def lacks(i_of, j_of, normal, arm, b, law, inverse, u, lam, centre, eps):
    """What all contacts lack of the proximal problem, a velocity: the root of the sum of R_k^2."""
    step, total = steps_of(i_of, j_of, arm, inverse, law), 0.0
    for k in range(i_of.shape[0]):
        w, o = _seen(k, i_of[k], j_of[k], normal, arm, b, u, step[k], eps, lam[k], centre[k])
        if law.ndim == 1:
            R = law_residual(w, lam[k], step[k, 0], step[k, 1], law[k])
        else:
            R = law_residual(w, lam[k], step[k, 0], step[k, 1], law[k, 0])
            R = max(R, rolling.law_residual(o, lam[k], normal[k], step[k, 2], law[k]))
        total += R * R
    return math.sqrt(total)
