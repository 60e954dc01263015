"""Coulomb's law over the contacts of spheres with spin: an accelerated Gauss-Seidel method.

A body has a velocity u = (v, w), an inverse mass 1/m and an inverse inertia 1/I.  At the contact k
of bodies i and j, n from i to j, with arms r_i and r_j, relative velocity and impulse are

    d   = v_j - v_i - (r_j w_j + r_i w_i) x n                                                 (1)
    w_n = n . d + b_n,     w_t = d - (n . d) n + b_t,     P = lam_n n + lam_t                 (2)
    m_j Dv_j = P,   m_i Dv_i = -P,   I_j Dw_j = -r_j n x lam_t,   I_i Dw_i = -r_i n x lam_t   (3)

(lam_t and w_t are vectors of space, orthogonal to n: no frame is chosen.)  Coulomb's law, mu (p,),

    0 <= lam_n  perp  w_n >= 0,      |lam_t| <= mu lam_n,
    lam_t = -mu lam_n w_t / |w_t|  where  w_t != 0,                                           (4)

is for one contact, whose a_n = 1/m_i + 1/m_j and a_t = a_n + r_i^2/I_i + r_j^2/I_j do not couple,

    lam_n = max(lam_n - w_n / a_n, 0),    lam_t = D(lam_t - w_t / a_t, mu lam_n)              (5)

with D(x, s) the point nearest to x of the disc |x| <= s.  One sweep sets contact after contact to
(5), which solves it exactly; sweeps are accelerated, ended locally and made in slabs as in
projection.py.  The residual is what (5) lacks, a velocity,

    R_k = max( |min(w_n, a_n lam_n)|,  a_t |lam_t - D(lam_t - w_t / a_t, mu lam_n)| )         (6)

against what projection.py, (4), allows, the change of a body's velocity being the larger of |Dv|
and r |Dw|.

With rolling and twisting resistance (rolling.py) lam has the couple besides, (p, 7), and so have b
and w with the relative angular velocity; mu is then ``law`` (p, 4), mu, two lengths and R.  Which
of the two it is, is known when this is compiled: without resistance nothing is computed for it.

The law is no projection, and sweeps need not end.  Momentum that grows keeps sweeps
in circles, which the restart sum of projection.py does not see (it was never positive in two
thousand sweeps that ran in circles): it starts again after every window of sweeps.  Where thousands
of contacts share a body it grows without end, within a window: so it starts again too, and its
ceiling 1 - c falls to 1 - 2 c, where what a sweep changes,

    sum_k a_n (l_next - y)_n^2 + a_t |(l_next - y)_t|^2     (and a_r of couples),             (7)

is _SWING times what it was, which the sweeps of no ordinary pile are.  What runs in
circles all the same ends with shorter windows and larger a_n and a_t, the damping, or the other way
round: where contacts are many they take turns.  Sweeps that do not end are given up, and
worlds/spheres/wedged.py goes on.
"""

import numpy as np
from numba import prange

from carom.kernels.numba import rolling
from carom.kernels.numba.disk import kernel
from carom.kernels.numba.projection import (
    _ELSEWHERE,
    _FUSED,
    _LOCAL,
    _LOOKS,
    _PATIENCE,
    _PIECE,
    _RENEW,
    _ROUNDING,
    _SHARE,
    _STALL,
    _opens_at,
    _together,
    copy,
    largest,
    rows_of,
)

_SWEEPS = 3000  # the most
_CEILING = 0.98  # of the momentum
_SWING = 100.0  # times the least (7) since the last start: too much momentum
_WINDOW, _DAMPED = 30, 15  # sweeps, after which the momentum starts again, and of damped ones
_DAMPING, _PHASE = 0.2, 300  # of these; sweeps without, and then as many with it, in turn
_MANY = 1000  # contacts: of fewer, Newton's method takes less time
_FIRST = 2  # sweeps, which may be all, however much they changed
_LOCALLY = 120  # sweeps, after which a local end is worth a trial again


@kernel(fastmath=_FUSED)
def _relative(k, i, j, normal, arm, b, u):
    """w_n and w_t of (2)."""
    nx, ny, nz = normal[k, 0], normal[k, 1], normal[k, 2]
    dx, dy, dz = u[j, 0] - u[i, 0], u[j, 1] - u[i, 1], u[j, 2] - u[i, 2]
    ri, rj = arm[k, 0], arm[k, 1]
    sx = rj * u[j, 3] + ri * u[i, 3]
    sy = rj * u[j, 4] + ri * u[i, 4]
    sz = rj * u[j, 5] + ri * u[i, 5]
    along = nx * dx + ny * dy + nz * dz
    return (
        along + b[k, 0],
        dx - along * nx - (sy * nz - sz * ny) + b[k, 1],
        dy - along * ny - (sz * nx - sx * nz) + b[k, 2],
        dz - along * nz - (sx * ny - sy * nx) + b[k, 3],
    )


@kernel(fastmath=_FUSED)
def _solved(n, x, y, z, w, step_n, step_t, mu):
    """(5) from (lam_n, lam_t) = (n, x, y, z)."""
    n = max(n - step_n * w[0], 0.0)
    x, y, z = x - step_t * w[1], y - step_t * w[2], z - step_t * w[3]
    most, square = mu * n, x * x + y * y + z * z
    if square > most * most:
        part = most / np.sqrt(square)
        x, y, z = part * x, part * y, part * z
    return n, x, y, z


@kernel(fastmath=_FUSED)
def _pushed(k, i, j, normal, arm, inverse, n, x, y, z, u):
    """(3) for the impulse (n, x, y, z); bodies without inverse mass are shared: not written."""
    nx, ny, nz = normal[k, 0], normal[k, 1], normal[k, 2]
    px, py, pz = n * nx + x, n * ny + y, n * nz + z
    tx, ty, tz = ny * z - nz * y, nz * x - nx * z, nx * y - ny * x
    m = inverse[i, 0]
    if m > 0.0:
        s = arm[k, 0] * inverse[i, 1]
        u[i, 0] -= m * px
        u[i, 1] -= m * py
        u[i, 2] -= m * pz
        u[i, 3] -= s * tx
        u[i, 4] -= s * ty
        u[i, 5] -= s * tz
    m = inverse[j, 0]
    if m > 0.0:
        s = arm[k, 1] * inverse[j, 1]
        u[j, 0] += m * px
        u[j, 1] += m * py
        u[j, 2] += m * pz
        u[j, 3] -= s * tx
        u[j, 4] -= s * ty
        u[j, 5] -= s * tz


@kernel(fastmath=_FUSED)
def _sweep_slab(
    begin, end, i_of, j_of, normal, arm, b, law, inverse, step, beta, allowed, u, lam, before
):
    """A sweep over contacts begin to end; the restart sum, (7) and how many were over.

    What does not push and is open stays as it is: of a pile a sixth of the contacts, or more.
    """
    uphill, moved, over = 0.0, 0.0, 0
    for row in range(begin, end):
        k = np.uint64(row)
        i, j = np.uint64(i_of[k]), np.uint64(j_of[k])
        on, ox, oy, oz = lam[k, 0], lam[k, 1], lam[k, 2], lam[k, 3]
        pushes = on != 0.0 or before[k, 0] != 0.0 or ox != 0.0 or oy != 0.0 or oz != 0.0
        if not pushes and _opens_at(k, i_of, j_of, normal, b[:, 0], u) >= 0.0:
            continue
        w = _relative(k, i, j, normal, arm, b, u)
        yn = on + beta * (on - before[k, 0])
        yx = ox + beta * (ox - before[k, 1])
        yy = oy + beta * (oy - before[k, 2])
        yz = oz + beta * (oz - before[k, 3])
        n, x, y, z = _solved(yn, yx, yy, yz, w, step[k, 0], step[k, 1], law[k])
        before[k, 0], before[k, 1], before[k, 2], before[k, 3] = on, ox, oy, oz
        lam[k, 0], lam[k, 1], lam[k, 2], lam[k, 3] = n, x, y, z
        cn, cx, cy, cz = n - yn, x - yx, y - yy, z - yz
        an, at = 1.0 / step[k, 0], 1.0 / step[k, 1]
        uphill -= cn * (n - on) * an + (cx * (x - ox) + cy * (y - oy) + cz * (z - oz)) * at
        pushed2, slid2 = (an * cn) ** 2, at * at * (cx * cx + cy * cy + cz * cz)
        moved += pushed2 * step[k, 0] + slid2 * step[k, 1]
        over += max(pushed2, slid2) > allowed[k] * allowed[k]
        _pushed(k, i, j, normal, arm, inverse, cn, cx, cy, cz, u)
    return uphill, moved, over


@kernel(fastmath=_FUSED)
def _rolling_slab(
    begin, end, i_of, j_of, normal, arm, b, law, inverse, step, beta, allowed, u, lam, before
):
    """The same with couples."""
    uphill, moved, over = 0.0, 0.0, 0
    y, new, change, a = np.empty(7), np.empty(7), np.empty(7), np.empty(7)
    for k in range(begin, end):
        i, j, n = i_of[k], j_of[k], normal[k]
        w, o = _relative(k, i, j, normal, arm, b, u), rolling.turning(k, i, j, b, u)
        for d in range(7):
            y[d] = lam[k, d] + beta * (lam[k, d] - before[k, d])
            a[d] = 1.0 / step[k, (d + 2) // 3]
        c = arm[k, 0] * inverse[i, 1] - arm[k, 1] * inverse[j, 1]
        rolling.solved(y, w, o, n, step[k], c, law[k], new)
        for d in range(7):
            change[d] = new[d] - y[d]
            uphill -= change[d] * (new[d] - lam[k, d]) * a[d]
            moved += change[d] * change[d] * a[d]
            before[k, d], lam[k, d] = lam[k, d], new[d]
        pushed, slid, rolled = abs(a[0] * change[0]), 0.0, 0.0
        for d in range(3):
            slid += (a[1] * change[1 + d]) ** 2
            rolled += (law[k, 3] * a[4] * change[4 + d]) ** 2
        over += max(pushed * pushed, slid, rolled) > allowed[k] * allowed[k]
        _pushed(k, i, j, normal, arm, inverse, change[0], change[1], change[2], change[3], u)
        rolling.turned(i, j, inverse, change[4], change[5], change[6], u)
    return uphill, moved, over


@kernel()
def _slab(
    begin, end, i_of, j_of, normal, arm, b, law, inverse, step, beta, allowed, u, lam, before
):
    """Either."""
    given = i_of, j_of, normal, arm, b, law, inverse, step, beta, allowed, u, lam, before
    if law.ndim == 1:
        return _sweep_slab(begin, end, *given)
    return _rolling_slab(begin, end, *given)


@kernel(parallel=True)
def sweep(
    start,
    i_of,
    j_of,
    normal,
    arm,
    b,
    law,
    inverse,
    step,
    beta,
    allowed,
    u,
    u_before,
    lam,
    before,
):
    """One accelerated sweep; the restart sum, (7) and how many contacts were over."""
    slabs, bodies = start.shape[0] - 1, u.shape[0]
    uphill, moved, over = np.zeros(slabs), np.zeros(slabs), np.zeros(slabs, np.int64)
    if beta > 0.0:
        for piece in prange((bodies + _PIECE - 1) // _PIECE):
            for i in range(piece * _PIECE, min(bodies, (piece + 1) * _PIECE)):
                for d in range(6):
                    now = u[i, d]
                    u[i, d] = now + beta * (now - u_before[i, d])
                    u_before[i, d] = now
    else:
        copy(u, u_before)
    for parity in range(3):
        for half in prange(_together(slabs, parity)):
            s = 2 * half + parity if parity < 2 else slabs - 1
            uphill[s], moved[s], over[s] = _slab(
                start[s],
                start[s + 1],
                i_of,
                j_of,
                normal,
                arm,
                b,
                law,
                inverse,
                step,
                beta,
                allowed,
                u,
                lam,
                before,
            )
    total, change, count = 0.0, 0.0, 0
    for s in range(slabs):  # np.sum would be shared out among threads
        total += uphill[s]
        change += moved[s]
        count += over[s]
    return total, change, count


@kernel(parallel=True)
def push(start, i_of, j_of, normal, arm, inverse, lam, u):
    """(3), added to u."""
    slabs = start.shape[0] - 1
    for parity in range(3):
        for half in prange(_together(slabs, parity)):
            s = 2 * half + parity if parity < 2 else slabs - 1
            for k in range(start[s], start[s + 1]):
                n, x, y, z = lam[k, 0], lam[k, 1], lam[k, 2], lam[k, 3]
                if n != 0.0 or x != 0.0 or y != 0.0 or z != 0.0:
                    _pushed(k, i_of[k], j_of[k], normal, arm, inverse, n, x, y, z, u)
                if lam.shape[1] > 4:
                    C = lam[k, 4], lam[k, 5], lam[k, 6]
                    rolling.turned(i_of[k], j_of[k], inverse, *C, u)


@kernel(parallel=True)
def relative_velocity(i_of, j_of, normal, arm, rate, u, w):
    """(2) with b = ``rate``, into w (p, 4), or (p, 7) with rolling.py, (1)."""
    for k in prange(i_of.shape[0]):
        w[k, 0], w[k, 1], w[k, 2], w[k, 3] = _relative(k, i_of[k], j_of[k], normal, arm, rate, u)
        if w.shape[1] > 4:
            w[k, 4], w[k, 5], w[k, 6] = rolling.turning(k, i_of[k], j_of[k], rate, u)


@kernel(fastmath=_FUSED)
def law_residual(w, lam, step_n, step_t, mu):
    """R_k of (6), from w and lam (4,)."""
    x, y, z = lam[1] - step_t * w[1], lam[2] - step_t * w[2], lam[3] - step_t * w[3]
    most, square, part = mu * max(lam[0], 0.0), x * x + y * y + z * z, 1.0
    if square > most * most:
        part = most / np.sqrt(square)
    x, y, z = lam[1] - part * x, lam[2] - part * y, lam[3] - part * z
    slid = np.sqrt(x * x + y * y + z * z) / step_t
    pushed = abs(min(w[0], lam[0] / step_n))
    return pushed if pushed > slid or pushed != pushed else slid


@kernel()
def _row_residual(k, i_of, j_of, normal, arm, b, law, step, u, lam):
    w = _relative(k, i_of[k], j_of[k], normal, arm, b, u)
    if law.ndim == 1:
        return law_residual(w, lam[k], step[k, 0], step[k, 1], law[k])
    R = law_residual(w, lam[k], step[k, 0], step[k, 1], law[k, 0])
    o = rolling.turning(k, i_of[k], j_of[k], b, u)
    rolled = rolling.law_residual(o, lam[k], normal[k], step[k, 2], law[k])
    return R if rolled < R or R != R else rolled


@kernel(parallel=True)
def allow(i_of, j_of, arm, b, free, u, most, relative, allowed):
    """What R_k may be, into ``allowed``."""
    bodies, rows = u.shape[0], i_of.shape[0]
    reach = np.zeros(bodies)  # of a body: its arm
    for k in range(rows):
        reach[i_of[k]], reach[j_of[k]] = arm[k, 0], arm[k, 1]
    change, size = np.empty(bodies), np.empty(bodies)
    pieces = (bodies + _PIECE - 1) // _PIECE
    worst = np.zeros(max(pieces, 1))
    for piece in prange(pieces):
        for i in range(piece * _PIECE, min(bodies, (piece + 1) * _PIECE)):
            v, w, dv, dw = 0.0, 0.0, 0.0, 0.0
            for d in range(3):
                v += u[i, d] ** 2
                w += u[i, 3 + d] ** 2
                dv += (u[i, d] - free[i, d]) ** 2
                dw += (u[i, 3 + d] - free[i, 3 + d]) ** 2
            change[i] = max(np.sqrt(dv), reach[i] * np.sqrt(dw))
            size[i] = np.sqrt(v) + reach[i] * np.sqrt(w)
            if change[i] > worst[piece]:
                worst[piece] = change[i]
    least = _ELSEWHERE * largest(worst)
    for piece in prange((rows + _PIECE - 1) // _PIECE):
        for k in range(piece * _PIECE, min(rows, (piece + 1) * _PIECE)):
            i, j = i_of[k], j_of[k]
            given = abs(b[k, 0]) + abs(b[k, 1]) + abs(b[k, 2]) + abs(b[k, 3])
            if b.shape[1] > 4:
                given += reach[i] * (abs(b[k, 4]) + abs(b[k, 5]) + abs(b[k, 6]))
            rounding = _ROUNDING * (size[i] + size[j] + given)
            allowed[k] = min(most, relative * max(change[i], change[j], least)) + rounding


@kernel(parallel=True)
def residual(i_of, j_of, normal, arm, b, law, step, u, lam, allowed):
    """max_k R_k / tol_k; nan if anything is."""
    rows = i_of.shape[0]
    pieces = (rows + _PIECE - 1) // _PIECE
    most = np.zeros(max(pieces, 1))
    for piece in prange(pieces):
        for k in range(piece * _PIECE, min(rows, (piece + 1) * _PIECE)):
            R = _row_residual(k, i_of, j_of, normal, arm, b, law, step, u, lam)
            R = R / allowed[k] if R > 0.0 else R  # 0 / 0 is none
            if not most[piece] >= R:
                most[piece] = R
            if R != R:
                break
    return largest(most)


@kernel()
def lacking(start, i_of, j_of, normal, arm, b, law, inverse, free, lam, most, relative):
    """(p,) R_k / tol_k of lam, with u by (3)."""
    u, rows = free.copy(), i_of.shape[0]
    push(start, i_of, j_of, normal, arm, inverse, lam, u)
    allowed, found = np.empty(rows), np.empty(rows)
    allow(i_of, j_of, arm, b, free, u, most, relative, allowed)
    step = steps_of(i_of, j_of, arm, inverse, law)
    for k in range(rows):
        R = _row_residual(k, i_of, j_of, normal, arm, b, law, step, u, lam)
        found[k] = R / allowed[k] if R > 0.0 else R  # 0 / 0 is none
    return found


@kernel(parallel=True)
def within(i_of, j_of, normal, arm, b, law, step, u, lam, allowed):
    """Whether every R_k <= _SHARE tol_k; each piece of rows stops at the first that is not."""
    rows = i_of.shape[0]
    pieces = (rows + _PIECE - 1) // _PIECE
    over = np.zeros(max(pieces, 1), np.int64)
    for piece in prange(pieces):
        for k in range(piece * _PIECE, min(rows, (piece + 1) * _PIECE)):
            R = _row_residual(k, i_of, j_of, normal, arm, b, law, step, u, lam)
            if not (_SHARE * allowed[k] >= R):
                over[piece] = 1
                break
    return np.sum(over) == 0


@kernel(fastmath=_FUSED)
def _alone(k, i_of, j_of, normal, arm, b, law, inverse, step, u, lam, allowed):
    """Solve contact k if it lacks; whether it did."""
    i, j = i_of[k], j_of[k]
    w = _relative(k, i, j, normal, arm, b, u)
    if law.ndim == 1:
        if law_residual(w, lam[k], step[k, 0], step[k, 1], law[k]) <= _SHARE * allowed[k]:
            return False
        on, ox, oy, oz = lam[k, 0], lam[k, 1], lam[k, 2], lam[k, 3]
        n, x, y, z = _solved(on, ox, oy, oz, w, step[k, 0], step[k, 1], law[k])
        lam[k, 0], lam[k, 1], lam[k, 2], lam[k, 3] = n, x, y, z
        _pushed(k, i, j, normal, arm, inverse, n - on, x - ox, y - oy, z - oz, u)
        return True
    if _row_residual(k, i_of, j_of, normal, arm, b, law, step, u, lam) <= _SHARE * allowed[k]:
        return False
    old, o = lam[k].copy(), rolling.turning(k, i, j, b, u)
    c = arm[k, 0] * inverse[i, 1] - arm[k, 1] * inverse[j, 1]
    rolling.solved(old, w, o, normal[k], step[k], c, law[k], lam[k])
    D = lam[k] - old
    _pushed(k, i, j, normal, arm, inverse, D[0], D[1], D[2], D[3], u)
    rolling.turned(i, j, inverse, D[4], D[5], D[6], u)
    return True


@kernel(fastmath=_FUSED)
def finish(i_of, j_of, normal, arm, b, law, inverse, step, u, lam, allowed):
    """Solve the contacts over the tolerance, and those which that brings over it, one by one.

    Those beside a change are looked at in the next turn, once for all changes of this one.
    Returns how many changes were made; it gives up as that of kernels/numba/projection.py does.
    """
    count, looks, made = i_of.shape[0], 0, 0
    start, rows = rows_of(i_of, j_of, inverse[:, 0])
    listed, now, waiting = np.zeros(count, np.bool_), np.empty(count, np.int32), 0
    for k in range(count):
        R = _row_residual(k, i_of, j_of, normal, arm, b, law, step, u, lam)
        if not (_SHARE * allowed[k] >= R):
            now[waiting], listed[k] = k, True
            waiting += 1
    after = np.empty(count, np.int32)
    while waiting > 0 and made < count and looks < _LOOKS * count:
        following = 0
        for place in range(waiting):
            if looks >= _LOOKS * count:
                break
            k = now[place]
            listed[k] = False
            if not _alone(k, i_of, j_of, normal, arm, b, law, inverse, step, u, lam, allowed):
                continue
            made += 1
            for body in (i_of[k], j_of[k]):
                looks += start[body + 1] - start[body]
                for m in rows[start[body] : start[body + 1]]:
                    if not listed[m]:
                        after[following], listed[m] = m, True
                        following += 1
        now, after, waiting = after, now, following
    return made


@kernel()
def steps_of(i_of, j_of, arm, inverse, law):
    """(p, 2) 1 / a_n and 1 / a_t; with couples (p, 3), and 1 / a_r."""
    step = np.empty((i_of.shape[0], 1 + law.ndim))
    for k in range(i_of.shape[0]):
        i, j = i_of[k], j_of[k]
        a = inverse[i, 0] + inverse[j, 0]
        step[k, 0] = 1.0 / a
        step[k, 1] = 1.0 / (a + arm[k, 0] ** 2 * inverse[i, 1] + arm[k, 1] ** 2 * inverse[j, 1])
        if law.ndim == 2:
            step[k, 2] = 1.0 / (inverse[i, 1] + inverse[j, 1])
    return step


@kernel()
def _swept(
    start,
    i_of,
    j_of,
    normal,
    arm,
    b,
    law,
    inverse,
    free,
    lam,
    most,
    relative,
    limit,
):
    """Sweeps by (5) from ``lam``, which is overwritten; how many there were."""
    rows = i_of.shape[0]
    step, allowed = steps_of(i_of, j_of, arm, inverse, law), np.empty(rows)
    taken, damped = step, step / (1.0 + _DAMPING)
    u, u_before, before = free.copy(), free.copy(), lam.copy()
    push(start, i_of, j_of, normal, arm, inverse, lam, u)
    theta, beta, done, few, tried = 1.0, 0.0, 0, _LOCAL * rows, 0
    ceiling, least = _CEILING, np.inf
    look, later, seen, cold = _WINDOW, _PATIENCE, np.inf, False
    allow(i_of, j_of, arm, b, free, u, most, relative, allowed)
    over = 0
    while done < limit:
        near = done <= _FIRST or over <= _LOCAL * rows  # else a look would be in vain
        if near and within(i_of, j_of, normal, arm, b, law, step, u, lam, allowed):
            allow(i_of, j_of, arm, b, free, u, most, relative, allowed)
            if within(i_of, j_of, normal, arm, b, law, step, u, lam, allowed):
                break
        uphill, moved, over = sweep(
            start,
            i_of,
            j_of,
            normal,
            arm,
            b,
            law,
            inverse,
            taken,
            beta,
            allowed,
            u,
            u_before,
            lam,
            before,
        )
        done += 1
        if uphill != uphill:  # nan
            break
        if done <= _RENEW or done % _RENEW == 0:
            allow(i_of, j_of, arm, b, free, u, most, relative, allowed)
        if over <= few:
            made = finish(i_of, j_of, normal, arm, b, law, inverse, step, u, lam, allowed)
            done, few = done + (made + rows - 1) // rows, 0.25 * few
            tried = done
        elif done >= tried + _LOCALLY:
            few, tried = _LOCAL * rows, done
        least = min(least, moved)
        if moved > _SWING * least:
            theta, beta, least, ceiling = 1.0, 0.0, np.inf, max(0.0, 2.0 * ceiling - 1.0)
        elif uphill > 0.0:
            theta, beta = 1.0, 0.0
        else:
            following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * theta * theta))
            theta, beta = following, min((theta - 1.0) / following, ceiling)
        if done >= look:
            slowly = rows > _MANY and (done // _PHASE) % 2 == 1
            taken, look = (damped, done + _DAMPED) if slowly else (step, done + _WINDOW)
            theta, beta = 1.0, 0.0
        if done >= later:
            later += _PATIENCE
            now = residual(i_of, j_of, normal, arm, b, law, step, u, lam, allowed)
            if now > _STALL * seen and not cold:  # lam = 0 is a better guess than this one
                lam[:] = 0.0
                before[:] = 0.0
                copy(free, u)
                copy(free, u_before)
                theta, beta, cold = 1.0, 0.0, True
                ceiling, least = _CEILING, np.inf
            seen = now
    return done


@kernel()
def measured(start, i_of, j_of, normal, arm, b, law, inverse, free, lam, most, relative):
    """u of lam by (3), anew, so that no rounding of sweeps is left in it, and its residual."""
    u, allowed = free.copy(), np.empty(i_of.shape[0])
    push(start, i_of, j_of, normal, arm, inverse, lam, u)
    allow(i_of, j_of, arm, b, free, u, most, relative, allowed)
    step = steps_of(i_of, j_of, arm, inverse, law)
    return u, residual(i_of, j_of, normal, arm, b, law, step, u, lam, allowed)


@kernel()
def accelerated_gauss_seidel(
    start, i_of, j_of, normal, arm, b, law, inverse, free, lam, most, relative, iterations
):
    """Solve (4) from the guess ``lam`` (p, 4), which is overwritten, where sweeps end.

    Returns u, the measured residual (6) in terms of what is allowed, and the number of sweeps.
    """
    problem = start, i_of, j_of, normal, arm, b, law, inverse, free, lam, most, relative
    done = _swept(*problem, min(_SWEEPS, iterations))
    u, left = measured(*problem)
    return u, left, done
