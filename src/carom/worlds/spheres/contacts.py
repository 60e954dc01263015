"""The gaps within reach of a step, linearised."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from carom import kernels
from carom.errors import FrictionError
from carom.status import Status
from carom.worlds.spheres.glued import remembered
from carom.worlds.spheres.materials import BySpeed
from carom.worlds.spheres.sliding import Coulomb, Sliding

_NOISE = 16.0 * np.finfo(float).eps  # of velocities, as in kernels/numba/projection.py


@dataclass(frozen=True, eq=False)
class Restitution:
    """The law of spheres without friction: one component, lam >= 0 (carom/law.py)."""

    e: np.ndarray  # (p,)
    size = 1
    joints = 0

    def shift(self, rate, before):
        """b (p, 1) of the impact law."""
        return rate + self.e[:, None] * before


@dataclass(eq=False)
class Contacts:
    """p rows; row k is the gap between body i and body j, or wall -1 - source."""

    i: np.ndarray  # (p,) int
    j: np.ndarray  # (p,) int; the body after the last for a wall
    source: np.ndarray  # (p,) int, place in the list of pairs, or -1 - wall
    normal: np.ndarray  # (p, 3) unit, from i to j
    gap: np.ndarray  # (p,) [m], negative means overlap
    start: np.ndarray  # (S + 1,) int, where the rows of each slab start
    bodies: int  # spheres, obstacles and the body of the walls
    guess: np.ndarray  # (p,) or (p, m) multipliers of the step before, an impulse [kg m/s]
    rounding: np.ndarray  # (p,) [m], up to which a gap is closed
    e: Any  # restitution: a number, (p,), or of speed (materials.py)
    measure_rate: Any = field(repr=False)  # gives (p,) d gap / dt at fixed positions [m/s]
    memory: Any = field(repr=False)  # the list they are of, and the guess (memory.py)
    place: np.ndarray = field(repr=False)  # (p,) int, where that has them: source, or of an image
    gamma: np.ndarray | None = None  # (p,) what glue remembers, <= 0, where there is any
    sliding: Sliding | None = None  # where there is friction; m is then 4 or 7, else 1 (sliding.py)
    touching: bool = False  # whether all of them count as closed, some a little open
    remembered: bool = False  # whether ``memory`` has the multipliers of this step
    _rate: Any = None

    @property
    def rate(self) -> np.ndarray:
        """(p, m) d_t gap: radii that grow, walls and obstacles that move, and slide by [m/s]."""
        if self._rate is None:
            self._rate = self.measure_rate(self)[:, None]
            if self.sliding is not None:
                self._rate = self.sliding.rate(self, self._rate)
        return self._rate

    @property
    def law(self) -> Restitution | Coulomb:
        """What they obey; of a restitution that depends on speed, that of what is at rest."""
        return self._law(np.zeros((len(self.gap), 1)))

    def restitution(self, before: np.ndarray) -> np.ndarray:
        """(p,) e of an impact with the relative velocities ``before`` (p, m)."""
        e = self.e(before[:, 0]) if isinstance(self.e, BySpeed) else self.e
        return np.array(np.broadcast_to(e, len(self.gap)))

    def _law(self, before):
        e = self.restitution(before)
        return Restitution(e) if self.sliding is None else self.sliding.law(e)

    def closed(self, metric=None, moved=None) -> np.ndarray:
        """(p,) where the law acts on velocities; what rounding is, radii tell."""
        return self.gap <= self.rounding

    def ahead(self, dt: float) -> np.ndarray:
        """b (p, m) that keeps gaps open at the end of a step from here."""
        if self.sliding is None:
            return self.gap[:, None] / dt
        b = self.rate.copy()
        b[:, 0] = self.sliding.ahead(self.gap, dt)
        return b

    def bounced(self, before: np.ndarray, dt: float) -> np.ndarray:
        """b (p, m) of the impact law; what touches without a bounce may close by what it is open.

        Else what a projection leaves open adds up, step by step, until a contact falls shut.
        """
        b = self.struck(before)
        if self.touching:
            rests = self.restitution(before) * before[:, 0] >= 0.0
            b[rests, 0] += np.maximum(self.gap[rests], 0.0) / dt
        return b

    def struck(self, before: np.ndarray) -> np.ndarray:
        """The same: there are no joints."""
        return self._law(before).shift(self.rate, before)

    def kept(self, lam: np.ndarray) -> Any:
        """What the next step starts from: the list, and multipliers: those that kept gaps open."""
        if self.gamma is not None:
            glue = self.memory.glue.after(self.i, self.place, remembered(self.gamma, lam[:, 0]))
            return replace(self.remembering(lam).memory, glue=glue)
        return self.memory if self.remembered else self.remembering(lam).memory

    def velocity(self, v: np.ndarray) -> np.ndarray:
        """(p, m) d_t gap + grad gap . v, the relative velocity; negative means approaching."""
        if self.sliding is not None:
            return self.sliding.relative(self, v, self.rate)
        w = np.empty(len(self.gap))
        kernels.rows.relative_velocity(self.i, self.j, self.normal, self.spread(v), w)
        return w[:, None] + self.rate

    def spread(self, v: np.ndarray) -> np.ndarray:
        """(bodies, 3) velocities with those of what no row can move, 0."""
        wide = np.zeros((self.bodies, 3))
        wide[: len(v)] = v[:, :3]
        return wide

    def chosen(self, active: np.ndarray) -> "Contacts":
        """The rows where ``active`` is True."""
        counted = np.concatenate([[0], np.cumsum(active)])
        return replace(
            self,
            i=self.i[active],
            j=self.j[active],
            source=self.source[active],
            place=self.place[active],
            normal=self.normal[active],
            gap=self.gap[active],
            start=counted[self.start],
            guess=self.guess[active],
            rounding=self.rounding[active],
            e=self.e if isinstance(self.e, float) else _chosen(self.e, active),
            gamma=None if self.gamma is None else self.gamma[active],
            sliding=None if self.sliding is None else self.sliding.chosen(active),
            _rate=None if self._rate is None else self._rate[active],
        )

    def remembering(self, lam: np.ndarray) -> "Contacts":
        """The same with these multipliers as the next guess."""
        lam = lam[:, 0] if lam.ndim > self.guess.ndim else lam
        memory = self.memory.after(self.i, self.place, lam)
        return replace(self, guess=lam, memory=memory, remembered=True)

    def frictional(self, b: np.ndarray, active) -> tuple[Any, Any, Any, int]:
        """H (6 N, 3 n), w (3 n,), mu (n,) and 3 of the active contacts (carom/fclib).

        Discs move in space too, with nothing that goes across their plane.
        """
        from carom.worlds.spheres.sliding import frictional

        if self.sliding is None:
            raise FrictionError("the spheres have no friction: that is no problem of friction")
        chosen = self if active is None else self.chosen(active)
        return frictional(chosen, b if active is None else b[active])

    def status(self, metric, active, point) -> Any:
        """What can be wrong with the data of a step."""
        return Status.ok if np.all(np.isfinite(point)) else Status.nonfinite


def beyond_rounding(moved, contacts, inverse, dt: float):
    """A projection without the pushes that rounding makes, where a push is a bounce.

    A sphere that comes to touch at the very end of a step is pushed by what rounding makes of its
    gap, or not at all: by that it would bounce in this step, or in the next.  What such a push let
    friction do goes with it.  ``inverse`` is (bodies,) of masses, or (bodies, 2) and of inertias.
    """
    c, lam = contacts, moved.multipliers.copy()
    normal = lam.copy() if lam.ndim == 1 else lam[:, 0].copy()
    mass = inverse if inverse.ndim == 1 else inverse[:, 0]
    made = dt * np.abs(normal) * (mass[c.i] + mass[c.j]) <= c.rounding
    if not np.any(made & (normal != 0.0)):
        return moved
    back = -lam
    lam[made] = normal[~made] = back[~made] = 0.0
    u, point = c.spread(moved.point), moved.point.copy()
    np.add.at(u, c.i, (mass[c.i] * normal)[:, None] * c.normal)
    np.add.at(u, c.j, -(mass[c.j] * normal)[:, None] * c.normal)
    point[:, :3] = u[: len(point)]
    if back.ndim == 2 and np.any(back[:, 1:]):
        back[:, 0], rubbed = 0.0, np.zeros((c.bodies, 6))
        kernels.sliding.push(c.start, c.i, c.j, c.normal, c.sliding.arm, inverse, back, rubbed)
        point += rubbed[: len(point)]
    return replace(moved, point=point, multipliers=lam)


def beyond_noise(contacts, target, b, inverse, least: float):
    """Contacts with the guesses that are more than rounding of what their bodies move at.

        A_kk lam_k <= eps ( max( |u_i|_1, |u_j|_1 ) + |b_k| ),      A_kk = 1/m_i + 1/m_j

    is within what a residual may be off by ((4) of kernels/numba/projection.py), so that no sweep
    takes it away: two bodies that part would touch for ever.  ``target`` is u before contacts act,
    ``inverse`` (bodies,) of masses, and ``least`` the least of them that is not zero.
    """
    c, lam = contacts, contacts.guess if contacts.guess.ndim == 1 else contacts.guess[:, 0]
    most = _NOISE * (3.0 * np.max(np.abs(target[:, :3]), initial=0.0) + np.max(np.abs(b[:, 0])))
    maybe = np.flatnonzero((lam > 0.0) & (least * lam <= most))  # hardly ever any
    if not len(maybe):
        return contacts
    i, j, speed = c.i[maybe], c.j[maybe], np.sum(np.abs(c.spread(target)), axis=1)
    fast = np.maximum(speed[i], speed[j]) + np.abs(b[maybe, 0])
    noise = maybe[(inverse[i] + inverse[j]) * lam[maybe] <= _NOISE * fast]
    if not len(noise):
        return contacts
    guess = c.guess.copy()
    guess[noise] = 0.0
    return replace(c, guess=guess)


def _chosen(e, active):
    return e.chosen(active) if isinstance(e, BySpeed) else e[active]
