"""A double pendulum beside a wall that either bob may strike, computed with two schemes.

    python examples/double_pendulum_wall.py [FOLDER]
    carom run examples/double_pendulum_wall.py

Prints the summary of both runs and how far they are apart, and writes
FOLDER/double_pendulum_wall.png (FOLDER is out/ unless given).
"""

import sys
from pathlib import Path

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import carom

MASSES = (2.0, 1.0)  # [kg] of the upper and the lower bob
RODS = (1.0, 0.8)  # [m]
GRAVITY = 9.81  # [m/s^2]
DAMPING = 0.2  # [N m s] of each hinge
WALL = 0.3  # [m] right of the pivot
SCHEMES = (carom.Moreau(), carom.Maury())


def pendulum(restitution=0.6):
    """Angles q = (q0, q1) of the rods from the vertical; all inertial terms follow from mass(q)."""

    def mass(q):
        coupling = MASSES[1] * RODS[0] * RODS[1] * jnp.cos(q[0] - q[1])
        return jnp.array(
            [[sum(MASSES) * RODS[0] ** 2, coupling], [coupling, MASSES[1] * RODS[1] ** 2]]
        )

    def potential(q):
        _, y = bobs(q, jnp)
        return GRAVITY * (MASSES[0] * y[0] + MASSES[1] * y[1])

    def hinges(t, q, v):
        lower = DAMPING * (v[1] - v[0])
        return jnp.array([lower - DAMPING * v[0], -lower])

    return carom.Lagrangian(
        mass=mass,
        potential=potential,
        force=hinges,
        gap=lambda t, q: WALL - bobs(q, jnp)[0],  # one gap for each bob
        restitution=restitution,
    )


def bobs(q, xp=np):
    """x and y of both bobs, each of shape (..., 2), y upwards from the pivot."""
    rods = xp.array(RODS)
    return xp.cumsum(rods * xp.sin(q), axis=-1), -xp.cumsum(rods * xp.cos(q), axis=-1)


problem = pendulum()
q0, v0, t1, dt = [-1.0, -1.6], [0.0, 0.0], 5.0, 1e-4  # [rad], [rad/s], [s], [s]


def simulate(scheme, dt=dt):
    return carom.solve(problem, scheme, q0, v0, t1=t1, dt=dt)


def draw(first, second):
    """Paths of both bobs, gaps, and the distance of the two solutions; dots are impacts."""
    figure, axes = plt.subplot_mosaic(
        [["plane", "gaps"], ["plane", "apart"]],
        figsize=(11, 5.2),
        layout="constrained",
        width_ratios=(1, 1.25),
        height_ratios=(2, 1),
    )
    draw_plane(axes["plane"], first, second)
    draw_gaps(axes["gaps"], first, second)
    axes["apart"].plot(first.t, 1e3 * np.abs(first.q - second.q).max(axis=1), color="0.2")
    axes["apart"].set(xlabel="time [s]", ylabel="difference\nin q [mrad]", ylim=(0, None))
    axes["apart"].sharex(axes["gaps"])
    return figure


COLOURS = ("C1", "C0")  # of the upper and the lower bob
STYLES = ({"linewidth": 3.0, "alpha": 0.4}, {"linewidth": 1.2, "linestyle": "--"})
DOT = {"marker": "o", "linestyle": "", "markeredgecolor": "k", "zorder": 3}


def draw_plane(ax, *solutions):
    x, y = bobs(solutions[0].q[0])
    ax.plot([0, *x], [0, *y], color="0.6", linewidth=1.5, zorder=0)
    ax.plot(0, 0, "ks", markersize=5)
    ax.axvline(WALL, color="0.35", linewidth=3.0)
    for sol, style in zip(solutions, STYLES, strict=True):
        x, y = bobs(sol.q)
        for i, colour in enumerate(COLOURS):
            ax.plot(x[:, i], y[:, i], color=colour, **style)
    for i, colour in enumerate(COLOURS):
        x, y = bobs(struck(solutions[0], i, "q"))
        ax.plot(x[:, i], y[:, i], color=colour, **DOT)
    ax.set(xlabel="x [m]", ylabel="y [m]", title="Start, wall and paths of both bobs")
    ax.set(aspect="equal", xticks=np.arange(-1.5, 0.1, 0.5), yticks=np.arange(-1.5, 0.1, 0.5))


def draw_gaps(ax, *solutions):
    ax.axhline(0.0, color="0.35", linewidth=3.0)
    for sol, style in zip(solutions, STYLES, strict=True):
        for i, (bob, colour) in enumerate(zip(("upper", "lower"), COLOURS, strict=True)):
            label = f"{bob} bob, {type(sol.scheme).__name__}"
            ax.plot(sol.t, sol.gap[:, i], color=colour, label=label, **style)
    for i, colour in enumerate(COLOURS):
        t = struck(solutions[0], i, "t")
        ax.plot(t, np.zeros_like(t), color=colour, **DOT)
    ax.set(ylabel="gap [m]", title="Distance of the bobs from the wall")
    ax.legend(fontsize="small", ncols=2)


def struck(sol, bob, field):
    """A field of the solution at the impacts of one bob."""
    return getattr(sol, field)[sol.impacts.step[sol.impacts.constraint == bob]]


def main(folder="out"):
    solutions = [simulate(scheme) for scheme in SCHEMES]
    for sol in solutions:
        print(sol)
    apart = np.max(np.abs(solutions[0].q - solutions[1].q))
    print(f"largest difference of the two in q: {apart:.1e} rad")

    path = Path(folder) / "double_pendulum_wall.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    figure = draw(*solutions)
    figure.savefig(path, dpi=120)
    plt.close(figure)
    print(f"picture: {path}")
    return solutions


if __name__ == "__main__":
    main(*sys.argv[1:])
