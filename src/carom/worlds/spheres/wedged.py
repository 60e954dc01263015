"""Coulomb's law of spheres where sweeps do not end.

Contacts are in one block if a body that can move joins them.  Blocks that lack are solved one by
one, while the others keep their impulses: by Newton's method on proximal problems
(projection/proximal.py), which mostly does; along a smooth path (projection/interior.py), which is
short however different the masses are, where mu is not large; in space by the method of multipliers
(projection/augmented_friction.py), where impulses have to grow far; in the plane along paths of
straight pieces (projection/lemke.py); or else along the path of projection/compliant.py.  Any of
these paths must lead to an answer, if there is one, but for rounding and for how long it is: they
take turns.  They grow longer with the block: of a large one, those that push are solved alone where
they are few, as are those that a fast sphere meets among all that it may meet; else the contacts
around those that lack are solved by Newton's method, or those around the one that lacks most in
both ways, and then all are swept, in turn: as proximal problems, for sweeps over the law itself run
in circles, and spoil what was found; these are tried after each turn, and taken where they end.
Parts alone crawl once each of them is solved and only their borders lack: now and then Newton's
method has all again.

There is no answer where friction holds what b drives apart: some impulses r in their cones do
nothing, H^T r = 0, and b . r < 0.  So does a ball in a corner (mu >= 1) that Newton's law drives
away from both walls, and so do overlaps that wedge each other, each to be opened by a little of its
own.  What is held so does not bounce, and overlaps that are need not be opened, but must not grow:
with b in the cones that are dual to those of r there is an answer.  (Where walls do not move, b = 0
is such; where they do, b is how fast they leave, and they may wedge what is between them.)
"""

from functools import cached_property
from typing import Any

import numpy as np

from carom.worlds.spheres.levers import Levers, hold_couples, within

# The most contacts for Newton's method (twice as many around what lacks), and for the path ...
_WHOLE, _ROWS = 5000, 1000
_NEAR, _ROUNDS, _SWEPT = 500, 120, 300  # ... of more these, and sweeps of all, in turn
_LIGHTLY = 60  # of these rounds without long paths: where one part is not solved, another may be
_TURNS, _MANY, _CREPT = 15, 20, 4  # of Newton's method, and of sweeps
_STEPS, _EACH, _LONGEST = 300, 20, 2500  # of multipliers: at least, to a contact, at most ...
_DOUBTED = 150  # ... and where there may be no answer, which the path is quicker to tell
_NARROWED = 0.1  # of the usual unit of normals
_PIVOTS, _PLANAR, _LONG = 1000, 2000, 10  # along the path; in the plane at least, and to a contact
_PIECES, _FAR, _FARTHEST = 1500, 8, 8000  # of straight paths in the plane: near, from afar to a
# contact, and at last
_SHORT = 200  # of it between multipliers
_SMOOTH, _RUBBED = (
    800,
    3.0,
)  # factorisations along smooth paths, and the mu up to which they are short
_CREEP, _LEAST, _SLOW = 0.03, 1e-4, 100  # eps of contacts that yield, first and least; sweeps
_WELL, _FALL, _RISE = 0.3, 0.3, 3.0  # they lack so much less than the law: eps falls, or it rises
_ASTRAY = 1e3  # times what the best lacks: back to that
_RINGS = (3, 3, 5, 0)  # of contacts around those that lack, in turn; 0: around the worst alone
_WIDENINGS = (0, 1, 4, 16)  # rings of contacts that do not bounce around those that are held
_CLIPPINGS, _CLIPPED = 30, 1e-12  # turns, and the part of lam_t that ends them
_SHARE = 0.98  # of the tolerance, as in kernels/numba/projection.py
_B, _LAW, _LAM = 5, 6, 9  # their places in a problem of kernels/numba/sliding.py


def solved(problem, still, bounces: bool, planar: bool, limit: int, loose) -> tuple[int, bool]:
    """Sweeps, turns and pivots made, and whether a run can go on with what was found.

    lam of ``problem`` is overwritten, and b where contacts do not bounce.  ``still`` (p,) is the
    normal b of contacts that do not: how fast walls leave; ``bounces`` where the law is one of
    impact.  ``loose`` takes the place of the last two of ``problem``, what is allowed, for blocks
    that are not solved.
    """
    i, j, inverse = problem[1], problem[2], problem[7]
    labels, done, fine = blocks(i, j, inverse), 0, True
    for label in np.unique(labels[_lacking(problem) > _SHARE]):
        rows = np.flatnonzero(labels == label)
        part = _part(problem, rows)
        more, led = _block(part, still[rows], bounces, planar, limit - done)
        done, fine = done + more, fine and (led or _settled(part, limit, loose))
        problem[_B][rows], problem[_LAM][rows] = part[_B], part[_LAM]
    return done, fine


def _block(part, still, bounces, planar, limit):
    """Sweeps, turns and pivots made on a block, and whether they led to an answer, in its lam."""
    i, j, b, inverse, lam = part[1], part[2], part[_B], part[7], part[_LAM]
    done, led = _tried(part, planar, limit)
    tries = [_seen(part)]
    held = np.zeros(len(i), bool) if bounces else np.ones(len(i), bool)
    for rings in _WIDENINGS if bounces else (0,):
        if led or done >= limit or not (bounces or np.any(b[:, 0] < still)):
            break
        held |= _lacking(part) > 1.0
        for _ in range(rings):
            held = touching(held, i, j, inverse)
        b[held, 0] = np.maximum(b[held, 0], still[held])
        lam[:] = 0.0  # where there was no answer it has grown
        more, led = _tried(part, planar, limit - done)
        done += more
        tries.append(_seen(part))
    _, b[:], lam[:] = min(tries, key=lambda one: one[0])
    return done, led


def _seen(part):
    """What a block lacks, with its b and lam."""
    lacks = float(np.max(_lacking(part)))
    return lacks if lacks == lacks else np.inf, part[_B].copy(), part[_LAM].copy()


def _settled(part, limit, loose):
    """Whether a block that is not solved can be gone on with; lam of ``part`` is what to take.

    Gaps kept open as without friction, if contacts then slide as they should to within ``loose``;
    else the best answer, if that is so good.
    """
    lam = part[_LAM]
    best = lam.copy()
    _keep_apart(part, limit)
    for found in (lam.copy(), best):
        lam[:] = found
        if np.max(_lacking((*part[:-2], *loose))) <= 1.0:
            return True
    return False


def _keep_apart(problem, limit):
    """lam of ``problem`` holds gaps open as without friction, and is in the cones.

    With lam_t given, the normal law is a projection, which has an answer.  What is then outside
    of its cone is taken to its edge, and the normal law solved again: |lam_t| never grows, so that
    this ends.  What is left of the law that does not hold is how contacts slide.
    """
    from carom.kernels import projection, sliding

    start, i, j, normal, arm, b, law, inverse, free, lam, most, relative = problem
    mu = law if law.ndim == 1 else law[:, 0]
    first, mass = b[:, 0].copy(), inverse[:, 0].copy()
    for _ in range(_CLIPPINGS):
        pushed, along, push = free.copy(), lam.copy(), lam[:, 0].copy()
        along[:, 0] = 0.0
        sliding.push(start, i, j, normal, arm, inverse, along, pushed)
        along = np.ascontiguousarray(pushed[:, :3])
        rows = start, i, j, normal, first, mass, along, along
        projection.accelerated_gauss_seidel(*rows, push, most, relative, limit)
        part = within(lam[:, 1:4], mu * push)
        lam[:, 0], lam[:, 1:4] = push, part[:, None] * lam[:, 1:4]
        if law.ndim == 2:
            part = np.minimum(part, hold_couples(lam, normal, law[:, 1:]))
        if np.all(part > 1.0 - _CLIPPED):
            break


def _lacking(problem):
    """(p,) the residual of each contact, of what is allowed."""
    from carom.kernels import sliding

    return sliding.lacking(*problem)


def _tried(problem, planar, limit):
    """Sweeps, turns and pivots made, and whether they led to an answer; the best is in lam."""
    rows, done, led = len(problem[1]), 0, False
    if rows <= _WHOLE:
        done, led = _at_once(problem, planar, _TURNS, limit)
    for way in (_few, _by_parts) if rows > _ROWS else ():
        if not led:
            more, led = way(problem, planar, limit - done)
            done += more
    return done, led


def _few(problem, planar, limit):
    """Turns and pivots made on the contacts that push or lack, and whether that led to an answer.

    A fast sphere may meet thousands in a step, and meets few: contacts that stay open are left out,
    and those that then lack come in.  lam stays what it was where most of them push, or where it
    does not end.
    """
    lam, done, led = problem[_LAM], 0, False
    first, rows = lam.copy(), np.zeros(len(lam), bool)
    for _ in range(_TURNS):
        lacks = _lacking(problem)
        led = bool(np.max(lacks) <= _SHARE)
        rows |= (lam[:, 0] > 0.0) | (lacks > _SHARE)
        chosen = np.flatnonzero(rows)
        if led or done >= limit or len(chosen) > min(_ROWS, len(lam) // 2):
            break
        part = _part(problem, chosen)
        more, solved_part = _at_once(part, planar, _TURNS, limit - done, thorough=False)
        done, lam[chosen] = done + more, part[_LAM]
        if not solved_part:
            break
    if not led:
        lam[:] = first
    return done, led


def _at_once(problem, planar, turns, limit, thorough=True):
    """Turns and pivots made on all contacts, and whether they led to an answer.

    ``thorough``: by all ways, long ones too.
    """
    block, rows = _block_of(problem, planar), len(problem[1])
    done = block.newton(min(turns, limit))
    stages = _stages(rows, planar, block.answered(), np.max(block.mu) <= _RUBBED)
    if thorough or not planar:
        stages = [("afresh", turns), *stages]
    else:
        stages = stages[:1]  # pieces near the guess; from no impulses Newton's method does no more
    for name, most in stages if rows <= _ROWS else ():
        if block.least <= _SHARE:
            break
        done += getattr(block, name)(min(most, limit - done))
    problem[_LAM][:] = block.wide(block.best)
    return done, block.least <= _SHARE


def _stages(rows, planar, answered, smooth):
    """What comes after Newton's method, and how many steps, pieces or pivots of it.

    Either is slow where the other may be quick, and the path is shorter from where multipliers have
    led.  Where there must be an answer they take turns.  In the plane straight pieces are the
    cheaper, and few of them near the guess.
    """
    steps = min(max(_STEPS, _EACH * rows), _LONGEST)
    inside = [("inside", _SMOOTH)] if answered else []
    inside, later = (inside, []) if smooth else ([], inside)
    if planar:
        path, far = ("path", max(_PLANAR, _LONG * rows)), ("far", _FAR * rows)
        few = [("path", 2 * _SHORT), ("far", _FARTHEST)] if rows <= _NEAR else []
        more = [("multipliers", _STEPS), ("path", _PLANAR)] if answered else []
        return [("near", _PIECES), *inside, far, *few, *later, path, *more]
    if not answered:
        return [("multipliers", _DOUBTED), ("path", _PIVOTS)]
    first = [*inside, ("multipliers", _STEPS), ("narrowed", _STEPS), ("path", _SHORT)]
    return [*first, *later, ("multipliers", steps), ("narrowed", steps), ("path", _PIVOTS)]


def _by_parts(problem, planar, limit):
    """Sweeps, turns and pivots made, and whether that led to an answer; the best is in lam.

    The contacts around all that lack, or around the one that lacks most, and then sweeps over
    proximal problems of all contacts, in turn, until sweeps over all contacts end.
    """
    from carom.kernels import sliding

    i, j, inverse, lam = problem[1], problem[2], problem[7], problem[_LAM]
    lacks, done = _lacking(problem), 0
    best, least = lam.copy(), np.max(lacks)
    for turn in range(_ROUNDS):
        if least <= _SHARE or done >= limit:
            break
        rings = _RINGS[turn % len(_RINGS)]
        rows, turns = _ringed(lacks > _SHARE, rings, i, j, inverse), _MANY
        if not rings or len(rows) > 2 * _WHOLE or len(rows) == len(i):
            rows, turns = _around(np.array([np.argmax(lacks)]), i, j, inverse), _TURNS
        part = _part(problem, rows)
        done += _at_once(part, planar, turns, limit - done, thorough=turn >= _LIGHTLY)[0]
        lam[rows] = part[_LAM]
        _creep(problem)
        if not rings and len(i) <= _WHOLE and done < limit:
            done += _at_once(problem, planar, _TURNS, limit - done)[0]
        kept = lam.copy()
        done += _CREPT + sliding.accelerated_gauss_seidel(*problem, _SWEPT)[2]
        if np.max(_lacking(problem)) > _SHARE:
            lam[:] = kept
        lacks = _lacking(problem)
        if np.max(lacks) < least:
            best, least = lam.copy(), np.max(lacks)
        elif not np.max(lacks) < _ASTRAY * least:
            lam[:] = best
            lacks = _lacking(problem)
    lam[:] = best
    return done, bool(least <= 1.0)


def _creep(problem):
    """Sweeps over contacts that yield, about centres that follow; the best is in lam.

    Such sweeps do not run in circles.  What they fail on is swept again from its centre, with a
    larger eps.
    """
    from carom.kernels import creeping, sliding

    start, i, j, normal, arm, b, law, inverse, free, lam, _most, _relative = problem
    rows = i, j, normal, arm, b, law, inverse
    centre, eps, best, least = lam.copy(), _CREEP, lam, np.inf
    for _ in range(_CREPT):
        lam[:], u = centre, free.copy()
        sliding.push(start, i, j, normal, arm, inverse, lam, u)
        creeping.sweeps(*rows, u, lam, centre, eps, _SLOW)
        if (lacks := np.max(_lacking(problem))) < least:
            best, least = lam.copy(), lacks
        if least <= _SHARE:
            break
        found, whole = (creeping.lacks(*rows, u, lam, centre, part) for part in (eps, 0.0))
        if found <= _WELL * whole:
            centre, eps = lam.copy(), max(_FALL * eps, _LEAST)
        else:
            eps *= _RISE
    lam[:] = best


def _block_of(problem, planar):
    return (_Block if problem[_LAW].ndim == 1 else _Levered)(problem, planar)


class _Block:
    """The problem of some contacts: W and q in a frame of each, and the best r (p, m) so far."""

    def __init__(self, part, planar):
        self.part, lam = part, part[_LAM]
        _start, i, j, normal, arm, b, _law, inverse, free, *_rest = part
        self.frame = frames(normal, planar)
        moves = np.flatnonzero(inverse[:, 0] > 0.0)
        moves = moves[np.isin(moves, i) | np.isin(moves, j)]
        axes = [0, 1, 5] if planar else list(range(6))
        columns = (6 * moves[:, None] + axes).ravel()
        rows = self.rows(i, j, normal, arm, len(inverse), columns, inverse)
        self.H, self.mobile, self.mu = rows
        self.free = np.pad(free.ravel()[columns], (0, self.H.shape[1] - len(columns)))
        self.b, self.first = self.narrow(b), self.guess(lam)
        self.best, self.least = self.first, np.inf  # what it lacks
        self.good(self.first)

    def rows(self, i, j, normal, arm, bodies, columns, inverse):
        """H, inverse masses, and mu."""
        H = gradients(i, j, normal, arm, self.frame, bodies)[:, columns]
        return H, np.repeat(inverse, 3, axis=1).ravel()[columns], self.part[_LAW]

    def narrow(self, x):
        """(p, m) in the frames, of (p, 4)."""
        return np.column_stack([x[:, 0], np.einsum("kad,kd->ka", self.frame[:, 1:], x[:, 1:])])

    guess = narrow

    def wide(self, r):
        """(p, 4) of (p, m)."""
        return np.column_stack([r[:, 0], np.einsum("ka,kad->kd", r[:, 1:], self.frame[:, 1:])])

    def good(self, r):
        """Whether r, taken into the cones, is an answer; the best is kept."""
        r = np.array(r).reshape(self.first.shape)
        r[:, 0] = np.maximum(r[:, 0], 0.0)
        r[:, 1:] *= within(r[:, 1:], self.mu * r[:, 0])[:, None]
        self.part[_LAM][:] = self.wide(r)
        lacks = float(np.max(_lacking(self.part), initial=0.0))
        if lacks < self.least:
            self.best, self.least = r, lacks
        return lacks <= _SHARE

    def answered(self):
        """Whether there must be an answer: b is in the dual cones, to within what is allowed."""
        slides = np.linalg.norm(self.b[:, 1:], axis=1)
        return np.all(self.b[:, 0] + self.part[-2] >= self.mu * slides)

    @cached_property
    def local(self):
        """W, q, mu and dim of carom/fclib, and sizes."""
        from scipy import sparse

        from carom.projection import proximal

        W = (self.H @ sparse.diags(self.mobile) @ self.H.T).tocsc()
        q, m = self.H @ self.free + self.b.ravel(), self.b.shape[1]
        return W, q, self.mu, m, proximal.sizes(W, m)[1]

    @property
    def root(self):
        """H M^(-1/2)"""
        from scipy import sparse

        return self.H @ sparse.diags(np.sqrt(self.mobile))

    def newton(self, turns):
        """Newton's method on proximal problems from the first r; how many turns there were."""
        return self._newton(self.first.ravel(), turns)

    def afresh(self, turns):
        """The same from no impulses: a guess may be worse than none."""
        return self._newton(np.zeros(self.first.size), turns)

    def _newton(self, r, turns):
        from carom.projection import proximal

        W, q, mu, m, size = self.local
        best = self.best.ravel()
        goal = 0.5 * proximal.residual(W, q, mu, m, size, best) / max(self.least, 1.0)
        pace = proximal.MANY if len(self.mu) > _ROWS else proximal.FEW
        given = *self.local, *proximal.packed(W, q, mu, m), r, goal, True, turns
        return proximal.solve(*given, self.good, self.root, pace)[1]

    def multipliers(self, steps):
        """The method of multipliers from the best r; how many Newton steps there were."""
        return self._multipliers(steps, 1.0)

    def narrowed(self, steps):
        """The same in other units, which may lead elsewhere."""
        return self._multipliers(steps, _NARROWED)

    def _multipliers(self, steps, part):
        """The unit of normals is this part of sqrt(mu), or of 1 where mu is less."""
        from carom.projection import augmented_friction

        _W, q, mu, m, size = self.local
        unit, best = part * np.sqrt(np.maximum(mu, 1.0)), self.best.ravel()
        if np.all(unit == 1.0):
            given = self.root, q, mu, m, size, best
            return augmented_friction.solve(*given, self.good, steps)[1]
        given = unit, self.root, q, mu, m, best
        return augmented_friction.solve_in_units(*given, self.good, steps)[1]

    def inside(self, turns):
        """Along smooth paths through the inside of the cones; how many factorisations."""
        from carom.projection import interior

        def ended(r):
            self._newton(r, _TURNS)
            return self.least <= _SHARE

        return interior.solve(*self.local, self.good, ended, turns)

    def near(self, pieces):
        """In the plane, along straight paths near the best r; how many factorisations."""
        from carom.projection import lemke

        W, q, mu, _m, size = self.local
        made = lemke.near(W, q, mu, size, self.best.ravel(), pieces, self.good)[1]
        return -(-made // lemke.CHAIN)

    def far(self, pieces):
        """In the plane, along straight paths from no impulses; how many factorisations."""
        from carom.projection import lemke

        W, q, mu, _m, size = self.local
        return -(-lemke.far(W, q, mu, size, pieces, self.good)[1] // lemke.CHAIN)

    def path(self, pivots):
        """Along the path of contacts that yield; how many pivots there were.

        From the best r, but where there may be no answer, and r has grown, from the first.
        """
        from carom.projection import compliant

        start = self.best if self.answered() else self.first
        return compliant.solve(*self.local, start.ravel(), pivots, self.good)[1]


class _Levered(_Block):
    """With couples."""

    def __init__(self, part, planar):
        self.levers = Levers(frames(part[3], planar), part[_LAW], planar)
        super().__init__(part, planar)

    def rows(self, i, j, normal, arm, bodies, columns, inverse):
        push = gradients(i, j, normal, arm, self.frame, bodies)
        return self.levers.rows(push, i, j, inverse, columns)

    def narrow(self, x):
        return self.levers.narrow(x)

    def guess(self, x):
        return self.levers.guess(x)

    def wide(self, r):
        return self.levers.wide(r)


def blocks(i, j, inverse) -> np.ndarray:
    """(p,) int, the block of each contact."""
    from scipy import sparse
    from scipy.sparse import csgraph

    p, bodies, joins = len(i), len(inverse), inverse[:, 0] > 0.0
    contact, body = np.tile(np.arange(p), 2), np.concatenate([i, j])
    contact, body = contact[joins[body]], p + body[joins[body]]
    graph = sparse.coo_matrix((np.ones(len(body)), (contact, body)), shape=2 * (p + bodies,))
    return csgraph.connected_components(graph, directed=False)[1][:p]


def _ringed(chosen, rings, i, j, inverse):
    """These contacts with so many rings around them, or fewer where that is too many."""
    for ring in range(rings):
        wider = touching(chosen, i, j, inverse)
        if np.count_nonzero(wider) > (2 * _WHOLE if ring < _RINGS[0] else _WHOLE):
            break
        chosen = wider
    return np.flatnonzero(chosen)


def _around(rows, i, j, inverse):
    """The contacts nearest to these, at most _NEAR."""
    while True:
        chosen = np.zeros(len(i), bool)
        chosen[rows] = True
        more = np.flatnonzero(touching(chosen, i, j, inverse))
        if len(more) > _NEAR or len(more) == len(rows):
            return rows
        rows = more


def touching(chosen, i, j, inverse) -> np.ndarray:
    """(p,) bool, the contacts of the bodies that can move of those contacts."""
    near = np.zeros(len(inverse), bool)
    near[i[chosen]], near[j[chosen]] = True, True
    near &= inverse[:, 0] > 0.0
    return near[i] | near[j]


def _part(problem, rows) -> Any:
    """The problem of these contacts while the others push as they do."""
    from carom.kernels import sliding

    start, i, j, normal, arm, b, mu, inverse, free, lam, most, relative = problem
    kept, free = lam.copy(), free.copy()
    kept[rows] = 0.0
    sliding.push(start, i, j, normal, arm, inverse, kept, free)
    own = (np.ascontiguousarray(x[rows]) for x in (i, j, normal, arm, b, mu))
    return (
        np.array([0, len(rows)], start.dtype),
        *own,
        inverse,
        free,
        lam[rows],
        most,
        relative,
    )


def frames(normal, planar):
    """(p, m, 3) the normal and tangents."""
    if planar:
        x, y, z = normal.T
        return np.stack([normal, np.stack([-y, x, z], axis=1)], axis=1)
    away = np.eye(3)[np.argmin(np.abs(normal), axis=1)]
    first = np.cross(normal, away)
    first /= np.linalg.norm(first, axis=1)[:, None]
    return np.stack([normal, first, np.cross(normal, first)], axis=1)


def gradients(i, j, normal, arm, frame, bodies):
    """H (m p, 6 bodies) of kernels/numba/sliding.py, (1): (w x n) . e = w . (n x e)."""
    from scipy import sparse

    p, m = frame.shape[:2]
    turn = np.cross(normal[:, None], frame)
    turn[:, 0] = 0.0
    row = np.repeat(np.arange(m * p), 6)
    parts = []
    for body, side, sign in ((j, 1, 1.0), (i, 0, -1.0)):
        values = np.concatenate([sign * frame, -arm[:, side, None, None] * turn], axis=2)
        column = np.repeat(6 * body[:, None] + np.arange(6), m, axis=0)
        parts.append((values.ravel(), column.ravel()))
    values, column = (np.concatenate(one) for one in zip(*parts, strict=True))
    H = sparse.csr_matrix((values, (np.tile(row, 2), column)), shape=(m * p, 6 * bodies))
    H.eliminate_zeros()
    return H
