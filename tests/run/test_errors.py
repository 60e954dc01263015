"""What is wrong is said with its value and its remedy, and nothing computed before it is lost."""

import math
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import carom
from by_trait import OF_ANY_WORLD
from carom import Moreau, PaoliSchatzman, Record, Status, System, errors

NAMES = [type(scheme).__name__ for scheme in OF_ANY_WORLD]
RUN = {"q0": [1.0], "v0": [0.0], "t1": 1.0, "dt": 0.01}


def fall(t, q, v):
    return -9.81 * jnp.ones_like(q)


def floor(t, q):
    return q


def two_walls(t, q):
    return jnp.stack([q[0], 10.0 - q[0]])


BALL = System(force=fall, gap=floor, restitution=0.5)


def run(system=BALL, scheme=OF_ANY_WORLD[0], **changed):
    return carom.solve(system, scheme, **(RUN | changed))


def raises(kind, *words):
    """``kind`` with all of the words in its text, in this order."""
    return pytest.raises(kind, match="(?s)" + ".*".join(map(re.escape, words)))


# The hierarchy.


def test_every_error_is_a_carom_error():
    found = [e for e in vars(errors).values() if isinstance(e, type)]
    assert len(found) >= 12
    assert all(issubclass(e, carom.CaromError) for e in found)
    assert carom.CaromError is errors.CaromError


def test_findings_about_the_input_are_value_errors():
    for name in ("Shape", "Restitution", "Mass", "Admissibility", "Time", "Record", "NonFinite"):
        assert issubclass(getattr(errors, f"{name}Error"), ValueError)


def test_findings_during_a_run_are_runtime_errors():
    for name in ("NonFinite", "Gradient", "Infeasible", "Convergence", "Contraction"):
        assert issubclass(getattr(errors, f"{name}Error"), errors.RunError)
    assert issubclass(errors.RunError, RuntimeError)


def test_every_status_says_what_to_do():
    remedies = ("check", "take", "write", "keep", "ask")
    for name in ("mass", "nonfinite", "gradient", "infeasible", "unconverged", "contraction"):
        assert any(word in Status[getattr(Status, name)] for word in remedies)


# Initial position and velocity.


@pytest.mark.parametrize("scheme", OF_ANY_WORLD, ids=NAMES)
def test_q0_outside(scheme):
    with raises(errors.AdmissibilityError, "-0.25", "gap 0 is -0.25", ">= 0", "Move q0"):
        run(scheme=scheme, q0=[-0.25])


def test_q0_outside_names_the_worst_gap():
    with raises(errors.AdmissibilityError, "gap 1 is -2"):
        run(System(force=fall, gap=two_walls), q0=[12.0])


def test_a_gap_that_is_negative_by_rounding_is_closed():
    """0.3 - 0.1 - 0.2 < 0: closed, and an inward velocity is an impact at once."""
    system = System(force=fall, gap=lambda t, q: q - 0.1 - 0.2, restitution=0.5)
    assert 0.3 - 0.1 - 0.2 < 0.0
    sol = run(system, q0=[0.3], v0=[-1.0])
    assert sol.v[0, 0] == pytest.approx(0.5)
    assert sol.ok


def test_rounding_grows_with_the_numbers():
    far = System(force=fall, gap=lambda t, q: q - 1e6, restitution=0.5)
    assert run(far, q0=[1e6 - 1e-9]).ok
    with raises(errors.AdmissibilityError, "gap 0 is -0.01"):
        run(far, q0=[1e6 - 1e-2])


@pytest.mark.parametrize("scheme", OF_ANY_WORLD, ids=NAMES)
def test_an_initial_velocity_out_of_k_is_an_impact_at_t0(scheme):
    sol = run(scheme=scheme, q0=[0.0], v0=[-2.0], dt=1e-3)
    assert sol.v[0, 0] == pytest.approx(1.0, abs=1e-15)
    assert sol.impulse[0, 0] == pytest.approx(3.0, abs=1e-15)
    first = sol.impacts[0]
    assert (first.time, first.step, first.constraint) == (0.0, 0, 0)
    assert first.velocity_before == -2.0
    assert first.velocity_after == pytest.approx(1.0, abs=1e-15)
    assert first.impulse == pytest.approx(3.0, abs=1e-15)
    assert sol.at(0.1)[0][0] == pytest.approx(0.1 - 9.81 * 0.1**2 / 2, abs=2e-3)


def test_a_velocity_out_of_an_open_gap_is_none():
    sol = run(q0=[1e-3], v0=[-2.0])
    assert sol.v[0, 0] == -2.0
    assert sol.impulse[0, 0] == 0.0


# Restitution.


@pytest.mark.parametrize("e", [-0.1, 1.1, math.nan, [0.5, 2.0]])
def test_restitution_outside_0_1(e):
    with raises(errors.RestitutionError, repr(e), "[0, 1]"):
        System(force=fall, gap=two_walls, restitution=e)


def test_restitution_of_the_wrong_shape():
    with raises(errors.ShapeError, "(1, 1)", "one per gap"):
        System(force=fall, gap=floor, restitution=[[0.5]])
    with raises(errors.ShapeError, "(2,)", "1 gap"):
        run(System(force=fall, gap=floor, restitution=[0.5, 0.5]))


def test_unequal_restitution_needs_another_scheme_than_paoli_schatzman():
    with raises(errors.RestitutionError, "[0.5 0.6]", "PaoliSchatzman", "use Moreau or Maury"):
        run(System(force=fall, gap=two_walls, restitution=[0.5, 0.6]), PaoliSchatzman())


def test_equal_restitution_in_a_vector_does_for_paoli_schatzman():
    assert run(System(force=fall, gap=two_walls, restitution=[0.5, 0.5]), PaoliSchatzman()).ok


# Shapes.


def test_q0_and_v0_of_the_wrong_shape():
    for changed in ({"q0": 1.0}, {"q0": [[1.0]]}, {"v0": [0.0, 0.0]}, {"q0": [], "v0": []}):
        with raises(errors.ShapeError, "q0 has shape", "(d,)", "jax.vmap"):
            run(**changed)


def test_q0_missing():
    with raises(errors.ShapeError, "q0=[...]"):
        carom.solve(BALL, Moreau(), t1=1.0, dt=0.1)


def test_force_of_the_wrong_shape():
    with raises(errors.ShapeError, "force returns shape (3,)", "must be (1,)"):
        run(System(force=lambda t, q, v: jnp.zeros(3), gap=floor))
    with raises(errors.ShapeError, "force returns shape ()", "must be (2,)"):
        run(System(force=lambda t, q, v: 0.0, gap=floor), q0=[1.0, 1.0], v0=[0.0, 0.0])


def test_gap_of_the_wrong_shape():
    with raises(errors.ShapeError, "gap returns shape (2, 2)", "scalar or (p,)"):
        run(System(force=fall, gap=lambda t, q: jnp.ones((2, 2))))


def test_mass_of_the_wrong_shape():
    for mass in (2.0, np.ones((2, 3)), np.ones((2, 2, 2))):
        with raises(errors.ShapeError, f"mass has shape {np.shape(mass)}", "give None, (d,)"):
            System(force=fall, mass=mass)
    for mass in ([1.0, 2.0], lambda q: 2.0, lambda q: jnp.ones(3), lambda q: jnp.ones((1, 3))):
        with raises(errors.ShapeError, "mass has shape", "must be (1,) or (1, 1)"):
            run(System(force=fall, gap=floor, mass=mass))
    with raises(errors.ShapeError, "mass has shape (2,)", "for q0 of shape (3,) it must be (3,)"):
        run(System(force=lambda t, q, v: -q, mass=[1.0, 2.0]), q0=[0.0] * 3, v0=[0.0] * 3)


# Mass.


def test_mass_that_is_not_symmetric():
    with raises(errors.MassError, "not symmetric", "0.5", "(M + M.T) / 2"):
        System(force=fall, mass=[[1.0, 0.5], [0.0, 1.0]])


def test_mass_that_is_not_positive_definite():
    with raises(errors.MassError, "lowest eigenvalue is -1", "eliminated"):
        System(force=fall, mass=[[1.0, 2.0], [2.0, 1.0]])
    with raises(errors.MassError, "entry -3", "positive"):
        System(force=fall, mass=[1.0, -3.0])
    with raises(errors.MassError, "not finite", "nan"):
        System(force=fall, mass=[1.0, math.nan])


class MassOf(eqx.Module):
    """A mass that depends on q in name only."""

    mass: jax.Array

    def __call__(self, q):
        return self.mass


def test_mass_of_q0():
    def start(mass):
        return run(System(force=fall, mass=MassOf(jnp.array(mass))), q0=[2.0, 1.0], v0=[0.0, 0.0])

    with raises(errors.MassError, "mass(q0)", "[2. 1.]", "entry -2"):
        start([1.0, -2.0])
    with raises(errors.MassError, "mass(q0)", "not symmetric"):
        start([[1.0, 0.5], [0.0, 1.0]])
    with raises(errors.MassError, "mass(q0)", "eigenvalue"):
        start([[1.0, 2.0], [2.0, 1.0]])


@pytest.mark.parametrize("scheme", OF_ANY_WORLD, ids=NAMES)
def test_mass_that_degenerates_on_the_way(scheme):
    """M(q) = q falls through 0."""
    system = System(force=fall, gap=lambda t, q: q + 10.0, mass=lambda q: q)
    with raises(errors.MassError, "not positive definite", "check mass(q)", "q = [") as caught:
        run(system, scheme)
    sol = caught.value.solution
    assert 0.3 < sol.t[-1] < 0.6
    assert np.all(sol.q > -0.2)
    assert np.isfinite(sol.q).all()


# Times.


@pytest.mark.parametrize("dt", [0.0, -0.1, math.nan, math.inf])
def test_dt(dt):
    with raises(errors.TimeError, f"dt is {dt:g}", "must be"):
        run(dt=dt)


def test_t1_before_t0():
    with raises(errors.TimeError, "t1 = 1", "t0 = 2"):
        run(t0=2.0)
    with raises(errors.TimeError, "t1 = 1", "t0 = 1"):
        run(t0=1.0)
    with raises(errors.TimeError, "t1 is nan", "finite"):
        run(t1=math.nan)


def test_dt_that_is_traced():
    with raises(errors.TimeError, "dt is traced", "plain numbers"):
        jax.jit(lambda dt: run(dt=dt).q)(0.1)


# What is not finite.


def test_nothing_finite_at_the_start():
    with raises(errors.NonFiniteError, "force is [nan]", "t0 = 0", "q0 = [1.]"):
        run(System(force=lambda t, q, v: jnp.nan * q, gap=floor))
    with raises(errors.NonFiniteError, "gap is [inf]", "q0 = [1.]"):
        run(System(force=fall, gap=lambda t, q: jnp.inf * q))
    with raises(errors.NonFiniteError, "gradient of gap is [[inf]]"):
        run(System(force=fall, gap=lambda t, q: jnp.sqrt(q)), q0=[0.0])


def test_q0_that_is_not_finite():
    with raises(errors.NonFiniteError, "q0", "[nan]"):
        run(q0=[math.nan])


def test_v0_that_is_not_finite():
    with raises(errors.NonFiniteError, "v0", "nan"):
        run(v0=[math.nan])


class BreaksDown(eqx.Module):
    """Gravity until a time, then NaN; the time is data, so that all share one compilation."""

    when: jax.Array

    def __call__(self, t, q, v):
        return jnp.where(t > self.when, jnp.nan, -9.81) * jnp.ones_like(q)


def breaking_down_at(when):
    return System(force=BreaksDown(jnp.asarray(when)), gap=floor, restitution=0.5)


BREAKS_DOWN = breaking_down_at(0.305)
NEVER = breaking_down_at(math.inf)


@pytest.mark.parametrize("scheme", OF_ANY_WORLD, ids=NAMES)
def test_force_that_breaks_down_on_the_way(scheme, tmp_path):
    """Everything up to there is in the exception and in the file, as if the run had ended there."""
    path = tmp_path / "run.nc"
    with raises(errors.NonFiniteError, "check force", "of 100", "t = 0.", str(path)) as caught:
        run(BREAKS_DOWN, scheme, record=Record(path))
    sol = caught.value.solution
    assert 0.28 < sol.t[-1] < 0.31
    assert len(sol) == int(sol.stats.steps) + 1
    whole = run(NEVER, scheme)
    assert np.array_equal(sol.q, whole.q[: len(sol)])
    assert np.array_equal(sol.v, whole.v[: len(sol)])
    saved = carom.load(path)
    for name in ("t", "q", "v", "gap", "impulse"):
        assert np.array_equal(getattr(saved, name), getattr(sol, name))
    assert bool(saved.status == Status.nonfinite)


@pytest.mark.parametrize(
    "record", [Record(every=7), Record(final=True), Record(times=[0.1, 0.2, 0.9])]
)
def test_the_last_good_state_is_kept_whatever_is_recorded(record):
    with pytest.raises(errors.NonFiniteError) as caught:
        run(BREAKS_DOWN, record=record)
    sol = caught.value.solution
    assert sol.t[-1] == pytest.approx(0.3)
    assert sol.q[-1, 0] == pytest.approx(1.0 - 9.81 * 0.01**2 * 29 * 30 / 2)
    assert np.isfinite(sol.q).all()
    assert np.all(np.diff(sol.t) > 0.0)


def test_throw_false_returns_what_there_is():
    sol = run(BREAKS_DOWN, throw=False)
    assert not sol.ok
    assert bool(sol.status == Status.nonfinite)
    assert sol.t[-1] == pytest.approx(0.3)
    assert "nonfinite" in str(sol)


def test_throw_false_still_raises_for_the_input():
    with pytest.raises(errors.AdmissibilityError):
        run(q0=[-1.0], throw=False)


def test_throw_false_returns_what_is_not_solved_at_the_start():
    """In a corner with mu > 1 an impact that bounces from both walls has no answer."""
    corner = System(
        force=lambda t, q, v: 0.0 * q,
        gap=lambda t, q: q,
        slip=lambda t, q, v: v[::-1],
        friction=2.0,
        restitution=0.8,
    )
    given = {"q0": [0.0, 0.0], "v0": [-1.0, -0.5], "t1": 1.0, "dt": 0.1}
    sol = carom.solve(corner, carom.Moreau(), **given, throw=False)
    assert bool(sol.status == Status.unconverged)
    np.testing.assert_array_equal(sol.v, [given["v0"]])
    with pytest.raises(errors.ConvergenceError, match="step 0 of 10") as caught:
        carom.solve(corner, carom.Moreau(), **given)
    assert caught.value.solution.t == [0.0]


# Gradients.


def test_a_gap_whose_gradient_vanishes_at_the_start():
    held = System(force=fall, gap=lambda t, q: q + 1.0, joint=lambda t, q: q**2)
    with raises(errors.GradientError, "joint 0", "q0 = [0.]", "holds nothing"):
        run(held, q0=[0.0])
    with raises(errors.GradientError, "gap 0", "q0 = [0.]", "r - R, not (r - R)**2"):
        run(System(force=fall, gap=lambda t, q: q**2), q0=[0.0])


def test_a_gap_whose_gradient_vanishes_on_the_way():
    """The gap closes at t = 0.3 and depends on no coordinate."""
    system = System(force=fall, gap=lambda t, q: 0.3005 - t + 0.0 * q)
    with raises(errors.GradientError, "gradient", "direction", "(r - R)**2") as caught:
        run(system)
    assert caught.value.solution.t[-1] == pytest.approx(0.3)


# Contraction.

DAMPED = System(force=lambda t, q, v: -300.0 * v, gap=floor, restitution=0.5)
THROWN = {"v0": [1.0]}


def named_dt(scheme):
    with raises(errors.ContractionError, "newton=True", "contraction factor", "would do") as caught:
        run(DAMPED, scheme, **THROWN)
    return float(re.search(r"dt = (\S+) would do", str(caught.value))[1])


def test_a_fixed_point_that_does_not_contract_names_a_dt():
    """300 dt = 3 is the factor of DMP09 (11); it is 1 at dt = 0.00333."""
    assert 0.001 < named_dt(Moreau(implicit=True)) < 1 / 300


@pytest.mark.parametrize(
    "scheme", [Moreau(implicit=True), PaoliSchatzman(newton=False)], ids=["Moreau", "Paoli"]
)
def test_the_dt_that_is_named_does(scheme):
    assert run(DAMPED, scheme, dt=named_dt(scheme), **THROWN).ok


def test_a_dt_well_below_does():
    sol = run(DAMPED, Moreau(implicit=True), dt=2e-3, **THROWN)
    assert sol.ok
    assert sol.stats.contraction == pytest.approx(0.6, rel=1e-2)
    steps = np.arange(len(sol))
    assert np.allclose(sol.v[:, 0], 1.6**-steps, rtol=1e-9, atol=1e-12)


def test_newton_needs_no_smaller_dt():
    """Backward Euler: v1 = v / (1 + 3)."""
    sol = run(DAMPED, Moreau(implicit=True, newton=True), **THROWN)
    assert np.allclose(sol.v[:5, 0], 4.0 ** -np.arange(5), rtol=1e-12)


# Constraints that cannot all hold.


class Closing(eqx.Module):
    """Two walls that start at -1 and 1."""

    speed: jax.Array

    def __call__(self, t, q):
        return jnp.stack([q[0] + 1.0 - self.speed * t, 1.0 - self.speed * t - q[0]])


def no_force(t, q, v):
    return jnp.zeros_like(q)


def closing(speed):
    return System(force=no_force, gap=Closing(jnp.asarray(speed)))


CLOSING = closing(2.0)


@pytest.mark.parametrize("scheme", OF_ANY_WORLD, ids=NAMES)
def test_two_walls_that_close_on_each_other(scheme, tmp_path):
    """They meet at t = 0.5; the ball, at 0.2, is first hit at t = 0.4."""
    path = tmp_path / "walls.nc"
    with raises(errors.InfeasibleError, "no point", "smaller dt", "step ", "of 100") as caught:
        run(CLOSING, scheme, q0=[0.2], record=Record(path))
    sol = caught.value.solution
    assert 0.48 <= sol.t[-1] <= 0.5 + 1e-12
    assert np.allclose(sol.q[sol.t < 0.39], 0.2, rtol=0, atol=1e-15)
    assert sol.v[-1, 0] == pytest.approx(-2.0)
    assert np.array_equal(carom.load(path).q, sol.q)


# In a batch: a status for each, and no exception.


def member_fields(sol):
    return sol.t, sol.q, sol.v, sol.gap, sol.impulse, sol.velocity_before, sol.velocity_after


def solved(system_of, values, **changed):
    """A batch over the parameter of a system."""
    return jax.jit(jax.vmap(lambda x: run(system_of(x), **changed)))(jnp.asarray(values))


def assert_others_finish(batch, alone, failing):
    """Members equal their single runs; the failed one has its status and finite numbers."""
    for i, single in enumerate(alone):
        if i != failing:
            assert batch[i].ok
            for a, b in zip(member_fields(batch[i]), member_fields(single), strict=True):
                assert np.allclose(a, b, rtol=1e-12, atol=1e-13)
    assert not batch.ok
    assert all(np.isfinite(a).all() for a in member_fields(batch[failing]))


@pytest.mark.parametrize("scheme", OF_ANY_WORLD, ids=NAMES)
def test_one_member_breaks_down(scheme):
    batch = solved(breaking_down_at, [2.0, 0.305, 3.0], scheme=scheme)
    assert_others_finish(batch, [run(NEVER, scheme)] * 3, failing=1)
    assert bool(batch[1].status == Status.nonfinite)
    failed = run(BREAKS_DOWN, scheme, throw=False)
    good = int(batch.stats.steps[1])
    assert good == int(failed.stats.steps)
    assert np.allclose(batch.q[1, : good + 1], failed.q, rtol=1e-12, atol=1e-13)
    assert np.all(np.asarray(batch.q[1, good:]) == batch.q[1, good])  # its last good state


def test_one_member_is_infeasible():
    how = {"q0": [0.2]}
    batch = solved(closing, [0.5, 2.0], **how)
    assert_others_finish(batch, [run(closing(0.5), **how)], failing=1)
    assert bool(batch[1].status == Status.infeasible)


def test_one_member_does_not_contract():
    def damped(c):
        return System(force=lambda t, q, v: -c * v, gap=floor, restitution=0.5)

    how = {"scheme": Moreau(implicit=True), "v0": [1.0]}
    batch = solved(damped, [10.0, 300.0], **how)
    assert_others_finish(batch, [run(damped(10.0), **how)], failing=1)
    assert bool(batch[1].status == Status.contraction)


def of_mass(m):
    return System(force=fall, gap=floor, mass=m)


def test_one_member_has_a_negative_mass():
    batch = solved(of_mass, [[1.0], [-1.0]])
    assert batch[0].ok
    assert bool(batch[1].status == Status.mass)
    assert np.isfinite(batch.q).all()
    assert np.isfinite(batch.v).all()


def assert_second_is_not_ok(batch):
    assert batch[0].ok
    assert not batch[1].ok


from_positions = jax.jit(jax.vmap(lambda q0: run(q0=q0)))


def test_a_member_that_starts_at_nan_is_not_ok():
    assert_second_is_not_ok(from_positions(jnp.array([[1.0], [math.nan]])))


def test_a_member_that_starts_outside_is_not_ok():
    assert_second_is_not_ok(from_positions(jnp.array([[1.0], [-1.0]])))


def test_a_member_with_a_restitution_of_two_is_not_ok():
    batch = solved(lambda e: System(force=fall, gap=floor, restitution=e), [0.5, 2.0])
    assert_second_is_not_ok(batch)
