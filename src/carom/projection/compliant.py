"""Coulomb's law of many contacts where sweeps and Newton's method do not end: a path that must.

Contacts that yield a little, about a guess r0 of their impulses, have

    u = W r + q + eps D (r - r0),     0 <= r_n  perp  u_n >= 0,    r_t opposite to u_t         (1)

with D = |W_kk|.  For a large eps the answer is unique, and near r0; r . u <= 0 bounds r for every
eps > 0.  So the curve of answers (r, eps) that begins there does not come back, and does not end
before eps = 0: it leads to an answer of Coulomb's law, if there is one.  It may turn, so that eps
grows for a while.  Where there is no answer, r grows without bound while eps D (r - r0) stays: what
q would have to change by, for the contacts that wedge each other.

In each cell of the law, where every contact is open, sticks or slips, the curve is smooth.  With
y = D^(1/2) r, z = y - u (u scaled likewise) and P the law, r = P(z):

    open  z_n <= 0:  P = 0,    stick  |z_t| <= mu z_n:  P = z,    slip:  P = z_n (1, mu z_t/|z_t|)
    F(y, eps) = y - P(z) = 0,   J = 1 - P' + P' (A + eps),   J dy = -P' (y - y0) deps           (2)

It is followed along its tangent to the next place where a contact leaves its cell; beyond it goes
on to the side on which this contact is in its new one, which tells whether eps falls or grows.
"""

from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import get_lapack_funcs
from scipy.sparse import linalg

from carom.projection import proximal

OPEN, STICK, SLIP = 0, 1, 2
_LEAST, _ZERO = 1e-9, 1e-14  # eps: where r that grows as 1 / eps does so for ever, and the last
_FARTHEST = (0.7, 0.1)  # step in log eps, at first and then
_TURN = 0.2  # of z_t in a slip, in a step [rad]
_THERE, _HALVINGS = 1e-7, 40  # of log eps: near enough to where a contact leaves its cell
_EXACT, _EXACTLY = 1e-12, 1e-11  # of F and of z, of the largest |y|
_BACK = 0.1  # of a step that went too far, at least
_LONGEST = 0.3  # step of y, of the lengths of y and q
_TURNS, _CHORDS = 3, 5  # of Newton's method, and steps with one of its matrices
_MOST = 1e4  # times the first eps: no return
_SMALL = 0.3  # eps at which the modes may be those of eps = 0
# Unknowns, up to which J is factorised as a full matrix: beyond, and in products with a full A
# before, OpenBLAS has threads wait for each other (60 times as long on a busy machine).
_DENSE = 96
_APART = 1e-10  # of the largest velocity: contacts with nothing to do differ by so much

_FACTORED, _SOLVED = get_lapack_funcs(("getrf", "getrs"))  # of doubles


def solve(W, q, mu, dim, size, r, pivots, good):
    """r along the path from the guess ``r`` until ``good(r)``, how many pivots were made, and more.

    ``size`` is D, see proximal.sizes; ``good`` is asked where eps is small.  The third is what q
    would have to change by for r to be an answer, eps D (r - r0): 0 where it is one; None where the
    path was left before its end.
    """
    return _Path(W, q, mu, dim, size).followed(r, pivots, good)


class _Path:
    def __init__(self, W, q, mu, dim, size):
        self.mu, self.m, self.p = mu, dim, len(mu)
        self.weight = np.repeat(np.sqrt(size), dim)
        self.longest = _FARTHEST[0]
        scale = sparse.diags(1.0 / self.weight)
        self.A, w = (scale @ W @ scale).tocsr(), q / self.weight
        self.full = self.one = None
        if len(q) <= _DENSE:
            both = self.A.toarray(), np.eye(len(q))
            self.full, self.one = (x.reshape(self.p, dim, -1) for x in both)
        self.unit = np.max(np.abs(w), initial=0.0) or 1.0  # of y and u: the law has no scale
        self.w = w / self.unit
        self.size = np.linalg.norm(self.w)
        rng = np.random.default_rng(self.p)
        self.apart = rng.uniform(-_APART, _APART, len(q))
        self.first = max(1.0, np.max(mu, initial=0.0))  # eps: there are loops below mu

    def velocity(self, y, eps):
        """u of (1), scaled; contacts with nothing to do are told apart as long as eps > 0."""
        u = self.A @ y + self.w
        return u + eps * (y - self.centre) + self.apart if eps > 0.0 else u

    def begun(self, y):
        """y and the modes at the first eps: Newton's method, where it is nearly a contraction.

        With z = y - u / (1 + eps), which the answer does not depend on: for a large eps z is nearly
        the centre, whatever y, while y - u grows as eps (y - y0), and its slips mu times as much.
        """
        self.centre, eps = y, self.first
        law = proximal._Law(self.mu, self.m, True, self.weight)
        for _ in range(20):
            x, before, part = self.centre, np.inf, 1.0 / (1.0 + eps)
            A = sparse.csc_matrix(part * self.A)
            for _ in range(40):
                u = part * self.velocity(x, eps)
                F = law.newton(x, u)[0]
                if np.linalg.norm(F) <= _EXACT * (1.0 + np.max(np.abs(x), initial=0.0)):
                    return x, eps, self.modes(x - u)
                step = proximal._step(law, A, x, u, part * eps)
                moved = A @ step + part * eps * step
                trials = [
                    (np.linalg.norm(law.newton(x + some * step, u + some * moved)[0]), some)
                    for some in (1.0, 0.5, 0.25, 0.1, 0.03)
                ]
                least, some = min(trials)
                if not least < before:
                    break
                before, x = least, x + some * step
            eps *= 4.0
        return None

    def modes(self, z):
        z = z.reshape(self.p, self.m)
        length = np.linalg.norm(z[:, 1:], axis=1)
        self.side = np.where(z[:, 1] >= 0.0, 1.0, -1.0)  # of slips in the plane
        return np.where(z[:, 0] <= 0.0, OPEN, np.where(length <= self.mu * z[:, 0], STICK, SLIP))

    def lack(self, y, eps, mode):
        """F and z of (2) in the cell, and what P' is made of."""
        m, mu = self.m, self.mu
        z = (y - self.velocity(y, eps)).reshape(self.p, m)
        P = np.where((mode == STICK)[:, None], z, 0.0)
        e = mode == SLIP
        t = z[e, 1:]
        length = np.maximum(np.linalg.norm(t, axis=1), 1e-300)
        unit = self.side[e, None] if m == 2 else t / length[:, None]
        P[e, 0], P[e, 1:] = z[e, 0], (mu[e] * z[e, 0])[:, None] * unit
        return y - P.ravel(), z, (e, unit, length)

    def cell(self, y, eps, mode):
        """P' (p, m, m), and the solver with J."""
        m, mu = self.m, self.mu
        _F, z, (e, unit, length) = self.lack(y, eps, mode)
        B = np.zeros((self.p, m, m))
        B[mode == STICK] = np.eye(m)
        B[e, 0, 0], B[e, 1:, 0] = 1.0, mu[e, None] * unit
        if m > 2:
            turning = np.eye(m - 1) - unit[:, :, None] * unit[:, None, :]
            B[e, 1:, 1:] = (mu[e] * z[e, 0] / length)[:, None, None] * turning
        moves = np.flatnonzero(np.repeat(mode != OPEN, m))
        factor = self.factor(B, eps, moves) if len(moves) else None

        def solved(x):
            """J^-1 x, x = 0 where a contact is open."""
            found = np.zeros(len(x))
            if factor is not None:
                found[moves] = factor(x[moves])
            return found

        return B, solved

    def factor(self, B, eps, moves):
        """x -> J^-1 x, of the rows and columns ``moves``; a RuntimeError where J is singular."""
        if self.full is not None:
            J = B @ (self.full + (eps - 1.0) * self.one) + self.one
            lu, pivots, lost = _FACTORED(J.reshape(self.A.shape)[np.ix_(moves, moves)])
            if lost or not np.all(np.isfinite(lu)):
                raise RuntimeError("J is singular")
            return lambda x: _SOLVED(lu, pivots, x)[0]
        blocks = sparse.bsr_matrix((B, np.arange(self.p), np.arange(self.p + 1)), self.A.shape)
        blocks = blocks.tocsr()[moves]
        J = blocks @ self.A + (eps - 1.0) * blocks
        J = J.tocsc()[:, moves] + sparse.eye(len(moves), format="csc")
        return linalg.splu(J.tocsc()).solve

    def followed(self, r, pivots, good):
        """The end of the curve, pivots made, and what is left of what contacts yield there.

        A curve that comes back began between two turns, and ends the other way; or else a step
        went across a face and back, unseen, and shorter ones are made.
        """
        begun, made = self.begun(self.weight * r.ravel() / self.unit), 0
        if begun is None:
            return r, 0, None
        y = self.centre
        for self.longest in _FARTHEST:
            for sign in (-1.0, 1.0):
                y, eps, more = self.along(*begun, sign, pivots - made, good)
                made += more
                if eps <= _LEAST:
                    lacks = eps * self.weight * (y - self.centre) * self.unit
                    return self.impulse(y), made, lacks
                if made >= pivots:
                    break
        return self.impulse(y), made, None

    def impulse(self, y):
        """r"""
        return y * self.unit / self.weight

    def along(self, y: Any, eps, mode, sign, pivots, good):
        """y and eps where the curve ends, or where it is left, and the pivots made.

        From a base on the curve a step goes to where a contact is foretold to leave its cell; what
        then has left it tells where that was.
        """
        mode, side, at = mode.copy(), self.side.copy(), np.log(eps)
        last, base, made, halved, on = ("on", -1, 0.0 * y, sign), None, 0, 0, (y, eps)
        room = np.zeros((self.p, 2))
        while made < pivots and _ZERO < on[1] < _MOST * self.first:
            made += 1
            y, at, z, B, solved = self.corrected(y, at, mode, base)
            eps = np.exp(at)
            part, k, which = 0.25, -1, 0
            if solved is not None:
                room = self.room(z, mode)
                part, k, which = self.left(base, room, y)
            if part < 1.0:  # too far
                if base is None or halved >= _HALVINGS:
                    break
                y, at, dy, sign, h, room = base
                there = k >= 0 and min(part, 1.0 - part) * h <= _THERE
                h *= part if there or halved % 2 == 0 else 0.5  # secants alone may crawl
                base, halved = (*base[:4], h, room), halved + 1
            else:
                on = y, eps
                if eps < _SMALL:
                    rigid = self.rigid(y, mode, solved)
                    for x in (*rigid[-1 if eps > _LEAST else 0 :], y):  # near rounding one may do
                        if good(self.impulse(x)):
                            return x, 0.0, made
                c = self.tangent(y, eps, B, solved)
                if eps <= _LEAST and self.endless(y, c):
                    break
                dz = ((1.0 - eps) * c - self.A @ c).reshape(self.p, self.m) - eps * self.off(y)
                sign = self.onward(last, c, z, dz)
                dy, dz, halved = sign * c, sign * dz, 0
                k, which, h = self.first_event(room, self.room(z, mode, dz))
                farthest = self.farthest(y, dy, z, dz, mode)
                there, h = h <= _THERE, min(h, farthest)
                base = y, at, dy, sign, h, room
            y, at = y + h * dy, at + sign * h
            eps, last = np.exp(at), ("on", -1, dy, sign)
            if there:
                last, base = (self.cross(k, which, mode, y, eps), k, dy, sign), None
                y[self.m * k : self.m * (k + 1)] *= mode[k] != OPEN
        self.side = side
        return *on, made

    def rigid(self, y, mode, solved):
        """y with eps = 0, nearer and nearer, if contacts keep their modes."""
        found = []
        for _ in range(2 if self.m == 2 else _CHORDS):
            y = y - solved(self.lack(y, 0.0, mode)[0])
            found.append(y)
        return found

    def left(self, base, room, y):
        """The part of the last step after which a contact left its cell, this, and through what."""
        out = room < -_EXACTLY * (1.0 + np.max(np.abs(y), initial=0.0))
        if base is None or not np.any(out):
            return 1.0, -1, 0
        before = np.maximum(base[-1][out], 0.0)
        part = np.full(room.shape, np.inf)
        part[out] = before / (before - room[out])
        k, which = np.unravel_index(np.argmin(part), part.shape)
        return max(float(part[k, which]), _BACK), int(k), int(which)

    def cross(self, k, which, mode, y, eps):
        """Contact k goes through a face of its cell, into another mode: what it does."""
        if mode[k] == SLIP:
            mode[k] = STICK if which else OPEN
            return "sticks" if which else "opens"
        z = (y - self.velocity(y, eps))[self.m * k : self.m * (k + 1)]
        self.side[k] = 1.0 if z[1] >= 0.0 else -1.0
        was, mode[k] = mode[k], SLIP
        return "closes" if was == OPEN else "slips"

    def off(self, y):
        return (y - self.centre).reshape(self.p, self.m)

    def endless(self, y, c):
        """Whether r - r0 grows as 1 / eps, where it would fall or stay with an answer."""
        far = y - self.centre
        return -(c @ far) > 0.5 * (far @ far)

    def corrected(self, y, at, mode, base):
        """y and log eps on the curve, z, P', and the solver with J, which is None where that fails.

        In the plane at the given eps; in space across the step from the base, for the curve may
        turn inside of a cell.
        """
        for _ in range(_TURNS):
            try:
                B, solved = self.cell(y, np.exp(at), mode)
            except RuntimeError:
                break
            for _ in range(_CHORDS):
                F, z, _slips = self.lack(y, np.exp(at), mode)
                if np.linalg.norm(F) <= _EXACT * (1.0 + np.max(np.abs(y), initial=0.0)):
                    return y, at, z, B, solved
                step = -solved(F)
                if self.m > 2 and base is not None:
                    dy, sign, c = base[2], base[3], self.tangent(y, np.exp(at), B, solved)
                    more = -(dy @ step) / (dy @ c + sign)
                    step, at = step + more * c, at + more
                    if not abs(at - base[1]) <= 2.0 * self.longest:
                        return y, base[1], None, None, None
                y = y + step
        return y, at, None, None, None

    def tangent(self, y, eps, B, solved):
        """dy / d log eps."""
        return solved(-eps * np.einsum("kab,kb->ka", B, self.off(y)).ravel())

    def onward(self, crossed, c, z, dz):
        """Whether log eps grows: the contact that left its cell is in its new one there."""
        what, k, dy, sign = crossed
        if what == "on":
            return 1.0 if c @ dy + sign > 0.0 else -1.0
        if what in ("closes", "opens"):
            into = dz[k, 0]
        else:
            length = np.linalg.norm(z[k, 1:])
            into = z[k, 1:] @ dz[k, 1:] / max(length, 1e-300) - self.mu[k] * dz[k, 0]
        return 1.0 if (into > 0.0) == (what in ("closes", "slips")) else -1.0

    def room(self, z, mode, dz=None):
        """(p, 2) how far contacts are from the faces of their cells, or its rate along dz.

        open: -z_n;  stick: mu z_n - |z_t|, in the plane both edges;  slip: z_n, |z_t| - mu z_n.
        """
        n, t = z[:, 0], z[:, 1:]
        x = z if dz is None else dz
        if self.m == 2:
            across = x[:, 1]
            along = self.side * x[:, 1]
        else:
            length = np.maximum(np.linalg.norm(t, axis=1), 1e-300)
            along = np.einsum("ka,ka->k", t, x[:, 1:]) / length
            across = along
        n, reach, nowhere = x[:, 0], self.mu * x[:, 0], np.full(self.p, np.inf)
        first = np.where(mode == OPEN, -n, np.where(mode == SLIP, n, reach - across))
        other = reach + across if self.m == 2 else nowhere
        second = np.where(mode == SLIP, along - reach, np.where(mode == STICK, other, nowhere))
        return np.column_stack([first, second])

    def first_event(self, room, rate):
        """The contact that leaves its cell first, through which face, and how far ahead."""
        falls = rate < 0.0
        when = np.where(falls, -np.maximum(room, 0.0) / np.where(falls, rate, -1.0), np.inf)
        k, which = np.unravel_index(np.argmin(when), when.shape)
        return int(k), int(which), float(when[k, which])

    def farthest(self, y, dy, z, dz, mode):
        """Of a step in the cell, in log eps."""
        if self.m == 2:
            return self.longest
        e = mode == SLIP
        turn = np.linalg.norm(dz[e, 1:], axis=1)
        length = np.linalg.norm(z[e, 1:], axis=1)
        turned = float(np.min(_TURN * length / np.maximum(turn, 1e-200), initial=np.inf))
        moved = _LONGEST * (np.linalg.norm(y) + self.size) / max(np.linalg.norm(dy), 1e-200)
        return min(self.longest, turned, moved)
