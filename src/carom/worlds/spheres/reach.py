"""What a motion meets that was not looked for: contacts beyond their reach, edges of panels."""

import numpy as np

from carom import kernels
from carom.worlds.spheres.metric import fastest, lengths
from carom.worlds.spheres.neighbours import PairList

ENTERED = 1.5  # lengths of the tolerance: a curved wall, or a panel, is left by no more


def struck_hard(world, contacts, free, b, dt) -> bool:
    """Whether a row would be left by more than a radius: who it throws how far is not known."""
    if 2.0 * dt * fastest(free) <= world.pile.smallest:
        return False
    w = opened(contacts, free[:, :3]) + b[:, 0]
    return bool(dt * np.min(w, initial=0.0) < -world.pile.smallest)


def missed(world, pairs: PairList, t, q, reach, moved, whole) -> bool:
    """Whether a motion (N, 3) beyond ``reach`` may close a gap that had no row.

    Where it leaves all of them open it is the projection with their rows too.
    """
    x, r = world.bodies(t, q), world.radii(t)
    still = np.zeros((len(x) - world.N, 3))
    reach = np.append(reach, still[:, 0])
    moved = np.concatenate([moved[:, :3], still])
    wider = np.maximum(reach, lengths(moved))
    if not pairs.covers(x, r, wider):
        return True
    spare = 0.5 * world._length() if world.pile.rubs else 0.0
    period, inverse = world.cell.period, world.cell.inverse
    lists = (pairs.first, pairs.second, world.N, period, inverse, *world.pile.walls.at(t))
    return bool(kernels.rows.closed_beyond(x, r, reach, wider, whole, moved, spare, *lists) > 0)


def past_panels(world, t, q):
    """(N,) bool, which spheres have entered a panel."""
    kinds, data = world.pile.walls.at(t)
    if np.count_nonzero(kinds == kernels.rows.PANEL) < 2:
        return np.zeros(world.N, bool)
    period, inverse = world.cell.period, world.cell.inverse
    gap = kernels.rows.least_panel_gap(q, world.radii(t), world.N, period, inverse, kinds, data)
    return gap < -ENTERED * world._length()


def opened(contacts, leaving):
    """(p,) grad gap . leaving."""
    w = np.empty(len(contacts.gap))
    kernels.rows.relative_velocity(
        contacts.i, contacts.j, contacts.normal, contacts.spread(leaving), w
    )
    return w
