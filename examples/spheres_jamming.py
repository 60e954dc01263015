"""A gas of spheres that grow until they are packed.

python examples/spheres_jamming.py [FOLDER]
carom run examples/spheres_jamming.py
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import carom

t1, dt = 10.0, 0.02  # [s]


def growing(N=400, fraction=0.6, t1=t1):
    """Spheres at random, that fill ``fraction`` of space at t1."""
    pile = carom.spheres.random(N, 0.3, seed=5)
    v = 0.3 * np.random.default_rng(5).normal(size=(N, 3))
    grown = (fraction / 0.3) ** (1 / 3)
    return pile.replaced(radius=lambda t: 1 + (grown - 1) * t / t1, velocity=v)


problem = growing()


def main(folder="out", N=400, fraction=0.6, t1=t1):
    """Run, print the figures, save a picture; returns the solution."""
    sol = carom.solve(growing(N, fraction, t1), carom.Maury(), t1=t1, dt=dt)
    packing = sol.packing_fraction()
    print(sol)
    print(f"  packing fraction        {packing[0]:.2f} to {packing[-1]:.2f}")

    figure, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
    sol.plot(axes[0], 0)
    sol.plot(axes[1], -1, forces=True)
    axes[2].semilogy(packing[1:], sol.pressure()[1:])
    axes[2].set(xlabel="packing fraction", ylabel="pressure")
    Path(folder).mkdir(parents=True, exist_ok=True)
    figure.savefig(Path(folder) / "spheres_jamming.png", dpi=60)
    plt.close(figure)
    return sol


if __name__ == "__main__":
    main(*sys.argv[1:2])
