"""Recordings of a System: what is in the file, whatever happens to the run that writes it."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys

import h5py
import jax.numpy as jnp
import numpy as np
import pytest
import xarray

import carom
import system_run
from carom import errors
from carom.io import netcdf
from carom.status import Status
from stopping import Stopped, stopping_after

SOLVE = system_run.SOLVE
STEPS = 512
EVERY = {"every": 5, "impacts": True}


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Of 64 steps, however long they take, so that a short run has many; chunks of few rows."""
    set_small_pieces(monkeypatch)


def set_small_pieces(patch):
    patch.setattr(SOLVE, "_PIECE_STEPS", 64)
    patch.setattr(SOLVE, "_PIECE_SECONDS", np.inf)
    patch.setattr(netcdf, "_CHUNK_BYTES", 256)
    patch.setattr(netcdf, "_IMPACT_BYTES", 64)


def run(path=None, record=None, *, resume=False, fresh=False, scheme="Moreau", **options):
    return system_run.run(
        path,
        scheme,
        steps=STEPS,
        resume=resume,
        fresh=fresh,
        record=EVERY if record is None else record,
        seconds=np.inf,
        **options,
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "run.nc"
    with pytest.MonkeyPatch.context() as patch:
        set_small_pieces(patch)
        return run(), run(path), path


FIELDS = ("t", "q", "v", "gap", "impulse", "velocity_before", "velocity_after", "events")


def assert_same(a, b):
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    assert a._has_impacts() == b._has_impacts()
    if a._has_impacts():
        np.testing.assert_array_equal(a.impacts, b.impacts)
    assert a.stats == b.stats
    assert str(a) == str(b) or b.system is None


# ---- what is in the file ------------------------------------------------------------------------

RECORDS = {
    "every step": {"every": 1},
    "some steps": {"every": 7},
    "times": {"times": np.linspace(0.3, 40.0, 41)},
    "impacts": {"impacts": True},
    "the last": {"final": True},
}


@pytest.mark.parametrize("kind", RECORDS)
def test_the_file_holds_what_memory_would(kind, tmp_path):
    path = tmp_path / "run.nc"
    in_memory, in_file = run(record=RECORDS[kind]), run(path, RECORDS[kind])
    assert_same(in_memory, in_file)
    assert_same(in_memory, carom.load(path))
    assert in_file.ok
    assert in_file.finished
    assert isinstance(in_memory, carom.Solution)


def test_xarray_opens_it(whole):
    sol, _, path = whole
    with xarray.open_dataset(path, engine="h5netcdf") as data:
        assert data.q.dims == ("time", "coordinate")
        assert data.gap.dims == ("time", "constraint")
        np.testing.assert_array_equal(data.time, sol.t)
        np.testing.assert_array_equal(data.q, sol.q)
        np.testing.assert_array_equal(data.impulse, sol.impulse)
        np.testing.assert_array_equal(data.impact_time, sol.impacts.time)
        assert int(data.stats_steps) == STEPS
        assert data.status.attrs["flag_meanings"].split()[int(data.status)] == "ok"
        assert data.attrs["scheme"] == "Moreau()"
    with xarray.open_datatree(path, engine="h5netcdf") as tree:
        assert set(tree.children) == {"carom"}


def test_a_system_without_gaps(tmp_path):
    free = carom.System(force=lambda t, q, v: -q)
    options = {"q0": [1.0, 0.5], "v0": [0.0, 0.0], "t1": 1.0, "dt": 0.1}
    given = carom.solve(free, carom.Maury(), **options)
    path = tmp_path / "free.nc"
    assert_same(given, carom.solve(free, carom.Maury(), **options, record=carom.Record(path)))
    loaded = carom.load(path)
    assert loaded.gap.shape == loaded.velocity_before.shape == (11, 0)


def test_large_arrays_are_read_when_they_are_used(whole, tmp_path, monkeypatch):
    path = tmp_path / "run.nc"
    shutil.copy(whole[2], path)
    monkeypatch.setattr(netcdf, "_SMALL", 0)
    sol = carom.load(path)
    assert "q" not in vars(sol)
    np.testing.assert_array_equal(sol.q, whole[0].q)
    assert "q" in vars(sol)
    run(path, fresh=True)
    with pytest.raises(errors.RecordError, match="written anew since"):
        _ = sol.v
    with pytest.raises(AttributeError, match="no 'x': use sol"):
        _ = sol.x


# ---- whatever stops the run ---------------------------------------------------------------------


def seen_by_xarray(path, reference):
    """The number of records, which are right; NaN where a run was stopped while it counted them."""
    with xarray.open_dataset(path, engine="h5netcdf") as data:
        found = {name: data[name].values for name in ("q", "v", "gap", "impulse")}
        there = data.sizes["time"]
    for name, values in found.items():
        assert len(values) == there
        kept = values[~np.isnan(values[:, 0])]
        np.testing.assert_array_equal(kept, reference[name][: len(kept)])
        assert there - len(kept) <= 64 // 5 + 2  # a piece; the last has the end of the run too
    return there


@pytest.mark.parametrize("stride", [17, pytest.param(1, marks=pytest.mark.slow)])
def test_stopped_at_each_write(whole, tmp_path, stride):
    """Cut off before and in the middle of every single write: opens, is right, and goes on."""
    path, reference, seen = tmp_path / "run.nc", system_run.contents(whole[2]), set()
    with pytest.MonkeyPatch.context() as patch:
        left = stopping_after(patch, 10**9)
        run(path)
    total = 10**9 - left[0]
    assert total > 300
    for writes in range(0, total, stride):
        with pytest.MonkeyPatch.context() as patch:
            stopping_after(patch, writes)
            with pytest.raises(Stopped):
                run(path, fresh=True)
        assert system_run.beginning_of(system_run.contents(path), reference)
        seen.add(seen_by_xarray(path, reference))
        if writes % 3 == 0 and writes > 100:
            assert system_run.beginning_of({"q": carom.load(path).q}, reference)
        if writes % 2 == 0:
            assert_same(run(path, resume=True), whole[1])
            assert system_run.same(system_run.contents(path), reference)
    assert len(seen) > 6


def test_what_is_left_of_a_run_that_was_stopped(whole, tmp_path, monkeypatch):
    path, reached = tmp_path / "run.nc", []

    def interrupted(now):
        reached.append(now.step)
        if now.step >= 300:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(path, progress=interrupted)
    left, sol = carom.load(path), whole[0]
    assert not left.ok
    assert not left.finished
    assert bool(left.status == Status.unfinished)
    assert "unfinished" in str(left)
    assert int(left.stats.steps) == reached[-1]
    assert left.t[-1] == sol.t[reached[-1] // 5]
    before = sol.impacts[sol.impacts.step <= reached[-1]]
    np.testing.assert_array_equal(left.impacts[:-1], before[:-1])  # the last may be in its midst
    assert len(left.impacts) == len(before)
    assert carom.certify(left, system_run.oscillator()).ok is not False
    assert_same(run(path, resume=True), sol)
    assert_same(run(path, resume=True), sol)  # nothing is left to do


def test_a_failed_run_stays_as_it_is(tmp_path):
    ball = carom.System(
        force=lambda t, q, v: jnp.where(t > 0.8, jnp.nan, -9.81) * jnp.ones_like(q),
        gap=lambda t, q: q,
        restitution=0.5,
    )
    path = tmp_path / "run.nc"
    options = {"q0": [1.0], "v0": [-2.0], "t1": 1.0, "dt": 0.01, "throw": False}
    record = [carom.Record(path, every=7, resume=resume) for resume in (False, True)]
    first = carom.solve(ball, carom.Moreau(), **options, record=record[0])
    memory = carom.solve(ball, carom.Moreau(), **options, record=carom.Record(every=7))
    assert not memory.ok
    assert memory.t[-1] == pytest.approx(0.8)
    assert_same(first, memory)
    assert_same(carom.solve(ball, carom.Moreau(), **options, record=record[1]), memory)


def test_cut_off_anywhere(whole, tmp_path):
    """A file that lost its end opens up to the last whole record, and the run goes on."""
    path, reference = tmp_path / "run.nc", system_run.contents(whole[2])
    with h5py.File(whole[2]) as h5:
        first = h5["time"].id.get_chunk_info(0).byte_offset  # before it lies what does not grow
    size, seen = os.path.getsize(whole[2]), set()
    for part in (0.999, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5, -0.1, -0.9):
        shutil.copy(whole[2], path)
        os.truncate(path, int(first + part * (size - first if part > 0 else first)))
        try:
            left = carom.load(path)
        except (errors.RecordError, OSError):
            assert part < 0.0
            continue
        assert left.t.tobytes() == reference["time"][: len(left)].tobytes()
        assert np.array_equal(left.q, whole[0].q[: len(left)])
        last = left.t[-1]
        early = whole[0].impacts[whole[0].impacts.time <= last]
        assert set(early.time) <= set(left.impacts.time)
        seen.add(len(left))
        assert_same(run(path, resume=True), whole[0])
        assert system_run.same(system_run.contents(path), reference)
    assert len(seen) > 2


def test_another_run_is_not_gone_on_with(whole, tmp_path):
    with pytest.raises(errors.RecordError, match="what is recorded differs"):
        run(whole[2], {"every": 6, "impacts": True}, resume=True)
    with pytest.raises(errors.RecordError, match="the scheme differs"):
        run(whole[2], scheme="Maury", resume=True)
    with pytest.raises(errors.RecordError, match="no file"):
        run(tmp_path / "other.nc", resume=True)
    whole[0].save(tmp_path / "saved.nc")
    with pytest.raises(errors.RecordError, match="not written as a run went"):
        run(tmp_path / "saved.nc", resume=True)
    heavy = carom.System(
        force=lambda t, q, v: -2.0 * q, gap=system_run.oscillator().gap, mass=[2.0], restitution=0.7
    )
    with pytest.raises(errors.RecordError, match="the force at t0, the mass differ"):
        carom.solve(
            heavy,
            carom.Moreau(),
            [0.1],
            [0.5],
            t1=40.0,
            dt=40.0 / STEPS,
            record=carom.Record(whole[2], **EVERY, resume=True),
        )


def test_a_full_disk(whole, tmp_path):
    """A limit on the size of files stands for the disk: the system refuses the same write."""
    path, limits = tmp_path / "run.nc", resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        room = int(0.93 * os.path.getsize(whole[2]))
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
        with pytest.raises(errors.RecordError, match=r"cannot write record.*records before are"):
            run(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    left, reference = system_run.contents(path), system_run.contents(whole[2])
    assert 0 < len(left["time"]) < len(reference["time"])
    assert system_run.beginning_of(left, reference)
    assert_same(run(path, resume=True), whole[0])


def test_a_full_tmpfs_and_one_that_cannot_be_written(whole, tmp_path):
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", place], capture_output=True
    )
    if made.returncode:
        pytest.skip("needs the right to mount a tmpfs")
    try:
        room = -(-int(0.93 * os.path.getsize(whole[2])) // 4096) * 4096
        (place / "other").write_bytes(bytes(512 * 1024 - room))
        with pytest.raises(errors.RecordError, match=r"No space left.*intact; free some space"):
            run(place / "run.nc")
        assert system_run.beginning_of(
            system_run.contents(place / "run.nc"), system_run.contents(whole[2])
        )
        (place / "other").unlink()
        assert_same(run(place / "run.nc", resume=True), whole[0])
        subprocess.run(["mount", "-o", "remount,ro", place], check=True)
        for resume in (False, True):
            with pytest.raises(errors.RecordError, match=r"cannot .*run.nc.*[Rr]ead-only"):
                run(place / "run.nc", resume=resume)
        assert carom.load(place / "run.nc").ok
    finally:
        subprocess.run(["umount", place], check=True)


def test_one_writer_and_any_readers(whole, tmp_path):
    path, seen = tmp_path / "run.nc", []

    def look(now):
        if 100 < now.step < 240:
            seen.append(len(carom.load(path)))
            for how in ("fresh", "resume"):
                with pytest.raises(errors.RecordError, match="another run is writing it"):
                    run(path, **{how: True})

    run(path, progress=look)
    assert len(seen) >= 2
    assert seen == sorted(set(seen))
    assert system_run.same(system_run.contents(path), system_run.contents(whole[2]))


# ---- SIGKILL ------------------------------------------------------------------------------------


def kills(folder, scheme, seed, count):
    done = subprocess.run(
        [sys.executable, system_run.__file__, str(folder), scheme, str(seed), str(count)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["records"]


def test_killed(tmp_path):
    """SIGKILL at random instants: the rest is the same to the last bit, in another process."""
    assert len(kills(tmp_path, "Moreau", 1, 2)) >= 1


@pytest.mark.slow
@pytest.mark.parametrize("scheme", system_run.SCHEMES)
def test_killed_many_times(scheme, tmp_path):
    left = kills(tmp_path, scheme, 2, 15)
    print(f"{scheme}: {len(left)} kills left {sorted(left)} records")
    assert len(set(left)) > 5


# ---- memory -------------------------------------------------------------------------------------

LONG_RUN = """
import sys
import carom, system_run

def memory(name):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith(name))

def run(steps):
    return carom.solve(
        system_run.oscillator(), carom.Moreau(), [0.1], [0.5], t1=40.0, dt=40.0 / steps,
        record=carom.Record(sys.argv[1], overwrite=True),
    )

def peak(steps):
    with open("/proc/self/clear_refs", "w") as peak:
        peak.write("5")  # the peak is the present use again
    sol = run(steps)
    return memory("VmHWM"), sol

peak(500_000)  # compiled
short, _ = peak(500_000)
long, sol = peak(2_000_000)
assert len(sol) == 2_000_001
held = sol.q, sol.v, sol.gap, sol.impulse
assert memory("VmHWM") > long + 50.0  # the measure sees what there is to see
print(long - short)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="peak memory of Linux")
def test_memory_does_not_grow_with_the_records(tmp_path):
    """Two million records, 170 MB."""
    path = tmp_path / "long.nc"
    done = subprocess.run(
        [sys.executable, "-c", LONG_RUN, path],
        capture_output=True,
        text=True,
        cwd=os.path.dirname(system_run.__file__),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    print(
        f"memory grew by {done.stdout.strip()} MiB, the file by {path.stat().st_size / 2**20:.0f}"
    )
    assert path.stat().st_size > 1.6e8
    assert float(done.stdout) < 10.0
    with h5py.File(path) as h5:
        assert h5["q"].shape == (2_000_001, 1)
