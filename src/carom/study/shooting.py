"""Periodic orbits by shooting, with the impact times among the unknowns."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from carom.arguments import suggesting
from carom.errors import StudyError
from carom.run.record import Record
from carom.run.solve import solve
from carom.schemes.event_driven import EventDriven
from carom.shown import Shown, counted
from carom.study.flight import check_smooth, shoot, state_at, watch_flights
from carom.worlds.system.system import System

_NEWTON_TURNS = 30
_SAMPLES = 200  # of a flight, to see what its gaps do
_IMPACTS = 64  # in a period: more are hardly isolated


@dataclass(frozen=True, eq=False, repr=False)
class Orbit(Shown):
    """A periodic motion: x(t0 + period) = x(t0), x = (q, v), with k impacts on the way."""

    t0: float  # start [s]
    period: float  # [s]
    q0: np.ndarray  # (d,) at t0
    v0: np.ndarray  # (d,) at t0, right limit
    impact_times: np.ndarray  # (k,) in [t0, t0 + period]
    constraints: np.ndarray  # (k,) int, the gap of each impact
    velocity_before: np.ndarray  # (k,) relative normal velocity, < 0
    velocity_after: np.ndarray  # (k,)
    impulses: np.ndarray  # (k,)
    monodromy: np.ndarray  # (2d, 2d) dx(t0 + period)/dx(t0), impacts moving with it
    residual: float  # largest fault of the equations (1), (2) of ``orbit``
    lowest: float  # lowest minimum of a gap in flight, inf without one; an orbit has it >= 0
    parameter: float | None = None  # in a branch

    @property
    def multipliers(self) -> np.ndarray:
        """Floquet multipliers, eigenvalues of the monodromy, largest first (2d,)."""
        values = np.linalg.eigvals(self.monodromy)
        return values[np.argsort(-np.abs(values), kind="stable")]

    @property
    def trace(self) -> float:
        """Of the monodromy."""
        return float(np.trace(self.monodromy))

    @property
    def determinant(self) -> float:
        """Of the monodromy."""
        return float(np.linalg.det(self.monodromy))

    @property
    def stable(self) -> bool:
        """Whether every multiplier is inside the unit circle."""
        return bool(np.max(np.abs(self.multipliers)) < 1.0)

    @property
    def speeds(self) -> np.ndarray:
        """(k,) normal speeds of the impacts."""
        return -self.velocity_before

    @property
    def phases(self) -> np.ndarray:
        """(k,) 2 pi t/period of the impacts, in [0, 2 pi)."""
        return 2 * np.pi * (self.impact_times / self.period % 1.0)

    def __str__(self) -> str:
        largest = np.abs(self.multipliers[0])
        impacts = counted(len(self.impact_times), "impact")
        where = "" if self.parameter is None else f" at {self.parameter:.10g}"
        return (
            f"orbit of period {self.period:.10g}{where}, {impacts}, "
            f"{'stable' if self.stable else 'unstable'} (largest multiplier {largest:.6g}), "
            f"residual {self.residual:.1e}"
        )

    needs_system = True  # for its picture

    def plot(self, system: System, ax=None, coordinate: int = 0):
        """The orbit of a ``system`` in the plane of one ``coordinate`` and its velocity.

        On ``ax``, or new Axes.
        """
        from carom.study.pictures import plot_orbit

        return plot_orbit(self, system, ax, coordinate)


@suggesting
def orbit(
    system: System,
    q0,
    v0,
    *,
    period: float,
    t0: float = 0.0,
    settle: int = 0,
    tol: float = 1e-11,
) -> Orbit:
    """The periodic orbit near (q0, v0) at t0, stable or not.

    The unknowns are x0 = (q, v) at t0 and the times s_j of the k impacts; their number and their
    gaps are those of the motion from (q0, v0) over one period, after ``settle`` periods of
    simulation that bring it close to a stable orbit.  Newton's method solves

        x(t0 + period; x0, s) = x0                                                            (1)
        g_j(s_j, q(s_j)) = 0,    j = 1..k                                                     (2)

    in which the motion strikes gap j at s_j, wherever it is.  With A, B the derivatives of the left
    of (1) in x0 and s, and C, D those of (2), the multipliers are the eigenvalues of

        A - B D^-1 C                                                                          (3)

    the product of flights and saltation matrices.  ``period`` is that of the orbit: n periods of
    the forcing for a motion that repeats every n.  At an impact x0 has no derivatives: an orbit
    that strikes at t0 is told from an earlier ``t0`` of its own, in the middle of its longest
    flight.

    Parameters
    ----------
    system
        A System without friction or joints.
    q0, v0
        (d,) position and velocity at t0.
    period
        Of the orbit [s].
    t0
        Start [s].
    settle
        Periods of simulation before.
    tol
        Newton's method ends with a step of at most ``tol`` (1 + the largest unknown).

    Examples
    --------
    >>> import carom
    >>> shaken = carom.models.impact_oscillator(frequency=2.5)
    >>> period = 2 * 3.141592653589793 / 2.5
    >>> found = carom.study.orbit(shaken.system, shaken.q0, shaken.v0, period=period)
    >>> len(found.impact_times), found.stable
    (1, True)
    """
    check_smooth(system, "orbit")
    q0, v0 = np.atleast_1d(np.asarray(q0, float)), np.atleast_1d(np.asarray(v0, float))
    t0, z, which = _guess(system, q0, v0, float(t0), float(period), settle)
    shooting = Shooting(Compiled(lambda _: system, lambda _: period), t0, which)
    z, _ = shooting.solved(z, 0.0, tol)
    found = shooting.orbit(z, 0.0)
    if found.lowest < -1e-9 * (1.0 + np.max(np.abs(q0))) or np.any(found.velocity_before >= 0.0):
        raise StudyError(
            f"the motion that repeats after {period:g} passes through a gap (lowest gap "
            f"{found.lowest:g}, normal velocities {found.velocity_before}): it is no orbit. Start "
            "closer to one, or settle for more periods"
        )
    return found


def _guess(system, q0, v0, t0, period, settle):
    """t0, x0 and the impact times of one period, from a simulation: t0, z (2d + k,), gaps (k,)."""
    scheme = EventDriven()
    end = t0 + settle * period
    if settle:
        last = Record(final=True)
        sol = solve(system, scheme, q0, v0, t0=t0, t1=end, dt=period, record=last)
        sol = solve(system, scheme, start=sol, t1=end + period, dt=period)
        q0, v0 = sol.q[0], sol.v[0]
    else:
        sol = solve(system, scheme, q0, v0, t0=t0, t1=t0 + period, dt=period)
    if shift := _off_impacts(sol, end, period):
        sol = solve(system, scheme, start=sol, t1=end + period + shift, dt=shift)
        end, t0 = end + period + shift, t0 + shift - period
        sol = solve(system, scheme, start=sol, t1=end + period, dt=period)
        q0, v0 = sol.q[0], sol.v[0]
    impacts = np.asarray(sol.impacts)
    impacts = impacts[impacts["step"] > 0]
    lasting = sol.impulse[1:].sum() - impacts["impulse"].sum()
    if len(impacts) >= _IMPACTS or lasting > 1e-9 * (1.0 + sol.impulse.sum()):
        raise StudyError(
            f"the motion over one period has {len(impacts)} impacts and lasting contact: shooting "
            "describes orbits with isolated impacts, fewer than 64"
        )
    which = np.asarray(impacts["constraint"], int)
    # the forcing has the period of the orbit, so the settled state is one at t0
    return t0, np.concatenate([q0, v0, impacts["time"] - (end - t0)]), which


def _off_impacts(sol, start, period) -> float:
    """0, or where an end of the period is an impact, how far a middle of a flight is from it."""
    impacts, near = np.asarray(sol.impacts), 1e-6 * period
    times = impacts["time"][impacts["step"] > 0] - start
    inside = times[(times > near) & (times < period - near)]
    touching = np.min(sol.gap[[0, -1]], initial=np.inf) <= 1e-9 * (1.0 + np.max(np.abs(sol.q)))
    if len(inside) == len(times) and not touching:
        return 0.0
    ends = np.concatenate([[0.0], inside, [period]])
    longest = np.argmax(np.diff(ends))
    return float(0.5 * (ends[longest] + ends[longest + 1]))


class Compiled:
    """The equations (1), (2) of ``orbit`` for a family of systems, as compiled functions of

    z (2d + k,) x0 and the impact times, p the parameter, t0 the start, which (k,) the gaps.
    """

    def __init__(self, build: Callable, period: Callable):
        def parts(z, p, t0, which):
            d2 = z.shape[0] - which.shape[0]
            return build(p), t0, t0 + period(p), z[:d2], z[d2:], which

        def shot(z, p, t0, which):
            return shoot(*parts(z, p, t0, which))

        def equations(z, p, t0, which):
            end, gap, *_ = shot(z, p, t0, which)
            residual = jnp.concatenate([end - z[: end.shape[0]], gap])
            return residual, residual

        def linearised(z, p, t0, which):
            columns, residual = jax.jacfwd(equations, (0, 1), has_aux=True)(z, p, t0, which)
            return residual, jnp.concatenate([columns[0], columns[1][:, None]], axis=1)

        def watched(z, p, t0, which):
            return watch_flights(*parts(z, p, t0, which), _SAMPLES)

        def at(z, p, t0, which, t):
            system, t0, _, *rest = parts(z, p, t0, which)
            return state_at(system, t0, t, *rest)

        self.period = period
        self.shot, self.linearised = jax.jit(shot), jax.jit(linearised)
        self.watched, self.at = jax.jit(watched), jax.jit(at)


class Shooting:
    """The equations with their start t0 and the gaps struck in turn fixed."""

    def __init__(self, compiled: Compiled, t0: float, which: np.ndarray):
        self.compiled, self.t0, self.which = compiled, t0, which

    def period(self, p) -> float:
        """That of the orbit at p."""
        return float(self.compiled.period(p))

    def _called(self, function, z, p, *more):
        found = function(jnp.asarray(z), float(p), self.t0, jnp.asarray(self.which), *more)
        return jax.tree_util.tree_map(np.asarray, found)

    def residual_and_jacobian(self, z, p) -> tuple[np.ndarray, np.ndarray]:
        """(n,) and (n, n + 1), the last column for p."""
        return self._called(self.compiled.linearised, z, p)

    def possible(self, z, p) -> bool:
        """Whether the impacts come one after the other within the period."""
        t1 = self.t0 + self.period(p)
        times = np.concatenate([[self.t0], z[len(z) - len(self.which) :], [t1]])
        return bool(np.all(np.isfinite(z)) and np.all(np.diff(times) >= 0.0))

    def solved(self, z, p, tol) -> tuple[np.ndarray, np.ndarray]:
        """z that solves the equations at p, and their Jacobian there."""
        row = np.zeros(len(z) + 1)
        row[-1] = 1.0
        u, jacobian = self.solved_on(np.append(z, p), row, tol)
        return u[:-1], jacobian

    def solved_on(self, u, row, tol) -> tuple[np.ndarray, np.ndarray]:
        """u = (z, p) near u on the plane row . (u' - u) = 0, and the Jacobian there."""
        start = u
        for _ in range(_NEWTON_TURNS):
            residual, jacobian = self.residual_and_jacobian(u[:-1], u[-1])
            if not np.all(np.isfinite(jacobian)):
                break
            full = np.vstack([jacobian, row])
            right = np.append(residual, row @ (u - start))
            try:
                step = np.linalg.solve(full, right)
            except np.linalg.LinAlgError:
                break
            u, size = self._shortened(u, step)
            if size <= tol * (1.0 + np.max(np.abs(u))):
                return u, self.residual_and_jacobian(u[:-1], u[-1])[1]
        raise StudyError(
            f"shooting did not converge from {start}: start closer to the orbit, or settle for "
            "more periods"
        )

    def _shortened(self, u, step):
        for _ in range(12):
            trial = u - step
            if self.possible(trial[:-1], trial[-1]):
                return trial, np.max(np.abs(step))
            step = 0.5 * step
        return u - step, np.max(np.abs(step))

    def orbit(self, z, p, parameter=None) -> Orbit:
        """What the solution z at p describes."""
        residual, jacobian = self.residual_and_jacobian(z, p)
        shot = self._called(self.compiled.shot, z, p)
        d2 = len(z) - len(self.which)
        return Orbit(
            t0=self.t0,
            period=self.period(p),
            q0=z[: d2 // 2].copy(),
            v0=z[d2 // 2 : d2].copy(),
            impact_times=z[d2:].copy(),
            constraints=self.which,
            velocity_before=shot.before,
            velocity_after=shot.after,
            impulses=shot.impulse,
            monodromy=monodromy(jacobian, d2),
            residual=float(np.max(np.abs(residual))),
            lowest=self.lowest(z, p),
            parameter=parameter,
        )

    def lowest(self, z, p) -> float:
        """The lowest minimum that a gap has inside a flight."""
        return lowest_minimum(*self._called(self.compiled.watched, z, p))

    def crowded(self, z, p) -> bool:
        """Whether an impact is close to an end of the period, where it would be lost."""
        times, T = z[len(z) - len(self.which) :], self.period(p)
        ends = np.concatenate([times - self.t0, self.t0 + T - times])
        if not len(times) or np.min(ends) >= 0.05 * T:
            return False
        return self._longest(z, p)[0] > 0.1 * T

    def _longest(self, z, p) -> tuple[float, float]:
        """Length and start of the longest flight."""
        times = z[len(z) - len(self.which) :]
        flights = np.append(times[1:], times[0] + self.period(p)) - times
        return float(flights.max()), float(times[flights.argmax()])

    def moved(self, z, p) -> tuple["Shooting", np.ndarray]:
        """The same orbit from the middle of its longest flight, within a period of t0."""
        T, d2 = self.period(p), len(z) - len(self.which)
        length, start = self._longest(z, p)
        t0 = start + 0.5 * length
        if t0 >= self.t0 + T:
            t0 = t0 - T
        x = self._called(self.compiled.at, z, p, t0)
        later = z[d2:] + np.where(z[d2:] < t0, T, 0.0)
        order = np.argsort(later)
        return Shooting(self.compiled, t0, self.which[order]), np.append(x, later[order])


def monodromy(jacobian: np.ndarray, d2: int) -> np.ndarray:
    """(3) of ``orbit``, from the Jacobian of (1), (2)."""
    A, B = jacobian[:d2, :d2] + np.eye(d2), jacobian[:d2, d2:-1]
    C, D = jacobian[d2:, :d2], jacobian[d2:, d2:-1]
    return A - B @ np.linalg.solve(D, C) if len(D) else A


def lowest_minimum(t, gap, w) -> float:
    """From samples (flights, n), (flights, n, p): minima of the cubics through gap and w."""
    h = np.diff(t, axis=1)[:, :, None]
    g0, g1, w0, w1 = gap[:, :-1], gap[:, 1:], h * w[:, :-1], h * w[:, 1:]
    turns = (w0 < 0.0) & (w1 > 0.0)
    if not np.any(turns):
        return np.inf
    g0, g1, w0, w1 = (a[turns] for a in (g0, g1, w0, w1))
    # g(x) = g0 + w0 x + c x^2 + b x^3 on [0, 1]; its minimum is the larger root of g'
    c, b = 3 * (g1 - g0) - 2 * w0 - w1, w0 + w1 - 2 * (g1 - g0)
    root = np.sqrt(np.maximum(c * c - 3 * b * w0, 0.0))
    x = np.clip(-w0 / (c + root), 0.0, 1.0)
    return float(np.min(g0 + x * (w0 + x * (c + x * b))))
