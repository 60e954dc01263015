"""
A drum that turns
=================

Spheres in a drum with ribs that turns by 2 rad/s. The ribs are obstacles whose
positions are functions of time; Maury's scheme keeps every step free of overlap, to the tolerance
that is asked for.
"""

import matplotlib.pyplot as plt
import numpy as np

import carom

radius, R = 0.01, 0.2  # [m]
pile = carom.spheres.drum(
    280, radius, drum_radius=R, turn=2.0, rib_spheres=2, length=0.06, mass=0.005, tolerance=1e-4
)
sol = carom.solve(pile, carom.Maury(), t1=2.0, dt=2e-3, record=carom.Record(every=20))
print(sol)

# %%
# A section at the end, and the mean height of the spheres: carried up, then sliding down.

figure, (section, height) = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
sol.plot(section)
height.plot(sol.t, np.mean(sol.x[:, :, 2], axis=1))
height.set(xlabel="time [s]", ylabel="mean height [m]")
plt.show()

# %%
# The motion:

sol.animate("drum.gif")
