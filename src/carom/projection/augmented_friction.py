"""Friction of many contacts whose impulses must grow far: the method of multipliers.

Contacts that fill their box press on each other for as long as they slide: the answer may be many
times the guess, while velocities hardly differ.  In the scales of proximal.py, u = G x + w with
x = G^T y the motion of the bodies, and about a centre c,

    z = c - u / eps,     l = P(z),     F(x) = x - G^T l = 0                                   (1)

with Coulomb's law l_n = (z_n)_+, l_t = z_t within the disc of radius mu l_n, or with the convex law
P = P_K.  Then c <- l (as in augmented.py), a step of about -u / eps: the smaller eps, the faster
impulses grow.  Newton's method has as many unknowns as bodies have motions,

    (1 + G^T P'(z) G / eps) dx = -F(x)                                                        (2)

Of the convex law F is the gradient of the convex function

    1/2 |x|^2 + eps/2 |P_K(z)|^2                                                              (3)

along whose Newton steps the slope only grows: it goes to where that is 0, and ends.  Coulomb's law
has no such function.  There a step must lessen |F|, and where none does, which is seen after a few,
c stays and eps rises: for a large eps (1) has one answer, near c.

For a small eps u / eps is mostly rounding, and F cannot get small.  A few steps of proximal.py, (3)
there, on the same problem written in y, which has no such quotient, then find l.

Where W is all that is known, x = y takes the place of G^T y and A = G G^T that of G: all of this
reads the same, with as many unknowns as contacts have.

The law does not change where the normal rows, their q and mu are divided by the same number, a unit
of the normal; how far (2) leads does.  With mu = 1000 the unit sqrt(mu) solves most of what 1 does
not, for what slides then moves as its normal does, and not a thousand times as far.
"""

from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import linalg

from carom.projection import proximal
from carom.projection.cones import onto_cone

_EPS, _FALL, _RISE = 0.1, 0.3, 5.0  # eps at first, where (1) is solved, and where it is not
_LEAST, _MOST = 1e-10, 10.0
_INNER = {True: 20, False: 60}  # Newton steps about a centre, of Coulomb's law and the convex one
_PARTS = (1.0, 0.5, 0.25, 0.1, 0.03)  # of a step, of which the first that will do is made ...
_LESSENED = 0.1  # ... by this part of itself
_NEAR = 0.1  # of the residual of the law: (1) is solved well enough
_SLOPE, _HALVES = 0.1, 30  # of that along a step, which may be left at its end; halvings of it
_ROUNDING = 1e-8  # of |x| + |l|: F may be so much by it
_POLISHED = 3  # steps in y
_DENSE, _FILLED = 60, 0.3  # unknowns up to which, and part of G beyond which, (2) is a full matrix
# Of Coulomb's law (2) is not symmetric, but its pattern is, and its diagonal serves as pivots
_PIVOTS: Any = {
    "permc_spec": "MMD_AT_PLUS_A",
    "diag_pivot_thresh": 0.0,
    "options": {"SymmetricMode": True},
}


def solve_in_units(unit, root, q, mu, dim, r, good, turns):
    """As ``solve`` for Coulomb's law, with normals in the units ``unit`` (n,)."""
    narrow = np.ones(len(q))
    narrow[::dim] = 1.0 / unit
    root = sparse.diags(narrow) @ root
    size = proximal.sizes((root @ root.T).tocsc(), dim)[1]
    given = root, narrow * q, mu / unit, dim, size, r / narrow
    r, made = solve(*given, lambda r: good(narrow * r), turns)
    return narrow * r, made


def solve(root, q, mu, dim, size, r, good, turns, coulomb=True, W=None):
    """r from a guess until ``good(r)``, and Newton steps, of which there are about ``turns``.

    ``root`` (dim n, d) is H M^(-1/2) with W = root root^T; where it is None, W will do.  With both
    W = root root^T need hold but nearly: w takes what is left of W r.  ``size`` is that of
    proximal.sizes.
    """
    contacts = _Contacts(root, W, q, mu, dim, size, coulomb)
    y = r * contacts.weight / contacts.unit
    x, left, eps, made = contacts.GT @ y, contacts.residual(y), _EPS, 0
    while made < turns:
        x1, y1, more, solved = contacts.about(y, eps, x, _NEAR * left)
        made += more + 1
        if solved:
            x, y, left = x1, y1, contacts.residual(y1)
            r = y * contacts.unit / contacts.weight
            if good(r):
                break
            contacts.mend(y)
        eps = min(max((_FALL if solved else _RISE) * eps, _LEAST), _MOST)
    return r, made


class _Contacts:
    """G, w and the law."""

    def __init__(self, root, W, q, mu, dim, size, coulomb):
        self.mu, self.m = mu, dim
        self.weight = np.repeat(np.sqrt(size), dim)
        scale, self.rooted = sparse.diags(1.0 / self.weight), root is not None
        self.G: Any = sparse.csr_matrix(scale @ root if self.rooted else scale @ W @ scale)
        self.A: Any = None if W is None else sparse.csr_matrix(scale @ W @ scale)
        self.GT = self.G.T.tocsr() if self.rooted else sparse.eye(len(q), format="csr")
        dense = self.G.shape[1] <= _DENSE or self.G.nnz > _FILLED * np.prod(self.G.shape)
        self.full = self.G.toarray() if dense and self.rooted else None
        w = q / self.weight
        self.unit = np.max(np.abs(w), initial=0.0) or 1.0  # of y and u: the law has no scale
        self.w = self.free = w / self.unit
        self.law = proximal._Law(mu, dim, coulomb, np.ones(len(q)))
        self.coulomb = coulomb

    def mend(self, y):
        """w with what is left of A y."""
        if self.rooted and self.A is not None:
            self.w = self.free + (self.A @ y - self.G @ (self.GT @ y))

    def residual(self, y):
        """The norm of the natural map."""
        return self.law.residual(y, self.G @ (self.GT @ y) + self.w)

    def about(self, c, eps, x, goal):
        """x and l of (1) from a guess of x, Newton steps made, and whether |F| <= goal."""
        F, l, B, z = self.lack(c, eps, x)
        last = np.inf
        for turn in range(_INNER[self.coulomb]):
            size = np.linalg.norm(F)
            if size <= goal:
                return x, l, turn, True
            if last <= size <= _ROUNDING * (np.linalg.norm(x) + np.linalg.norm(l)):
                return self.polished(c, eps, l, goal, turn)
            last = size
            step = self.newton(F, B, eps)
            if not np.all(np.isfinite(step)):
                return x, l, turn, False
            if not self.coulomb:
                x = x + self.part(x, z, eps, step) * step
                F, l, B, z = self.lack(c, eps, x)
                continue
            for part in _PARTS:
                trial = self.lack(c, eps, x + part * step)
                if np.linalg.norm(trial[0]) < (1.0 - _LESSENED * part) * size:
                    break
            else:
                return x, l, turn + 1, False
            x, (F, l, B, z) = x + part * step, trial
        return x, l, _INNER[self.coulomb], bool(np.linalg.norm(F) <= goal)

    def polished(self, c, eps, y, goal, turn):
        """As ``about``, from l with little but rounding in it."""
        for more in range(_POLISHED + 1):
            u = self.G @ (self.GT @ y) + self.w + eps * (y - c)
            F, B = self.law.newton(y, u)
            if np.linalg.norm(F) <= goal:
                return self.GT @ y, y, turn + more, True
            try:
                y = y + self.step(y, u, F, B, eps)
            except (np.linalg.LinAlgError, RuntimeError):
                break
        return self.GT @ y, y, turn + _POLISHED, False

    def step(self, y, u, F, B, eps):
        if self.rooted:
            return proximal._step_of_bodies(self.G, F, B, eps)
        return proximal._step(self.law, self.G, y, u, eps)

    def lack(self, c, eps, x):
        """F of (1), l, P' (n, m, m) and z."""
        z = c - (self.G @ x + self.w) / eps
        rest, B = self.law.newton(z, np.zeros_like(z))
        l = z - rest
        return x - self.GT @ l, l, B, z

    def newton(self, F, B, eps):
        """dx of (2); nan where that is singular."""
        try:
            if self.full is not None:
                n, m = B.shape[:2]
                through = (B @ self.full.reshape(n, m, -1)).reshape(n * m, -1) / eps
                return np.linalg.solve(np.eye(len(F)) + self.full.T @ through, -F)
            if not self.rooted:
                return self.of_closed(F, B, eps)
            through = proximal._diagonal(B / eps) @ self.G
            matrix = sparse.eye(len(F), format="csc") + (self.GT @ through).tocsc()
            return linalg.splu(matrix, **_PIVOTS).solve(-F)
        except (np.linalg.LinAlgError, RuntimeError):
            return np.full_like(F, np.nan)

    def of_closed(self, F, B, eps):
        """The same where G = A: of what is open it is -F, and known to the others."""
        closed = np.repeat(np.any(B != 0.0, axis=(1, 2)), self.m)
        step = np.where(closed, 0.0, -F)
        B = proximal._diagonal(B[closed[:: self.m]] / eps)
        rows = self.G[closed]
        matrix = sparse.eye(rows.shape[0], format="csc") + (B @ rows[:, closed]).tocsc()
        step[closed] = linalg.splu(matrix, **_PIVOTS).solve(-F[closed] - B @ (rows @ step))
        return step

    def part(self, x, z, eps, step):
        """Of a Newton step, to where the slope of (3) along it is 0."""
        moved = self.G @ step
        kick, heavy = (x @ step, step @ step) if self.rooted else (x @ moved, step @ moved)
        z, dz = z.reshape(-1, self.m), (moved / eps).reshape(-1, self.m)

        def along(part):
            return kick + part * heavy - onto_cone(z - part * dz, self.mu, np).ravel() @ moved

        least = -_SLOPE * along(0.0)
        if along(1.0) <= least:
            return 1.0
        low, high, middle = 0.0, 1.0, 0.5
        for _ in range(_HALVES):
            slope = along(middle)
            if abs(slope) <= least:
                break
            low, high = (middle, high) if slope < 0.0 else (low, middle)
            middle = 0.5 * (low + high)
        return middle
