"""Roots G of W = G G^T with few entries: a column for each motion of a body.

Where M consists of small blocks, M = L L^T, G^T = L^-1 H.  Where W alone is given, its entries tell
the bodies.  W = H^T M^-1 H couples two contacts where they have a body in common.  Contacts with
the same neighbours are one *face* f; the faces of a body b couple all with each other, and two
faces have at most one body in common.  With G_fb the rows of face f in the motions of b,

    W_fg = G_fb G_gb^T  for two faces of b,    W_ff = sum of D_fb,   D_fb = G_fb G_fb^T       (1)

*Which bodies there are* follows from one of them: what a face couples with outside of one body is
its other body.

*Their motions*, 6 in space and 3 in the plane, are known up to a rotation, which does not matter,
from one D_fb with all of them: G_fb is a root of it, and with its pseudo-inverse

    G_gb^T = G_fb^-1 W_fg   for the other faces of b                                          (2)

D_fb is W_ff less D of the other body, if that is known; or, with faces S and T of b,

    D_fb = W_fS (W_TS)^-1 W_Tf                                                                (3)

What is left of W_ff in the end has columns of its own: a body with one face, or none.  A face with
one body left may take all that is left of W_ff: then the next D is a Schur complement.

All of this may fail, for single points as those of spheres above all: W = G G^T is looked at.
"""

from collections import deque
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

_MOTIONS = {2: 3, 3: 6}
_NONE = 1e-13  # of the sizes of two contacts: a block of W that is nothing
_RANK, _WELL = 1e-5, 1e-2  # of the largest singular value: not zero, and good enough
_LEFT = 1e-12  # of the size of a contact: nothing is left of W_ff
_EXACT = 1e-8  # of the sizes of two contacts: W and G G^T differ by no more
_ROUNDING = 1e-14  # of the largest eigenvalue of W: no motion
_BLOCK = 12  # rows of M that belong together, at most


def lower(M) -> Any:
    """L^-1 of M = L L^T, sparse, where M is symmetric and consists of small blocks; else None."""
    if M.nnz == M.shape[0]:
        return sparse.diags(1.0 / np.sqrt(M.diagonal())).tocsr()
    count, label = csgraph.connected_components(M, directed=False)
    sizes = np.bincount(label, minlength=count)
    if np.max(sizes, initial=0) > _BLOCK or abs(M - M.T).max() > _NONE * abs(M).max():
        return None
    M, pieces = M.tocsr(), []
    for rows in np.split(np.argsort(label, kind="stable"), np.cumsum(sizes)[:-1]):
        try:
            L = np.linalg.cholesky(M[rows][:, rows].toarray())
        except np.linalg.LinAlgError:
            return None
        pieces.append((rows, np.linalg.inv(L), rows))
    return _assembled(pieces, M.shape)


def of_all(W) -> Any:
    """G of a small W from all of its entries, but for what is not symmetric or negative."""
    full = W.toarray()
    square, axes = np.linalg.eigh(0.5 * (full + full.T))
    kept = square > _ROUNDING * np.max(square, initial=0.0)
    return sparse.csr_matrix(axes[:, kept] * np.sqrt(square[kept]))


def of_bodies(W, dim, size) -> Any:
    """G (dim n, columns) with W = G G^T, sparse, or None; ``size`` is that of proximal.sizes."""
    scale = sparse.diags(1.0 / np.repeat(np.sqrt(size), dim))
    A = (scale @ W @ scale).tocsr()
    faces, beside = _faces(A, dim)
    bodies = _bodies(beside)
    if bodies is None:
        return None
    rows = [(dim * face[:, None] + np.arange(dim)).ravel() for face in faces]
    G = _Motions(A, rows, bodies, _MOTIONS[dim]).root()
    if G is None or np.max(np.abs((A - G @ G.T).data), initial=0.0) > _EXACT:
        return None
    return sparse.diags(np.repeat(np.sqrt(size), dim)) @ G


def _assembled(pieces, shape):
    """The sum of full blocks (rows, entries, columns)."""
    row = np.concatenate([np.repeat(r, len(c)) for r, _, c in pieces])
    column = np.concatenate([np.tile(c, len(r)) for r, _, c in pieces])
    entries = np.concatenate([x.ravel() for _, x, _ in pieces])
    return sparse.csr_matrix((entries, (row, column)), shape=shape)


def _faces(A, dim):
    """Contacts of each face, and the faces it couples with."""
    n = A.shape[0] // dim
    blocks = sparse.bsr_matrix(A, blocksize=(dim, dim))
    near = np.max(np.abs(blocks.data), axis=(1, 2), initial=0.0) > _NONE
    row = np.repeat(np.arange(n), np.diff(blocks.indptr))[near]
    column = blocks.indices[near]
    mark = np.random.default_rng(n).integers(0, 2**63, n, dtype=np.uint64)
    name = np.zeros(n, np.uint64)  # the sum of the marks of its neighbours
    np.add.at(name, row, mark[column])
    face = np.unique(name, return_inverse=True)[1]
    count = int(np.max(face, initial=-1)) + 1
    coupled = sparse.csr_matrix((np.ones(len(row)), (face[row], face[column])), (count, count))
    beside = [set(part.tolist()) for part in np.split(coupled.indices, coupled.indptr[1:-1])]
    for f, near in enumerate(beside):
        near.discard(f)
    ends = np.cumsum(np.bincount(face, minlength=count))[:-1]
    return np.split(np.argsort(face, kind="stable"), ends), beside


def _bodies(beside):
    """The faces of each body, or None where a face has more than two."""
    found, of, todo, seen = [], [[] for _ in beside], deque(), set()
    for start in range(len(beside)):
        if start in seen:
            continue
        together = [start]
        seen.add(start)
        for f in together:
            new = beside[f] - seen
            seen |= new
            together.extend(new)
        body = _first(beside, together)
        while body:
            for g in body:
                of[g].append(len(found))
            if max(len(of[g]) for g in body) > 2:
                return None
            found.append(sorted(body))
            todo.extend(body)
            body = None
            while todo and not body:
                f = todo.popleft()
                if len(of[f]) == 1 and (rest := beside[f].difference(found[of[f][0]])):
                    body = rest | {f}
    return found


def _first(beside, together):
    """The faces of one body: of three faces with nothing else around one cannot be sure."""
    least = None
    for f in together:
        body = beside[f] | {f}
        if _complete(beside, body):
            if len(body) != 3:
                return body if len(body) > 1 else None
            least = body
    for f in together:
        for g in beside[f]:
            both = (beside[f] & beside[g]) | {f, g}
            for out in (-1, *both - {f, g}):  # a face between the other bodies of f and g
                body = both - {out}
                if len(body) > 3 and _complete(beside, body):
                    return body
    return least


def _complete(beside, body):
    return all(body - {f} <= beside[f] for f in body)


class _Motions:
    """G_fb body by body, and what is left of W_ff."""

    def __init__(self, A, rows, bodies, motions):
        self.A, self.rows, self.bodies, self.motions = A, rows, bodies, motions
        self.left = [A[at][:, at].toarray() for at in rows]
        self.of = [set() for _ in rows]  # bodies of a face that are not known yet
        for b, faces in enumerate(bodies):
            for f in faces:
                self.of[f].add(b)
        self.ready, self.pieces, self.columns = deque(), [], 0

    def root(self):
        """G, or None."""
        ends = deque(f for f, of in enumerate(self.of) if len(of) == 1)
        for b in range(len(self.bodies)):
            self.by_others(b)
        while self.ready or ends:  # beside what is known, and only then from an end
            f = (self.ready or ends).popleft()
            if len(self.of[f]) == 1:
                (b,) = self.of[f]
                self.by_one(b, f, self.left[f], *self.coupling(b))
        if any(self.of):
            return None
        for at, D in zip(self.rows, self.left, strict=True):
            square, axes = np.linalg.eigh(0.5 * (D + D.T))
            kept = square > _LEFT * len(square)
            self.add(at, axes[:, kept] * np.sqrt(square[kept]))
        return _assembled(self.pieces, (self.A.shape[0], self.columns))

    def add(self, rows, G):
        columns = self.columns + np.arange(G.shape[1])
        self.pieces.append((rows, G, columns))
        self.columns += len(columns)

    def coupling(self, b):
        """W between the faces of a body, its rows, and the place of each face in it."""
        faces = self.bodies[b]
        rows = np.concatenate([self.rows[f] for f in faces])
        ends = np.cumsum([len(self.rows[f]) for f in faces])
        place = dict(zip(faces, np.split(np.arange(len(rows)), ends[:-1]), strict=True))
        return self.A[rows][:, rows].toarray(), rows, place

    def by_others(self, b):
        """The motions of a body by (3), about the face for which it is conditioned best."""
        m, best = self.motions, (_RANK, None, None)
        faces = sorted(self.bodies[b], key=lambda f: -len(self.rows[f]))
        if len(faces) < 3:
            return
        X, rows, place = self.coupling(b)
        for f in faces:
            others = [g for g in faces if g != f]
            S, T = (
                np.concatenate([place[g] for g in part]) for part in (others[::2], others[1::2])
            )
            if min(len(S), len(T), len(place[f])) < m:
                continue
            left, s, right = np.linalg.svd(X[np.ix_(T, S)], full_matrices=False)
            if s[m - 1] > best[0] * s[0]:
                onto = X[np.ix_(place[f], S)] @ (right[:m].T / s[:m])
                best = s[m - 1] / s[0], f, onto @ (left[:, :m].T @ X[np.ix_(T, place[f])])
            if best[0] > _WELL:
                break
        if best[1] is not None:
            self.by_one(b, best[1], best[2], X, rows, place)

    def by_one(self, b, f, D, X, rows, place):
        """The motions of a body by (2), from a D_fb that has them all."""
        square, axes = np.linalg.eigh(0.5 * (D + D.T))
        square, axes = square[-self.motions :], axes[:, -self.motions :]
        if len(square) < self.motions or not square[0] > _RANK**2 * square[-1]:
            return
        G = X[:, place[f]] @ (axes / np.sqrt(square))
        G[place[f]] = axes * np.sqrt(square)
        self.add(rows, G)
        for g in self.bodies[b]:
            part = G[place[g]]
            self.left[g] = self.left[g] - part @ part.T
            self.of[g].discard(b)
            if len(self.of[g]) == 1:
                self.ready.append(g)
