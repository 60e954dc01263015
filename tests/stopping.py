"""Ways to stop a run that writes a file: between two writes, in the middle of one, by SIGKILL."""

import os
import signal
import time

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
