"""Friction of many contacts where sweeps crawl: Newton's method on proximal problems.

In y_k = sqrt|W_kk| r_k the law of kernels/numba/friction.py, (1), reads the same with u = A y + w,
|A_kk| = 1.  The proximal problem about a centre c,

    u = (A + eps) y + w - eps c                                                               (1)

is easy for large eps, whatever the rank of A, and its answer solves the law where y = c.  It is
solved by sweeps and by Newton steps on

    F_n = y_n - (z_n)_+,   F_t = y_t - P_D(z_t),    z = y - u,   D = { |t| <= mu (z_n)_+ }     (2)

(Alart and Curnier 1991; for the convex law F = y - P_K(z)) whose matrix is (1 - B) + B (A + eps)
with B the derivative of the right-hand sides by z, block by block.  Once it is solved well enough
c moves to y and eps falls; where that takes too long eps rises.

Where A = G G^T is known, G = D^(-1/2) H M^(-1/2), a step is found by the motions x = G^T dy of the
bodies: with C = (1 - B) + eps B, block by block,

    (1 + G^T C^-1 B G) x = -G^T C^-1 F,     dy = -C^-1 (F + B G x)                            (3)

Bodies are coupled if they touch, contacts if they have a body in common, and bodies are fewer; so
(3) has a few entries where (2) has many (5690 contacts of a pour: a fifth of the time).
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse import linalg

from carom.kernels import friction
from carom.projection.cones import onto_cone

_START, _FALL = 0.1, 0.3  # eps: at first, and when a problem is solved
_LEAST, _MOST = 1e-11, 10.0
_NEAR = 0.3  # of the residual of the law: the proximal problem is solved well enough
_PARTS = (1.0, 0.5, 0.2, 0.05)  # of a Newton step, which are tried
_DENSE = 100  # unknowns, up to which a matrix is factorised as a full one
_PATIENCE = 6  # turns without a better r, after which full steps are given up
_PIVOT = 1e-7  # of the factor of a regular W: the root of what rounding leaves of a pivot, times 10
# The pattern of (3) is symmetric, and its diagonal serves as pivots
_SYMMETRIC: Any = {
    "permc_spec": "MMD_AT_PLUS_A",
    "diag_pivot_thresh": 0.0,
    "options": {"SymmetricMode": True},
}


class Pace(NamedTuple):
    """How sweeps and Newton steps share the work."""

    sweeps: int  # before a Newton step
    spared: bool  # whether there is no such step where the sweeps do
    tries: int  # turns, after which a proximal problem is not solved, and ...
    rise: float  # ... eps rises
    quick: int  # turns within which it must be solved for eps to fall


FEW = Pace(10, False, 8, 3.0, 8)
MANY = Pace(100, True, 4, 2.0, 2)  # of thousands of contacts: a step takes as long as many sweeps


def solve(
    W, q, mu, dim, size, index, data, r, goal, coulomb, turns, good=None, root=None, pace=FEW
):
    """From r until the residual is at most ``goal``; returns r, turns and the residual.

    ``size``, ``index`` and ``data`` are of `sizes` and `packed`.  ``good(r)`` takes the place of
    the goal, which is then about what it asks for.  ``root`` is H M^(-1/2), if known.
    """
    weight = np.repeat(np.sqrt(size), dim)
    scale = sparse.diags(1.0 / weight)
    A, w = (scale @ W @ scale).tocsc(), q / weight
    G = None if root is None else (scale @ root).tocsr()
    proximal = _Proximal(dim, index, data, A.shape[0] // dim, size)
    law = _Law(mu, dim, coulomb, weight)
    y = weight * r
    centre, eps, tries = y, _START, 0
    best, least = y, law.residual(y, A @ y + w)
    near = _NEAR * least
    for turn in range(turns):
        y = proximal.swept(y / weight, centre / weight, eps, goal, coulomb, pace.sweeps)
        y *= weight
        u = A @ y + w + eps * (y - centre)
        found = law.residual(y, u)
        if not (pace.spared and found <= near):
            step = _step(law, A, y, u, eps, G)
            moved = A @ step + eps * step
            if np.all(np.isfinite(moved)):
                trials = [law.residual(y + part * step, u + part * moved) for part in _PARTS]
                which = int(np.argmin(trials))
                if trials[which] < found:
                    y, found = y + _PARTS[which] * step, trials[which]
        whole = law.residual(y, A @ y + w)
        if whole < least:
            best, least = y, whole
        if least <= goal if good is None else good(best / weight):
            return best / weight, turn + 1, least
        tries += 1
        if found <= near:
            fall = _FALL if tries <= pace.quick else 1.0
            centre, near, eps, tries = y, _NEAR * whole, max(fall * eps, _LEAST), 0
        elif tries >= pace.tries:
            eps, tries = min(pace.rise * eps, _MOST), 0
    return best / weight, turns, least


def plain(W, q, mu, dim, size, r, goal, coulomb):
    """Full Newton steps on (2) itself, eps = 0; of a W that is regular, as where bodies deform.

    They mostly end in three to nine turns, where stiff bodies ask for thousands of sweeps, or go
    astray.  Returns the best r, turns and its residual.
    """
    weight = np.repeat(np.sqrt(size), dim)
    A, w = W.toarray() / weight[:, None] / weight, q / weight
    law, y = _Law(mu, dim, coulomb, weight), weight * r
    u = A @ y + w
    best, least, turn, since = y, law.residual(y, u), 0, 0
    while since < _PATIENCE and not least <= goal:
        try:
            y = y + _full_step(A, *law.newton(y, u), len(mu), dim)
        except np.linalg.LinAlgError:
            break
        u, turn, since = A @ y + w, turn + 1, since + 1
        found = law.residual(y, u)
        if found < least:
            best, least, since = y, found, 0
    return best / weight, turn, least


def regular(W):
    """Whether W (symmetric part, diagonal 1) has no eigenvalue that is rounding: by its factor."""
    full, diagonal = W.toarray(), W.diagonal()
    if not np.min(diagonal) > 0.0:
        return False
    size = np.sqrt(diagonal)
    try:
        pivots = np.diagonal(np.linalg.cholesky(0.5 * (full + full.T) / size[:, None] / size))
    except np.linalg.LinAlgError:
        return False
    return bool(np.min(pivots) > _PIVOT)


class _Proximal:
    """Sweeps over the proximal problem, in r."""

    def __init__(self, dim, index, data, n, sizes):
        m = dim * dim
        to = index[n + 1 :]
        column = np.repeat(np.arange(n), np.diff(index[: n + 1]))
        own = np.flatnonzero(to // dim == column)
        first = m * len(to)
        diagonal = np.arange(dim) * (dim + 1)
        self.dim, self.index, self.data, self.sizes = dim, index, data, sizes
        self.entries = np.concatenate(  # of W_kk: in the blocks, alone, damped
            [
                (m * own[:, None] + diagonal).ravel(),
                (first + m * np.arange(2 * n)[:, None] + diagonal).ravel(),
            ]
        )
        self.added = np.repeat(np.concatenate([sizes[column[own]], sizes, sizes]), dim)

    def swept(self, r, centre, eps, goal, coulomb, sweeps):
        data, size = self.data.copy(), len(r)
        data[self.entries] += eps * self.added
        data[-size:] -= eps * np.repeat(self.sizes, self.dim) * centre
        work = np.zeros(4 * size + len(self.sizes))
        work[:size] = r
        friction.sweeps(self.dim, coulomb, self.index, data, 0.1 * goal, sweeps, np.inf, work)
        return work[:size]


class _Law:
    """The natural map, and what Newton's method brings to zero with its derivative."""

    def __init__(self, mu, dim, coulomb, weight):
        self.mu, self.dim, self.coulomb, self.weight = mu, dim, coulomb, weight

    def residual(self, y, u):
        """The norm of the natural map as a velocity."""
        y, u = y.reshape(-1, self.dim), u.reshape(-1, self.dim)
        z = y - u
        if self.coulomb:
            z[:, 0] -= self.mu * np.linalg.norm(u[:, 1:], axis=1)
        return float(np.linalg.norm(self.weight * (y - onto_cone(z, self.mu, np)).ravel()))

    def newton(self, y, u):
        """F (n, dim) and B (n, dim, dim)."""
        mu, m = self.mu, self.dim
        z = (y - u).reshape(-1, m)
        normal, t = z[:, 0], z[:, 1:]
        length = np.linalg.norm(t, axis=1)
        unit = t / np.where(length > 0.0, length, 1.0)[:, None]
        turning = np.eye(m - 1) - unit[:, :, None] * unit[:, None, :]
        B, onto = np.zeros((len(mu), m, m)), np.zeros_like(z)
        if self.coulomb:
            closed = normal > 0.0
            reach = mu * np.maximum(normal, 0.0)
            inside = closed & (length <= reach)
            edge = closed & ~inside
            onto[edge, 0], B[edge, 0, 0] = normal[edge], 1.0
            B[edge, 1:, 0] = mu[edge, None] * unit[edge]
        else:
            inside = (length <= mu * normal) & (normal >= 0.0)
            polar = mu * length <= -normal
            edge = ~inside & ~polar
            reach = mu * (normal + mu * length) / (1.0 + mu**2)
            onto[edge, 0] = ((normal + mu * length) / (1.0 + mu**2))[edge]
            ray = np.column_stack([np.ones(len(mu)), mu[:, None] * unit])
            B[edge] = (ray[:, :, None] * ray[:, None, :] / (1.0 + mu**2)[:, None, None])[edge]
        onto[edge, 1:] = reach[edge, None] * unit[edge]
        ratio = reach[edge] / np.where(length > 0.0, length, 1.0)[edge]
        B[edge, 1:, 1:] += ratio[:, None, None] * turning[edge]
        onto[inside], B[inside] = z[inside], np.eye(m)
        return y - onto.ravel(), B


def _step(law, A, y, u, eps, G=None):
    """-((1 - B) + B (A + eps))^-1 F, by (3) where G is given; nan where that is singular."""
    F, B = law.newton(y, u)
    try:
        if len(y) <= _DENSE:
            full = A.toarray() + eps * np.eye(len(F))
            return _full_step(full, F, B, len(law.mu), law.dim)
        if G is not None:
            return _step_of_bodies(G, F, B, eps)
        one, blocks = sparse.eye(len(y), format="csc"), _diagonal(B)
        return linalg.splu((one - blocks + blocks @ (A + eps * one)).tocsc()).solve(-F)
    except (np.linalg.LinAlgError, RuntimeError):
        return np.full_like(y, np.nan)


def _full_step(full, F, B, n, m):
    """-((1 - B) + B full)^-1 F."""
    J = (B @ full.reshape(n, m, -1)).reshape(len(F), -1)
    for a in range(m):
        for b in range(m):
            at = m * np.arange(n)
            J[at + a, at + b] += (a == b) - B[:, a, b]
    return np.linalg.solve(J, -F)


def _step_of_bodies(G, F, B, eps):
    """(3); what is open drops out, so that bodies without a contact that pushes stand alone."""
    n, m = B.shape[:2]
    C = np.eye(m) - B + eps * B
    direct = np.linalg.solve(C, F.reshape(n, m, 1)).ravel()
    through = _diagonal(np.linalg.solve(C, B))
    matrix = sparse.eye(G.shape[1], format="csc") + (G.T @ (through @ G)).tocsc()
    x = linalg.splu(matrix, **_SYMMETRIC).solve(-(G.T @ direct))
    return -direct - through @ (G @ x)


def _diagonal(B):
    """The blocks (n, m, m) as a matrix."""
    n, m = B.shape[:2]
    return sparse.bsr_matrix((B, np.arange(n), np.arange(n + 1)), shape=(n * m, n * m))


def residual(W, q, mu, dim, size, r):
    """The norm of the natural map of Coulomb's law at r, a velocity."""
    weight = np.repeat(np.sqrt(size), dim)
    return _Law(mu, dim, True, weight).residual(weight * r, (W @ r + q) / weight)


def sizes(W, dim):
    """Diagonal blocks (n, dim, dim) of W and their 2-norms; a block of zeros counts as 1 or as the
    largest, so that the natural map is defined."""
    n = W.shape[0] // dim
    blocks = np.zeros((n, dim, dim))
    row, column = W.indices, np.repeat(np.arange(W.shape[1]), np.diff(W.indptr))
    own = row // dim == column // dim
    blocks[row[own] // dim, row[own] % dim, column[own] % dim] = W.data[own]
    size = np.linalg.norm(blocks, 2, axis=(1, 2)) if n else np.zeros(0)
    return blocks, np.where(size > 0.0, size, np.max(size, initial=0.0) or 1.0)


def packed(W, q, mu, dim, damping=friction.DAMPING):
    """``index`` and ``data`` of kernels/numba/friction.py."""
    columns = sparse.bsr_matrix(W.T.tocsr(), blocksize=(dim, dim))
    columns.sort_indices()
    blocks, size = sizes(W, dim)
    damped = blocks + damping * size[:, None, None] * np.eye(dim)
    index = np.concatenate([columns.indptr, dim * columns.indices.astype(np.int64)])
    entries = columns.data.transpose(0, 2, 1)
    parts = [entries, blocks, damped, size, 1.0 / size, mu, q]
    return index.astype(np.int64), np.concatenate([part.ravel() for part in parts])
