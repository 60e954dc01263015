"""Pictures of spheres."""

import numpy as np

from carom.errors import RecordError
from carom.pictures.plot import check_axes
from carom.pictures.scene import room_around, wall_lines
from carom.shown import counted


def plot_spheres(
    sol, axes=None, record: int = -1, *, along: int | None = None, color=None, forces: bool = False
):
    """One record as disks between their walls, seen along an axis (default: the second of three).

    Returns the Axes.  Walls are lines: planes where they cut the room that the picture shows.

    ``color`` is (N,), default the speed; a colour bar comes with axes that are made here.
    ``forces=True`` draws each contact force as a line from centre to centre, as thick and as dark
    as it is strong, the strongest last, over pale disks; the colour bar is then that of the forces.
    """
    from matplotlib.collections import EllipseCollection

    check_axes(axes)
    if not -len(sol) <= record < len(sol):
        raise RecordError(f"record is {record}; there are {counted(len(sol), 'record')}")
    own = axes is None
    d = sol.pile.dimension
    along = 1 if along is None else along
    right, up = (0, 1) if d == 2 else [axis for axis in range(3) if axis != along]
    x, r, t = sol.folded[record], sol.radius[record], sol.t[record]
    low, high = room_around(sol.pile.walls, t, x, r)
    sides = [(low[k], high[k]) for k in (right, up)]
    axes = _shaped(sides) if axes is None else axes
    _walls(axes, sol.pile.walls, t, (low, high), (right, up))
    far_first = np.arange(len(x)) if d == 2 else np.argsort(-x[:, along])
    shade = np.linalg.norm(sol.v[record], axis=1) if color is None else np.asarray(color)
    coloured = {"array": shade[far_first], "alpha": 0.3 if forces else 1.0}
    if forces and color is None:
        coloured = {"facecolors": "0.9", "alpha": 0.3}
    disks = EllipseCollection(
        2 * r[far_first],
        2 * r[far_first],
        0.0,
        units="xy",
        offsets=x[far_first][:, [right, up]],
        offset_transform=axes.transData,
        edgecolors="k",
        linewidths=0.2,
        **coloured,
    )
    axes.add_collection(disks)
    shown, label = disks, "speed [m/s]" if color is None else "colour"
    if forces and len(table := sol.contacts[record]):
        chains = _chains(table, x, (right, up))
        axes.add_collection(chains)
        if color is None:
            shown, label = chains, "contact force [N]"
    if own:  # beside axes that are given, the caller has the room for one, or has not
        axes.figure.colorbar(shown, label=label, shrink=0.8)
    axes.set_aspect("equal")
    axes.set(
        xlabel="xyz"[right] + " [m]", ylabel="xyz"[up] + " [m]", title=f"t = {sol.t[record]:.3g}"
    )
    axes.set(xlim=sides[0], ylim=sides[1])
    return axes


def _walls(axes, walls, t, room, seen):
    """Lines, behind the spheres, and obstacles as grey disks."""
    from matplotlib.collections import EllipseCollection, LineCollection

    lines = wall_lines(*walls.at(t), *room)
    near = 1e-6 * np.max(room[1] - room[0])
    cut = [np.all(np.abs(lines[:, :, k] - side[k]) < near, axis=1) for side in room for k in seen]
    lines = lines[~np.any(cut, axis=0)][:, :, seen]  # where the picture ends, a wall does not
    axes.add_collection(LineCollection(list(lines), colors="0.35", linewidths=1.4, zorder=0.5))
    x, r = walls.obstacles_at(t)
    if len(r):
        how = {"units": "xy", "facecolors": "0.75", "edgecolors": "0.35", "zorder": 0.5}
        place = {"offsets": x[:, seen], "offset_transform": axes.transData}
        axes.add_collection(EllipseCollection(2 * r, 2 * r, 0.0, **how, **place))


def _shaped(sides):
    """Axes of a figure with the proportions of what is to be seen."""
    import matplotlib.pyplot as plt

    width, height = (high - low for low, high in sides)
    tall = np.clip(5.2 * height / width, 2.2, 8.0)
    return plt.subplots(figsize=(6.8, tall + 0.9), layout="constrained")[1]


def _chains(table, x, seen):
    """The contact forces as lines."""
    from matplotlib.collections import LineCollection

    size = np.abs(table.force)  # glue pulls
    order = np.argsort(size)
    start, force = x[table.pairs[order, 0]][:, seen], size[order]
    segments = np.stack([start, start + table.branch[order][:, seen]], axis=1)
    part = force / max(np.max(force), 1e-300)
    lines = LineCollection(
        list(segments),
        linewidths=0.2 + 3.8 * part,
        alpha=0.15 + 0.85 * np.sqrt(part),  # weak ones pale: strong ones stand out of any depth
        array=force,
        cmap="inferno_r",
        capstyle="round",
    )
    lines.set_clim(0.0, np.max(force))
    return lines
