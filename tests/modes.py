"""Planar friction of a few contacts against an enumeration of modes in exact arithmetic.

    python tests/modes.py [problems of each kind] [seed]

prints, by kind and number of contacts, how many problems are wrong (called ok, but not solved), how
many of those that some mode solves are reported as unconverged, and how many no mode solves.

Each contact is open (r = 0), sticks (u = 0) or slips to either side (u_n = 0, r_t = -s mu r_n), and
for given modes u = A r + w is linear.  Floats are rational numbers, so it is solved without any
rounding, and signs are certain.  Regular systems are enough but for exceptions: where the impulses
are not unique one with fewer of them is a solution too.
"""

import sys
from fractions import Fraction
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np

from carom import Status
from carom.projection.coulomb import coulomb
from carom.projection.metric import metric_of

MODES = "open", "stick", "slip +", "slip -"
OK = 1e-9  # the residual that "ok" stands for


def short(x, bits=12):
    """Few binary digits, so that fractions stay short."""
    return np.round(np.asarray(x) * 2.0**bits) / 2.0**bits


def powers(rng, low, high, size):
    return 2.0 ** np.round(rng.uniform(np.log2(low), np.log2(high), size))


def plain(rng, p, d):
    return np.ones(d), short(rng.normal(size=(p, 2, d))), rng.choice([0.2, 0.5, 1.0], p)


def masses(rng, p, d):
    return powers(rng, 1e-6, 1e6, d), short(rng.normal(size=(p, 2, d))), rng.choice([0.2, 0.5], p)


def rough(rng, p, d):
    _, H, _ = plain(rng, p, d)
    return powers(rng, 0.1, 10.0, d), H, np.full(p, 1e3)


def rough_masses(rng, p, d):
    mass, H, _ = masses(rng, p, d)
    return mass, H, rng.choice([0.0, 0.5, 1e3], p)


def smooth(rng, p, d):
    mass, H, _ = masses(rng, p, d)
    return mass, H, rng.choice([0.0, 0.0, 0.5], p)


def redundant(rng, p, d):
    """The last contact repeats the first, or is a multiple of it."""
    mass, H, _ = masses(rng, p, d)
    H[-1] = rng.choice([1.0, 2.0]) * H[0]
    return mass, H, rng.choice([0.0, 0.3, 1e3], p)


def parallel(rng, p, d):
    mass, H, _ = masses(rng, p, d)
    H[-1] = H[0] + short(powers(rng, 1e-8, 1e-3, 1)[0] * rng.normal(size=(2, d)), 40)
    return mass, H, rng.choice([0.3, 1.0], p)


def chain(rng, p, d):
    """Discs without spin on each other, the lowest on the floor: p bodies, 2 p coordinates."""
    H = np.zeros((p, 2, 2 * p))
    for k in range(p):
        angle = rng.uniform(-0.7, 0.7) if k else 0.0
        n = short([np.sin(angle), np.cos(angle)])
        t = np.array([n[1], -n[0]])
        for body, sign in ((k, 1.0), (k - 1, -1.0)):
            if body >= 0:
                H[k, :, 2 * body : 2 * body + 2] = sign * np.array([n, t])
    return np.repeat(powers(rng, 1e-6, 1e6, p), 2), H, rng.choice([0.0, 0.3, 1e3], p)


def body(rng, p, d):
    """Feet of one body, mass and inertia of any size, all in the plane: hyperstatic."""
    x, y = short(rng.uniform(-1, 1, (2, p)))
    H = np.zeros((p, 2, 3))
    H[:, 0] = np.stack([0.0 * x, 1.0 + 0.0 * x, x], axis=1)
    H[:, 1] = np.stack([1.0 + 0.0 * x, 0.0 * x, -y], axis=1)
    m, inertia = powers(rng, 1e-6, 1e6, 2)
    return np.array([m, m, inertia]), H, rng.choice([0.0, 0.3, 0.6], p)


KINDS = {
    f.__name__: f
    for f in (
        plain, masses, rough, rough_masses, smooth, redundant, parallel, chain, body,
    )
}  # fmt: skip
SIZES = {"chain": lambda p: 2 * p, "body": lambda p: 3}


def problem(rng, kind, p):
    """target, H, b, mu, mass: some velocity opens all contacts, so that there is a solution."""
    d = SIZES.get(kind, lambda p: 2 * p - 1 + rng.integers(2))(p)
    mass, H, mu = KINDS[kind](rng, p, d)
    d = H.shape[2]
    v, target = short(rng.normal(size=(2, d)))
    b = short(-H @ v, 40)
    b[:, 0] += short(rng.uniform(0.01, 0.5, p))
    return target, H, b, mu, mass


def exact(x):
    return np.vectorize(Fraction, otypes=[object])(x)


def regular(A, b):
    """A^-1 b in fractions, or None."""
    rows = np.concatenate([A, b[:, None]], axis=1)
    for k in range(len(b)):
        pivots = [i for i in range(k, len(b)) if rows[i, k] != 0]
        if not pivots:
            return None
        rows[[k, pivots[0]]] = rows[[pivots[0], k]]
        rows[k] = rows[k] / rows[k, k]
        for i in range(len(b)):
            if i != k and rows[i, k] != 0:
                rows[i] = rows[i] - rows[i, k] * rows[k]
    return rows[:, -1]


def enumerated(target, H, b, mu, mass):
    """(p, 2) impulses of the first mode that holds, in fractions, or None."""
    p, _, d = H.shape
    H, mu = exact(H), exact(mu)
    flat = H.reshape(2 * p, d)
    A = flat @ (flat / exact(mass)).T
    w = flat @ exact(target) + exact(b).ravel()
    for modes in product(MODES, repeat=p):
        span, rows = [], []  # r = span z; u = 0 on rows
        for k, mode in enumerate(modes):
            n, t = np.eye(2 * p, dtype=int).astype(object)[2 * k : 2 * k + 2]
            side = {"slip +": 1, "slip -": -1}.get(mode, 0)
            span += [] if mode == "open" else [n, t] if mode == "stick" else [n - side * mu[k] * t]
            rows += [] if mode == "open" else [2 * k, 2 * k + 1] if mode == "stick" else [2 * k]
        r = np.array([Fraction(0)] * (2 * p), dtype=object)
        if rows:
            E = np.array(span, dtype=object).T
            z = regular(A[rows] @ E, -w[rows])
            if z is None:
                continue
            r = E @ z
        if all(map(holds, modes, (A @ r + w).reshape(p, 2), r.reshape(p, 2), mu)):
            return r.reshape(p, 2)
    return None


def holds(mode, u, r, mu):
    if mode == "open":
        return u[0] >= 0
    if mode == "stick":
        return abs(r[1]) <= mu * r[0]
    return r[0] >= 0 and u[1] * (1 if mode == "slip +" else -1) >= 0


def violation(target, H, b, mu, mass, x, r):
    """The largest violation of balance and law, from the definition, without rounding.

    That of the law is a velocity relative to the terms that u = H x + b is made of, and no finer
    than 16 roundings of A r, which is a small rest of large terms where masses differ by orders.
    What slips may be off by 1e-12 of its impulse.
    """
    back = exact(target) + np.einsum("iad,ia->d", exact(H), exact(r)) / exact(mass)
    size = np.abs(x) + np.abs(target) + np.einsum("iad,ia->d", np.abs(H), np.abs(r)) / mass
    worst = np.max(np.abs((back - exact(x)).astype(float)) / np.maximum(size, 1e-300))
    u = (np.einsum("iad,d->ia", exact(H), exact(x)) + exact(b)).astype(float)
    terms = np.max(np.abs(b) + np.abs(H) @ (np.abs(x) + np.abs(target)), axis=1)
    pushes = np.abs(H) @ (np.einsum("iad,ia->d", np.abs(H), np.abs(r)) / mass)
    terms = np.maximum(terms, 16 * 2.0**-52 / OK * np.max(pushes, axis=1))
    stiff = np.sum(H**2 / mass, axis=(1, 2))
    for k in range(len(mu)):
        n, t, y, s = u[k, 0], u[k, 1], r[k, 0] * stiff[k], r[k, 1] * stiff[k]
        inside = mu[k] * y - abs(s)
        against = np.sign(s) * t  # at most 0 where it slips
        faults = [-n, -y, min(n, y), min(abs(t), inside), min(against, abs(s))]
        worst = max(worst, *(f / terms[k] for f in faults))
        worst = max(worst, -inside / (terms[k] + 1e-3 * abs(s)))
    return worst


@jax.jit
def solved(*problems):
    """One after another: a hard one holds up no other."""

    def one(x):
        target, H, b, mu, mass = x
        every = jnp.ones(len(mu), bool)
        return coulomb(metric_of(mass), target, H, b, mu, every)

    return jax.lax.map(one, problems)


def trial(kind, p, count, seed):
    """(wrong, reported though a mode solves it, solved by no mode)."""
    rng = np.random.default_rng([seed, p, list(KINDS).index(kind)])
    groups = {}
    for _ in range(count):
        one = problem(rng, kind, p)
        groups.setdefault(len(one[0]), []).append(one)
    wrong = reported = beyond = 0
    for group in groups.values():
        found = solved(*map(np.stack, zip(*group, strict=True)))
        ok = np.asarray(found.status == Status.ok)
        for i, one in enumerate(group):
            if ok[i]:
                x, r = np.asarray(found.point[i]), np.asarray(found.multipliers[i])
                wrong += bool(violation(*one, x=x, r=r) > 2 * OK)
            elif enumerated(*one) is None:
                beyond += 1
            else:
                reported += 1
    return wrong, reported, beyond


def main(count=200, seed=1):
    print("kind            p  wrong  reported  beyond   of", count)
    for p in (2, 3):
        for kind in KINDS:
            wrong, reported, beyond = trial(kind, p, count, seed)
            print(f"{kind:15} {p}  {wrong:5}  {reported:8}  {beyond:6}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
