"""HDF5 files that grow row by row and are valid at every instant, whatever stops the writer.

The HDF5 library rewrites its own bookkeeping in place, in many writes: a process that is killed
among them leaves a file that may not open.  Here the library writes the bookkeeping once, into
memory, for a file of the old format (1.6: no checksums), with an index of chunks (a B-tree) that
is as deep as all rows that will ever come need.  After that every change is one of

    new bytes beyond the end of the file that the superblock names: chunks, nodes of the index, (1)
    a number of 2 or 8 bytes: an address, entries in use, rows, end of file,                    (2)

written in this order, so that each state of the file is a valid one.  A kill cannot split a write
of 8 bytes.  Readers may open the file while it grows.

Layouts: HDF5 File Format Specification 3.0, sections II.A (superblock), III.A.1 (B-trees),
IV.A.1 (object headers), IV.A.2.b, i, q (dataspace, layout, continuation).
"""

import contextlib
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass

import h5py
import numpy as np
from h5py import h5g  # pyright: ignore[reportAttributeAccessIssue]

with contextlib.suppress(ImportError):  # Windows has none: nothing is locked there
    import fcntl

_NOWHERE = 2**64 - 1  # an address that is not set
_DATASPACE, _LAYOUT, _ATTRIBUTE, _CONTINUED = 0x01, 0x08, 0x0C, 0x10  # kinds of header messages
_END_OF_FILE = 40  # where a superblock of version 0 has the end of the file
_FAN = 64  # entries of a node of the index, in a superblock of version 0
_HEAD = 24  # bytes of a node before its first key


@dataclass(frozen=True)
class Column:
    """A dataset whose first axis grows."""

    name: str
    dtype: np.dtype
    inner: tuple[int, ...]  # shape of a row
    chunk: int  # rows of a chunk
    most: int  # rows that will ever come
    bounded: bool = False  # whether readers are told the most there can be, and NaN is what lacks

    @property
    def row_bytes(self) -> int:
        """Of one row."""
        return self.dtype.itemsize * int(np.prod(self.inner, dtype=int))

    @property
    def chunks(self) -> int:
        """That will ever come."""
        return max(1, -(-self.most // self.chunk))


def create(path, columns: list[Column], fixed: Callable[[h5py.File], None]) -> None:
    """Make a file with empty columns; ``fixed`` writes what does not grow.

    The file appears under its name when it is whole.
    """
    image = bytearray(_empty(columns, fixed))
    with h5py.File.in_memory(bytes(image)) as file:
        addresses = {c.name: _address_of_tree(_reading(image), file[c.name]) for c in columns}
    for column in columns:
        image.extend(bytes(-len(image) % 8))
        tree = Tree.begun(column, len(image))
        struct.pack_into("<Q", image, addresses[column.name], tree.root)
        image.extend(tree.first())
    struct.pack_into("<Q", image, _END_OF_FILE, len(image))
    part = f"{os.fspath(path)}.part"
    if os.path.exists(path):
        _check_free(path)
    try:
        with open(part, "wb") as file:
            file.write(image)
        os.replace(part, path)
    except OSError:
        if os.path.exists(part):
            os.unlink(part)
        raise


def _empty(columns, fixed) -> bytes:
    """The image of a file of the old format with columns of no rows."""
    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    access.set_libver_bounds(h5py.h5f.LIBVER_EARLIEST, h5py.h5f.LIBVER_LATEST)
    access.set_fapl_core(2**20, False)
    with h5py.File(h5py.h5f.create(b"growing", h5py.h5f.ACC_TRUNC, fapl=access)) as file:
        for c in columns:
            file.create_dataset(
                c.name,
                shape=(0, *c.inner),
                maxshape=(c.most if c.bounded else None, *c.inner),
                chunks=(c.chunk, *c.inner),
                dtype=c.dtype,
                fillvalue=np.nan if c.bounded and c.dtype.kind == "f" else None,
            )
        fixed(file)
        file.flush()
        return file.id.get_file_image()


class Tree:
    """The index of a column's chunks: nodes of 64 entries, in levels from the leaves to the root.

    There are as many levels as all chunks that will ever come need, from the start; a node is there
    when a chunk below it is.
    """

    def __init__(self, column: Column, nodes: list[list[int]]):
        """``nodes``: the addresses of those that are there, level by level."""
        self.column, self.nodes = column, nodes
        self.key = 8 + 8 * (2 + len(column.inner))  # bytes of a key
        self.node_bytes = _HEAD + _FAN * (self.key + 8) + self.key  # the last key ends the last

    @staticmethod
    def begun(column: Column, start: int) -> "Tree":
        """One node a level, from the address ``start`` on."""
        tree, levels = Tree(column, []), 1
        while _FAN**levels < column.chunks:
            levels += 1
        tree.nodes = [[start + level * tree.node_bytes] for level in range(levels)]
        return tree

    @staticmethod
    def found(column: Column, root: int, read) -> "Tree":
        """As it is on disk; what lies beyond the end of a file that was cut off is not there."""
        tree = Tree(column, [[root]])
        for level in reversed(range(read(root + 5, 1)[0])):
            nodes = tree._below(tree.nodes[0], read)
            lost = (k for k, at in enumerate(nodes) if not tree._is_whole(level, k, at, read))
            tree.nodes.insert(0, nodes[: next(lost, len(nodes))])
        return tree

    def _is_whole(self, level, k, at, read) -> bool:
        """By its last key."""
        end = at + self.node_bytes - self.key
        return read(end, self.key) == self._keys(level, k)[-1:].tobytes()[: self.key]

    @property
    def root(self) -> int:
        """Its address."""
        return self.nodes[-1][0]

    def first(self) -> bytes:
        """The first node of each level, above the leaf with the one below in use, empty or not."""
        parts = []
        for level in range(len(self.nodes)):
            part = bytearray(self._node(level, 0))
            if level:
                struct.pack_into("<H", part, 6, 1)
                struct.pack_into("<Q", part, _HEAD + self.key, self.nodes[level - 1][0])
            parts.append(bytes(part))
        return b"".join(parts)

    def room_for(self, chunk: int, end: int):
        """(position, bytes) that make the nodes that a chunk lacks, from the address ``end`` on."""
        for level in reversed(range(len(self.nodes) - 1)):
            k = chunk // _FAN ** (level + 1)
            if k == len(self.nodes[level]):
                yield end, self._node(level, k)
                yield self.child(level + 1, k), struct.pack("<Q", end)
                self.nodes[level].append(end)
                end += self.node_bytes

    def _keys(self, level: int, k: int) -> np.ndarray:
        """Of the k-th node of a level, with no children: where each begins, and where it ends."""
        kind = np.dtype([("bytes", "<u4"), ("mask", "<u4"), ("at", "<u8", (self.key // 8 - 1,))])
        entries = np.zeros(_FAN + 1, np.dtype([("key", kind), ("child", "<u8")]))
        entries["key"]["bytes"] = self.column.chunk * self.column.row_bytes
        place = (k * _FAN + np.arange(_FAN + 1)) * _FAN**level
        entries["key"]["at"][:, 0] = place * self.column.chunk
        entries["child"] = _NOWHERE
        return entries

    def _node(self, level: int, k: int) -> bytes:
        """The k-th of a level: nothing in use, the keys in their places."""
        left = self.nodes[level][k - 1] if k else _NOWHERE
        head = struct.pack("<4sBBHQQ", b"TREE", 1, level, 0, left, _NOWHERE)
        return head + self._keys(level, k).tobytes()[:-8]

    def child(self, level: int, k: int) -> int:
        """Where a node of a level, or of the leaves, has the address of the k-th below."""
        node, entry = divmod(k, _FAN)
        return self.nodes[level][node] + _HEAD + self.key + entry * (self.key + 8)

    def in_use(self, before: int, chunks: int):
        """(position, 2 bytes or 8) to write when not ``before`` but ``chunks`` are in use."""
        for count in range(before + 1, chunks + 1):
            if count % _FAN in (0, 1) or count == chunks:  # nodes that are full, begun, the last
                yield from self._last(count)

    def _last(self, count):
        """The numbers of the last node of each level, the leaves first."""
        for nodes in self.nodes:
            node, left = divmod(count - 1, _FAN)
            yield nodes[node] + 6, struct.pack("<H", left + 1)
            if left == 0 and node > 0:  # the node before gets its right neighbour
                yield nodes[node - 1] + 16, struct.pack("<Q", nodes[node])
            count = node + 1

    def known(self, read) -> list[int]:
        """The addresses of the chunks in use."""
        return self._below(self.nodes[0], read)

    def _below(self, nodes, read) -> list[int]:
        """The children in use of some nodes of a level."""
        found = []
        for at in nodes:
            node = read(at, self.node_bytes)
            (used,) = struct.unpack_from("<H", node, 6)
            for k in range(min(used, _FAN)):
                found += struct.unpack_from("<Q", node, _HEAD + self.key + k * (self.key + 8))
        return found


def datasets(group, name=""):
    """(name, dataset) of a group and those in it; no index is read, which ``visititems`` does."""
    for key, item in group.items():
        path = f"{name}{key}"
        if isinstance(item, h5py.Group):
            yield from datasets(item, f"{path}/")
        else:
            yield path, item


def _header(item) -> int:
    """The address of an object header, below 2^32; h5o.get_info reads the whole index for it."""
    return h5g.get_objinfo(item.id).objno[0]


def _address_of_tree(read, dataset) -> int:
    """Where the address of the index is."""
    return dict(_messages(read, _header(dataset)))[_LAYOUT] + 3


def _address_of_rows(read, dataset) -> int:
    """Where the number of rows is."""
    return dict(_messages(read, _header(dataset)))[_DATASPACE] + 8


def _messages(read, address):
    """(kind, position of its data) of each message of an object header."""
    _, _, _, _, size = struct.unpack("<BBHII", read(address, 12))
    blocks = [(address + 16, size)]
    while blocks:
        at, left = blocks.pop(0)
        while left >= 8:
            kind, size = struct.unpack("<HH", read(at, 4))
            if kind == _CONTINUED:
                blocks.append(struct.unpack("<QQ", read(at + 8, 16)))
            yield kind, at + 8
            at, left = at + 8 + size, left - 8 - size


def _reading(image):
    return lambda at, size: bytes(image[at : at + size])


def _lock(file: int) -> None:
    """Keep a second writer out (EAGAIN); readers are free.  The lock ends with the process."""
    kind = getattr(globals().get("fcntl"), "F_OFD_SETLK", None)  # Linux
    if kind is not None:
        fcntl.fcntl(file, kind, struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))


def _open(path) -> int:
    return os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))


def _read_at(file: int, size: int, at: int) -> bytes:
    if hasattr(os, "pread"):
        return os.pread(file, size, at)
    os.lseek(file, at, os.SEEK_SET)  # Windows
    return os.read(file, size)


def _write_at(file: int, data, at: int) -> int:
    if hasattr(os, "pwrite"):
        return os.pwrite(file, data, at)
    os.lseek(file, at, os.SEEK_SET)  # Windows
    return os.write(file, data)


def _check_free(path) -> None:
    """OSError if a file is being written, or cannot be."""
    file = _open(path)
    try:
        _lock(file)
    finally:
        os.close(file)


class GrowingFile:
    """A file made by ``create``, open for writing."""

    def __init__(self, path, columns: list[Column], counter: tuple[str, str]):
        """``counter``: group and name of an int64 attribute that tells readers how far to look."""
        self.path, self.columns = os.fspath(path), {c.name: c for c in columns}
        self._file = _open(path)
        try:
            _lock(self._file)
        except OSError:
            os.close(self._file)
            raise
        with h5py.File(path, "r", locking=False) as file:
            self._rows = {c.name: _address_of_rows(self._read, file[c.name]) for c in columns}
            self._trees = {c.name: self._tree(c, file[c.name]) for c in columns}
            # where datasets that do not grow have their bytes
            found = datasets(file)
            self.fixed = {name: a.id.get_offset() for name, a in found if a.chunks is None}
            self._counter = self._attribute(file[counter[0]], counter[1])
        (self.end,) = struct.unpack("<Q", self._read(_END_OF_FILE, 8))
        self._children = {name: tree.known(self._read) for name, tree in self._trees.items()}
        self._in_use = {name: len(found) for name, found in self._children.items()}
        self._published: dict[str, int] = {}

    def _tree(self, column, dataset):
        (root,) = struct.unpack("<Q", self._read(_address_of_tree(self._read, dataset), 8))
        return Tree.found(column, root, self._read)

    def _read(self, at, size):
        return _read_at(self._file, size, at)

    def _attribute(self, group, name):
        """Where the value of an attribute of 8 bytes is."""
        for kind, at in _messages(self._read, _header(group)):
            if kind == _ATTRIBUTE:
                _, _, named, kinds, space = struct.unpack("<BBHHH", self._read(at, 8))
                if self._read(at + 8, named).rstrip(b"\0").decode() == name:
                    return at + 8 + sum(-(-n // 8) * 8 for n in (named, kinds, space))
        raise KeyError(name)

    def write(self, name: str, row: int, values: np.ndarray) -> None:
        """Rows from ``row`` on; readers see them when they are published."""
        column = self.columns[name]
        values = np.ascontiguousarray(values, column.dtype)
        done = 0
        while done < len(values):
            chunk, inside = divmod(row + done, column.chunk)
            count = min(column.chunk - inside, len(values) - done)
            at = self._chunk(column, chunk) + inside * column.row_bytes
            self.put(at, values[done : done + count])
            done += count

    def write_part(self, name: str, row: int, data: bytes) -> None:
        """The beginning of one row."""
        chunk, inside = divmod(row, self.columns[name].chunk)
        column = self.columns[name]
        if len(data) > column.row_bytes:
            raise OSError(f"{len(data)} bytes in a row of {column.row_bytes} of {name}")
        self.put(self._chunk(column, chunk) + inside * column.row_bytes, data)

    def _chunk(self, column, k):
        """The address of chunk k, which is new if it is the next one."""
        children, tree = self._children[column.name], self._trees[column.name]
        if k == len(children):
            for at, data in tree.room_for(k, self.end):
                self.put(at, data)
                self.end = max(self.end, at + len(data))
            self.put(tree.child(0, k), struct.pack("<Q", self.end))
            children.append(self.end)
            self.end += -(-column.chunk * column.row_bytes // 8) * 8
        return children[k]

    def put(self, at: int, data) -> None:
        """Bytes at a place; OSError where they cannot be written."""
        view = memoryview(data).cast("B")
        while len(view):
            count = _write_at(self._file, view, at)
            view, at = view[count:], at + count

    def publish(self, rows: dict[str, int], count: int) -> None:
        """Let readers see so many rows of each column, then ``count`` in the counter."""
        if os.fstat(self._file).st_size < self.end:
            os.ftruncate(self._file, self.end)  # the last chunks are filled later
        self.put(_END_OF_FILE, struct.pack("<Q", self.end))
        for name, number in rows.items():
            before, chunks = self._in_use[name], len(self._children[name])
            for at, value in self._trees[name].in_use(before, chunks):
                self.put(at, value)
            self._in_use[name] = chunks
            if number != self._published.get(name):
                self.put(self._rows[name], struct.pack("<Q", number))
                self._published[name] = number
        self.put(self._counter, struct.pack("<q", count))

    def rows_within(self, name: str, size: int) -> int:
        """How many rows of a column lie whole in the first ``size`` bytes."""
        column = self.columns[name]
        (rows,) = struct.unpack("<Q", self._read(self._rows[name], 8))
        for k, at in enumerate(self._children[name]):
            if at + column.chunk * column.row_bytes > size:
                inside = max(0, size - at) // column.row_bytes
                return min(rows, k * column.chunk + inside)
        return min(rows, len(self._children[name]) * column.chunk)

    def close(self) -> None:
        """Release the file."""
        os.close(self._file)
