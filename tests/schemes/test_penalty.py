"""Penalty: restitution, contact time, O(sqrt(lam)) to the impact law, several gaps, curved K."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import carom
from carom import models
from carom.errors import PenaltyError

LAMS = np.array([1e-4, 1e-5, 1e-6, 1e-7])


def run(problem, lam, steps=200, substeps=None):
    dt = (problem.t1 - problem.t0) / steps
    return carom.solve(
        problem.system,
        carom.Penalty(lam=lam, substeps=substeps),
        problem.q0,
        problem.v0,
        t0=problem.t0,
        t1=problem.t1,
        dt=dt,
    )


def strike(e):
    return carom.System(force=lambda t, q, v: jnp.zeros(1), gap=lambda t, q: q, restitution=e)


@pytest.mark.parametrize("e", [0.2, 0.5, 0.8, 1.0])
def test_exit_speed_is_e_times_entry_speed(e):
    """P12, without force: the ratio is e at every lam."""
    system = strike(e)
    for lam in (1e-3, 1e-6):
        sol = carom.solve(system, carom.Penalty(lam=lam), [0.1], [-1.0], t1=1.0, dt=0.1)
        assert sol.v[-1, 0] == pytest.approx(e, rel=1e-4)


@pytest.mark.parametrize(("e", "eps"), [(0.5, 0.2154537619662468), (0.8, 0.07085030019536805)])
def test_duration_of_a_contact(e, eps):
    """pi sqrt(lam) / sqrt(1 - eps^2), and a wall asked for by that duration is the same wall."""
    lam = 1e-4
    duration = np.pi * np.sqrt(lam / (1 - eps**2))
    system = strike(e)
    sol = carom.solve(system, carom.Penalty(lam=lam), [0.1], [-1.0], t1=0.2, dt=1e-4)
    inside = sol.t[sol.gap[:, 0] < 0.0]
    assert np.ptp(inside) == pytest.approx(duration, abs=3e-4)
    same = carom.solve(system, carom.Penalty(duration=duration), [0.1], [-1.0], t1=0.2, dt=1e-4)
    np.testing.assert_allclose(same.q, sol.q, atol=1e-9)


@pytest.mark.parametrize("e", [0.5, 0.8, 1.0])
def test_converges_as_the_root_of_lam(e):
    """P1: sup |q| falls as sqrt(lam), through the accumulation for e = 0.5."""
    problem = models.bouncing_ball(e=e, t1=1.6)
    errors = [np.max(np.abs(s.q - problem.exact(s.t)[0])) for s in (run(problem, x) for x in LAMS)]
    slope = np.polyfit(np.log(LAMS), np.log(errors), 1)[0]
    assert abs(slope - 0.5) < 0.05


def test_without_restitution():
    """e = 0 is critical damping: the point comes to rest on the floor."""
    problem = models.bouncing_ball(e=0.0, t1=1.5)
    for lam in (1e-4, 1e-6, 1e-8):
        sol = run(problem, lam)
        late = sol.t > 1.0
        # the floor yields by g lam under the weight
        np.testing.assert_allclose(sol.q[late, 0], -9.81 * lam, rtol=1e-2, atol=1e-9)


def test_curved_wall_and_sliding():
    problem = models.disc(e=0.5)
    errors = [
        np.max(np.abs(s.q - problem.exact(s.t)[0])) for s in (run(problem, x) for x in LAMS[:3])
    ]
    assert np.polyfit(np.log(LAMS[:3]), np.log(errors), 1)[0] == pytest.approx(0.5, abs=0.1)


# ---- a fixed number of steps --------------------------------------------------------------------


def sup_error(problem, sol):
    return np.max(np.abs(sol.q - problem.exact(sol.t)[0]))


@pytest.mark.parametrize("substeps", [1, 5])
def test_fixed_steps_converge_as_the_root_of_lam(substeps):
    """P1 through its accumulation, with contacts far shorter than a step (8e-3)."""
    problem, lams = models.bouncing_ball(e=0.5, t1=1.6), np.array([1e-4, 1e-6, 1e-8, 1e-10])
    errors = [sup_error(problem, run(problem, x, substeps=substeps)) for x in lams]
    assert abs(np.polyfit(np.log(lams), np.log(errors), 1)[0] - 0.5) < 0.01
    assert errors[1] < 0.01


@pytest.mark.parametrize("e", [0.2, 0.8])
def test_fixed_steps_leave_with_e_times_the_speed(e):
    for lam in (1e-2, 1e-6):
        scheme = carom.Penalty(lam=lam, substeps=1)
        sol = carom.solve(strike(e), scheme, [0.1], [-1.0], t1=1.0, dt=0.01)
        assert sol.v[-1, 0] == pytest.approx(e, rel=1e-9)
        assert sol.stats.iterations == 100


@pytest.mark.parametrize(
    "problem",
    [models.disc(e=0.5, t1=3.0), pytest.param(models.line_polar(), marks=pytest.mark.slow),
     pytest.param(models.vibrating_table(e=0.5), marks=pytest.mark.slow),
     pytest.param(models.row_of_balls(), marks=pytest.mark.slow)],
    ids=lambda p: p.name,
)  # fmt: skip
def test_fixed_steps_tend_to_the_adaptive_ones(problem):
    """Curved K with sliding, M(q), a moving gap, several gaps: of first order at least, down to
    what the adaptive steps get wrong at the face of the wall."""
    adaptive = run(problem, 1e-4, steps=100)
    errors = [
        np.max(np.abs(run(problem, 1e-4, 100 * k, substeps=2).q[::k] - adaptive.q))
        for k in (2, 4, 8, 16, 32, 64)
    ]
    assert errors[-1] < 5e-4
    above = np.array(errors)[np.array(errors) > 1e-4]
    assert len(above) < 2 or np.all(np.diff(np.log2(above)) < -0.9)


@pytest.mark.parametrize("roots", [1.5, 16.0])
def test_fixed_steps_resolve_several_gaps_at_once(roots):
    """Pendulums that touch, struck by another, in steps of so many sqrt(lam)."""
    problem, lam = models.newtons_cradle(t1=2.0), 1e-4
    steps = round(problem.t1 / (roots * lam**0.5))
    adaptive, fixed = run(problem, lam, steps), run(problem, lam, steps, substeps=1)
    assert np.sum(np.max(adaptive.impulse, axis=0) > 0.1) == 4
    np.testing.assert_allclose(fixed.q, adaptive.q, atol=1e-6)


def test_the_force_is_taken_along_the_motion_in_contact():
    """At rest the push of a step is h f(q), not that of the motion without the wall."""
    pull = carom.System(force=lambda t, q, v: 4.0 * q - 1.0, gap=lambda t, q: q, restitution=0.5)
    scheme = carom.Penalty(lam=1e-6, substeps=1)
    sol = carom.solve(pull, scheme, [0.0], [0.0], t1=4.0, dt=0.05)
    np.testing.assert_allclose(sol.impulse[-20:, 0], 0.05, rtol=2e-5)


def test_a_batch_of_fixed_steps_is_a_loop_over_its_members():
    def one(e, lam):
        system = carom.System(force=_gravity, gap=lambda t, q: q, restitution=e)
        scheme = carom.Penalty(lam=lam, substeps=2)
        return carom.solve(system, scheme, [1.0], [0.0], t1=2.0, dt=0.01)

    es, lams = jnp.array([0.0, 0.5, 1.0]), jnp.array([1e-4, 1e-6, 1e-8])
    batch = jax.jit(jax.vmap(one))(es, lams)
    for k in range(3):
        alone = one(float(es[k]), float(lams[k]))
        np.testing.assert_allclose(batch.q[k], alone.q, atol=1e-11)
        np.testing.assert_allclose(batch.impulse[k], alone.impulse, atol=1e-9)
        assert batch.stats.penetration[k] == pytest.approx(alone.stats.penetration)


def _gravity(t, q, v):
    return jnp.array([-9.81])


def test_fixed_steps_report_momentum_and_penetration():
    problem = models.bouncing_ball(e=0.5, t1=3.0)
    fixed, adaptive = run(problem, 1e-6, substeps=3), run(problem, 1e-6)
    assert fixed.impulse.sum() == pytest.approx(9.81 * 3.0, rel=1e-6)
    assert fixed.stats.penetration == pytest.approx(adaptive.stats.penetration, rel=1e-2)
    assert fixed.stats.iterations == 600


def test_duration_without_restitution():
    """e = 0: within its duration an impact loses all but a thousandth of its speed."""
    sol = carom.solve(strike(0.0), carom.Penalty(duration=1e-2), [0.1], [-1.0], t1=0.11, dt=0.11)
    assert abs(sol.v[-1, 0]) < 1e-3


def test_momentum_and_penetration_are_reported():
    problem = models.bouncing_ball(e=0.5, t1=3.0)
    sol = run(problem, 1e-6)
    assert sol.impulse.sum() == pytest.approx(9.81 * 3.0, rel=1e-6)
    speed = np.sqrt(2 * 9.81)
    # the deepest point of a damped half period, a fraction of V sqrt(lam)
    assert 0.5 * speed * 1e-3 < sol.stats.penetration < speed * 1e-3
    assert sol.stats.iterations > 100
    assert f"largest penetration     {sol.stats.penetration:.3e}" in str(sol)
    assert f"steps of the method     {sol.stats.iterations}" in str(sol)


def test_wants_one_positive_number():
    for arguments in ({}, {"lam": 1e-6, "duration": 1e-3}, {"lam": 0.0}, {"duration": -1.0}):
        with pytest.raises(PenaltyError, match="give one of them, positive"):
            carom.Penalty(**arguments)
    for substeps in (0, 1.5):
        with pytest.raises(PenaltyError, match="whole number"):
            carom.Penalty(lam=1e-6, substeps=substeps)


@pytest.mark.slow
def test_the_unit_of_length_does_not_matter():
    """Nanometres in metres: 1e-11 of them, the absolute tolerance, was 1e-2 of the motion."""

    def found(unit):
        corner = carom.System(
            force=lambda t, q, v: jnp.array([0.0, -unit]) - 0.1 * q,
            gap=lambda t, q: jnp.array([q[1], q[0] + 0.5 * q[1]]),
            restitution=0.7,
        )
        scheme = carom.Penalty(duration=0.01)
        sol = carom.solve(corner, scheme, [0.5 * unit, unit], [-0.3 * unit, 0.0], t1=6.0, dt=0.1)
        return np.concatenate([sol.q, sol.v]) / unit

    np.testing.assert_allclose(found(2.0**-36), found(2.0**-6), rtol=0, atol=1e-12)
