"""Sweeps: many runs in compiled batches, kept as an xarray Dataset, on disk if wanted."""

import concurrent.futures
import contextlib
import functools
import hashlib
import itertools
import math
import os
import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from carom.arguments import suggesting
from carom.errors import StudyError
from carom.run.progress import bar
from carom.schemes.scheme import Scheme
from carom.status import NAMES
from carom.study.members import Final, Keep, Plan, check_names, member

_CHUNK_BYTES = 256 * 2**20  # of results in one batch
_CHUNK_HOST = 1024  # members in one batch on the CPU: enough to fill its vector unit and its cache
_CHUNK_DEVICE = 2**20
CRASHED = -1  # status of the members of a chunk whose program itself failed


@suggesting
def sweep(
    build: Callable,
    parameters: dict[str, Any],
    *,
    q0,
    v0,
    scheme: Scheme,
    dt,
    steps: int,
    t0: float = 0.0,
    settle: int = 0,
    every: int | None = None,
    keep: Keep | tuple[Keep, ...] = (),
    samples: bool = False,
    path: str | os.PathLike | None = None,
    chunk: int | None = None,
    client=None,
    retries: int = 3,
    progress: bool = False,
):
    """Run ``build(**parameters)`` for all combinations of parameters; an xarray Dataset.

    A member that fails keeps its last state and has its status in ``ds.status``, 0 where it is ok.
    A chunk that fails as a whole, however often it is tried, has the status -1; a resumed sweep
    tries it again.

    Parameters
    ----------
    build
        A function of parameters, by name, that makes a System.
    parameters
        Name to values (n,).  The axes of the Dataset are these names, and every combination is run.
    q0, v0, dt
        (d,), (d,) and the step [s]; or a function of those of the parameters that it names:
        ``dt=lambda w: 0.01 / w``, ``q0=lambda x: jnp.stack([x])``.
    scheme
        How to step.
    t0
        Start of every run [s].
    settle, steps, every
        Steps before anything is kept, steps after, and steps between two records
        (None: all of them, for one record at the end).
    keep
        ``study.Final()`` (the default), ``Strobe(n)``, ``Impacts()``, ``Extremes()``,
        ``Reduce(...)``, or a tuple of several.
    samples
        True: the i-th values of all parameters belong together, and the axis is ``sample``.
    path
        A Zarr store, written chunk by chunk.  A sweep that finds one goes on where it stopped.
    chunk
        Members in one compiled batch, sized to memory if it is not given.
    client
        A Dask client: the chunks are run on its workers, and again elsewhere when one is lost.
        None: here.
    retries
        How often a chunk that fails as a whole is tried again.
    progress
        True for a bar.
    """
    axes, values = _grid(parameters, samples)
    every = steps if every is None else every
    if steps < 1 or every < 1 or steps % every or settle < 0:
        raise StudyError(
            f"steps = {steps} must be a positive multiple of every = {every}, and settle = "
            f"{settle} not negative"
        )
    keeps = keep if isinstance(keep, tuple) else (keep,)
    plan = Plan(build, q0, v0, dt, t0, scheme, settle, every, steps // every, keeps or (Final(),))
    check_names(plan, parameters)
    work = _Work(plan, axes, values, chunk)
    store = _Memory(work) if path is None else _ZarrStore(work, path)
    todo = [i for i in range(len(work.regions)) if not store.has(i)]
    with _bar(progress, len(work.regions), len(work.regions) - len(todo)) as tick:
        for i, fields in _results(work, todo, client, retries):
            store.put(i, fields)
            tick()
    return store.dataset()


def open_sweep(path: str | os.PathLike):
    """The Dataset of a sweep on disk, finished or not: NaN, and status -2, where it is not.

    Parameters
    ----------
    path
        The Zarr store that ``sweep(..., path=...)`` wrote.
    """
    import xarray

    path = os.fspath(path)
    if not os.path.exists(path):
        raise StudyError(f"there is no sweep {path!r}: sweep(..., path=...) writes one")
    _zarr()
    try:
        return xarray.open_zarr(path, consolidated=False)
    except Exception as problem:
        raise StudyError(
            f"{path!r} is no sweep ({type(problem).__name__}): it is opened as a Zarr store, such "
            "as sweep(..., path=...) writes; carom.load opens solutions"
        ) from problem


def _grid(parameters, samples) -> tuple[dict[str, int], dict[str, np.ndarray]]:
    """The axes with their lengths, and each parameter's values shaped to broadcast over them."""
    if not parameters:
        raise StudyError("parameters is empty: give at least one name with its values")
    if not isinstance(parameters, Mapping):
        raise StudyError(
            f'parameters is {parameters!r}: give names with their values, {{"w": [2.0, 2.5, 3.0]}}'
        )
    values = {name: np.ravel(np.asarray(v, float)) for name, v in parameters.items()}
    if samples:
        lengths = {len(v) for v in values.values()}
        if len(lengths) > 1:
            raise StudyError(
                "with samples=True all parameters have as many values as there are samples, not "
                f"{ {name: len(v) for name, v in values.items()} }"
            )
        return {"sample": lengths.pop()}, values
    axes = {name: len(v) for name, v in values.items()}
    shaped = {}
    for k, (name, v) in enumerate(values.items()):
        shaped[name] = v.reshape([-1 if j == k else 1 for j in range(len(values))])
    return axes, shaped


class _Work:
    """The chunks of a sweep: rectangles of its grid, each a compiled batch of ``size`` members."""

    def __init__(self, plan: Plan, axes, values, chunk):
        self.plan, self.axes = plan, axes
        self.shape = tuple(axes.values())
        self.values = {n: np.broadcast_to(v, self.shape) for n, v in values.items()}
        self.flat_values = {n: np.ravel(v) for n, v in values.items()}
        one = {n: jax.ShapeDtypeStruct((), float) for n in values}
        self.program = jax.make_jaxpr(functools.partial(member, plan), return_shape=True)
        program, self.fields = self.program(one, jax.ShapeDtypeStruct((), float))
        self.fingerprint = self._fingerprint(program)
        self.blocks = self._blocks(chunk)
        self.size = math.prod(self.blocks)
        ranges = [range(0, n, b) for n, b in zip(self.shape, self.blocks, strict=True)]
        self.regions = [
            tuple(
                slice(a, min(a + b, n)) for a, b, n in zip(at, self.blocks, self.shape, strict=True)
            )
            for at in itertools.product(*ranges)
        ]

    def _fingerprint(self, program) -> str:
        """Of the program and the parameters: a sweep on disk is resumed only by its like."""
        text = re.sub(r"0x[0-9a-f]+", "", str(program.jaxpr))
        mixed = hashlib.sha256(text.encode())
        for constant in program.consts:
            mixed.update(np.asarray(constant).tobytes())
        for name, value in self.flat_values.items():
            mixed.update(name.encode() + value.tobytes())
        return mixed.hexdigest()

    def _blocks(self, chunk) -> tuple[int, ...]:
        """The sides of a chunk: whole axes from the last one on, while they fit."""
        if chunk is None:
            one = sum(math.prod(f.shape) * f.dtype.itemsize for f in self.fields.values())
            most = _CHUNK_HOST if jax.default_backend() == "cpu" else _CHUNK_DEVICE
            chunk = max(1, min(most, _CHUNK_BYTES // one))
        blocks, left = [], int(chunk)
        for n in reversed(self.shape):
            blocks.append(max(1, min(n, left)))
            left //= blocks[-1]
        return tuple(reversed(blocks))

    def axes_of(self, name) -> tuple[str, ...]:
        own = {"status": ()}
        for keep in self.plan.keep:
            own |= keep.axes()
        return (*self.axes, *own[name])

    def shape_of(self, name) -> tuple[int, ...]:
        return (*self.shape, *self.fields[name].shape)

    def parameters_of(self, i) -> dict[str, np.ndarray]:
        """The parameters of a chunk, (size,), the last member repeated where it is not full."""
        flat = {n: v[self.regions[i]].ravel() for n, v in self.values.items()}
        return {n: np.pad(v, (0, self.size - len(v)), mode="edge") for n, v in flat.items()}

    def shaped(self, i, fields) -> dict[str, np.ndarray]:
        """The results of a chunk as rectangles of the grid."""
        sides = [s.stop - s.start for s in self.regions[i]]
        count = math.prod(sides)
        return {n: a[:count].reshape(*sides, *a.shape[1:]) for n, a in fields.items()}

    def lost(self, i) -> dict[str, np.ndarray]:
        """What stands for the results of a chunk that failed as a whole."""
        fields = {
            n: np.full((self.size, *f.shape), _missing(f.dtype)) for n, f in self.fields.items()
        }
        fields["status"] = np.full(self.size, CRASHED, np.int32)
        return fields


def _missing(dtype):
    return np.array(np.nan if np.issubdtype(dtype, np.floating) else CRASHED).astype(dtype)


_PROGRAMS: dict[str, Callable] = {}  # compiled batches of this process, by fingerprint


def _batch(plan: Plan, fingerprint: str, parameters: dict) -> dict[str, np.ndarray]:
    """The results of one chunk, every field with a leading axis of members."""
    if fingerprint not in _PROGRAMS:
        _PROGRAMS.clear()  # one sweep at a time: a program holds on to what its functions hold
        _PROGRAMS[fingerprint] = jax.jit(functools.partial(_members, plan))
    found = _PROGRAMS[fingerprint](parameters, jnp.ones(()))
    return {name: np.asarray(a) for name, a in found.items()}


def _members(plan: Plan, parameters: dict, alive):
    """Side by side, or one after another where each takes its own time."""
    one = functools.partial(member, plan)
    if plan.scheme.lockstep:
        return jax.vmap(one, in_axes=(0, None))(parameters, alive)
    return jax.lax.map(lambda p: one(p, alive), parameters)


def _results(work: _Work, todo, client, retries):
    """(chunk, its fields as rectangles), as they come."""
    if client is None:
        yield from _local_results(work, todo, retries)
        return
    from dask.distributed import as_completed

    futures = {}
    for i in todo:
        arguments = (work.plan, work.fingerprint, work.parameters_of(i))
        futures[client.submit(_batch, *arguments, retries=retries, pure=False)] = i
    for future in as_completed(futures):
        i = futures.pop(future)
        good = future.status == "finished"
        fields = future.result() if good else _given_up(work, i, future.exception())
        yield i, work.shaped(i, fields)


def _given_up(work: _Work, i, error):
    warnings.warn(f"chunk {i} of the sweep failed, its status is -1: {error!r}", stacklevel=2)
    return work.lost(i)


def _local_results(work: _Work, todo, retries):
    """One thread a core: a batch runs on one of them."""

    def tried(i):
        error = None
        for _ in range(retries + 1):
            try:
                return i, _batch(work.plan, work.fingerprint, work.parameters_of(i))
            except Exception as found:
                error = found
        return i, _given_up(work, i, error)

    if not todo:
        return
    i, fields = todo[0], _batch(work.plan, work.fingerprint, work.parameters_of(todo[0]))
    yield (
        i,
        work.shaped(i, fields),
    )  # alone, so that it is compiled once; and what it raises is told
    threads = os.cpu_count() if jax.default_backend() == "cpu" else 1
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        waiting = [pool.submit(tried, i) for i in todo[1:]]
        for future in concurrent.futures.as_completed(waiting):
            i, fields = future.result()
            yield i, work.shaped(i, fields)


def _zarr():
    """The package that keeps sweeps on disk."""
    try:
        import zarr
    except ModuleNotFoundError as missing:
        raise StudyError(
            "a sweep on disk (path=...) is kept by zarr, which is not installed: "
            "pip install 'carom[sweep]', or leave path out to keep it in memory"
        ) from missing
    return zarr


class _Memory:
    """Results in arrays."""

    def __init__(self, work: _Work):
        self.work = work
        self.arrays = {
            n: np.full(work.shape_of(n), _missing(f.dtype)) for n, f in work.fields.items()
        }

    def has(self, i) -> bool:
        return False

    def put(self, i, fields):
        for name, value in fields.items():
            self.arrays[name][self.work.regions[i]] = value

    def dataset(self):
        import xarray

        work = self.work
        fields = {n: (work.axes_of(n), a) for n, a in self.arrays.items()}
        data = xarray.Dataset(fields, coords=_coordinates(work), attrs=_attributes(work))
        data["status"].attrs = _STATUS_ATTRIBUTES
        return data


class _ZarrStore:
    """Results in a Zarr store that xarray opens; ``done`` says which chunks are there."""

    def __init__(self, work: _Work, path):
        self.work, self.path = work, os.fspath(path)
        if os.path.isfile(self.path):
            raise StudyError(
                f"{self.path!r} is there already and is no sweep: it is not written over. Choose "
                "another path, or remove it"
            )
        zarr = _zarr()
        if os.path.exists(self.path):
            try:
                self.group = zarr.open_group(self.path, mode="r+")
            except Exception as problem:
                raise StudyError(
                    f"{self.path!r} is there already and is no sweep ({type(problem).__name__}): "
                    "it is not written over. Choose another path, or remove it"
                ) from problem
            found = self.group.attrs.get("fingerprint")
            if found != work.fingerprint or self.group.attrs.get("blocks") != list(work.blocks):
                raise StudyError(
                    f"{self.path!r} holds another sweep: its system, parameters, steps or chunk "
                    "are not these. Choose another path, or remove it"
                )
        else:
            self.group = zarr.open_group(self.path, mode="w")
            self._make()
        self.done = np.asarray(self.group["done"])

    def _make(self):
        work, group = self.work, self.group
        for name, field in work.fields.items():
            array = group.create_array(
                name,
                shape=work.shape_of(name),
                chunks=(*work.blocks, *(max(1, n) for n in field.shape)),
                dtype=field.dtype,
                fill_value=_missing(field.dtype).item() if name != "status" else -2,
                dimension_names=work.axes_of(name),
            )
            if name == "status":
                array.attrs.update(_STATUS_ATTRIBUTES)
        for name, (axis, values) in _coordinates(work).items():
            array = group.create_array(
                name, shape=values.shape, dtype=values.dtype, dimension_names=(axis,)
            )
            array[...] = values
        group.create_array(
            "done", shape=(len(work.regions),), dtype="bool", dimension_names=("chunk",)
        )
        group.attrs.update(_attributes(work))  # last: a store without it was not finished here

    def has(self, i) -> bool:
        return bool(self.done[i])

    def put(self, i, fields):
        for name, value in fields.items():
            self.group[name][self.work.regions[i]] = value
        self.group["done"][i] = not np.any(fields["status"] == CRASHED)

    def dataset(self):
        return open_sweep(self.path).load().drop_vars("done")


_STATUS_ATTRIBUTES = {
    "flag_values": list(range(len(NAMES))),
    "flag_meanings": " ".join(NAMES),
    "comment": "-1: the chunk failed as a whole; -2: not run yet",
}


def _coordinates(work):
    if list(work.axes) == ["sample"]:
        return {n: ("sample", v) for n, v in work.flat_values.items()}
    return {n: (n, v) for n, v in work.flat_values.items()}


def _attributes(work):
    return {
        "scheme": type(work.plan.scheme).__name__,
        "fingerprint": work.fingerprint,
        "blocks": list(work.blocks),
    }


@contextlib.contextmanager
def _bar(wanted: bool, total: int, done: int):
    if not wanted:
        yield lambda: None
        return
    counted = itertools.count(done + 1)
    with bar("chunks", total, done) as update:
        yield lambda: update(next(counted))
