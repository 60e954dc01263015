"""Random systems: EventDriven at four spacings and two tolerances, against another route.

    python tests/random_events.py 200 0            so many systems of each family, from this seed
    python tests/random_events.py 200 0 ovals      of one family (part of its name)

The families are in random_families.py: tables that move, several gaps, M(q), kinks, square waves
and kicks, gaps that are not linear.  The other route is hybrid.py.  With s = max(1, largest |q|),

    allowed(t) = FACTOR rtol s S(t)                                                           (1)

where S(t) is how much a shift of the state at an earlier time has grown, the largest of KICKS
shifts of SHIFT in random directions, measured by the other route, and FACTOR stands for the number
of steps, each of which may be off by the tolerance; where the routes differ by more, the other is
run once more with its shortest steps, and judged by those. A system counts as a graze, at a
tolerance, if it comes within 100 times (1) of another sequence of impacts: by the least gap that
turned before it closed, the depth an impact would have had, another gap at an impact. Of the
others,

    every q at every record is within (1) of the other route's, at every spacing,
    every impact faster than FAST of one route is in the table of the other, to (1) over its speed,
    no gap at a record is below -(1).
"""

import sys
import time
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import carom
import hybrid
from carom.run.loop import Run, begin, one_step
from random_families import FAMILIES

SPACINGS, TOLERANCES = (1, 4, 30, 120), (1e-11, 1e-8)
RECORDS, LISTED = 120, 400
FACTOR, KICKS, SHIFT = 50.0, 4, 1e-7
STEPS = (1 / 200, 1 / 100)  # of the other route; of its check and its shifts
SHORTEST = 1 / 3200  # it is halved until the route's own error is OWN of (1)
OWN = 0.1
FAST = 1e-3


class Found(eqx.Module):
    """What EventDriven made of each system."""

    places: jax.Array  # (n, records + 1, d), NaN where there is no record
    impacts: jax.Array  # (n, listed, 3) time, gap, speed; -1 where there is none
    count: jax.Array  # (n,) impacts in all
    unlisted: jax.Array  # (n,)
    lowest: jax.Array  # (n,) the least gap at a record
    status: jax.Array  # (n,)


@cache
def driven(kind):
    """Compiled once for a family: (x (n, size), steps, rtol) -> Found."""
    family = FAMILIES[kind]

    def member(x, steps, rtol):
        e, q0, v0 = family.start(x)
        options = {"events_per_step": 64, **family.options(x)}
        scheme = carom.EventDriven(rtol=rtol, atol=rtol / 100, **options).over(family.t1)
        run = Run(family.system(x, e), scheme, jnp.zeros(()), family.t1 / steps)

        def step(k, loop):
            carry, seen = loop
            carry, report = one_step(run, carry)
            state, rows = carry.state, report.events
            fast = (rows[:, 4] > 0.0) & (rows[:, 2] < -FAST)
            at = jnp.where(fast, seen.count + jnp.cumsum(fast) - 1, LISTED)
            rows = jnp.stack([rows[:, 0], rows[:, 1], -rows[:, 2]], axis=1)
            lowest = jnp.min(run.system.gaps(state.t, state.q))
            return carry, Found(
                seen.places.at[(k + 1) * RECORDS // steps].set(state.q),
                seen.impacts.at[at].set(rows, mode="drop"),
                seen.count + jnp.sum(fast),
                seen.unlisted + jnp.sum(report.struck) - jnp.sum(report.events[:, 4] > 0.0),
                jnp.minimum(seen.lowest, lowest),
                carry.status._value,
            )

        none = jnp.array(0)
        places = jnp.full((RECORDS + 1, family.d), jnp.nan)
        start = begin(run, q0, v0).carry
        seen = Found(
            places,
            -jnp.ones((LISTED, 3)),
            none,
            none,
            jnp.asarray(jnp.inf),
            start.status._value,
        )
        return jax.lax.fori_loop(0, steps, step, (start, seen))[1]

    return jax.jit(lambda x, steps, rtol: jax.lax.map(lambda x: member(x, steps, rtol), x))


class Route:
    """The motion of one system by the other route."""

    def __init__(self, family, x, rng, step=STEPS[0]):
        e, q0, v0 = family.start(x)
        d = family.d
        start = np.concatenate([q0, v0])

        def run(step, kicked=-1, kick=start):
            places, impacts = np.empty((RECORDS + 1, d)), np.empty((2000, 3))
            arguments = (family.p, family.switches, family.t1, step, RECORDS, kicked, kick)
            status, count, _, closest = hybrid.motion(
                family.kind, x, e, start, *arguments, places, impacts
            )
            return status, places, impacts[:count], closest

        self.status, self.places, self.impacts, self.closest = run(step)
        self.size = max(1.0, np.max(np.abs(self.places)))
        grown, self.own = np.ones(RECORDS + 1), 0.0
        if self.status == hybrid.OK:
            base = run(STEPS[1])[1]
            self.own = np.max(np.abs(base - self.places)) / 200.0  # of order 8
            for kicked in range(0, RECORDS, RECORDS // KICKS):
                kick = rng.normal(size=2 * d)
                places = run(STEPS[1], kicked, SHIFT * kick / np.linalg.norm(kick))[1]
                grown = np.maximum(grown, np.max(np.abs(places - base), axis=1) / SHIFT)
        self.allowed = FACTOR * self.size * np.maximum.accumulate(grown)  # over rtol
        while self.own > OWN * TOLERANCES[0] * self.allowed[-1] and step > SHORTEST:
            step, before = 0.5 * step, self.places
            self.status, self.places, self.impacts, self.closest = run(step)
            self.own = np.max(np.abs(before - self.places)) / 200.0
        self.step = step

    def apart(self, rtol):
        """Whether no other sequence of impacts is near."""
        return self.status == hybrid.OK and self.closest > 100.0 * rtol * self.allowed[-1]

    def faults(self, found, i, rtol):
        """What is wrong with member i, or None; and the largest error, over what is allowed."""
        allowed = rtol * self.allowed
        places = np.asarray(found.places[i])
        known = np.isfinite(places[:, 0])
        error = np.max(np.abs(places - self.places)[known].max(axis=1) / allowed[known])
        if found.status[i]:
            return f"status {found.status[i]}", error
        if not error <= 1.0:
            return f"off by {error:.1e}", error
        if found.lowest[i] < -allowed[-1]:
            return f"a gap of {found.lowest[i]:.1e}", error
        if found.unlisted[i] == 0 and found.count[i] <= LISTED:
            table = np.asarray(found.impacts[i])[: found.count[i]]
            for one, other, name in (
                (self.impacts, table, "missed"),
                (table, self.impacts, "made up"),
            ):
                for t, gap, speed in one[one[:, 2] > 2.0 * FAST]:
                    same = other[other[:, 1] == gap, 0]
                    if not np.any(np.abs(same - t) * speed <= allowed[-1]):
                        return f"{name}: an impact at {t} with {speed}", error
        return None, error


def compared(family, count, seed):
    """{rtol: errors over (1)}, grazes, systems that the other route does not settle, faults."""
    x, chunk = family.drawn(count, seed), min(count, 250)
    rng = np.random.default_rng([1, seed])
    errors = {rtol: [] for rtol in TOLERANCES}
    grazes, unsettled, impacts, faults = dict.fromkeys(TOLERANCES, 0), 0, 0, []
    own = 0.0
    for first in range(0, count, chunk):
        part = x[first : first + chunk]
        pad = np.concatenate([part, np.repeat(part[:1], chunk - len(part), axis=0)])
        found = {
            (n, r): jax.device_get(driven(family.kind)(jnp.asarray(pad), n, r))
            for r in TOLERANCES
            for n in SPACINGS
        }
        for i in range(len(part)):
            route = Route(family, part[i], rng)
            unsettled += route.status != hybrid.OK
            impacts += len(route.impacts)
            own = max(own, route.own / (TOLERANCES[0] * route.allowed[-1]))
            for r in TOLERANCES:
                if route.status == hybrid.OK and not route.apart(r):
                    grazes[r] += 1
                for n in SPACINGS if route.apart(r) else ():
                    fault, error = route.faults(found[n, r], i, r)
                    if fault and route.step > SHORTEST:  # two steps that miss the same look right
                        route = Route(family, part[i], rng, SHORTEST)
                        fault, error = route.faults(found[n, r], i, r)
                    errors[r].append(error)
                    if fault:
                        faults.append((first + i, n, r, fault))
            if route.status != hybrid.OK:  # still: the same at every spacing, or an error
                faults += _spread(found, i, first)
    return {
        "systems": count,
        "impacts": impacts,
        "unsettled": unsettled,
        "grazes": grazes,
        "own error of the other route": own,
        "errors": {r: np.quantile(a, [0.5, 0.99, 1.0]) if a else None for r, a in errors.items()},
        "faults": faults,
    }


def _spread(found, i, first):
    """Faults of a system by its own spacings alone."""
    failed = [(n, r) for (n, r), f in found.items() if f.status[i]]
    return [(first + i, n, r, f"status {found[n, r].status[i]}") for n, r in failed]


def main(count=200, seed=0, name=""):
    for family in FAMILIES:
        if name not in family.name:
            continue
        start = time.perf_counter()
        found = compared(family, int(count), int(seed))
        print(f"{family.name}: {time.perf_counter() - start:.0f} s", flush=True)
        for key, value in found.items():
            print("   ", key, value, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:4])
