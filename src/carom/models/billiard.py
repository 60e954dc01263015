"""A free point in a disc, outside a disc and in a wedge (P5)."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from carom.looks import Disc, Segment
from carom.models import drawn
from carom.models.polar import PolarInertia, PolarMass
from carom.models.problem import ZENO_CUT, ZENO_LISTED, ModelError, Problem, piecewise, straight
from carom.worlds.system.system import System


def disc(*, e=0.5, radius=1.0, position=(1.0, 0.0), velocity=(-1.0, 1.0), t1=None):
    """A free point in a disc: chords that shorten, then sliding along the circle (P5).

    ``q'' = 0``, gap ``R - |q|``. At the wall the tangential velocity vt is kept and the normal one
    is multiplied by -e: the chord after the k-th impact has ``vn_k = e^k vn_0``, lasts
    ``2R vn_k/(vt^2 + vn_k^2)`` and turns by ``2 atan(vn_k/vt)``. For ``0 < e < 1`` and vt not 0 the
    impacts accumulate and the point then slides at the angular rate ``vt/R``.

    Parameters
    ----------
    e
        Restitution, in [0, 1].
    radius
        R of the disc [m].
    position
        (2,) start [m], in the disc.
    velocity
        (2,) at the start [m/s], not zero.
    t1
        End [s].  None: half as long again as to the accumulation; without one, a radian of sliding
        (e = 0) or the middle of the tenth chord after an impact (e = 1).
    """
    system = System(force=no_force, gap=Inside(radius), restitution=e)
    chords = _chords(e, radius, position, velocity, t1)

    def flow(s, k):
        x, y, u, w, angle = chords.local(s, k)
        return _rotate(angle, x, y), _rotate(angle, u, w)

    return Problem(
        name="disc",
        system=system,
        q0=np.array(position, dtype=float),
        v0=np.array(velocity, dtype=float),
        t0=0.0,
        t1=chords.t1,
        exact=piecewise(chords.starts, flow, chords.t1),
        source="closed form, benchmarks P5",
        looks=drawn.point_in_plane(*drawn.ring(radius), size=radius),
        accumulation=chords.accumulation,
        impact_times=chords.impact_times,
    )


def disc_polar(*, e=0.5, radius=1.0, position=(1.0, 0.0), velocity=(-1.0, 1.0), t1=None):
    """The motion of ``disc`` in polar coordinates, where the mass depends on the position (P5).

    ``q = (r, th)``, ``M = diag(1, r^2)``, ``f = (r th'^2, -2 r r' th')``, gap ``R - r``. The
    parameters are those of `disc`, in Cartesian coordinates; th is continuous in time. The path
    must avoid the centre.

    Parameters
    ----------
    e
        Restitution, in [0, 1].
    radius
        R of the disc [m].
    position
        (2,) start [m], Cartesian, in the disc.
    velocity
        (2,) at the start [m/s], Cartesian, not zero.
    t1
        End [s].  None: as of `disc`.
    """
    system = System(force=PolarInertia(1.0), gap=Within(radius), mass=PolarMass(1.0), restitution=e)
    chords = _chords(e, radius, position, velocity, t1)
    if np.any(chords.tangential == 0):
        raise ModelError(
            f"the path from {position} along {velocity} meets the centre, where th jumps"
        )

    def flow(s, k):
        x, y, u, w, angle = chords.local(s, k)
        r = np.hypot(x, y)
        q = np.stack([r, angle + np.arctan2(y, x)], axis=-1)
        return q, np.stack([(x * u + y * w) / r, (x * w - y * u) / r**2], axis=-1)

    exact = piecewise(chords.starts, flow, chords.t1)
    q0, v0 = exact(0.0)
    return Problem(
        name="disc_polar",
        system=system,
        q0=q0,
        v0=v0,
        t0=0.0,
        t1=chords.t1,
        exact=exact,
        source="closed form in Cartesian coordinates, benchmarks P5",
        looks=drawn.point_in_plane(*drawn.ring(radius), size=radius, polar=True),
        accumulation=chords.accumulation,
        impact_times=chords.impact_times,
    )


class Chords(NamedTuple):
    """Pieces of a motion in a disc, each in the polar frame of the point where it starts."""

    R: float
    starts: np.ndarray  # (m,) time
    distance: np.ndarray  # (m,) from the centre
    angle: np.ndarray  # (m,) of the point
    radial: np.ndarray  # (m,) velocity away from the centre
    tangential: np.ndarray  # (m,) velocity along increasing angle
    slides: np.ndarray  # (m,) bool: along the circle rather than straight
    impact_times: np.ndarray
    accumulation: float | None
    t1: float

    def local(self, s, k):
        """Position x, y and velocity u, w, in a frame turned by the last value, s after a start."""
        u, w, slides = self.radial[k], self.tangential[k], self.slides[k]
        x = np.where(slides, self.R, self.distance[k] + s * u)
        y = np.where(slides, 0.0, s * w)
        return x, y, u, w, self.angle[k] + np.where(slides, s * w / self.R, 0.0)


def _chords(e, R, position, velocity, t1):
    """The first chord, the chords between impacts, and the sliding that follows them."""
    (x, y), (vx, vy) = position, velocity
    r, angle = math.hypot(x, y), math.atan2(y, x)
    if r > R * (1 + 1e-12) or (vx, vy) == (0, 0):
        raise ModelError(f"needs a position in the disc and a velocity, not {position}, {velocity}")
    radial = vx * math.cos(angle) + vy * math.sin(angle)
    tangential = vy * math.cos(angle) - vx * math.sin(angle)
    vt = tangential * r / R  # at the wall
    vn = math.sqrt(radial**2 + tangential**2 * max(R - r, 0.0) * (R + r) / R**2)
    first = _exit_time(R, r, radial, tangential, vn)
    hit = angle + math.atan2(first * tangential, r + first * radial)

    n = np.arange(1, _chord_count(e, R, vn, vt, first, t1) + 1)  # chord n follows impact n
    vns = vn * e ** n.astype(float)
    lasts = 2 * R * vns / (vt**2 + vns**2)
    turns = math.copysign(2, vt) * np.arctan2(vns, abs(vt))
    times = first + np.concatenate([[0.0], np.cumsum(lasts)])  # (n+1,) of impacts, then the end
    angles = hit + np.concatenate([[0.0], np.cumsum(turns)])
    slides = vn == 0 or e == 0 or (e < 1 and vt != 0)
    accumulation = float(times[-1]) if slides and len(n) else None
    if t1 is None:
        t1 = _chord_horizon(times, accumulation, slides, R, vt)
    impacts = times[: max(len(n), 1)] if vn > 0 else times[:0]
    listed = e ** np.arange(len(impacts)) >= ZENO_LISTED

    m = len(n) + slides  # pieces after the first chord
    return Chords(
        R=R,
        starts=np.concatenate([[0.0], times[:m]]),
        distance=np.concatenate([[r], np.full(m, R)]),
        angle=np.concatenate([[angle], angles[:m]]),
        radial=np.concatenate([[radial], -vns, np.zeros(int(slides))]),
        tangential=np.concatenate([[tangential], np.full(m, vt)]),
        slides=np.arange(m + 1) == (m if slides else -1),
        impact_times=impacts[listed & (impacts <= t1)],
        accumulation=accumulation,
        t1=float(t1),
    )


def _chord_count(e, R, vn, vt, first, t1):
    """How many chords to build: those above rounding, or those before t1 (ten if None)."""
    if vn == 0 or e == 0:
        return 0
    if e < 1 and vt != 0:
        return max(1, math.ceil(math.log(ZENO_CUT * abs(vt) / vn) / math.log(e)))
    if t1 is None:
        return 10
    shortest = 2 * R * e * vn / (vt**2 + (e * vn) ** 2)
    return max(1, 1 + math.ceil((t1 - first) / shortest))


def _chord_horizon(times, accumulation, slides, R, vt):
    """Well past the accumulation, or one radian of sliding, or the middle of the last chord."""
    if accumulation is not None:
        return 1.5 * accumulation
    if slides:
        return times[-1] + R / abs(vt) if vt != 0 else 2 * times[-1]
    return (times[-1] + times[-2]) / 2


def _exit_time(R, r, radial, tangential, vn):
    """When a chord from the distance r meets the circle, without cancellation."""
    if radial <= 0:
        return (R * vn - r * radial) / (radial**2 + tangential**2)
    return (R - r) * (R + r) / (R * vn + r * radial)


def outside_disc(*, e=1.0, radius=1.0, offset=0.5, distance=3.0, speed=1.0, t1=None):
    """A free point is deflected by a disc; the admissible set is not convex (P5).

    ``q'' = 0``, gap ``|q| - R``, from ``(-distance, b)`` at ``(speed, 0)``, with b the offset,
    ``|b| < R``. The normal velocity is multiplied by -e at the only impact; for e = 1 the direction
    turns by ``2 acos(b/R)``.

    Parameters
    ----------
    e
        Restitution, in [0, 1].
    radius
        R of the disc [m].
    offset
        b [m], how far beside the centre it aims.
    distance
        Of the start from the centre, along x [m].
    speed
        At the start [m/s], > 0.
    t1
        End [s].  None: twice the time of the impact, and radius/speed more.
    """
    depth = math.sqrt(max(radius**2 - offset**2, 0.0))
    if abs(offset) >= radius or distance < depth or speed <= 0:
        raise ModelError(
            "needs |offset| < radius, a start to the left of the disc and speed > 0, "
            f"not {offset}, {radius}, {distance}, {speed}"
        )
    system = System(force=no_force, gap=Outside(radius), restitution=e)
    impact = (distance - depth) / speed
    n = np.array([-depth, offset]) / radius
    q = np.array([[-distance, offset], [-depth, offset]])
    v = np.array([[speed, 0.0], [speed, 0.0]])
    v[1] -= (1 + e) * (v[0] @ n) * n
    t1 = 2.0 * impact + radius / speed if t1 is None else float(t1)
    starts = np.array([0.0, impact])
    return Problem(
        name="outside_disc",
        system=system,
        q0=q[0],
        v0=v[0],
        t0=0.0,
        t1=t1,
        exact=straight(starts, q, v, t1),
        source="closed form, benchmarks P5",
        looks=drawn.point_in_plane(Disc(0.0, 0.0, radius), size=radius),
        impact_times=starts[1:][starts[1:] <= t1],
    )


def wedge(*, count=3, distance=3.0, offset=0.5, speed=1.0, t1=None):
    """A free point enters a wedge of angle pi/m and leaves after exactly m elastic impacts (P5).

    ``q'' = 0``, gaps ``y`` and ``x sin a - y cos a`` with ``a = pi/m``, m the count, e = 1. The
    point comes in parallel to the bisector, from ``distance`` along it and ``offset`` beside it.
    Reflected at each wall, the path unfolds to a straight line, which turns by pi seen from the
    corner and so crosses the m lines at angles ``a, 2a, ..., m a``.

    Parameters
    ----------
    count
        m, the number of impacts, >= 2.
    distance
        Of the start from the corner, along the bisector [m].
    offset
        Beside the bisector [m], above 0 and below distance tan(pi/(2 m)).
    speed
        At the start [m/s], > 0.
    t1
        End [s].  None: distance/speed after the last impact.
    """
    a, b = math.pi / count, math.pi / count / 2
    if count < 2 or not 0 < offset < distance * math.tan(b) or speed <= 0:
        raise ModelError(
            "needs count >= 2, 0 < offset < distance tan(pi/(2 count)) and speed > 0, "
            f"not {count}, {offset}, {distance}, {speed}"
        )
    impacts = (distance - offset / np.tan(a * np.arange(1, count + 1) - b)) / speed
    t1 = impacts[-1] + distance / speed if t1 is None else t1
    starts = np.concatenate([[0.0], impacts])

    def fold(angle, k):  # from the k-th sector of the unfolded plane
        return np.where(k % 2 == 0, angle - k * a, (k + 1) * a - angle)

    def flow(s, k):
        along = distance - speed * (s + starts[k])
        angle = fold(b + np.arctan2(offset, along), k)
        zero = np.zeros_like(along)
        return (
            _rotate(angle, np.hypot(along, offset), zero),
            _rotate(fold(b + math.pi, k), speed + zero, zero),
        )

    far = 1.2 * distance
    walls = [Segment(0.0, 0.0, far, 0.0)]
    walls += [Segment(0.0, 0.0, far * math.cos(a), far * math.sin(a))]
    exact = piecewise(starts, flow, float(t1))
    q0, v0 = exact(0.0)
    return Problem(
        name="wedge",
        system=System(force=no_force, gap=Wedge(a), restitution=1.0),
        q0=q0,
        v0=v0,
        t0=0.0,
        t1=float(t1),
        exact=exact,
        source="closed form by unfolding, benchmarks P5",
        looks=drawn.point_in_plane(*walls, size=distance),
        impact_times=impacts[impacts <= t1],
    )


def _rotate(angle, x, y):
    """``(x, y)`` turned by an angle, stacked to ``(..., 2)``."""
    c, s = np.cos(angle), np.sin(angle)
    return np.stack([c * x - s * y, s * x + c * y], axis=-1)


def no_force(t, q, v):
    return jnp.zeros_like(q)


def _norm(q):
    """|q|, with a zero gradient rather than NaN at the origin."""
    return jnp.sqrt(jnp.maximum(q @ q, jnp.finfo(q.dtype).tiny))


@dataclass(frozen=True)
class Inside:
    radius: float

    def __call__(self, t, q):
        return self.radius - _norm(q)


@dataclass(frozen=True)
class Outside:
    radius: float

    def __call__(self, t, q):
        return _norm(q) - self.radius


@dataclass(frozen=True)
class Within:
    """The gap of `Inside` in polar coordinates."""

    radius: float

    def __call__(self, t, q):
        return self.radius - q[0]


@dataclass(frozen=True)
class Wedge:
    angle: float

    def __call__(self, t, q):
        return jnp.stack([q[1], q[0] * jnp.sin(self.angle) - q[1] * jnp.cos(self.angle)])
