"""Spheres move alike in every frame, order and unit (tests/scenes.py)."""

import numba
import numpy as np
import pytest

import carom
import scenes
from carom.kernels.numba import threads
from carom.spheres import Obstacles


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 1, *range(3, 8)])
def test_scenes_in_other_frames(number):
    _, _, found = scenes.compared(20261116, number)
    for name, (off, steps) in found.items():
        assert off[min(scenes.FIRST, len(off) - 1)] <= scenes.ALIKE, name
        assert steps[0] == steps[1], name


@pytest.mark.slow
def test_a_pressed_pile_from_its_first_step():
    """Nothing has pushed yet at the start, and rounding is not to decide who is closed.

    Motions were 38 radii apart after 12 steps by the order of the walls.  A collision in the eighth
    makes 1e-7 to 1e-6 of 1e-8, which is of the motion.
    """
    here = scenes.scene(20261116, 26)
    plain = here.run()
    kinds = dict.fromkeys(scenes.KINDS, 1) | {"walls": 4, "permuted": 4}
    for name, count in kinds.items():
        for k in range(count):
            other = scenes.KINDS[name](here, np.random.default_rng([1, k]))
            if other is not None:
                off = scenes.difference(here, plain, other, other.run())
                assert off[7] <= scenes.ALIKE, (name, k)
                assert off[scenes.FIRST] <= 100.0 * scenes.ALIKE, (name, k)


def same_bits(one, other):
    for name in ("x", "v", "spin"):
        np.testing.assert_array_equal(getattr(one, name)[-1], getattr(other, name)[-1])


@pytest.mark.slow
@pytest.mark.parametrize("number", range(8))
def test_records_leave_the_bits(number):
    here = scenes.scene(20261117, number)
    same_bits(here.run(final=True), here.run())


@pytest.mark.slow
@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="one thread")
@pytest.mark.parametrize("number", range(8))
def test_threads_leave_the_bits(number, monkeypatch):
    here = scenes.scene(20261118, number)
    alone = here.run()
    monkeypatch.setattr(threads, "_SPHERES_PER_THREAD", 1)
    same_bits(here.run(), alone)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", [carom.Maury(), carom.Moreau(), carom.PaoliSchatzman()])
@pytest.mark.parametrize("e", [0.5, 1.0])
def test_where_the_floor_lies_is_no_matter(e, scheme):
    """Thrown up at a multiple of g h a ball is back on the floor at the very end of a step."""
    h, g, last = 1e-2, 9.81, None
    for z in (0.0, -0.46, 0.27, -0.92, 0.63, 0.83, 0.21, 0.46, 0.09, 0.87):
        pile = carom.Spheres(
            [[0.0, z + 0.5]],
            0.5,
            [[0.0, 4 * g * h]],
            walls=[carom.Plane((0, z), (0, 1))],
            gravity=(0, -g),
            restitution=e,
        )
        v = carom.solve(pile, scheme, t1=60 * h, dt=h, record=carom.Record(every=1)).v
        last = v if last is None else last
        np.testing.assert_allclose(v, last, atol=1e-9)


@pytest.mark.slow
def test_with_friction_what_pushed_is_held():
    """A ball that starts to roll off another one does not lose its contact to the curvature."""
    pile = carom.Spheres(
        [[0.0, 2.0]],
        1.0,
        walls=[Obstacles([[0.0, 0.0]], 1.0)],
        gravity=(0.5, -9.81),
        friction=0.3,
    )
    sol = carom.solve(pile, carom.Moreau(), t1=0.1, dt=1e-3, record=carom.Record(every=1))
    assert all(len(table) == 1 for table in sol.contacts[1:])
    np.testing.assert_allclose(sol.impulse[1:, 0, 1], 9.81e-3, rtol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("mu", [0.0, 0.3])
@pytest.mark.parametrize("dt", [1e-3, 1e-5, 1e-7])
def test_a_wall_that_rises_slowly_carries_the_weight(dt, mu):
    """At every step: the rate of a gap is a difference, and rounding in it is a velocity."""
    pile = carom.Spheres(
        [[1.0, 1.5]],
        0.5,
        [[0.0, 0.01]],
        walls=[carom.Plane(lambda t: (1.0, 1.0 + 0.01 * t), (0, 1))],
        gravity=(0, -9.81),
        friction=mu,
    )
    sol = carom.solve(pile, carom.Moreau(), t1=200 * dt, dt=dt, record=carom.Record(every=1))
    np.testing.assert_allclose(sol.impulse[1:, 0, 1], 9.81 * dt, rtol=0.05)
