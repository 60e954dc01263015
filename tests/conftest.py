"""Compiled programs are kept between tests, workers and runs: compiling is most of the time."""

import contextlib
import ctypes
import functools
import gc
import os
import re
import sys
from pathlib import Path

import pytest

_KEPT = Path(__file__).parents[1] / ".pytest_cache" / "jax"

# Before JAX is imported; another choice of the user's is left alone.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(_KEPT))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

_HERE = Path(__file__).parent
_MUCH, _MORE = 2e9, 1e9  # bytes of a worker: much, and so much more than when it let go
_left = [0]  # held then

_LINES = (_HERE / "slow.txt").read_text(encoding="utf-8").splitlines()
_SLOW = tuple(line for line in _LINES if line and not line.startswith("#"))


def pytest_itemcollected(item):
    """Mark what slow.txt lists."""
    if f"{item.path.relative_to(_HERE).as_posix()}::{item.name}".startswith(_SLOW):
        item.add_marker(pytest.mark.slow)


def pytest_collection_finish(session):
    """Compilers make many objects and little garbage: to look for it took a tenth of the time."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.hookimpl(optionalhook=True)  # pytest-xdist may be off
def pytest_xdist_make_scheduler(config, log):
    """One worker for a file, whose tests share what they compile, and one for those of the rooms
    that move spheres: Numba compiles their kernels for a minute, once.  Then what takes long, and
    at the end what moves spheres in other rooms, compiled by then, so that the workers end
    together.  --dist chooses another way."""
    if config.getvalue("dist") != "load":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Files(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            path = nodeid.split("::")[0]
            compiles = _moves_spheres(path) and path.startswith(_COMPILE)
            return "spheres" if compiles or _NAMED.search(nodeid) else path

        def _assign_work_unit(self, node):
            first = max(self.workqueue, key=lambda scope: _length(scope, self.workqueue[scope]))
            self.workqueue.move_to_end(first, last=False)
            super()._assign_work_unit(node)

    return Files(config, log)


def _length(scope: str, tests) -> tuple[bool, bool, bool, int]:
    """What to sort by; of one scheme, EventDriven, it takes seconds to compile a run."""
    if scope == "spheres":
        return True, True, True, len(tests)
    return False, not _moves_spheres(scope), "EventDriven" in _text(scope), len(tests)


_SPHERES = re.compile(r"Spheres\(|spheres\.|spheres = |spheres import|sphere_run|fclib|DOCUMENTS")
_COMPILE = tuple(
    f"tests/{room}/" for room in ("app", "certificates", "kernels", "projection", "worlds")
)
_NAMED = re.compile(r"test_grains|fuzz_inputs|granular_gas")  # files, and tests of others


@functools.cache
def _text(path: str) -> str:
    return (_HERE.parent / path).read_text(encoding="utf-8")


@functools.cache
def _moves_spheres(path: str) -> bool:
    return bool(_SPHERES.search(_text(path)))


@pytest.fixture(autouse=True)
def _no_program_is_kept_for_ever():
    """Of a worker that holds much: what it has compiled, fourteen gigabytes in the end, is on disk.

    The C library keeps what is freed, half of it and more, unless it is told to give it back.
    """
    yield
    if _held() > max(_MUCH, _left[-1] + _MORE) and "jax" in sys.modules:
        sys.modules["jax"].clear_caches()
        gc.collect()
        with contextlib.suppress(OSError, AttributeError):  # of another C library
            ctypes.CDLL("libc.so.6").malloc_trim(0)
        _left.append(_held())


def _held():
    """Bytes in memory of this process, 0 where nothing tells."""
    told = Path("/proc/self/statm")
    return int(told.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if told.exists() else 0


@pytest.fixture(autouse=True)
def _no_figure_is_left():
    """A test that counts the open figures does not depend on which one ran before."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture
def carom_does(tmp_path, monkeypatch, capsys):
    """Run the command in an empty folder: its exit code, what it says, and its messages."""
    from carom.app import command

    monkeypatch.chdir(tmp_path)

    def done(*arguments):
        monkeypatch.setattr(sys, "argv", ["carom", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            command.main()
        code = left.value.code
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return (0 if code is None else code), said.out, said.err

    return done
