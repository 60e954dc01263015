"""A ball bounces infinitely often in finite time, and rests: e = 0.8, through the accumulation.

    python examples/bouncing_ball.py [FOLDER]
    carom run examples/bouncing_ball.py

Prints the summary of the run and its distance from the exact motion, and writes
FOLDER/bouncing_ball.png (FOLDER is out/ unless given).
"""

import sys
from pathlib import Path

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import carom

problem = carom.System(
    force=lambda t, q, v: jnp.array([-9.81]),  # M q'' = force, with unit mass
    gap=lambda t, q: q,  # the height above the floor
    restitution=0.8,
)
q0, v0, t1, dt = [1.0], [0.0], 5.0, 1e-3  # [m], [m/s], [s], [s]


def main(folder="out"):
    sol = carom.solve(problem, carom.Moreau(), q0, v0, t1=t1, dt=dt)
    print(sol)

    exact = carom.models.bouncing_ball(e=0.8, t1=5.0)
    error = np.max(np.abs(sol.q - exact.exact(sol.t)[0]))
    print(f"largest |q - exact|       {error:.1e}, at rest from t = {exact.accumulation:.4f} on")

    axes = sol.plot()
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    axes[0].figure.savefig(folder / "bouncing_ball.png", dpi=100)
    plt.close(axes[0].figure)
    return sol


if __name__ == "__main__":
    main(*sys.argv[1:])
