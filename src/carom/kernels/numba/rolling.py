"""Rolling and twisting resistance: the couple of one contact of spheres that spin.

Beside the impulse of sliding.py a contact has a couple C, which acts on j and, reversed, on i, and
works on the relative angular velocity o,

    o = w_j - w_i + b_o,      I_j Dw_j = C,      I_i Dw_i = -C                                (1)

Both have a part along n, the twist, and a part across it, the roll.  Each is bounded by the normal
impulse and opposes its own velocity (l_r and l_n are lengths),

    |C_r| <= l_r lam_n,   C_r = -l_r lam_n o_r / |o_r|  where  o_r != 0,
    |C_n| <= l_n lam_n,   C_n = -l_n lam_n sign(o_n)    where  o_n != 0                       (2)

so that with Coulomb's law the cone of a contact is |lam_t| <= mu lam_n, |C_r| <= l_r lam_n and
|C_n| <= l_n lam_n (of five dimensions without the twist: Acary and Bourrier, 2021).

For one contact C_n couples with nothing, nor does lam_n: with a_r = 1/I_i + 1/I_j

    C_n = the number nearest to  C_n - o_n / a_r  in  [-l_n lam_n, l_n lam_n]                 (3)

The roll couples with the slip.  With K = C x n and z = o x n, across n, and c = r_i/I_i - r_j/I_j

    w_t = g_t + a_t lam_t + c K,      z = g_z + c lam_t + a_r K                               (4)

is the gradient of a strictly convex function (a_t a_r > c^2), which by the law is least over the
discs |lam_t| <= s = mu lam_n and |K| <= q = l_r lam_n.  Where K is inside of its disc it can be
left out, and as (4) has the same numbers in all directions there is a closed form,

    lam_t = D(-(g_t - c g_z / a_r) / (a_t - c^2 / a_r), s),   K = -(g_z + c lam_t) / a_r      (5)

if |K| <= q, and likewise with both exchanged; where both are at the edge each is set in turn,

    lam_t = D(-(g_t + c K) / a_t, s),      K = D(-(g_z + c lam_t) / a_r, q)                   (6)

which contracts by c^2 / (a_t a_r) or better (5/7 for a ball on a wall, 0 for two equal ones).

What (2) lacks is a velocity, with a length R that makes it one,

    R a_r max( |C_r - D(C_r - o_r / a_r, l_r lam_n)|,  |C_n - (3)| )                          (7)
"""

import math

from carom.kernels.numba.disk import kernel
from carom.kernels.numba.projection import _FUSED

_TURNS, _SAME = 40, 1e-14  # of (6) at most, and the relative change that ends them


@kernel(fastmath=_FUSED)
def turning(k, i, j, b, u):
    """o of (1)."""
    return (
        u[j, 3] - u[i, 3] + b[k, 4],
        u[j, 4] - u[i, 4] + b[k, 5],
        u[j, 5] - u[i, 5] + b[k, 6],
    )


@kernel(fastmath=_FUSED)
def turned(i, j, inverse, x, y, z, u):
    """(1) for the couple (x, y, z); bodies without inverse mass are shared: not written."""
    if inverse[i, 0] > 0.0:
        s = inverse[i, 1]
        u[i, 3] -= s * x
        u[i, 4] -= s * y
        u[i, 5] -= s * z
    if inverse[j, 0] > 0.0:
        s = inverse[j, 1]
        u[j, 3] += s * x
        u[j, 4] += s * y
        u[j, 5] += s * z


@kernel(fastmath=_FUSED)
def _across(a, n):
    """A x n."""
    return a[1] * n[2] - a[2] * n[1], a[2] * n[0] - a[0] * n[2], a[0] * n[1] - a[1] * n[0]


@kernel(fastmath=_FUSED)
def _sum(p, a, q, b):
    """P a + q b."""
    return p * a[0] + q * b[0], p * a[1] + q * b[1], p * a[2] + q * b[2]


@kernel(fastmath=_FUSED)
def _inside(a, most):
    """D(a, most), and whether that is a."""
    square = a[0] * a[0] + a[1] * a[1] + a[2] * a[2]
    if square <= most * most:
        return a, True
    part = most / math.sqrt(square)
    return (part * a[0], part * a[1], part * a[2]), False


@kernel(fastmath=_FUSED)
def _least(g_t, g_z, a_t, a_r, c, s, q, K):
    """lam_t and K of (5) or, from K, (6)."""
    T, _ = _inside(_sum(-1.0, g_t, c / a_r, g_z), s * (a_t - c * c / a_r))
    T = _sum(1.0 / (a_t - c * c / a_r), T, 0.0, T)
    free = _sum(-1.0 / a_r, g_z, -c / a_r, T)
    if _inside(free, q)[1]:
        return T, free
    free, _ = _inside(_sum(-1.0, g_z, c / a_t, g_t), q * (a_r - c * c / a_t))
    free = _sum(1.0 / (a_r - c * c / a_t), free, 0.0, free)
    T = _sum(-1.0 / a_t, g_t, -c / a_t, free)
    if _inside(T, s)[1]:
        return T, free
    for _ in range(_TURNS):
        T, _ = _inside(_sum(-1.0 / a_t, g_t, -c / a_t, K), s)
        last = K
        K, _ = _inside(_sum(-1.0 / a_r, g_z, -c / a_r, T), q)
        change = abs(K[0] - last[0]) + abs(K[1] - last[1]) + abs(K[2] - last[2])
        if change <= _SAME * q:
            break
    return T, K


@kernel(fastmath=_FUSED)
def solved(y, w, o, n, step, c, law, new):
    """One contact by (3) to (6) from y (7,), with w (4) and o (3) there, into ``new`` (7,)."""
    push = max(y[0] - step[0] * w[0], 0.0)
    new[:] = 0.0
    if push == 0.0:
        return
    a_t, a_r = 1.0 / step[1], 1.0 / step[2]
    T, C = (y[1], y[2], y[3]), (y[4], y[5], y[6])
    K = _across(C, n)
    g_t = _sum(-a_t, T, -c, K)
    g_z = _sum(-c, T, -a_r, K)
    z = _across(o, n)
    g_t = g_t[0] + w[1], g_t[1] + w[2], g_t[2] + w[3]
    T, K = _least(g_t, _sum(1.0, g_z, 1.0, z), a_t, a_r, c, law[0] * push, law[1] * push, K)
    along = n[0] * C[0] + n[1] * C[1] + n[2] * C[2]
    along -= step[2] * (n[0] * o[0] + n[1] * o[1] + n[2] * o[2])
    most = law[2] * push
    along = min(max(along, -most), most)
    C = _across(n, K)
    new[0], new[1], new[2], new[3] = push, T[0], T[1], T[2]
    new[4], new[5], new[6] = C[0] + along * n[0], C[1] + along * n[1], C[2] + along * n[2]


@kernel(fastmath=_FUSED)
def law_residual(o, lam, n, step_r, law):
    """(7), from o (3) and lam (7,)."""
    C, push = (lam[4], lam[5], lam[6]), max(lam[0], 0.0)
    o_n = n[0] * o[0] + n[1] * o[1] + n[2] * o[2]
    C_n = n[0] * C[0] + n[1] * C[1] + n[2] * C[2]
    across, roll = _sum(1.0, o, -o_n, n), _sum(1.0, C, -C_n, n)
    nearest, _ = _inside(_sum(1.0, roll, -step_r, across), law[1] * push)
    x, y, z = _sum(1.0, roll, -1.0, nearest)
    lacks = math.sqrt(x * x + y * y + z * z)
    most = law[2] * push
    twist = abs(C_n - min(max(C_n - step_r * o_n, -most), most))
    found = lacks if lacks > twist or lacks != lacks else twist
    return law[3] * found / step_r
