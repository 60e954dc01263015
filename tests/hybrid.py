"""Random systems with impacts by another route: fixed short steps, in Numba, with nothing of carom.

    W(q) = M(q)^-1,     q'' = W (f + sum_A lam_i G_i),     d^2 g_i / dt^2 = 0 on A             (1)

by the formula of order 8 of Hairer's DOP853, in short steps of equal length.  Looked at, at both
ends of each step and wherever their rate turns, are the gaps that are open, the multipliers of the
closed ones, and the switches of the force (kinks, jumps), whose side is held during a step; the
first that changes its sign is met by bisection.  Masses, forces, gaps and their derivatives are
written out by hand in families_by_hand.py.
"""

import numpy as np
from numba import njit
from scipy.integrate import DOP853

import families_by_hand as by_hand

_A, _B, _C = np.array(DOP853.A), np.array(DOP853.B), np.array(DOP853.C)
_STAGES = len(_B)
REST = 1e-7  # a normal speed below which, pressed back, a contact lasts
OK, CROWDED, CORNER = 0, 1, 2
TURNS = 20_000  # of a record: more are an accumulation that REST does not end


@njit(cache=True)
def complementary(A, b, inside):
    """lam >= 0, A lam + b >= 0, lam . (A lam + b) = 0 on ``inside``: subset by subset."""
    p = len(b)
    best, found = np.zeros(p), np.inf
    for subset in range(1 << p):
        chosen = np.array([i for i in range(p) if (subset >> i) & 1])
        if len(chosen) and not np.all(inside[chosen]):
            continue
        lam = np.zeros(p)
        if len(chosen):
            small, rhs = np.empty((len(chosen), len(chosen))), np.empty(len(chosen))
            for r in range(len(chosen)):
                rhs[r] = -b[chosen[r]]
                for c in range(len(chosen)):
                    small[r, c] = A[chosen[r], chosen[c]]
            if abs(np.linalg.det(small)) < 1e-12:
                continue
            lam[chosen] = np.linalg.solve(small, rhs)
        w = A @ lam + b
        fault = max(0.0, -np.min(lam))
        for i in range(p):
            if inside[i]:
                fault = max(fault, -w[i])
        if fault < found - 1e-13:
            best, found = lam, fault
    return best


@njit(cache=True)
def space(d, p):
    """Room for f, W, g, G, its rate and bend, lam, the stages, their mean."""
    vectors = np.zeros((4, p))
    return (
        np.zeros(d),
        np.zeros((d, d)),
        vectors[0],
        np.zeros((p, d)),
        vectors[1],
        vectors[2],
        vectors[3],
        np.zeros((_STAGES, 2 * d)),
        np.zeros(2 * d),
    )


@njit(cache=True)
def times(A, x, out):
    for i in range(len(out)):
        out[i] = 0.0
        for j in range(len(x)):
            out[i] += A[i, j] * x[j]


@njit(cache=True)
def accelerated(kind, x, t, y, side, active, work, a):
    """a = q'' of (1), with f, W, g, G, rate, bend and lam left in ``work``."""
    f, W, g, G, gt, bend, lam = work[:7]
    d, p = len(f), len(g)
    q, v = y[:d], y[d:]
    by_hand.pushed(kind, x, t, q, v, side, f, W)
    by_hand.walls(kind, x, t, q, v, g, G, gt, bend)
    times(W, f, a)
    count, one = 0, 0
    for i in range(p):
        lam[i] = 0.0
        if active[i]:
            count, one = count + 1, i
    if count == 0:
        return
    if count == 1:
        lam[one] = -(np.dot(G[one], a) + bend[one]) / np.dot(G[one], W @ G[one])
    else:
        chosen = np.flatnonzero(active)
        rows = G[chosen]
        lam[chosen] = np.linalg.solve(rows @ W @ rows.T, -(rows @ a + bend[chosen]))
    for i in range(p):
        if active[i]:
            f += lam[i] * G[i]
    times(W, f, a)


@njit(cache=True)
def stepped(kind, x, t, y, h, side, active, work):
    """y(t + h)."""
    k, z = work[7], work[8]
    n = len(y)
    d = n // 2
    for i in range(_STAGES):
        for m in range(n):
            z[m] = y[m]
            for j in range(i):
                z[m] += h * _A[i, j] * k[j, m]
        k[i, :d] = z[d:]
        accelerated(kind, x, t + _C[i] * h, z, side, active, work, k[i, d:])
    end = y.copy()
    for i in range(_STAGES):
        for m in range(n):
            end[m] += h * _B[i] * k[i, m]
    return end


@njit(cache=True)
def looked_at(kind, x, t, y, side, active, work, ns):
    """(p + ns,) positive while nothing happens, and the rates and bends of the gaps."""
    f, _, g, G, gt, bend, lam = work[:7]
    d, p = len(f), len(g)
    a = np.empty(d)
    accelerated(kind, x, t, y, side, active, work, a)
    values, rates, bent = np.empty(p + ns), np.empty(p), np.empty(p)
    s = np.zeros(ns)
    by_hand.switched(kind, x, t, y[:d], s)
    for i in range(p):
        values[i] = lam[i] if active[i] else g[i]
        rates[i], bent[i] = gt[i], bend[i]
        for j in range(d):
            rates[i] += G[i, j] * y[d + j]
            bent[i] += G[i, j] * a[j]
    for j in range(ns):
        values[p + j] = s[j] if side[j] else -s[j]
    return values, rates, bent


@njit(cache=True)
def turning(kind, x, t, y, h, side, active, work, i):
    """When, within h, the rate of gap i is zero, and the gap there."""
    a, b, least = 0.0, h, 0.0
    for _ in range(50):
        m = 0.5 * (a + b)
        z = stepped(kind, x, t, y, m, side, active, work)
        values, rates, _ = looked_at(kind, x, t + m, z, side, active, work, 0)
        a, b = (m, b) if rates[i] < 0.0 else (a, m)
        least = values[i]
    return b, least


@njit(cache=True)
def happens(values, low, exempt):
    """Whether one is below zero, a gap below its (rounded) start."""
    found = False
    for i in range(len(values)):
        gap = i < len(low)
        found |= values[i] < (low[i] if gap else 0.0) and not (gap and exempt[i])
    return found


@njit(cache=True)
def struck(met, rates, active, e, y, work):
    """The impact law (in place); which gaps then rest, before it is known whether they press."""
    W, G, gt = work[1], work[3], work[4]
    d = len(y) // 2
    closed = active | (met & (rates < 0.0))
    blow = complementary(G @ W @ G.T, (1.0 + e) * np.where(active, 0.0, rates), closed)
    y[d:] += W @ (G.T @ blow)
    return closed & (G @ y[d:] + gt < REST)


@njit(cache=True)
def settled(kind, x, t, y, side, resting, work):
    """Which of the gaps at rest are pressed; their speeds are taken out of y."""
    W, G = work[1], work[3]
    d = len(y) // 2
    _, w, bent = looked_at(kind, x, t, y, side, resting & False, work, 0)
    active = resting & (complementary(G @ W @ G.T, bent, resting) > 0.0)
    if np.any(active):
        chosen = np.flatnonzero(active)
        rows = G[chosen]
        y[d:] -= W @ (rows.T @ np.linalg.solve(rows @ W @ rows.T, w[chosen]))
    return active


@njit(cache=True)
def motion(kind, x, e, y0, p, ns, t1, longest, records, kicked, kick, places, impacts):
    """Fill places (records + 1, d), impacts (k, 3: time, gap, speed).

    Returns (status, number of impacts, last state, closest), where closest is how far the motion
    was from another one: the least gap that turned before it closed, the depth that an impact had
    reached without the wall, and the least other gap at an impact.
    """
    d = len(y0) // 2
    work = space(d, p)
    t, y, closest, count = 0.0, y0.copy(), np.inf, 0
    active, quiet, freed = np.zeros(p, np.bool_), np.zeros(p, np.bool_), np.zeros(p, np.bool_)
    s = np.zeros(ns)
    by_hand.switched(kind, x, t, y[:d], s)
    side = s > 0.0
    places[0] = y[:d]
    for r in range(1, records + 1):
        if r - 1 == kicked and not np.any(active):
            moved, _, _ = looked_at(kind, x, t, y + kick, side, active, work, 0)
            if np.all(moved > 0.0):
                y = y + kick
        target = t1 * r / records
        turns = 0
        while t < target:
            turns += 1
            if turns > TURNS:
                return CROWDED, count, y, closest
            h = min(longest, target - t)
            last = h >= target - t
            # just released, or at rest by rounding: nothing is asked of it in this step
            values, rates0, _ = looked_at(kind, x, t, y, side, active, work, ns)
            low = np.where(active, 0.0, np.minimum(values[:p], 0.0))
            quiet[:] = ~active & (np.abs(values[:p]) < 1e-12) & (np.abs(rates0) < 1e-9)
            if np.any(quiet & ~freed):
                active = active | settled(kind, x, t, y, side, quiet & ~freed, work)
                quiet &= ~active
                low[active] = 0.0
            end = stepped(kind, x, t, y, h, side, active, work)
            values, rates, _ = looked_at(kind, x, t + h, end, side, active, work, ns)
            hi = h if happens(values, low, quiet) else np.inf
            for i in range(p):
                above = not active[i] and not quiet[i] and values[i] >= 0.0
                if above and rates0[i] < 0.0 and rates[i] > 0.0:
                    at, least = turning(kind, x, t, y, h, side, active, work, i)
                    if least < low[i]:
                        hi = min(hi, at)
                    else:
                        closest = min(closest, least)
            if hi == np.inf:
                t, y = (target if last else t + h), end
                freed[:] = False
                continue
            lo = 0.0
            for _ in range(55):
                m = 0.5 * (lo + hi)
                z = stepped(kind, x, t, y, m, side, active, work)
                values, _, _ = looked_at(kind, x, t + m, z, side, active, work, ns)
                lo, hi = (lo, m) if happens(values, low, quiet) else (m, hi)
            y = stepped(kind, x, t, y, hi, side, active, work)
            t = t + hi
            values, rates, bent = looked_at(kind, x, t, y, side, active, work, ns)
            hits = 0
            for i in range(p):
                if active[i] or quiet[i]:
                    continue
                if values[i] < low[i] and rates[i] < 0.0:
                    hits += 1
                    if count == len(impacts):
                        return CROWDED, count, y, closest
                    impacts[count] = np.array([t, i, -rates[i]])
                    count += 1
                    if bent[i] > 0.0:
                        closest = min(closest, 0.5 * rates[i] ** 2 / bent[i])
            if hits > 1:
                return CORNER, count, y, closest
            if hits:
                for i in range(p):
                    if not active[i] and values[i] >= 0.0:
                        closest = min(closest, values[i])
                resting = struck(values[:p] < low, rates, active, e, y, work)
                active = settled(kind, x, t, y, side, resting, work)
            for i in range(p):
                if active[i] and not hits and values[i] < 0.0:
                    active[i], freed[i] = False, True
            for j in range(ns):
                if values[p + j] < 0.0:
                    side[j] = not side[j]
        places[r] = y[:d]
    return OK, count, y, closest
