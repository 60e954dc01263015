"""vmap is the loop over its members, jit changes nothing, and no wrong gradient is handed out."""

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


RUN = {"q0": [0.1], "v0": [1.0], "t1": 2.0, "dt": 0.01}
LENGTHS, RESTITUTIONS = jnp.array([0.7, 1.0]), jnp.array([0.9, 0.6])
SYSTEM = pendulum(1.0, 0.6)


def run(system=SYSTEM, scheme=SCHEMES["Moreau"], **changed):
    return carom.solve(system, scheme, **(RUN | changed))


def batch_of(function, *arguments):
    return jax.jit(jax.vmap(function))(*arguments)


def assert_same(a, b):
    for name in ("t", "q", "v", "gap", "impulse"):
        assert np.allclose(getattr(a, name), getattr(b, name), rtol=1e-9, atol=1e-10)
    assert int(a.stats.steps) == int(b.stats.steps)


@each_scheme
def test_vmap_over_parameters_is_the_loop(scheme):
    batch = batch_of(lambda l, e: run(pendulum(l, e), scheme), LENGTHS, RESTITUTIONS)
    assert batch.ok
    assert batch.q.shape == (2, 201, 1)
    for i in range(2):
        alone = run(pendulum(float(LENGTHS[i]), float(RESTITUTIONS[i])), scheme)
        assert_same(batch[i], alone)
        assert np.array_equal(batch[i].impacts.step, alone.impacts.step)
        assert len(alone.impacts) > 1


@each_scheme
def test_vmap_over_initial_data_is_the_loop(scheme):
    """The first member starts with an impact at t0, the second does not."""
    q0, v0 = jnp.array([[-0.1], [0.2]]), jnp.array([[-1.0], [2.0]])
    batch = batch_of(lambda q, v: run(SYSTEM, scheme, q0=q, v0=v), q0, v0)
    for i in range(2):
        assert_same(batch[i], run(SYSTEM, scheme, q0=q0[i], v0=v0[i]))
    assert (np.asarray(batch.impulse[:, 0, 0]) > 0.0).tolist() == [True, False]


def corner(e):
    """Two gaps that close together, with a mass that couples them."""
    return carom.System(
        force=lambda t, q, v: jnp.array([-1.0, -2.0]),
        gap=lambda t, q: q,
        mass=jnp.array([[2.0, 0.5], [0.5, 1.0]]),
        restitution=e,
    )


def test_vmap_with_several_gaps():
    start = {"q0": [0.2, 0.4], "v0": [0.0, 0.0]}
    batch = batch_of(lambda e: run(corner(e), **start), jnp.array([0.0, 0.5]))
    for i, e in enumerate((0.0, 0.5)):
        assert_same(batch[i], run(corner(e), **start))
    assert np.all(np.asarray(batch.impulse).sum(axis=1) > 0.0)


def test_plain_vmap():
    """As the documentation writes it, without jit."""
    batch = jax.vmap(lambda e: run(pendulum(1.0, e)))(RESTITUTIONS)
    assert_same(batch[1], run())


def test_vmap_over_what_only_the_force_or_the_mass_holds():
    def spring(k, m):
        return carom.System(
            force=lambda t, q, v: -k * q, gap=lambda t, q: q + 0.2, mass=m, restitution=0.5
        )

    k, m = jnp.array([10.0, 20.0]), jnp.array([[1.0], [3.0]])
    stiffness = batch_of(lambda k: run(spring(k, [1.0])), k)
    mass = batch_of(lambda m: run(spring(10.0, m)), m)
    assert_same(stiffness[1], run(spring(20.0, [1.0])))
    assert_same(mass[1], run(spring(10.0, [3.0])))
    assert_same(mass[0], stiffness[0])


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
    alone = run()
    assert largest == pytest.approx(np.max(np.abs(alone.q)), rel=1e-12)
    assert received == pytest.approx(np.sum(alone.impulse), rel=1e-10)


def test_jit_returns_a_solution_and_compiles_once():
    traced = []

    @jax.jit
    def from_position(q0):
        traced.append(1)
        return run(q0=q0)

    for x in (0.1, 0.2, 0.3):
        sol = from_position(jnp.array([x]))
        alone = run(q0=[x])
        assert isinstance(sol, carom.Solution)
        assert_same(sol, alone)
        assert np.array_equal(sol.impacts.step, alone.impacts.step)
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


# Gradients: a fixed-step scheme has the wrong one at an impact, so reverse mode gives none.


@each_scheme
def test_reverse_mode_is_refused(scheme):
    with pytest.raises(ValueError, match=r"(?i)reverse-mode"):
        jax.jit(jax.grad(lambda q0: run(SYSTEM, scheme, q0=q0).q[-1, 0]))(jnp.array([0.1]))


def test_reverse_mode_over_a_parameter_is_refused():
    with pytest.raises(ValueError, match=r"(?i)reverse-mode"):
        jax.jit(jax.grad(lambda length: run(pendulum(length, 0.6)).q[-1, 0]))(1.0)
