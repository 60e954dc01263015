"""An elastic bar that falls on a rigid floor (P11)."""

import math
from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array

from carom.models.problem import ModelError, Problem, within
from carom.projection.sparse import Sparse
from carom.worlds.system.system import System


def elastic_bar(
    *,
    elements=50,
    lumped=False,
    height=5.0,
    speed=10.0,
    g=0.0,
    length=10.0,
    modulus=900.0,
    density=1.0,
    t1=None,
):
    """An elastic bar of finite elements falls on a rigid floor and is thrown back by a wave (P11).

    ``rho u_tt = E u_xx - rho g`` on (0, L), unit section, ``u = 0, u_t = -speed`` at t = 0, the top
    free, and at the bottom ``u + height >= 0`` with the contact pressure >= 0 and zero unless the
    bar touches.  In space: linear elements, consistent or ``lumped`` mass, e = 0 at the contact
    node.  ``exact`` is the motion of the bar, not of its elements: with ``c = sqrt(E/rho)`` and
    ``w = u + g t^2/2``, waves go up and down,

        w = F(t - x/c) + B(t + x/c),     B(s) = F(s - 2L/c) + const.   (the top is free)        (1)
        open:    F' = B'                 touching:   F + B = g t^2/2 - height                   (2)
        pressure = (E/c) (F' - B')   at the bottom                                              (3)

    so that F is a quadratic between the times at which something arrives at the bottom.

    The default is a bar without weight thrown at the floor: contact for 2L/c = 2/3 at the pressure
    rho c speed = 300, then it leaves at the speed it came with.  With ``speed=0, g=10`` it is
    dropped, and returns after 16/3 (Doyen, Ern and Piperno 2011).

    Parameters
    ----------
    elements
        How many, >= 1; q has their ends, from the bottom up.
    lumped
        True: a diagonal mass matrix.
    height
        Of the bottom above the floor at the start [m], >= 0.
    speed
        Downwards at the start [m/s], >= 0.
    g
        Gravity [m/s^2], >= 0.
    length
        L [m].
    modulus
        E [N/m^2].
    density
        rho [kg/m^3].
    t1
        End [s].  None: 1.5, with weight 16/3.
    """
    if elements < 1 or height < 0 or speed < 0 or g < 0 or (speed == 0 and g == 0):
        raise ModelError(
            "needs elements >= 1, height >= 0, speed >= 0, g >= 0 and something that falls, not "
            f"elements {elements}, height {height}, speed {speed}, g {g}"
        )
    c = math.sqrt(modulus / density)
    t1 = (1.5 if g == 0 else 16 / 3) if t1 is None else float(t1)
    x, mass, stiffness = _matrices(elements, length, modulus, density, lumped)
    waves = _Waves(length, c, height, speed, g, t1)
    return Problem(
        name="elastic_bar",
        system=System(
            force=BarForce(Sparse(stiffness), jnp.asarray(mass.sum(axis=1)).ravel() * g),
            gap=BottomGap(height),
            mass=mass.diagonal() if lumped else mass,
        ),
        q0=np.zeros(elements + 1),
        v0=np.full(elements + 1, -float(speed)),
        t0=0.0,
        t1=t1,
        exact=within(0.0, t1, lambda t: waves.motion(x, t)),
        source="d'Alembert's waves, benchmarks P11 (the continuous bar, not its elements)",
        impact_times=np.array(waves.landings),
        reaction=within(0.0, t1, lambda t: modulus / c * waves.compression(t)),
        frequency=2 * c * elements / length * (1.0 if lumped else math.sqrt(3.0)),
    )


def _matrices(elements, length, modulus, density, lumped):
    """Node positions (n,), and the mass and stiffness matrices (n, n) of linear elements."""
    try:
        from skfem import Basis, ElementLineP1, MeshLine
        from skfem.models.poisson import laplace, mass
    except ImportError:
        raise ModelError(
            "elastic_bar builds its matrices with scikit-fem: pip install 'carom[fem]'"
        ) from None
    from scipy.sparse import diags_array

    x = np.linspace(0.0, length, elements + 1)
    basis = Basis(MeshLine(x), ElementLineP1())
    M, K = density * mass.assemble(basis), modulus * laplace.assemble(basis)
    return x, diags_array(np.asarray(M.sum(axis=1)).ravel()) if lumped else M, K


class BarForce(eqx.Module):
    stiffness: Sparse
    weight: Array  # (d,)

    def __call__(self, t, q, v):
        return -(self.stiffness @ q) - self.weight


@dataclass(frozen=True)
class BottomGap:
    height: float

    def __call__(self, t, q):
        return q[:1] + self.height


class _Waves:
    """F of (1), piece by piece: each piece is (start, F, F', F''/2) there."""

    def __init__(self, length, c, height, speed, g, t1):
        self.c, self.height, self.g = c, height, g
        self.delay = 2 * length / c
        self.const = -speed * self.delay / 2
        self.pieces = [(-self.delay, speed * self.delay / 2, -speed / 2, 0.0)]
        self.landings = []
        t, touching, source = 0.0, False, 0  # B is made of the piece ``source``
        while t < t1:  # from one arrival at the bottom to the next
            known = [*(piece[0] for piece in self.pieces[source + 1 :]), t]
            end = known[0] + self.delay
            t, touching = self._follow(t, end, touching, source)
            source += t >= end
        self.table = np.array(self.pieces)

    def _follow(self, t, end, touching, source):
        """Add the piece that starts at t; return its end, and whether the bar touches there."""
        start, value, slope, bend = self.pieces[source]
        s = t - self.delay - start
        B = (value + slope * s + bend * s**2 + self.const, slope + 2 * bend * s, bend)
        half_g, tiny = self.g / 2, 1e-11
        position = (half_g * t**2 - self.height, self.g * t, half_g)  # of w at the floor
        if touching and position[1] - 2 * B[1] < -tiny:
            touching = False  # (3): a wave arrives that pulls
        if touching:
            F = tuple(a - b for a, b in zip(position, B, strict=True))
            event = _first_root(0.0, self.g - 4 * B[2], position[1] - 2 * B[1], end - t)
        else:
            now = self._value_at_end(t)
            F = (now, B[1], B[2])
            open_by = [a + b - w for a, b, w in zip(F, B, position, strict=True)]
            if abs(open_by[0]) < tiny and open_by[1] < -tiny:
                event = 0.0  # already there, and falling
            else:
                event = _first_root(open_by[2], open_by[1], open_by[0], end - t)
        if event != 0.0:
            self.pieces.append((t, *F))
        if t + event >= end - tiny:
            return end, touching
        if not touching:
            self.landings.append(t + event)
        return t + event, not touching

    def _value_at_end(self, t):
        start, value, slope, bend = self.pieces[-1]
        s = t - start
        return value + slope * s + bend * s**2

    def _wave(self, s):
        """F and F' at s."""
        k = np.maximum(np.searchsorted(self.table[:, 0], s, side="right") - 1, 0)
        start, value, slope, bend = self.table[k].T
        s = s.T - start
        return (value + slope * s + bend * s**2).T, (slope + 2 * bend * s).T

    def motion(self, x, t):
        """u and u_t at the points x (d,) and the times t (n,): two of (n, d)."""
        up, up_rate = self._wave(t[..., None] - x / self.c)
        down, down_rate = self._wave(t[..., None] + x / self.c - self.delay)
        fall = self.g * t[..., None]
        return up + down + self.const - fall * t[..., None] / 2, up_rate + down_rate - fall

    def compression(self, t):
        """F' - B' at the bottom, (n, 1)."""
        return (self._wave(t)[1] - self._wave(t - self.delay)[1])[..., None]


def _first_root(a, b, c, end):
    """The first s in (0, end) at which a s^2 + b s + c turns negative; end where there is none."""
    if a == 0.0:
        roots = [] if b == 0.0 else [-c / b]
    else:
        square = b**2 - 4 * a * c
        roots = (
            [] if square < 0 else [(-b + sign * math.sqrt(square)) / (2 * a) for sign in (-1, 1)]
        )
    falling = [s for s in roots if 0.0 < s < end and 2 * a * s + b < 0.0]
    return min(falling, default=end)
