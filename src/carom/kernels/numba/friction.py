"""Coulomb friction of many contacts: an accelerated Gauss-Seidel method over contacts.

Find r with u = W r + q and, contact by contact (first component normal, s = 1; the convex law has
s = 0),

    K*_mu ∋ u + s mu |u_t| n   perp   r ∈ K_mu,      K_mu = { |r_t| <= mu r_n }                (1)

One contact with u = A r + b has an exact solution.  If b_n >= 0 it opens, r = 0.  Otherwise
u_n = 0 (s = 1) gives the normal part, r_n = -(b_n + a_nt . r_t) / a_nn, and with

    S = A_tt - a_tn a_nt / a_nn,   c = b_t - a_tn b_n / a_nn:      (S + l) r_t = -c             (2)

l = 0 sticks if that is inside the cone; if not, it slips with u_t = -l r_t, and l > 0 is a root of
mu r_n - |r_t|, which is negative at l = 0 and positive for large l: a bracketed Newton method from
the last l.  In the plane, and where a_nt = 0 and S is a multiple of 1, there is a closed form.

One sweep solves contact after contact and keeps u up to date.  Each solution is damped, which
means that it solves u + d (r - r_old) in place of u, d = 0.1 |A|: where mu |a_nt| / a_nn nears 1
undamped sweeps run in circles.  Sweeps are extrapolated as Nesterov does for gradients,

    y = r + beta (r - r_before),     r_next = T(y)                                              (3)

with restarts where (y - r_next) . (r_next - r) > 0, and with a ceiling of beta that falls when the
residual swings and rises when it crawls.

The residual is that of the natural map, a velocity, relative to q:

    R_k = (r_k - P_K(r_k - rho_k (u_k + s mu |u_t| n))) / rho_k,    rho_k = 1 / |W_kk|_2       (4)

W comes by block columns: blocks start[k] to start[k + 1] are W_jk with j in ``to``.
"""

import math

import numpy as np

from carom.kernels.numba.disk import kernel

_FUSED = {"contract", "nsz", "arcp"}
EPS = 2.2e-16
DAMPING = 0.1  # of |A|; 0.05 to 0.2 do, but for many contacts between the same bodies


@kernel(fastmath=_FUSED, inline="never")
def _slip(S00, S01, S10, S11, c0, c1, g0, g1, h, mu, l):
    """The root l > 0 of (2), from the last l: r_t and l.

    With r_t = -(S + l)^-1 c, r_n = h - g . r_t:  phi(l) = mu r_n / |r_t| - 1, increasing where it
    matters; its derivative needs (S + l)^-1 r_t.
    """
    low, high = 0.0, math.inf
    size = 0.5 * (abs(S00) + abs(S11))
    if not l > 0.0:
        l = size
    t0 = t1 = 0.0
    for _ in range(60):
        a, d = S00 + l, S11 + l
        det = a * d - S01 * S10
        if det <= 0.0:  # W is not positive: more l makes it so
            low = l
            l = 2.0 * l + size
            continue
        inv = 1.0 / det
        t0 = (S01 * c1 - d * c0) * inv
        t1 = (S10 * c0 - a * c1) * inv
        length = math.sqrt(t0 * t0 + t1 * t1)
        rn = h - g0 * t0 - g1 * t1
        f = mu * rn - length
        if abs(f) <= 4e-15 * (length + mu * abs(h)):
            break
        if f < 0.0:
            low = l
        else:
            high = l
        if high < math.inf and high - low <= 4e-16 * high:
            break
        # d r_t / d l = -(S + l)^-1 r_t
        w0 = (S01 * t1 - d * t0) * inv
        w1 = (S10 * t0 - a * t1) * inv
        # F(l) = mu r_n / |r_t| - 1 is nearly linear in l
        drn = -(g0 * w0 + g1 * w1)
        dlen = (t0 * w0 + t1 * w1) / length
        slope = mu * (drn * length - rn * dlen)
        step = f * length
        if slope > 0.0:
            nxt = l - step / slope
        else:
            nxt = -1.0
        if not low < nxt < high:
            nxt = 0.5 * (low + high) if high < math.inf else 4.0 * l + size
        elif abs(nxt - l) <= 1e-15 * l:
            break
        l = nxt
    return t0, t1, l


@kernel(fastmath=_FUSED, inline="never")
def _coulomb3(a00, a01, a02, a10, a11, a12, a20, a21, a22, b0, b1, b2, mu, l):
    """The exact solution of one contact in space: r and the l of its slip."""
    if b0 >= 0.0 or not a00 > 0.0:
        return 0.0, 0.0, 0.0, l
    inv = 1.0 / a00
    h = -b0 * inv
    if mu == 0.0:
        return h, 0.0, 0.0, l
    g0, g1 = a01 * inv, a02 * inv
    S00, S01 = a11 - a10 * g0, a12 - a10 * g1
    S10, S11 = a21 - a20 * g0, a22 - a20 * g1
    c0, c1 = b1 + a10 * h, b2 + a20 * h
    det = S00 * S11 - S01 * S10
    if det > 1e-14 * S00 * S11:
        idet = 1.0 / det
        t0 = (S01 * c1 - S11 * c0) * idet
        t1 = (S10 * c0 - S00 * c1) * idet
        rn = h - g0 * t0 - g1 * t1
        if rn >= 0.0 and t0 * t0 + t1 * t1 <= mu * mu * rn * rn:
            return rn, t0, t1, l
    elif c0 == 0.0 and c1 == 0.0:
        return h, 0.0, 0.0, l
    if abs(g0) + abs(g1) <= 1e-14 and abs(S01) + abs(S10) + abs(S00 - S11) <= 1e-14 * S00:
        length = math.sqrt(c0 * c0 + c1 * c1)
        if length == 0.0:
            return h, 0.0, 0.0, l
        f = -mu * h / length
        return h, f * c0, f * c1, l
    t0, t1, l = _slip(S00, S01, S10, S11, c0, c1, g0, g1, h, mu, l)
    return math.sqrt(t0 * t0 + t1 * t1) / mu, t0, t1, l


@kernel(fastmath=_FUSED, inline="never")
def _coulomb2(a00, a01, a10, a11, b0, b1, mu):
    """The exact solution of one contact in the plane: the slips r_t = +-mu r_n are two lines."""
    if b0 >= 0.0 or not a00 > 0.0:
        return 0.0, 0.0
    inv = 1.0 / a00
    h, g = -b0 * inv, a01 * inv
    S, c = a11 - a10 * g, b1 + a10 * h
    if S > 0.0:
        t = -c / S
        rn = h - g * t
        if abs(t) <= mu * rn:
            return rn, t
    # slip against c: r_t = -sign(c) mu r_n, r_n (1 - sign(c) mu g) = h
    side = 1.0 if c < 0.0 else -1.0
    below = 1.0 + side * mu * g
    if below <= 0.0:  # W is not positive: the other slip
        side, below = -side, 1.0 - side * mu * g
    rn = h / below
    return rn, side * mu * rn


@kernel(fastmath=_FUSED, inline="never")
def natural3(r0, r1, r2, u0, u1, u2, mu, s, rho):
    """(4) of one contact in space."""
    z0 = r0 - rho * (u0 + s * mu * math.sqrt(u1 * u1 + u2 * u2))
    z1, z2 = r1 - rho * u1, r2 - rho * u2
    length = math.sqrt(z1 * z1 + z2 * z2)
    if z0 < 0.0 or length > mu * z0:
        if mu * length <= -z0:
            z0, z1, z2 = 0.0, 0.0, 0.0
        else:
            z0 = (z0 + mu * length) / (1.0 + mu * mu)
            f = mu * z0 / length
            z1, z2 = f * z1, f * z2
    return (r0 - z0) / rho, (r1 - z1) / rho, (r2 - z2) / rho


@kernel(fastmath=_FUSED, inline="never")
def natural2(r0, r1, u0, u1, mu, s, rho):
    """(4) of one contact in the plane."""
    z0, z1 = r0 - rho * (u0 + s * mu * abs(u1)), r1 - rho * u1
    length = abs(z1)
    if z0 < 0.0 or length > mu * z0:
        if mu * length <= -z0:
            z0, z1 = 0.0, 0.0
        else:
            z0 = (z0 + mu * length) / (1.0 + mu * mu)
            z1 = math.copysign(mu * z0, z1)
    return (r0 - z0) / rho, (r1 - z1) / rho


@kernel(fastmath=_FUSED)
def residual2(dim, mu, s, rho, r, u):
    """The sum of squares of (4)."""
    total = 0.0
    for k in range(mu.shape[0]):
        i = dim * k
        if dim == 3:
            x, y, z = natural3(r[i], r[i + 1], r[i + 2], u[i], u[i + 1], u[i + 2], mu[k], s, rho[k])
            total += x * x + y * y + z * z
        else:
            x, y = natural2(r[i], r[i + 1], u[i], u[i + 1], mu[k], s, rho[k])
            total += x * x + y * y
    return total


@kernel(fastmath=_FUSED)
def rounding2(dim, weight, r):
    """The sum of squares of what rounding may leave of (4): eps |W_kk| |r_k|."""
    total = 0.0
    for k in range(weight.shape[0]):
        one = 0.0
        for i in range(dim * k, dim * k + dim):
            one += r[i] * r[i]
        total += weight[k] * weight[k] * one
    return EPS * EPS * total


@kernel()
def _copy(count, source, i, target, j):
    """target[j : j + count] = source[i : i + count]; see ``projection.copy``."""
    for k in range(count):
        target[j + k] = source[i + k]


@kernel(fastmath=_FUSED)
def velocity(dim, start, to, blocks, q, r, u):
    """u = W r + q."""
    _copy(q.shape[0], q, 0, u, 0)
    m = dim * dim
    for k in range(start.shape[0] - 1):
        i = dim * k
        for p in range(start[k], start[k + 1]):
            j, e = to[p], m * p
            if dim == 3:
                x, y, z = r[i], r[i + 1], r[i + 2]
                u[j] += blocks[e] * x + blocks[e + 1] * y + blocks[e + 2] * z
                u[j + 1] += blocks[e + 3] * x + blocks[e + 4] * y + blocks[e + 5] * z
                u[j + 2] += blocks[e + 6] * x + blocks[e + 7] * y + blocks[e + 8] * z
            else:
                x, y = r[i], r[i + 1]
                u[j] += blocks[e] * x + blocks[e + 1] * y
                u[j + 1] += blocks[e + 2] * x + blocks[e + 3] * y


@kernel(fastmath=_FUSED)
def _convex3(a00, a01, a02, a10, a11, a12, a20, a21, a22, b0, b1, b2, mu, step, r0, r1, r2):
    """Some gradient steps, each onto the cone: one contact of the convex law in space."""
    for _ in range(8):
        u0 = a00 * r0 + a01 * r1 + a02 * r2 + b0
        u1 = a10 * r0 + a11 * r1 + a12 * r2 + b1
        u2 = a20 * r0 + a21 * r1 + a22 * r2 + b2
        x, y, z = natural3(r0, r1, r2, u0, u1, u2, mu, 0.0, step)
        r0, r1, r2 = r0 - step * x, r1 - step * y, r2 - step * z
    return r0, r1, r2


@kernel(fastmath=_FUSED)
def _convex2(a00, a01, a10, a11, b0, b1, mu):
    """One contact of the convex law in the plane: inside, on one edge of the cone, or zero."""
    det = a00 * a11 - a01 * a10
    if det > 0.0:
        r0, r1 = (a01 * b1 - a11 * b0) / det, (a10 * b0 - a00 * b1) / det
        if r0 >= 0.0 and abs(r1) <= mu * r0:
            return r0, r1
    least, r0, r1 = 0.0, 0.0, 0.0
    for side in (mu, -mu):
        pull = -(b0 + side * b1)
        stiff = a00 + side * (a01 + a10) + side * side * a11
        if pull > 0.0 and stiff > 0.0 and -pull * pull < least * stiff:
            least = -pull * pull / stiff
            r0 = pull / stiff
            r1 = side * r0
    return r0, r1


@kernel(fastmath=_FUSED)
def _sweep3(coulomb, start, to, blocks, diagonal, weight, mu, skip2, r, u, last, slope):
    """(3) in space; returns the sum of squares of |A| |change| and the restart sum."""
    change2, uphill = 0.0, 0.0
    for k in range(mu.shape[0]):
        i, e = 3 * k, 9 * k
        y0, y1, y2 = r[i], r[i + 1], r[i + 2]
        a00, a01, a02 = diagonal[e], diagonal[e + 1], diagonal[e + 2]
        b0 = u[i] - (a00 * y0 + a01 * y1 + a02 * y2)
        if coulomb and b0 >= 0.0 and y0 == 0.0 and y1 == 0.0 and y2 == 0.0:
            continue
        a10, a11, a12 = diagonal[e + 3], diagonal[e + 4], diagonal[e + 5]
        a20, a21, a22 = diagonal[e + 6], diagonal[e + 7], diagonal[e + 8]
        b1 = u[i + 1] - (a10 * y0 + a11 * y1 + a12 * y2)
        b2 = u[i + 2] - (a20 * y0 + a21 * y1 + a22 * y2)
        size = weight[k]
        if coulomb:
            n0, n1, n2, slope[k] = _coulomb3(
                a00, a01, a02, a10, a11, a12, a20, a21, a22, b0, b1, b2, mu[k], slope[k]
            )
        else:
            n0, n1, n2 = _convex3(
                a00, a01, a02, a10, a11, a12, a20, a21, a22, b0, b1, b2, mu[k], 0.9 / size,
                y0, y1, y2,
            )  # fmt: skip
        x0, x1, x2 = n0 - y0, n1 - y1, n2 - y2
        moved2 = (x0 * x0 + x1 * x1 + x2 * x2) * size * size
        change2 += moved2
        if moved2 > skip2:
            uphill -= size * (
                x0 * (n0 - last[i]) + x1 * (n1 - last[i + 1]) + x2 * (n2 - last[i + 2])
            )
            r[i], r[i + 1], r[i + 2] = n0, n1, n2
            for p in range(start[k], start[k + 1]):
                j, e = to[p], 9 * p
                u[j] += blocks[e] * x0 + blocks[e + 1] * x1 + blocks[e + 2] * x2
                u[j + 1] += blocks[e + 3] * x0 + blocks[e + 4] * x1 + blocks[e + 5] * x2
                u[j + 2] += blocks[e + 6] * x0 + blocks[e + 7] * x1 + blocks[e + 8] * x2
    return change2, uphill


@kernel(fastmath=_FUSED)
def _sweep2(coulomb, start, to, blocks, diagonal, weight, mu, skip2, r, u, last):
    """(3) in the plane; returns the sum of squares of |A| |change| and the restart sum."""
    change2, uphill = 0.0, 0.0
    for k in range(mu.shape[0]):
        i, e = 2 * k, 4 * k
        y0, y1 = r[i], r[i + 1]
        a00, a01, a10, a11 = diagonal[e], diagonal[e + 1], diagonal[e + 2], diagonal[e + 3]
        b0 = u[i] - (a00 * y0 + a01 * y1)
        b1 = u[i + 1] - (a10 * y0 + a11 * y1)
        if coulomb:
            n0, n1 = _coulomb2(a00, a01, a10, a11, b0, b1, mu[k])
        else:
            n0, n1 = _convex2(a00, a01, a10, a11, b0, b1, mu[k])
        x0, x1 = n0 - y0, n1 - y1
        size = weight[k]
        moved2 = (x0 * x0 + x1 * x1) * size * size
        change2 += moved2
        if moved2 > skip2:
            uphill -= size * (x0 * (n0 - last[i]) + x1 * (n1 - last[i + 1]))
            r[i], r[i + 1] = n0, n1
            for p in range(start[k], start[k + 1]):
                j, e = to[p], 4 * p
                u[j] += blocks[e] * x0 + blocks[e + 1] * x1
                u[j + 1] += blocks[e + 2] * x0 + blocks[e + 3] * x1
    return change2, uphill


_CEILING = 0.9  # of beta at first
_HIGHEST = 0.997  # of it
DONE, LIMIT, ASTRAY, FEW = 0, 1, 2, 3  # why sweeps end
_SWING = 4.0  # times the least change2 of the window before: too much momentum
_CRAWL = 0.3  # of it: too little
_SHARE = 0.01  # of the goal, on average: a contact with a smaller residual does not move
_WINDOW = 30  # sweeps between two looks at the progress
_LOOK = 300  # sweeps, after which it is seen whether they go astray
_MARGIN = 4.0  # the sum of squares of the changes foretells that of (4) to within this


@kernel()
def _views(dim, index, data):
    """start, to, blocks, diagonal, damped diagonal, |W_kk|, rho, mu, q of a packed problem.

    len(index) = n + 1 + b and len(data) = m b + n (2 m + 3 + dim) give the number n of contacts.
    """
    m = dim * dim
    n = (data.shape[0] - m * (index.shape[0] - 1)) // (m + 3 + dim)
    start, to = index[: n + 1], index[n + 1 :]
    at = m * to.shape[0]
    blocks = data[:at]
    diagonal, damped = data[at : at + m * n], data[at + m * n : at + 2 * m * n]
    at += 2 * m * n
    weight, rho, mu = data[at : at + n], data[at + n : at + 2 * n], data[at + 2 * n : at + 3 * n]
    return start, to, blocks, diagonal, damped, weight, rho, mu, data[at + 3 * n :]


@kernel()
def _moving(dim, s, problem, r, u, least2):
    """Which contacts have a residual above the root of ``least2``, and how many."""
    rho, mu = problem[6], problem[7]
    found, count = np.zeros(mu.shape[0], np.bool_), 0
    for k in range(mu.shape[0]):
        i = dim * k
        one = residual2(dim, mu[k : k + 1], s, rho[k : k + 1], r[i : i + dim], u[i : i + dim])
        if one > least2:
            found[k] = True
            count += 1
    return found, count


@kernel()
def _part(dim, problem, r, u, inside):
    """The problem of the contacts ``inside`` while the others keep their r, packed."""
    start, to, blocks, diagonal, damped, weight, rho, mu, _q = problem
    m, n = dim * dim, mu.shape[0]
    place, count, entries = np.full(n, -1), 0, 0
    for k in range(n):
        if inside[k]:
            place[k] = count
            count += 1
            for p in range(start[k], start[k + 1]):
                entries += inside[to[p] // dim]
    index = np.zeros(count + 1 + entries, np.int64)
    data = np.zeros(m * entries + count * (2 * m + 3 + dim))
    part = _views(dim, index, data)
    at = 0
    for k in range(n):
        if inside[k]:
            c = place[k]
            for p in range(start[k], start[k + 1]):
                j = to[p] // dim
                if inside[j]:
                    part[1][at] = dim * place[j]
                    _copy(m, blocks, m * p, part[2], m * at)
                    at += 1
            part[0][c + 1] = at
            _copy(m, diagonal, m * k, part[3], m * c)
            _copy(m, damped, m * k, part[4], m * c)
            part[5][c], part[6][c], part[7][c] = weight[k], rho[k], mu[k]
    own = np.zeros(dim * count)
    for k in range(n):
        if inside[k]:
            _copy(dim, r, dim * k, own, dim * place[k])
    velocity(dim, part[0], part[1], part[2], part[8], own, part[8])  # W r of the part, then minus
    for k in range(n):
        if inside[k]:
            for d in range(dim):
                part[8][dim * place[k] + d] = u[dim * k + d] - part[8][dim * place[k] + d]
    return part, own


@kernel(fastmath=_FUSED)
def _run(dim, coulomb, problem, goal, limit, astray, few, work):
    """Sweep from the r in ``work`` until (4) is below ``goal``; returns sweeps, residual, why.

    It ends early where (4) is above ``astray`` after some hundred sweeps, or where no more than
    ``few`` contacts move.
    """
    start, to, blocks, diagonal, damped, weight, rho, mu, q = problem
    n = mu.shape[0]
    size = dim * n
    r, u, last, ulast = (
        work[:size],
        work[size : 2 * size],
        work[2 * size : 3 * size],
        work[3 * size : 4 * size],
    )
    slope = work[4 * size : 4 * size + n]
    s = 1.0 if coulomb else 0.0
    goal2 = goal * goal
    velocity(dim, start, to, blocks, q, r, u)
    theta, beta, ceiling, before2 = 1.0, 0.0, _CEILING, math.inf
    A, lead = diagonal, True
    worst2, least2, previous2 = 0.0, math.inf, math.inf
    window, turn, why = 0, 0, LIMIT
    for _ in range(limit):
        if beta > 0.0:
            for i in range(size):
                now, unow = r[i], u[i]
                r[i], u[i] = now + beta * (now - last[i]), unow + beta * (unow - ulast[i])
                last[i], ulast[i] = now, unow
        else:
            for i in range(size):
                last[i], ulast[i] = r[i], u[i]
        if dim == 3:
            change2, uphill = _sweep3(
                coulomb, start, to, blocks, A, weight, mu, 0.0, r, u, last, slope
            )
        else:
            change2, uphill = _sweep2(coulomb, start, to, blocks, A, weight, mu, 0.0, r, u, last)
        turn += 1
        if change2 <= _MARGIN * goal2 and residual2(dim, mu, s, rho, r, u) <= goal2:
            velocity(dim, start, to, blocks, q, r, u)
            found2 = residual2(dim, mu, s, rho, r, u)
            if found2 <= goal2 and rounding2(dim, weight, r) <= goal2:
                return turn, math.sqrt(found2), DONE
        if lead:
            if change2 <= 0.25 * before2:
                before2 = change2
                continue
            lead, A = False, damped
        if uphill > 0.0:
            theta, beta = 1.0, 0.0
        else:
            after = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * theta * theta))
            beta = min((theta - 1.0) / after, ceiling)
            theta = after
        window += 1
        worst2, least2 = max(worst2, change2), min(least2, change2)
        if window == _WINDOW:
            window = 0
            if worst2 > _SWING * previous2:
                ceiling = max(0.5, 1.0 - 2.0 * (1.0 - ceiling))
            elif least2 > _CRAWL * previous2:
                ceiling = min(_HIGHEST, 1.0 - 0.7 * (1.0 - ceiling))
            if few > 0 and _moving(dim, s, problem, r, u, _SHARE * goal2 / n)[1] <= few:
                why = FEW
                break
            looks = astray < math.inf and _LOOK <= turn < _LOOK + _WINDOW
            if looks and not residual2(dim, mu, s, rho, r, u) <= astray * astray:
                why = ASTRAY
                break
            worst2, previous2, least2 = 0.0, least2, math.inf
    velocity(dim, start, to, blocks, q, r, u)
    found2, least2 = residual2(dim, mu, s, rho, r, u), rounding2(dim, weight, r)
    return turn, math.sqrt(least2 if found2 < least2 else found2), why


@kernel()
def sweeps(dim, coulomb, index, data, goal, limit, astray, work):
    """Solve (1) from the r in ``work``; returns sweeps, residual and why it ended.

    ``index`` and ``data`` pack the problem as `_views` reads it; ``work`` holds r, then u, then
    room: 4 times r and one number for each contact.

    Where few contacts still move the end is local: these are solved as a problem of their own,
    while the others keep their r.
    """
    problem = _views(dim, index, data)
    n = problem[7].shape[0]
    size = dim * n
    few = n // 4
    done, local = 0, 0
    while True:
        turns, residual, why = _run(dim, coulomb, problem, goal, limit - done, astray, few, work)
        done += turns
        if why != FEW or done >= limit:
            return done, residual, why
        r, u = work[:size], work[size : 2 * size]
        s = 1.0 if coulomb else 0.0
        inside, _count = _moving(dim, s, problem, r, u, _SHARE * goal * goal / n)
        for k in np.flatnonzero(inside):  # and what they touch
            for p in range(problem[0][k], problem[0][k + 1]):
                inside[problem[1][p] // dim] = True
        part, own = _part(dim, problem, r, u, inside)
        room = np.zeros(4 * own.shape[0] + part[7].shape[0])
        _copy(own.shape[0], own, 0, room, 0)
        turns, _, why = _run(dim, coulomb, part, 0.5 * goal, limit - done, math.inf, 0, room)
        done += 1 + turns * own.shape[0] // size
        local += 1
        at = 0
        for k in range(n):
            if inside[k]:
                _copy(dim, room, at, r, dim * k)
                at += dim
        if local > 20:
            few = 0
