"""Ways to stop a run that writes a file: between two writes, in the middle of one, by SIGKILL."""

import os
import signal
import time

import numpy as np
import pytest

import carom
from carom import errors
from carom.io.growing import GrowingFile


class Stopped(BaseException):
    pass


def stopping_after(monkeypatch, writes):
    """Let a number of writes through; then half of one, and nothing more."""
    put, left = GrowingFile.put, [writes]

    def some(self, at, data):
        left[0] -= 1
        if left[0] < 0:
            view = memoryview(data).cast("B")
            if len(view) > 8:
                put(self, at, view[: len(view) // 2])
            raise Stopped
        put(self, at, data)

    monkeypatch.setattr(GrowingFile, "put", some)
    return left


def forked(run, begun=lambda: True, kill_after=None):
    """``run()`` in a forked process; with ``kill_after``, SIGKILL so long after ``begun()`` first
    holds.  Seconds since then, or None if it was killed."""
    child = os.fork()
    if child == 0:
        os._exit(0 if run().ok else 1)
    ended = (0, 0)
    while ended[0] == 0 and not begun():
        ended = os.waitpid(child, os.WNOHANG)
        time.sleep(1e-3)
    began = time.perf_counter()
    if ended[0] == 0:
        if kill_after is not None:
            time.sleep(kill_after)
            os.kill(child, signal.SIGKILL)
        ended = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(ended[1])
    assert code in (0, -signal.SIGKILL), code
    return time.perf_counter() - began if code == 0 else None


def assert_same(a, b):
    """Two motions of Spheres, bit by bit, with their contacts."""
    for name in ("x", "v", "spin", "impulse", "angular_impulse", "wall_impulse"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    for one, other in zip(a.contacts, b.contacts, strict=True):
        for name, value in vars(one).items():
            np.testing.assert_array_equal(value, getattr(other, name), err_msg=name)


def recorded_and_resumed(pile, tmp_path, monkeypatch, other, said):
    """A pile moves the same recorded, loaded, and stopped and gone on with; an ``other`` pile may
    not go on with it, and ``said`` is why.  Returns the motion, and what was loaded."""

    def moved(path=None, pile=pile, **options):
        record = carom.Record(path, every=10, **options)
        return carom.solve(pile, carom.Maury(), t1=0.4, dt=4e-3, record=record)

    whole = moved()
    with monkeypatch.context() as patch:
        left = stopping_after(patch, 10**6)
        assert_same(whole, moved(tmp_path / "whole.vtkhdf"))
    again = carom.load(tmp_path / "whole.vtkhdf")
    assert_same(whole, again)
    assert str(carom.certify(again)) == str(carom.certify(whole))
    path = tmp_path / "part.vtkhdf"
    with monkeypatch.context() as patch:
        stopping_after(patch, (10**6 - left[0]) * 3 // 4)
        with pytest.raises(Stopped):
            moved(path)
    assert 2 < len(carom.load(path)) < len(whole)
    assert_same(whole, moved(path, resume=True))
    with pytest.raises(errors.RecordError, match=said):
        moved(path, other, resume=True)
    return whole, again
