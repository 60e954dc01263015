"""Physics of grains with friction: what is measured, beside what others have found.

    python benchmarks/grains.py [--only NAME ...] [--seed S ...] [--quick] [-j PROCESSES]

Lengths are in mean diameters d, g = 1 and the mass of a grain is 1, so that the unit of time is
sqrt(d / g); steps of 0.02 of it (the pour 0.04), tolerance 1e-4, e = 0.  Radii differ by
up to 10 % unless said.  Each name and seed is a process of its own, with one thread; ``--quick`` is
smaller and shorter, a check and not a figure.
"""

import argparse
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import numpy as np

import carom
from carom.spheres import Box, Cylinder, Obstacles, Panel

DT, TOLERANCE = 0.02, 1e-4
LEAP = 0.1  # of a diameter
QUIET = {"progress": False}


def radii(N, rng, spread=0.1):
    """(N,) about 1/2."""
    return 0.5 * rng.uniform(1.0 - spread, 1.0 + spread, N)


def loose(counts, low, rng, spacing=1.15):
    """(N, d) a lattice with room, from ``low`` on, the last axis slowest."""
    grid = np.indices(counts[::-1]).reshape(len(counts), -1)[::-1].T
    return np.asarray(low) + (grid + 0.5) * spacing + 0.02 * rng.uniform(-1, 1, grid.shape)


def spheres(x, r, mu, walls, **options):
    """Grains of mass 1 under g = 1."""
    d = x.shape[1]
    down = -np.eye(d)[-1]
    options = {"gravity": down, "tolerance": TOLERANCE, "walls": walls} | options
    return carom.Spheres(x, r, friction=mu, **options)


def moved(pile, t1, start=None, records=50):
    """A run of Maury with some records; no grain falls by more than LEAP in a step."""
    t0 = 0.0 if start is None else float(start.t[-1])
    longest = min(DT, LEAP / np.sqrt(2.0 * max(np.ptp(pile.position[:, -1]), 1.0)))
    dt = (t1 - t0) / np.ceil((t1 - t0) / longest - 1e-9)
    every = max(1, round((t1 - t0) / dt / records))
    record = carom.Record(every=every)
    options = {"start": start, "record": record, "throw": False, **QUIET}
    sol = carom.solve(pile, carom.Maury(), t1=t1, dt=dt, **options)
    if sol.status not in (carom.Status.ok, carom.Status.loose):
        raise carom.CaromError(f"stopped at t = {sol.t[-1]:g}, residual {sol.stats.residual:.1e}")
    return sol


def loosened(*runs):
    """What is said of steps that were not solved to the tolerance."""
    steps, bad = (sum(getattr(s.stats, name) for s in runs) for name in ("steps", "loose"))
    worst = max(s.stats.residual for s in runs)
    return f"{bad} of {steps} steps off the tolerance, by up to {worst:.1e}" if bad else ""


def solid_below(x, r, z):
    """Of balls at heights x: the volume of each below z."""
    h = np.clip(z - x + r, 0.0, 2.0 * r)
    return np.pi * h**2 * (r - h / 3.0)


# ---- scenes -------------------------------------------------------------------------------------


def packing(seed, quick):
    """Spheres dropped together into a periodic box: packing fraction of the bulk against mu."""
    counts = (6, 6, 8) if quick else (9, 9, 14)
    for mu in (0.0, 0.1, 0.3, 1.0):
        rng = np.random.default_rng(seed)
        N, side = int(np.prod(counts)), 1.15 * counts[0]
        floor = carom.Plane((0, 0, 0), (0, 0, 1))
        r, x = radii(N, rng), loose(counts, (0, 0, 0), rng)
        pile = spheres(x, r, mu, [floor], periodic=(side, side, None))
        sol = moved(pile, 15.0 if quick else 30.0)
        z = sol.x[-1, :, 2]
        low, high = 2.0, np.max(z) - 2.0
        solid = np.sum(solid_below(z, r, high) - solid_below(z, r, low))
        found = solid / (side**2 * (high - low))
        known = {0.0: "0.64", 1.0: "0.55 to 0.58"}.get(mu, "between")
        yield f"mu = {mu:g}: packing fraction", f"{found:.3f}", known, "Silbert 2010", loosened(sol)


def repose(seed, quick):
    """A layer on a bumpy floor that is tilted slowly: the angle at which it begins to flow."""
    counts = (8, 5, 5) if quick else (12, 6, 7)
    for mu in (0.0, 0.2, 0.5, 1.0):
        rng = np.random.default_rng(seed)
        N, sides = int(np.prod(counts)), 1.15 * np.array(counts[:2])
        bumps = loose((*counts[:2], 1), (0, 0, -0.575), rng)
        bumps[:, 2] += 0.1 * rng.uniform(-1, 1, len(bumps))
        rate = np.deg2rad(0.4 if quick else 0.15)

        def tilted(t, x, v, rate=rate):
            angle = rate * max(t - 15.0, 0.0)
            return np.broadcast_to([np.sin(angle), 0.0, -np.cos(angle)], x.shape)

        options = {"gravity": None, "force": tilted, "periodic": (*sides, None)}
        walls = [Obstacles(bumps, 0.5)]
        pile = spheres(loose(counts, (0, 0, 0.6), rng), radii(N, rng), mu, walls, **options)
        sol = moved(pile, 15.0)
        runs, first = [sol], np.mean(sol.x[-1, :, 0])
        while np.mean(sol.x[-1, :, 0]) - first < 0.5 and sol.t[-1] < 15.0 + 0.7 / rate:
            sol = moved(pile, sol.t[-1] + 5.0, start=sol)
            runs.append(sol)
        gone = np.concatenate([np.mean(s.x[:, :, 0], axis=1) for s in runs[1:]]) - first
        at = np.concatenate([s.t for s in runs[1:]])[np.argmax(gone > 0.5)]
        angle = np.rad2deg(rate * (at - 15.0))
        known = {0.0: "5.8 to 8 (tan = 0.105)", 0.5: "20 to 25"}.get(mu, "grows with mu")
        source = "Peyneau & Roux 2008" if mu == 0.0 else "Silbert & al. 2001"
        yield (
            f"mu = {mu:g}: angle of repose, degrees",
            f"{angle:.1f}",
            known,
            source,
            loosened(*runs),
        )


def janssen(seed, quick):
    """What the floor of a tube carries while its wall creeps upwards, against what is filled in."""
    wide, counts = 6.0, (100, 300) if quick else (100, 200, 400, 800, 1400)
    for mu in (0.5, 0.0):
        carried, runs = [], []
        for N in counts:
            rng = np.random.default_rng(seed)
            tube = Cylinder((0, 0, 0), (0, 0, 1), wide / 2, velocity=(0, 0, 0.02))
            n = int(wide / 1.15)
            x = loose((n, n, 4 + 2 * N // n), (-n * 1.15 / 2,) * 2 + (0.0,), rng)
            x = x[np.hypot(x[:, 0], x[:, 1]) < wide / 2 - 0.57][:N]
            floor = carom.Plane((0, 0, 0), (0, 0, 1))
            pile = spheres(x, radii(N, rng), mu, [floor, tube])
            end = 20.0 + 2.0 * np.sqrt(np.max(x[:, 2]))
            sol = moved(pile, 1.5 * end, records=300)
            late = sol.t > end
            carried.append(-np.mean(sol.wall_force()[late, 0, 2]))
            runs.append(sol)
        m, found = np.array(counts, float), np.array(carried)
        told = ", ".join(f"{a:.0f}: {b:.0f}" for a, b in zip(m, found, strict=True))
        if mu == 0.0:
            worst = np.max(np.abs(found / m - 1.0))
            yield "no friction: |carried / weight - 1|", f"{worst:.1e}", "0", "statics", told
            continue
        scale = np.geomspace(10, 1e4, 4000)[:, None]
        curve = scale * (1.0 - np.exp(-m / scale))
        best = np.argmin(np.sum((curve / found - 1.0) ** 2, axis=1))
        off = np.sqrt(np.mean((curve[best] / found - 1.0) ** 2))
        yield (
            "mu = 0.5: saturation mass, grains",
            f"{scale[best, 0]:.0f}",
            "finite",
            "Janssen 1895",
            told,
        )
        yield "mu = 0.5: scatter about his formula", f"{off:.2f}", "< 0.15", "", loosened(*runs)


def beverloo(seed, quick):
    """Discs out of a slot in a flat floor: flux against its width."""
    widths = (8.0, 12.0) if quick else (8.0, 10.0, 12.0, 14.0)  # d; slots of 4 to 6 d clog
    rng, counts = np.random.default_rng(seed), (20, 30) if quick else (24, 60)
    N, side, flux = int(np.prod(counts)), 1.15 * counts[0], []
    box = Box((0, 0), (side, np.inf))
    shut = spheres(loose(counts, (0, 0.01), rng), radii(N, rng), 0.5, [box])
    still = moved(shut, 20.0 if quick else 40.0)
    runs = [still]
    for wide in widths:
        gap = (side - wide) / 2
        floor = [Panel((0, 0), (gap, 0)), Panel((side, 0), (-gap, 0))]
        walls = [*floor, Box((0, -np.inf), (side, np.inf))]
        pile = shut.replaced(position=still.x[-1], walls=walls)
        sol = moved(pile, 10.0 if quick else 0.5 * N / (wide - 1.4) ** 1.5, records=200)
        out = np.sum(sol.x[:, :, 1] < -1.0, axis=1)
        use = (out > 0.1 * N) & (out < 0.5 * N) if np.max(out) > 0.2 * N else out > 0
        flux.append(np.polyfit(sol.t[use], out[use], 1)[0])
        runs.append(sol)
    width, flux = np.array(widths), np.array(flux)
    told = ", ".join(f"{a:g}: {b:.2f}" for a, b in zip(width, flux, strict=True))
    for k in (1.0, 1.4):
        slope = np.polyfit(np.log(width - k), np.log(flux), 1)[0]
        yield (
            f"exponent of the flux, (D - {k:g} d)",
            f"{slope:.2f}",
            "1.5 in the plane",
            "Beverloo 1961",
            told,
        )
    constant = np.mean(flux * np.pi / 4 / 0.82 / (width - 1.4) ** 1.5)
    yield (
        "C of Q = C phi sqrt(g) (D - 1.4 d)^1.5",
        f"{constant:.2f}",
        "0.5 to 1",
        "",
        loosened(*runs),
    )


def drum(seed, quick):
    """Discs half filling a drum with a bumpy wall: slope of the heap against its rate."""
    size, bumps = (8.0, 50) if quick else (14.0, 88)
    for rate in (0.02, 0.05, 0.1):
        rng = np.random.default_rng(seed)
        phase = 2 * np.pi * np.arange(bumps) / bumps

        def ring(t, rate=rate, phase=phase):
            turned = phase + rate * t
            return size * np.stack([np.cos(turned), np.sin(turned)], axis=1)

        n = int(2 * size / 1.15)
        x = loose((n, n), (-n * 1.15 / 2,) * 2, rng)
        x = x[(np.hypot(x[:, 0], x[:, 1]) < size - 1.3) & (x[:, 1] < 0.2 * size)]
        pile = spheres(x, radii(len(x), rng), 0.5, [Obstacles(ring, 0.5, spin=rate)])
        end = 20.0 + (1.0 if quick else 3.0) / rate
        sol = moved(pile, end, records=400)
        late = sol.t > 0.5 * end
        middle = np.mean(sol.x[late], axis=(0, 1))
        slope = np.rad2deg(np.arctan2(abs(middle[0]), -middle[1]))
        about = f"Froude {rate**2 * size:.4f}"
        yield (
            f"{about}: slope, degrees",
            f"{slope:.1f}",
            "15 to 30, grows",
            "GDR MiDi 2004",
            loosened(sol),
        )


def collapse(seed, quick):
    """A column of discs set free on a bumpy floor: how far it runs out, with rolling resistance."""
    wide, ratios = (8, (1.0, 4.0)) if quick else (14, (0.5, 1.0, 2.0, 4.0, 8.0))
    columns = [_column(seed, wide, ratio) for ratio in ratios]
    for rolling in (0.0, 0.2):
        outs, runs = [], []
        for still, walls, long in columns:
            x = still.x[-1]
            options = {"rolling": rolling} if rolling else {}
            pile = spheres(x, still.pile.radius, 0.5, walls, **options)
            sol = moved(pile, 6.0 * np.sqrt(np.max(x[:, 1])))
            runs += [still, sol]
            end = np.sort(sol.x[-1, :, 0])[int(0.98 * len(x))]
            outs.append((np.max(x[:, 1]) / long, (end - long) / long))
        yield from _run_out(f"rolling {rolling:g}", *np.array(outs).T, loosened(*runs))


def _column(seed, wide, ratio):
    """A column behind a gate at rest, the walls without the gate, and its width."""
    rng = np.random.default_rng(seed)
    counts = (wide, max(2, round(ratio * wide * 1.15)))
    N, long = int(np.prod(counts)), 1.15 * wide
    along = np.arange(-1.0, long * (2 + 3 * ratio), 0.9)
    floor = Obstacles(np.stack([along, np.zeros_like(along)], axis=1), 0.5)
    gate = [floor, Box((0, -5.0), (long, np.inf))]
    shut = spheres(loose(counts, (0, 0.6), rng), radii(N, rng), 0.5, gate)
    still = moved(shut, 15.0 + 3 * np.sqrt(ratio * wide))
    return still, [floor, Box((0, -5.0), (np.inf, np.inf))], long


def _run_out(name, a, out, told):
    """(L - L0) / L0 = out against a: mean, and exponents of low and of tall columns."""
    source = "Lube 2005, Lajeunesse 2005"
    for which, use, known in (("a < 2.5", a < 2.5, "1"), ("a > 1.7", a > 1.7, "2/3")):
        if np.count_nonzero(use) > 1:
            slope = np.polyfit(np.log(a[use]), np.log(np.maximum(out[use], 1e-3)), 1)[0]
            yield f"{name}: exponent, {which}", f"{slope:.2f}", known, source, ""
    each = ", ".join(f"{x:.2f}: {y:.2f}" for x, y in zip(a, out, strict=True))
    known = "1.2 (a < 1.8)"
    yield (
        f"{name}: (L - L0) / L0 over a, mean",
        f"{np.mean(out / a):.2f}",
        known,
        "Lube 2005",
        "; ".join(x for x in (each, told) if x),
    )


def pour(seed, quick):
    """Many spheres with mu = 0.5 poured into a box, with the certificate of the run."""
    counts = (8, 8, 10) if quick else (20, 20, 25)
    rng = np.random.default_rng(seed)
    N, side = int(np.prod(counts)), 1.15 * counts[0]
    box = Box((0, 0, 0), (side, side, np.inf))
    pile = spheres(loose(counts, (0, 0, 0), rng), radii(N, rng), 0.5, [box])
    began = time.process_time()
    sol = moved(pile, 6.0 if quick else 15.0, records=40)
    spent = time.process_time() - began
    found = carom.certify(sol)
    bad = ", ".join(c.name for c in found.clauses if c.ok is False)
    weight = -np.mean(sol.wall_force()[-5:, 4, 2]) / N
    told = f"{sol.stats.steps} steps, {sol.stats.iterations / sol.stats.steps:.0f} sweeps a step"
    yield (
        f"{N} poured: the certificate",
        found.verdict + (f" ({bad})" if bad else ""),
        "a solution",
        "",
        told,
    )
    yield "force on the floor / weight", f"{weight:.3f}", "below 1 with friction", "", loosened(sol)
    z = sol.x[-1, :, 2]
    low, high = 2.0, np.max(z) - 2.0
    solid = np.sum(solid_below(z, pile.radius, high) - solid_below(z, pile.radius, low))
    filled = solid / (side**2 * (high - low))
    yield (
        "packing fraction, side walls and all",
        f"{filled:.3f}",
        "0.57 in the bulk",
        "Silbert 2010",
        "",
    )
    yield "CPU seconds", f"{spent:.0f}", "", "", ""


SCENES = {f.__name__: f for f in (packing, repose, janssen, beverloo, drum, collapse, pour)}


def measured(name, seed, quick):
    """The rows of a scene, and what it took."""
    began = time.perf_counter()
    rows = []
    try:
        rows += SCENES[name](seed, quick)
    except carom.CaromError as error:
        rows.append((type(error).__name__, str(error)[:200], "none", "", ""))
    return name, seed, rows, time.perf_counter() - began


def main():
    """Print what was measured beside what is known."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=SCENES, default=list(SCENES))
    parser.add_argument("--seed", nargs="+", type=int, default=[0])
    parser.add_argument("--quick", action="store_true", help="smaller: a check, not a figure")
    parser.add_argument("-j", type=int, default=1, help="processes")
    options = parser.parse_args()
    jobs = [(name, seed, options.quick) for name in options.only for seed in options.seed]
    with ProcessPoolExecutor(options.j, mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(measured, *job) for job in jobs]):
            name, seed, rows, seconds = done.result()
            print(f"\n{name}, seed {seed}, {seconds:.0f} s: {SCENES[name].__doc__}")
            for what, value, known, source, told in rows:
                known = f"known: {known}" + (f" ({source})" if source else "") if known else ""
                print(f"  {what:42} {value:>12}   {known}")
                if told:
                    print(f"      {told}")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
