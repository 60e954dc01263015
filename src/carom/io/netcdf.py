"""Runs of a System on disk: netCDF, which xarray opens, with what is needed to go on.

    time              (n,)
    q, v              (n, d)        gap, impulse      (n, p)
    velocity_before, velocity_after, events           where every step is kept
    impact_*          the table of impacts, as long as impact says
    stats_*, status   what was done up to here, and how the run ended
    /carom            settings, description, checkpoint: what the run is, and where it stands

The file is written piece by piece (recording.py): memory does not grow with the number of records,
and a run that is stopped in any way leaves all pieces before.  The numbers of rows are raised one
after another, time first: in that instant other readers find NaN where a variable has fewer rows.
"""

import io
import json
import os
import uuid
from typing import Any

import h5py
import jax
import jax.numpy as jnp
import numpy as np

from carom.errors import CaromError, RecordError
from carom.io.growing import Column, GrowingFile, create
from carom.io.recording import (
    SLOT_HEAD,
    check_same,
    hashes,
    lost_end,
    newest,
    read_from,
    said,
    slot,
)
from carom.results.impacts import COLUMNS, ImpactLog, listed
from carom.results.solution import AXES, STATS, End, Motion, Origin, Stats, scheme_text
from carom.run.loop import EVENT_FIELDS
from carom.run.record import Every
from carom.schemes.named import scheme_of_text
from carom.status import NAMES, Status, name_of

_FLOAT = np.dtype("<f8")
_CHUNK_BYTES, _IMPACT_BYTES = 2**16, 2**12
_MOST_CHUNKS = 2**14  # of a column: the room that its index takes from the start
_SMALL = 2**24  # bytes of records up to which they are read at once
_COUNTER = "/carom", "pieces"


class Recording:
    """Where a run of a System puts its records; the file is open for writing."""

    def __init__(self, path, layout: "_Layout"):
        self.path, self.layout = os.fspath(path), layout
        self.file = GrowingFile(path, layout.columns, _COUNTER)
        self.count, self.impacts, self.pieces = 0, 0, 0

    @staticmethod
    def start(path, pieces, description: str) -> "Recording":
        """A new file."""
        layout = _Layout(pieces)
        settings = {
            "steps": pieces.steps,
            "t0": float(pieces.run.t0),
            "first": int(pieces.run.first),
            "gaps": pieces.p,
            "each": pieces.full,
            "scheme": scheme_text(pieces.run.scheme),
            "run": uuid.uuid4().hex,
            "parts": _parts(pieces),
            "version": 1,
        }
        with said(path, "begin"):
            create(path, layout.columns, lambda h5: layout.fill(h5, settings, description))
            return Recording(path, layout)

    @staticmethod
    def resume(path, pieces) -> "Recording | None":
        """An old file of the same run, which puts ``pieces`` where it was; None: from the start."""
        layout = _Layout(pieces)
        with read_from(path), open_file(path) as h5:
            check_same(path, settings_of(h5)["parts"], _parts(pieces))
            layout.columns = [_column_of(h5, c.name) for c in layout.columns]
            state, number = newest(h5["carom/checkpoint"], int(h5["carom"].attrs["pieces"]))
        if not state:
            return None
        with said(path, "go on in"):
            recording = Recording(path, layout)
        recording.pieces = number
        recording.count, recording.impacts = restore(pieces, state)
        return recording

    def add(self, at, rows: dict[str, np.ndarray], impacts: np.ndarray, pieces) -> None:
        """Write records, impacts, and the state of the run after them."""
        doing = f"write record {self.count + len(at)}"
        with said(self.path, doing, self.count):
            rows = {"time": pieces.times(at), **rows}
            for name, values in rows.items():
                if name in self.file.columns:
                    self.file.write(name, self.count, values)
            for name, _ in COLUMNS if self.layout.impacts else ():
                self.file.write(f"impact_{name}", self.impacts, impacts[name])
            count, listed = self.count + len(at), self.impacts + len(impacts)
            state = slot(self.pieces, saved(pieces, count, listed))
            self.file.write_part("carom/checkpoint", self.pieces % 2, state)
            for name in STATS:
                self._put(f"stats_{name}", getattr(pieces.carry.stats, name))
            self._publish(count, listed)

    def _publish(self, count, impacts):
        names = self.layout.impact_names
        number = {name: int(impacts) for name in names}
        number |= {name: int(count) for name in self.layout.names}
        number["carom/checkpoint"] = min(self.pieces + 1, 2)
        self.file.publish(number, self.pieces + 1)
        self.count, self.impacts, self.pieces = count, impacts, self.pieces + 1

    def _put(self, name, value):
        """A number that does not grow."""
        value = np.asarray(value, self.layout.scalars[name])
        self.file.put(self.file.fixed[name], value.tobytes())

    def solution(self, pieces) -> "RecordedSolution":
        """What was kept, and how the run ended."""
        with said(self.path, "end", self.count):
            self._put("status", NAMES.index(name_of(pieces.carry.status)))
        return RecordedSolution(self.path, pieces.run.scheme, pieces.run.system)

    def close(self) -> None:
        """Release the file."""
        self.file.close()


class _Layout:
    """The variables of a file, from what is known before a run."""

    def __init__(self, pieces):
        self.pieces, self.d, self.p = pieces, pieces.d, pieces.p
        self.most = pieces.total
        shape = pieces.shape
        width = {"coordinate": self.d, "constraint": self.p, "joint": shape.k}
        self.inner: dict[str, tuple[str, ...]] = dict(AXES)
        if shape.m == 1:
            del self.inner["friction"]
        elif shape.m == 2:
            self.inner["friction"] = ("constraint",)
        else:
            width["tangent"] = shape.m - 1
        events = pieces.run.scheme.events_per_step
        if not pieces.full:
            del self.inner["velocity_before"], self.inner["velocity_after"]
        elif events:
            self.inner["events"] = ("event", "field")
            width |= {"event": events, "field": EVENT_FIELDS}
        self.width = {name: size for name, size in width.items() if size}
        self.inner = {n: axes for n, axes in self.inner.items() if set(axes) <= set(self.width)}
        self.impacts = pieces.log is not None
        self.impact_names = ["impact", *(f"impact_{n}" for n, _ in COLUMNS)] * self.impacts
        self.names = ["time", *self.inner]
        self.scalars = {f"stats_{n}": _FLOAT for n in STATS} | {
            "stats_steps": np.dtype("<i8"),
            "stats_iterations": np.dtype("<i8"),
            "stats_fallbacks": np.dtype("<i8"),
            "status": np.dtype("<i8"),
        }
        self.columns = self._columns()

    def _columns(self):
        found = [_column("time", _FLOAT, (), self.most, _CHUNK_BYTES)]
        for name, axes in self.inner.items():
            inner = tuple(self.width[a] for a in axes)
            found.append(_column(name, _FLOAT, inner, self.most, _CHUNK_BYTES))
        if self.impacts:
            most = _most_impacts(self.pieces)
            kinds = [("impact", "<i4"), *((f"impact_{n}", np.dtype(k)) for n, k in COLUMNS)]
            found += [_column(n, np.dtype(kind), (), most, _IMPACT_BYTES) for n, kind in kinds]
        room = SLOT_HEAD + len(saved(self.pieces, 0, 0))
        return [*found, Column("carom/checkpoint", np.dtype("u1"), (room,), 1, 2, True)]

    def fill(self, h5, settings, description):
        """What does not grow, and which axis is which."""
        run = self.pieces.run
        h5.attrs["dt"], h5.attrs["scheme"] = float(run.dt), scheme_text(run.scheme)
        group = h5["carom"]
        group.attrs["pieces"] = np.int64(0)
        group["settings"] = np.frombuffer(json.dumps(settings).encode(), "u1")
        group["description"] = np.frombuffer(description.encode() or b" ", "u1")
        for name, kind in self.scalars.items():
            h5[name] = np.zeros((), kind)
        h5["status"][()] = NAMES.index("unfinished")
        h5["status"].attrs["flag_values"] = np.arange(len(NAMES))
        h5["status"].attrs["flag_meanings"] = " ".join(NAMES)
        h5["time"].make_scale("time")
        for axis, size in self.width.items():
            h5.create_dataset(axis, (size,), ">f4")
            h5[axis].make_scale(f"{_NO_VARIABLE}{size:10}")
        for name, axes in self.inner.items():
            for k, axis in enumerate(("time", *axes)):
                h5[name].dims[k].attach_scale(h5[axis])
        if self.impacts:
            h5["impact"].make_scale(f"{_NO_VARIABLE}{0:10}")
            for name in self.impact_names[1:]:
                h5[name].dims[0].attach_scale(h5["impact"])
        for name, axes in (
            ("checkpoint", ("slot", "state")),
            ("settings", ("letter",)),
            ("description", ("character",)),
        ):
            for k, axis in enumerate(axes):
                size = group[name].maxshape[k]
                group.create_dataset(axis, (size,), ">f4")
                group[axis].make_scale(f"{_NO_VARIABLE}{size:10}")
                group[name].dims[k].attach_scale(group[axis])


_NO_VARIABLE = "This is a netCDF dimension but not a netCDF variable."


def _column(name, kind, inner, most, size) -> Column:
    row = kind.itemsize * int(np.prod(inner, dtype=int))
    chunk = max(1, size // row, -(-most // _MOST_CHUNKS))
    return Column(name, kind, inner, min(most, chunk), most, bounded=True)


def _most_impacts(pieces) -> int:
    """A contact begins after a step without; located impacts are counted step by step."""
    events = pieces.run.scheme.events_per_step
    return pieces.p + (events * pieces.steps if events else pieces.p * (pieces.steps // 2 + 1)) + 1


# ---- what a run is, and where it stands ---------------------------------------------------------


def _parts(pieces) -> dict[str, str]:
    """What must be the same; functions are compared by their values at the start."""
    run, start, plan = pieces.run, pieces.start, pieces.plan
    contacts = start.contacts
    return hashes(
        {
            "q0 or v0": [np.asarray(pieces.q0), np.asarray(pieces.v0)],
            "the force at t0": start.force,
            "the gaps at t0": [np.asarray(x) for x in (contacts.gap, contacts.rate, contacts.rows)],
            "the mass": [
                np.asarray(x) for x in jax.tree_util.tree_leaves((start.mass, _constant_mass(run)))
            ],
            "the restitution": run.system.restitution,
            "the friction": [] if run.system.friction is None else run.system.friction,
            "the scheme": [scheme_text(run.scheme)],
            "t0, t1 or dt": [float(run.t0), int(run.first), float(run.dt), pieces.steps],
            "what is recorded": [
                str(plan.marks) if isinstance(plan.marks, Every) else plan.marks,
                np.asarray([] if plan.fractions is None else plan.fractions),
                pieces.log is not None,
            ],
        }
    )


def _constant_mass(run):
    return None if callable(run.system.mass) else run.system.mass


def saved(pieces, count: int, impacts: int) -> bytes:
    """All that the rest of a run depends on; always of the same length."""
    log = pieces.log or ImpactLog(pieces.p)
    held = log.held()
    buffer, room = io.BytesIO(), 2 - len(held["index"])
    leaves = [np.asarray(x) for x in jax.tree_util.tree_leaves(pieces.carry)]
    arrays: Any = {f"carry_{k:03d}": leaf for k, leaf in enumerate(leaves)}
    for name, a in held.items():
        arrays[f"held_{name}"] = np.pad(a, [(0, room), *[(0, 0)] * (a.ndim - 1)])
    np.savez(
        buffer,
        counts=[pieces.done, count, impacts, len(held["index"]), pieces.finished],
        pending=pieces.pending,
        largest=log.largest,
        **arrays,
    )
    return buffer.getvalue()


def restore(pieces, data: bytes) -> tuple[int, int]:
    """Put a run where it was; the number of its records and of its impacts."""
    with np.load(io.BytesIO(data)) as found:
        pieces.done, count, impacts, held, pieces.finished = (int(n) for n in found["counts"])
        pieces.pending, pieces.struck = found["pending"], impacts
        if pieces.log is not None:
            pieces.log = _log(found, pieces.p, held)
        leaves, shape = jax.tree_util.tree_flatten(pieces.carry)
        kept = [jnp.asarray(found[f"carry_{k:03d}"], x.dtype) for k, x in enumerate(leaves)]
        pieces.carry = jax.tree_util.tree_unflatten(shape, kept)
    return count, impacts


def _log(found, p, held) -> ImpactLog:
    steps = {name[5:]: found[name][:held] for name in found.files if name.startswith("held_")}
    return ImpactLog.holding(p, steps, float(found["largest"]))


# ---- reading ------------------------------------------------------------------------------------


def is_recording(path) -> bool:
    """Whether a file was written by a Recording; False where it cannot be opened."""
    try:
        with _opened(_mended(os.fspath(path))) as h5:
            return "carom/checkpoint" in h5 and "time" in h5
    except RecordError:
        raise
    except Exception:  # what HDF5 makes of a damaged file
        return False


def _opened(path) -> Any:
    return h5py.File(path, "r", locking=False)


def open_file(path) -> Any:
    """A recording, open for reading; one that was cut off is first cut back to whole records."""
    name = os.fspath(path)
    if not os.path.exists(name):
        raise RecordError(f"there is no file {name!r}")
    if not is_recording(name):
        raise RecordError(
            f"{name!r} was not written as a run went (or lost too much of it): it cannot be gone "
            "on with"
        )
    return _opened(name)


def records_of(h5) -> int:
    """How many are complete."""
    names = ("time", *AXES, "events")
    return min(h5[name].shape[0] for name in names if name in h5)


def settings_of(h5) -> dict:
    """Of a recording."""
    return json.loads(bytes(h5["carom/settings"][:]))


def description_of(h5) -> str:
    """How the command would make it again, or nothing."""
    return bytes(h5["carom/description"][:]).decode().strip()


def _mended(path: str) -> str:
    """The path; a file that lost its end is cut back to the records that are whole."""
    size = lost_end(path) if os.path.exists(path) else None
    if size is None:
        return path
    try:
        _cut_back(path, size)
        return path
    except Exception:
        os.truncate(path, size)
        raise RecordError(
            f"{path!r} was cut off before its first record: nothing is left"
        ) from None


def _cut_back(path: str, size: int) -> None:
    with _opened(path) as h5:
        columns = [_column_of(h5, name) for name in _growing(h5)]
        h5["carom/checkpoint"].shape  # noqa: B018
    file = GrowingFile(path, columns, _COUNTER)
    whole = {c.name: file.rows_within(c.name, size) for c in columns}
    impacts = {name: n for name, n in whole.items() if name.startswith("impact_")}
    records = min(n for name, n in whole.items() if not name.startswith("impact"))
    with _opened(path) as h5:
        left = min(impacts.values(), default=0)
        if impacts and left < h5["impact"].shape[0]:  # records after a lost impact are not whole
            last = h5["impact_time"][left - 1] if left else -np.inf
            records = int(np.searchsorted(h5["time"][:records], last, side="right"))
    rows = {n: left if n.startswith("impact") else records for n in whole}
    file.publish(rows, 0)  # 0: no state to go on from
    file.close()


def _growing(h5) -> list[str]:
    return [n for n, a in h5.items() if isinstance(a, h5py.Dataset) and a.chunks is not None]


def _column_of(h5, name) -> Column:
    data = h5[name]
    return Column(name, data.dtype, data.shape[1:], data.chunks[0], data.maxshape[0], bounded=True)


class RecordedSolution(Motion):
    """A motion of a System whose records are in a file.

    An array is read when it is first used (at once, where they are small).
    """

    def __init__(self, path, scheme=None, system=None):
        self.path = os.fspath(path)
        with read_from(path), open_file(path) as h5:
            self.settings = settings_of(h5)
            self._count = records_of(h5)
            self.dt = float(h5.attrs["dt"])
            self.status: Any = getattr(Status, NAMES[int(h5["status"][()])])
            self.stats = Stats(*(_number(h5, f"stats_{name}") for name in STATS))
            # not the attribute: HDF5 may read a damaged string of variable length for ever
            named = self.settings.get("scheme")
            text = _scheme(str(h5.attrs["scheme"]) if named is None else named)
            width = 2 * h5["q"].shape[1] + 4 * self.settings["gaps"]
        self.origin = Origin(text if scheme is None else scheme, system)
        if not self._count:
            raise RecordError(f"{self.path!r} has no record yet: the run was stopped at its start")
        if 8 * self._count * width <= _SMALL:
            for name in _READ:
                getattr(self, name)

    @property
    def end(self) -> End | None:
        """Where the run stands: its newest checkpoint."""
        with open_file(self.path) as h5:
            state, _ = newest(h5["carom/checkpoint"], int(h5["carom"].attrs["pieces"]))
        if not state or "first" not in self.settings:
            return None
        with np.load(io.BytesIO(state)) as found:
            names = sorted(name for name in found.files if name.startswith("carry_"))
            _, _, q, v, *rest = (found[name] for name in names)
        memory = rest[: -2 - len(STATS)]  # what follows: impulse, stats, status
        step = self.settings["first"] + self.stats.steps
        return End(self.settings["t0"], step, self.dt, q, v, memory)

    @property
    def finished(self) -> bool:
        """Whether the run ended by itself, well or not."""
        return bool(self.status != Status.unfinished)

    def __getattr__(self, name):
        if name not in _READ:
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        with read_from(self.path), open_file(self.path) as h5:
            if settings_of(h5)["run"] != self.settings["run"]:
                raise RecordError(f"{self.path!r} was written anew since it was opened")
            value = _impacts(h5) if name == "_table" else self._read(h5, name)
        setattr(self, name, value)
        return value

    def _read(self, h5, name):
        name = "time" if name == "t" else name
        if name in h5:
            return h5[name][: self._count]
        if name in ("joint_impulse", "friction"):
            return None
        kept = name in ("gap", "impulse") or (name != "events" and self.settings["each"])
        return np.zeros((self._count, 0)) if kept else None  # without gaps, or not kept

    @property
    def impacts(self) -> np.recarray:
        """The table of impacts (Solution.impacts)."""
        return super().impacts if self._table is None else self._table.view(np.recarray)

    def __len__(self) -> int:
        """The number of records."""
        return self._count

    def __repr__(self) -> str:
        return f"<RecordedSolution of {self.scheme}: {self._count} records in {self.path!r}>"


def _number(h5, name):
    """Of a file; 0 where it is older than the number."""
    return h5[name][()].item() if name in h5 else 0


def _scheme(text: str) -> Any:
    """The scheme that a text names; the text where it is of another kind."""
    try:
        return scheme_of_text(text)
    except CaromError:
        return text


_READ = ("t", *AXES, "events", "_table")


def _impacts(h5) -> np.ndarray | None:
    """The table, with an impact that a run is still in the middle of."""
    if "impact_time" not in h5:
        return None
    rows = np.zeros(min(h5[f"impact_{name}"].shape[0] for name, _ in COLUMNS), COLUMNS)
    for name, _ in COLUMNS:
        rows[name] = h5[f"impact_{name}"][: len(rows)]
    if int(h5["status"][()]) != NAMES.index("unfinished"):
        return listed(rows)
    state, _ = newest(h5["carom/checkpoint"], int(h5["carom"].attrs["pieces"]))
    if not state:
        return listed(rows)
    with np.load(io.BytesIO(state)) as found:
        held = int(found["counts"][3])
        p = found["held_impulse"].shape[1]
        return listed(np.concatenate([rows, _log(found, p, held).rest()]))
