"""The families of random_events.py for hybrid.py: inverse masses, forces and gaps by hand."""

import numpy as np
from numba import njit

TABLE, LINEAR, PENDULUM, BEAD, STOPS, WAVES, OVAL = range(7)


@njit(cache=True)
def pushed(kind, x, t, q, v, side, f, W):
    """f and W = M^-1 filled in; ``side`` says on which side of its switches the force is."""
    for i in range(len(q)):
        W[i, i] = 1.0
    if kind == TABLE:
        f[0] = -1.0
    elif kind == LINEAR:
        W[:] = x[30:39].reshape(3, 3)
        f[:] = x[39:42] - x[42:45] * q - x[45] * v
    elif kind == PENDULUM:
        m1, m2, a, b, down = x[0], x[1], x[2], x[3], x[4]
        c, s = np.cos(q[0] - q[1]), np.sin(q[0] - q[1])
        A, B, D = (m1 + m2) * a * a, m2 * a * b * c, m2 * b * b
        det = A * D - B * B
        W[0, 0], W[0, 1], W[1, 0], W[1, 1] = D / det, -B / det, -B / det, A / det
        f[0] = -m2 * a * b * s * v[1] ** 2 - (m1 + m2) * down * a * np.sin(q[0])
        f[1] = m2 * a * b * s * v[0] ** 2 - m2 * down * b * np.sin(q[1])
    elif kind == BEAD:
        c, k, down, rub = x[0], x[1], x[2], x[3]
        y1, y2 = c * k * np.cos(k * q[0]), -c * k * k * np.sin(k * q[0])
        W[0, 0] = 1.0 / (1.0 + y1 * y1)
        f[0] = -y1 * y2 * v[0] ** 2 - down * y1 - rub * v[0]
    elif kind == STOPS:
        k1, k12, k2, K, c, F, w, rub = x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]
        f[0] = -k1 * q[0] + k12 * (q[1] - q[0]) - rub * v[0]
        f[1] = -k2 * q[1] + k12 * (q[0] - q[1]) - rub * v[1] + F * np.cos(w * t)
        if side[0]:
            f[0] -= K * (q[0] - c)
        if side[1]:
            f[1] -= K * (q[1] + c)
    elif kind == WAVES:
        k, rub, F, P = x[0], x[1], x[2], x[7]
        f[0] = -k * q[0] - rub * v[0] + (F if side[0] else -F)
        if side[1] and not side[2]:
            f[0] += P
    elif kind == OVAL:
        f[0] = x[6] * v[1]
        f[1] = -x[6] * v[0] - x[5]


@njit(cache=True)
def walls(kind, x, t, q, v, g, G, gt, bend):
    """Gaps, gradients, rates, and d^2 g / dt^2 without the acceleration."""
    if kind == TABLE:
        a, w, p = x[0], x[1], x[2]
        s = np.sin(w * t + p)
        g[0], G[0, 0], gt[0], bend[0] = q[0] - a * s, 1.0, -a * w * np.cos(w * t + p), a * w * w * s
    elif kind == LINEAR:
        w = x[20]
        for i in range(4):
            G[i] = x[3 * i : 3 * i + 3]
            c = x[16 + i]
            g[i] = np.dot(G[i], q) + x[12 + i] + c * np.sin(w * t)
            gt[i], bend[i] = c * w * np.cos(w * t), -c * w * w * np.sin(w * t)
    elif kind == PENDULUM:
        a, b = x[2], x[3]
        tip = a * np.sin(q[0]) + b * np.sin(q[1])
        curved = -a * np.sin(q[0]) * v[0] ** 2 - b * np.sin(q[1]) * v[1] ** 2
        for i in range(2):
            sign = 1.0 - 2.0 * i
            g[i] = x[5 + i] + sign * tip
            G[i, 0], G[i, 1] = sign * a * np.cos(q[0]), sign * b * np.cos(q[1])
            bend[i] = sign * curved
    elif kind == BEAD:
        g[0], g[1] = x[4] + q[0], x[5] - q[0]
        G[0, 0], G[1, 0] = 1.0, -1.0
    elif kind == STOPS:
        g[0], G[0, 1] = x[8] - q[1], -1.0
    elif kind == WAVES:
        g[0], G[0, 0] = q[0] + x[8], 1.0
    elif kind == OVAL:
        a, b = 1.0 / x[0] ** 2, 1.0 / x[1] ** 2
        g[0] = 1.0 - a * q[0] ** 2 - b * q[1] ** 2
        G[0, 0], G[0, 1] = -2.0 * a * q[0], -2.0 * b * q[1]
        bend[0] = -2.0 * a * v[0] ** 2 - 2.0 * b * v[1] ** 2
        u, z = q[0] - x[2], q[1] - x[3]
        g[1] = u * u + z * z - x[4] ** 2
        G[1, 0], G[1, 1] = 2.0 * u, 2.0 * z
        bend[1] = 2.0 * (v[0] ** 2 + v[1] ** 2)


@njit(cache=True)
def switched(kind, x, t, q, s):
    """Functions whose signs say on which side of its kinks and jumps the force is."""
    if kind == STOPS and len(s):
        s[0] = q[0] - x[4]
        s[1] = -x[4] - q[1]
    elif kind == WAVES and len(s):
        s[0] = np.sin(x[3] * t + x[4])
        s[1] = t - x[5]
        s[2] = t - x[5] - x[6]
