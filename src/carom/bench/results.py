"""Results of the benchmark: rows, a table, orders, a recommendation, a report."""

import json
import math
import os
from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np

from carom.bench.problems import KINDS
from carom.errors import CaromError

TARGETS = (1e-2, 1e-4, 1e-8)  # errors of q relative to the motion, for which methods are compared


class Results:
    """Rows of the benchmark, each a dict; `docs/benchmark.md` says what the entries are."""

    def __init__(self, rows: list[dict], path: str | os.PathLike | None = None):
        self.rows, self.path = rows, path
        self._keys = {_key(row) for row in rows}

    def __contains__(self, key) -> bool:
        return key in self._keys

    def __len__(self) -> int:
        return len(self.rows)

    def add(self, row: dict) -> None:
        """Keep a row, in the file too."""
        self.rows.append(row)
        self._keys.add(_key(row))
        if self.path is not None:
            with open(self.path, "a") as file:
                file.write(json.dumps(row) + "\n")

    def ok(self, problem: str | None = None, method: str | None = None) -> list[dict]:
        """Rows that have errors, of one problem, of one method."""
        return [
            row
            for row in self.rows
            if row["status"] == "ok"
            and problem in (None, row["problem"])
            and method in (None, row["method"])
        ]

    @property
    def problems(self) -> list[str]:
        return list(dict.fromkeys(row["problem"] for row in self.rows))

    @property
    def methods(self) -> list[str]:
        return list(dict.fromkeys(row["method"] for row in self.rows))

    def orders(self) -> list["Order"]:
        """Measured orders of q and v: the median slope over pairs of sizes."""
        found = []
        for problem in self.problems:
            for method in self.methods:
                rows = self.ok(problem, method)
                if len({row["size"] for row in rows}) >= 3:
                    found.append(_order(problem, method, rows))
        return found

    def best(self, problem: str, target: float) -> dict[str, float]:
        """CPU seconds of the cheapest run of each method with an error within target * scale."""
        cheapest = defaultdict(lambda: math.inf)
        for row in self.ok(problem):
            if row["q"] <= target * row["scale"]:
                cheapest[row["method"]] = min(cheapest[row["method"]], row["cpu"])
        return dict(sorted(cheapest.items(), key=lambda item: item[1]))

    def recommendations(self) -> list["Advice"]:
        """For each kind of problem and each target, the method that is cheapest most often."""
        kinds = {row["problem"]: row["kind"] for row in self.rows}
        found = []
        for kind in KINDS:
            problems = [p for p in self.problems if kinds[p] == kind]
            for target in TARGETS:
                races = {p: self.best(p, target) for p in problems}
                races = {p: race for p, race in races.items() if race}
                if races:
                    found.append(_advice(kind, target, races))
        return found

    def table(self) -> str:
        """Cheapest run of each method for each problem and target, as plain text."""
        lines = [
            f"{'problem':24} {'error':>7}  CPU time of the methods that reach it, cheapest first"
        ]
        for problem in self.problems:
            for target in TARGETS:
                race = self.best(problem, target)
                entries = "  ".join(f"{m} {_time(s)}" for m, s in race.items())
                lines.append(f"{problem:24} {target:7.0e}  {entries or 'none'}")
        lines += ["", *(str(advice) for advice in self.recommendations())]
        return "\n".join(lines)

    def report(self, path: str | os.PathLike) -> None:
        """An HTML page with everything, that opens offline."""
        from carom.bench.report import write

        write(self, path)


def load(path: str | os.PathLike) -> Results:
    """Results from a file; a last line that was cut off is dropped."""
    rows = []
    with open(path) as file:
        for line in file:
            try:
                rows.append(json.loads(line))
            except json.JSONDecodeError:
                if line.endswith("\n"):
                    raise CaromError(f"{path} is not a results file: {line[:60]!r}") from None
    if rows and any("problem" not in row for row in rows):
        raise CaromError(f"{path} is not a results file")
    results = Results(rows, path)
    _mend(results)
    return results


def _mend(results):
    """A file that ends in the middle of a line is written anew."""
    with open(results.path, "rb") as file:
        text = file.read()
    if text and not text.endswith(b"\n"):
        with open(results.path, "w") as file:
            file.writelines(json.dumps(row) + "\n" for row in results.rows)


def _key(row):
    return row["problem"], row["method"], row["size"]


@dataclass(frozen=True)
class Order:
    """A measured order in 1 / steps, or in the tolerance; None where errors are at rounding."""

    problem: str
    method: str
    declared: float | None
    q: float | None
    v: float | None


def _order(problem, method, rows):
    unit = -1.0 if rows[0]["size_is"] == "steps" else 1.0
    x = unit * np.log([row["size"] for row in rows])
    q, v = (_slope(x, np.array([row[what] for row in rows])) for what in ("q", "v"))
    return Order(problem, method, rows[0]["declared"], q, v)


def _slope(x, errors):
    above = errors > 1e-11  # rounding has no order
    if np.count_nonzero(above) < 3:
        return None
    x, y = x[above], np.log(errors[above])
    i, j = np.triu_indices(len(x), 1)
    return float(np.median((y[i] - y[j]) / (x[i] - x[j])))


@dataclass(frozen=True)
class Advice:
    """Which method for which kind of problem, and the numbers behind it."""

    kind: str
    target: float
    method: str
    wins: int  # problems where it is the cheapest
    problems: int  # problems where some method reaches the target
    worst: float  # largest CPU time relative to the cheapest; inf where it does not reach it
    runner_up: str | None

    def __str__(self) -> str:
        reach = "" if math.isfinite(self.worst) else "; it does not get there in all of them"
        slow = (
            f", at worst {self.worst:.1f} times the cheapest"
            if 1.05 < self.worst < math.inf
            else ""
        )
        second = f" (next: {self.runner_up})" if self.runner_up else ""
        return (
            f"{KINDS[self.kind]}, error {self.target:.0e}: {self.method}{second}, cheapest in "
            f"{self.wins} of {self.problems}{slow}{reach}"
        )


def _advice(kind, target, races):
    wins = Counter(next(iter(race)) for race in races.values())
    methods = {m for race in races.values() for m in race}

    def ratio(method):  # mean cost relative to the cheapest; missing a target counts as 100
        logs = [
            math.log(min(race.get(method, math.inf) / min(race.values()), 100.0))
            for race in races.values()
        ]
        return sum(logs) / len(logs)

    ranked = sorted(methods, key=lambda m: (-wins[m], ratio(m), m))
    best = ranked[0]
    worst = max(race.get(best, math.inf) / min(race.values()) for race in races.values())
    return Advice(
        kind, target, best, wins[best], len(races), worst, ranked[1] if len(ranked) > 1 else None
    )


def _time(seconds):
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"
