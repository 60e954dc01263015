"""Records at the impacts that a table locates between the records of a motion.

From each record the certificate's own motion leads to the first impact of the table after it; there
the velocity jumps by M^-1 grad g lam, with the impulse of the table, and the motion goes on to the
next.  Both sides of each impact become records: gap, law and energy are then judged there, and the
last flight must lead to the record that follows.  Of the impulse that lasting contact gave between
two records, each way to an impact takes what it needs, and the last way what is left.
"""

import jax
import jax.numpy as jnp
import numpy as np

from carom.certificates.flight import flow_beside
from carom.errors import CaromError
from carom.programs import compiled
from carom.schemes.scheme import NOT_KEPT

_NEAR = 1e-9  # relative: times and impulses that are the same
_STEPS = 64  # of integration between two impacts, at most
_FILL = 256  # intervals of a run between two records
_MOST = 50_000  # in all
_MOST_LASTING = 8192  # in all, where there is a lasting contact and no impact
_SAME_PUSH = 1e-6  # relative
_ALIKE = 1e-10  # relative change when the steps are doubled


def filled(system, scheme, table, t, q, v, lam):
    """The table and the arrays, with records where impacts and a lasting contact share an interval.

    When the contact began is not in the data there.  A run from the record before says it, and is
    judged like everything else: it must lead to the record after, which stays as it is.
    """
    listed = np.zeros_like(lam)
    inside = (table["step"] > 0) & (table["step"] < len(t))
    np.add.at(
        listed, (table["step"][inside], table["constraint"][inside]), table["impulse"][inside]
    )
    lasting = np.any(lam - listed > 1e-6 * np.max(lam, initial=0.0), axis=1)
    few = np.sum(lasting) * _FILL <= _MOST_LASTING  # long ones, in which contacts begin and end
    mixed = np.flatnonzero(lasting & (few | np.any(listed > 0.0, axis=1)))
    unknown = NOT_KEPT in jax.tree_util.tree_leaves(scheme)  # options under jit: no run with them
    if unknown or not 0 < len(mixed) * _FILL <= _MOST:
        return table, (t, q, v, lam)
    tables, pieces, first = [], [], 0
    for k in mixed:
        run = _run(system, scheme, t[k - 1], t[k], q[k - 1], v[k - 1])
        if run is None:
            return table, (t, q, v, lam)
        tables.append(_moved(table, first, k - 1, len(pieces) * (_FILL - 1)))
        inner = np.array(run.impacts)
        inner["step"] += k - 1 + len(pieces) * (_FILL - 1)
        tables.append(inner)
        ends = np.asarray(run.q), np.asarray(run.v), np.asarray(run.impulse)
        pieces.append((k, np.asarray(run.t)[1:-1], *(x[1:-1] for x in ends), ends[2][-1]))
        first = k
    tables.append(_moved(table, first, len(t), len(pieces) * (_FILL - 1)))
    lam = lam.copy()
    for k, *_, last in pieces:
        lam[k] = last
    places = np.repeat([p[0] for p in pieces], _FILL - 1)
    given = [np.concatenate([p[i] for p in pieces]) for i in range(1, 5)]
    arrays = (np.insert(a, places, g, axis=0) for a, g in zip((t, q, v, lam), given, strict=True))
    return np.concatenate(tables), tuple(arrays)


def refilled(system, scheme, dt, t, q, v, lam, beside):
    """The arrays with records at most dt apart, where friction or joints act; None: not to be had.

    As in ``filled``, runs from each record say what is between it and the next, which stays as it
    is.  They must give the impulses that the records have, which need not be unique.
    """
    if NOT_KEPT in jax.tree_util.tree_leaves(scheme) or not dt > 0.0:
        return None
    parts = np.minimum(np.ceil(np.diff(t) / dt), _MOST + 1).astype(int)
    n = np.max(parts)  # the same for all: one compilation
    long = np.flatnonzero(parts > 1)
    if not 0 < n * len(long) <= _MOST:
        return None
    all_given, pieces = np.concatenate([lam, beside], axis=1), []
    size = np.max(np.abs(all_given))
    for k in long:
        run = _run(system, scheme, t[k], t[k + 1], q[k], v[k], n)
        if run is None:
            return None
        given = [x for x in (run.impulse, run.friction, run.joint_impulse) if x is not None]
        pushes = np.concatenate([np.reshape(x, (n + 1, -1)) for x in given], axis=1)[1:]
        if np.max(np.abs(np.sum(pushes, axis=0) - all_given[k + 1])) > _SAME_PUSH * size:
            return None
        all_given[k + 1] = pushes[-1]
        pieces.append([*(np.asarray(x)[1:-1] for x in (run.t, run.q, run.v)), pushes[:-1]])
    places = np.repeat(long + 1, n - 1)
    t, q, v, pushes = (
        np.insert(a, places, np.concatenate(g), axis=0)
        for a, g in zip((t, q, v, all_given), zip(*pieces, strict=True), strict=True)
    )
    return t, q, v, *np.split(pushes, [lam.shape[1]], axis=1)


def _run(system, scheme, t0, t1, q, v, n=_FILL):
    """The motion of ``scheme`` from one record to the next; None where it has none."""
    from carom.run.solve import solve

    try:
        return solve(system, scheme, q, v, t0=t0, t1=t1, dt=(t1 - t0) / n)
    except CaromError:
        return None


def _moved(table, first, last, by):
    """The impacts of the steps after ``first`` up to ``last``, in the new counting."""
    found = np.array(table[(table["step"] > first) & (table["step"] <= last)])
    found["step"] += by
    return found


def with_impacts(system, table, t, q, v, lam):
    """The arrays with two records more for every time in the table after the first record."""
    times, pushes, interval = _grouped(table, t, lam.shape[1])
    if not len(times):
        return t, q, v, lam
    total = np.zeros_like(lam)
    np.add.at(total, interval, pushes)
    rest = lam - total
    rest = np.where(np.abs(rest) <= _NEAR * (np.abs(lam) + np.max(lam, initial=0.0)), 0.0, rest)
    before, after, lasting = _threaded(system, times, pushes, interval, rest > 0.0, t, q, v)
    for k, i in enumerate(interval):
        lasting[k] = np.clip(lasting[k], 0.0, rest[i])
        rest[i] -= lasting[k]
    where = np.repeat(interval, 2)
    d, p = q.shape[1], lam.shape[1]
    sides = np.stack([before, after], axis=1).reshape(-1, 2 * d)
    given = np.stack([lasting, pushes], axis=1).reshape(-1, p)
    return (
        np.insert(t, where, np.repeat(times, 2)),
        np.insert(q, where, sides[:, :d], axis=0),
        np.insert(v, where, sides[:, d:], axis=0),
        np.insert(rest, where, given, axis=0),
    )


def _grouped(table, t, p):
    """Times, impulses (k, p) and steps, together where several gaps are struck at once."""
    table = np.asarray(table)
    table = table[(table["step"] > 0) & (table["step"] < len(t))]
    table = table[np.lexsort((table["time"], table["step"]))]
    times = np.clip(table["time"], t[table["step"] - 1], t[table["step"]])
    new = (np.diff(times, prepend=-np.inf) > 0.0) | (np.diff(table["step"], prepend=0) > 0)
    pushes = np.zeros((int(np.sum(new)), p))
    np.add.at(pushes, (np.cumsum(new) - 1, table["constraint"]), table["impulse"])
    return times[new], pushes, table["step"][new]


def _threaded(system, times, pushes, interval, resting, t, q, v):
    """Both sides (k, 2d) of every impact, and the impulses (k, p) of lasting contact before it."""
    k, x = len(times), np.concatenate([q, v], axis=1)
    fresh = np.diff(interval, prepend=-1) != 0
    since = np.where(fresh, t[interval - 1], np.concatenate([[0.0], times[:-1]]))
    next_push = _next(pushes, interval)
    arrays = since, times - since, pushes, fresh, x[interval - 1], resting[interval], next_push
    size = 1 << max(int(k - 1).bit_length(), 6)
    padded = [np.concatenate([a, np.repeat(a[-1:], size - k, axis=0)]) for a in arrays]
    n, before = 1, None
    while True:
        found = np.concatenate(_thread(system, padded, n), axis=1)[:k]
        scale = np.max(np.abs(found), axis=0)
        if n >= _STEPS or (before is not None and np.all(np.abs(found - before) <= _ALIKE * scale)):
            return np.split(found, [x.shape[1], 2 * x.shape[1]], axis=1)
        n, before = 4 * n, found


def _next(pushes, interval):
    """(k, p) the impulse of the next impact of each gap in the same interval; zero: none."""
    found, later = np.array(pushes), np.zeros(pushes.shape[1])
    for k in range(len(found) - 1, -1, -1):
        if k + 1 < len(found) and interval[k + 1] != interval[k]:
            later = np.zeros_like(later)
        later = np.where(found[k] > 0.0, found[k], later)
        found[k] = later
    return found


@compiled
def _thread(system, arrays, n):
    def one(x, given):
        t, h, push, fresh, start, resting, later = given
        left, lasting = flow_beside(system, t, jnp.where(fresh, start, x), h, n, resting, later)
        q, v = jnp.split(left, 2)
        metric, rows = system.metric(q), system.normals(t + h, q).rows
        right = jnp.concatenate([q, v + metric.lift(metric.whiten(rows).T @ push)])
        return right, (left, right, lasting)

    return jax.lax.scan(one, jnp.asarray(arrays[4][0]), tuple(map(jnp.asarray, arrays)))[1]
