"""Two beads on a rod that bounce on a plate, and wander."""

import functools
import itertools
import math
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from carom.looks import Disc, Segment
from carom.models.problem import ModelError, Problem, within
from carom.models.rubbing import Weight
from carom.worlds.system.system import System

_CLOSED = 1e-11  # of the size of the dimer: a gap so small is closed
_STILL = 1e-8  # of the speeds: one so small is 0
_LAW = 1e-12  # of the same: a law that is broken by so little is obeyed
_EVENTS = 20_000


def dimer(
    *, mu=0.1, e=0.6, acceleration=0.9, frequency=50 * math.pi, radius=5e-3, length=39e-3,
    lift=1.0, g=9.81, t1=None,
):  # fmt: skip
    """Two beads on a light rod bounce on a shaken plate: one stays, one bounces, and both drift.

    q = (x, y, th) [m, m, rad]: the middle of the rod and its angle.  Beads of ``radius`` [m] are
    ``length`` [m] apart; the plate is at ``A sin(w t)``, w = ``frequency`` [rad/s], and
    ``acceleration`` is A w^2 / g.  Gaps and slips, with a = -l/2 and l/2 along the rod,

        y + a sin th - r - A sin(w t),       x' + (r - a sin th) th'                          (1)

    After Dorbolo, Volfson, Tsimring and Kudrolli (Phys. Rev. Lett. 95, 044101, 2005).  It starts
    flat on the plate, where w t = p, cos p = pi (1-e)/((1+e) Gam): the left bead as fast as the
    plate, the right one ``lift`` times as much faster as a ball that bounces once in each period T
    (``vibrating_table``).  With lift = 0 nothing tells left from right, and it never moves
    sideways.  With lift = 1 it goes on so, nearly, for light beads on a rod do not feel each
    other: the drift mode, in which friction in the impacts and that in between cancel over T at a
    mean speed that is a part of mu g T [m/s].

    Parameters
    ----------
    mu
        Friction, >= 0.
    e
        Restitution, in [0, 1).
    acceleration
        Gam, the largest of the plate, in g.
    frequency
        w of the plate [rad/s].
    radius
        r of the beads [m].
    length
        l, from bead to bead [m].
    lift
        How fast the right bead starts: 0 as the plate, 1 as one that bounces once a period.
    g
        Gravity [m/s^2].
    t1
        End [s].  None: six periods after t0.
    """
    if not (min(acceleration, frequency, radius, length, g) > 0 and mu >= 0 and 0 <= e < 1):
        raise ModelError(
            "needs acceleration, frequency, radius, length, g > 0, mu >= 0 and 0 <= e < 1, not "
            f"{acceleration}, {frequency}, {radius}, {length}, {g}, {mu}, {e}"
        )
    amplitude, period = acceleration * g / frequency**2, 2 * math.pi / frequency
    body = _Dimer(mu, e, amplitude, frequency, radius, length, g)
    system = System(
        mass=[1.0, 1.0, body.inertia],
        force=Weight(0.0, -g, 0.0),
        gap=Beads(amplitude, frequency, radius, length),
        slip=BeadsSlide(radius, length),
        friction=mu,
        restitution=e,
    )
    phase = math.acos(min(math.pi * (1 - e) / ((1 + e) * acceleration), 1.0))
    t0, plate = phase / frequency, amplitude * frequency * math.cos(phase)
    faster = lift * (0.5 * g * period - plate)
    q0 = np.array([0.0, radius + amplitude * math.sin(phase), 0.0])
    v0 = np.array([0.0, plate + 0.5 * faster, faster / length])
    t1 = t0 + 6 * period if t1 is None else float(t1)
    followed = functools.cache(lambda: body.followed(t0, q0, v0, t1))  # when it is asked for
    return Problem(
        name="dimer",
        system=system,
        q0=q0,
        v0=v0,
        t0=t0,
        t1=t1,
        exact=within(t0, t1, lambda t: followed()(t)),
        source="mode by mode with SciPy's DOP853 at 1e-12 between events (models/dimer.py)",
        period=period,
        looks=_Drawn(amplitude, frequency, radius, length),
    )


@dataclass(frozen=True)
class _Dimer:
    """The motion, with unit mass: who pushes, and whether the contacts stick or slip, and where to.

    Both beads touch only where th = 0, and then (1) has one slip for both: friction is one number.
    """

    mu: float
    e: float
    amplitude: float
    frequency: float
    radius: float
    length: float
    g: float

    @property
    def inertia(self) -> float:
        """Of two balls of mass 1/2 each: I / m [m^2]."""
        return 0.25 * self.length**2 + 0.4 * self.radius**2

    @property
    def arms(self):
        return np.array([-0.5, 0.5]) * self.length

    def rows(self, q):
        """Of (1), normal and sliding, (2, 3) each."""
        s, c, one = self.arms * np.sin(q[2]), self.arms * np.cos(q[2]), np.ones(2)
        return np.stack([0 * one, one, c], 1), np.stack([one, 0 * one, self.radius - s], 1)

    def gap(self, t, q):
        plate = self.amplitude * math.sin(self.frequency * t)
        return q[1] + self.arms * np.sin(q[2]) - self.radius - plate

    def bent(self, t, y):
        """d/dt of the rows times v, less the plate's acceleration: (2,), (2,)."""
        w, th, turn = self.frequency, y[2], y[5]
        plate = -self.amplitude * w**2 * math.sin(w * t)
        return -self.arms * np.sin(th) * turn**2 - plate, -self.arms * np.cos(th) * turn**2

    def pushed(self, q, mode, free, normal, along):
        """x = free + M^-1 (N^T n + T^T s) of a mode, with n (2,) and the friction s.

        mode = (who pushes, the way it slips): N x + normal = 0 for those, and T x + along = 0 or
        s = -way mu sum n.
        """
        who, way = mode
        if not who:
            return free, np.zeros(2), 0.0
        k, (N, T) = list(who), self.rows(q)
        H = np.concatenate([N[k], T[k[:1]]])
        lift = H.T / np.array([1.0, 1.0, self.inertia])[:, None]
        off = H @ free + np.append(normal[k], along[k[0]])
        if way:  # friction in terms of the pushes
            of = np.vstack([np.eye(len(k)), np.full(len(k), -way * self.mu)])
            r = of @ np.linalg.solve((H @ lift @ of)[:-1], -off[:-1])
        else:
            r = np.linalg.solve(H @ lift, -off)
        n = np.zeros(2)
        n[k] = r[:-1]
        return free + lift @ r, n, r[-1]

    def obeying(self, q, closed, free, normal, along, slip):
        """The mode, and its x, that breaks the law least; ``slip`` != 0 is its way already."""
        N, T = self.rows(q)
        found = []
        for size, way in itertools.product(range(3), (0, 1, -1)):
            for who in itertools.combinations(np.flatnonzero(closed), size):
                if (not who and way) or (who and slip and way != slip):
                    continue
                x, n, s = self.pushed(q, (who, way), free, normal, along)
                opens = [-(N[i] @ x + normal[i]) for i in np.flatnonzero(closed) if i not in who]
                faults = [0.0, *opens, *-n[list(who)]]
                if who and not way:
                    faults.append(abs(s) - self.mu * np.sum(n))
                elif who and not slip:
                    faults.append(-way * (T[who[0]] @ x + along[who[0]]))
                found.append((max(faults), (who, way), x))
        size = np.max(np.abs(N) @ np.abs(free) + np.abs(normal)) + 1e-300
        worst, mode, x = min(found, key=lambda f: max(f[0], _LAW * size))
        if worst > 1e-4 * size:
            raise ModelError("no mode obeys the law of friction here")
        return mode, x

    def after(self, t, y):
        """Behind an event: the mode, and the state through an impact where there is one."""
        q, v = y[:3], y[3:]
        N, T = self.rows(q)
        closed = self.gap(t, q) <= _CLOSED * (self.length + self.radius)
        plate = self.amplitude * self.frequency * math.cos(self.frequency * t)
        still = _STILL * (np.max(np.abs(N) @ np.abs(v)) + self.amplitude * self.frequency)
        before = N @ v - plate
        if np.any(closed & (before < -still)):
            blow = -plate + self.e * np.minimum(before, 0.0)
            v = self.obeying(q, closed, v, blow, np.zeros(2), 0)[1]
        rest = closed & (np.abs(N @ v - plate) <= still)
        touching = np.flatnonzero(rest)
        if len(touching):  # as fast as the plate, without what is left of smaller and smaller blows
            lift = N[rest].T / np.array([1.0, 1.0, self.inertia])[:, None]
            v = v + lift @ np.linalg.solve(N[rest] @ lift, plate - N[rest] @ v)
        u = T[touching[0]] @ v if len(touching) else 0.0
        slip = int(np.sign(u)) if abs(u) > still else 0
        y = np.concatenate([q, v])
        mode, _ = self.obeying(q, rest, np.array([0.0, -self.g, 0.0]), *self.bent(t, y), slip)
        return mode, y

    def rate(self, t, y, mode):
        fall = np.array([0.0, -self.g, 0.0])
        return np.concatenate([y[3:], self.pushed(y[:3], mode, fall, *self.bent(t, y))[0]])

    def watched(self, t, y, mode):
        """What of a mode must stay >= 0; a gap, while it closes."""
        (who, way), gap = mode, self.gap(t, y[:3])
        N, T = self.rows(y[:3])
        closing = N @ y[3:] < self.amplitude * self.frequency * math.cos(self.frequency * t)
        found = [gap[i] for i in range(2) if i not in who and closing[i]]
        if who:
            fall = np.array([0.0, -self.g, 0.0])
            _, n, s = self.pushed(y[:3], mode, fall, *self.bent(t, y))
            found += list(n[list(who)])
            found.append(way * (T[who[0]] @ y[3:]) if way else self.mu * np.sum(n) - abs(s))
        return found

    def followed(self, t0, q0, v0, t1):
        """q and v (n, 3) at times (n,)."""
        from scipy.integrate import solve_ivp  # here: `import carom` stays quick

        chunk = 0.05 * 2 * math.pi / self.frequency
        inside = np.union1d(np.geomspace(1e-9, 1.0, 52), np.linspace(0.0, 1.0, 17)[1:])
        t, (mode, y), pieces = t0, self.after(t0, np.concatenate([q0, v0])), []
        for _ in range(_EVENTS):
            span = min(chunk, t1 - t)
            ahead: Any = solve_ivp(
                self.rate, (t, t + span), y, "DOP853", args=(mode,), rtol=1e-12, atol=1e-15,
                dense_output=True,
            )  # fmt: skip
            pieces.append((t, ahead.sol))
            end, before = t + span, t
            for s in t + span * inside:
                if self._over(ahead.sol, mode, s):
                    end = self._ending(ahead.sol, mode, before, s)
                    break
                before = s
            t, y, ended = end, ahead.sol(end), before < t + span
            if t >= t1:
                break
            if ended:
                mode, y = self.after(t, y)
        else:
            raise ModelError(f"more than {_EVENTS} events up to t = {t:g}: take a smaller t1")
        starts = np.array([s for s, _ in pieces])

        def motion(t):
            k = np.maximum(np.searchsorted(starts, t, side="right") - 1, 0)
            y = np.array([pieces[i][1](s) for s, i in zip(np.ravel(t), np.ravel(k), strict=True)])
            y = y.reshape(*np.shape(t), 6)
            return y[..., :3], y[..., 3:]

        return motion

    def _over(self, sol, mode, t):
        return min(self.watched(t, sol(t), mode), default=0.0) < 0.0

    def _ending(self, sol, mode, low, high):
        """The first time in [low, high] at which a mode is over, by halving."""
        while low < (middle := 0.5 * (low + high)) < high:
            low, high = (low, middle) if self._over(sol, mode, middle) else (middle, high)
        return high


@dataclass(frozen=True)
class Beads:
    """Gaps of (1)."""

    amplitude: float
    frequency: float
    radius: float
    length: float

    def __call__(self, t, q):
        arms = self.length * jnp.array([-0.5, 0.5])
        plate = self.amplitude * jnp.sin(self.frequency * t)
        return q[1] + arms * jnp.sin(q[2]) - self.radius - plate


@dataclass(frozen=True)
class BeadsSlide:
    """Slips of (1)."""

    radius: float
    length: float

    def __call__(self, t, q, v):
        arms = self.length * jnp.array([-0.5, 0.5])
        return v[0] + (self.radius - arms * jnp.sin(q[2])) * v[2]


@dataclass(frozen=True)
class _Drawn:
    """The plate, two beads and the rod; the plate goes along by whole lengths of the rod."""

    amplitude: float
    frequency: float
    radius: float
    length: float

    def __call__(self, t, q):
        x, y, th = q
        plate, far = self.amplitude * math.sin(self.frequency * t), 1.5 * self.length
        near = self.length * round(x / self.length)
        shapes: list[Any] = [Segment(near - far, plate, near + far, plate)]
        c, s = 0.5 * self.length * math.cos(th), 0.5 * self.length * math.sin(th)
        shapes.append(Segment(x - c, y - s, x + c, y + s))
        shapes += [Disc(x - c, y - s, self.radius), Disc(x + c, y + s, self.radius)]
        return shapes
