"""Tables that move: derivatives by EventDriven against tangents along flights in closed form.

    python tests/tangents.py 400 0         so many tables, from this seed, until t = 12
    python tests/tangents.py 400 0 40      until t = 40, where many are chaotic

Of random_families.py's tables, force -1 and gap q - a sin(w t + p).  A flight is a parabola, and
an impact a root of one equation, met by Newton's method in extended precision.  All numbers carry
their gradients with respect to (a, w, p, e, q0, v0); the time s of a flight has that of

    g(s, x) = 0:    ds = -(dg/dx) dx / (dg/ds)                                                (1)

Bounces are followed until they are slower than STILL; then the table holds the ball until its
acceleration is that of the fall.

The motion that EventDriven computes is that of a start shifted by about its tolerance, and its
derivatives are those of this motion.  So they may differ by as much as the tangents of such starts,

    carried = largest of |J(x0 + rtol u) - J(x0)| over SHIFTS random directions u             (2)

which is small but where a motion is chaotic.
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import brentq

import carom
from carom.run.loop import Run, begin, one_step
from random_families import FAMILIES

TABLES = FAMILIES[0]
STILL, JUST = 1e-14, 1e-9  # a speed; how long after an impact the next is looked for
SHIFTS, STEPS = 6, 4
ALLOWED, TIMES_CARRIED = 1e-6, 10.0
L = np.longdouble
PI = 2.0 * np.arccos(L(0))


class Carried:
    """A number with its gradient."""

    def __init__(self, value, gradient):
        self.value, self.gradient = L(value), gradient

    def __add__(self, other):
        other = _carried(other)
        return Carried(self.value + other.value, self.gradient + other.gradient)

    def __mul__(self, other):
        other = _carried(other)
        gradient = self.value * other.gradient + other.value * self.gradient
        return Carried(self.value * other.value, gradient)

    def __sub__(self, other):
        return self + _carried(other) * -1.0

    def through(self, value, slope):
        """f(self) of a function's value and slope there."""
        return Carried(value, slope * self.gradient)


def _carried(x):
    return x if isinstance(x, Carried) else Carried(x, np.zeros(6, L))


def _sin(x):
    return x.through(np.sin(x.value), np.cos(x.value))


def _cos(x):
    return x.through(np.cos(x.value), -np.sin(x.value))


def _over(x, y):
    return x * y.through(1.0 / y.value, -1.0 / y.value**2)


class Flight:
    """From (t, q, v) over the table: its gap after s, and the rates of that."""

    def __init__(self, x, t, q, v):
        self.all = (*x[:3], t, q, v)
        self.a, self.w, self.p, self.t, self.q, self.v = (z.value for z in self.all)

    def gap(self, s):
        return self.q + self.v * s - s * s / 2 - self.a * np.sin(self.w * (self.t + s) + self.p)

    def rate(self, s):
        return self.v - s - self.a * self.w * np.cos(self.w * (self.t + s) + self.p)

    def bend(self, s):
        return self.a * self.w**2 * np.sin(self.w * (self.t + s) + self.p) - 1.0

    def low(self, after):
        """About when a bounce too low to be looked for is over, or None."""
        if after != JUST or self.bend(L(0)) >= 0.0:
            return None
        s = -2.0 * self.rate(L(0)) / self.bend(L(0))
        return s if 0.0 < s < 1e-2 else None

    def strikes(self, span, after):
        """The first zero of the gap in (after, span), or None."""
        s = np.linspace(L(after), L(span), max(400, int(300 * span * self.w)))
        gap, rate = self.gap(s), self.rate(s)
        for k in range(1, len(s)):
            high, low = s[k - 1], s[k]
            if gap[k] > 0.0 and rate[k - 1] < 0.0 < rate[k]:
                low = L(brentq(lambda s: float(self.rate(s)), float(s[k - 1]), float(s[k])))
            if self.gap(low) < 0.0:
                for _ in range(40):
                    middle = (high + low) / 2
                    high, low = (middle, low) if self.gap(middle) > 0.0 else (high, middle)
                return low
        return None

    def met(self, s):
        """The flight time s, improved, with (1); and how fast the gap closes then."""
        for _ in range(8):
            s = s - self.gap(s) / self.rate(s)
        a, w, p, t, q, v = self.all
        s = _carried(s)
        fixed = q + v * s - s * s * 0.5 - a * _sin(w * (t + s) + p)
        s = Carried(s.value, -fixed.gradient / self.rate(s.value))
        return s, v - s - a * w * _cos(w * (t + s) + p)


def _held(x, t, t1):
    """When the table lets go of what it holds at t, or None."""
    a, w, p = x[:3]
    pull = a * w * w
    if pull.value <= 1.0:
        return None
    first = _over(_carried(1.0), pull)
    first = first.through(np.arcsin(first.value), 1.0 / np.sqrt(1.0 - first.value**2))
    turns = np.ceil((w.value * t.value + p.value - first.value) / (2 * PI))
    until = _over(first + 2 * PI * turns - p, w)
    return until if until.value < t1 else None


def motion(x, t1):
    """The state (2,) at t1, its tangents (2, 6), and the number of impacts."""
    x = [Carried(z, row) for z, row in zip(x, np.eye(6, dtype=L), strict=True)]
    a, w, p, e, q, v = x
    t, end, count, after = _carried(0.0), _carried(t1), 0, 0.0
    while True:
        flight = Flight(x, t, q, v)
        s = flight.low(after) or flight.strikes(float(t1 - t.value), after)
        if s is not None:
            s, speed = flight.met(s)
        if s is None or (t + s).value > t1:
            s = end - t
            return _plain(q + v * s - s * s * 0.5, v - s, count)
        q, v, t = q + v * s - s * s * 0.5, v - s - speed * (e + 1.0), t + s
        count, after = count + 1, JUST
        if -(e * speed).value < STILL and flight.bend(s.value) < 0.0:
            released = _held(x, t, t1)
            t = end if released is None else released
            q, v = a * _sin(w * t + p), a * w * _cos(w * t + p)
            if released is None:
                return _plain(q, v, count)
            after = 2e-3 / float(w.value)


def _plain(q, v, count):
    values, tangents = [q.value, v.value], [q.gradient, v.gradient]
    return np.array(values, float), np.array(tangents, float), count


def driven(t1):
    """x (n, 6) -> states, their derivatives (n, 2, 6), statuses."""

    def end(x):
        e, q0, v0 = TABLES.start(x)
        scheme = carom.EventDriven().over(t1)
        run = Run(TABLES.system(x, e), scheme, jnp.zeros(()), t1 / STEPS)
        carry = jax.lax.fori_loop(
            0, STEPS, lambda _, c: one_step(run, c)[0], begin(run, q0, v0).carry
        )
        return jnp.concatenate([carry.state.q, carry.state.v]), carry.status._value

    def both(x):
        (state, status), (tangents, _) = end(x), jax.jacfwd(end)(x)
        return state, tangents, status

    return jax.jit(lambda x: jax.lax.map(both, x))


def carried(x, tangents, count, t1, rng):
    """(2), over the size of the tangents; infinite where such a start has other impacts."""
    largest, rtol = 0.0, float(carom.EventDriven().rtol)
    for _ in range(SHIFTS):
        u = rng.normal(size=2)
        moved = np.array(x, L)
        moved[4:] += rtol * u / np.linalg.norm(u) * max(1.0, np.max(np.abs(x[4:])))
        _, other, impacts = motion(moved, t1)
        if impacts != count:
            return np.inf
        largest = max(largest, np.max(np.abs(other - tangents)))
    return largest / max(1.0, np.max(np.abs(tangents)))


def compared(count, seed, t1=12.0):
    """How many derivatives are within ALLOWED, within (2) though not that, NaN; and the others."""
    x, rng = TABLES.drawn(count, seed), np.random.default_rng([3, seed])
    _, found, status = jax.device_get(driven(t1)(jnp.asarray(x)))
    result = {"tables": count, "equal": 0, "carried": [], "NaN": 0, "worst": 0.0, "faults": []}
    for i in range(count):
        _, tangents, impacts = motion(x[i], t1)
        error = np.max(np.abs(found[i] - tangents)) / max(1.0, np.max(np.abs(tangents)))
        if status[i]:
            result["faults"].append((i, f"status {status[i]}"))
        elif np.isnan(error):
            result["NaN"] += 1
        elif error <= ALLOWED:
            result["equal"] += 1
            result["worst"] = max(result["worst"], error)
        else:
            limit = carried(x[i], tangents, impacts, t1, rng)
            kind = "carried" if error <= TIMES_CARRIED * limit else "faults"
            result[kind].append((i, float(error), float(limit)))
    return result


def main(count=400, seed=0, t1=12.0):
    for key, value in compared(int(count), int(seed), float(t1)).items():
        print(f"{key:8} {value}")


if __name__ == "__main__":
    main(*sys.argv[1:4])
