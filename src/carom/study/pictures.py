"""Pictures of studies: functions that take and return matplotlib Axes."""

import numpy as np

from carom.schemes.event_driven import EventDriven
from carom.solve import solve

_MARKS = {"period doubling": "s", "fold": "o", "grazing": "^"}


def _axes(ax):
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(6, 4), layout="constrained")[1] if ax is None else ax


def plot_orbit(orbit, system, ax=None, coordinate: int = 0):
    """One coordinate and its velocity over a period; the jumps at impacts dotted."""
    ax, T = _axes(ax), orbit.period
    sol = solve(system, EventDriven(), orbit.q0, orbit.v0, t0=orbit.t0, t1=orbit.t0 + T, dt=T / 400)
    q, v = sol.q[:, coordinate], sol.v[:, coordinate].copy()
    edges = np.searchsorted(sol.t, orbit.impact_times)
    for a, b in zip([0, *edges], [*edges, len(q)], strict=True):
        ax.plot(q[a:b], v[a:b], color="C0")
    for k in edges[(edges > 0) & (edges < len(q))]:
        ax.plot(q[k - 1 : k + 1], v[k - 1 : k + 1], color="C3", linestyle=":")
    ax.set_xlabel(f"q{coordinate}")
    ax.set_ylabel(f"v{coordinate}")
    return ax


def plot_branch(branch, ax=None):
    """Impact speeds against the parameter, dashed where unstable, with its bifurcations."""
    ax = _axes(ax)
    p, stable = branch.parameter, branch.stable
    for speeds in branch.speeds.T:
        ax.plot(p, np.where(stable, speeds, np.nan), color="C0", linewidth=1.5)
        ax.plot(p, np.where(stable, np.nan, speeds), color="C0", linewidth=1.0, linestyle="--")
    for kind, mark in _MARKS.items():
        found = [b for b in branch.bifurcations if b.kind == kind]
        x = [b.parameter for b in found for _ in b.orbit.speeds]
        y = [speed for b in found for speed in b.orbit.speeds]
        if found:
            ax.plot(x, y, mark, color="C3", label=kind)
    if branch.bifurcations:
        ax.legend()
    ax.set_xlabel("parameter")
    ax.set_ylabel("impact speed")
    return ax


def plot_exponents(exponents, ax=None):
    """The running means of the exponents against time."""
    ax = _axes(ax)
    time = exponents.interval * np.arange(1, len(exponents.growth) + 1)
    for i, history in enumerate(exponents.history.T):
        ax.plot(time, history, label=f"{exponents.exponents[i]:.4g}")
    ax.axhline(0.0, color="0.5", linewidth=0.8)
    ax.legend(title="exponent")
    ax.set_xlabel("time")
    ax.set_ylabel("running mean")
    return ax
