"""How a mechanism looks: a function ``looks(t, q)`` that returns a list of shapes in the plane.

    from carom.looks import Disc, Segment

    def looks(t, q):
        return [Segment(-1, 0, 1, 0), Disc(0, q[0] + 0.1, 0.1)]

    sol.view(looks=looks)

The same name in a run file of Python, beside ``problem``, is what ``carom view`` shows; the models
of carom.models have theirs in ``problem.looks``.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from carom.errors import ShapeError


class Disc(NamedTuple):
    """A disc; drawn some pixels wide where its radius is 0."""

    x: float
    y: float
    radius: float = 0.0


class Segment(NamedTuple):
    """A line from one point to another: a rod, a string, a wall."""

    x1: float
    y1: float
    x2: float
    y2: float


class Polygon(NamedTuple):
    """A body with corners ``[(x, y), ...]``."""

    points: Sequence


_NAMES = {Disc: "disc", Segment: "segment", Polygon: "polygon"}


def plain(shapes) -> list[list]:
    """Shapes as lists of a name and numbers, for a page."""
    found = []
    for shape in shapes:
        if type(shape) not in _NAMES:
            raise ShapeError(
                f"looks returned {shape!r}: it must return a list of carom.looks.Disc, Segment and "
                "Polygon"
            )
        values = np.ravel(np.asarray(shape.points if isinstance(shape, Polygon) else shape, float))
        found.append([_NAMES[type(shape)], *(float(f"{x:.6g}") for x in values)])
    return found


def frames(looks: Callable, t, q) -> list[list[list]]:
    """The shapes at times (n,) and positions (n, d)."""
    try:
        return [plain(looks(float(a), np.asarray(b))) for a, b in zip(t, q, strict=True)]
    except ShapeError:
        raise
    except Exception as problem:
        raise ShapeError(
            f"looks(t, q) raised {type(problem).__name__}: {problem}; it takes a time and q (d,)"
        ) from problem
