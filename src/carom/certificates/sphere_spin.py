"""Clauses of friction and rolling in the certificate of spheres (spheres.py)."""

from typing import Any

import numpy as np

from carom.certificates.clauses import Row
from carom.certificates.sphere_contacts import (
    MARGIN,
    ROUNDING,
    about,
    couple,
    padded,
    tolerated,
)
from carom.worlds.spheres import materials, sliding


def turned_by(m):
    """I Dw, as (n - 1, N, 1 or 3), and what contacts gave."""
    sol, shape = m.sol, (len(m.sol) - 1, len(m.pile), 1 if m.pile.dimension == 2 else 3)
    gained = m.pile.inertia[:, None] * np.diff(sol.spin, axis=0).reshape(shape)
    return gained, sol.angular_impulse[1:].reshape(shape)


def _angular(m):
    """Sphere by sphere, over each interval between records."""
    sol, (gained, given) = m.sol, turned_by(m)
    w = np.max(np.abs(sol.spin.reshape(len(sol), -1)), axis=1)
    arm = np.max(sol.radius, axis=1)
    mu = sum(materials.most(c) for c in m.pile.coefficients[1:])
    size = np.max(m.pile.inertia) * (w[1:] + w[:-1]) + arm[1:] * mu * sol.push[1:]
    found = np.max(np.linalg.norm(gained - given, axis=2), axis=1)
    return found, 100.0 * ROUNDING * size * np.sqrt(np.diff(sol.steps)), sol.t[1:]


def _cone(m):
    over = [
        np.max(np.linalg.norm(c.friction, axis=1) - _mu(m, c) * c.impulse, initial=0.0)
        for c in m.sol.contacts
    ]
    mu = materials.most(m.pile.friction)
    most = [mu * np.max(c.impulse, initial=0.0) for c in m.sol.contacts]
    return np.array(over), 100.0 * ROUNDING * np.array(most) + 1e-300, m.sol.t


def _mu(m, table):
    """mu of the contacts of a record, a number or (c,)."""
    return m.world.materials.friction(*table.pairs.T, table.pairs[:, 1])


def _slip(m):
    """(4), as the velocity that it lacks; at a record inside of a step x has moved on."""
    found = [_slipped(m, k, table) for k, table in enumerate(m.sol.contacts)]
    allowed = [tolerated(m, k, table) for k, table in enumerate(m.sol.contacts)]
    spin = np.max(np.abs(m.sol.spin.reshape(len(m.sol), -1)), axis=1)
    turning = np.max(np.abs(m.pile.walls.surfaces_at(m.sol.t[0], m.h)[2]), initial=0.0)
    late = 2.0 * m.h * turning * m.speed * (m.sol.t - m.last_whole > 1e-6 * m.h)
    rounding = 100.0 * ROUNDING * (m.speed + spin * np.max(m.sol.radius))
    spare = late + rounding
    worst = [
        np.argmax(x / (a + s + 1e-300)) if len(x) else None
        for x, a, s in zip(found, allowed, spare, strict=True)
    ]
    at = zip(found, allowed, worst, strict=True)
    both = np.array([(0.0, 0.0) if w is None else (x[w], a[w]) for x, a, w in at])
    return both[:, 0], MARGIN * both[:, 1] + spare, m.sol.t


def _slipped(m, k, table):
    """(c,) the tangential residual of the contacts of record k [m/s]."""
    if not len(table):
        return np.zeros(0)
    t, bodies, u, inverse, arm = _moving(m, k)
    n, T = padded(table.normal), padded(table.friction)
    i, j = table.pairs.T
    wall = j < 0
    other = np.where(wall, len(bodies), j)
    turning = arm[other, None] * u[other, 3:] + arm[i, None] * u[i, 3:]
    w = u[other, :3] - u[i, :3] - np.cross(turning, n)
    w += sliding.driven(m.world, i, other, np.where(wall, j, 0), n, t, bodies)
    w -= np.einsum("ij,ij->i", w, n)[:, None] * n
    a = (inverse[i] + inverse[other]) @ [1.0, 0.0]
    a += arm[i] ** 2 * inverse[i, 1] + arm[other] ** 2 * inverse[other, 1]
    wanted, most = T - w / a[:, None], _mu(m, table) * table.impulse
    size = np.linalg.norm(wanted, axis=1)
    wanted *= np.divide(most, size, out=np.ones_like(size), where=size > most)[:, None]
    return a * np.linalg.norm(T - wanted, axis=1)


def _moving(m, k):
    """The time, places, velocities, inverse masses and inertias, and radii of bodies in a step."""
    t, N, spin = m.last_whole[k], len(m.pile), m.sol.spin[k]
    x = padded(m.sol.x[k] - m.sol.moved[k] * m.exact)  # where the rows of the step were
    bodies = m.world.bodies(t, x)
    u, inverse = np.zeros((len(bodies) + 1, 6)), np.zeros((len(bodies) + 1, 2))
    u[:N, :3] = padded(m.sol.v[k])
    u[:N, 3:] = about(spin)
    inverse[:N] = np.stack([1.0 / m.pile.mass, 1.0 / m.pile.inertia], axis=1)
    return t, bodies, u, inverse, np.append(m.world.radii(t), 0.0)


def _couples(m):
    """(n,) what couples are over their bounds."""
    over, most = np.zeros(len(m.sol)), np.zeros(len(m.sol))
    for k, table in enumerate(m.sol.contacts):
        if len(table):
            roll, twist, _, held = _resisted(m, k, table)
            sizes = np.stack([np.linalg.norm(roll, axis=1), np.abs(twist)])
            over[k] = max(np.max(sizes - held), 0.0)
            most[k] = np.max(held)
    return over, 100.0 * ROUNDING * most + 1e-300, m.sol.t


def _resisted(m, k, table):
    """C_r (c, 3), C_n (c,), R (c,), and the bounds (2, c) of the contacts of record k."""
    n, C = padded(table.normal), couple(table)
    i, j = table.pairs.T
    radii = np.append(m.world.radii(m.last_whole[k]), 0.0)
    arm = np.stack([radii[i], radii[np.where(j < 0, -1, j)]], axis=1)  # the last is that of walls
    *lengths, R = m.world.materials.resistance(i, j, j, arm).T
    twist = np.einsum("ij,ij->i", C, n)
    return C - twist[:, None] * n, twist, R, np.array(lengths) * table.impulse


def _rolling(m):
    """What couples lack, as a velocity."""
    return _worst(m, 0)


def _rolling_work(m):
    """(8)."""
    return _worst(m, 1)


def _worst(m, which):
    """(n,) of one of two measures of the contacts of each record, that which is worst."""
    found, allowed = np.zeros(len(m.sol)), np.full(len(m.sol), 1e-300)
    for k, table in enumerate(m.sol.contacts):
        if len(table):
            value, bound = _rolled(m, k, table)[which]
            worst = int(np.argmax(value / bound))
            found[k], allowed[k] = value[worst], bound[worst]
    return found, allowed, m.sol.t


def _rolled(m, k, table) -> Any:
    """(c,) what a couple lacks [m/s] and what is allowed, its work [J] and what is allowed."""
    t, bodies, u, inverse, _ = _moving(m, k)
    i, j = table.pairs.T
    wall, n = j < 0, padded(table.normal)
    other = np.where(wall, len(bodies), j)
    o = u[other, 3:] - u[i, 3:]
    o += sliding.driven_spin(m.world, i, other, np.where(wall, j, 0), t)
    o_n = np.einsum("ij,ij->i", o, n)
    roll, twist, R, held = _resisted(m, k, table)
    a = inverse[i, 1] + inverse[other, 1]
    wanted = roll - (o - o_n[:, None] * n) / a[:, None]
    size = np.linalg.norm(wanted, axis=1)
    wanted *= np.divide(held[0], size, out=np.ones_like(size), where=size > held[0])[:, None]
    off = np.linalg.norm(roll - wanted, axis=1)
    off = np.maximum(off, np.abs(twist - np.clip(twist - o_n / a, -held[1], held[1])))
    fastest = m.speed[k] + R * np.max(np.abs(u[:, 3:]))
    bound = MARGIN * tolerated(m, k, table) + 100.0 * ROUNDING * fastest + 1e-300
    C = np.linalg.norm(roll, axis=1) + np.abs(twist)
    work = np.maximum(np.einsum("ij,ij->i", roll + twist[:, None] * n, o), 0.0)
    return (R * a * off, bound), (work, bound * C / R + 1e-300)


OF_SPIN = [
    Row(_angular, "angular momentum", "I Dw = angular impulse, each sphere", "rounding"),
    Row(_cone, "cone", "|T| <= mu lam", "rounding"),
    Row(_slip, "slip", "T against the slip, or none", "2 min(tol / h, 300 tol c)"),
]


OF_ROLLING = [
    Row(_couples, "couple", "|C_r|, |C_n| <= length lam", "rounding"),
    Row(_rolling, "rolling", "C against the rolling and the twist, or none", "as slip"),
    Row(_rolling_work, "work of rolling", "C . o <= 0", "2 min(tol / h, 300 tol c) |C| / R"),
]
