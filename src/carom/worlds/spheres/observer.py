"""What of a run of spheres is recorded: sums between records, and the records themselves."""

from typing import Any

import numpy as np

from carom import kernels
from carom.status import Status
from carom.worlds.spheres.glued import remembered
from carom.worlds.spheres.solution import (
    SpheresEnd,
    SpheresSolution,
    SphereStats,
    contact_table,
    turning,
)

_TOUCHING = 10  # contacts between spheres, per sphere, at most; no packing has 7.5 [1]
# [1] G. Kuperberg, O. Schramm, Average kissing numbers for non-congruent sphere packings,
#     Math. Res. Lett. 1 (1994) 339-344: below 14.93 / 2.
_PUSHED = {"i": (), "j": (), "source": (), "normal": (3,)}  # of a row that pushed


class Observer:
    """Sums since the last record, and the contacts that pushed in the last step."""

    def __init__(self, world, clock):
        self.world, self.clock = world, clock
        self.wide = 6 if world.pile.spins else 3
        self.walls = len(world.pile.walls.at(clock.start)[0])
        self.overlap = 0.0  # [m], largest so far
        self.loose = 0  # steps so far whose friction is off by more than the tolerance
        self.moved = np.zeros((world.N, 3))
        self.last: Any = None  # contacts and multipliers, or what is left of them
        self._clear()

    def _clear(self):
        self.impulse = np.zeros((self.world.N, self.wide))
        self.wall_impulse = np.zeros((self.walls, 3))
        self.work, self.push, self.largest = 0.0, 0.0, 0.0

    def struck(self, state, contacts, lam, residual) -> None:
        """An impact at the start."""
        self.loose += int(self._off(residual))
        self._received(contacts, lam)
        self.last = contacts, lam

    def stands(self, state) -> None:
        """At the end of another run: nothing has happened yet."""
        nothing = self.world.contacts(state.t, state.q, state.memory)
        self.last = nothing, np.zeros((len(nothing.gap), 1))

    def of_step(self, before, state, report) -> Any:
        """What a step did; asked before records inside of it are made, added after."""
        world, moved = self.world, state.q - before.q
        overlap = world.overlap(report.contacts, state.t, state.q)
        work = float(np.sum(self._force(before, state, report)[:, :3] * moved))
        loose = self._off(report.residual)
        return moved, work, overlap, loose, report.contacts, report.impulse

    def _force(self, before, state, report):
        """(N, 3) or (N, 6): that of the step, h f = M (v1 - v) - H^T lam, whatever its arguments.

        The force of the user changes within a step, and schemes ask for it at times of their own.
        """
        world, dt = self.world, self.clock.dt
        if world.pile.force is None:
            return world.forces(before.t, before.q, before.v)
        gained = world.metric(state.q).apply(state.v - before.v)
        return (gained - self._total(report.contacts, report.impulse)) / dt

    def _off(self, residual) -> bool:
        """Whether what was solved is off by more than the tolerance."""
        pile = self.world.pile
        return bool(pile.rubs and residual > pile.tolerance)

    def verdict(self) -> Any:
        """The status of a run that reached its end."""
        return Status.loose if self.loose else Status.ok

    def add(self, found) -> None:
        """One more step."""
        self.moved, work, overlap, loose, *self.last = found
        self.work, self.loose = self.work + work, self.loose + int(loose)
        self._received(*self.last)
        self.largest = max(self.largest, overlap)

    def _total(self, contacts, lam):
        """(N, 3) or (N, 6) H^T lam, what spheres receive."""
        c, each = contacts, np.zeros((contacts.bodies, 2))
        each[: self.world.N] = 1.0
        total, pushed = np.zeros((c.bodies, self.wide)), lam[:, 0].copy()
        if c.sliding is None:
            n = c.normal if c.gamma is None else np.sign(pushed)[:, None] * c.normal
            kernels.projection.push(c.start, c.i, c.j, n, each[:, 0].copy(), np.abs(pushed), total)
        else:
            kernels.sliding.push(c.start, c.i, c.j, c.normal, c.sliding.arm, each, lam, total)
        return total[: self.world.N]

    def _received(self, contacts, lam):
        """Add the impulses of a step: on the spheres, and what walls receive."""
        c, pushed = contacts, lam[:, 0]
        self.impulse += self._total(contacts, lam)
        self.push += float(np.sum(np.abs(pushed)))
        wall = contacts.source < 0
        place, push = -1 - contacts.source[wall], pushed[wall, None] * contacts.normal[wall]
        if c.sliding is not None:
            push = push + lam[wall, 1:4]
        for d in range(3):
            self.wall_impulse[:, d] += np.bincount(
                place, weights=push[:, d], minlength=len(self.wall_impulse)
            )

    def record(self, step: int, t: float, q, v) -> dict[str, Any]:
        """The fields (carom/fields.py, SPHERES) at t, and the sums begin anew."""
        d, world = self.world.dimension, self.world
        self.overlap = max(self.overlap, self.largest)
        row = {
            "steps": np.array(self.clock.first + step),
            "x": q[:, :d].copy(),
            "v": v[:, :d].copy(),
            "moved": self.moved[:, :d].copy(),
            "radius": world.pile.radius_at(t),
            "impulse": self.impulse[:, :d].copy(),
            "spin": turning(v[:, 3:], d),
            "angular_impulse": turning(self.impulse[:, 3:], d),
            "wall_impulse": self.wall_impulse[:, :d].copy(),
            "work": np.array(self.work),
            "push": np.array(self.push),
            "overlap": np.array(self.largest),
            "contacts": contact_table(world, self._pushed(), q, t, self.clock.dt),
        }
        self._clear()
        return row

    def ragged(self, name: str) -> bool:
        """Whether a field has another size at each record."""
        return name == "contacts"

    def _pushed(self) -> dict[str, np.ndarray]:
        """The rows that pushed in the last step, normal and multipliers."""
        if isinstance(self.last, dict):
            return self.last
        contacts, lam = self.last
        acts, gamma = lam[:, 0] > 0.0, {}
        if contacts.gamma is not None:
            left = remembered(contacts.gamma, lam[:, 0])
            acts = (lam[:, 0] != 0.0) | (left < 0.0)
            gamma = {"gamma": left[acts]}
        found = contacts.chosen(acts)
        return {n: getattr(found, n) for n in _PUSHED} | {"lam": lam[acts]} | gamma

    # What a checkpoint needs; what the last step did only if a record lies inside of the next.

    def tree(self, inside: bool) -> dict:
        """As arrays."""
        names = "impulse", "wall_impulse", "work", "push", "largest", "overlap", "loose"
        tree = {name: np.array(getattr(self, name)) for name in names}
        pushed = {n: np.zeros((0, *shape), int) for n, shape in _PUSHED.items()}
        pushed |= {"lam": np.zeros((0, 1))}
        if self.world.pile.glue:
            pushed |= {"gamma": np.zeros(0)}
        tree |= {"moved": self.moved if inside else np.zeros(0)}
        return tree | {"pushed": self._pushed() if inside else pushed}

    def restore(self, tree: dict) -> None:
        """Put it where it was."""
        for name in ("work", "push", "largest", "overlap"):
            setattr(self, name, float(tree[name]))
        self.impulse, self.wall_impulse = tree["impulse"], tree["wall_impulse"]
        self.loose = int(tree["loose"])
        if tree["moved"].size:
            self.moved = tree["moved"]
        self.last = tree["pushed"]

    def most_bytes(self, inside: bool) -> int:
        """By how much a dump may grow from what it is at the start."""
        N, size = self.world.N, 1 + 3 * (self.world.pile.spins + self.world.pile.rolls)
        touching = N * (_TOUCHING + self.walls)
        size += self.world.pile.glue
        guess = 16 * size * touching + 8 * (self.impulse.size + self.wall_impulse.size)
        return guess + 8192 + inside * (24 * N + (36 + 8 * size) * touching)

    # What is handed out.

    def stats(self, state) -> dict[str, Any]:
        """By name."""
        most = max(self.overlap, self.largest)
        return {"overlap": most, "rebuilds": int(state.memory.rebuilds), "loose": self.loose}

    def told(self, state) -> str:
        """Energy, contacts, and the worst overlap."""
        pile = self.world.pile
        d = pile.dimension
        x, v = state.q[:, :d], state.v[:, :d]
        energy = 0.5 * np.sum(pile.mass * np.sum(v * v, axis=1))
        energy -= np.sum(pile.mass * (x @ pile.gravity))
        if pile.spins:
            energy += 0.5 * np.sum(pile.inertia * np.sum(state.v[:, 3:] ** 2, axis=1))
        worst = max(self.overlap, self.largest) / pile.smallest
        pushing = len(self._pushed()["i"])
        loose = f", {self.loose} steps off the tolerance" if self.loose else ""
        return f"energy {energy:.5g} J, {pushing} contacts, worst overlap {worst:.1e} radii{loose}"

    def solution(self, course, t, rows) -> SpheresSolution:
        """Of what was kept."""
        clock = course.clock
        return SpheresSolution(
            t,
            rows,
            stats=SphereStats(**course.stats),
            status=course.status,
            dt=clock.dt,
            scheme=course.scheme,
            pile=self.world.pile,
            end=SpheresEnd(clock.t0, clock.first + course.step, clock.dt, course.saved()),
            error=course.error,
        )
