"""What a type checker makes of a user's script: ``make lint`` runs pyright and mypy --strict on it.

It is a program too: test_import.py runs it.
"""

from typing import assert_type

import jax.numpy as jnp
from jax import Array

import carom


def force(t: Array, q: Array, v: Array) -> Array:
    return jnp.array([-9.81])


pendulum = carom.Lagrangian(mass=[1.0], potential=lambda q: 1.0 - jnp.cos(q))
ball = carom.System(force=force, gap=lambda t, q: q, restitution=0.8)
sol = carom.solve(ball, carom.Moreau(), q0=[1.0], v0=[0.0], t1=1.0, dt=1e-2)
assert_type(sol, carom.Solution)
print(sol.q.shape, sol.v[-1], sol.impacts.time, sol.ok, len(sol))
further = carom.solve(ball, carom.Moreau(), start=sol, t1=1.5, dt=1e-2)
assert_type(further, carom.Solution)

pile = carom.Spheres([[0.0, 0.0, 0.5]], 0.5, walls=[carom.Plane((0, 0, 0), (0, 0, 1))])
moved = carom.solve(pile, carom.Maury(), t1=0.1, dt=1e-2, record=carom.Record(every=2))
assert_type(moved, carom.spheres.SpheresSolution)
print(moved.x.shape, moved.kinetic_energy())

found = carom.certify(sol)
assert_type(found, carom.Certificate)
assert_type(found.ok, bool | None)

if len(sol) == 0:  # what a checker must not let through; each comment would be unused if it did
    print(sol.x)  # type: ignore[attr-defined]
    print(moved.positions)  # type: ignore[attr-defined]
    carom.solve(ball, carom.Moreau(), [1.0], [0.0], t1=1.0)  # type: ignore[call-overload]
