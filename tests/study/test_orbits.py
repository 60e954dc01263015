"""Orbits, branches and exponents against the closed forms of P3 and P8."""

import math

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from scipy.optimize import brentq

import carom
from carom import study
from carom.errors import StudyError

R = 0.8


class Forced(eqx.Module):
    """cos(w t) - x - 2 z v, with w and z as arrays: one compilation for all of them."""

    w: Array
    z: Array

    def __call__(self, t, q, v):
        return jnp.cos(self.w * t) - q - 2.0 * self.z * v


def oscillator(w, s=0.0, z=0.0):
    """P3, with damping z."""
    force = Forced(jnp.asarray(w, float), jnp.asarray(z, float))
    return carom.System(force=force, gap=lambda t, q: s - q, restitution=R)


def closed_form(w, s=0.0, n=1):
    """Impact speed, phase and trace of P3's orbit."""
    T, gam = 2 * math.pi * n / w, 1 / (1 - w * w)
    cot = 1 / math.tan(T / 2)
    a, b = (1 - R) ** 2 / (4 * w * w) + (1 + R) ** 2 * cot**2 / 4, s * (1 + R) * cot
    v = (-b + math.sqrt(b * b - 4 * a * (s * s - gam * gam))) / (2 * a)
    sine, cosine = -(1 - R) * v / (2 * gam * w), (s + (1 + R) * v * cot / 2) / gam
    trace = -2 * R * math.cos(T) + (1 + R) * (cosine - s) / v * math.sin(T)
    return v, math.atan2(sine, cosine) % (2 * math.pi), trace


@pytest.fixture(scope="module")
def orbit():
    """From a state near the orbit, not on it."""
    return study.orbit(oscillator(2.5), [-0.34], [0.08], period=2 * np.pi / 2.5, settle=3)


def test_p3_orbit(orbit):
    v, phase, trace = closed_form(2.5)
    np.testing.assert_allclose(orbit.speeds, [v], rtol=0, atol=1e-8)
    np.testing.assert_allclose(orbit.phases, [phase], rtol=0, atol=1e-8)
    np.testing.assert_allclose(orbit.trace, trace, rtol=0, atol=1e-8)
    np.testing.assert_allclose(orbit.determinant, R * R, rtol=0, atol=1e-8)
    np.testing.assert_allclose(v, 0.6453521784141956, atol=1e-14)  # benchmarks.md
    assert orbit.stable
    assert orbit.residual < 1e-12
    assert "stable" in str(orbit)


def test_p3_period_doubling(orbit):
    """Located where trace = -(1 + r^2); beyond it the orbit goes on, unstable."""
    branch = study.follow(oscillator, orbit, 2.5, 2.8, period=lambda w: 2 * jnp.pi / w)
    exact = brentq(lambda w: closed_form(w)[2] + 1 + R * R, 2.5, 2.8, xtol=1e-14)
    assert [b.kind for b in branch.bifurcations] == ["period doubling"]
    assert abs(branch.bifurcations[0].parameter - exact) < 1e-6
    np.testing.assert_array_equal(branch.stable, branch.parameter < exact)
    assert branch.parameter[-1] == 2.8
    expected = [closed_form(w)[0] for w in branch.parameter]
    np.testing.assert_allclose(branch.speeds[:, 0], expected, rtol=0, atol=1e-9)
    assert branch.to_xarray().sizes["point"] == len(branch.orbits)
    assert "period doubling" in str(branch)


def test_p3_grazing(orbit):
    """As the stop moves away the orbit strikes it with less and less speed, none at s = |gam|."""
    w = 2.5
    branch = study.follow(lambda s: oscillator(w, s), orbit, 0.0, 0.3, step=0.05)
    assert branch.bifurcations[-1].kind == "grazing"
    assert branch.ended == "stopped at a grazing"
    np.testing.assert_allclose(branch.parameter[-1], 1 / (w * w - 1), rtol=0, atol=1e-6)


def test_p8_existence_limit():
    """The orbit with one impact a period turns round at Gam = pi (1-e)/(1+e)."""
    e, w = 0.5, 10.0
    problem = carom.models.vibrating_table(e=e, acceleration=1.2, frequency=w)

    def table(Gam):
        return carom.System(
            force=lambda t, q, v: jnp.array([-9.81]),
            gap=lambda t, q: q - Gam * 9.81 / w**2 * jnp.sin(w * t),
            restitution=e,
        )

    start = study.orbit(table(1.2), problem.q0, problem.v0, period=2 * np.pi / w)
    branch = study.follow(table, start, 1.2, 0.9, points=40)
    fold = [b for b in branch.bifurcations if b.kind == "fold"]
    assert len(fold) == 1
    np.testing.assert_allclose(fold[0].parameter, np.pi * (1 - e) / (1 + e), rtol=0, atol=1e-9)
    assert np.min(branch.parameter) >= fold[0].parameter - 1e-12
    # beyond it, the second orbit of the same parameters: sin p < 0, a saddle
    assert branch.stable[0]
    assert not branch.stable[-1]


@pytest.mark.slow  # to compile
def test_lyapunov_sum():
    """-2 z + 2 nu ln r on a periodic attractor, whose exponents are its multipliers', and chaos."""
    z = 0.01
    settings = {"settle": 200, "intervals": 300}

    def exponents(w, q=-0.3):
        system = systems[w]
        return study.lyapunov(system, [q], [0.2], interval=2 * np.pi / w, **settings)

    systems = {w: oscillator(w, z=z) for w in (2.5, 2.8)}
    # of chaos so long after its start rounding decides, and it may come near a periodic motion for
    # a hundred periods: the mean of several
    calm, *wild = exponents(2.5), *(exponents(2.8, -0.3 + k * 1e-9) for k in range(6))
    for found in (calm, *wild):
        expected = -2 * z + 2 * found.impact_rate * math.log(R)
        np.testing.assert_allclose(found.sum, expected, rtol=0, atol=1e-6)
    assert calm.exponents[0] < -0.05
    assert 0.05 < np.mean([found.exponents[0] for found in wild]) < 0.2
    assert wild[0].history.shape == (300, 2)


class Table(eqx.Module):
    a: Array

    def __call__(self, t, q):
        return q - self.a * jnp.sin(t)


def weight(t, q, v):
    return -jnp.ones(1)


@pytest.mark.slow  # to compile
@pytest.mark.parametrize(("a", "e", "chaotic"), [(1.1, 0.5, False), (2.5, 0.7, True)])
def test_lyapunov_sum_over_a_table(a, e, chaotic):
    """Every impact on a wall that moves has the determinant e^2, whatever the wall does.

    Chaos is followed for 50 periods: of more, rounding decides, and a motion that comes to rest on
    the table, as it may, has no such law (below).
    """
    table = carom.System(force=weight, gap=Table(jnp.asarray(a)), restitution=e)
    t0 = np.arccos(np.pi / 3.3)  # an impact of the periodic motion, which leaves with pi
    found = study.lyapunov(
        table,
        [a * np.sin(t0) + np.pi - 0.5],
        [np.pi - 1.0],
        t0=t0 + 1.0,
        interval=2 * np.pi,
        settle=0 if chaotic else 100,
        intervals=50 if chaotic else 300,
    )
    np.testing.assert_allclose(found.sum, 2 * found.impact_rate * math.log(e), rtol=0, atol=1e-6)
    assert (found.exponents[0] > 0.02) == chaotic
    if not chaotic:  # one impact a period
        assert found.impact_rate == pytest.approx(1 / (2 * np.pi), abs=1e-12)


@pytest.mark.slow  # to compile
def test_lyapunov_of_a_motion_that_comes_to_rest():
    """On the table it forgets where it came from: both directions are lost, and it says so."""
    table = carom.System(force=weight, gap=Table(jnp.asarray(2.5)), restitution=0.1)
    found = study.lyapunov(table, [1.0], [0.0], interval=2 * np.pi, settle=0, intervals=10)
    assert np.all(found.exponents == -np.inf)
    assert np.any(np.isfinite(found.growth).all(axis=1))
    assert "forgets" in str(found)


@pytest.mark.slow  # to compile
def test_lyapunov_sum_of_two_masses():
    """Four exponents: minus the trace of the damping, and 2 ln e an impact."""
    C, e = np.array([[0.05, -0.02], [-0.02, 0.03]]), 0.8

    def force(t, q, v):
        springs = jnp.array([[2.0, -1.0], [-1.0, 1.5]]) @ q
        return jnp.stack([jnp.cos(1.3 * t), 0.0]) - springs - C @ v

    system = carom.System(force=force, gap=lambda t, q: q[1] + 0.2, restitution=e)
    found = study.lyapunov(
        system, [0.1, 0.0], [0.0, 0.5], interval=2 * np.pi / 1.3, settle=50, intervals=200
    )
    assert found.impact_rate > 0.05
    expected = -np.trace(C) + 2 * found.impact_rate * math.log(e)
    np.testing.assert_allclose(found.sum, expected, rtol=0, atol=1e-6)


def test_errors(orbit):
    with pytest.raises(StudyError, match="kinds are"):
        study.follow(oscillator, orbit, 2.5, 2.8, stop=("doubling",))
    with pytest.raises(StudyError, match="no way to go"):
        study.follow(oscillator, orbit, 2.5, 2.5)
    with pytest.raises(StudyError, match="interval"):
        study.lyapunov(oscillator(2.5), [-0.3], [0.2], interval=0.0)
    with pytest.raises(StudyError, match=r"orbit\.plot\(system\)"):
        study.plot(orbit)


@pytest.mark.slow
def test_lasting_contact_is_no_such_orbit():
    rest = carom.System(force=lambda t, q, v: -1.0 + 0 * q, gap=lambda t, q: q, restitution=0.5)
    with pytest.raises(StudyError, match="lasting contact"):
        study.orbit(rest, [0.0], [0.0], period=1.0)
