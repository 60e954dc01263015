"""Spheres in a drum that turns.

python examples/spheres_drum.py [FOLDER]
carom run examples/spheres_drum.py
"""

import math
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import carom

radius, R, turn = 0.01, 0.22, 2.0  # [m], [m], [rad/s]


def filled(N):
    """The drum with N spheres in it."""
    return carom.spheres.drum(
        N, radius, drum_radius=R, turn=turn, rib_spheres=2, length=0.16, mass=0.005, tolerance=1e-4
    )


problem = filled(900)
t1, dt = 3.0, 2e-3  # [s]


def main(folder="out", N=900, t1=t1):
    """Run, print the figures, save a picture; returns the solution."""
    pile = filled(N)
    record = carom.Record(every=max(1, round(t1 / dt / 60)))
    sol = carom.solve(pile, carom.Maury(), t1=t1, dt=dt, record=record)
    height = np.mean(sol.x[:, :, 2], axis=1)
    print(sol)
    print(f"  turns                   {turn * t1 / (2 * math.pi):.2f}")

    figure, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
    for ax, k in zip(axes[:2], (len(sol) // 4, len(sol) - 1), strict=True):
        sol.plot(ax, k)
    axes[2].plot(sol.t, height)
    axes[2].set(xlabel="t [s]", ylabel="mean height [m]")
    Path(folder).mkdir(parents=True, exist_ok=True)
    figure.savefig(Path(folder) / "spheres_drum.png", dpi=80)
    plt.close(figure)
    return sol


if __name__ == "__main__":
    main(*sys.argv[1:2])
