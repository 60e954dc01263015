"""Many spheres with a known answer (P14, P15)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from carom.models.problem import ModelError
from carom.shown import Shown


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Scene(Shown):
    """Spheres on [0, t1], and what must come out.

    ``expected(sol)`` gives pairs (measured, known) by name, for a solution of the scene.
    """

    name: str  # of the model
    system: Any  # carom.Spheres, which carries its own state
    t1: float  # end [s]
    dt: float  # a step that resolves the collisions [s]
    expected: Callable[[Any], dict[str, tuple[np.ndarray, np.ndarray]]]
    source: str  # where it comes from, in one line
    q0: None = None  # as `Problem` has them, so that one call of solve serves both
    v0: None = None  # likewise
    t0: float = 0.0  # start [s]

    def __str__(self) -> str:
        return f"{self.name}, {self.system}, to t = {self.t1:.6g} in steps of {self.dt:.3g}"


def granular_gas(*, count=1000, packing=0.05, e=0.95, radius=0.5, speed=1.0, seed=1, spans=3.0):
    """A gas of inelastic spheres cools by Haff's law (P14).

    Periodic cube, normal velocities of variance ``speed^2``, unit masses. With s the diameter, n
    the number density, ``g2 = (1 - eta/2)/(1-eta)^3`` (Carnahan and Starling) and eta the packing,

        T = T0/(1 + t/tau)^2,    tau = 3/(2 (1-e^2) n s^2 g2 sqrt(pi T0)),

    while the gas stays uniform: ``eta <= 0.1, e >= 0.9, t <= 3 tau``, which ``spans`` counts.

    Parameters
    ----------
    count
        The spheres.
    packing
        eta, the part of space that they fill, in (0, 0.1].
    e
        Restitution, in [0.9, 1).
    radius
        Of the spheres [m].
    speed
        Of a component of a velocity at the start, root of the mean square [m/s].
    seed
        Of the start, a whole number.
    spans
        The end, t1, in tau, in (0, 3].
    """
    from carom import spheres

    if not (0 < packing <= 0.1 and 0.9 <= e < 1 and count >= 2 and 0 < spans <= 3):
        raise ModelError(
            "Haff's law needs 0 < packing <= 0.1, 0.9 <= e < 1, 0 < spans <= 3, not "
            f"packing {packing}, e {e}, spans {spans}"
        )
    v = speed * np.random.default_rng(seed).normal(size=(count, 3))
    v -= v.mean(axis=0)
    gas = spheres.random(count, packing, radius=radius, seed=seed + 1, restitution=e, velocity=v)
    T0 = np.sum(v**2) / (3 * count)
    g2 = (1 - packing / 2) / (1 - packing) ** 3
    rate = count / np.prod(gas.period) * (2 * radius) ** 2 * g2 * math.sqrt(math.pi * T0)
    tau = 3 / (2 * (1 - e**2) * rate)

    def expected(sol):
        return {"temperature": (sol.temperature(), T0 / (1 + sol.t / tau) ** 2)}

    return Scene(
        name="granular_gas",
        system=gas,
        t1=float(spans * tau),
        dt=float(0.01 / (4 * rate)),  # a hundredth of the mean free time
        expected=expected,
        source="Haff (1983), benchmarks P14",
    )


def settling_spheres(*, shape=(8, 8, 10), radius=0.01, spread=0.15, g=9.81, drag=10.0, seed=4):
    """Spheres fall into a box and come to rest: the floor carries their weight (P15).

    e = 0, no friction, unit masses, radii between ``(1 - spread) radius`` and ``radius`` so that
    no crystal forms; ``drag`` per mass and speed brings them to rest sooner and does no work there.

    Parameters
    ----------
    shape
        (3,) spheres side by side at the start, along x, y and z; the box is as wide.
    radius
        The largest [m].
    spread
        Of the radii, in [0, 1).
    g
        Gravity [m/s^2].
    drag
        Of each sphere [kg/s].
    seed
        Of the start and the radii, a whole number.
    """
    from carom import spheres

    cell = 2.25 * radius
    walls = [spheres.Box((0.0, 0.0, 0.0), (shape[0] * cell, shape[1] * cell, np.inf))]
    pile = spheres.lattice(
        shape,
        radius,
        spacing=cell,
        jitter=0.1 * radius,
        seed=seed,
        gravity=(0.0, 0.0, -g),
        walls=walls,
        force=lambda t, x, v: -drag * v,
    )
    sizes = radius * np.random.default_rng(seed).uniform(1 - spread, 1.0, len(pile))
    weight = len(pile) * g

    def expected(sol):
        return {
            "floor force": (-sol.wall_force()[-1, :, 2].sum(), np.array(weight)),
            "coordination": (sol.coordination()[-1], np.array(6.0)),
        }

    return Scene(
        name="settling_spheres",
        system=pile.replaced(radius=sizes),
        t1=16.0 * math.sqrt(shape[2] * cell / g),
        dt=2e-3 * math.sqrt(radius / 0.01 * 9.81 / g),
        expected=expected,
        source="equilibrium, and counting of constraints; benchmarks P15",
    )
