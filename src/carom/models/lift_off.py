"""Contact that ends without an impact (P6)."""

import math

import jax.numpy as jnp
import numpy as np

from carom.models.ball import floor
from carom.models.problem import Problem, column, piecewise
from carom.worlds.system.system import System


def lift_off(*, e=0.0, t1=2 * math.pi):
    """A point rests on a floor until its weight changes sign, then leaves without impact (P6).

    ``q'' = -cos t``, gap ``q``, at rest at 0: the reaction is ``cos t`` until ``pi/2``, then
    ``q = t - pi/2 + cos t``. The motion does not depend on e.

    Parameters
    ----------
    e
        Restitution, in [0, 1].
    t1
        End [s].
    """

    def flow(s, k):  # s = t - pi/2 in flight
        q, v = s - np.sin(s), 1 - np.cos(s)
        return column(np.where(k == 1, q, 0.0)), column(np.where(k == 1, v, 0.0))

    return Problem(
        name="lift_off",
        system=System(force=_weight, gap=floor, restitution=e),
        q0=np.zeros(1),
        v0=np.zeros(1),
        t0=0.0,
        t1=float(t1),
        exact=piecewise(np.array([0.0, math.pi / 2]), flow, float(t1)),
        source="closed form, benchmarks P6",
        impact_times=np.zeros(0),
        period=2 * math.pi,
    )


def _weight(t, q, v):
    return jnp.full_like(q, -jnp.cos(t))
