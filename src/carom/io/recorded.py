"""Recordings of spheres, read: the files that vtkhdf.py writes, record by record or as a motion.

Which column of a file holds which field follows from the list of fields (carom/fields.py).
"""

import functools
import json
import os
import zlib
from typing import Any

import h5py
import numpy as np

from carom.arguments import absent
from carom.dump import arrays_of
from carom.errors import RecordError
from carom.fields import SPHERES, Field
from carom.io.growing import Column, GrowingFile, datasets
from carom.io.pile import load_pile
from carom.io.recording import check_result, lost_end, newest, read_from, text_in
from carom.schemes.named import scheme_of_text
from carom.status import NAMES, Status
from carom.worlds.spheres.model import Spheres
from carom.worlds.spheres.neighbours import Cell
from carom.worlds.spheres.solution import (
    ELSEWHERE,
    ContactTable,
    SpheresEnd,
    SpheresSolution,
    SphereStats,
    couples,
    still,
)

VERSION = 3
POINTS = "VTKHDF/Points"  # as VTK wants it
OF_SPHERES = [field for field in SPHERES if field.axes[:1] == ("sphere",)]
_SUMS = [field.name for field in SPHERES if not field.axes]
_OTHERWISE = {"v": "Velocity", "steps": "step"}  # named so in files


def place(name: str) -> str:
    """The column of a field of spheres: angular_impulse is VTKHDF/PointData/AngularImpulse."""
    words = "".join(word.capitalize() for word in name.split("_"))
    return POINTS if name == "x" else f"VTKHDF/PointData/{_OTHERWISE.get(name, words)}"


FORCE = place("contact_force")  # beside the fields: of the contacts, for pictures


def columns(spins: bool) -> dict[str, tuple[int, ...]]:
    """What a file has of each sphere, in the order in which it is written, and of which shape."""
    found = {place(f.name): (3,) * (len(f.axes) - 1) for f in OF_SPHERES if not _turns(f)}
    found[FORCE] = ()
    return found | {place(f.name): (3,) for f in OF_SPHERES if spins and _turns(f)}


def _turns(field: Field) -> bool:
    return "turn" in field.axes


def counted(names, records: int, N: int, contacts: int) -> dict[str, int]:
    """How many rows the columns have: one a record, or one a sphere of a record; and contacts."""
    points = columns(spins=True)
    rows = {name: records * (N if name in points else 1) for name in names}
    return rows | {"carom/contacts": contacts}


def open_file(path) -> Any:
    """A recording, open for reading; one that was cut off is first cut back to whole records."""
    check_result(path)
    name = os.fspath(path)
    try:
        with read_from(path):
            _mend(name)
            file: Any = h5py.File(name, "r", locking=False)
            ours, held = "carom/frames" in file and "VTKHDF/Steps" in file, ", ".join(file)
    except RecordError as problem:
        if isinstance(problem.__cause__, OSError):
            raise RecordError(f"{name!r} cannot be read as HDF5: {problem.__cause__}") from None
        raise
    if not ours:
        file.close()
        raise RecordError(f"{name!r} is not a recording of spheres made by carom: it holds {held}")
    return file


def _mend(path: str) -> None:
    """Cut a file that lost its end back to the records that are whole."""
    size = lost_end(path)
    if size is None:
        return
    try:
        _cut_back(path)
    except Exception:  # what HDF5 makes of a file without its head
        os.truncate(path, size)
        raise RecordError(
            f"{path!r} was cut off before its first record: there is no record left in it"
        ) from None


def _cut_back(path: str) -> None:
    h5: Any = h5py.File(path, "r", locking=False)
    with h5:
        count = int(h5["VTKHDF/Steps"].attrs["NSteps"])
        while count and not _whole(h5, count - 1):
            count -= 1
        N, rows = int(h5["VTKHDF/NumberOfPoints"][0]), h5["carom/frames"][:count]
        contacts = int(rows["first_contact"][-1] + rows["contacts"][-1]) if count else 0
        columns, checkpoints = _columns_of(h5), h5["carom/checkpoint"].shape[0]
    file = GrowingFile(path, columns, ("VTKHDF/Steps", "NSteps"))
    rows = counted(file.columns, count, N, contacts)
    file.publish(rows | {"carom/checkpoint": checkpoints}, count)
    file.close()


def _columns_of(h5) -> list[Column]:
    """The columns of a file as they are on disk."""
    return [
        Column(name, data.dtype, data.shape[1:], data.chunks[0], data.shape[0])
        for name, data in datasets(h5)
        if data.chunks is not None
    ]


def _whole(h5, k) -> bool:
    """Whether record k is what was written."""
    N, checksum = int(h5["VTKHDF/NumberOfPoints"][0]), 0
    try:
        row = h5["carom/frames"][k]
        for name in (name for name in columns(spins=True) if name in h5):
            checksum = zlib.crc32(h5[name][k * N : (k + 1) * N], checksum)
        first = row["first_contact"]
        rows = h5["carom/contacts"][first : first + row["contacts"]]
    except OSError:
        return False
    return zlib.crc32(np.ascontiguousarray(rows).data, checksum) == row["checksum"]


def checkpoint(h5) -> tuple[bytes, int]:
    """The newest state that is whole, and the number of records up to it."""
    return newest(h5["carom/checkpoint"], int(h5["VTKHDF/Steps"].attrs["NSteps"]))


def _status(found) -> Any:
    """By its name; files of version 1 have its number."""
    if isinstance(found, bytes):
        return getattr(Status, found.decode())
    return getattr(Status, NAMES[found]) if found >= 0 else Status.unfinished


class Reader:
    """A recording, read record by record."""

    def __init__(self, path, *, empty: bool = False):
        """``empty``: whether a file without a record will do."""
        self.path = os.fspath(path)
        self.h5: Any = open_file(path)
        try:
            with read_from(path):
                self._read_heads(empty)
        except BaseException:
            self.h5.close()
            raise

    def _read_heads(self, empty):
        self.settings = json.loads(text_in(self.h5["carom"], "settings"))
        self.N = int(self.h5["VTKHDF/NumberOfPoints"][0])
        self.dimension = int(self.h5["carom/pile"].attrs["dimension"])
        self.period = self.h5["carom/pile/period"][:]
        self.count = int(self.h5["VTKHDF/Steps"].attrs["NSteps"])
        self.frames = self.h5["carom/frames"][: self.count]
        self.status = _status(self.h5["carom/status"][0])
        self.finished = self.status is not Status.unfinished
        self.description = text_in(self.h5["carom"], "description")
        self.functions = json.loads(text_in(self.h5["carom/pile"], "functions"))
        if not self.count and not empty:
            raise RecordError(f"{self.path!r} has no record yet: the run was stopped at its start")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.h5.close()

    def points(self, name: str, k: int) -> np.ndarray:
        """(N,) or (N, 3): a field of spheres, or contact_force, of record k."""
        return self.h5[place(name)][k * self.N : (k + 1) * self.N]

    def all_points(self, name: str) -> np.ndarray:
        """(n, N) or (n, N, 3), of all records."""
        data = self.h5[place(name)][: self.count * self.N]
        return data.reshape(self.count, self.N, *data.shape[1:])

    def contact_rows(self, k: int) -> np.ndarray:
        """The contacts of record k: pair, impulse, normal."""
        row = self.frames[k]
        return self.h5["carom/contacts"][
            row["first_contact"] : row["first_contact"] + row["contacts"]
        ]

    def wall_impulse(self) -> np.ndarray:
        """(n, W, d)."""
        if "carom/wall_impulse" not in self.h5:
            return np.zeros((self.count, 0, self.dimension))
        return self.h5["carom/wall_impulse"][: self.count, :, : self.dimension]

    def pile(self) -> Spheres:
        """The spheres as they were at the start."""
        return load_pile(self.h5["carom/pile"], self.path)


class RecordedSpheres(SpheresSolution):
    """A motion of spheres whose records are in a file; an array is read when it is first used."""

    def __init__(self, path, pile: Spheres | None = None, scheme=None):
        with read_from(path), Reader(path) as file:
            rows: Any = file.frames
            settings = file.settings
            self.pile = file.pile() if pile is None else pile
            self.status, self.finished = file.status, file.finished
        self.path, self.dt = os.fspath(path), settings["dt"]
        self.error = None
        first = settings["t0"] + settings.get("first", 0) * self.dt
        self.pile = self.pile.during(first, first + settings["steps"] * self.dt)
        self.scheme = scheme_of_text(settings["scheme"]) if scheme is None else scheme
        self.t = rows["t"].copy()
        for name in _SUMS:
            setattr(self, name, rows[_OTHERWISE.get(name, name)].copy())
        last = rows[-1]
        self.stats = SphereStats(
            int(last["step"]) - settings.get("first", 0),
            int(last["iterations"]),
            float(last["residual"]),
            float(np.max(rows["overlap"])),
            int(last["rebuilds"]),
            int(last["loose"]) if "loose" in last.dtype.names else 0,
        )

    @property
    def ok(self) -> bool:
        """Whether the run reached its end, every step solved to its tolerance."""
        return self.finished and self.status is Status.ok

    def opened(self) -> Reader:
        """Its file."""
        return Reader(self.path)

    def __getattr__(self, name):
        if name not in _READ:
            raise absent(self, name, ELSEWHERE)
        with read_from(self.path), Reader(self.path) as file:
            value = _READ[name](self, file)
        setattr(self, name, value)
        return value

    def _tables(self, file) -> list[ContactTable]:
        d, walls = self.pile.dimension, self.pile.walls
        cell = Cell(np.zeros(3), np.pad(self.pile.period, (0, 3 - d)), d)
        tables = []
        for k, t in enumerate(self.t):
            obstacles, sizes = walls.obstacles_at(t)
            x = np.concatenate([file.points("x", k), obstacles])
            r = np.concatenate([file.points("radius", k), sizes])
            rows = file.contact_rows(k)
            pairs, normal = rows["pair"].astype(np.int64), rows["normal"]
            i, wall = pairs[:, 0], pairs[:, 1] < 0
            across = cell.nearest_image(x[np.where(wall, 0, pairs[:, 1])] - x[i])
            branch = np.where(wall[:, None], r[i, None] * normal, across)
            friction, gamma = np.broadcast_to(0.0, normal.shape), np.broadcast_to(0.0, len(i))
            if "friction" in rows.dtype.names:
                friction = rows["friction"].copy()
            if "gamma" in rows.dtype.names:
                gamma = rows["gamma"].copy()
            rolls = "couple" in rows.dtype.names
            couple = couples(rows["couple"] if rolls else np.zeros((len(i), 0)), d)
            tables.append(
                ContactTable(
                    pairs=pairs,
                    position=(x[i] + r[i, None] * normal)[:, :d],
                    normal=normal[:, :d],
                    impulse=rows["impulse"].copy(),
                    force=rows["impulse"] / self.dt,
                    branch=branch[:, :d],
                    friction=friction[:, :d],
                    friction_force=friction[:, :d] / self.dt,
                    gamma=gamma,
                    couple=couple,
                    torque=couple / self.dt if rolls else couple,
                )
            )
        return tables


def _read(field: Field, sol, file) -> np.ndarray:
    """A field of spheres, of all records."""
    if _turns(field) and not sol.pile.spins:
        return still(file.count, sol.pile)
    data, plane = file.all_points(field.name), file.dimension == 2
    if _turns(field):
        return data[..., 2].copy() if plane else data
    return data[..., : file.dimension] if data.ndim == 3 else data


def _end(sol, file) -> SpheresEnd | None:
    """Where the run stands: its newest checkpoint."""
    state, settings = checkpoint(file.h5)[0], file.settings
    if not state or settings["version"] != VERSION:
        return None
    step = settings["first"] + int(arrays_of(state)["counts"][0])
    return SpheresEnd(settings["t0"], step, sol.dt, state)


_READ = {field.name: functools.partial(_read, field) for field in OF_SPHERES} | {
    "wall_impulse": lambda sol, file: file.wall_impulse(),
    "contacts": lambda sol, file: sol._tables(file),
    "end": _end,
}
