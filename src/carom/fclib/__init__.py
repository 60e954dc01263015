"""Frictional contact problems as such, and the FCLIB files in which the field exchanges them.

With one block of ``dim`` components for each contact, normal first, find r with

    u = W r + q,     K*_mu ∋ u + mu |u_t| n   perp   r ∈ K_mu                                 (1)

and, where the problem is global, M v = H r + f, u = H^T v + w, so that

    W = H^T M^-1 H,     q = w + H^T M^-1 f.                                                   (2)

An answer is measured by the natural map as a velocity, relative to q,

    | rho^-1 (r - P_K(r - rho (u + mu |u_t| n))) | / |q|,     rho_k = 1 / |W_kk|_2.           (3)

Most problems of piles have more unknowns than motions: u is determined, r often is not.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np
from scipy import sparse
from scipy.sparse import linalg

from carom.arguments import suggesting
from carom.errors import (
    CaromError,
    FrictionError,
    KindError,
    MassError,
    RecordError,
    ShapeError,
)
from carom.fclib import files, given
from carom.kernels import friction
from carom.projection import augmented_friction, compliant, interior, lemke, proximal, roots
from carom.projection.cones import onto_cone
from carom.status import Status

__all__ = ["Problem", "Result", "load", "of_step"]

_TURNS = 60  # of Newton's method, which takes over where sweeps end
_STEPS, _EACH, _LONGEST = 300, 12, 2500  # of multipliers: at least, to a contact, at most
_CHEAP = 1000  # of them at first, of more contacts whose bodies are known
_LARGE = 1000  # contacts, beyond which there are fewer of them
_EARLY, _MANY = 3000, 100  # sweeps and contacts: beyond both, a sweep is dearer than multipliers
_FULL = 300  # rows of W, up to which its root is found from all of its entries
_PIECES, _FAR = 1500, 40_000  # of straight paths in the plane, near and from afar
_PIVOTS, _LONG = 3000, 300  # of the path of contacts that yield, of so many; fewer of more
_SMOOTH = 1200  # factorisations along smooth paths ...
_RUBBED = 3.0  # ... and the mu up to which these are short
_LOOKS = 200, 1000, 5000  # sweeps, after which Newton's method is tried where W is regular
_LIGHT = 1500  # operations to an entry of W
_ASTRAY = 0.01  # of |q|: where so much is left after hundreds of sweeps of many contacts ...
_DAMPED = 1.0  # ... they are damped by so much
_HEAVY = 0.4  # damping of the sweeps that are tried last
_ROUNDING = 1e-14  # of the largest eigenvalue of W: no motion
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
        n, size = len(self.mu), len(self.q)
        work = np.zeros(4 * size + n)
        if start is not None:
            work[:size] = self._impulse(start, "start")
        if self._size == 0.0:  # at rest without impulses
            return self._result(np.zeros(size), self.q.copy(), 0.0, 0, tolerance)
        goal = tolerance * self._size
        early = n > _MANY and limit > _EARLY
        sweeps = _EARLY if early else limit
        astray = _ASTRAY * self._size if early else np.inf
        first = min(_LOOKS[0], sweeps) if self._light else sweeps
        done, residual = self._swept(work, goal, not convex, self._data, first, astray)
        if not residual <= goal and first < sweeps:
            done, residual = self._looked(work, goal, not convex, done, sweeps, astray)
        r, u = work[:size], work[size : 2 * size]
        if not residual <= goal:
            if done < sweeps:
                none, damped = np.zeros_like(r), self._damped(_DAMPED)  # r may be no number
                r, more, residual = self._more(none, goal, not convex, damped, sweeps)
                done += more
            if not residual <= goal:
                r, residual, more = self._harder(r, residual, goal, convex, limit, early)
                done += more
            u = self.W @ r + self.q
        return self._result(r, u, residual / self._size, done, tolerance)

    def _swept(self, work, goal, coulomb, data, limit, astray=np.inf):
        """Sweeps done and the residual, from the r in ``work``."""
        return friction.sweeps(self.dim, coulomb, self._index, data, goal, limit, astray, work)[:2]

    def _looked(self, work, goal, coulomb, done, limit, astray):
        """The sweeps go on, as `_swept`; where W is regular, with looks at Newton's method."""
        size, residual = len(self.q), np.inf
        data = self.W, self.q, self.mu, self.dim, self._sizes
        for look in (*_LOOKS[1:], limit) if self._regular else (limit,):
            if self._regular:
                r, turns, _ = proximal.plain(*data, work[:size], 0.9 * goal, coulomb)
                done, residual = done + turns, self.residual(r, convex=not coulomb) * self._size
                if residual <= goal:
                    work[:size], work[size : 2 * size] = r, self.W @ r + self.q
                    break
            until = max(min(look, limit) - done, 1)
            more, residual = self._swept(work, goal, coulomb, self._data, until, astray)
            done += more
            if residual <= goal or more < until or done >= limit:
                break
        return done, residual

    @property
    def _light(self):
        """Whether to factorise W takes about as long as some hundred sweeps, or less."""
        return len(self.q) ** 3 <= _LIGHT * self.W.nnz

    @cached_property
    def _regular(self):
        return proximal.regular(self.W)

    def _damped(self, damping):
        return proximal.packed(self.W, self.q, self.mu, self.dim, damping)[1]

    def _harder(self, r, residual, goal, convex, limit, early):
        """Where sweeps did not do it, one method after the other: r, its residual, iterations."""
        none, coulomb, done = np.zeros_like(r), not convex, 0
        if not residual <= self._size:  # they went astray
            r, residual = none, self.residual(none, convex=convex) * self._size
        n, left = len(self.mu), limit - _EARLY

        def heavy(r):
            return self._more(none, goal, coulomb, self._damped(_HEAVY), 5 * limit)

        def again(r):
            other, more, found = self._more(r, goal, coulomb, self._data, left, _ASTRAY)
            if found <= goal or more >= left:
                return other, more, found
            return self._more(r, goal, coulomb, self._damped(_DAMPED), left - more)

        def newton(r):
            return self._newton(r, goal, coulomb)

        def multipliers(r, steps=_EACH * n):
            return self._multipliers(r, goal, convex, steps)

        def inside(_):
            return self._inside(goal)

        def path(r):
            return self._path(r, goal, convex)

        def straight(r):
            return self._straight(r, goal, _PIECES)

        def afar(_):
            return self._straight(None, goal, _FAR)

        stages, swept = [newton, multipliers, path], r
        if early:
            stages = [newton, path, multipliers] if n <= _LONG else stages
            cheap = n > _LONG and self._root is not None
            if cheap:  # what they found last may lead nowhere
                stages = [newton, multipliers, lambda r: multipliers(swept), path]
            stages = [lambda r: multipliers(r, _CHEAP if cheap else _STEPS), again, *stages]
        if coulomb and n <= 2 * _LARGE and np.max(self.mu) <= _RUBBED:
            stages.insert(1, inside)
        if self.dim == 2 and coulomb:
            if n <= _LONG:
                stages.insert(stages.index(newton) + 1, afar)
            if n <= _LARGE:
                stages.insert(0, straight)  # quick, where it leads to an answer
        for stage in (*stages, heavy, lambda r: path(none)):
            other, more, found = stage(r)
            done += more
            if found < residual:
                r, residual = other, found
            if residual <= goal:
                break
        return r, residual, done

    def _more(self, r, goal, coulomb, data, limit, astray=np.inf):
        """Sweeps from r."""
        work = np.zeros(4 * len(r) + len(self.mu))
        work[: len(r)] = r
        done, found = self._swept(work, goal, coulomb, data, limit, astray * self._size)
        return work[: len(r)], done, found

    @cached_property
    def _sizes(self):
        """(n,) |W_kk|."""
        return proximal.sizes(self.W, self.dim)[1]

    @cached_property
    def _root(self):
        """G with W = G G^T, but for what of W is not symmetric or negative; None if not found."""
        if self.motion is not None and (lower := roots.lower(self.motion["M"])) is not None:
            return (lower @ self.motion["H"]).T.tocsr()
        if len(self.q) > _FULL:
            return roots.of_bodies(self.W, self.dim, self._sizes)
        full = self.W.toarray()
        square, axes = np.linalg.eigh(0.5 * (full + full.T))
        kept = square > _ROUNDING * np.max(square, initial=0.0)
        return sparse.csr_matrix(axes[:, kept] * np.sqrt(square[kept]))

    def _newton(self, r, goal, coulomb):
        """Where sweeps crawl, from what they found."""
        data = self.W, self.q, self.mu, self.dim, self._sizes, self._index, self._data
        root = None if self.motion is None and len(self.q) <= _FULL else self._root
        r, turns, _ = proximal.solve(*data, r, 0.9 * goal, coulomb, _TURNS, root=root)
        return r, turns, self.residual(r, convex=not coulomb) * self._size

    def _multipliers(self, r, goal, convex, steps):
        """Where impulses must grow far."""
        good = _Best(self, r, goal, convex)
        steps, root = min(max(_STEPS, steps), _LONGEST), self._root
        if root is None:  # then a step takes ten times as long
            steps = steps * _LARGE // max(_LARGE, len(self.mu))
        data = root, self.q, self.mu, self.dim, self._sizes, r
        made = augmented_friction.solve(*data, good, steps, not convex, self.W)[1]
        return good.r, made, good.found

    def _inside(self, goal):
        """Along smooth paths through the inside of the cones, which Newton's method ends."""
        good = _Best(self, np.zeros_like(self.q), goal)

        def ended(r):
            return good(self._newton(r, goal, True)[0])

        data = self.W, self.q, self.mu, self.dim, self._sizes
        made = interior.solve(*data, good, ended, _SMOOTH)
        return good.r, made, good.found

    def _straight(self, r, goal, pieces):
        """In the plane, along straight paths near r, mostly short or none; from afar without r."""

        def good(r):
            return self.residual(r) * self._size <= goal

        data = self.W, self.q, self.mu, self._sizes
        if r is None:
            r, made = lemke.far(*data, pieces, good)
        else:
            r, made = lemke.near(*data, r, pieces, good)
        return r, made, np.inf if r is None else self.residual(r) * self._size

    def _path(self, r, goal, convex):
        """Where Coulomb's law has others stopped: along the contacts that yield, from r."""
        if convex:
            return r, 0, np.inf

        def good(r):
            return self.residual(r) * self._size <= goal

        data = self.W, self.q, self.mu, self.dim, self._sizes
        most = _PIVOTS * _LONG // max(_LONG, len(self.mu))
        r, pivots, _ = compliant.solve(*data, r, most, good)
        return r, pivots, self.residual(r) * self._size

    def residual(self, r, *, convex=False) -> float:
        """The measure (3) of any answer ``r`` (dim n,); absolute where q = 0.

        ``convex``: as in ``solve``.
        """
        r = self._impulse(r, "r")
        found = _natural(self, r, self.W @ r + self.q, 0.0 if convex else 1.0)
        return float(np.linalg.norm(found)) / (self._size or 1.0)

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


class _Best:
    """Of all r that a method shows, the best; true as soon as one has reached the goal."""

    def __init__(self, problem, r, goal, convex=False):
        self.problem, self.r, self.goal, self.convex = problem, r, goal, convex
        self.found = np.inf

    def __call__(self, r):
        found = self.problem.residual(r, convex=self.convex) * self.problem._size
        if found < self.found:
            self.r, self.found = r, found
        return self.found <= self.goal


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


# Steps of a run.


@suggesting
def of_step(sol, record: int = -1) -> Problem:
    """The frictional problem of the step that starts at a record of a run: a global problem.

        M v1 = H r + f,   u = H^T v1 + w,      f = M v + dt force,  w of the impact law or gap/dt

    as the scheme of the run (Moreau, MoreauJean, Maury) poses it; of several it poses in a step,
    the first.  A force at the end of the step is that of the solution.
    ``problem.save(path)`` writes it.

    Parameters
    ----------
    sol
        A solution with friction, of Moreau, MoreauJean or Maury.
    record
        The index of the record, -1 for the last.
    """
    if not hasattr(sol, "starting"):
        raise KindError(f"sol={str(sol)[:60]!r}: a solution of carom.solve is wanted")
    count = len(sol.t)
    if not isinstance(record, int | np.integer) or not -count <= record < count:
        raise KindError(f"record={record!r}: a whole number from {-count} to {count - 1} is wanted")
    world, t, q, v = sol.starting(record)
    heard = _Listener(world)
    scheme, dt = sol.scheme, float(sol.dt)
    scheme.step(heard, scheme.start(world, t, q, v, dt), dt)
    if heard.posed is None:
        raise FrictionError(f"record {record}: {scheme} poses no problem in the step after it")
    metric, free, contacts, b, active = heard.posed
    H, w, mu, dim = contacts.frictional(b, active)
    if not len(mu):
        raise FrictionError(f"record {record}, t = {float(t):g}: nothing touches in the step after")
    f = np.asarray(metric.apply(free))
    if f.ndim == 1:
        M = jax.vmap(metric.apply)(np.eye(len(f)))
    else:  # one row a body
        M = sparse.diags(np.broadcast_to(metric.mass, f.shape).ravel())
    return Problem.from_global(M=M, H=H, f=f.ravel(), w=w, mu=mu, dim=dim)


class _Listener:
    """A world that keeps the first problem it is asked to solve."""

    def __init__(self, world):
        self._world, self.posed = world, None

    def __getattr__(self, name):
        return getattr(self._world, name)

    def keep_open(self, metric, t, q, free, dt, memory=None):
        contacts, moved = self._world.keep_open(metric, t, q, free, dt, memory)
        self.posed = self.posed or (metric, free, contacts, contacts.ahead(dt), None)
        return contacts, moved

    def fixed_point(self, phi, guess, **how):
        solved = self._world.fixed_point(phi, guess, **how)  # poses many on the way, or traced ones
        self.posed = None
        phi(solved.value.point)
        return solved

    def project(self, metric, target, contacts, b, active=None):
        self.posed = self.posed or (metric, target, contacts, b, active)
        return self._world.project(metric, target, contacts, b, active)


def load(path) -> Problem:
    """Read an FCLIB file, local (W, q, mu) or global (M, H, f, w, mu).

    Parameters
    ----------
    path
        The file, HDF5 as FCLIB lays it out.
    """
    found = files.read(path)
    return Problem.from_global(**found) if "M" in found else Problem(**found)
