"""Batches of event-driven runs, and what EventDriven compiles, of one state of the code or of two.

    python benchmarks/events.py
    git worktree add ../before COMMIT && python benchmarks/events.py --before ../before

64 members of a ball on a table that moves, e from 0.1 to 0.9, by ``vmap``, by a Python loop and by
``jax.lax.map``, once compiled.  Compiling is a first call, of a short run, with nothing kept from
before.  All in seconds of CPU, so that other work on the machine counts little.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
MEMBERS = 64


def timed(function):
    """Seconds of the first call and of the second."""
    import jax

    found = []
    for _ in range(2):
        start = time.process_time()
        jax.block_until_ready(function())
        found.append(time.process_time() - start)
    return found


def batches():
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    import carom

    class Table(eqx.Module):
        def __call__(self, t, q):
            return q - 2.5 * jnp.sin(t)

    class Weight(eqx.Module):
        def __call__(self, t, q, v):
            return -jnp.ones(1)

    def end(e):
        table = carom.System(force=Weight(), gap=Table(), restitution=e)
        return carom.solve(table, carom.EventDriven(), [1.0], [0.0], t1=40.0, dt=1.0).q[-1]

    es = jnp.linspace(0.1, 0.9, MEMBERS)
    one = jax.jit(end)
    ways = {
        "vmap": jax.jit(jax.vmap(end)),
        "Python loop": lambda es: [one(e) for e in es],
        "lax.map": jax.jit(lambda es: jax.lax.map(end, es)),
    }
    return {f"64 members, {name}": timed(lambda way=way: way(es))[1] for name, way in ways.items()}


def compiling():
    import jax
    import jax.numpy as jnp

    import carom

    def ball(e):
        return carom.System(
            force=lambda t, q, v: 0.0 * q - 9.81, gap=lambda t, q: q, restitution=e
        ), [1.0]

    def corner(e):
        return carom.System(
            force=lambda t, q, v: jnp.array([0.3, -9.81]),
            gap=lambda t, q: jnp.stack([q[1], 1.0 - q[0]]),
            restitution=e,
        ), [0.0, 1.0]

    def pendulum(e):
        def mass(q):
            c = jnp.cos(q[0] - q[1])
            return jnp.array([[2.0, c], [c, 1.0]])

        def height(q):
            return -2.0 * jnp.cos(q[0]) - jnp.cos(q[1])

        return carom.Lagrangian(
            mass=mass, potential=height, gap=lambda t, q: q + 0.3, restitution=e
        ), [1.0, 0.5]

    def run(made, e=0.5):
        system, q0 = made(e)
        sol = carom.solve(system, carom.EventDriven(), q0, [0.0] * len(q0), t1=1.0, dt=0.1)
        return sol.q[-1]

    calls = {
        "ball": lambda: run(ball),
        "two gaps": lambda: run(corner),
        "double pendulum, M(q)": lambda: run(pendulum),
        "derivative, ball": lambda: jax.jacfwd(lambda e: run(ball, e))(0.5),
    }
    return {f"compiling, {name}": timed(call)[0] for name, call in calls.items()}


def figures(root):
    """Of the code in ``root``, in a process of its own, nothing compiled."""
    there = {k: v for k, v in os.environ.items() if k != "JAX_COMPILATION_CACHE_DIR"}
    there["PYTHONPATH"] = str(root / "src")
    command = [sys.executable, __file__, "--json"]
    done = subprocess.run(command, env=there, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.json:
        print(json.dumps({**compiling(), **batches()}))
        return
    after = figures(HERE)
    before = figures(given.before.resolve()) if given.before else {}
    print("| CPU seconds | before | after |\n|---|---|---|")
    for name, value in after.items():
        print(f"| {name} | {before.get(name, float('nan')):.2f} | {value:.2f} |")


if __name__ == "__main__":
    main()
