"""Oscillators with a stop (P2, P3, P4)."""

import math
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from carom.models import drawn
from carom.models.ball import floor
from carom.models.problem import ModelError, Problem, column, exact_motion_of, piecewise
from carom.worlds.system.system import System


def stopped_oscillator(*, e=0.8, frequency=1.0, damping=0.05, v0=1.0, t1=None):
    """A damped oscillator with a stop at its equilibrium: impacts at equal intervals (P2).

    ``x'' + 2 z w x' + w^2 x = 0``, gap ``x``, from ``x = 0`` at speed ``v0 > 0``, with w the
    frequency and z the damping, ``0 <= z < 1``. With ``w_d = w sqrt(1 - z^2)``, the k-th impact is
    at ``k pi/w_d``, leaves at ``v_k = e exp(-pi z/sqrt(1-z^2)) v_(k-1)``, and s later
    ``x = (v_k/w_d) exp(-z w s) sin(w_d s)``.

    Parameters
    ----------
    e
        Restitution, in [0, 1].
    frequency
        w [rad/s], of the spring without damping.
    damping
        z, of the critical one.
    v0
        Speed at the start [m/s].
    t1
        End [s].  None: the middle of the ninth flight.
    """
    if not (frequency > 0 and 0 <= damping < 1 and v0 > 0):
        raise ModelError(
            f"needs frequency > 0, 0 <= damping < 1 and v0 > 0, not {frequency}, {damping}, {v0}"
        )
    system = System(force=DampedSpring(frequency, damping), gap=floor, restitution=e)
    wd = frequency * math.sqrt(1 - damping**2)
    rate = damping * frequency
    t1 = 8.5 * math.pi / wd if t1 is None else float(t1)
    starts = np.arange(math.floor(t1 * wd / math.pi) + 1) * math.pi / wd
    speeds = v0 * (e * math.exp(-rate * math.pi / wd)) ** np.arange(len(starts))  # right after

    def flow(s, k):
        decay = speeds[k] * np.exp(-rate * s)
        x = decay * np.sin(wd * s) / wd
        return column(x), column(decay * np.cos(wd * s) - rate * x)

    return Problem(
        name="stopped_oscillator",
        system=system,
        q0=np.array([0.0]),
        v0=np.array([v0], dtype=float),
        t0=0.0,
        t1=t1,
        exact=piecewise(starts, flow, t1),
        source="closed form, benchmarks P2",
        looks=drawn.oscillator(v0 / wd, side=-1),
        impact_times=starts[1:] if e > 0 else starts[1:2],
    )


def impact_oscillator(*, e=0.8, frequency=2.5, stop=0.0, periods=1, t1=None):
    """The forced impact oscillator of Shaw and Holmes, with one impact every n periods (P3).

    ``x'' + x = cos(w t)``, gap ``stop - x``, with w the frequency and n the periods. Let
    ``c = 1/(1-w^2)`` and ``T = 2 pi n/w``. The speed v and the phase ``p = w t`` of impacts solve

        (1)  c sin p = -(1-e) v/(2w),    c cos p = stop + (1+e) (v/2) cot(T/2),

    and at the time s after an impact, with ``D = -(1+e) v/2``,

        (2)  x = c cos(w s + p) + D (cot(T/2) cos s + sin s).

    The motion starts at t = 0 on this orbit, in flight. Of two orbits the faster is taken. Raises
    ``ModelError`` where there is none, or where (2) crosses the stop during the flight.

    Parameters
    ----------
    e
        Restitution, in [0, 1].
    frequency
        w [rad/s], of the force; that of the spring is 1.
    stop
        Where the stop is [m], from the rest of the spring.
    periods
        n, periods of the force from impact to impact.
    t1
        End [s].  None: 8.25 n periods of the force.
    """
    w, T = frequency, 2 * math.pi * periods / frequency
    if w <= 0 or w == 1 or abs(math.sin(T / 2)) < 1e-12:
        raise ModelError(f"no such orbit for frequency {w} and {periods} periods: resonance")
    system = System(force=ForcedSpring(w), gap=LeftOf(stop), restitution=e)
    c, cot = 1 / (1 - w**2), 1 / math.tan(T / 2)

    def flight(s, p, v):
        D = -(1 + e) * v / 2
        x = c * np.cos(w * s + p) + D * (cot * np.cos(s) + np.sin(s))
        return x, -c * w * np.sin(w * s + p) + D * (np.cos(s) - cot * np.sin(s))

    period = 2 * math.pi / w
    known = {"name": "impact_oscillator", "system": system, "period": period}
    known["looks"] = drawn.oscillator(max(1.0, 4 * abs(c)), stop)
    with exact_motion_of(**known):
        v, p = _one_impact_orbit(e, w, stop, c, cot, T, flight)
    t1 = 8.25 * T if t1 is None else float(t1)
    first = p % (2 * math.pi) / w  # the first impact after t = 0
    starts = first + T * np.arange(-1, math.floor((t1 - first) / T) + 1)

    def flow(s, _):
        x, u = flight(s, p, v)
        return column(x), column(u)

    exact = piecewise(starts, flow, t1)
    q0, v0 = exact(0.0)
    return Problem(
        **known,
        q0=q0,
        v0=v0,
        t0=0.0,
        t1=t1,
        exact=exact,
        source="closed form of Shaw and Holmes (1983), benchmarks P3",
        impact_times=starts[starts >= 0],
    )


def _one_impact_orbit(e, w, stop, c, cot, T, flight):
    """Impact speed and phase: (1) of `impact_oscillator`, squared and added, is quadratic in v."""
    quadratic = [
        (1 - e) ** 2 / (4 * w**2) + (1 + e) ** 2 * cot**2 / 4,
        stop * (1 + e) * cot,
        stop**2 - c**2,
    ]
    roots = np.roots(quadratic)
    s = np.linspace(0, T, 4001)
    for v in sorted(roots[np.isreal(roots)].real, reverse=True):
        p = math.atan2(-(1 - e) * v / (2 * w * c), (stop + (1 + e) * v * cot / 2) / c)
        if v > 0 and np.all(flight(s, p, v)[0] <= stop + 1e-12):
            return v, p
    raise ModelError(
        f"no orbit with one impact in T = {T}, for e = {e}, frequency {w} and stop {stop}, "
        "stays behind the stop during its flight; change one of them"
    )


def resonance(*, e=1.0, v0=1.0, t1=None):
    """An oscillator forced at twice its frequency, with a stop: impacts every pi, speed grows (P4).

    ``u'' + u = sin 2t``, gap ``u``, from ``u = 0`` at speed ``v0 >= 0``. At the time s after the
    k-th impact, ``u = sin s (v_k + 2/3 - (2/3) cos s)``, and ``v_(k+1) = e (v_k + 4/3)``: the speed
    of impact grows for ever if e = 1, and tends to ``(4/3)/(1-e)`` if e < 1.

    Parameters
    ----------
    e
        Restitution, in [0, 1].
    v0
        Speed at the start [m/s].
    t1
        End [s].  None: 10.5 pi.
    """
    if v0 < 0:
        raise ModelError(f"the start is on the stop and needs v0 >= 0, not {v0}")
    system = System(force=_resonant_spring, gap=floor, restitution=e)
    t1 = 10.5 * math.pi if t1 is None else float(t1)
    starts = math.pi * np.arange(math.floor(t1 / math.pi) + 1)
    speeds = [float(v0)]
    for _ in starts[1:]:
        speeds.append(e * (speeds[-1] + 4 / 3))
    speeds = np.array(speeds)

    def flow(s, k):
        size = speeds[k] + 2 / 3 * (1 - np.cos(s))
        u = np.sin(s) * size
        return column(u), column(np.cos(s) * size + 2 / 3 * np.sin(s) ** 2)

    return Problem(
        name="resonance",
        system=system,
        q0=np.array([0.0]),
        v0=np.array([v0], dtype=float),
        t0=0.0,
        t1=t1,
        exact=piecewise(starts, flow, t1),
        source="closed form, benchmarks P4",
        looks=drawn.oscillator(float(np.max(speeds)) + 4 / 3, side=-1),
        impact_times=starts[1:],
        period=math.pi,
    )


@dataclass(frozen=True)
class DampedSpring:
    frequency: float
    damping: float

    def __call__(self, t, q, v):
        return -2 * self.damping * self.frequency * v - self.frequency**2 * q


@dataclass(frozen=True)
class ForcedSpring:
    frequency: float

    def __call__(self, t, q, v):
        return jnp.cos(self.frequency * t) - q


@dataclass(frozen=True)
class LeftOf:
    stop: float

    def __call__(self, t, q):
        return self.stop - q


def _resonant_spring(t, q, v):
    return jnp.sin(2 * t) - q
