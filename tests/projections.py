"""Projections by ``carom.project``, what they must satisfy, and families of them.

The conditions are written out here from the definition, in extended precision, and never taken from
the package: a point with multipliers that satisfies them is the projection, for the problem is
strictly convex.
"""

import clarabel
import jax
import numpy as np
from scipy import sparse

import carom
from carom import Status

PROMISED = 1e-12  # relative KKT residual
TINY = 1e-300  # keeps 0 / 0 at 0
N = 200  # problems in a batch; shapes are few, for each is compiled


def _project(t, G, b, mass, active):
    return carom.project(t, G, b, mass=mass, active=active)


_project_one = jax.jit(_project)
_project_batch = jax.jit(jax.vmap(_project))


def project_batch(t, G, b, mass):
    return _project_batch(t, G, b, mass, np.ones(b.shape, bool))


def project(t, G, b, mass=None, active=True):
    """One problem in up to 3 dimensions; fewer than 8 rows are filled up with 0 x + 1 >= 0."""
    p, d = np.shape(G)
    rows, offsets, target, M = np.zeros((8, 3)), np.ones(8), np.zeros(3), np.eye(3)
    among = np.ones(8, bool)
    rows[:p, :d], offsets[:p], target[:d], among[:p] = G, b, t, active
    M[:d, :d] = np.eye(d) if mass is None else mass
    found = _project_one(target, rows, offsets, M, among)
    return carom.projection.Projection(
        found.point[:d], found.multipliers[:p], found.residual, found.iterations, found.status
    )


# The definition.


def norm(x):
    return np.sqrt(np.sum(x * x, axis=-1))


def times(A, x):
    """A @ x over leading axes, in any precision."""
    return np.sum(A * x[..., None, :], axis=-1)


def transposed(A):
    return np.swapaxes(A, -1, -2)


def dense(mass, t):
    """The mass of targets ``t`` (..., d) as (..., d, d), in extended precision."""
    one = np.eye(t.shape[-1], dtype=np.longdouble)
    if mass is None:
        return one
    mass = np.asarray(mass, np.longdouble)
    return mass if mass.ndim > t.ndim else one * mass[..., None, :]


def kkt_residual(t, G, b, mass, x, lam):
    """M (x - t) = G^T lam,  0 <= lam  perp  G x + b >= 0; each clause relative to its own terms.

    The sign of lam is exact: a negative one counts in full, and so does what is not a number.
    """
    t, G, b, x, lam = (np.asarray(a, np.longdouble) for a in (t, G, b, x, lam))
    M, size = dense(mass, t), norm(G)
    off_balance = norm(times(M, x - t) - times(transposed(G), lam))
    balance_scale = norm(times(M, x)) + norm(times(M, t)) + np.sum(size * np.abs(lam), axis=-1)
    slack_scale = size * (norm(x) + norm(t))[..., None] + np.abs(b)
    slack = (times(G, x) + b) / np.maximum(slack_scale, TINY)
    clauses = [
        off_balance / np.maximum(balance_scale, TINY),
        np.max(np.where(lam > 0.0, np.abs(slack), np.maximum(-slack, 0.0)), axis=-1),
        np.where(np.min(lam, axis=-1) < 0.0, np.inf, 0.0),
    ]
    worst = np.max(np.stack(clauses), axis=0)
    return np.where(np.isnan(worst), np.inf, worst)


def distance(x, y, mass):
    """|x - y| in the kinetic norm."""
    z = np.asarray(x, np.longdouble) - np.asarray(y)
    return np.sqrt(np.sum(z * times(dense(mass, z), z), axis=-1))


def has(found, status):
    return np.asarray(found.status == status)


def assert_projected(found, t, G, b, mass=None):
    assert has(found, Status.ok).all()
    worst = np.max(kkt_residual(t, G, b, mass, found.point, found.multipliers))
    assert worst < PROMISED
    return worst


def assert_infeasible(found):
    assert has(found, Status.infeasible).all()
    assert np.isfinite(found.point).all()
    assert np.isfinite(found.multipliers).all()
    assert np.min(found.multipliers) >= 0.0


# Families of rows.


def gaussian(rng, n, p, d):
    return rng.normal(size=(n, p, d))


def dependent(rng, n, p, d):
    rank = max(1, min(p, d) // 2)
    return rng.normal(size=(n, p, rank)) @ rng.normal(size=(n, rank, d))


def among_few(rng, n, p, d):
    """Rows drawn from a third as many directions."""
    few = rng.integers(0, max(1, p // 3), (n, p))
    return np.take_along_axis(gaussian(rng, n, p, d), few[..., None], axis=1)


def duplicate(rng, n, p, d):
    """Equal, and parallel with other lengths: with their offsets, redundant rows."""
    return among_few(rng, n, p, d) * rng.choice([1.0, 1.0, 0.1, 7.0], (n, p, 1))


def close(angle):
    def rows(rng, n, p, d):
        return among_few(rng, n, p, d) + angle * rng.normal(size=(n, p, d))

    return rows


def some_zero(rng, n, p, d):
    return gaussian(rng, n, p, d) * (rng.random((n, p, 1)) > 0.3)


def badly_scaled(rng, n, p, d):
    return gaussian(rng, n, p, d) * 10.0 ** rng.uniform(-6, 6, (n, p, 1))


def integer(rng, n, p, d):
    return rng.integers(-2, 3, (n, p, d)).astype(float)


FAMILIES = {
    "gaussian": gaussian,
    "dependent": dependent,
    "duplicate": duplicate,
    "angle 1e-6": close(1e-6),
    "angle 1e-9": close(1e-9),
    "some zero": some_zero,
    "badly scaled": badly_scaled,
    "integer": integer,
}


def problems(family, rng, n, p, d):
    """Targets (n, d), rows (n, p, d), offsets (n, p): half of the rows pass through one point,
    the others leave it inside."""
    G = FAMILIES[family](rng, n, p, d)
    inside = rng.integers(-2, 3, (n, d)).astype(float)
    open_by = rng.exponential(size=(n, p)) * norm(G) * (rng.random((n, p)) < 0.5)
    t = inside + rng.normal(size=(n, d)) * rng.choice([0.1, 1.0, 10.0], (n, 1))
    return t, G, open_by - times(G, inside)


def masses(kind, rng, n, d):
    if kind == "identity":
        return None
    if kind == "diagonal":
        return 10.0 ** rng.uniform(-1, 1, (n, d))
    A = rng.normal(size=(n, d, d))
    return A @ transposed(A) / d + 0.1 * np.eye(d)


def contradictory(rng, n, p, d, margin):
    """sum_i y_i G_i = 0 and y . b = -margin with y > 0: Farkas' proof that there is no point."""
    G, y = rng.normal(size=(n, p, d)), rng.uniform(0.1, 1.0, (n, p))
    G[:, -1] = -np.sum(y[:, :-1, None] * G[:, :-1], axis=1) / y[:, -1:]
    b = rng.normal(size=(n, p))
    b[:, -1] = -(np.sum(y[:, :-1] * b[:, :-1], axis=1) + margin) / y[:, -1]
    return rng.normal(size=(n, d)), G, b


# A QP library.


def clarabel_solution(t, G, b, mass):
    options = clarabel.DefaultSettings()
    options.verbose = False
    M = np.asarray(dense(mass, t), float)
    rows, cone = sparse.csc_matrix(-G), [clarabel.NonnegativeConeT(len(b))]
    found = clarabel.DefaultSolver(
        sparse.csc_matrix(np.triu(M)), -M @ t, rows, b, cone, options
    ).solve()
    return str(found.status), np.array(found.x)
