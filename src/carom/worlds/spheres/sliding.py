"""Friction of spheres that spin: what a contact has besides its normal.

A velocity of the world is then (N, 6), v and w side by side, with the metric diag(m, I).  Relative
velocities and impulses are (p, 4): the normal component, and the tangential one as a vector of
space (kernels/numba/sliding.py, (2)).  With rolling or twisting resistance they are (p, 7), the
last three the relative angular velocity and the couple (kernels/numba/rolling.py, (1)).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from carom import kernels
from carom.errors import FrictionError
from carom.worlds.spheres import wedged
from carom.worlds.spheres.levers import hold_couples

_SWEEPS = 3000  # the most, before blocks of contacts are solved
_LOOSE = 1e-3  # the tolerance of a step that is not solved to its own, before a run stops, and
_LOOSELY = 0.1  # what velocities may be off by then, of the change that contacts make


@dataclass(frozen=True, eq=False)
class Coulomb:
    """The law of spheres with friction: |lam_t| <= mu lam_n, the tangential part a vector."""

    e: np.ndarray  # (p,)
    mu: Any  # a number, or (p,)
    size = 4
    joints = 0

    def shift(self, rate, before):
        """b (p, 4) of the impact law: Newton's in the normal row."""
        b = rate.copy()
        b[:, 0] += self.e * before[:, 0]
        return b


@dataclass(frozen=True, eq=False)
class Rolling(Coulomb):
    """Besides a couple, |C_r| <= l_r lam_n across the normal and |C_n| <= l_n lam_n along it."""

    resists: np.ndarray  # (p, 3) [m] l_r, l_n, and the effective radius
    size = 7


@dataclass(frozen=True, eq=False)
class Sliding:
    """The tangential side of p contacts."""

    mu: Any  # a number, or (p,)
    rubs: bool  # whether a contact of the pile may have friction
    spare: float  # [m] a gap so small is closed, see ``ahead``
    spheres: int  # N: bodies from here on are driven
    arm: np.ndarray  # (p, 2) [m], from the centres of i and j to the contact; 0 for a wall
    measure_surface: Callable  # gives (p, 3) [m/s] the tangential velocity of what is driven
    resists: np.ndarray | None = None  # (p, 3) [m] with rolling resistance: l_r, l_n, and R
    measure_spin: Any = None  # gives (p, 3) [rad/s] the spin of what is driven, where it matters

    def chosen(self, active) -> "Sliding":
        """The contacts where ``active`` is True."""
        mu = self.mu if isinstance(self.mu, float) else self.mu[active]
        resists = None if self.resists is None else self.resists[active]
        return replace(self, mu=mu, arm=self.arm[active], resists=resists)

    def law(self, e) -> Coulomb:
        """What the contacts obey, with e (p,)."""
        return Coulomb(e, self.mu) if self.resists is None else Rolling(e, self.mu, self.resists)

    def numbers(self) -> np.ndarray:
        """(p,) mu, or (p, 4) with the lengths of resistance, for the kernels."""
        mu = np.full(len(self.arm), self.mu)
        return mu if self.resists is None else np.column_stack([mu, self.resists])

    def rate(self, contacts, opening) -> np.ndarray:
        """(p, m) that of the gaps (p, 1), and of what is driven: its velocity, and its spin."""
        parts = [opening, self.measure_surface(contacts)]
        parts += [] if self.resists is None else [self.measure_spin(contacts)]
        return np.concatenate(parts, axis=1)

    def ahead(self, gap, dt: float) -> np.ndarray:
        """(p,) the normal b that keeps gaps open at the end of a step, to within ``spare``.

        A gap within it counts as closed, and stays what it is.  Sphere and walls of a corner that
        stick are a rigid body: its gaps cannot be closed, nor overlaps be opened, each by a little
        of its own.  The law of such a step has an answer that is far off, where the stress between
        the contacts has grown until one of them slips, or none (mu >= 1 in a corner).
        """
        return (gap - np.clip(gap, -self.spare, self.spare)) / dt

    def relative(self, contacts, v, rate) -> np.ndarray:
        """(p, m) relative velocities of (N, 6) velocities."""
        c, w = contacts, np.empty((len(contacts.gap), rate.shape[1]))
        kernels.sliding.relative_velocity(
            c.i, c.j, c.normal, self.arm, rate, spread(v, c.bodies), w
        )
        return w


def spread(v, bodies: int) -> np.ndarray:
    """(bodies, 6) velocities with those of what no contact can move, 0."""
    wide = np.zeros((bodies, 6))
    wide[: len(v)] = v
    return wide


def solved(world, target, contacts, b, active, most) -> tuple[Any, Any, float, int, bool]:
    """Coulomb's law for ``target`` (N, 6): velocity, impulses (p, m), residual, sweeps, whether ok.

    The residual is in terms of what is allowed; ok is also what would do with the tolerance _LOOSE
    (wedged.py), which a run counts, and tells at its end.
    """
    rows = contacts if active is None else contacts.chosen(active)
    b = b.copy() if active is None else b[active]
    lam, c, law, asked = _into_cone(rows), rows, rows.sliding.numbers(), b[:, 0].copy()
    problem = (
        *(c.start, c.i, c.j, c.normal, c.sliding.arm, b, law, world.inverse),
        *(spread(target, contacts.bodies), lam, most, world._relative()),
    )
    limit, swept = world.pile.iterations, kernels.sliding.accelerated_gauss_seidel
    u, left, done = swept(*problem, min(limit, _SWEEPS))
    good = left <= 1.0
    if 1.0 < left < np.inf and done < limit:
        still, bounces = rows.rate[:, 0], active is not None and world.pile.bounces
        loose = most * max(1.0, _LOOSE / world.pile.tolerance), _LOOSELY
        planar, limit = world.dimension == 2, limit - done
        more, good = wedged.solved(problem, still, bounces, planar, limit, loose)
        u, left, _ = swept(*problem, 0)
        if active is None:  # an overlap that wedged contacts keep is off the tolerance, and counted
            left = max(left, float(np.max(b[:, 0] - asked)) / most)
        done += more
    if active is not None:
        full = np.zeros((len(contacts.gap), lam.shape[1]))
        full[active] = lam
        lam = full
    return u[: world.N], lam, left, int(done), good


def kept(found, target):
    """A projection without friction, to which the spin of ``target`` (N, 6) is added."""
    point = np.concatenate([found.point, target[:, 3:]], axis=1)
    lam = np.pad(found.multipliers[:, None], ((0, 0), (0, 3)))
    return replace(found, point=point, multipliers=lam)


def _into_cone(rows) -> np.ndarray:
    """(p, m) the guess, its tangential part turned into the plane of contact, couples within."""
    lam, n = rows.guess.copy(), rows.normal
    lam[:, 0] = np.maximum(lam[:, 0], 0.0)
    lam[:, 1:4] -= np.einsum("ij,ij->i", lam[:, 1:4], n)[:, None] * n
    if rows.sliding.resists is not None:
        hold_couples(lam, n, rows.sliding.resists)
    return lam


def inverses(pile, bodies: int) -> np.ndarray:
    """(bodies, 2) 1 / m and 1 / I, 0 for what no contact can move."""
    found = np.zeros((bodies, 2))
    found[: len(pile)] = np.stack([1.0 / pile.mass, 1.0 / pile.inertia], axis=1)
    return found


def surface_velocity(world, contacts, t, x) -> np.ndarray:
    """(p, 3) [m/s] tangential velocity of walls and obstacles at the contacts, seen from i."""
    c, n = contacts, contacts.normal
    found = driven(world, c.i, c.j, np.minimum(c.source, 0), n, t, x)
    return found - np.einsum("ij,ij->i", found, n)[:, None] * n


def driven(world, i, j, wall, n, t, x) -> np.ndarray:
    """(p, 3) [m/s] velocity of the surfaces of walls and obstacles at contacts, seen from i.

    ``wall`` (p,) is -1 - w for wall w, and else 0; x (B, 3) are spheres and obstacles.
    """
    r, N, found = world.radii(t), world.N, np.zeros((len(i), 3))
    there = wall < 0
    if np.any(there):
        which, a = -1 - wall[there], i[there]
        point, velocity, spin = (s[which] for s in world.pile.walls.surfaces_at(t, world.dt))
        away = world.cell.nearest_image(x[a] + r[a, None] * n[there] - point)
        found[there] = velocity + np.cross(spin, away)
    if not world.pile.walls.obstacles:
        return found
    velocity, spin = world.pile.walls.obstacles_surface_at(t, world.dt)
    for body, sign in ((j, 1.0), (i, -1.0)):
        these = ~there & (body >= N)
        b = body[these]
        away = -sign * r[b, None] * n[these]
        found[these] += sign * (velocity[b - N] + np.cross(spin[b - N], away))
    return found


def driven_spin(world, i, j, wall, t) -> np.ndarray:
    """(p, 3) [rad/s] the spin of the surfaces of walls and obstacles at contacts, seen from i."""
    N, found, there = world.N, np.zeros((len(i), 3)), wall < 0
    if np.any(there):
        found[there] = world.pile.walls.surfaces_at(t, world.dt)[2][-1 - wall[there]]
    if not world.pile.walls.obstacles:
        return found
    spin = world.pile.walls.obstacles_surface_at(t, world.dt)[1]
    for body, sign in ((j, 1.0), (i, -1.0)):
        these = ~there & (body >= N)
        found[these] += sign * spin[body[these] - N]
    return found


def frictional(contacts, b) -> tuple[Any, Any, Any, int]:
    """H (6 N, 3 p), w (3 p,), mu (p,) and 3: (1), (2) of kernels/numba/sliding.py in a frame."""
    c, slides = contacts, contacts.sliding
    if slides.resists is not None:
        raise FrictionError("a problem of friction has no couples: leave rolling and twisting out")
    frame = wedged.frames(c.normal, planar=False)
    rows = wedged.gradients(c.i, c.j, c.normal, slides.arm, frame, c.bodies)
    w = np.concatenate([b[:, :1], np.einsum("pac,pc->pa", frame[:, 1:], b[:, 1:])], axis=1)
    driven_left_out = rows.tocsc()[:, : 6 * slides.spheres]
    return driven_left_out.T, w.ravel(), np.full(len(c.normal), slides.mu), 3
