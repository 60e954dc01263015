"""A new wall shape is one class: a chain of segments through corners, which may move."""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import carom
import conformance
from carom.spheres import Panel
from carom.worlds.spheres.walls import at_time
from stopping import Stopped


@dataclass(frozen=True)
class Chain:
    """Disks stay off the segments from corner to corner."""

    corners: Any  # (c, 2) [m], or a function of t
    velocity: Any = None

    def pieces(self, t):
        x = at_time(self.corners, t, "corners")
        return [piece for a, b in itertools.pairwise(x) for piece in Panel(a, b - a).pieces(t)]


BOWL = np.array([[-2.0, 2.0], [-1.0, 0.2], [0.0, 0.0], [1.0, 0.2], [2.0, 2.0]])


def pile(corners):
    x = np.array([[-0.9, 1.0], [-0.3, 1.2], [0.3, 1.1], [0.9, 1.3], [0.0, 2.0]])
    return carom.Spheres(x, 0.25, walls=[Chain(corners)], gravity=(0.0, -9.81), restitution=0.2)


def shaken(t):
    return BOWL + np.array([0.1 * np.sin(6.0 * t), 0.0])


GIVEN = {"t1": 1.5, "dt": 2e-3}


@pytest.mark.parametrize("corners", [BOWL, shaken], ids=["still", "shaken"])
def test_conforms(corners):
    conformance.conforming_wall(Chain(corners), 0.3)


def test_is_its_segments():
    """The same bits as the panels that it is made of."""
    panels = [Panel(a, b - a) for a, b in itertools.pairwise(BOWL)]
    sols = [
        carom.solve(p, carom.Maury(), **GIVEN)
        for p in (pile(BOWL), pile(BOWL).replaced(walls=panels))
    ]
    np.testing.assert_array_equal(sols[0].x, sols[1].x)
    assert carom.certify(sols[0]).ok is not False


@pytest.mark.parametrize("scheme", [carom.Maury(), carom.Moreau()], ids=str)
def test_end_to_end(scheme, tmp_path):
    """Solved, recorded, stopped, resumed to the same bits; it holds."""
    whole = carom.solve(pile(shaken), scheme, **GIVEN)
    assert np.all(whole.x[-1, :, 1] > 0.0)
    assert whole.stats.overlap < (1e-5 if scheme.keeps_open else 0.05)
    path = tmp_path / "bowl.vtkhdf"

    def stop(run):
        if run.step > 300:
            raise Stopped

    with pytest.raises(Stopped):
        carom.solve(
            pile(shaken), scheme, **GIVEN, record=carom.Record(path, every=7), progress=stop
        )
    with pytest.raises(carom.CaromError, match="Chain"):
        carom.load(path)
    assert len(carom.load(path, pile=pile(shaken))) < len(whole)
    record = carom.Record(path, every=7, resume=True)
    resumed = carom.solve(pile(shaken), scheme, **GIVEN, record=record)
    straight = carom.solve(pile(shaken), scheme, **GIVEN, record=carom.Record(every=7))
    for name in ("t", "x", "v", "impulse", "wall_impulse"):
        np.testing.assert_array_equal(getattr(resumed, name), getattr(straight, name))
