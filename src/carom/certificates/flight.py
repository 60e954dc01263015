"""The certificate's own motion over one window of records: a flight, or a contact.

With A the gaps that pushed in the window, x = (q, v) and w = d_t g + grad g . v,

    q' = v,    M v' = f + sum over i in A of mu_i grad g_i,                                    (1)
    mu_i >= 0,    d^2 g_i / dt^2 = 0 where mu_i > 0,    mu_i = 0 where w_i leaves the wall

is integrated from the first record of the window.  Where a gap of A approaches, it is struck at the
time s at which it would be zero, inside of the window or beside it,

    g_i(t + s, q(s)) = 0,     w_j+ = -e_j w_j-  for every j in A,                              (2)

and (1) goes on from there to the end of the window: a smooth function of the first record, with a
derivative that knows how s depends on it.  A window without a push is a flight: (1) with no gap in
A, and the lowest value of every gap on the way.  Joints are always held and may pull, as what is
glued may; gaps with friction are carried through contacts by carom/certificates/rough.py.
"""

from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from carom.certificates import rough
from carom.certificates.rows import normals
from carom.programs import compiled
from carom.projection.metric import solve_dense
from carom.schemes.runge_kutta import RungeKutta

_TURNS = 4  # of Newton's method for (2)
_LOOKS = 8  # at each gap, within a step of the integration
_AT_REST = 1e-5  # relative: gaps and speeds of what rests, in a motion with located impacts
_AS_TOLD = 1e-2  # of the change of w at the next impact: slower is rest before it
_REDUNDANT = 1e-11  # relative: what makes rows that say the same solvable


@cache
def _method(name):
    return RungeKutta(name)


class Ended(NamedTuple):
    """Where a window leads."""

    end: Any  # (2d,)
    tangent: Any  # (2d, 2d) its derivative by the first record
    lowest: Any  # (p,) of each gap on the way


def _speeds(system, t, q, v):
    """Gaps and w, each (p,)."""
    return jax.jvp(lambda s: system.gaps(t + s, q + s * v), (jnp.zeros(()),), (jnp.ones(()),))


def _with_joints(system, t, q, v):
    """Gaps and then joints, and their velocities, each (p + k,)."""

    def values(s):
        return jnp.concatenate([system.gaps(t + s, q + s * v), system.joints(t + s, q + s * v)])

    return jax.jvp(values, (jnp.zeros(()),), (jnp.ones(()),))


def _padded(x, contacts, value):
    """(p,) of gaps, with ``value`` for the joints that follow."""
    x = jnp.broadcast_to(x, (contacts.gap.shape[0] - contacts.joints,))
    return jnp.pad(x, (0, contacts.joints), constant_values=value)


def _solved(metric, rows, held, wanted):
    """lam (p,), with rows M^-1 rows^T lam = wanted for the rows held, and zero for others."""
    normals = metric.whiten(rows)
    A = normals @ normals.T
    diagonal = jnp.maximum(jnp.diagonal(A), 1e-300)
    A = jnp.where(held[:, None] & held[None, :], A, 0.0)
    A = A + jnp.diag(jnp.where(held, _REDUNDANT * diagonal, 1.0))
    return solve_dense(A, jnp.where(held, wanted, 0.0))


def _free(system, t, q, v):
    return system.metric(q).solve(system.forces(t, q, v))


def _rate(system, held, slow, reach=jnp.inf, pushes=0):
    """The right hand side of (1); a gap with w above ``slow``, or above ``reach``, is left.

    With ``pushes``, x ends with the impulses of so many gaps, whose rate is mu.
    """

    def rate(t, x):
        q, v = jnp.split(x[: len(x) - pushes], 2)
        metric = system.metric(q)
        a = _free(system, t, q, v)
        if held is None and system.joint is None:
            return jnp.concatenate([v, a])

        def speed(s):
            return _with_joints(system, t + s, q + s * v, v + s * a)[1]

        w, bent = jax.jvp(speed, (jnp.zeros(()),), (jnp.ones(()),))
        contacts = system.normals(t, q)
        rows, pulls = contacts.rows, contacts.bilateral()
        active = pulls
        if held is not None:
            near = (w <= _padded(slow, contacts, 0.0)) & (
                contacts.gap <= _padded(reach, contacts, 0.0)
            )
            active = active | (_padded(held, contacts, False) & near)
        pulls = active if system.glue else pulls
        for _ in range(min(len(rows), 3)):
            mu = _solved(metric, rows, active, -bent)
            active = active & (pulls | (mu > 0.0))
        mu = jnp.where(active, mu, 0.0)
        return jnp.concatenate([v, a + metric.lift(metric.whiten(rows).T @ mu), mu[:pushes]])

    return rate


def _flow(system, t, x, h, n, held, slow):
    """x after h, by n steps."""
    if system.friction is not None:
        return rough.flow(system, t, x, h, n, held)
    return _integrated(_rate(system, held, slow), t, x, h, n, "Bosh3")


def _integrated(rate, t, x, h, n, method):
    step = h / n

    def one(k, x):
        return _method(method).step(rate, t + k * step, x, step)[0]

    return jax.lax.fori_loop(0, n, one, x)


def flow_beside(system, t, x, h, n, held, later):
    """(1) between impacts, and the impulses (p,) of gaps on the way.

    Of the gaps held, those count that are closed and at rest.

    The last bounces of an accumulation are as slow, and at the top of one w = 0: a gap is at rest
    only if it would fall with less than a part of the speed that the next impulse on it, ``later``
    (p,), tells

        w^2 + 2 a g <= (_AS_TOLD told)^2,      a = |d^2 g / dt^2| in free motion
    """
    q, v = jnp.split(x, 2)
    rows = normals(system, t, q).rows
    told = later * jnp.sum(system.metric(q).whiten(rows) ** 2, axis=1)
    slow = _AT_REST * jnp.linalg.norm(rows, axis=1) * jnp.linalg.norm(v)
    near = (
        _AT_REST
        * jnp.linalg.norm(rows, axis=1)
        * (jnp.linalg.norm(q) + jnp.abs(h) * jnp.linalg.norm(v))
    )
    (gap, w), (_, bent) = jax.jvp(
        lambda s: _speeds(system, t + s, q + s * v, v + s * _free(system, t, q, v)),
        (jnp.zeros(()),),
        (jnp.ones(()),),
    )
    fall = w**2 + 2.0 * jnp.abs(bent) * jnp.maximum(gap, 0.0)
    still = held & (jnp.abs(w) <= slow) & ((later <= 0.0) | (fall <= (_AS_TOLD * told) ** 2))
    p, rate = len(held), _rate(system, still, slow, near, len(held))
    end = _integrated(rate, t, jnp.concatenate([x, jnp.zeros(p)]), h, n, "Dopri8")
    return end[:-p], end[-p:]


def _flight(system, t, x, h, n):
    """End and lowest gaps of a flight: each gap as a cubic in each of n steps."""
    step, rate = h / n, _rate(system, None, None)
    if system.joint is not None:
        x = _settled(system, t, x, jnp.zeros(len(system.gaps(t, x[: len(x) // 2])), bool), 0.0)
    u = jnp.arange(1, _LOOKS + 1)[:, None] / _LOOKS

    def one(k, carry):
        x, lowest, gap, w = carry
        x = _method("Tsit5").step(rate, t + k * step, x, step)[0]
        after, w1 = _speeds(system, t + (k + 1) * step, *jnp.split(x, 2))
        cubic = (
            gap * (1 + 2 * u) * (1 - u) ** 2
            + step * w * u * (1 - u) ** 2
            + after * u**2 * (3 - 2 * u)
            - step * w1 * u**2 * (1 - u)
        )
        return x, jnp.minimum(lowest, jnp.min(cubic, axis=0)), after, w1

    gap, w = _speeds(system, t, *jnp.split(x, 2))
    x, lowest, *_ = jax.lax.fori_loop(0, n, one, (x, gap, gap, w))
    return x, lowest


def _jump(system, t, x, held):
    """(2), over all gaps held."""
    if system.friction is not None:
        return rough.jump(system, t, x, held)
    q, v = jnp.split(x, 2)
    metric, contacts = system.metric(q), system.normals(t, q)
    w, p = contacts.velocity(v), len(held)
    e = _padded(system.restitutions(p, w[:p]), contacts, 0.0)
    held = _padded(held, contacts, True)
    lam = _solved(metric, contacts.rows, held, -(1 + e) * w)
    return jnp.concatenate([q, v + metric.lift(metric.whiten(contacts.rows).T @ lam)])


def _settled(system, t, x, held, slow):
    """On the wall and along it: what lasting contact leaves of a motion; on joints too."""
    for _ in range(2):  # q first, then v at the new q
        q, v = jnp.split(x, 2)
        metric, contacts = system.metric(q), system.normals(t, q)
        w = contacts.velocity(v)
        slower = jnp.abs(w) <= _padded(slow, contacts, jnp.inf)
        resting = _padded(held, contacts, True) & slower

        def along(by, metric=metric, contacts=contacts, resting=resting):
            lam = _solved(metric, contacts.rows, resting, -by)
            return metric.lift(metric.whiten(contacts.rows).T @ lam)

        x = jnp.concatenate([q + along(contacts.gap), v + along(w)])
    return x


def _contact(system, t, x, h, n, held, slow, leave, beside, struck, lead):
    """Through a contact: to the time of (2), over it, and on.  ``beside`` is how far it may lie."""
    resting = held & ~struck
    x = _settled(system, t, x, resting, slow)
    hit = jnp.any(struck)

    def part(k, carry):
        """Turns of Newton's method for s from the same x, the way to s and the jump, the rest."""
        t, x, s, now = carry
        y = _flow(system, t, x, s, n, now, leave)
        gap, w = _speeds(system, t + s, *jnp.split(y, 2))
        better = s - gap[lead] / jnp.where(w[lead] == 0.0, 1e-300, w[lead])
        better = jnp.clip(jnp.nan_to_num(better), -beside, h + beside)
        y = jnp.where(hit & (k == _TURNS), _jump(system, t + s, y, held), y)
        searching, there = k < _TURNS, k == _TURNS
        return (
            jnp.where(searching, t, t + s),
            jnp.where(searching, x, y),
            jnp.where(searching, better, h - s),
            jnp.where(there, held, now),
        )

    start = jnp.where(hit, 0, _TURNS)
    return jax.lax.fori_loop(start, _TURNS + 2, part, (t, x, jnp.zeros(()), resting))[1]


def _struck(system, t, x, held, slow):
    """The gaps of (2), and the one that is struck hardest."""
    q, v = jnp.split(x, 2)
    w, rows = _speeds(system, t, q, v)[1], normals(system, t, q).rows
    struck = held & (w < -slow)
    hard = w / jnp.linalg.norm(system.metric(q).whiten(rows), axis=1)
    return struck, jnp.argmin(jnp.where(struck, hard, jnp.inf))


def _with_tangent(function, x, small, columns, gaps):
    """function(x), and the first ``columns`` of its derivative by differences ``small`` (2d,)."""
    d = len(x)
    steps = jnp.concatenate([jnp.zeros((1, d)), jnp.diag(small), -jnp.diag(small)])

    def one(i, carry):
        ends, more = carry
        k = jnp.where(i <= columns, i, i - columns + d)
        end, new = function(x + steps[k])
        return ends.at[k].set(end), jnp.where(i == 0, new, more)

    start = jnp.zeros((2 * d + 1, d)), jnp.zeros(gaps)
    ends, more = jax.lax.fori_loop(0, 1 + 2 * columns, one, start)
    up, down = jnp.split(ends[1:], 2)
    return Ended(ends[0], ((up - down) / (2 * small[:, None])).T, more)


class Begun(NamedTuple):
    state: Any  # (2d,)


@compiled
def beginnings(system, arrays):
    """Where contacts begin: on the walls that do not strike, and along them."""

    def one(t, x, held, slow):
        struck = _speeds(system, t, *jnp.split(x, 2))[1] < -slow
        return Begun(_settled(system, t, x, held & ~struck, slow))

    return jax.vmap(one)(*arrays)


@compiled
def flights(system, arrays, columns):
    """Of many windows at once."""

    def one(t, x, h, n, small):
        gaps = len(system.gaps(t, x[: len(x) // 2]))
        return _with_tangent(lambda x: _flight(system, t, x, h, n), x, small, columns, gaps)

    return jax.vmap(one)(*arrays)


class Followed(NamedTuple):
    state: Any  # (2d,)
    lowest: Any  # (p,) gaps on the way of a flight, else inf


@compiled
def followed(system, arrays, y):
    """From y on, window after window: P itself in flights, elsewhere P to first order."""

    def one(y, given):
        t, h, n, flies, begin, end, tangent = given
        far = jnp.full_like(system.gaps(t, jnp.split(y, 2)[0]), jnp.inf)
        y, lowest = jax.lax.cond(
            flies,
            lambda y: _flight(system, t, y, h, n),
            lambda y: (end + tangent @ (y - begin), far),
            y,
        )
        return y, Followed(y, lowest)

    return jax.lax.scan(one, y, tuple(map(jnp.asarray, arrays)))[1]


@compiled
def contacts(system, arrays, columns):
    def one(t, x, h, n, small, held, slow, leave, beside):
        struck = _struck(system, t, x, held, slow)

        def end(x):
            end = _contact(system, t, x, h, n, held, slow, leave, beside, *struck)
            return end, jnp.zeros(len(held))

        return _with_tangent(end, x, small, columns, len(held))

    return jax.vmap(one)(*arrays)
