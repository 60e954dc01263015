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

import json
import os
import struct
import uuid
from typing import Any

import h5py
import numpy as np

from carom.arguments import absent
from carom.dump import arrays_of
from carom.errors import RecordError
from carom.fields import attributes
from carom.io.growing import Column, GrowingFile, create
from carom.io.recording import (
    SLOT_HEAD,
    check_result,
    check_same,
    check_version,
    hashes,
    lost_end,
    newest,
    put_text,
    read_from,
    said,
    slot,
    text_in,
    words,
    words_of,
)
from carom.results.impacts import COLUMNS, ImpactLog, listed
from carom.results.solution import (
    AXES,
    ELSEWHERE,
    STATS,
    End,
    Motion,
    Origin,
    Stats,
    saved_solution,
)
from carom.schemes.named import scheme_or_text
from carom.status import NAMES, Status, name_of

_FLOAT = np.dtype("<f8")
_CHUNK_BYTES, _IMPACT_BYTES = 2**16, 2**12
_SMALL = 2**24  # bytes of records up to which they are read at once
_COUNTER = "/carom", "pieces"
_COUNTS = struct.Struct("<qq")  # records and impacts, before the state of a run
_VERSION = 2


class Recording:
    """Where a run puts its records; the file is open for writing (contracts.Store)."""

    def __init__(self, path, layout: "_Layout"):
        self.path, self.layout = os.fspath(path), layout
        self.file = GrowingFile(path, layout.columns, _COUNTER)
        self.count, self.impacts, self.pieces = 0, 0, 0

    @staticmethod
    def holds(world) -> bool:
        """Whether files can hold such a world: one with the same contacts all the time."""
        return world.format == ".nc"

    @staticmethod
    def load(path, pile=None) -> Motion:
        """What is in a file, recorded as a run went or saved."""
        check_result(path)
        return RecordedSolution(path) if is_recording(path) else saved_solution(path)

    @staticmethod
    def start(path, course, description: str) -> "Recording":
        """A new file."""
        layout = _Layout(course)
        settings = course.settings() | {
            "run": uuid.uuid4().hex,
            "parts": hashes(course.parts()),
            "version": _VERSION,
        }
        with said(path, "begin"):
            create(path, layout.columns, lambda h5: layout.fill(h5, settings, description))
            return Recording(path, layout)

    @staticmethod
    def resume(path, course) -> "Recording | None":
        """An old file of the same run, which puts ``course`` where it was; None: from the start."""
        layout = _Layout(course)
        with read_from(path), open_file(path) as h5:
            settings = settings_of(h5)
            check_version(path, settings["version"], _VERSION)
            check_same(path, settings["parts"], hashes(course.parts()))
            layout.columns = [_column_of(h5, c.name) for c in layout.columns]
            state, number = newest(h5["carom/checkpoint"], int(h5["carom"].attrs["pieces"]))
        if not state:
            return None
        with said(path, "go on in"):
            recording = Recording(path, layout)
        recording.pieces = number
        recording.count, recording.impacts = _COUNTS.unpack_from(state)
        course.restore(state[_COUNTS.size :])
        return recording

    def add(self, piece, course) -> None:
        """Write records, impacts, and the state of the run after them."""
        at, rows, impacts = piece
        with said(self.path, f"write record {self.count + len(at)}", self.count):
            rows = {"time": course.times(at), **rows}
            for name, values in rows.items():
                if name in self.file.columns:
                    self.file.write(name, self.count, values)
            for name, _ in COLUMNS if self.layout.impacts else ():
                self.file.write(f"impact_{name}", self.impacts, impacts[name])
            count, listed = self.count + len(at), self.impacts + len(impacts)
            state = slot(self.pieces, _COUNTS.pack(count, listed) + course.saved())
            self.file.write_part("carom/checkpoint", self.pieces % 2, state)
            for name, value in course.stats.items():
                self._put(f"stats_{name}", value)
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

    def solution(self, course) -> "RecordedSolution":
        """What was kept, and how the run ended."""
        with said(self.path, "end", self.count):
            self._put("status", NAMES.index(name_of(course.status)))
        return RecordedSolution(self.path, course.scheme, course.world)

    def close(self) -> None:
        """Release the file."""
        self.file.close()


class _Layout:
    """The variables of a file, from what is known before a run."""

    def __init__(self, course):
        self.course, self.most = course, course.total
        self.fields = {field.name: field for field in course.fields}
        sizes = course.fields.items()
        self.inner = {f.name: f.axes[: len(shape)] for f, shape in sizes}
        self.width = {a: n for f, shape in sizes for a, n in zip(f.axes, shape, strict=False)}
        self.impacts = course.impacts is not None
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
            most = self.course.impacts
            kinds = [("impact", "<i4"), *((f"impact_{n}", np.dtype(k)) for n, k in COLUMNS)]
            found += [_column(n, np.dtype(kind), (), most, _IMPACT_BYTES) for n, kind in kinds]
        room = SLOT_HEAD + _COUNTS.size + self.course.room
        return [*found, Column("carom/checkpoint", np.dtype("u1"), (room,), 1, 2, True)]

    def fill(self, h5, settings, description):
        """What does not grow, and which axis is which."""
        h5.attrs["dt"], h5.attrs["scheme"] = settings["dt"], words(settings["scheme"])
        group = h5["carom"]
        group.attrs["pieces"] = np.int64(0)
        put_text(group, "settings", json.dumps(settings))
        put_text(group, "description", description)
        for name, kind in self.scalars.items():
            h5[name] = np.zeros((), kind)
        h5["status"][()] = NAMES.index("unfinished")
        h5["status"].attrs["flag_values"] = np.arange(len(NAMES))
        h5["status"].attrs["flag_meanings"] = words(" ".join(NAMES))
        h5["time"].make_scale("time")
        for axis, size in self.width.items():
            h5.create_dataset(axis, (size,), ">f4")
            h5[axis].make_scale(f"{_NO_VARIABLE}{size:10}")
        for name, axes in self.inner.items():
            told = attributes(self.fields[name])
            h5[name].attrs.update({key: words(text) for key, text in told.items()})
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
    chunk = max(1, size // row)
    return Column(name, kind, inner, min(most, chunk), most, bounded=True)


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
    names = ("time", *AXES)
    return min(h5[name].shape[0] for name in names if name in h5)


def settings_of(h5) -> dict:
    """Of a recording."""
    return json.loads(text_in(h5["carom"], "settings"))


def description_of(h5) -> str:
    """How the command would make it again, or nothing."""
    return text_in(h5["carom"], "description")


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
            self.status: Any = status_of(h5)
            self.stats = Stats(*(_number(h5, f"stats_{name}") for name in STATS))
            text = scheme_or_text(self.settings.get("scheme") or words_of(h5, "scheme"))
            width = h5["q"].shape[1] + h5["v"].shape[1] + 4 * self.settings["gaps"]
        glued = self.settings.get("glued")
        self.origin = Origin(
            text if scheme is None else scheme,
            system,
            glued=None if glued is None else np.asarray(glued, float),
        )
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
        if not state or self.settings["version"] != _VERSION:
            return None
        found = arrays_of(state[_COUNTS.size :])
        memory = [found[n] for n in found if n.startswith("carry.state.memory")]
        step, start = self.settings["first"] + self.stats.steps, "carry.state."
        return End(
            self.settings["t0"], step, self.dt, found[start + "q"], found[start + "v"], memory
        )

    @property
    def finished(self) -> bool:
        """Whether the run ended by itself, well or not."""
        return bool(self.status != Status.unfinished)

    def __getattr__(self, name):
        if name not in _READ:
            raise absent(self, name, ELSEWHERE)
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


def status_of(h5) -> Any:
    """How the run ended, by the name that the file gives to its number."""
    names = words_of(h5["status"], "flag_meanings").split()
    return getattr(Status, names[int(h5["status"][()])])


_READ = ("t", *AXES, "_table")


def _impacts(h5) -> np.ndarray | None:
    """The table, with an impact that a run is still in the middle of."""
    if "impact_time" not in h5:
        return None
    rows = np.zeros(min(h5[f"impact_{name}"].shape[0] for name, _ in COLUMNS), COLUMNS)
    for name, _ in COLUMNS:
        rows[name] = h5[f"impact_{name}"][: len(rows)]
    if status_of(h5) != Status.unfinished:
        return listed(rows)
    state, _ = newest(h5["carom/checkpoint"], int(h5["carom"].attrs["pieces"]))
    if not state:
        return listed(rows)
    found = arrays_of(state[_COUNTS.size :])
    count, p = found["counts"][3], found["held.impulse"].shape[1]
    held = {n.partition(".")[2]: a[:count] for n, a in found.items() if n.startswith("held.")}
    log = ImpactLog.holding(p, held, float(found["largest"]))
    return listed(np.concatenate([rows, log.rest()]))
