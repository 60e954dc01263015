"""Spheres at every dt: errors from 1e-2 s down to 1e-7 s, three schemes, default settings.

    python benchmarks/spheres_dt.py [--only row column gas pile flow cost]

row     six touching balls, e = 0, hit by the first at 1 m/s: each leaves at 1/6
column  ten balls of radius 0.5 m at rest: the floor carries their weight, the top stays
gas     elastic balls in a periodic box: the impulse of all collisions (the pressure) against exact
        collision times, and the kinetic energy; at 1e-5 s and below the gaps are 1e-3 radii wide,
        so that there are collisions in the time that so small a step can cover
pile    a small pile at rest: mean force on the floor, and the fastest sphere in units of g dt
flow    the same pile settling anew after its box was tilted by 30 degrees, for 20 ms (20 us at 1e-5
        s and below): positions against Maury at a tenth of the smallest dt, extrapolated to zero,
        in free falls g T^2 / 2
cost    10,000 settled spheres: sweeps and CPU time with both residuals, and with the overlap alone

``slope`` is d log(error) / d log(dt) from the line above; ``sweeps`` those of a step.
"""

import argparse
import math
import time

import numpy as np

import carom
import spheres

DTS = [10.0**-k for k in range(2, 8)]
SCHEMES = [carom.Maury(), carom.Moreau(), carom.PaoliSchatzman()]
SHORT = 5e-5  # s: steps below it are measured over a time of their own, gas and flow
FINAL = carom.Record(final=True)
G = 9.81


def table(title, columns, rows, changes=False):
    """Print rows (scheme, dt, errors, sweeps) with the slope of the first error.

    ``changes``: whether the problem is another one for steps below SHORT.
    """
    print(f"\n{title}")
    names = "".join(f"{name:>22}" for name in columns)
    print(f"{'scheme':>15} {'dt':>7}{names} {'slope':>6} {'sweeps':>7} {'ms/step':>8}")
    last = None
    for scheme in SCHEMES:
        for dt in DTS:
            start = time.process_time()
            errors, steps, sweeps = rows(scheme, dt)
            spent = 1e3 * (time.process_time() - start) / steps
            name = type(scheme).__name__
            slope = ""
            same = last and last[0] == name and not (changes and dt < SHORT < last[1])
            if same and min(abs(errors[0]), abs(last[2])) > 1e-13:
                slope = math.log(abs(last[2] / errors[0])) / math.log(last[1] / dt)
                slope = f"{slope:.1f}"
            last = name, dt, errors[0]
            told = "".join(f"{error:22.2e}" for error in errors)
            print(f"{name:>15} {dt:7.0e}{told} {slope:>6} {sweeps:7.2f} {spent:8.2f}", flush=True)


def sweeps(sol):
    return sol.stats.iterations / max(sol.stats.steps, 1)


def row(scheme, dt):
    """Largest departure of a velocity from 1/6."""
    x, v = np.zeros((6, 3)), np.zeros((6, 3))
    gap = 5e-4 if dt > 5e-7 else 5e-5
    x[:, 0], v[0, 0] = np.arange(6.0), 1.0
    x[0, 0] = -gap
    steps = math.ceil(1.02 * gap / dt) + 4
    sol = carom.solve(carom.Spheres(x, 0.5, v), scheme, t1=steps * dt, dt=dt, record=FINAL)
    return [np.max(np.abs(sol.v[-1, :, 0] - 1 / 6))], steps, sweeps(sol)


def column(scheme, dt, steps=200):
    """Mean force on the floor against the weight, and how far the top has gone [m]."""
    pile = carom.spheres.column(10, 0.5)
    sol = carom.solve(pile, scheme, t1=steps * dt, dt=dt, record=carom.Record(every=1))
    force = -np.mean(sol.wall_force()[1:, 0, 2])
    return [force / (10 * G) - 1, sol.x[-1, -1, 2] - 9.5], steps, sweeps(sol)


def exact_impulse(x, v, r, period, T):
    """Sum of all impulses of elastic spheres of mass 1 until T: from collision to collision."""
    x, v, t, total = x.copy(), v.copy(), 0.0, 0.0
    i, j = np.triu_indices(len(x), 1)
    last = -1
    while True:
        d, w = x[j] - x[i], v[j] - v[i]
        d = d - period * np.rint(d / period)
        b, speed = np.sum(d * w, axis=1), np.sum(w * w, axis=1)
        c = np.sum(d * d, axis=1) - 4 * r * r
        root = b * b - speed * c
        with np.errstate(invalid="ignore", divide="ignore"):
            when = np.where((b < 0) & (root > 0), c / (-b + np.sqrt(root)), np.inf)
        if last >= 0:
            when[last] = np.inf if b[last] >= 0 else when[last]
        last = int(np.argmin(when))
        if t + when[last] > T:
            return total
        t, x = t + when[last], x + when[last] * v
        d = x[j[last]] - x[i[last]]
        n = d - period * np.rint(d / period)
        n /= np.linalg.norm(n)
        push = -n @ (v[j[last]] - v[i[last]])
        v[i[last]], v[j[last]], total = v[i[last]] - push * n, v[j[last]] + push * n, total + push


def gas(scheme, dt):
    """Impulse of all collisions, and kinetic energy at the end, against exact ones.

    PaoliSchatzman spreads a collision over two steps: the energy is a median of the last records.
    """
    n, r = 4, 0.5
    dense = dt < SHORT
    gap, T = (1e-3 * r, 2e-3) if dense else (0.4 * r, 0.5)
    side, rng = 2 * r + gap, np.random.default_rng(3)
    k = np.arange(n**3)
    x = np.stack([k % n, k // n % n, k // n**2], axis=1) * side
    x = x + 0.45 * gap * rng.uniform(-0.5, 0.5, x.shape)
    v = rng.normal(size=x.shape)
    v -= v.mean(axis=0)
    period = np.full(3, n * side)
    pile = carom.Spheres(x, r, v, restitution=1.0, periodic=n * side)
    steps = round(T / dt)
    record = carom.Record(every=max(1, steps // 50))
    sol = carom.solve(pile, scheme, t1=T, dt=dt, record=record)
    exact, energy = exact_impulse(x, v, r, period, T), sol.kinetic_energy()
    off = np.median(energy[-9:]) / energy[0] - 1
    return [np.sum(sol.push) / exact - 1, off], steps, sweeps(sol)


def settled():
    """27 unequal balls in a box, brought to rest with a drag, step by smaller step.

    Gaps that are open by rounding close by a fall of their own, and at 1e-7 s a gap of 1e-14 m is
    seen: so the last steps of the way to rest are as small as those that are measured.
    """
    radius = 0.01 * np.random.default_rng(4).uniform(0.85, 1.0, 27)
    box = carom.spheres.Box((0, 0, 0), (0.055, 0.06, np.inf))
    start = carom.spheres.lattice((2, 2, 7), 0.01, spacing=0.0225, jitter=0.001, seed=4)
    pile = carom.Spheres(
        start.position[:27] + np.array([0.002, 0.004, 0.0]),
        radius,
        walls=[box],
        gravity=(0, 0, -G),
        tolerance=1e-9,
    )
    steps = 2000
    for dt in (2e-3, 1e-4, 1e-5, 1e-6, 1e-7):
        damped = pile.replaced(force=lambda t, x, v, dt=dt: -0.04 / dt * v)
        sol = carom.solve(damped, carom.Maury(), t1=steps * dt, dt=dt, record=FINAL)
        pile = carom.spheres.relax(pile.replaced(position=sol.x[-1], tolerance=1e-11))
        steps = 300
    return pile.replaced(tolerance=1e-6), np.max(np.abs(sol.v[-1]))


def pile(scheme, dt, at_rest, steps=100):
    """Mean force on the floor against the weight, and the fastest sphere in units of g dt.

    PaoliSchatzman starts with half a kick, h f / (2 m), that closed contacts take up at t0, and
    those open by rounding in the first step: of n steps, up to 1 / (2 n) of the force.
    """
    sol = carom.solve(at_rest, scheme, t1=steps * dt, dt=dt, record=carom.Record(every=1))
    force = -np.mean(sol.wall_force()[1:, :, 2].sum(axis=1))
    fastest = np.max(np.linalg.norm(sol.v[-1], axis=1))
    return [force / (len(at_rest) * G) - 1, fastest / (G * dt)], steps, sweeps(sol)


class Flow:
    """The pile at rest, in a box that is tilted."""

    def __init__(self, at_rest):
        slope = math.radians(30)
        gravity = (G * math.sin(slope), 0.0, -G * math.cos(slope))
        self.pile = at_rest.replaced(gravity=gravity)
        exact = self.pile.replaced(tolerance=1e-9)
        self.exact = {T: self.extrapolated(exact, T) for T in (2e-2, 2e-5)}

    def extrapolated(self, pile, T):
        """2 x(h) - x(2 h): the scheme is of first order, and its own error would be seen."""
        fine, coarse = (self.end(pile, carom.Maury(), T / n, T)[0] for n in (2000, 1000))
        return 2 * fine - coarse

    def end(self, pile, scheme, dt, T):
        sol = carom.solve(pile, scheme, t1=T, dt=dt, record=FINAL)
        return sol.x[-1], sweeps(sol)

    def __call__(self, scheme, dt):
        T = 2e-2 if dt > SHORT else 2e-5
        x, swept = self.end(self.pile, scheme, dt, T)
        return [np.max(np.abs(x - self.exact[T])) / (G * T**2 / 2)], round(T / dt), swept


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = ["row", "column", "gas", "pile", "flow", "cost"]
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    chosen = parser.parse_args().only
    for scheme in SCHEMES:
        row(scheme, 1e-2)  # compiles
    if "row" in chosen:
        table("Six touching balls, e = 0: |v - 1/6|", ["error"], row)
    if "column" in chosen:
        table("Ten balls at rest", ["force / weight - 1", "top moved, m"], column)
    if "gas" in chosen:
        table("Elastic gas, 64 balls", ["impulse / exact - 1", "energy - 1"], gas, True)
    at_rest, left = settled() if {"pile", "flow"} & {*chosen} else (None, 0.0)
    if "pile" in chosen:
        title = f"A pile of 27 at rest (left with {left:.1e} m/s)"
        table(title, ["force / weight - 1", "fastest / (g dt)"], lambda s, dt: pile(s, dt, at_rest))
    if "flow" in chosen:
        table("The pile in a tilted box", ["off / free fall"], Flow(at_rest), True)
    if "cost" in chosen:
        spheres.residual(quick=False)
    print(f"\n{time.process_time():.0f} s of CPU in all")


if __name__ == "__main__":
    main()
