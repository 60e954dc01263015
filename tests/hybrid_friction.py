"""A planar body on a floor with friction by another route: fixed short steps, nothing of carom.

    m x'' = f_x + sum lam_t,   m y'' = f_y + sum lam_n,   I th'' = f_th + sum c lam_n - s lam_t (1)

A point (a, b) of the body touches the floor y = 0 where g = y + a sin th + b cos th = 0; with
s = a sin th + b cos th, c = a cos th - b sin th and w = th',

    u_n = y' + c w,    u_t = x' - s w - belt(t),    u_n' = y'' + c w' - s w^2,
    u_t' = x'' - s w' - c w^2 - belt'(t)                                                      (2)

Open, stick, slip either way: the mode of (2) that obeys Coulomb's law is searched among all.  Steps
of the formula of order 8 of DOP853; what changes its sign within one is met by bisection.
"""

import numpy as np
from numba import njit
from scipy.integrate import DOP853

_A, _B, _C = np.array(DOP853.A), np.array(DOP853.B), np.array(DOP853.C)
OPEN, STICK, FORWARD, BACKWARD = 0, 1, 2, 3
REST = 2e-6  # a normal speed below which, pressed back, a contact lasts
OK, CROWDED, NO_MODE, AMBIGUOUS = 0, 1, 2, 3
# of the parameters: mass, inertia, gravity, stiffness of springs in x and th, force in x and th and
# its frequency, belt's mean speed, amplitude and frequency, mu, e, then (a, b) of each point
HEAD = 13


@njit(cache=True)
def pushed(x, t, y):
    """f."""
    wave = np.sin(x[7] * t)
    return np.array(
        [-x[3] * y[0] + x[5] * wave, -x[0] * x[2], -x[4] * y[2] + x[6] * np.cos(x[7] * t)]
    )


@njit(cache=True)
def contacts(x, t, y):
    """g (p,), u (2, p), rows (2, p, 3), and u' at no acceleration (2, p)."""
    p = (len(x) - HEAD) // 2
    g, u, rows, bend = np.empty(p), np.empty((2, p)), np.zeros((2, p, 3)), np.empty((2, p))
    sn, cs, w = np.sin(y[2]), np.cos(y[2]), y[5]
    belt, drive = x[8] + x[9] * np.sin(x[10] * t), x[9] * x[10] * np.cos(x[10] * t)
    for i in range(p):
        a, b = x[HEAD + 2 * i], x[HEAD + 2 * i + 1]
        s, c = a * sn + b * cs, a * cs - b * sn
        g[i] = y[1] + s
        u[0, i], u[1, i] = y[4] + c * w, y[3] - s * w - belt
        rows[0, i, 1], rows[0, i, 2] = 1.0, c
        rows[1, i, 0], rows[1, i, 2] = 1.0, -s
        bend[0, i], bend[1, i] = -s * w * w, -c * w * w - drive
    return g, u, rows, bend


@njit(cache=True)
def solved(A, b, mode, mu):
    """lam (2p,) of a mode, normals first, and whether its equations are regular."""
    p = len(mode)
    B, r = np.eye(2 * p), np.zeros(2 * p)
    for i in range(p):
        if mode[i] != OPEN:
            B[i], r[i] = A[i], -b[i]
        if mode[i] == STICK:
            B[p + i], r[p + i] = A[p + i], -b[p + i]
        elif mode[i] != OPEN:
            B[p + i, i] = mu if mode[i] == FORWARD else -mu
    if abs(np.linalg.det(B)) < 1e-10:
        return np.zeros(2 * p), False
    return np.linalg.solve(B, r), True


@njit(cache=True)
def searched(A, b, mu, rest, zero, ahead, barred):
    """The mode that obeys the law, and how many motions do; ``barred`` (p, 4) comes last."""
    p = len(rest)
    best, cost, found, count = np.zeros(p, np.int64), np.inf, np.zeros(2 * p), 0
    for k in range(4**p):
        mode, price, fault = np.zeros(p, np.int64), 0.0, 0.0
        for i in range(p):
            mode[i] = (k // 4**i) % 4
        lam, regular = solved(A, b, mode, mu)
        if not regular:
            continue
        a = A @ lam + b
        scale = 1e-9 * (np.max(np.abs(b)) + np.max(np.abs(lam)) * np.max(np.abs(A)))
        for i in range(p):
            if mode[i] == OPEN:
                if rest[i]:
                    fault = max(fault, -a[i])
                price += 2.0
                continue
            if not rest[i]:
                fault = np.inf
            price += 0.0 if mode[i] == STICK else 1.0
            price += 10.0 if lam[i] * A[i, i] < scale else 0.0
            fault = max(fault, -lam[i] * A[i, i])
            if mode[i] == STICK:
                fault = max(fault, (abs(lam[p + i]) - mu * lam[i]) * A[i, i])
                if not zero[i]:
                    fault = np.inf
            else:
                side = 1.0 if mode[i] == FORWARD else -1.0
                if zero[i]:
                    fault = max(fault, -side * a[p + i])
                elif ahead[i] != (side > 0.0):
                    fault = np.inf
        for i in range(p):
            price += 10.0 if barred[i, mode[i]] else 0.0
        if fault > scale:
            continue
        if count == 0 or np.max(np.abs(a - found)) > 1e-6 * (1.0 + np.max(np.abs(b))):
            count += 1
        if price < cost:
            best, cost, found = mode, price, a
    return best, count


@njit(cache=True)
def matrices(x, t, y):
    g, u, rows, bend = contacts(x, t, y)
    p = len(g)
    G = np.concatenate((rows[0], rows[1]))
    W = np.array([1.0 / x[0], 1.0 / x[0], 1.0 / x[1]])
    return g, u, bend.copy().reshape(2 * p), G, W, (G * W) @ G.T


@njit(cache=True)
def rate(x, t, y, mode):
    _g, _u, bend, G, W, A = matrices(x, t, y)
    a = W * pushed(x, t, y)
    lam = solved(A, G @ a + bend, mode, x[11])[0]
    out = np.empty(6)
    out[:3], out[3:] = y[3:], a + W * (G.T @ lam)
    return out, lam


@njit(cache=True)
def stepped(x, t, y, h, mode):
    k = np.zeros((len(_B), 6))
    for i in range(len(_B)):
        z = y.copy()
        for j in range(i):
            z += h * _A[i, j] * k[j]
        k[i] = rate(x, t + _C[i] * h, z, mode)[0]
    end = y.copy()
    for i in range(len(_B)):
        end += h * _B[i] * k[i]
    return end


@njit(cache=True)
def looked_at(x, t, y, mode):
    """(3p,) positive while nothing happens."""
    g, u = contacts(x, t, y)[:2]
    p = len(g)
    lam = rate(x, t, y, mode)[1]
    f = np.ones(3 * p)
    for i in range(p):
        f[i] = g[i] if mode[i] == OPEN else lam[i]
        if mode[i] == STICK:
            f[p + i], f[2 * p + i] = x[11] * lam[i] - lam[p + i], x[11] * lam[i] + lam[p + i]
        elif mode[i] == FORWARD:
            f[p + i] = u[1, i]
        elif mode[i] == BACKWARD:
            f[p + i] = -u[1, i]
    return f


@njit(cache=True)
def decided(x, t, y, rest, zero, barred):
    _g, u, bend, G, W, A = matrices(x, t, y)
    return searched(A, G @ (W * pushed(x, t, y)) + bend, x[11], rest, zero, u[1] > 0.0, barred)


@njit(cache=True)
def moved(x, y, t1, h):
    """y at t1, how it ended, impacts, changes of mode, and the least distance from a doubt."""
    p = (len(x) - HEAD) // 2
    t, y, hits, changes, doubt = 0.0, y.copy(), 0, 0, np.inf
    g, u = contacts(x, t, y)[:2]
    none = np.zeros((p, 4), np.bool_)
    rest = (g < 1e-12) & (np.abs(u[0]) < 1e-12)
    mode, count = decided(x, t, y, rest, np.abs(u[1]) < 1e-12, none)
    if count != 1:
        return y, NO_MODE if count == 0 else AMBIGUOUS, hits, changes, doubt
    while t < t1 - 1e-14:
        start = looked_at(x, t, y, mode)
        step = min(h, t1 - t)
        end = stepped(x, t, y, step, mode)
        after = looked_at(x, t + step, end, mode)
        fell = (after < 0.0) & (after < start - 1e-14)
        if not np.any(fell):
            t, y = t + step, end
            continue
        low, high = 0.0, step
        for _ in range(60):
            middle = 0.5 * (low + high)
            f = looked_at(x, t + middle, stepped(x, t, y, middle, mode), mode)
            if np.any((f < 0.0) & (f < start - 1e-14)):
                high = middle
            else:
                low = middle
        end = stepped(x, t, y, high, mode)
        f = looked_at(x, t + high, end, mode)
        ended = (f < 0.0) & (f < start - 1e-14)
        t, y = t + high, end
        changes += 1
        if changes > 3000:
            return y, CROWDED, hits, changes, doubt
        g, u, _, G, W, A = matrices(x, t, y)
        rest, zero, barred = np.zeros(p, np.bool_), np.zeros(p, np.bool_), none.copy()
        closed = np.zeros(p, np.bool_)
        struck = False
        for i in range(p):
            closed[i] = mode[i] != OPEN or ended[i] or g[i] < 1e-12
            struck = struck or (mode[i] == OPEN and closed[i] and u[0, i] < 0.0)
            if mode[i] != OPEN and ended[i]:
                barred[i, 1:] = True
            if mode[i] == STICK and (ended[p + i] or ended[2 * p + i]):
                barred[i, STICK] = True
            zero[i] = mode[i] == STICK or (mode[i] != OPEN and ended[p + i])
        if struck:
            hits += 1
            b = np.concatenate((u[0] * (1.0 + x[12]), u[1]))
            blow, count = searched(A, b, x[11], closed, np.ones(p, np.bool_), closed, none)
            if count != 1:
                return y, NO_MODE if count == 0 else AMBIGUOUS, hits, changes, doubt
            r = solved(A, b, blow, x[11])[0]
            y = y.copy()
            y[3:] += W * (G.T @ r)
            u = contacts(x, t, y)[1]
            barred[:] = False
            for i in range(p):
                zero[i] = abs(u[1, i]) < 1e-11
        for i in range(p):
            rest[i] = closed[i] and abs(u[0, i]) < REST
        mode, count = decided(x, t, y, rest, zero, barred)
        if count != 1:
            return y, NO_MODE if count == 0 else AMBIGUOUS, hits, changes, doubt
        # what is left of bounces, along the force of the mode
        g, u, _bend, G, W, A = matrices(x, t, y)
        left = solved(A, np.concatenate((u[0], u[1])), mode, x[11])[0]
        y = y.copy()
        y[3:] += W * (G.T @ left)
    return y, OK, hits, changes, doubt
