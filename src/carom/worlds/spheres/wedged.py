"""Coulomb's law of spheres where sweeps do not end.

Contacts are in one block if a body that can move joins them.  Blocks that lack are solved one by
one, while the others keep their impulses, in several ways, each of which finds what some others
do not: Newton's method on proximal problems (projection/proximal.py), sweeps over the matrix W of
the block from rest, with more and more damping (kernels/numba/friction.py), the path of smooth
laws of projection/barrier.py, and mu that grows from little.  Of a block that is too large to be
factorised, the contacts around those that lack are solved.  Of all that was found the best is kept.

The impact law of a block may have no answer: friction holds a ball in a corner (mu >= 1) that
Newton's law drives away from both walls.  Contacts that are held so, and as many around them as it
takes, do not bounce.

What no way solves need not end a run: `_settled`.
"""

from functools import cached_property
from typing import Any

import numpy as np

_ROWS = 1000  # the most contacts that are solved together ...
_LOCAL, _SWEPT = 4, 400  # ... of more some, and sweeps of all, in turn
_QUICK = (("newton", 15), ("sweeps", 2000, 0.1), ("newton", 20))  # turns; damping
_WAYS = (  # t of a path, of the largest velocity; 0: from rest
    *(
        ("grown", 30),
        ("path", 100, 1e-4),
        ("path", 100, 0.0),
        ("sweeps", 4000, 0.4),
        ("newton", 40),
    ),
    *(("path", 100, 1e-3), ("sweeps", 6000, 1.0), ("newton", 40), ("path", 100, 1e-4)),
)
_FIRST, _GROWTH = 0.3, 1.6  # mu at first, and how it grows
_MILDEST = 1.0  # mu that will do where no answer is found with a larger one
_ROUNDS = 4  # of sweeps, each to a smaller residual
_WIDENINGS = (0, 1, 4, 16)  # rings of contacts that do not bounce around those that are held
_CLIPPINGS, _CLIPPED = 30, 1e-12  # turns, and the part of lam_t that ends them
_SHARE = 0.98  # of the tolerance, as in kernels/numba/projection.py
_B, _MU, _LAM = 5, 6, 9  # their places in a problem of kernels/numba/sliding.py


def solved(problem, still, planar: bool, limit: int, loose) -> tuple[int, bool]:
    """Sweeps and turns made, and whether a run can go on with what was found.

    lam of ``problem`` is overwritten, and b where contacts do not bounce.  ``still`` (p,) is the
    normal b of contacts that do not, or None where the law is none of impact.  ``loose`` takes the
    place of the last two of ``problem``, what is allowed, for blocks that no way solves.
    """
    from carom.kernels import sliding

    i, j, inverse = problem[1], problem[2], problem[7]
    labels, done, fine = blocks(i, j, inverse), 0, True
    for label in np.unique(labels[sliding.lacking(*problem) > _SHARE]):
        rows = np.flatnonzero(labels == label)
        part = _part(problem, rows)
        more, led = _block(part, None if still is None else still[rows], planar, limit, loose)
        problem[_B][rows], problem[_LAM][rows] = part[_B], part[_LAM]
        done, fine = done + more, fine and led
    return done, fine


def _block(part, still, planar, limit, loose):
    """Sweeps and turns made on a block, and whether what was found, in its lam, will do."""
    from carom.kernels import sliding

    i, j, b, inverse = part[1], part[2], part[_B], part[7]
    done, led, milder = _tried(part, planar, _QUICK, limit)
    if still is not None:
        held = np.zeros(len(i), bool)
        for rings in _WIDENINGS:
            if led:
                return done, True
            held |= sliding.lacking(*part) > 1.0
            for _ in range(rings):
                held = touching(held, i, j, inverse)
            b[held, 0] = np.maximum(b[held, 0], still[held])
            more, led, _ = _tried(part, planar, _QUICK[1:], limit - done)
            done += more
    if not led:
        if still is None:  # overlaps that wedge each other cannot be opened, but need not grow
            b[:, 0] = np.maximum(b[:, 0], 0.0)
        ways = _WAYS if len(i) <= _ROWS else ()  # of many, a few more would take too long
        more, led, milder = _tried(part, planar, ways, limit - done)
        done += more
    return done, led or _settled(part, milder, limit, loose)


def _settled(part, milder, limit, loose):
    """Whether a block that no way solves can be gone on with; lam of ``part`` is what to take.

    Gaps kept open as without friction, if contacts then slide as they should to within ``loose``;
    else the best answer, if that is so good; else the answer to the law with less friction, which
    is ``milder`` than the one that is asked for.
    """
    from carom.kernels import sliding

    lam = part[_LAM]
    best = lam.copy()
    kept_apart(part, limit)
    for found in (lam.copy(), best):
        lam[:] = found
        if np.max(sliding.lacking(*part[:-2], *loose)) <= 1.0:
            return True
    if milder is not None:
        lam[:] = milder
    return milder is not None


def _tried(problem, planar, ways, limit):
    """Sweeps and turns made, whether one of the ways led to an answer, and a milder one.

    The best is in lam.
    """
    if len(problem[1]) > _ROWS:
        return *_by_parts(problem, planar, ways, limit), None
    block = _Block(problem, planar)
    done = block.tried(ways, limit)
    problem[_LAM][:] = block.wide(block.best)
    return (
        done,
        block.least <= _SHARE,
        block.wide(block.milder) if block.milder is not None else None,
    )


def _by_parts(problem, planar, ways, limit):
    """Sweeps and turns made, and whether that led to an answer; the best is in lam.

    The contacts around those that lack, and then sweeps over all of them, in turn.
    """
    from carom.kernels import sliding

    i, j, inverse, lam = problem[1], problem[2], problem[7], problem[_LAM]
    lacks, done = sliding.lacking(*problem), 0
    best, least = lam.copy(), np.max(lacks)
    for _ in range(_LOCAL if ways else 0):
        if least <= _SHARE or done >= limit:
            break
        rows = _around(np.flatnonzero(lacks > _SHARE), i, j, inverse)
        block = _Block(_part(problem, rows), planar)
        done += block.tried(ways, limit - done)
        lam[rows] = block.wide(block.best)
        asked: Any = *problem, _SWEPT
        done += sliding.accelerated_gauss_seidel(*asked)[2]
        lacks = sliding.lacking(*problem)
        if np.max(lacks) < least:
            best, least = lam.copy(), np.max(lacks)
    lam[:] = best
    return done, bool(least <= 1.0)


class _Block:
    """The problem of some contacts: H, W and q in a frame of each, and the best r (p, m) so far."""

    def __init__(self, part, planar):
        self.part, self.planar, lam = part, planar, part[_LAM]
        _start, i, j, normal, arm, b, mu, inverse, free, *_rest = part
        self.frame = frames(normal, planar)
        moves = np.flatnonzero(inverse[:, 0] > 0.0)
        moves = moves[np.isin(moves, i) | np.isin(moves, j)]
        axes = [0, 1, 5] if planar else list(range(6))
        columns = (6 * moves[:, None] + axes).ravel()
        self.H = gradients(i, j, normal, arm, self.frame, len(inverse))[:, columns]
        self.mass = 1.0 / np.repeat(inverse, 3, axis=1).ravel()[columns]
        self.free, self.a_n = free.ravel()[columns], inverse[i, 0] + inverse[j, 0]
        self.mu, self.b = mu, self.narrow(b)
        self.last = self.best = self.narrow(lam)
        self.least, self.milder = np.inf, None  # what it lacks; the answer with less friction
        self.good(self.best)

    def tried(self, ways, limit):
        """Sweeps and turns made, in one way after the other until an answer is found."""
        done = 0
        for way, turns, *how in ways:
            if self.least <= _SHARE or done >= limit:
                break
            done += getattr(self, way)(min(turns, limit - done), *how)
        return done

    def narrow(self, x):
        """(p, m) in the frames, of (p, 4)."""
        return np.column_stack([x[:, 0], np.einsum("kad,kd->ka", self.frame[:, 1:], x[:, 1:])])

    def wide(self, r):
        """(p, 4) of (p, m)."""
        return np.column_stack([r[:, 0], np.einsum("ka,kad->kd", r[:, 1:], self.frame[:, 1:])])

    def good(self, r):
        """Whether r, taken into the cones, is an answer; the best is kept."""
        from carom.kernels import sliding

        r = np.array(r).reshape(self.best.shape)
        r[:, 0] = np.maximum(r[:, 0], 0.0)
        r[:, 1:] *= _within(r[:, 1:], self.mu * r[:, 0])[:, None]
        self.part[_LAM][:] = self.wide(r)
        lacks = np.max(sliding.lacking(*self.part), initial=0.0)
        if lacks < self.least:
            self.best, self.least = r, float(lacks)
        self.lacks = float(lacks)
        return lacks <= _SHARE

    @cached_property
    def local(self):
        """W, q, mu and dim of carom/fclib.py, and sizes."""
        from scipy import sparse

        from carom.projection import proximal

        W = (self.H @ sparse.diags(1.0 / self.mass) @ self.H.T).tocsc()
        q = self.H @ self.free + self.b.ravel()
        m = self.b.shape[1]
        return W, q, np.full(len(self.b), self.mu), m, proximal.sizes(W, m)[1]

    def path(self, turns, start):
        """Newton's method along a path from the last r; how many turns there were."""
        from carom.projection import barrier

        data = self.H, self.b, self.mass, self.free, self.a_n, self.mu
        r = self.last if start > 0.0 else np.zeros_like(self.last)
        return barrier.solve(*data, r, start or 1.0, turns, self.good)[1]

    def newton(self, turns):
        """Newton's method on proximal problems from the last r; how many turns there were."""
        from carom.projection import proximal

        data, goal = proximal.packed(*self.local[:4]), self._goal(self.last)
        found = proximal.solve(*self.local, *data, self.last.ravel(), goal, True, turns, self.good)
        return found[1]

    def sweeps(self, limit, damping):
        """Sweeps from rest; how many there were.  What they find is the last r."""
        from carom.kernels import friction
        from carom.projection import proximal

        W, q, mu, m, _size = self.local
        index, data = proximal.packed(W, q, mu, m, damping)
        work, done, r = np.zeros(4 * len(q) + len(mu)), 0, np.zeros_like(self.last)
        for _ in range(_ROUNDS):
            goal = self._goal(r)
            more = friction.sweeps(m, True, index, data, goal, limit - done, limit, work)[0]
            done, r = done + more, work[: len(q)].reshape(r.shape).copy()
            if self.good(r) or done >= limit:
                break
        self.last = r
        return done

    def grown(self, turns):
        """Answers to the law with a mu that grows, each from the one before; turns in all."""
        r, mu, done = np.zeros_like(self.last), min(_FIRST, self.mu), 0
        while True:
            part = *self.part[:_MU], mu, *self.part[_MU + 1 : _LAM], self.wide(r)
            block = _Block((*part, *self.part[_LAM + 1 :]), self.planar)
            for way, *how in (("newton",), ("path", 1e-4)):
                if block.least > _SHARE:
                    done += getattr(block, way)(turns, *how)
            self.last = r = block.best
            if self.good(r) or block.least > _SHARE or mu >= self.mu:
                return done
            if mu >= _MILDEST:
                self.milder = r
            mu = min(_GROWTH * mu, self.mu)

    def _goal(self, r):
        """About what the natural map of an answer has, from what r lacks."""
        from carom.projection import proximal

        self.good(r)
        W, q, mu, m, size = self.local
        return 0.5 * proximal.residual(W, q, mu, m, size, r.ravel()) / max(self.lacks, 1.0)


def kept_apart(problem, limit: int) -> int:
    """Sweeps made; lam of ``problem`` holds gaps open as without friction, and is in the cones.

    With lam_t given, the normal law is a projection, which has an answer.  What is then outside
    of its cone is taken to its edge, and the normal law solved again: |lam_t| never grows, so that
    this ends.  What is left of the law that does not hold is how contacts slide.
    """
    from carom.kernels import projection, sliding

    start, i, j, normal, arm, b, mu, inverse, free, lam, most, relative = problem
    first, mass, done = b[:, 0].copy(), inverse[:, 0].copy(), 0
    for _ in range(_CLIPPINGS):
        pushed, along, push = free.copy(), lam.copy(), lam[:, 0].copy()
        along[:, 0] = 0.0
        sliding.push(start, i, j, normal, arm, inverse, along, pushed)
        rows = start, i, j, normal, first, mass, np.ascontiguousarray(pushed[:, :3])
        done += projection.accelerated_gauss_seidel(*rows, push, most, relative, limit - done)[2]
        part = _within(lam[:, 1:], mu * push)
        lam[:, 0], lam[:, 1:] = push, part[:, None] * lam[:, 1:]
        if done >= limit or np.all(part > 1.0 - _CLIPPED):
            break
    return int(done)


def _within(x, most):
    """(p,) the part of x (p, k) that is no longer than ``most``."""
    length = np.linalg.norm(x, axis=1)
    return np.minimum(1.0, most / np.where(length > 0.0, length, 1.0))


def blocks(i, j, inverse) -> np.ndarray:
    """(p,) int, the block of each contact."""
    from scipy import sparse
    from scipy.sparse import csgraph

    p, bodies, joins = len(i), len(inverse), inverse[:, 0] > 0.0
    contact, body = np.tile(np.arange(p), 2), np.concatenate([i, j])
    contact, body = contact[joins[body]], p + body[joins[body]]
    graph = sparse.coo_matrix((np.ones(len(body)), (contact, body)), shape=2 * (p + bodies,))
    return csgraph.connected_components(graph, directed=False)[1][:p]


def _around(rows, i, j, inverse):
    """Contacts near to these, at most _ROWS."""
    while True:
        chosen = np.zeros(len(i), bool)
        chosen[rows] = True
        more = np.flatnonzero(touching(chosen, i, j, inverse))
        if len(more) > _ROWS // 2 or len(more) == len(rows):
            return rows[:_ROWS]
        rows = more


def touching(chosen, i, j, inverse) -> np.ndarray:
    """(p,) bool, the contacts of the bodies that can move of those contacts."""
    near = np.zeros(len(inverse), bool)
    near[i[chosen]], near[j[chosen]] = True, True
    near &= inverse[:, 0] > 0.0
    return near[i] | near[j]


def _part(problem, rows) -> Any:
    """The problem of these contacts while the others push as they do."""
    from carom.kernels import sliding

    start, i, j, normal, arm, b, mu, inverse, free, lam, most, relative = problem
    kept, free = lam.copy(), free.copy()
    kept[rows] = 0.0
    sliding.push(start, i, j, normal, arm, inverse, kept, free)
    own = (np.ascontiguousarray(x[rows]) for x in (i, j, normal, arm, b))
    return (
        np.array([0, len(rows)], start.dtype),
        *own,
        mu,
        inverse,
        free,
        lam[rows],
        most,
        relative,
    )


def frames(normal, planar):
    """(p, m, 3) the normal and tangents."""
    if planar:
        x, y, z = normal.T
        return np.stack([normal, np.stack([-y, x, z], axis=1)], axis=1)
    away = np.eye(3)[np.argmin(np.abs(normal), axis=1)]
    first = np.cross(normal, away)
    first /= np.linalg.norm(first, axis=1)[:, None]
    return np.stack([normal, first, np.cross(normal, first)], axis=1)


def gradients(i, j, normal, arm, frame, bodies):
    """H (m p, 6 bodies) of kernels/numba/sliding.py, (1): (w x n) . e = w . (n x e)."""
    from scipy import sparse

    p, m = frame.shape[:2]
    turn = np.cross(normal[:, None], frame)
    turn[:, 0] = 0.0
    row = np.repeat(np.arange(m * p), 6)
    parts = []
    for body, side, sign in ((j, 1, 1.0), (i, 0, -1.0)):
        values = np.concatenate([sign * frame, -arm[:, side, None, None] * turn], axis=2)
        column = np.repeat(6 * body[:, None] + np.arange(6), m, axis=0)
        parts.append((values.ravel(), column.ravel()))
    values, column = (np.concatenate(one) for one in zip(*parts, strict=True))
    H = sparse.csr_matrix((values, (np.tile(row, 2), column)), shape=(m * p, 6 * bodies))
    H.eliminate_zeros()
    return H
