"""Mechanisms that friction drives, against what is known of them and against the schemes."""

import numpy as np
import pytest

import carom
from carom import models
from carom.models.problem import ModelError


def off(problem, scheme, steps):
    given = {"t1": problem.t1, "dt": problem.t1 / steps}
    sol = carom.solve(problem.system, scheme, problem.q0, problem.v0, **given)
    return np.max(np.abs(sol.q - problem.exact(np.asarray(sol.t))[0])), sol


def test_the_woodpecker_comes_back():
    """Glocker's state does, to the digits it is given with, 19.4 mm further down: a limit cycle."""
    toy = models.woodpecker()
    q0, v0 = toy.q0, toy.v0
    q, v = toy.exact(np.linspace(0.14, 0.15, 2001))
    away = np.abs(q[:, 1:] - q0[1:]).max(axis=1) + 0.01 * np.abs(v - v0).max(axis=1)
    best = np.argmin(away)
    assert away[best] < 3e-4
    assert np.linspace(0.14, 0.15, 2001)[best] == pytest.approx(0.1459, abs=2e-4)
    assert q[best, 0] == pytest.approx(-0.0194, abs=1e-4)
    np.testing.assert_allclose(v[best], v0, atol=0.02)
    gaps = np.array([toy.system.gaps(0.0, x) for x in q[::100]])
    assert gaps.min() > -1e-12


def growth(mu, c=0.3, k=1.2, s=1.0):
    """Of the modes of (1), by its characteristic equation."""
    w2 = np.roots([1.0, -(1.0 + k), k + c * (mu * s - c)])
    return np.max(np.imag(np.sqrt(w2.astype(complex))))


def test_the_brake_squeals_above_its_limit():
    """mu s > c + (k - 1)^2 / (4 c) = 1/3: below it swings for ever, above it grows and sticks."""
    limit = 0.3 + 0.04 / 1.2
    assert growth(limit - 1e-3) < 1e-7 < 1e-3 < growth(limit + 1e-3)
    t = np.linspace(0.0, 60.0, 6001)
    for mu in (0.33, 0.4):
        _, v = models.brake_squeal(mu=mu).exact(t)
        speed = np.abs(v[:, 0])
        early, late = speed[t < 10.0].max(), speed[t > 50.0].max()
        if mu < limit:
            assert late < 1.5 * speed[(t > 20.0) & (t < 40.0)].max()
            assert v[:, 0].max() < 0.1
        else:
            peaks = [np.argmax(np.where((t > a) & (t < a + 6.0), v[:, 0], 0.0)) for a in (20, 26)]
            grown = np.log(v[peaks[1], 0] / v[peaks[0], 0]) / (t[peaks[1]] - t[peaks[0]])
            assert grown == pytest.approx(growth(mu), rel=0.05)
            assert v[:, 0].max() == pytest.approx(0.1, abs=1e-12)  # as fast as the belt: it sticks
            assert late > 3.0 * early


def test_refused():
    with pytest.raises(ModelError, match="stiffness > pad"):
        models.brake_squeal(pad=2.0)
    with pytest.raises(ModelError, match="mu >= 0"):
        models.woodpecker(mu=-1.0)


@pytest.mark.slow
@pytest.mark.parametrize("model", [models.woodpecker, models.brake_squeal])
def test_against_the_schemes(model):
    """Events to 1e-11; steps converge; and the certificate knows it for a solution."""
    problem = model()
    assert off(problem, carom.EventDriven(), 200)[0] < 1e-10
    coarse, fine = (off(problem, carom.Moreau(), n)[0] for n in (3000, 30_000))
    assert fine < 0.3 * coarse
    assert carom.certify(off(problem, carom.EventDriven(), 4000)[1]).ok


@pytest.mark.slow
def test_looks():
    for model in (models.woodpecker, models.brake_squeal):
        problem = model()
        assert len(problem.looks(0.0, problem.q0)) >= 4
