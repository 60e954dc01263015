"""Checks of a run of spheres: each failure names the value and the remedy."""

import numpy as np

from carom import errors
from carom.schemes.maury import Maury
from carom.schemes.moreau import Moreau
from carom.schemes.paoli_schatzman import PaoliSchatzman
from carom.shown import counted
from carom.worlds.spheres import materials

_INITIAL_SLACK = 10.0  # overlap of the initial state that is let by, in tolerances ...
_ENTERED = 0.5  # ... and under Moreau, which holds velocities, not gaps, in smallest radii


def check_options(pile, scheme, record) -> None:
    """Refuse options that are of Systems, and friction under a scheme that has none."""
    if pile.spins and not scheme.frictional:
        raise errors.KindError(
            f"{scheme} is a scheme of positions, for which no law of friction is known, and the "
            f"pile has friction = {materials.text(pile.friction)} and spin: take Maury() or "
            "Moreau()"
        )
    if pile.glue and not scheme.gluey:
        raise errors.KindError(
            f"{type(scheme).__name__} does not carry what glue remembers: use Maury"
        )
    if scheme.one_restitution and not isinstance(pile.restitution, float):
        raise errors.RestitutionError(
            f"restitution is {materials.text(pile.restitution)}, but {type(scheme).__name__} has "
            "one e for all contacts: give one number, or use Moreau or Maury"
        )
    if record.with_impacts:
        raise errors.RecordError(
            "Record(impacts=True) is for a System: Spheres have no table of impacts. Leave it out; "
            "sol.contacts has the contacts that pushed, record by record"
        )
    if isinstance(scheme, Maury) and scheme.mean is not None:
        raise errors.KindError(
            'Maury(mean=...) is for a System: for Spheres use Maury(points="adaptive")'
        )
    if isinstance(scheme, PaoliSchatzman):
        if scheme.geodesics:
            raise errors.KindError(
                "PaoliSchatzman(geodesics=True) is for a System whose mass depends on q: spheres "
                "have constant masses, leave it out"
            )
        if scheme.tolerance != PaoliSchatzman().tolerance:
            raise errors.KindError(
                f"PaoliSchatzman(tolerance={scheme.tolerance:g}) is for a System: spheres have a "
                "tolerance of their own, Spheres(..., tolerance=...)"
            )


def check_overlap(world, scheme, t0: float, x=None, left: float = 0.0) -> None:
    """Refuse an initial state with overlaps that the scheme would not leave; names the worst pair.

    Maury leaves none.  A state of Moreau or PaoliSchatzman has overlaps of a step's motion, and may
    be one's start; at x, the end of a run, there may be what that run ``left``.
    """
    pile = world.pile
    x = pile.position if x is None else x
    contacts = world.contacts(t0, wide(x))
    allowed, rule = _INITIAL_SLACK * pile.tolerance * pile.smallest, "Maury starts without overlaps"
    if isinstance(scheme, Moreau):
        allowed = max(allowed, _ENTERED * pile.smallest)
        rule = f"Moreau starts with overlaps up to {_ENTERED:g} of the smallest radius"
    if isinstance(scheme, PaoliSchatzman):
        fastest = np.max(np.linalg.norm(pile.velocity, axis=1)) + world.dt * np.linalg.norm(
            pile.gravity
        )
        allowed = max(
            allowed, 2.0 * world.dt * fastest / max(materials.most(pile.restitution), 0.1)
        )
        rule = "PaoliSchatzman starts with overlaps up to a step before an impact, 2 dt |v| / e"
    allowed = max(allowed, left)
    if not len(contacts.gap) or np.min(contacts.gap) >= -allowed:
        return
    k = int(np.argmin(contacts.gap))
    i, source = int(contacts.i[k]), int(contacts.source[k])
    if source < 0:
        whom = f"sphere {i} and wall {-1 - source}"
    else:
        j = int(contacts.j[k])
        i, j = min(i, j), max(i, j)
        whom = f"spheres {i} and {j}" if j < world.N else f"sphere {i} and obstacle {j - world.N}"
    raise errors.AdmissibilityError(
        f"{whom} overlap by {-contacts.gap[k]:.3g} at t0 = {t0:g} (radius {pile.radius_at(t0)[i]:g}"
        f", sphere {i} at {x[i]}); {_negative(contacts.gap)}, "
        f"and {rule}. Move them apart, or remove small overlaps with carom.spheres.relax(pile)"
    )


def _negative(gap) -> str:
    count = int(np.sum(gap < 0.0))
    return f"{counted(count, 'gap')} {'is' if count == 1 else 'are'} negative"


def with_spin(pile, v):
    """(N, 6) v and w where spheres spin, (N, 3) where they do not; w of v, or of the pile."""
    if not pile.spins or v.shape[1] == 6:
        return v if pile.spins else v[:, :3]
    spin = pile.spin if pile.dimension == 3 else np.pad(pile.spin[:, None], ((0, 0), (2, 0)))
    return np.concatenate([v, spin], axis=1)


def wide(x):
    """(N, 3) of (N, d)."""
    return np.pad(x, ((0, 0), (0, 3 - x.shape[1])))
