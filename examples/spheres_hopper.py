"""Spheres run out of a hopper.

python examples/spheres_hopper.py [FOLDER]
carom run examples/spheres_hopper.py
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import carom


def filled(N, radius=0.01):
    """The hopper with N spheres in it."""
    return carom.spheres.hopper(N, radius, opening=0.1, width=0.24, mass=0.005, tolerance=1e-4)


problem = filled(1000)
t1, dt = 1.5, 2e-3  # [s]


def main(folder="out", N=1000, t1=t1):
    """Run, print the figures, save a picture; returns the solution."""
    pile = filled(N)
    record = carom.Record(every=max(1, round(t1 / dt / 60)))
    sol = carom.solve(pile, carom.Maury(), t1=t1, dt=dt, record=record)
    out = np.mean(sol.x[:, :, 2] < 0.0, axis=1)
    print(sol)
    print(f"  out of the hopper       {out[-1]:.0%} after {t1:g} s")

    figure, axes = plt.subplots(1, 3, figsize=(11, 5), layout="constrained")
    for ax, record in zip(axes[:2], (len(sol) // 3, -1), strict=True):
        sol.plot(ax, record)
        ax.set(xlim=(-0.15, 0.15), ylim=(-0.3, 0.45))
    axes[2].plot(sol.t, out)
    axes[2].set(xlabel="t [s]", ylabel="part that is out", ylim=(0, 1))
    Path(folder).mkdir(parents=True, exist_ok=True)
    figure.savefig(Path(folder) / "spheres_hopper.png", dpi=80)
    plt.close(figure)
    return sol


if __name__ == "__main__":
    main(*sys.argv[1:2])
