"""No file is lost: what is there is written over only where it is asked for."""

import subprocess
import sys

import h5py
import numpy as np
import pytest

import carom
from carom import errors

BALL = 'model = "bouncing_ball"\ndt = 0.01\nt1 = 0.2\nout = "run.nc"\n'
PILE = (
    'spheres = "column"\ndt = 0.01\nt1 = 0.05\nout = "run.vtkhdf"\n'
    "[parameters]\nN = 2\ndimension = 2\n"
)


def ball(record):
    system = carom.System(force=lambda t, q, v: -9.81 + 0.0 * q, gap=lambda t, q: q)
    return carom.solve(system, carom.Moreau(), [1.0], [0.0], t1=0.2, dt=0.01, record=record)


def pile(record):
    spheres = carom.spheres.column(2, dimension=2)
    return carom.solve(spheres, carom.Maury(), t1=0.05, dt=0.01, record=record)


@pytest.mark.parametrize("run", [ball, pile])
@pytest.mark.parametrize("kind", ["finished", "text", "empty", "link"])
def test_a_file_is_not_written_over(run, kind, tmp_path):
    path = tmp_path / ("run.nc" if run is ball else "run.vtkhdf")
    if kind == "finished":
        run(carom.Record(path))
    elif kind == "link":
        path.symlink_to(tmp_path / "elsewhere")
    else:
        path.write_text("dear to me" if kind == "text" else "")
    before = b"" if kind == "link" else path.read_bytes()
    with pytest.raises(errors.RecordError, match=r"is there already.*--resume.*--force"):
        run(carom.Record(path))
    assert kind == "link" or path.read_bytes() == before
    assert run(carom.Record(path, overwrite=True)).ok
    assert carom.load(path).ok
    with pytest.raises(errors.RecordError, match="not both"):
        carom.Record(path, overwrite=True, resume=True)


@pytest.mark.parametrize(("text", "out"), [(BALL, "run.nc"), (PILE, "run.vtkhdf")])
def test_the_command_asks_for_force(carom_does, tmp_path, text, out):
    (tmp_path / "run.toml").write_text(text)
    assert carom_does("run", "run.toml")[0] == 0
    before = (tmp_path / out).read_bytes()
    code, _, said = carom_does("run", "run.toml", "--dt", "0.005")
    assert code == 4
    assert "--resume" in said
    assert "--force" in said
    assert (tmp_path / out).read_bytes() == before
    assert carom_does("run", "run.toml", "--dt", "0.005", "--force")[0] == 0
    assert carom.load(tmp_path / out).dt == pytest.approx(0.005)
    assert carom_does("run", "--resume", out, "--force")[0] == 2


def swept(path):
    def made(w):
        return carom.System(force=lambda t, q, v: -w * q, gap=lambda t, q: q + 1.0)

    return carom.study.sweep(
        made, {"w": np.arange(1.0, 3.0)}, scheme=carom.Moreau(), q0=[0.0], v0=[1.0],
        steps=2, dt=0.05, path=path,
    )  # fmt: skip


def test_a_sweep_does_not_write_over_a_file(tmp_path):
    path = tmp_path / "sweep.zarr"
    path.write_text("dear to me")
    with pytest.raises(errors.CaromError, match="is there already"):
        swept(path)
    assert path.read_text() == "dear to me"


def test_a_sweep_on_disk_without_zarr(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(errors.StudyError, match=r"pip install 'carom\[sweep\]', or leave path out"):
        swept(tmp_path / "sweep.zarr")
    assert not (tmp_path / "sweep.zarr").exists()
    (tmp_path / "sweep.zarr").mkdir()
    with pytest.raises(errors.StudyError, match=r"pip install 'carom\[sweep\]'"):
        carom.study.open_sweep(tmp_path / "sweep.zarr")
    with pytest.raises(errors.StudyError, match=r"there is no sweep .*none.zarr"):
        carom.study.open_sweep(tmp_path / "none.zarr")


FOREIGN = {  # what is in it, and what is said of it
    "none.nc": (None, "there is no file '.*none.nc'"),
    "none.vtkhdf": (None, "there is no file '.*none.vtkhdf'"),
    "empty.nc": (b"", "is empty, and not a result"),
    "text.nc": (b"dear to me", "is not HDF5, and not a result"),
    "text.vtkhdf": (b"dear to me", "is not HDF5, and not a result"),
    "picture.png": (b"\x89PNG\r\n", "is a picture, and not a result"),
    "run.toml": (b'model = "ball"', "is a run file: carom run .*run.toml"),
    "mine.py": (b"problem = 0", "is Python: .*carom run .*mine.py"),
    "sweep.zarr": (..., "is a sweep: carom.study.open_sweep"),
    "folder": (..., "is a folder"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_what_is_no_result_is_said(name, tmp_path):
    content, said = FOREIGN[name]
    path = tmp_path / name
    if content is ...:
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    with pytest.raises(errors.RecordError, match=said):
        carom.load(path)


@pytest.mark.parametrize("ending", ["nc", "vtkhdf"])
def test_hdf5_of_others_is_said(ending, tmp_path):
    path = tmp_path / f"other.{ending}"
    with h5py.File(path, "w") as file:
        file["temperature"] = np.zeros(3)
    with pytest.raises(errors.RecordError, match=r"other.* is not a .* carom.*temperature"):
        carom.load(path)


def test_recording_without_fcntl(tmp_path):
    """As on Windows: no fcntl, no pread, no pwrite."""
    text = (
        "import os, sys\n"
        "sys.modules['fcntl'] = None\n"
        "import carom.io.vtkhdf\n"
        "del os.pread, os.pwrite\n"
        "pile = carom.spheres.column(2, dimension=2)\n"
        f"record = carom.Record({str(tmp_path / 'run.vtkhdf')!r}, every=1)\n"
        "sol = carom.solve(pile, carom.Maury(), t1=0.05, dt=0.01, record=record)\n"
        "assert sol.ok and len(sol) == 6 and sol.x.shape == (6, 2, 2)\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
