"""Coulomb's law of many contacts on bodies, where sweeps do not end: a path of smooth laws.

With u = H v + b the relative velocities and r the impulses, one block (normal, tangential) for each
contact, the law of kernels/numba/sliding.py, (4), is the end t = 0 of the path

    M (v - f) = H^T r                                                                         (1)
    a_n y r_n = t^2,      y = u_n,      y, r_n > 0                                            (2)
    r_t D = -mu r_n u_t,  D = (|u_t|^2 + t^2)^(1/2)                                           (3)

with velocities t: for t > 0 a contact pushes a little before it closes, and creeps where it
sticks.  Along it t falls while Newton's method holds (1) to (3), with y free to differ from u_n by
what (2) still lacks.  A step with du = H dv is, of the unknowns of contacts,

    dr = g - K du,    K_nn = r_n / y,   K_tn = -mu u_t r_n / (y D),
                      K_tt = (mu r_n + r_t u_t^T / D) / D                                     (4)

so that only a matrix of bodies is factorised, M + H^T K H.  Contacts may outnumber motions, and mu
be large.  The path may turn back before its end, and where the law has no answer r grows without
one: what is found is measured.  It need not be followed from far off: from what sweeps have left, t
starts at the size of what they lack.
"""

import numpy as np
from scipy import sparse
from scipy.sparse import linalg

_FALL, _SLOWLY = 0.3, 0.7  # of t where a whole step was taken, and where not
_NEAR = 0.3  # of t sqrt(p), the merit at which t falls
_LEAST = 1e-11  # of the largest velocity: t ends there
_TO_EDGE = 0.98  # of the way to y = 0 or r_n = 0
_HALVINGS, _ENOUGH = 8, 0.01  # of a step, and what it must bring down of itself
_BEFORE = 5  # merits, of which the largest is to be undercut
_BEYOND = 1e6  # of the largest velocity: impulses that grow so have no end
_STUCK, _STUCK_TURNS = 1e-2, 5  # such steps, so many in a row: the path has turned


def solve(H, b, mass, free, a_n, mu, r, part, turns, good):
    """r (p, m) along the path until ``good(r)``, or the last one; and how many turns were made.

    H (m p, d), sparse; b (p, m); mass, free (d,); a_n (p,).  The path starts at the guess ``r`` and
    at t = ``part`` of the largest velocity.  ``good`` gets an r in the cones.
    """
    path = _Path(H, b, mass, free, a_n, mu)
    largest = float(np.max(np.abs(path.velocities(free)), initial=0.0))
    if not (0.0 < largest < np.inf):
        return r, 0
    t = part * largest
    point = path.start(t, r)
    before, stuck, r = [], 0, point.impulse(mu)
    for turn in range(turns):
        lack = path.lack(point, t)
        before.append(lack.merit)
        step = path.step(point, lack)
        if step is None:
            break
        point, part, merit = _along(path, point, step, t, max(before[-_BEFORE:]))
        r = point.impulse(mu)
        if good(r):
            return r, turn + 1
        stuck = stuck + 1 if part < _STUCK else 0
        if merit < _NEAR * t * np.sqrt(len(b)):
            t *= _FALL if part > 0.5 else _SLOWLY
            before, stuck = [], 0
        grown = np.max(a_n * point.normal) > _BEYOND * largest
        if grown or stuck >= _STUCK_TURNS or t < _LEAST * largest:
            break
    return r, turn + 1


def _along(path, point, step, t, above):
    """The point along a step that undercuts ``above``, the part of the step, and the merit."""
    part = min(1.0, _room(point.y, step.y), _room(point.normal, step.normal))
    for _ in range(_HALVINGS):
        found = point.moved(step, part)
        merit = path.lack(found, t).merit
        if merit < (1.0 - _ENOUGH * part) * above:
            break
        part *= 0.5
    return found, part, merit


def _room(x, dx):
    falls = dx < 0.0
    return _TO_EDGE * float(np.min(x[falls] / -dx[falls], initial=np.inf))


class _Point:
    """v (d,), y and r_n (p,), r_t (p, m - 1); a step has the same parts."""

    def __init__(self, v, y, normal, tangential):
        self.v, self.y, self.normal, self.tangential = v, y, normal, tangential

    def moved(self, step, part):
        return _Point(
            self.v + part * step.v,
            self.y + part * step.y,
            self.normal + part * step.normal,
            self.tangential + part * step.tangential,
        )

    def impulse(self, mu):
        """(p, m), in the cones."""
        return np.column_stack([self.normal, _clipped(self.tangential, mu * self.normal)])


class _Lack:
    """What (1) to (3) lack at a point, and the measure of it."""

    def __init__(self, path, point, t):
        self.u = path.velocities(point.v)
        r = np.column_stack([point.normal, point.tangential]).ravel()
        along = self.u[:, 1:]
        self.D = np.sqrt(np.einsum("ka,ka->k", along, along) + t * t)
        self.motion = point.v - path.free - (path.HT @ r) / path.mass
        self.pushed = path.a_n * point.y * point.normal - t * t
        self.slid = point.tangential * self.D[:, None] + (path.mu * point.normal)[:, None] * along
        self.closing = self.u[:, 0] - point.y
        size = np.sum(path.mass * self.motion**2) * path.typical + np.sum(self.closing**2)
        size += np.sum(self.pushed**2) / t**2
        size += np.sum((path.a_n / self.D) ** 2 * np.einsum("ka,ka->k", self.slid, self.slid))
        self.merit = float(np.sqrt(size))


class _Path:
    def __init__(self, H, b, mass, free, a_n, mu):
        self.H, self.HT, self.b, self.mass, self.free = H, H.T.tocsr(), b, mass, free
        self.a_n, self.mu, self.typical = a_n, mu, float(np.mean(a_n))
        self.M = sparse.diags(mass)

    def velocities(self, v):
        return (self.H @ v).reshape(self.b.shape) + self.b

    def start(self, t, r):
        v = self.free + (self.HT @ r.ravel()) / self.mass
        y = np.maximum(self.velocities(v)[:, 0], t)
        return _Point(v, y, np.maximum(r[:, 0], t * t / (self.a_n * y)), r[:, 1:])

    def lack(self, point, t):
        return _Lack(self, point, t)

    def step(self, point, lack):
        """(4), or None where its matrix is singular."""
        p, m = self.b.shape
        along, D, r_n = lack.u[:, 1:], lack.D[:, None], point.normal
        held = _clipped(point.tangential, self.mu * r_n)
        K = np.zeros((p, m, m))
        K[:, 0, 0] = r_n / point.y
        K[:, 1:, 0] = -(self.mu * K[:, 0, 0])[:, None] * along / D
        K[:, 1:, 1:] = held[:, :, None] * along[:, None, :] / (D**2)[:, None]
        for a in range(1, m):
            K[:, a, a] += self.mu * r_n / lack.D
        g_n = -lack.pushed / (self.a_n * point.y) - K[:, 0, 0] * lack.closing
        g = np.column_stack([g_n, (-lack.slid - self.mu * along * g_n[:, None]) / D])
        blocks = sparse.bsr_matrix((K, np.arange(p), np.arange(p + 1)), shape=(m * p, m * p))
        try:
            factor = linalg.splu((self.M + self.HT @ (blocks @ self.H)).tocsc())
        except RuntimeError:
            return None
        dv = factor.solve(self.HT @ g.ravel() - self.mass * lack.motion)
        if not np.all(np.isfinite(dv)):
            return None
        du = (self.H @ dv).reshape(p, m)
        dr = g - np.einsum("kab,kb->ka", K, du)
        return _Point(dv, du[:, 0] + lack.closing, dr[:, 0], dr[:, 1:])


def _clipped(x, most):
    """The points of the discs |x| <= most nearest to x (p, m - 1)."""
    length = np.sqrt(np.einsum("ka,ka->k", x, x))
    return x * np.minimum(1.0, most / np.where(length > 0.0, length, 1.0))[:, None]
