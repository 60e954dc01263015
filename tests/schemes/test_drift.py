"""Sliding along a curved wall, and the energy of a ball that bounces for long, by scheme."""

import jax.numpy as jnp
import numpy as np
import pytest

import carom


def slide(restitution, dt, correct, t1=1.0):
    """A bead inside a ring, at 10 along it."""
    ring = carom.System(
        force=lambda t, q, v: 0.0 * q,
        gap=lambda t, q: 1.0 - jnp.linalg.norm(q),
        restitution=restitution,
    )
    scheme = carom.Moreau(correct=correct)
    return carom.solve(ring, scheme, [1.0, 0.0], [0.0, 10.0], t1=t1, dt=dt)


def test_the_drift_is_as_stated():
    for dt in (4e-4, 2e-4):
        sol = slide(0.0, dt, False)
        r = (1.0 + 200.0 * dt * sol.t) ** 0.25
        assert np.allclose(np.linalg.norm(sol.q, axis=1), r, rtol=0, atol=1.0 * dt**2)
        assert np.allclose(np.linalg.norm(sol.v, axis=1), 10.0 / r, rtol=0, atol=10.0 * dt**2)


def test_corrected_without_restitution():
    """On the ring to 1e-12, and the speed of first order, as stated."""
    for dt in (4e-4, 2e-4):
        sol = slide(0.0, dt, True)
        assert np.max(np.abs(sol.gap)) < 2e-12
        speed = 10.0 / np.sqrt(1.0 + 100.0 * dt * sol.t)
        assert np.allclose(np.linalg.norm(sol.v, axis=1), speed, rtol=0, atol=1e-9)


@pytest.mark.parametrize("restitution", [0.2, 0.5, 0.8])
def test_corrected_with_restitution(restitution):
    """Position of second order, speed of first."""
    off, lost = np.zeros(2), np.zeros(2)
    for k, dt in enumerate((4e-4, 2e-4)):
        sol = slide(restitution, dt, True)
        off[k], lost[k] = np.max(np.abs(sol.gap)), 10.0 - np.linalg.norm(sol.v[-1])
    assert off[0] < 1e-5
    assert 1.8 < np.log2(off[0] / off[1]) < 2.2
    assert 0.9 < np.log2(lost[0] / lost[1]) < 1.1


def test_spheres_in_a_cylinder():
    """Centre at 0.5 from the axis, at 2 m/s for 5 s."""
    wall = carom.spheres.Cylinder((0, 0, 0), (0, 0, 1), 0.6)
    pile = carom.Spheres([[0.5, 0.0, 0.4]], 0.1, [[0.0, 2.0, 0.0]], walls=[wall])
    for correct, wanted in ((False, 0.5 * (1.0 + 2e-2 * 4.0 * 5.0 / 0.25) ** 0.25), (True, 0.5)):
        sol = carom.solve(pile, carom.Moreau(correct=correct), t1=5.0, dt=1e-2)
        r = np.linalg.norm(sol.x[-1, 0, :2])
        assert r == pytest.approx(wanted, abs=1e-8 if correct else 5e-3)
    assert sol.stats.overlap < 1e-6 * 0.1


def test_a_corrected_ball_comes_to_rest():
    """On a floor far from 0, where rounding decides what is closed."""
    ball = carom.System(
        force=lambda t, q, v: -9.81 + 0.0 * q, gap=lambda t, q: q - 3.0, restitution=0.5
    )
    sol = carom.solve(ball, carom.Moreau(correct=True), [4.0], [0.0], t1=2.5, dt=1e-2)
    assert np.all(sol.v[-20:] == 0.0)
    assert sol.impulse[-20:, 0] == pytest.approx(9.81e-2)
    assert abs(sol.gap[-1, 0]) < 1e-11


@pytest.mark.parametrize(
    ("scheme", "spring", "kept"),
    [
        (carom.Maury(), 0.5, 0.496),
        (carom.Maury(), 0.0, 1.0),
        (carom.Moreau(), 0.0, 1.0),
        (carom.Moreau(correct=True), 0.0, 1.0),
        (carom.PaoliSchatzman(), 0.0, 1.0),
    ],
    ids=["Maury on a spring", "Maury", "Moreau", "corrected", "PaoliSchatzman"],
)
def test_the_energy_of_an_elastic_ball(scheme, spring, kept):
    """Some 22 bounces: Maury loses m g h v / 2 at each, the others nothing in the long run.

    Nor does Maury under a constant force, where every flight but the first ends with a step.
    """
    ball = carom.System(
        force=lambda t, q, v: -9.81 - spring * q, gap=lambda t, q: q, restitution=1.0
    )
    sol = carom.solve(ball, scheme, [1.0], [0.0], t1=20.0, dt=1.013e-2)
    v, q = sol.v[-1, 0], sol.q[-1, 0]
    energy = 0.5 * v**2 + 9.81 * q + 0.5 * spring * q**2
    expected = pytest.approx(kept, abs=0.015 + 0.01 * (kept < 1.0))
    assert energy / (9.81 + 0.5 * spring) == expected
    if kept < 1.0:
        v = -sol.impacts.velocity_before
        lost = -np.diff(v**2 / 2) / (9.81 * 1.013e-2 * v[:-1])
        assert np.mean(lost) == pytest.approx(0.5, abs=0.1)
