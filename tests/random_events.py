"""Random tables that move: EventDriven at four spacings and two tolerances, against exact flights.

    python tests/random_events.py 200 0        so many systems, from this seed

q'' = -1 above the table a sin(w t + p), restitution e.  The independent check knows the parabolas,
looks at each flight every 1/2000 of a time unit, and bisects; a motion that comes to rest on the
table, or grazes it, is left out of that comparison, not of the one between spacings.
"""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import carom
from carom.run.loop import Run, begin, one_step

T1, SPACINGS, TOLERANCES = 12.0, (1, 4, 30, 120), (1e-11, 1e-8)


class Table(eqx.Module):
    a: jax.Array
    w: jax.Array
    p: jax.Array

    def __call__(self, t, q):
        return q - self.a * jnp.sin(self.w * t + self.p)


def falling(t, q, v):
    return -jnp.ones(1)


@jax.jit
def ends(parameters, steps, rtol):
    """(n, 4): q, v, impacts and status of each member after ``steps`` equal steps."""

    def member(x):
        a, w, p, e, q0, v0 = x
        system = carom.System(force=falling, gap=Table(a, w, p), restitution=e)
        scheme = carom.EventDriven(rtol=rtol, atol=rtol / 100).over(T1)
        run = Run(system, scheme, jnp.zeros(()), T1 / steps)

        def step(_, loop):
            carry, report = one_step(run, loop[0])
            return carry, loop[1] + jnp.sum(report.struck)

        start = begin(run, q0[None], v0[None]).carry
        carry, impacts = jax.lax.fori_loop(0, steps, step, (start, jnp.array(0)))
        status = carry.status._value
        return jnp.stack([carry.state.q[0], carry.state.v[0], impacts, status]).astype(float)

    return jax.lax.map(member, parameters)


def exact(x):
    """q at T1 and the sensitivity to a shift of each impact; None where flights are too short."""
    a, w, p, e, q, v = x
    t, grown = 0.0, 1.0
    for _ in range(400):
        s = np.arange(1, int((T1 - t) * 2000) + 2) / 2000

        def gap(s, t=t, q=q, v=v):
            return q + v * s - s * s / 2 - a * np.sin(w * (t + s) + p)

        g = gap(s)
        below = np.flatnonzero(g < 0.0)
        if not len(below) or t + s[below[0]] > T1:
            rest = T1 - t
            return q + v * rest - rest * rest / 2, grown
        if below[0] == 0 or np.min(g[: below[0]]) < 1e-7:
            return None
        lo, hi = s[below[0] - 1], s[below[0]]
        for _ in range(60):
            middle = 0.5 * (lo + hi)
            lo, hi = (middle, hi) if gap(middle) > 0.0 else (lo, middle)
        t, q, v = t + hi, q + v * hi - hi * hi / 2, v - hi
        floor = a * w * np.cos(w * t + p)
        if abs(v - floor) < 1e-3:
            return None
        grown *= 1.0 + (1.0 + e) * (1.0 + a * w * w) / abs(v - floor)
        v = floor - e * (v - floor)
    return None


def drawn(count, seed):
    """(n, 6): a, w, p, e, q0, v0."""
    rng = np.random.default_rng(seed)
    low, high = [0.05, 0.5, 0.0, 0.0, 0.1, -1.0], [3.0, 4.0, 6.28, 0.95, 3.0, 1.0]
    x = rng.uniform(low, high, (count, 6))
    x[:, 4] += x[:, 0]
    return x


def compared(count, seed):
    """Largest differences, in units of what the tolerance and the sensitivity allow, and counts."""
    x = drawn(count, seed)
    found = {(n, r): np.asarray(ends(jnp.asarray(x), n, r)) for r in TOLERANCES for n in SPACINGS}
    reference = found[SPACINGS[-1], TOLERANCES[0]]
    bad = int(sum(np.count_nonzero(y[:, 3]) for y in found.values()))
    spread = {k: np.abs(y[:, 0] - reference[:, 0]) for k, y in found.items()}
    truth = [exact(row) for row in x]
    known = np.array([r is not None for r in truth])
    error = np.array([abs(y[0] - r[0]) / r[1] for y, r in zip(reference, truth, strict=True) if r])
    return {
        "systems": count,
        "failed": bad,
        "spread": {k: np.quantile(s, [0.5, 0.99, 1.0]) for k, s in spread.items()},
        "known": int(known.sum()),
        "worst against exact flights, over the sensitivity": float(np.max(error, initial=0.0)),
        "missed": int(np.count_nonzero(error > 1e-6)),
    }


if __name__ == "__main__":
    for name, value in compared(*map(int, sys.argv[1:3] or (200, 0))).items():
        print(name, value)
