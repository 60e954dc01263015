"""Between two records of spheres: where they can have come in several steps (spheres.py).

Records a and b lie K steps of length h apart, D_j is the change of the velocities in step j of
them, and u_j what the spheres move with: v_j (Maury, e = 0), or v_{j-1} (Moreau, PaoliSchatzman).

    x_b - x_a = h sum of u_j = h ( K v_a + s (v_b - v_a) ) + h sum of (s_j - s) (D_j - D)       (9)

with s_j = K + 1 - j or K - j, their mean s = (K + 1) / 2 or (K - 1) / 2, and D that of D_j.  The
last sum is zero where all steps change v alike: in flight, and at rest.  It is at most
(K - 1) / 2 times what contacts pushed a sphere, over its mass, where gravity is the only force; and

    | sum of (s_j - s) (D_j - D) | <= (K (K^2 - 1) / 12)^1/2 F,     F^2 = sum of |D_j - D|^2    (10)

in the kinetic norm.  Where no step gains energy, (3) of spheres.py, which has |D_j|^2 in it, gives

    F^2 <= 2 (T_a - T_b + work) - |v_b - v_a|^2 / K                                            (11)

whatever the force, to twice what (3) is off by.  Of these steps the last has its contacts recorded:

    h g + P / m = D_K,     |D_K - D| <= (1 - 1 / K)^1/2 F                                      (12)

and with them where the spheres were two steps before, x - moved - h (v - h g - P / m): at a
place of (2), and at record a where K = 2.

With a bounce Maury moves spheres by another projection u of the same free velocity v_f.  0 obeys
it, so that |u - v_f| <= |v_f|: a step may bring them elsewhere by as much.  A record inside of a
step lies a part of that step further on, whose u has |u - v_f| <= 2 |v_f|, also with friction.
"""

import numpy as np

from carom.certificates.clauses import Row
from carom.certificates.sphere_contacts import ROUNDING, given_by, padded
from carom.worlds.spheres import materials

UNBOUNDED = "not all steps are recorded, and what moved the spheres in them is not known"


class Between:
    """The intervals between records of a motion: n - 1 of them."""

    def __init__(self, m):
        sol, pile = m.sol, m.pile
        self.m, self.K, self.push = m, np.diff(sol.steps), sol.push[1:]
        self.forced, self.heavy = pile.force is not None, np.sum(pile.mass)
        self.g = float(np.linalg.norm(pile.gravity))
        self.slopes = np.hypot(1.0, materials.most(pile.friction))  # of a push, over its normal
        self.follows = m.exact and not pile.bounces  # x moves with the v of the end of a step
        self.lossy = self.follows and not m.moving  # (3) holds

    def uneven(self):
        """(n - 1,) F of (11), and of what contacts push."""
        return np.minimum(self._pushed(), self._lost())

    def _pushed(self):
        """(n - 1,) F is at most what all pushes make of velocities, one after another."""
        if self.forced:
            return np.full(len(self.K), np.inf)
        return self.slopes * self.push * np.sqrt(2.0 / np.min(self.m.pile.mass))

    def _lost(self):
        """(n - 1,) (11), with what (3) is off by."""
        if not self.lossy:
            return np.full(len(self.K), np.inf)
        gain, spare = self.m.gained()
        return np.sqrt(np.maximum(2.0 * (spare - gain) - self._mean_square(), 0.0))

    def _mean_square(self):
        """(n - 1,) |v_b - v_a|^2 / K, with the spin."""
        sol, pile = self.m.sol, self.m.pile
        found = np.einsum("i,nid->n", pile.mass, np.diff(sol.v, axis=0) ** 2)
        if pile.spins:
            turned = np.diff(sol.spin.reshape(len(sol), len(pile), -1), axis=0)
            found = found + np.einsum("i,nid->n", pile.inertia, turned**2)
        return found / np.maximum(self.K, 1)

    def strays(self):
        """(n - 1, N) [m] what (9) may be off by."""
        m, K, mass = self.m, self.K[:, None], self.m.pile.mass
        if getattr(m.sol.scheme, "correct", False):  # positions, by more than velocities tell
            return np.full((len(K), len(mass)), np.inf)
        spread = np.sqrt(np.maximum(K * (K**2 - 1.0), 0.0) / 12.0)
        with np.errstate(invalid="ignore"):  # nothing times what is not bounded is nothing
            far = np.nan_to_num(spread * self.uneven()[:, None] / np.sqrt(mass), posinf=np.inf)
        if not self.forced:
            pushed = self.slopes * self.push[:, None] / mass
            far = np.minimum(far, np.maximum(0.5 * (K - 1.0), 0.0) * pushed)
        if m.exact and m.pile.bounces:
            far = far + self._elsewhere()
        return m.h * far + self._first() + self._inside()

    def _elsewhere(self):
        """(n - 1, N) [m/s], summed over steps: u - v of Maury with a bounce.

        What was entered by a tolerance is left again without a bounce, each sphere of a row by one
        more of them; and so is what a wall that does not move evenly has entered within a step.
        """
        m, K, pile = self.m, self.K, self.m.pile
        opened = np.where(m.moving, np.inf, K * len(pile) * m.length / m.h)
        if self.forced or m.moving or pile.rubs:
            return np.where((self.push > 0.0) | self.forced, np.inf, opened)[:, None]
        pushed = self.push * np.sqrt(2.0 / np.min(pile.mass))
        fastest = self._norm()[:-1] + m.h * K * self.g * np.sqrt(self.heavy) + pushed
        thrown = np.where(self.push > 0.0, K * (fastest + pushed), 0.0)
        return opened[:, None] + thrown[:, None] / np.sqrt(pile.mass)

    def _norm(self):
        """(n,) |v| in the kinetic norm, with the spin."""
        return np.sqrt(2.0 * self.m.sol.kinetic_energy())

    def _first(self):
        """(n - 1, N) [m] where v is half a step late, D_0 = h g / 2 + P_0 / m comes first.

        (9) then lacks (K + 1) / 2 h D_0.
        """
        m, late = self.m, np.zeros((len(self.K), len(self.m.pile)))
        if m.sol.scheme.staggered and len(late):
            pushed = self.slopes * self.push[0] / m.pile.mass
            late[0] = 0.5 * (self.K[0] + 1.0) * m.h * (0.5 * m.h * self.g + pushed)
            late[0] = np.inf if self.forced else late[0]
        return late

    def _inside(self):
        """(n - 1, N) [m] what the part of a step is off by, of both records."""
        if not self.m.exact:
            return np.zeros((len(self.K), len(self.m.pile)))
        off = self.m.h * np.where(self.m.between[:, None], self._ahead(), 0.0)
        off *= np.where(self.m.between, self.m.part, 1.0)[:, None]
        return off[1:] + off[:-1]

    def _ahead(self):
        """(n, N) [m/s] what moves spheres in the step after a record, less v + h g, at most."""
        m, pile = self.m, self.m.pile
        found = np.full((len(m.sol), len(pile)), np.inf)
        if self.forced:
            return found
        if not m.moving:
            free = self._norm() + m.h * self.g * np.sqrt(self.heavy)
            found = 2.0 * free[:, None] / np.sqrt(pile.mass)
        ends = np.searchsorted(m.sol.steps, m.sol.steps, side="right")  # the record that has it
        push = np.append(m.sol.push, np.inf)[ends]
        if pile.bounces:
            opened = len(pile) * m.length / m.h
            return np.where(push[:, None] > 0.0, found, opened)
        return np.minimum(found, self.slopes * push[:, None] / pile.mass)

    def expected(self):
        """(n - 1, N, d) [m] (9) without its last sum, and with the parts of steps."""
        m, sol, K = self.m, self.m.sol, self.K[:, None, None]
        mean = 0.5 * (K + 1.0) if m.exact else 0.5 * np.maximum(K - 1.0, 0.0)
        far = K * sol.v[:-1] + np.where(K > 0, mean, 0.0) * np.diff(sol.v, axis=0)
        ahead = sol.v + m.exact * m.h * m.pile.gravity
        return m.h * (far + np.diff(m.part[:, None, None] * ahead, axis=0))


def _path(m):
    """(9), sphere by sphere."""
    b = Between(m)
    off = np.linalg.norm(np.diff(m.sol.x, axis=0) - b.expected(), axis=2)
    allowed = b.strays() + _rounding(m, b)[:, None]
    worst = np.argmax(off / allowed, axis=1)[:, None]
    return *(np.take_along_axis(x, worst, axis=1)[:, 0] for x in (off, allowed)), m.sol.t[1:]


def _rounding(m, b):
    """(n - 1,) [m] of positions and of velocities, in so many steps."""
    fastest = np.maximum(m.speed[1:], m.speed[:-1]) + b.g * m.span[1:]
    size = np.max(np.abs(m.sol.x), initial=0.0) + m.h * (b.K + 1.0) * fastest
    return 10.0 * ROUNDING * size * np.sqrt(np.maximum(b.K, 1))


def _last_step(m):
    """(12)"""
    sol, b, mass = m.sol, Between(m), m.pile.mass
    found, allowed = np.zeros(len(sol) - 1), np.full(len(sol) - 1, 1e-300)
    most = np.sqrt(1.0 - 1.0 / np.maximum(b.K, 1)) * b.uneven()
    for k in np.flatnonzero(b.K > 1):
        pushed = given_by(m, k + 1, sol.contacts[k + 1])[0] / mass[:, None]
        mean = padded((sol.v[k + 1] - sol.v[k]) / b.K[k] - m.h * m.pile.gravity)
        found[k] = np.sqrt(np.sum(mass[:, None] * (pushed - mean) ** 2))
        size = np.sqrt(b.heavy) * (m.speed[k] + m.speed[k + 1]) + np.sqrt(np.max(mass)) * m.h * b.g
        allowed[k] = most[k] + 100.0 * ROUNDING * size
    return found, allowed, sol.t[1:]


def _two_before(m):
    """The overlap two steps before a record; where a record is there, how far it lies from it."""
    sol, b = m.sol, Between(m)
    found, allowed = np.zeros(len(sol) - 1), np.full(len(sol) - 1, 1e-300)
    rounding = 10.0 * _rounding(m, b)
    for k in np.flatnonzero((b.K > 1) & ~m.between[1:]):
        x = _before_the_last(m, k + 1)
        if b.K[k] > 2:
            found[k] = m.overlap_at(sol.t[k + 1] - 2.0 * m.h, x)
            allowed[k] = max(1.6 * m.length, sol.overlap[k + 1]) + rounding[k]
        elif not m.between[k]:
            found[k], allowed[k] = np.max(np.abs(x - sol.x[k])), rounding[k]
    return found, allowed, sol.t[1:]


def _before_the_last(m, k):
    """(N, d) x - moved - h (v - h g - P / m) of record k."""
    sol, d = m.sol, m.pile.dimension
    pushed = given_by(m, k, sol.contacts[k])[0][:, :d] / m.pile.mass[:, None]
    return sol.x[k] - sol.moved[k] - m.h * (sol.v[k] - m.h * m.pile.gravity - pushed)


PATH = [Row(_path, "path", "Dx = sum of h v, between records", "(9) to (11)")]
_OF_ENDS = [
    Row(_last_step, "last step", "its contacts are as those of the steps before", "(12)"),
]
_OF_BEFORE = [
    Row(_two_before, "step before it", "gap >= 0 where these contacts were met", "tol, rounding"),
]


def of_several(m) -> list[Row]:
    """Clauses of the tables of contacts, where records are several steps apart."""
    b = Between(m)
    if not b.follows or b.forced or not np.any(b.K > 1):
        return []
    return _OF_ENDS * b.lossy + _OF_BEFORE
