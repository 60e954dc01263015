"""The projection of a step over sparse rows: an accelerated Gauss-Seidel method.

With rows n_k (u_j - u_i) + b_k >= 0 and inverse masses, the projection of ``free`` is

    u = free + M^-1 G^T lam,    lam = argmin_{l >= 0} 1/2 l^T A l + (b + G free)^T l          (1)
    A = G M^-1 G^T,             A_kk = 1/m_i + 1/m_j

One sweep solves row after row for its own lam_k >= 0, keeping u up to date (Gauss-Seidel).  Sweeps
are accelerated as Nesterov does for gradients: a sweep T starts from an extrapolated point,

    y = l + beta (l - l_before),    l_next = T(y),    beta = (theta - 1) / theta_next          (2)

and u, which is linear in lam, is extrapolated with it.  When (y - l_next) . (l_next - l) > 0 the
momentum points uphill and theta starts again (O'Donoghue and Candes 2015); the next sweep is then
a plain one, and those alone converge.  beta is at most 1 - c / (34 + n) in sweep n: what is
left after many sweeps is what fades slowly, and needs more of it.  Where thousands of rows share
one body (a sphere so fast that it may meet them all) a sweep is no gradient step, and momentum may
grow without end while it points downhill.  So it starts again too, and c is doubled, where

    sum_k A_kk (l_next - y)_k^2                                                                (5)

is some times what it was.

After some twenty sweeps all but a few rows in a hundred are solved, and those few, far from each
other, would keep all rows busy for as many sweeps again: the more so the larger the pile.  So the
end is local: rows over the tolerance are solved one by one, then those which that brought over it.
A change that spreads fades below the tolerance after some rows.  If it does not, sweeps go on.

Of a pile that is on the move half of the rows are far from closed, and stay so.  A row that
does not push is swept only where

    w_k <= tol_k + ( |u_i - u_i'| + |u_j - u_j'| ) / 2                                          (6)

with u' as it was when this was last asked, some sweeps ago.  Whether all is solved is asked of all.

lam need not be unique: where contacts outnumber the directions of motion, a part of it is a stress
that holds itself.  A guess may have much of it that the new geometry no longer allows, and that
part fades slowly.  Where a guess makes no progress, lam = 0 takes its place; and where momentum
makes none (a few rows can throw it to and fro), plain sweeps do, in turn with a larger momentum.

The residual is that of the natural map, a velocity,

    R_k = min( w_k, A_kk lam_k ),      w_k = n_k (u_j - u_i) + b_k                            (3)

|R_k| <= tol_k says: the gap closes no faster than tol_k allows (no overlap), and a row that pushes
by more than tol_k is closed to within tol_k (complementarity).  What is allowed is small against
what contacts do in this step to the bodies i and j of the row, c_i = |u_i - still_i|, and by
itself:

    tol_k = max(a_i, a_j) + eps |b_k|,
    a_i = min( most, relative max(c_i, 1e-6 c_max) ) + eps |u_i|_1                          (4)

with some units eps of rounding; still is free, but where free has pulls of earlier steps in it
(worlds/spheres/glued.py).  A sphere at rest has c = g h, however small h is, and one that is
hit has the jump of its velocity; what it slides at does not matter, nor, but for a millionth, what
happens elsewhere.  tol_k follows u, and holds at the point that is returned.

Rows come sorted by slabs of space.  Those of slab s touch bodies of s and s + 1 only: even slabs
are swept together, then odd ones, and then the last, whose rows touch bodies of any.
"""

import numpy as np
from numba import prange

from carom.kernels.numba.disk import kernel

_BRAKE, _LATER = 6.8, 34.0  # of the largest beta; with a smaller c the residual swings
_START = 6.0  # of theta, when a guess is given: 10 % fewer sweeps than from 1
_LOCAL = 0.04  # of the rows: when a sweep found no more over the tolerance, the end is local
_SHARE = 0.98  # of the tolerance; the rest is for the rounding that the sweeps leave in u
_PATIENCE = 250  # sweeps between two looks at the progress ...
_STALL = 0.7  # ... which must have brought the residual down by this factor
_SWING = 4.0  # times the least (5) since the last start: too much momentum
_ELSEWHERE = 1e-6  # of the largest change of a velocity: a far echo of it need not be resolved
_ROUNDING = 16 * np.finfo(float).eps  # of the velocities that make up a w_k
_RENEW = 8  # sweeps between two evaluations of (4), and of (6), but for the first ones
_AHEAD = 0.5  # of the last change of a velocity: how far (6) looks
_LOOKS = 12  # at each row, on average, in the local end: a body may have thousands of them
_TURNS = 8  # of the local end, which changes u and with it (4)
_FUSED = {"contract"}  # a multiplication and an addition in one instruction
_PIECE = 8192  # rows or bodies in a piece of a parallel loop: fixed, so that nothing varies


@kernel()
def largest(values):
    """The largest, or nan if one is; 0 of none."""
    found = 0.0
    for value in values:
        if value > found or value != value:
            found = value
        if found != found:
            break
    return found


@kernel()
def copy(source, target):
    """target[:] = source, of which Numba would compile all that may be said of unequal shapes."""
    for i in range(source.shape[0]):
        for d in range(source.shape[1]):
            target[i, d] = source[i, d]


@kernel(fastmath=_FUSED)
def _sweep_slab(
    begin, end, listed, i_of, j_of, normal, b, inverse_mass, step, beta, allowed, u, lam, before
):
    """(2) over rows listed[begin:end]; returns the restart sum, (5) and how many were over.

    What does not change is computed all the same: a branch that the processor cannot foresee would
    cost more.  Bodies without inverse mass are shared by slabs, so they are not written.  Indices
    are unsigned: of a signed one Numba asks at each use whether it counts from the end.
    """
    uphill, moved, over = 0.0, 0.0, 0
    for place in range(begin, end):
        k = np.uint64(listed[np.uint64(place)])
        i, j = np.uint64(i_of[k]), np.uint64(j_of[k])
        nx, ny, nz = normal[k, 0], normal[k, 1], normal[k, 2]
        ix, iy, iz = u[i, 0], u[i, 1], u[i, 2]
        jx, jy, jz = u[j, 0], u[j, 1], u[j, 2]
        w = b[k] + nx * (jx - ix) + ny * (jy - iy) + nz * (jz - iz)
        old = lam[k]
        y = old + beta * (old - before[k])
        new = max(y - step[k] * w, 0.0)
        before[k] = old
        lam[k] = new
        change = new - y
        mi, mj = inverse_mass[i], inverse_mass[j]
        jump = change * (mi + mj)
        uphill -= jump * (new - old)
        moved += jump * change
        over += abs(jump) > allowed[k]
        if mi > 0.0:
            mi *= change
            u[i, 0], u[i, 1], u[i, 2] = ix - mi * nx, iy - mi * ny, iz - mi * nz
        if mj > 0.0:
            mj *= change
            u[j, 0], u[j, 1], u[j, 2] = jx + mj * nx, jy + mj * ny, jz + mj * nz
    return uphill, moved, over


@kernel()
def _together(slabs, parity):
    """How many slabs are swept at a time: even ones, odd ones, the last."""
    return (slabs - parity) // 2 if parity < 2 else 1


@kernel(parallel=True)
def sweep(
    start,
    end,
    listed,
    i_of,
    j_of,
    normal,
    b,
    inverse_mass,
    step,
    beta,
    allowed,
    u,
    u_before,
    lam,
    before,
):
    """One accelerated sweep (2), of slab s over the rows listed[start[s] : end[s]].

    Returns the restart sum, (5) and how many rows were over.
    """
    slabs = start.shape[0] - 1
    uphill, moved, over = np.zeros(slabs), np.zeros(slabs), np.zeros(slabs, np.int64)
    bodies = u.shape[0]
    for piece in prange((bodies + _PIECE - 1) // _PIECE):
        for i in range(piece * _PIECE, min(bodies, (piece + 1) * _PIECE)):
            for d in range(3):
                now = u[i, d]
                if beta > 0.0:
                    u[i, d] = now + beta * (now - u_before[i, d])
                u_before[i, d] = now
    for parity in range(3):
        for half in prange(_together(slabs, parity)):
            s = 2 * half + parity if parity < 2 else slabs - 1
            uphill[s], moved[s], over[s] = _sweep_slab(
                start[s],
                end[s],
                listed,
                i_of,
                j_of,
                normal,
                b,
                inverse_mass,
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


@kernel(fastmath=_FUSED)
def _opens_at(k, i_of, j_of, normal, b, u):
    """w_k of (3)."""
    i, j = np.uint64(i_of[k]), np.uint64(j_of[k])
    return (
        b[k]
        + normal[k, 0] * (u[j, 0] - u[i, 0])
        + normal[k, 1] * (u[j, 1] - u[i, 1])
        + normal[k, 2] * (u[j, 2] - u[i, 2])
    )


@kernel(parallel=True)
def choose(start, i_of, j_of, normal, b, u, u_then, lam, before, allowed, end, listed):
    """List the rows that push, and (6), slab by slab as for ``sweep``; u_then becomes u."""
    bodies, slabs = u.shape[0], start.shape[0] - 1
    far = np.empty(bodies)
    for piece in prange((bodies + _PIECE - 1) // _PIECE):
        for i in range(piece * _PIECE, min(bodies, (piece + 1) * _PIECE)):
            square = 0.0
            for d in range(3):
                square += (u[i, d] - u_then[i, d]) ** 2
                u_then[i, d] = u[i, d]
            far[i] = _AHEAD * np.sqrt(square)
    for s in prange(slabs):
        at = start[s]
        for row in range(start[s], start[s + 1]):
            k = np.uint64(row)
            near = allowed[k] + far[i_of[k]] + far[j_of[k]]
            pushes = lam[k] > 0.0 or before[k] > 0.0
            if pushes or not (_opens_at(k, i_of, j_of, normal, b, u) > near):
                listed[at] = row
                at += 1
        end[s] = at


@kernel(parallel=True)
def push(start, i_of, j_of, normal, inverse_mass, lam, u):
    """u += M^-1 G^T lam."""
    slabs = start.shape[0] - 1
    for parity in range(3):
        for half in prange(_together(slabs, parity)):
            s = 2 * half + parity if parity < 2 else slabs - 1
            for k in range(start[s], start[s + 1]):
                if lam[k] != 0.0:
                    i, j = i_of[k], j_of[k]
                    mi, mj = inverse_mass[i] * lam[k], inverse_mass[j] * lam[k]
                    for d in range(3):
                        if mi > 0.0:
                            u[i, d] -= mi * normal[k, d]
                        if mj > 0.0:
                            u[j, d] += mj * normal[k, d]


@kernel(fastmath=_FUSED)
def _row_residual(k, i_of, j_of, normal, b, step, u, lam):
    """|R_k| of (3)."""
    k = np.uint64(k)
    return abs(min(_opens_at(k, i_of, j_of, normal, b, u), lam[k] / step[k]))


@kernel(parallel=True)
def allow(i_of, j_of, b, still, u, most, relative, allowed):
    """(4), into ``allowed``."""
    bodies, rows = u.shape[0], i_of.shape[0]
    square, a = np.empty(bodies), np.empty(bodies)
    pieces = (bodies + _PIECE - 1) // _PIECE
    worst = np.zeros(max(pieces, 1))
    for piece in prange(pieces):
        most_here = 0.0
        for body in range(piece * _PIECE, min(bodies, (piece + 1) * _PIECE)):
            i = np.uint64(body)
            x, y, z = u[i, 0] - still[i, 0], u[i, 1] - still[i, 1], u[i, 2] - still[i, 2]
            square[i] = x * x + y * y + z * z
            a[i] = _ROUNDING * (abs(u[i, 0]) + abs(u[i, 1]) + abs(u[i, 2]))
            most_here = max(most_here, square[i])
        worst[piece] = most_here
    least, enough = _ELSEWHERE**2 * largest(worst), (most / relative) ** 2
    for piece in prange(pieces):
        for i in range(piece * _PIECE, min(bodies, (piece + 1) * _PIECE)):
            moved = max(square[i], least)  # far enough most often: no root to be taken
            a[i] += most if moved >= enough else relative * np.sqrt(moved)
    for piece in prange((rows + _PIECE - 1) // _PIECE):
        for row in range(piece * _PIECE, min(rows, (piece + 1) * _PIECE)):
            k = np.uint64(row)
            allowed[k] = max(a[np.uint64(i_of[k])], a[np.uint64(j_of[k])]) + _ROUNDING * abs(b[k])


@kernel(parallel=True)
def residual(i_of, j_of, normal, b, step, u, lam, allowed):
    """max_k |R_k| / tol_k; nan if anything is."""
    rows = i_of.shape[0]
    pieces = (rows + _PIECE - 1) // _PIECE
    most = np.zeros(max(pieces, 1))
    for piece in prange(pieces):
        for k in range(piece * _PIECE, min(rows, (piece + 1) * _PIECE)):
            R = _row_residual(k, i_of, j_of, normal, b, step, u, lam)
            if not most[piece] * allowed[k] >= R:
                most[piece] = R / allowed[k]
                if not most[piece] < np.inf:
                    break
    return largest(most)


@kernel(parallel=True)
def within(i_of, j_of, normal, b, step, u, lam, allowed):
    """Whether every |R_k| <= _SHARE tol_k; each piece of rows stops at the first that is not."""
    rows = i_of.shape[0]
    pieces = (rows + _PIECE - 1) // _PIECE
    over = np.zeros(max(pieces, 1))
    for piece in prange(pieces):
        for k in range(piece * _PIECE, min(rows, (piece + 1) * _PIECE)):
            R = _row_residual(k, i_of, j_of, normal, b, step, u, lam)
            if not (_SHARE * allowed[k] >= R):
                over[piece] = 1.0
                break
    return largest(over) == 0.0


@kernel()
def rows_of(i_of, j_of, inverse_mass):
    """The rows of each body that can move: rows[start[i] : start[i + 1]]."""
    start = np.zeros(inverse_mass.shape[0] + 1, np.int32)
    for body_of in (i_of, j_of):
        for i in body_of:
            start[i + 1] += inverse_mass[i] > 0.0
    for i in range(inverse_mass.shape[0]):
        start[i + 1] += start[i]
    rows, at = np.empty(start[-1], np.int32), start[:-1].copy()
    for body_of in (i_of, j_of):
        for k in range(body_of.shape[0]):
            i = body_of[k]
            if inverse_mass[i] > 0.0:
                rows[at[i]] = k
                at[i] += 1
    return start, rows


@kernel(fastmath=_FUSED)
def finish(start, rows, i_of, j_of, normal, b, inverse_mass, step, u, lam, allowed):
    """Solve the rows over the tolerance, and those which that brings over it, one by one.

    ``start`` and ``rows`` are those of ``rows_of``.  Returns how many changes were made, and
    whether it gave up: after as many changes as there are rows, or too many looks at the others.
    """
    count, looks = i_of.shape[0], 0
    listed, now, following = np.zeros(count, np.bool_), np.empty(count, np.int32), 0
    for k in range(count):
        R = _row_residual(k, i_of, j_of, normal, b, step, u, lam)
        if not (_SHARE * allowed[k] >= R):
            now[following], listed[k] = k, True
            following += 1
    after, made = np.empty(count, np.int32), 0
    while following > 0 and made < count and looks < _LOOKS * count:
        waiting, following = following, 0
        for place in range(waiting):
            if looks >= _LOOKS * count:
                break
            k = np.int64(now[place])
            listed[k] = False
            i, j = i_of[k], j_of[k]
            nx, ny, nz = normal[k, 0], normal[k, 1], normal[k, 2]
            w = _opens_at(k, i_of, j_of, normal, b, u)
            if abs(min(w, lam[k] / step[k])) <= _SHARE * allowed[k]:
                continue
            new = max(lam[k] - step[k] * w, 0.0)
            change, lam[k] = new - lam[k], new
            made += 1
            for body, push in ((i, -change * inverse_mass[i]), (j, change * inverse_mass[j])):
                u[body, 0] += push * nx
                u[body, 1] += push * ny
                u[body, 2] += push * nz
            for body in (i, j):
                looks += start[body + 1] - start[body]
                for m in rows[start[body] : start[body + 1]]:
                    if listed[m]:
                        continue
                    R = _row_residual(m, i_of, j_of, normal, b, step, u, lam)
                    if not (_SHARE * allowed[m] >= R):
                        after[following], listed[m] = m, True
                        following += 1
        now, after = after, now
    return made, made >= count or looks >= _LOOKS * count


@kernel()
def accelerated_gauss_seidel(
    start, i_of, j_of, normal, b, inverse_mass, free, still, lam, most, relative, iterations
):
    """Solve (1) from the guess ``lam``, which is overwritten.

    Returns u, the measured residual (3) of (lam, u) in terms of what (4) allows, and the number of
    sweeps.
    """
    rows = i_of.shape[0]
    step, allowed, listed = np.empty(rows), np.empty(rows), np.empty(rows, np.int32)
    for k in range(rows):
        listed[k] = k
        step[k] = 1.0 / (inverse_mass[i_of[k]] + inverse_mass[j_of[k]])
    u, u_before, before = free.copy(), free.copy(), lam.copy()
    push(start, i_of, j_of, normal, inverse_mass, lam, u)
    end, u_then, until = start[1:].copy(), u.copy(), _RENEW // 2
    theta, beta, done = _START, 0.0, 0
    brake, last, cold, plain = _BRAKE, np.inf, False, False
    few, look, least = _LOCAL * rows, _PATIENCE, np.inf
    allow(i_of, j_of, b, still, u, most, relative, allowed)
    first, of_body = np.empty(0, np.int32), np.empty(0, np.int32)
    fresh = True  # whether u is made of lam anew, so that no rounding of the sweeps is left in (1)
    held = within(i_of, j_of, normal, b, step, u, lam, allowed)
    while done < iterations:
        if held:
            if not fresh:
                copy(free, u)
                push(start, i_of, j_of, normal, inverse_mass, lam, u)
                allow(i_of, j_of, b, still, u, most, relative, allowed)
                fresh = True
            worst = residual(i_of, j_of, normal, b, step, u, lam, allowed)
            if worst <= _SHARE:
                return u, worst, done
        fresh = False
        if until == 0:
            choose(start, i_of, j_of, normal, b, u, u_then, lam, before, allowed, end, listed)
            until = _RENEW
        until -= 1
        uphill, moved, over = sweep(
            start,
            end,
            listed,
            i_of,
            j_of,
            normal,
            b,
            inverse_mass,
            step,
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
        if over <= few:
            few, until = 0.25 * few, 0  # rows that it makes push are to be listed: (2) is of all
            if not first.shape[0]:
                first, of_body = rows_of(i_of, j_of, inverse_mass)
            for _ in range(_TURNS):
                made, too_much = finish(
                    first,
                    of_body,
                    i_of,
                    j_of,
                    normal,
                    b,
                    inverse_mass,
                    step,
                    u,
                    lam,
                    allowed,
                )
                done += (made + rows - 1) // rows
                allow(i_of, j_of, b, still, u, most, relative, allowed)
                held = within(i_of, j_of, normal, b, step, u, lam, allowed)
                if too_much or held:
                    break
        else:
            if done % _RENEW == 0 or done in (1, 2, 4):
                allow(i_of, j_of, b, still, u, most, relative, allowed)
            held = within(i_of, j_of, normal, b, step, u, lam, allowed)
        least = min(least, moved)
        if moved > _SWING * least:
            theta, beta, least, brake = 1.0, 0.0, np.inf, 2.0 * brake
        elif uphill > 0.0:
            theta, beta = 1.0, 0.0
        else:
            following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * theta * theta))
            ceiling = 0.0 if plain else max(0.0, 1.0 - brake / (_LATER + done))
            theta, beta = following, min((theta - 1.0) / following, ceiling)
        if done >= look and not held:
            look += _PATIENCE
            copy(free, u)
            push(start, i_of, j_of, normal, inverse_mass, lam, u)
            worst = residual(i_of, j_of, normal, b, step, u, lam, allowed)
            if worst > _STALL * last and not cold:  # lam = 0 is a better guess than this one
                lam[:] = 0.0
                before[:] = 0.0
                copy(free, u)
                copy(free, u_before)
                theta, beta, brake, cold = 1.0, 0.0, _BRAKE, True
                least = last = np.inf
            else:
                plain = plain != (worst > _STALL * last)  # where one way stalls, the other
                brake *= 0.5
                last = worst
            held = within(i_of, j_of, normal, b, step, u, lam, allowed)
    copy(free, u)
    push(start, i_of, j_of, normal, inverse_mass, lam, u)
    allow(i_of, j_of, b, still, u, most, relative, allowed)
    return u, residual(i_of, j_of, normal, b, step, u, lam, allowed), done
