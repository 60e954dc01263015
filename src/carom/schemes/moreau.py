"""The velocity scheme of Dzonou, Monteiro Marques and Paoli."""

from dataclasses import replace
from typing import ClassVar

from carom.arguments import suggesting
from carom.schemes.scheme import Report, Scheme, State
from carom.status import first_failure

_TOLERANCE, _TURNS = 1e-13, 50  # of the nearest point of K
_INSIDE = 1e-12  # of |q|, the depth at which a corrected contact is left
_ROUNDING = 4e-15  # of the free velocity, some units in the last place
_TINY = 1e-300  # keeps 0 / 0 at 0


@suggesting
class Moreau(Scheme):
    """Moreau's catching-up in velocities (DMP09, section 2).

        q1 = q + h v                                                                          (1)
        v1 = -e v + (1 + e) proj( v + h/(1+e) M^-1 f,  V(t1, q1) ),      M = M(q1)            (2)
        V(t, q) = { u : d_t g_i + grad g_i . u >= 0  where g_i(t, q) <= 0 }                   (3)

    with f = f(t1, q1, v), or f(t1, q1, v1) when ``implicit``.  With w = d_t g + grad g . u the
    relative normal velocity, (2) is the same as

        v1 = proj( v + h M^-1 f,  { u : w_i(u) + e_i w_i(v) >= 0  where g_i(t1, q1) <= 0 } )  (4)

    which is what is computed: it also gives a meaning to one e per gap (Newton's law for each).

    An implicit force is found by the fixed point of DMP09 (Lemma 1), which contracts for dt below
    a bound (DMP09, 11); above it the run stops with a ContractionError that says which dt would
    do.  With ``newton=True`` Newton's method takes over there instead.

    (3) acts on velocities, so that positions drift: a point that slides for a time t along the
    inside of a circle of radius R, from a speed v0 and without a force, leaves it as

        r = R (1 + 2 h v0^2 t / R^2)^(1/4),     |v| = v0 R / r.                               (5)

    With ``correct=True`` the position is then brought back, the velocity kept, to the nearest point

        q1 <- P(q1) of { x : g_i(t1, x) + h max(0, grad g_i . v1) >= 0 },  in the metric M    (6)

    where a blow has not opened a gap: what bounces leaves by itself, and lifting it out would gain
    energy.  A depth of 1e-12 |q1| is left, which keeps a contact closed.  The circle is then kept,
    and without restitution

        |v| = v0 / sqrt(1 + h v0^2 t / R^2).                                                  (7)
    """

    implicit: bool = False  # the force at the end of the step
    newton: bool = False  # Newton's method where the fixed point does not contract
    correct: bool = False  # positions brought back to the boundary, (6)
    one_restitution: ClassVar[bool] = False
    rigid: ClassVar[bool] = True
    frictional: ClassVar[bool] = True
    jointed: ClassVar[bool] = True

    def start(self, world, t, q, v, dt):
        return State(t, q, v, world.memory(t, q))

    def step(self, world, state, dt):
        t1, q1, v = state.t + dt, world.moved(state.q, state.v, dt), state.v  # (1)
        metric, contacts = world.metric(q1), world.contacts(t1, q1, state.memory)
        iterate = self.implicit and world.force_uses_velocity(q1)

        def free(v1):
            return v + dt * metric.solve(world.forces(t1, q1, v1))

        freely, before = free(v), contacts.velocity(v)
        closed, b = contacts.closed(metric, dt * freely), contacts.bounced(before, dt)

        def caught_up(v1):  # (4)
            return world.project(metric, free(v1) if iterate else freely, contacts, b, closed)

        def noise(found):  # of a v1 that is the difference of larger ones, to a residual
            return (found.residual + _ROUNDING) * world.xp.max(world.xp.abs(freely))

        how = {"iterate": iterate, "newton": self.newton, "noise": noise}
        solved = world.fixed_point(caught_up, v, **how)
        found, status = solved.value, contacts.status(metric, closed, solved.value.point)
        residual = world.xp.maximum(found.residual, solved.change)
        report = Report(
            impulse=found.multipliers,
            before=before,
            after=contacts.velocity(found.point),
            residual=residual,
            iterations=found.iterations + solved.turns,
            contraction=solved.contraction,
            status=first_failure(status, solved.status),
            contacts=contacts,
        )
        memory = contacts.kept(found.multipliers)
        if self.correct:
            far = dt * (world.xp.abs(v) + world.xp.abs(freely - v))
            leaving = dt * found.point
            q1, report, memory = _corrected(world, metric, t1, q1, leaving, far, report, memory)
        return State(t1, q1, found.point, memory), report


def _corrected(world, metric, t, q, leaving, motion, report, memory):
    """(6)"""
    how = {"tolerance": _TOLERANCE, "iterations": _TURNS, "leaving": leaving, "motion": motion}
    P = world.nearest(metric, t, q, memory=memory, **how)
    far, inside = (world.xp.max(world.xp.abs(x), initial=0.0) for x in (P.shift, _INSIDE * q))
    part = 1.0 - inside / world.xp.maximum(far, inside + _TINY)
    report = replace(
        report,
        residual=world.xp.maximum(report.residual, P.residual),
        iterations=report.iterations + P.iterations,
        status=first_failure(report.status, P.status),
    )
    return world.moved(q, P.shift, part), report, P.memory
