"""Pictures: functions that take and return matplotlib Axes."""

import numpy as np


def plot_solution(sol, axes=None):
    """Position, velocity, gap and impulses against time, on four Axes (made when not given)."""
    import matplotlib.pyplot as plt

    sol._need_single("plot")
    if axes is None:
        _, axes = plt.subplots(4, 1, sharex=True, figsize=(7, 8), layout="constrained")
    axes = np.ravel(axes)
    t = np.asarray(sol.t)
    _lines(axes[0], t, sol.q, "position q")
    _lines(axes[1], t, sol.v, "velocity v", drawstyle="steps-post")
    _lines(axes[2], t, sol.gap, "gap")
    axes[2].axhline(0.0, color="0.5", linewidth=0.8)
    for i, impulse in enumerate(np.asarray(sol.impulse).T):
        struck = impulse > 0.0
        axes[3].vlines(t[struck], 0.0, impulse[struck], color=f"C{i}", linewidth=1.0)
    axes[3].set_ylabel("impulse")
    axes[3].set_ylim(bottom=0.0)
    axes[3].set_xlabel("time")
    return axes


def _lines(axis, t, values, label, **style):
    values = np.asarray(values)
    for i, column in enumerate(values.T):
        axis.plot(t, column, linewidth=1.2, label=f"{i}", **style)
    axis.set_ylabel(label)
    if values.shape[1] > 1:
        axis.legend(loc="upper right", fontsize="small", ncols=min(4, values.shape[1]))
