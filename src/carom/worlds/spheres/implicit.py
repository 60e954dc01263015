"""A force that depends on the velocity it produces, where repetition does not contract.

A step asks for x with  x = P_M(a(x)),  the projection of a target a(x) = v + h M^-1 f(x) in the
metric of the masses M.  Repetition contracts where h |f'| < m.  Beyond, each turn is held back by a
mass s of its own for each sphere, which the fixed point does not feel:

    x_{k+1} = argmin 1/2 |x - a(x_k)|^2_M + 1/2 |x - x_k|^2_S  over K                         (1)
            = P_{M+S}( (M a(x_k) + S x_k) / (M + S) )                                         (2)
    s_i = c h |df_i / dv_i|                                                                   (3)

For a drag that is the same in all directions (1) is Newton's method.  Where f is dissipative,
(f(x) - f(y)) . (x - y) <= 0, it is the forward-backward splitting of a strongly monotone inclusion
and contracts for S large enough: c is doubled where a turn has not contracted.  The residual is

    r = max_i (1 + s_i / m_i) |x_{k+1} - x_k|_i,                                              (4)

the length of what lacks in M (x - a(x)) = G^T lam, over the mass.
"""

from typing import Any

import numpy as np

from carom.status import Status

_TURNS = 1000  # at most
_MOST = 1024.0  # c
_PROBE = 1e-5  # of the velocity, for the difference of forces in (3)


class Pull:
    """The masses S, and the velocity that they pull to."""

    def __init__(self, mass: np.ndarray):
        """``mass`` (N,) [kg]."""
        self.mass, self.weight = mass[:, None], np.zeros((len(mass), 1))
        self.c = 1.0
        self.x: Any = None  # (N, 3) the velocity that this turn is of
        self._last: Any = None  # the velocity and the projected point of the turn before

    def target(self, a: np.ndarray, slope: float, kick: np.ndarray, stiff: np.ndarray, h: float):
        """(2), from the target a (N, 3); ``slope``: of what is projected over the velocity.

        In the first turn x is the velocity before the step; a differs from it by the kick h f / m.
        """
        centre = a - slope * kick
        if self._last is not None:
            v, point = self._last
            centre = point + slope * (self.x - v)
        self.weight = self.c * h * stiff  # (3)
        return (self.mass * a + self.weight * centre) / (self.mass + self.weight)

    def inverse_mass(self) -> np.ndarray:
        """(N,) of M + S."""
        return 1.0 / (self.mass + self.weight)[:, 0]

    def reached(self, v: np.ndarray, point: np.ndarray) -> None:
        """What the turn gave: a velocity, and the point that was projected to."""
        self._last = v, point


def stiffness(forces, v: np.ndarray, dimension: int) -> np.ndarray:
    """(N, 1) |df_i / dv_i| [kg/s] by differences, all spheres at once, direction by direction."""
    by = _PROBE * max(float(np.max(np.abs(v))), 1e-12)
    f, blocks = forces(v), []
    for d in range(dimension):
        moved = v.copy()
        moved[:, d] += by
        blocks.append((forces(moved) - f) / by)
    return np.linalg.norm(np.stack(blocks, axis=2), ord=2, axis=(1, 2))[:, None]


def held_back(world, phi, x: np.ndarray, tolerance: float) -> tuple[Any, float, int]:
    """Solve x = phi(x).point by (2); the last phi(x), its relative residual (4), and the turns."""
    turns, last = 0, np.inf
    world.pull = pull = Pull(world.pile.mass)
    try:
        while True:
            pull.x = x
            value = phi(x)
            pull.reached(value.point, world.projected)
            step = np.max(np.abs(value.point - x) * (1.0 + pull.weight / pull.mass))  # (4)
            size = max(np.max(np.abs(value.point)) + np.max(np.abs(x)), 1e-300)
            turns += 1
            small = step <= tolerance * size
            if value.status is not Status.ok or small or turns >= _TURNS or not step < np.inf:
                return value, float(step / size), turns
            pull.c *= 2.0 if step >= last else 1.0
            if pull.c > _MOST:  # not dissipative; beyond, a step would be rounding
                return value, np.inf, turns
            x, last = value.point, step
    finally:
        world.pull = world.projected = world._asked = None
