"""Linear mechanisms with impacts and dry friction, followed mode by mode without error of steps.

    M q'' = f - K q + N^T lam_n + T^T lam_t,    g = g0 + N q >= 0,    u_t = T q' - belt       (1)

with constant matrices.  A contact is open, sticks, or slips either way; in each mode lam is linear
in q and v, and so is the motion,

    y' = A y + c,    y = (q, v),                                                              (2)

whose flow is the exponential of a matrix.  What ends a mode (a gap that closes, a push that ends, a
slip that turns, a friction that reaches its bound) is a root along it, by bisection.  The mode that
follows is the one that obeys Coulomb's law, searched among all; an impact likewise, with
N v+ + e N v- in the place of N v+.  Nothing of the schemes is used.
"""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from carom.models.problem import ModelError

OPEN, STICK, FORWARD, BACKWARD = range(4)
_TERMS = 14  # of the series of (2) within a step
_CLOSED = 1e-10  # of the terms of a gap: one so small is closed
_STILL = 1e-7  # of the terms of a velocity: one so small is 0 ...
_LAW = 1e-7  # ... and of accelerations, a law that is broken by so little is obeyed ...
_BROKEN = 1e-4  # ... and one by so much is not
_EVENTS = 10_000


@dataclass(frozen=True, eq=False)
class Linear:
    """(1): d coordinates, p contacts."""

    mass: Any  # (d, d)
    stiffness: Any  # (d, d)
    force: Any  # (d,)
    normal: Any  # (p, d)
    gap: Any  # (p,) at q = 0
    tangent: Any  # (p, d)
    friction: float
    restitution: Any  # (p,)
    belt: float = 0.0

    def solved(self, mode, free, shift):
        """x = free + M^-1 (N^T r_n + T^T r_t), N x + shift_n = 0 and T x + shift_t = 0 of a mode.

        Returns x, r_n and r_t; free (d, k) and shift (2 p, k) may have several columns.
        """
        p, rows = len(self.gap), np.concatenate([self.normal, self.tangent])
        W, given = np.eye(2 * p), np.zeros((2 * p, free.shape[1]))
        coupled, at = rows @ np.linalg.solve(self.mass, rows.T), rows @ free + shift
        for i, m in enumerate(mode):
            if m != OPEN:
                W[i], given[i] = coupled[i], -at[i]
            if m == STICK:
                W[p + i], given[p + i] = coupled[p + i], -at[p + i]
            elif m != OPEN:
                W[p + i, i] = self.friction * (1.0 if m == FORWARD else -1.0)
        r = np.linalg.solve(W, given)
        return free + np.linalg.solve(self.mass, rows.T @ r), r[:p], r[p:]

    def moving(self, mode):
        """Matrices on (y, 1), in a mode: (y, 1)', lam_n and lam_t."""
        d, p = len(self.force), len(self.gap)
        pull = np.hstack([-self.stiffness, np.zeros((d, d)), self.force[:, None]])
        a, n, t = self.solved(mode, np.linalg.solve(self.mass, pull), np.zeros((2 * p, 2 * d + 1)))
        rate = np.zeros((2 * d + 1, 2 * d + 1))
        rate[:d, d : 2 * d], rate[d : 2 * d] = np.eye(d), a
        return rate, n, t

    def struck(self, v, closed):
        """v after an impact over the closed gaps."""
        p = len(self.gap)
        shift = np.append(self.restitution * (self.normal @ v), np.full(p, -self.belt))[:, None]
        _, x = self.obeying(closed, v[:, None], shift, np.zeros(p), set())
        return x[:, 0]

    def obeying(self, closed, free, shift, slip, barred):
        """The mode that obeys Coulomb's law, and its x (``solved``), for velocities or their rates.

        ``slip`` (p,) is the sign of what slides already; ``barred`` has (contact, mode) that ended,
        mode None: all but open.
        """
        p, best = len(self.gap), None
        normal = np.sum(self.normal * np.linalg.solve(self.mass, self.normal.T).T, axis=1)
        size = np.max(np.abs(free)) + np.max(np.abs(shift), initial=0.0) + 1e-300
        for mode in itertools.product(range(4), repeat=p):
            if not all(map(_may, range(p), mode, closed, slip, itertools.repeat(barred))):
                continue
            x, n, t = (z[:, 0] for z in self.solved(mode, free, shift))
            u_n, u_t = self.normal @ x + shift[:p, 0], self.tangent @ x + shift[p:, 0]
            over = np.abs(t) - self.friction * n
            faults = [0.0]
            for i in np.flatnonzero(closed):
                m = mode[i]
                faults.append(-u_n[i] if m == OPEN else -n[i] * normal[i])
                faults.append(over[i] * normal[i] if m == STICK else 0.0)
                if m in (FORWARD, BACKWARD) and slip[i] == 0.0:
                    faults.append(-u_t[i] if m == FORWARD else u_t[i])
            key = max(max(faults) / size, _LAW), sum(m != STICK for m in mode)
            if best is None or key < best[0]:
                best = key, mode, x[:, None]
        if best is None or best[0][0] > _BROKEN:
            raise ModelError("no mode obeys the law of friction here")
        return best[1:]


def _may(i, m, closed, slip, barred):
    """Whether contact i may be in mode m."""
    if m == OPEN:
        return True
    way = {STICK: slip == 0.0, FORWARD: slip >= 0.0, BACKWARD: slip <= 0.0}[m]
    return closed and way and (i, m) not in barred and (i, None) not in barred


class Followed:
    """The motion of a Linear on [0, t1], its states kept at every ``step`` and at each event."""

    def __init__(self, body: Linear, q0, v0, t1: float, step: float):
        self.body, self.d = body, len(body.force)
        self.impacts: list[float] = []
        kept: list[tuple] = []
        t, (mode, y) = 0.0, self._after(0.0, np.concatenate([q0, v0]).astype(float), set())
        for _ in range(_EVENTS):
            rate, n, s = body.moving(mode)
            t, y, ended = self._flown(t, y, t1, step, (mode, rate, n, s), kept)
            if ended is None:
                break
            mode, y = self._after(t, y, ended)
        else:
            raise ModelError(f"more than {_EVENTS} events up to t = {t:g}: take a smaller t1")
        kept.append((t1, y, rate))
        self.t, self.y, self.rates = (np.array(x) for x in zip(*kept, strict=True))

    def _flown(self, t, y, t1, step, how, kept):
        """To the next event: its time, the state there, and what it bars; None at t1."""
        mode, rate, n, s = how
        power, now = _flow(rate, step), self._watched(mode, n, s, y)
        while t < t1:
            kept.append((t, y, rate))
            h = min(step, t1 - t)
            new = ((power if h == step else _flow(rate, h)) @ np.append(y, 1.0))[:-1]
            after = self._watched(mode, n, s, new)
            crossed = np.array([a[0] >= 0.0 > b[0] for a, b in zip(now, after, strict=True)])
            if not np.any(crossed):
                t, y, now = t + h, new, after
                continue
            low, high = 0.0, h
            for _ in range(60):
                middle = 0.5 * (low + high)
                new = (_flow(rate, middle) @ np.append(y, 1.0))[:-1]
                found = np.array([w[0] < 0.0 for w in self._watched(mode, n, s, new)])
                low, high = (low, middle) if np.any(found & crossed) else (middle, high)
            y = (_flow(rate, high) @ np.append(y, 1.0))[:-1]
            over = self._watched(mode, n, s, y)
            return t + high, y, {bar for value, bar in over if value < 0.0 and bar}
        return t, y, None

    def _watched(self, mode, n, s, y):
        """What of a mode must stay >= 0, each with what its end bars."""
        body, w = self.body, np.append(y, 1.0)
        gap, u = body.gap + body.normal @ y[: self.d], body.tangent @ y[self.d :] - body.belt
        lam, rub, found = n @ w, s @ w, []
        for i, m in enumerate(mode):
            found.append((gap[i], None) if m == OPEN else (lam[i], (i, None)))
            if m == STICK:
                found.append((body.friction * lam[i] - abs(rub[i]), (i, m)))
            elif m != OPEN:
                found.append((u[i] if m == FORWARD else -u[i], (i, m)))
        return found

    def _after(self, t, y, barred):
        """The mode behind an event, and the state, through an impact where there is one."""
        body, q, v = self.body, y[: self.d], y[self.d :]
        terms = np.abs(body.gap) + np.abs(body.normal) @ np.abs(q)
        closed = body.gap + body.normal @ q <= _CLOSED * terms
        still = _STILL * (np.max(np.abs(body.normal) @ np.abs(v), initial=0.0) + 1e-300)
        if np.any(closed & (body.normal @ v < -still)):
            v = body.struck(v, closed)
            self.impacts.append(t)
        rest = closed & (np.abs(body.normal @ v) <= still)
        slip = body.tangent @ v - body.belt
        small = _STILL * (np.max(np.abs(body.tangent) @ np.abs(v)) + abs(body.belt) + 1e-300)
        slip = np.where(np.abs(slip) > small, np.sign(slip), 0.0)
        free = np.linalg.solve(body.mass, body.force - body.stiffness @ q)[:, None]
        mode, _ = body.obeying(rest, free, np.zeros((2 * len(rest), 1)), slip, barred)
        return mode, np.concatenate([q, v])

    def __call__(self, t):
        """q and v (n, d) at times (n,): the series of (2) from the last state that was kept."""
        t = np.asarray(t, float)
        k = np.clip(np.searchsorted(self.t, t, side="right") - 1, 0, len(self.t) - 1)
        total = np.concatenate([self.y[k], np.ones((*t.shape, 1))], axis=-1)
        s, term = (t - self.t[k])[..., None], total
        for order in range(1, _TERMS + 1):
            term = np.einsum("...ij,...j->...i", self.rates[k], term) * s / order
            total = total + term
        return total[..., : self.d], total[..., self.d : 2 * self.d]


def _flow(rate, h):
    """exp(h rate)."""
    from scipy.linalg import expm  # here: `import carom` stays quick

    return expm(h * rate)
