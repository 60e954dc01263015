"""The projection of a step: sweeps, and where they do not end the method of multipliers."""

import numpy as np

from carom import kernels

_MOST = 20_000  # rows: beyond, a matrix of all of them takes longer than it is worth
_ENOUGH = 1000  # sweeps: who allows fewer wants an end, not an answer
_SHARE = 0.98  # of what is allowed, as in kernels/numba/projection.py


def projected(start, i, j, normal, b, inverse, free, still, lam, most, relative, iterations):
    """As kernels.projection.accelerated_gauss_seidel: u, the residual, sweeps and other turns."""
    given = start, i, j, normal, b, inverse, free, still, lam, most, relative
    found = kernels.projection.accelerated_gauss_seidel(*given, iterations)
    stalled = 1.0 < found[1] < np.inf and iterations >= _ENOUGH
    if not stalled or len(i) > _MOST:
        return found
    better, turns = _by_multipliers(*given)
    u, residual = _measured(better, *given)
    if not residual < found[1]:
        return *found[:2], found[2] + turns
    lam[:] = better
    return u, residual, found[2] + turns


def _by_multipliers(start, i, j, normal, b, inverse, free, still, lam, most, relative):
    """lam, and Newton steps."""
    from scipy import sparse

    from carom.projection import augmented

    moves = np.flatnonzero(inverse > 0.0)
    place = np.full(len(inverse), -1)
    place[moves] = np.arange(len(moves))
    rows, columns, values = [], [], []
    for body, sign in ((i, -1.0), (j, 1.0)):
        of = np.flatnonzero(place[body] >= 0)
        rows.append(np.repeat(of, 3))
        columns.append((3 * place[body[of]][:, None] + np.arange(3)).ravel())
        values.append(sign * normal[of].ravel())
    where = np.concatenate(rows), np.concatenate(columns)
    G = sparse.csr_matrix((np.concatenate(values), where), (len(i), 3 * len(moves)))

    def good(c):
        measured = _measured(c, start, i, j, normal, b, inverse, free, still, lam, most, relative)
        return measured[1] <= _SHARE

    mass = np.repeat(1.0 / inverse[moves], 3)
    return augmented.multipliers(mass, G, b, free[moves].ravel(), lam, good)


def _measured(c, start, i, j, normal, b, inverse, free, still, lam, most, relative):
    """u of the multipliers c, and the residual, in terms of what is allowed."""
    u, allowed, step = free.copy(), np.empty(len(i)), 1.0 / (inverse[i] + inverse[j])
    kernels.projection.push(start, i, j, normal, inverse, c, u)
    kernels.projection.allow(i, j, b, still, u, most, relative, allowed)
    return u, kernels.projection.residual(i, j, normal, b, step, u, c, allowed)
