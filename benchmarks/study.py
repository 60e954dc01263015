"""How long studies take: a bifurcation diagram and basins of attraction, against a C loop.

    python benchmarks/study.py [--only bifurcation basins device] [--quick] [--json PATH]

The problem is P3, x'' + x = cos(w t), x <= 0, r = 0.8, by Moreau's scheme.  Seconds are of warm
calls, the best of several; CPU seconds are those of all threads, which other programs on the
machine disturb less.  The device section needs a GPU that JAX sees, and is left out without one.
"""

import argparse
import ctypes
import json
import math
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import carom
from carom import study

HERE = Path(__file__).parent


class Diagram(ctypes.Structure):
    """The struct of study.c."""

    _fields_ = [
        ("s", ctypes.c_double),
        ("e", ctypes.c_double),
        ("steps", ctypes.c_long),
        ("settle", ctypes.c_long),
        ("keep", ctypes.c_long),
    ]


def oscillator(w):
    """P3."""
    return carom.System(
        force=lambda t, q, v: jnp.cos(w * t) - q, gap=lambda t, q: 0.0 - q, restitution=0.8
    )


def damped(w):
    """P3 with some damping and the stop at 0.6: one orbit strikes it and one does not."""
    return carom.System(
        force=lambda t, q, v: jnp.cos(w * t) - q - 0.05 * v,
        gap=lambda t, q: 0.6 - q,
        restitution=0.8,
    )


def library():
    """study.c, compiled."""
    if shutil.which("cc") is None:
        raise SystemExit("no C compiler: install one as `cc`, or choose sections with --only")
    out = Path(tempfile.mkdtemp()) / "study.so"
    flags = ["-O3", "-march=native", "-fopenmp", "-shared", "-fPIC"]
    subprocess.run(["cc", *flags, HERE / "study.c", "-o", out, "-lm"], check=True)
    return ctypes.CDLL(str(out))


def in_c(lib, setting, w, q, u):
    """The strobes (members, keep) by the C loop."""
    pointer = ctypes.POINTER(ctypes.c_double)
    out = np.zeros((len(w), setting.keep))
    arrays = [np.ascontiguousarray(a, float).ctypes.data_as(pointer) for a in (w, q, u)]
    lib.diagram(ctypes.byref(setting), ctypes.c_long(len(w)), *arrays, out.ctypes.data_as(pointer))
    return out


def timed(call, repeats):
    """Best wall and CPU seconds, and the last result."""
    wall, cpu, result = math.inf, math.inf, None
    for _ in range(repeats):
        begin, used = time.perf_counter(), time.process_time()
        result = call()
        wall = min(wall, time.perf_counter() - begin)
        cpu = min(cpu, time.process_time() - used)
    return wall, cpu, result


def bifurcation(quick):
    """2000 frequencies, 300 + 100 periods of 500 steps: 4e8 steps."""
    count, settle, keep, steps = (200 if quick else 2000), 300, 100, 500
    w = np.linspace(2.0, 4.0, count)
    start = {"q0": [-0.3], "v0": [0.0], "period": lambda w: 2 * jnp.pi / w, "steps": steps}

    def at_once(settle=settle, keep=keep):
        return study.bifurcation(oscillator, w, settle=settle, keep=keep, carried=False, **start)

    cold, _, _ = timed(at_once, 1)
    wall, cpu, found = timed(at_once, 2)
    setting = Diagram(0.0, 0.8, steps, settle, keep)
    lib, fixed = library(), np.full(count, -0.3)
    c_wall, c_cpu, expected = timed(lambda: in_c(lib, setting, w, fixed, 0.0 * w), 2)
    calm = np.ptp(expected, axis=1) < 0.05  # chaos parts from itself by rounding
    apart = np.abs(found["strobe_q"].values[0, :, :, 0] - expected)[calm].max()
    n = count * (settle + keep) * steps
    print(f"\nBifurcation diagram, {count} frequencies, {n:.1e} steps (target: 10 s)")
    print(f"  carom, first call   {cold:8.2f} s")
    print(f"  carom               {wall:8.2f} s, {cpu:.2f} s CPU, {cpu / n * 1e9:.1f} ns/step CPU")
    print(f"  C, all cores        {c_wall:8.2f} s, {c_cpu:.2f} s CPU; carom / C {cpu / c_cpu:.2f}")
    print(f"  largest difference on orbits that repeat  {apart:.1e}")
    few = w[:: max(1, count // 100)]
    walk, walk_cpu, _ = timed(
        lambda: study.bifurcation(oscillator, few, settle=settle, keep=keep, **start), 2
    )
    each = walk_cpu / (2 * len(few) * (settle + keep) * steps) * 1e9
    print(f"  carried up and down, {len(few)} values: {walk:.2f} s, {each:.1f} ns/step CPU")
    return {"seconds": wall, "cpu": cpu, "c_seconds": c_wall, "c_cpu": c_cpu, "apart": apart}


def basins(quick):
    """512 x 512 initial states, 100 + 16 periods of 200 steps; compiling included."""
    side, settle, keep, steps, w = (64 if quick else 512), 100, 16, 200, 2.5
    grid = {"v": np.linspace(-3.0, 3.0, side), "x": np.linspace(-3.0, 0.6, side)}

    def all_states():
        return study.basins(
            damped(w),
            grid,
            q0=lambda x: x,
            v0=lambda v: v,
            period=2 * np.pi / w,
            settle=settle,
            keep=keep,
            steps=steps,
        )

    wall, cpu, found = timed(all_states, 1)
    n = side**2 * (settle + keep) * steps
    lib, setting = library(), Diagram(0.6, 0.8, steps, settle, keep)
    part = 16 if not quick else 1  # the C loop does a part of it
    x, v = (np.ravel(a)[::part] for a in np.meshgrid(grid["x"], grid["v"]))
    c_wall, c_cpu, _ = timed(lambda: in_c(lib, setting, np.full(len(x), w), x, v), 1)
    print(f"\nBasins, {side} x {side} states, {n:.1e} steps (target: 60 s)")
    print(f"  carom, first call   {wall:8.2f} s, {cpu:.2f} s CPU, {cpu / n * 1e9:.2f} ns/step CPU")
    print(f"  C, all cores        {c_wall * part:8.2f} s, {c_cpu * part:.2f} s CPU (from 1/{part})")
    periods = found["attractor_period"].values.tolist()
    print(f"  attractors of periods {periods}")
    return {"seconds": wall, "cpu": cpu, "c_seconds": c_wall * part, "c_cpu": c_cpu * part}


def device(quick):
    """A batch of 10^6 members on the GPU."""
    if jax.default_backend() == "cpu":
        print("\nDevice: JAX sees no GPU, left out")
        return {}
    members, steps = (10**5 if quick else 10**6), 20_000

    def batch():
        return study.sweep(
            oscillator,
            {"w": np.linspace(2.0, 4.0, members)},
            q0=[-0.3],
            v0=[0.0],
            scheme=carom.Moreau(),
            dt=lambda w: 2 * jnp.pi / w / 500,
            steps=steps,
        )

    cold, _, _ = timed(batch, 1)
    wall, _, found = timed(batch, 3)
    picoseconds = wall / (members * steps) * 1e12
    print(f"\nBatch of {members} members, {steps} steps, on {jax.devices()[0].device_kind}")
    print(f"  first call {cold:.2f} s, then {wall:.3f} s: {picoseconds:.1f} ps a member and step")
    assert np.all(found["status"] == 0)
    return {"seconds": wall, "picoseconds": picoseconds}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    sections = {f.__name__: f for f in (bifurcation, basins, device)}
    parser.add_argument("--only", nargs="+", choices=sections, default=list(sections))
    parser.add_argument("--quick", action="store_true", help="smaller, for a look")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, JAX {jax.__version__} on {jax.default_backend()}")
    figures = {name: sections[name](options.quick) for name in options.only}
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
