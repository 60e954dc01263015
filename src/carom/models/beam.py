"""A cantilever beam between two stops."""

import math
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array

from carom.models.events import first_zero
from carom.models.problem import ZENO_LISTED, ModelError, Problem, piecewise
from carom.projection.metric import product
from carom.worlds.system.system import System


def cantilever(
    *,
    e=0.8,
    modes=2,
    elements=None,
    damping=0.02,
    force=0.15,
    frequency=3.3,
    clearance=0.1,
    rate=1.0,
    t1=None,
):
    """A cantilever beam in its first modes or finite elements, forced at its tip between two stops.

    The Euler-Bernoulli beam of unit length and mass, ``w_tt + r^2 w_xxxx = 0`` with
    ``r^2 = EI/(rho A L^4)`` the square of ``rate``, clamped at x = 0 and free at x = 1 but for the
    force ``P cos(W t)``, W the ``frequency``, and the stops ``|w(1, t)| <= clearance``. In the
    first ``modes``, ``w = sum q_n phi_n(x)`` with unit mass each,

        cos b_n cosh b_n = -1,    w_n = r b_n^2,    phi_n(1) = 2 (-1)^(n+1),                   (1)
        q_n'' + 2 z w_n q_n' + w_n^2 q_n = phi_n(1) P cos(W t),    z the damping of all modes, (2)
        gaps  clearance -+ sum q_n phi_n(1).                                                   (3)

    With ``elements``, cubic Hermite elements of equal length, consistent mass; q has the deflection
    and the slope of each node but the clamped one,

        M q'' + C q' + K q = a P cos(W t),    w(1) = a . q,    gaps  clearance -+ a . q,       (4)

    where C damps every mode of M and K by the same z: with ``K phi_n = w_n^2 M phi_n`` and unit
    masses, ``C = sum 2 z w_n (M phi_n)(M phi_n)^T``, so that (4) is (2) for q = sum y_n phi_n with
    the frequencies and the tips of the elements instead of (1).

    From rest. Between impacts q is a sum of exponentials in time, and so it is while the tip rests
    at a stop, where (2) holds across ``phi(1)`` alone; the times of impacts, and of the release
    where the force on the stop falls through zero, are roots found to rounding. Impacts that
    accumulate are followed down to a millionth of the fastest one; ``accumulation`` is the first
    of these times, and the error made in q is below 1e-12 of its size.

    Parameters
    ----------
    e
        Restitution, in [0, 1].
    modes
        How many, where there are no elements.
    elements
        How many; None: modes.  They need scikit-fem.
    damping
        z, of the critical one, in [0, 1).
    force
        P at the tip [N].
    frequency
        W of the force [rad/s].
    clearance
        From the tip to each stop [m].
    rate
        r [rad/s].
    t1
        End [s].  None: 6.1 periods of the force.
    """
    count = modes if elements is None else elements
    if min(force, frequency, clearance, rate) <= 0 or count < 1 or not 0 <= damping < 1:
        raise ModelError(
            "needs positive force, frequency, clearance and rate, modes or elements >= 1, "
            f"0 <= damping < 1, not {force}, {frequency}, {clearance}, {rate}, {count}, {damping}"
        )
    if elements is None:
        w, tip = rate * clamped_free(modes) ** 2, 2.0 * (-1.0) ** np.arange(modes)
        shapes = np.eye(modes)
        system = System(
            force=ModalForce(tuple(w), tuple(tip * force), damping, frequency),
            gap=TipStops(tuple(tip), clearance),
            restitution=e,
        )
    else:
        mass, stiffness = hermite(elements, rate)
        w, shapes = _modes(mass, stiffness)
        tip = shapes[-2]  # the last node's deflection and slope are last
        loss = mass @ shapes * (2 * damping * w) @ shapes.T @ mass
        at = np.eye(len(w))[-2]
        system = System(
            force=BeamForce(
                jnp.asarray(stiffness), jnp.asarray(loss), jnp.asarray(at * force), frequency
            ),
            gap=TipStops(tuple(at), clearance),
            mass=mass,
            restitution=e,
        )
    if damping == 0 and np.min(np.abs(w - frequency)) < 1e-9 * frequency:
        raise ModelError(f"without damping the frequency {frequency} must not be one of {w}")
    beam = _Beam(w, tip, damping, tip * force, frequency, clearance, float(e))
    t1 = 6.1 * 2 * math.pi / frequency if t1 is None else float(t1)
    followed = beam.followed(t1)
    exact = beam.exact(t1, followed.pieces)
    return Problem(
        name="cantilever",
        system=system,
        q0=np.zeros(len(w)),
        v0=np.zeros(len(w)),
        t0=0.0,
        t1=t1,
        exact=lambda t: tuple(y @ shapes.T for y in exact(t)),
        source="closed form between events, whose times are roots found to rounding",
        accumulation=followed.accumulation,
        impact_times=np.array(followed.impacts),
        period=2 * math.pi / frequency,
        frequency=float(w[-1]),
    )


def hermite(elements, rate):
    """M and K of (4) in `cantilever`, each (2 elements, 2 elements), node by node."""
    try:
        from skfem import Basis, BilinearForm, ElementLineHermite, MeshLine
    except ImportError:
        raise ModelError(
            "cantilever builds its matrices with scikit-fem: pip install 'carom[fem]'"
        ) from None

    basis: Any = Basis(MeshLine(np.linspace(0.0, 1.0, elements + 1)), ElementLineHermite())
    M = BilinearForm(lambda u, v, _: u * v).assemble(basis)
    K = BilinearForm(lambda u, v, _: rate**2 * u.hess[0, 0] * v.hess[0, 0]).assemble(basis)
    free = basis.nodal_dofs[:, 1:].T.ravel()  # of node 1: deflection, slope; of node 2: ...
    return tuple(np.asarray(A.toarray())[np.ix_(free, free)] for A in (M, K))


def _modes(mass, stiffness):
    """w_n (n,), rising, and the modes of unit mass, the columns of (n, n)."""
    from scipy.linalg import eigh

    squares, shapes = eigh(stiffness, mass)
    return np.sqrt(squares), shapes


def clamped_free(count):
    """b_n of (1) in `cantilever`, (count,)."""
    from scipy.optimize import brentq

    def characteristic(b):
        return math.cos(b) + 1 / math.cosh(b)

    ends = [((n - 1) * math.pi, n * math.pi) for n in range(1, count + 1)]
    return np.array([brentq(characteristic, a, b, xtol=1e-15) for a, b in ends])


class _Phase:
    """(2) for ``q = held + Z y``, Z orthonormal: y is a constant, a harmonic and exponentials."""

    def __init__(self, w, z, load, W, Z, held):
        m = Z.shape[1]
        K, C = Z.T @ (w[:, None] ** 2 * Z), Z.T @ (2 * z * w[:, None] * Z)
        self.Z, self.held, self.W = Z, held, W
        self.still = np.linalg.solve(K, -Z.T @ (w**2 * held))
        self.harmonic = np.linalg.solve(K - W**2 * np.eye(m) + 1j * W * C, Z.T @ load)
        rate = np.block([[np.zeros((m, m)), np.eye(m)], [-K, -C]])
        self.powers, self.modes = np.linalg.eig(rate)
        self.parts = np.linalg.inv(self.modes)

    def flow(self, s, t, q, v):
        """q and v (..., n), s after they were q and v at t."""
        start = np.concatenate([q @ self.Z, v @ self.Z], axis=-1) - self._forced(t)
        grown = np.exp(self.powers * np.asarray(s)[..., None]) * (start @ self.parts.T)
        y = (grown @ self.modes.T).real + self._forced(t + s)
        m = self.Z.shape[1]
        return self.held + y[..., :m] @ self.Z.T, y[..., m:] @ self.Z.T

    def _forced(self, t):
        y = self.harmonic * np.exp(1j * self.W * np.asarray(t))[..., None]
        return np.concatenate([y.real + self.still, (1j * self.W * y).real], axis=-1)


@dataclass
class _Followed:
    pieces: list  # (start, side that holds the tip or 0, q, v)
    impacts: list
    accumulation: float | None


class _Beam:
    """The motion of `cantilever`, event by event.  A side is 1 or -1, and 0 in flight."""

    def __init__(self, w: np.ndarray, tip: np.ndarray, z, load, W, clearance, e):
        self.w, self.tip, self.z, self.load, self.W = w, tip, z, load, W
        self.clearance, self.e = clearance, e
        across = np.linalg.svd(tip[None])[2][1:].T  # (n, n - 1), orthogonal to the tip's motion
        held = clearance * tip / (tip @ tip)
        bases = {0: (np.eye(len(w)), 0 * held), 1: (across, held), -1: (across, -held)}
        self.phases = {side: _Phase(w, z, load, W, *base) for side, base in bases.items()}
        self.step = 2 * math.pi / (50 * max(w[-1], W))

    def exact(self, t1, pieces):
        starts, sides, q, v = (np.array(x) for x in zip(*pieces, strict=True))

        def flow(s, k):
            moved = [self.phases[side].flow(s, starts[k], q[k], v[k]) for side in (0, 1, -1)]
            side = sides[k][..., None]
            return tuple(np.choose(side % 3, parts) for parts in zip(*moved, strict=True))

        return piecewise(starts, flow, t1)

    def acceleration(self, t, q, v):
        """(..., n), without the stops"""
        forced = self.load * np.cos(self.W * np.asarray(t))[..., None]
        return forced - 2 * self.z * self.w * v - self.w**2 * q

    def followed(self, t1):
        t, q, v, fastest = 0.0, np.zeros_like(self.w), np.zeros_like(self.w), 0.0
        left, found = 0, _Followed([(t, 0, q, v)], [], None)
        while True:
            s, side = self._next_impact(t, q, v, left, t1)
            if t + s > t1:
                return found
            q, v = self.phases[0].flow(s, t, q, v)
            t, normal = t + s, -side * self.tip
            fast = -(normal @ v)
            fastest = max(fast, fastest)
            v = v + (1 + self.e) * fast / (normal @ normal) * normal
            back = -(normal @ self.acceleration(t, q, v))
            stays = back > 0.0 and self.e * fast <= ZENO_LISTED * fastest
            if self.e == 0.0 or not stays:
                found.impacts.append(t)
            elif found.accumulation is None:
                found.accumulation = t + 2 * self.e * fast / (back * (1 - self.e))
            if stays:
                v = v - (normal @ v) / (normal @ normal) * normal
                found.pieces.append((t, side, q, v))
                s = self._release(t, q, v, side, t1)
                if t + s > t1:
                    return found
                (q, v), t = self.phases[side].flow(s, t, q, v), t + s
            found.pieces.append((t, 0, q, v))
            left = side

    def _release(self, t, q, v, side, t1):
        """How long until the tip, held at a side, stops pressing on it."""

        def pressed(s):
            return self.acceleration(t + s, *self.phases[side].flow(s, t, q, v)) @ self.tip * side

        return first_zero(pressed, step=self.step, limit=1.01 * (t1 - t))

    def _next_impact(self, t, q, v, left, t1):
        """How long until the tip meets a stop, and its side; it has just left the side ``left``."""
        first, met = math.inf, 0
        for side in (left, -left) if left else (1, -1):
            normal, start, zero = -side * self.tip, self.step, 0.0
            if side == left:  # the gap starts from zero
                zero = self.clearance + normal @ q
                leaves, back = normal @ v, -(normal @ self.acceleration(t, q, v))
                start = leaves / (2 * back) if back > 0.0 and leaves > 0.0 else self.step

            def gap(s, normal=normal, zero=zero):
                return self.clearance + self.phases[0].flow(s, t, q, v)[0] @ normal - zero

            limit = min(first, 1.01 * (t1 - t))
            found = first_zero(gap, step=self.step, limit=limit, start=start)
            if found < first:
                first, met = found, side
        return first, met


@dataclass(frozen=True)
class ModalForce:
    natural: tuple[float, ...]
    load: tuple[float, ...]
    damping: float
    frequency: float

    def __call__(self, t, q, v):
        w, load = np.array(self.natural), np.array(self.load)
        return load * jnp.cos(self.frequency * t) - 2 * self.damping * w * v - w**2 * q


class BeamForce(eqx.Module):
    stiffness: Array  # (d, d)
    loss: Array  # (d, d)
    load: Array  # (d,)
    frequency: float

    def __call__(self, t, q, v):
        forced = self.load * jnp.cos(self.frequency * t)
        return forced - product(self.stiffness, q) - product(self.loss, v)


@dataclass(frozen=True)
class TipStops:
    tip: tuple[float, ...]
    clearance: float

    def __call__(self, t, q):
        y = jnp.sum(np.array(self.tip) * q)
        return jnp.stack([self.clearance - y, self.clearance + y])
