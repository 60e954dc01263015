"""Two beads on a rod on a shaken plate: the laws of its impacts, and its drift."""

import numpy as np
import pytest

import carom
from carom import models
from carom.models.problem import ModelError

pytestmark = pytest.mark.slow


def moved(problem, scheme, steps):
    given = {"t0": problem.t0, "t1": problem.t1, "dt": (problem.t1 - problem.t0) / steps}
    return carom.solve(problem.system, scheme, problem.q0, problem.v0, **given)


@pytest.fixture(scope="module")
def drifting():
    return models.dimer()


def test_the_schemes_move_it_so(drifting):
    """Events to 1e-10, and the certificate knows it; steps at order 1."""
    events = moved(drifting, carom.EventDriven(), 3000)
    q, _ = drifting.exact(np.asarray(events.t))
    np.testing.assert_allclose(events.q, q, atol=1e-10)
    assert carom.certify(events).ok
    for scheme in (carom.Moreau(), carom.Maury()):
        far = []
        for steps in (3000, 30_000):
            sol = moved(drifting, scheme, steps)
            far.append(np.max(np.abs(sol.q - drifting.exact(np.asarray(sol.t))[0])))
        assert far[1] < 0.2 * far[0]


def test_momentum_and_the_law_of_its_impacts(drifting):
    """Impulses are what changes the momentum; a bead that strikes leaves at e times its speed."""
    steps = moved(drifting, carom.Moreau(), 6000)
    v, impulse, friction = (np.asarray(x) for x in (steps.v, steps.impulse, steps.friction))
    weight = 9.81 * (drifting.t1 - drifting.t0)
    np.testing.assert_allclose(v[-1, 0] - v[0, 0], friction[1:].sum(), atol=1e-12)
    np.testing.assert_allclose(v[-1, 1] - v[0, 1], impulse[1:].sum() - weight, atol=1e-12)
    assert np.all(np.abs(friction) <= 0.1 * impulse + 1e-12)
    hits = moved(drifting, carom.EventDriven(), 600).impacts
    right = np.asarray(hits.constraint) == 1
    before, after = hits.velocity_before[right], hits.velocity_after[right]
    assert np.sum(right) == 6
    np.testing.assert_allclose(after, -0.6 * before, rtol=1e-9)


def test_it_drifts_towards_the_bead_that_stays(drifting):
    """Once in a period the right bead strikes; the left one, low, leads, at a part of mu g T."""
    T = drifting.period
    ends = np.array([drifting.exact(drifting.t0 + k * T)[0] for k in (3, 4, 5, 6)])
    drift = np.diff(ends[:, 0]) / T
    assert np.all(drift < 0.0)
    assert 0.1 < np.max(-drift) / (0.1 * 9.81 * T) < 1.0
    np.testing.assert_allclose(drift, drift[-1], rtol=0.01)
    t = np.linspace(drifting.t0 + 3 * T, drifting.t0 + 6 * T, 3001)
    q, _ = drifting.exact(t)
    gaps = np.array([drifting.system.gap(s, x) for s, x in zip(t[::10], q[::10], strict=True)])
    assert np.mean(gaps[:, 0] < 1e-12) > 0.5  # it stays for most of the period
    assert np.mean(gaps[:, 1] < 1e-12) < 0.02
    assert gaps.min() > -1e-12
    long = moved(models.dimer(t1=drifting.t0 + 50 * T), carom.Moreau(), 50_000)
    x = np.asarray(long.q)[:, 0]
    assert (x[-1] - x[25_000]) / (25 * T) == pytest.approx(drift[-1], rel=0.01)


def test_without_a_side_or_friction_it_does_not():
    """From a flat start it stays flat, at rest or bouncing; without friction nothing pushes it."""
    for acceleration in (0.9, 1.6):
        flat = models.dimer(lift=0.0, acceleration=acceleration)
        q = moved(flat, carom.Moreau(), 3000).q
        np.testing.assert_allclose(q[:, [0, 2]], 0.0, atol=1e-12)
    rests = models.dimer(lift=0.0)
    t = np.linspace(rests.t0, rests.t1, 101)
    height = 0.9 * 9.81 / (50 * np.pi) ** 2 * np.sin(50 * np.pi * t)
    np.testing.assert_allclose(rests.exact(t)[0][:, 1], 5e-3 + height, atol=1e-12)
    assert np.max(np.abs(moved(models.dimer(mu=0.0), carom.Moreau(), 3000).q[:, 0])) == 0.0


def test_refused():
    with pytest.raises(ModelError, match="radius"):
        models.dimer(radius=0.0)
