"""Contacts with couples as problems of friction alone, where sweeps do not end.

A contact whose impulse and couples are bounded by one lam_n (kernels/numba/rolling.py, (2)) is g
contacts of Coulomb's law, one for the slip, one for the roll, one for the twist, on a lever:

    u_a = u_n / g + (E s)_a,      s = K E^T lam,      E (g, g - 1) orthonormal, E^T 1 = 0      (1)

a = 1 .. g, with auxiliary motions s of inverse mass K.  Signorini's law for each of them,
0 <= lam_a perp u_a >= 0, sums up to

    u_n = sum u_a >= 0,      0 = sum lam_a u_a = u_n mean(lam) + K |E^T lam|^2                 (2)

so that E^T lam = 0: all lam_a are one lam_n, s = 0, and 0 <= lam_n perp u_n >= 0.  Whatever K > 0
is, the g contacts have the answers of the one, and all that solves friction (wedged.py) solves it.
With K = a_n / g the normal rows of a contact do not couple.  Couples are taken in units of R, so
that they are impulses; a twist has a second direction, which does nothing.
"""

import numpy as np


def within(x, most) -> np.ndarray:
    """(p,) the part of x (p, k) that is no longer than ``most``."""
    length = np.linalg.norm(x, axis=1)
    return np.minimum(1.0, most / np.where(length > 0.0, length, 1.0))


def hold_couples(lam, n, lengths) -> np.ndarray:
    """Bring the couples of lam (p, 7) into their cones; (p,) the part of them that is left."""
    roll, twist = lengths.T[:2] * lam[:, 0]
    before = np.linalg.norm(lam[:, 4:], axis=1)
    along = np.einsum("ij,ij->i", lam[:, 4:], n)
    across = lam[:, 4:] - along[:, None] * n
    across *= within(across, roll)[:, None]
    lam[:, 4:] = across + np.clip(along, -twist, twist)[:, None] * n
    after = np.linalg.norm(lam[:, 4:], axis=1)
    return np.divide(after, before, out=np.ones_like(after), where=before > 0.0)


class Levers:
    """Some contacts with couples; r (g p, m), the contacts of one lever together."""

    def __init__(self, frame, law, planar):
        self.frame, self.law, self.planar = frame, law, planar
        self.normal, self.R, self.g = frame[:, 0], law[:, 3], 2 if planar else 3

    def rows(self, push, i, j, inverse, columns):
        """H, inverse masses, and mu, of the rows ``push`` (m p, 6 bodies) of friction alone."""
        from scipy import sparse

        p, g, m = len(i), self.g, self.frame.shape[1]
        turn = _turning(i, j, self.R[:, None, None] * self.about(), len(inverse))
        nothing = sparse.csr_matrix((p, push.shape[1]))
        normals = push[np.arange(p) * m] / g
        slips = [push[np.arange(p) * m + a] for a in range(1, m)]
        rolls = [turn[np.arange(p) * self.about().shape[1] + a] for a in range(m - 1)]
        kinds = [[normals, *slips], [normals, *rolls]]
        if g == 3:
            kinds.append([normals, turn[np.arange(p) * 3 + 2], nothing])
        stacked = sparse.vstack([row for kind in kinds for row in kind]).tocsr()
        order = np.arange(g * m * p).reshape(g * m, p).T.ravel()
        stiff = np.asarray(inverse[i, 0] + inverse[j, 0]) / g
        H = sparse.hstack([stacked[order][:, columns], _levers(p, g, m)]).tocsr()
        mobile = np.repeat(inverse, 3, axis=1).ravel()[columns]
        mu = np.column_stack([self.law[:, 0], *(self.law[:, 1:g] / self.R[:, None]).T])
        return H, np.concatenate([mobile, np.repeat(stiff, g if g == 3 else 1)]), mu.ravel()

    def about(self):
        """(p, 1 or 3, 3) the axes of couples: across the plane, or two of rolling and the twist."""
        if self.planar:
            return np.tile([[[0.0, 0.0, 1.0]]], (len(self.normal), 1, 1))
        return np.concatenate([self.frame[:, 1:], self.frame[:, :1]], axis=1)

    def narrow(self, x):
        """(g p, m) in the frames, of velocities (p, 7)."""
        slip = np.einsum("kad,kd->ka", self.frame[:, 1:], x[:, 1:4])
        turn = self.R[:, None] * np.einsum("kad,kd->ka", self.about(), x[:, 4:])
        return self._joined(x[:, 0] / self.g, slip, turn)

    def guess(self, x):
        """(g p, m) in the frames, of impulses (p, 7)."""
        slip = np.einsum("kad,kd->ka", self.frame[:, 1:], x[:, 1:4])
        turn = np.einsum("kad,kd->ka", self.about(), x[:, 4:]) / self.R[:, None]
        return self._joined(x[:, 0], slip, turn)

    def _joined(self, n, slip, turn):
        parts = [np.column_stack([n, slip]), np.column_stack([n, turn[:, : slip.shape[1]]])]
        if self.g == 3:
            parts.append(np.column_stack([n, turn[:, 2], 0.0 * n]))
        return np.stack(parts, axis=1).reshape(-1, 1 + slip.shape[1])

    def wide(self, r):
        """(p, 7) of (g p, m), within the cones of one lam_n."""
        r = r.reshape(len(self.normal), self.g, -1)
        push, turn = np.mean(r[:, :, 0], axis=1), r[:, 1, 1:]
        if self.g == 3:
            turn = np.column_stack([turn, r[:, 2, 1]])
        T = np.einsum("ka,kad->kd", r[:, 0, 1:], self.frame[:, 1:])
        T *= within(T, self.law[:, 0] * push)[:, None]
        C = self.R[:, None] * np.einsum("ka,kad->kd", turn, self.about())
        lam = np.column_stack([push, T, C])
        hold_couples(lam, self.normal, self.law[:, 1:])
        return lam


def _turning(i, j, axes, bodies):
    """(a p, 6 bodies) the relative angular velocity about axes (p, a, 3)."""
    from scipy import sparse

    p, a = axes.shape[:2]
    row, parts = np.repeat(np.arange(a * p), 3), []
    for body, sign in ((j, 1.0), (i, -1.0)):
        column = np.repeat(6 * body[:, None] + 3 + np.arange(3), a, axis=0)
        parts.append((sign * axes.ravel(), column.ravel()))
    values, column = (np.concatenate(one) for one in zip(*parts, strict=True))
    return sparse.csr_matrix((values, (np.tile(row, 2), column)), shape=(a * p, 6 * bodies))


def _levers(p, g, m):
    """E of (1) of p contacts, (g m p, (g - 1) p); with a twist its idle direction besides."""
    from scipy import sparse

    one = np.zeros((g * m, g if g == 3 else 1))
    if g == 2:
        one[[0, m], 0] = np.sqrt(0.5), -np.sqrt(0.5)
    else:
        one[[0, m, 2 * m], 0] = np.sqrt(0.5) * np.array([1.0, -1.0, 0.0])
        one[[0, m, 2 * m], 1] = np.sqrt(1.0 / 6.0) * np.array([1.0, 1.0, -2.0])
        one[2 * m + 2, 2] = 1.0
    return sparse.kron(sparse.eye(p), one).tocsr()
