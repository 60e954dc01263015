"""Pictures: functions that take and return matplotlib Axes."""

import os
from typing import Any

import numpy as np

from carom.errors import RecordError
from carom.pictures.pushes import Pushes
from carom.results.energy import energy_budget

KINDS = ("time", "phase", "energy")
_MOST_LABELS = 8  # of lines that are named one by one
_MOST_DOTS = 300  # on the stems of impacts
_MOST_CONES = 4  # of friction that can be told apart
_STRUCK = "C3"  # the colour of impacts


def plot(sol, axes=None, kind: str = "time", **options):
    """A picture of a solution of one of the KINDS."""
    check_axes(axes)
    drawn = {"time": plot_solution, "phase": plot_phase, "energy": plot_energy}
    if kind not in drawn:
        raise RecordError(f"kind is {kind!r}; it must be one of {', '.join(KINDS)}")
    sol._need_single("plot")
    return drawn[kind](sol, axes, **options)


def check_axes(axes) -> None:
    """Refuse a path, which other packages take here."""
    if isinstance(axes, str | os.PathLike):
        raise RecordError(
            f"axes is {str(axes)!r}; plot takes and returns matplotlib Axes. To keep the picture: "
            f"sol.plot(), then matplotlib.pyplot.savefig({str(axes)!r})"
        )


def plot_solution(sol, axes=None, system=None):
    """The motion against time, one Axes below the other (made when not given), as far as they go.

    Position, velocity, gaps; the impulses of impacts; then, where contact lasts, its force and the
    force of friction, each in the mean since the record before and without the impacts.  Friction
    lies in its cone, |friction| <= mu N, which is shaded where the ``system`` is known.
    """
    import matplotlib.pyplot as plt

    t, panels = np.asarray(sol.t), _panels(sol, system)
    if axes is None:
        n = len(panels)
        _, axes = plt.subplots(n, 1, sharex=True, figsize=(7.5, 1.9 * n), layout="constrained")
        axes[0].figure.align_ylabels(axes)
    axes = np.ravel(axes)
    for axis, panel in zip(axes, panels, strict=False):
        panel(axis, t)
        axis.margins(x=0.01)
    axes[min(len(axes), len(panels)) - 1].set_xlabel("time [s]")
    return axes


def _panels(sol, system):
    """Functions of (axis, t), from above to below."""
    smooth = sol._dense() or not getattr(sol.scheme, "rigid", True)  # others: constant in a step
    how = "default" if smooth else "steps-post"
    panels = [
        lambda axis, t: _lines(axis, t, sol.q, "q", "position q"),
        lambda axis, t: _lines(axis, t, sol.v, "v", "velocity v", drawstyle=how),
    ]
    if not np.shape(sol.gap)[1]:
        return panels
    panels.append(lambda axis, t: _gaps(axis, t, sol.gap))
    pushes = Pushes.of(sol)
    if len(pushes.time) or not pushes.lasts:
        panels.append(lambda axis, t: _impulses(axis, t, pushes))
    if pushes.lasts:
        panels.append(lambda axis, t: _forces(axis, t, pushes.force))
    if pushes.lasts and pushes.friction is not None:
        mu = _coefficients(sol.system if system is None else system, pushes.force.shape[1])
        panels.append(lambda axis, t: _friction(axis, t, pushes, mu))
    return panels


def _lines(axis, t, values, name, label, which=None, **style):
    """A line for each column, or for those chosen; many are coloured from dark to light."""
    values = np.asarray(values)
    n = values.shape[1]
    shown = range(n) if which is None else which
    lines = []
    for i in shown:
        named = {"color": _colour(i, n), "label": f"{name}[{i}]", "linewidth": 1.2}
        lines += axis.plot(t, values[:, i], **named, **style)
    axis.set_ylabel(label)
    if n > 1 and lines:
        named = lines if len(lines) <= _MOST_LABELS else [lines[0], lines[-1]]
        above(axis, len(named), named)
    return lines


def _colour(i, n):
    import matplotlib as mpl

    return f"C{i}" if n <= _MOST_LABELS else mpl.colormaps["viridis"](i / n)


def _gaps(axis, t, gap):
    _lines(axis, t, gap, "gap", "gap [m]")
    axis.axhline(0.0, color="0.5", linewidth=0.8)


def _impulses(axis, t, pushes):
    """Stems at the impacts; hollow ones for what friction received there."""
    axis.set_ylabel("impulse [N s]")
    n = pushes.force.shape[1]
    dots = "o" if len(pushes.time) <= _MOST_DOTS else "none"
    style: Any = {"linestyle": "none", "marker": dots, "markersize": 3.0}
    for i in np.unique(pushes.gap).astype(int):
        own = pushes.gap == i
        axis.vlines(pushes.time[own], 0.0, pushes.impulse[own], color=_colour(i, n), linewidth=1.0)
        axis.plot(pushes.time[own], pushes.impulse[own], color=_colour(i, n), **style)
    rubbed = np.zeros((0, n)) if pushes.rubbed is None else pushes.rubbed
    k, i = np.nonzero(rubbed)
    if len(k):
        colours = [_colour(j, n) for j in i]
        axis.vlines(t[k], 0.0, rubbed[k, i], colors=colours, linewidth=1.0, linestyles=":")
        axis.scatter(t[k], rubbed[k, i], s=9.0, facecolors="w", edgecolors=colours, zorder=3)
        hollow = axis.plot([], [], color="0.3", label="of friction", **style, markerfacecolor="w")
        above(axis, 1, hollow)
    if not len(pushes.time):
        where = {"transform": axis.transAxes, "ha": "center", "va": "center", "color": "0.4"}
        axis.text(0.5, 0.5, "no contact", **where)
    if not np.any(rubbed < 0.0):
        axis.set_ylim(bottom=0.0)


def _forces(axis, t, force):
    pushed = np.flatnonzero(np.any(force > 0.0, axis=0))
    _lines(axis, t[1:], force, "gap", "contact force [N]", pushed, drawstyle="steps-pre")
    axis.set_ylim(0.0, 1.08 * np.max(force))


def _friction(axis, t, pushes, mu):
    """The force of friction, within the cone where mu is known."""
    n = pushes.force.shape[1]
    which = np.flatnonzero(np.any(pushes.friction, axis=0) if mu is None else mu > 0.0)
    lines = _lines(
        axis, t[1:], pushes.friction, "gap", "friction [N]", which, drawstyle="steps-pre"
    )
    if mu is None or len(which) > _MOST_CONES:
        return
    cones = []
    for i in which:
        bound = mu[i] * pushes.force[:, i]
        style: Any = {"step": "pre", "color": _colour(i, n), "alpha": 0.18, "linewidth": 0.0}
        low = -bound if pushes.plane else 0.0 * bound
        cones.append(axis.fill_between(t[1:], low, bound, **style, label="±μN"))
    above(axis, len(which) + 1, [*(lines if n > 1 else ()), *cones[:1]])


def _coefficients(system, p) -> np.ndarray | None:
    """mu (p,), where it is known and the law is Coulomb's."""
    if system is None or getattr(system, "own_law", None) is not None:
        return None
    return np.broadcast_to(np.asarray(system.friction, float), (p,))


def above(axis, columns: int, lines=None):
    """A legend above the axes, off the data, of all lines or of these."""
    place: Any = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0), "borderaxespad": 0.1}
    if lines is not None:
        place["handles"] = lines
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
