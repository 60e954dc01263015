"""The clauses of a certificate: each takes a ``Measured`` to (violation, allowed, t).

docs/certificate.md has every formula, and where the bounds come from.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from carom.certificates import laws
from carom.certificates.error import passed
from carom.certificates.spans import MARGIN, earlier, ends


def _feasibility(m):
    """DMP09, Lemma 4: a gap is entered by at most one step of approach, then by drift."""
    if m.sparse_dt is None:
        H, dw = (np.concatenate([x[:1], x]) for x in (m.H[:, None], m.dw))
        drift = np.concatenate([np.zeros_like(dw[:1]), np.cumsum(m.h[:, None] * m.dw, axis=0)])
        drift -= np.maximum.accumulate(np.where(m.at.gap > 0.0, drift, 0.0), axis=0)
    else:
        H, bend = max(m.sparse_dt, m.resolution or 0.0), np.max(m.at.bend, axis=0)
        dw, drift = H * bend, H * (m.t - m.t[0])[:, None] * bend
    return m.overlap, MARGIN * (H * (m.speed + dw) + drift) + m.small_gap, m.t


def _between(m):
    """In flight, by the own integration; a step may hide what force and curvature do in it."""
    w = m.estimate.windows
    bound = _NOTHING * m.gap_size + MARGIN * m.small_gap[w.first]
    if not m.options.located:
        bound = bound + MARGIN * m.H[w.first, None] * (m.dw + m.inside_w)[w.first]
    return passed(m), bound, m.t[w.last]


def _sign(m):
    """Pushes only; a wall that yields may pull on a point that leaves it, but not hold it."""
    rounding = np.full(m.lam.shape, m.tolerance * np.max(np.abs(m.lam), initial=0.0))
    if m.resolution is None:
        return -m.lam, rounding, m.t
    gained = m.sparse_dt * m.at.bend[:-1] if m.sparse_dt else m.dw
    leaving = np.where(m.at.gap[:-1] < 0.0, np.maximum(m.at.w[:-1], 0.0) + gained, 0.0)
    momentum = leaving / np.maximum(m.at.inverse_mass[:-1], 1e-300)
    rounding[1:] += MARGIN * momentum
    return -m.lam, rounding, m.t


def _complementarity(m):
    """A gap that pushes is within a step of being closed, at the speed that the push tells.

    It is that of an impact, lam (grad g . M^-1 grad g) = (1 + e) |w-|, or of several together.
    """
    open_by = np.where(m.pushes, np.minimum(*ends(m.at.gap)), 0.0)
    e = 0.0 if callable(m.system.restitution) else m.e
    told = np.abs(m.lam[1:]) * m.at.inverse_mass[1:] / (1.0 + e)
    speed = np.maximum(np.maximum(*ends(np.abs(m.at.w))), told)
    bound = MARGIN * m.H[:, None] * (speed + m.dw) + m.small_gap[1:]
    return open_by, bound, m.t[1:]


def _momentum(m):
    m = m.fine
    bound = MARGIN * (m.balance + m.small_v) + m.unsure * m.fastest
    return m.norm.momentum(m.residual), bound, m.t[1:]


def _momentum_run(m):
    """Each argument may be shifted by a part of a step, the same in every quiet one."""
    m = m.fine
    quiet = m.quiet[:, None]
    shifts = [*np.moveaxis(m.over.moved_force, 1, 0), m.over.moved_mass[:, 1]]
    bound = sum(_shifted(np.where(quiet, x, 0.0), m.norm.momentum) for x in shifts)
    loud = np.cumsum(np.where(m.quiet, m.inside, m.balance))
    found = m.norm.momentum(np.cumsum(m.residual, axis=0))
    unsure = np.cumsum(m.unsure) * m.fastest
    return found, MARGIN * (bound + loud + m.small_v_run) + unsure, m.t[1:]


def _shifted(x, norm):
    """Largest |sum of x| so far, and what is left when a shift is not quite the same each step."""
    change = norm(x - earlier(x, 0.0))
    return np.maximum.accumulate(norm(np.cumsum(x, axis=0))) + np.cumsum(change)


def _kinematics(m):
    m = m.fine
    return m.norm.velocity(m.strayed), MARGIN * m.stray + m.unsure * m.length, m.t[1:]


def _kinematics_run(m):
    m = m.fine
    shift = (m.h * m.quiet)[:, None] * np.diff(m.v, axis=0)
    loud = np.cumsum(np.where(m.quiet, m.H * m.small_v, m.stray))
    found = m.norm.velocity(np.cumsum(m.strayed, axis=0))
    bound = MARGIN * (_shifted(shift, m.norm.velocity) + loud)
    return found, bound + np.cumsum(m.unsure) * m.length, m.t[1:]


def _impact_law(m):
    """Each push belongs to a window of one or two steps at whose ends (4) holds."""
    judged = m.pushes.copy()
    judged[-1] &= ~m.split[-1]  # it may go on after the last record
    return np.where(judged, m.law, 0.0), MARGIN * m.law_bound, m.t[1:]


def _passivity(m):
    """Work of the reaction over each unbroken contact, relative to moving gaps."""
    touching = np.any(m.pushes, axis=1)
    starts = np.flatnonzero(touching & ~earlier(touching, False))
    if not len(starts):
        return np.zeros(0), np.zeros(0), np.zeros(0)
    work = np.sum(m.lam[1:] * (m.at.w[1:] + m.at.w[:-1]) / 2, axis=1)
    bound = np.sum(np.abs(m.lam[1:]) * m.law_bound, axis=1)
    if m.system.friction is not None:
        sliding = laws.Sliding(m)
        work = work + sliding.work()
        bound = bound + np.sum(sliding.size * 2.0 * sliding.du, axis=1)
    work, bound = (np.add.reduceat(x, starts) for x in (work, bound))
    return work, np.inf + bound if may_gain(m) else MARGIN * bound, m.t[1:][starts]


def may_gain(m) -> bool:
    """Whether the law itself may give energy: Newton's, with friction and a bounce."""
    return m.system.friction is not None and bool(np.any(m.e > 0.0))


def _energy(m):
    """dT = f . dq + 1/2 v . dM v - d_t g dLam - (1-e)/2 |w-| dLam, the last two at contacts."""
    fine = m.fine
    work = np.sum(fine.over.force * np.diff(fine.q, axis=0), axis=1) + fine.over.inertia
    moving = np.sum(fine.lam[1:] * (fine.at.rate[1:] + fine.at.rate[:-1]) / 2, axis=1)
    still = fine.at.beside - fine.at.beside_rate  # what friction and joints do work on
    moving -= np.sum(fine.beside[1:] * (still[1:] + still[:-1]) / 2, axis=1)
    gained = np.diff(fine.at.energy) - work + moving
    flight, _ = m.flown
    mean_v = (m.v[1:] + m.v[:-1]) / 2
    own = np.sum(mean_v * m.residual, axis=1) - np.sum(m.over.force * m.strayed, axis=1)
    gained[flight] = own[flight]
    loss = np.sum((m.e_of(m.before) - 1) / 2 * m.before * m.lam[1:], axis=1)
    found = np.abs(np.cumsum(m.summed(gained) + loss))
    found[np.any(m.split, axis=1)] = 0.0  # in the middle of an impact
    law = np.cumsum(np.sum(np.abs(m.lam[1:]) * m.law_bound, axis=1) * ~m.quiet)
    bound = m.ended(_energy_bound(fine)) + law + m.size_v * m.small_v_run
    unsure = m.ended(np.cumsum(fine.unsure)) * m.fastest**2
    return found, MARGIN * bound + unsure, m.t[1:]


def _energy_bound(m):
    """The bounds of momentum and kinematics, times what they do work on."""
    mean_v, dv = (m.v[1:] + m.v[:-1]) / 2, np.diff(m.v, axis=0)
    shifts = [np.sum(mean_v * x, axis=1) for x in np.moveaxis(m.over.moved_force, 1, 0)]
    shifts += [np.sum(mean_v * m.over.moved_mass[:, 1], axis=1)]
    shifts += [m.h * np.sum(m.over.force * dv, axis=1)]
    quiet = sum(_shifted(np.where(m.quiet, x, 0.0), np.abs) for x in shifts)
    fastest = np.maximum(*ends(m.norm.velocity(m.v)))
    loud = fastest * m.balance + m.norm.momentum(m.over.force) * m.stray
    return quiet + np.cumsum(np.where(m.quiet, fastest * m.inside, loud))


def _variation(m):
    """|M Dv| summed; what is allowed is the triangle inequality in (1).

    In flight the own integration says what the force gives: h f of two ends may be anything.
    """
    m = m.fine
    found, force, push = (m.norm.momentum(x) for x in (m.over.gained, m.over.force, m.over.push))
    given, (flight, _) = m.h * force, m.flown
    own = m.norm.momentum(m.over.gained - m.residual)
    given[flight] = np.maximum(given, own)[flight]
    bound = given + push + MARGIN * m.balance
    bound = np.cumsum(bound + m.unsure * m.fastest) + MARGIN * m.small_v_run
    return np.cumsum(found), bound, m.t[1:]


_NOTHING = 1e-6  # of the size of the motion: what own integration tells of a gap


class Row(NamedTuple):
    check: Callable  # of a Measured, to (violation, allowed, t)
    name: str
    formula: str
    bound: str


CLAUSES = [
    Row(_feasibility, "feasibility", "g_i(t, q) >= 0", "2 h (W + dw) + 2 sum of h dw if closed"),
    Row(_between, "between records", "g_i >= 0 in flight, integrated anew", "2 h dw"),
    Row(
        _sign,
        "sign",
        "lam_i >= 0",
        "rounding; 2 (w + dw) / (grad g . M^-1 grad g) where walls yield",
    ),
    Row(
        _complementarity,
        "complementarity",
        "lam_i > 0 only if g_i = 0",
        "2 h (max(|w|, lam/m/(1+e)) + dw)",
    ),
    Row(_momentum, "momentum", "M Dv = h f + grad g lam, each step", "2 b"),
    Row(_momentum_run, "momentum, run", "M Dv = h f + grad g lam, summed", "2 |sum of b|"),
    Row(_kinematics, "kinematics", "Dq = h v, each step", "2 s"),
    Row(_kinematics_run, "kinematics, run", "Dq = h v, summed", "2 |sum of s|"),
    Row(_impact_law, "impact law", "w_i+ = -e_i w_i- if lam_i > 0", "4 dw"),
    Row(_passivity, "passivity", "lam . (w+ + w-) <= 0, each contact", "4 sum of lam dw"),
    Row(_energy, "energy", "DT = work - loss at impacts, summed", "2 |sum of v b + f s + lam dw|"),
    Row(_variation, "variation", "sum |M Dv| <= sum h |f| + |grad g lam|", "2 sum of b"),
]
_FRICTION = [
    Row(laws.cone, "cone", "|r_t| <= mu r_n", "rounding"),
    Row(laws.slip, "slip", "r_t = -mu r_n u/|u| where u /= 0", "2 mu r_n du/|u|, if |u| > 2 du"),
    Row(laws.friction_work, "friction, work", "r_t . u <= 0", "2 |r_t| du"),
]
_JOINTS = [
    Row(laws.joint, "joint", "j(t, q) = 0", "2 h dj"),
    Row(laws.joint_velocity, "joint, velocity", "d/dt j = 0", "2 dj"),
]
_GLUE = [
    Row(laws.pull, "sign", "lam_i >= gamma_i, gamma_i <= 0", "2 dw / (grad g . M^-1 grad g)"),
    Row(laws.glued_speed, "glue, velocity", "w_i = 0 if gamma_i < 0", "2 dw"),
    Row(laws.glued_gap, "glue, gap", "g_i = 0 if gamma_i < 0", "2 h dw"),
]
AT_RECORDS = {"feasibility", "sign", "cone"}  # of records that are not every step


def clauses_for(system) -> list[Row]:
    """Those that a system has."""
    rows = [r for r in CLAUSES if not (system.glue and r.name == "sign")]
    rows += _GLUE if system.glue else []
    rows += _FRICTION if system.friction is not None else []
    return rows + (_JOINTS if system.joint is not None else [])
