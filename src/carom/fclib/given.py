"""What is given to a frictional problem, looked at."""

import numbers
from pathlib import Path

import numpy as np
from scipy import sparse

from carom.errors import CaromError, FrictionError, KindError, NonFiniteError, ShapeError


def dimension(dim) -> int:
    if np.ndim(dim) or dim not in (2, 3):
        raise ShapeError(f"dim={dim!r}: it is 2 (planar) or 3 (spatial)")
    return int(dim)


def number(x, name, example) -> float:
    if type(x) is float:
        return x
    try:
        return float(x)
    except (TypeError, ValueError):
        raise KindError(f"{name}={x!r}: a number is wanted, {example}") from None


def count(x, name) -> int:
    found = number(x, name, "such as 20000")
    if not (found.is_integer() and found >= 1.0):
        raise KindError(f"{name}={x!r}: a whole number from 1 on is wanted, such as 20000")
    return int(found)


def real(x, name) -> np.ndarray:
    """A new array of floats."""
    try:
        found = np.asarray(x)
        if found.dtype.kind in "biuf":
            return np.array(found, float)
        if found.dtype.kind == "O" and all(isinstance(one, numbers.Real) for one in found.flat):
            return found.astype(float)
    except (TypeError, ValueError):  # such as rows of several lengths
        pass
    raise KindError(f"{name}={str(x)[:60]!r}: real numbers are wanted")


def vector(x, name) -> np.ndarray:
    x = real(x, name)
    if x.ndim != 1:
        raise ShapeError(f"{name} has shape {x.shape}; one axis is wanted")
    if not np.all(np.isfinite(x)):
        raise NonFiniteError(f"{name}[{np.flatnonzero(~np.isfinite(x))[0]}] is not finite")
    return x


def matrix(A, name, shape) -> sparse.csc_matrix:
    if not sparse.issparse(A):
        A = real(A, name)
        if A.ndim != 2:
            raise ShapeError(f"{name} has shape {A.shape}; two axes are wanted")
    elif A.dtype.kind not in "biuf":
        raise KindError(f"{name} has entries of type {A.dtype}: real numbers are wanted")
    A = sparse.csc_matrix(A, dtype=float, copy=True)  # what is given may change later
    if A.shape != shape:
        raise ShapeError(f"{name} has shape {A.shape}; with the vectors given it must be {shape}")
    A.sum_duplicates()
    if not np.all(np.isfinite(A.data)):
        raise NonFiniteError(f"{name} has an entry that is not finite")
    return A


def check_scale(W, q) -> None:
    """Refuse what cannot be squared, as the measure of an answer does with it and with q / W."""
    for name, x in (("W", W.data), ("q", q)):
        largest = np.max(np.abs(x), initial=0.0)
        if largest and not 1e-70 < largest < 1e70:
            raise CaromError(f"the largest entry of {name} is {largest:.1e}: take other units")


def friction(mu, contacts) -> np.ndarray:
    mu = real(mu, "mu")
    if mu.ndim == 0:
        mu = np.full(contacts, float(mu))
    if mu.shape != (contacts,):
        raise ShapeError(f"mu has shape {mu.shape}; a number or ({contacts},) is wanted")
    if not np.all(np.isfinite(mu)) or np.any(mu < 0.0):
        bad = mu[~(np.isfinite(mu) & (mu >= 0.0))][0]
        raise FrictionError(f"mu={bad:g}: friction coefficients are finite and not negative")
    return mu


def check_diagonal(W) -> None:
    """Refuse a W in which an impulse pulls what it pushes."""
    diagonal = W.diagonal()
    worst = int(np.argmin(diagonal)) if len(diagonal) else 0
    if len(diagonal) and diagonal[worst] < -1e-9 * np.max(np.abs(diagonal)):
        raise ShapeError(
            f"W[{worst}, {worst}] = {diagonal[worst]:.3g} is negative: W = H^T M^-1 H has none on "
            "its diagonal; look at its sign, and at M"
        )


def asymmetry(W) -> float:
    largest = np.max(np.abs(W.data), initial=0.0)
    return 0.0 if largest == 0.0 else float(np.max(np.abs((W - W.T).data), initial=0.0) / largest)


def truth(x, name) -> bool:
    if not isinstance(x, np.bool_):
        raise KindError(f"{name}={x!r}: True or False is wanted")
    return bool(x)


def named(path) -> Path:
    try:
        path = Path(path)
    except TypeError:
        raise KindError(f"path={path!r}: the name of a file is wanted") from None
    if "\0" in str(path):
        raise KindError(f"path={str(path)!r}: the name of a file is wanted")
    return path
