"""A new file format is one class and a line in a list: here, lines of JSON."""

import base64
import json
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

import carom
import conformance
from carom.io.formats import FORMATS
from carom.io.recording import check_same, hashes
from stopping import Stopped


class Lines:
    """A line with what the run is, then one for each piece: records, and the state after them."""

    def __init__(self, path, mode):
        self.path, self.file = path, open(path, mode)  # noqa: SIM115

    @staticmethod
    def holds(world):
        return world.format == ".nc"

    @staticmethod
    def start(path, course, description):
        store = Lines(path, "w")
        store.put({"parts": hashes(course.parts())})
        return store

    @staticmethod
    def resume(path, course):
        head, *pieces = map(json.loads, path.read_text().splitlines())
        check_same(path, head["parts"], hashes(course.parts()))
        if not pieces:
            return None
        course.restore(base64.b64decode(pieces[-1]["state"]))
        return Lines(path, "a")

    @staticmethod
    def load(path, pile=None):
        _, *pieces = map(json.loads, path.read_text().splitlines())
        found = {"t": np.concatenate([np.asarray(piece["t"], float) for piece in pieces])}
        for name in pieces[0]["rows"]:
            rows = [np.asarray(p["rows"][name], float) for p in pieces if name in p["rows"]]
            found[name] = np.concatenate(rows)
        return SimpleNamespace(ok=True, **found)

    def put(self, line):
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()

    def add(self, piece, course):
        rows = {name: values.tolist() for name, values in piece.rows.items() if values.size}
        state = base64.b64encode(course.saved()).decode()
        self.put({"t": course.times(piece.at).tolist(), "rows": rows, "state": state})

    def solution(self, course):
        return Lines.load(self.path)

    def close(self):
        self.file.close()


BALL = carom.System(force=lambda t, q, v: jnp.array([-9.81]), gap=lambda t, q: q, restitution=0.7)
GIVEN = {"q0": [1.0], "v0": [0.0], "t1": 2.0, "dt": 1e-3}


@pytest.fixture
def listed(monkeypatch):
    monkeypatch.setitem(FORMATS, ".lines", Lines)


def test_conforms(listed, tmp_path):
    conformance.conforming_format(Lines, BALL, GIVEN, tmp_path / "ball.lines")


@pytest.mark.parametrize("every", [1, 7])
def test_end_to_end(listed, every, tmp_path):
    """Recorded, stopped, resumed to the same bits, loaded."""
    path = tmp_path / "ball.lines"
    whole = carom.solve(BALL, carom.Moreau(), **GIVEN, record=carom.Record(every=every))

    def stop(run):
        if run.step > 700:
            raise Stopped

    record = carom.Record(path, every=every)
    with pytest.raises(Stopped):
        carom.solve(BALL, carom.Moreau(), **GIVEN, record=record, progress=stop)
    assert len(carom.load(path).t) < len(whole)
    record = carom.Record(path, every=every, resume=True)
    carom.solve(BALL, carom.Moreau(), **GIVEN, record=record)
    found = carom.load(path)
    for name in ("t", "q", "v", "impulse"):
        np.testing.assert_array_equal(getattr(found, name), getattr(whole, name))


def test_another_run_is_refused(listed, tmp_path):
    path = tmp_path / "ball.lines"
    carom.solve(BALL, carom.Moreau(), **GIVEN, record=carom.Record(path))
    with pytest.raises(carom.CaromError, match="the scheme"):
        carom.solve(BALL, carom.Maury(), **GIVEN, record=carom.Record(path, resume=True))
    pile = carom.spheres.column(3)
    with pytest.raises(carom.CaromError, match=r"\.vtkhdf"):
        carom.solve(pile, carom.Maury(), t1=0.1, dt=0.01, record=carom.Record(tmp_path / "p.lines"))
