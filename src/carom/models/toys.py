"""Mechanisms that friction drives: the woodpecker toy, and a brake that squeals."""

import math
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from carom.looks import Disc, Polygon, Segment
from carom.models.linear import Followed, Linear
from carom.models.problem import ModelError, Problem, within
from carom.worlds.system.system import System


def woodpecker(*, mu=0.3, e=0.5, g=9.81, t1=0.3):
    """A woodpecker on a spring comes down a pole: it pecks, its sleeve jams and lets go.

    q = (y, th, ph) [m, rad, rad]: the height of the sleeve, its angle and the bird's.  Three gaps:
    the beak and the pole, with restitution ``e``, and the lower and the upper edge of the sleeve,
    inelastic, all with friction ``mu``.  Masses, lengths and the start are those of Glocker
    (thesis, TU Muenchen 1995, p. 162), the angle of the sleeve that at which it touches: near to
    its limit cycle, on which a state comes back after 0.146 s, 19.4 mm further down.

    Parameters
    ----------
    mu
        Friction of the three contacts, >= 0.
    e
        Restitution of the beak, in [0, 1].
    g
        Gravity [m/s^2].
    t1
        End [s].
    """
    if not (mu >= 0 and 0 <= e <= 1 and g > 0):
        raise ModelError(f"needs mu >= 0, 0 <= e <= 1 and g > 0, not {mu}, {e}, {g}")
    sleeve, bird, turn, bow, spring = 3e-4, 4.5e-3, 5e-9, 7e-7, 5.6e-3  # kg, kg m^2, N m
    wide, tall, arm, neck, beak, reach = 0.6e-3, 5.8e-3, 1e-2, 1.5e-2, 2e-2, 2.01e-2  # m
    pole, inner = 2.5e-3, 3.1e-3
    lever = np.array([1.0, arm, neck])
    body = Linear(
        mass=bird * np.outer(lever, lever) + np.diag([sleeve, turn, bow]),
        stiffness=spring * np.outer([0.0, 1.0, -1.0], [0.0, 1.0, -1.0]),
        force=-g * (bird * lever + np.array([sleeve, 0.0, 0.0])),
        normal=np.array([[0.0, 0.0, -beak], [0.0, tall, 0.0], [0.0, -tall, 0.0]]),
        gap=np.array([arm + neck - reach - pole, wide, wide]),
        tangent=np.array([[1.0, arm, neck - reach], [1.0, inner, 0.0], [1.0, inner, 0.0]]),
        friction=float(mu),
        restitution=np.array([e, 0.0, 0.0]),
    )
    q0, v0 = np.array([0.0, -wide / tall, -0.2788]), np.array([-0.3411, 0.0, -7.4583])
    return _problem(
        "woodpecker", body, q0, v0, float(t1), 1e-4, _Bird(pole, inner, tall, arm, neck)
    )


def brake_squeal(*, mu=0.4, coupling=0.3, stiffness=1.2, pad=1.0, load=1.0, belt=0.1, t1=60.0):
    """A block on a belt whose two modes friction couples: above a certain mu it squeals.

    q = (x, y, p): a block of unit mass that moves along the belt and towards it, with the stiffness
    ((1, -c), (-c, k - s)), and a light pad on the belt, pressed by ``load``, which follows x and
    hangs on y by a spring s: after the minimal model of Hoffmann, Fischer, Allgaier and Gaul
    (Mechanics Research Communications 29, 2002).  While it slides,

        x'' + x + (mu s - c) y = mu load,      y'' - c x + k y = 0                             (1)

    with c = ``coupling``, k = ``stiffness``, s = ``pad``: two frequencies meet, and grow, where

        mu s > c + (k - 1)^2 / (4 c)                                                           (2)

    From near its rest, until it sticks and slips.

    Parameters
    ----------
    mu
        Friction of the belt, >= 0.
    coupling
        c [N/m], > 0.
    stiffness
        k [N/m], above s.
    pad
        s [N/m], > 0.
    load
        On the pad [N], > 0.
    belt
        Speed of the belt [m/s], > 0.
    t1
        End [s].
    """
    c, k, s = coupling, stiffness, pad
    if not (mu >= 0 and c > 0 and k > s > 0 and k > c**2 and load > 0 and belt > 0):
        raise ModelError(
            "needs mu >= 0, coupling > 0, stiffness > pad > 0, load > 0 and belt > 0, not "
            f"{mu}, {c}, {k}, {s}, {load}, {belt}"
        )
    body = Linear(
        mass=np.diag([1.0, 1.0, 1e-2]),
        stiffness=np.array([[1.0, -c, 0.0], [-c, k, -s], [0.0, -s, s]]),
        force=np.array([0.0, 0.0, -load]),
        normal=np.array([[0.0, 0.0, 1.0]]),
        gap=np.zeros(1),
        tangent=np.array([[1.0, 0.0, 0.0]]),
        friction=float(mu),
        restitution=np.zeros(1),
        belt=float(belt),
    )
    x, y = np.linalg.solve([[1.0, mu * s - c], [-c, k]], [mu * load, 0.0])
    q0 = np.array([x + 0.02 * load, y, 0.0])
    return _problem("brake_squeal", body, q0, np.zeros(3), float(t1), 0.02, _Brake(load))


def _problem(name, body, q0, v0, t1, step, looks):
    found = Followed(body, q0, v0, t1, step)
    system = System(
        mass=body.mass,
        force=Springs.of(body.force, body.stiffness),
        gap=Affine.of(body.gap, body.normal),
        slip=Along.of(body.belt, body.tangent),
        friction=body.friction,
        restitution=body.restitution,
    )
    return Problem(
        name=name,
        system=system,
        q0=q0,
        v0=v0,
        t0=0.0,
        t1=t1,
        exact=within(0.0, t1, found),
        source="matrix exponentials between events, their times by bisection (models/linear.py)",
        impact_times=np.array(found.impacts),
        looks=looks,
    )


def _numbers(x) -> Any:
    """Nested tuples, which hash."""
    return tuple(map(_numbers, x)) if np.ndim(x) else float(x)


@dataclass(frozen=True)
class Springs:
    force: tuple
    stiffness: tuple

    @staticmethod
    def of(force, stiffness) -> "Springs":
        """Of arrays."""
        return Springs(_numbers(force), _numbers(stiffness))

    def __call__(self, t, q, v):
        return jnp.array(self.force) - jnp.array(self.stiffness) @ q


@dataclass(frozen=True)
class Affine:
    start: tuple
    rows: tuple

    @staticmethod
    def of(start, rows) -> "Affine":
        """Of arrays."""
        return Affine(_numbers(start), _numbers(rows))

    def __call__(self, t, q):
        return jnp.array(self.start) + jnp.array(self.rows) @ q


@dataclass(frozen=True)
class Along:
    belt: float
    rows: tuple

    @staticmethod
    def of(belt, rows) -> "Along":
        """Of arrays."""
        return Along(float(belt), _numbers(rows))

    def __call__(self, t, q, v):
        return jnp.array(self.rows) @ v - self.belt


@dataclass(frozen=True)
class _Bird:
    """A pole, the sleeve and the bird beside it."""

    pole: float
    inner: float
    tall: float
    arm: float
    neck: float

    def __call__(self, t, q):
        y, th, ph = q
        down = math.floor(y / 0.05) * 0.05
        shapes: list[Any] = [
            Segment(x, down - 0.04, x, down + 0.09) for x in (-self.pole, self.pole)
        ]
        c, s = math.cos(th), math.sin(th)
        for side in (-self.inner, self.inner):
            ends = [(side * c - z * s, y + side * s + z * c) for z in (-self.tall, self.tall)]
            shapes.append(Segment(*ends[0], *ends[1]))
        x0, y0 = self.arm * c, y + self.arm * s
        shapes.append(Segment(self.inner * c, y + self.inner * s, x0, y0))

        def at(a, b):
            return x0 + a * math.cos(ph) - b * math.sin(ph), y0 + a * math.sin(ph) + b * math.cos(
                ph
            )

        n = self.neck
        shapes.append(Segment(x0, y0, *at(n, 0.0)))
        corners = [(n - 3e-3, -1.2e-2), (n + 3e-3, -1.2e-2), (n + 5e-3, 1.6e-2), (n - 2e-3, 2.3e-2)]
        shapes.append(Polygon([at(*x) for x in corners]))
        shapes.append(Polygon([at(n - 2e-3, 2.3e-2), at(n - 2e-3, 1.8e-2), at(n - 2.01e-2, 2e-2)]))
        return shapes


@dataclass(frozen=True)
class _Brake:
    load: float

    def __call__(self, t, q):
        x, y, p = q
        w = self.load
        block = [(x - w, y + 2 * w), (x + w, y + 2 * w), (x + w, y + 3 * w), (x - w, y + 3 * w)]
        pad = [(x - w, p), (x + w, p), (x + w, p + 0.3 * w), (x - w, p + 0.3 * w)]
        spring = Segment(x, p + 0.3 * w, x, y + 2 * w)
        return [Segment(-4 * w, 0.0, 4 * w, 0.0), Polygon(block), Polygon(pad), spring, Disc(x, p)]
