"""Certificates: faults planted to be found."""

import numpy as np
import pytest

import carom
from carom import models
from carom.certificates.certify import certify, certify_arrays
from certified import failed
from planted import FAULTS, PAIRS, PLANTED, PLANTED_IN, Planted, too_early


@pytest.mark.parametrize(("title", "scheme"), PAIRS)
def test_planted_faults_are_found(title, scheme):
    at = Planted(PLANTED[title], PLANTED_IN[scheme])
    clean = at.certificate(at.replaced(at.system))
    assert clean.ok, clean  # cutting a run in two is no fault
    for fault, (sizes, clause) in FAULTS.items():
        certificate = at.certificate(fault(at, sizes[0]))
        assert certificate.ok is False, f"{fault.__name__} not found\n{certificate}"
        assert clause in failed(certificate), f"{fault.__name__}\n{certificate}"


@pytest.mark.slow
@pytest.mark.parametrize("title", ["ball", "line polar"])
def test_an_impact_three_steps_before_the_wall_is_found(title):
    """The bound is two steps at the speed of the impact, not at the change of it, (1 + e) |w-|."""
    at = Planted(PLANTED[title], PLANTED_IN["Moreau"])
    assert failed(at.certificate(too_early(at, 3))) == ["complementarity"]


@pytest.mark.parametrize(
    ("after", "pushes", "right"),
    [
        ([-1 / 3, 2 / 3, 2 / 3], [4 / 3, 2 / 3], True),  # the law, both gaps at once
        ([0.0, 0.0, 1.0], [1.0, 1.0], False),  # one after the other, as in Newton's cradle
        ([0.0, 1.0, 0.0], [1.0, 0.0], False),  # the second gap forgotten
    ],
)
def test_a_row_that_touches(after, pushes, right):
    problem = models.row_of_balls(e=1.0)
    t = np.linspace(0.0, 2.0, 401)
    v = np.where(t[:, None] >= 1.0, after, [1.0, 0.0, 0.0])
    q = problem.q0 + np.where(t < 1.0, t, 1.0)[:, None] * v[0]
    q = q + np.maximum(t - 1.0, 0.0)[:, None] * np.array(after)
    impulse = np.where(t[:, None] == 1.0, pushes, 0.0)
    certificate = certify_arrays(problem.system, t, q, v, impulse)
    assert bool(certificate.ok) == right, certificate
    if not right:
        assert "momentum" not in failed(certificate)


def test_a_missing_gap_is_noticed():
    problem = models.wedge()
    one = carom.System(
        force=problem.system.force, gap=lambda t, q: problem.system.gap(t, q)[:1], restitution=1.0
    )
    sol = carom.solve(one, carom.Maury(), problem.q0, problem.v0, t1=problem.t1, dt=1e-2)
    impulse = np.pad(sol.impulse, ((0, 0), (0, 1)))
    assert certify(sol).ok
    certificate = certify_arrays(problem.system, sol.t, sol.q, sol.v, impulse)
    assert "feasibility" in failed(certificate)
