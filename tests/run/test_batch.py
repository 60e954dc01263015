"""vmap is the loop over its members, jit changes nothing, and no wrong gradient is handed out."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import carom
from carom import Maury, Moreau, PaoliSchatzman, Record
from carom.errors import RecordError

SCHEMES = {
    "Moreau": Moreau(),
    "Moreau implicit": Moreau(implicit=True),
    "Maury": Maury(),
    "PaoliSchatzman": PaoliSchatzman(),
}
each_scheme = pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES)


def pendulum(length, e):
    """A damped, driven pendulum that meets a wall; M(q) = length^2 (1 + q^2 / 10)."""
    return carom.System(
        force=lambda t, q, v: -9.81 * length * jnp.sin(q) - 0.1 * v + jnp.cos(2.0 * t),
        gap=lambda t, q: q + 0.1,
        mass=lambda q: length**2 * (1.0 + 0.1 * q**2),
        restitution=e,
    )


class Force(eqx.Module):
    length: jax.Array

    def __call__(self, t, q, v):
        return -9.81 * self.length * jnp.sin(q) - 0.1 * v + jnp.cos(2.0 * t)


class Mass(eqx.Module):
    length: jax.Array

    def __call__(self, q):
        return self.length**2 * (1.0 + 0.1 * q**2)


def wall(t, q):
    return q + 0.1


def alone(length, e):
    """The same pendulum with its length as data: all lengths share one compilation."""
    return carom.System(force=Force(length), gap=wall, mass=Mass(length), restitution=e)


RUN = {"q0": [0.1], "v0": [1.0], "t1": 4.0, "dt": 0.02}
SYSTEM = alone(jnp.array(1.0), 0.6)
RESTITUTIONS = jnp.array([0.9, 0.6])


def run(system=SYSTEM, scheme=SCHEMES["Moreau"], **changed):
    return carom.solve(system, scheme, **(RUN | changed))


def batch_of(function, *arguments):
    return jax.jit(jax.vmap(function))(*arguments)


def assert_same(a, b):
    for name in ("t", "q", "v", "gap", "impulse"):
        assert np.allclose(getattr(a, name), getattr(b, name), rtol=1e-9, atol=1e-10)
    assert int(a.stats.steps) == int(b.stats.steps)


@each_scheme
def test_vmap_is_the_loop(scheme):
    """Over parameters and initial data; the second member starts with an impact at t0."""
    length, e = jnp.array([0.7, 1.0]), jnp.array([0.9, 0.6])
    q0, v0 = jnp.array([[0.2], [-0.1]]), jnp.array([[2.0], [-1.0]])
    batch = batch_of(lambda l, e, q, v: run(pendulum(l, e), scheme, q0=q, v0=v), length, e, q0, v0)
    assert batch.ok
    assert batch.q.shape == (2, 201, 1)
    for i in range(2):
        single = run(alone(length[i], e[i]), scheme, q0=q0[i], v0=v0[i])
        assert_same(batch[i], single)
        assert np.array_equal(batch[i].impacts.step, single.impacts.step)
        assert len(single.impacts) > 2
    assert (np.asarray(batch.impulse[:, 0, 0]) > 0.0).tolist() == [False, True]


def test_vmap_over_parameters_only():
    batch = batch_of(lambda e: run(pendulum(1.0, e)), RESTITUTIONS)
    assert_same(batch[1], run())


def test_vmap_over_initial_data_only():
    v0 = jnp.array([[1.0], [2.0], [-3.0]])
    batch = batch_of(lambda v: run(v0=v), v0)
    for i in range(3):
        assert_same(batch[i], run(v0=v0[i]))


def weight(t, q, v):
    return jnp.array([-1.0, -2.0])


def quadrant(t, q):
    return q


def corner(e):
    """Two gaps, with a mass that couples them."""
    mass = jnp.array([[2.0, 0.5], [0.5, 1.0]])
    return carom.System(force=weight, gap=quadrant, mass=mass, restitution=e)


def test_vmap_with_several_gaps():
    start, e = {"q0": [0.2, 0.4], "v0": [0.0, 0.0]}, jnp.array([0.0, 0.5])
    batch = batch_of(lambda e: run(corner(e), **start), e)
    for i in range(2):
        assert_same(batch[i], run(corner(e[i]), **start))
    assert np.all(np.asarray(batch.impulse).sum(axis=1) > 0.0)


def test_plain_vmap():
    """As the documentation writes it, without jit."""
    batch = jax.vmap(lambda e: run(pendulum(1.0, e)))(RESTITUTIONS)
    assert_same(batch[1], run())


def test_vmap_over_what_only_the_force_or_the_mass_holds():
    """The first members are the same motion."""

    def spring(k, m):
        return carom.System(force=lambda t, q, v: -k * q, gap=wall, mass=m, restitution=0.5)

    stiffness = batch_of(lambda k: run(spring(k, [1.0])), jnp.array([10.0, 20.0]))
    mass = batch_of(lambda m: run(spring(10.0, m)), jnp.array([[1.0], [0.5]]))
    assert_same(mass[0], stiffness[0])
    assert_same(mass[0], run(spring(10.0, [1.0])))
    # half the mass is twice the stiffness, but for the impulses
    assert np.allclose(mass[1].q, stiffness[1].q, rtol=0, atol=1e-10)
    assert np.allclose(2.0 * mass[1].impulse, stiffness[1].impulse, rtol=1e-9, atol=1e-10)


def test_vmap_of_one_argument_of_two():
    solve = jax.jit(jax.vmap(lambda l, e: run(pendulum(l, e)), in_axes=(None, 0)))
    assert_same(solve(1.0, RESTITUTIONS)[1], run())


def test_members_do_not_see_each_other():
    """The same member among others, and at another place."""
    solve = jax.jit(jax.vmap(lambda e: run(pendulum(1.0, e)).q))
    a, b = solve(jnp.array([0.1, 0.6, 0.9])), solve(jnp.array([0.6, 1.0, 0.0]))
    assert np.array_equal(a[1], b[0])


# jit.


def test_jit_of_a_function_that_solves():
    @jax.jit
    def measured(length):
        sol = run(pendulum(length, 0.6))
        return jnp.max(jnp.abs(sol.q)), jnp.sum(sol.impulse)

    largest, received = measured(1.0)
    single = run()
    assert largest == pytest.approx(np.max(np.abs(single.q)), rel=1e-12)
    assert received == pytest.approx(np.sum(single.impulse), rel=1e-10)


def test_jit_returns_a_solution_and_compiles_once():
    traced = []

    @jax.jit
    def from_position(q0):
        traced.append(1)
        return run(q0=q0)

    for x in (0.1, 0.2, 0.3):
        sol = from_position(jnp.array([x]))
        single = run(q0=[x])
        assert isinstance(sol, carom.Solution)
        assert_same(sol, single)
        assert np.array_equal(sol.impacts.step, single.impacts.step)
    assert len(traced) == 1


def test_jit_without_arguments():
    """Nothing is traced but the run itself."""
    assert_same(jax.jit(lambda: run())(), run())


@pytest.mark.parametrize(
    "record",
    [Record(every=7), Record(final=True), Record(times=[0.5, 1.005, 2.0])],
    ids=["every", "final", "times"],
)
def test_records_in_a_batch(record):
    v0 = jnp.array([[1.0], [2.0]])
    batch = batch_of(lambda v: run(v0=v, record=record), v0)
    for i in range(2):
        assert_same(batch[i], run(v0=v0[i], record=record))


def test_the_table_of_impacts_of_a_batch_needs_every_step():
    with pytest.raises(RecordError, match="every step"):
        batch_of(
            lambda e: run(pendulum(1.0, e), record=Record(every=7, impacts=True)), RESTITUTIONS
        )
