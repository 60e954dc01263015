"""Large sparse constant matrices: products, and the kinetic metric of a sparse mass.

A sparse mass is put in band form once (reverse Cuthill-McKee) and factorised, M = L L^T with L of
bandwidth b.  A solve is then a scan over the d rows, of cost d b: about 20 ns a row for a bar of
finite elements, where a dense inverse would read d^2 numbers.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from carom.errors import MassError, ShapeError
from carom.projection.metric import DiagonalMetric, Metric, check_definite


def is_sparse(matrix) -> bool:
    """Whether this is a matrix or an array of scipy.sparse, which need not be imported to ask."""
    return type(matrix).__module__.startswith("scipy.sparse")


def sparse_metric(mass) -> Metric:
    """The kinetic metric of a scipy.sparse mass."""
    matrix = _checked(mass)
    if _bandwidth(matrix, np.arange(matrix.shape[0])) == 0:
        check_definite(matrix.diagonal(), "mass")
        return DiagonalMetric(jnp.asarray(matrix.diagonal()))
    return BandedMetric(matrix)


class Sparse(eqx.Module):
    """A constant sparse matrix for use in a force: ``carom.Sparse(K) @ q`` works under jit.

    Made from ``matrix``, of scipy.sparse.  Every row keeps as many entries as the fullest one, so
    that a product is a sum of gathers.

    Examples
    --------
    >>> import carom, jax.numpy as jnp
    >>> from scipy.sparse import diags_array
    >>> springs = diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(4, 4))
    >>> K = carom.Sparse(springs)
    >>> print(K @ jnp.array([0.0, 1.0, 2.0, 3.0]))
    [-1.  0.  0.  4.]
    """

    columns: Array  # (n, k) int
    values: Array  # (n, k), zero where a row has fewer entries
    shape: tuple[int, int] = eqx.field(static=True)

    def __init__(self, matrix):
        rows = _as_csr(matrix)
        fill = np.diff(rows.indptr)
        k = max(1, int(np.max(fill, initial=0)))
        columns = np.zeros((rows.shape[0], k), int)
        values = np.zeros((rows.shape[0], k))
        inside = np.arange(k) < fill[:, None]
        columns[inside], values[inside] = rows.indices, rows.data
        self.columns, self.values = jnp.asarray(columns), jnp.asarray(values)
        self.shape = rows.shape

    def __matmul__(self, x: Array) -> Array:
        if x.shape != self.shape[1:]:
            raise ShapeError(f"a matrix of shape {self.shape} times a vector of shape {x.shape}")
        return jnp.sum(self.values * x[self.columns], axis=1)


class BandedMetric(Metric):
    """M sparse, with P M P^T = L L^T of bandwidth b; P a permutation that makes b small.

    Forward:   y_j = (g_j - sum_k L[j, j-k] y_{j-k}) / L[j, j]           (W = L^-1 P)       (1)
    Backward:  x_j = (y_j - sum_k L[j+k, j] x_{j+k}) / L[j, j],  k = 1..b                   (2)
    """

    mass: Sparse  # (d, d)
    order: Array  # (d,) int: row j of L is coordinate order[j]
    place: Array  # (d,) int: coordinate i is row place[i] of L
    diagonal: Array  # (d,) L[j, j]
    left: Array  # (d, b) L[j, j-k], zero outside
    below: Array  # (d, b) L[j+k, j]

    def __init__(self, matrix):
        order = _band_order(matrix)
        bands = _factor(matrix[order][:, order])
        d, b = matrix.shape[0], len(bands) - 1
        left, below = np.zeros((d, b)), bands[1:].T
        for k in range(1, b + 1):
            left[k:, k - 1] = bands[k, : d - k]
        self.mass = Sparse(matrix)
        self.order, self.place = jnp.asarray(order), jnp.asarray(np.argsort(order))
        self.diagonal, self.left = jnp.asarray(bands[0]), jnp.asarray(left)
        self.below = jnp.asarray(below)

    def apply(self, v):
        return self.mass @ v

    def whiten(self, rows):
        return jax.vmap(lambda g: self._substituted(g[self.order], self.left, False))(rows)  # (1)

    def lift(self, y):
        return self._substituted(y, self.below, True)[self.place]  # (2)

    def ok(self):
        return jnp.all(jnp.isfinite(self.diagonal))

    def _substituted(self, right, beside, reverse):
        def row(last, data):  # last: the b unknowns found before, nearest first
            g, a, c = data
            y = (g - jnp.sum(c * last)) / a
            return jnp.concatenate([y[None], last])[:-1], y

        b = beside.shape[1]
        return jax.lax.scan(
            row, jnp.zeros(b), (right, self.diagonal, beside), reverse=reverse, unroll=4
        )[1]


def _as_csr(matrix) -> Any:
    import scipy.sparse

    rows = scipy.sparse.csr_array(matrix)
    rows.sum_duplicates()
    return rows.astype(float)


def _checked(mass) -> Any:
    """A sparse mass as CSR: square, finite, symmetric."""
    matrix = _as_csr(mass)
    if matrix.shape[0] != matrix.shape[1]:
        raise ShapeError(f"mass has shape {matrix.shape}; a sparse mass must be (d, d)")
    if not np.all(np.isfinite(matrix.data)):
        raise MassError("mass has an entry that is not finite")
    skew, size = abs(matrix - matrix.T), abs(matrix)
    if skew.nnz and skew.max() > 1e-10 * size.max():
        raise MassError(
            f"mass is not symmetric: |M - M^T| reaches {skew.max():g}; use (M + M.T) / 2 if that "
            "is what you mean"
        )
    return matrix


def _band_order(matrix) -> np.ndarray:
    """(d,) a permutation with a small bandwidth; the given one where it is no worse."""
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    found = reverse_cuthill_mckee(matrix, symmetric_mode=True)
    given = np.arange(matrix.shape[0])
    return given if _bandwidth(matrix, given) <= _bandwidth(matrix, found) else found


def _bandwidth(matrix, order) -> int:
    entries, place = matrix.tocoo(), np.argsort(order)
    return int(np.max(np.abs(place[entries.row] - place[entries.col]), initial=0))


def _factor(matrix) -> np.ndarray:
    """(b + 1, d) the bands of L, main diagonal first: bands[k, j] = L[j + k, j]."""
    from scipy.linalg import LinAlgError, cholesky_banded

    d, b = matrix.shape[0], _bandwidth(matrix, np.arange(matrix.shape[0]))
    bands = np.zeros((b + 1, d))
    for k in range(b + 1):
        bands[k, : d - k] = matrix.diagonal(-k)
    try:
        return cholesky_banded(bands, lower=True)
    except LinAlgError as problem:
        raise MassError(
            f"mass is not positive definite ({problem}); a coordinate without inertia must be "
            "eliminated"
        ) from None
