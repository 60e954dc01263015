"""Kernels: functions that Numba compiles, and whose code is kept on disk.

What Numba keeps itself (``cache=True``) ends in wrong answers or crashes in three ways, so that its
rules are made stricter here:

    it compares a function with its own file alone, not with those of what it calls:
        one stamp stands for all files of the folder                                            (1)
    it numbers the code of a function by an index that another process may be changing:
        one process at a time reads or writes                                                   (2)
    it forgets that a function calls one with threads, if that one came from the disk:
        threads are there before anything is loaded from the disk                               (3)

Files are named by functions without their lines: what is newer takes the place of what is older.
"""

import contextlib
import functools
import hashlib
import inspect
import os
import sys
from pathlib import Path
from typing import Any

import numba

try:
    from numba.core.caching import FunctionCache, IndexDataCacheFile
except ImportError:  # they are not public: another Numba may have others, and then nothing is kept
    FunctionCache = IndexDataCacheFile = object

with contextlib.suppress(ImportError):  # Windows has none: nothing is locked there
    import fcntl


def kernel(**options) -> Any:
    """``numba.njit(**options)``, with its code on disk where there is a place for it."""

    def compiled(function):
        made: Any = numba.njit(**options)(function)
        # no folder can be written to, or a Numba that keeps code in another way
        with contextlib.suppress(RuntimeError, TypeError, AttributeError):
            made._cache = Kept(function)
        return made

    return compiled


def stamp(folder: str) -> bytes:
    """Of all files of a folder of kernels, as they are now."""
    found = hashlib.sha256()
    for path in sorted(Path(folder).glob("*.py")):
        text = path.read_bytes()
        found.update(f"{path.name} {len(text)} ".encode() + text)
    return found.digest()


_at_first = functools.cache(stamp)  # when this process began to read the folder


class Kept(FunctionCache):  # pyright: ignore[reportGeneralTypeIssues]
    """The compiled code of one function."""

    def __init__(self, function):
        super().__init__(function)
        self._cache_file = _Files(self._cache_path, function)

    def load_overload(self, sig, target_context):
        """Code for arguments of some types, or None."""
        numba.get_num_threads()  # (3): it starts them, and code that is loaded finds them
        return super().load_overload(sig, target_context)

    def known(self) -> bool:
        """Whether there is code of these sources."""
        return self._cache_file.known()


class _Files(IndexDataCacheFile):  # pyright: ignore[reportGeneralTypeIssues]
    """An index of types of arguments, and a file of code for each."""

    def __init__(self, folder, function):
        path = inspect.getfile(function)
        self.sources = os.path.dirname(path)
        module = os.path.splitext(os.path.basename(path))[0]
        name = f"{module}.{function.__qualname__}.{sys.implementation.cache_tag}"
        super().__init__(folder, name, _at_first(self.sources))  # (1)

    def save(self, key, data):
        """Write code, unless sources have changed since they were read."""
        with _alone(self._cache_path):
            if stamp(self.sources) == self._source_stamp:
                super().save(key, data)

    def load(self, key):
        """Read code."""
        with _alone(self._cache_path):
            return super().load(key)

    def known(self) -> bool:
        """Whether there is code of these sources."""
        with _alone(self._cache_path):
            return bool(self._load_index())


@contextlib.contextmanager
def _alone(folder):
    """No other process is in here (2)."""
    with contextlib.ExitStack() as open_files:
        with contextlib.suppress(OSError, NameError):
            file = open_files.enter_context(open(os.path.join(folder, "kernels.lock"), "ab"))
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
