"""A cantilever beam between two stops."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from carom.models.events import first_zero
from carom.models.problem import ModelError, Problem, piecewise
from carom.system import System

# A rebound slower than this part of the fastest one, into a stop that the tip presses on, is the
# end of an accumulation.
_ACCUMULATION = 1e-6


def cantilever(
    *, e=0.8, modes=2, damping=0.02, force=0.15, frequency=3.3, clearance=0.1, rate=1.0, t1=None
):
    """A cantilever beam in its first modes, forced at the tip between two stops there.

    The Euler-Bernoulli beam of unit length and mass, ``w_tt + r^2 w_xxxx = 0`` with
    ``r^2 = EI/(rho A L^4)`` the square of ``rate``, clamped at x = 0 and free at x = 1 but for the
    force ``P cos(W t)``, W the ``frequency``, and the stops ``|w(1, t)| <= clearance``. In the
    first modes, ``w = sum q_n phi_n(x)`` with unit mass each,

        cos b_n cosh b_n = -1,    w_n = r b_n^2,    phi_n(1) = 2 (-1)^(n+1),                   (1)
        q_n'' + 2 z w_n q_n' + w_n^2 q_n = phi_n(1) P cos(W t),    z the damping of all modes, (2)
        gaps  clearance -+ sum q_n phi_n(1).                                                   (3)

    From rest. Between impacts q is the particular solution of (2) and decaying modes, in closed
    form; the times of impacts are roots of (3), found to rounding. Raises ``ModelError`` where
    impacts accumulate: the tip then rests at a stop, for which there is no closed form here.
    """
    if min(force, frequency, clearance, rate) <= 0 or modes < 1 or not 0 <= damping < 1:
        raise ModelError(
            "needs positive force, frequency, clearance and rate, modes >= 1, 0 <= damping < 1, "
            f"not {force}, {frequency}, {clearance}, {rate}, {modes}, {damping}"
        )
    w = rate * clamped_free(modes) ** 2
    tip = 2.0 * (-1.0) ** np.arange(modes)
    if damping == 0 and np.min(np.abs(w - frequency)) < 1e-9 * frequency:
        raise ModelError(f"without damping the frequency {frequency} must not be one of {w}")
    system = System(
        force=ModalForce(tuple(w), tuple(tip * force), damping, frequency),
        gap=TipStops(tuple(tip), clearance),
        restitution=e,
    )
    beam = _Beam(w, tip, damping, tip * force, frequency, clearance, float(e))
    t1 = 6.1 * 2 * math.pi / frequency if t1 is None else float(t1)
    starts, q, v = beam.followed(t1)

    return Problem(
        name="cantilever",
        system=system,
        q0=np.zeros(modes),
        v0=np.zeros(modes),
        t0=0.0,
        t1=t1,
        exact=piecewise(starts, lambda s, k: beam.flight(s, starts[k], q[k], v[k]), t1),
        source="closed form between impacts, whose times are roots found to rounding",
        impact_times=starts[1:],
        frequency=float(w[-1]),
    )


def clamped_free(count):
    """b_n of (1) in `cantilever`, (count,)."""
    from scipy.optimize import brentq

    def characteristic(b):
        return math.cos(b) + 1 / math.cosh(b)

    ends = [((n - 1) * math.pi, n * math.pi) for n in range(1, count + 1)]
    return np.array([brentq(characteristic, a, b, xtol=1e-15) for a, b in ends])


class _Beam(NamedTuple):
    w: np.ndarray  # (n,) natural frequencies
    tip: np.ndarray  # (n,) phi_n(1)
    z: float
    load: np.ndarray  # (n,) phi_n(1) P
    W: float
    clearance: float
    e: float

    def particular(self, t):
        """The forced part of q and v (..., n)."""
        H = self.load / (self.w**2 - self.W**2 + 2j * self.z * self.w * self.W)
        q = H * np.exp(1j * self.W * np.asarray(t))[..., None]
        return q.real, (1j * self.W * q).real

    def flight(self, s, t, q, v):
        """q and v (..., n), s after they were q and v at t."""
        qp, vp = self.particular(t)
        decay, wd = self.z * self.w, self.w * math.sqrt(1 - self.z**2)
        a, b = q - qp, (v - vp + decay * (q - qp)) / wd
        s = np.asarray(s)
        x, fade = s[..., None] * wd, np.exp(-decay * s[..., None])
        c, n = np.cos(x), np.sin(x)
        free = fade * (a * c + b * n), fade * ((b * wd - decay * a) * c - (a * wd + decay * b) * n)
        forced = self.particular(t + s)
        return free[0] + forced[0], free[1] + forced[1]

    def acceleration(self, t, q, v):
        forced = self.load * math.cos(self.W * t)
        return forced - 2 * self.z * self.w * v - self.w**2 * q

    def followed(self, t1):
        """Times (m,) of the start and the impacts, and ``q (m, n)``, ``v (m, n)`` right after."""
        t, q, v, side = 0.0, np.zeros_like(self.w), np.zeros_like(self.w), None
        pieces, fastest = [(t, q, v)], 0.0
        while True:
            s, side = self._next_impact(t, q, v, side, t1)
            if t + s > t1:
                return tuple(np.array(part) for part in zip(*pieces, strict=True))
            q, v = self.flight(s, t, q, v)
            t, normal = t + s, -side * self.tip
            v = v - (1 + self.e) * (normal @ v) / (normal @ normal) * normal
            fastest = max(fastest, normal @ v)
            presses = normal @ self.acceleration(t, q, v) < 0.0
            if presses and normal @ v <= _ACCUMULATION * fastest:
                raise ModelError(f"impacts accumulate near {t}: take t1 below it, not {t1}")
            pieces.append((t, q, v))

    def _next_impact(self, t, q, v, side, t1):
        """How long until the tip meets a stop, and its side (1 or -1); it leaves ``side``."""
        step = 2 * math.pi / (50 * max(self.w[-1], self.W))
        found = []
        for which in (1, -1):
            normal = -which * self.tip
            start, zero = step, 0.0
            if which == side:  # from zero, which is taken out
                zero = self.clearance + normal @ q
                leaves, back = normal @ v, -normal @ self.acceleration(t, q, v)
                start = leaves / (2 * back) if back > 0.0 and leaves > 0.0 else step

            def gap(s, normal=normal, zero=zero):
                return self.clearance + self.flight(s, t, q, v)[0] @ normal - zero

            found.append(first_zero(gap, step=step, limit=1.01 * (t1 - t), start=start))
        return min(found), 1 if found[0] < found[1] else -1


@dataclass(frozen=True)
class ModalForce:
    natural: tuple[float, ...]
    load: tuple[float, ...]
    damping: float
    frequency: float

    def __call__(self, t, q, v):
        w, load = np.array(self.natural), np.array(self.load)
        return load * jnp.cos(self.frequency * t) - 2 * self.damping * w * v - w**2 * q


@dataclass(frozen=True)
class TipStops:
    tip: tuple[float, ...]
    clearance: float

    def __call__(self, t, q):
        y = jnp.sum(np.array(self.tip) * q)
        return jnp.stack([self.clearance - y, self.clearance + y])
