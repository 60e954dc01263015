"""The elastic bar (P11): what each method makes of it, and the cost of large sparse matrices.

    python benchmarks/bar.py [--quick]

(a) a bar thrown at the floor: duration and pressure of the contact, 400 elements.
(b) a bar dropped: ten periods of 16/3, error of the end that touches, energy lost per bounce.
(c) 1000 elements, 10^5 steps, consistent mass: the matrices stay sparse.
"""

import argparse
import time

import numpy as np

import carom
from carom import models

SCHEMES = (carom.Moreau(), carom.Maury(), carom.PaoliSchatzman())


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


def dropped(elements, periods, schemes):
    """Ten periods hold twenty bounces."""
    span = 16 / 3 * periods
    print(f"\n(b) dropped, {elements} elements, {periods} periods (two bounces each)")
    print(
        f"{'':16} {'mass':10} {'error of u(0)':>13} {'energy lost per bounce':>23} {'CPU [s]':>8}"
    )
    for lumped in (False, True):
        problem = models.elastic_bar(elements=elements, lumped=lumped, speed=0.0, g=10.0, t1=span)
        for scheme, spacing in schemes:
            dt = 1 / problem.frequency if spacing is None else spacing
            every = max(1, round(span / dt / 4000))
            sol, cpu = solved(problem, scheme, dt, record=carom.Record(every=every))
            error = np.max(np.abs(sol.q[:, 0] - problem.exact(sol.t)[0][:, 0]))
            ends = energy(problem, np.stack([sol.q[0], sol.q[-1]]), np.stack([sol.v[0], sol.v[-1]]))
            fall = 10.0 * 10.0 * 5.0  # g m height, the energy that moves
            lost = (ends[0] - ends[1]) / fall / (2 * periods)
            mass = "lumped" if lumped else "consistent"
            print(f"{name(scheme):16} {mass:10} {error:13.2e} {lost:23.2e} {cpu:8.2f}")


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


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    thrown(100 if quick else 400)
    steppers = [(scheme, None) for scheme in SCHEMES]
    dropped(50 if quick else 100, 2 if quick else 10, steppers)
    slow = [(carom.EventDriven(rtol=1e-6, atol=1e-8), 0.02), (carom.Penalty(lam=1e-5), 0.02)]
    dropped(20, 2 if quick else 10, steppers + slow)
    large(10_000 if quick else 100_000)


if __name__ == "__main__":
    main()
