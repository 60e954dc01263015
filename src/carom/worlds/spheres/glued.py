"""Glue of spheres: contacts that hold until they are pulled as much as they were pushed.

The limit of lubrication forces (BL10, Remark 4.3; carom/law.py, Glue): each carries gamma <= 0, and

    lam = gamma + l,     l >= 0   perp   n . (u_j - u_i) + b >= 0                             (1)
    gamma1 = gamma - lam = -l                                                                 (2)

so that a step is the one without glue, from a free motion that is pulled by all of gamma.
"""

import numpy as np

from carom import kernels


def remembered(gamma: np.ndarray, lam: np.ndarray) -> np.ndarray:
    """(p,) (2)."""
    return np.minimum(gamma - lam, 0.0)


def pulled(rows, still: np.ndarray, inverse: np.ndarray) -> np.ndarray:
    """(bodies, 3) u of (1) where l = 0: ``still`` + M^-1 G^T gamma."""
    back = -still
    kernels.projection.push(rows.start, rows.i, rows.j, rows.normal, inverse, -rows.gamma, back)
    return -back
