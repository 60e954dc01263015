"""Continuation of a periodic orbit in a parameter, with its bifurcations."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from carom.arguments import suggesting
from carom.errors import StudyError
from carom.shown import Shown, counted
from carom.study.flight import check_smooth
from carom.study.shooting import Compiled, Orbit, Shooting, monodromy

KINDS = ("period doubling", "fold", "grazing")
_SHRINKS = 12  # halvings of a step before a branch is given up
_LONGEST = 0.05  # step, in the same units
_LOCATED = 1e-12  # of a step along the branch, to which a bifurcation is located


@dataclass(frozen=True, eq=False)
class Bifurcation:
    """A point of a branch where something changes."""

    kind: str  # one of KINDS
    parameter: float  # where it is
    orbit: Orbit  # there


@dataclass(frozen=True, eq=False, repr=False)
class Branch(Shown):
    """Orbits along a parameter, in the order in which they were found."""

    orbits: list[Orbit]  # each with its ``parameter``
    bifurcations: list[Bifurcation]  # in the same order
    ended: str  # why it goes no further

    @property
    def parameter(self) -> np.ndarray:
        """(n,)"""
        return np.array([o.parameter for o in self.orbits])

    @property
    def speeds(self) -> np.ndarray:
        """(n, k) normal speeds of the impacts."""
        return np.stack([o.speeds for o in self.orbits])

    @property
    def multipliers(self) -> np.ndarray:
        """(n, 2d)"""
        return np.stack([o.multipliers for o in self.orbits])

    @property
    def stable(self) -> np.ndarray:
        """(n,) bool"""
        return np.array([o.stable for o in self.orbits])

    def __str__(self) -> str:
        p = self.parameter
        if not len(p):
            return f"no orbits; {self.ended}"
        lines = [f"{counted(len(p), 'orbit')} from {p[0]:.10g} to {p[-1]:.10g}; {self.ended}"]
        lines += [f"  {b.kind:<16} at {b.parameter:.10g}" for b in self.bifurcations]
        return "\n".join(lines)

    def to_xarray(self):
        """The branch as an xarray Dataset."""
        import xarray

        def stacked(name):
            return np.stack([getattr(o, name) for o in self.orbits])

        point = "point"
        fields = {
            "parameter": (point, self.parameter),
            "period": (point, stacked("period")),
            "stable": (point, self.stable),
            "q0": ((point, "coordinate"), stacked("q0")),
            "v0": ((point, "coordinate"), stacked("v0")),
            "impact_time": ((point, "impact"), stacked("impact_times")),
            "impact_speed": ((point, "impact"), self.speeds),
            "multiplier": ((point, "multiplier_index"), self.multipliers),
            "bifurcation_parameter": ("bifurcation", [b.parameter for b in self.bifurcations]),
            "bifurcation_kind": ("bifurcation", [b.kind for b in self.bifurcations]),
        }
        return xarray.Dataset(fields, attrs={"ended": self.ended})

    def plot(self, ax=None):
        """Impact speeds against the parameter, dashed where unstable; on ``ax``, or new Axes."""
        from carom.study.pictures import plot_branch

        return plot_branch(self, ax)


@suggesting
def follow(
    build: Callable,
    orbit: Orbit,
    start: float,
    to: float,
    *,
    period: Callable | float | None = None,
    step: float = 0.01,
    points: int = 1000,
    stop: tuple[str, ...] = ("grazing",),
    tol: float = 1e-11,
) -> Branch:
    """Follow an orbit of ``build(start)`` as the parameter goes towards ``to``.

    Pseudo-arclength: with u = (z, p), z the unknowns of ``study.orbit``, a step ds leads along the
    unit tangent to u' = u + ds tangent, and Newton's method back to the branch on the plane through
    u' across the tangent.  Where the branch turns round, p goes back with it.

    Labelled, and located to rounding along the branch:

        period doubling   det(monodromy + I) changes sign: a multiplier passes -1
        fold              the tangent's component along p changes sign: a multiplier is at +1
        grazing           an impact loses its speed, or a gap in flight comes down to zero

    The kinds in ``stop`` end the branch; beyond a grazing the number of impacts is another.

    Parameters
    ----------
    build
        A function of the parameter that makes a System without friction or joints.
    orbit
        An Orbit of ``build(start)``, of ``study.orbit``.
    start, to
        Values of the parameter.
    period
        Of the orbit [s], or a function of the parameter.  None: that of ``orbit``.
    step
        The first, as a part of the way from ``start`` to ``to``.
    points
        The most orbits.
    stop
        Kinds that end the branch: "period doubling", "fold", "grazing".
    tol
        Of Newton's method, as in ``study.orbit``.
    """
    unknown = set(stop) - set(KINDS)
    if unknown:
        raise StudyError(f"stop has {sorted(unknown)}; the kinds are {KINDS}")
    if to == start:
        raise StudyError(f"start and to are both {start}: there is no way to go")
    check_smooth(build(start), "follow")
    if period is None:
        period = orbit.period
    length = period if callable(period) else (lambda _: period)
    shooting = Shooting(Compiled(build, length), orbit.t0, orbit.constraints)
    walk = _Walk(shooting, abs(to - start), tol)
    towards = np.zeros(2 * len(orbit.q0) + len(orbit.constraints) + 1)
    towards[-1] = to - start
    z = np.concatenate([orbit.q0, orbit.v0, orbit.impact_times])
    here = walk.point_at(z, start, towards)
    return _followed(walk, here, start, to, step, points, stop)


def _followed(walk, here, start, to, step, points, stop) -> Branch:
    orbits, found, ds = [walk.orbit(here)], [], step
    low, high = min(start, to), max(start, to)
    ended = f"{points} points: give more with points="
    while len(orbits) < points:
        there, ds = walk.step(here, ds)
        if there is None:
            ended = "no orbit was found further on, however short the step"
            break
        outside = not low <= there.p <= high
        if outside:
            there = walk.landed(here, there, min(max(there.p, low), high))
        passed = sorted(walk.passed(here, there), key=lambda pair: pair[0])
        kinds = [kind for _, kind, _ in passed]
        for _, kind, point in passed:
            found.append(Bifurcation(kind, point.p, walk.orbit(point)))
            if kind in stop:
                break
        stopping = [k for k in kinds if k in stop]
        if stopping:
            orbits.append(found[-1].orbit)
            ended = f"stopped at a {stopping[0]}"
            break
        orbits.append(walk.orbit(there))
        walk, here = walk.recentred(there)
        if outside:
            ended = f"reached the end of the range, {here.p:.10g}"
            break
    return Branch(orbits, found, ended)


@dataclass(frozen=True, eq=False)
class _Point:
    u: np.ndarray  # (n + 1,) z, p
    tangent: np.ndarray  # (n + 1,) of the branch, of length one in scaled unknowns
    tests: dict[str, float]  # for each kind, what changes sign there

    @property
    def p(self) -> float:
        return float(self.u[-1])


class _Walk:
    """Points of one branch; lengths are measured with p in units of the range."""

    def __init__(self, shooting: Shooting, span: float, tol: float):
        self.shooting, self.span, self.tol = shooting, span, tol

    def point_at(self, z, p, along) -> _Point:
        z, jacobian = self.shooting.solved(z, p, self.tol)
        return self._point(np.append(z, p), jacobian, along)

    def point_on(self, u, row, along) -> _Point:
        u, jacobian = self.shooting.solved_on(u, row, self.tol)
        return self._point(u, jacobian, along)

    def _point(self, u, jacobian, along) -> _Point:
        scale = self._scale(u)
        tangent = np.linalg.svd(jacobian * scale)[2][-1]
        if tangent @ (along / scale) < 0.0:
            tangent = -tangent
        d2 = len(u) - 1 - len(self.shooting.which)
        M = monodromy(jacobian, d2)
        tests = {
            "period doubling": float(np.linalg.det(M + np.eye(d2))),
            "fold": float(tangent[-1]),
            "grazing": self._clearance(u, jacobian, d2),
        }
        return _Point(u, tangent * scale, tests)

    def _scale(self, u):
        scale = np.ones(len(u))
        scale[-1] = self.span
        return scale

    def _clearance(self, u, jacobian, d2):
        """Negative where an impact comes from outside, or a gap is crossed in flight."""
        # the diagonal of D is the derivative of a gap in its impact time: the normal velocity
        speeds = -np.diagonal(jacobian[d2:, d2:-1])
        lowest = self.shooting.lowest(u[:-1], u[-1])
        return float(min([*speeds, lowest, 1.0]))

    def step(self, here, ds):
        """The next point and the step to try after it; None if there is none."""
        scale = self._scale(here.u)
        for _ in range(_SHRINKS):
            ahead = here.u + ds * here.tangent
            try:
                there = self.point_on(ahead, here.tangent / scale**2, here.tangent)
            except StudyError:
                there = None
            if there is not None and self.shooting.possible(there.u[:-1], there.p):
                bend = np.linalg.norm((there.u - ahead) / scale) / ds
                if bend <= 0.3:
                    return there, min(ds * (1.5 if bend < 0.05 else 1.0), _LONGEST)
            ds = 0.5 * ds
        return None, ds

    def recentred(self, here):
        """The walk and the point with the impacts well inside the period."""
        z, p = here.u[:-1], here.p
        if not self.shooting.crowded(z, p):
            return self, here
        shooting, z = self.shooting.moved(z, p)
        k = len(self.shooting.which)
        along = np.zeros_like(here.u)  # the impact times and p go on as before
        along[-1] = here.tangent[-1]
        turned = np.argsort(np.argsort(z[len(z) - k :] % shooting.period(p)))
        before = np.argsort(here.u[len(z) - k : -1] % shooting.period(p))
        along[len(z) - k : -1] = here.tangent[len(z) - k : -1][before][turned]
        walk = _Walk(shooting, self.span, self.tol)
        return walk, walk.point_at(z, p, along)

    def landed(self, here, there, p):
        """The point at p between two points."""
        share = (p - here.p) / (there.p - here.p)
        z = here.u[:-1] + share * (there.u - here.u)[:-1]
        return self.point_at(z, p, here.tangent)

    def passed(self, here, there):
        """(share of the way, kind, point) of each bifurcation between two points."""
        for kind in KINDS:
            if np.sign(here.tests[kind]) != np.sign(there.tests[kind]):
                share, point = self._located(here, there, kind)
                yield share, kind, point

    def _located(self, here, there, kind):
        """Regula falsi (Illinois) on the test, along the chord between the points."""
        chord = there.u - here.u
        row = chord / self._scale(here.u) ** 2

        def at(share):
            return self.point_on(here.u + share * chord, row, here.tangent)

        a, b, fa, fb, side = 0.0, 1.0, here.tests[kind], there.tests[kind], 0
        best = there
        for turn in range(60):
            x = 0.5 * (a + b) if turn % 6 == 5 else (a * fb - b * fa) / (fb - fa)
            best = at(x)
            f = best.tests[kind]
            if f == 0.0 or b - a <= _LOCATED or abs(x - (b if side > 0 else a)) <= _LOCATED:
                break
            if np.sign(f) == np.sign(fb):
                b, fb, fa = x, f, fa * (0.5 if side > 0 else 1.0)
                side = 1
            else:
                a, fa, fb = x, f, fb * (0.5 if side < 0 else 1.0)
                side = -1
        return x, best

    def orbit(self, point) -> Orbit:
        return self.shooting.orbit(point.u[:-1], point.p, parameter=point.p)
