"""A batch of P3, the forced impact oscillator, on the device JAX sees first.

    python benchmarks/gpu.py [--steps 2000] [--members 10000 100000 1000000]

Prints picoseconds per member and step for the three time-stepping schemes.
"""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np

import carom


def oscillator(w):
    return carom.System(
        force=lambda t, q, v: jnp.cos(w * t) - q, gap=lambda t, q: -q, restitution=0.8
    )


def measured(scheme, members, steps):
    """Seconds of a compiled run, and the mean of the final positions."""
    ws = jnp.asarray(np.linspace(2.0, 3.0, members))

    @jax.jit
    @jax.vmap
    def final(w):
        sol = carom.solve(
            oscillator(w),
            scheme,
            [-0.5],
            [0.0],
            t1=steps * 1e-2,
            dt=1e-2,
            record=carom.Record(final=True),
        )
        return sol.q[-1, 0]

    final(ws).block_until_ready()
    best = float("inf")
    for _ in range(5):
        begin = time.perf_counter()
        q = final(ws).block_until_ready()
        best = min(best, time.perf_counter() - begin)
    return best, float(jnp.mean(q))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--members", type=int, nargs="*", default=[10**4, 10**5, 10**6])
    options = parser.parse_args()
    device = jax.devices()[0]
    print(f"{device.device_kind} ({device.platform}), JAX {jax.__version__}, {options.steps} steps")
    print(
        f"{'scheme':16} {'members':>9} {'ps a member and step':>21} {'us a step':>10} "
        f"{'mean q':>10}"
    )
    for scheme in (carom.Moreau(), carom.Maury(), carom.PaoliSchatzman()):
        for members in options.members:
            seconds, mean = measured(scheme, members, options.steps)
            each = seconds / options.steps
            print(
                f"{type(scheme).__name__:16} {members:9,} {each / members * 1e12:21.1f} "
                f"{each * 1e6:10.1f} {mean:10.6f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
