"""A double pendulum beside a wall."""

import math
from dataclasses import asdict, dataclass
from inspect import signature

import jax.numpy as jnp
import numpy as np

from carom.models import drawn
from carom.models.problem import ModelError, Problem
from carom.worlds.system.system import System

_T1 = 7.0  # how far the stored reference goes


def double_pendulum(
    *, e=0.8, angles=(1.0, 1.4), wall=0.1, masses=(1.0, 1.0), rods=(1.0, 1.0), g=9.81, t1=_T1
):
    """A double pendulum swings against a wall with its lower bob; the mass depends on q.

    ``q = (q_1, q_2)`` [rad] are the angles of the rods from the vertical. With ``d = q_1 - q_2``,

        M = [[(m1 + m2) l1^2, m2 l1 l2 cos d], [m2 l1 l2 cos d, m2 l2^2]]                      (1)
        f = (-m2 l1 l2 sin d q_2'^2 - (m1 + m2) g l1 sin q_1,
              m2 l1 l2 sin d q_1'^2 - m2 g l2 sin q_2)                                         (2)
        gap = wall + l1 sin q_1 + l2 sin q_2                                                   (3)

    from rest at ``angles``; the wall is to the left of the pivot. There is no closed form:
    ``exact`` is a reference computed by SciPy (carom.models.references), to about 1e-12 in q over
    the default horizon, stored for the default parameters and computed on demand for others.

    Parameters
    ----------
    e
        Restitution, in [0, 1].
    angles
        (2,) of the rods at the start [rad], off the wall.
    wall
        Distance of the wall from the pivot [m], > 0.
    masses
        (2,) m1, m2 of the bobs [kg].
    rods
        (2,) lengths l1, l2 [m].
    g
        Gravity [m/s^2].
    t1
        End [s].
    """
    arm = _arm(masses, rods, g, wall)
    if min(asdict(arm).values()) <= 0:
        raise ModelError(f"needs positive masses, rods, g and wall, not {arm}")
    system = System(force=ArmForce(arm), gap=BobGap(arm), mass=ArmMass(arm), restitution=e)
    q0 = np.array(angles, dtype=float)
    if arm.gap(q0) <= 0:
        raise ModelError(f"the angles {angles} put the lower bob in the wall; raise one of them")

    from carom.models.references import reference

    found, source = reference("double_pendulum", *_request(arm, e, q0, float(t1)))
    return Problem(
        name="double_pendulum",
        system=system,
        q0=q0,
        v0=np.zeros(2),
        t0=0.0,
        t1=float(t1),
        exact=found.exact(float(t1)),
        source=source,
        impact_times=found.impact_times,
        looks=drawn.double_pendulum(arm.l1, arm.l2, arm.wall),
    )


def double_pendulum_reference():
    """Of the default parameters: these, the horizon, and the function that computes it."""
    values = {name: p.default for name, p in signature(double_pendulum).parameters.items()}
    arm = _arm(values["masses"], values["rods"], values["g"], values["wall"])
    return _request(arm, values["e"], np.array(values["angles"]), _T1)


def _arm(masses, rods, g, wall):
    (m1, m2), (l1, l2) = masses, rods
    return Arm(float(m1), float(m2), float(l1), float(l2), float(g), float(wall))


def _request(arm, e, q0, t1):
    """Parameters, horizon and computation, for `carom.models.references.reference`."""
    from carom.models.references import follow

    parameters = {**asdict(arm), "e": float(e), "angles": [float(x) for x in q0]}
    return parameters, t1, lambda t1: follow(arm, float(e), q0, np.zeros(2), t1)


@dataclass(frozen=True)
class Arm:
    """The pendulum, and its equations in NumPy solved for the acceleration."""

    m1: float
    m2: float
    l1: float
    l2: float
    g: float
    wall: float

    @property
    def step(self):
        return 2e-3 * math.sqrt(min(self.l1, self.l2) * 9.81 / self.g)

    def mass(self, q):
        coupling = self.m2 * self.l1 * self.l2 * math.cos(q[0] - q[1])
        return np.array(
            [[(self.m1 + self.m2) * self.l1**2, coupling], [coupling, self.m2 * self.l2**2]]
        )

    def acceleration(self, t, q, v):
        """(1), (2) divided by l1, l2 and solved by Cramer's rule."""
        d, total = q[0] - q[1], self.m1 + self.m2
        c, s = math.cos(d), math.sin(d)
        up = -self.m2 * self.l2 * s * v[1] ** 2 - total * self.g * math.sin(q[0])
        low = self.l1 * s * v[0] ** 2 - self.g * math.sin(q[1])
        scale = self.m1 + self.m2 * s**2
        return np.array(
            [
                (up - self.m2 * c * low) / (self.l1 * scale),
                (total * low - c * up) / (self.l2 * scale),
            ]
        )

    def gap(self, q):
        return self.wall + self.l1 * math.sin(q[0]) + self.l2 * math.sin(q[1])

    def normal(self, q):
        return np.array([self.l1 * math.cos(q[0]), self.l2 * math.cos(q[1])])


@dataclass(frozen=True)
class ArmMass:
    arm: Arm

    def __call__(self, q):
        a = self.arm
        coupling = a.m2 * a.l1 * a.l2 * jnp.cos(q[0] - q[1])
        return jnp.array([[(a.m1 + a.m2) * a.l1**2, coupling], [coupling, a.m2 * a.l2**2]])


@dataclass(frozen=True)
class ArmForce:
    arm: Arm

    def __call__(self, t, q, v):
        a = self.arm
        turning = a.m2 * a.l1 * a.l2 * jnp.sin(q[0] - q[1])
        weight = a.g * jnp.array([(a.m1 + a.m2) * a.l1, a.m2 * a.l2]) * jnp.sin(q)
        return turning * jnp.stack([-(v[1] ** 2), v[0] ** 2]) - weight


@dataclass(frozen=True)
class BobGap:
    arm: Arm

    def __call__(self, t, q):
        a = self.arm
        return a.wall + a.l1 * jnp.sin(q[0]) + a.l2 * jnp.sin(q[1])
