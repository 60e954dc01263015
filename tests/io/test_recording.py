"""Recordings of spheres: what is in the file, whatever happens to the run that writes it."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

import carom
import sphere_run
from carom import errors
from carom.io.growing import Column, GrowingFile, Tree, create
from carom.schemes.named import scheme_of_text
from carom.spheres import Box, lattice
from stopping import Stopped, stopping_after

FIELDS = ("t", "x", "v", "moved", "radius", "impulse", "wall_impulse", "work", "push", "overlap")
STEPS = 24


def small(**changes):
    given = {
        "velocity": (0.3, 0.1, -1.0),
        "walls": [Box((0, 0, 0), (0.33, 0.33, np.inf))],
        "gravity": (0.0, 0.0, -9.81),
        "restitution": 0.3,
    }
    return lattice((3, 3, 3), 0.05, spacing=0.11, jitter=0.004, **(given | changes))


def moved(record, pile=None, scheme=None, steps=STEPS, **options):
    scheme = carom.Maury() if scheme is None else scheme
    pile = small() if pile is None else pile
    return carom.solve(pile, scheme, t1=steps * 4e-3, dt=4e-3, record=record, **options)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The same run in memory and in a file."""
    path = tmp_path_factory.mktemp("whole") / "pile.vtkhdf"
    return moved(carom.Record(every=5)), moved(carom.Record(path, every=5)), path


def assert_same(a, b):
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    for one, other in zip(a.contacts, b.contacts, strict=True):
        for name, value in vars(one).items():
            np.testing.assert_array_equal(value, getattr(other, name), err_msg=name)


# ---- what is in the file ------------------------------------------------------------------------


def test_the_file_holds_what_memory_would(whole):
    in_memory, in_file, path = whole
    assert sum(map(len, in_memory.contacts)) > 50
    assert_same(in_memory, in_file)
    assert in_memory.stats == in_file.stats
    loaded = carom.load(path)
    assert_same(in_memory, loaded)
    assert loaded.ok
    assert str(loaded) == str(in_memory)
    for clause, again in zip(
        carom.certify(in_memory).clauses, carom.certify(loaded).clauses, strict=True
    ):
        assert clause.ok == again.ok
        np.testing.assert_equal(clause.value, again.value)


def test_paraviews_reader_finds_positions_and_times(whole):
    vtk = pytest.importorskip("vtk", reason="needs vtk (pip install vtk)")
    from vtk.util.numpy_support import vtk_to_numpy

    sol, _, path = whole
    reader = vtk.vtkHDFReader()
    reader.SetFileName(str(path))
    reader.UpdateInformation()
    times = reader.GetOutputInformation(0).Get(vtk.vtkStreamingDemandDrivenPipeline.TIME_STEPS())
    np.testing.assert_array_equal(times, sol.t)
    for k in range(len(sol)):
        reader.SetStep(k)
        reader.Update()
        found = reader.GetOutputDataObject(0)
        assert found.GetNumberOfVerts() == 27
        np.testing.assert_array_equal(vtk_to_numpy(found.GetPoints().GetData()), sol.x[k])
        data = found.GetPointData()
        np.testing.assert_array_equal(vtk_to_numpy(data.GetArray("Velocity")), sol.v[k])
        np.testing.assert_array_equal(vtk_to_numpy(data.GetArray("Radius")), sol.radius[k])
        force = vtk_to_numpy(data.GetArray("ContactForce"))
        table = sol.contacts[k]
        both = np.count_nonzero(table.pairs[:, 1] >= 0)
        walls = table.pairs[:, 1] < 0
        total = 2.0 * np.sum(table.force[~walls]) + np.sum(table.force[walls])
        assert both + np.count_nonzero(walls) == len(table)
        np.testing.assert_allclose(np.sum(force), total)


def test_disks_and_a_failed_run(tmp_path):
    path = tmp_path / "disks.vtkhdf"
    pile = lattice(
        (4, 4), 0.5, spacing=1.1, gravity=(0.0, -9.81), walls=[carom.Plane((0, 0), (0, 1))]
    )
    sol = carom.solve(pile, carom.Moreau(), t1=0.2, dt=0.01, record=carom.Record(path, every=7))
    again = carom.load(path)
    assert again.x.shape == (4, 16, 2)
    assert again.scheme == sol.scheme
    np.testing.assert_array_equal(again.steps, [0, 7, 14, 20])
    stuck = small(iterations=1, tolerance=1e-14)
    with pytest.raises(errors.ConvergenceError) as failed:
        moved(carom.Record(path, every=5, overwrite=True), stuck)
    left = carom.load(path)
    assert not left.ok
    assert "did not reach its tolerance" in str(left)
    assert_same(left, failed.value.solution)
    assert left.steps[-1] == left.stats.steps


def test_functions_are_not_in_a_file(tmp_path):
    path = tmp_path / "pile.vtkhdf"
    pile = small(walls=[carom.Plane(lambda t: (0, 0, -0.1 * t), (0, 0, 1))])
    sol = moved(carom.Record(path, every=4), pile, steps=4)
    with pytest.raises(errors.RecordError, match=r"walls\[0\].point.*pile="):
        carom.load(path)
    assert_same(carom.load(path, pile=pile), sol)


@pytest.mark.parametrize("scheme", ["Maury()", "Moreau(implicit=True)", "PaoliSchatzman()"])
def test_a_scheme_from_its_text(scheme):
    assert scheme in str(scheme_of_text(scheme)) or str(scheme_of_text(scheme)) == scheme
    with pytest.raises(errors.KindError, match="did you mean 'Moreau'"):
        scheme_of_text("Moraeu")


# ---- the file format ----------------------------------------------------------------------------


def test_many_chunks(tmp_path):
    """An index of three levels: every state on the way reads back what was written."""
    path, values = tmp_path / "grow.h5", np.random.default_rng(0).normal(size=(9000, 2))
    columns = [Column("a/x", np.dtype("f8"), (2,), 1, len(values))]
    assert len(Tree.begun(columns[0], 0).nodes) == 3

    def fixed(h5):
        h5["a"].attrs["count"] = np.int64(0)

    create(path, columns, fixed)
    file, done = GrowingFile(path, columns, ("a", "count")), 0
    for more in (1, 62, 1, 1, 63, 64, 129, 4000, 1000, 3679):
        file.write("a/x", done, values[done : done + more])
        done += more
        file.publish({"a/x": done}, done)
        with h5py.File(path, "r", locking=False) as h5:
            assert h5["a"].attrs["count"] == done
            np.testing.assert_array_equal(h5["a/x"][:], values[:done])
        if done in (127, 5321):  # go on from what is on disk
            file.close()
            file = GrowingFile(path, columns, ("a", "count"))
    file.close()
    assert done == len(values)
    with h5py.File(path, "r+") as h5:  # the library itself can go on too
        h5["a/x"].resize(9001, axis=0)
        h5["a/x"][9000] = 7.0
    with h5py.File(path, "r") as h5:
        np.testing.assert_array_equal(h5["a/x"][:9000], values)


def test_an_index_that_lost_its_end(tmp_path):
    """Nodes of the index lie among the chunks: what is before a cut is read, and gone on with."""
    path, values = tmp_path / "grow.h5", np.random.default_rng(1).normal(size=(5000, 2))
    columns = [Column("a/x", np.dtype("f8"), (2,), 1, len(values))]
    create(path, columns, lambda h5: h5["a"].attrs.create("count", np.int64(0)))
    whole = GrowingFile(path, columns, ("a", "count"))
    whole.write("a/x", 0, values)
    whole.publish({"a/x": len(values)}, 1)
    whole.close()
    data = path.read_bytes()
    for part in np.linspace(0.08, 0.99, 20):
        size = int(part * len(data))
        path.write_bytes(data[:size] + bytes(len(data) - size))
        file = GrowingFile(path, columns, ("a", "count"))
        left = file.rows_within("a/x", size)
        assert part - 0.05 < left / len(values) < 1.0
        with h5py.File(path, "r", locking=False) as h5:
            np.testing.assert_array_equal(h5["a/x"][:left], values[:left])
        file.write("a/x", left, values[left:])
        file.publish({"a/x": len(values)}, 2)
        file.close()
        with h5py.File(path, "r") as h5:
            np.testing.assert_array_equal(h5["a/x"][:], values)


def test_a_file_grows_with_what_is_recorded(tmp_path):
    """Two records of a million that are planned."""
    path = tmp_path / "pile.vtkhdf"

    def stop(run):
        if run.step == 2:
            raise Stopped

    with pytest.raises(Stopped):
        moved(carom.Record(path, every=1), steps=10**6, progress=stop)
    assert 1 <= len(carom.load(path)) <= 3
    assert os.path.getsize(path) < 1.5e6


# ---- whatever stops the run ---------------------------------------------------------------------


@pytest.mark.parametrize("stride", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_stopped_at_each_write(whole, tmp_path, monkeypatch, stride):
    """Cut off before and in the middle of every single write: opens, is right, and goes on."""
    path, reference = tmp_path / "pile.vtkhdf", sphere_run.contents(whole[2])
    left = stopping_after(monkeypatch, 10**9)
    moved(carom.Record(path, every=5))
    total = 10**9 - left[0]
    assert total > 100
    seen = set()
    for writes in range(0, total, stride):
        monkeypatch.undo()
        stopping_after(monkeypatch, writes)
        with pytest.raises(Stopped):
            moved(carom.Record(path, every=5, overwrite=True))
        monkeypatch.undo()
        part = sphere_run.contents(path)
        seen.add(len(part["t"]))
        assert sphere_run.beginning_of(part, reference)
        if writes % 4 == 0:
            moved(carom.Record(path, every=5, resume=True))
            assert sphere_run.same(sphere_run.contents(path), reference)
    assert seen >= {0, 1, 2, 3, 4, 5}


@pytest.mark.parametrize("scheme", [carom.Moreau(), carom.PaoliSchatzman()], ids=str)
def test_every_scheme_goes_on(scheme, tmp_path, monkeypatch):
    path = tmp_path / "pile.vtkhdf"
    straight = moved(carom.Record(every=5), scheme=scheme)
    stopping_after(monkeypatch, 120)
    with pytest.raises(Stopped):
        moved(carom.Record(path, every=5), scheme=scheme)
    monkeypatch.undo()
    assert 1 <= len(carom.load(path)) < len(straight)
    assert not carom.load(path).ok
    assert_same(moved(carom.Record(path, every=5, resume=True), scheme=scheme), straight)


def kills(folder, seed, count):
    done = subprocess.run(
        [sys.executable, sphere_run.__file__, str(folder), str(seed), str(count)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["records"]


def test_killed(tmp_path):
    """2,000 spheres, SIGKILL at random instants: the rest is the same to the last bit."""
    assert len(kills(tmp_path, 1, 2)) >= 1


@pytest.mark.slow
def test_killed_a_hundred_times(tmp_path):
    left, seed = [], 2
    while len(left) < 100:
        left += kills(tmp_path, seed, 110 - len(left))
        seed += 1
    print(f"{len(left)} kills left {sorted(left)} records")
    assert len(set(left)) > 8


def test_cut_off_anywhere(whole, tmp_path):
    """A file that lost its end opens up to the last whole record, and the run goes on."""
    path, reference = tmp_path / "pile.vtkhdf", sphere_run.contents(whole[2])
    size, seen = os.path.getsize(whole[2]), set()
    for part in (0.999, 0.9, 0.75, 0.6, 0.5, 0.4):
        shutil.copy(whole[2], path)
        os.truncate(path, int(part * size))
        try:
            left = carom.load(path)
        except errors.RecordError as problem:
            assert "no record" in str(problem) or "cannot be read" in str(problem)  # noqa: PT017
            continue
        seen.add(len(left))
        assert sphere_run.beginning_of(sphere_run.contents(path), reference)
        moved(carom.Record(path, every=5, resume=True))
        assert sphere_run.same(sphere_run.contents(path), reference)
    assert len(seen) > 1


def test_another_run_is_not_gone_on_with(whole):
    with pytest.raises(errors.RecordError, match="the restitution differs"):
        moved(carom.Record(whole[2], every=5, resume=True), small(restitution=0.4))
    with pytest.raises(errors.RecordError, match="what is recorded differs"):
        moved(carom.Record(whole[2], every=6, resume=True))
    with pytest.raises(errors.RecordError, match="no file"):
        moved(carom.Record(whole[2].with_name("other.vtkhdf"), resume=True))


def test_a_full_disk(whole, tmp_path):
    """A limit on the size of files stands for the disk: the system refuses the same write."""
    path, limits = tmp_path / "pile.vtkhdf", resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        room = int(0.7 * os.path.getsize(whole[2]))
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
        with pytest.raises(errors.RecordError, match=r"cannot write record.*records before are"):
            moved(carom.Record(path, every=5))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    left, reference = sphere_run.contents(path), sphere_run.contents(whole[2])
    assert 0 < len(left["t"]) < len(reference["t"])
    assert sphere_run.beginning_of(left, reference)
    moved(carom.Record(path, every=5, resume=True))
    assert sphere_run.same(sphere_run.contents(path), reference)


@pytest.fixture
def tiny_disk(tmp_path):
    """A file system of 512 kB, where one may be made (as root)."""
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", place], capture_output=True
    )
    if made.returncode:
        pytest.skip("needs the right to mount a tmpfs")
    yield place
    subprocess.run(["umount", place], check=True)


def test_a_full_tmpfs(tiny_disk, whole):
    path, reference = tiny_disk / "pile.vtkhdf", sphere_run.contents(whole[2])
    written = 512 * os.stat(whole[2]).st_blocks  # a part of its size is room that is not used
    (tiny_disk / "other").write_bytes(bytes(512 * 1024 - int(0.7 * written)))
    with pytest.raises(errors.RecordError, match=r"No space left.*intact; free some space"):
        moved(carom.Record(path, every=5))
    assert sphere_run.beginning_of(sphere_run.contents(path), reference)
    (tiny_disk / "other").unlink()
    moved(carom.Record(path, every=5, resume=True))
    assert sphere_run.same(sphere_run.contents(path), reference)


def test_a_disk_that_cannot_be_written(tiny_disk, whole):
    path = tiny_disk / "pile.vtkhdf"
    moved(carom.Record(path, every=5), steps=5)
    before = path.read_bytes()
    subprocess.run(["mount", "-o", "remount,ro", tiny_disk], check=True)
    for resume in (False, True):
        with pytest.raises(errors.RecordError, match=r"cannot .*pile.vtkhdf.*[Rr]ead-only"):
            moved(carom.Record(path, every=5, resume=resume), steps=5)
    assert path.read_bytes() == before
    assert len(carom.load(path)) == 2


def test_one_writer_and_any_readers(whole, tmp_path):
    """A file can be read while it is written, but not written twice."""
    path, seen = tmp_path / "pile.vtkhdf", []

    def look(run):
        if run.step in (7, 12):
            seen.append(len(carom.load(path)))
            for how in ("overwrite", "resume"):
                with pytest.raises(errors.RecordError, match="another run is writing it"):
                    moved(carom.Record(path, every=5, **{how: True}))

    moved(carom.Record(path, every=5), progress=look)
    assert seen == [2, 3]
    assert sphere_run.same(sphere_run.contents(path), sphere_run.contents(whole[2]))


def test_nowhere_to_write(tmp_path):
    with pytest.raises(errors.RecordError, match="does not exist or is read-only"):
        moved(carom.Record(tmp_path / "none" / "pile.vtkhdf"))
    (tmp_path / "pile.vtkhdf").mkdir()
    with pytest.raises(errors.RecordError, match=r"Is a directory.*another path"):
        moved(carom.Record(tmp_path / "pile.vtkhdf", overwrite=True))
    assert [p.name for p in tmp_path.iterdir()] == ["pile.vtkhdf"]
    for name in ("text.vtkhdf", "other.vtkhdf"):
        Path(tmp_path / name).write_bytes(b"not HDF5")
        with pytest.raises(errors.RecordError, match="cannot be read as HDF5"):
            carom.load(tmp_path / name)
