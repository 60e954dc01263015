"""Pictures of studies: functions that take and return matplotlib Axes."""

import numpy as np

from carom.errors import StudyError
from carom.pictures.plot import above
from carom.run.solve import solve
from carom.schemes.event_driven import EventDriven

_ROWS = 240  # of a bifurcation diagram ...
_SPREAD = np.array([1.0, 4.0, 6.0, 4.0, 1.0]) / 6.0  # ... over which one state is spread
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
        above(ax, 3)
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
    above(ax, min(4, len(exponents.exponents)))
    ax.set_xlabel("time")
    ax.set_ylabel("running mean")
    return ax


def plot(study, ax=None, *, coordinate: int = 0):
    """The picture of any study: a Dataset of this package, a Branch or Exponents.

    An Orbit does not know its system: ``orbit.plot(system)``.

    Parameters
    ----------
    study
        What ``poincare``, ``bifurcation``, ``basins``, ``resonance``, ``follow`` or ``lyapunov``
        returned.
    ax
        Matplotlib Axes to draw on.  None: new ones.
    coordinate
        Which of q and v, from 0.
    """
    if getattr(study, "needs_system", False):
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
    name, directions = data.attrs["parameter"], data["direction"].values
    states = data["strobe_q"].isel(coordinate=coordinate).transpose(name, "direction", "record")
    p, q = data[name].values, states.values
    image, edges = density(q)
    middle = (p[1:] + p[:-1]) / 2
    sides = np.array([2 * p[0] - middle[0], *middle, 2 * p[-1] - middle[-1]]) if len(p) > 1 else p
    if len(p) == 1:
        sides = p[0] + np.array([-0.5, 0.5])
    parts = np.linspace(sides[:-1], sides[1:], len(directions) + 1, axis=1)
    ax.pcolormesh(np.append(parts[:, :-1], sides[-1]), edges, image)
    if len(directions) > 1:
        for k, direction in enumerate(directions):
            ax.plot([], [], "s", color=f"C{k}", label=f"values go {direction}")
        above(ax, len(directions))
    ax.set_xlabel(name)
    ax.set_ylabel(f"q{coordinate}, once a period")
    return ax


def density(states):
    """States (n, directions, records) as a picture: colours (rows, n directions, 4), and edges.

    The more often a state is met at a value the stronger its colour; the directions stand side by
    side in the width of a value, so that none hides the other.
    """
    from matplotlib.colors import to_rgb

    n, directions, _ = states.shape
    low, high = np.nanmin(states), np.nanmax(states)
    room = 0.02 * (high - low) or 0.5
    edges = np.linspace(low - room, high + room, _ROWS + 1)
    image = np.zeros((_ROWS, n * directions, 4))
    for column, found in enumerate(states.reshape(n * directions, -1)):
        met = np.histogram(found[np.isfinite(found)], edges)[0]
        near = np.convolve(met, _SPREAD, "same")
        image[:, column, :3] = to_rgb(f"C{column % directions}")
        often = 0.3 + 0.7 * np.sqrt(near / near.max(initial=1.0))
        image[:, column, 3] = often * np.minimum(1.0, near)  # pale at the rim of what is spread
    return image, edges


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
    above(ax, min(3, count))
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
