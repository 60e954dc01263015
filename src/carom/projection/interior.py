"""Coulomb's law of many contacts along a smooth path through the inside of the cones.

With r = S y, and u = S w of the velocities w with De Saxcé's shift, S the units of proximal.py and
of normals 1 / mu, the cones are all Lorentz's, L = { |x_t| <= x_n }, and with e their axis the law
is

    L ∋ y   perp   u ∈ L,        u = A y + c + |u_t| e                                        (1)

Inside of the cones, where x^-1 = (x_n, -x_t) / det x and det x = x_n^2 - |x_t|^2, follow

    u = tau y^-1,       u = A y + c + phi e + tau p,       phi^2 = |u_t|^2 + (s tau)^2        (2)

from tau = 1 and y = u = e, for which p is chosen, to tau = 0, where (2) is (1).  A Newton step
towards the point with tau + dtau, in the scaling of Nesterov and Todd, Theta y = u, is

    du = (tau + dtau) y^-1 - u - Theta dy                                                     (3)
    ( A + (1 - e g^T) Theta ) dy = (1 - e g^T) (du + Theta dy) + F - (p + e dphi/dtau) dtau    (4)

with g = u_t / phi and F what u lacks in (2).  Of a convex law tau falls all along, and this is an
interior-point method; here the path may turn back, and come again.  It is followed by its length,
in the scaling, and which way it goes on is told by its orientation: tau falls where the determinant
of (4) has the sign that it had at the start, and else rises.  The scaling knows no masses: those of
1 : 10^6 make paths hardly longer.
"""

from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph, linalg

_LEAST_MU = 1e-6  # less counts as this on the path
_SMOOTH = (1.0, 10.0)  # s, one path after the other
_NEAR = 0.6  # of y and u, the last Newton step of a point of the path
_NEWTON, _WORSE = 4, 2.0  # of these steps, at most; and by how much one may be longer
_FIRST, _LONGEST = 0.5, 5.0  # step along the path
_LONGER = (2.0, 1.4, 0.8, 0.8)  # the next one, after so many Newton steps
_SHORTER, _HALVINGS = 0.4, 12
_INSIDE, _DOWN = 0.7, 0.9  # of the way to the edge of the cones, and to tau = 0
_BELOW = 1e-2  # tau from which on a point may be an answer
_ENDS = (1e-6, 1e-9, 1e-12)  # tau from where another method may end it
_LAST = 1e-20
_PIVOTS: Any = {
    "permc_spec": "MMD_AT_PLUS_A",
    "diag_pivot_thresh": 0.1,
    "options": {"SymmetricMode": True},
}


def solve(W, q, mu, dim, size, good, ended, turns):
    """Follow (2) until ``good(r)``, or ``ended(r)`` of another method; factorisations made.

    ``good`` is told of every r on the way, and keeps the best; there are at most ``turns``.
    ``size`` is that of proximal.sizes.
    """
    made = 0
    for k, smooth in enumerate(_SMOOTH, start=1):
        path = _Path(W, q, mu, dim, size, smooth)
        led = path.followed(good, ended, k * turns // len(_SMOOTH) - made)
        made += path.made
        if led:
            break
    return made


class _Path:
    """A, c and p of (2), and a point on it."""

    def __init__(self, W, q, mu, dim, size, smooth):
        n = len(mu)
        units = np.repeat(1.0 / np.sqrt(size), dim).reshape(n, dim)
        units[:, 0] /= np.maximum(mu, _LEAST_MU)
        S = sparse.diags(units.ravel())
        A = (S @ W @ S).tocoo()
        inside = np.arange(n)[:, None, None] * dim
        a, b = np.broadcast_arrays(inside + np.arange(dim)[:, None], inside + np.arange(dim))
        # one pattern for (4): entries of A, then those of its blocks on the diagonal
        self.where = np.append(A.row, a.ravel()), np.append(A.col, b.ravel())
        self.data, self.A = A.data, A.tocsr()
        c = units.ravel() * q
        self.unit = np.max(np.abs(c), initial=0.0) or 1.0  # of y and u: the law has no scale
        self.units, self.c, self.smooth = units, (c / self.unit).reshape(n, dim), smooth
        self.y, self.tau, self.made = np.eye(1, dim).repeat(n, axis=0), 1.0, 0
        self.u = self.y.copy()
        self.p = np.zeros_like(self.y)
        self.p = self._lack(self.y, self.u, 1.0)[0]
        self.sign = 0.0  # of the determinant at the start

    def impulse(self):
        return self.unit * (self.units * self.y).ravel()

    def followed(self, good, ended, turns):
        """Whether the path led to an answer."""
        with np.errstate(all="ignore"):  # what is no number ends it
            return self._followed(good, turns, ended) or ended(self.impulse())

    def _followed(self, good, turns, ended):
        ends, h = list(_ENDS), _FIRST
        try:
            line = self._line(self.y, self.u, self.tau)
            while self.made < turns and self.tau > _LAST:
                h, line = self._on(line, h, turns)
                if line is None:
                    break
                r = self.impulse()
                if self.tau < _BELOW and good(r):
                    return True
                if ends and self.tau < ends[0]:
                    ends.pop(0)
                    if ended(r):
                        return True
        except RuntimeError:  # (4) is singular
            pass
        return False

    def _on(self, line, h, turns):
        """A step along the path: how long the next may be, and the line there; None if stuck."""
        way = line.along()
        for _ in range(_HALVINGS):
            h = min(h, _room(self.y, self.u, self.tau, way, _INSIDE))
            at = [x + h * d for x, d in zip((self.y, self.u, self.tau), way, strict=True)]
            last = np.inf
            for turn in range(_NEWTON):
                if self.made >= turns:
                    return h, None
                beside = self._line(*at)
                step = beside.towards(way)
                size = beside.largest(step)
                if not size <= _WORSE * last:
                    break
                last, room = size, min(1.0, _room(*at, step, _DOWN))
                at = [x + room * d for x, d in zip(at, step, strict=True)]
                if size <= _NEAR and room == 1.0:
                    self.y, self.u, self.tau = at
                    return min(_LONGER[turn] * h, _LONGEST), self._line(*at)
            h *= _SHORTER
        return h, None

    def _lack(self, y, u, tau):
        """F, g and dphi/dtau."""
        sharp = self.smooth * tau
        phi = np.sqrt(np.sum(u[:, 1:] ** 2, axis=1) + sharp**2)
        F = u - (self.A @ y.ravel()).reshape(y.shape) - self.c - tau * self.p
        F[:, 0] -= phi
        return F, u[:, 1:] / phi[:, None], self.smooth * sharp / phi

    def _line(self, y, u, tau):
        """(3) and (4) solved, with dtau left open."""
        F, g, bent = self._lack(y, u, tau)
        theta, n, m = _scaling(y, u), *y.shape
        blocks = theta.copy()
        blocks[:, 0] -= np.einsum("ka,kab->kb", g, theta[:, 1:])
        values = np.append(self.data, blocks.ravel())
        factor = linalg.splu(sparse.csc_matrix((values, self.where), (n * m, n * m)), **_PIVOTS)
        self.made += 1
        inverse = _inverse(y)
        right = np.stack([tau * inverse - u, inverse])
        rest = right.copy()
        rest[..., 0] -= np.einsum("ka,ska->sk", g, right[..., 1:])
        rest[0] += F
        rest[1] -= self.p
        rest[1, :, 0] -= bent
        dy = factor.solve(np.ascontiguousarray(rest.reshape(2, -1).T)).T.reshape(2, n, m)
        du = right - np.einsum("kab,skb->ska", theta, dy)
        sign = _sign(factor)
        self.sign = self.sign or sign
        falls = self.sign == sign
        return _Line(dy, du, tau, theta, _scaling(u, y), falls)


class _Line:
    """Newton steps (dy, du, dtau) from a point, a line of them: first + dtau (along, 1)."""

    def __init__(self, dy, du, tau, theta, back, falls):
        self.first, self.rate = (dy[0], du[0], 0.0), (dy[1], du[1], 1.0)
        self.tau, self.theta, self.back, self.falls = tau, theta, back, falls

    def product(self, one, other):
        """Of two steps, in the scaling: a mean over contacts, relative to y and u."""
        y = np.einsum("ka,kab,kb->", one[0], self.theta, other[0])
        u = np.einsum("ka,kab,kb->", one[1], self.back, other[1])
        return (y + u) / (self.tau * len(self.theta)) + one[2] * other[2] / self.tau**2

    def length(self, step):
        found = np.sqrt(self.product(step, step))
        return found if np.isfinite(found) else np.inf

    def largest(self, step):
        """Of all contacts, relative to y and u."""
        y = np.einsum("ka,kab,kb->k", step[0], self.theta, step[0])
        u = np.einsum("ka,kab,kb->k", step[1], self.back, step[1])
        found = np.sqrt(np.max((y + u) / self.tau)) + abs(step[2]) / self.tau
        return found if np.isfinite(found) else np.inf

    def along(self):
        """The step of length 1 along the path."""
        size = (-1.0 if self.falls else 1.0) / self.length(self.rate)
        return tuple(size * x for x in self.rate)

    def towards(self, way):
        """The Newton step across ``way``."""
        across = self.product(self.rate, way)
        size = -self.product(self.first, way) / across if across else 0.0
        return tuple(a + size * b for a, b in zip(self.first, self.rate, strict=True))


def _det(x, z):
    return x[:, 0] * z[:, 0] - np.sum(x[:, 1:] * z[:, 1:], axis=1)


def _inverse(x):
    back = -x
    back[:, 0] = x[:, 0]
    return back / _det(x, x)[:, None]


def _scaling(y, u):
    """Theta (n, m, m), symmetric and positive, with Theta y = u."""
    sizes = [np.sqrt(np.maximum(_det(x, x), 1e-300)) for x in (y, u)]
    (y, u), m = (x / size[:, None] for x, size in zip((y, u), sizes, strict=True)), y.shape[1]
    flip = np.append(1.0, -np.ones(m - 1))
    w = (flip * y + u) / np.sqrt(2.0 + 2.0 * np.sum(y * u, axis=1))[:, None]
    return (2.0 * w[:, :, None] * w[:, None] - np.diag(flip)) * (sizes[1] / sizes[0])[:, None, None]


def _room(y, u, tau, step, part):
    """This part of how many steps lead to the edge of a cone, or to tau = 0."""
    most = min(_edge(y, step[0]), _edge(u, step[1]))
    return part * min(most, -tau / step[2] if step[2] < 0.0 else np.inf)


def _edge(x, d):
    """How often d can be added before x leaves its cone: the least root of det(x + s d)."""
    a, b, c = _det(d, d), _det(x, d), _det(x, x)
    root = np.sqrt(np.maximum(b * b - a * c, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        # where it leaves, b < root: of the two roots this is the positive one, or the first
        found = c / (root - b)
    leaves = (root > b) & ((b * b >= a * c) | (a < 0.0))
    return float(np.min(np.where(leaves & (found > 0.0), found, np.inf), initial=np.inf))


def _sign(factor):
    """Of the determinant."""
    order = np.empty(len(factor.perm_r), int)
    order[factor.perm_r] = factor.perm_c  # one permutation after the other
    n = len(order)
    graph = sparse.coo_matrix((np.ones(n), (np.arange(n), order)), (n, n))
    odd = (n - csgraph.connected_components(graph)[0]) % 2
    negative = np.count_nonzero(factor.U.diagonal() < 0.0) % 2
    return -1.0 if odd != negative else 1.0
