"""Certificates of motions that were once judged wrongly."""

import jax.numpy as jnp
import numpy as np
import pytest

import carom
from carom.certificates.certificate import Verdict
from carom.certificates.certify import certify

pytestmark = pytest.mark.slow


def test_a_thousand_bounces_that_lose_all_energy():
    """On a spring: under its weight alone a flight ends with a step, and Maury loses nothing."""
    system = carom.System(
        force=lambda t, q, v: -9.81 - 0.5 * q, gap=lambda t, q: q, restitution=1.0
    )
    sol = carom.solve(system, carom.Maury(), [1.0], [0.0], t1=903.0, dt=0.05)
    energy = 0.5 * sol.v[:, 0] ** 2 + 9.81 * sol.q[:, 0] + 0.25 * sol.q[:, 0] ** 2
    assert energy[len(energy) // 2] < 1e-3 * energy[0]
    assert certify(sol).verdict is Verdict.COARSE


@pytest.mark.parametrize("scheme", [carom.Moreau(), carom.PaoliSchatzman()], ids=str)
def test_a_bead_that_leaves_its_ring(scheme):
    """The speed is 10 for ever, exactly; Moreau's bead ends beside the ring, both are slow."""
    ring = carom.System(
        force=lambda t, q, v: jnp.zeros(2), gap=lambda t, q: 1.0 - jnp.sqrt(q @ q + 1e-300)
    )
    for dt in (1e-2, 2e-4):
        sol = carom.solve(ring, scheme, [1.0, 0.0], [0.0, 10.0], t1=1.0, dt=dt)
        exact = np.stack([np.cos(10.0 * sol.t), np.sin(10.0 * sol.t)], axis=1)
        true, found = np.max(np.linalg.norm(sol.q - exact, axis=1)), certify(sol)
        assert found.ok is not False, str(found)
        assert not (found.ok and true > 0.3), str(found)
        assert found.error > 0.9 * true or found.ok is None, str(found)
        assert true < 0.3 or found.verdict is Verdict.COARSE


@pytest.mark.parametrize("duration", [1e-3, 0.05, 0.2, 0.5, 1.0])
def test_walls_too_soft(duration):
    """The error of a soft wall is of the order of its depth, and of the time a contact lasts."""
    problem = carom.models.bouncing_ball(e=0.8, t1=2.0)
    scheme = carom.Penalty(duration=duration)
    sol = carom.solve(problem.system, scheme, problem.q0, problem.v0, t1=2.0, dt=1e-3)
    true = np.max(np.abs(sol.q - problem.exact(sol.t)[0])) / 0.5
    found = certify(sol)
    assert found.ok is not False or true > 0.05, f"{true}\n{found}"
    assert not (found.ok and true > 0.3), f"{true}\n{found}"
    assert found.ok or duration > 1e-3, f"{true}\n{found}"


@pytest.mark.parametrize("dt", [0.1, 1.0, 10.0])
def test_fermi_and_ulam_at_any_spacing(dt):
    system = carom.System(
        force=lambda t, q, v: jnp.zeros(1),
        gap=lambda t, q: jnp.array([q[0] - 0.1 * jnp.sin(t), 2.0 - q[0]]),
        restitution=1.0,
    )
    found = certify(carom.solve(system, carom.EventDriven(), [1.0], [1.3], t1=40.0, dt=dt))
    assert found.ok, str(found)
    assert found.error < 1e-5


def test_a_law_of_hertz_at_any_spacing():
    """A force that pushes as depth^1.5, many times between two records."""
    system = carom.System(
        force=lambda t, q, v: 1e4 * jnp.maximum(-q, 0.0) ** 1.5 - 9.81, gap=lambda t, q: q + 1.0
    )
    for dt in (0.1, 0.5):
        found = certify(carom.solve(system, carom.EventDriven(), [1.0], [0.0], t1=5.0, dt=dt))
        assert found.ok, str(found)
        assert found.error < 1e-4


def test_galperins_billiard():
    """Masses 1 : 10^4: 314 impacts, all of them between two records."""
    system = carom.System(
        force=lambda t, q, v: jnp.zeros(2),
        gap=lambda t, q: jnp.array([q[0], q[1] - q[0]]),
        mass=[1.0, 1e4],
        restitution=1.0,
    )
    for dt in (0.1, 8.0):
        sol = carom.solve(system, carom.EventDriven(), [1.0, 1.1], [0.0, -1.0], t1=8.0, dt=dt)
        assert len(sol.impacts) == 314
        found = certify(sol)
        assert found.ok, str(found)


def test_a_slider_crank_that_converges():
    """By the angle of its crank, the slider against a stop: refused at no dt, accepted at fine."""

    def slider(q):
        return jnp.cos(q[0]) + jnp.sqrt(4.0 - jnp.sin(q[0]) ** 2)

    def mass(q):
        s, root = jnp.sin(q), jnp.sqrt(4.0 - jnp.sin(q) ** 2)
        return 1.0 + (s + s * jnp.cos(q) / root) ** 2

    system = carom.Lagrangian(
        mass=mass,
        potential=lambda q: jnp.sin(q[0]),
        gap=lambda t, q: 2.9 - slider(q),
        restitution=0.5,
    )
    start = {"q0": [np.pi / 2], "v0": [-2.0], "t1": 6.0}
    exact = carom.solve(system, carom.EventDriven(), **start, dt=6.0 / 8009)
    for steps in (41, 211, 1009, 8009):
        sol = carom.solve(system, carom.Maury(), **start, dt=6.0 / steps)
        true = np.max(np.abs(sol.q[:, 0] - np.interp(sol.t, exact.t, exact.q[:, 0])))
        found = certify(sol)
        assert found.ok is not False, f"{steps} steps, {true}\n{found}"
        assert not (found.ok and true > 0.3), f"{steps} steps, {true}\n{found}"
    assert found.ok, f"{true}\n{found}"
