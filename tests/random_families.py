"""Families of random systems with impacts: how they are drawn, and as carom's Systems.

The parameters x of a system end with its restitution, q0 and v0; families_by_hand.py has the same
systems for a route of its own.
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import carom
import families_by_hand as by_hand


class Family(NamedTuple):
    name: str
    kind: int
    d: int
    p: int
    switches: int
    t1: float
    draw: Callable  # (rng, n) -> (n, size)
    system: Callable  # (x, e) -> System
    options: Callable = lambda x: {}  # of EventDriven

    def drawn(self, count: int, seed: int) -> np.ndarray:
        return self.draw(np.random.default_rng([self.kind, seed]), count)

    def start(self, x):
        """e, q0, v0."""
        return x[-1 - 2 * self.d], x[-2 * self.d : -self.d], x[-self.d :]


class _Function(eqx.Module):
    """With parameters: one compilation for all of them."""

    x: jax.Array


class Table(_Function):
    def __call__(self, t, q):
        a, w, p = self.x[:3]
        return q - a * jnp.sin(w * t + p)


def falling(t, q, v):
    return -jnp.ones(1)


def _tables(rng, n):
    low, high = [0.05, 0.5, 0.0, 0.0, 0.1, -1.0], [3.0, 4.0, 6.28, 0.95, 3.0, 1.0]
    x = rng.uniform(low, high, (n, 6))
    x[:, 4] += x[:, 0]
    return x


class Linear(_Function):
    def __call__(self, t, q):
        x = self.x
        return x[:12].reshape(4, 3) @ q + x[12:16] + x[16:20] * jnp.sin(x[20] * t)


class LinearForce(_Function):
    def __call__(self, t, q, v):
        return self.x[39:42] - self.x[42:45] * q - self.x[45] * v


def _linear(rng, n):
    """A box, a wedge, a row of balls between walls, a corridor across: n of each in turn."""
    return np.array([_LINEAR[i % 4](rng) for i in range(n)])


def _coupled(rng, strength):
    L = np.diag(rng.uniform(0.7, 1.4, 3)) + strength * np.tril(rng.uniform(-1, 1, (3, 3)), -1)
    return L @ L.T


def _put(A, b, moving, w, M, f0, k, rub, e, q0, v0):
    both = [np.ravel(M), np.ravel(np.linalg.inv(M))]
    return np.concatenate([np.ravel(A), b, moving, [w], *both, f0, k, [rub, e], q0, v0])


def _box(rng):
    A = np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0]], float)
    b = rng.uniform(0.6, 1.5, 4)
    return _put(
        A,
        b,
        rng.uniform(0.0, 0.3, 4) * rng.integers(0, 2),
        rng.uniform(0.5, 4.0),
        _coupled(rng, 0.4),
        np.array([0.0, -rng.uniform(0.0, 1.0), 0.0]),
        np.array([0.0, 0.0, 1.0]) * rng.uniform(0.2, 4.0),
        rng.uniform(0.0, 0.1) * rng.integers(0, 2),
        rng.uniform(0.3, 1.0),
        rng.uniform(-0.25, 0.25, 3),
        rng.uniform(-1.5, 1.5, 3),
    )


def _wedge(rng):
    up = rng.uniform(0.3, 1.2, 2)
    A = np.array([[np.sin(up[0]), np.cos(up[0]), 0], [-np.sin(up[1]), np.cos(up[1]), 0]])
    A = np.concatenate([A, [[0, 0, 1], [0, -1, 0]]])
    return _put(
        A,
        np.array([0.0, 0.0, rng.uniform(0.3, 0.8), 4.0]),
        np.zeros(4),
        1.0,
        np.diag(rng.uniform(0.5, 2.0, 3)),
        np.array([0.0, -1.0, 0.0]),
        np.array([0.0, 0.0, rng.uniform(0.5, 4.0)]),
        0.0,
        rng.uniform(0.0, 0.95),
        np.array([rng.uniform(-0.2, 0.2), rng.uniform(0.8, 2.0), 0.0]),
        rng.uniform(-0.7, 0.7, 3),
    )


def _row(rng):
    A = np.array([[1, 0, 0], [-1, 1, 0], [0, -1, 1], [0, 0, -1]], float)
    q0 = np.cumsum(rng.uniform(0.2, 0.8, 3))
    return _put(
        A,
        np.array([0.0, 0.0, 0.0, q0[2] + rng.uniform(0.2, 0.8)]),
        np.zeros(4),
        1.0,
        np.diag(rng.uniform(0.3, 3.0, 3)),
        rng.uniform(-0.3, 0.3, 3),
        np.zeros(3),
        0.0,
        rng.uniform(0.7, 1.0),
        q0,
        rng.uniform(-1.0, 1.0, 3),
    )


def _corridor(rng):
    a = rng.normal(size=(2, 3))
    a /= np.linalg.norm(a, axis=1)[:, None]
    return _put(
        np.stack([a[0], -a[0], a[1], -a[1]]),
        rng.uniform(0.6, 1.5, 4),
        rng.uniform(-0.2, 0.2, 4),
        rng.uniform(0.5, 3.0),
        _coupled(rng, 0.3),
        rng.uniform(-0.5, 0.5, 3),
        rng.uniform(0.3, 3.0) * np.ones(3),
        rng.uniform(0.0, 0.1),
        rng.uniform(0.3, 1.0),
        rng.uniform(-0.15, 0.15, 3),
        rng.uniform(-1.5, 1.5, 3),
    )


_LINEAR = [_box, _wedge, _row, _corridor]


class PendulumMass(_Function):
    def __call__(self, q):
        m1, m2, a, b = self.x[:4]
        off = m2 * a * b * jnp.cos(q[0] - q[1])
        return jnp.array([[(m1 + m2) * a * a, off], [off, m2 * b * b]])


class PendulumHeight(_Function):
    def __call__(self, q):
        m1, m2, a, b, down = self.x[:5]
        return -down * ((m1 + m2) * a * jnp.cos(q[0]) + m2 * b * jnp.cos(q[1]))


class PendulumWalls(_Function):
    def __call__(self, t, q):
        tip = self.x[2] * jnp.sin(q[0]) + self.x[3] * jnp.sin(q[1])
        return jnp.stack([self.x[5] + tip, self.x[6] - tip])


def _pendulums(rng, n):
    low = [0.5, 0.3, 0.6, 0.4, 0.5, 0.35, 0.35, 0.4, -0.15, -0.15, -2.0, -2.0]
    high = [2.0, 1.5, 1.2, 1.0, 2.0, 0.7, 0.7, 1.0, 0.07, 0.07, 2.0, 2.0]
    return rng.uniform(low, high, (n, 12))


class BeadMass(_Function):
    def __call__(self, q):
        c, k = self.x[:2]
        return (1.0 + (c * k * jnp.cos(k * q)) ** 2)[:, None]


class BeadHeight(_Function):
    def __call__(self, q):
        c, k, down = self.x[:3]
        return down * c * jnp.sin(k * q[0])


class Rub(_Function):
    def __call__(self, t, q, v):
        return -self.x[3] * v


class Between(_Function):
    def __call__(self, t, q):
        return jnp.stack([self.x[4] + q[0], self.x[5] - q[0]])


def _beads(rng, n):
    low = [0.1, 1.0, 0.2, 0.0, 0.5, 0.5, 0.2, -0.3, -3.0]
    high = [0.6, 4.0, 2.0, 0.1, 1.5, 1.5, 1.0, 0.3, 3.0]
    return rng.uniform(low, high, (n, 9))


class Stops(_Function):
    def __call__(self, t, q, v):
        k1, k12, k2, K, c, F, w, rub = self.x[:8]
        a, b = q
        return (
            jnp.stack(
                [
                    -k1 * a + k12 * (b - a) - jnp.where(a > c, K * (a - c), 0.0),
                    -k2 * b
                    + k12 * (a - b)
                    - jnp.where(b < -c, K * (b + c), 0.0)
                    + F * jnp.cos(w * t),
                ]
            )
            - rub * v
        )


class Above(_Function):
    def __call__(self, t, q):
        return self.x[8] - q[1]


def _stops(rng, n):
    low = [0.5, 0.1, 0.5, 5.0, 0.1, 0.0, 0.5, 0.0, 0.32, 0.2, -0.3, -0.3, -2.0, -2.0]
    high = [3.0, 1.0, 3.0, 100.0, 0.6, 2.0, 3.0, 0.2, 0.8, 1.0, 0.3, 0.3, 2.0, 2.0]
    return rng.uniform(low, high, (n, 14))


class Waves(_Function):
    def __call__(self, t, q, v):
        k, rub, F, w, p, start, long, P = self.x[:8]
        wave = jnp.where(jnp.sin(w * t + p) > 0.0, F, -F)
        kick = jnp.where((t > start) & (t < start + long), P, 0.0)
        return -k * q - rub * v + wave + kick


class Floor(_Function):
    def __call__(self, t, q):
        return q + self.x[8]


_WAVES_UNTIL = 10.0


def _waves(rng, n):
    low = [0.5, 0.0, 0.1, 0.7, 0.0, 0.5, 0.03, -30.0, 0.2, 0.0, 0.2, 0.0, -1.0]
    high = [3.0, 0.2, 1.0, 5.0, 6.28, 8.0, 0.2, 30.0, 1.0, 1.0, 0.95, 1.0, 1.0]
    x = rng.uniform(low, high, (n, 13))
    x[:, 9] = np.round(x[:, 9])
    return x


def _jumps(x):
    """Told, for every other system; for the rest steps are shorter than the kick."""
    told = x[9] > 0.5
    times = (jnp.arange(1, 19) * jnp.pi - x[4]) / x[3]  # up to t1: w t1 + p < 18 pi
    times = jnp.concatenate([times, jnp.stack([x[5], x[5] + x[6]])])
    times = jnp.where(told & (times > 0.0), times, jnp.inf)
    return {"jumps": times, "max_step": jnp.where(told, _WAVES_UNTIL / 50, 0.015)}


class Oval(_Function):
    def __call__(self, t, q):
        a, b, x, y, r = self.x[:5]
        return jnp.stack(
            [1.0 - (q[0] / a) ** 2 - (q[1] / b) ** 2, (q[0] - x) ** 2 + (q[1] - y) ** 2 - r**2]
        )


class Field(_Function):
    def __call__(self, t, q, v):
        return jnp.stack([self.x[6] * v[1], -self.x[6] * v[0] - self.x[5]])


def _ovals(rng, n):
    low = [0.8, 0.8, -0.3, -0.5, 0.1, 0.0, -1.0, 0.5, -0.3, 0.2, -1.0, -1.0]
    high = [2.0, 1.5, 0.3, -0.2, 0.2, 1.0, 1.0, 1.0, 0.3, 0.5, 1.0, 1.0]
    return rng.uniform(low, high, (n, 12))


FAMILIES = [
    Family(
        "tables that move",
        by_hand.TABLE,
        1,
        1,
        0,
        12.0,
        _tables,
        lambda x, e: carom.System(force=falling, gap=Table(x), restitution=e),
    ),
    Family(
        "several gaps",
        by_hand.LINEAR,
        3,
        4,
        0,
        8.0,
        _linear,
        lambda x, e: carom.System(
            force=LinearForce(x), gap=Linear(x), mass=x[21:30].reshape(3, 3), restitution=e
        ),
    ),
    Family(
        "double pendulums",
        by_hand.PENDULUM,
        2,
        2,
        0,
        5.0,
        _pendulums,
        lambda x, e: carom.Lagrangian(
            mass=PendulumMass(x), potential=PendulumHeight(x), gap=PendulumWalls(x), restitution=e
        ),
    ),
    Family(
        "beads on a wire",
        by_hand.BEAD,
        1,
        2,
        0,
        8.0,
        _beads,
        lambda x, e: carom.Lagrangian(
            mass=BeadMass(x), potential=BeadHeight(x), force=Rub(x), gap=Between(x), restitution=e
        ),
    ),
    Family(
        "compliant stops",
        by_hand.STOPS,
        2,
        1,
        2,
        10.0,
        _stops,
        lambda x, e: carom.System(force=Stops(x), gap=Above(x), restitution=e),
    ),
    Family(
        "square waves and kicks",
        by_hand.WAVES,
        1,
        1,
        3,
        _WAVES_UNTIL,
        _waves,
        lambda x, e: carom.System(force=Waves(x), gap=Floor(x), restitution=e),
        _jumps,
    ),
    Family(
        "ovals with a disc in them",
        by_hand.OVAL,
        2,
        2,
        0,
        6.0,
        _ovals,
        lambda x, e: carom.System(force=Field(x), gap=Oval(x), restitution=e),
    ),
]
