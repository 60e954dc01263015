"""Results of the benchmark: rows, a table, orders, a recommendation, a report."""

import json
import math
import os
from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np

from carom.bench.methods import METHODS
from carom.bench.problems import KINDS, TARGETS, TIED
from carom.errors import CaromError


class Results:
    """``rows`` of the benchmark, each a dict; `docs/benchmark.md` says what the entries are.

    Those that are added are written to the file ``path`` too, if there is one.
    """

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

    def best(self, problem: str, target: float, by: str = "CPU time") -> dict[str, float]:
        """Work of the cheapest run of each method with an error within target * scale, in order.

        ``by``: CPU seconds, or evaluations of the force (methods that do not say are left out).
        """
        cheapest = defaultdict(lambda: math.inf)
        for row in self.ok(problem):
            work = row.get("evaluations") if by == "evaluations" else row["cpu"]
            if work is not None and row["q"] <= target * row["scale"]:
                cheapest[row["method"]] = min(cheapest[row["method"]], work)
        return dict(sorted(cheapest.items(), key=lambda item: item[1]))

    def _times(self, problem: str, target: float) -> dict[str, float]:
        """CPU seconds beyond the fixed cost of a call; what is too short to tell counts as that.

        Times measured elsewhere are of another machine: they are left out.
        """
        least, found = self._shortest, defaultdict(lambda: math.inf)
        for row in self._here(problem):
            if row["q"] <= target * row["scale"]:
                work = max(row.get("work", row["cpu"]), least)
                found[row["method"]] = min(found[row["method"]], work)
        return dict(found)

    def _here(self, problem: str | None = None) -> list[dict]:
        return [row for row in self.ok(problem) if not row.get("elsewhere")]

    @property
    def _shortest(self) -> float:
        """Twice the fixed cost of a call [s], its median over all problems and methods.

        Work is the difference of two times that are both measured.  On a busy machine a fixed cost
        comes out up to three times as long, so none is used alone, and a difference that is smaller
        than both is noise.
        """
        costs = {(r["problem"], r["method"]): r.get("fixed", 0.0) for r in self._here()}
        return 2.0 * float(np.median(list(costs.values()))) if costs else 0.0

    def recommendations(self) -> list["Advice"]:
        """For each kind of problem and each target, what takes the least work most often."""
        kinds = {row["problem"]: row["kind"] for row in self.rows}
        found = []
        for kind in KINDS:
            problems = [p for p in self.problems if kinds[p] == kind]
            for target in TARGETS:
                counts = [self.best(p, target, by="evaluations") for p in problems]
                times = [self._times(p, target) for p in problems]
                by = _verdict(counts, "evaluations"), _verdict(times, "CPU time")
                if by[0] or by[1]:
                    found.append(Advice(kind, target, *by, self._unjudged(problems, target)))
        return found

    def _unjudged(self, problems, target) -> tuple[str, ...]:
        """Methods that were not run, or not to the end, on some of these problems and missed."""
        found = []
        for method in self.methods:
            for problem in problems:
                rows = [r for r in self.rows if (r["problem"], r["method"]) == (problem, method)]
                stopped = not rows or any(r["status"].startswith("stopped") for r in rows)
                if stopped and method not in self.best(problem, target):
                    found.append(method)
                    break
        return tuple(found)

    def beside(self, path: str | os.PathLike, label: str | None = None) -> "Results":
        """These results and those of a file measured elsewhere, their methods marked by a label.

        They are compared by evaluations and errors; times of another machine are shown, not judged.
        """
        label = os.path.splitext(os.path.basename(path))[0] if label is None else label
        others = [
            {**row, "method": f"{row['method']} [{label}]", "elsewhere": label}
            for row in load(path).rows
        ]
        return Results(self.rows + others)

    def table(self) -> str:
        """Cheapest run of each method for each problem and target, as plain text."""
        lines = [
            f"{'problem':24} {'error':>7}  evaluations of the force, and CPU time with the fixed "
            "cost of a call, of the methods that reach it"
        ]
        for problem in self.problems:
            for target in TARGETS:
                times = self.best(problem, target)
                counts = self.best(problem, target, by="evaluations")
                order = [*counts, *(m for m in times if m not in counts)]
                entries = "  ".join(f"{m} {_count(counts.get(m))}{_time(times[m])}" for m in order)
                lines.append(f"{problem:24} {target:7.0e}  {entries or 'none'}")
        lines += ["", *(str(advice) for advice in self.recommendations())]
        return "\n".join([*lines, self.not_run()])

    def not_run(self) -> str:
        """Which methods of carom nothing is said of."""
        missing = [name for name in METHODS if name not in self.methods]
        return f"Not run, so nothing is said of: {', '.join(missing)}" if missing else ""

    def report(self, path: str | os.PathLike) -> None:
        """An HTML page with everything, that opens offline."""
        from carom.bench.report import write

        write(self, path)


def load(path: str | os.PathLike) -> Results:
    """Results from the file ``path``; a last line that was cut off is dropped."""
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
class Verdict:
    """What takes the least work, by one measure of it: methods that are tied, and how often."""

    by: str  # one of TIED
    methods: tuple[str, ...]  # in the order of the alphabet where there are several
    wins: int  # problems where each of them is within the factor of the least
    problems: int  # problems where some method reaches the target

    def __str__(self) -> str:
        tie = f" (a tie: within {TIED[self.by]:g} times)" if len(self.methods) > 1 else ""
        return f"{' = '.join(self.methods)} in {self.wins} of {self.problems}{tie}"


@dataclass(frozen=True)
class Advice:
    """Which method for which kind of problem, and the numbers behind it."""

    kind: str
    target: float
    counted: Verdict | None  # None where no method says how often it asks for the force
    timed: Verdict | None
    unjudged: tuple[str, ...]  # not run far enough to say whether they would get there

    def __str__(self) -> str:
        parts = [f"by {v.by} {v}" for v in (self.counted, self.timed) if v]
        if self.unjudged:
            parts.append(f"not run far enough: {', '.join(self.unjudged)}")
        return f"{KINDS[self.kind]}, error {self.target:.0e}: {'; '.join(parts)}"


def _verdict(races, by: str) -> Verdict | None:
    """The methods that are within the factor of the least in the most problems."""
    races = [race for race in races if race]
    if not races:
        return None
    wins = Counter()
    for race in races:
        least = min(race.values())
        wins.update(m for m, work in race.items() if work <= TIED[by] * least)
    most = max(wins.values())
    return Verdict(by, tuple(sorted(m for m in wins if wins[m] == most)), most, len(races))


def _count(evaluations) -> str:
    return "" if evaluations is None else f"{evaluations} "


def _time(seconds):
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"
