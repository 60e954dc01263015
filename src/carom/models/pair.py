"""A ball between the walls of a shaken casing."""

import math
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from carom.models import drawn
from carom.models.billiard import no_force
from carom.models.problem import ModelError, Problem, column, exact_motion_of, piecewise
from carom.worlds.system.system import System


def impact_pair(*, e=0.5, amplitude=1.0, frequency=1.0, clearance=4.0, t1=None):
    """A ball between the walls of a shaken casing: two symmetric impacts per period.

    ``x'' = 0``, gaps ``c/2 + x - A sin(w t)`` and ``c/2 - x + A sin(w t)``, with A the amplitude, w
    the frequency and c the clearance. The ball crosses at the constant speed u in half a period;
    it meets the right wall at the phase ``w t = p = pi - h`` and the left one half a period later:

        impact law   u = (1+e)/(1-e) A w cos h                                                 (1)
        flight       u pi/w = c + 2 A sin h                                                    (2)
        together     pi (1+e) cos h - 2 (1-e) sin h = (1-e) c/A                                (3)

    Of the two roots of (3) the one is taken that can be stable: the map from impact to impact has
    the determinant e^2 and the trace ``2e - (pi/2) (1-e^2) tan h``, below ``1 + e^2`` for the
    larger h only. The motion starts at t = 0 on this orbit, in flight. Raises ``ModelError``
    where there is none, or where the flight crosses a wall. (Bapat, Popplewell and McLachlan 1983.)

    Parameters
    ----------
    e
        Restitution, in [0, 1].
    amplitude
        A of the casing [m], > 0.
    frequency
        w of the casing [rad/s], > 0.
    clearance
        c, from wall to wall [m], > 0.
    t1
        End [s].  None: 8.25 periods.
    """
    A, w = amplitude, frequency
    if min(A, w, clearance) <= 0:
        raise ModelError(
            f"needs positive amplitude, frequency and clearance, not {A}, {w}, {clearance}"
        )
    system = System(force=no_force, gap=Casing(A, w, clearance / 2), restitution=e)
    known = {"name": "impact_pair", "system": system, "period": 2 * math.pi / w}
    known["looks"] = drawn.casing(A, w, clearance / 2)
    with exact_motion_of(**known):
        h = pair_phase(e, clearance / A)
        _check_flight(A, clearance, h)
    u, half = w * (clearance + 2 * A * math.sin(h)) / math.pi, math.pi / w
    hit = A * math.sin(h) + clearance / 2  # where it meets the right wall

    t1 = 8.25 * 2 * half if t1 is None else float(t1)
    first = (math.pi - h) / w  # on the right wall; h is in (-pi/2, pi/2]
    n = np.arange(-2, math.floor((t1 - first) / half) + 1)
    starts, side = first + half * n, np.where(n % 2 == 0, 1.0, -1.0)

    def flow(s, k):
        return column(side[k] * (hit - u * s)), column(-u * side[k] * np.ones_like(s))

    exact = piecewise(starts, flow, t1)
    q0, v0 = exact(0.0)
    return Problem(
        **known,
        q0=q0,
        v0=v0,
        t0=0.0,
        t1=t1,
        exact=exact,
        source="closed form of Bapat, Popplewell and McLachlan (1983)",
        impact_times=starts[starts >= 0],
    )


def pair_phase(e, ratio):
    """h of (3) in `impact_pair`; ``ratio`` is the clearance over the amplitude."""
    a, b = math.pi * (1 + e), 2 * (1 - e)
    cosine = (1 - e) * ratio / math.hypot(a, b)
    if cosine > 1:
        raise ModelError(
            f"two impacts per period, e = {e}, need a clearance of at most "
            f"{math.hypot(a, b) / (1 - e)} amplitudes, not {ratio}"
        )
    return math.acos(cosine) - math.atan2(b, a)


def _check_flight(A, clearance, h):
    """Between the impacts on the right wall, at phase pi - h, and on the left one."""
    r = np.linspace(0.0, 1.0, 4001)  # parts of the flight
    hit = A * math.sin(h) + clearance / 2
    x = hit * (1 - 2 * r) - A * np.sin(math.pi - h + math.pi * r)  # in the casing
    if np.max(np.abs(x)) > clearance / 2 + 1e-12 * (A + clearance):
        raise ModelError(
            f"the orbit with two impacts per period, amplitude {A} and clearance {clearance}, "
            "crosses a wall in flight; change one of them or e"
        )


@dataclass(frozen=True)
class Casing:
    """The gaps to walls at ``amplitude sin(frequency t)`` minus and plus ``half``."""

    amplitude: float
    frequency: float
    half: float

    def __call__(self, t, q):
        x = q[0] - self.amplitude * jnp.sin(self.frequency * t)
        return jnp.stack([self.half + x, self.half - x])
