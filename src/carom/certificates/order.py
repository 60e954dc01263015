"""Impacts that a few steps hold together: does it matter which of them comes first?

Where several gaps are struck within some steps, the records tell their impulses, and not their
order.  From the record before, the gaps close along straight lines, and the impact law acts at each
closing over all the gaps that are closed then:

    g_i(s) = g_i + s w_i,      w+ = w + W lam,      W = grad g M^-1 grad g^T                   (1)
    w_i+ + e_i w_i >= 0,    lam_i >= 0,    lam_i = 0 where > holds,    g_i(s) = 0              (2)

while the run struck those that push in each of its windows, at once.  The difference of the sums of
lam of both, where it is more than what forces do meanwhile, is carried along as the error is.
"""

from typing import Any, NamedTuple

import jax
import numpy as np

from carom.certificates.rows import normals
from carom.certificates.spans import in_chunks
from carom.programs import compiled

_SWEEPS, _SETTLED = 2000, 1e-13  # of (2)
_EVENTS = 200  # closings within a few steps
_AT_ONCE = 1e-12  # relative: closings at the same time


class _Coupled(NamedTuple):
    across: Any  # (p, d) grad g, whitened: W is its Gram matrix
    lifts: Any  # (d, p) M^-1 grad g^T


@compiled
def _coupled(system, arrays):
    def one(t, q):
        metric = system.metric(q)
        across = metric.whiten(normals(system, t, q).rows)
        return _Coupled(across, jax.vmap(metric.lift, out_axes=1)(across))

    return jax.vmap(one)(*arrays)


def unordered(m, w, slow):
    """(k, 2d) by how much the states after each window may differ for another order in it."""
    kicks = np.zeros((len(w.first), 2 * m.q.shape[1]))
    plain = m.system.friction is None and not m.at.joint.shape[1] and not m.system.glue
    if not plain or m.resolution is not None or m.lam.shape[1] < 2:
        return kicks
    found = _together(m, w, slow)
    if not found:
        return kicks
    first = w.first[[a for a, _ in found]]
    at = in_chunks(_coupled, m.system, (m.t[first], m.q[first]))
    for (a, b), across, lifts in zip(found, at.across, at.lifts, strict=True):
        off = lifts @ _difference(m, w, a, b, across @ across.T)
        size, forced = m.norm.velocity(off), _forced(m, w, a, b)
        if size > forced:
            kicks[b - 1, m.q.shape[1] :] = off * (1.0 - forced / size)
    return kicks


def _together(m, w, slow):
    """Runs a, b of windows that follow each other, each with an impact, and over several gaps."""
    lasts = (m.t[w.last] > m.t[w.first]) & np.any(w.held & (m.at.w[w.first] < -slow), axis=1)
    found, a, most = [], 0, w.held.shape[1] + 1
    while a < len(lasts):
        b = a
        while b < len(lasts) and lasts[b] and b - a < most:
            b += 1
        if b > a and np.sum(np.any(w.held[a:b], axis=0)) > 1:
            found.append((a, b))
        a = max(b, a + 1)
    return found


def _forced(m, w, a, b):
    """A velocity that forces, which (1) leaves out, may make of the impacts."""
    steps = slice(w.first[a], w.last[b - 1])
    normal = np.sqrt(np.maximum(m.at.inverse_mass[:-1][steps], 1e-300))
    return 4.0 * float(np.sum(np.max(m.dw[steps] / normal, axis=1)))


def _difference(m, w, a, b, W):
    """The impulses of the run less those of (1) and (2), for the end that is most like it."""
    k = w.first[a]
    gap, speed = m.at.gap[k], m.at.w[k]
    small = np.array(m.small_gap[k])
    if a > 0:  # what has pushed until now and does not move is in contact
        rests = w.held[a - 1] & (np.abs(speed) <= m.dw[k])
        small = np.where(rests, np.maximum(small, m.H[k] * m.dw[k]), small)
    run = np.zeros(len(gap))
    for held in w.held[a:b]:
        run += _struck(W, speed + W @ run, m.e_of, held)
    length, step = m.t[w.last[b - 1]] - m.t[k], m.H[k]
    ends = (length, length - step, length + step)
    differ = (run - _in_turn(W, gap, speed, m.e_of, small, end) for end in ends)
    return min(differ, key=lambda x: x @ W @ x)


def _in_turn(W, gap, speed, e, small, end):
    """The sum of the impulses of (1) and (2), up to a time."""
    lam, time = np.zeros(len(gap)), 0.0
    gap = np.where(gap <= small, 0.0, gap)
    for _ in range(_EVENTS):
        w = speed + W @ lam
        with np.errstate(divide="ignore", invalid="ignore"):
            wait = np.where(w < -1e-12 * np.max(np.abs(w), initial=0.0), gap / -w, np.inf)
        after = np.min(wait, initial=np.inf)
        if time + after > end:
            break
        time, gap = time + after, gap + after * w
        gap = np.where(wait <= after * (1.0 + _AT_ONCE), 0.0, np.maximum(gap, 0.0))
        lam = lam + _struck(W, w, e, gap <= small)
    return lam


def _struck(W, w, e, closed):
    """(2), with e (p,) or a function of w."""
    kept: Any = e(w) if callable(e) else e
    lam, b = np.zeros(len(w)), (1.0 + kept) * w
    rows = np.flatnonzero(closed & (np.diagonal(W) > 0.0))
    for _ in range(_SWEEPS):
        before = lam.copy()
        for i in rows:
            lam[i] = max(0.0, lam[i] - (b[i] + W[i] @ lam) / W[i, i])
        if np.max(np.abs(lam - before), initial=0.0) <= _SETTLED * np.max(lam, initial=0.0):
            break
    return lam
