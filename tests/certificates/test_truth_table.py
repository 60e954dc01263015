"""Certificates against the truth: ``python tests/truth_table.py`` prints the whole."""

import jax.numpy as jnp
import numpy as np
import pytest

import carom
import truth_table
from carom.certificates.certificate import Verdict
from carom.certificates.certify import certify

SLICE = [("ball", ("Moreau", "Maury")), ("table e=0", ("PaoliSchatzman", "EventDriven"))]


@pytest.mark.parametrize(("title", "schemes"), SLICE)
def test_a_slice_of_the_truth_table(title, schemes):
    rows = list(truth_table.runs(title, (3, 41, 557), schemes))
    assert not truth_table.wrong(rows), "\n".join(map(str, truth_table.wrong(rows)))
    assert truth_table.understated(rows) < 2.0
    assert {r.certificate.verdict for r in rows} >= {Verdict.SOLUTION, Verdict.NOT}


@pytest.mark.slow
@pytest.mark.parametrize("title", truth_table.MODELS)
def test_the_whole_truth_table(title):
    rows = list(truth_table.with_friction() if title == "friction" else truth_table.runs(title))
    assert len(rows) >= 24
    assert not truth_table.wrong(rows), "\n".join(map(str, truth_table.wrong(rows)))


@pytest.mark.slow
@pytest.mark.parametrize("scheme", [carom.Moreau(), carom.PaoliSchatzman()])
def test_forces_shorter_than_a_step_are_too_coarse_and_not_wrong(scheme):
    p = carom.models.nonunique()
    sol = carom.solve(p.system, scheme, p.q0, p.v0, t0=p.t0, t1=p.t1, dt=p.t1 / 200)
    assert certify(sol).verdict is Verdict.COARSE


def ball(e):
    return carom.System(force=lambda t, q, v: jnp.array([-9.81]), gap=lambda t, q: q, restitution=e)


def ring():
    return carom.System(force=lambda t, q, v: jnp.zeros(2), gap=lambda t, q: 1.0 - jnp.hypot(*q))


@pytest.mark.parametrize("scheme", [carom.Moreau(), carom.Maury()])
def test_one_step_that_jumps_over_everything(scheme):
    sol = carom.solve(ball(0.8), scheme, [1.0], [0.0], t1=1.69, dt=1.69)
    certificate = certify(sol)
    assert certificate.ok is not True, certificate
    assert certificate.dt < 0.2


def test_an_elastic_ball_that_loses_its_energy():
    """Maury takes O(dt) of the energy at each bounce: over many bounces, all of it."""
    sol = carom.solve(ball(1.0), carom.Maury(), [1.0], [0.0], t1=90.0, dt=0.05)
    assert abs(sol.v[-1, 0]) < 0.5
    assert certify(sol).verdict is Verdict.COARSE


@pytest.mark.slow
def test_a_bead_that_leaves_its_ring():
    sol = carom.solve(ring(), carom.Moreau(), [1.0, 0.0], [0.0, 10.0], t1=3.0, dt=1e-2)
    certificate = certify(sol)
    if np.linalg.norm(sol.q[-1]) > 1.1:  # a scheme with a positional correction would stay
        assert certificate.ok is not True, certificate
    assert np.isfinite(certificate.error)


@pytest.mark.slow
def test_exact_impacts_at_any_spacing_of_the_records():
    """Between two walls, one of which moves: several impacts in each interval."""
    system = carom.System(
        force=lambda t, q, v: jnp.zeros(1),
        gap=lambda t, q: jnp.array([q[0] - 0.1 * jnp.sin(t), 2.0 - q[0]]),
        restitution=1.0,
    )
    for dt in (0.1, 4.0):
        sol = carom.solve(system, carom.EventDriven(), [1.0], [1.3], t1=40.0, dt=dt)
        certificate = certify(sol)
        assert certificate.ok, certificate
        assert certificate.error < 1e-5


def test_a_wall_that_is_passed_between_two_records():
    """The gap is open at every record, and closed in the middle of each step."""
    system = carom.System(
        force=lambda t, q, v: jnp.zeros(1), gap=lambda t, q: q - jnp.sin(jnp.pi * t)
    )
    t, q = np.arange(9.0), np.full((9, 1), 0.5)
    certificate = carom.certify_arrays(system, t, q, 0 * q)
    assert np.all(certificate["feasibility"].value <= 0.0)
    assert certificate.ok is not True, certificate


@pytest.mark.parametrize("dt", [0.5, 5.0])
@pytest.mark.slow
def test_exact_data_at_any_spacing(dt):
    """An accumulation, and rest, between two records."""
    ball = carom.System(force=lambda t, q, v: -9.81 + 0 * q, gap=lambda t, q: q, restitution=0.8)
    sol = carom.solve(ball, carom.EventDriven(), [1.0], [0.0], t1=5.0, dt=dt)
    found = carom.certify(sol)
    assert found.ok, str(found)
    assert found.error < 1e-6
