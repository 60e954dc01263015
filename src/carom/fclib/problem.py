"""A frictional problem: its matrices, its measure, and its solution by sweeps.

Numbers in brackets are those of the equations of carom.fclib.
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import linalg

from carom.arguments import suggesting
from carom.errors import CaromError, KindError, MassError, RecordError, ShapeError
from carom.fclib import files, given, solving
from carom.kernels import friction
from carom.projection import proximal, roots
from carom.projection.cones import onto_cone
from carom.status import Status

_FULL = 300  # rows of W, up to which its root is found from all of its entries
_ASYMMETRY = 0.01  # of W, relative: beyond it a warning is given

_OK = Status.ok  # each look into Status takes a microsecond, a fourth of a small problem


@dataclass(slots=True)
class Result:
    """An answer with its measure.  ``status`` is ``carom.Status.ok`` where ``residual`` is within
    the tolerance; otherwise it says what was found, and r is the best answer known."""

    r: np.ndarray  # (dim n,) impulses, normal first
    u: np.ndarray  # (dim n,) relative velocities W r + q
    residual: float  # (3)
    iterations: int  # sweeps over all contacts, turns of Newton's method, pivots of the path
    status: Any
    v: np.ndarray | None = None  # (d,) velocities, of a global problem


class Problem:
    """A frictional contact problem (1): ``Problem(W=W, q=q, mu=mu, dim=3)``.

    ``W`` is (dim n, dim n), dense or of scipy.sparse; ``q`` (dim n,); ``mu`` a number or (n,);
    ``dim`` 3 in space, 2 in the plane.  W need not be symmetric nor have full rank.
    ``Problem.from_global`` takes M, H, f, w.
    """

    W: sparse.csc_matrix  # (dim n, dim n) [1 / mass]
    q: np.ndarray  # (dim n,) [velocity] without impulses
    mu: np.ndarray  # (n,) >= 0
    dim: int
    motion: dict[str, Any] | None  # M, H, f, w of a global problem, else None
    asymmetry: float  # largest |W - W^T| / largest |W|

    @suggesting
    def __init__(self, *, W, q, mu, dim=3, motion=None):
        self.dim = given.dimension(dim)
        self.q = given.vector(q, "q")
        self.W = given.matrix(W, "W", (len(self.q), len(self.q)))
        if len(self.q) % self.dim:
            raise ShapeError(
                f"q has {len(self.q)} entries, which is no multiple of dim={dim}: each contact has "
                "a normal component and dim - 1 tangential ones"
            )
        given.check_diagonal(self.W)
        given.check_scale(self.W, self.q)
        self.mu = given.friction(mu, len(self.q) // self.dim)
        self.motion = motion
        self.asymmetry = given.asymmetry(self.W)
        if self.asymmetry > _ASYMMETRY:
            warnings.warn(
                f"W is not symmetric: |W - W^T| reaches {self.asymmetry:.1e} of |W|. It is solved "
                "as it is given; use (W + W.T) / 2 if that is what you mean",
                stacklevel=2,
            )
        self._index, self._data = proximal.packed(self.W, self.q, self.mu, self.dim)
        self._size = float(np.linalg.norm(self.q))

    @classmethod
    @suggesting
    def from_global(cls, *, M, H, f, w, mu, dim=3) -> "Problem":
        """The problem of M v = H r + f, u = H^T v + w, with M (d, d) and H (d, dim n).

        ``mu`` and ``dim`` are those of ``Problem``.
        """
        f, w = given.vector(f, "f"), given.vector(w, "w")
        M = given.matrix(M, "M", (len(f), len(f)))
        H = given.matrix(H, "H", (len(f), len(w)))
        solve = _inverse(M)
        W = H.T @ solve(H)
        motion = {"M": M, "H": H, "f": f, "w": w}
        return cls(W=W, q=w + H.T @ solve(f), mu=mu, dim=dim, motion=motion)

    @property
    def contacts(self) -> int:
        """n, the number of contacts."""
        return len(self.mu)

    @suggesting
    def solve(self, tolerance=1e-8, *, start=None, convex=False, limit=20_000) -> Result:
        """An r whose residual (3) is at most ``tolerance``.

        ``start`` is a first guess of r; ``convex`` asks for the convex law, which leaves
        mu |u_t| n out of (1); ``limit`` is the most sweeps, after which Newton's
        method, that of multipliers (projection/augmented_friction.py), the path of
        projection/compliant.py and heavier damping are tried.  What does not converge comes back
        with a status, and is not raised: (1) need not have an answer where contacts wedge each
        other and q drives them together.
        """
        tolerance = given.number(tolerance, "tolerance", "such as 1e-8")
        if not 0.0 < tolerance < np.inf:
            raise CaromError(f"tolerance={tolerance}: it must be positive, such as 1e-8")
        if type(limit) is not int or limit < 1:
            limit = given.count(limit, "limit")
        if convex is not False and convex is not True:
            convex = given.truth(convex, "convex")
        size = len(self.q)
        work = np.zeros(4 * size + len(self.mu))
        if start is not None:
            work[:size] = self._impulse(start, "start")
        if self._size == 0.0:  # at rest without impulses
            return self._result(np.zeros(size), self.q.copy(), 0.0, 0, tolerance)
        goal = tolerance * self._size
        r, u, residual, done = solving.solve(self, work, goal, convex, limit)
        return self._result(r, u, residual / self._size, done, tolerance)

    @cached_property
    def _regular(self):
        return proximal.regular(self.W)

    @cached_property
    def _sizes(self):
        """(n,) |W_kk|."""
        return proximal.sizes(self.W, self.dim)[1]

    @cached_property
    def _root(self):
        """G with W = G G^T, but for what of W is not symmetric or negative; None if not found."""
        if self.motion is not None and (lower := roots.lower(self.motion["M"])) is not None:
            return (lower @ self.motion["H"]).T.tocsr()
        if self._few:
            return roots.of_all(self.W)
        return roots.of_bodies(self.W, self.dim, self._sizes)

    @property
    def _few(self):
        return len(self.q) <= _FULL

    @suggesting
    def residual(self, r, *, convex=False) -> float:
        """The measure (3) of any answer ``r`` (dim n,); absolute where q = 0.

        It is no less than what rounding may leave of it, eps |W_kk| |r_k| over all contacts: of r
        that have grown far beyond q, nothing else is known.  ``convex``: as in ``solve``.
        """
        r = self._impulse(r, "r")
        found = np.linalg.norm(_natural(self, r, self.W @ r + self.q, 0.0 if convex else 1.0))
        least = math.sqrt(friction.rounding2(self.dim, self._sizes, r))
        return float(least if found < least else found) / (self._size or 1.0)

    @suggesting
    def save(self, path, result: Result | None = None, *, title="", description="") -> None:
        """Write the problem, and the ``result`` if one is given, as an FCLIB file ``path``.

        ``title`` and ``description`` are words in it.
        """
        path = given.named(path)
        if result is not None:
            if not isinstance(result, Result):
                raise KindError(f"result={result!r}: what problem.solve() returns is wanted")
            self._impulse(result.r, "the r of the result")
        if not path.absolute().parent.is_dir():
            raise RecordError(f"there is no folder {path.absolute().parent}: make it first")
        if path.is_dir():
            raise RecordError(f"{path} is a folder: name a file in it, such as problem.hdf5")
        files.write(self, path, result, str(title), str(description))

    def _impulse(self, r, name):
        r = given.vector(r, name)
        if r.shape != self.q.shape:
            raise ShapeError(f"{name} has shape {r.shape}; this problem's is {self.q.shape}")
        return r

    def _result(self, r, u, residual, iterations, tolerance):
        status = _OK if residual <= tolerance else Status.unconverged
        v = None
        if self.motion is not None:
            v = _inverse(self.motion["M"])(self.motion["H"] @ r + self.motion["f"])
        return Result(r, u, residual, iterations, status, v)


def _natural(problem, r, u, s):
    """(3) before the norm, contact by contact: (n, dim).  Written apart from the kernels."""
    r, u = r.reshape(-1, problem.dim), u.reshape(-1, problem.dim)
    mu, rho = problem.mu, 1.0 / problem._sizes
    push = u.copy()
    push[:, 0] += s * mu * np.linalg.norm(u[:, 1:], axis=1)
    z = r - rho[:, None] * push
    return (r - onto_cone(z, mu, np)) / rho[:, None]


def _inverse(M) -> Callable[[Any], Any]:
    """x -> M^-1 x for vectors and sparse matrices."""
    light = np.flatnonzero(~(M.diagonal() > 0.0))
    if len(light):
        k = light[0]
        raise MassError(f"M[{k}, {k}] = {M[k, k]:g}: the inertia of a coordinate is positive")
    if M.nnz == M.shape[0] and np.array_equal(M.indices, np.arange(M.shape[0])):
        scale = sparse.diags(1.0 / M.data)
        return lambda x: scale @ x
    lower = roots.lower(M)
    if lower is not None:
        return lambda x: lower.T @ (lower @ x)
    try:
        factor = linalg.splu(M)
    except RuntimeError as error:
        raise CaromError(f"M cannot be inverted ({error}): check the mass matrix") from error

    def solve(x):
        return (
            sparse.csc_matrix(factor.solve(x.toarray())) if sparse.issparse(x) else factor.solve(x)
        )

    return solve


@suggesting
def load(path) -> Problem:
    """Read an FCLIB file, local (W, q, mu) or global (M, H, f, w, mu).

    Parameters
    ----------
    path
        The file, HDF5 as FCLIB lays it out.
    """
    found = files.read(path)
    return Problem.from_global(**found) if "M" in found else Problem(**found)
