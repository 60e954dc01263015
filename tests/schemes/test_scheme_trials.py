"""Schemes where they were once wrong or stopped: small problems, each with what must come out."""

import jax.numpy as jnp
import numpy as np
import pytest

import carom
from carom import errors


def leg(restitution, damping=0.2):
    """A hopping leg: body of 3.5 kg, foot at q0 - cos q1."""

    def mass(q):
        side = 0.5 * jnp.sin(q[1])
        return jnp.array([[3.5, side], [side, 0.5]])

    return carom.Lagrangian(
        mass=mass,
        potential=lambda q: 3.5 * 9.81 * q[0] + 10.0 * (q[1] - 0.6) ** 2,
        gap=lambda t, q: q[0] - jnp.cos(q[1]),
        force=lambda t, q, v: jnp.array([0.0, 2.0 * jnp.sin(6.0 * t) - damping * v[1]]),
        restitution=restitution,
    )


@pytest.mark.parametrize("restitution", [0.0, 0.8])
def test_the_rounding_of_a_position_is_no_divergence(restitution):
    """In a velocity it is 1 / dt times as large; the factor stays in proportion to dt."""
    system, last = leg(restitution), {}
    for dt in (1e-3, 2e-4, 1e-4, 2e-5):
        sol = carom.solve(
            system,
            carom.PaoliSchatzman(),
            [1.2, 0.5],
            [0.0, 0.0],
            t1=0.8,
            dt=dt,
            record=carom.Record(final=True),
        )
        assert sol.ok
        assert sol.stats.contraction < 2e-3
        last[dt] = sol.q[-1]
    if restitution == 0.0:
        error = [np.max(np.abs(last[dt] - last[2e-5])) for dt in (1e-3, 2e-4, 1e-4)]
        assert error[0] > 3.0 * error[1] > 5.0 * error[2]


def test_no_default_is_advised():
    stiff = carom.System(force=lambda t, q, v: jnp.where(v > 0.0, -1e9, 1e9) + 0.0 * q)
    with pytest.raises(errors.ContractionError) as caught:
        carom.solve(stiff, carom.PaoliSchatzman(), [1.0], [0.3], t1=1.0, dt=0.1)
    assert "newton" not in str(caught.value)
    with pytest.raises(errors.ContractionError, match="newton=True"):
        carom.solve(stiff, carom.PaoliSchatzman(newton=False), [1.0], [0.3], t1=1.0, dt=0.1)


@pytest.mark.parametrize("substeps", [None, 4])
def test_a_yielding_wall_takes_the_velocity_that_is_given(substeps):
    """PS93 (10): at t0 it enters, and leaves with -e v0 after the contact (4)."""
    lam, e = 1e-6, 0.5
    scheme = carom.Penalty(lam=lam, substeps=substeps)
    system = carom.System(force=lambda t, q, v: 0.0 * q, gap=lambda t, q: q, restitution=e)
    contact = float(scheme.contact_duration(system))
    sol = carom.solve(system, scheme, [0.0], [-1.0], t1=2.0 * contact, dt=contact / 16)
    assert sol.v[0, 0] == -1.0
    assert sol.impulse[0, 0] == 0.0
    assert sol.q[8, 0] < -0.3e-3  # half way through
    assert sol.v[-1, 0] == pytest.approx(e, abs=1e-6)
    assert np.sum(sol.impulse) == pytest.approx(1.0 + e, abs=1e-6)


RING = {"gap": lambda t, q: 1.0 - jnp.linalg.norm(q), "restitution": 1.0}


@pytest.mark.parametrize(
    "scheme", [carom.Moreau(), carom.Maury(), carom.PaoliSchatzman()], ids=lambda s: str(s)[:5]
)
def test_an_open_gap_needs_no_gradient(scheme):
    """From the centre, and through it: 1 - |q| has no gradient there."""
    ring = carom.System(force=lambda t, q, v: 0.0 * q, **RING)
    sol = carom.solve(ring, scheme, [0.0, 0.0], [1.0, 0.0], t1=4.0, dt=1.0 / 64)
    assert sol.ok
    assert np.any(np.all(sol.q[1:] == 0.0, axis=1) | (sol.q[1:, 0] < -0.9))
    assert np.all(np.isfinite(sol.velocity_before))
    assert np.all(np.isfinite(sol.velocity_after))
    assert abs(sol.v[-1, 0]) == pytest.approx(1.0)
    assert np.min(sol.gap) > -0.05


def test_a_gap_without_gradient_within_reach_is_named():
    ring = carom.System(force=lambda t, q, v: 0.0 * q, **RING)
    with pytest.raises(errors.GradientError, match="no gradient"):
        carom.solve(ring, carom.Maury(), [0.0, 0.0], [1.0, 0.0], t1=4.0, dt=2.0)
    with pytest.raises(errors.NonFiniteError, match="gradient"):
        carom.solve(
            carom.System(force=lambda t, q, v: 0.0 * q, gap=lambda t, q: jnp.linalg.norm(q)),
            carom.Moreau(),
            [0.0, 0.0],
            [1.0, 0.0],
            t1=1.0,
            dt=0.1,
        )


@pytest.mark.parametrize("restitution", ["0.5", b"0.5", ["0.5", 0.5]])
def test_restitution_is_a_number(restitution):
    with pytest.raises(errors.RestitutionError, match="give a number in"):
        carom.System(force=lambda t, q, v: 0.0 * q, gap=lambda t, q: q, restitution=restitution)
