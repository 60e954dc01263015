"""How an order is measured, and the table that declares it.

``python tests/convergence.py`` prints the measured orders as the table of docs/orders.md, and with
``--write`` puts them there.

The error of a first-order scheme is a constant times dt, and the constant depends on where in a
step the impacts fall: neighbouring step sizes scatter by a factor of ten.  So an order is the
median slope over all pairs of some eighty runs, at prime numbers of steps spread evenly in the
logarithm over a factor of 64.  Measured are sup |q| over the steps and the L1 norm of v in time.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import carom
from carom import models

RUNS = 81
COARSEST, FACTOR = 1500, 64  # numbers of steps: from the coarsest to FACTOR times as many
_INSIDE = 2  # points of each step at which v, constant there, is compared with the exact one

EXACT = "exact"  # errors at rounding, at every dt


@dataclass(frozen=True)
class Case:
    """A problem, and the order of sup |q| declared for each scheme (1 unless said)."""

    problem: models.Problem
    order: dict
    coarsest: int  # number of steps from which the error is in proportion to dt


SCHEMES = {
    "Moreau": carom.Moreau(),
    "Maury": carom.Maury(),
    "PaoliSchatzman": carom.PaoliSchatzman(),
}


def _case(problem, coarsest=COARSEST, **order):
    return Case(problem, {name: order.get(name, 1) for name in SCHEMES}, coarsest)


def cases() -> dict[str, Case]:
    """The table: P1, P2, P4 to P10 of the benchmark, through accumulation points in P1 and P5."""
    return {
        # PaoliSchatzman integrates parabolas exactly and lands exactly on a floor at rest.
        "P1 ball, e = 0": _case(models.bouncing_ball(e=0.0), PaoliSchatzman=EXACT),
        "P1 ball, e = 0.5": _case(models.bouncing_ball(e=0.5)),
        "P1 ball, e = 0.8": _case(models.bouncing_ball(e=0.8), 6000),
        "P1 ball, e = 1": _case(models.bouncing_ball(e=1.0), 6000),
        "P2 stopped oscillator": _case(models.stopped_oscillator()),
        "P3 impact oscillator": _case(models.impact_oscillator()),
        "P4 resonance, e = 1": _case(models.resonance(e=1.0)),
        "P4 resonance, e = 0.5": _case(models.resonance(e=0.5)),
        "P5 in a disc, e = 0.5": _case(models.disc(e=0.5)),
        # Its square comes back to where it began: at coarser steps rounding decides which step
        # strikes.
        "P5 in a disc, e = 1": _case(models.disc(e=1.0), 4500),
        "P5 in a disc, polar": _case(models.disc_polar(e=0.5)),
        "P5 outside a disc": _case(models.outside_disc(e=1.0)),
        "P5 wedge": _case(models.wedge()),
        # Leaving a contact is smooth: the two schemes that are symplectic Euler or leapfrog in
        # free flight keep their second order through it.
        "P6 lift-off": _case(models.lift_off(), Moreau=2, PaoliSchatzman=2),
        "P7 line, polar": _case(models.line_polar()),
        "P8 vibrating table, e = 0.5": _case(models.vibrating_table(e=0.5)),
        "P8 vibrating table, e = 0": _case(
            models.vibrating_table(e=0.0), Maury=2, PaoliSchatzman=2
        ),
        "P9 row, touching": _case(models.row_of_balls()),
        "P9 row, with gaps": _case(models.row_of_balls(spacing=0.3)),
        "P10 stack at rest": _case(models.stack(), Moreau=EXACT, Maury=EXACT, PaoliSchatzman=EXACT),
        "P10 stack, dropped": _case(models.stack(height=0.5), PaoliSchatzman=EXACT),
    }


@dataclass(frozen=True)
class Orders:
    """Measured orders, and the errors of the runs they come from."""

    q: float
    v: float
    steps: np.ndarray
    q_errors: np.ndarray
    v_errors: np.ndarray


def orders(case: Case, scheme) -> Orders:
    """The measured orders of sup |q| and of L1 of v."""
    spread = case.coarsest * FACTOR ** (np.arange(RUNS) / (RUNS - 1))
    steps = np.array([_prime_from(int(n)) for n in spread])
    found = np.array([errors(case.problem, scheme, n) for n in steps])
    return Orders(*(_slope(steps, e) for e in found.T), steps, found[:, 0], found[:, 1])


def errors(problem: models.Problem, scheme, steps: int) -> tuple[float, float]:
    """(sup |q|, L1 of v) over one run."""
    dt = (problem.t1 - problem.t0) / steps
    sol = carom.solve(
        problem.system, scheme, problem.q0, problem.v0, t0=problem.t0, t1=problem.t1, dt=dt
    )
    q_error = np.max(np.abs(sol.q - problem.exact(sol.t)[0]))
    inside = (np.arange(_INSIDE) + 0.5) / _INSIDE
    t = (sol.t[:-1, None] + inside * dt).ravel()
    v_error = np.abs(np.repeat(sol.v[:-1], _INSIDE, axis=0) - problem.exact(t)[1]).sum(axis=1)
    return q_error, v_error.sum() * dt / _INSIDE


def _prime_from(n):
    while any(n % k == 0 for k in range(2, int(n**0.5) + 1)):
        n += 1
    return n


def _slope(steps, errors):
    """Median over all pairs of runs (Theil and Sen)."""
    x, y = -np.log(steps.astype(float)), np.log(np.maximum(errors, 1e-300))
    i, j = np.triu_indices(len(x), 1)
    return float(np.median((y[i] - y[j]) / (x[i] - x[j])))


PAGE = Path(__file__).parents[1] / "docs" / "orders.md"
_HEAD = "| problem | scheme | declared | sup q | L1 v | sup q error, coarsest to finest |"


def row(title: str, name: str, case: Case, found: Orders) -> str:
    """A line of the table."""
    declared = case.order[name]
    q = "" if declared == EXACT else f"{found.q:.2f}"
    v = "" if found.v_errors[0] < 1e-9 else f"{found.v:.2f}"
    span = f"{found.q_errors[0]:.1e} to {found.q_errors[-1]:.1e}"
    return f"| {title} | {name} | {declared} | {q} | {v} | {span} |"


def with_table(page: str, lines: list[str]) -> str:
    """The page with its table, which is the end of it, replaced."""
    return (
        page[: page.index(_HEAD)] + "\n".join([_HEAD, "|---|---|---|---|---|---|", *lines]) + "\n"
    )


def main():
    """Print the table of measured orders."""
    print(_HEAD)
    lines = []
    for title, case in cases().items():
        for name, scheme in SCHEMES.items():
            lines.append(row(title, name, case, orders(case, scheme)))
            print(lines[-1], flush=True)
    if "--write" in sys.argv[1:]:
        PAGE.write_text(with_table(PAGE.read_text(), lines))


if __name__ == "__main__":
    main()
