"""
A double pendulum beside a wall
===============================

Two rods, two bobs, and a wall that either bob may strike. The mass depends on the angles;
``carom.Lagrangian`` takes it with the potential and derives the inertial terms. The impact law
acts in the kinetic metric: a blow on the lower bob turns the upper rod as well.
"""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.animation import FuncAnimation

import carom

masses, rods = (2.0, 1.0), (1.0, 0.8)  # [kg], [m], upper and lower
wall = 0.3  # [m] to the right of the pivot


def mass(q):
    coupling = masses[1] * rods[0] * rods[1] * jnp.cos(q[0] - q[1])
    upper = (masses[0] + masses[1]) * rods[0] ** 2
    return jnp.array([[upper, coupling], [coupling, masses[1] * rods[1] ** 2]])


def bobs(q, xp=np):
    """x and y of both bobs, each (..., 2)."""
    length = xp.array(rods)
    return xp.cumsum(length * xp.sin(q), axis=-1), -xp.cumsum(length * xp.cos(q), axis=-1)


pendulum = carom.Lagrangian(
    mass=mass,
    potential=lambda q: 9.81 * jnp.dot(jnp.array(masses), bobs(q, jnp)[1]),
    force=lambda t, q, v: -0.2 * v,
    gap=lambda t, q: wall - bobs(q, jnp)[0],  # one gap for each bob
    restitution=0.6,
)
sol = carom.solve(pendulum, carom.Moreau(), q0=[-1.0, -1.6], v0=[0.0, 0.0], t1=5.0, dt=5e-4)
print(sol)

# %%
# Paths of both bobs, and their distances from the wall. Dots are impacts.

x, y = bobs(sol.q)
figure, (plane, gaps) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
plane.axvline(wall, color="0.4", linewidth=3)
struck = sol.impacts.step
for i, (name, colour) in enumerate([("upper bob", "C1"), ("lower bob", "C0")]):
    mine = struck[sol.impacts.constraint == i]
    plane.plot(x[:, i], y[:, i], color=colour, label=name)
    plane.plot(x[mine, i], y[mine, i], "o", color=colour)
    gaps.plot(sol.t, sol.gap[:, i], color=colour)
    gaps.plot(sol.t[mine], 0 * mine, "o", color=colour)
plane.set(xlabel="x [m]", ylabel="y [m]", aspect="equal")
plane.legend(loc="lower left", frameon=False)
gaps.set(xlabel="time [s]", ylabel="gap [m]")
gaps.axhline(0.0, color="0.4", linewidth=3, zorder=0)
plt.show()

# %%
# The motion:

figure, ax = plt.subplots(figsize=(5, 4.2), layout="constrained")
ax.set(xlim=(-1.9, 0.5), ylim=(-2.0, 0.2), aspect="equal", xlabel="x [m]", ylabel="y [m]")
ax.axvspan(wall, 0.5, color="0.82")
(trail,) = ax.plot([], [], color="C0", linewidth=0.8, alpha=0.6)
(body,) = ax.plot([], [], "o-", color="0.2", linewidth=2, markersize=9, markerfacecolor="C1")
frames = np.arange(0, len(sol), 100)


def draw(k):
    body.set_data([0.0, *x[k]], [0.0, *y[k]])
    trail.set_data(x[max(0, k - 1000) : k, 1], y[max(0, k - 1000) : k, 1])


FuncAnimation(figure, draw, frames=frames).save(
    "double_pendulum.gif", fps=20, dpi=80, writer="pillow"
)
plt.close(figure)
