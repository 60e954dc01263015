"""The theta method: its order, its law, its energy, and stiff springs."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

import carom
from carom import MoreauJean, errors
from carom.schemes.named import scheme_of_text


def mass(q):
    return jnp.array([[2.0 + 0.5 * jnp.cos(q[1]), 0.3], [0.3, 1.0 + q[0] ** 2]])


@pytest.mark.parametrize(("theta", "order"), [(0.5, 2), (0.7, 1), (1.0, 1)])
def test_order_in_free_motion(theta, order):
    """M(q), drag, a force that is not symmetric."""
    free = carom.Lagrangian(
        mass=mass,
        potential=lambda q: q[1] ** 2 - 3.0 * jnp.cos(q[0]),
        force=lambda t, q, v: jnp.stack([jnp.sin(t) - 0.1 * v[0] * jnp.abs(v[0]), 0.5 * v[0]]),
    )
    ends = [
        carom.solve(free, MoreauJean(theta=theta), [0.5, 0.2], [1.0, 0.0], t1=1.0, dt=dt).q[-1]
        for dt in (2e-2, 1e-2, 5e-3)
    ]
    steps = [np.max(np.abs(a - b)) for a, b in itertools.pairwise(ends)]
    assert np.log2(steps[0] / steps[1]) == pytest.approx(order, abs=0.05)


def test_order_through_impacts_and_the_law():
    """A bouncing ball to t = 1.2, against its exact height there."""
    e, fall = 0.5, np.sqrt(2 / 9.81)
    ball = carom.System(force=lambda t, q, v: -9.81 + 0.0 * q, gap=lambda t, q: q, restitution=e)
    up = e * 9.81 * fall
    s = 0.8 - fall  # after the first impact, before the second
    errors_ = []
    for dt in (1e-2, 1e-3, 1e-4):
        sol = carom.solve(ball, MoreauJean(), [1.0], [0.0], t1=0.8, dt=dt)
        errors_.append(abs(sol.q[-1, 0] - (up * s - 9.81 * s**2 / 2)))
        hit = sol.impacts
        assert len(hit) == 1
        assert hit.velocity_after == pytest.approx(-e * hit.velocity_before, rel=1e-12)
        assert np.min(sol.gap) > -5.0 * dt
    assert max(np.array(errors_) / [1e-2, 1e-3, 1e-4]) < 7.0


def stiff(restitution):
    """Two masses on a spring of 1e8, dropped."""
    return carom.System(
        force=lambda t, q, v: jnp.stack([-1e8 * (q[0] - q[1]), 1e8 * (q[0] - q[1])]) - 9.81,
        gap=lambda t, q: q[1],
        restitution=restitution,
    )


@pytest.mark.parametrize("restitution", [0.0, 0.5])
def test_a_stiff_spring_and_the_energy_identity(restitution):
    """theta = 1/2: E1 - E = lam (w1 + w) / 2, and Moreau explodes."""
    system, start = stiff(restitution), ([1.0, 1.0], [0.0, 0.0])
    sol = carom.solve(system, MoreauJean(), *start, t1=2.0, dt=1e-3)
    q, v = sol.q, sol.v
    energy = np.sum(v**2, axis=1) / 2 + 9.81 * np.sum(q, axis=1) + 5e7 * (q[:, 0] - q[:, 1]) ** 2
    push = sol.impulse[:, 0] * (sol.velocity_before[:, 0] + sol.velocity_after[:, 0]) / 2
    assert np.allclose(np.diff(energy), push[1:], rtol=0, atol=1e-6)
    assert np.max(energy) < energy[0] + 0.1
    assert np.min(sol.gap) > -0.01
    moreau = carom.solve(system, carom.Moreau(), *start, t1=2.0, dt=1e-3, throw=False)
    assert not moreau.ok or np.max(np.abs(moreau.q)) > 1e3


@pytest.mark.parametrize("theta", [0.5, 1.0])
def test_what_rests_in_a_corner_goes_on(theta):
    """All that is left of it is rounding, of masses that are coupled."""
    angle = np.array([0.65, 2.79])
    n = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    tangent = np.stack([-n[:, 1], n[:, 0]], axis=1)
    stiffness = jnp.array([[13.7, -1.9], [-1.9, 3.7]])
    point = carom.System(
        mass=[[0.403, -0.537], [-0.537, 5.431]],
        force=lambda t, q, v: -stiffness @ q + jnp.array([0.0, -9.81]),
        gap=lambda t, q: n @ q,
        slip=lambda t, q, v: tangent @ v,
        friction=[0.18, 0.19],
    )
    for dt in (1e-2, 5e-3, 1e-3):
        sol = carom.solve(point, MoreauJean(theta=theta), [0.0, 0.0], [1.5, -0.58], t1=0.5, dt=dt)
        assert np.max(np.abs(sol.q)) < 1e-14


def test_what_it_refuses():
    for theta in (0.4, 1.1, [0.5, 0.6]):
        with pytest.raises(errors.KindError, match=r"\[0.5, 1\]"):
            MoreauJean(theta=theta)
    with pytest.raises(errors.KindError, match="Spheres are moved by"):
        carom.solve(carom.Spheres([[0.0, 0.0]], 1.0), MoreauJean(), t1=1.0, dt=0.1)


# The mean force of Maury.


def moved(scheme, force, t1=1.0):
    system = carom.System(force=force, gap=lambda t, q: q + 100.0)
    return carom.solve(system, scheme, [0.0], [0.0], t1=t1, dt=1e-2).v[-1, 0]


def test_a_pulse_within_a_step():
    """Width 1e-3, area 1, between the two Gauss points."""

    def pulse(t, q, v):
        return jnp.where(jnp.abs(t - 0.505) < 5e-4, 1e3, 0.0) + 0.0 * q

    def mean(t, t1, q, v):
        inside = jnp.clip(t1, 0.5045, 0.5055) - jnp.clip(t, 0.5045, 0.5055)
        return 1e3 * inside / (t1 - t) + 0.0 * q

    assert moved(carom.Maury(), pulse) == 0.0
    assert moved(carom.Maury(points=200), pulse) == pytest.approx(1.0, abs=0.1)
    assert moved(carom.Maury(mean=mean), pulse) == pytest.approx(1.0, abs=1e-12)
    adaptive = carom.Maury(points="adaptive")
    assert moved(adaptive, pulse) == pytest.approx(1.0, abs=1e-9)
    assert str(adaptive) == "Maury(points='adaptive')"
    assert scheme_of_text(str(adaptive)) == adaptive

    def push(t, x, v):
        return np.full_like(x, 1e3 if abs(t - 0.505) < 5e-4 else 0.0)

    one = carom.Spheres([[0.0, 0.0]], 1.0, mass=1.0, force=push)
    few, many = (
        carom.solve(one, s, t1=0.52, dt=1e-2).v[-1, 0, 0] for s in (carom.Maury(), adaptive)
    )
    assert few == 0.0
    assert many == pytest.approx(1.0, abs=1e-9)


def test_a_force_that_is_infinite_at_the_start():
    """-1 / sqrt(t): the velocity at 1 is -2."""

    def force(t, q, v):
        return -1.0 / jnp.sqrt(t) + 0.0 * q

    def mean(t, t1, q, v):
        return -2.0 * (jnp.sqrt(t1) - jnp.sqrt(t)) / (t1 - t) + 0.0 * q

    few, many = moved(carom.Maury(), force), moved(carom.Maury(points=40), force)
    assert abs(many + 2.0) < 0.1 * abs(few + 2.0) < 0.01
    assert moved(carom.Maury(mean=mean), force) == pytest.approx(-2.0, abs=1e-12)
    assert moved(carom.Maury(points="adaptive"), force) == pytest.approx(-2.0, abs=1e-7)
    for wrong in (
        {"points": 0},
        {"points": 2.5},
        {"points": "many"},
        {"tolerance": 1.0},
        {"mean": 3},
    ):
        with pytest.raises(errors.KindError, match="Maury has"):
            carom.Maury(**wrong)
