"""Spheres on the move: what a scheme asks of its world, answered by compiled kernels."""

from dataclasses import replace
from typing import Any

import numpy as np

from carom import errors, kernels
from carom.projection.exact import Projection
from carom.projection.fixed_point import Solved
from carom.projection.nearest import Nearest
from carom.projection.quadrature import adaptive_mean, repeated
from carom.status import Status
from carom.worlds.spheres import sliding, stalled
from carom.worlds.spheres.contacts import Contacts, beyond_noise, beyond_rounding
from carom.worlds.spheres.glued import pulled
from carom.worlds.spheres.implicit import held_back, stiffness
from carom.worlds.spheres.materials import Materials, most
from carom.worlds.spheres.memory import Memory, glue_for, places, with_images
from carom.worlds.spheres.metric import Metric, fastest, largest, lengths
from carom.worlds.spheres.moved import Moved
from carom.worlds.spheres.neighbours import FEW, Cell, PairList, margins, within_period
from carom.worlds.spheres.reach import ENTERED, missed, opened, past_panels, struck_hard, thrown

_ATTEMPTS = 40  # at a step: a reach too short is widened, a curved wall linearised again
_SLACK_RADII = 0.01  # reach beyond the free motion, in smallest radii: for what is pushed
_VELOCITY = 300.0  # tolerances: what a velocity may be off by, of the change that contacts make
_COARSEST = 3e-2  # ... and at most
_NEVER_MIND = 1e30  # in its place where only the overlap counts
_ROUNDING = 8.0 * np.finfo(float).eps  # of coordinates and radii: a gap so small is closed
_OVER = 0.1  # of a step, for the rate of a gap: rounding in it is ten units in a step
_SWEPT = 1e-13  # of velocities: what rounding leaves after some hundred sweeps
_FALLEN = 1e-3  # of the first change of a fixed point: repetition has contracted
_ELSEWHERE = 1e-6  # of the largest shift, as in kernels/numba/projection.py


class World(Moved):
    """One run of a pile of spheres.

    It is fixed: what changes from step to step is in the memory of the state (memory.py).
    Positions and velocities are (N, 3) here, also in two dimensions; velocities of spheres that
    spin are (N, 6), v and w.
    A residual is 1 tolerance where it is all that is allowed: an overlap of so many smallest radii
    at the end of the step, or a velocity that is off by _VELOCITY tolerances of the change that
    contacts make to it, whichever is less (kernels/numba/projection.py, (4)).
    """

    xp = np

    def __init__(self, pile, dt: float):
        self.pile, self.dt = pile, dt
        self.N, self.dimension = pile.position.shape
        self.cell = Cell(np.zeros(3), np.pad(pile.period, (0, 3 - self.dimension)), self.dimension)
        self._metric, self.materials = Metric(pile), Materials(pile)
        self._inverse_mass = np.zeros(self.N + len(pile.walls.obstacles_at(pile.start)[0]) + 1)
        self._inverse_mass[: self.N] = 1.0 / pile.mass
        self._heaviest = float(np.max(pile.mass))
        size = [7 if pile.rolls else 4] * pile.spins
        walls = (self.N, len(pile.walls.at(pile.start)[0]), *size)
        self._walls = with_images(walls, pile)
        if pile.spins:
            self.inverse = sliding.inverses(pile, len(self._inverse_mass))
        # inside of a step alone:
        self.pull: Any = None  # what holds an implicit force back (implicit.py) ...
        self.projected: Any = None  # ... the point of the last projection
        self._asked: Any = None  # ... and where forces were asked for

    # What a scheme asks of its world.

    def metric(self, q):
        """The kinetic metric."""
        return self._metric

    def forces(self, t, q, v):
        """Gravity and the force of the user, (N, 3); with spin (N, 6), no torque."""
        g = np.pad(self.pile.gravity, (0, (6 if self.pile.spins else 3) - self.dimension))
        f = self._metric.apply(np.broadcast_to(g, (self.N, len(g))))
        if self.pile.force is not None:
            f[:, : self.dimension] += self.pile.force_at(t, q, v)
            if self.pull is not None:
                self._asked = t, q, v, f
        return f

    def force_uses_velocity(self, q):
        """Whether a force may depend on the velocity."""
        return self.pile.force is not None

    def common_restitution(self):
        """e; of several the largest."""
        return most(self.pile.restitution)

    def contacts(self, t, q, memory=None) -> Contacts:
        """The gaps that are closed at (t, q): to rounding, or to the tolerance if they pushed.

        What rests rests to the tolerance to which it is held: a contact that opens by so little
        would else fall shut, in a step of its own, and a pile never come to rest.  Where none has
        pushed yet and nothing bounces all count as if they had: rounding is not to decide.  What is
        glued is closed, though it may have slid open by more (glued.py).  With friction that it
        pushed is all that is remembered: of a guess, what it is off by would be off in each step.
        """
        reach = np.full(self.N, 0.0 if memory is None else self._length())
        if memory is not None and self.pile.glue:
            reach = np.maximum(reach, _SLACK_RADII * self.pile.smallest)  # as in a step
        found = self._contacts(t, q, reach, memory)
        holds = self._normal(found) > 0.0
        holds |= not (np.any(holds) or self.pile.bounces)
        held = np.where(holds, self._length(), 0.0)
        if found.gamma is not None:
            held = np.where(found.gamma < 0.0, np.inf, held)
        found.rounding = np.maximum(found.rounding, held)
        if self.pile.rubs:
            found.guess = np.zeros_like(found.guess)
        return found if memory is None else replace(found.chosen(found.closed()), touching=True)

    def project(self, metric, target, contacts, b, active=None) -> Projection:
        """Project ``target`` onto {x : grad gap . x + b >= 0}, active rows only."""
        allowed = self._length() / self.dt
        if self.pile.bounces and (speed := fastest(target)) > 0.0:
            allowed = min(allowed, self.pile.tolerance * speed)  # a bounce is not a distance
        target = self._pulled(target, 1.0)
        found = self._obeyed(target, contacts, b, active, allowed)
        self._reached(found.point)
        return _tall(found)

    def memory(self, t, q) -> Memory:
        """What a run starts with: the list of near pairs."""
        return self.contacts(t, q).memory

    def remembered(self, memory: Memory) -> Memory:
        """What is left of the memory of another run, which may have had other walls, or no spin."""
        pair, wall = memory.pair, memory.wall
        if wall.shape != self._walls:
            wall = np.zeros(self._walls)
            same = pair.shape[1:] == self._walls[2:]
            pair = pair if same else np.zeros((len(pair), *self._walls[2:]))
        glue = glue_for(self._walls, memory) if self.pile.glue else None
        return Memory(memory.pairs, pair, wall, np.array(0), glue)

    def keep_open(self, metric, t, q, free, dt, memory=None):
        """The velocity nearest to ``free`` that keeps every gap open from q to time t.

        Gaps are linearised at q.  No gap that matters is left out (kernels/numba/neighbours.py, 4).
        A wall that bends around the spheres is linearised again, at the point it let through, and
        an edge between panels that a sphere got past is an edge (kernels/numba/rows.py).
        """
        if not np.all(np.isfinite(free)):
            nothing = self.contacts(t, q, memory)
            lam = np.zeros_like(nothing.guess)
            return nothing, _tall(Projection(free, lam, np.nan, 0, Status.nonfinite))
        reach = 1.1 * dt * lengths(free) + _SLACK_RADII * self.pile.smallest
        whole, tangent_at, sweeps = np.zeros(self.N, bool), None, 0
        for turn in range(_ATTEMPTS):
            contacts = self._contacts(t, q, reach, memory, tangent_at, whole)
            b = contacts.ahead(dt)
            if turn == 0 and struck_hard(self, contacts, free, b, dt):
                contacts, b, reach, sweeps = thrown(self, t, q, free, dt, contacts, b, reach)
            moved = self._obeyed(free, contacts, b, None, self._length() / dt)
            contacts = contacts.remembering(moved.multipliers)
            memory = contacts.memory
            sweeps += moved.iterations
            far, q1 = dt * lengths(moved.point), self.moved(q, moved.point, dt)
            if moved.status is not Status.ok:
                break
            if np.any(far > reach) and missed(
                self, memory.pairs, t, q, reach, moved.point * dt, whole
            ):
                reach = np.where(far > reach, 1.5 * far, reach)
                continue
            bent = self.pile.walls.curved() and (
                self.overlap(contacts, t, q1, walls_only=True) > ENTERED * self._length()
            )
            passed = past_panels(self, t, q1) & ~whole
            if not bent and not np.any(passed):
                break
            tangent_at, whole = q1 if bent else tangent_at, whole | passed
        else:  # no place was found where walls that bend, or panels, are not entered
            off = self.overlap(contacts, t, q1, walls_only=True) / self.pile.smallest
            off = max(moved.residual, off)
            moved = replace(moved, status=Status.unconverged, residual=off)
        if self.pile.bounces:
            inverse = self.inverse if self.pile.spins else self._inverse_mass
            moved = beyond_rounding(moved, contacts, inverse, dt)
        return contacts, _tall(replace(moved, iterations=sweeps))

    def between(self, q, q1, part):
        """Positions on the way from q to q1, for records inside of a step."""
        return q + part * (q1 - q)

    def moved(self, q, u, h):
        """q after moving with the velocity u for h."""
        return q + h * u[:, :3]

    def nearest(
        self,
        metric,
        t,
        W,
        *,
        tolerance,
        iterations,
        geodesics=False,
        leaving=None,
        since=None,
        motion=None,
        memory=None,
    ) -> Nearest:
        """The point x of K = {gaps >= 0} nearest to W.

        W is projected onto K linearised at the last x, until x is on K and nearest; with
        ``tolerance=None`` until x is on K.  With ``leaving``, a displacement, likewise, and a gap
        that it opens may still be closed by as much.  With ``since``, a time and a point, what
        overlaps there may go on to.
        """

        def seen(x, near, memory):
            contacts = self._contacts(t, x, near, memory)
            if leaving is not None:
                contacts.gap += np.maximum(opened(contacts, leaving), 0.0)
            if since is not None:
                contacts.gap += np.maximum(-self._gaps(contacts, *since), 0.0)
            return contacts

        given, W = W, self._pulled(W, self.dt / (1.0 + self.common_restitution()))
        shift, turns, residual, status = np.zeros_like(W), 0, 0.0, Status.ok
        reach = np.full(self.N, _SLACK_RADII * self.pile.smallest)
        # a correction is no impulse: nothing is guessed, and the guess of velocities goes on
        guessed = None if leaving is None else memory
        contacts = pushed = seen(W, reach, memory if guessed is None else guessed.blank())
        lam = np.zeros(len(contacts.gap))
        exact = tolerance is not None and leaving is None
        relative = self._relative() if exact else _NEVER_MIND
        while np.any(contacts.gap < 0.0) if turns == 0 else residual > self.pile.tolerance:
            guess = replace(contacts, guess=self.dt * contacts.guess)
            y = self._project(-shift, guess, contacts.gap, None, self._length(), relative)
            pushed = contacts.remembering(y.multipliers / self.dt)
            turns, status, lam, change = turns + 1, y.status, y.multipliers, lengths(y.point)
            if status is Status.ok and (
                turns >= iterations or 3.0 * np.max(change) > self._room(t)
            ):
                status = Status.unconverged
            if status is not Status.ok:
                break
            shift, short = shift + y.point, change > reach
            reach = np.where(short, 1.5 * change, reach)
            contacts = seen(W + shift, reach, pushed.memory)
            residual = self._off(contacts, W, shift, relative, exact)
            if np.any(short):  # what came into reach on the way is seen in the next turn
                residual = np.inf
        self._reached(W + shift)
        shift = shift if self.pull is None else W + shift - given
        memory = contacts.memory if guessed is None else guessed.kept_through(contacts.memory)
        contacts = replace(pushed, memory=memory, remembered=True)
        return Nearest(shift, -shift, lam, residual, turns, status, contacts, contacts.memory)

    def _normal(self, contacts):
        """(p,) the guess, of normals."""
        return contacts.guess if contacts.guess.ndim == 1 else contacts.guess[:, 0]

    def _off(self, contacts, W, shift, relative, nearest) -> float:
        """How far x = W + shift is from the point of K nearest to W; the contacts are those at x.

        With their multipliers lam >= 0 that point has, for each row and for each body,

            min(gap_k, A_kk lam_k) = 0,        shift = M^-1 G(x)^T lam                        (1)

        Without ``nearest`` gaps alone count.  1 tolerance where all that is allowed is used, as in
        kernels/numba/projection.py, (4).
        """
        c, moved, inverse = contacts, lengths(shift), self._inverse_mass_now()
        wanted = relative * np.maximum(moved, _ELSEWHERE * np.max(moved))
        rounding = _ROUNDING * (largest(W) + self.pile.smallest)
        own = np.minimum(wanted, ENTERED * self._length()) + rounding
        wide = np.append(own, np.zeros(c.bodies - self.N))
        allowed = np.maximum(wide[c.i], wide[c.j])
        if not nearest:
            return self.pile.tolerance * np.max(-c.gap / allowed, initial=0.0)
        lam = self.dt * self._normal(c)
        R = np.abs(np.minimum(c.gap, (inverse[c.i] + inverse[c.j]) * lam))
        push = np.zeros((c.bodies, 3))
        kernels.projection.push(c.start, c.i, c.j, c.normal, inverse, lam, push)
        lacks = lengths(push[: self.N] - shift)
        for body in (c.i, c.j):  # a body that is squeezed moves with those that squeeze it
            np.maximum.at(wide, body, allowed)
        return self.pile.tolerance * max(
            np.max(R / allowed, initial=0.0), np.max(lacks / wide[: self.N], initial=0.0)
        )

    def fixed_point(self, phi, guess, *, iterate, newton, noise=None, memory=None) -> Solved:
        """Solve x = phi(x).point by repetition, until changes are below the tolerance, or rounding.

        With a memory, x = phi(x, memory).point: that which the turn before left.
        """
        phi = _remembering(phi, memory)
        newton = newton and not self.pile.spins  # what holds it back is made for (N, 3)
        value, contraction, first, last, turns = phi(guess), 0.0, np.inf, np.inf, 0
        change = distance = 0.0

        def rounding(found):  # the residual of a projection is no noise: a guess repeats it
            return noise(replace(found, residual=min(found.residual, _SWEPT))) if noise else 0.0

        x = guess
        while iterate and value.status is Status.ok:
            distance = fastest(value.point - x)
            if turns > 0:
                contraction = max(contraction, distance / last) if last > 0.0 else contraction
            change = distance / max(fastest(value.point) + fastest(x), 1e-300)
            if change <= 0.1 * self.pile.tolerance or distance <= rounding(value):
                break
            fell = distance <= _FALLEN * first  # then rose: two projections differ by their errors
            if contraction >= 1.0 and fell and change <= 2.0 * self.pile.tolerance:
                break
            if (contraction >= 1.0 or turns >= 400) and newton:
                return self._held_back(phi, guess, turns)  # implicit.py
            if contraction >= 1.0 or turns >= 400:
                return Solved(value, distance, change, contraction, turns, Status.contraction)
            first = distance if turns == 0 else first
            x, last, turns = value.point, distance, turns + 1
            value = phi(x)
        if iterate and newton and value.status is Status.unconverged:
            return self._held_back(phi, guess, turns)
        return Solved(value, distance, change, contraction, turns, value.status)

    def _held_back(self, phi, guess, turns) -> Solved:
        """x = phi(x).point where repetition does not contract."""
        allowed = 0.1 * self.pile.tolerance
        value, change, more = held_back(self, phi, guess, allowed)
        status = value.status
        if status is Status.ok and not change <= allowed:
            status = Status.contraction
        return Solved(value, np.nan, change, 1.0, turns + more, status)

    def _pulled(self, target, slope):
        """What is projected instead of ``target`` where an implicit force is held back."""
        if self.pull is None:
            return target
        t, q, v, f = asked = self._asked
        stiff = stiffness(lambda u: self.forces(t, q, u), v, self.dimension)
        self._asked = asked
        return self.pull.target(target, slope, self.dt * self._metric.solve(f), stiff, self.dt)

    def _reached(self, point):
        if self.pull is not None:
            self.projected = point

    def mean(self, f, t, dt, tolerance):
        """Of f(s) over [t, t + dt]."""
        return adaptive_mean(
            lambda times: np.stack([f(s) for s in times]), t, dt, tolerance, np, repeated
        )

    def if_any(self, where, yes, no):
        """yes() if an entry is True, else no(), which took no sweeps of its own."""
        return yes() if np.any(where) else replace(no(), iterations=0)

    # What a run asks of it.

    def radii(self, t):
        """(B,) of spheres and obstacles at time t."""
        return np.concatenate([self.pile.radius_at(t), self.pile.walls.obstacles_at(t)[1]])

    def bodies(self, t, q):
        """(B, 3) spheres and obstacles."""
        return np.concatenate([q, self.pile.walls.obstacles_at(t)[0]])

    def overlap(self, contacts, t, q, walls_only=False) -> float:
        """The largest overlap of these rows at (t, q), from the definition of a gap [m]."""
        if walls_only:
            contacts = contacts.chosen(contacts.source < 0)
        return max(0.0, -np.min(self._gaps(contacts, t, q), initial=0.0))

    def _gaps(self, contacts, t, q):
        """(p,) of these rows at (t, q), from the definition."""
        kinds, data = self.pile.walls.at(t)
        gap = np.empty(len(contacts.gap))
        kernels.rows.measure(
            self.bodies(t, q),
            self.radii(t),
            contacts.i,
            contacts.j,
            contacts.source,
            self.cell.period,
            self.cell.inverse,
            kinds,
            data,
            gap,
        )
        return gap

    # Inside.

    def _length(self):
        """The largest overlap allowed [m]."""
        return self.pile.tolerance * self.pile.smallest

    def _relative(self):
        """What a velocity may be off by, of the change that contacts make to it."""
        return min(_VELOCITY * self.pile.tolerance, _COARSEST)

    def _room(self, t):
        """How far spheres may reach before a period is too short [m]."""
        return self.cell.room(np.sum(np.sort(self.radii(t))[-2:]))

    def _obeyed(self, target, contacts, b, active, most):
        """The velocity nearest to ``target`` that obeys the law of the contacts, b (p, m)."""
        if len(contacts.gap):
            least = 1.0 / self._heaviest
            contacts = beyond_noise(contacts, target, b, self._inverse_mass, least)
        if contacts.sliding is None:
            return self._project(target, contacts, b[:, 0], active, most)
        if not self.pile.rubs:
            return sliding.kept(
                self._project(target[:, :3], contacts, b[:, 0], active, most), target
            )
        most = 0.5 * most  # the rest of the overlap is spare
        found = sliding.solved(self, target, contacts, b, active, most)
        u, lam, residual, iterations, good = found
        left = residual * self.pile.tolerance
        return Projection(u, lam, left, iterations, Status.ok if good else _verdict(residual))

    def _project(self, target, contacts, b, active, most, relative=None, sweeps=None):
        rows, gamma = contacts if active is None else contacts.chosen(active), 0.0
        lam = np.maximum(rows.guess if rows.sliding is None else rows.guess[:, 0], 0.0)
        b = np.ascontiguousarray(b if active is None else b[active])
        still, inverse = contacts.spread(target), self._inverse_mass_now()
        free = still
        if rows.gamma is not None and np.any(rows.gamma < 0.0):
            gamma, free = rows.gamma, pulled(rows, still, inverse)
            lam = np.maximum(rows.guess - gamma, 0.0)
        u, residual, iterations = stalled.projected(
            *(rows.start, rows.i, rows.j, rows.normal, b, inverse, free, still, lam, most),
            self._relative() if relative is None else relative,
            self.pile.iterations if sweeps is None else min(sweeps, self.pile.iterations),
        )
        status, lam = _verdict(residual), lam + gamma
        if active is not None:
            full = np.zeros(len(contacts.gap))
            full[active] = lam
            lam = full
        return Projection(u[: self.N], lam, residual * self.pile.tolerance, int(iterations), status)

    def _inverse_mass_now(self):
        if self.pull is None:
            return self._inverse_mass
        wide = self._inverse_mass.copy()
        wide[: self.N] = self.pull.inverse_mass()
        return wide

    def _contacts(self, t, q, reach, memory=None, tangent_at=None, whole=None) -> Contacts:
        """All rows with gap <= reach_i + reach_j, of walls with gap <= reach_i; reach (N,)."""
        x, r = self.bodies(t, q), self.radii(t)
        rounding = _ROUNDING * (largest(x) + r)
        reach = np.append(reach, np.zeros(len(x) - self.N))
        reach = np.maximum(reach, rounding)
        whole = np.zeros(self.N, bool) if whole is None else whole
        memory = self._covering(memory, x, r, reach)
        pairs = memory.pairs
        slabs, (kinds, data) = pairs.slabs, self.pile.walls.at(t)
        at = x if tangent_at is None else self.bodies(t, tangent_at)
        lists = (
            pairs.first,
            pairs.second,
            slabs.pair_of,
            slabs.pair_start,
            slabs.body_of,
            slabs.body_start,
            self.cell.period,
            self.cell.inverse,
            kinds,
            data,
        )
        start = kernels.rows.count_rows(x, r, reach, whole, *lists)
        p = int(start[-1])
        i, j, source = (np.empty(p, np.int32) for _ in range(3))
        normal, gap = np.empty((p, 3)), np.empty(p)
        kernels.rows.fill_rows(x, at, r, reach, whole, *lists, start, i, j, source, normal, gap)
        place = source
        if self._walls[1] > len(kinds):
            place = places(source, x[i] + (r[i] + gap)[:, None] * normal, kinds, data, self.cell)
        small, slides = np.append(rounding, 0.0), None
        if self.pile.spins:
            arm = np.append(r, 0.0)[np.stack([i, j], axis=1)]
            slides = sliding.Sliding(
                self.materials.friction(i, j, source),
                self.pile.rubs,
                0.5 * self._length() if self.pile.rubs else 0.0,
                self.N,
                arm,
                lambda c: sliding.surface_velocity(self, c, t, x),
                self.materials.resistance(i, j, source, arm) if self.pile.rolls else None,
                lambda c: sliding.driven_spin(self, c.i, c.j, np.minimum(c.source, 0), t),
            )
        return Contacts(
            i,
            j,
            source,
            normal,
            gap,
            start,
            len(x) + 1,
            memory.guess(i, place),
            small.take(i) + small.take(j),
            self.materials.restitution(i, j, source),
            lambda c: self._rate(c, t, x),
            memory,
            place,
            None if memory.glue is None else memory.glue.of(i, place),
            slides,
        )

    def _covering(self, memory: Memory | None, x, r, reach) -> Memory:
        """With a list of pairs that is complete for bodies that move by ``reach`` (B,) from x."""
        if memory is not None and memory.pairs.covers(x, r, reach):
            return memory
        last = None if memory is None else memory.pairs
        went = np.zeros(len(x)) if last is None else last.went(x)
        margin = margins(reach, went, r, self.pile.smallest, self.dimension, last)
        margin = within_period(self.cell, r, reach, margin)
        if not np.all(np.isfinite(r + margin)):
            worst = int(np.argmax(reach))
            raise errors.NonFiniteError(
                f"sphere {worst} would move by {reach[worst]:.3g} m in a step: take a smaller dt, "
                "or look at velocity, gravity and force"
            )
        if memory is None:
            made = PairList(x, r, margin, self.cell, self.N)
            return Memory.first(made, self._walls, self.pile.glue)
        outgrown = memory.pairs.outgrown(x, r, reach)
        if np.count_nonzero(outgrown) <= FEW:
            return memory.with_list(memory.pairs.renewed(outgrown, x, r, margin))
        return memory.with_list(PairList(x, r, margin, self.cell, self.N))

    def _rate(self, contacts, t, x):
        """(p,) d gap / dt, by a difference over a part of a step where things move."""
        rate = np.zeros(len(contacts.gap))
        walls = self.pile.walls
        if callable(self.pile.radius) or walls.moving or walls.drifting:
            early, late = walls.around(t, _OVER * self.dt)
            over = late - early
            growth = (self.radii(late) - self.radii(early)) / over
            drift = np.zeros_like(x)
            drift[self.N :] = (walls.obstacles_at(late)[0] - walls.obstacles_at(early)[0]) / over
            kinds, before = walls.at(early)
            kernels.rows.opening_rate(
                x,
                growth,
                drift,
                contacts.i,
                contacts.j,
                contacts.source,
                contacts.normal,
                self.cell.period,
                self.cell.inverse,
                kinds,
                before,
                walls.at(late)[1],
                over,
                rate,
            )
        return rate


def _remembering(phi, memory):
    """phi(x) of phi(x, memory), with the memory that its last value left."""
    if memory is None:
        return phi
    last = [memory]

    def asked(x):
        value = phi(x, last[0])
        last[0] = value.memory
        return value

    return asked


def _verdict(residual):
    """What a residual says, in terms of what is allowed."""
    if not np.isfinite(residual):
        return Status.nonfinite
    return Status.ok if residual <= 1.0 else Status.unconverged


def _tall(found):
    """With multipliers (p, m), as schemes know them."""
    lam = found.multipliers
    return found if lam.ndim == 2 else replace(found, multipliers=lam[:, None])
