"""FCLIB files, HDF5: their numbers by name."""

import os
from typing import Any

import numpy as np
from scipy import sparse

from carom.errors import CaromError, RecordError
from carom.fclib import given

_LOCAL, _GLOBAL = (("W",), ("q", "mu")), (("M", "H"), ("f", "w", "mu"))  # matrices, vectors
_LARGEST = 2**31  # index of a file
_EQUALITIES = {"fclib_local": ("V", "R"), "fclib_global": ("G",)}


def read(path) -> dict[str, Any]:
    """W, q, mu and dim of a local problem, M, H, f, w, mu and dim of a global one."""
    import h5py

    path = given.named(path)
    try:
        there = path.is_file()
    except OSError as error:
        raise RecordError(f"there is no file {str(path)[:60]!r}: {error.strerror}") from None
    if not there:
        raise RecordError(f"there is no file {path}")
    try:
        opened = h5py.File(path, "r")
    except OSError as error:
        raise RecordError(f"{path} is no HDF5 file: {error}") from error
    try:
        return _contents(opened, path)
    except CaromError:
        raise
    except (ArithmeticError, KeyError, MemoryError, OSError, TypeError, ValueError) as error:
        raise RecordError(f"{path} is no problem as FCLIB writes it: {error}") from error


def _contents(opened, path):
    with opened as file:
        for name, (matrices, vectors) in (("fclib_local", _LOCAL), ("fclib_global", _GLOBAL)):
            if name in file:
                group = file[name]
                _no_equalities(group, _EQUALITIES[name], path)
                found = {key: _read_matrix(group, key, path) for key in matrices}
                found |= {key: _read(group, f"vectors/{key}", path) for key in vectors}
                return found | {"dim": _read_count(group, "spacedim", path)}
        raise RecordError(f"{path} holds {sorted(file)}: neither fclib_local nor fclib_global")


def _read(group, name, path) -> np.ndarray:
    """Numbers, one axis."""
    if name not in group:
        raise RecordError(f"{path} has no {group.name.strip('/')}/{name}")
    if not hasattr(group[name], "dtype"):
        raise RecordError(f"{path}: {group.name.strip('/')}/{name} is a group; it holds numbers")
    return np.ravel(given.real(group[name][()], f"{name} of {path}"))


def _read_count(group, name, path) -> int:
    found = _read(group, name, path)
    if len(found) != 1 or not found[0].is_integer() or abs(found[0]) > _LARGEST:
        raise RecordError(f"{path}: {name} = {found}, where one whole number is wanted")
    return int(found[0])


def _read_whole(group, name, path) -> np.ndarray:
    found = _read(group, name, path)
    if not np.all((found == np.rint(found)) & (np.abs(found) <= _LARGEST)):
        raise RecordError(f"{path}: {name} has an entry that is no index")
    return found.astype(np.int64)


def _no_equalities(group, names, path):
    for name in names:
        if name in group:
            raise RecordError(
                f"{path} has equality constraints ({name}), which are not read: eliminate them and "
                "use carom.fclib.Problem"
            )


def _read_matrix(group, name, path) -> Any:
    """m, n, nz, p, i, x: nz = -1 by columns, -2 by rows, and that many triplets if >= 0."""
    if name not in group:
        raise RecordError(f"{path} has no matrix {name}")
    entry = group[name]
    m, n, nz = (_read_count(entry, key, path) for key in ("m", "n", "nz"))
    p, i = (_read_whole(entry, key, path) for key in ("p", "i"))
    x = _read(entry, "x", path)
    if nz < -2:
        raise RecordError(f"{path}: nz={nz} of {name} is none of -1 (columns), -2 (rows), >= 0")
    if nz >= 0:  # p holds columns, i rows
        count, rows, columns = nz, i[:nz], p[:nz]
    else:
        count, lines = (int(p[-1]) if len(p) else 0), (n if nz == -1 else m)
        if len(p) != lines + 1 or p[0] != 0 or np.any(np.diff(p) < 0):
            raise RecordError(f"{path}: p of {name} is {p}, which does not count {lines} lines")
        along, across = np.repeat(np.arange(lines), np.diff(p)), i[:count]
        rows, columns = (across, along) if nz == -1 else (along, across)
    if not len(rows) == len(columns) == len(x[:count]) == count:
        raise RecordError(
            f"{path}: {name} has {len(i)} indices and {len(x)} entries, where {count} are wanted"
        )
    for at, end, what in ((rows, m, "row"), (columns, n, "column")):
        if np.any(bad := (at < 0) | (at >= end)):
            raise RecordError(f"{path}: {name} has the {what} {at[bad][0]}, but {end} of them")
    return sparse.coo_matrix((x[:count], (rows, columns)), shape=(m, n)).tocsc()


def write(problem, path, result, title, description):
    """The problem, and the result unless that is None; a file that is there is replaced at last."""
    partly = path.with_name(f".{path.name}.part")
    try:
        _written(problem, partly, result, title, description)
        os.replace(partly, path)
    except OSError as error:
        raise RecordError(f"{path} cannot be written: {error}") from error
    finally:
        partly.unlink(missing_ok=True)


def _written(problem, path, result, title, description):
    import h5py

    with h5py.File(path, "w") as file:
        motion = problem.motion
        group = file.create_group("fclib_local" if motion is None else "fclib_global")
        group["spacedim"] = np.array([problem.dim], np.int32)
        matrices = {"W": problem.W} if motion is None else {k: motion[k] for k in ("M", "H")}
        vectors = {"q": problem.q} if motion is None else {k: motion[k] for k in ("f", "w")}
        for name, A in matrices.items():
            _write_matrix(group.create_group(name), A)
        for name, x in (vectors | {"mu": problem.mu}).items():
            group[f"vectors/{name}"] = x
        for name, text in (("title", title), ("description", description), ("math_info", "")):
            group[f"info/{name}"] = np.bytes_((text + "\0").encode())
        if result is not None:
            for name in ("r", "u") if result.v is None else ("r", "u", "v"):
                file[f"solution/{name}"] = getattr(result, name)


def _write_matrix(group, A):
    A = A.tocsc()
    numbers = {"m": A.shape[0], "n": A.shape[1], "nz": -1, "nzmax": A.nnz}
    for name, value in numbers.items():
        group[name] = np.array([value], np.int32)
    group["p"], group["i"] = A.indptr.astype(np.int32), A.indices.astype(np.int32)
    group["x"] = A.data
