"""Derivatives of random systems, through their impacts, against differences of another route.

    python tests/random_derivatives.py 50 0            so many systems of each family, this seed
    python tests/random_derivatives.py 50 0 ovals      of one family (part of its name)

The derivative of (q, v) at t1 along a random direction u of all parameters of a system (restitution
and initial data among them) by jax.jvp through EventDriven, and by central differences of
hybrid.py, a fourth-order formula at two steps h:

    D(h) = (8 (x(h) - x(-h)) - (x(2h) - x(-2h))) / (12 h)                                     (1)

Only systems are compared whose impacts are isolated (none slower than SLOW, the same ones at every
difference) and whose D(h) and D(h/2) agree to a tenth of ALLOWED.
"""

import sys
import time
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

import carom
import families_by_hand as by_hand
import hybrid
from carom.run.loop import Run, begin, one_step
from random_families import FAMILIES

ALLOWED, SLOW = 1e-6, 1e-2
STEPS = 4
DIFFERENCE = 2e-4
FIXED = {  # entries that are no free parameters: a mass beside its inverse, a flag
    by_hand.LINEAR: slice(21, 39),
    by_hand.WAVES: slice(9, 10),
}


@cache
def derivative(kind):
    """Compiled once: (x, u) (n, size) -> the state at t1, its derivative, the status."""
    family = FAMILIES[kind]

    def end(x):
        e, q0, v0 = family.start(x)
        scheme = carom.EventDriven(**family.options(x)).over(family.t1)
        run = Run(family.system(x, e), scheme, jnp.zeros(()), family.t1 / STEPS)
        carry = jax.lax.fori_loop(
            0, STEPS, lambda _, c: one_step(run, c)[0], begin(run, q0, v0).carry
        )
        return jnp.concatenate([carry.state.q, carry.state.v]), carry.status._value

    def member(both):
        y, dy, status = jax.jvp(end, both[:1], both[1:], has_aux=True)
        return y, dy, status

    return jax.jit(lambda x, u: jax.lax.map(member, (x, u)))


def directions(family, x, rng):
    u = rng.normal(size=x.shape)
    if family.kind in FIXED:
        u[:, FIXED[family.kind]] = 0.0
    if family.kind == by_hand.WAVES:  # the times of jumps that are not told are no parameters
        u[x[:, 9] < 0.5, 3:7] = 0.0
    return u / np.linalg.norm(u, axis=1)[:, None]


def differences(family, x, u):
    """(1) at two steps, or a word on why there is none."""
    ends, tables = {}, []
    for k in (-4, -2, -1, 0, 1, 2, 4):
        z = x + 0.5 * DIFFERENCE * k * u
        e, q0, v0 = family.start(z)
        places, impacts = np.empty((2, family.d)), np.empty((500, 3))
        kick = np.zeros(2 * family.d)
        arguments = (family.p, family.switches, family.t1, 1 / 200, 1, -1, kick, places, impacts)
        status, count, ends[k], _ = hybrid.motion(
            family.kind, z, e, np.concatenate([q0, v0]), *arguments
        )
        tables.append(impacts[:count])
        if status != hybrid.OK or np.any(tables[-1][:, 2] < SLOW):
            return "not isolated"
    if any(not np.array_equal(t[:, 1], tables[0][:, 1]) for t in tables):
        return "other impacts"
    pairs = [
        (8.0 * (ends[k] - ends[-k]) - (ends[2 * k] - ends[-2 * k])) / (6.0 * k * DIFFERENCE)
        for k in (2, 1)
    ]
    size = max(1.0, np.max(np.abs(pairs[1])))
    if np.max(np.abs(pairs[0] - pairs[1])) > 0.1 * ALLOWED * size:
        return "not settled"
    return pairs[1]


def compared(family, count, seed):
    """Counts, the largest relative error, and the faults."""
    x = family.drawn(count, seed)
    u = directions(family, x, np.random.default_rng([2, seed]))
    _, found, status = jax.device_get(derivative(family.kind)(jnp.asarray(x), jnp.asarray(u)))
    words, worst, faults, none, through = {}, 0.0, [], 0, 0
    for i in range(count):
        expected = differences(family, x[i], u[i])
        if isinstance(expected, str):
            words[expected] = words.get(expected, 0) + 1
            continue
        through += 1
        if status[i]:
            faults.append((i, f"status {status[i]}"))
        elif np.any(np.isnan(found[i])):
            none += 1
        else:
            size = max(1.0, np.max(np.abs(expected)))
            error = np.max(np.abs(found[i] - expected)) / size
            worst = max(worst, error)
            if error > ALLOWED:
                faults.append((i, error))
    return {
        "systems": count,
        "compared": through,
        "left out": words,
        "NaN": none,
        "worst": worst,
        "faults": faults,
    }


def main(count=50, seed=0, name=""):
    for family in FAMILIES:
        if name in family.name:
            start = time.perf_counter()
            found = compared(family, int(count), int(seed))
            print(f"{family.name}: {time.perf_counter() - start:.0f} s", flush=True)
            for key, value in found.items():
                print("   ", key, value, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:4])
