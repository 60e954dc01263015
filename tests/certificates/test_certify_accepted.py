"""Certificates: what must be accepted."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import carom
from carom import errors, models
from carom.certificates.certify import certify, certify_arrays
from carom.models.uniqueness import bumps, primitives
from certified import (
    ACCEPTED,
    SCENES,
    SCHEMES,
    SHORT_STEPS,
    exact_ball,
    failed,
    schemes_for,
    solved,
)


def test_every_model_is_in_the_table():
    assert {make().name for make in ACCEPTED.values()} == set(
        models.catalogue()
    ) - SHORT_STEPS - SCENES


def accept(problem, names, all_steps):
    """None is refused; those whose true error is small are accepted, those with a large one not."""
    for name in names:
        for steps in all_steps:
            sol = solved(problem, schemes_for(problem)[name], steps)
            certificate = certify(sol, q0=problem.q0, v0=problem.v0)
            exact = problem.exact(np.clip(sol.t, problem.t0, problem.t1))[0]
            a = jax.vmap(problem.system.acceleration)(sol.t, sol.q, sol.v)
            still = np.max(np.abs(exact)) + (problem.t1 - problem.t0) ** 2 * np.max(np.abs(a))
            size = max(np.max(np.ptp(exact, axis=0)), 1e-6 * still)  # of what rests: E6
            error = np.max(np.abs(sol.q - exact)) / size
            said = f"{name}, {steps} steps, true error {error}\n{certificate}"
            assert certificate.ok is not False, said
            assert certificate.ok or error > 0.01, said
            assert not (certificate.ok and error > 0.3), said


MOVED = [name for name in models.catalogue() if name not in SHORT_STEPS | SCENES]
ONE_EACH = [(m, list(SCHEMES)[k % 3]) for k, m in enumerate(MOVED)]
OTHERS = [
    ("bouncing_ball", "EventDriven"),
    ("bouncing_ball", "Penalty"),
    ("disc", "EventDriven"),
    ("disc", "Penalty, fixed steps"),
    ("vibrating_table", "Penalty, fixed steps"),
]


@pytest.mark.parametrize(("model", "scheme"), [*ONE_EACH[::5], *OTHERS[:2]])
def test_a_solution_of_some_models_is_accepted(model, scheme):
    accept(getattr(models, model)(), [scheme], (307, 1009))


@pytest.mark.slow
@pytest.mark.parametrize(("model", "scheme"), ONE_EACH + OTHERS)
def test_a_solution_of_every_model_is_accepted(model, scheme):
    accept(getattr(models, model)(), [scheme], (307, 1009))


@pytest.mark.slow
@pytest.mark.parametrize("title", ACCEPTED)
def test_every_scheme_on_every_model_is_accepted(title):
    problem = ACCEPTED[title]()
    accept(problem, schemes_for(problem), (307, 1009, 8009))


@pytest.mark.slow
@pytest.mark.parametrize("title", sorted(SHORT_STEPS))
def test_models_that_need_short_steps_are_accepted(title):
    bar = title == "elastic_bar"
    problem = models.elastic_bar(elements=20) if bar else models.nonunique()
    accept(problem, schemes_for(problem), (1249 if bar else 40009,))


@pytest.mark.slow
def test_what_a_scheme_says_of_itself_is_used():
    """The tolerance of an integrator, the duration of a contact; a file or vmap forgets them."""
    problem = models.bouncing_ball(e=0.5, t1=1.0)
    loose = solved(problem, carom.EventDriven(rtol=1e-5, atol=1e-7), 211)
    assert certify(loose).ok
    wall = carom.Penalty(duration=1e-2, substeps=1)
    sol = solved(problem, wall, 1009)
    certificate = certify(sol)
    assert certificate.ok
    assert certificate["feasibility"].value > 0.0  # inside a contact, where no record is kept
    assert certify_arrays(problem.system, sol.t, sol.q, sol.v, sol.impulse).ok is False
    assert certify_arrays(problem.system, sol.t, sol.q, sol.v, sol.impulse, resolution=1e-2).ok

    def one(duration):
        scheme = carom.Penalty(duration=duration, substeps=1)
        return solved(problem, scheme, 1009)

    batch = jax.vmap(one)(jnp.array([1e-2, 2e-2]))
    with pytest.raises(errors.RecordError, match="resolution=duration"):
        certify(batch[0], problem.system)
    assert certify(batch[0], problem.system, resolution=1e-2).ok


def test_sparse_records_of_a_yielding_wall():
    problem = models.bouncing_ball(e=0.5, t1=1.0)
    wall = carom.Penalty(duration=1e-2, substeps=1)
    sol = solved(problem, wall, 2003, record=carom.Record(every=3))
    certificate = certify(sol)
    assert certificate["sign"].ok, certificate
    assert certificate["feasibility"].ok, certificate
    assert np.min(sol.impulse) < 0.0  # it does pull
    turned = certify(eqx.tree_at(lambda s: s.impulse, sol, -sol.impulse))
    assert turned["sign"].ok is False


@pytest.mark.slow
@pytest.mark.parametrize("dt", [0.005, 0.04, 2 / 7, 1.0])
def test_an_impact_on_what_rests_at_any_spacing_of_records(dt):
    """The contact lasts before the blow and after it: momentum was given to the way after alone."""
    stack = carom.System(
        mass=[1.0, 0.3],
        force=lambda t, q, v: jnp.array([-9.81, -0.3 * 9.81]),
        gap=lambda t, q: jnp.array([q[0] - 0.1 - 0.02 * jnp.sin(20 * t), q[1] - q[0] - 0.2]),
        restitution=0.6,
    )
    scheme = carom.EventDriven(rtol=1e-11, atol=1e-13)
    sol = carom.solve(stack, scheme, [0.5, 0.9], [0.0, 0.0], t1=2.0, dt=dt)
    assert certify(sol).ok
    wrong = eqx.tree_at(lambda s: s.v, sol, sol.v * (1.0 + 1e-3 * (sol.t > 1.0))[:, None])
    assert certify(wrong).ok is not True


def test_both_solutions_of_a_problem_without_uniqueness():
    """P13: at rest under a force that only presses, or bouncing since ever."""
    bouncing, b = models.nonunique(bouncing=True), bumps(0.5)
    system = bouncing.system
    inside = np.linspace(-1.0, 1.0, 60)
    t = np.concatenate([[0.0], *(c + w * inside for c, w in zip(b.centre, b.width, strict=True))])
    flights = np.stack([b.start, b.centre - b.width], axis=-1)
    t = np.unique(np.concatenate([t, *(np.linspace(*flight, 40) for flight in flights)]))
    t = t[(t < 0.97) & (np.diff(t, append=1.0) > 1e-14)]
    q, v = (x[:, 0] for x in bouncing.exact(t))
    impulse = np.zeros_like(t)
    for time in bouncing.impact_times[:-1]:  # the speed V_n / e turns into V_n
        impulse[np.searchsorted(t, time)] += bouncing.exact(time)[1][0] * (1.0 + 1.0 / 0.5)
    certificate = certify_arrays(system, t, q[:, None], v[:, None], impulse[:, None])
    assert certificate.ok, certificate
    assert np.max(q) > 0.1

    step, _ = primitives()
    total = np.sum(b.size * step(np.clip((t[:, None] - b.centre) / b.width, -1.0, 1.0)), axis=-1)
    reaction = np.diff(total, prepend=0.0)[:, None]
    at_rest = certify_arrays(system, t, 0 * q[:, None], 0 * v[:, None], reaction)
    assert at_rest.ok, at_rest
    # and neither the one with the reaction of the other
    assert certify_arrays(system, t, q[:, None], v[:, None], reaction).ok is False
    assert certify_arrays(system, t, 0 * q[:, None], 0 * v[:, None], impulse[:, None]).ok is False


def test_exact_motion_with_both_sides_of_each_impact():
    certificate = certify_arrays(*exact_ball())
    assert certificate.ok, certificate


def test_an_impact_at_the_start():
    problem = models.bouncing_ball(e=0.8, t1=2.0)
    for scheme in SCHEMES.values():
        sol = carom.solve(problem.system, scheme, [0.0], [-2.0], t1=0.5, dt=1e-3)
        assert sol.impulse[0, 0] > 0.0
        assert certify(sol).ok
        assert certify(sol, q0=[0.0], v0=[-2.0]).ok
        assert failed(certify(sol, v0=[-2.1])) != []
        assert failed(certify(sol, q0=[0.1])) != []


def test_without_gaps():
    spring = carom.System(force=lambda t, q, v: -q)
    sol = carom.solve(spring, carom.Moreau(), [1.0], [0.0], t1=6.0, dt=1e-2)
    assert certify(sol).ok
    stiffer = carom.System(force=lambda t, q, v: -1.05 * q)
    assert "momentum" in failed(certify(sol, stiffer))


def test_what_each_step_hides_the_sum_shows():
    """On a circle under f = -q, a constant force of a part in a thousand is not in the system."""
    spring, pushed = (
        carom.System(force=lambda t, q, v, bias=bias: jnp.array([bias, 0.0]) - q)
        for bias in (0.0, 1e-3)
    )
    sol = carom.solve(pushed, carom.Moreau(), [1.0, 0.0], [0.0, 1.0], t1=30.0, dt=1e-3)
    certificate = certify(sol, spring)
    assert certificate["momentum"].ok
    assert certificate["momentum, run"].ok is False


@pytest.mark.slow
def test_unequal_restitution_has_no_clause_of_passivity():
    system = carom.System(
        force=lambda t, q, v: jnp.array([0.0, -1.0]),
        gap=lambda t, q: jnp.stack([q[1], 1.0 - q[0]]),
        restitution=[0.5, 0.9],
    )
    sol = carom.solve(system, carom.Moreau(), [0.0, 0.5], [0.7, 0.0], t1=3.0, dt=1e-3)
    assert {0, 1} == set(sol.impacts.constraint)
    certificate = certify(sol)
    assert certificate.ok, certificate
    with pytest.raises(KeyError, match="passivity"):
        certificate["passivity"]


def _two_feet():
    """One foot leaves the floor from inside while the other one is struck."""
    side = jnp.array([-1.0, 1.0])
    block = carom.System(
        mass=[1.0, 0.02],
        force=lambda t, q, v: jnp.array([-9.81, 0.0]),
        gap=lambda t, q: q[0] + 0.3 * side * jnp.sin(q[1]) - 0.1 * jnp.cos(q[1]),
        restitution=0.3,
    )
    return block, [0.11, 0.02], [0.0, 0.0]


def test_two_feet_that_take_turns():
    block, *start = _two_feet()
    sol = carom.solve(block, carom.Moreau(), *start, t1=0.06, dt=2e-5)
    assert carom.certify(sol).verdict == "a solution"


@pytest.mark.slow
def test_the_error_of_two_feet_that_take_turns():
    block, *start = _two_feet()
    sol = carom.solve(block, carom.Moreau(), *start, t1=0.06, dt=2e-5)
    exact = carom.solve(block, carom.EventDriven(), *start, t1=0.06, dt=1e-3)
    assert np.max(np.abs(sol.q[-1] - exact.q[-1])) < carom.certify(sol).error
