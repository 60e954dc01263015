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
from functools import cache
from multiprocessing import get_context

if __name__ == "__main__":  # a process to a core; tests import this
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
    x, v = (pile.position, pile.velocity) if start is None else (start.x[-1], start.v[-1])
    falls = np.sqrt(2.0 * max(np.ptp(x[:, -1]), 1.0))
    longest = min(DT, LEAP / min(falls, np.max(np.abs(v[:, -1])) + t1 - t0))
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
    """A layer of spheres on a bumpy floor, tilted until it flows and back until it rests."""
    wide, pairs = (12, 6), [(0.0, 8), (0.2, 8), (0.5, 4), (0.5, 8), (0.5, 12), (1.0, 8)]
    if quick:
        wide, pairs = (8, 4), [(0.0, 4), (0.5, 4)]
    known = {0.0: ("5.8 to 8 (tan = 0.105)", "Peyneau & Roux 2008")}
    known[0.5] = "20 to 25", "Silbert & al. 2001"
    for mu, layers in pairs:
        rng = np.random.default_rng(seed)
        bumps = loose((*wide, 1), (0, 0, -0.575), rng)
        bumps += 0.25 * rng.uniform(-1, 1, bumps.shape)
        floor = [carom.Plane((0, 0, -0.5), (0, 0, 1)), Obstacles(bumps, 0.5)]
        x = loose((*wide, layers), (0, 0, 0.8), rng)
        periods = (1.15 * wide[0], 1.15 * wide[1], None)
        pile = spheres(x, radii(len(x), rng), mu, floor, periodic=periods)
        runs = [moved(pile, 20.0, records=1)]
        angle, at, gone, fast = 0.0, 0.0, 0.0, 0.0  # mean of displacement and of velocity
        while gone < 0.125 * layers or fast > 0.002:
            flows = gone >= 0.125 * layers
            angle += -0.15 if flows else 1.0 if angle < min(30.0 * mu, 15.0) else 0.3
            tilt = np.deg2rad(angle)
            pile = pile.replaced(gravity=(np.sin(tilt), 0.0, -np.cos(tilt)))
            runs.append(moved(pile, runs[-1].t[-1] + 2.0, start=runs[-1], records=1))
            fast = np.mean(runs[-1].x[-1] - runs[-1].x[0], axis=0)[0] / 2.0
            gone += 2.0 * fast
            at = angle if not flows and fast < 0.02 else at
        what = f"mu = {mu:g}, {layers} layers: "
        yield what + "starts, degrees", f"{at:.1f}", "above where it stops", "", loosened(*runs)
        source = known.get(mu, ("grows with mu", ""))
        yield what + "stops, degrees", f"{angle:.1f}", *source, ""


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
    yield from _exponent(width, flux, 1.5, " in the plane", told)
    constant = np.mean(flux * np.pi / 4 / 0.82 / (width - 1.4) ** 1.5)
    yield (
        "C of Q = C phi sqrt(g) (D - 1.4 d)^1.5",
        f"{constant:.2f}",
        "0.5 to 1",
        "",
        loosened(*runs),
    )


def _exponent(width, flux, known, where, told):
    """Of the flux, against the width less a part of a diameter."""
    for k in (1.0, 1.4):
        slope = np.polyfit(np.log(width - k), np.log(flux), 1)[0]
        what = f"exponent of the flux, (D - {k:g} d)"
        yield what, f"{slope:.2f}", f"{known:g}{where}", "Beverloo 1961", told
        told = ""


def silo(seed, quick):
    """Spheres out of a square hole in a flat floor, mu = 0.5: flux against its width."""
    widths = (4.0, 6.0) if quick else (4.0, 5.0, 6.0, 7.0, 8.0)  # d
    rng, counts = np.random.default_rng(seed), (9, 9, 10) if quick else (12, 12, 18)
    N, side, most = int(np.prod(counts)), 1.15 * counts[0], 100 if quick else 300
    r = radii(N, rng)
    shut = spheres(loose(counts, (0, 0, 0.01), rng), r, 0.5, [Box((0, 0, 0), (side, side, np.inf))])
    still = moved(shut, 10.0 if quick else 20.0)
    runs, flux, scatter = [still], [], []
    for wide in widths:
        a, b = (side - wide) / 2, (side + wide) / 2
        floor = [Panel((x, 0, 0), (a, 0, 0), (0, side, 0)) for x in (0, b)]
        floor += [Panel((a, y, 0), (wide, 0, 0), (0, a, 0)) for y in (0, b)]
        walls = [*floor, Box((0, 0, -np.inf), (side, side, np.inf))]
        pile, t, out = shut.replaced(position=still.x[-1], walls=walls), [0.0], [0]
        while t[-1] < 40.0 and (out[-1] < most or t[-1] < 9.0):
            sol = moved(pile, 0.5, records=1)  # then those that have left are taken away
            x, stay = sol.x[-1], sol.x[-1, :, 2] > -1.0
            motion = {"velocity": sol.v[-1][stay], "spin": sol.spin[-1][stay]}
            pile = spheres(x[stay], pile.radius[stay], 0.5, walls, **motion)
            t.append(t[-1] + 0.5)
            out.append(out[-1] + np.count_nonzero(~stay))
            runs.append(sol)
        t, out = np.array(t), np.array(out)
        use = t >= max(3.0, 0.2 * t[-1])
        thirds = np.array_split(np.diff(out[use]), 3)
        flux.append(np.ptp(out[use]) / np.ptp(t[use]))
        scatter.append(np.std([np.mean(x) for x in thirds]) / np.sqrt(2))
    width, flux = np.array(widths), np.array(flux)
    each = zip(width, flux, scatter, strict=True)
    told = ", ".join(f"{a:g}: {b:.1f} +- {c:.1f}" for a, b, c in each)
    yield from _exponent(width, flux, 2.5, "", told)
    constant = flux * np.pi / 6 / 0.6 / (width - 1.4) ** 2.5
    told = ", ".join(f"{a:g}: {b:.2f}" for a, b in zip(width, constant, strict=True))
    known = "0.74 = 0.58 * 4 / pi"
    what = "C of Q = C phi sqrt(g) (D - 1.4 d)^2.5"
    yield what, f"{np.mean(constant):.2f}", known, "Beverloo 1961", told
    yield "spheres, steps", f"{N}, {sum(s.stats.steps for s in runs)}", "", "", loosened(*runs)


def drum(seed, quick):
    """Discs half filling a drum with a bumpy wall, mu = 0.5: slope of the heap, in degrees."""
    sets = ((8.0, 0.1), (8.0, 0.3)) if quick else ((8.0, 0.1), (8.0, 0.3), (16.0, 0.3))
    for size, spread in sets:
        for froude in (0.01,) if quick or spread == 0.1 else (0.002, 0.01, 0.05):
            rng, rate = np.random.default_rng(seed), np.sqrt(froude / size)
            phase = np.linspace(0.0, 2 * np.pi, round(2 * np.pi * size), endpoint=False)

            def ring(t, rate=rate, phase=phase, size=size):
                turned = phase + rate * t
                return size * np.stack([np.cos(turned), np.sin(turned)], axis=1)

            space = 1.05 + spread
            n = int(2 * size / space)
            x = loose((n, n), (-n * space / 2,) * 2, rng, space)
            inside = np.flatnonzero(np.hypot(*x.T) < size - 0.55 * (2 + spread))
            x = x[inside[: round(1.6 * size**2)]]  # half of it at a fraction of 0.8
            r = radii(len(x), rng, spread)
            pile = spheres(x, r, 0.5, [Obstacles(ring, 0.5, spin=rate)])
            begun = moved(pile, 1.2 / rate)  # radians: until it flows
            sol = moved(pile, 3.7 / rate, start=begun, records=300)
            slopes = np.array([_slopes(x, r, size) for x in sol.x[1:]])
            mean, free = np.mean(slopes, axis=0)
            what, known = f"R = {size:g} d +-{spread:g}, Froude {froude:g}: ", "15 to 30, grows"
            yield what + "surface", f"{free:.1f}", known, "GDR MiDi 2004", loosened(begun, sol)
            told = f"over time +-{np.std(slopes[:, 0]):.1f}"
            yield what + "centre of mass", f"{mean:.1f}", "", "", told


def _slopes(x, r, size):
    """Degrees, of discs in a drum: from their centre of mass, and of the middle of the surface."""
    middle = np.mean(x, axis=0)
    angle = np.arctan2(middle[0], -middle[1])
    along = x @ [np.cos(angle), np.sin(angle)]
    above = x @ [-np.sin(angle), np.cos(angle)] + r
    low = np.floor(along)
    bins = [b for b in np.unique(low) if abs(b + 0.5) < size / 2]
    tops = [np.max(above[low == b]) for b in bins]
    return np.abs(np.rad2deg([angle, angle + np.arctan(np.polyfit(bins, tops, 1)[0])]))


COLUMNS = (  # width, floor, rolling resistance, height over width
    (10, "bumps", 0.0, (1, 2, 4, 8, 16)),
    (10, "flat", 0.0, (1, 2, 4, 8, 16)),
    (10, "bumps", 0.2, (1, 2, 4, 8)),
    (20, "bumps", 0.0, (1, 2, 4, 8)),
    (20, "flat", 0.0, (2, 4, 8)),
)
CHANNELS = ("wide", "slot")  # of spheres on bumps, 5 d deep: periodic, or between walls
DEEP, TALL = 5.0, (1, 2, 4, 8)


def collapse(seed, quick):
    """A column of discs set free, mu = 0.5: how far it runs out, (L - L0) / L0."""
    small = ((8, "bumps", 0.0, (1, 4)), (8, "bumps", 0.2, (1, 4)))
    for wide, kind, rolling, ratios in small if quick else COLUMNS:
        outs, runs = [], []
        for ratio in ratios:
            x, r, floor = _column(seed, wide, ratio)
            if kind == "flat":
                floor = carom.Plane((0, np.min(x[:, 1] - r) - 1e-3), (0, 1))
            walls = [floor, Box((0, -5.0), (np.inf, np.inf))]
            options = {"rolling": rolling} if rolling else {}
            sols = _rested(spheres(x, r, 0.5, walls, **options))
            outs.append(((np.max(x[:, 1]) - 0.5) / wide, *_fronts(sols[-1], wide)))
            runs += sols
        name = f"{wide} d, {kind}" + f", rolling {rolling:g}" * bool(rolling)
        yield from _run_out(name, *np.array(outs).T, loosened(*runs))


def channel(seed, quick):
    """Spheres set free in a channel, mu = 0.5: what side walls do to the run-out."""
    wide, ratios = (8, (2,)) if quick else (10, TALL)
    for kind in CHANNELS:
        outs, runs = [], []
        for ratio in ratios:
            x, r, floor, options = _standing(seed, wide, ratio, kind)
            sols = _rested(spheres(x, r, 0.5, [floor, _sides(np.inf, kind)], **options))
            outs.append(((np.max(x[:, 2]) - 0.5) / wide, *_fronts(sols[-1], wide)))
            runs += sols
        yield from _run_out(f"{kind} channel", *np.array(outs).T, loosened(*runs))


def _standing(seed, wide, ratio, kind):
    """Spheres that have settled without friction behind a gate, radii, floor, and the period."""
    rng, across, back = np.random.default_rng(seed), int(wide / 1.25), int(DEEP / 1.25)
    rows = round(DEEP / 0.9)
    places = np.arange(-1.0, wide * (4 + 4 * ratio), 0.9), (np.arange(rows) + 0.5) * DEEP / rows
    along, side = (a.ravel() for a in np.meshgrid(*places, indexing="ij"))
    floor = Obstacles(np.stack([along, side, np.zeros_like(along)], axis=1), 0.5)
    layers = round(1.1 * wide**2 * DEEP * ratio / (across * back))
    x = loose((across, back, layers), (0, 0, 0.6), rng, DEEP / back)
    r = radii(len(x), rng, 0.2)
    options = {"periodic": (None, DEEP, None)} if kind == "wide" else {}
    settled = _rested(spheres(x, r, 0.0, [floor, _sides(wide, kind)], **options))[-1]
    return settled.x[-1], r, floor, options


def _sides(end, kind):
    """The walls of a channel, up to its end."""
    low, high = (-np.inf, np.inf) if kind == "wide" else (0.0, DEEP)
    return Box((0.0, low, -5.0), (end, high, np.inf))


@cache
def _column(seed, wide, ratio):
    """Discs that have settled without friction behind a gate, their radii, and the floor."""
    rng = np.random.default_rng(seed)
    across = int(wide / 1.25)
    along = np.arange(-1.0, wide * (4 + 6 * ratio), 0.9)
    floor = Obstacles(np.stack([along, np.zeros_like(along)], axis=1), 0.5)
    x = loose((across, round(ratio * wide**2 / across)), (0, 0.6), rng, wide / across)
    walls = [floor, Box((0, -5.0), (wide, np.inf))]
    r = radii(len(x), rng, 0.2)
    return _rested(spheres(x, r, 0.0, walls))[-1].x[-1], r, floor


def _rested(pile):
    """Runs of a pile, one after the other, until 99 of 100 grains have come to rest."""
    piece = 0.3 * np.sqrt(np.ptp(pile.position[:, -1]))
    runs = [moved(pile, piece, records=1)]
    while np.quantile(np.abs(runs[-1].v[-1]), 0.99) > 0.02 and len(runs) < 50:
        runs.append(moved(pile, piece * (len(runs) + 1), start=runs[-1], records=1))
    return runs


def _fronts(sol, wide):
    """How far a column has run: to where a diameter of the floor is bare, and 98 of 100 grains."""
    x, r = sol.x[-1, :, 0], sol.pile.radius
    order = np.argsort(x)
    far = np.maximum.accumulate((x + r)[order])
    bare = np.append((x - r)[order][1:] - far[:-1] > 1.0, True)
    return far[np.argmax(bare)] / wide - 1.0, np.quantile(x, 0.98) / wide - 1.0


def _run_out(name, a, front, most, told):
    """Run-outs and exponents, beside those of real grains between plates and of discs."""
    lube = np.where(a < 2.3, 1.2 * a, 1.9 * a ** (2 / 3))
    staron = np.where(a < 2.0, 2.5 * a, 3.25 * a**0.7)
    source = "Lube 2005, Staron & Hinch 2005"
    for i, y in enumerate(front):
        known = f"{lube[i]:.2f}, discs {staron[i]:.2f}"
        within = f"98 of 100 grains within {most[i]:.2f}"
        yield f"{name}, a = {a[i]:.2f}", f"{y:.2f}", known, source, within
    for low, high in ((0.5, 2.5), (1.5, 5.0), (3.0, 20.0)):
        use = (a > low) & (a < high)
        if np.count_nonzero(use) > 1:
            curves = (y[use] for y in (front, lube, staron))
            found, *known = (np.polyfit(np.log(a[use]), np.log(y), 1)[0] for y in curves)
            what = f"{name}: exponent, a = {low:g} to {high:g}"
            yield what, f"{found:.2f}", "{:.2f}, discs {:.2f}".format(*known), source, told
            told = ""


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


SCENES = {
    f.__name__: f for f in (packing, repose, janssen, beverloo, silo, drum, collapse, channel, pour)
}


def measured(name, seed, quick):
    """The rows of a scene, and what it took."""
    began = time.perf_counter()
    rows = []
    try:
        rows += SCENES[name](seed, quick)
    except carom.CaromError as error:
        rows.append((type(error).__name__, str(error)[:200], "none", "", ""))
    return name, seed, rows, time.perf_counter() - began


def over_seeds(name, found):
    """Print mean and standard deviation of each row over the seeds."""
    print(f"\n{name}, mean and standard deviation of {len(found)} seeds")
    for what in dict.fromkeys(row[0] for rows in found for row in rows):
        values = [row[1] for rows in found for row in rows if row[0] == what]
        try:
            values = np.array(values, float)
        except ValueError:
            continue
        if len(values) == len(found):
            print(f"  {what:46} {np.mean(values):8.2f} +- {np.std(values, ddof=1):.2f}")


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
        found = {name: [] for name in options.only}
        for done in as_completed([pool.submit(measured, *job) for job in jobs]):
            name, seed, rows, seconds = done.result()
            print(f"\n{name}, seed {seed}, {seconds:.0f} s: {SCENES[name].__doc__}")
            for what, value, known, source, told in rows:
                known = f"known: {known}" + (f" ({source})" if source else "") if known else ""
                print(f"  {what:46} {value:>12}   {known}")
                if told:
                    print(f"      {told}")
            sys.stdout.flush()
            found[name].append(rows)
            if len(found[name]) == len(options.seed) > 1:
                over_seeds(name, found[name])


if __name__ == "__main__":
    main()
