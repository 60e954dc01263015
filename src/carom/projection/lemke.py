"""Coulomb's law in the plane along paths of straight pieces (Lemke; Katzenelson).

In the scales of proximal.py u = A y + w, |A_kk| = 1, and with z = y - u the law is y = P(z),

    open  z_n <= 0:  P = 0,    stick  |z_t| <= mu z_n:  P = z,    slip:  P = z_n (1, +- mu)
    F(z) + t d = 0,     F(z) = z + (A - 1) P(z) + w                                           (1)

In each cell, where every contact keeps its mode, P' = B is constant and the answers of (1) are a
piece of a straight line, along s = (dz, dt):

    N s = (0, 1),     N = ( M   d )      M = 1 + (A - 1) B                                    (2)
                          (  s0^T )

with s0 the direction before.  N has an inverse where M has none.  Where contact k leaves its cell
through the face nu . z_k = 0, P is continuous, so that B changes by g nu^T and M by a nu^T,
a = (A - 1) g.  Then

    s <- c s - (nu . s) h,    N^-1 <- N^-1 - h (nu . N^-1) / c,
    h = N^-1 (a, 0),          c = 1 + nu . h

goes on into the new cell, for nu . s stays what it was; t may turn round.  A piece costs one
solution with sparse factors, that of h.

Two kinds of path lead to t = 0.  *Near* a guess y0, of contacts that yield, u = A y + w +
eps (y - y0), from z0 at t = 1 with d = -F(z0); the answer is the next guess, for a smaller eps.
Each is short, or ends nowhere.  *Far*, from y = 0, where all is open for a large t, with d inside
the cones that are dual to those of y: then y . d > 0 but for y = 0, and with w in the dual cones no
answer of (1) is far away for t > 0, so that the path must come to t = 0.  There is many a d: where
rounding leads astray another is taken.
"""

from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import linalg

_OPEN, _STICK, _SLIP = 0, 1, 2
CHAIN, _LOSS = 30, 1e-5  # pieces between factorisations, and c that ends them
_EPS, _FALL, _RISE, _LEAST = 1e-3, 0.1, 5.0, 1e-11  # of contacts that yield
_EACH, _FAILED = 300, 2  # pieces of a path near a guess, and such paths that end nowhere
_TRIES = 4  # directions d from afar
_NOISE = 1e-7  # of z0: so that no two contacts leave their cells at once
_POLISHED = 2  # corrections of an answer
_LEVEL = 1e-14  # dt of a direction, which is then of rounding
_AHEAD, _OFTEN, _ASTRAY = 0.03, 0.2, 10.0  # of the first t: where answers are asked for; too far


def near(W, q, mu, size, r, pieces, good):
    """An r with ``good(r)``, or None, and pieces made, ``pieces`` at most: from the guess ``r``.

    ``size`` is that of proximal.sizes.
    """
    path = _Path(W, q, mu, size, good)
    made = path.near(r, pieces)
    return path.found, made


def far(W, q, mu, size, pieces, good):
    """The same from no impulses, with several d, ``pieces`` along all of them."""
    path, made = _Path(W, q, mu, size, good), 0
    for number in range(_TRIES):
        if path.found is None:
            made += path.far(number, pieces - made)
    return path.found, made


class _Path:
    def __init__(self, W, q, mu, size, good):
        self.mu, self.p, self.good, self.found = mu, len(mu), good, None
        self.weight = np.repeat(np.sqrt(size), 2)
        scale = sparse.diags(1.0 / self.weight)
        self.one = sparse.eye(len(q), format="csc")
        self.A: Any = sparse.csc_matrix(scale @ W @ scale)
        self.rest: Any = self.A  # - 1, and eps where contacts yield
        w = q / self.weight
        self.unit = np.max(np.abs(w), initial=0.0) or 1.0  # of y and u: the law has no scale
        self.w = w / self.unit

    def near(self, r, pieces):
        """Pieces made from the guess r, of contacts that yield less and less."""
        y, w, rng = self.weight * r / self.unit, self.w, np.random.default_rng(self.p)
        eps, made, failed = _EPS, 0, 0
        while self.found is None and made < pieces and failed < _FAILED and eps > _LEAST:
            z = y - self.A @ y - w
            z += _NOISE * rng.uniform(-1.0, 1.0, len(z)) * (np.abs(z) + 1.0)
            self.rest, self.w = self.A - (1.0 - eps) * self.one, w - eps * y
            self.enter(z)
            more, end = self.followed(z, 1.0, -self.lack(z), min(pieces - made, _EACH))
            made, failed = made + more, failed + (end is None)
            y, eps = (y, _RISE * eps) if end is None else (end, _FALL * eps)
        self.w = w
        return made

    def far(self, number, pieces):
        """Pieces made from no impulses, in a direction d of this number."""
        rng, n = np.random.default_rng(number), self.w[::2]
        along = rng.uniform(-0.4, 0.4, self.p) / np.maximum(1.0, self.mu)
        d = np.column_stack([rng.uniform(0.5, 1.0, self.p), along])
        t = max(1.001 * np.max(-n / d[:, 0]), 1e-3)
        z = -self.w - t * d.ravel()
        self.rest = self.A - self.one
        self.enter(z)
        return self.followed(z, t, d.ravel(), pieces)[0]

    def enter(self, z):
        """The modes, and to which side contacts slip."""
        n, t = z[::2], z[1::2]
        self.side = np.where(t >= 0.0, 1.0, -1.0)
        self.mode = np.where(n <= 0.0, _OPEN, np.where(abs(t) <= self.mu * n, _STICK, _SLIP))

    def law(self, z):
        """P of (1) in the cell."""
        n, slips = np.where(self.mode == _OPEN, 0.0, z[::2]), self.side * self.mu * z[::2]
        t = np.where(self.mode == _SLIP, slips, np.where(self.mode == _STICK, z[1::2], 0.0))
        return np.column_stack([n, t]).ravel()

    def lack(self, z):
        """F of (1)."""
        return z + self.rest @ self.law(z) + self.w

    def followed(self, z, t, d, pieces):
        """Pieces made from z at t, and y where t = 0, or None; an answer is left in ``found``."""
        made, few, most = 0, _AHEAD * t, _ASTRAY * t
        try:
            z, t, s = self.renewed(z, t, d, np.append(0.0 * z, -1.0))
            while made < pieces and t <= most:
                if t < few:
                    few = _OFTEN * t
                    if self.answers(z):
                        break
                k, face, far = self.leaving(z, s[:-1])
                if s[-1] < -_LEVEL and far * s[-1] <= -t:
                    return made, self.ended(z, t, d, s)
                if not far < np.inf:
                    break
                z, t, made = z + far * s[:-1], t + far * s[-1], made + 1
                h, n, nu = self.crossed(k, face, z)
                c = 1.0 + nu @ h[n : n + 2]
                s = c * s - (nu @ s[n : n + 2]) * h
                if len(self.changes) + 1 >= CHAIN or abs(c) < _LOSS:
                    z, t, s = self.renewed(z, t, d, s)
                else:
                    self.changes.append((h / c, n, nu))
                s /= np.linalg.norm(s)
        except RuntimeError:  # N is singular
            pass
        return made, None

    def ended(self, z, t, d, s):
        """y where t = 0."""
        for turn in range(_POLISHED + 1):
            if turn:
                z, t, s = self.renewed(z, t, d, s)
            if not s[-1] < -_LEVEL:
                break
            z, t = z - t / s[-1] * s[:-1], 0.0
            if self.answers(z):
                break
        return self.law(z)

    def renewed(self, z, t, d, s):
        """z and t on the path, and its direction, with N anew."""
        normal, size = 2 * np.arange(self.p), 2 * self.p
        slip, stick = normal[self.mode == _SLIP], normal[self.mode == _STICK]
        row = np.concatenate([slip, slip + 1, stick, stick + 1])
        column = np.concatenate([slip, slip, stick, stick + 1])
        sides = (self.side * self.mu)[self.mode == _SLIP]
        entries = np.concatenate([np.ones(len(slip)), sides, np.ones(2 * len(stick))])
        B = sparse.csc_matrix((entries, (row, column)), shape=(size, size))
        N = sparse.bmat([[self.one + self.rest @ B, d[:, None]], [s[None, :-1], s[-1:, None]]])
        self.factors, self.changes = linalg.splu(N.tocsc()), []
        off, s = self.solved(self.lack(z) + t * d), self.solved(0.0 * d, 1.0)
        return z - off[:-1], t - off[-1], s / np.linalg.norm(s)

    def solved(self, x, last=0.0):
        """N^-1 (x, last)"""
        x = self.factors.solve(np.append(x, last))
        for h, n, nu in self.changes:
            x -= (nu @ x[n : n + 2]) * h
        return x

    def answers(self, z):
        """Whether y at z is an answer."""
        r = self.law(z) * self.unit / self.weight
        if self.good(r):
            self.found = r
        return self.found is not None

    def room(self, z):
        """(2, p) how far contacts are from the faces of their cells; of a rate, its own."""
        n, t, mode = z[::2], z[1::2], self.mode
        reach, along = self.mu * n, self.side * t
        first = np.where(mode == _OPEN, -n, np.where(mode == _SLIP, n, reach - t))
        other = np.where(mode == _OPEN, -n, np.where(mode == _SLIP, along - reach, reach + t))
        return np.stack([first, other])

    def leaving(self, z, dz):
        """The contact that leaves its cell first, through which face, and how far ahead."""
        rate = self.room(dz)
        falls = rate < 0.0
        ahead = np.where(falls, np.maximum(self.room(z), 0.0), np.inf)
        ahead /= np.where(falls, -rate, 1.0)
        place = int(np.argmin(ahead))
        return place % self.p, place // self.p, float(ahead.flat[place])

    def crossed(self, k, face, z):
        """Contact k goes into another mode: h, the place of z_k, and nu."""
        n, was, mu = 2 * k, self.mode[k], self.mu[k]
        if was == _OPEN or (was == _SLIP and not face):  # through z_n = 0
            if was == _OPEN:
                self.side[k] = 1.0 if z[n + 1] >= 0.0 else -1.0
            g, nu = np.array([1.0, self.side[k] * mu]), np.array([1.0, 0.0])
            self.mode[k] = _SLIP if was == _OPEN else _OPEN
        else:
            if was == _STICK:
                self.side[k] = -1.0 if face else 1.0
            g, nu = np.array([0.0, 1.0]), np.array([self.side[k] * mu, -1.0])
            self.mode[k] = _SLIP if was == _STICK else _STICK
        a, rest = np.zeros(2 * self.p), self.rest
        for place, part in zip((n, n + 1), -g if was == _SLIP else g, strict=True):
            own = slice(rest.indptr[place], rest.indptr[place + 1])
            a[rest.indices[own]] += part * rest.data[own]
        return self.solved(a), n, nu
