"""Walls that move, with friction: the same motion in every frame that moves evenly."""

import numpy as np
import pytest

import carom
from by_trait import WITH_FRICTION
from carom.spheres import Obstacles, Panel, Plane


def in_a_frame(d, seed, boost, mu):
    """Spheres thrown about in a box whose floor shakes and runs as a belt, seen from a frame."""
    rng = np.random.default_rng(seed)
    k, n, r = np.arange(8), 2 if d == 3 else 3, 0.05
    x = np.stack([k // n**a % n for a in range(d)], axis=1) * 0.11 + 0.06
    x = x + 0.002 * rng.uniform(-1.0, 1.0, x.shape)
    boost, up = boost * rng.normal(size=d), np.eye(d)[-1]
    belt, wide = 0.5 * np.eye(d)[0], 0.11 * n + 0.01

    def wall(point, normal, shake, surface):
        def moved(t):
            return point + boost * t + shake * (1.0 - np.cos(30.0 * t)) * up

        return Plane(moved, normal, velocity=surface + boost)

    walls = [wall(0.0 * up, up, 0.003, belt)]
    for e in np.eye(d)[:-1]:
        walls += [wall(0.0 * up, e, 0.0, 0.0), wall(wide * e, -e, 0.0, 0.0)]
    about = {"gravity": -9.81 * up, "friction": mu, "tolerance": 1e-8}
    v = 0.3 * rng.normal(size=x.shape) + boost
    pile = carom.Spheres(x, r, v, walls=walls, **about)
    sol = carom.solve(pile, carom.Maury(), t1=0.1, dt=2e-3, throw=False)
    t = np.asarray(sol.t)[:, None, None]
    return sol.q - boost * t, sol.v - boost, sol.spin, sol.status, np.max(sol.overlap)


@pytest.mark.slow
@pytest.mark.parametrize("mu", [0.2, 0.5])
@pytest.mark.parametrize("d", [2, 3])
def test_every_frame_sees_the_same(d, mu):
    for seed in range(3):
        still, moving = (in_a_frame(d, seed, boost, mu) for boost in (0.0, 2.0))
        assert still[3] == moving[3] == carom.Status.ok
        assert max(still[4], moving[4]) <= 1.01e-8
        for one, other in zip(still[:3], moving[:3], strict=True):
            scale = max(1.0, np.max(np.abs(one)))
            np.testing.assert_allclose(other, one, rtol=0, atol=1e-4 * scale)
        assert np.max(np.abs(still[2])) > 1.0  # the belt turns them


@pytest.mark.parametrize("d", [pytest.param(2, marks=pytest.mark.slow), 3])
def test_walls_that_wedge_are_told(d):
    """With mu = 1 the floor that rises wedges spheres between walls: such a step has no answer (of
    the plane, a search over all modes finds none).  It is told, in every frame at the same step;
    the rise of the floor was left out there before, and spheres overlapped by 1e-2."""
    still, moving = (in_a_frame(d, 1, boost, 1.0) for boost in (0.0, 2.0))
    assert still[3] == moving[3] == carom.Status.unconverged
    assert max(still[4], moving[4]) <= 1e-4  # of order dt^2: the floor's speed at the end of a step
    np.testing.assert_allclose(moving[0], still[0], rtol=0, atol=1e-6)


def turned(axis, angle):
    """Rodrigues's matrix."""
    K = np.cross(np.eye(3), axis)
    return np.eye(3) + np.sin(angle) * K + (1.0 - np.cos(angle)) * K @ K


@pytest.mark.parametrize("scheme", WITH_FRICTION, ids=str)
def test_a_panel_that_tumbles(scheme):
    """About an axis that is neither of its own: its edges stay orthogonal to the end of the run."""
    axis, rate = np.array([1.0, 2.0, 2.0]) / 3.0, 2.0
    edges = np.eye(3)[:2]

    def corner(t):
        return -0.5 * turned(axis, rate * t) @ edges.sum(axis=0)

    panel = Panel(corner, *(lambda t, e=e: turned(axis, rate * t) @ e for e in edges))
    pile = carom.Spheres([[-0.2, 0.1, 0.1]], 0.1, walls=[panel], friction=0.2)
    sol = carom.solve(pile, scheme, t1=0.1, dt=2e-3, record=carom.Record(every=1))
    speed = rate * np.cross(axis, [-0.2, 0.1, 0.0])[2]
    np.testing.assert_allclose(sol.v[0, 0, 2], speed, rtol=1e-2)  # a difference within the run
    assert carom.certify(sol).ok is not False


def test_an_overlap_that_wedged_spheres_keep_is_told():
    """Spheres in a drum of six panels that turns within a step by what no tangent sees: mu = 1
    wedges one between panel and end, and what has entered it by dt^2 stays; it ended as ok."""
    angles = np.linspace(0.0, 2.0 * np.pi, 7)

    def at(k, t):
        return 2.0 * np.array([np.cos(angles[k] + 5.0 * t), 0.0, np.sin(angles[k] + 5.0 * t)])

    drum = [
        Panel(
            lambda t, k=k: at(k, t) - [0.0, 2.0, 0.0],
            lambda t, k=k: at(k + 1, t) - at(k, t),
            (0.0, 4.0, 0.0),
        )
        for k in range(6)
    ]
    ends = [Plane((0, -2, 0), (0, 1, 0)), Plane((0, 2, 0), (0, -1, 0))]
    x = [[-0.01, -0.8, 0.03], [0.58, 1.0, -0.05], [-0.41, 0.16, -0.26]]
    v = [[0.14, 0.4, 0.6], [0.03, 1.11, -0.73], [-1.44, -1.78, -1.62]]
    about = {"velocity": v, "walls": drum + ends, "gravity": (0, 0, -9.81), "friction": 1.0}
    pile = carom.Spheres(x, [0.22, 0.28, 0.32], **about)
    sol = carom.solve(pile, carom.Maury(), t1=1.0, dt=0.01, throw=False)
    assert np.max(sol.overlap) > 1e-4
    assert sol.status is carom.Status.loose
    assert sol.stats.loose >= 1
    assert sol.stats.residual > 1e-3


@pytest.mark.parametrize("t0", [0.0, 1e7])
@pytest.mark.parametrize("scheme", WITH_FRICTION, ids=str)
def test_walls_move_as_fast_at_any_time(scheme, t0):
    """Rounding of t is no velocity of walls: 2/7 of a floor's that carries a ball along."""
    dt = 1e-4
    floor = Plane(lambda t: (0.7 * (t - t0), 0.0, 0.0), (0.0, 0.0, 1.0))
    bump = Obstacles(lambda t: [(0.7 * (t - t0), 5.0, -1.0)], 1.0)
    about = {"gravity": (0.0, 0.0, -9.81), "friction": 1e3}
    for wall, x in ((floor, [0.0, 0.0, 0.5]), (bump, [0.0, 5.0, 0.5])):
        pile = carom.Spheres([x], 0.5, walls=[wall], **about)
        sol = carom.solve(pile, scheme, t0=t0, t1=t0 + 5 * dt, dt=dt)
        np.testing.assert_allclose(sol.v[-1, 0, 0], 0.2, rtol=2e-5)  # the bump bends
