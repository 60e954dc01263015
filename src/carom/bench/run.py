"""``run``: problems x methods x sizes, resumable."""

import dataclasses
import functools
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping

import numpy as np

import carom
from carom.arguments import nearest_name
from carom.bench.measure import measured, scale_of
from carom.bench.methods import METHODS, Method, Motion
from carom.bench.problems import PROBLEMS, QUICK, kind_of
from carom.bench.results import Results, load
from carom.errors import CaromError
from carom.models import Problem

_QUICK_SIZES = 3  # of each method, spread over its list
# CPU time [s] of a row, quick and not: the run, its repetitions and its certificate.  One beyond is
# the last of its method on its problem; the first, which compiles, counts by the run alone.
# Rows of a quick run take up to 5 s on a busy machine: what else it does must not stop one.
BUDGET = {True: 20.0, False: 5.0}
_REPEATED = 0.15  # [s] spent on repeating a quick run
_SHORT = 1e-6  # of a motion: a call for it costs what every call does


def run(
    problems: Iterable[str] | Mapping[str, Callable[[], Problem]] | None = None,
    methods: Iterable[str | Method] | None = None,
    *,
    quick: bool = False,
    path: str | os.PathLike | None = None,
    progress: bool = False,
) -> Results:
    """Every method on every problem at every size.

    ``problems``: titles of PROBLEMS, or a dict of functions that build a Problem; ``methods``:
    names of METHODS, or `Method` objects.  With ``quick`` a few of each.  With ``path`` every
    result is written there at once, and what the file already holds is not run again.  With
    ``progress`` each is printed.
    """
    chosen = _problems(problems, quick)
    entering = _methods(methods, quick)
    results = load(path) if path is not None and os.path.exists(path) else Results([], path)
    for title, build in chosen.items():
        todo = [m for m in entering if any((title, m.name, s) not in results for s in m.sizes)]
        if not todo:
            continue
        problem = build()
        impulse = functools.cache(functools.partial(_impulses, problem))  # where it is asked for
        scale = scale_of(problem)
        for method in todo:
            for row in _climb(title, problem, method, impulse, scale, results, BUDGET[quick]):
                results.add(row)
                if progress:
                    print(_line(row), flush=True)
    return results


def _problems(problems, quick):
    if isinstance(problems, Mapping):
        return problems
    titles = (QUICK if quick else PROBLEMS) if problems is None else problems
    return {title: PROBLEMS[_known(title, PROBLEMS, "problem")] for title in titles}


def _methods(methods, quick):
    found = []
    for method in METHODS if methods is None else methods:
        if isinstance(method, str):
            method = METHODS[_known(method, METHODS, "method")]
        found.append(method)
    return [_thinned(m) for m in found] if quick else found


def _known(name: str, names, what: str) -> str:
    if name in names:
        return name
    hint = nearest_name(name, names)
    raise CaromError(f"no {what} is called {name!r}{hint} There are: {'; '.join(names)}")


def _thinned(method: Method) -> Method:
    kept = np.unique(np.linspace(0, len(method.sizes) * 0.75, _QUICK_SIZES).astype(int))
    sizes = tuple(method.sizes[k] for k in kept if k < len(method.sizes))
    return Method(**{**method.__dict__, "sizes": sizes})


def _impulses(problem) -> np.ndarray | None:
    """(p,) received over the run, by event detection at its finest; None where it fails."""
    if problem.frequency is not None:
        return None
    span = problem.t1 - problem.t0
    try:
        sol = carom.solve(
            problem.system,
            carom.EventDriven(rtol=1e-12, atol=1e-14),
            problem.q0,
            problem.v0,
            t0=problem.t0,
            t1=problem.t1,
            dt=span / 400,
        )
    except CaromError:
        return None
    return np.sum(np.asarray(sol.impulse), axis=0)


def _climb(title, problem, method, impulse, scale, results, budget):
    """Rows of one method on one problem, from coarse to fine, until one is over budget."""
    cost = max((row["cpu"] for row in results.ok(title, method.name)), default=0.0)
    compiled, fixed = False, None
    for size in method.sizes:
        if (title, method.name, size) in results:
            continue
        row = {
            "problem": title,
            "kind": kind_of(problem),
            "scale": scale,
            "method": method.name,
            "size": size,
            "size_is": method.size,
            "declared": method.order,
        }
        if cost > budget:
            told = f"stopped: over budget (a coarser one took {cost:.1f} s, beyond {budget:g})"
            yield row | {"status": told}
            continue
        begin = time.process_time()
        try:
            motion, clock = timed(lambda size=size: method.advance(problem, size))
            found = measured(problem, motion, None if motion.impulse is None else impulse())
        except Exception as failure:  # of any kind: a method from outside must not end the run
            name = "" if isinstance(failure, CaromError) else f"{type(failure).__name__}: "
            yield row | {"status": name + str(failure).partition(". ")[0]}
            continue
        fixed = fixed_cost(problem, method, motion) if fixed is None else fixed
        row |= {"status": "ok"} | found | clock | _counted(method, motion, clock, fixed)
        row["certified"] = _certified(method, problem, size, motion, clock["cpu"] > budget)
        row["spent"] = time.process_time() - begin
        cost = max(cost, row["cpu"], row["spent"] if compiled else 0.0)
        compiled = True
        yield row


def _certified(method, problem, size, motion, over):
    """The verdict, where there is one and the run was not over budget."""
    if motion.certified is not None or method.certify is None or over:
        return motion.certified
    try:
        return method.certify(problem, size)
    except CaromError:
        return False


def _counted(method: Method, motion: Motion, clock, fixed) -> dict:
    """Work: steps, evaluations of the force, and the CPU time beyond that of any call [s]."""
    steps = len(motion.t) - 1 if motion.steps is None else motion.steps
    asked = motion.evaluations
    if asked is None and method.evaluations is not None:
        asked = round(steps * method.evaluations)
    work = max(clock["cpu"] - fixed, 0.0)
    each = {"fixed": fixed, "work": work, "ns_per_step": work / max(steps, 1) * 1e9}
    return {"steps": steps, "evaluations": asked} | each


def fixed_cost(problem: Problem, method: Method, motion: Motion) -> float:
    """CPU time [s] of a call that moves the problem by next to nothing; 0 with a clock of its own.

    One step, or the coarsest tolerance.
    """
    if motion.cpu is not None:
        return 0.0
    end = problem.t0 + _SHORT * (problem.t1 - problem.t0)
    short = dataclasses.replace(problem, t1=end)
    size = 1 if method.size == "steps" else method.sizes[0]
    try:
        return timed(lambda: method.advance(short, size))[1]["cpu"]
    except Exception:  # a method from outside may not do so little
        return 0.0


def timed(call) -> tuple[Motion, dict]:
    """The result and times [s]: of the first call, which compiles, and the best of others."""
    begin = time.perf_counter()
    motion = call()
    first = time.perf_counter() - begin
    wall = cpu = math.inf
    spent = 0.0
    while spent < _REPEATED:
        begin, work = time.perf_counter(), time.process_time()
        again = call()
        lasted, worked = time.perf_counter() - begin, time.process_time() - work
        spent += lasted
        wall = min(wall, lasted if again.wall is None else again.wall)
        cpu = min(cpu, worked if again.cpu is None else again.cpu)
    return motion, {"first": first, "wall": wall, "cpu": cpu}


def _line(row) -> str:
    head = f"{row['problem']:24} {row['method']:16} {row['size_is']} {row['size']:<8g}"
    if row["status"] != "ok":
        return f"{head} {row['status']}"
    return f"{head} error {row['q']:.1e}  {row['cpu'] * 1e3:9.2f} ms"
