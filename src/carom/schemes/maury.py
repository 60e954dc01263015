"""The linearised-constraint scheme of Maury, as analysed by Bernicot and Lefebvre-Lepot."""

import functools
from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import numpy as np

from carom.arguments import suggesting
from carom.errors import KindError
from carom.schemes.scheme import Report, Scheme, State
from carom.status import first_failure


@suggesting
class Maury(Scheme):
    """Linearised constraints (BL10, (1.11) to (1.15)), with restitution.

        f  = (1/h) integral of f(s, q, v) over [t, t1]                                        (1)
        u  = proj( v + h M^-1 f,  { u : g_i + h grad g_i . u >= 0 for all i } ),  M = M(q)    (2)
        q1 = q + h u,         g_i and grad g_i at (t1, q)                                     (3)
        M (u - v) = h f + sum_i lam_i grad g_i,    lam_i >= 0, zero unless row i is tight     (4)

    If every g_i(t, .) is convex, g_i(t1, q1) >= g_i + h grad g_i . u >= 0: no step leaves K.

    Without restitution v1 = u.  With it the position still moves by (3) and the velocity leaves by
    the impact law, from v_free = v + h M^-1 f, over the rows that pushed:

        v1 = proj( v_free, { x : w_i(x) + e_i w_i(v_free) >= 0  where lam_i > 0 } )           (5)

    with w = d_t g + grad g . x.  A gap with e_i = 0 keeps its row of (2) in (5).

    The mean (1) is taken at ``points`` Gauss points, exact for forces that are polynomials of
    degree 2 points - 1 in time; a pulse much shorter than h / points can pass between them.  With
    ``points="adaptive"`` they grow denser where f changes, until the mean is off by at most
    ``tolerance`` of the largest |f| in the step; what is shorter than h / 20 can still pass.  A
    System's own ``mean(t, t1, q, v)``, (d,), takes their place: for a pulse, or a force that is
    infinite at an instant.  Where the mean is exact, e = 0 is BL10's scheme to the letter.
    """

    points: int | str = 2  # of Gauss, for the mean (1), or "adaptive"
    tolerance: float = 1e-9  # of the mean (1) where it is adaptive, of the largest |f| in a step
    mean: Callable | None = eqx.field(default=None, static=True)  # one's own (1); None: Gauss

    one_restitution: ClassVar[bool] = False
    rigid: ClassVar[bool] = True
    at_ends: ClassVar[bool] = False
    frictional: ClassVar[bool] = True
    jointed: ClassVar[bool] = True
    gluey: ClassVar[bool] = True
    keeps_open: ClassVar[bool] = True

    def __check_init__(self):
        known = isinstance(self.points, int) and 1 <= self.points <= 1000
        if not known and self.points != "adaptive":
            raise KindError(
                f"Maury has points={self.points!r}: give a whole number from 1 to 1000, or "
                '"adaptive"'
            )
        if not 1e-13 <= self.tolerance <= 1e-2:
            raise KindError(f"Maury has tolerance={self.tolerance!r}: it lies in [1e-13, 1e-2]")
        if self.mean is not None and not callable(self.mean):
            raise KindError(f"Maury has mean={self.mean!r}: give a function of (t, t1, q, v)")

    def start(self, world, t, q, v, dt):
        return State(t, q, v, world.memory(t, q))

    def step(self, world, state, dt):
        t, q, v, xp = state.t, state.q, state.v, world.xp
        metric = world.metric(q)
        f = _mean_force(self, world, t, q, v, dt)  # (1)
        free = v + dt * metric.solve(f)
        contacts, moved = world.keep_open(metric, t + dt, q, free, dt, state.memory)  # (2)
        q1 = world.moved(q, moved.point, dt)  # (3)

        before = contacts.velocity(free)
        bounces = contacts.restitution(before) > 0.0
        pushed = xp.any(moved.multipliers != 0.0, axis=1)
        b = xp.where(bounces[:, None], contacts.bounced(before, dt), contacts.ahead(dt))
        left = world.if_any(  # (5)
            pushed & bounces,
            lambda: world.project(metric, free, contacts, b, pushed),
            lambda: moved,
        )
        memory = contacts.kept(left.multipliers)
        return State(t + dt, q1, left.point, memory), Report(
            impulse=left.multipliers,
            before=before,
            after=contacts.velocity(left.point),
            residual=xp.maximum(moved.residual, left.residual),
            iterations=moved.iterations + left.iterations,
            contraction=xp.zeros(()),
            status=first_failure(
                contacts.status(metric, contacts.gap < 0.0, left.point),
                moved.status,
                left.status,
            ),
            contacts=contacts,
        )


def _mean_force(scheme, world, t, q, v, dt):
    """(1)"""
    if scheme.mean is not None:
        return scheme.mean(t, t + dt, q, v) + 0.0 * q
    if scheme.points == "adaptive":
        return world.mean(lambda s: world.forces(s, q, v), t, dt, scheme.tolerance)
    return sum(
        0.5 * w * world.forces(t + 0.5 * (1.0 + s) * dt, q, v) for s, w in _gauss(scheme.points)
    )


@functools.cache
def _gauss(points):
    """Gauss's points in [-1, 1] and their weights."""
    x, weights = np.polynomial.legendre.leggauss(int(points))
    return tuple(zip(x.tolist(), weights.tolist(), strict=True))
