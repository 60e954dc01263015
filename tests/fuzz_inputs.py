"""Junk for Spheres, walls, run files and result files: only CaromErrors, no hang, no file lost.

    python tests/fuzz_inputs.py SEED COUNT [KIND]

prints, for each kind of input, how many were taken and how many refused, and every case that did
neither.  Cases run in forked processes: a damaged file may take the HDF5 library down with it, and
what hangs in compiled code hears no signal but the last.
"""

import collections
import contextlib
import json
import os
import random
import shutil
import signal
import struct
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

import h5py
import numpy as np

import carom
from carom.app import runfile
from carom.spheres import Box, Cylinder, Obstacles, Panel, Plane, Shell
from carom.worlds.spheres.walls import Walls

SECONDS = 20  # that one case may take; twice as many, and its process is ended
TOGETHER = 200  # cases in a process
SCHEMES = (carom.Maury(), carom.Moreau(), carom.PaoliSchatzman(), carom.Moreau(implicit=True))


class Hangs(Exception):
    """A case took too long."""


# ---- values -------------------------------------------------------------------------------------


def number(rng):
    return rng.choice(
        [0.0, 1.0, -1.0, 0.5, 2, 3, -0.0, 1e-9, 1e9, 1e-300, 1e300, -1e300, 5e-324, np.inf, -np.inf,
         np.nan, 10**400, 2**63, rng.uniform(-3, 3), rng.uniform(0, 1), np.float32(0.1), np.int8(3),
         True, 1e-3, 1e154, 1e-160]
    )  # fmt: skip


def junk(rng, depth=0):
    """Anything."""
    pick = rng.randrange(14)
    if pick < 4:
        return number(rng)
    if pick < 7 and depth < 3:
        return [junk(rng, depth + 1) for _ in range(rng.randrange(5))]
    if pick == 7:
        shape = tuple(rng.randrange(4) for _ in range(rng.randrange(4)))
        return np.random.default_rng(rng.randrange(2**32)).normal(size=shape)
    if pick == 8:
        return rng.choice(["", "xy", "1.0", "nan", b"1", "0", "é"])
    if pick == 9:
        return rng.choice([None, {}, {"a": 1}, set(), object(), Ellipsis, int, 1j, slice(3)])
    if pick == 10:
        value = junk(rng, depth + 1)
        return lambda *_: value
    if pick == 11:
        return lambda *_: 1 / 0
    if pick == 12:
        return np.array([number(rng) for _ in range(rng.randrange(1, 4))], object)
    return (number(rng), number(rng))


def vector(rng, d):
    if rng.random() < 0.85:
        return [rng.uniform(-3, 3) for _ in range(d)]
    return junk(rng) if rng.random() < 0.5 else [number(rng) for _ in range(d)]


def moving(rng, value):
    """The value, or a function of t that gives it (or something else, some time)."""
    pick = rng.random()
    if pick < 0.85:
        return value
    other = junk(rng) if pick > 0.95 else value
    late = rng.uniform(0, 0.02)
    return lambda t: other if t > late else value


def wall(rng, d):
    make = rng.choice([Plane, Box, Cylinder, Shell, Panel, Obstacles])
    point, radius = vector(rng, d), rng.uniform(0.1, 9) if rng.random() < 0.8 else junk(rng)
    if make is Plane:
        given = [point, vector(rng, d)]
    elif make is Box:
        given = [point, [9.0] * d if rng.random() < 0.7 else vector(rng, d)]
    elif make is Cylinder:
        given = [point, rng.choice([(0, 0, 1), (0, 1, 0), vector(rng, 3)]), radius]
    elif make is Shell:
        given = [point, radius]
    elif make is Panel:
        given = [point, [1.0] + [0.0] * (d - 1)] if rng.random() < 0.6 else [point, vector(rng, d)]
    else:
        given = [[vector(rng, d) for _ in range(rng.randrange(1, 3))], rng.uniform(0.1, 1)]
        if rng.random() < 0.2:
            given[rng.randrange(2)] = junk(rng)
    return make(*(moving(rng, value) for value in given))


def spheres(rng, wild):
    """Arguments of Spheres, of which some are junk; ``wild``: how likely each is."""
    d, N = rng.choice([2, 3]), rng.randrange(1, 5)
    grid = [[2.5 * (k % 2), 2.5 * (k // 2), 0.0][:d] for k in range(N)]
    given = {"position": grid, "radius": moving(rng, rng.choice([1.0, 0.3, [0.5] * N]))}
    options = {
        "velocity": [vector(rng, d) for _ in range(N)],
        "mass": rng.choice([1.0, [2.0] * N, 1e-3]),
        "walls": [wall(rng, d) for _ in range(rng.randrange(3))],
        "gravity": rng.choice([[0.0] * (d - 1) + [-9.81], vector(rng, d)]),
        "restitution": rng.choice([0.0, 0.5, 1.0]),
        "periodic": rng.choice([None, [20.0] * d, [None] * (d - 1) + [20.0], 30.0]),
        "force": rng.choice([None, lambda t, x, v: -v, lambda t, x, v: 1e4 * x]),
        "tolerance": rng.choice([1e-6, 1e-9, 1e-3]),
        "iterations": rng.choice([20_000, 500]),
    }
    given |= {name: value for name, value in options.items() if rng.random() < 0.4}
    for name in [*given, *options]:
        if rng.random() < wild:
            given[name] = junk(rng)
    return given


# ---- cases --------------------------------------------------------------------------------------


def build(rng, folder):
    carom.Spheres(**spheres(rng, 0.06))


def bound(rng, folder):
    d = rng.choice([2, 3])
    walls = Walls([wall(rng, d) for _ in range(rng.randrange(1, 3))]).during(0.0, 1.0)
    walls.check(np.array([rng.choice([0.0, 20.0]) for _ in range(d)]), 0.0)
    walls.at(rng.uniform(-0.1, 1.1))


def solve(rng, folder):
    pile = carom.Spheres(**spheres(rng, 0.01))
    steps, dt = rng.randrange(1, 4), rng.choice([1e-2, 1e-2, 1e-5, 1.0, number(rng)])
    record = rng.choice([None, carom.Record(every=1)])
    if rng.random() < 0.1:
        record = carom.Record(times=junk(rng))
    t0 = rng.choice([0.0, 0.0, 1.0, number(rng)])
    with contextlib.suppress(TypeError, OverflowError):
        if not 0.0 < (t1 := t0 + steps * dt) - t0 < 1e6:
            t1 = t0 + 1e-2
        carom.solve(pile, rng.choice(SCHEMES), t0=t0, t1=t1, dt=(t1 - t0) / steps, record=record)
        return
    raise carom.CaromError("times are no numbers")


RUN_FILES = (
    'model = "bouncing_ball"\ndt = 0.01\nt1 = 0.2\n[parameters]\ne = 0.8\n',
    'model = "row_of_balls"\nscheme = "Maury"\ndt = 1e-3\nt1 = 0.1\n[record]\nevery = 10\n',
    'spheres = "column"\ndt = 0.01\nt1 = 0.05\n[parameters]\nN = 2\ndimension = 2\n',
    'spheres = "lattice"\nscheme = "Moreau(implicit=True)"\ndt = 0.01\nt1 = 0.02\n'
    'out = "a.vtkhdf"\n'
    "[parameters]\nshape = [2, 2, 2]\nradius = 0.1\nspacing = 0.21\ngravity = [0.0, 0.0, -9.81]\n"
    '[[walls]]\nkind = "Plane"\npoint = [0.0, 0.0, 0.0]\nnormal = [0.0, 0.0, 1.0]\n'
    '[[walls]]\nkind = "Cylinder"\npoint = [0.0, 0.0, 0.0]\naxis = [0.0, 0.0, 1.0]\nradius = 2.0\n'
    "[record]\ninterval = 0.01\n",
    'spheres = "random"\ndt = 0.01\nt1 = 0.02\n[parameters]\nN = 4\nfraction = 0.1\nseed = 3\n',
    'spheres = "hopper"\ndt = 0.01\nt1 = 0.02\n[parameters]\nN = 4\nradius = 0.1\nopening = 0.5\n'
    "width = 2.0\n",
)
WORDS = ("nan", "inf", "-1", "0", "true", '"x"', "[]", "[1, 2]", "{}", "1e300", "1e-300",
         "1979-05-27", "model", "[[walls]]", "kind", "=", "\n", "#", "[", "]", "-inf")  # fmt: skip


def mutated(rng, text):
    """A few letters or words gone, doubled, or others."""
    for _ in range(rng.randrange(1, 4)):
        at, pick = rng.randrange(len(text) + 1), rng.randrange(5)
        size = rng.choice([1, 1, 3, 9, 30])
        if pick == 0:
            text = text[:at] + text[at + size :]
        elif pick == 1:
            text = text[:at] + rng.choice(WORDS) + text[at:]
        elif pick == 2:
            lines = text.split("\n")
            k = rng.randrange(len(lines))
            if " = " in lines[k]:
                lines[k] = lines[k].split(" = ")[0] + " = " + rng.choice(WORDS)
            text = "\n".join(lines)
        elif pick == 3:
            text = text[:at] + chr(rng.choice([0, 9, 34, 39, 61, 91, 93, 127, 233])) + text[at:]
        else:
            text = text[:at] + text[max(0, at - size) :]
    return text


def run_file(rng, folder):
    path = folder / "case.toml"
    path.write_text(mutated(rng, rng.choice(RUN_FILES)), encoding="utf-8")
    runfile.read(path)


def originals(folder):
    """Files of runs: whole, stopped, saved, of before text had its length; of both worlds."""
    made = {}

    def stop(run):
        if run.step >= 6:
            raise KeyboardInterrupt

    ball = carom.System(force=lambda t, q, v: -9.81 + 0.0 * q, gap=lambda t, q: q, restitution=0.5)
    floor = Plane((0, 0), (0, 1))
    pile = carom.spheres.lattice((2, 2), 0.1, spacing=0.21, gravity=(0, -9.81), walls=[floor])
    for name, problem, given in (("nc", ball, ([0.1], [0.0])), ("vtkhdf", pile, ())):
        for progress in (False, stop):
            path = folder / f"{'stopped' if progress else 'whole'}.{name}"
            with contextlib.suppress(KeyboardInterrupt):
                carom.solve(problem, carom.Maury(), *given, t1=0.2, dt=0.02, progress=progress,
                            record=carom.Record(path, every=2))  # fmt: skip
            made[path.name] = path.read_bytes()
        sol = carom.solve(problem, carom.Maury(), *given, t1=0.2, dt=0.02)
        sol.save(path := folder / f"saved.{name}")
        made[path.name] = path.read_bytes()
        path = folder / f"older.{name}"
        path.write_bytes(made[f"whole.{name}"])
        older(path)
        made[path.name] = path.read_bytes()
    return made


def older(path):
    """Text in heaps, as files had it."""
    with h5py.File(path, "r+") as h5:
        if path.suffix == ".nc":
            h5.attrs["scheme"] = h5.attrs["scheme"].decode()
            h5["status"].attrs["flag_meanings"] = h5["status"].attrs["flag_meanings"].decode()
            return
        for group, name in ((h5["carom"], "settings"), (h5["carom/pile"], "functions")):
            group.attrs[name] = bytes(group[name][:]).decode()
            del group[name]


def damaged(rng, data):
    """Cut off, bits turned, bytes set, a piece in another place; mostly where the names are."""
    data, pick = bytearray(data), rng.randrange(5)
    if pick == 0:
        return bytes(data[: rng.randrange(len(data))])
    for _ in range(rng.choice([1, 1, 3, 20])):
        at = rng.randrange(min(len(data), rng.choice([100, 2000, 10**9])))
        if pick == 1:
            data[at] ^= 1 << rng.randrange(8)
        elif pick == 2:
            data[at] = rng.choice([0, 255, 127, rng.randrange(256)])
        elif pick == 3:
            size = min(8, len(data) - at)
            data[at : at + size] = struct.pack("<Q", rng.choice([0, 2**63, 2**40, len(data)]))[
                :size
            ]
        else:
            size, source = rng.randrange(64), rng.randrange(len(data))
            data[at : at + size] = data[source : source + size]
    return bytes(data)


def result_file(rng, folder):
    name = rng.choice(sorted(FILES))
    path = folder / f"case{Path(name).suffix}"
    path.write_bytes(data := damaged(rng, FILES[name]))
    try:
        sol = carom.load(path)
        str(sol)
        for field in ("t", "q", "v", "x", "contacts", "impulse"):
            getattr(sol, field, None)
    finally:
        size = path.stat().st_size
        assert size >= len(data), f"the file lost {len(data) - size} bytes"
        assert size <= 1001 * len(data) + 2**30, f"the file grew from {len(data)} to {size} bytes"
        path.unlink()


FILES = {}
KINDS = {"build": (build, 0.5), "bound": (bound, 0.2), "solve": (solve, 0.1),
         "run_file": (run_file, 0.1), "result_file": (result_file, 0.1)}  # fmt: skip


# ---- all of them --------------------------------------------------------------------------------


def late(*_):
    raise Hangs(f"more than {SECONDS} s")


def tried(kind, seed, folder) -> tuple[str, str]:
    """How a case ended: taken, refused, or what is wrong."""
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            KINDS[kind][0](random.Random(f"{kind} {seed}"), folder)
        return "taken", ""
    except carom.CaromError as problem:
        return "refused" if str(problem) else "wrong", "no text"
    except Exception:
        return "wrong", traceback.format_exc(limit=-4)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def forked(kind, seeds, folder, report):
    """The cases, some at a time in a process of their own."""
    path = folder / "log"
    while seeds:
        path.write_text("")
        child = os.fork()
        if child == 0:
            with open(path, "w") as log:
                for seed in seeds[:TOGETHER]:
                    print(json.dumps([seed, "died", ""]), file=log, flush=True)
                    print(json.dumps([seed, *tried(kind, seed, folder)]), file=log, flush=True)
            os._exit(0)
        hung = watched(child, path)
        ends = {}
        for line in path.read_text().splitlines():
            seed, *found = json.loads(line)
            ends[seed] = found
        for seed, (end, what) in ends.items():
            report(kind, seed, "hung" if end == "died" and hung else end, what)
        seeds = seeds[max(len(ends), 1) :]


def apart(work, *given):
    """Done by a process of its own: children of one in which JAX has run may wait for ever."""
    child = os.fork()
    if child == 0:
        try:
            work(*given)
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


def compiled():
    """Kernels, kept on disk: no case is to wait for that."""
    for friction in (0.0, 0.3):
        pile = carom.Spheres([[0.0, 0.0], [0.0, 1.1]], 0.5, friction=friction)
        carom.solve(pile, carom.Maury(), t1=0.02, dt=0.01)


def watched(child, log) -> bool:
    """Wait for a process; end it, and say so, once it has written nothing for too long."""
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.time() - log.stat().st_mtime > 2 * SECONDS:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return True
        time.sleep(0.01)
    return False


def fuzz(seed: int, count: int, kinds=tuple(KINDS)) -> dict:
    """``count`` cases from ``seed`` on: how they ended, by kind, and those that went wrong."""
    ends, wrong = collections.defaultdict(collections.Counter), []
    signal.signal(signal.SIGALRM, late)
    folder = Path(tempfile.mkdtemp(prefix="carom-fuzz-"))
    total = sum(KINDS[kind][1] for kind in kinds)

    def report(kind, number, end, what):
        ends[kind][end] += 1
        if end not in ("taken", "refused"):
            wrong.append((kind, number, what or end))

    apart(compiled)
    try:
        for kind in kinds:
            if kind == "result_file":
                apart(originals, folder)
                FILES.update({p.name: p.read_bytes() for p in folder.iterdir() if p.suffix})
            seeds = range(seed, seed + round(count * KINDS[kind][1] / total))
            forked(kind, list(seeds), folder, report)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {"ends": {kind: dict(found) for kind, found in ends.items()}, "wrong": wrong}


def main(seed, count, *kinds):
    found = fuzz(int(seed), int(count), kinds or tuple(KINDS))
    for kind, ends in found["ends"].items():
        print(f"{kind:12} {sum(ends.values()):7}  {ends}", flush=True)
    groups = collections.defaultdict(list)
    for kind, number, what in found["wrong"]:
        groups[kind, what.strip().splitlines()[-1][:120]].append((number, what))
    for (kind, line), cases in groups.items():
        print(f"\n{len(cases)} x {kind} {line}: seeds {[n for n, _ in cases[:5]]}\n{cases[0][1]}")
    return 1 if found["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
