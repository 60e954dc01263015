r"""
Stick and slip on a shaken belt
===============================

A block lies on a belt that goes to and fro, :math:`A \sin \omega t`. Friction can accelerate it
by :math:`\mu g` at most: while the belt asks for less the block sticks, otherwise it slips, with
a velocity that is a straight line. The surface's own velocity goes into ``slip``.
"""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.animation import FuncAnimation

import carom

mu, g, A, w = 0.3, 9.81, 0.1, 6.5  # the belt asks for A w^2 = 4.2 m/s^2, friction gives 2.9


def belt(t, xp=np):
    return A * w * xp.cos(w * t)


block = carom.System(
    force=lambda t, q, v: jnp.array([0.0, -g]),
    gap=lambda t, q: q[1],
    slip=lambda t, q, v: v[0] - belt(t, jnp),
    friction=mu,
)
sol = carom.solve(block, carom.Moreau(), q0=[0.0, 0.0], v0=[0.0, 0.0], t1=3.0, dt=1e-3)
sticks = np.abs(sol.v[:, 0] - belt(sol.t)) < 1e-9
print(sol)
print(f"  sticks                  {np.mean(sticks[sol.t > 1.5]):.0%} of the time once it repeats")

# %%
# Velocities of belt and block, and the force of friction beside its bound. A contact that sticks
# has exactly the velocity of the belt: it does not creep, whatever the step.

figure, (speed, force) = plt.subplots(2, 1, figsize=(9, 5), sharex=True, layout="constrained")
speed.plot(sol.t, belt(sol.t), color="0.6", label="belt")
speed.plot(sol.t, sol.v[:, 0], color="C0", label="block")
speed.set(ylabel="velocity [m/s]")
speed.legend(frameon=False, ncols=2, loc="lower right", bbox_to_anchor=(1.0, 1.0))
force.plot(sol.t[1:], sol.friction[1:, 0] / sol.dt, color="C1")
force.axhline(mu * g, color="0.5", linestyle=":")
force.axhline(-mu * g, color="0.5", linestyle=":")
force.set(xlabel="time [s]", ylabel="friction [N]")
plt.show()

# %%
# The motion: marks go with the belt.

figure, ax = plt.subplots(figsize=(7, 2.4), layout="constrained")
ax.set(xlim=(-0.5, 0.5), ylim=(-0.1, 0.22), aspect="equal")
ax.set_axis_off()
ax.axhspan(-0.08, 0.0, color="0.82")
(marks,) = ax.plot([], [], "|", color="0.4", markersize=14)
body = ax.add_patch(plt.Rectangle((0, 0), 0.16, 0.12, color="C0"))
at = np.arange(-0.8, 0.9, 0.1)


def draw(k):
    marks.set_data(at + A * np.sin(w * sol.t[k]), 0 * at - 0.04)
    body.set_x(sol.q[k, 0] - 0.08 - np.mean(sol.q[-967:, 0]))
    body.set_facecolor("C2" if sticks[k] else "C3")  # green: it sticks


FuncAnimation(figure, draw, frames=range(0, 3001, 40)).save(
    "stick_slip.gif", fps=20, dpi=80, writer="pillow"
)
plt.close(figure)
