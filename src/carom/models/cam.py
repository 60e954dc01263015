"""A follower that a spring presses on a turning cam."""

import math
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from carom.models import drawn
from carom.models.events import first_zero
from carom.models.problem import ZENO_LISTED, ModelError, Problem, column, piecewise
from carom.worlds.system.system import System

# Bounces are followed down to this speed, relative to that of the cam; what is left of them moves
# the follower by its square.
_SLOWEST = 1e-11


def cam_and_follower(
    *, e=0.0, amplitude=1.0, frequency=2.0, stiffness=1.0, preload=1.0, mass=1.0, t1=None
):
    """A follower pressed by a spring on a turning cam lifts off, lands and follows it again.

    ``m y'' = -k y - F``, gap ``y + A cos(w t)``: an eccentric cam of amplitude A at the frequency
    w, a spring of stiffness k that pushes with the preload F at y = 0. With ``W^2 = k/m``:

        on the cam     y = -A cos(w t),   reaction  F + (m w^2 - k) A cos(w t)                 (1)
        lift-off       where the reaction falls through zero; there is one in each turn if
                       (m w^2 - k) A > F, and none otherwise                                   (2)
        in flight      y = -F/k + (y_0 + F/k) cos(W s) + (v_0/W) sin(W s)                      (3)
        landing        where (3) meets the cam: a root, found to rounding                      (4)

    It starts on the cam, at its lowest point. For e = 0 a landing ends in (1) or, if the reaction
    is negative there, in another flight. For e > 0 bounces follow it; where they accumulate the
    follower is back on the cam. ``accumulation`` is the first of these times, ``impact_times``
    has the impacts above a millionth of the cam's speed.

    Parameters
    ----------
    e
        Restitution, in [0, 1].
    amplitude
        A of the cam [m].
    frequency
        w of the cam [rad/s].
    stiffness
        k of the spring [N/m].
    preload
        F of the spring [N], >= 0.
    mass
        m of the follower [kg].
    t1
        End [s].  None: 3.1 turns of the cam.
    """
    if min(amplitude, frequency, stiffness, mass) <= 0 or preload < 0:
        raise ModelError(
            "needs positive amplitude, frequency, stiffness and mass, and preload >= 0, not "
            f"{amplitude}, {frequency}, {stiffness}, {mass}, {preload}"
        )
    cam = Cam(amplitude, frequency)
    follower = _Follower(cam, stiffness / mass, preload / mass, float(e))
    t1 = 3.1 * 2 * math.pi / frequency if t1 is None else float(t1)
    pieces, impacts, accumulation = follower.followed(t1)
    starts, y, v, flies = (np.array(x) for x in zip(*pieces, strict=True))

    def flow(s, k):
        on, off = follower.on_cam(starts[k] + s), follower.flight(s, y[k], v[k])
        return tuple(column(np.where(flies[k], a, b)) for a, b in zip(off, on, strict=True))

    return Problem(
        name="cam_and_follower",
        system=System(
            force=PreloadedSpring(stiffness, preload),
            gap=cam,
            mass=np.array([mass], dtype=float),
            restitution=e,
        ),
        q0=np.array([-amplitude], dtype=float),
        v0=np.zeros(1),
        t0=0.0,
        t1=t1,
        exact=piecewise(starts, flow, t1),
        source="closed form between events, whose times are roots found to rounding",
        accumulation=accumulation,
        impact_times=impacts,
        period=2 * math.pi / frequency,
        looks=drawn.follower(amplitude, frequency),
    )


class _Follower:
    """The motion per unit mass, piece by piece: (start, y, v, whether in flight)."""

    def __init__(self, cam, k, F, e):
        self.A, self.w, self.k, self.F, self.e = cam.amplitude, cam.frequency, k, F, e
        self.W = math.sqrt(k)

    def on_cam(self, t):
        return -self.A * np.cos(self.w * t), self.A * self.w * np.sin(self.w * t)

    def flight(self, s, y, v):
        """(3), y as a change of y_0."""
        x, D = self.W * s, y + self.F / self.k
        rise = v / self.W * np.sin(x) - 2 * D * np.sin(x / 2) ** 2
        return y + rise, v * np.cos(x) - D * self.W * np.sin(x)

    def gap(self, s, t, y, v):
        """Over the cam, s after leaving it at t; without cancellation for small s."""
        x, D = self.W * s, y + self.F / self.k
        rise = v / self.W * np.sin(x) - 2 * D * np.sin(x / 2) ** 2
        return rise - 2 * self.A * np.sin(self.w * (t + s / 2)) * np.sin(self.w * s / 2)

    def reaction(self, t):
        return self.F + (self.w**2 - self.k) * self.A * math.cos(self.w * t)

    def followed(self, t1):
        """Pieces, listed impacts, and the first accumulation or None."""
        t, fast, pieces, impacts, accumulation = 0.0, 0.0, [], [], None
        while t < t1:
            y, cam_speed = (float(x) for x in self.on_cam(t))
            if fast == 0.0 and self._stays(t):
                pieces.append((t, y, cam_speed, False))
                t = self._lift_off(t)
                continue
            v = cam_speed + fast
            pieces.append((t, y, v, True))
            s = self._landing(t, y, v, fast, t1)
            if math.isinf(s):
                break
            t, before = t + s, self.flight(s, y, v)[1] - self.on_cam(t + s)[1]
            if t <= t1 and -before >= ZENO_LISTED * self.A * self.w:
                impacts.append(t)
            fast, rest = self._bounce(t, -self.e * before)
            if rest > 0.0:
                t, accumulation = t + rest, accumulation or t + rest
        return pieces, np.array(impacts), accumulation

    def _stays(self, t):
        """Whether the cam pushes from t on."""
        push = self.reaction(t)
        tiny = 1e-12 * (self.F + abs(self.w**2 - self.k) * self.A)
        return push > tiny or (push > -tiny and self.reaction(t + 1e-3 / self.w) > 0.0)

    def _lift_off(self, t):
        """(2)"""
        size = (self.w**2 - self.k) * self.A
        if abs(size) <= self.F:
            return math.inf
        phase = math.acos(-self.F / size)  # the reaction falls through zero here, or at -phase
        phase = phase if size > 0 else -phase
        return t + (phase - self.w * t) % (2 * math.pi) / self.w

    def _landing(self, t, y, v, fast, t1):
        step = 2 * math.pi / (300 * max(self.w, self.W))
        push = self.reaction(t)
        back = fast / (2 * push) if push > 0.0 and fast > 0.0 else step  # a quarter of the bounce
        return first_zero(
            lambda s: self.gap(s, t, y, v), step=step, limit=1.01 * (t1 - t), start=back
        )

    def _bounce(self, t, fast):
        """Speed off the cam after an impact, and how long it takes to come to rest; one is 0."""
        if fast > _SLOWEST * self.A * self.w:
            return fast, 0.0
        push = self.reaction(t)
        if push <= 0.0 or fast == 0.0:
            return 0.0, 0.0
        return 0.0, 2 * fast / (push * (1 - self.e))


@dataclass(frozen=True)
class Cam:
    """The gap over a cam whose height is ``-amplitude cos(frequency t)``."""

    amplitude: float
    frequency: float

    def __call__(self, t, q):
        return q + self.amplitude * jnp.cos(self.frequency * t)


@dataclass(frozen=True)
class PreloadedSpring:
    stiffness: float
    preload: float

    def __call__(self, t, q, v):
        return -self.stiffness * q - self.preload
