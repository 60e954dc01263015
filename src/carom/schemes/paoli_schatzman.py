"""The position scheme of Paoli and Schatzman."""

from typing import Any, ClassVar

import equinox as eqx
from jax import Array

from carom.arguments import suggesting
from carom.contracts import Positions
from carom.projection.nearest import SMALL
from carom.schemes.scheme import Report, Scheme, State
from carom.status import Status, first_failure

_ROUNDING = 1e-15  # of P_K relative to a position, where a gap pushes: some units in the last place


@suggesting
class PaoliSchatzman(Scheme):
    """The position scheme (PS99), carrying the discrete velocity V^m = (U^{m+1} - U^m) / h.

        W = U^m + ((1-e) h V^{m-1} + h^2 F) / (1+e)                                           (1)
        V^m = V^{m-1} + h F + (1+e) (P_K(W) - W) / h                                          (2)
        U^{m+1} = U^m + h V^m                                                                 (3)
        F = M^-1 f(t_m, U^m, (V^m + V^{m-1}) / 2),   M = M(U^m)                               (4)

    which is U^{m+1} = -e U^{m-1} + (1+e) P_K(W) without the rounding of a three-term recurrence:
    the mean (U^{m+1} + e U^{m-1}) / (1+e) is on K.  A state is (t_m, U^m, V^m): a step does (3),
    then (1), (2) at the new position.  It starts with V = v0 + h/2 F(t0, q0, v0), kept from
    entering the gaps that are closed at t0, as if it came from U^{-1} = q0 - h V without a force:

        W = q0 + h (1-e) / (1+e) V,    V^0 = V + (1+e) (P_K(W) - W) / h                       (5)

    so that an impact within the first step is one like any other; without (5) a start at e = 0
    could leave K, which no step does.  What q0 overlaps already is let by in (5).

    P_K is the nearest point of K = { g >= 0 } in the metric frozen at U^m, or with
    ``geodesics=True`` in the Riemannian distance of M(q) (PS99's own); the two differ by second
    order in the distance, which is O(h).  K is re-linearised until the point is on it, to
    ``tolerance``, at most ``iterations`` times.

    A moving K is taken at the time (t_{m+1} + e t_{m-1}) / (1+e) of the mean that must lie in it:
    the only choice for which a steady motion of K is a change of frame.

    (4) is implicit when the force depends on the velocity: a fixed point (contracting for
    gamma L h < 2, PS99 3.11), and Newton's method where it does not contract.
    """

    geodesics: bool = False  # P_K in the Riemannian distance of M(q)
    newton: bool = True  # Newton's method where the fixed point does not contract
    tolerance: float = 1e-13  # of P_K, relative
    iterations: int = 50  # at most, of P_K
    needs: ClassVar[type] = Positions
    one_restitution: ClassVar[bool] = True
    rigid: ClassVar[bool] = True
    jointed: ClassVar[bool] = True
    staggered: ClassVar[bool] = True
    pushes_at_start: ClassVar[bool] = True

    def start(self, world, t, q, v, dt):
        return self.first(world, t, q, v, dt)[0]

    def first(self, world, t, q, v, dt):
        """The start, and the report of what it pushed."""
        metric, contacts = world.metric(q), world.contacts(t, q, world.memory(t, q))
        half = v + 0.5 * dt * metric.solve(world.forces(t, q, v))
        kept = world.project(metric, half, contacts, contacts.rate, contacts.closed())
        memory = contacts.kept(kept.multipliers)
        found = self._turned(world, metric, t, q, kept.point, dt, 0.0, memory, since=(t, q))  # (5)
        report = _report(world, metric, kept.point, found)
        return State(t, q, found.point, found.memory), report

    def step(self, world, state, dt):
        e, v = world.common_restitution(), state.v
        t1, q1 = state.t + dt, world.moved(state.q, v, dt)  # (3)
        metric = world.metric(q1)

        def velocity(v1, memory=state.memory):
            F = metric.solve(world.forces(t1, q1, 0.5 * (v1 + v)))  # (4)
            return self._turned(world, metric, t1, q1, v, dt, F, memory)

        def noise(found):  # a residual of P_K, in the velocity that (2) makes of it
            known = found.residual + _ROUNDING * (found.iterations > 0)
            return (1.0 + e) * known * found.size / dt

        iterate = world.force_uses_velocity(q1)
        how = {"newton": self.newton, "noise": noise, "memory": state.memory}
        solved = world.fixed_point(velocity, v, iterate=iterate, **how)
        found = solved.value
        return State(t1, q1, found.point, found.memory), _report(world, metric, v, found, solved)

    def _turned(self, world, metric, t, q, v, dt, F, memory, since=None):
        """V^m of V^{m-1} = v at U^m = q."""
        e = world.common_restitution()
        W = q + ((1.0 - e) * dt * v + dt**2 * F) / (1.0 + e)  # (1)
        motion = dt * (world.xp.abs(v) + dt * world.xp.abs(F))
        t = t + dt * (1.0 - e) / (1.0 + e)
        P = world.nearest(
            metric,
            t,
            W,
            tolerance=self.tolerance,
            iterations=self.iterations,
            geodesics=self.geodesics,
            memory=memory,
            since=since,
            motion=motion,
        )
        v1 = v + dt * F + (1.0 + e) * P.shift / dt  # (2)
        impulse = (1.0 + e) * P.lam / dt
        at, size = (t, W + P.shift), world.xp.max(world.xp.abs(q) + motion) + SMALL
        known = P.residual, size, P.iterations, P.status
        return _Velocity(v1, impulse, *known, at, P.contacts, P.memory)


def _report(world, metric, v, found, solved=None) -> Report:
    """Of V^m found from V^{m-1} = v, by a fixed point or at once."""
    change, turns, contraction = 0.0, 0, world.xp.zeros(())
    contacts = world.normals(*found.at) if found.contacts is None else found.contacts
    if solved is not None:
        change, turns, contraction = solved.change, solved.turns, solved.contraction
    return Report(
        impulse=found.multipliers[:, None],
        before=contacts.velocity(v).reshape(-1, 1),
        after=contacts.velocity(found.point).reshape(-1, 1),
        residual=world.xp.maximum(found.residual, change),
        iterations=found.iterations + turns,
        contraction=contraction,
        status=first_failure(
            found.status,
            contacts.status(metric, False, found.point),
            found.status if solved is None else solved.status,
        ),
        contacts=contacts,
    )


class _Velocity(eqx.Module):
    point: Array  # (d,) V^m
    multipliers: Array  # (p,) impulse
    residual: Array
    size: Array  # [m] what it is relative to
    iterations: Array
    status: Status
    at: tuple[Any, Any]  # the time and place of P_K(W)
    contacts: Any
    memory: Any
