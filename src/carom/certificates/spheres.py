"""Whether a motion of spheres is a solution, measured on its records.

    m_i dv_i = (m_i gravity + force_i) dt + sum over contacts of -/+ n dLam                    (1)
    gap >= 0,     dLam >= 0,     dLam = 0 where the gap is open                                 (2)

Gaps are measured anew from the recorded positions, with a list of pairs of their own; impulses on
spheres and walls are the scheme's multipliers, and everything else follows from t, x and v.  h is
the step, tol the length that the pile's tolerance stands for.

Spheres with friction also spin, and dLam has a tangential part T, which acts on the second body
and, reversed, on the first (arms r, relative velocity w_t at the contact):

    I_i dw_i = - sum of r_i n x dT,      |T| <= mu Lam,      T = -mu Lam w_t / |w_t| or w_t = 0  (4)

The last is measured as the velocity that kernels/numba/sliding.py, (6), gives, from the recorded v
and spin and the motion of the walls.  Friction gives no energy where walls stay, so that (3) holds
with the energy of the spin.  With restitution it does not: Newton's law at several contacts at
once, with friction, can gain energy.

Energy, for walls and radii that stay: with u the velocity that moved the spheres and v_f the free
one, u = proj(v_f) onto a set that contains 0 gives <v_f - u, u> >= 0, so that for e = 0

    T(u) - T(v) <= h f . u - 1/2 |u - v|^2:   no step gains more than the work of the force.    (3)

A projection is solved to a velocity at each contact, small beside what contacts do to its spheres
in the step, c = |u - v_f|, and to an overlap (kernels/numba/projection.py, (4)):

    tol_k = min( tol / h,  300 tolerance max(c_i, c_j) )                                        (5)

so that w_k <= tol_k where lam_k pushes, and gaps of the step before were entered by h tol_k at
most.  Hence (3) holds to the sum of 2 lam_k tol_k, the larger one of this step and of the step
before, whose overlap this one takes back; it falls with h.  A wall that bends around the spheres,
and an edge between panels, is entered by up to 1.5 tol, whatever h (worlds/spheres/reach.py): the
step that lifts a sphere out of the overlap d that is measured before it gains lam d / h more.

Where records are several steps apart, sphere_paths.py has what ties them, (9) to (12).

Contacts that resist rolling and twisting have a couple C besides, which acts on the second body
and, reversed, on the first, with a part across the normal and one along it, (1) and (2) of
kernels/numba/rolling.py: each bounded by Lam, and against its part of the relative angular velocity
o.  It gives no energy either, C . o <= 0, but for the velocity to which that is solved,

    C . o <= 2 tol_k (|C_r| + |C_n|) / R                                                        (8)

What is glued (worlds/spheres/glued.py) may pull, as long as it remembers gamma < 0,

    gamma = min(0, gamma before - Lam),       Lam >= 0 if gamma before = 0                      (6)
    gap = 0 if gamma < 0                                                                        (7)
"""

from functools import cached_property

import numpy as np

from carom import kernels
from carom.certificates.certificate import Certificate, Clause
from carom.certificates.certify import _judged
from carom.certificates.clauses import Row
from carom.certificates.sphere_contacts import (
    MARGIN,
    ROUNDING,
    SHIFT,
    VELOCITY,
    about,
    gaps,
    given_by,
    measured,
    normals,
    padded,
    pushes,
    tolerated,
)
from carom.certificates.sphere_paths import PATH, UNBOUNDED, of_several
from carom.certificates.sphere_spin import OF_ROLLING, OF_SPIN, turned_by
from carom.schemes.moreau import Moreau
from carom.shown import counted
from carom.status import Status, name_of
from carom.worlds.spheres import materials
from carom.worlds.spheres.solution import SpheresSolution
from carom.worlds.spheres.world import World

_ACCEPTED = 0.15  # of a radius, and of the energy of the motion
_SKEW = 1e-6  # of a unit normal, and of an impulse
_UNITS = 16.0 * np.finfo(float).eps  # of x and radii: a gap so small is closed


def certify_spheres(sol: SpheresSolution) -> Certificate:
    """Check a run of Spheres, clause by clause."""
    with kernels.threads.enough_for(len(sol.pile)):
        motion = _Motion(sol)
        rows = _CLAUSES + OF_SPIN * sol.pile.spins + OF_ROLLING * sol.pile.rolls
        if sol.pile.glue:
            rows = [row for row in _CLAUSES if row.name != "sign"] + _OF_GLUE
        rows = rows + _OF_STEPS * bool(np.any(motion.single)) + of_several(motion)
        rows = rows + _OF_MOREAU * motion.moves_as_before
        clauses = tuple(_clause(row, motion) for row in rows)
    how = "" if sol.ok else f", stopped at t = {sol.t[-1]:g} ({name_of(sol.status)})"
    if sol.status is Status.loose:
        how = f", {counted(sol.stats.loose, 'step')} off the tolerance"
    title = f"{sol.scheme} on {sol.pile}, dt = {sol.dt:.4g}{how}"
    off = _beside_the_motion(motion)
    if off <= _ACCEPTED:
        return Certificate(title, clauses)
    return Certificate(title, clauses, relative=off, coarse=True)


class _Motion:
    """A run with what is measured on it: n records."""

    def __init__(self, sol):
        self.sol, self.pile, self.h = sol, sol.pile, sol.dt
        self.world = World(sol.pile, sol.dt)
        self.length = sol.pile.tolerance * sol.pile.smallest
        self.exact = sol.scheme.keeps_open
        self.since = sol.pile.start if sol.end is None else sol.end.t0  # steps are counted from it
        into = (sol.t - self.since) / sol.dt - sol.steps
        self.last_whole = sol.t - sol.dt * (into - np.floor(into + 1e-6))  # (n,) [s]
        self.between = np.abs(into) > 1e-6  # (n,) records inside of a step
        self.part = np.where(self.between, into, 0.0)  # (n,) of a step, from its start
        whole = ~self.between[1:] & ~self.between[:-1]
        self.single = (np.diff(sol.steps) == 1) & whole  # (n - 1,) intervals of one step
        self.every_step = bool(np.all(self.single))
        moreau = isinstance(sol.scheme, Moreau) and not sol.scheme.correct
        self.moves_as_before = moreau and self.every_step  # x1 = x + h v
        walls = sol.pile.walls
        self.moving = walls.moving or walls.drifting or callable(sol.pile.radius)
        self.moving |= sol.pile.rubs and walls.driven()
        self.span = np.diff(sol.t, prepend=sol.t[0])
        self.speed = np.max(np.linalg.norm(sol.v, axis=2), axis=1)
        self.weight = float(np.linalg.norm(sol.pile.gravity)) * np.sum(sol.pile.mass)

    def tolerated(self):
        """(n - 1,) (5), the largest in each interval between records; of several steps a bound.

        In one step c is the impulse of a sphere over its mass.  In several, no contact changes a
        velocity by more than twice the fastest there can be, and a step of the force; how fast a
        force of the user makes spheres in between is not known, and tol / h has to do.
        """
        sol, pile = self.sol, self.pile
        c = np.max(np.linalg.norm(sol.impulse[1:], axis=2) / pile.mass, axis=1, initial=0.0)
        if pile.spins:
            turned = np.linalg.norm(turned_by(self)[1], axis=2) * sol.radius[1:] / pile.inertia
            c = np.maximum(c, np.max(turned, axis=1, initial=0.0))
        g, several = float(np.linalg.norm(pile.gravity)), np.diff(sol.steps) > 1
        fastest = np.maximum.accumulate(self.speed) + g * self.span
        most = np.inf if pile.force is not None else 2.0 * fastest[1:] + g * self.h
        c = np.where(several, most, c)
        c = np.maximum(c, np.concatenate([c[:1], c[:-1]]))
        return np.minimum(self.length / self.h, VELOCITY * pile.tolerance * c)

    def entered(self):
        """(n,) what a scheme that is not exact may enter: a step at the fastest approach."""
        exact = np.full(len(self.sol), 1.6 * self.length)
        if self.exact and not np.any(self.between):
            return exact
        fastest = self.fastest() + self.h * np.linalg.norm(self.pile.gravity)
        loose = MARGIN * 2.0 * self.h * fastest + self.length
        if self.exact and self.pile.force is not None:  # nor is known what it did in such a step
            loose = np.full(len(self.sol), np.inf)
        return np.where(self.between, loose, exact) if self.exact else loose

    def fastest(self):
        """(n,) how fast a sphere can have been, up to each record: as records tell, and between

            |v_j| <= ( |v_a| + |v_b| + g Dt + P ) / 2,        P = pushes / m

        of records a and b several steps apart, for v_j is reached from both.  Before the first
        record, |v_j| <= |v_b| + g Dt + P.
        """
        most = np.linalg.norm(self.sol.v, axis=2)
        speed, several = most.copy(), np.diff(self.sol.steps) > 1
        changed = self._changed()
        between = 0.5 * (speed[1:] + speed[:-1] + changed[1:])
        most[1:] = np.maximum(most[1:], np.where(several[:, None], between, 0.0))
        if not self._at_the_start():
            most[0] += changed[0]
        return np.maximum.accumulate(np.max(most, axis=1, initial=0.0))

    def _changed(self):
        """(n, N) [m/s] what velocities can have changed by since the record before: g Dt + P."""
        sol, pile, span = self.sol, self.pile, self.span.copy()
        if pile.force is not None:
            return np.full(sol.v.shape[:2], np.inf)
        span[0] = sol.t[0] - self.since
        slopes = np.hypot(1.0, materials.most(pile.friction))
        pushed = slopes * sol.push[:, None] / pile.mass
        return np.linalg.norm(pile.gravity) * span[:, None] + pushed

    def _at_the_start(self):
        """Whether no step was made before the first record."""
        sol = self.sol
        still = not (np.any(sol.moved[0]) or sol.work[0] or sol.push[0])
        return sol.steps[0] == 0 or still

    def gained(self):
        """(n - 1,) [J] twice: energy from nowhere between records, and what (3) may be off by.

        A bounce may gain a step's worth of the force, a tolerance a little of each impulse.
        """
        sol, kinetic = self.sol, self.sol.kinetic_energy()
        slack = MARGIN * sol.push[1:] * self.tolerated()
        if self.exact:
            slack = slack + self.lifted
        if self.pile.glue:  # what a tangent has opened while it slid round, (h v)^2 / d, closes
            fast = np.maximum(self.speed[1:], self.speed[:-1])
            slack = slack + MARGIN * sol.push[1:] * self.h * fast**2 / self.pile.smallest
        if self.pile.bounces or not self.exact:
            g = float(np.linalg.norm(self.pile.gravity))
            slack = slack + MARGIN * self.h * g * (
                2.0 * sol.push[1:] + self.weight * np.diff(sol.t)
            )
            if not self.exact:
                slack = slack + MARGIN * self.h * g * np.sum(self.pile.mass) * self.speed.max()
        size = np.maximum(kinetic[1:], kinetic[:-1]) + np.abs(sol.work[1:])
        return np.diff(kinetic) - sol.work[1:], slack + 100.0 * ROUNDING * size

    @cached_property
    def lifted(self):
        """(n - 1,) [J] the sum of lam d / h over overlaps d before a step, of contacts in it.

        Of several steps all that was pushed, and the deepest of them, where walls can be entered.
        """
        sol, found = self.sol, np.zeros(len(self.sol) - 1)
        if self.pile.walls.curved() or np.any(self.kinds() == kernels.rows.PANEL):
            deepest = np.maximum(sol.overlap[1:], self.overlaps[:-1])
            found = sol.push[1:] * deepest / self.h
        for k in np.flatnonzero(self.single):
            table = sol.contacts[k + 1]
            gap = gaps(self, sol.t[k + 1], sol.x[k], table)[0]
            found[k] = np.sum(np.abs(table.impulse) * np.maximum(-gap, 0.0)) / self.h
        return found

    def kinds(self):
        return self.pile.walls.at(self.pile.start)[0]

    def staggered(self, mass):
        """(n - 1,) what the first interval may be off by where velocities are half a step late."""
        late = self.sol.scheme.staggered * self.h * mass
        first = np.arange(len(self.sol) - 1) == 0
        return late * first * np.linalg.norm(self.pile.gravity)

    @cached_property
    def overlaps(self):
        """(n,) the largest overlap at each record, from the positions."""
        return np.array([self.overlap_at(*at) for at in zip(self.sol.t, self.sol.x, strict=True)])

    def overlap_at(self, t, x):
        """The largest overlap where spheres are at x (N, d)."""
        return -np.min(self.world.contacts(t, padded(x)).gap, initial=0.0)


def _beside_the_motion(m):
    """What was entered, over the radius; and what was gained from nowhere, over the energy.

    Both in the whole run: a little in each step is as good as nothing checked.  What rests has the
    energy of a step: what contacts push, at the speed that the force makes in it.
    """
    entered = np.max(m.sol.overlap, initial=0.0) / m.pile.smallest
    if _not_checked("energy", m):
        return entered
    kinetic, work = m.sol.kinetic_energy(), m.sol.work
    gained = np.cumsum(np.diff(kinetic) - work[1:])
    above = np.max(gained - np.minimum.accumulate(np.minimum(gained, 0.0)), initial=0.0)
    step = m.sol.push[1:] / np.maximum(np.diff(m.sol.steps), 1)
    step = np.max(step, initial=0.0) * m.h * float(np.linalg.norm(m.pile.gravity))
    size = max(np.max(kinetic), np.max(np.abs(np.cumsum(work)), initial=0.0), step)
    return max(entered, above / max(size, 1e-300) if above > ROUNDING * size else 0.0)


def _feasibility(m):
    return m.overlaps, m.entered(), m.sol.t


def _feasibility_run(m):
    return m.sol.overlap, m.entered(), m.sol.t


def _pull(m):
    """A contact pulls where glue held it before the step, known where all steps are recorded."""
    found, held = np.zeros(len(m.sol)), {}
    for k, c in enumerate(m.sol.contacts):
        keys = list(map(tuple, np.sort(c.pairs, axis=1)))
        loose = np.array([key not in held for key in keys], bool) if m.every_step and k else None
        loose = c.gamma > 0.0 if loose is None else loose | (c.gamma > 0.0)
        found[k] = -np.min(c.impulse[loose], initial=0.0)
        held = {key for key, gamma in zip(keys, c.gamma, strict=True) if gamma < 0.0}
    return found, np.zeros(len(m.sol)), m.sol.t


def _memory_of_glue(m):
    """(6) of contacts in the records before and after a step."""
    found, size, before = np.zeros(len(m.sol)), np.zeros(len(m.sol)), {}
    for k, c in enumerate(m.sol.contacts):
        keys = list(map(tuple, np.sort(c.pairs, axis=1)))
        if k:
            left = np.array([before.get(key, 0.0) for key in keys])
            off = c.gamma - np.minimum(left - c.impulse, 0.0)
            lost = [gamma for key, gamma in before.items() if key not in set(keys)]
            found[k] = max(np.max(np.abs(off), initial=0.0), -min(lost, default=0.0))
            size[k] = np.max(np.abs(left) + np.abs(c.impulse), initial=0.0)
        before = dict(zip(keys, c.gamma, strict=True))
    return found, 100.0 * ROUNDING * size, m.sol.t


def _held(m):
    """(7), but for how far what holds slid along, as in complementarity."""
    found, allowed = np.zeros(len(m.sol)), np.full(len(m.sol), 1e-300)
    g = float(np.linalg.norm(m.pile.gravity))
    for k, table in enumerate(m.sol.contacts):
        if len(table) and np.any(table.gamma < 0.0):
            gap, fast, far, _ = measured(m, k, table)
            slid = (m.h * (fast + m.h * g)) ** 2 / far
            bound = MARGIN * (m.length + slid) + ROUNDING * np.max(np.abs(m.sol.x[k]))
            off = np.where(table.gamma < 0.0, np.abs(gap) / bound, 0.0)
            worst = int(np.argmax(off))
            found[k], allowed[k] = abs(gap[worst]), bound[worst]
    return found, allowed, m.sol.t


def _sign(m):
    pull = np.array([-np.min(c.impulse, initial=0.0) for c in m.sol.contacts])
    return pull, np.zeros(len(m.sol)), m.sol.t


def _complementarity(m):
    """A contact that pushes by more than the tolerance is not open, but for how far it slid.

    One that is entered is what feasibility judges: Moreau's velocities keep the overlap of an
    impact, h |w|, for as long as the contact lasts, however slow it has become.

    The tangent of a step and the gap at its end differ by (h |relative v|)^2 / (2 distance) for
    e = 0; with a bounce, or another scheme, by a step at the relative velocity.
    """
    value, allowed = np.zeros(len(m.sol)), np.full(len(m.sol), 1e-300)
    for k, table in enumerate(m.sol.contacts):
        if len(table):
            gap, relative, distance, pushes = measured(m, k, table)
            slid = (m.h * relative) ** 2 / (2.0 * distance)
            if not m.exact or m.pile.bounces or k == 0 or m.between[k]:
                g = float(np.linalg.norm(m.pile.gravity))
                fastest = np.max(m.speed[max(k - 1, 0) : k + 1])
                slid = 2.0 * m.h * (relative + fastest + m.h * g)
            closed = m.length if m.pile.rubs else m.h * tolerated(m, k, table)
            small = closed + ROUNDING * np.max(np.abs(m.sol.x[k]))
            bound = MARGIN * (small + slid)
            ratio = np.where(pushes, np.maximum(gap, 0.0) / bound, 0.0)
            worst = int(np.argmax(ratio))
            if pushes[worst]:
                value[k], allowed[k] = max(gap[worst], 0.0), bound[worst]
    return value, allowed, m.sol.t


def _normal(m):
    """Normals are those of the start of a step, or of its end for a scheme that pushes there.

    In a step they turn by h v / r: a record inside of one has moved on since, and so have positions
    that are corrected; those of a position scheme are where its mean is, up to a step ahead.  Along
    a wall that bends rows are between the two, to second order; at the edge of a panel a difference
    sees some of the other side.
    """
    found = np.zeros(len(m.sol))
    for k, table in enumerate(m.sol.contacts):
        if len(table):
            given, T = padded(table.normal), padded(table.friction)
            before = max(m.last_whole[k] - m.h, m.since)
            times, places = (m.last_whole[k], before), (0.0, m.sol.moved[k])
            off = [
                np.linalg.norm(given - normals(m, t, m.sol.x[k] - moved, table), axis=1)
                for t in times
                for moved in places
            ]
            along = np.abs(np.einsum("ij,ij->i", T, given))
            along /= np.abs(table.impulse) + np.linalg.norm(T, axis=1) + 1e-300
            acts = measured(m, k, table)[-1]
            found[k] = np.max(np.maximum(np.min(off, axis=0), along * acts))
    fastest = np.maximum(m.speed, np.append(0.0, m.speed[:-1]))
    turned = MARGIN * m.h * (fastest + m.h * np.linalg.norm(m.pile.gravity)) / m.pile.smallest
    scheme = m.sol.scheme
    loose = m.between | scheme.staggered | bool(getattr(scheme, "correct", False))
    bends = m.pile.walls.curved() * turned**2 + SHIFT * np.any(m.kinds() == kernels.rows.PANEL)
    return found, _SKEW + np.where(loose, 2.0 * turned, bends), m.sol.t


def _impact_law(m):
    """w+ = -e w- where a contact pushes, between two records of Moreau.

    What touches without a bounce closes what it is open by, w+ = -gap / h (Contacts.bounced), where
    x + h v- is; some units of rounding of x are a velocity too.
    What friction wedges does not bounce (worlds/spheres/wedged.py): there w+ = 0 will do, but not
    for the only contact of its spheres.
    """
    value, allowed = np.zeros(len(m.sol)), np.full(len(m.sol), 1e-300)
    for k, table in enumerate(m.sol.contacts):
        if k and len(table):
            e, after, before = _struck(m, k, table)
            x = m.sol.x[k - 1] + m.h * m.sol.v[k - 1]
            rests, gap = e * before >= 0.0, gaps(m, m.sol.t[k], x, table)[0]
            off = np.abs(after + e * before + rests * np.maximum(gap, 0.0) / m.h)
            acts = measured(m, k, table)[-1]
            if m.pile.rubs and m.pile.bounces:
                off = np.where(_among_others(m, table, acts), np.minimum(off, np.abs(after)), off)
            speed, far = np.max(m.speed[k - 1 : k + 1]), np.max(np.abs(x)) + np.max(m.sol.radius)
            bound = MARGIN * tolerated(m, k, table) + 100.0 * ROUNDING * speed
            bound += rests * _UNITS * far / m.h
            ratio = np.where(acts, off / (bound + 1e-300), 0.0)
            worst = int(np.argmax(ratio))
            if ratio[worst] > 0.0:
                value[k], allowed[k] = off[worst], bound[worst]
    return value[1:], allowed[1:], m.sol.t[1:]


def _among_others(m, table, acts):
    """(c,) whether a sphere of a contact is pushed at another one too."""
    N, (i, j) = len(m.pile), table.pairs.T
    other = np.where((j < 0) | (j >= N), N, j)
    count = np.bincount(np.concatenate([i[acts], other[acts]]), minlength=N + 1)
    count[N] = 0
    return (count[i] > 1) | (count[other] > 1)


def _struck(m, k, table):
    """e, and the normal velocities after and before, of the contacts of a record (c,)."""
    N, (i, j) = len(m.pile), table.pairs.T
    other = np.where((j < 0) | (j >= N), N, j)  # walls and obstacles do not move
    after, before = (
        np.einsum("ij,ij->i", v[other] - v[i], table.normal)
        for v in (np.pad(m.sol.v[one], ((0, 1), (0, 0))) for one in (k, k - 1))
    )
    e = m.world.materials.restitution(i, j, j)
    return (e(before) if isinstance(e, materials.BySpeed) else e), after, before


def _momentum(m):
    """Sphere by sphere, over each interval between records."""
    sol, mass = m.sol, m.pile.mass[None, :, None]
    gained = mass * np.diff(sol.v, axis=0)
    given = mass * m.pile.gravity * m.h * np.diff(sol.steps)[:, None, None] + sol.impulse[1:]
    found = np.max(np.linalg.norm(gained - given, axis=2), axis=1)
    size = np.max(mass) * (m.speed[1:] + m.speed[:-1]) + sol.push[1:]
    allowed = 100.0 * ROUNDING * size * np.sqrt(np.diff(sol.steps))
    return found, allowed + m.staggered(np.max(mass)), sol.t[1:]


def _received(m):
    """In steps that are recorded one by one, spheres and walls receive what the contacts give.

    But for the first, where a scheme pushes before it.
    """
    sol, found, size = m.sol, np.zeros(len(m.sol)), np.zeros(len(m.sol))
    judged = m.single & ((np.arange(len(sol) - 1) > 0) | (not sol.scheme.pushes_at_start))
    for k in np.flatnonzero(judged) + 1:
        table = sol.contacts[k]
        change, turn = given_by(m, k, table)
        on_walls, wall = np.zeros((sol.wall_impulse.shape[1], 3)), table.pairs[:, 1] < 0
        np.add.at(on_walls, -1 - table.pairs[wall, 1], pushes(table)[wall])
        off = [change - padded(sol.impulse[k]), on_walls - padded(sol.wall_impulse[k])]
        if m.pile.spins:
            off.append((turn - about(sol.angular_impulse[k])) / sol.radius[k][:, None])
        found[k] = max(np.max(np.abs(x), initial=0.0) for x in off)
        size[k] = np.sum(np.abs(pushes(table))) + np.max(np.abs(sol.impulse[k]), initial=0.0)
    return found[1:], 100.0 * ROUNDING * size[1:] + 1e-300, sol.t[1:]


def _momentum_total(m):
    """Of all spheres together: gravity and walls."""
    sol = m.sol
    weight = np.sum(m.pile.mass) * m.pile.gravity
    residual = np.diff(sol.momentum(), axis=0) - weight * m.h * np.diff(sol.steps)[:, None]
    residual += np.sum(sol.wall_impulse[1:], axis=1)
    size = np.sum(m.pile.mass) * (m.speed[1:] + m.speed[:-1]) + sol.push[1:]
    allowed = 100.0 * ROUNDING * size + m.staggered(np.sum(m.pile.mass))
    return np.linalg.norm(residual, axis=1), allowed, sol.t[1:]


def _energy(m):
    """(3)"""
    return *m.gained(), m.sol.t[1:]


def _kinematics(m):
    """Dx = h v in the step that ends at a record, and in all of them if all are recorded; with the
    v of the record before for Moreau."""
    sol = m.sol
    if not m.exact:
        off = np.max(np.linalg.norm(np.diff(sol.x, axis=0) - m.h * sol.v[:-1], axis=2), axis=1)
        return off, 10.0 * ROUNDING * (np.max(np.abs(sol.x)) + m.h * m.speed[:-1]), sol.t[1:]
    off = np.max(np.linalg.norm(sol.moved[1:] - m.h * sol.v[1:], axis=2), axis=1)
    if m.every_step:
        away = np.diff(sol.x, axis=0) - sol.moved[1:]
        off = np.maximum(off, np.max(np.linalg.norm(away, axis=2), axis=1))
    return off, 10.0 * ROUNDING * (np.max(np.abs(sol.x)) + m.h * m.speed[1:]), sol.t[1:]


_AT = "1.6 tol (Maury), or 4 h (|v| + h g)"
_CLAUSES = [
    Row(_feasibility, "feasibility", "gap >= 0, at the records", _AT),
    Row(_feasibility_run, "feasibility, run", "gap >= 0, every step as told by the run", _AT),
    Row(_sign, "sign", "lam >= 0", "0"),
    Row(_normal, "normal", "n is the slope of the gap, T . n = 0", "1e-6 (+ turned)"),
    Row(_complementarity, "complementarity", "lam > 0 only if gap <= 0", "2 tol_k h + (h v)^2 / r"),
    Row(_momentum, "momentum", "m Dv = m g Dt + impulse, each sphere", "rounding"),
    Row(_momentum_total, "momentum, total", "D(sum m v) = weight Dt - on walls", "rounding"),
    Row(_kinematics, "kinematics", "Dx = h v, the step before a record", "rounding"),
    *PATH,
    Row(_energy, "energy", "DT <= work of the forces", "2 sum of lam min(tol / h, 300 tol c)"),
]
_OF_STEPS = [
    Row(_received, "contacts", "impulses = those of the contacts, step by step", "rounding"),
]
_OF_MOREAU = [
    Row(_impact_law, "impact law", "w+ = -e w- if lam > 0", "2 min(tol / h, 300 tol c)"),
]
_OF_GLUE = [
    Row(_pull, "sign", "lam >= 0 if gamma = 0", "0"),
    Row(_memory_of_glue, "glue, memory", "gamma = min(0, gamma before - lam)", "rounding"),
    Row(_held, "glue, gap", "gap = 0 if gamma < 0", "2 tol + (h v)^2 / r"),
]


def _clause(row, m) -> Clause:
    if open_because := _not_checked(row.name, m):
        return _open(row, open_because)
    value, allowed, t = row.check(m)
    if not np.size(value):
        return _open(row, "there is one record alone")
    found = _judged(row, value, allowed, t)
    return _open(row, UNBOUNDED) if found.ok and np.any(np.isposinf(allowed)) else found


def _open(row, because) -> Clause:
    nan = float("nan")
    return Clause(row.name, row.formula, row.bound, nan, nan, nan, None, because)


def _not_checked(name, m):
    """Why a clause cannot be judged, or nothing."""
    forced = m.pile.force is not None
    if name in ("momentum", "momentum, total") and forced:
        return "the force of the user is not recorded"
    if name == "momentum, total" and m.pile.walls.obstacles:
        return "obstacles take momentum"
    if name == "glue, memory" and not m.every_step:
        return "not all steps are recorded"
    walls = m.pile.walls
    if name == "impact law" and (walls.moving or walls.drifting or callable(m.pile.radius)):
        return "walls or radii that move change the relative velocity"
    if name == "energy" and m.moving:
        return "walls or radii that move do work"
    if name == "energy" and m.pile.rubs and m.pile.bounces:
        return f"restitution with friction can gain energy at several contacts at once: {_most(m)}"
    if name == "energy" and m.sol.scheme.staggered and m.pile.bounces:
        return f"a bounce takes two steps, and the second gives what the first took: {_most(m)}"
    if name == "slip" and getattr(m.sol.scheme, "correct", False):
        return "positions were corrected after the contacts acted"
    if name == "energy" and forced and not m.exact:
        return "the force of the user is not recorded"
    if name == "kinematics" and not (m.exact and not m.pile.bounces) and not m.moves_as_before:
        return "v is not the velocity that moved x"
    return ""


def _most(m):
    """The energy gained between records, in words."""
    gain, slack = m.gained()
    most = np.max(gain - slack, initial=0.0)
    return f"here up to {most:.1e} J between records" if most > 0.0 else "here it does not"
