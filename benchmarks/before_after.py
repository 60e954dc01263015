"""What a change of the code costs or saves: the figures of two states of it, side by side.

    git worktree add ../before COMMIT
    python benchmarks/before_after.py ../before [--only startup spheres ...] [--rounds 3] [--quick]

Both run by turns, each benchmark in a process of its own (speed.py here, spheres.py of each
state), and keep their best time.  Ratios are after / before: below one the change saves.  Each
state pours its own piles of spheres, and one may be easier than the other by chance; ``piles``
moves on piles poured by the state before, with both.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
SECTIONS = ("trajectory", "batch", "pendulum", "startup")
ALL = (*SECTIONS, "spheres", "piles")
PILES = {1_000: 8, 10_000: 3}  # how many of each size
ROW = re.compile(r"^\s*(\d+)\s+(\S+)\s+(falling|settled)\s+(\S+)\s+(\S+)")


def leaves(tree, path=()):
    """Every time in the figures, by its path."""
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from leaves(value, (*path, name))
        elif isinstance(value, int | float) and "threads" not in name and "diff" not in name:
            yield ", ".join((*path, name)), value


def run(root, script, *options):
    """What a benchmark prints, with the code of ``root``."""
    there = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "src"), *_given()])}
    done = subprocess.run(
        [sys.executable, script, *options], env=there, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{script} with {root}:\n{done.stderr}")
    return done.stdout


def _given():
    return [path for path in [os.environ.get("PYTHONPATH", "")] if path]


def figures(root, chosen, quick):
    """Times by name: of Systems in the units that speed.py has, of spheres CPU ms a step."""
    options, found = ["--quick"] if quick else [], {}
    if sections := [name for name in SECTIONS if name in chosen]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "figures.json"
            run(root, HERE / "benchmarks/speed.py", "--only", *sections, "--json", path, *options)
            found |= leaves(json.loads(path.read_text()))
    if "spheres" in chosen:
        growth = run(root, root / "benchmarks/spheres.py", "--only", "growth", *options)
        for row in filter(None, map(ROW.match, growth.splitlines())):
            found[f"spheres, {row[1]}, {row[2]}, {row[3]}, CPU ms"] = float(row[4])
    return found


# Of each pile the mean CPU ms of a step (neighbours are looked for in some) and the sweeps.
ON = """
import sys, numpy as np
sys.path.insert(0, sys.argv[1])
import spheres
path, N, seed = sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
if len(sys.argv) > 5:
    x = np.array(spheres.pile(N, 1e-4).position)
    x += 0.04 * spheres.R * np.random.default_rng(seed).uniform(-1, 1, x.shape)
    poured = spheres.Stepper(spheres.pile(N, 1e-4, x))
    poured.run(500)
    np.savez(path, x=poured.state.q, v=poured.state.v[:, :3])
else:
    with np.load(path) as at:
        settled = spheres.Stepper(spheres.pile(N, 1e-4, at["x"], at["v"]))
    settled.run(5)
    cpu, _, sweeps, _ = settled.run(60)
    print(1e3 * cpu, sweeps)
"""


def piles(before, rounds):
    """Times of both states on the same settled piles: the best of the rounds, summed."""
    print(
        f"\n{'settled, the same piles, CPU ms a step':42} {'before':>9} {'after':>9} {'ratio':>7}"
    )
    with tempfile.TemporaryDirectory() as folder:
        for N, count in PILES.items():
            told = {}
            for seed in range(count):
                path = Path(folder) / f"{N}_{seed}.npz"
                on = ("-c", ON, before / "benchmarks", path, str(N), str(seed))
                run(before, *on, "pour")
                for _ in range(rounds):
                    for name, root in (("before", before), ("after", HERE)):
                        there = ("-c", ON, root / "benchmarks", *on[3:])
                        cpu, sweeps = map(float, run(root, *there).split())
                        best = told.get((name, seed), (cpu, sweeps))
                        told[name, seed] = min(best[0], cpu), sweeps
            (cpu0, sweeps0), (cpu, sweeps) = (
                [sum(told[name, seed][k] for seed in range(count)) / count for k in (0, 1)]
                for name in ("before", "after")
            )
            what = f"{count} of {N} spheres, sweeps {sweeps0:.1f} and {sweeps:.1f}"
            print(f"{what:42} {cpu0:9.4g} {cpu:9.4g} {cpu / cpu0:7.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path, help="folder with another state of the code")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=ALL, default=ALL)
    parser.add_argument("--quick", action="store_true", help="fewer steps: a check, not a figure")
    options = parser.parse_args()
    if "piles" in options.only:
        piles(options.before.resolve(), options.rounds)
    best = {"before": {}, "after": {}}
    if options.only == ["piles"]:
        return
    for turn in range(options.rounds):
        for name, root in (("before", options.before.resolve()), ("after", HERE)):
            for key, value in figures(root, options.only, options.quick).items():
                best[name][key] = min(value, best[name].get(key, value))
        print(f"\n{f'best of {turn + 1}':58} {'before':>11} {'after':>11} {'ratio':>7}")
        for key in sorted(best["before"].keys() & best["after"].keys()):
            before, after = best["before"][key], best["after"][key]
            print(f"{key:58} {before:11.4g} {after:11.4g} {after / before:7.2f}", flush=True)


if __name__ == "__main__":
    main()
