r"""
From a slope to a drum
======================

Friction step by step: a block on a slope, a ball on the same slope, and a drum full of discs with
its angle of repose. Each step changes one thing of the one before, and each answer but the last is
known.

First a **block**. A ``System`` is told what slides, ``slip``, and with which coefficient,
``friction``; whether the block rests or slides, the law decides. It rests where :math:`\tan\theta
\le \mu`.
"""

from itertools import pairwise

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import carom

mu, g = 0.5, 9.81


def slid(theta):
    """Downhill in a second, from rest [m]."""
    block = carom.System(
        force=lambda t, q, v: g * jnp.array([jnp.sin(theta), -jnp.cos(theta)]),
        gap=lambda t, q: q[1],  # q = (downhill, off the slope)
        slip=lambda t, q, v: v[0],
        friction=mu,
    )
    return carom.solve(block, carom.Moreau(), [0.0, 0.0], [0.0, 0.0], t1=1.0, dt=1e-3).q[-1, 0]


for degrees in (20, 26, 27, 40):
    theta = np.radians(degrees)
    known = 0.5 * g * max(np.sin(theta) - mu * np.cos(theta), 0.0)
    print(f"{degrees} degrees: {slid(theta):.4f} m, exactly {known:.4f}")

# %%
# The angle at which it begins to slide, :math:`\arctan\mu` = 26.6 degrees here, is what an angle
# of repose is for one block.
#
# A **ball** does not slide there: it rolls, as long as :math:`\tan\theta \le 7\mu/2`, with 5/7 of
# the acceleration. ``Spheres`` spin when they have friction, and need no ``slip``. The slope is
# that of gravity.


def rolled(theta):
    """Speed and spin times radius after a second, of a ball."""
    down = g * np.array([np.sin(theta), 0.0, -np.cos(theta)])
    floor = carom.Plane((0, 0, 0), (0, 0, 1))
    ball = carom.Spheres([[0, 0, 0.1]], 0.1, walls=[floor], gravity=down, friction=mu)
    sol = carom.solve(ball, carom.Maury(), t1=1.0, dt=1e-3)
    return sol.v[-1, 0, 0], 0.1 * sol.spin[-1, 0, 1]


for degrees in (40, 65):
    theta = np.radians(degrees)
    rolls = np.tan(theta) <= 3.5 * mu
    known = 5 / 7 * g * np.sin(theta) if rolls else g * (np.sin(theta) - mu * np.cos(theta))
    v, turning = rolled(theta)
    how = "rolls" if rolls else "slides"
    print(
        f"{degrees} degrees: {v:.3f} m/s, exactly {known:.3f}; it {how}, spin times r {turning:.3f}"
    )

# %%
# So a heap of balls on a smooth floor has no angle of repose: what holds a heap is that its balls
# cannot all roll at once, for those that touch turn against each other.
#
# A wall whose surface moves is a **belt**, and one that turns is a **drum**: it takes along what
# it touches. Here 143 discs in a drum of 0.2 m, a little of several sizes so that they do not form
# a crystal. The drum is a ``Cylinder`` with a ``spin``; nothing of it need move.

rng = np.random.default_rng(0)
R, N = 0.2, 143


def drum(friction, turn):
    x = carom.spheres.lattice((13, 11), 0.011, spacing=0.0222).position
    x = x - x.mean(axis=0) - [0.0, 0.01]
    wall = carom.spheres.Cylinder((0, 0), (0, 0, 1), R, spin=-turn)  # clockwise
    return carom.Spheres(
        x,
        rng.uniform(0.008, 0.011, N),
        mass=1e-3,
        walls=[wall],
        gravity=(0, -g),
        friction=friction,
        tolerance=1e-4,
    )


def moved(friction, turn=0.5):
    how = {"t1": 4.0, "dt": 2e-3, "record": carom.Record(every=10), "throw": False}
    return carom.solve(drum(friction, turn), carom.Maury(), **how)


runs = {friction: moved(friction) for friction in (0.0, 0.2, 0.5)}

# %%
# The **angle of repose** is the slope of the free surface: the line through the highest disc in
# each of several strips, away from the walls. It is taken over the last two seconds, in which some
# avalanches go down.


def slope(x):
    """Angle of the surface of discs at x (N, 2) [degrees], uphill to the left."""
    strips = np.linspace(-0.6 * R, 0.6 * R, 9)
    tops = [x[(x[:, 0] >= a) & (x[:, 0] < b)] for a, b in pairwise(strips)]
    tops = np.array([some[np.argmax(some[:, 1])] for some in tops if len(some)])
    return -np.degrees(np.arctan(np.polyfit(tops[:, 0], tops[:, 1], 1)[0]))


figure, (section, course) = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
for friction, sol in runs.items():
    angle = np.array([slope(x) for x in sol.x])
    late = sol.t > 2.0
    course.plot(sol.t, angle, label=f"$\\mu$ = {friction}")
    mean, low, high = (f(angle[late]) for f in (np.mean, np.min, np.max))
    print(f"mu = {friction}: {mean:.0f} degrees, from {low:.0f} to {high:.0f}")
course.set(xlabel="time [s]", ylabel="slope of the surface [degrees]")
course.legend(ncols=3, loc="lower right", bbox_to_anchor=(1.0, 1.0), frameon=False)
runs[0.5].plot(section)
section.add_patch(plt.Circle((0, 0), R, fill=False, color="C3"))
section.set(xlim=(-1.05 * R, 1.05 * R), ylim=(-1.05 * R, 1.05 * R))
plt.show()

# %%
# Without friction the drum turns under discs that stay where they are, and sway. With it they are
# carried up until they go down in avalanches, one after the other, and the steeper the larger mu
# is. That mu = 0.5 gives about the slope of a block in the mean is a coincidence: few discs slide.
#
# Was it solved? Every step to its tolerance, or ``sol.ok`` would be False, and the certificate
# looks at the cone and the slip of each contact; what it leaves open is the energy, to which the
# drum adds.

for friction, sol in runs.items():
    print(friction, sol.ok, carom.certify(sol).verdict)
