"""
Discs that grow until they jam
==============================

A gas of discs in a periodic square whose radii grow with time. As long as there is room they fly
about; near a packing fraction of 0.84 they hold each other fast, and the pressure rises by orders
of magnitude. The figure shows the forces at the end: a few chains carry most of it.
"""

import matplotlib.pyplot as plt
import numpy as np

import carom

t1, begin, end = 10.0, 0.5, 0.82  # packing fractions
N = 200
sizes = np.where(np.arange(N) % 2, 1.0, 1.4)  # two sizes, so that no crystal forms
gas = carom.spheres.random(N, begin, radius=sizes, dimension=2, seed=3, tolerance=1e-4)
v = 0.3 * np.random.default_rng(3).normal(size=(N, 2))
grown = (end / begin) ** 0.5
pile = gas.replaced(radius=lambda t: sizes * (1 + (grown - 1) * t / t1), velocity=v)
sol = carom.solve(pile, carom.Maury(), t1=t1, dt=0.02, record=carom.Record(every=10))
packing, pressure = sol.packing_fraction(), sol.pressure()
print(sol)
print(f"  packing fraction        {packing[0]:.2f} to {packing[-1]:.2f}")

# %%
# The discs with their forces at the end, and the pressure on the way there.

figure, (plane, curve) = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
sol.plot(plane, -1, forces=True)
curve.semilogy(packing[1:], pressure[1:])
curve.set(xlabel="packing fraction", ylabel="pressure")
plt.show()

# %%
# The motion:

sol.animate("jamming.gif", forces=True)
