"""How fast carom runs, as ratios to other programs measured in the same run.

    python benchmarks/speed.py [--only trajectory batch ...] [--quick] [--json PATH]

Competitors are interleaved and repeated; each keeps its best time. Compilation is timed apart
(section "start"), so every other figure is of warm calls. Ratios are carom / competitor: below one
carom is the faster.
"""

import argparse
import functools
import itertools
import json
import math
import os
import platform
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import solve_ivp

import carom
from c_loops import Run, W, c_batch, c_every, c_final, c_library
from carom.bench.outside import siconos_ball, siconos_python

# The forced impact oscillator x'' + x = cos(w t), x <= STOP (Shaw and Holmes); stable at W.
STOP, R = 0.0, 0.8
SCHEMES = {"Moreau": carom.Moreau, "PaoliSchatzman": carom.PaoliSchatzman, "Maury": carom.Maury}


# --- problems ------------------------------------------------------------------------------------


def oscillator(w=W):
    """P3, the forced impact oscillator."""
    return carom.System(
        force=lambda t, q, v: jnp.cos(w * t) - q, gap=lambda t, q: STOP - q, restitution=R
    )


def ball():
    """P1, the bouncing ball."""
    return carom.System(
        force=lambda t, q, v: jnp.array([-9.81]), gap=lambda t, q: q, restitution=0.8
    )


def double_pendulum(both_bobs):
    """Unit masses and rods, absolute angles; the wall stands at x = 0.5, right of the pivot."""

    def mass(q):
        c = jnp.cos(q[0] - q[1])
        return jnp.array([[2.0, c], [c, 1.0]])

    def force(t, q, v):
        s = jnp.sin(q[0] - q[1])
        inertial = jnp.array([-s * v[1] ** 2, s * v[0] ** 2])
        return inertial - 9.81 * jnp.array([2.0, 1.0]) * jnp.sin(q)

    def gap(t, q):
        bobs = jnp.cumsum(jnp.sin(q))
        return 0.5 - (bobs if both_bobs else bobs[1:])

    return carom.System(force=force, gap=gap, mass=mass, restitution=0.8)


def orbit(w=W, s=STOP, r=R):
    """The orbit with one impact per forcing period: x(t), x'(t) and the time of an impact."""
    gam, half = 1 / (1 - w**2), math.pi / w  # half of the period
    cot = 1 / math.tan(half)
    a = (1 - r) ** 2 / (4 * w**2) + (1 + r) ** 2 * cot**2 / 4
    b, c = s * (1 + r) * cot, s**2 - gam**2
    speed = (-b + math.sqrt(b**2 - 4 * a * c)) / (2 * a)
    sin_p = -(1 - r) * speed / (2 * gam * w)
    cos_p = (s + (1 + r) * speed * cot / 2) / gam
    impact = math.atan2(sin_p, cos_p) / w
    A, B = -(1 + r) * speed * cot / 2, -(1 + r) * speed / 2

    def state(t):
        tau = math.fmod(t - impact, 2 * half)
        x = A * math.cos(tau) + B * math.sin(tau) + gam * math.cos(w * t)
        return x, -A * math.sin(tau) + B * math.cos(tau) - gam * w * math.sin(w * t)

    return state, impact


# --- measuring and printing ----------------------------------------------------------------------


def best_times(competitors, repeats, clock=time.perf_counter):
    """Best time [s] of each competitor, taken in turns so that all meet the same machine."""
    for call in competitors.values():
        call()
    best = dict.fromkeys(competitors, math.inf)
    for _ in range(repeats):
        for name, call in competitors.items():
            begin = clock()
            call()
            best[name] = min(best[name], clock() - begin)
    return best


def table(title, header, rows):
    """Print a plain-text table; the first column is left aligned."""
    cells = [header, *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[j]) for row in cells) for j in range(len(header))]
    print(f"\n{title}")
    for row in cells:
        first, *rest = (
            cell.ljust(w) if j == 0 else cell.rjust(w)
            for j, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        print("  " + "  ".join([first, *rest]))
    sys.stdout.flush()


def against(value, target):
    """'value (target) ok' for figures that should stay below a target."""
    return f"{value:.3g} (target < {target:g}) {'ok' if value < target else 'MISSED'}"


# --- 1. one trajectory ---------------------------------------------------------------------------


def start():
    """A state on the P3 orbit, 0.3 of a period after an impact: t0, q0, v0."""
    state, impact = orbit()
    t0 = impact + 0.3 * 2 * math.pi / W
    return t0, *state(t0)


def solver(system, scheme, q0, v0, t0, steps, dt, record=None):
    """A call of carom.solve that waits for its arrays."""
    keywords = {} if record is None else {"record": record}

    def call():
        solution = carom.solve(
            system, scheme, q0=q0, v0=v0, t0=t0, t1=t0 + steps * dt, dt=dt, **keywords
        )
        jax.block_until_ready((solution.t, solution.q, solution.v))
        return solution

    return call


def agreement(steps, dt):
    """Largest difference of the final states of carom and C after some steps."""
    t0, q0, v0 = start()
    q, v = c_final(c_library("-O3"), Run(t0, dt, STOP, R, steps), q0, v0)
    final = carom.Record(final=True)
    solution = solver(oscillator(), carom.Moreau(), [q0], [v0], t0, steps, dt, final)()
    return float(max(abs(solution.q[-1, 0] - q), abs(solution.v[-1, 0] - v)))


def trajectory(quick):
    """P3, one trajectory, Moreau: carom against a C loop."""
    steps, dt = (100_000 if quick else 1_000_000), 1e-4
    long_steps = 10 * steps  # of the final state: a step, not the call around it
    t0, q0, v0 = start()
    run, system, scheme = Run(t0, dt, STOP, R, steps), oscillator(), carom.Moreau()
    long_run = Run(t0, dt, STOP, R, long_steps)
    plain, native = c_library("-O3"), c_library("-O3", "-march=native")
    final = carom.Record(final=True)
    best = best_times(
        {
            "carom final": solver(system, scheme, [q0], [v0], t0, long_steps, dt, final),
            "C final": lambda: c_final(plain, long_run, q0, v0),
            "C native final": lambda: c_final(native, long_run, q0, v0),
            "carom every": solver(system, scheme, [q0], [v0], t0, steps, dt),
            "C every": lambda: c_every(plain, run, q0, v0),
            "C native every": lambda: c_every(native, run, q0, v0),
        },
        3 if quick else 7,
    )
    taken = {"final": long_steps, "every": steps}
    ns = {name: best[name] / taken[name.split()[-1]] * 1e9 for name in best}
    rows = []
    for what in ("final", "every"):
        ours, theirs = ns[f"carom {what}"], ns[f"C {what}"]
        rows.append(
            [
                f"{what} state, {taken[what]:,} steps",
                f"{ours:.1f}",
                f"{theirs:.1f}",
                f"{ns[f'C native {what}']:.1f}",
                against(ours / theirs, 3),
            ]
        )
    table(
        "1. One trajectory of P3, Moreau [ns/step]",
        ["recorded", "carom", "C -O3", "C -O3 -march=native", "carom / C -O3"],
        rows,
    )
    call = solver(system, scheme, [q0], [v0], t0, 10, dt, final)
    call_ms = best_times({"call": call}, 7)["call"] * 1e3
    print(f"  fixed cost of a warm call (10 steps): {call_ms:.2f} ms, included above")
    short, long = agreement(10_000, dt), agreement(steps, dt)
    print(
        f"  final states, carom - C: {short:.1e} after 10,000 steps, {long:.1e} after {steps:,}"
        f"  {'agree' if short < 1e-9 else 'THEY DISAGREE: not the same work'}"
    )
    differences = {"difference_short": short, "difference_long": long}
    return {"ns_per_step": ns, "call_ms": call_ms, **differences}


# --- 2. a batch ----------------------------------------------------------------------------------


def batch(quick):
    """P3 for 4096 forcing frequencies at once, against C on every core."""
    members, steps, dt = 4096, (2_000 if quick else 20_000), 1e-3
    t0, q0, v0 = start()
    ws = np.linspace(2.0, 3.0, members)
    run = Run(t0, dt, STOP, R, steps)

    @jax.jit
    @jax.vmap
    def final(w):
        solution = carom.solve(
            oscillator(w),
            carom.Moreau(),
            q0=jnp.array([q0]),
            v0=jnp.array([v0]),
            t0=t0,
            t1=t0 + steps * dt,
            dt=dt,
            record=carom.Record(final=True),
        )
        return solution.q[-1], solution.v[-1]

    threads = int(os.environ.get("OMP_NUM_THREADS", len(os.sched_getaffinity(0))))
    pool = ThreadPoolExecutor(threads)

    def in_parts():
        """One part of the batch for each core, as carom.study.sweep does it."""
        parts = pool.map(final, np.split(ws, threads))
        return jax.block_until_ready(list(parts))

    plain, fast = c_library("-O3"), c_library("-O3", "-march=native", "-ffast-math")
    best = best_times(
        {
            "carom": in_parts,
            "carom, one call": lambda: jax.block_until_ready(final(ws)),
            "C": lambda: c_batch(plain, run, ws, q0, v0),
            "C lanes": lambda: c_batch(fast, run, ws, q0, v0, lanes=True),
        },
        3,
    )
    ns = {name: seconds / steps / members * 1e9 for name, seconds in best.items()}
    table(
        f"2. Batch of {members} members of P3, Moreau, {steps:,} steps [ns/step/member]",
        ["program", "ns", "carom / it"],
        [
            [f"carom, jax.vmap, a part for each of {threads} threads", f"{ns['carom']:.2f}", ""],
            ["carom, jax.vmap, one call", f"{ns['carom, one call']:.2f}", ""],
            [f"C -O3, {threads} threads", f"{ns['C']:.2f}", against(ns["carom"] / ns["C"], 2)],
            [
                f"C -march=native -ffast-math, members in vector lanes, {threads} threads",
                f"{ns['C lanes']:.2f}",
                f"{ns['carom'] / ns['C lanes']:.3g} (for information)",
            ],
        ],
    )
    q, _ = c_batch(plain, run, ws, q0, v0)
    apart = np.abs(np.asarray(final(ws)[0])[:, 0] - q)
    print(
        f"  |q - q of C|: median {np.median(apart):.1e}, largest {apart.max():.1e}"
        f"  {'agree' if np.median(apart) < 1e-9 else 'THEY DISAGREE: not the same work'}"
    )
    return {
        "ns_per_step": ns,
        "threads": threads,
        "median_difference": float(np.median(apart)),
    }


# --- 3. mass that depends on q -------------------------------------------------------------------


def pendulum(quick):
    """Double pendulum and a wall: two degrees of freedom, dense M(q)."""
    steps, dt = (20_000 if quick else 200_000), 1e-4
    final, calls = carom.Record(final=True), {}
    for name, scheme in SCHEMES.items():
        for bobs in (1, 2):
            system = double_pendulum(both_bobs=bobs == 2)
            calls[name, bobs] = solver(
                system, scheme(), [-1.0, -1.5], [0.0, 0.0], 0.0, steps, dt, final
            )
    ns = {key: s / steps * 1e9 for key, s in best_times(calls, 3 if quick else 5).items()}
    rows = [[name, f"{bobs}", against(value, 1000)] for (name, bobs), value in ns.items()]
    table(
        f"3. Double pendulum with M(q) and a wall, final state, {steps:,} steps [ns/step]",
        ["scheme", "constraints", "ns/step"],
        rows,
    )
    return {f"{name}, {bobs} constraints": value for (name, bobs), value in ns.items()}


# --- 4. start ------------------------------------------------------------------------------------

FIRST_CALL = """
import sys, time
begin = time.perf_counter()
import carom
imported = time.perf_counter()
if len(sys.argv) == 1:
    print(imported - begin)
    raise SystemExit
import jax, jax.numpy as jnp
problems = {
    "P1": (lambda t, q, v: jnp.array([-9.81]), lambda t, q: q, 1.0),
    "P3": (lambda t, q, v: jnp.cos(2.5 * t) - q, lambda t, q: -q, -0.1),
}
force, gap, q0 = problems[sys.argv[1]]
begin = time.perf_counter()
system = carom.System(force=force, gap=gap, restitution=0.8)
scheme = getattr(carom, sys.argv[2])()
solution = carom.solve(system, scheme, q0=[q0], v0=[0.0], t0=0.0, t1=3.0, dt=1e-3)
jax.block_until_ready((solution.t, solution.q, solution.v))
print(time.perf_counter() - begin)
"""


def fresh(*arguments):
    """Seconds printed by FIRST_CALL in a new interpreter."""
    command = [sys.executable, "-c", FIRST_CALL, *arguments]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def startup(quick):
    """Import and first call, each in a new interpreter."""
    repeats = 1 if quick else 3
    seconds = {"import carom": min(fresh() for _ in range(repeats))}
    rows = [["import carom", against(seconds["import carom"], 1.5)]]
    for problem in ("P1", "P3"):
        for name in SCHEMES:
            key = f"first call, {problem}, {name}"
            seconds[key] = min(fresh(problem, name) for _ in range(repeats))
            rows.append([key, against(seconds[key], 3)])
    table(
        "4. In a new interpreter [s]; the first call traces and compiles, import apart",
        ["what", "seconds"],
        rows,
    )
    return seconds


# --- 5. equal error: SciPy with events -----------------------------------------------------------

PERIODS = 50
LEVELS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)


def scipy_events(method, rtol):
    """Final q of P3 over PERIODS periods, by solve_ivp restarted at each impact."""
    t, *y = start()
    end = t + PERIODS * 2 * math.pi / W

    def flow(t, y):
        return y[1], math.cos(W * t) - y[0]

    def contact(t, y):
        return STOP - y[0]

    contact.terminal, contact.direction = True, -1
    while True:
        piece = solve_ivp(flow, (t, end), y, method=method, rtol=rtol, atol=rtol, events=contact)
        if piece.status == 0:
            return piece.y[0, -1]
        t, y = piece.t[-1], [STOP, -R * piece.y[1, -1]]


def carom_equal(scheme, counts):
    """The same final q by a carom scheme, one warm call for each number of steps."""
    t0, q0, v0 = start()
    system, final = oscillator(), carom.Record(final=True)

    def final_q(steps):
        dt = PERIODS * 2 * math.pi / W / steps
        return float(solver(system, scheme, [q0], [v0], t0, steps, dt, final)().q[-1, 0])

    return {steps: functools.partial(final_q, steps) for steps in counts}


def ladder(first, last, points):
    """Odd step counts in geometric progression, so that impacts do not fall on the grid."""
    return [int(n) // 2 * 2 + 1 for n in np.geomspace(first, last, points)]


def reached(candidates, exact):
    """Cheapest candidate for each level: it and every finer one are within the level.

    First-order errors go up and down with the place of the impacts in the grid, so one lucky
    step size is not enough. Candidates go from coarse to fine; the last one only confirms.
    """
    errors = [abs(call() - exact) for call in candidates.values()]
    worst = np.maximum.accumulate(errors[::-1])[::-1][:-1]
    names = list(candidates)
    return {level: names[np.argmax(worst <= level)] for level in LEVELS if worst.min() <= level}


def equal_error(quick):
    """P3 over 50 forcing periods on the closed-form orbit: time at equal error of the final q."""
    t0, *_ = start()
    state, _ = orbit()
    exact = state(t0 + PERIODS * 2 * math.pi / W)[0]
    counts = ladder(3e3, 3e5 if quick else 1e7, 9 if quick else 15)
    rtols = 10.0 ** -np.arange(2, 7 if quick else 11)
    families = {
        "Moreau": carom_equal(carom.Moreau(), counts),
        "PaoliSchatzman": carom_equal(carom.PaoliSchatzman(), counts),
        "RK45": {r: functools.partial(scipy_events, "RK45", r) for r in rtols},
        "DOP853": {r: functools.partial(scipy_events, "DOP853", r) for r in rtols},
    }
    choice = {name: reached(family, exact) for name, family in families.items()}
    rows, figures = [], {}
    for level in LEVELS:
        calls = {n: families[n][choice[n][level]] for n in families if level in choice[n]}
        best = best_times(calls, 5)
        rows.append(equal_error_row(level, best, choice))
        figures[f"{level:.0e}"] = best
    table(
        f"5. P3 over {PERIODS} periods, time at equal error of q at the end [ms]; SciPy's is the"
        " faster of RK45 and DOP853 with events\n   (no target; below 1 carom is faster)",
        ["error", "SciPy", "Moreau steps", "ms", "/ SciPy", "PS steps", "ms", "/ SciPy"],
        rows,
    )
    return figures


def equal_error_row(level, best, choice):
    """Cells of one level: SciPy's time, then steps, time and ratio of each scheme."""
    scipy = min((best[n] for n in ("RK45", "DOP853") if n in best), default=math.nan)
    row = [f"{level:.0e}", f"{scipy * 1e3:.1f}"]
    for name in ("Moreau", "PaoliSchatzman"):
        if name in best:
            ours = best[name]
            row += [str(choice[name][level]), f"{ours * 1e3:.1f}", f"{ours / scipy:.3g}"]
        else:
            row += ["-", "-", "not reached"]
    return row


# --- 6. Siconos ----------------------------------------------------------------------------------


def siconos(quick):
    """Bouncing ball, Moreau: carom recording every step, and Siconos."""
    steps, dt = (3_000 if quick else 30_000), 1e-4
    python = siconos_python()
    if python is None:
        print("\n6. Siconos: not installed (apt install python3-siconos)")
        return None
    call = solver(ball(), carom.Moreau(), [1.0], [0.0], 0.0, steps, dt)
    data = {"q0": 1.0, "v0": 0.0, "weight": -9.81, "e": 0.8, "t1": steps * dt, "steps": steps}
    ours, theirs, nothing = math.inf, [], []
    for _ in range(3):
        ours = min(ours, best_times({"carom": call}, 3)["carom"] / steps * 1e6)
        theirs.append(siconos_ball(python, data))
        nothing.append(siconos_ball(python, data | {"record": False}))
    recorded, bare = (min(r["wall"] for r in runs) / steps * 1e6 for runs in (theirs, nothing))
    table(
        f"6. Bouncing ball, e = 0.8, {steps:,} steps [us/step] (no target; Siconos / carom)",
        ["program", "us/step", "Siconos / carom"],
        [
            ["carom Moreau, every step recorded", f"{ours:.4f}", ""],
            [
                "Siconos Moreau-Jean, every step recorded",
                f"{recorded:.2f}",
                f"{recorded / ours:.0f}",
            ],
            ["Siconos Moreau-Jean, nothing recorded", f"{bare:.2f}", f"{bare / ours:.0f}"],
        ],
    )
    q = float(call().q[-1, 0])
    print(f"  q at {steps * dt:g}: carom {q:.6f}, Siconos {theirs[0]['path'][-1][1]:.6f}")
    return {"carom_us": ours, "siconos_recorded_us": recorded, "siconos_unrecorded_us": bare}


WALL = 5e-3  # how far the walls right and left are


def thrown(speed, *, contacts, mu, scheme, steps):
    """Where a point on a floor, or in a corner or box, is in the end."""

    def gap(t, q):
        return jnp.stack([q[1], WALL - q[0], WALL + q[0]][:contacts])

    def slip(t, q, v):
        return jnp.stack([v[0], v[1], v[1]][:contacts])

    rubs = {} if mu is None else {"friction": mu, "slip": slip}
    falls = {"force": lambda t, q, v: jnp.array([0.0, -9.81])}
    system = carom.System(gap=gap, **falls, **rubs)
    height = 1e-3 if contacts == 1 else 0.0
    about = {"q0": jnp.array([0.0, height]), "v0": jnp.array([speed, 0.0])}
    about |= {"t1": steps * 1e-4, "dt": 1e-4, "record": carom.Record(final=True)}
    return carom.solve(system, scheme, **about).q[-1]


def friction(quick):
    """A point thrown along a floor, and into corners: mu = 0.3 beside none, CPU time."""
    rows, ratios = [], {}
    # members and steps: CPU time of some ms, which is told late, would be less than it is
    sizes = {"alone": (1, 500_000), "256": (256, 5_000), "10,000": (10_000, 1_000)}
    cases = [(1, carom.Moreau()), (1, carom.Maury()), (2, carom.Moreau()), (3, carom.Moreau())]
    for (contacts, scheme), (kind, (members, steps)) in itertools.product(cases, sizes.items()):
        steps = steps if contacts == 1 else steps // 5
        competitors = {}
        for mu in (0.3, None):
            about = {"contacts": contacts, "mu": mu, "scheme": scheme, "steps": steps}
            one = functools.partial(thrown, **about)
            many = jax.jit(one if members == 1 else jax.vmap(one))
            speeds = 1.0 if members == 1 else np.linspace(0.5, 1.5, members)
            competitors[mu] = functools.partial(_waited, many, speeds)
        best = best_times(competitors, 3 if quick else 7, time.process_time)
        each = [best[mu] / steps / members * 1e9 for mu in (0.3, None)]
        name = f"{scheme}, {contacts} contact{'s' * (contacts > 1)}, {kind}"
        ratios[name] = each[0] / each[1]
        rows.append([name, *(f"{time:.1f}" for time in each), f"{ratios[name]:.2f}"])
    table(
        "A point on a floor, in a corner, in a box, alone and in batches:"
        " CPU ns a step and member (target: ratio < 3)",
        ["", "mu = 0.3", "none", "ratio"],
        rows,
    )
    return ratios


def _waited(call, argument):
    return jax.block_until_ready(call(argument))


SECTIONS = {
    "trajectory": trajectory,
    "batch": batch,
    "pendulum": pendulum,
    "startup": startup,
    "equal_error": equal_error,
    "siconos": siconos,
    "friction": friction,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--quick", action="store_true", help="fewer steps: a check, not a figure")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    print(f"carom on {platform.machine()}, {cores} cores, JAX {jax.__version__}")
    figures = {name: SECTIONS[name](options.quick) for name in options.only}
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
