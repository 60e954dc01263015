"""Pictures of studies: functions that take and return matplotlib Axes."""

import numpy as np

from carom.errors import StudyError
from carom.run.solve import solve
from carom.schemes.event_driven import EventDriven
from carom.study.shooting import Orbit

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


def plot(study, ax=None, *, coordinate: int = 0):
    """The picture of any study: a Dataset of this package, a Branch or Exponents.

    An Orbit does not know its system: ``orbit.plot(system)``.
    """
    if isinstance(study, Orbit):
        raise StudyError("an orbit does not know its system: orbit.plot(system) draws it")
    if not hasattr(study, "attrs"):
        return study.plot(ax)
    kind = study.attrs.get("study")
    if kind not in _PICTURES:
        raise StudyError(
            f"there is no picture of {kind!r}: give what poincare, bifurcation, basins, resonance, "
            "follow or lyapunov returned"
        )
    return _PICTURES[kind](study, _axes(ax), coordinate)


def _plot_poincare(data, ax, coordinate):
    if "phase" in data:
        ax.plot(data["phase"], -data["velocity_before"], ".", markersize=2)
        ax.set_xlabel("phase of the impact")
        ax.set_ylabel("impact speed")
        return ax
    ax.plot(data["q"][:, coordinate], data["v"][:, coordinate], ".", markersize=2)
    ax.set_xlabel(f"q{coordinate}")
    ax.set_ylabel(f"v{coordinate}")
    return ax


def _plot_bifurcation(data, ax, coordinate):
    name = data.attrs["parameter"]
    for k, direction in enumerate(data["direction"].values):
        q = data["strobe_q"].sel(direction=direction).isel(coordinate=coordinate)
        q = q.transpose(name, "record").values
        p = np.repeat(data[name].values, q.shape[1])
        label = None if direction == "none" else str(direction)
        ax.plot(p, q.ravel(), ".", markersize=1.5, markeredgewidth=0, color=f"C{k}", label=label)
    if data.sizes["direction"] > 1:
        marks = ax.legend().get_lines()
        for mark in marks:
            mark.set_markersize(8)
    ax.set_xlabel(name)
    ax.set_ylabel(f"q{coordinate}, once a period")
    return ax


def _plot_basins(data, ax, coordinate):
    y, x = data["attractor"].dims[:2]
    count = data.sizes["label"]
    colours = ["0.85", *(f"C{k}" for k in range(count))]
    from matplotlib.colors import ListedColormap

    image = data["attractor"].values
    ax.pcolormesh(
        data[x], data[y], image, cmap=ListedColormap(colours), vmin=-1.5, vmax=count - 0.5
    )
    for k in range(count):
        period = int(data["attractor_period"][k])
        name = f"period {period}" if period else "does not repeat"
        ax.plot([], [], "s", color=f"C{k}", label=name)
    ax.legend(loc="upper right", fontsize="small")
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    return ax


def _plot_resonance(data, ax, coordinate):
    name = data.attrs["parameter"]
    ax.plot(data[name], data["amplitude"][:, coordinate], color="C0", label="amplitude")
    ax.set_xlabel(name)
    ax.set_ylabel(f"amplitude of q{coordinate}", color="C0")
    right = ax.twinx()
    right.plot(data[name], data["impact_rate"].sum("constraint"), color="C1", label="impact rate")
    right.set_ylabel("impacts per time", color="C1")
    return ax


_PICTURES = {
    "poincare": _plot_poincare,
    "bifurcation": _plot_bifurcation,
    "basins": _plot_basins,
    "resonance": _plot_resonance,
}
