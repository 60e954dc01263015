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

import numpy as np

from carom.errors import RecordError
from carom.fields import SPHERES, axes_of
from carom.io.growing import Column, GrowingFile, create
from carom.io.pile import save_pile
from carom.io.recorded import (
    FORCE,
    OF_SPHERES,
    POINTS,
    VERSION,
    RecordedSpheres,
    checkpoint,
    columns,
    counted,
    open_file,
    place,
)
from carom.io.recording import (
    SLOT_HEAD,
    Piece,
    check_same,
    check_version,
    hashes,
    put_text,
    read_from,
    said,
    slot,
    text_in,
)
from carom.status import name_of
from carom.worlds.spheres.model import Spheres
from carom.worlds.spheres.solution import ContactTable, SpheresSolution

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
_ROLLING = np.dtype([*_SLIDING.descr, ("couple", "<f8", (3,))])
_GLUED = np.dtype([*_CONTACT.descr, ("gamma", "<f8")])
_TOUCHING = 10  # contacts between spheres, per sphere, at most; no packing has 7.5 [1]
# [1] G. Kuperberg, O. Schramm, Average kissing numbers for non-congruent sphere packings,
#     Math. Res. Lett. 1 (1994) 339-344: below 14.93 / 2.
_CHUNK_BYTES = 2**16  # at least, where records are smaller
_FEW_BYTES = 2**12  # of a chunk of what is a row a record
_AHEAD = 128  # records whose places VTK is told of at once
_STATUS = np.dtype("S16")  # its name


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
        settings = course.settings() | {"parts": hashes(course.parts()), "version": VERSION}
        with said(path, "begin"):
            create(path, layout.columns, lambda h5: layout.fill(h5, settings, description))
            return Recording(path, layout)

    @staticmethod
    def save(sol: SpheresSolution, path) -> None:
        """Write a motion that is there already."""
        course, names = _Saved(sol), [*axes_of(SPHERES), "contacts"]
        rows = {name: getattr(sol, name) for name in names}
        if not sol.pile.spins:
            rows["spin"] = rows["angular_impulse"] = np.zeros((len(sol), 0))
        with contextlib.closing(Recording.start(path, course, "")) as file:
            file.add(Piece(course.at, rows), course)
            file.solution(course)

    @staticmethod
    def resume(path, course) -> "Recording | None":
        """An old file of the same run, which puts ``course`` where it was; None: from the start."""
        with read_from(path), open_file(path) as h5:
            settings = json.loads(text_in(h5["carom"], "settings"))
            room = h5["carom/checkpoint"].shape[1] - SLOT_HEAD
            state, count = checkpoint(h5)
            rows = h5["carom/frames"][:count]
        check_version(path, settings["version"], VERSION)
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
            rows = counted(self.file.columns, self.count, self.layout.N, self.contacts)
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


class _Layout:
    """The columns of a file, from what is known before a run."""

    def __init__(self, pile: Spheres, records: int, room: int):
        """``room``: how long a checkpoint can be."""
        self.pile, self.n, self.N = pile, records, len(pile)
        self.W = len(pile.walls.at(pile.start)[0])
        touching = self.N * (_TOUCHING + self.W)
        together = max(1, min(records, _CHUNK_BYTES // (24 * self.N)))  # records of a chunk
        rows, chunk = records * self.N, together * self.N
        self.contact = _GLUED if pile.glue else _SLIDING if pile.spins else _CONTACT
        self.contact = _ROLLING if pile.rolls else self.contact
        self.columns = [
            *(
                Column(name, _FLOAT, inner, chunk, rows)
                for name, inner in columns(pile.spins).items()
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
        names = (n.rpartition("/")[2] for n in columns(self.pile.spins) if n != POINTS)
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
        put_text(group, "settings", json.dumps(settings))
        group["status"] = np.array(["unfinished"], _STATUS)
        put_text(group, "description", description)
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


def _point_columns(row: dict) -> dict[str, np.ndarray]:
    """What is written of each sphere, 3 numbers for a vector."""
    found = {place(f.name): _three(f, row[f.name]) for f in OF_SPHERES if row[f.name].size}
    found[FORCE] = row["contacts"].felt(len(row["x"]))
    return {name: found[name] for name in columns(bool(row["spin"].size))}


def _three(field, x) -> np.ndarray:
    """Vectors in space; in the plane a spin is about z."""
    if x.ndim == 1 and len(field.axes) == 2:
        return np.pad(x[:, None], ((0, 0), (2, 0)))
    return np.array(x, float) if x.ndim == 1 else _wide(x)


def _contact_rows(table: ContactTable, kind: np.dtype) -> np.ndarray:
    rows = np.zeros(len(table), kind)
    rows["pair"], rows["impulse"] = table.pairs, table.impulse
    rows["normal"] = _wide(table.normal)
    if kind in (_SLIDING, _ROLLING):
        rows["friction"] = _wide(table.friction)
    if kind == _ROLLING:
        flat = table.couple.ndim == 1  # about z
        rows["couple"] = np.pad(table.couple[:, None], ((0, 0), (2, 0))) if flat else table.couple
    if kind == _GLUED:
        rows["gamma"] = table.gamma
    return rows


def _wide(x):
    return np.ascontiguousarray(np.pad(x, ((0, 0), (0, 3 - x.shape[1]))), float)
