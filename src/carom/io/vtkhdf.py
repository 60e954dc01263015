"""Runs of spheres on disk: VTKHDF, which ParaView opens, with what is needed to go on.

    /VTKHDF           PolyData, one point a sphere, one time a record (VTKHDF 2.0)
        Points, PointData/{Velocity, Radius, Moved, Impulse, ContactForce}    N rows a record
            and, of spheres that spin, Spin and AngularImpulse; about z in two dimensions
        Steps/{Values, PointOffsets, ...}, attribute NSteps: records that are complete
    /carom
        frames        a row a record: step, time, sums since the record before, checksum
        contacts      a row for each contact that pushed, record after record
        wall_impulse  (records, W, 3)
        pile, checkpoint, settings: what the run is, and where it stands (two slots in turn)

A record is written as soon as it is made, and counted last (growing.py): a run that is killed
leaves a file with all records before, and memory does not grow with their number.
"""

import contextlib
import json
import os
import zlib
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np

from carom.dump import arrays_of
from carom.errors import RecordError
from carom.fields import SPHERES, axes_of
from carom.io.growing import Column, GrowingFile, create, datasets
from carom.io.pile import load_pile, save_pile
from carom.io.recording import (
    SLOT_HEAD,
    Piece,
    check_result,
    check_same,
    check_version,
    hashes,
    lost_end,
    newest,
    read_from,
    said,
    slot,
)
from carom.schemes.named import scheme_of_text
from carom.status import NAMES, Status, name_of
from carom.worlds.spheres.model import Spheres
from carom.worlds.spheres.neighbours import Cell
from carom.worlds.spheres.solution import (
    ContactTable,
    SpheresEnd,
    SpheresSolution,
    SphereStats,
    still,
)

_FLOAT = np.dtype("<f8")
_FRAME = np.dtype(
    [
        ("step", "<i8"),
        ("t", "<f8"),  # [s]
        ("work", "<f8"),  # [J]
        ("push", "<f8"),  # [kg m/s]
        ("overlap", "<f8"),  # [m]
        ("first_contact", "<i8"),  # row of contacts
        ("contacts", "<i8"),  # rows
        ("iterations", "<i8"),  # in all, up to here
        ("residual", "<f8"),  # worst up to here
        ("rebuilds", "<i8"),  # up to here
        ("loose", "<i8"),  # steps up to here
        ("checksum", "<u4"),  # of everything the record wrote
    ]
)
_CONTACT = np.dtype([("pair", "<i4", (2,)), ("impulse", "<f8"), ("normal", "<f8", (3,))])
_SLIDING = np.dtype([*_CONTACT.descr, ("friction", "<f8", (3,))])
_POINT_DATA = {"Velocity": (3,), "Radius": (), "Moved": (3,), "Impulse": (3,), "ContactForce": ()}
_SPINNING = _POINT_DATA | {"Spin": (3,), "AngularImpulse": (3,)}
_TOUCHING = 10  # contacts between spheres, per sphere, at most; no packing has 7.5 [1]
# [1] G. Kuperberg, O. Schramm, Average kissing numbers for non-congruent sphere packings,
#     Math. Res. Lett. 1 (1994) 339-344: below 14.93 / 2.
_CHUNK_BYTES = 2**16  # at least, where records are smaller
_FEW_BYTES = 2**12  # of a chunk of what is a row a record
_AHEAD = 128  # records whose places VTK is told of at once
_STATUS = np.dtype("S16")  # its name
_VERSION = 3


class Recording:
    """Where a run of spheres puts its records; the file is open for writing (contracts.Store)."""

    def __init__(self, path, layout: "_Layout"):
        self.path, self.layout = os.fspath(path), layout
        self.file = GrowingFile(path, layout.columns, ("VTKHDF/Steps", "NSteps"))
        self.count, self.contacts, self.told = 0, 0, 0

    @staticmethod
    def holds(world) -> bool:
        """Whether files can hold such a world: one of spheres."""
        return world.format == ".vtkhdf"

    @staticmethod
    def load(path, pile=None) -> "RecordedSpheres":
        """What is in a file."""
        return RecordedSpheres(path, pile)

    @staticmethod
    def start(path, course, description: str) -> "Recording":
        """A new file."""
        layout = _Layout(course.world.pile, course.total, course.room)
        settings = course.settings() | {"parts": hashes(course.parts()), "version": _VERSION}
        with said(path, "begin"):
            create(path, layout.columns, lambda h5: layout.fill(h5, settings, description))
            return Recording(path, layout)

    @staticmethod
    def resume(path, course) -> "Recording | None":
        """An old file of the same run, which puts ``course`` where it was; None: from the start."""
        with read_from(path), open_file(path) as h5:
            settings = json.loads(h5["carom"].attrs["settings"])
            room = h5["carom/checkpoint"].shape[1] - SLOT_HEAD
            state, count = _newest(h5)
            rows = h5["carom/frames"][:count]
        check_version(path, settings["version"], _VERSION)
        check_same(path, settings["parts"], hashes(course.parts()))
        if not state:
            return None
        with said(path, "go on in"):
            recording = Recording(path, _Layout(course.world.pile, course.total, room))
        recording.count = count
        recording.contacts = int(rows["first_contact"][-1] + rows["contacts"][-1])
        course.restore(state)
        return recording

    def add(self, piece, course) -> None:
        """Write records, and the state of the run after them."""
        if not len(piece.at):
            return
        with said(self.path, f"write record {self.count}", self.count):
            for k, t in enumerate(course.times(piece.at)):
                row = {name: values[k] for name, values in piece.rows.items()}
                self._write(self.count + k, t, row, course.stats)
            self.count += len(piece.at)
            state = slot(self.count - 1, course.saved() if course.step else b"")  # from 0: anew
            self.file.write_part("carom/checkpoint", (self.count - 1) % 2, state)
            rows = _rows(self.file.columns, self.count, self.layout.N, self.contacts)
            rows |= dict.fromkeys(self.layout.places(0, 0), self.told)
            rows["carom/checkpoint"] = min(self.count, 2)
            self.file.publish(rows, self.count)

    def _write(self, k, t, row, stats):
        columns, N = _point_columns(row), self.layout.N
        contacts, checksum = _contact_rows(row["contacts"], self.layout.contact), 0
        for name, values in columns.items():
            self.file.write(name, k * N, values)
            checksum = zlib.crc32(values.data, checksum)
        self._check_room(len(contacts))
        self.file.write("carom/contacts", self.contacts, contacts)
        checksum = zlib.crc32(contacts.data, checksum)
        if self.layout.W:
            self.file.write("carom/wall_impulse", k, _wide(row["wall_impulse"])[None])
        sums = (row[name] for name in ("work", "push", "overlap"))
        done = (stats[name] for name in ("iterations", "residual", "rebuilds", "loose"))
        frame = row["steps"], t, *sums, self.contacts, len(contacts), *done, checksum
        self.file.write("carom/frames", k, np.array([frame], _FRAME))
        self.file.write("VTKHDF/Steps/Values", k, np.array([t]))
        self.contacts += len(contacts)
        if k >= self.told:
            self.told = min(self.layout.n, (k // _AHEAD + 1) * _AHEAD)
            for name, values in self.layout.places(k, self.told).items():
                self.file.write(name, k, values)

    def _check_room(self, new):
        most = self.file.columns["carom/contacts"].most
        if self.contacts + new > most:
            raise RecordError(
                f"more than {most} contacts to record, over {_TOUCHING} a sphere: the state is not "
                "one of spheres that touch. Take a smaller dt"
            )

    def solution(self, course) -> "RecordedSpheres":
        """What was kept, and how the run ended."""
        with said(self.path, "end", self.count):
            status = np.array([name_of(course.status)], _STATUS)
            self.file.put(self.file.fixed["carom/status"], status.tobytes())
        found = RecordedSpheres(self.path, course.world.pile, course.scheme)
        found.error = course.error
        return found

    def close(self) -> None:
        """Release the file."""
        self.file.close()


class _Saved:
    """A motion that is there already, as a course that hands out its records (contracts.Course)."""

    def __init__(self, sol: SpheresSolution):
        self.sol, self.at, self.total = sol, np.arange(len(sol)), len(sol)
        self.world, self.scheme, self.status = (
            SimpleNamespace(pile=sol.pile),
            sol.scheme,
            sol.status,
        )
        self.stats, self.step, self.error = vars(sol.stats), sol.stats.steps, sol.error
        self.state = b"" if sol.end is None else sol.end.state
        self.room = len(self.state)

    def settings(self) -> dict[str, Any]:
        """What the file says of it."""
        sol, end, steps = self.sol, self.sol.end, self.sol.stats.steps
        t0, first = (sol.pile.start, 0) if end is None else (end.t0, end.step - steps)
        return {"scheme": str(sol.scheme), "t0": t0, "first": first, "steps": steps, "dt": sol.dt}

    def parts(self) -> dict[str, Any]:
        """Nothing can go on with it but ``start=``."""
        return {}

    def times(self, at) -> np.ndarray:
        """Of records."""
        return self.sol.t[at]

    def saved(self) -> bytes:
        """The state at its end."""
        return self.state


def save(sol: SpheresSolution, path) -> None:
    """Write a motion of spheres."""
    course, names = _Saved(sol), [*axes_of(SPHERES), "contacts"]
    rows = {name: getattr(sol, name) for name in names}
    if not sol.pile.spins:
        rows["spin"] = rows["angular_impulse"] = np.zeros((len(sol), 0))
    with contextlib.closing(Recording.start(path, course, "")) as file:
        file.add(Piece(course.at, rows), course)
        file.solution(course)


class _Layout:
    """The columns of a file, from what is known before a run."""

    def __init__(self, pile: Spheres, records: int, room: int):
        """``room``: how long a checkpoint can be."""
        self.pile, self.n, self.N = pile, records, len(pile)
        self.W = len(pile.walls.at(pile.start)[0])
        touching = self.N * (_TOUCHING + self.W)
        together = max(1, min(records, _CHUNK_BYTES // (24 * self.N)))  # records of a chunk
        rows, chunk = records * self.N, together * self.N
        self.contact = _SLIDING if pile.spins else _CONTACT
        self.columns = [
            Column("VTKHDF/Points", _FLOAT, (3,), chunk, rows),
            *(
                Column(f"VTKHDF/PointData/{name}", _FLOAT, inner, chunk, rows)
                for name, inner in (_SPINNING if pile.spins else _POINT_DATA).items()
            ),
            Column("carom/contacts", self.contact, (), max(self.N, 1024), records * touching),
            Column("carom/checkpoint", np.dtype("u1"), (SLOT_HEAD + room,), 1, 2),
            self._each("carom/frames", _FRAME, ()),
            self._each("VTKHDF/Steps/Values", _FLOAT, ()),
            *(
                Column(name, a.dtype, a.shape[1:], min(records, _AHEAD), records)
                for name, a in self.places(0, 0).items()
            ),
        ]
        if self.W:
            self.columns.append(self._each("carom/wall_impulse", _FLOAT, (self.W, 3)))

    def _each(self, name, dtype, inner) -> Column:
        """A row a record."""
        chunk = max(1, _FEW_BYTES // (dtype.itemsize * int(np.prod(inner, dtype=int))))
        return Column(name, dtype, inner, min(self.n, chunk), self.n)

    def places(self, start: int, stop: int) -> dict[str, np.ndarray]:
        """What VTK is told of some records: where each begins in which table."""
        here = self.N * np.arange(start, stop, dtype="<i8")
        none = np.zeros((len(here), 4), "<i8")
        names = _SPINNING if self.pile.spins else _POINT_DATA
        told = {
            "PointOffsets": here,
            "PartOffsets": np.zeros_like(here),
            "NumberOfParts": np.ones_like(here),
            "CellOffsets": none,
            "ConnectivityIdOffsets": none,
            **{f"PointDataOffsets/{name}": here for name in names},
        }
        return {f"VTKHDF/Steps/{name}": values for name, values in told.items()}

    def fill(self, h5, settings, description):
        """What does not grow."""
        self._fill_vtk(h5["VTKHDF"])
        group = h5["carom"]
        group.attrs["settings"] = json.dumps(settings)
        group["status"] = np.array(["unfinished"], _STATUS)
        group["description"] = np.frombuffer(description.encode() or b" ", "u1")
        save_pile(group.create_group("pile"), self.pile)

    def _fill_vtk(self, group):
        N = self.N
        group.attrs["Version"] = np.array([2, 0], "<i8")
        group.attrs.create("Type", b"PolyData", dtype="S8")
        group["NumberOfPoints"] = np.array([N], "<i8")
        for kind in ("Vertices", "Lines", "Polygons", "Strips"):
            points = N if kind == "Vertices" else 0  # each sphere is a vertex, always the same
            cells = group.create_group(kind)
            cells["Connectivity"] = np.arange(points, dtype="<i8")
            cells["Offsets"] = np.arange(points + 1, dtype="<i8")
            cells["NumberOfCells"] = np.array([points], "<i8")
            cells["NumberOfConnectivityIds"] = np.array([points], "<i8")
        group["Steps"].attrs["NSteps"] = np.int64(0)


def _rows(names, records: int, N: int, contacts: int) -> dict[str, int]:
    """How many rows the columns have: one a record, or one a sphere of a record; and contacts."""
    points = ("VTKHDF/Points", "VTKHDF/PointData/")
    rows = {name: records * (N if name.startswith(points) else 1) for name in names}
    return rows | {"carom/contacts": contacts}


def _point_columns(row: dict) -> dict[str, np.ndarray]:
    """What is written of each sphere, 3 numbers for a vector."""
    data = {
        "Velocity": _wide(row["v"]),
        "Radius": np.array(row["radius"], float),
        "Moved": _wide(row["moved"]),
        "Impulse": _wide(row["impulse"]),
        "ContactForce": felt(row["contacts"], len(row["x"])),
    }
    if row["spin"].size:
        data["Spin"], data["AngularImpulse"] = (
            np.pad(w[:, None], ((0, 0), (2, 0))) if w.ndim == 1 else np.ascontiguousarray(w)
            for w in (row["spin"], row["angular_impulse"])
        )
    named = {f"VTKHDF/PointData/{name}": values for name, values in data.items()}
    return {"VTKHDF/Points": _wide(row["x"]), **named}


def felt(table: ContactTable, N) -> np.ndarray:
    """(N,) [N] the sum of the sizes of the contact forces on each sphere, in the last step."""
    total, force = np.zeros(N), table.force
    if np.any(table.friction_force):
        force = np.sqrt(force**2 + np.sum(table.friction_force**2, axis=1))
    for side in (0, 1):
        body = table.pairs[:, side]
        mine = (body >= 0) & (body < N)
        total += np.bincount(body[mine], weights=force[mine], minlength=N)
    return total


def _contact_rows(table: ContactTable, kind: np.dtype) -> np.ndarray:
    rows = np.zeros(len(table), kind)
    rows["pair"], rows["impulse"] = table.pairs, table.impulse
    rows["normal"] = _wide(table.normal)
    if kind == _SLIDING:
        rows["friction"] = _wide(table.friction)
    return rows


def _wide(x):
    return np.ascontiguousarray(np.pad(x, ((0, 0), (0, 3 - x.shape[1]))), float)


# ---- reading ------------------------------------------------------------------------------------


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
    rows = _rows(file.columns, count, N, contacts)
    file.publish(rows | {"carom/checkpoint": checkpoints}, count)
    file.close()


def _columns_of(h5) -> list[Column]:
    """The columns of a file as they are on disk."""
    return [
        Column(name, data.dtype, data.shape[1:], data.chunks[0], data.shape[0])
        for name, data in datasets(h5)
        if data.chunks is not None
    ]


def _point_names(h5) -> list[str]:
    """What a file has of each sphere, in the order in which it was written."""
    return [f"VTKHDF/PointData/{n}" for n in _SPINNING if n in h5["VTKHDF/PointData"]]


def _whole(h5, k) -> bool:
    """Whether record k is what was written."""
    N, checksum = int(h5["VTKHDF/NumberOfPoints"][0]), 0
    try:
        row = h5["carom/frames"][k]
        for name in ("VTKHDF/Points", *_point_names(h5)):
            checksum = zlib.crc32(h5[name][k * N : (k + 1) * N], checksum)
        first = row["first_contact"]
        rows = h5["carom/contacts"][first : first + row["contacts"]]
    except OSError:
        return False
    return zlib.crc32(np.ascontiguousarray(rows).data, checksum) == row["checksum"]


def _newest(h5) -> tuple[bytes, int]:
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
        self.settings = json.loads(self.h5["carom"].attrs["settings"])
        self.N = int(self.h5["VTKHDF/NumberOfPoints"][0])
        self.dimension = int(self.h5["carom/pile"].attrs["dimension"])
        self.period = self.h5["carom/pile/period"][:]
        self.count = int(self.h5["VTKHDF/Steps"].attrs["NSteps"])
        self.frames = self.h5["carom/frames"][: self.count]
        self.status = _status(self.h5["carom/status"][0])
        self.finished = self.status is not Status.unfinished
        self.description = bytes(self.h5["carom/description"][:]).decode().strip()
        self.functions = json.loads(self.h5["carom/pile"].attrs["functions"])
        if not self.count and not empty:
            raise RecordError(f"{self.path!r} has no record yet: the run was stopped at its start")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.h5.close()

    def points(self, name: str, k: int) -> np.ndarray:
        """(N,) or (N, 3): ``Points`` or one of PointData, of record k."""
        path = "VTKHDF/Points" if name == "Points" else f"VTKHDF/PointData/{name}"
        return self.h5[path][k * self.N : (k + 1) * self.N]

    def all_points(self, name: str) -> np.ndarray:
        """(n, N) or (n, N, d), of all records."""
        path = "VTKHDF/Points" if name == "Points" else f"VTKHDF/PointData/{name}"
        data = self.h5[path][: self.count * self.N]
        data = data.reshape(self.count, self.N, *data.shape[1:])
        return data[..., : self.dimension] if data.ndim == 3 else data

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
        self.t, self.steps = rows["t"].copy(), rows["step"].copy()
        self.work, self.push = rows["work"].copy(), rows["push"].copy()
        self.overlap = rows["overlap"].copy()
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

    def __getattr__(self, name):
        if name not in _READ:
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
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
            x = np.concatenate([file.points("Points", k), obstacles])
            r = np.concatenate([file.points("Radius", k), sizes])
            rows = file.contact_rows(k)
            pairs, normal = rows["pair"].astype(np.int64), rows["normal"]
            i, wall = pairs[:, 0], pairs[:, 1] < 0
            across = cell.nearest_image(x[np.where(wall, 0, pairs[:, 1])] - x[i])
            branch = np.where(wall[:, None], r[i, None] * normal, across)
            friction = np.broadcast_to(0.0, normal.shape)
            if "friction" in rows.dtype.names:
                friction = rows["friction"].copy()
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
                )
            )
        return tables


def _turning(sol, file, name) -> np.ndarray:
    """(n, N, 3), or in two dimensions (n, N)."""
    if not sol.pile.spins:
        return still(file.count, sol.pile)
    path = f"VTKHDF/PointData/{name}"
    data = file.h5[path][: file.count * file.N].reshape(file.count, file.N, 3)
    return data[..., 2].copy() if file.dimension == 2 else data


def _end(sol, file) -> SpheresEnd | None:
    """Where the run stands: its newest checkpoint."""
    state, settings = _newest(file.h5)[0], file.settings
    if not state or settings["version"] != _VERSION:
        return None
    step = settings["first"] + int(arrays_of(state)["counts"][0])
    return SpheresEnd(settings["t0"], step, sol.dt, state)


_READ = {
    "x": lambda sol, file: file.all_points("Points"),
    "v": lambda sol, file: file.all_points("Velocity"),
    "moved": lambda sol, file: file.all_points("Moved"),
    "radius": lambda sol, file: file.all_points("Radius"),
    "impulse": lambda sol, file: file.all_points("Impulse"),
    "wall_impulse": lambda sol, file: file.wall_impulse(),
    "contacts": lambda sol, file: sol._tables(file),
    "spin": lambda sol, file: _turning(sol, file, "Spin"),
    "angular_impulse": lambda sol, file: _turning(sol, file, "AngularImpulse"),
    "end": lambda sol, file: _end(sol, file),
}
