"""Moving pictures, of spheres and of systems: gif, mp4 (with ffmpeg), or a page of HTML.

A system of one coordinate is drawn against time, one of two in their plane, each with what is not
admissible shaded where its gaps are known; more coordinates against time, with their gaps.
"""

import re
from pathlib import Path
from typing import Any

import numpy as np

from carom.errors import RecordError
from carom.pictures.page import Page

ENDINGS = (".gif", ".mp4", ".html")
_FRAMES = 80  # of a system's picture
_GRID = 160  # points each way that a gap is looked at
_TRAIL = 0.15  # of the motion, drawn strongly behind the point


def animate_spheres(sol, path=None, *, forces: bool = False, seconds: float = 8.0) -> Page | None:
    """The records of a SpheresSolution as a moving picture of so many seconds."""
    import matplotlib.pyplot as plt

    path = _checked(path)
    figure, axes = plt.subplots(figsize=(6, 6), layout="constrained")

    def drawn(k):
        axes.clear()
        sol.plot(axes, record=k, forces=forces)
        axes.set(xlim=bounds[0], ylim=bounds[1])

    sol.plot(axes, record=0)
    first = axes.get_xlim(), axes.get_ylim()
    sol.plot(axes, record=-1)
    last = axes.get_xlim(), axes.get_ylim()
    bounds = [(min(a[0], b[0]), max(a[1], b[1])) for a, b in zip(first, last, strict=True)]
    return _write(figure, drawn, len(sol), path, seconds)


def animate_solution(sol, path=None, *, system=None, seconds: float = 8.0) -> Page | None:
    """The motion of a system as a moving picture of so many seconds."""
    sol._need_single("animate")
    path, system = _checked(path), sol.system if system is None else system
    if len(sol) < 2:
        raise RecordError("a moving picture needs two records or more: use Record() or every=k")
    times = np.linspace(sol.t[0], sol.t[-1], _FRAMES)
    kinds = {1: _AgainstTime, 2: _InPlane}
    picture = kinds.get(sol.q.shape[1], _Coordinates)(sol, system, times)
    return _write(picture.figure, picture.drawn, len(times), path, seconds)


def _checked(path) -> Path | None:
    from matplotlib.animation import FFMpegWriter

    if path is None:
        return None
    path = Path(path)
    if path.suffix not in ENDINGS:
        raise RecordError(f"{str(path)!r}: a moving picture ends in {', '.join(ENDINGS)}")
    if path.suffix == ".mp4" and not FFMpegWriter.isAvailable():
        raise RecordError(f"{str(path)!r}: mp4 needs ffmpeg; install it, or write a .gif")
    return path


def _write(figure, drawn, frames, path, seconds) -> Page | None:
    """To a file, or as a page where there is none."""
    import matplotlib.pyplot as plt
    from matplotlib.animation import FuncAnimation

    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # found once: the axes stay where they are
    interval = 1000.0 * seconds / frames
    moving = FuncAnimation(figure, drawn, frames=frames, interval=interval, init_func=lambda: None)
    try:
        if path is None:
            return Page(_html(moving))
        if path.suffix == ".html":
            path.write_text(_html(moving), encoding="utf-8")
        else:
            writer = "ffmpeg" if path.suffix == ".mp4" else "pillow"
            moving.save(path, writer=writer, dpi=80, fps=max(1, round(1000.0 / interval)))
    except OSError as problem:
        raise RecordError(f"cannot write {str(path)!r}: {problem}") from None
    finally:
        plt.close(figure)


_SIGNS = {  # of the buttons, which matplotlib fetches as a font from elsewhere
    "minus": "&minus;",
    "plus": "+",
    "fast-backward": "&#9198;",
    "fast-forward": "&#9197;",
    "step-backward": "&lsaquo;",
    "step-forward": "&rsaquo;",
    "play fa-flip-horizontal": "&#9664;",
    "play": "&#9654;",
    "pause": "&#10074;&#10074;",
}


def _html(moving) -> str:
    """A page with buttons that needs nothing from elsewhere."""
    page = re.sub(r'<link[^>]*href="http[^>]*>', "", moving.to_jshtml())
    return re.sub(r'<i class="fa fa-([^"]*)"></i>', lambda found: _SIGNS[found[1]], page)


class _Picture:
    """A motion at the times of its frames, with a trail behind a point."""

    def __init__(self, sol, system, times):
        self.sol, self.system, self.times = sol, system, times
        self.t, self.q = np.asarray(sol.t), np.asarray(sol.q)
        if system is None:  # straight from record to record
            self.at = np.stack([np.interp(times, self.t, x) for x in self.q.T], axis=-1)
        else:
            self.at = sol.at(times, system=system)[0]
        self.figure: Any = None

    def until(self, k):
        """Records up to a frame, the frame itself last: (n,) times and (n, d) positions."""
        n = np.searchsorted(self.t, self.times[k], side="right")
        t = np.append(self.t[:n], self.times[k])
        return t, np.concatenate([self.q[:n], self.at[k : k + 1]])

    def least(self, t, q):
        """The smallest gap at points (m, d) and times (m,); None where gaps are unknown."""
        if self.system is None or self.system.gap is None:
            return None
        import jax

        gaps = jax.vmap(self.system.gaps)(np.broadcast_to(t, len(q)), q)
        return np.min(np.asarray(gaps), axis=1)

    def bounds(self, values, margin=0.08):
        """A little around them."""
        low, high = np.min(values), np.max(values)
        room = margin * (high - low or 1.0)
        return low - room, high + room


class _AgainstTime(_Picture):
    """One coordinate."""

    def __init__(self, sol, system, times):
        import matplotlib.pyplot as plt

        super().__init__(sol, system, times)
        self.figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
        low, high = self.bounds(self.q)
        self.window = (self.t[0], self.t[-1])
        axes.set(xlim=self.window, ylim=(low, high), xlabel="time", ylabel="position q")
        self._shade(axes, low, high)
        axes.plot(self.t, self.q[:, 0], color="C0", linewidth=0.8, alpha=0.3)
        (self.line,) = axes.plot([], [], color="C0", linewidth=1.5)
        (self.point,) = axes.plot([], [], "o", color="C3", markersize=9)

    def _shade(self, axes, low, high):
        t, q = np.linspace(*self.window, 2 * _GRID), np.linspace(low, high, 2 * _GRID)
        found = self.least(np.tile(t, len(q)), np.repeat(q, len(t))[:, None])
        if found is not None:
            _shaded(axes, t, q, found.reshape(len(q), len(t)))

    def drawn(self, k):
        t, q = self.until(k)
        self.line.set_data(t, q[:, 0])
        self.point.set_data(t[-1:], q[-1:, 0])


class _InPlane(_Picture):
    """Two coordinates, in their plane."""

    def __init__(self, sol, system, times):
        import matplotlib.pyplot as plt

        super().__init__(sol, system, times)
        self.figure, self.axes = plt.subplots(figsize=(6, 5.5), layout="constrained")
        self.x, self.y = self.bounds(self.q[:, 0], 0.15), self.bounds(self.q[:, 1], 0.15)
        axes = self.axes
        axes.set(xlim=self.x, ylim=self.y, xlabel="q[0]", ylabel="q[1]")
        axes.plot(*self.q.T, color="C0", linewidth=0.8, alpha=0.3)
        (self.line,) = axes.plot([], [], color="C0", linewidth=1.5)
        (self.point,) = axes.plot([], [], "o", color="C3", markersize=9)
        self.shade: Any = None
        self._say(0)
        looks = [self._grid(t) for t in times[::17]]  # whether what is closed moves
        self.still = all(a is None or np.array_equal(a[2], looks[0][2]) for a in looks)

    def _say(self, k):
        self.axes.set_title(f"t = {self.times[k]:.3g}")

    def _grid(self, t) -> Any:
        x, y = np.linspace(*self.x, _GRID), np.linspace(*self.y, _GRID)
        found = self.least(t, np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2))
        return None if found is None else (x, y, found.reshape(len(y), len(x)))

    def drawn(self, k):
        t, q = self.until(k)
        recent = t >= t[-1] - _TRAIL * (self.t[-1] - self.t[0])
        self.line.set_data(*q[recent].T)
        self.point.set_data(*q[-1:].T)
        self._say(k)
        if (self.shade is None or not self.still) and (grid := self._grid(self.times[k])):
            if self.shade is not None:
                self.shade.remove()
            self.shade = _shaded(self.axes, *grid)


class _Coordinates(_Picture):
    """Many coordinates, and gaps."""

    def __init__(self, sol, system, times):
        import matplotlib.pyplot as plt

        super().__init__(sol, system, times)
        gaps = np.asarray(sol.gap)
        self.figure, axes = plt.subplots(
            1 + bool(gaps.size), 1, sharex=True, figsize=(7, 5), layout="constrained", squeeze=False
        )
        axes = axes[:, 0]
        both = [(axes[0], self.q, "position q")]
        both += [(axes[1], gaps, "gap")] if gaps.size else []
        for axis, values, label in both:
            axis.plot(self.t, values, linewidth=0.8, alpha=0.25)
            axis.set_prop_cycle(None)
            axis.set(ylabel=label, xlim=(self.t[0], self.t[-1]))
        self.gaps, self.both = gaps, both
        self.lines = [axis.plot(np.zeros((1, v.shape[1])), linewidth=1.4) for axis, v, _ in both]
        for axis, values, _ in both:
            axis.set_ylim(self.bounds(values))
        if gaps.size:
            axes[1].axhline(0.0, color="0.5", linewidth=0.8)
        axes[-1].set_xlabel("time")
        self.cursors = [axis.axvline(self.t[0], color="C3", linewidth=1.0) for axis in axes]

    def drawn(self, k):
        n = np.searchsorted(self.t, self.times[k], side="right")
        for lines, (_, values, _) in zip(self.lines, self.both, strict=True):
            for line, column in zip(lines, values[:n].T, strict=True):
                line.set_data(self.t[:n], column)
        for cursor in self.cursors:
            cursor.set_xdata([self.times[k]] * 2)


def _shaded(axes, x, y, gap):
    """What is not admissible, grey."""
    return axes.contourf(x, y, np.minimum(gap, 1.0), [-np.inf, 0.0], colors=["0.82"], zorder=0)
