"""How a frictional problem is solved: sweeps, and where these do not end, other methods in turn.

Each starts from the best r so far, and all are judged by the measure (3) of carom.fclib.
"""

import numpy as np

from carom.kernels import friction
from carom.projection import augmented_friction, compliant, interior, lemke, proximal

_EARLY, _MANY = 3000, 100  # sweeps and contacts: beyond both, a sweep is dearer than multipliers
_ASTRAY = 0.01  # of |q|: where so much is left after hundreds of sweeps of many contacts ...
_DAMPED = 1.0  # ... they are damped by so much
_HEAVY = 0.4  # damping of the sweeps that are tried last
_LOOKS = 200, 1000, 5000  # sweeps, after which Newton's method is tried where W is regular
_LIGHT = 1500  # operations to an entry of W
_TURNS = 60  # of Newton's method, which takes over where sweeps end
_STEPS, _EACH, _LONGEST = 300, 12, 2500  # of multipliers: at least, to a contact, at most
_CHEAP = 1000  # of them at first, of more contacts whose bodies are known
_LARGE = 1000  # contacts, beyond which there are fewer of them
_PIECES, _FAR = 1500, 40_000  # of straight paths in the plane, near and from afar
_PIVOTS, _LONG = 3000, 300  # of the path of contacts that yield, of so many; fewer of more
_SMOOTH = 1200  # factorisations along smooth paths ...
_RUBBED = 3.0  # ... and the mu up to which these are short


def solve(problem, work, goal, convex, limit):
    """r, u, |(3)| before it is divided by |q|, iterations.

    ``work`` begins with the first guess of r, ``goal`` is for |(3)|, ``limit`` is the most sweeps.
    """
    n, size = len(problem.mu), len(problem.q)
    early = n > _MANY and limit > _EARLY
    sweeps = _EARLY if early else limit
    light = size**3 <= _LIGHT * problem.W.nnz  # to factorise W takes some hundred sweeps, or less
    first = min(_LOOKS[0], sweeps) if light else sweeps
    astray = _ASTRAY * problem._size if early else np.inf
    done, residual = _swept(problem, work, goal, not convex, problem._data, first, astray)
    if not residual <= goal and first < sweeps:
        done, residual = _looked(problem, work, goal, not convex, done, sweeps, astray)
    if residual <= goal:
        return work[:size], work[size : 2 * size], residual, done
    methods = _Methods(problem, goal, convex, limit)
    r = work[:size]
    if done < sweeps:  # astray: r may be no number
        r, more, residual = methods.swept(np.zeros(size), sweeps, _DAMPED)
        done += more
    if not residual <= goal:
        r, residual, more = methods.climbed(r, residual, early)
        done += more
    return r, problem.W @ r + problem.q, residual, done


def _swept(p, work, goal, coulomb, data, limit, astray):
    """Sweeps done and the residual, from the r in ``work``."""
    return friction.sweeps(p.dim, coulomb, p._index, data, goal, limit, astray, work)[:2]


def _looked(problem, work, goal, coulomb, done, sweeps, astray):
    """The sweeps go on, as `_swept`; where W is regular, with looks at Newton's method."""
    size, residual, regular = len(problem.q), np.inf, problem._regular
    data = problem.W, problem.q, problem.mu, problem.dim, problem._sizes
    for look in (*_LOOKS[1:], sweeps) if regular else (sweeps,):
        if regular:
            r, turns, _ = proximal.plain(*data, work[:size], 0.9 * goal, coulomb)
            done, residual = done + turns, _measured(problem, r, not coulomb)
            if residual <= goal:
                work[:size], work[size : 2 * size] = r, problem.W @ r + problem.q
                break
        until = max(min(look, sweeps) - done, 1)
        more, residual = _swept(problem, work, goal, coulomb, problem._data, until, astray)
        done += more
        if residual <= goal or more < until or done >= sweeps:
            break
    return done, residual


def _measured(problem, r, convex):
    """|(3)| before it is divided by |q|."""
    return problem.residual(r, convex=convex) * problem._size


class _Methods:
    """What is tried where sweeps did not do it.  Each takes the best r so far, and returns another,
    how long it took and its residual."""

    def __init__(self, problem, goal, convex, limit):
        self.problem, self.goal, self.convex, self.limit = problem, goal, convex, limit
        self.left = limit - _EARLY  # sweeps
        self.matrices = problem.W, problem.q, problem.mu, problem.dim, problem._sizes

    def climbed(self, r, residual, early):
        """One method after the other: r, its residual, iterations."""
        if not residual <= self.problem._size:  # they went astray
            r = np.zeros_like(r)
            residual = self.measured(r)
        done = 0
        for method in self.in_order(r, early):
            other, more, found = method(r)
            done += more
            if found < residual:
                r, residual = other, found
            if residual <= self.goal:
                break
        return r, residual, done

    def in_order(self, swept, early):
        """The methods; ``swept`` is the r that sweeps found."""
        n, planar = len(self.problem.mu), self.problem.dim == 2
        order = [self.newton, self.multipliers, self.path]
        if early:
            cheap = n > _LONG and self.problem._root is not None
            if n <= _LONG:
                order = [self.newton, self.path, self.multipliers]
            if cheap:  # what they found last may lead nowhere
                order.insert(2, lambda _: self.multipliers(swept))
            steps = _CHEAP if cheap else _STEPS
            order = [lambda r: self.multipliers(r, steps), self.again, *order]
        if not self.convex and n <= 2 * _LARGE and np.max(self.problem.mu) <= _RUBBED:
            order.insert(1, self.inside)
        if not self.convex and planar and n <= _LONG:
            order.insert(order.index(self.newton) + 1, self.from_afar)
        if not self.convex and planar and n <= _LARGE:
            order.insert(0, self.straight)  # quick, where it leads to an answer
        return [*order, self.heavy, lambda _: self.path(np.zeros_like(swept))]

    def measured(self, r):
        return _measured(self.problem, r, self.convex)

    def good(self, r):
        return self.measured(r) <= self.goal

    def best(self, r):
        return _Best(self, r)

    def swept(self, r, limit, damping=None, astray=np.inf):
        """Sweeps from r."""
        work = np.zeros(4 * len(r) + len(self.problem.mu))
        work[: len(r)] = r
        data = self.problem._data if damping is None else self._damped(damping)
        far = astray * self.problem._size
        done, found = _swept(self.problem, work, self.goal, not self.convex, data, limit, far)
        return work[: len(r)], done, found

    def _damped(self, damping):
        p = self.problem
        return proximal.packed(p.W, p.q, p.mu, p.dim, damping)[1]

    def again(self, r):
        """Sweeps, damped where they go astray."""
        other, more, found = self.swept(r, self.left, astray=_ASTRAY)
        if found <= self.goal or more >= self.left:
            return other, more, found
        return self.swept(r, self.left - more, _DAMPED)

    def heavy(self, r):
        """Sweeps from no impulses, damped."""
        return self.swept(np.zeros_like(r), 5 * self.limit, _HEAVY)

    def newton(self, r):
        """Where sweeps crawl, from what they found."""
        p = self.problem
        root = None if p.motion is None and p._few else p._root
        data = *self.matrices, p._index, p._data, r, 0.9 * self.goal, not self.convex
        r, turns, _ = proximal.solve(*data, _TURNS, root=root)
        return r, turns, self.measured(r)

    def multipliers(self, r, steps=None):
        """Where impulses must grow far."""
        n, root, best = len(self.problem.mu), self.problem._root, self.best(r)
        steps = min(max(_STEPS, _EACH * n if steps is None else steps), _LONGEST)
        if root is None:  # then a step takes ten times as long
            steps = steps * _LARGE // max(_LARGE, n)
        W, q, mu, dim, sizes = self.matrices
        data = root, q, mu, dim, sizes, r, best, steps, not self.convex, W
        made = augmented_friction.solve(*data)[1]
        return best.r, made, best.found

    def inside(self, _):
        """Along smooth paths through the inside of the cones, which Newton's method ends."""
        best = self.best(np.zeros_like(self.problem.q))
        made = interior.solve(*self.matrices, best, lambda r: best(self.newton(r)[0]), _SMOOTH)
        return best.r, made, best.found

    def straight(self, r):
        """In the plane, along straight paths near r, mostly short or none."""
        W, q, mu, _, sizes = self.matrices
        return self._led(*lemke.near(W, q, mu, sizes, r, _PIECES, self.good))

    def from_afar(self, _):
        """In the plane, along straight paths from no impulses."""
        W, q, mu, _, sizes = self.matrices
        return self._led(*lemke.far(W, q, mu, sizes, _FAR, self.good))

    def _led(self, r, made):
        return r, made, np.inf if r is None else self.measured(r)

    def path(self, r):
        """Where Coulomb's law has others stopped: along the contacts that yield, from r."""
        if self.convex:
            return r, 0, np.inf
        most = _PIVOTS * _LONG // max(_LONG, len(self.problem.mu))
        r, pivots, _ = compliant.solve(*self.matrices, r, most, self.good)
        return r, pivots, self.measured(r)


class _Best:
    """Of all r that a method shows, the best; true as soon as one has reached the goal."""

    def __init__(self, methods, r):
        self.methods, self.r, self.found = methods, r, np.inf

    def __call__(self, r):
        found = self.methods.measured(r)
        if found < self.found:
            self.r, self.found = r, found
        return self.found <= self.methods.goal
