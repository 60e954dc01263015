"""Pictures of spheres."""

import numpy as np


def plot_spheres(
    sol, axes=None, record: int = -1, *, along: int | None = None, color=None, forces: bool = False
):
    """One record as disks, seen along an axis (default: the second of three); returns the Axes.

    ``color`` is (N,), default the speed; a colour bar comes with axes that are made here.
    ``forces=True`` draws each contact force as a line from
    centre to centre, as thick as it is strong.
    """
    import matplotlib.pyplot as plt
    from matplotlib.collections import EllipseCollection, LineCollection

    own = axes is None
    if axes is None:
        _, axes = plt.subplots(figsize=(6.8, 6), layout="constrained")
    d = sol.pile.dimension
    along = 1 if along is None else along
    right, up = (0, 1) if d == 2 else [axis for axis in range(3) if axis != along]
    x, r = sol.folded[record], sol.radius[record]
    far_first = np.arange(len(x)) if d == 2 else np.argsort(-x[:, along])
    shade = np.linalg.norm(sol.v[record], axis=1) if color is None else np.asarray(color)
    disks = EllipseCollection(
        2 * r[far_first],
        2 * r[far_first],
        0.0,
        units="xy",
        offsets=x[far_first][:, [right, up]],
        offset_transform=axes.transData,
        array=shade[far_first],
        edgecolors="k",
        linewidths=0.2,
        alpha=0.3 if forces else 1.0,
    )
    axes.add_collection(disks)
    if own:  # beside axes that are given, the caller has the room for one, or has not
        axes.figure.colorbar(disks, label="speed [m/s]" if color is None else "colour", shrink=0.8)
    if forces and len(table := sol.contacts[record]):
        ends = table.pairs[:, 0]
        start = x[ends][:, [right, up]]
        segments = np.stack([start, start + table.branch[:, [right, up]]], axis=1)
        width = 3.5 * table.force / np.max(table.force)
        chains = LineCollection(list(segments), linewidths=width, colors="k", capstyle="round")
        axes.add_collection(chains)
    axes.set_aspect("equal")
    axes.set(
        xlabel="xyz"[right] + " [m]", ylabel="xyz"[up] + " [m]", title=f"t = {sol.t[record]:.3g}"
    )
    axes.set_xlim(np.min(x[:, right] - r), np.max(x[:, right] + r))
    axes.set_ylim(np.min(x[:, up] - r), np.max(x[:, up] + r))
    return axes
