"""Where a run stands, while it runs: one line that changes, or plain lines where it cannot."""

import contextlib
import sys
import time
from typing import Any

import numpy as np

_PLAIN = 5.0  # [s] between plain lines
_LIVE = 0.2  # [s] between changes of a live line


@contextlib.contextmanager
def bar(what: str, total: int, done: int = 0):
    """A bar on the terminal, or in a notebook; yields a function of how many are done."""
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress

    console = Console()
    if console.is_jupyter:
        yield _notebook_bar(what, total, done)
        return
    columns = *Progress.get_default_columns(), MofNCompleteColumn()
    with Progress(*columns, console=console) as shown:
        task = shown.add_task(what, total=total, completed=done)
        yield lambda count: shown.update(task, completed=count)


def _notebook_bar(what, total, done):
    from IPython.display import HTML, display  # pyright: ignore[reportMissingImports]

    def html(count):
        return HTML(
            f'<progress value="{count}" max="{total}"></progress> {count} of {total} {what}'
        )

    handle: Any = display(html(done), display_id=True)
    last = [-np.inf]

    def update(count):
        now = time.perf_counter()
        if now - last[0] > _LIVE or count >= total:
            last[0] = now
            handle.update(html(count))

    return update


class Progress:
    """Called by ``solve`` with the run (a contracts.Course), after each of its pieces."""

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
        line = f"{self.line(done, now - self.began)}; {run.told()}"
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


def _clock(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = int(seconds // 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
