"""Where a run stands, while it runs: one line that changes, or plain lines where it cannot."""

import contextlib
import sys
import time

import numpy as np

_PLAIN = 5.0  # [s] between plain lines
_LIVE = 0.2  # [s] between changes of a live line


class Progress:
    """Called by ``solve`` with the run, after each step (Spheres) or now and then (a System)."""

    def __init__(self, steps: int, *, live: bool | None = None, out=None):
        self.steps, self.out = steps, sys.stderr if out is None else out
        self.live = self.out.isatty() if live is None else live
        self.first, self.began, self.last = None, time.perf_counter(), -np.inf
        self._display = None

    @contextlib.contextmanager
    def shown(self):
        """Show the line while a run is on."""
        if not self.live:
            yield self
            return
        from rich.console import Console
        from rich.live import Live

        console = Console(file=self.out, force_terminal=True, highlight=False, markup=False)
        with Live("starting", console=console, transient=True) as self._display:
            yield self

    def __call__(self, run) -> None:
        now = time.perf_counter()
        done = run.step
        if self.first is None:
            self.first, self.began = done, now
        if now - self.last < (_LIVE if self.live else _PLAIN) and done < self.steps:
            return
        self.last = now
        line = f"{self.line(done, now - self.began)}; {_physics(run)}"
        if self._display is not None:
            self._display.update(line, refresh=True)
        else:
            print(line, file=self.out, flush=True)

    def line(self, done: int, seconds: float) -> str:
        """How far, how fast, and how much longer."""
        text = f"step {done} of {self.steps} ({100 * done // self.steps} %)"
        since = done - (self.first or 0)
        if since > 0 and seconds > 0.0:
            rate = since / seconds
            text += f", {rate:.3g} steps/s, {_clock((self.steps - done) / rate)} left"
        return text


def _physics(run) -> str:
    """Energy and contacts."""
    return _of_spheres(run) if hasattr(run, "world") else _of_system(run)


def _of_spheres(run) -> str:
    """With the worst overlap."""
    pile, state = run.world.pile, run.state
    d = pile.dimension
    x, v = state.q[:, :d], state.v[:, :d]
    energy = 0.5 * np.sum(pile.mass * np.sum(v * v, axis=1)) - np.sum(
        pile.mass * (x @ pile.gravity)
    )
    if pile.spins:
        energy += 0.5 * np.sum(pile.inertia * np.sum(state.v[:, 3:] ** 2, axis=1))
    contacts = 0 if run.last is None else np.count_nonzero(run.last[1][:, 0] > 0.0)
    worst = max(run.overlap, run.largest) / pile.smallest
    return f"energy {energy:.5g} J, {contacts} contacts, worst overlap {worst:.1e} radii"


def _of_system(run) -> str:
    """The energy is kinetic, and potential where the system has one."""
    system, state = run.run.system, run.carry.state
    energy = float(system.energy(state.q, state.v))
    name = "energy" if system.potential is not None else "kinetic energy"
    text = f"{name} {energy:.5g}, {_count(np.count_nonzero(run.pushed > 0.0), 'contact')}"
    return text if run.log is None else f"{text}, {_count(run.struck, 'impact')}"


def _count(number, name) -> str:
    return f"{number} {name}" if number == 1 else f"{number} {name}s"


def _clock(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = int(seconds // 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
