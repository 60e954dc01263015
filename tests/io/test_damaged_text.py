"""Text in result files: no damaged heap of strings keeps the HDF5 library busy for ever."""

import json
import struct
import subprocess
import sys

import h5py
import numpy as np
import pytest

import carom
import fuzz_inputs

CODE = """
import sys, carom
try:
    carom.load(sys.argv[1])
except carom.CaromError as problem:
    print(problem)
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return fuzz_inputs.originals(tmp_path_factory.mktemp("files"))


def strings(path):
    """(where, name, length) of each attribute of text; None: of variable length."""
    found = []

    def look(name, item):
        for key in item.attrs:
            kind = h5py.check_string_dtype(item.attrs.get_id(key).dtype)
            if kind is not None:
                found.append((name, key, kind.length))

    with h5py.File(path) as h5:
        look("/", h5)
        h5.visititems(look)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", ["whole.nc", "saved.nc", "whole.vtkhdf", "saved.vtkhdf"])
def test_text_has_its_length(name, files, tmp_path):
    path = tmp_path / name
    path.write_bytes(files[name])
    found = strings(path)
    assert found
    assert all(length is not None for _, _, length in found), found
    assert b"GCOL" not in files[name] or name.endswith(".nc")  # there, DIMENSION_LIST


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nc", "vtkhdf"])
def test_older_files_are_read(name, files, tmp_path):
    new, old = tmp_path / f"new.{name}", tmp_path / f"old.{name}"
    new.write_bytes(files[f"whole.{name}"])
    old.write_bytes(files[f"older.{name}"])
    assert any(length is None for _, _, length in strings(old))
    a, b = carom.load(new), carom.load(old)
    assert str(a) == str(b)
    assert str(a.scheme) == str(b.scheme) == "Maury()"
    np.testing.assert_array_equal(a.v, b.v)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["older.nc", "older.vtkhdf"])
def test_a_heap_that_leads_nowhere(name, files, tmp_path):
    """What is free in it has no size: the library reads the same object again, without an end."""
    data, path = bytearray(files[name]), tmp_path / name
    heap = data.find(b"GCOL")
    assert heap > 0
    while heap >= 0:
        data[heap + 16 : heap + 32] = struct.pack("<HHIQ", 0, 0, 0, 0)
        heap = data.find(b"GCOL", heap + 1)
    path.write_bytes(data)
    done = subprocess.run(
        [sys.executable, "-c", CODE, path], capture_output=True, text=True, timeout=60, check=True
    )
    assert "heap of text" in done.stdout, done.stdout
    assert path.read_bytes() == bytes(data)


@pytest.mark.slow
def test_tables_longer_than_an_attribute(tmp_path):
    """Text of more than 64 KiB: materials by name, and what each keeps of a blow on each."""
    names = [f"stone {k} " + "x" * 50 for k in range(60)]
    table = {(a, b): 0.5 for i, a in enumerate(names) for b in names[i:]}
    assert len(json.dumps(list(table))) > 2**16
    pile = carom.Spheres(
        [[2.0 * k, 0.0] for k in range(60)],
        0.5,
        material=names,
        restitution=table,
    )
    path = tmp_path / "many.vtkhdf"
    carom.solve(pile, carom.Moreau(), t1=0.02, dt=0.01, record=carom.Record(path))
    found = carom.load(path, pile=None)
    assert isinstance(found, carom.spheres.SpheresSolution)
    assert list(found.pile.material) == names
    assert found.pile.restitution == pile.restitution
