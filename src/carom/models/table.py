"""A ball on a table that vibrates (P8)."""

import math
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from carom.errors import TimeError
from carom.models import drawn
from carom.models.ball import Gravity
from carom.models.problem import ModelError, Problem, column, exact_motion_of, piecewise
from carom.worlds.system.system import System


def vibrating_table(*, e=0.5, acceleration=1.2, frequency=10.0, periods=1, g=9.81, t1=None):
    """A ball on a vibrating table: one impact per n periods, or for e = 0 rest then launch (P8).

    ``y'' = -g``, gap ``y - A sin(w t)``; w is the frequency, ``Gam = A w^2/g`` the acceleration.

    ``e > 0``: the periodic motion with one impact in n periods, ``T = 2 pi n/w``. It leaves at
    ``g T/2`` at the phase p = w t with ``cos p = pi n (1-e)/((1+e) Gam)``, ``sin p >= 0``. It
    starts in flight at t = 0. Raises ``ModelError`` if there is none.

    ``e = 0``, ``Gam > 1``: at rest on the table until ``sin(w t) = 1/Gam``, where the table falls
    faster than g, then in flight; t1 must come before the landing.

    Parameters
    ----------
    e
        Restitution, in [0, 1].
    acceleration
        Gam, the largest of the table, in g.
    frequency
        w of the table [rad/s].
    periods
        n, periods of the table from impact to impact, for e > 0.
    g
        Gravity [m/s^2].
    t1
        End [s].  None: 8.25 n periods; for e = 0 nine tenths of the flight.
    """
    if min(acceleration, frequency, g) <= 0:
        raise ModelError(
            f"needs positive acceleration, frequency, g, not {acceleration}, {frequency}, {g}"
        )
    table = Table(acceleration * g / frequency**2, frequency)
    system = System(force=Gravity(g), gap=table, restitution=e)
    known = {"name": "vibrating_table", "system": system, "period": 2 * math.pi / frequency}
    size = 2 * (g * math.pi * periods / frequency) ** 2 / (2 * g) + 4 * table.amplitude
    known["looks"] = drawn.ball(size, table.height)
    with exact_motion_of(**known):
        if e > 0:
            starts, flow, impacts, t1 = _periodic(table, e, acceleration, periods, g, t1)
        else:
            starts, flow, impacts, t1 = _launch(table, acceleration, g, t1)
    exact = piecewise(starts, flow, t1)
    q0, v0 = exact(0.0)
    return Problem(
        **known,
        q0=q0,
        v0=v0,
        t0=0.0,
        t1=t1,
        exact=exact,
        source="closed form, benchmarks P8",
        impact_times=impacts,
    )


def _periodic(table, e, acceleration, n, g, t1):
    w, T = table.frequency, 2 * math.pi * n / table.frequency
    cosine = math.pi * n * (1 - e) / ((1 + e) * acceleration)
    if cosine > 1 + 1e-12:
        raise ModelError(
            f"one impact in {n} periods needs acceleration >= {cosine * acceleration}, "
            f"not {acceleration}"
        )
    p = math.acos(min(cosine, 1.0))
    y, u = table.amplitude * math.sin(p), g * T / 2

    def flow(s, _):
        return column(y + s * (u - g * s / 2)), column(u - g * s)

    s = np.linspace(0, T, 4001)
    if np.any(flow(s, 0)[0][:, 0] < table.amplitude * np.sin(w * s + p) - 1e-12 * table.amplitude):
        raise ModelError(
            f"the orbit with one impact in {n} periods, e = {e}, acceleration {acceleration}, "
            "crosses the table in flight; change one of them"
        )
    t1 = 8.25 * T if t1 is None else float(t1)
    starts = p / w + T * np.arange(-1, math.floor((t1 - p / w) / T) + 1)
    return starts, flow, starts[starts >= 0], t1


def _launch(table, acceleration, g, t1):
    if acceleration <= 1:
        raise ModelError(
            f"with e = 0 the ball never leaves: needs acceleration > 1, not {acceleration}"
        )
    A, w = table.amplitude, table.frequency
    p = math.asin(1 / acceleration)
    launch, y, u = p / w, A / acceleration, A * w * math.cos(p)

    def height(s):  # above the table, s after launch
        return y + s * (u - g * s / 2) - A * np.sin(p + w * s)

    # it lands before its parabola is below the lowest point of the table
    s = np.linspace(0, (u + math.sqrt(u**2 + 2 * g * (y + A))) / g, 4001)
    landing = launch + s[np.argmax(height(s[1:]) < 0)]  # from below, to the grid
    t1 = launch + 0.9 * (landing - launch) if t1 is None else float(t1)
    if t1 > landing:
        raise TimeError(f"the ball lands again just after {landing}: needs t1 below it, not {t1}")

    def flow(s, k):
        t = np.where(k == 0, s, 0.0)
        rest = A * np.sin(w * t), A * w * np.cos(w * t)
        fly = y + s * (u - g * s / 2), u - g * s
        return tuple(column(np.where(k == 0, a, b)) for a, b in zip(rest, fly, strict=True))

    return np.array([0.0, launch]), flow, np.zeros(0), t1


@dataclass(frozen=True)
class Table:
    """The gap above a table at ``amplitude sin(frequency t)``."""

    amplitude: float
    frequency: float

    def height(self, t: float) -> float:
        return self.amplitude * math.sin(self.frequency * t)

    def __call__(self, t, q):
        return q - self.amplitude * jnp.sin(self.frequency * t)
