"""Flights between impacts at given times: the smooth pieces a periodic orbit is made of."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from carom.errors import StudyError
from carom.law import alone
from carom.schemes.runge_kutta import RungeKutta

_RTOL, _ATOL = 1e-12, 1e-14
_TURNS = 10_000  # of a flight; beyond, its end is NaN


def check_smooth(system, what: str, *, joints: bool = True) -> None:
    """Refuse what needs derivatives of flights that this does not have."""
    for name in ("friction", "joint") if joints else ("friction",):
        if getattr(system, name, None) is not None:
            raise StudyError(
                f"{what} needs the derivatives of a motion, which with {name} are not known: use "
                "study.sweep, bifurcation, poincare or basins, which need none"
            )


class Shot(NamedTuple):
    """A motion through impacts at prescribed times, which need not be on the gaps."""

    end: Array  # (2d,) q, v at the last time
    gap: Array  # (k,) of the gap struck, at each impact
    before: Array  # (k,) normal velocity before the impact, < 0 in an impact
    after: Array  # (k,)
    impulse: Array  # (k,)


def fly(system, t: Array, x: Array, t1: Array, h: Array) -> tuple[Array, Array]:
    """x = (q, v), (2d,), moved from t to t1 as if there were no gaps; and the step to go on with.

    The derivative is that of the discrete motion with its steps kept, and its ends moving.
    """
    method, d = RungeKutta(), x.shape[0] // 2

    def rate(t, x):
        return jnp.concatenate([x[d:], system.acceleration(t, x[:d], x[d:])])

    def turn(loop):
        t, x, h, turns = loop
        last = t + h >= t1
        length = jnp.where(last, t1 - t, h)
        x1, error = method.step(rate, t, x, length)
        scale = _ATOL + _RTOL * jnp.maximum(jnp.abs(x), jnp.abs(x1))
        error = jnp.max(jnp.abs(error) / scale)
        good = error <= 1.0
        proposed = jnp.where(jnp.isfinite(error), method.next_step(length, error), 0.2 * length)
        proposed = jnp.where(good & last, jnp.maximum(proposed, h), proposed)
        t = jnp.where(good, jnp.where(last, t1, t + h), t)
        return t, jnp.where(good, x1, x), jax.lax.stop_gradient(proposed), turns + 1

    loop = (t, x, jax.lax.stop_gradient(h), jnp.array(0))
    t, x, h, turns = jax.lax.while_loop(lambda s: (s[0] < t1) & (s[-1] < _TURNS), turn, loop)
    x = x + (t1 - t) * rate(t, x)  # nothing, but for the derivative of a flight of length zero
    return jnp.where(turns < _TURNS, x, jnp.nan), h


def struck(system, t: Array, x: Array, i: Array):
    """The impact law for gap i alone: x after it, and the row of the table."""
    d = x.shape[0] // 2
    q, v = x[:d], x[d:]
    metric, contacts = system.metric(q), system.normals(t, q)
    row, before = contacts.rows[i], contacts.velocity(v)[i]
    n = metric.whiten(row[None])[0]
    e = system.restitutions(contacts.gap.shape[0], contacts.velocity(v))[i]
    impulse, after = alone(e, before, jnp.sum(n * n))
    v = v + impulse * metric.lift(n)
    return jnp.concatenate([q, v]), (contacts.gap[i], before, after, impulse)


def shoot(system, t0, t1, x, times: Array, which: Array) -> Shot:
    """From x at t0 to t1, with an impact on gap which[j] at times[j]."""

    def leg(carried, impact):
        t, x, h = carried
        time, i = impact
        x, h = fly(system, t, x, time, h)
        x, row = struck(system, time, x, i)
        return (time, x, h), row

    start = (jnp.asarray(t0, float), x, jnp.asarray(t1 - t0, float))
    if which.shape[0]:
        (t, x, h), rows = jax.lax.scan(leg, start, (times, which))
    else:
        (t, x, h), rows = start, (jnp.zeros(0),) * 4
    end, _ = fly(system, t, x, jnp.asarray(t1, float), h)
    return Shot(end, *rows)


def state_at(system, t0, t1, x, times: Array, which: Array) -> Array:
    """x at t1, through those of the impacts that come before."""

    def leg(carried, impact):
        t, x, h = carried
        time, i = impact
        passed = time <= t1
        time = jnp.minimum(time, t1)
        x, h = fly(system, t, x, time, h)
        return (time, jnp.where(passed, struck(system, time, x, i)[0], x), h), None

    start = (jnp.asarray(t0, float), x, jnp.asarray(t1 - t0, float))
    (t, x, h), _ = jax.lax.scan(leg, start, (times, which))
    return fly(system, t, x, jnp.asarray(t1, float), h)[0]


def watch_flights(system, t0, t1, x, times: Array, which: Array, samples: int):
    """Gaps (n, p) and normal velocities (n, p) on each flight, and their times (n,).

    The flights are cut into ``samples`` equal parts; both ends of each are among the samples.
    """
    d = x.shape[0] // 2

    def watched(t, x):
        contacts = system.normals(t, x[:d])
        return contacts.gap, contacts.velocity(x[d:])

    def part(carried, t1):
        t, x, h = carried
        x, h = fly(system, t, x, t1, h)
        return (t1, x, h), (t1, *watched(t1, x))

    def flight(carried, impact):
        t, x, h = carried
        time, i = impact
        inside = t + (time - t) * jnp.arange(samples + 1) / samples
        (_, x, h), rows = jax.lax.scan(part, carried, inside)
        x = jnp.where(i >= 0, struck(system, time, x, jnp.maximum(i, 0))[0], x)
        return (time, x, h), rows

    start = (jnp.asarray(t0, float), x, jnp.asarray(t1 - t0, float))
    times, which = jnp.append(times, t1), jnp.append(which, -1)
    return jax.lax.scan(flight, start, (times, which))[1]
