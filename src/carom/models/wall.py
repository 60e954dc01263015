"""A free point and a wall (P12, P16)."""

import numpy as np

from carom.looks import Disc, Segment
from carom.models.ball import floor
from carom.models.billiard import no_force
from carom.models.problem import ModelError, Problem, straight
from carom.worlds.system.system import System


def wall(*, e=0.8, q0=1.0, speed=1.0, t1=None):
    """A point flies freely at a wall and comes back slower: one impact, no force (P12, P16).

    ``q'' = 0``, gap ``q``, from ``q0`` at the velocity ``-speed``. The impact is at ``q0/speed``;
    from then on ``q = e (speed t - q0)``, whose derivatives are -e in q0, e t in the speed and
    ``speed t - q0`` in e.

    Parameters
    ----------
    e
        Restitution, in [0, 1].
    q0
        Distance from the wall at the start [m], > 0.
    speed
        Towards the wall [m/s], > 0.
    t1
        End [s].  None: 2.5 q0/speed.
    """
    if q0 <= 0 or speed <= 0:
        raise ModelError(f"needs q0 > 0 and speed > 0, not {q0} and {speed}")
    hit = q0 / speed
    t1 = 2.5 * hit if t1 is None else float(t1)
    starts = np.array([0.0, hit])
    return Problem(
        name="wall",
        system=System(force=no_force, gap=floor, restitution=e),
        q0=np.array([q0], dtype=float),
        v0=np.array([-speed], dtype=float),
        t0=0.0,
        t1=t1,
        exact=straight(starts, np.array([[q0], [0.0]]), speed * np.array([[-1.0], [e]]), t1),
        source="closed form, benchmarks P12 and P16",
        looks=lambda t, q: [Segment(0.0, -q0 / 4, 0.0, q0 / 4), Disc(q[0] + q0 / 40, 0.0, q0 / 40)],
        impact_times=starts[1:][starts[1:] <= t1],
    )
