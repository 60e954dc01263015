"""The elastic bar (P11): its waves by a second route, and finite elements against them."""

import numpy as np
import pytest

import carom
from carom import models

THROWN = {}
DROPPED = {"speed": 0.0, "g": 10.0, "t1": 12.0}


@pytest.mark.parametrize("parameters", [THROWN, DROPPED], ids=["thrown", "dropped"])
def test_waves_keep_energy_and_momentum(parameters):
    """What the construction does not use: energy is kept through every contact, and momentum
    changes by the contact pressure and the weight."""
    cells, g = 2000, parameters.get("g", 0.0)
    problem = models.elastic_bar(elements=cells, **parameters)
    t = np.linspace(0.0, problem.t1, 4001)
    q, v = problem.exact(t)
    pressure, dx, L = problem.reaction(t)[:, 0], 10.0 / cells, 10.0
    assert np.min(q[:, 0] + 5.0) > -1e-12
    assert np.min(pressure) > -1e-9
    assert np.max(np.abs(pressure * (q[:, 0] + 5.0))) < 1e-9
    strain = np.diff(q, axis=1) / dx
    speed = (v[:, 1:] + v[:, :-1]) / 2
    height = (q[:, 1:] + q[:, :-1]) / 2
    energy = np.sum(speed**2 / 2 + 900.0 * strain**2 / 2 + g * height, axis=1) * dx
    # the cells that hold a front, two at a time, count wrongly: of O(dx)
    assert np.max(np.abs(energy - energy[0])) < 6 * dx * 500.0
    assert np.median(np.abs(energy - energy[0])) < 2 * dx * 50.0
    momentum = np.sum(speed, axis=1) * dx + g * L * t
    received = np.concatenate([[0], np.cumsum((pressure[1:] + pressure[:-1]) / 2 * np.diff(t))])
    assert np.max(np.abs(momentum - momentum[0] - received)) < 3 * 500.0 * t[1]


def test_thrown_at_the_floor():
    """Contact on [0.5, 0.5 + 2L/c] at pressure 300; leaves undeformed at speed 10 (DEP11)."""
    problem = models.elastic_bar(elements=20)
    t = np.array([0.4999, 0.5001, 1.1665, 1.1668, 1.5])
    np.testing.assert_allclose(problem.reaction(t)[:, 0], [0, 300, 300, 0, 0], atol=1e-9)
    np.testing.assert_allclose(problem.impact_times, [0.5])
    q, v = problem.exact(t)
    np.testing.assert_allclose(v[-1], 10.0)
    assert np.ptp(q[-1]) < 1e-12


def test_dropped_on_the_floor():
    """Period 16/3; pressure 300 to 500, then 500 to 300; impulse of the first contact 800/3."""
    problem = models.elastic_bar(elements=20, **DROPPED)
    T = 16 / 3
    np.testing.assert_allclose(problem.impact_times[:2] + T, problem.impact_times[2:4])
    t = np.linspace(0.0, 6.6123, 200)  # off the fronts
    for now, later in zip(problem.exact(t), problem.exact(t + T), strict=True):
        np.testing.assert_allclose(now, later, atol=1e-8)
    eps = 1e-9
    ends = np.array([1.0, 5 / 3 - eps, 11 / 3 + eps, 13 / 3 - eps])
    np.testing.assert_allclose(problem.reaction(ends)[:, 0], [300, 500, 500, 300], atol=1e-5)
    contact = np.linspace(1.0, 5 / 3 - eps, 10001)
    impulse = np.trapezoid(problem.reaction(contact)[:, 0], contact)
    np.testing.assert_allclose(impulse, 800 / 3, rtol=1e-7)


def contact_of(sol):
    """Duration and mean pressure of the first contact."""
    on = np.flatnonzero(sol.impulse[:, 0] > 0.0)
    on = on[: 1 + np.flatnonzero(np.diff(on, append=on[-1] + 1000) > 100)[0]]
    duration = sol.t[on[-1]] - sol.t[on[0]]
    return duration, np.sum(sol.impulse[on]) / duration


@pytest.mark.parametrize("lumped", [False, True], ids=["consistent", "lumped"])
@pytest.mark.parametrize(
    "scheme",
    [
        carom.Moreau(),
        pytest.param(carom.Maury(), marks=pytest.mark.slow),
        pytest.param(carom.PaoliSchatzman(), marks=pytest.mark.slow),
    ],
    ids=lambda s: type(s).__name__,
)
def test_contact_of_400_elements(scheme, lumped):
    """P11 (a): contact duration and pressure within 2 %."""
    problem = models.elastic_bar(elements=400, lumped=lumped)
    sol = carom.solve(
        problem.system, scheme, problem.q0, problem.v0, t1=problem.t1, dt=1 / problem.frequency
    )
    duration, pressure = contact_of(sol)
    print(type(scheme).__name__, "lumped" if lumped else "consistent", duration, pressure)
    assert abs(duration / (2 / 3) - 1) < 0.01
    assert abs(pressure / 300 - 1) < 0.01
    assert np.max(np.abs(sol.q - problem.exact(sol.t)[0])) < 0.05


def test_parameters_that_make_no_sense():
    with pytest.raises(models.ModelError, match="elements 0"):
        models.elastic_bar(elements=0)
    with pytest.raises(carom.errors.TimeError, match="larger t1"):
        models.elastic_bar(elements=2).exact(3.0)
