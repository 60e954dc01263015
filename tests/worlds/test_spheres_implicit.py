"""Implicit forces of Spheres where repetition does not contract."""

from dataclasses import replace

import numpy as np
import pytest

import carom
import scenes
from carom import errors
from carom.spheres import Box, lattice
from carom.status import Status

NEWTON = carom.Moreau(implicit=True, newton=True)


def drag(t, x, v):
    return -5000.0 * v


def test_a_stiff_drag_in_free_fall():
    """v1 = (v + h g) / (1 + 5000 h), step by step."""
    pile = carom.Spheres([[0, 0, 9.0]], 0.5, [[1, 0, -1]], gravity=(0, 0, -9.81), force=drag)
    sol = carom.solve(pile, NEWTON, t1=5e-3, dt=1e-3, record=carom.Record(every=1))
    v = np.array([1.0, 0.0, -1.0])
    for k in range(1, 6):
        v = (v + 1e-3 * pile.gravity) / 6.0
        np.testing.assert_allclose(sol.v[k, 0], v, rtol=1e-9, atol=1e-15)
    with pytest.raises(errors.ContractionError):
        carom.solve(pile, carom.Moreau(implicit=True), t1=5e-3, dt=1e-3)


@pytest.mark.parametrize("e", [0.0, 0.5])
@pytest.mark.parametrize(
    "force",
    [drag, lambda t, x, v: -5000.0 * v * np.linalg.norm(v, axis=1, keepdims=True)],
    ids=["linear", "quadratic"],
)
def test_a_stiff_drag_in_a_pile(force, e):
    """m Dv = h (m g + f(v1)) + impulse, from what is recorded; masses over two decades."""
    rng = np.random.default_rng(0)
    pile = lattice(
        (3, 3, 3),
        0.5,
        velocity=rng.normal(size=(27, 3)),
        mass=10.0 ** rng.uniform(-1.0, 1.0, 27),
        walls=[Box((0, 0, 0), (3, 3, 9))],
        gravity=(0, 0, -9.81),
        restitution=e,
        force=force,
    )
    h, m = 1e-3, pile.mass[:, None]
    sol = carom.solve(pile, NEWTON, t1=5e-3, dt=h, record=carom.Record(every=1))
    assert np.max([len(c) for c in sol.contacts]) > 20
    for k in range(1, 6):
        lacks = m * (sol.v[k] - sol.v[k - 1] - h * pile.gravity) - sol.impulse[k]
        lacks -= h * force(sol.t[k], sol.x[k], sol.v[k])
        assert np.max(np.abs(lacks / m)) <= 1e-6 * np.max(np.abs(sol.v[k]))


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("e", [0.0, 0.5])
def test_what_lacks_in_a_step_of_paoli_schatzman(power, e):
    """Small steps and a drag that contracts slowly: the fixed point is found, not its noise."""

    def force(t, x, v):
        return -5000.0 * v * np.linalg.norm(v, axis=1, keepdims=True) ** power

    rng = np.random.default_rng(0)
    pile = lattice(
        (3, 3, 3),
        0.5,
        velocity=rng.normal(size=(27, 3)),
        mass=10.0 ** rng.uniform(-1.0, 1.0, 27),
        walls=[Box((0, 0, 0), (3, 3, 9))],
        gravity=(0, 0, -9.81),
        restitution=e,
        force=force,
    )
    h, m = 1e-5, pile.mass[:, None]
    sol = carom.solve(pile, carom.PaoliSchatzman(), t1=5e-5, dt=h, record=carom.Record(every=1))
    for k in range(2, 6):  # the first record is v0, not half a step on
        middle = 0.5 * (sol.v[k] + sol.v[k - 1])
        lacks = m * (sol.v[k] - sol.v[k - 1] - h * pile.gravity) - sol.impulse[k]
        lacks -= h * force(sol.t[k], sol.x[k], middle)
        assert np.max(np.abs(lacks / m)) <= 1e-6 * np.max(np.abs(sol.v[k]))


def test_a_force_that_drives_is_not_found():
    pile = carom.Spheres([[0, 0.0]], 0.5, [[1, 0.0]], force=lambda t, x, v: 5000.0 * v)
    with pytest.raises(errors.ContractionError):
        carom.solve(pile, NEWTON, t1=5e-3, dt=1e-3)


@pytest.mark.slow
def test_a_pile_at_rest_whose_weight_is_a_rounding():
    """Held by the walls: v1 = 0 is a difference of h g, and changes of 1e-15 are no divergence."""
    here = scenes.scene(99, 6)
    given = {**here.given, "glue": False}
    here = replace(here, given=given, scheme=carom.Moreau(implicit=True), drag=1.0, steps=20)
    assert here.run().status is Status.ok
