"""How far a motion is from a solution: its defects, carried along by the motion itself.

Cut the records into windows, k = 1, 2, ...: steps in flight, and contacts (a step that pushes, with
the next one where an impact takes two).  P_k takes the first record x of a window to where the
certificate's own motion leads (carom/certificates/flight.py), D P_k is its derivative.  Then

    y_k = P_k(y_{k-1})                            in flight,   y_0 = z_0                        (1)
    y_k = P_k(z_{k-1}) + D P_k (y_{k-1} - z_{k-1})    at a contact, to first order              (2)
    E_k = z_k - y_k                                           error of z
    r_k = y_k - P_k(s y_{k-1})  at a contact, else 0          what is left when it is taken off (3)
    R_k = D P_k R_{k-1} + r_k,     R_0 = 0                    error of (2), to first order
    U_k = D P_k U_{k-1} + u_k,     U_0 = 0                    error of P, to first order        (4)

where z_k is the record x_k, or in lasting contact the state on the wall and along it that P_{k+1}
begins with: carried from a state beside a curved wall, an angle would shrink a little in each
step.  s takes y there too: a tangent E leads off a curved wall by |E|^2 / 2 in every window.  u_k
is how far P_k moved when its steps were doubled last, and what they may get wrong where a slip
turns round (rough.py, (3)); as a sum of sizes it would grow with time.

In flight E is not carried by D P_k: D P_k E_{k-1} grows with an error of phase, which is bounded.

The stated error is 1.5 times the largest |x_k - z_k + E_k| + |R_k| + |U_k| in q.  It is an estimate
and no bound; R and U say how far it can be trusted.
"""

from functools import partial
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from carom.certificates import flight, rough
from carom.certificates.laws import remembered
from carom.certificates.order import unordered
from carom.certificates.spans import ends, in_chunks

_LASTING = 1.5  # times the change of w in a step of free motion: slower is no impact
_SLOW = 1e-9  # relative, the same for motions that are exact
_STEPS = {flight.flights: 1024, flight.contacts: 64}  # of integration in a window, at most
_TURNING = 16  # of them at first where a slip turns round: fewer may agree on what is wrong
_WORK = {flight.flights: 1 << 18, flight.contacts: 1 << 14}  # in all windows together, at most
_LEAVES = 1e-3  # of the speed that is no impact
_BESIDE = 4.0  # times what a difference by which derivatives are taken makes of w
_FAR = 2.0  # sizes of the motion
_CHUNK = {flight.flights: (512, 512), flight.contacts: (64, 64)}  # windows in one call
_ALL = 1e-4  # relative to the size of the motion: what integration may add up to
_ENOUGH = 0.02  # relative error of a defect


SAFETY = 1.5  # what is stated, over what is estimated
ACCEPTED = 0.15  # of the size of the motion: a larger error is too large to be called a solution
FAST = 0.5  # of the largest speed: the same for velocities


class Stated(NamedTuple):
    """The end of a certificate."""

    error: float  # of q, in its units
    relative: float  # to the size of the motion
    dt: float  # that would tell
    coarse: bool


def stated(m) -> Stated:
    """The estimated error of q, and whether it is small beside the motion."""
    found = m.estimate
    E, speed = np.split(found.error, 2, axis=1)
    R, _ = np.split(found.rest, 2, axis=1)
    S, _ = np.split(found.order, 2, axis=1)
    U, _ = np.split(found.off, 2, axis=1)
    with np.errstate(invalid="ignore", over="ignore"):
        missed = _missed(m) + _entered(m)
        size = sum(m.norm.velocity(x) for x in (E, R, S, U)) + missed
        size = SAFETY * np.maximum(size, _set_back(m)) / m.length
        off = m.norm.velocity(speed) / m.fastest * (ACCEPTED / FAST)
        size, off = (np.max(np.where(np.isfinite(x), x, np.inf)) for x in (size, off))
        wide = np.max(np.ptp(m.q, axis=0))
        estimate = np.max(np.abs(E) + np.abs(R) + np.abs(S) + np.abs(U))
        error = SAFETY * (estimate + np.max(missed) / m.length * wide)
    if max(size, off) <= ACCEPTED:
        return Stated(float(error), float(size), float("nan"), False)
    dt = np.max(m.fine.h) * max(0.8 * ACCEPTED / max(size, off), 1e-3)
    return Stated(float(error), float(size), float(dt), True)


def _set_back(m):
    """(k,) how far lasting contact is from its walls."""
    w = m.estimate.windows
    lasting = w.held & (np.abs(m.at.w[w.first]) <= _slowness(m, w))
    away = np.abs(m.at.gap[w.first]) / np.sqrt(np.maximum(m.at.inverse_mass[w.first], 1e-300))
    return np.max(np.where(lasting, away, 0.0), axis=1, initial=0.0)


def _entered(m):
    """(k,) how deep a wall that yields is entered within a window, as far as that is known."""
    w = m.estimate.windows
    if m.resolution is None:
        return np.zeros(len(w.first))
    inverse = np.maximum(m.at.inverse_mass, m.at.inverse_mass[[0, *range(len(m.t) - 1)]])
    depth = np.maximum(m.overlap, 0.0) / np.sqrt(np.maximum(inverse, 1e-300))
    deepest = np.max(depth, axis=1, initial=0.0)
    return np.maximum.reduceat(np.maximum(*ends(deepest)), w.first)


def _missed(m):
    """(k,) how far q may be off after walls that a flight went through without a push.

    A gap entered by the depth z under the acceleration a was struck with (2 a z)^1/2, and each
    impact left out changes v by 1 + e times that.  Steps of a scheme may enter a wall just before a
    push or after it; this is in E.  Of what a wall has not given, its next push leaves the part
    e, for it gives what is then lacking.
    """
    w, depth = m.estimate.windows, np.maximum(passed(m), _entered_by_the_motion(m))
    bend = np.maximum(m.at.bend[w.first], m.at.bend[w.last])
    inverse = np.maximum(m.at.inverse_mass[w.first], 1e-300)
    kick = (1.0 + m.e) * np.sqrt(2.0 * bend * depth / inverse)
    lacking, now = np.zeros_like(kick), np.zeros(kick.shape[1])
    for k in range(len(kick) if np.any(kick > 0.0) else 0):
        now = np.where(w.held[k], m.e * now, now) + kick[k]
        lacking[k] = now
    lacking = np.sum(lacking, axis=1) + (_let_go(m) if m.system.glue else 0.0)
    return np.cumsum(lacking * (m.t[w.last] - m.t[w.first]))


def _let_go(m):
    """(k,) the velocity that glue may have held back too long, or too little, until then.

    A gap is let go when it was pulled as much as it was pushed.  Where M Dv = h f + grad g lam for
    the records and for y, its pushes are wrong by the sum of M (DE_v - h (a - a_y)) over the
    windows that push; this is missing afterwards.
    """
    found, w = m.estimate, m.estimate.windows
    pushed = np.diff(found.error[:, m.q.shape[1] :], axis=0, prepend=0.0)
    pushed -= (m.t[w.last] - m.t[w.first])[:, None] * _accelerated(m, found.error)
    gamma = remembered(m)
    wrong, now = np.zeros((m.lam.shape[1], m.q.shape[1])), 0.0
    total = np.zeros(len(w.first))
    for k in range(len(total)):
        wrong = wrong + np.where(w.held[k][:, None], pushed[k], 0.0)
        freed = (gamma[w.first[k]] < 0.0) & (gamma[w.last[k]] == 0.0)
        now += float(np.sum(np.where(freed, m.norm.velocity(wrong), 0.0)))
        wrong = np.where(freed[:, None], 0.0, wrong)
        total[k] = now
    return total


def _accelerated(m, error):
    """(k, d) a - a_y: of the records at the end of each window, beside those of the own motion."""
    last = m.estimate.windows.last
    q, v = np.split(np.concatenate([m.q[last], m.v[last]], axis=1) - error, 2, axis=1)
    return m.at.a[last] - m.accelerations(m.t[last], q, v, m.lam[last], m.beside[last])


def passed(m):
    """(k, p) how deep a flight goes into each wall without a push there or beside it.

    Beside a push the depth of the records is not counted, nor by how much the own flight ends
    elsewhere than they do: both are in E.  Where another wall pushes nothing is flown, and one
    that is inside before and after is beside its own push as before.
    """
    found, w = m.estimate, m.estimate.windows
    depth, gap = np.where(w.held, 0.0, np.maximum(-found.lowest, 0.0)), m.at.gap
    pushed = np.any(w.held, axis=1)[:, None] & (np.maximum(gap[w.first], gap[w.last]) < 0.0)
    inside = (depth > 0.0) | pushed
    beside = _spread(w.held, inside) | _spread(w.held[::-1], inside[::-1])[::-1]
    known = np.maximum(-np.minimum(gap[w.first], gap[w.last]), 0.0)
    known += m.norm.velocity(found.defect[:, : m.q.shape[1]])[:, None] * np.sqrt(
        m.at.inverse_mass[w.first]
    )
    return np.where(beside, np.maximum(depth - known, 0.0), depth)


def _entered_by_the_motion(m):
    """(k, p) how deep y of (1) goes into a wall of which the records keep clear.

    Beside a push the records may be inside, and y so for another time than they, by about E; this
    is in E.  Anywhere, y is known to R and U.  While y stays inside it has struck once: the deepest
    counts, and from where it enters.
    """
    found, w, gap = m.estimate, m.estimate.windows, m.at.gap
    inside = ~w.held & (found.nearest < 0.0)
    depth = np.where(inside, -found.nearest, 0.0)
    if not np.any(inside):
        return depth
    E, R, U = (
        m.norm.velocity(np.split(x, 2, axis=1)[0])[:, None]
        for x in (found.error, found.rest, found.off)
    )
    E = np.maximum(E, np.concatenate([0.0 * E[:1], E[:-1]]))
    beside = _spread(w.held, inside) | _spread(w.held[::-1], inside[::-1])[::-1]
    known = np.maximum(-np.minimum(gap[w.first], gap[w.last]), 0.0)
    normal = np.sqrt(m.at.inverse_mass[w.first])
    depth = np.maximum(
        depth - (R + U) * normal - np.where(beside, known + 2.0 * E * normal, 0.0), 0.0
    )
    for k in reversed(range(len(depth) - 1)):
        goes_on = (depth[k] > 0.0) & (depth[k + 1] > 0.0)
        depth[k] = np.where(goes_on, np.maximum(depth[k], depth[k + 1]), depth[k])
        depth[k + 1] = np.where(goes_on, 0.0, depth[k + 1])
    return depth


def _spread(start, along):
    """(k, p) bool: ``along`` from an entry of ``start`` up to here without a break."""
    index = np.arange(len(start))[:, None]
    begun = np.maximum.accumulate(np.where(start, index, -1), axis=0)
    broken = np.maximum.accumulate(np.where(along | start, -1, index), axis=0)
    return along & (begun > broken)


class Windows(NamedTuple):
    first: np.ndarray  # (k,) index of the first record
    last: np.ndarray  # (k,)
    held: np.ndarray  # (k, p) the gaps that push


def windows(m) -> Windows:
    """Each step is one, but for impacts that a step begins and the next one ends."""
    struck = m.pushes & ((m.at.w[:-1] < -_step_speed(m)) | (m.h == 0.0)[:, None])
    goes_on = np.zeros(len(m.h), bool)
    goes_on[:-1] = np.any(struck[:-1] & m.pushes[1:], axis=1) & (m.h[1:] > 0.0) & (m.h[:-1] > 0.0)
    joined = np.zeros(len(m.h), bool)  # to the step before
    for k in np.flatnonzero(goes_on):
        joined[k + 1] = not joined[k]
    first = np.flatnonzero(~joined)
    last = np.append(first[1:], len(m.h))
    return Windows(first, last, np.logical_or.reduceat(m.pushes, first, axis=0))


class Carried(NamedTuple):
    end: np.ndarray  # (k, 2d) P_k(x_{k-1})
    lowest: np.ndarray  # (k, p)
    moved: np.ndarray  # (k, 2d) how far the end moved when the steps were doubled last
    steps: np.ndarray  # (k,) of integration


class Estimate(NamedTuple):
    t: np.ndarray  # (k,)
    error: np.ndarray  # (k, 2d) E
    rest: np.ndarray  # (k, 2d) R
    lowest: np.ndarray  # (k, p) gaps on the way, of flights
    nearest: np.ndarray  # (k, p) those of y
    unsure: np.ndarray  # (k,) relative: what integration may add to the defect
    windows: Windows
    defect: np.ndarray  # (k, 2d)
    order: np.ndarray  # (k, 2d) S: what another order of impacts would change
    off: np.ndarray  # (k, 2d) U: what integration may add to E


def estimated(m) -> Estimate:
    w, x = windows(m), np.concatenate([m.q, m.v], axis=1)
    a, b = x[w.first], x[w.last]
    slow = _slowness(m, w)
    found = _carried(m, w, a, b, slow)
    if np.any(w.held):
        sharp = _sharp(m, w, slow)
        other = _carried(m, w, a, b, sharp, found)
        better = _size(m, b - other.end) < np.minimum(_size(m, b - found.end), _ALL / len(b))
        slow = np.where(better[:, None], sharp, slow)
        pairs = zip(found, other, strict=True)
        found = Carried(*(np.where(_like(better, two), two, one) for one, two in pairs))
    z = _on_walls(m, w, a, slow)
    goal = np.concatenate([z[1:], b[-1:]])
    tangent = _tangents(m, w, z, slow, found.steps)
    y, nearest = _followed(m, w, z, found, tangent)
    E, touching = goal - y[1:], np.any(w.held, axis=1)
    R = E if np.any(touching) else np.zeros_like(E)
    if np.any(touching) and np.max(_size(m, E)) <= _FAR:  # else nothing is gained by it
        again = _carried(m, w, _on_walls(m, w, y[:-1], slow), y[1:], slow, found)
        R = _transported(tangent, np.where(touching[:, None], y[1:] - again.end, 0.0))
    S = _transported(tangent, unordered(m, w, slow))
    U = _transported(tangent, found.moved + _turned(m, w, slow, found.steps)[1])
    return Estimate(
        t=m.t[w.last],
        error=b - goal + E,
        rest=R,
        lowest=found.lowest,
        nearest=nearest,
        unsure=_size(m, found.moved),
        windows=w,
        defect=b - found.end,
        order=S,
        off=U,
    )


def _followed(m, w, z, found, tangent):
    """(k + 1, 2d) y of (1) and (2), and (k, p) its gaps on the way."""
    flies, now = ~np.any(w.held, axis=1), z[0]
    h = m.t[w.last] - m.t[w.first]
    arrays = m.t[w.first], h, found.steps, flies, z, found.end, tangent

    def on(system, chunk):
        nonlocal now
        y = flight.followed(system, chunk, now)
        now = y.state[-1]
        return y

    y = in_chunks(on, m.system, arrays)
    return np.concatenate([z[:1], y.state]), y.lowest


def _on_walls(m, w, a, slow):
    """(k, 2d) z: where the own motion begins in each window."""
    jointed = m.at.joint.shape[1] > 0
    z, k = np.array(a), np.flatnonzero(np.any(w.held, axis=1) | jointed)
    if len(k):
        arrays = (m.t[w.first[k]], a[k], w.held[k], slow[k])
        z[k] = in_chunks(flight.beginnings, m.system, arrays, _CHUNK[flight.contacts]).state
    return z


def _like(mask, x):
    return mask.reshape(-1, *[1] * (x.ndim - 1))


def _size(m, x):
    """(k,) of states: position over the size of the motion, and velocity."""
    q, v = np.split(x, 2, axis=-1)
    return np.maximum(m.norm.velocity(q) / m.length, m.norm.velocity(v) / m.fastest)


def _small(m):
    """(2d,) the differences by which derivatives are taken: small, and far from rounding."""
    away, far = np.ptp(m.q, axis=0), np.max(np.abs(m.q))
    fast = np.max(np.abs(m.v)), np.max(m.h) * np.max(np.abs(m.at.a))
    q = np.maximum(away, 1e-2 * max(far, np.max(away), np.max(m.h) * fast[1]))
    v = np.full_like(q, max(*fast, 1e-300))
    return 1e-6 * np.maximum(np.concatenate([q, v]), 1e-300)


def _step_speed(m):
    """(m, p) what forces and curvature make of w in a step, on the gap where they make most."""
    normal = np.sqrt(np.maximum(*ends(m.at.inverse_mass)))
    most = np.max(m.dw / np.maximum(normal, 1e-300), axis=1, initial=0.0, keepdims=True)
    return _LASTING * most * normal


def _slowness(m, w):
    return np.where((m.t[w.last] > m.t[w.first])[:, None], _step_speed(m)[w.first], -np.inf)


def _sharp(m, w, slow):
    normal = np.sqrt(m.at.inverse_mass[w.first])
    return np.where(np.isfinite(slow), _SLOW * m.fastest * normal, slow)


def _leaving(m, w, slow):
    """(k, p) the w at which lasting contact ends: more than what its integration leaves."""
    return np.maximum(slow, np.where(np.isfinite(slow), _LEAVES * _slowness(m, w), slow))


def _arguments(m, w, x, slow):
    """What flights and contacts are functions of, and which windows are contacts."""
    held = np.any(w.held, axis=1)
    h, small = m.t[w.last] - m.t[w.first], np.tile(_small(m), (len(x), 1))
    common = m.t[w.first], x, h, small
    return [
        (flight.flights, ~held, common, ()),
        (flight.contacts, held, common, (w.held, slow, _leaving(m, w, slow), 2.0 * m.H[w.first])),
    ]


def _called(m, function, k, n, common, more, columns):
    t, x, h, small = (a[k] for a in common)
    arrays = [t, x, h, n, small, *(a[k] for a in more)]
    run = partial(function, columns=jnp.asarray(columns))
    return in_chunks(run, m.system, arrays, _CHUNK[function])


def _carried(m, w, x, goal, slow, known=None) -> Carried:
    """P_k(x) for every window; with ``known``, anew for contacts only."""
    out = known or Carried(
        np.zeros_like(x), np.zeros(w.held.shape), np.full(x.shape, np.inf), np.ones(len(x), int)
    )
    out = Carried(*(np.array(a) for a in out))
    turns, _ = _turned(m, w, slow, out.steps)
    for function, mask, common, more in _arguments(m, w, x, slow):
        if known is None or function is flight.contacts:
            for first, part in ((1, mask & ~turns), (_TURNING, mask & turns)):
                _refined(m, function, np.flatnonzero(part), common, more, goal, out, first)
    return out


def _turned(m, w, slow, steps):
    """(k,) whether a slip turns round, and (k, 2d) what so many steps may get wrong of it."""
    x = np.concatenate([m.q, m.v], axis=1)
    if m.system.friction is None:
        return np.zeros(len(w.first), bool), np.zeros((len(w.first), x.shape[1]))
    lasting = m.at.w[w.first] >= -slow  # an impact turns slips round at once
    lam = np.where(lasting, np.add.reduceat(m.lam[1:], w.first, axis=0), 0.0)
    ends = m.t[w.first], x[w.first], m.t[w.last], x[w.last]
    return in_chunks(rough.turned, m.system, (*ends, lam, steps))


def _refined(m, function, k, common, more, goal, out, first):
    """Twice as many steps of integration until the defects do not change."""
    n, before = first, None
    work = max(_WORK[function], 2 * first * len(k))
    while len(k) and len(k) * n <= work and n <= _STEPS[function]:
        found = _called(m, function, k, np.full(len(k), n), common, more, 0)
        moved, enough = np.full(found.end.shape, np.inf), np.zeros(len(k), bool)
        if before is not None:
            moved, enough = found.end - before.end, _enough(m, found, before, goal[k])
        out.end[k], out.lowest[k], out.moved[k], out.steps[k] = found.end, found.lowest, moved, n
        k, before = k[~enough], type(found)(*(a[~enough] for a in found))
        n *= 2


def _enough(m, found, before, goal):
    with np.errstate(invalid="ignore", over="ignore"):
        off = _size(m, found.end - before.end)
        moved = np.abs(found.lowest - before.lowest)
        known = np.all(moved <= 0.1 * np.abs(found.lowest) + _ALL / len(m.t) * m.gap_size, axis=1)
        return known & (off <= _ENOUGH * _size(m, goal - found.end) + _ALL / len(m.t))


def _tangents(m, w, x, slow, steps):
    """D P_k; what rests at x does so at the states beside it, which differ in w."""
    off = m.norm.velocity(_small(m)[x.shape[1] // 2 :])
    beside = _BESIDE * off * np.sqrt(m.at.inverse_mass[w.first])
    slow = np.where(np.isfinite(slow), np.maximum(slow, beside), slow)
    tangent = np.zeros((len(x), x.shape[1], x.shape[1]))
    for function, mask, common, more in _arguments(m, w, x, slow):
        if len(k := np.flatnonzero(mask)):
            found = _called(m, function, k, steps[k], common, more, x.shape[1])
            tangent[k] = found.tangent
    return tangent


def _transported(tangent, d):
    """(4)."""
    E, now = np.empty_like(d), np.zeros(d.shape[1])
    with np.errstate(invalid="ignore", over="ignore"):
        for k in range(len(d)):
            now = tangent[k] @ now + d[k]
            E[k] = now
    return E
