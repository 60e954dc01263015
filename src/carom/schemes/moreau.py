"""The velocity scheme of Dzonou, Monteiro Marques and Paoli."""

from typing import ClassVar

from carom.schemes.scheme import Report, Scheme, State
from carom.status import first_failure


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
    """

    implicit: bool = False
    newton: bool = False
    one_restitution: ClassVar[bool] = False
    events_per_step: ClassVar[int] = 0
    rigid: ClassVar[bool] = True
    frictional: ClassVar[bool] = True
    jointed: ClassVar[bool] = True

    def start(self, world, t, q, v, dt):
        return State(t, q, v)

    def step(self, world, state, dt):
        t1, q1, v = state.t + dt, world.moved(state.q, state.v, dt), state.v  # (1)
        metric, contacts = world.metric(q1), world.contacts(t1, q1)
        closed, before = contacts.closed(), contacts.velocity(v)
        b = contacts.bounced(before, dt)

        def caught_up(v1):  # (4)
            free = v + dt * metric.solve(world.forces(t1, q1, v1))
            return world.project(metric, free, contacts, b, closed)

        iterate = self.implicit and world.force_uses_velocity(q1)
        solved = world.fixed_point(caught_up, v, iterate=iterate, newton=self.newton)
        found = solved.value
        return State(t1, q1, found.point), Report(
            impulse=found.multipliers,
            before=before,
            after=contacts.velocity(found.point),
            residual=world.xp.maximum(found.residual, solved.change),
            iterations=found.iterations + solved.turns,
            contraction=solved.contraction,
            status=first_failure(contacts.status(metric, closed, found.point), solved.status),
            contacts=contacts,
        )
