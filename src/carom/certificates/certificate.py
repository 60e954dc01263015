"""The certificate: its clauses, and how they are printed and drawn."""

import math
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from carom.shown import Shown, table_html


@dataclass(frozen=True)
class Clause:
    """One line of a certificate."""

    name: str
    formula: str  # what the definition asks
    bound: str  # what is allowed, as a formula; symbols in docs/certificate.md
    value: float  # size of the violation, where it is largest beside what is allowed
    allowed: float  # there
    time: float  # there
    ok: bool | None  # None: not checked, and ``note`` says why
    note: str = ""
    t: np.ndarray = field(default_factory=lambda: np.zeros(0), repr=False)
    ratio: np.ndarray = field(default_factory=lambda: np.zeros(0), repr=False)  # value / allowed


class Verdict(StrEnum):
    """The answers of a certificate."""

    SOLUTION = "a solution"
    NOT = "NOT a solution"
    COARSE = "too coarse to tell"
    OPEN = "not fully checked"


@dataclass(frozen=True, repr=False)
class Certificate(Shown):
    """What was checked.  ``certificate["impact law"]`` is one clause; print it for the table.

    ``error`` is the estimated error of q in its own units, the largest over coordinates and times;
    ``relative`` the same in the kinetic norm, over the size of the motion (NaN: not estimated).
    ``dt`` is the step that would tell, where this one does not (NaN: not known, or not needed).
    """

    title: str  # what was certified
    clauses: tuple[Clause, ...]  # the lines of the table
    error: float = float("nan")  # of q, in its own units
    relative: float = float("nan")  # of the motion, in its size
    dt: float = float("nan")  # the step that would tell [s]
    coarse: bool = False  # what is allowed, or estimated, is not small beside the motion

    @property
    def verdict(self) -> Verdict:
        """NOT where a clause fails; COARSE where none does, but the error is not small enough."""
        found = [clause.ok for clause in self.clauses]
        if False in found:
            return Verdict.NOT
        if self.coarse:
            return Verdict.COARSE
        return Verdict.OPEN if None in found else Verdict.SOLUTION

    @property
    def ok(self) -> bool | None:
        """Whether it is a solution to within ``error``; None where that cannot be told."""
        return {Verdict.SOLUTION: True, Verdict.NOT: False}.get(self.verdict)

    def __getitem__(self, name: str) -> Clause:
        for clause in self.clauses:
            if clause.name == name:
                return clause
        raise KeyError(f"{name!r} is not a clause; there are {[c.name for c in self.clauses]}")

    def __str__(self) -> str:
        rows = [_HEADER, *(_cells(c) for c in self.clauses)]
        width = [max(len(r[i]) for r in rows) for i in range(len(_HEADER))]
        lines = [
            "  ".join(c.ljust(w) for c, w in zip(r, width, strict=True)).rstrip() for r in rows
        ]
        return "\n".join([f"{self.title}: {self._verdict()}", *lines])

    def _repr_html_(self) -> str:
        heading = f"{self.title}: {self._verdict()}"
        return table_html(heading, _HEADER, [_cells(c) for c in self.clauses])

    def _verdict(self):
        if self.verdict is Verdict.SOLUTION and math.isfinite(self.error):
            size = f", {self.relative:.1%} of its size" if self.relative >= 5e-4 else ""
            return f"{self.verdict} to within about {self.error:.2g} in q{size}"
        if self.verdict is Verdict.COARSE and math.isfinite(self.dt):
            return f"{self.verdict}; dt = {self.dt:.2g} would"
        return str(self.verdict)

    def plot(self, axes=None):
        """Violation over allowed, clause by clause, against time; on ``axes`` or new ones."""
        import matplotlib.pyplot as plt

        if axes is None:
            _, axes = plt.subplots(figsize=(8, 5), layout="constrained")
        for clause in self.clauses:
            if len(clause.t):
                axes.plot(clause.t, np.maximum(clause.ratio, 1e-6), linewidth=1, label=clause.name)
        axes.axhline(1.0, color="k", linewidth=0.8)
        axes.set(yscale="log", xlabel="time", ylabel="violation / allowed", title=self.title)
        axes.legend(fontsize="small", ncols=2)
        return axes


_NOTHING = 1e-290  # what stands for zero where ratios are taken
_HEADER = ("clause", "formula", "violation", "allowed", "at t", "ok")


def _cells(clause):
    if clause.ok is None:
        return (clause.name, clause.formula, "", "", "", f"not checked: {clause.note}")
    allowed = clause.allowed if clause.allowed > _NOTHING else 0.0
    numbers = (f"{clause.value:.2e}", f"{allowed:.2e}", f"{clause.time:.6g}")
    note = f" ({clause.note})" if clause.note else ""
    return (clause.name, clause.formula, *numbers, ("yes" if clause.ok else "NO") + note)
