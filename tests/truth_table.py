"""The truth table of certificates: runs with a known true error, and what is said of them.

``python tests/truth_table.py [models]`` prints each run and the confusion matrix.  The true error
is the largest distance of q from the exact motion over the records, in the kinetic norm, over the
size of the motion (its largest distance from its mean), both as in docs/certificate.md.

    good     true error below 5 %           must not be refused
    between  5 % to 30 %                    any answer
    bad      above 30 %, or tampered with   must not be accepted
"""

import sys
from collections import Counter
from itertools import chain
from types import SimpleNamespace

import equinox as eqx
import numpy as np

import carom
from blocks import drawn
from carom.certificates.certificate import Verdict
from carom.certificates.certify import certify, certify_arrays
from carom.certificates.measured import Measured, Options
from certified import ACCEPTED, SCHEMES, schemes_for, solved

GOOD, BAD = 0.05, 0.3
STEPS = (3, 11, 41, 149, 557, 2003)  # from absurd to fine
MODELS = (
    "ball", "ball e=0", "stopped oscillator", "impact oscillator", "resonance", "disc", "disc e=0",
    "outside disc", "wedge", "lift-off", "line polar", "table", "table e=0", "row", "stack dropped",
    "wall", "cam", "friction", "cradle", "cradle with gaps",
)  # fmt: skip


class Row:
    """One run, the truth, and what was said."""

    def __init__(self, problem, title, how, motion, certificate, tampered=False):
        self.title, self.how, self.certificate = title, how, certificate
        t, q, v, impulse, *friction = (np.asarray(x, float) for x in motion)
        beside = friction[0] if friction else np.zeros((len(t), 0))
        m = Measured(problem.system, (t, q, v, impulse, beside), Options("", None, None, 1e-12))
        exact = problem.exact(np.clip(t, problem.t0, problem.t1))[0]
        with np.errstate(all="ignore"):
            off = np.max(m.norm.velocity(q - exact)) / m.length
        self.true = off if np.isfinite(off) else np.inf
        self.truth = (
            "bad" if tampered or self.true > BAD else "good" if self.true < GOOD else "between"
        )

    def __str__(self):
        c = self.certificate
        return (
            f"{self.title:20s} {self.how:32s} true {self.true:8.1e}  stated {c.relative:8.1e}  "
            f"{self.truth:8s} {c.verdict}"
        )


def runs(title, steps=STEPS, schemes=None):
    """Every scheme at every number of steps, and a tampered copy of the finer ones."""
    problem = ACCEPTED[title]()
    for name, scheme in schemes_for(problem).items():
        if schemes is not None and name not in schemes:
            continue
        for n in steps:
            try:
                sol = solved(problem, scheme, n)
            except carom.CaromError:
                continue  # the run itself said no
            motion = sol.t, sol.q, sol.v, sol.impulse
            if not all(np.all(np.isfinite(x)) for x in motion):
                continue
            found = certify(sol, q0=problem.q0, v0=problem.v0)
            yield Row(problem, title, f"{name}, {n} steps", motion, found)
            if n >= 557 and name in ("Moreau", "Maury", "PaoliSchatzman"):
                yield from tampered(problem, title, f"{name}, {n}", motion)


def tampered(problem, title, how, motion):
    """Wrong all the time: q from a motion that is faster, or impulses that pull."""
    t, q, v, impulse = (np.asarray(x, float) for x in motion)
    faster = t, q, 1.5 * v, impulse
    yield Row(
        problem, title, f"{how}, v times 1.5", faster, certify_arrays(problem.system, *faster), True
    )
    if np.any(impulse > 0.0):
        pulled = t, q, v, -impulse
        yield Row(
            problem, title, f"{how}, pulled", pulled, certify_arrays(problem.system, *pulled), True
        )


def with_friction(count=30, seed=0, steps=(3, 11, 41, 149, 557)):
    """Blocks drawn at random, by both schemes that know friction; every third with too little."""
    rng = np.random.default_rng(seed)
    for k in range(count):
        problem = drawn(rng)
        for name in ("Moreau", "Maury"):
            for n in steps:
                sol = solved(problem, SCHEMES[name], n)
                motion = sol.t, sol.q, sol.v, sol.impulse, sol.friction
                found = certify(sol, q0=problem.q0, v0=problem.v0)
                yield Row(problem, problem.name, f"{name}, {n} steps", motion, found)
            other = problem.system.friction * 0.6
            less = eqx.tree_at(lambda s: s.friction, problem.system, other)
            sol = solved(SimpleNamespace(**{**vars(problem), "system": less}), SCHEMES[name], 557)
            slides = (np.abs(sol.friction[:, 0]) > 0.0) & (np.abs(sol.v[:, 0]) > 1e-3)
            if k % 3 == 0 and np.any(slides):  # what sticks all the time may do with less
                motion = sol.t, sol.q, sol.v, sol.impulse, sol.friction
                found = certify_arrays(problem.system, *motion[:4], friction=motion[4])
                yield Row(problem, problem.name, f"{name}, 557, 0.6 mu", motion, found, True)


def matrix(rows):
    """Counts by truth and verdict."""
    return {
        truth: Counter(r.certificate.verdict for r in rows if r.truth == truth)
        for truth in ("good", "between", "bad")
    }


def wrong(rows):
    """Bad and accepted, or good and refused."""
    forbidden = {("bad", Verdict.SOLUTION), ("good", Verdict.NOT)}
    return [r for r in rows if (r.truth, r.certificate.verdict) in forbidden]


def understated(rows):
    """The largest true error over the stated one, of accepted runs above rounding."""
    kept = [r for r in rows if r.certificate.ok and r.true > 1e-6]
    return max((r.true / r.certificate.relative for r in kept), default=0.0)


def main(titles):
    rows = []
    friction = with_friction() if "friction" in titles else ()
    for row in chain(*(runs(title) for title in titles if title != "friction"), friction):
        rows.append(row)
        print(row, flush=True)
    print(f"\n{len(rows)} runs")
    print(f"{'':10s}" + "".join(f"{a:>22s}" for a in Verdict))
    for truth, counts in matrix(rows).items():
        print(f"{truth:10s}" + "".join(f"{counts[a]:22d}" for a in Verdict))
    print(f"true error over stated error, accepted runs: at most {understated(rows):.2f}")
    for row in wrong(rows):
        print("WRONG", row)
    return bool(wrong(rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or MODELS))
