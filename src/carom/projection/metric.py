"""The kinetic metric at one configuration: <x, y> = x^T M y for velocities, x^T M^-1 y for momenta.

Three kinds of M share one set of methods.  Each stores the inverse W of a factor, M^-1 = W^T W, so
that every use inside a compiled loop is a product: ``whiten`` maps covectors to a space where the
kinetic norm is the Euclidean one, ``lift`` maps back.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from carom.errors import MassError

# Up to this size a factorisation is written out in scalars, which the compiler fuses into the loop
# around it; a LAPACK call inside a loop costs microseconds.
_UNROLLED = 6
# Up to this many entries a product is a sum that fuses; above it a BLAS-like dot is faster.
_FUSED = 256
# Up to this many terms a sum stays a sum; in some batches there are a few times as many.
_SUMMED = 1024


def summed(x: Array) -> Array:
    """Over the last axis, term by term where it is short.

    In a large batch XLA hands each sum to a library, which takes longer than the rest of a step.
    """
    n = x.shape[-1]
    if not 1 <= n <= _UNROLLED:
        return jnp.sum(x, axis=-1)
    total = jax.lax.index_in_dim(x, 0, -1, keepdims=False)
    for k in range(1, n):
        total = total + jax.lax.index_in_dim(x, k, -1, keepdims=False)
    return total


def product(A: Array, x: Array) -> Array:
    """A @ x for A (m, n), x (n,), fused into its surroundings while it is small."""
    return summed(A * x) if A.size <= _FUSED else A @ x


def gram(N: Array) -> Array:
    """N @ N.T for N (m, n)."""
    return summed(N[:, None] * N) if N.size <= _FUSED else N @ N.T


def times(A: Any, X: Array) -> Any:
    """A @ X for A (..., k), X (k, n), k small.

    Dots and large sums are handed to libraries, and a loop that holds one is not one kernel.
    """
    if A.size * X.shape[1] <= _SUMMED:
        return jnp.sum(A[..., None] * X, axis=-2)
    return sum(A[..., k, None] * X[k] for k in range(X.shape[0]))


class Metric(eqx.Module):
    """Abstract: what a projection and a scheme ask of the mass matrix."""

    def apply(self, v: Array) -> Array:
        """M v, the momentum of a velocity."""
        raise NotImplementedError

    def whiten(self, rows: Array) -> Array:
        """W g for each row g of (p, d): covectors to Euclidean space."""
        raise NotImplementedError

    def lift(self, y: Array) -> Array:
        """W^T y: Euclidean space to velocities; lift(whiten(g)) = M^-1 g."""
        raise NotImplementedError

    def ok(self) -> Array:
        """Whether M is positive definite and finite."""
        raise NotImplementedError

    def solve(self, f: Array) -> Array:
        """M^-1 f, the velocity of a momentum."""
        return self.lift(self.whiten(f[None])[0])

    def energy(self, v: Array) -> Array:
        """Kinetic energy 1/2 v^T M v."""
        return 0.5 * summed(v * self.apply(v))


class IdentityMetric(Metric):
    """M = I."""

    def apply(self, v):
        return v

    def whiten(self, rows):
        return rows

    def lift(self, y):
        return y

    def ok(self):
        return jnp.array(True)


class DiagonalMetric(Metric):
    """M = diag(m)."""

    mass: Array  # (d,)
    scale: Array  # (d,) 1 / sqrt(m)

    def __init__(self, mass: Array):
        self.mass = mass
        self.scale = 1.0 / jnp.sqrt(mass)

    def apply(self, v):
        return self.mass * v

    def whiten(self, rows):
        return rows * self.scale

    def lift(self, y):
        return y * self.scale

    def ok(self):
        return jnp.all((self.mass > 0.0) & jnp.isfinite(self.mass))


class DenseMetric(Metric):
    """M = L L^T, kept with W = L^-1."""

    mass: Array  # (d, d)
    inverse_factor: Array  # (d, d) lower triangular W

    def __init__(self, mass: Array):
        self.mass = mass
        self.inverse_factor = _inverse_factor(mass)

    def apply(self, v):
        return product(self.mass, v)

    def whiten(self, rows):
        W = self.inverse_factor
        if rows.size * W.shape[0] <= _FUSED:
            return summed(rows[:, None, :] * W)
        return rows @ W.T

    def lift(self, y):
        return product(self.inverse_factor.T, y)

    def ok(self):
        return jnp.all(jnp.isfinite(self.inverse_factor))


def metric_of(mass: Array | None) -> Metric:
    """The metric of a mass: None (identity), (d,) (diagonal) or (d, d)."""
    if mass is None:
        return IdentityMetric()
    return DiagonalMetric(mass) if mass.ndim == 1 else DenseMetric(mass)


def _inverse_factor(M: Array) -> Array:
    """L^-1 for M = L L^T, lower triangular; NaN where M is not positive definite."""
    d = M.shape[0]
    if d > _UNROLLED:
        return jax.scipy.linalg.solve_triangular(jnp.linalg.cholesky(M), jnp.eye(d), lower=True)
    L = [[jnp.zeros(())] * d for _ in range(d)]
    W = [[jnp.zeros(())] * d for _ in range(d)]
    for j in range(d):
        L[j][j] = jnp.sqrt(M[j, j] - sum(L[j][k] ** 2 for k in range(j)))
        for i in range(j + 1, d):
            L[i][j] = (M[i, j] - sum(L[i][k] * L[j][k] for k in range(j))) / L[j][j]
    for j in range(d):
        W[j][j] = 1.0 / L[j][j]
        for i in range(j + 1, d):
            W[i][j] = -sum(L[i][k] * W[k][j] for k in range(j, i)) / L[i][i]
    return jnp.stack([jnp.stack(row) for row in W])


def solve_dense(A: Array, b: Array) -> Array:
    """A^-1 b for any regular A (d, d): Gauss with row exchanges, written out while d is small."""
    d = b.shape[0]
    if d > _UNROLLED:
        return jnp.linalg.solve(A, b)
    if d == 1:
        return b / A[0]
    rows = jnp.concatenate([A, b[:, None]], axis=1)
    order = jnp.arange(d)
    for k in range(d):
        pivot = jnp.argmax(jnp.where(order >= k, jnp.abs(rows[:, k]), -1.0))
        exchanged = jnp.where(order == k, pivot, jnp.where(order == pivot, k, order))
        rows = rows[exchanged]
        factor = jnp.where(order == k, 0.0, rows[:, k] / rows[k, k])
        rows = rows - factor[:, None] * rows[k]
    return rows[:, d] / jnp.diagonal(rows)


def solve_in_loop(A: Array, b: Array) -> Array:
    """The same in a loop: written out, many of them take long to compile."""
    order = jnp.arange(len(b))

    def column(k, rows):
        pivot = jnp.argmax(jnp.where(order >= k, jnp.abs(rows[:, k]), -1.0))
        rows = rows[jnp.where(order == k, pivot, jnp.where(order == pivot, k, order))]
        factor = jnp.where(order == k, 0.0, rows[:, k] / rows[k, k])
        return rows - factor[:, None] * rows[k]

    rows = jax.lax.fori_loop(0, len(b), column, jnp.concatenate([A, b[:, None]], axis=1))
    return rows[:, -1] / jnp.diagonal(rows)


def inertial_force(mass: Callable, q: Array, v: Array) -> Array:
    """The force that makes M(q) q'' = f the Euler-Lagrange equation of T = 1/2 v^T M(q) v.

        f_in = dT/dq - (d/dt M(q)) v,        d/dt along v

    With no other force the motion is a geodesic of the kinetic metric.
    """

    def momentum(q):
        M = mass(q)
        return M * v if M.ndim == 1 else product(M, v)

    def kinetic(q):
        return 0.5 * jnp.sum(v * momentum(q))

    return jax.grad(kinetic)(q) - jax.jvp(momentum, (q,), (v,))[1]


def geodesic(mass: Callable, q: Array, xi: Array) -> Array:
    """exp_q(xi): the point reached at time 1 by the geodesic that leaves q with velocity xi.

    Two classical Runge-Kutta steps: xi is O(dt) where a scheme calls this, so the error is O(dt^5).
    """

    def rate(state):
        x, u = state
        return u, metric_of(mass(x)).solve(inertial_force(mass, x, u))

    def shifted(state, k, c):
        return tuple(s + c * r for s, r in zip(state, k, strict=True))

    def step(_, state):
        k1 = rate(state)
        k2 = rate(shifted(state, k1, h / 2))
        k3 = rate(shifted(state, k2, h / 2))
        k4 = rate(shifted(state, k3, h))
        return tuple(
            s + h / 6 * (a + 2 * b + 2 * c + e)
            for s, a, b, c, e in zip(state, k1, k2, k3, k4, strict=True)
        )

    h = 0.5
    return jax.lax.fori_loop(0, 2, step, (q, xi))[0]


def logarithm(mass: Callable, q: Array, target: Array) -> Array:
    """log_q(target): the velocity xi with exp_q(xi) = target, for a target close to q.

    exp_q(xi) = q + xi + O(|xi|^2), so xi <- xi + target - exp_q(xi) contracts by O(|xi|) a turn;
    eight turns reach rounding for every |xi| below about 1 % of the radius of curvature.
    """
    xi = target - q
    return jax.lax.fori_loop(0, 8, lambda _, xi: xi + target - geodesic(mass, q, xi), xi)


def check_definite(M: np.ndarray, name: str) -> None:
    """Raise MassError unless M, (d,) or (d, d), is finite, symmetric and positive definite."""
    if not np.all(np.isfinite(M)):
        raise MassError(f"{name} has an entry that is not finite: {M}")
    if M.ndim == 1:
        if np.any(M <= 0.0):
            raise MassError(f"{name} has the entry {M.min():g}; every mass must be positive")
        return
    skew = np.max(np.abs(M - M.T))
    if skew > 1e-10 * np.max(np.abs(M)):
        raise MassError(
            f"{name} is not symmetric: |M - M^T| reaches {skew:g}; use (M + M.T) / 2 if that is "
            "what you mean"
        )
    lowest = np.linalg.eigvalsh(M)[0]
    if lowest <= 0.0:
        raise MassError(
            f"{name} is not positive definite: its lowest eigenvalue is {lowest:g}; "
            "a coordinate without inertia must be eliminated"
        )
