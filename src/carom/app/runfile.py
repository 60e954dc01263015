"""Runs described in a file: TOML with a fixed set of keys, or Python that defines ``problem``.

    model = "bouncing_ball"        a model of carom.models, or
    spheres = "lattice"            one of the builders of carom.spheres
    scheme = "Moreau(implicit=True)"
    dt = 1e-3                      [s], t1 = 5.0 [s], out = "ball.nc"
    [parameters]                   of the model or the builder; tables in them: scattered.py
    [[walls]]                      of spheres: kind = "Plane", its arguments, and how it moves
    [record]                       every = 10 (steps), or interval = 0.01 [s]

Every mistake is a RunFileError that names the file, the line where it can be found, and the key.
"""

import functools
import inspect
import json
import math
import re
import textwrap
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import carom
from carom import models
from carom import spheres as sphere_module
from carom.app import scattered
from carom.arguments import nearest_name
from carom.errors import CaromError
from carom.models.grains import Scene
from carom.run.record import Record
from carom.schemes.named import scheme_of_text
from carom.worlds.spheres import walls as wall_kinds
from carom.worlds.spheres.model import Spheres
from carom.worlds.system.system import System

BUILDERS = ("lattice", "random", "column", "hopper", "drum", "Spheres")
WALLS = ("Plane", "Box", "Cylinder", "Shell", "Panel", "Obstacles")
_KEYS = ("model", "spheres", "scheme", "dt", "t0", "t1", "out", "parameters", "walls", "record")
_KEYS += ("q0", "v0")
_RECORD = ("every", "interval", "final")
_OPTIONS = ("velocity", "mass", "gravity", "restitution", "periodic", "friction", "spin", "inertia")
_OPTIONS += ("tolerance", "iterations", "material", "glue", "rolling", "twisting")
_VARIABLES = ("scheme", "dt", "t0", "t1", "out", "every")  # that a Python file may define
_START = ("q0", "v0")  # and, beside a System; of a model: another start
_KEPT = ("name", "system", "q0", "v0", "t1", "period", "looks")  # of a model started elsewhere
_MOST_NUMBERS = 10_000_000  # in one parameter, and of spheres: more is a slip of the finger


class RunFileError(CaromError, ValueError):
    """A run file says something that carom cannot do."""


@dataclass
class RunPlan:
    """A run that is ready to go."""

    problem: Any  # a models.Problem, or Spheres
    system: Any  # what it moves (contracts.Model)
    q0: Any  # None of what carries its own state
    v0: Any
    scheme: Any
    t0: float
    t1: float
    dt: float
    out: Path
    every: int | None  # steps between records; None: as the system says
    final: bool
    description: str  # JSON: how to make it again

    def record(self, *, resume=False, force=False) -> Record:
        """Where the run goes."""
        steps = max(1, math.ceil((self.t1 - self.t0) / self.dt))
        every = self.every or max(1, steps // (self.system.records or steps))
        made = Record(self.out, final=True) if self.final else Record(self.out, every=every)
        made.resume, made.overwrite, made.description = resume, force, self.description
        return made

    def solve(self, *, resume=False, force=False, progress: Any = False, throw=True):
        """Run it."""
        times: Any = {"t0": self.t0, "t1": self.t1, "dt": self.dt}
        record = self.record(resume=resume, force=force)
        options: Any = {"record": record, "progress": progress, "throw": throw}
        return carom.solve(self.system, self.scheme, self.q0, self.v0, **times, **options)


def read(path, *, scheme=None, dt=None, t1=None, out=None, every=None) -> RunPlan:
    """The run that a file describes; what is given here has precedence over the file."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")  # of Windows' editors too
    except (OSError, UnicodeDecodeError) as problem:
        why = getattr(problem, "strerror", None) or "it is not text in UTF-8"
        raise RunFileError(f"{path}: cannot be read: {why}") from None
    given = {"scheme": scheme, "dt": dt, "t1": t1, "out": out, "every": every}
    given = {name: value for name, value in given.items() if value is not None}
    return from_text(path, text, given)


def from_description(description: str, out) -> RunPlan:
    """The run that a recording was made by, which goes on in the same file."""
    try:
        found = json.loads(description)
        path, text, given = found["path"], found["text"], found["given"]
    except (ValueError, KeyError, TypeError):
        raise RunFileError(
            f"{out}: it was not made by `carom run`, so it does not say how to go on: use "
            "carom.solve(..., record=carom.Record(path, resume=True))"
        ) from None
    return from_text(Path(path), text, {**given, "out": str(out)})


def from_text(path: Path, text: str, given: dict) -> RunPlan:
    """The run described by the text of a file."""
    file = _File(path, text)
    if path.suffix == ".py":
        found = _python(file)
    else:
        found = _toml(file)
    found |= given
    problem, system, q0, v0 = found["run"]
    t0 = file.number(found, "t0", getattr(problem, "t0", 0.0))
    end = found.get("natural_t1", getattr(problem, "t1", None))
    t1 = file.number(found, "t1", None if end == math.inf else end)
    dt = file.number(found, "dt", found.get("natural_dt"))
    if not dt > 0.0:
        raise file.error("dt", f"is {dt:g}; it must be positive")
    every = found.get("every")
    if found.get("interval") is not None:
        interval = file.number(found, "interval", None)
        if not interval > 0.0:
            raise file.error("interval", f"is {interval:g}; it must be a time > 0 between records")
        every = max(1, round(min(interval / dt, 1e15)))
    if every is not None and (isinstance(every, bool) or not isinstance(every, int) or every < 1):
        raise file.error("every", f"is {every!r}; it must be a whole number of steps, 1 or more")
    if not t1 > t0:
        raise file.error("t1", f"is {t1:g}; it must be after t0 = {t0:g}")
    if (t1 - t0) / dt > 1e12:
        raise file.error("dt", f"is {dt:g}: that is {(t1 - t0) / dt:.2g} steps, too many to end")
    out = found.get("out", path.stem + system.format)
    if not isinstance(out, str | Path):
        raise file.error("out", f"is {out!r}; it must be the name of a file")
    if Path(out).suffix != system.format:
        raise file.error("out", f"is {str(out)!r}; it must end in {system.format}")
    return RunPlan(
        problem,
        system,
        q0,
        v0,
        _scheme(file, found.get("scheme", system.usual)),
        t0,
        t1,
        dt,
        Path(out),
        every,
        bool(found.get("final", False)),
        json.dumps(
            {"path": str(path.absolute()), "text": text, "given": _plain(given)}, default=str
        ),
    )


def _plain(given):
    return {name: value for name, value in given.items() if name != "out"}


def _scheme(file, given):
    if not isinstance(given, str):
        return given  # a Python file may make one
    try:
        return scheme_of_text(given)
    except Exception as problem:
        raise file.error("scheme", str(problem)) from None


class _File:
    """The name and the text of a run file, for messages."""

    def __init__(self, path, text):
        self.path, self.text = path, text

    def error(self, key: str, what: str) -> RunFileError:
        """A mistake at a key."""
        return RunFileError(f"{self.path}{self._line(key)}: {key}: {what}")

    def _line(self, key):
        """Of the last part of a key that is found in its table, or of the table."""
        table, *parts = re.findall(r"[^.\[\]]+", key)
        heads = [m.start() for m in re.finditer(rf"(?m)^\s*\[+{re.escape(table)}\b", self.text)]
        if heads and parts and parts[0].isdigit():
            heads, parts = heads[int(parts[0]) :], parts[1:]
        start = heads[0] if heads and parts else 0
        for name in reversed(parts or [table]):
            named = rf"(?m)(^\s*|[{{,]\s*)\[*[\"']?{re.escape(name)}\b"
            if place := re.compile(named).search(self.text, start):
                return f", line {self.text[: place.end()].count(chr(10)) + 1}"
        return f", line {self.text[:start].strip().count(chr(10)) + 2}" if start else ""

    def known(self, found: dict, names, where: str = "") -> None:
        """Refuse a key that is not one of ``names``, with the nearest of them."""
        for key in found:
            if key not in names:
                hint = nearest_name(key, names)
                listed = ", ".join(names)
                raise self.error(
                    where + key, f"is not a key here{hint} The keys are {listed or 'none'}"
                )

    def number(self, found, key, default) -> float:
        """A finite number."""
        value = found.get(key, default)
        if value is None:
            raise self.error(key, f"is missing: add {key} = ... [s], or give --{key}")
        if isinstance(value, bool) or not isinstance(value, int | float | np.number):
            raise self.error(key, f"is {value!r}; it must be a number [s]")
        value = float(value) if abs(value) < 1e300 else math.inf
        if not math.isfinite(value):
            raise self.error(key, "must be a finite number [s]")
        return value


# ---- TOML ---------------------------------------------------------------------------------------


def _shown(file, problem) -> str:
    """The line that is no TOML, and what TOML looks like."""
    found = re.search(r"line (\d+)", str(problem))
    lines = file.text.splitlines()
    if found is None or int(found[1]) > len(lines):
        return ""
    return f": `{lines[int(found[1]) - 1].strip()[:60]}`; write name = value, text in quotes"


def _toml(file) -> dict:
    try:
        found = tomllib.loads(file.text)
    except (tomllib.TOMLDecodeError, RecursionError) as problem:
        raise RunFileError(
            f"{file.path}: not valid TOML: {problem}{_shown(file, problem)}"
        ) from None
    file.known(found, _KEYS)
    kinds = [key for key in ("model", "spheres") if key in found]
    if len(kinds) != 1:
        raise RunFileError(
            f"{file.path}: {'one of' if kinds else 'give'} model = ... or spheres = ...: which "
            "problem is it? `carom models` lists the models; spheres are built by "
            f"{', '.join(BUILDERS)}"
        )
    for name, kind, what in (
        ("parameters", dict, "a table"),
        ("record", dict, "a table"),
        ("walls", list, "an array of tables, [[walls]]"),
    ):
        if not isinstance(found.get(name, kind()), kind):
            raise file.error(name, f"must be {what}")
    record = found.pop("record", {})
    file.known(record, _RECORD, "record.")
    if len(record) > 1:
        raise file.error("record", f"has {' and '.join(record)}: choose one of them")
    if not isinstance(record.get("final", False), bool):
        raise file.error("record.final", "must be true or false")
    problem = _model(file, found) if kinds == ["model"] else _builder(file, found)
    return {**found, **record, **problem}


def _model(file, found) -> dict:
    names = list(models.catalogue())
    name = _choice(file, "model", found.pop("model"), names)
    if found.pop("walls", None):
        raise file.error("walls", "belongs to spheres; a model has its own")
    start = [found.pop(key, None) for key in _START]
    for key, value in zip(_START, start, strict=True):
        if value is not None:
            _check_numbers(file, key, value)

    @functools.wraps(getattr(models, name))
    def model(**parameters):
        return started_model(name, parameters, *start)

    made = _called(file, model, found.pop("parameters", {}), ())
    if isinstance(made, models.Problem):
        return {"run": _of_problem(made)}
    return {"run": _of_pile(made.system), "natural_t1": made.t1, "natural_dt": made.dt}


def _of_problem(made: models.Problem) -> tuple:
    """What is run, what of it moves, and where it starts."""
    return made, made.system, made.q0, made.v0


def _of_pile(pile: Spheres) -> tuple:
    """The same of spheres, which carry their own state."""
    return pile, pile, None, None


def started_model(name: str, parameters: dict, q0=None, v0=None):
    """A model of carom.models; with q0 or v0 from there, its exact motion known or not."""
    if name in ("granular_gas", "settling_spheres") or (q0 is None and v0 is None):
        return getattr(models, name)(**parameters)
    try:
        known = vars(getattr(models, name)(**parameters))
    except models.ModelError as problem:
        if problem.known is None:
            raise
        known = problem.known
    start = {key: x for key, x in zip(_START, (q0, v0), strict=True) if x is not None}
    known = {key: known[key] for key in _KEPT if key in known} | start
    if missing := [key for key in _START if key not in known]:
        raise RunFileError(f"{missing[0]} is missing: the model has no start of its own here")
    if len(np.atleast_1d(known["q0"])) != len(np.atleast_1d(known["v0"])):
        raise RunFileError("q0 and v0 must have as many numbers as the model has coordinates")
    return problem_of(**known)


def _builder(file, found) -> dict:
    name = _choice(file, "spheres", found.pop("spheres"), BUILDERS)
    parameters = found.pop("parameters", {})
    walls = [_wall(file, k, wall) for k, wall in enumerate(found.pop("walls", []))]
    builder = getattr(sphere_module, name)
    if name == "lattice" and "shape" in parameters:
        shape = parameters["shape"]
        if not _whole_numbers(shape) or len(shape) not in (2, 3):
            raise file.error("parameters.shape", f"is {shape!r}; it must be 2 or 3 whole numbers")
        if math.prod(shape) > _MOST_NUMBERS:
            raise file.error("parameters.shape", f"is {shape}: more than {_MOST_NUMBERS} spheres")
    laws, parameters = scattered.of_materials(file, name, parameters)
    parameters = scattered.tables(file, name, parameters)
    if name == "random" and "dimension" in parameters and parameters["dimension"] not in (2, 3):
        raise file.error("parameters.dimension", "must be 2 or 3")
    pile = _called(file, builder, parameters, _OPTIONS)
    if walls or laws:
        have = [*pile.walls.walls, *pile.walls.obstacles]
        named = [f"parameters.{key}" for key in laws]
        changed = {"walls": [*have, *walls], **laws}
        pile = _tried(file, "walls", lambda: pile.replaced(**changed), named)
    return {"run": _of_pile(pile)}


def model_text(name: str) -> str:
    """A model: what it is, its parameters with their values, and how a run file begins."""
    names = list(models.catalogue())
    if name not in names:
        hint = nearest_name(name, names)
        raise RunFileError(f"there is no model {name!r}{hint} There are {', '.join(names)}")
    model = getattr(models, name)
    text, _, said = (inspect.getdoc(model) or name).partition("\n\nParameters\n----------\n")
    meaning = dict(re.findall(r"^(\w+)\n((?:    .*\n?)+)", said, re.MULTILINE))
    parameters = inspect.signature(model).parameters
    values = {key: str(p.default) for key, p in parameters.items()}
    width, wide = (max(map(len, x)) for x in (values.keys(), values.values()))
    rows = [
        (f"  {key:{width}}  {value:{wide}}  ", " ".join(meaning[key].split()))
        for key, value in values.items()
    ]
    return "\n".join(
        [
            text,
            "",
            "parameters",
            *(
                textwrap.fill(x, 100, initial_indent=a, subsequent_indent=len(a) * " ")
                for a, x in rows
            ),
            "",
            "a run file",
            f'  model = "{name}"',
            "  dt = 1e-3",
            "  [parameters]",
        ]
    )


def _wall(file, k, wall):
    where = f"walls[{k}]."
    if not isinstance(wall, dict):
        raise file.error("walls", "must be an array of tables, [[walls]]")
    wall = dict(wall)
    kind = _choice(file, where + "kind", wall.pop("kind", None), WALLS)
    made = getattr(wall_kinds, kind)
    names = list(inspect.signature(made).parameters)
    file.known(wall, [*names, "moves"], where)
    moves, material = wall.pop("moves", None), wall.pop("material", None)
    if not isinstance(material, str | None):
        raise file.error(where + "material", f"is {material!r}; it must be a name")
    for name, value in wall.items():
        _check_numbers(file, where + name, value)
    wall = _tried(file, where, lambda: {n: np.array(x, float) for n, x in wall.items()})
    if moves is not None:
        wall = scattered.moving(file, f"{where}moves", wall, moves)
    return _tried(file, f"walls[{k}]", lambda: made(**wall, material=material))


def _choice(file, key, value, names) -> str:
    if not isinstance(value, str) or value not in names:
        hint = nearest_name(str(value), names)
        raise file.error(key, f"is {value!r}{hint} There are {', '.join(names)}")
    return value


def _called(file, function, parameters, more):
    """``function(**parameters)``, the names and kinds of the parameters checked first."""
    signature = inspect.signature(function).parameters
    names = [n for n, p in signature.items() if p.kind is not p.VAR_KEYWORD]
    file.known(parameters, list(dict.fromkeys([*names, *more])), "parameters.")
    for name, value in parameters.items():
        each = name in scattered.PER_SPHERE or name not in signature
        default = None if each else signature[name].default
        _check_kind(file, f"parameters.{name}", value, default)
    needed = [n for n in names if signature[n].default is inspect.Parameter.empty]
    for name in needed:
        if name not in parameters:
            raise file.error("parameters", f"{name} is missing; {function.__name__} needs it")
    named = [f"parameters.{name}" for name in parameters]
    return _tried(file, "parameters", lambda: function(**parameters), named)


def _check_kind(file, key, value, default):
    if isinstance(default, bool) != isinstance(value, bool):
        raise file.error(key, f"is {value!r}; it must be {_kind_of(default)}")
    if isinstance(default, bool):
        return
    if isinstance(default, int | float) and not isinstance(value, int | float):
        raise file.error(key, f"is {value!r}; it must be a number")
    if isinstance(default, tuple) and not (
        isinstance(value, list) and (len(value) == len(default) or len(value) in (2, 3))
    ):
        raise file.error(key, f"is {value!r}; it must be a list of {len(default)} numbers")
    _check_numbers(file, key, value)
    counted = isinstance(default, int) or key.endswith((".N", ".count"))
    if counted and isinstance(default, int) and isinstance(value, float):
        raise file.error(key, f"is {value!r}; it must be a whole number")
    if counted and np.max(np.asarray(value, float), initial=0.0) > _MOST_NUMBERS:
        raise file.error(key, f"is {value}: more than {_MOST_NUMBERS}")


def _kind_of(default):
    return "true or false" if isinstance(default, bool) else "a number or a list of numbers"


def _whole_numbers(values):
    return isinstance(values, list) and all(
        isinstance(v, int) and not isinstance(v, bool) and v > 0 for v in values
    )


def _check_numbers(file, key, value):
    """Refuse what is not a number or nested lists of numbers."""
    items = value if isinstance(value, list) else [value]
    for item in items:
        if isinstance(item, list):
            _check_numbers(file, key, item)
        elif isinstance(item, bool) or not isinstance(item, int | float):
            raise file.error(key, f"has {item!r}; it must be a number or a list of numbers")
        elif math.isnan(item) or (isinstance(item, int) and abs(item) > 2**63 - 1):
            raise file.error(key, f"has {item!r}, which is no number carom can use")


def _tried(file, key, make, named=()):
    """What ``make`` returns; whatever goes wrong is a mistake at ``key``.

    Or at that of ``named`` which the message begins with.
    """
    try:
        with np.errstate(all="ignore"):
            return make()
    except RunFileError:
        raise
    except Exception as problem:
        text = str(problem) or type(problem).__name__
        begin, _, rest = text.partition(" ")
        for name in named:
            if name.split(".")[-1] == begin:
                key, text = name, rest
        raise file.error(key, text) from None


# ---- Python -------------------------------------------------------------------------------------


def _python(file) -> dict:
    """What a Python file defines; it is run."""
    names: dict[str, Any] = {"__name__": "carom_run", "__file__": str(file.path)}
    try:
        exec(compile(file.text, str(file.path), "exec"), names)
    except SyntaxError as problem:
        raise RunFileError(f"{file.path}, line {problem.lineno}: {problem.msg}") from None
    except Exception as problem:
        line, trace = 0, problem.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == str(file.path):
                line = trace.tb_lineno
            trace = trace.tb_next
        kind = type(problem).__name__
        raise RunFileError(f"{file.path}, line {line}: {kind}: {problem}") from problem
    problem = names.get("problem")
    found = {name: names[name] for name in _VARIABLES if name in names}
    if isinstance(problem, models.Problem) and "looks" in names:
        problem = replace(problem, looks=names["looks"])
    if isinstance(problem, models.Problem):
        return {"run": _of_problem(problem), **found}
    if isinstance(problem, Spheres):
        return {"run": _of_pile(problem), **found}
    if isinstance(problem, System):
        return {"run": _of_problem(_started(file, problem, names)), **found}
    if isinstance(problem, Scene):
        natural = {"natural_t1": problem.t1, "natural_dt": problem.dt}
        return {"run": _of_pile(problem.system), **natural, **found}
    raise RunFileError(
        f"{file.path}: problem: {'is missing' if problem is None else f'is {problem!r}'}; define "
        "problem = ..., a carom.System (with q0 = ... and v0 = ...), a carom.Spheres, or what a "
        "function of carom.models returns"
    )


def _started(file, system, names) -> models.Problem:
    """A System with the q0, v0 that stand beside it in the file."""
    for name in _START:
        if name not in names:
            raise RunFileError(
                f"{file.path}: {name}: is missing; problem is a carom.System, which needs the "
                f"{'positions' if name == 'q0' else 'velocities'} to start from: {name} = [...]"
            )
    more = {key: names[key] for key in ("period", "looks") if key in names}
    return _tried(file, "q0", lambda: problem_of(system, q0=names["q0"], v0=names["v0"], **more))


def problem_of(system, *, q0, v0, name="problem", t1=math.inf, **more) -> models.Problem:
    """A System of one's own with its start, as a problem without exact motion, t0 and t1."""

    def unknown(t):
        raise RunFileError("this problem has no exact motion")

    q0, v0 = (np.atleast_1d(np.asarray(x, float)) for x in (q0, v0))
    return models.Problem(
        name=name,
        system=system,
        q0=q0,
        v0=v0,
        t0=0.0,
        t1=t1,
        exact=unknown,
        source="none",
        **more,
    )
