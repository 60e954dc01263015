"""A block with dry friction on a slope, and its exact motions."""

from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import carom

G = 9.81


class Push(eqx.Module):
    """A constant force: one program for every slope."""

    size: jax.Array

    def __call__(self, t, q, v):
        return self.size


def floor(t, q):
    return q[1]


def along(t, q, v):
    return v[0]


def block(slope=0.0, mu=0.3, e=0.0, push=0.0):
    """q = (downhill, off the slope)."""
    size = jnp.array([G * np.sin(slope) + push, -G * np.cos(slope)])
    return carom.System(
        force=Push(size), gap=floor, slip=along, friction=jnp.array(mu), restitution=jnp.array(e)
    )


def sliding(slope, mu, v0):
    """Downhill from v0 > 0, until it stops for ever or does not stop."""

    def q(t):
        a = G * (np.sin(slope) - mu * np.cos(slope))
        if v0 == 0.0 and a <= 0.0:
            return np.zeros((len(t), 2))
        t = t if a >= 0.0 else np.minimum(t, -v0 / a)
        return np.stack([v0 * t + 0.5 * a * t**2, 0.0 * t], axis=1)

    return q


def bouncing(mu, e, vx, height):
    """From rest at ``height``: each impact takes mu (1 + e) |w| of the speed along the floor.

    Bounces slower than 1e-9 are rest, and then it slides.
    """

    def q(t):
        found, start, x, y, v, w = np.zeros((len(t), 2)), 0.0, 0.0, height, vx, 0.0
        while start < t[-1]:
            since = t - start
            now = since >= 0.0
            found[now, 0] = x + v * since[now]
            found[now, 1] = y + w * since[now] - 0.5 * G * since[now] ** 2
            flight = (w + np.sqrt(w**2 + 2 * G * y)) / G
            x, y, start, hit = x + v * flight, 0.0, start + flight, G * flight - w
            v, w = np.sign(v) * max(0.0, abs(v) - mu * (1 + e) * hit), e * hit
            if w < 1e-9:
                now = t >= start
                found[now] = sliding(0.0, mu, abs(v))(t[now] - start) * [np.sign(v), 1.0]
                found[now, 0] += x
                break
        return found

    return q


def drawn(rng):
    """A problem: a block that slides or rests, or one that bounces on the level."""
    mu = rng.uniform(0.05, 1.0)
    if rng.uniform() < 0.5:
        slope, v0 = rng.uniform(0.0, 0.8), rng.choice([0.0, 1.0]) * rng.uniform(0.1, 5.0)
        how = f"block, slope {slope:.2f}, mu {mu:.2f}, v0 {v0:.2f}"
        system, start, exact = block(slope, mu), ([0.0, 0.0], [v0, 0.0]), sliding(slope, mu, v0)
    else:
        e, vx, high = rng.uniform(0.0, 0.8), rng.uniform(-4.0, 4.0), rng.uniform(0.1, 2.0)
        how = f"block, e {e:.2f}, mu {mu:.2f}, v0 {vx:.2f}"
        system, start = block(0.0, mu, e), ([0.0, high], [vx, 0.0])
        exact = bouncing(mu, e, vx, high)
    return SimpleNamespace(
        name=how, system=system, t0=0.0, t1=rng.uniform(0.5, 2.0), q0=np.array(start[0]),
        v0=np.array(start[1]), exact=lambda t: (exact(t), None),
    )  # fmt: skip
