"""System and Lagrangian: what they make of the functions a user writes."""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import carom
from carom.errors import ShapeError
from carom.projection.metric import DenseMetric, DiagonalMetric, IdentityMetric


def no_force(t, q, v):
    return jnp.zeros_like(q)


def system_with(gap=None, **options):
    return carom.System(force=no_force, gap=gap, **options)


# Gaps and their derivatives.


def test_a_scalar_gap_is_a_vector_of_one():
    q = jnp.array([3.0, 4.0])
    scalar = system_with(lambda t, q: q[0] - t).normals(1.0, q)
    vector = system_with(lambda t, q: jnp.stack([q[0] - t])).normals(1.0, q)
    assert jax.tree_util.tree_all(jax.tree_util.tree_map(np.array_equal, scalar, vector))
    assert scalar.gap.shape == (1,)
    assert scalar.rate.shape == (1,)
    assert scalar.rows.shape == (1, 2)


def test_gap_may_be_a_list():
    system = carom.System(force=no_force, gap=lambda t, q: [q[0], 1.0 - q[0]])
    assert system.gaps(0.0, jnp.array([0.25])).tolist() == [0.25, 0.75]


def test_no_gap():
    contacts = system_with().normals(0.0, jnp.ones(3))
    assert contacts.gap.shape == (0,)
    assert contacts.rows.shape == (0, 3)
    assert contacts.velocity(jnp.ones(3)).shape == (0,)


def moving_gaps(t, q):
    """A ball that grows, a wall that swings, a curved floor."""
    return jnp.stack(
        [
            jnp.sqrt(jnp.sum(q**2)) - 0.3 * t,
            q[0] * jnp.cos(t) + q[1] * jnp.sin(t) + 2.0,
            q[-1] - jnp.sin(q[0]) * jnp.exp(-t),
        ]
    )


@pytest.mark.parametrize("d", [2, 3, 20])  # forward mode up to four times the number of gaps
def test_contacts_are_the_derivatives(d):
    system = system_with(moving_gaps)
    q, t, h = np.random.default_rng(d).normal(size=d), 0.7, 1e-6
    contacts, gap = eqx.filter_jit(system.normals)(t, q), eqx.filter_jit(system.gaps)
    rate = (gap(t + h, q) - gap(t - h, q)) / (2 * h)
    rows = np.stack([(gap(t, q + s) - gap(t, q - s)) / (2 * h) for s in h * np.eye(d)], axis=1)
    assert np.allclose(contacts.gap, moving_gaps(t, q), rtol=1e-15)
    assert np.allclose(contacts.rate, rate, rtol=0, atol=1e-8)
    assert np.allclose(contacts.rows, rows, rtol=0, atol=1e-8)


def test_velocity_is_the_rate_of_the_gap_along_the_motion():
    system, h = system_with(moving_gaps), 1e-6
    q, v = np.array([0.3, -1.0]), np.array([2.0, 0.5])
    gap = eqx.filter_jit(system.gaps)
    ahead, behind = (gap(0.7 + s, q + s * v) for s in (h, -h))
    found = eqx.filter_jit(system.normals)(0.7, q).velocity(v)
    assert np.allclose(found, (ahead - behind) / (2 * h), rtol=0, atol=1e-8)


# Mass, force, restitution.


def test_the_kind_of_mass_is_kept():
    q = jnp.ones(2)
    assert isinstance(system_with().metric(q), IdentityMetric)
    assert isinstance(system_with(mass=[1.0, 2.0]).metric(q), DiagonalMetric)
    assert isinstance(system_with(mass=[[2.0, 1.0], [1.0, 2.0]]).metric(q), DenseMetric)
    assert isinstance(system_with(mass=lambda q: q).metric(q), DiagonalMetric)
    assert isinstance(system_with(mass=lambda q: jnp.diag(q)).metric(q), DenseMetric)


def test_a_mass_of_whole_numbers_divides():
    assert system_with(mass=[4]).metric(jnp.ones(1)).solve(jnp.ones(1)).tolist() == [0.25]


def test_acceleration_is_the_force_divided_by_the_mass():
    q = jnp.array([2.0, 3.0])
    force = {"force": lambda t, q, v: jnp.array([6.0, 1.0])}
    for mass in ([2.0, 3.0], np.diag([2.0, 3.0]), lambda q: q, lambda q: jnp.diag(q)):
        found = carom.System(mass=mass, **force).acceleration(0.0, q, q)
        assert np.allclose(found, [3.0, 1 / 3], rtol=1e-15)


def test_a_scalar_force_in_one_dimension():
    system = carom.System(force=lambda t, q, v: -9.81)
    assert system.forces(0.0, jnp.ones(1), jnp.ones(1)).tolist() == [-9.81]


def test_restitution_is_spread_over_the_gaps():
    assert system_with(restitution=0.5).restitutions(3).tolist() == [0.5, 0.5, 0.5]
    assert system_with(restitution=[0.1, 0.9]).restitutions(2).tolist() == [0.1, 0.9]
    assert system_with().restitutions(1).tolist() == [0.0]
    assert system_with(restitution=1).restitutions(1).tolist() == [1.0]


def test_arguments_have_names():
    with pytest.raises(TypeError):
        carom.System(no_force)
    with pytest.raises(TypeError):
        carom.System(force=no_force, restitutoin=0.5)
    with pytest.raises(ShapeError, match="function of"):
        carom.System(force=-9.81)
    with pytest.raises(ShapeError, match="function of"):
        carom.System(force=no_force, gap=0.0)


# Whether the force uses the velocity.

Q = jnp.array([1.0, 2.0])


class Spring(eqx.Module):
    stiffness: jax.Array
    damping: jax.Array

    def __call__(self, t, q, v):
        return -self.stiffness * q - self.damping * v


def closure(k, velocity):
    return lambda t, q, v: -k * (v if velocity else q)


def velocity_in_the_condition(t, q, v):
    return jnp.where(v > 0.0, 1.0, -1.0)


def in_a_loop(t, q, v):
    return jax.lax.fori_loop(0, 3, lambda _, x: 0.5 * x + v, q)


USES = {
    "drag": lambda t, q, v: -v,
    "closure": closure(2.0, velocity=True),
    "module": Spring(jnp.array(1.0), jnp.array(0.0)),  # damping 0 is a value, not a program
    "one entry": lambda t, q, v: jnp.stack([v[1], q[0]]),
    "condition": velocity_in_the_condition,
    "jit": jax.jit(lambda t, q, v: -q - 0.1 * v),
    "jit in jit": jax.jit(lambda t, q, v: jax.jit(jnp.sin)(v) + q),
    "loop": in_a_loop,
    "cond": lambda t, q, v: jax.lax.cond(t > 0, lambda: q, lambda: v),
    "product": lambda t, q, v: q * jnp.sum(v * v),
}
DOES_NOT = {
    "constant": lambda t, q, v: jnp.array([0.0, -9.81]),
    "spring": lambda t, q, v: -q,
    "closure": closure(2.0, velocity=False),
    "forced": lambda t, q, v: jnp.cos(t) - q,
    "where": lambda t, q, v: jnp.where(q > 0.0, -q, 0.0),
    "shape only": lambda t, q, v: jnp.zeros_like(v) - q,
    "computed, unused": lambda t, q, v: (jnp.sin(v), -q)[1],
}


@pytest.mark.parametrize("force", USES.values(), ids=USES)
def test_force_uses_velocity(force):
    assert carom.System(force=force).force_uses_velocity(Q) is True


@pytest.mark.parametrize("force", DOES_NOT.values(), ids=DOES_NOT)
def test_force_does_not_use_velocity(force):
    assert carom.System(force=force).force_uses_velocity(Q) is False


def test_a_nested_program_counts_whole():
    """On the safe side: the fixed point is then sought, and found at once."""
    inner = jax.jit(lambda t, q, v: -q)
    assert carom.System(force=inner).force_uses_velocity(Q) is True
    assert carom.System(force=lambda t, q, v: inner(t, q, 0.0)).force_uses_velocity(Q) is False


def test_the_program_is_read_but_not_run():
    """A force that closes over a traced parameter, inside vmap."""

    def member(k):
        system = carom.System(force=lambda t, q, v: -k * q)
        assert system.force_uses_velocity(Q) is False
        return k

    jax.vmap(member)(jnp.arange(3.0))


# Lagrangian.


def polar_mass(q):
    return 2.0 * jnp.stack([1.0, q[0] ** 2])


def kepler_potential(q):
    return -3.0 / q[0]


def polar_force(t, q, v):
    (r, _), (dr, dth) = q, v
    return np.array([2.0 * r * dth**2 - 3.0 / r**2, -4.0 * r * dr * dth])


M1, M2, L1, L2, GRAVITY = 1.5, 0.5, 1.0, 0.7, 9.81


def pendulum_mass(q):
    c = M2 * L1 * L2 * jnp.cos(q[0] - q[1])
    return jnp.stack([jnp.stack([(M1 + M2) * L1**2, c]), jnp.stack([c, M2 * L2**2])])


def pendulum_potential(q):
    return -GRAVITY * ((M1 + M2) * L1 * jnp.cos(q[0]) + M2 * L2 * jnp.cos(q[1]))


def pendulum_force(t, q, v):
    s = M2 * L1 * L2 * np.sin(q[0] - q[1])
    weight = GRAVITY * np.array([(M1 + M2) * L1 * np.sin(q[0]), M2 * L2 * np.sin(q[1])])
    return np.array([-s * v[1] ** 2, s * v[0] ** 2]) - weight


CASES = [
    (polar_mass, kepler_potential, polar_force),
    (pendulum_mass, pendulum_potential, pendulum_force),
]


@pytest.mark.parametrize(("mass", "potential", "by_hand"), CASES, ids=["polar", "pendulum"])
def test_lagrangian_is_the_system_written_by_hand(mass, potential, by_hand):
    system = carom.Lagrangian(mass=mass, potential=potential)
    forces = eqx.filter_jit(system.forces)
    rng = np.random.default_rng(0)
    for _ in range(20):
        q, v = rng.uniform(0.5, 2.0, 2), rng.normal(size=2)
        assert np.allclose(forces(0.0, q, v), by_hand(0.0, q, v), rtol=1e-12, atol=1e-13)


def test_lagrangian_moves_as_the_system_written_by_hand():
    def force(t, q, v):
        s = M2 * L1 * L2 * jnp.sin(q[0] - q[1])
        weight = GRAVITY * jnp.stack([(M1 + M2) * L1 * jnp.sin(q[0]), M2 * L2 * jnp.sin(q[1])])
        return jnp.stack([-s * v[1] ** 2, s * v[0] ** 2]) - weight

    wall = {"gap": lambda t, q: L1 * jnp.sin(q[0]) + L2 * jnp.sin(q[1]) + 0.2, "restitution": 0.6}
    by_hand = carom.System(force=force, mass=pendulum_mass, **wall)
    derived = carom.Lagrangian(mass=pendulum_mass, potential=pendulum_potential, **wall)
    run = {"q0": [1.0, 0.5], "v0": [0.0, 0.0], "t1": 1.5, "dt": 1e-3}
    a, b = (carom.solve(s, carom.Moreau(), **run) for s in (by_hand, derived))
    assert len(a.impacts) >= 1
    assert np.max(np.abs(a.q - b.q)) < 1e-10


def test_lagrangian_of_a_constant_mass_has_no_inertial_terms():
    for mass in (None, [2.0, 3.0], np.array([[2.0, 0.5], [0.5, 3.0]])):
        system = carom.Lagrangian(mass=mass, potential=lambda q: q[0] ** 2 * q[1])
        found = system.forces(0.0, Q, jnp.array([5.0, 7.0]))
        assert np.allclose(found, [-4.0, -1.0], rtol=1e-15)
        assert system.force_uses_velocity(Q) is False


def test_lagrangian_adds_the_force():
    system = carom.Lagrangian(
        potential=lambda q: jnp.sum(q**2) / 2, force=lambda t, q, v: t - 0.5 * v
    )
    found = system.forces(10.0, Q, jnp.array([2.0, 4.0]))
    assert np.allclose(found, [10.0 - 1.0 - 1.0, 10.0 - 2.0 - 2.0])
    assert system.force_uses_velocity(Q) is True


def test_lagrangian_of_nothing_is_free_motion():
    assert carom.Lagrangian().forces(0.0, Q, Q).tolist() == [0.0, 0.0]


def test_a_potential_of_shape_one_is_taken():
    system = carom.Lagrangian(potential=lambda q: 9.81 * q)
    assert system.forces(0.0, jnp.ones(1), jnp.ones(1)).tolist() == [-9.81]


def test_lagrangian_keeps_gap_and_restitution():
    system = carom.Lagrangian(mass=polar_mass, gap=lambda t, q: 1.0 - q[0], restitution=0.25)
    assert float(system.restitution) == 0.25
    assert system.gaps(0.0, jnp.array([0.75, 0.0])).tolist() == [0.25]


def test_a_force_that_does_not_hash():
    """A dataclass with arrays is a natural way to write a force with parameters."""

    @dataclass(frozen=True)
    class Spring:
        stiffness: np.ndarray

        def __call__(self, t, q, v):
            return -self.stiffness * q

    system = carom.System(force=Spring(np.array([4.0, 9.0])), gap=lambda t, q: q[0] + 2.0)
    sol = carom.solve(system, carom.Moreau(), [1.0, 1.0], [0.0, 0.0], t1=1.0, dt=1e-3)
    np.testing.assert_allclose(sol.q[-1], np.cos([2.0, 3.0]), atol=5e-3)
