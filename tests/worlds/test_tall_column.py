"""A column of 20 by 115 discs that falls together: a step that once stopped it.

The step has an answer; 20,000 sweeps, turns and pivots were spent on parts whose borders never
settled, and what had been found was then thrown away for a second try, for which nothing was left.
"""

from pathlib import Path

import numpy as np
import pytest

import carom
from carom.spheres import Box, Obstacles

pytestmark = pytest.mark.slow
DT = 0.006174533479692645
WIDE, HIGH, LONG = 20, 115, 23.0


def column(**options):
    """The column of benchmarks/grains.py, wide = 20, ratio 5, seed 0, at its step 1100."""
    rng = np.random.default_rng(0)
    rng.uniform(-1, 1, (WIDE * HIGH, 2))  # of its places at first
    radius = 0.5 * rng.uniform(0.9, 1.1, WIDE * HIGH)
    along = np.arange(-1.0, LONG * 17, 0.9)
    floor = Obstacles(np.stack([along, np.zeros_like(along)], axis=1), 0.5)
    walls = [floor, Box((0, -5.0), (LONG, np.inf))]
    with np.load(Path(__file__).parent / "data" / "column.npz") as state:
        about = {"velocity": state["v"], "spin": state["spin"], "friction": 0.5, "walls": walls}
        about |= {"gravity": (0.0, -1.0), "tolerance": 1e-4} | options
        return carom.Spheres(state["x"], radius, **about)


def moved(pile, steps):
    record = carom.Record(every=1)
    return carom.solve(
        pile, carom.Maury(), t1=steps * DT, dt=DT, record=record, throw=False, progress=False
    )


def test_its_steps_are_solved():
    sol = moved(column(), 7)
    assert sol.ok
    assert sol.stats.loose == 0
    assert len(sol.t) == 8


def test_what_was_found_is_kept_where_turns_run_out():
    """A residual of the answer that was found, not that of none."""
    sol = moved(column(iterations=3010), 1)
    assert not sol.ok
    assert sol.stats.residual < 1e-2
