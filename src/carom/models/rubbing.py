"""Classics of dry friction in the plane, with Coulomb's law."""

import math
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from carom.looks import Disc, Polygon, Segment
from carom.models.problem import ModelError, Problem, piecewise, within
from carom.worlds.system.system import System


def block_on_slope(*, mu=0.3, slope=0.5, speed=-2.0, g=9.81, e=0.0, t1=2.0):
    """A block thrown along a slope stops, and then stays if tan(slope) <= mu, or slides back.

    q = (x, y) [m], x downhill and y off the slope, which rises by the angle ``slope`` [rad] >= 0;
    gap ``y``, slip ``x'``.  While it slides, ``x'' = g (sin th - s mu cos th)``, s the sign of x'.

    Parameters
    ----------
    mu
        Friction, >= 0.
    slope
        th [rad], in [0, pi/2).
    speed
        Along x at the start [m/s]; < 0: uphill.
    g
        Gravity [m/s^2].
    e
        Restitution, in [0, 1]; nothing strikes here.
    t1
        End [s].
    """
    if not (0 <= slope < math.pi / 2 and mu >= 0 and g > 0):
        raise ModelError(f"needs 0 <= slope < pi/2, mu >= 0 and g > 0, not {slope}, {mu}, {g}")
    system = System(
        force=Weight(g * math.sin(slope), -g * math.cos(slope)),
        gap=second_of,
        slip=first_of,
        friction=mu,
        restitution=e,
    )

    def pull(s):
        return g * (math.sin(slope) - s * mu * math.cos(slope))

    t, x, v = [0.0], [0.0], [float(speed)]
    back = max(pull(1.0), 0.0)  # of what is at rest
    a = [pull(math.copysign(1.0, speed)) if speed else back]
    if speed * a[0] < 0.0:
        t.append(-speed / a[0])
        x.append(0.5 * speed * t[1])
        v.append(0.0)
        a.append(back)
    x, v, a = (np.array(z) for z in (x, v, a))

    def flow(s, k):
        return _pair(x[k] + s * v[k] + 0.5 * s**2 * a[k]), _pair(v[k] + s * a[k])

    size = max(1.0, abs(speed) ** 2 / (2 * g))
    return Problem(
        name="block_on_slope",
        system=system,
        q0=np.zeros(2),
        v0=np.array([speed, 0.0], float),
        t0=0.0,
        t1=float(t1),
        exact=piecewise(np.array(t), flow, float(t1)),
        source="closed form",
        impact_times=np.zeros(0),
        looks=_Sliding(0.1 * size, slope),
    )


def dry_oscillator(*, mu=0.01, frequency=1.0, x0=1.0, stop=None, g=9.81, e=0.8, t1=None):
    """A mass on a spring and a rough floor: it loses as much in each swing, then sticks.

    ``x'' + w^2 x = -mu g sign x'``, q = (x, y) [m], from rest at ``x0 > 0``.  Turning points are
    ``(-1)^k (x0 - 2 k mu g/w^2)``, until ``|x_k| <= mu g/w^2``.  With a ``stop < 0`` the mass also
    strikes a smooth wall at x = stop, with restitution e.

    Parameters
    ----------
    mu
        Friction of the floor, >= 0.
    frequency
        w of the spring [rad/s].
    x0
        Start [m], > 0.
    stop
        Where the wall is [m], < 0.  None: no wall.
    g
        Gravity [m/s^2].
    e
        Restitution of the wall, in [0, 1].
    t1
        End [s].  None: 6.1 periods of the spring.
    """
    w, c = frequency, mu * g / frequency**2
    if not (w > 0 and mu >= 0 and x0 > 0 and (stop is None or stop < 0)):
        raise ModelError(
            f"needs frequency > 0, mu >= 0, x0 > 0 and stop < 0, not {w}, {mu}, {x0}, {stop}"
        )
    rough: Any = mu if stop is None else [mu, 0.0]
    system = System(
        force=Sprung(w**2, g),
        gap=second_of if stop is None else AboveAnd(stop),
        slip=first_of if stop is None else as_it_is,
        friction=rough,
        restitution=e,
    )
    t1 = 12.2 * math.pi / w if t1 is None else float(t1)
    starts, centre, x, v, hits = _swings(w, c, x0, stop, e, t1)
    swings = np.where(np.isnan(centre), 0.0, 1.0)
    middle = np.where(np.isnan(centre), x, centre)

    def flow(s, k):
        z, ws = x[k] - middle[k], w * s * swings[k]
        place = middle[k] + z * np.cos(ws) + v[k] / w * np.sin(ws)
        return _pair(place), _pair(v[k] * np.cos(ws) - z * w * np.sin(ws))

    return Problem(
        name="dry_oscillator",
        system=system,
        q0=np.array([x0, 0.0], float),
        v0=np.zeros(2),
        t0=0.0,
        t1=t1,
        exact=piecewise(starts, flow, t1),
        source="closed form, swing by swing",
        impact_times=hits,
        looks=_Sliding(0.1 * x0, 0.0, 1.5 * x0, stop),
    )


def _swings(w, c, x0, stop, e, t1):
    """Starts, centres (NaN where it sticks), x and v of the pieces, and times of impacts."""
    rows, hits, t, x, v = [], [], 0.0, float(x0), 0.0
    while t <= t1:
        side = math.copysign(1.0, v) if v else -math.copysign(1.0, x)
        if v == 0.0 and abs(x) <= c:
            rows.append((t, math.nan, x, 0.0))
            break
        centre = -side * c
        rows.append((t, centre, x, v))
        R, phase = math.hypot(x - centre, v / w), math.atan2(v / w, x - centre)
        turn = phase % math.pi  # from here to where v = 0
        turn = math.pi if turn < 1e-12 else turn
        if stop is not None and side < 0 and centre - R < stop:
            fall = math.acos((stop - centre) / R)
            t += ((phase + fall) % (2 * math.pi)) / w
            speed = w * R * math.sin(fall)
            hits.append(t)
            x, v = stop, e * speed
        else:
            t += turn / w
            x, v = centre + side * R, 0.0
    return (*(np.array(z) for z in zip(*rows, strict=True)), np.array(hits)[np.array(hits) <= t1])


def stick_slip(*, mu=0.3, frequency=2.0, belt=0.5, g=9.81, e=0.0, t1=9.0):
    """A mass on a spring and a belt sticks to it, then slips for ever.

    ``x'' + w^2 x`` = friction, q = (x, y) [m], slip ``x' - belt``, from x = 0 with the speed
    ``belt > 0`` [m/s].  It is carried along until ``w^2 x = mu g``, and then swings about there
    with the speed ``belt cos(w s)``, which just reaches the belt's once in each period.

    Parameters
    ----------
    mu
        Friction, > 0.
    frequency
        w of the spring [rad/s].
    belt
        Speed of the belt [m/s].
    g
        Gravity [m/s^2].
    e
        Restitution, in [0, 1]; nothing strikes here.
    t1
        End [s].
    """
    if not (mu > 0 and frequency > 0 and belt > 0 and g > 0):
        raise ModelError(f"needs mu, frequency and belt > 0, not {mu}, {frequency}, {belt}")
    w, edge = frequency, mu * g / frequency**2
    system = System(
        force=Sprung(w**2, g), gap=second_of, slip=OnBelt(belt), friction=mu, restitution=e
    )

    def flow(s, k):
        swing, rate = edge + belt / w * np.sin(w * s), belt * np.cos(w * s)
        return _pair(np.where(k == 0, belt * s, swing)), _pair(np.where(k == 0, belt, rate))

    return Problem(
        name="stick_slip",
        system=system,
        q0=np.zeros(2),
        v0=np.array([belt, 0.0], float),
        t0=0.0,
        t1=float(t1),
        exact=piecewise(np.array([0.0, edge / belt]), flow, float(t1)),
        source="closed form",
        impact_times=np.zeros(0),
        looks=_Sliding(0.1 * (edge + belt / w), 0.0, 1.5 * (edge + belt / w)),
    )


def skidding_ball(
    *, mu=0.2, e=0.5, height=0.4, speed=2.0, spin=0.0, radius=0.1, inertia=0.4, g=9.81, t1=None
):
    """A ball thrown on a rough floor bounces, skids and rolls in the end.

    q = (x, height of its lowest point, angle) [m, m, rad], rolling where ``x' = r w``; ``inertia``
    is I / (m r^2).  An impact gives ``J_n = (1+e) |v_n|`` and ``J_t = min(mu J_n, |s| k/(1+k))``
    against the slip s, with k the inertia, and skidding ``mu g``; it ends at the speed
    ``(v0 + k r w0)/(1+k)`` whatever e and mu > 0.

    Parameters
    ----------
    mu
        Friction, > 0.
    e
        Restitution, in [0, 1].
    height
        Of the lowest point at the start [m], >= 0.
    speed
        v0 along x at the start [m/s].
    spin
        w0 at the start [rad/s]; it rolls where it is speed/radius.
    radius
        r of the ball [m].
    inertia
        k = I / (m r^2): 0.4 of a solid ball, 0.5 of a disc.
    g
        Gravity [m/s^2].
    t1
        End [s].  None: half as long again as until it only rolls; for e = 1 before the ninth
        bounce.
    """
    r, k = radius, inertia
    if not (mu > 0 and height >= 0 and r > 0 and k > 0 and g > 0):
        raise ModelError(
            f"needs mu, radius, inertia > 0 and height >= 0, not {mu}, {r}, {k}, {height}"
        )
    system = System(
        mass=[1.0, 1.0, k * r**2],
        force=Weight(0.0, -g, 0.0),
        gap=second_of,
        slip=Rim(r),
        friction=mu,
        restitution=e,
    )
    rows, hits, end = _bounces(mu, e, height, speed, spin, r, k, g, t1)
    t1 = (1.5 if e < 1 else 0.98) * end if t1 is None else float(t1)
    starts, x0, v0, a0 = (np.array(z) for z in zip(*rows, strict=True))

    def flow(s, i):
        s = np.asarray(s)[..., None]
        return x0[i] + s * v0[i] + 0.5 * s**2 * a0[i], v0[i] + s * a0[i]

    far = abs(speed) * t1
    return Problem(
        name="skidding_ball",
        system=system,
        q0=np.array([0.0, height, 0.0]),
        v0=np.array([speed, 0.0, spin], float),
        t0=0.0,
        t1=t1,
        exact=piecewise(starts, flow, t1),
        source="closed form, bounce by bounce",
        impact_times=np.array(hits)[np.array(hits) <= t1],
        accumulation=end if 0 < e < 1 and height > 0 else None,
        looks=_Ball(r, far),
    )


def _bounces(mu, e, height, speed, spin, r, k, g, t1):
    """Pieces (t, q, v, a), the times of the larger impacts, and when it rolls or ends to bounce."""
    t, x, v = 0.0, np.array([0.0, height, 0.0]), np.array([speed, 0.0, spin], float)
    rows, hits = [], []
    fall = np.array([0.0, -g, 0.0])
    first = math.sqrt(2 * g * height)
    while x[1] > 0.0 or v[1] > 1e-9 * first:
        rows.append((t, x, v, fall))
        s = (v[1] + math.sqrt(v[1] ** 2 + 2 * g * x[1])) / g
        if t1 is not None and t > t1:
            return rows, hits, t
        t, x, v = t + s, x + s * v + 0.5 * s**2 * fall, v + s * fall
        x[1] = 0.0
        normal, slip = -(1 + e) * v[1], v[0] - r * v[2]
        along = -math.copysign(min(mu * normal, abs(slip) * k / (1 + k)), slip)
        v = v + np.array([along, normal, -along / (k * r)])
        if -v[1] * e > 1e-6 * first or e == 0 or normal > 1e-6 * first:
            hits.append(t)
        if e == 1 and t1 is None and len(hits) > 8:
            return rows, hits, t
    v = np.array([v[0], 0.0, v[2]])
    slip = v[0] - r * v[2]
    if abs(slip) > 1e-12 * (abs(v[0]) + r * abs(v[2])):
        push = -math.copysign(mu * g, slip)
        a = np.array([push, 0.0, -push / (k * r)])
        rows.append((t, x, v, a))
        s = abs(slip) / (mu * g * (1 + 1 / k))
        t, x, v = t + s, x + s * v + 0.5 * s**2 * a, v + s * a
    rows.append((t, x, v, np.zeros(3)))
    return rows, hits, max(t, 0.1)


def painleve_rod(*, mu=0.5, angle=1.2, slip=-4.0, half=0.5, g=9.81, e=0.0, t1=0.3):
    """Painleve's rod slides on its lower end and falls over.

    q = (x, y, th) of the middle of a uniform rod of half length l and unit mass; the end at
    ``(x - l cos th, y - l sin th)`` slides with the velocity ``slip``, of sign s.  With the floor's
    force N and ``lam_t = -s mu N``,

        N (1 + 3 cos th (cos th + s mu sin th)) = g - l sin th w^2                             (1)

    For mu > 4/3 and s < 0 the factor of N can be negative: then there is no such N, or more than
    one.  The motion is known here while N > 0, the factor is positive and the end slides.

    Parameters
    ----------
    mu
        Friction, >= 0.
    angle
        th at the start [rad], from the floor, in (0, pi).
    slip
        Velocity of the lower end at the start [m/s], not 0.
    half
        l [m].
    g
        Gravity [m/s^2].
    e
        Restitution, in [0, 1]; nothing strikes here.
    t1
        End [s]; the end must slide until then.
    """
    system = System(
        mass=[1.0, 1.0, half**2 / 3],
        force=Weight(0.0, -g, 0.0),
        gap=Tip(half),
        slip=TipSlides(half),
        friction=mu,
        restitution=e,
    )
    if not (0 < angle < math.pi and slip != 0 and mu >= 0 and half > 0):
        raise ModelError(f"needs 0 < angle < pi, slip not 0 and half > 0, not {angle}, {slip}")
    side = math.copysign(1.0, slip)

    def push(th, w):
        factor = 1 + 3 * np.cos(th) * (np.cos(th) + side * mu * np.sin(th))
        return (g - half * np.sin(th) * w**2) / factor, factor

    def rate(t, y):
        _, th, vx, w = y
        N, _ = push(th, w)
        bend = -3 / half * N * (np.cos(th) + side * mu * np.sin(th))
        return [vx, w, -side * mu * N, bend]

    from scipy.integrate import solve_ivp  # here: `import carom` stays quick

    found = solve_ivp(
        rate, (0.0, t1), [0.0, angle, slip, 0.0], "DOP853", rtol=1e-13, atol=1e-14,
        dense_output=True,
    )  # fmt: skip
    if found.sol is None or not found.success:
        raise ModelError(f"the rod has no motion up to t1 = {t1}: {found.message}")
    followed: Any = found.sol
    t = np.linspace(0.0, t1, 2001)
    _, th, vx, w = followed(t)
    N, factor = push(th, w)
    slides = side * (vx + half * np.sin(th) * w)
    if np.any(N <= 0) or np.any(factor <= 0) or np.any(slides <= 0) or np.any(np.sin(th) <= 0):
        raise ModelError(
            f"the end of the rod does not slide all along up to t1 = {t1}: take a shorter one, or "
            f"a smaller mu than {mu}"
        )

    def motion(t):
        x, th, vx, w = followed(np.asarray(t, float))
        q = np.stack([x, half * np.sin(th), th], axis=-1)
        return q, np.stack([vx, half * np.cos(th) * w, w], axis=-1)

    return Problem(
        name="painleve_rod",
        system=system,
        q0=np.array([0.0, half * math.sin(angle), angle]),
        v0=np.array([slip, 0.0, 0.0], float),
        t0=0.0,
        t1=float(t1),
        exact=within(0.0, float(t1), motion),
        source="equation (1) by SciPy's DOP853 at 1e-13",
        impact_times=np.zeros(0),
        looks=_Rod(half),
    )


def _pair(x):
    """(n, 2) along x, on the floor."""
    return np.stack([x, np.zeros_like(x)], axis=-1)


class Weight:
    """A constant force."""

    def __init__(self, *force: float):
        self.force = force

    def __call__(self, t, q, v):
        return jnp.array(self.force)

    def __eq__(self, other):
        return isinstance(other, Weight) and self.force == other.force

    def __hash__(self):
        return hash(self.force)


@dataclass(frozen=True)
class Sprung:
    stiffness: float
    g: float

    def __call__(self, t, q, v):
        return jnp.stack([-self.stiffness * q[0], jnp.asarray(-self.g)])


@dataclass(frozen=True)
class AboveAnd:
    stop: float

    def __call__(self, t, q):
        return jnp.stack([q[1], q[0] - self.stop])


@dataclass(frozen=True)
class OnBelt:
    speed: float

    def __call__(self, t, q, v):
        return v[0] - self.speed


@dataclass(frozen=True)
class Rim:
    radius: float

    def __call__(self, t, q, v):
        return v[0] - self.radius * v[2]


@dataclass(frozen=True)
class Tip:
    half: float

    def __call__(self, t, q):
        return q[1] - self.half * jnp.sin(q[2])


@dataclass(frozen=True)
class TipSlides:
    half: float

    def __call__(self, t, q, v):
        return v[0] + self.half * jnp.sin(q[2]) * v[2]


def second_of(t, q):
    return q[1]


def first_of(t, q, v):
    return v[0]


def as_it_is(t, q, v):
    return v


@dataclass(frozen=True)
class _Sliding:
    """A box on a line that falls by the angle ``slope`` to the right."""

    size: float
    slope: float
    far: float | None = None
    stop: float | None = None

    def __call__(self, t, q):
        c, s, w = math.cos(self.slope), -math.sin(self.slope), self.size
        far = max(abs(q[0]) + 2 * w, 10 * w) if self.far is None else self.far

        def at(x, y):
            return x * c - y * s, x * s + y * c

        corners = [(-w, 0.0), (w, 0.0), (w, 1.2 * w), (-w, 1.2 * w)]
        shapes: list[Any] = [Segment(*at(-far, 0.0), *at(far, 0.0))]
        shapes.append(Polygon([at(q[0] + x, q[1] + y) for x, y in corners]))
        if self.stop is not None:
            x = self.stop - w
            shapes.append(Segment(x, 0.0, x, 2 * w))
        return shapes


@dataclass(frozen=True)
class _Ball:
    radius: float
    far: float

    def __call__(self, t, q):
        r = self.radius
        x, y, a = q[0], q[1] + r, -q[2]
        spoke = Segment(x, y, x + r * math.cos(a), y + r * math.sin(a))
        return [Segment(-r, 0.0, max(self.far, q[0]) + r, 0.0), Disc(x, y, r), spoke]


@dataclass(frozen=True)
class _Rod:
    half: float

    def __call__(self, t, q):
        c, s = self.half * math.cos(q[2]), self.half * math.sin(q[2])
        floor = Segment(q[0] - 3 * self.half, 0.0, q[0] + 3 * self.half, 0.0)
        return [floor, Segment(q[0] - c, q[1] - s, q[0] + c, q[1] + s)]
