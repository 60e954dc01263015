"""What the recordings of a System (netcdf.py) and of Spheres (vtkhdf.py) have in common.

A file grows by pieces (growing.py).  With each piece the state of the run goes into one of two
slots in turn, under the number of the piece; the counter of the file is raised last.  So whatever
stops the writer, a slot whose number is below the counter holds a state whose rows are all there.
"""

import contextlib
import errno
import hashlib
import mmap
import os
import struct
import zlib
from typing import Any, NamedTuple

import numpy as np

from carom.errors import CaromError, RecordError
from carom.results.impacts import COLUMNS

_SLOT = struct.Struct("<8sqqI")  # mark, piece, length, checksum
_MARK = b"carom ck"
SLOT_HEAD = _SLOT.size
_LOST = 1000  # sizes: a file that says it was larger is damaged, not cut off


class Piece(NamedTuple):
    """Some records of a run, and the rows of the table of impacts that no further step changes."""

    at: np.ndarray  # (n,) where they lie, in steps from the start of the run
    rows: dict[str, Any]  # (n, ...) by the name of the field
    impacts: np.ndarray = np.zeros(0, COLUMNS)


class said:
    """What the system says about a file, as a message with a remedy."""

    def __init__(
        self, path, doing, intact=None, remedy="choose another path, or make this one writable"
    ):
        self.path, self.doing, self.intact = os.fspath(path), doing, intact
        self.remedy = remedy

    def __enter__(self):
        return self

    def __exit__(self, kind, problem, trace):
        if not isinstance(problem, OSError):
            return
        why = problem.strerror or str(problem)
        remedy = self.remedy
        if problem.errno in (errno.ENOSPC, errno.EDQUOT):
            remedy = "free some space"
        if problem.errno == errno.EAGAIN:
            why, remedy = "another run is writing it", "choose another path"
        text = f"cannot {self.doing} {self.path!r}: {why}"
        if self.intact is not None:
            text += f". The {self.intact} records before are intact"
            remedy += ", and go on with Record(path, resume=True) or `carom run --resume FILE`"
        raise RecordError(f"{text}; {remedy}") from problem


# What else a path may be, by its ending: said to who takes it for a result.
KINDS = {
    ".toml": "a run file: carom run {0} makes its result",
    ".py": "Python: if it is a run file, carom run {0} makes its result; or try carom lab {0}",
    ".zarr": "a sweep: carom.study.open_sweep, then carom.study.plot",
    ".jsonl": "results of carom bench, whose report is the .html beside it",
    ".html": "a page: open it in a browser",
}
_BEGINNINGS = {
    b"\x89PNG": "a picture",
    b"GIF8": "a picture",
    b"PK": "a zip file",
    b"CDF": "netCDF 3",
}
_HDF5 = b"\x89HDF\r\n\x1a\n"


def check_result(path) -> None:
    """Refuse what cannot be a result by its name and its first bytes, and say what it is."""
    name = os.fspath(path)
    ending = os.path.splitext(name)[1]
    if not os.path.exists(name):
        raise RecordError(f"there is no file {name!r}")
    if ending in KINDS:
        raise RecordError(f"{name!r} is {KINDS[ending].format(name)}")
    if os.path.isdir(name):
        raise RecordError(f"{name!r} is a folder: name the result in it (.nc, or .vtkhdf)")
    with said(name, "open", remedy="make it readable"), open(name, "rb") as file:
        head = file.read(8)
    if not head.startswith(_HDF5):
        known = (kind for start, kind in _BEGINNINGS.items() if head.startswith(start))
        what = next(known, "not HDF5") if head else "empty"
        raise RecordError(
            f"{name!r} is {what}, and not a result saved by carom: it cannot be read as HDF5. "
            "Results are .nc or .vtkhdf files of carom run, Record(path) or sol.save(path)"
        )


@contextlib.contextmanager
def read_from(path):
    """Whatever goes wrong in reading a file, as a message that names it."""
    try:
        yield
    except CaromError:
        raise
    except Exception as problem:
        raise RecordError(
            f"{os.fspath(path)!r} is not a result saved by carom, or is damaged: "
            f"{type(problem).__name__}: {' '.join(str(problem).split())}"
        ) from problem


# Text.  HDF5 keeps strings of variable length in heaps, and reads a damaged heap for ever: files
# have none of them but in DIMENSION_LIST, which netCDF prescribes and nothing here reads.


def put_text(group, name: str, text: str) -> None:
    """Write text of any length, as bytes."""
    group[name] = np.frombuffer(text.encode() or b" ", "u1")


def text_in(group, name: str) -> str:
    """What put_text wrote, or an attribute of that name, where older files have it."""
    return bytes(group[name][:]).decode().strip() if name in group else words_of(group, name)


def words(text: str) -> np.ndarray:
    """Text for an attribute, of fixed length; cut, where HDF5 has no room for more."""
    import h5py  # here, not above: it takes a tenth of the time of ``import carom``

    data = text[:_LETTERS].encode() or b" "
    return np.array(data, h5py.string_dtype("utf-8", len(data)))


def words_of(item, name: str) -> str:
    """An attribute; of variable length in older files, and in those of other programs."""
    import h5py

    if h5py.check_string_dtype(item.attrs.get_id(name).dtype).length is None:
        _check_heaps(item.file)
    found = item.attrs[name]
    return found if isinstance(found, str) else found.decode()


def save_dataset(data, path) -> None:
    """Write an xarray Dataset, with text of fixed length."""
    for item in (data, *data.variables.values()):
        text = {name: words(a) for name, a in item.attrs.items() if isinstance(a, str)}
        item.attrs = {**item.attrs, **text}
    data.to_netcdf(path, engine="h5netcdf")


_LETTERS = 2**13  # an attribute is at most 64 KiB, a letter 4 bytes
_HEAP = struct.Struct("<4sB3xQ")  # mark, version, bytes in all
_OBJECT = struct.Struct("<HHIQ")  # number, references, nothing, bytes


def _check_heaps(h5) -> None:
    """Refuse a file with a heap in which HDF5 does not come to the end.

    A heap is a row of objects (HDF5 File Format Specification 3.0, III.E); number 0 is what is
    free, and its bytes count its head.  Each must lead on, and the last to the end.
    """
    if h5.id.get_create_plist().get_sizes() != (8, 8):
        raise OSError("its addresses are not of 8 bytes")
    with open(h5.filename, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as m:
        heap = m.find(b"GCOL\1")
        while heap >= 0:
            at, end = heap + _HEAP.size, heap + _HEAP.unpack_from(m, heap)[2]
            while at + _OBJECT.size <= end <= len(m):
                number, _, _, size = _OBJECT.unpack_from(m, at)
                room = _OBJECT.size + -(-size // 8) * 8 if number else size
                if room == 0:
                    break
                at += room
            if not end - _OBJECT.size < at <= end <= len(m):
                raise OSError(f"its heap of text at byte {heap} is damaged")
            heap = m.find(b"GCOL\1", heap + 1)


def slot(piece: int, data: bytes) -> bytes:
    """A state as it is written into slot ``piece % 2``."""
    return _SLOT.pack(_MARK, piece, len(data), zlib.crc32(data)) + data


def newest(slots, counter: int) -> tuple[bytes, int]:
    """The newest whole state below the counter, and the number of pieces up to it."""
    found = b"", 0
    for kept in slots:
        mark, k, length, checksum = _SLOT.unpack(kept[:SLOT_HEAD].tobytes())
        data = kept[SLOT_HEAD : SLOT_HEAD + length].tobytes() if mark == _MARK else b""
        if data and found[1] <= k < counter and zlib.crc32(data) == checksum:
            found = data, k + 1
    return found


def hashes(parts: dict) -> dict[str, str]:
    """A hash of each thing that must be the same for a run to go on."""
    return {name: _hash(value) for name, value in parts.items()}


def _hash(value) -> str:
    found = hashlib.sha256()
    for item in value if isinstance(value, list) else [value]:
        found.update(item.encode() if isinstance(item, str) else np.asarray(item).tobytes())
    return found.hexdigest()[:16]


def check_same(path, before: dict[str, str], now: dict[str, str]) -> None:
    """Refuse to go on with another run."""
    differ = [name for name in now if now[name] != before.get(name)]
    if differ:
        raise RecordError(
            f"{os.fspath(path)!r} is of another run: {', '.join(differ)} "
            f"{'differs' if len(differ) == 1 else 'differ'}. Give the same problem, scheme, "
            "dt, t1 and record, or start anew in another file"
        )


def check_version(path, found: int, wanted: int) -> None:
    """Refuse to go on with a file of another version; its records can be read."""
    if found != wanted:
        raise RecordError(
            f"{os.fspath(path)!r} is of version {found}, and this carom goes on with files of "
            f"version {wanted}: start anew in another file"
        )


def lost_end(path: str) -> int | None:
    """The size of a file that is shorter than it says, made as long again by zeros; or None."""
    with open(path, "rb") as raw:
        head = raw.read(48)
        size = os.fstat(raw.fileno()).st_size  # after the head: a run may be writing
    if head[:9] != b"\x89HDF\r\n\x1a\n\0" or len(head) < 48:
        return None  # not a file of ours
    (end,) = struct.unpack_from("<Q", head, 40)
    if size >= end or end > _LOST * size + 2**30:
        return None
    os.truncate(path, end)
    return size
