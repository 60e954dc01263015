"""Compiled code on disk: of these sources, whole, and with threads where it needs them."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from carom.kernels.numba import disk

CALLER = """
from carom.kernels.numba.disk import kernel
from room.callee import called, summed

@kernel()
def calling(x):
    return called(x) + 1.0

@kernel()
def summing(x):
    return summed(x) + 1.0
"""
CALLEE = """
import numpy as np
from numba import prange
from carom.kernels.numba.disk import kernel

@kernel()
def called(x):
    return {} * x

@kernel(parallel=True)
def summed(x):
    parts = np.zeros(4)
    for k in prange(4):
        parts[k] = x[k]
    return parts.sum()
"""


@pytest.fixture
def room(tmp_path):
    """A folder of kernels; it says what code in a process of its own prints."""
    folder = tmp_path / "room"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "caller.py").write_text(CALLER)
    (folder / "callee.py").write_text(CALLEE.format(2.0))

    def said(code, bare=False):
        path = os.pathsep.join([str(tmp_path), *sys.path])
        code = code if bare else f"import numpy as np\nfrom room import caller, callee\n{code}"
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            env=os.environ | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    said.folder = folder
    return said


CALLED = "print(caller.calling(3.0), *caller.calling.stats.cache_hits.values())"


@pytest.mark.slow
def test_what_it_calls_was_changed(room):
    assert room(CALLED) == ["7.0"]
    assert room(CALLED) == ["7.0", "1"]  # from the disk
    (room.folder / "callee.py").write_text(CALLEE.format(5.0))
    assert room(CALLED) == ["16.0"]
    assert room(CALLED) == ["16.0", "1"]
    files = sorted(p.name for p in (room.folder / "__pycache__").glob("*.nb?"))
    (room.folder / "callee.py").write_text("\n\n" + CALLEE.format(6.0))
    assert room(CALLED) == ["19.0"]
    assert sorted(p.name for p in (room.folder / "__pycache__").glob("*.nb?")) == files


@pytest.mark.slow
def test_edited_while_a_process_compiles(room):
    """Code of sources that are no more is not kept under the stamp of those that are."""
    edit = f"open({str(room.folder / 'callee.py')!r}, 'a').write('# another')"
    assert room(f"{edit}\n{CALLED}") == ["7.0"]
    assert room(CALLED) == ["7.0"]  # not from the disk
    assert room(CALLED) == ["7.0", "1"]


@pytest.mark.slow
def test_threads_are_there(room):
    """What it calls came from the disk as it was compiled: it needs threads all the same."""
    room("callee.summed(np.ones(4))")
    for _ in range(2):
        assert room("print(caller.summing(np.ones(4)))") == ["5.0"]


@pytest.mark.slow
def test_a_folder_that_is_read_only(room, monkeypatch):
    """No place next to the sources, then none at all: compiled each time, never refused."""
    monkeypatch.setenv("HOME", str(room.folder.parent))
    monkeypatch.setenv("XDG_CACHE_HOME", str(room.folder.parent / "other"))
    (room.folder / "__pycache__").write_text("in the way")
    assert room(CALLED) == ["7.0"]
    assert room(CALLED) == ["7.0", "1"]
    (room.folder.parent / "none").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(room.folder.parent / "none"))
    assert room(CALLED) == ["7.0"]
    assert room(CALLED) == ["7.0"]


@pytest.mark.slow
def test_another_numba(room):
    """Its classes are not public: where they are not there, kernels are compiled each time."""
    code = f"""
import sys, types
import numba
name = "numba.core.caching"
theirs, sys.modules[name] = sys.modules[name], types.ModuleType(name)
import carom.kernels.numba.disk
sys.modules[name] = theirs
import numpy as np
from room import caller, callee
{CALLED}
from carom.kernels.numba.compiled import kept
print(kept())
"""
    assert room(CALLED) == ["7.0"]  # there is something on the disk
    assert room(code, bare=True) == ["7.0", "False"]


def one_function():
    """To be kept."""


@pytest.mark.slow
def test_many_at_once(tmp_path):
    """Whoever writes at the same time, under each key is what was written under it."""
    count = 60

    def write(k):
        disk._Files(str(tmp_path), one_function).save(("types", k), k)

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(write, range(count)))
    files = disk._Files(str(tmp_path), one_function)
    assert [files.load(("types", k)) for k in range(count)] == list(range(count))
