"""What a motion meets that was not looked for: contacts beyond their reach, edges of panels."""

from dataclasses import replace

import numpy as np

from carom import kernels
from carom.status import Status
from carom.worlds.spheres.metric import fastest, lengths
from carom.worlds.spheres.neighbours import PairList

_ROUGH = (24, 48, 96, 192, 384)  # sweeps, then it is seen how far a blow throws what it meets
_ROUGHLY = 0.03  # radii: a residual with which it is known well enough
ENTERED = 1.5  # lengths of the tolerance: a curved wall, or a panel, is left by no more


def struck_hard(world, contacts, free, b, dt) -> bool:
    """Whether a row would be left by more than a radius: who it throws how far is not known."""
    if 2.0 * dt * fastest(free) <= world.pile.smallest:
        return False
    w = opened(contacts, free[:, :3]) + b[:, 0]
    return bool(dt * np.min(w, initial=0.0) < -world.pile.smallest)


def thrown(world, t, q, free, dt, contacts, b, reach):
    """Contacts and b with what a hard blow throws, how far it does (N,) [m], and sweeps so far.

    Who will fly is seen in sweeps that are broken off, more of them each time until nobody goes
    beyond what was looked at.
    """
    least, sweeps = reach, 0
    if not _better_than_none(world, contacts, free, b):
        contacts = replace(contacts, guess=np.zeros_like(contacts.guess))
    for most in _ROUGH:
        rough = world._project(
            free[:, :3], contacts, b[:, 0], None, world._length() / dt, sweeps=most
        )
        sweeps += rough.iterations
        memory, far = contacts.remembering(rough.multipliers).memory, dt * lengths(rough.point)
        seen = rough.residual < _ROUGHLY or rough.status is Status.ok or np.all(far <= reach)
        reach = np.maximum(least, 1.1 * far)
        contacts = world._contacts(t, q, reach, memory)
        b = contacts.ahead(dt)
        if seen:
            break
    return contacts, b, reach, sweeps


def _better_than_none(world, contacts, free, b) -> bool:
    """Whether the impulses of the step before are a better guess than none, in (1) of the sweeps.

    Those of a blow are not: they would throw bodies that nothing throws now.
    """
    lam = np.maximum(contacts.guess if contacts.guess.ndim == 1 else contacts.guess[:, 0], 0.0)
    u = np.zeros_like(contacts.spread(free[:, :3]))
    rows = contacts.start, contacts.i, contacts.j, contacts.normal
    kernels.projection.push(*rows, world._inverse_mass_now(), lam, u)
    w = 0.5 * opened(contacts, u[: world.N]) + opened(contacts, free[:, :3]) + b[:, 0]
    return bool(np.sum(lam * w) < 0.0)  # a product would start the threads of BLAS


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
