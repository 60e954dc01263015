"""
Newton's cradle: one by one, or all at once
===========================================

Five pendulums in a row, the first one raised. A hair apart, the blow is passed on from ball to
ball, and the last one leaves. Touching, all contacts act in one instant, and the impact law (the
nearest admissible velocity in the kinetic metric, reflected) spreads the blow over all of them:
the solution does not depend continuously on the spacing. Both are right for what they describe.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.animation import FuncAnimation

import carom

cradles = {
    "0.01 apart": carom.models.newtons_cradle(spacing=0.01, t1=9.0),
    "touching": carom.models.newtons_cradle(spacing=0.0, t1=9.0),
}
motions = {
    name: carom.solve(c.system, carom.Maury(), c.q0, c.v0, t1=9.0, dt=1e-3)
    for name, c in cradles.items()
}
for name, sol in motions.items():
    exact = cradles[name].exact(sol.t)[0]
    print(f"{name}: largest |q - exact| = {np.max(np.abs(sol.q - exact)):.1e}")

# %%
# Displacement of each ball against time, the two of them.

figure, axes = plt.subplots(2, 1, figsize=(9, 5), sharex=True, layout="constrained")
for ax, (name, sol) in zip(axes, motions.items(), strict=True):
    lines = ax.plot(sol.t, sol.q, linewidth=1.3)
    ax.set(ylabel="displacement", title=name)
axes[1].set_xlabel("time")
figure.legend(lines, [f"ball {i}" for i in range(1, 6)], loc="outside right upper", frameon=False)
plt.show()

# %%
# The motion, side by side. The balls hang from strings of length 3, which are drawn straight.

figure, axes = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
size, length = 0.28, 3.0
drawn = []
for ax, (name, sol) in zip(axes, motions.items(), strict=True):
    ax.set(xlim=(-1.5, 2 * size * 4 + 1.5), ylim=(-3.5, 0.1), aspect="equal", title=name)
    ax.set_axis_off()
    for i in range(5):
        (string,) = ax.plot([], [], color="0.5", linewidth=1)
        ball = ax.add_patch(plt.Circle((0, 0), 0.99 * size, color=f"C{i}"))
        drawn.append((sol, i, string, ball))


def draw(k):
    for sol, i, string, ball in drawn:
        at, q = 2 * size * i, sol.q[k, i]
        x, y = at + q, -np.sqrt(length**2 - q**2)
        string.set_data([at, x], [0.0, y])
        ball.center = (x, y)


frames = np.arange(0, 9001, 120)
FuncAnimation(figure, draw, frames=frames).save(
    "newtons_cradle.gif", fps=15, dpi=80, writer="pillow"
)
plt.close(figure)
