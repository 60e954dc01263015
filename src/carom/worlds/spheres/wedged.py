"""Coulomb's law of spheres where sweeps do not end.

Contacts are in one block if a body that can move joins them.  Blocks that lack are solved one by
one, while the others keep their impulses: by the path of projection/barrier.py, and where that
does not lead to an answer by other sweeps and the path from where they end.  Of a block that is too
large to be factorised, the path is followed for the contacts around those that lack.

The impact law of a block may have no answer: friction holds a ball in a corner (mu >= 1) that
Newton's law drives away from both walls.  Contacts that are held so, and as many around them as it
takes, do not bounce.
"""

from typing import Any

import numpy as np

_ROWS = 2000  # the most contacts of a path
_TURNS = 100  # of Newton's method along it
_STARTS = (1e-4, 0.0, 1e-3)  # t of the paths that are tried, of the largest velocity; 0: from rest
_BOUNCE_TURNS = 50  # of a path that starts near, while it is asked whether contacts bounce
_WIDENINGS = (0, 1, 4, 16)  # rings of contacts that do not bounce around those that are held
_SHARE = 0.98  # of the tolerance, as in kernels/numba/projection.py
_B, _LAM = 5, 9  # their places in a problem of kernels/numba/sliding.py


def solved(problem, still, planar: bool, limit: int) -> int:
    """Sweeps and turns made; lam of ``problem`` is overwritten, and b where contacts do not bounce.

    ``still`` (p,) is the normal b of contacts that do not, or None where the law is none of impact.
    """
    from carom.kernels.numba import sliding

    i, j, inverse = problem[1], problem[2], problem[7]
    labels, done = blocks(i, j, inverse), 0
    for label in np.unique(labels[sliding.lacking(*problem) > _SHARE]):
        rows = np.flatnonzero(labels == label)
        part = _part(problem, rows)
        done += _block(part, None if still is None else still[rows], planar, limit)
        problem[_B][rows], problem[_LAM][rows] = part[_B], part[_LAM]
    return done


def _block(part, still, planar, limit):
    """Sweeps and turns made on a block."""
    from carom.kernels.numba import sliding

    i, j, b, inverse = part[1], part[2], part[_B], part[7]
    done = 0
    if still is not None:
        turns, led = _led(part, planar, _STARTS[:1], _BOUNCE_TURNS)
        done, held = turns, np.zeros(len(i), bool)
        for rings in _WIDENINGS:
            if led:
                return done
            held |= sliding.lacking(*part) > 1.0
            for _ in range(rings):
                held = touching(held, i, j, inverse)
            b[held, 0] = np.maximum(b[held, 0], still[held])
            led, more = _attempt(part, planar, limit, sliding.FIRST, _STARTS[:1], _BOUNCE_TURNS)
            done += more
    else:
        turns, led = _led(part, planar, _STARTS, _TURNS)
        done += turns
    for attempt in sliding.LATER:
        if led or done >= limit:
            break
        led, more = _attempt(part, planar, limit - done, attempt, _STARTS, _TURNS)
        done += more
    return done


def _attempt(part, planar, limit, attempt, starts, turns):
    """Sweeps from rest and, where these do not end, paths; whether that led to an answer."""
    from carom.kernels.numba import sliding

    part[_LAM][:] = 0.0
    asked: Any = (*part, limit, attempt)
    _, left, done = sliding.accelerated_gauss_seidel(*asked)
    if left <= 1.0:
        return True, done
    more, led = _led(part, planar, starts, turns)
    return led, done + more


def _led(problem, planar, starts, turns):
    """Turns made, and whether a path led to an answer, which is then in lam."""
    from carom.kernels.numba import sliding

    i, j, inverse, lam = problem[1], problem[2], problem[7], problem[_LAM]
    rows = np.arange(len(i))
    if len(rows) > _ROWS:
        rows = _around(np.flatnonzero(sliding.lacking(*problem) > _SHARE), i, j, inverse)
    found, made = _paths(_part(problem, rows), planar, starts, turns)
    if found is None:
        return made, False
    lam[rows] = found
    return made, np.max(sliding.lacking(*problem)) <= 1.0


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
        if len(more) > _ROWS or len(more) == len(rows):
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
    from carom.kernels.numba import sliding

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


def _paths(part, planar, starts, most):
    """lam (p, 4) and turns; None where no path leads to what is allowed."""
    from carom.kernels.numba import sliding
    from carom.projection import barrier

    _start, i, j, normal, arm, b, mu, inverse, free, lam, *_rest = part
    frame = frames(normal, planar)
    moves = np.flatnonzero(inverse[:, 0] > 0.0)
    moves = moves[np.isin(moves, i) | np.isin(moves, j)]
    axes = [0, 1, 5] if planar else list(range(6))
    columns = (6 * moves[:, None] + axes).ravel()
    H = gradients(i, j, normal, arm, frame, len(inverse))[:, columns]
    mass = 1.0 / np.repeat(inverse, 3, axis=1).ravel()[columns]
    a_n = inverse[i, 0] + inverse[j, 0]

    def narrow(x):
        return np.column_stack([x[:, 0], np.einsum("kad,kd->ka", frame[:, 1:], x[:, 1:])])

    def good(r):
        lam[:, 0], lam[:, 1:] = r[:, 0], np.einsum("ka,kad->kd", r[:, 1:], frame[:, 1:])
        return np.max(sliding.lacking(*part), initial=0.0) <= _SHARE

    data = H, narrow(b), mass, free.ravel()[columns], a_n, mu
    guess, turns = narrow(lam), 0
    for start in starts:
        r = guess if start > 0.0 else np.zeros_like(guess)
        r, more = barrier.solve(*data, r, start or 1.0, most, good)
        turns += more
        if good(r):
            return lam, turns
    return None, turns


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
