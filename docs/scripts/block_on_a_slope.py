r"""
A block on a slope
==================

Coulomb's law in one line: a block on a slope of angle :math:`\theta` rests where
:math:`\tan\theta \le \mu` and slides with the acceleration :math:`g (\sin\theta - \mu
\cos\theta)` otherwise. Nothing in the code says which; the law does. ``slip`` is the velocity
that friction acts on, in your coordinates.
"""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.animation import FuncAnimation

import carom

mu, g = 0.4, 9.81


def block(theta):
    return carom.System(
        force=lambda t, q, v: g * jnp.array([jnp.sin(theta), -jnp.cos(theta)]),
        gap=lambda t, q: q[1],  # q = (downhill, off the slope)
        slip=lambda t, q, v: v[0],
        friction=mu,
    )


def run(theta):
    """Thrown uphill at 2 m/s."""
    return carom.solve(block(theta), carom.Moreau(), [0.0, 0.0], [-2.0, 0.0], t1=1.5, dt=1e-3)


angles = np.radians([10.0, 20.0, 25.0, 35.0])  # mu is the tangent of 21.8 degrees
motions = [run(theta) for theta in angles]
for theta, sol in zip(angles, motions, strict=True):
    pulled = g * (np.sin(theta) - mu * np.cos(theta))
    slid = (sol.v[-1, 0] - sol.v[-501, 0]) / 0.5
    print(f"{np.degrees(theta):.0f} degrees: {slid:.3f} m/s^2, the law {max(0.0, pulled):.3f}")

# %%
# All go up, slowed by weight and friction alike, and stop. Where the slope is less steep than
# friction holds they stay; otherwise they come back more slowly than they went.

figure, (where, force) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
for theta, sol in zip(angles, motions, strict=True):
    label = f"{np.degrees(theta):.0f}°"
    (line,) = where.plot(sol.t, sol.q[:, 0], label=label)
    # impulse of friction per step, over that of the normal contact
    part = sol.friction[1:, 0] / sol.impulse[1:, 0]
    force.plot(sol.t[1:], part, color=line.get_color())
where.set(xlabel="time [s]", ylabel="downhill [m]")
where.legend(frameon=False, title="slope")
force.set(xlabel="time [s]", ylabel="friction / normal force")
for side in (-mu, mu):
    force.axhline(side, color="0.5", linestyle=":")
plt.show()

# %%
# The motion, at 10° and at 35°:

figure, axes = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
shapes = []
for ax, k in zip(axes, (0, 3), strict=True):
    c, s = np.cos(angles[k]), np.sin(angles[k])
    ax.fill([-1.2 * c, 2.0 * c, -1.2 * c], [1.2 * s, -2.0 * s, -2.0 * s], color="0.82")
    ax.set(aspect="equal", title=f"{np.degrees(angles[k]):.0f}°", xlim=(-1.2, 2.0), ylim=(-1.2, 1))
    ax.set_axis_off()
    body = ax.add_patch(plt.Polygon(np.zeros((4, 2)), color="C1"))
    shapes.append((motions[k], np.array([[c, -s], [s, c]]), body))


def draw(k):
    for sol, turn, body in shapes:
        corners = np.array([[-0.15, 0.0], [0.15, 0.0], [0.15, 0.2], [-0.15, 0.2]])
        body.set_xy((corners + sol.q[k]) @ turn)


FuncAnimation(figure, draw, frames=range(0, 1501, 25)).save(
    "block.gif", fps=20, dpi=80, writer="pillow"
)
plt.close(figure)
