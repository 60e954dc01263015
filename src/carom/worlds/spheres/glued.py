"""Glue of spheres: contacts that hold until they are pulled as much as they were pushed.

The limit of lubrication forces (BL10, Remark 4.3; carom/law.py, Glue): each carries gamma <= 0,

    gamma1 = min(0, gamma - lam)                                                              (1)

and while gamma < 0 it neither opens nor closes: lam may have any sign.  Such a row is two, one that
pushes and one that pulls, each with a multiplier >= 0,

    n . (u_j - u_i) + b >= 0,      -n . (u_j - u_i) - b >= 0,      lam = push - pull          (2)

so that the projection is the one without glue.  After each solution of one of the two, Gauss-Seidel
has w = 0, or the multiplier is 0 and the other one takes over.
"""

from typing import Any

import numpy as np


def remembered(gamma: np.ndarray, lam: np.ndarray) -> np.ndarray:
    """(p,) (1)."""
    return np.minimum(gamma - lam, 0.0)


class Doubled:
    """The rows of a projection with (2) for those that hold, slab by slab."""

    def __init__(self, rows: Any, b: np.ndarray, lam: np.ndarray):
        held = np.flatnonzero(rows.gamma < 0.0)
        p, slab = len(rows.gap), np.repeat(np.arange(len(rows.start) - 1), np.diff(rows.start))
        order = np.argsort(np.concatenate([slab, slab[held]]), kind="stable")
        self.which = np.concatenate([np.arange(p), held])[order]
        self.sign = np.concatenate([np.ones(p), -np.ones(len(held))])[order]
        counts = np.diff(rows.start) + np.bincount(slab[held], minlength=len(rows.start) - 1)
        self.start = np.concatenate([[0], np.cumsum(counts)])
        self.i, self.j = rows.i[self.which], rows.j[self.which]
        self.normal = self.sign[:, None] * rows.normal[self.which]
        self.b = self.sign * b[self.which]
        self.lam = np.maximum(self.sign * lam[self.which], 0.0)

    def folded(self, p: int) -> np.ndarray:
        """(p,) push less pull."""
        return np.bincount(self.which, weights=self.sign * self.lam, minlength=p)
