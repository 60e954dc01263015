"""Remove small overlaps."""

import numpy as np

from carom import kernels
from carom.errors import ConvergenceError, ShapeError
from carom.status import Status
from carom.worlds.spheres.model import Spheres
from carom.worlds.spheres.world import World

_TURNS = 200  # linearisations


def relax(pile: Spheres, *, t: float = 0.0, largest: float = 0.1) -> Spheres:
    """The same spheres, moved apart until no overlap is left (to the tolerance of the pile).

    They move as little as possible in the kinetic metric, to first order: each overlap is projected
    away.

    Parameters
    ----------
    pile
        Spheres.
    t
        The time at which walls and radii that move are taken [s].
    largest
        Overlaps of more smallest radii than this are refused: they are rarely meant.
    """
    d = pile.dimension
    world = World(pile.during(t, t), 1.0)
    x = np.pad(pile.position, ((0, 0), (0, 3 - d)))
    with kernels.threads.enough_for(len(pile)):
        gap = world.contacts(t, x).gap
        worst = -np.min(gap, initial=0.0) / world.pile.smallest
        if worst > largest:
            raise ShapeError(
                f"the largest overlap is {worst:.3g} radii, more than largest = {largest:g}: move "
                "the spheres, or pass a larger value"
            )
        found = world.nearest(world.metric(x), t, x, tolerance=None, iterations=_TURNS)
        left = -np.min(world.contacts(t, x + found.shift).gap, initial=0.0) / world.pile.smallest
    if found.status is not Status.ok:
        raise ConvergenceError(
            f"overlaps of {left:.2e} radii are left after {found.iterations} turns: there may be "
            "no room for the spheres, or two have the same centre; take smaller radii, a larger "
            "box, or move them apart"
        )
    return pile.replaced(position=(x + found.shift)[:, :d])
