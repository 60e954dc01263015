"""The elastic bar (P11): what each method makes of it, and the cost of large sparse matrices.

    python benchmarks/bar.py [--quick] [--only b]

(a) a bar thrown at the floor: duration and pressure of the contact, 400 elements.
(b) a bar dropped: ten periods of 16/3, error of the end that touches, energy lost per bounce, for
    each method; then for one of them with more and more elements.
(c) 1000 elements, 10^5 steps, consistent mass: the matrices stay sparse.
(d) thrown, with steps that resolve the highest frequency and steps that do not: what is left of the
    energy, and MoreauJean beside the explicit schemes.
"""

import argparse
import math
import time

import numpy as np

import carom
from carom import models

SCHEMES = (carom.Moreau(), carom.Maury(), carom.PaoliSchatzman())
OWN_STEPS = (carom.EventDriven(rtol=1e-8, atol=1e-10), carom.Penalty(lam=1e-5))
PERIOD = 16 / 3  # two bounces: contact on [1, 5/3] and [11/3, 13/3]


def solved(problem, scheme, dt, **options):
    """The solution and the CPU time of a second, compiled call [s]."""
    arguments = (problem.system, scheme, problem.q0, problem.v0)
    options = {"t1": problem.t1, "dt": dt, **options}
    carom.solve(*arguments, **options)
    begin = time.process_time()
    sol = carom.solve(*arguments, **options)
    return sol, time.process_time() - begin


def name(scheme):
    return type(scheme).__name__


def thrown(elements):
    print(f"\n(a) thrown, {elements} elements; exact: duration {2 / 3:.4f}, pressure 300")
    print(f"{'':16} {'mass':10} {'duration':>9} {'pressure':>9} {'error of u':>11} {'CPU [s]':>8}")
    for lumped in (False, True):
        problem = models.elastic_bar(elements=elements, lumped=lumped)
        for scheme in SCHEMES:
            sol, cpu = solved(problem, scheme, 1 / problem.frequency)
            on = np.flatnonzero(sol.impulse[:, 0] > 0.0)
            duration = sol.t[on[-1]] - sol.t[on[0]]
            pressure = np.sum(sol.impulse) / duration
            error = np.max(np.abs(sol.q - problem.exact(sol.t)[0]))
            mass = "lumped" if lumped else "consistent"
            print(
                f"{name(scheme):16} {mass:10} {duration:9.4f} {pressure:9.2f} {error:11.2e} "
                f"{cpu:8.2f}"
            )


def energy(problem, q, v):
    """Kinetic, elastic and potential energy (n,)."""
    system = problem.system
    stiffness, weight = system.force.stiffness, np.asarray(system.force.weight)
    apply = np.stack([np.asarray(system.mass.apply(x)) for x in v])
    strain = np.stack([np.asarray(stiffness @ x) for x in q])
    return np.sum(v * apply + q * strain, axis=1) / 2 + q @ weight


def bounces(problem, scheme, periods):
    """Error of u(0) in the first period and over all, energy lost, relative, in the first bounce
    and on average, and CPU time [s]."""
    n = math.ceil(PERIOD * problem.frequency) if scheme in SCHEMES else 250  # records a period
    every = max(1, n // 500)
    n = every * math.ceil(n / every)
    sol, cpu = solved(problem, scheme, PERIOD / n, record=carom.Record(every=every))
    off = np.abs(sol.q[:, 0] - problem.exact(sol.t)[0][:, 0])
    at = [0, np.searchsorted(sol.t, PERIOD / 2), -1]
    start, after, end = energy(problem, sol.q[at], sol.v[at]) / (10.0 * 10.0 * 5.0)  # m g height
    first = np.max(off[sol.t <= PERIOD])
    return first, np.max(off), start - after, (start - end) / (2 * periods), cpu


def dropped(elements, periods, schemes):
    """The bar dropped from 5 under g = 10; what one impact of the contact node must cost."""
    print(f"\n(b) dropped, {periods} periods (two bounces each); energy relative to m g height")
    print(
        f"{'':16} {'mass':10} {'elements':>8} {'error of u(0):':>14} {'':10} {'lost:':>10} {'':10} "
        f"{'node':>9} {'CPU [s]':>8}"
    )
    print(
        f"{'':36} {'1 period':>14} {f'{periods} periods':>10} {'1st bounce':>10} {'each':>10} "
        f"{'1st impact':>10}"
    )
    for lumped in (False, True):
        for n in elements:
            problem = models.elastic_bar(
                elements=n, lumped=lumped, speed=0.0, g=10.0, t1=PERIOD * periods
            )
            node = 1 / (2 * n) if lumped else 1 / (2 * math.sqrt(3) * n)
            for scheme in schemes:
                found = bounces(problem, scheme, periods)
                mass = "lumped" if lumped else "consistent"
                print(
                    f"{name(scheme):16} {mass:10} {n:8} {found[0]:14.3f} {found[1]:10.3f} "
                    f"{found[2]:10.2%} {found[3]:10.2%} {node:10.2%} {found[4]:8.2f}",
                    flush=True,
                )


def large(steps):
    problem = models.elastic_bar(elements=1000)
    dt = 0.5 / problem.frequency
    span = steps * dt
    arguments = (problem.system, carom.Moreau(), problem.q0, problem.v0)
    final = carom.Record(final=True)
    carom.solve(*arguments, t1=10 * dt, dt=dt, record=final)
    begin = time.perf_counter()
    sol = carom.solve(*arguments, t1=span, dt=dt, record=final)
    took = time.perf_counter() - begin
    print(
        f"\n(c) 1000 elements, consistent mass, {steps:,} steps: {took:.1f} s, "
        f"{took / steps * 1e6:.0f} us a step; {sol.stats.steps} steps done"
    )


def coarse(elements):
    print(f"\n(d) thrown, {elements} elements, consistent mass; change of the energy, error of u")
    problem = models.elastic_bar(elements=elements, lumped=False)
    for scheme in (*SCHEMES, carom.MoreauJean(), carom.MoreauJean(theta=1.0)):
        for part in (1, 8):
            dt = part / problem.frequency
            sol, _ = solved(problem, scheme, dt, throw=False)
            total = energy(problem, sol.q, sol.v)
            error = np.max(np.abs(sol.q - problem.exact(sol.t)[0]))
            theta = f" {float(scheme.theta):g}" if isinstance(scheme, carom.MoreauJean) else ""
            change = total[-1] / total[0] - 1
            print(f"{name(scheme) + theta:16} h = {part}/omega {change:+11.2e} {error:11.2e}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", help="such as b, or ac")
    options = parser.parse_args()
    quick = options.quick
    only = options.only or "abcd"
    if "a" in only:
        thrown(100 if quick else 400)
    if "b" in only:
        periods = 2 if quick else 10
        dropped([20], periods, SCHEMES + OWN_STEPS)
        dropped([20, 40] if quick else [25, 50, 100, 200, 400], periods, SCHEMES[:1])
    if "c" in only:
        large(10_000 if quick else 100_000)
    if "d" in only:
        coarse(40)


if __name__ == "__main__":
    main()
