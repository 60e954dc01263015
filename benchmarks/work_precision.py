"""Work against error for the five methods on P1, P3 and P5.

    python benchmarks/work_precision.py [--quick] [--json PATH]

Work is the CPU time of a warm call (all threads, best of several) and the number of steps that the
method took inside; the error is sup |q - exact| over the records.

First the bar: P1 with e = 0.9 to T = 10, through the accumulation at 8.579, by event detection,
next to what Siconos' event-driven solver was seen to need for it (not run here).
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import numpy as np

import carom
from carom import models

PROBLEMS = {
    "P1 bouncing ball, e = 0.8, through the accumulation": models.bouncing_ball(e=0.8, t1=5.0),
    "P3 forced impact oscillator": models.impact_oscillator(),
    "P5 in a disc, e = 0.5, accumulation, then sliding": models.disc(e=0.5),
}
STEPS = [1009, 10007, 100003, 1000003]  # primes: impacts do not fall on the grid
RECORDS = 200  # of the methods that choose their own steps
LAMS = [1e-4, 1e-6, 1e-8]
RTOLS = [1e-5, 1e-8, 1e-11]
BAR = models.bouncing_ball(e=0.9, t1=10.0)
SICONOS = (31.0, 3e-12)  # CPU [ms] and sup error of q on BAR, as once seen


def settings():
    """Method, what is varied, scheme, and the number of records."""
    for scheme in (carom.Moreau(), carom.Maury(), carom.PaoliSchatzman()):
        for n in STEPS:
            yield type(scheme).__name__, f"{n} steps", scheme, n
    for lam in LAMS:
        yield "Penalty", f"lam = {lam:g}", carom.Penalty(lam=lam), RECORDS
    for lam in LAMS:
        fixed = carom.Penalty(lam=lam, substeps=1)
        yield "Penalty, fixed", f"lam = {lam:g}, 10007 steps", fixed, 10007
    for rtol in RTOLS:
        scheme = carom.EventDriven(rtol=rtol, atol=rtol / 100)
        yield "EventDriven", f"rtol = {rtol:g}", scheme, RECORDS


def measured(problem, scheme, records, repeats):
    """CPU seconds of each warm call, steps and sup error."""
    dt = (problem.t1 - problem.t0) / records

    def call():
        return carom.solve(
            problem.system, scheme, problem.q0, problem.v0, t0=problem.t0, t1=problem.t1, dt=dt
        )

    sol, spent = call(), []
    for _ in range(repeats):
        begin = time.process_time()
        call()
        spent.append(time.process_time() - begin)
    own = isinstance(scheme, carom.EventDriven | carom.Penalty)
    steps = sol.stats.iterations if own else sol.stats.steps
    error = np.max(np.abs(sol.q - problem.exact(sol.t)[0]))
    return spent, int(steps), float(error)


def bar(repeats):
    """P1, e = 0.9, with the defaults of EventDriven: the median of warm calls."""
    spent, steps, error = measured(BAR, carom.EventDriven(), RECORDS, repeats)
    cpu = statistics.median(spent)
    print("The bar: P1 bouncing ball, e = 0.9, to T = 10, through the accumulation at 8.579")
    print("| method | steps | CPU [ms], warm | sup error of q |\n|---|---|---|---|")
    print(f"| EventDriven, median of {repeats} | {steps} | {cpu * 1e3:.1f} | {error:.1e} |")
    print(
        f"| Siconos, event-driven (not run here) | | {SICONOS[0]:.0f} | {SICONOS[1]:.0e} |",
        flush=True,
    )
    return ["P1, e = 0.9", "EventDriven", "defaults", steps, cpu, error]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer steps: a check, not a figure")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    figures = [bar(5 if options.quick else 21)]
    for title, problem in PROBLEMS.items():
        print(f"\nWork against error: {title}")
        print("| method | setting | steps | CPU [ms] | sup error of q |\n|---|---|---|---|---|")
        for method, setting, scheme, records in settings():
            if options.quick and records > 10007:
                continue
            spent, steps, error = measured(problem, scheme, records, 1 if options.quick else 5)
            cpu = min(spent)
            print(f"| {method} | {setting} | {steps} | {cpu * 1e3:.1f} | {error:.1e} |", flush=True)
            figures.append([title, method, setting, steps, cpu, error])
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
