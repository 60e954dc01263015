"""Coulomb's law of spheres where mu differs from contact to contact.

Sweeps (kernels/numba/mixed.py) end in most steps.  Where they do not, the blocks of contacts that
lack are solved as frictional problems by themselves (carom/fclib.py), while the others keep their
impulses, to an ever smaller residual of that measure until the sweeps' own residual is met.
"""

from typing import Any

import numpy as np

from carom.worlds.spheres import wedged

_SWEEPS = 2000  # the most before blocks are solved
_TOLERANCES = (1e-8, 1e-10, 1e-12)  # of a block, of |q|
_ROWS = 1000  # contacts of a block: more would take too long
_MU, _LAM = 6, 9  # their places in a problem of kernels/numba/sliding.py


def solved(problem: Any, planar: bool, limit: int) -> tuple[np.ndarray, float, int]:
    """Velocities, the residual in terms of what is allowed, and sweeps; lam is overwritten."""
    from carom.kernels import mixed

    swept: Any = mixed.accelerated_gauss_seidel
    u, left, done = swept(*problem, min(limit, _SWEEPS))
    if not 1.0 < left < np.inf or limit <= done:
        return u, left, done
    done += _by_blocks(problem, planar)
    u, left, more = swept(*problem, min(limit - done, _SWEEPS))
    return u, left, done + more


def _by_blocks(problem, planar) -> int:
    """Turns made; lam of ``problem`` is what was found."""
    from carom.kernels import mixed, sliding

    start, i, j, normal, arm, b, mu, inverse, free, lam, *_ = problem
    labels, done = wedged.blocks(i, j, inverse), 0
    for label in np.unique(labels[mixed.lacking(*problem) > 1.0]):
        rows = np.flatnonzero(labels == label)
        if len(rows) > _ROWS:
            continue
        pushed, others = free.copy(), lam.copy()
        others[rows] = 0.0
        sliding.push(start, i, j, normal, arm, inverse, others, pushed)
        own = tuple(x[rows] for x in (i, j, normal, arm, b, mu))
        block = _Block(own, inverse, pushed, planar)
        before = lam[rows]
        least = np.max(mixed.lacking(*problem)[rows])
        for tolerance in _TOLERANCES:
            found, turns = block.solved(tolerance, lam[rows])
            lam[rows], done = found, done + turns
            lacks = np.max(mixed.lacking(*problem)[rows])
            if lacks < least:
                before, least = found, lacks
            if lacks <= 1.0:
                break
        lam[rows] = before
    return done


class _Block:
    """Some contacts as a problem W, q, mu of carom/fclib.py, in a frame of each."""

    def __init__(self, own, inverse, free, planar):
        from carom.fclib import Problem

        i, j, normal, arm, b, mu = own
        self.frame = wedged.frames(normal, planar)
        moves = np.flatnonzero(inverse[:, 0] > 0.0)
        moves = moves[np.isin(moves, i) | np.isin(moves, j)]
        columns = (6 * moves[:, None] + ([0, 1, 5] if planar else np.arange(6))).ravel()
        H = wedged.gradients(i, j, normal, arm, self.frame, len(inverse))[:, columns]
        mobile = np.repeat(inverse, 3, axis=1).ravel()[columns]
        q = H @ free.ravel()[columns] + self._narrow(b).ravel()
        W = H.multiply(mobile) @ H.T
        self.problem = Problem(W=W, q=q, mu=mu, dim=self.frame.shape[1])

    def solved(self, tolerance, lam):
        """lam (p, 4) and turns, from a guess."""
        found = self.problem.solve(tolerance, start=self._narrow(lam).ravel())
        r = found.r.reshape(len(self.frame), -1)
        along = np.einsum("ka,kad->kd", r[:, 1:], self.frame[:, 1:])
        return np.column_stack([r[:, 0], along]), found.iterations

    def _narrow(self, x):
        """(p, m) in the frames, of (p, 4)."""
        return np.column_stack([x[:, 0], np.einsum("kad,kd->ka", self.frame[:, 1:], x[:, 1:])])
