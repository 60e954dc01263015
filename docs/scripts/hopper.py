"""
Grains run out of a hopper
==========================

Four hundred spheres above a square funnel. Without friction they run freely; the flow is steady
while the funnel is covered, as sand is.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.animation import FuncAnimation

import carom

pile = carom.spheres.hopper(400, 0.012, opening=0.1, width=0.2, mass=0.005, tolerance=1e-4)
sol = carom.solve(pile, carom.Maury(), t1=1.0, dt=2e-3, record=carom.Record(every=10))
print(sol)

# %%
# The spheres as they run, and the part of them that is out.

figure, axes = plt.subplots(1, 3, figsize=(11, 4.2), layout="constrained", width_ratios=(1, 1, 1.3))
for ax, record in zip(axes[:2], (12, 30), strict=True):
    sol.plot(ax, record)
    ax.set(xlim=(-0.15, 0.15), ylim=(-0.25, 0.4), title=f"t = {sol.t[record]:.2f} s")
axes[2].plot(sol.t, np.mean(sol.x[:, :, 2] < 0.0, axis=1))
axes[2].set(xlabel="time [s]", ylabel="part that is out", ylim=(0, 1))
plt.show()

# %%
# The motion:

figure, ax = plt.subplots(figsize=(3.4, 5.2), layout="constrained")


def draw(record):
    ax.clear()
    sol.plot(ax, record)
    ax.set(xlim=(-0.15, 0.15), ylim=(-0.25, 0.4))


moving = FuncAnimation(figure, draw, frames=len(sol))
moving.save("hopper.gif", fps=12, dpi=80, writer="pillow")
plt.close(figure)
