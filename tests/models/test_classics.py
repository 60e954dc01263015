"""Further models of carom.models: values and invariants found by another route.

The equations themselves are tested in test_models.py, where each of these has its cases.
"""

import math
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from scipy.integrate import quad

import carom
from carom import models
from carom.models.beam import clamped_free, hermite
from carom.models.pair import pair_phase
from carom.models.pendulum import Arm, double_pendulum_reference
from carom.models.references import follow, stored
from carom.models.uniqueness import bumps


def test_wall_and_its_derivatives():
    """P16: dq/dq0 = -e, dq/dspeed = e t, dq/de = speed t - q0, here by differences."""
    point = {"e": 0.6, "q0": 1.5, "speed": 2.0}
    expected = {"e": 2.0 * 3.0 - 1.5, "q0": -0.6, "speed": 0.6 * 3.0}
    for name, slope in expected.items():
        ends = [models.wall(**(point | {name: point[name] + h}), t1=3.0) for h in (-0.1, 0.1)]
        low, high = (end.exact(3.0)[0][0] for end in ends)
        assert (high - low) / 0.2 == pytest.approx(slope, abs=1e-13)


@pytest.mark.parametrize("e", [0.5, 1.0])
def test_every_flight_of_the_bouncing_motion(e):
    """P13 by quadrature: each bump takes V_(n+1) to -V_n/e and the point back to the floor."""
    force = models.nonunique(e=e).system.force
    forces = jax.jit(jax.vmap(lambda t: force(t, None, None)[0]))
    for n, (start, end, centre, width, _, speed) in enumerate(zip(*bumps(e), strict=True)):
        x, weight = np.polynomial.legendre.leggauss(400)
        f = np.asarray(forces(centre + width * x))
        assert np.all(f <= 0.0)
        push = np.sum(weight * f) * width
        moment = np.sum(weight * f * (end - centre - width * x)) * width
        V = 2.0 ** -(n**2)
        assert speed + push == pytest.approx(-V / e, rel=1e-12)
        assert abs(speed * (end - start) + moment) < 1e-12 * V * (end - start)


def test_bouncing_and_resting_start_alike():
    rest, bouncing = models.nonunique(), models.nonunique(bouncing=True)
    assert rest.system.force == bouncing.system.force
    assert np.array_equal(rest.q0, bouncing.q0)
    assert np.array_equal(rest.v0, bouncing.v0)
    assert bouncing.exact(0.75)[0][0] > 0.1
    after = bouncing.exact(bouncing.impact_times)[1][:, 0]
    assert np.allclose(after, 2.0 ** -(np.arange(8, -1, -1.0) ** 2), 1e-15)


def shaken(p, u, e, ratio):
    """From an impact at phase p with speed u to the next one; unit amplitude and frequency."""
    from scipy.optimize import brentq

    v = e * u - (1 + e) * math.cos(p)  # back from the wall
    dt = brentq(lambda s: v * s - ratio - math.sin(p) - math.sin(p + s - math.pi), 1.0, 6.0)
    return np.array([p + dt - math.pi, v])


@pytest.mark.parametrize(("e", "ratio"), [(0.5, 4.0), (0.8, 10.0)])
def test_impact_pair_is_a_stable_fixed_point(e, ratio):
    h = pair_phase(e, ratio)
    at = np.array([math.pi - h, (1 + e) / (1 - e) * math.cos(h)])
    assert np.allclose(shaken(*at, e, ratio), at, 0, 1e-12)
    steps = 1e-5 * np.eye(2)
    jacobian = np.array(
        [(shaken(*(at + d), e, ratio) - shaken(*(at - d), e, ratio)) / 2e-5 for d in steps]
    )
    trace = 2 * e - math.pi / 2 * (1 - e**2) * math.tan(h)
    assert np.trace(jacobian) == pytest.approx(trace, abs=1e-7)
    assert np.linalg.det(jacobian) == pytest.approx(e**2, abs=1e-7)
    assert abs(trace) < 1 + e**2


def test_impact_pair_is_symmetric():
    problem = models.impact_pair(frequency=2.0)
    t = np.linspace(0.0, 5.0, 101)
    (q, v), (q2, v2) = problem.exact(t), problem.exact(t + math.pi / 2.0)
    assert np.allclose(q2, -q, 0, 1e-13)
    assert np.allclose(v2, -v, 0, 1e-13)


def test_rocking_block_quarter_period_by_quadrature():
    """T/4 = integral of dq/|q'|, with |q'| from the energy q'^2/2 + p^2 (a q - q^2/2)."""
    a, p, start = 0.3, 1.7, 0.25
    problem = models.rocking_block(slenderness=a, rate=p, angle=start)

    def slowness(x):  # q = start - x^2, which takes the root at rest away
        return 2.0 / (p * math.sqrt(2 * (a - start) + x**2))

    quarter = quad(slowness, 0.0, math.sqrt(start), epsabs=1e-13)[0]
    assert problem.impact_times[0] == pytest.approx(quarter, abs=1e-12)


def test_rocking_block_loses_energy_at_impacts_only():
    a, p, e = 0.2, 2.0, 0.9
    problem = models.rocking_block(slenderness=a, rate=p, e=e)
    t = np.linspace(0.0, problem.t1, 4001)
    q, v = (x[:, 0] for x in problem.exact(t))
    energy = v**2 / 2 + p**2 * (a * q - q**2 / 2)
    impacts = np.searchsorted(problem.impact_times, t, side="right")
    few = impacts < 100
    assert np.allclose(energy[few], energy[0] * e ** (2.0 * impacts[few]), 1e-11, 1e-16)
    assert problem.accumulation == pytest.approx(problem.impact_times[-1], abs=1e-4)


@pytest.mark.parametrize(("e", "raised"), [(1.0, 1), (0.7, 2)])
def test_touching_cradle_in_closed_form(e, raised):
    problem = models.newtons_cradle(count=5, raised=raised, e=e, amplitude=0.3, frequency=2.0)
    assert np.allclose(problem.impact_times, math.pi / 4 + math.pi / 2 * np.arange(4), 0, 1e-14)
    before = 0.6 * (np.arange(5) < raised)
    mean = before.mean()
    after = problem.exact(problem.impact_times)[1]
    for k in range(4):
        expected = (-1.0) ** k * mean + e**k * (-e) * (before - mean)
        assert np.allclose(after[k], expected, 0, 1e-14)


def test_cradle_with_gaps_passes_velocities_on():
    """e = 1: equal pendulums exchange velocities at an impact, and the energy is kept."""
    problem = models.newtons_cradle(count=4, spacing=0.1, raised=2, t1=40.0)
    t = np.linspace(0.0, 40.0, 3001)
    places = 0.1 * np.arange(4)
    q, v = problem.exact(t)
    energy = np.sum(v**2 + q**2, axis=-1)
    assert len(problem.impact_times) > 20
    assert np.all(np.diff(q + places, axis=-1) > -1e-12)
    before = problem.exact(problem.impact_times - 1e-13)[1]
    after = problem.exact(problem.impact_times)[1]
    assert np.allclose(np.sort(before), np.sort(after), 0, 1e-11)
    assert np.allclose(energy, energy[0], 0, 1e-11)


def test_cam_repeats_itself():
    """e = 0: on the cam at its lowest point in every turn, so each turn is like the first."""
    problem = models.cam_and_follower()
    t = np.linspace(0.5, 3.5, 301)  # one landing is at 3.417
    for a, b in zip(problem.exact(t), problem.exact(t + math.pi), strict=True):
        assert np.allclose(a, b, 0, 1e-12)
    lift, land = math.acos(-1 / 3) / 2, problem.impact_times[0]
    # the work of the spring is the change of energy in flight
    (q, _), (q1, _) = problem.exact(lift), problem.exact(land)
    v, v1 = (problem.exact(t)[1] for t in (lift, land - 1e-13))
    energy = (v**2 + q**2) / 2 + q, (v1**2 + q1**2) / 2 + q1
    assert np.allclose(*energy, 0, 1e-11)


def test_cam_comes_to_rest_in_every_turn():
    problem = models.cam_and_follower(e=0.5, preload=2.0, t1=10.0)
    gaps = problem.exact(np.array([3.6, 4.0, 6.9, 7.2]))[0][:, 0]
    assert np.allclose(gaps, -np.cos(2 * np.array([3.6, 4.0, 6.9, 7.2])), 0, 1e-15)
    assert problem.accumulation == pytest.approx(3.538, abs=1e-3)
    assert np.sum(np.diff(problem.impact_times) > 1.0) == 2  # three bursts


def test_modes_of_the_cantilever_by_finite_elements():
    """Hermite elements: the first frequencies, and the tip of modes of unit mass."""
    from scipy.linalg import eigh
    from skfem import Basis, BilinearForm, ElementLineHermite, MeshLine
    from skfem.helpers import dd, ddot

    basis = Basis(MeshLine(np.linspace(0.0, 1.0, 49)), ElementLineHermite())
    K = BilinearForm(lambda u, v, _: ddot(dd(u), dd(v))).assemble(basis).toarray()
    M = BilinearForm(lambda u, v, _: u * v).assemble(basis).toarray()
    free = basis.complement_dofs(basis.get_dofs(lambda x: x[0] == 0.0))
    squares, shapes = eigh(K[np.ix_(free, free)], M[np.ix_(free, free)])
    assert np.allclose(np.sqrt(squares[:4]), clamped_free(4) ** 2, 1e-5)
    tip = list(free).index(basis.nodal_dofs[0, -1])
    assert np.allclose(np.abs(shapes[tip, :4]), 2.0, 1e-5)


def test_one_element_of_the_cantilever():
    """The matrices of a beam element, in any book, for the deflection and slope of its free end."""
    mass, stiffness = hermite(1, rate=3.0)
    np.testing.assert_allclose(mass, np.array([[156, -22], [-22, 4]]) / 420, rtol=1e-13)
    np.testing.assert_allclose(stiffness, 9 * np.array([[12.0, -6.0], [-6.0, 4.0]]), rtol=1e-13)


def test_elements_of_the_cantilever_against_modes():
    """Up to the first impact, where what the impact law makes of it differs."""
    t, modes = np.linspace(0.0, 1.25, 201), 12
    exact = models.cantilever(modes=modes, t1=1.25).exact(t)[0] @ (2.0 * (-1.0) ** np.arange(modes))
    assert np.max(np.abs(exact)) > 0.09
    errors = [
        np.max(np.abs(models.cantilever(elements=n, t1=1.25).exact(t)[0][:, -2] - exact))
        for n in (1, 2, 4)
    ]
    assert errors[0] < 5e-3
    assert np.all(np.array(errors[:-1]) / errors[1:] > 5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "parameters",
    [{}, {"e": 0.5, "force": 1.0, "t1": 3.0}, {"elements": 2}, {"elements": 3, "t1": 8.0}],
)
def test_cantilever_by_event_detection(parameters):
    """Isolated impacts, then impacts that accumulate with the tip resting at a stop in between."""
    problem = models.cantilever(**parameters)
    sol = carom.solve(
        problem.system,
        carom.EventDriven(),
        problem.q0,
        problem.v0,
        t1=problem.t1,
        dt=problem.t1 / 50,
    )
    q, v = problem.exact(sol.t)
    assert np.allclose(sol.q, q, 0, 1e-9)
    assert np.allclose(sol.v, v, 0, 1e-7)
    if problem.accumulation is None:
        assert np.allclose(sol.impacts.time, problem.impact_times, 0, 1e-9)


def test_double_pendulum_energy():
    """Kept between impacts; at each, the loss is (1-e^2)/2 (n . v)^2 / (n . M^-1 n)."""
    arm, problem = Arm(1.0, 1.0, 1.0, 1.0, 9.81, 0.1), models.double_pendulum()
    assert "stored" in problem.source

    def energy(t):
        q, v = (np.atleast_2d(x) for x in problem.exact(t))
        kinetic = [u @ arm.mass(x) @ u / 2 for x, u in zip(q, v, strict=True)]
        return np.array(kinetic) - arm.g * np.sum(np.array([2.0, 1.0]) * np.cos(q), axis=-1)

    t = np.linspace(0.0, problem.t1, 1001)
    impacts = np.searchsorted(problem.impact_times, t, side="right")
    assert len(problem.impact_times) == 5
    assert all(np.ptp(energy(t)[impacts == k]) < 1e-12 for k in range(6))
    for hit in problem.impact_times:
        q, v = problem.exact(hit)
        n = arm.normal(q)
        after = n @ v
        loss = (1 / 0.8**2 - 1) / 2 * after**2 / (n @ np.linalg.solve(arm.mass(q), n))
        assert energy(hit - 1e-13)[0] - energy(hit)[0] == pytest.approx(loss, rel=1e-10)


def test_stored_reference_is_what_its_code_computes():
    """Up to 2, in steps half as long."""
    parameters, t1, _ = double_pendulum_reference()
    kept = stored("double_pendulum", parameters, t1)
    arm = Arm(1.0, 1.0, 1.0, 1.0, 9.81, 0.1)
    finer = SimpleNamespace(
        step=arm.step / 2,
        acceleration=arm.acceleration,
        gap=arm.gap,
        normal=arm.normal,
        mass=arm.mass,
    )
    again = follow(finer, 0.8, np.array([1.0, 1.4]), np.zeros(2), 2.0)
    t = np.linspace(0.0, 2.0, 301)
    for a, b in zip(kept.exact(t1)(t), again.exact(2.0)(t), strict=True):
        assert np.allclose(a, b, 0, 2e-12)
    assert stored("double_pendulum", {**parameters, "e": 0.5}, t1) is None
    assert stored("double_pendulum", parameters, t1 + 1.0) is None


def test_double_pendulum_by_event_detection():
    problem = models.double_pendulum()
    scheme = carom.EventDriven(rtol=1e-12, atol=1e-14)
    sol = carom.solve(
        problem.system, scheme, problem.q0, problem.v0, t1=problem.t1, dt=problem.t1 / 40
    )
    q, v = problem.exact(sol.t)
    assert np.allclose(sol.q, q, 0, 1e-11)
    assert np.allclose(sol.v, v, 0, 1e-10)
    assert np.allclose(sol.impacts.time, problem.impact_times, 0, 1e-12)
