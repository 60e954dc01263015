"""A new scheme and a new law are one class each, and run end to end without a change elsewhere."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import carom
import conformance
from carom.law import Coulomb, Law, Restitution, with_multipliers
from carom.projection import project
from carom.schemes.named import SCHEMES
from carom.schemes.scheme import Report, Scheme, State

G = 9.81


def weight(t, q, v):
    return jnp.array([0.0, -G])


def floor(t, q):
    return q[1]


def along(t, q, v):
    return v[0]


BALL = carom.System(force=weight, gap=floor, restitution=0.5)
ROUGH = carom.System(force=weight, gap=floor, slip=along, friction=0.3, restitution=0.5)
HELD = carom.System(force=weight, gap=floor, joint=lambda t, q: q[0])
q0, v0 = jnp.array([0.0, 0.0]), jnp.array([1.0, -2.0])


class Midpoint(Scheme):
    """Moreau's scheme with the force at the middle: what a reader would try first."""

    one_restitution: ClassVar[bool] = False
    events_per_step: ClassVar[int] = 0
    rigid: ClassVar[bool] = True
    frictional: ClassVar[bool] = True

    def start(self, world, t, q, v, dt):
        return State(t, q, v, world.memory(t, q))

    def step(self, world, state, dt):
        t, v, q = state.t, state.v, state.q
        metric = world.metric(q)
        middle = world.moved(q, v, 0.5 * dt)
        free = v + dt * metric.solve(world.forces(t + 0.5 * dt, middle, v))
        q1 = world.moved(q, 0.5 * (v + free), dt)
        contacts = world.contacts(t + dt, q1, state.memory)
        before = contacts.velocity(v)
        b, closed = contacts.bounced(before, dt), contacts.closed()
        found = world.project(metric, free, contacts, b, closed)
        memory = contacts.kept(found.multipliers)
        return State(t + dt, q1, found.point, memory), Report(
            impulse=found.multipliers,
            before=before,
            after=contacts.velocity(found.point),
            residual=found.residual,
            iterations=found.iterations,
            contraction=jnp.zeros(()),
            status=found.status,
            contacts=contacts,
        )


class Ratchet(Law):
    """A floor of scales: it holds against sliding one way only, by a convex law.

    K = { lam_n >= 0, -mu lam_n <= lam_t <= 0 }, K* = { w_n >= 0, w_n >= mu w_t }
    """

    e: Array
    mu: Array
    joints: int = eqx.field(static=True, default=0)

    @property
    def size(self):
        return 2

    def onto(self, lam):
        n, t = lam[:, 0], lam[:, 1]
        inside = (t <= 0.0) & (t >= -self.mu * n)
        on_axis = jnp.stack([jnp.maximum(n, 0.0), jnp.zeros_like(n)], 1)  # t > 0
        along = jnp.maximum((n - self.mu * t) / (1.0 + self.mu**2), 0.0)
        on_face = jnp.stack([along, -self.mu * along], 1)
        outside = jnp.where((t > 0.0)[:, None], on_axis, on_face)
        return jnp.where(inside[:, None], lam, outside)

    def project(self, metric, target, rows, b, active):
        p = b.shape[0]
        active = jnp.ones(p, bool) if active is None else active
        n, t = rows[:, 0], rows[:, 1]
        G = jnp.concatenate([n, n - self.mu[:, None] * t])
        c = jnp.concatenate([b[:, 0], b[:, 0] - self.mu * b[:, 1]])
        found = project(target, G, c, mass=metric, active=jnp.tile(active, 2))
        a, s = jnp.split(found.multipliers, 2)
        return with_multipliers(found, jnp.stack([a + s, -self.mu * s], 1))


def ratchet(e, mu, joints, size):
    return Ratchet(e, mu, joints)


SCALES = carom.System(force=weight, gap=floor, slip=along, friction=0.5, law=ratchet)


@pytest.mark.parametrize(
    "system", [BALL, ROUGH, HELD, SCALES], ids=["ball", "rough", "held", "scales"]
)
def test_systems_conform(system):
    conformance.conforming_world(system, 0.0, q0, v0)


def test_spheres_conform():
    from carom.worlds.spheres.world import World

    pile = carom.Spheres(
        [[0, 0, 0.5], [0, 0, 1.5], [3, 0, 1]],
        0.5,
        velocity=[[0.3, 0, -1], [0, 0.2, -2], [1, 0, 0]],
        walls=[carom.Plane((0, 0, 0), (0, 0, 1))],
        gravity=(0, 0, -G),
        restitution=0.5,
    )
    world = World(pile, 1e-3)
    conformance.conforming_world(world, 0.0, pile.position, pile.velocity)


@pytest.mark.parametrize(
    "law",
    [
        Restitution(jnp.array([0.0, 0.5, 0.0]), 1),
        Coulomb(jnp.array([0.0, 0.5, 0.0]), jnp.array([0.3, 2.0, 0.0]), True, 1),
        Coulomb(jnp.array([0.0, 0.5, 0.2]), jnp.array([0.3, 2.0, 0.0]), False),
        Ratchet(jnp.array([0.0, 0.5, 0.2]), jnp.array([0.3, 2.0, 0.0])),
    ],
    ids=["restitution", "plane", "space", "ratchet"],
)
def test_laws_conform(law):
    conformance.conforming_law(law, 3)


REQUIRED = {"Penalty": {"lam": 1e-4}}


@pytest.mark.parametrize("name", [*SCHEMES, "Midpoint"])
def test_schemes_conform(name):
    scheme = Midpoint() if name == "Midpoint" else SCHEMES[name](**REQUIRED.get(name, {}))
    system = ROUGH if scheme.frictional else BALL
    conformance.conforming_scheme(scheme, system, 0.0, jnp.array([0.0, 0.3]), v0, 1e-2)


@pytest.mark.parametrize(
    ("system", "scheme"), [(BALL, Midpoint()), (SCALES, carom.Moreau())], ids=["scheme", "law"]
)
def test_end_to_end(system, scheme, tmp_path):
    """Solved, recorded, stopped, resumed to the same bits."""
    start = {"q0": [0.0, 0.5], "v0": [1.0, 0.0], "t1": 2.0, "dt": 1e-3}
    whole = carom.solve(system, scheme, **start)
    assert whole.ok
    path = tmp_path / "run.nc"

    class Stopped(Exception):
        pass

    def stop(run):
        if run.step > 700:
            raise Stopped

    with pytest.raises(Stopped):
        carom.solve(system, scheme, **start, record=carom.Record(path), progress=stop)
    assert len(carom.load(path)) < len(whole)
    resumed = carom.solve(system, scheme, **start, record=carom.Record(path, resume=True))
    np.testing.assert_array_equal(resumed.q, whole.q)
    np.testing.assert_array_equal(resumed.impulse, whole.impulse)


def test_what_the_toys_do():
    """The ball falls as it should at second order before the impact; scales hold one way."""
    sol = carom.solve(BALL, Midpoint(), [0.0, 1.0], [0.0, 0.0], t1=0.4, dt=1e-2)
    np.testing.assert_allclose(sol.q[-1, 1], 1.0 - 0.5 * G * 0.16, atol=1e-12)
    kept = {}
    for speed in (2.0, -2.0):
        sol = carom.solve(SCALES, carom.Moreau(), [0.0, 0.0], [speed, 0.0], t1=1.0, dt=1e-3)
        kept[speed] = sol.v[-1, 0]
    assert kept[-2.0] == -2.0
    assert abs(kept[2.0]) < 1e-12
