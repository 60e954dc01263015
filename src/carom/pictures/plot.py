"""Pictures: functions that take and return matplotlib Axes."""

import numpy as np

from carom.errors import RecordError

KINDS = ("time", "phase", "energy")
_MOST_LABELS = 8  # of lines that are named one by one
_STRUCK = "C3"  # the colour of impacts


def plot(sol, axes=None, kind: str = "time", **options):
    """A picture of a solution of one of the KINDS."""
    drawn = {"time": plot_solution, "phase": plot_phase, "energy": plot_energy}
    if kind not in drawn:
        raise RecordError(f"kind is {kind!r}; it must be one of {', '.join(KINDS)}")
    sol._need_single("plot")
    return drawn[kind](sol, axes, **options)


def plot_solution(sol, axes=None):
    """Position, velocity, gap and impulses against time, on four Axes (made when not given).

    With friction on a fifth, where there is one: its force in the mean since the record before.
    """
    import matplotlib.pyplot as plt

    rubs = sol.friction is not None and len(sol.t) > 1
    if axes is None:
        n = 4 + rubs
        _, axes = plt.subplots(n, 1, sharex=True, figsize=(7, 2 * n), layout="constrained")
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
    if rubs and len(axes) > 4:
        rub = np.asarray(sol.friction)
        force = rub[1:] / np.diff(t).reshape(-1, *[1] * (rub.ndim - 1))
        force = force if force.ndim == 2 else np.linalg.norm(force, axis=-1)  # in space its size
        _lines(axes[4], t[1:], force, "friction force")
    axes[-1].set_xlabel("time")
    return axes


def _lines(axis, t, values, label, **style):
    values = np.asarray(values)
    for i, column in enumerate(values.T):
        axis.plot(t, column, linewidth=1.2, label=f"{i}", **style)
    axis.set_ylabel(label)
    if 1 < values.shape[1] <= _MOST_LABELS:
        above(axis, values.shape[1])


def above(axis, columns: int):
    """A legend above the axes, off the data."""
    place = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0), "borderaxespad": 0.1}
    return axis.legend(ncols=columns, fontsize="small", frameon=False, **place)


def plot_phase(sol, axes=None, coordinates=None):
    """Velocity against position, an Axes for each coordinate (the first four, unless given).

    Where an impact changes the velocity there is a dotted segment from before (a ring) to after
    (a dot); the line is the motion between.
    """
    import matplotlib.pyplot as plt

    q, v = np.asarray(sol.q), np.asarray(sol.v)
    chosen = list(range(min(4, q.shape[1]))) if coordinates is None else list(coordinates)
    if axes is None:
        across = min(2, len(chosen))
        down = -(-len(chosen) // across)
        size = (4.8 * across, 3.8 * down)
        _, axes = plt.subplots(down, across, figsize=size, layout="constrained", squeeze=False)
    axes = np.ravel(axes)
    first = jumps(sol)
    for axis, i in zip(axes, chosen, strict=False):
        _phase(axis, q[:, i], v[:, i], first)
        axis.set_xlabel(f"position q{_number(i, q)}")
        axis.set_ylabel(f"velocity v{_number(i, q)}")
    for axis in axes[len(chosen) :]:
        axis.set_axis_off()
    return axes[: len(chosen)]


def _number(i, q):
    return "" if q.shape[1] == 1 else f"[{i}]"


def jumps(sol) -> np.ndarray:
    """The records after which the velocity jumps: the steps from k to k + 1 with an impact."""
    if not sol._has_impacts() or not len(sol.impacts):
        return np.zeros(0, int)
    # a step belongs to the record that ends it; where some steps are kept, to the next of them
    ends = np.searchsorted(sol.t, sol.impacts.time - 1e-9 * float(sol.dt))
    return np.unique(np.clip(ends, 1, len(sol.t) - 1)) - 1


def _phase(axis, q, v, first):
    """The line broken where the velocity jumps by more than it would."""
    seen = first[np.abs(v[first + 1] - v[first]) > 1e-3 * np.max(np.abs(v), initial=1e-300)]
    x, y = np.insert(q, seen + 1, np.nan), np.insert(v, seen + 1, np.nan)
    axis.plot(x, y, color="C0", linewidth=1.0)
    axis.axhline(0.0, color="0.8", linewidth=0.8, zorder=0)
    if not len(seen):
        return
    ends = np.stack([seen, seen + 1])
    axis.plot(q[ends], v[ends], color=_STRUCK, linewidth=0.8, linestyle=":")
    style = {"linestyle": "none", "marker": "o", "markersize": 3.5, "color": _STRUCK}
    axis.plot(q[seen], v[seen], markerfacecolor="w", label="before an impact", **style)
    axis.plot(q[seen + 1], v[seen + 1], label="after", **style)
    above(axis, 2)


def plot_energy(sol, axes=None, system=None):
    """The energy, and below it where it comes from and goes to (carom.results.energy); two Axes.

    ``system`` is needed where the solution does not carry it.
    """
    import matplotlib.pyplot as plt

    from carom.results.energy import energy_budget

    budget = energy_budget(sol, system)
    known = budget.work is not None
    if axes is None:
        _, axes = plt.subplots(
            1 + known, 1, sharex=True, figsize=(7, 3 + 3 * known), layout="constrained"
        )
    axes = np.ravel(axes)
    t, style = budget.t, {"linewidth": 1.2}
    axes[0].plot(t, budget.kinetic, label="kinetic", color="C0", **style)
    if budget.potential is not None:
        axes[0].plot(t, budget.potential, label="potential", color="C1", **style)
        axes[0].plot(t, budget.total, label="total", color="k", **style)
    axes[0].set_ylabel("energy")
    if known:
        _sums(axes[1], budget, style)
    for axis in axes[: 1 + known]:
        axis.axhline(0.0, color="0.8", linewidth=0.8, zorder=0)
        axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize="small", frameon=False)
    axes[-1].set_xlabel("time")
    return axes


def _sums(axis, budget, style):
    t, what = budget.t, "kinetic" if budget.potential is None else "total"
    if np.any(np.abs(budget.work) > 1e-3 * np.max(np.abs(budget.total - budget.total[0]))):
        others = "of the force" if budget.potential is None else "of other forces"
        axis.plot(t, budget.work, label=f"work {others}", color="C2", **style)
    if np.any(budget.moving):
        axis.plot(t, budget.moving, label="work of moving gaps", color="C4", **style)
    if budget.friction is not None and np.any(budget.friction):
        axis.plot(t, budget.friction, label="work of friction", color="C5", **style)
    lost = "lost at impacts" if budget.measured else "given to the walls"
    thick = {**style, "linewidth": 2.2, "drawstyle": "steps-post"}
    axis.plot(t, -budget.loss, label=lost, color=_STRUCK, **thick)
    if budget.measured:
        axis.plot(t, budget.error, label="error of the scheme", color="0.6", **style)
    change = {**style, "linestyle": (0, (4, 2))}
    axis.plot(t, budget.total - budget.total[0], label=f"change of {what}", color="k", **change)
    axis.set_ylabel("since the start")
