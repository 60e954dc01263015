"""The laboratory: a page that asks, and this process that computes, one thing at a time."""

import base64
import json
import math
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import carom
from carom.app.subject import LabError, Model, OwnFile, subject_of, systems
from carom.errors import CaromError
from carom.pictures import loopback
from carom.pictures.plot import jumps
from carom.schemes.named import SCHEMES, scheme_of_text
from carom.status import text_of

_MOST_STEPS = 300_000
_MOST_VALUES = 2000
_SHOWN = 3000  # records of a motion that the page is sent
_COLUMNS = 8  # coordinates, and gaps
_CERTIFIED = 24  # coordinates: a certificate of more takes a minute
_SETTLE, _POINTS = 100, 400  # periods of a section: left out, and shown


class Laboratory:
    """Subjects by name, and what can be asked of them.  Answers are parts of JSON, one by one."""

    def __init__(self, first: str | None = None):
        self._subjects: dict[str, Model | OwnFile] = {}
        subject = subject_of(first or "impact_oscillator")
        self.first = subject.name
        self._subjects[subject.name] = subject

    def subject(self, name: str) -> Model | OwnFile:
        """A model, or the file that the laboratory was opened with."""
        if name not in self._subjects:
            self._subjects[name] = Model(name)
        return self._subjects[name]

    def opened(self) -> dict:
        """What there is to choose from."""
        own = {s.name: s.about for s in self._subjects.values() if isinstance(s, OwnFile)}
        return {"subjects": own | systems(), "first": self.first, "schemes": list(SCHEMES)}

    def described(self, name: str) -> dict:
        """The numbers of a subject, and how it is looked at first."""
        found = self.subject(name)
        made = found.problem({})
        return {
            "name": found.name,
            "about": found.about,
            "parameters": found.parameters,
            "scheme": found.scheme,
            "dimension": len(made.q0),
            "period": made.period,
            **found.natural(),
        }

    def motion(self, asked: dict) -> Iterator[dict]:
        """The motion by each scheme, the sections, and the certificates, as they are ready."""
        made = self._made(asked)
        schemes = [scheme_of_text(text) for text in asked["schemes"]]
        steps = (asked["t1"] - made.t0) / asked["dt"]
        _checked_steps(steps, asked)
        runs: list[Any] = []
        for which, scheme in enumerate(schemes):
            sol = _solved(made, scheme, asked["t1"], asked["dt"])
            runs.append(sol)
            yield {"part": "motion", "which": which, **_motion(sol, made)}
        for which, sol in enumerate(runs):
            yield {"part": "section", "which": which, **self._section(made, sol, asked)}
        for which, sol in enumerate(runs):
            yield {"part": "certificate", "which": which, **_certificate(sol, made)}

    def _made(self, asked):
        return self.subject(asked["subject"]).problem(
            asked["parameters"], asked.get("q0"), asked.get("v0")
        )

    def _section(self, made, sol, asked) -> dict:
        """At whole periods of the forcing where there is one; else right after each impact."""
        if made.period is None:
            if not sol._has_impacts():
                return {"at": "none", "q": _packed([]), "v": _packed([])}
            k = np.searchsorted(sol.t, sol.impacts.time - 1e-9 * asked["dt"])
            k = np.unique(np.clip(k, 0, len(sol.t) - 1))
            return {"at": "impacts", "q": _packed(sol.q[k]), "v": _packed(sol.v[k])}
        steps = _per_period(made, asked["dt"])
        found = _strobed(made, sol.scheme, steps, _SETTLE, _POINTS)
        return {"at": "period", "q": _packed(found.q), "v": _packed(found.v)}

    def diagram(self, asked: dict) -> Iterator[dict]:
        """For each value of a parameter, up and then down: where the motion settles.

        With a forcing the states at whole periods, each value starting where the one before ended;
        without one the speeds of the impacts, each from the start of the model.
        """
        values = np.linspace(asked["low"], asked["high"], int(asked["count"]))
        if not 2 <= len(values) <= _MOST_VALUES:
            raise LabError(f"the diagram takes 2 to {_MOST_VALUES} values, not {len(values)}")
        scheme = scheme_of_text(asked["schemes"][0])
        forced = self._made(asked).period is not None
        for direction in ("up", "down") if forced else ("up",):
            at: dict = {}
            for value in values if direction == "up" else values[::-1]:
                row = {"part": "value", "direction": direction, "value": float(value)}
                found = self._settled_from(at, scheme, asked, float(value))
                at = {key: found[key] for key in ("q0", "v0") if key in found}
                yield row | found

    def _settled_from(self, at: dict, scheme, asked, value) -> dict:
        """From where the value before ended, or, where that is no start here, from the first."""
        numbers = {**asked["parameters"], asked["parameter"]: value}
        subject, first = self.subject(asked["subject"]), (asked.get("q0"), asked.get("v0"))
        for start in ([(at["q0"], at["v0"])] if at else []) + [first]:
            try:
                return self._settled(subject.problem(numbers, *start), scheme, asked)
            except CaromError as problem:
                said = str(problem)
        return {"error": said}

    def _settled(self, made, scheme, asked) -> dict:
        c = int(asked["coordinate"])
        if made.period is None:
            _checked_steps((asked["t1"] - made.t0) / asked["dt"], asked)
            sol = _solved(made, scheme, asked["t1"], asked["dt"])
            if not sol._has_impacts():
                raise LabError(
                    f"{scheme} lists no impacts, and there is no forcing: choose another"
                )
            return {"speeds": _finite(-sol.impacts.velocity_before)}
        steps = _per_period(made, asked["dt"])
        sol = _strobed(made, scheme, steps, int(asked["settle"]), int(asked["keep"]))
        if not len(sol.q):
            raise LabError(sol.said)
        return {
            "q": _finite(sol.q[:, c]),
            "v": _finite(sol.v[:, c]),
            **sol.start(),
        }

    def run_file(self, asked: dict) -> tuple[str, str]:
        """A name and a text that ``carom run`` takes."""
        subject = self.subject(asked["subject"])
        asked = {"q0": None, "v0": None, **asked, "scheme": asked["schemes"][0]}
        return Path(subject.name).stem + "-lab" + subject.ending, subject.run_file(asked)


class _Strobed:
    def __init__(self, sol, settle):
        self.q, self.v = np.asarray(sol.q)[settle + 1 :], np.asarray(sol.v)[settle + 1 :]
        self.gap = np.min(np.asarray(sol.gap)[settle + 1 :], axis=1, initial=math.inf)
        self.said = "" if sol.ok else text_of(sol.status)

    def start(self) -> dict:
        """The last state that another motion can start from: none if all overlap a little."""
        good = np.flatnonzero((self.gap >= 0.0) & np.all(np.isfinite(self.q + self.v), axis=1))
        if not len(good):
            return {}
        q, v = self.q[good[-1]], self.v[good[-1]]
        return {"q0": [float(x) for x in q], "v0": [float(x) for x in v]}


def _strobed(made, scheme, steps, settle, keep) -> _Strobed:
    if (settle + keep) * steps > 10 * _MOST_STEPS:
        raise LabError(f"{settle + keep} periods of {steps} steps are too many: raise dt")
    steps = 1 if scheme.dense else steps
    t1 = made.t0 + (settle + keep) * made.period
    record = carom.Record(every=steps)
    return _Strobed(_solved(made, scheme, t1, made.period / steps, record), settle)


def _per_period(made, dt) -> int:
    return int(np.clip(round(made.period / dt), 20, 2000))


def _solved(made, scheme, t1, dt, record=None) -> Any:
    return carom.solve(
        made.system,
        scheme,
        made.q0,
        made.v0,
        t0=made.t0,
        t1=t1,
        dt=dt,
        record=carom.Record() if record is None else record,
        throw=False,
    )


def _checked_steps(steps, asked):
    if not (steps > 0 and math.isfinite(steps)):
        raise LabError(f"dt = {asked['dt']:g} and t1 = {asked['t1']:g}: both must be positive")
    if steps > _MOST_STEPS:
        raise LabError(
            f"dt = {asked['dt']:g} makes {steps:.3g} steps to t1 = {asked['t1']:g}; the laboratory "
            f"takes {_MOST_STEPS}: raise dt, lower t1, or download the run file"
        )


def _motion(sol, made) -> dict:
    """The records that are shown, thinned but for the impacts."""
    n, hit = len(sol.t), jumps(sol)
    kept = np.rint(np.linspace(0, n - 1, min(n, _SHOWN))).astype(int)
    kept = np.unique(np.concatenate([kept, hit[:_SHOWN], np.minimum(hit[:_SHOWN] + 1, n - 1)]))
    p, d = sol.gap.shape[1], sol.q.shape[1]
    listed = sol._has_impacts()
    times = sol.impacts.time if listed else np.zeros(0)
    return {
        "scheme": str(sol.scheme).removesuffix("()"),
        "t": _packed(np.asarray(sol.t)[kept]),
        "q": _packed(np.asarray(sol.q)[kept][:, :_COLUMNS]),
        "v": _packed(np.asarray(sol.v)[kept][:, :_COLUMNS]),
        "gap": _packed(np.asarray(sol.gap)[kept][:, :_COLUMNS]),
        "d": min(d, _COLUMNS),
        "p": min(p, _COLUMNS),
        "jumps": [int(k) for k in np.searchsorted(kept, hit[:_SHOWN])],
        "impacts": [float(t) for t in times[:_SHOWN]],
        "count": len(times) if listed else None,
        "q0": [float(x) for x in made.q0],
        "v0": [float(x) for x in made.v0],
        "said": "" if sol.ok else text_of(sol.status),
    }


def _certificate(sol, made) -> dict:
    if len(made.q0) > _CERTIFIED:
        text = f"{len(made.q0)} coordinates take long: download the run file; carom run certifies"
        return {"verdict": "not certified here", "text": text, "ok": None}
    try:
        found = carom.certify(sol, made.system, q0=made.q0, v0=made.v0)
    except CaromError as problem:
        return {"verdict": "not certified", "text": str(problem), "ok": None}
    head, _, table = str(found).partition("\n")
    return {"verdict": head.partition(": ")[2], "text": table, "ok": found.ok}


def _finite(values) -> list[float]:
    return [float(x) for x in values if math.isfinite(x)]


def _packed(a) -> str:
    return base64.b64encode(np.ascontiguousarray(a, "<f4").tobytes()).decode()


# ---- the server ----------------------------------------------------------------------------------


class Turns:
    """One computation at a time; of each page and question only the latest goes on."""

    def __init__(self):
        self._lock, self._latest = threading.Lock(), {}

    def asked(self, page: str, question: str, serial: int) -> Callable[[], bool]:
        """Whether this question, which is the latest now, still is."""
        key = (page, question)
        self._latest[key] = max(serial, self._latest.get(key, 0))
        return lambda: self._latest[key] == serial

    def taken(self, parts: Iterator[dict], wanted: Callable[[], bool]) -> Iterator[dict]:
        """The parts of an answer, each computed in its turn, as long as they are wanted."""
        while True:
            with self._lock:
                if not wanted():
                    return
                part = next(parts, None)
            if part is None:
                return
            yield part


def handler(laboratory: Laboratory):
    """Answers for the page: GET for the page and what there is, POST for what is computed."""
    page = loopback.template("lab.html").encode()
    turns = Turns()

    class LabHandler(loopback.Handler):
        def do_GET(self):
            if not self.asked_here():
                self.answer(b"", code=403)
            elif self.path == "/":
                self.answer(page)
            else:
                self.answer(b"", code=404)

        def do_POST(self):
            if not self.asked_here():
                self.answer(b"", code=403)
                return
            try:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            except (ValueError, TypeError, KeyError):
                self.answer(b"", code=400)
                return
            self.send_response(200)
            self.send_header("Content-Type", "application/x-ndjson")
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            question = self.path.strip("/")
            wanted = turns.asked(str(asked.get("page")), question, int(asked.get("serial", 0)))
            try:
                for part in turns.taken(_answers(laboratory, question, asked), wanted):
                    self.wfile.write(json.dumps(part).encode() + b"\n")
                    self.wfile.flush()
            except (BrokenPipeError, ConnectionResetError):
                pass  # the page asks for something else by now

    return LabHandler


def _answers(laboratory, question, asked) -> Iterator[dict]:
    """The parts of an answer; what goes wrong is a part too."""
    try:
        if question in ("motion", "diagram"):
            yield from getattr(laboratory, question)(asked)
        elif question == "opened":
            yield laboratory.opened()
        elif question == "described":
            yield laboratory.described(asked["subject"])
        elif question == "file":
            name, text = laboratory.run_file(asked)
            yield {"part": "file", "name": name, "text": text}
        else:
            raise LabError(f"there is no question {question!r}")
    except Exception as problem:  # whatever the mathematics or a file of one's own says
        kind = "" if isinstance(problem, CaromError) else f"{type(problem).__name__}: "
        yield {"part": "error", "error": f"{kind}{problem}"}
    else:
        yield {"part": "end"}


def serve(subject: str | None, port: int, browser: bool, say) -> None:
    """The laboratory on 127.0.0.1 until Ctrl-C."""
    loopback.serve(handler(Laboratory(subject)), port, browser, say)
