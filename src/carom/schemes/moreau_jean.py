"""The theta method of Moreau and Jean, for stiff structures."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from carom.arguments import suggesting
from carom.contracts import Equations
from carom.errors import KindError
from carom.projection.metric import metric_of, product
from carom.schemes.scheme import Report, Scheme, State, number
from carom.status import Status, failing, first_failure

_ROUNDING = 1e-15  # of the terms of (1), in the velocity that W^-1 makes of it
_PROJECTED = 4e-15  # of what is projected in (4), some units in the last place


@suggesting
class MoreauJean(Scheme):
    """The theta method, implicit in positions and velocities (Jean 1999; Acary, Brogliato 2008).

        M (v1 - v) = h ( theta f(t1, q1, v1) + (1 - theta) f(t, q, v) ) + grad g^T lam        (1)
        q1 = q + h ( theta v1 + (1 - theta) v )                                               (2)
        0 <= lam_i  perp  w_i(v1) + e_i w_i(v) >= 0    where g_i(t + h/2, q + h/2 v) <= 0     (3)

    with M, grad g and w = d_t g + grad g . v at the forecast (t + h/2, q + h/2 v).  Newton's
    method: with R(v1) the left minus the right of (1) without the reaction, and W the symmetric
    part of its derivative M - h theta df/dv - h^2 theta^2 df/dq,

        v1 <- proj_W( v1 - W^-1 R(v1),  { u : w_i(u) + e_i w_i(v) >= 0 in (3) } )             (4)

    until it repeats, which for springs and dampers, linear ones, it does at once.  These do not
    limit h; W must be positive definite, which asks for a small h where a force drives the motion
    apart, and what turns it without work does: a gyroscopic force M w x v asks for h theta w < 1.

    Of one step and the next, forecasts differ by h ( (theta + 1/2) v1 - (theta - 1/2) v ); so

        grad g_i . v1 + d_t g_i = - g_i / ( h (theta + 1/2) )                                 (5)

    closes a joint that is apart by g_i at the forecast, for any theta.

    Of order 2 in free motion for theta = 1/2, where the energy of linear springs is kept, else of
    order 1; through impacts of order 1.  theta in [1/2, 1]; theta = 1 damps what h does not
    resolve.
    """

    theta: Array = eqx.field(default=0.5, converter=number)  # in [1/2, 1]
    needs: ClassVar[type] = Equations
    one_restitution: ClassVar[bool] = False
    rigid: ClassVar[bool] = True
    frictional: ClassVar[bool] = True
    jointed: ClassVar[bool] = True

    def __check_init__(self):
        if not isinstance(self.theta, Tracer) and not (
            np.ndim(self.theta) == 0 and self.theta is not None and 0.5 <= self.theta <= 1.0
        ):
            raise KindError(
                f"MoreauJean has theta={self.theta}: it must be one number in [0.5, 1]; below 0.5 "
                "the method is not stable"
            )

    def start(self, world, t, q, v, dt):
        return State(t, q, v)

    def step(self, world, state, dt):
        t, q, v, theta = state.t, state.q, state.v, self.theta
        t1, ahead = t + dt, q + 0.5 * dt * v
        metric, contacts = world.metric(ahead), world.contacts(t + 0.5 * dt, ahead)  # (3)
        f, before = world.forces(t, q, v), contacts.velocity(v)
        freely = v + dt * metric.solve(f)
        closed = contacts.closed(metric, dt * freely)
        b = contacts.bounced(before, dt * (theta + 0.5))  # (5)

        def reached(v1):  # (2)
            return q + dt * (theta * v1 + (1.0 - theta) * v)

        def pushed(v1):
            return dt * (theta * world.forces(t1, reached(v1), v1) + (1.0 - theta) * f)

        def short(v1):  # R
            return metric.apply(v1 - v) - pushed(v1)

        def caught_up(v1):  # (4)
            slope = jax.jacfwd(short)(v1)
            W = metric_of(0.5 * (slope + slope.T))
            target = v1 - W.solve(short(v1))
            found = world.project(W, target, contacts, b, closed)
            terms = product(jnp.abs(slope), jnp.abs(v1) + jnp.abs(reached(v1)) / (theta * dt))
            noise = _ROUNDING * jnp.max(jnp.abs(W.solve(terms + jnp.abs(pushed(v1)))))
            noise += (found.residual + _PROJECTED) * jnp.max(jnp.abs(target))
            status = first_failure(failing(~W.ok(), Status.contraction), found.status)
            return _Caught(
                found.point, found.multipliers, found.residual, found.iterations, status, noise
            )

        solved = world.fixed_point(
            caught_up, v, iterate=True, newton=False, noise=lambda found: found.noise
        )
        found = solved.value
        return State(t1, reached(found.point), found.point), Report(
            impulse=found.multipliers,
            before=before,
            after=contacts.velocity(found.point),
            residual=found.residual,
            iterations=found.iterations + solved.turns,
            contraction=solved.contraction,
            status=first_failure(contacts.status(metric, closed, found.point), solved.status),
            contacts=contacts,
        )


class _Caught(eqx.Module):
    point: Array  # (d,) v1
    multipliers: Array  # (p, m)
    residual: Array
    iterations: Array
    status: Any
    noise: Array  # () how well v1 is known
