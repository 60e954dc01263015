"""Certificates of spheres: at small steps, and of runs that go on."""

import copy
import dataclasses

import numpy as np
import pytest

import carom
from carom.spheres import Box
from certified import failed

EVERY = carom.Record(every=1)


def pile(**options):
    """Twelve discs that fall into a box."""
    return carom.spheres.lattice(
        [4, 3], 0.05, spacing=0.11, jitter=0.004, gravity=[0.0, -9.81],
        walls=[Box([0.0, 0.0], [0.44, np.inf])], **options,
    )  # fmt: skip


@pytest.mark.parametrize("dt", [1e-3, 1e-5, 1e-7])
def test_what_is_allowed_falls_with_the_step(dt):
    """A column at rest, in small steps: accepted, and energy from nowhere is found at every dt."""
    height = 0.125 * (0.5 + np.arange(5))
    column = carom.Spheres(
        np.stack([np.full(5, 0.25), height], axis=1), 0.0625,
        gravity=[0.0, -9.81], walls=[Box([0.0, 0.0], [0.5, np.inf])],
    )  # fmt: skip
    sol = carom.solve(column, carom.Maury(), t1=20 * dt, dt=dt, record=EVERY)
    found = carom.certify(sol)
    with pytest.raises(carom.errors.KindError, match="does not use tolerance"):
        carom.certify(sol, tolerance=1e-6)
    assert found.ok, str(found)
    assert all(len(table) == 5 for table in sol.contacts[1:])
    fallen = 9.81 * dt  # the speed that contacts take away in a step
    assert found["energy"].allowed < 1e-2 * np.sum(column.mass) * fallen**2
    faster = copy.deepcopy(sol)
    faster.v[10] += 0.3 * fallen
    assert carom.certify(faster)["energy"].ok is False
    opened = copy.deepcopy(sol)  # contacts push though they are open
    opened.x[10] *= 1.0 + 1e-4
    assert carom.certify(opened)["complementarity"].ok is False


@pytest.mark.parametrize("mu", [0.0, 0.3])
@pytest.mark.parametrize("dt", [1e-5, 1e-7])
def test_rest_at_small_steps_under_moreau(dt, mu):
    """A gap that rounding leaves open is closed at gap / dt: that is no impact, and is accepted."""
    open_by_rounding = 0
    for seed in range(10):
        up = np.random.default_rng(seed).normal(size=2)
        up /= np.linalg.norm(up)
        ball = carom.Spheres(
            [0.5 * up], 0.5, walls=[carom.Plane([0.0, 0.0], up)], gravity=-9.81 * up, friction=mu
        )
        sol = carom.solve(ball, carom.Moreau(), t1=5 * dt, dt=dt, record=EVERY)
        found = carom.certify(sol)
        assert found.ok, str(found)
        open_by_rounding += np.any(sol.v[1:, 0] @ up < -1e-13)
        slower = copy.deepcopy(sol)
        slower.v[3] -= (1e-2 * 9.81 * dt + 1e-14 / dt) * up
        assert carom.certify(slower)["impact law"].ok is False
    assert open_by_rounding


@pytest.mark.parametrize("dt", [2e-3, 1e-3])
def test_a_run_that_goes_on_is_judged_like_the_whole(dt):
    """Records at whole steps are that, wherever steps are counted from."""
    first = carom.solve(pile(), carom.Maury(), t1=0.2, dt=2e-3, record=EVERY)
    rest = carom.solve(pile(), carom.Maury(), start=first, t1=0.3, dt=dt, record=EVERY)
    found = carom.certify(rest)
    assert found.ok, str(found)
    assert found["feasibility"].allowed == pytest.approx(1.6 * 1e-6 * 0.05)
    entered = copy.deepcopy(rest)
    entered.x[20, 5] = entered.x[20, 6] + [0.1 - 1e-5, 0.0]  # an overlap of 1e-5
    assert carom.certify(entered)["feasibility"].ok is False


def test_an_overlap_that_lasts_is_no_push_at_an_open_gap():
    """Moreau keeps what an impact entered, h |w|; slow as the contact then is, it is closed."""
    entered = []
    for dt in (4e-3, 1e-3):
        drop = carom.Spheres(
            [[0, 0, 1.0013]], 0.5, walls=[carom.Plane((0, 0, 0), (0, 0, 1))], gravity=(0, 0, -9.81)
        )
        sol = carom.solve(drop, carom.Moreau(), t1=1.0, dt=dt)
        entered.append(sol.stats.overlap)
        assert carom.certify(sol).ok is not False
        opened = copy.deepcopy(sol)
        opened.x[-1] += [0, 0, 5e-2]
        assert carom.certify(opened)["complementarity"].ok is False
    assert entered[1] < 0.5 * entered[0]


@pytest.mark.parametrize("options", [{}, {"friction": 0.3}, {"restitution": 0.4}], ids=str)
def test_moreau_moves_with_the_velocity_of_the_record_before(options):
    """x1 = x + h v: checked where every step is recorded, so that a run can be accepted."""
    sol = carom.solve(pile(**options), carom.Moreau(), t1=0.1, dt=1e-3, record=EVERY)
    found = carom.certify(sol)
    assert found["kinematics"].ok, str(found)
    assert found.ok, str(found)
    shifted = copy.deepcopy(sol)
    shifted.x[50:] += 1e-3 * (sol.x[-1] - sol.x[0])
    assert carom.certify(shifted)["kinematics"].ok is False
    few = carom.Record(every=10)
    sol = carom.solve(pile(**options), carom.Moreau(), t1=0.1, dt=1e-3, record=few)
    assert carom.certify(sol)["kinematics"].ok is None


@pytest.mark.parametrize("mu", [0.0, 0.3])
def test_a_wrong_restitution_is_found(mu):
    """Between records of every step, of Moreau: all but the bounce is right."""

    def judged(e, claimed):
        sol = carom.solve(
            pile(restitution=e, friction=mu), carom.Moreau(), t1=0.1, dt=1e-3, record=EVERY
        )
        sol.pile = pile(restitution=claimed, friction=mu)
        return carom.certify(sol)["impact law"].ok

    assert judged(0.4, 0.4)
    assert judged(0.0, 0.0)
    for claimed in (0.0, 0.39, 0.41, 0.9):
        assert judged(0.4, claimed) is False
    assert judged(0.0, 0.4) is False


def test_the_only_contact_of_a_ball_bounces_with_friction_too():
    """What friction holds among several need not bounce; here nothing holds it."""

    def ball(e):
        floor = carom.Plane((0, 0), (0, 1))
        return carom.Spheres(
            [[0.0, 0.6]], 0.5, walls=[floor], gravity=(0, -10), restitution=e, friction=0.3
        )

    sol = carom.solve(ball(0.0), carom.Moreau(), t1=0.3, dt=1e-3, record=EVERY)
    assert carom.certify(sol)["impact law"].ok
    sol.pile = ball(0.8)
    assert carom.certify(sol)["impact law"].ok is False


def test_a_push_that_is_not_along_the_normal_is_found():
    """A floor without friction that stops a disc, by pushes that lean against its way."""
    floor = carom.Plane((0, 0), (0, 1))
    disc = carom.Spheres([[0.0, 0.5]], 0.5, velocity=[[1.0, 0.0]], walls=[floor], gravity=(0, -10))
    sol = carom.solve(disc, carom.Maury(), t1=1.0, dt=1e-2, record=EVERY)
    assert carom.certify(sol).ok
    for k in range(1, len(sol)):
        table, before = sol.contacts[k], sol.v[k - 1, 0, 0]
        push = np.array([-min(0.58 * table.impulse[0], before), table.impulse[0]])
        size = np.linalg.norm(push)
        sol.v[k, 0, 0] = before + push[0]
        sol.moved[k, 0, 0] = sol.dt * sol.v[k, 0, 0]
        sol.x[k, 0, 0] = sol.x[k - 1, 0, 0] + sol.moved[k, 0, 0]
        sol.contacts[k] = dataclasses.replace(
            table,
            impulse=np.array([size]),
            force=np.array([size / sol.dt]),
            normal=-push[None] / size,
        )
        sol.impulse[k, 0], sol.wall_impulse[k, 0], sol.push[k] = push, -push, size
    assert failed(carom.certify(sol)) == ["normal"]


def test_friction_with_a_part_along_the_normal_is_found():
    """A disc that rests by mu = 0.6 and has 0.5: told as more push, less a pull of friction."""

    def disc(mu):
        slope = np.arctan(0.57)
        down = (10 * np.sin(slope), -10 * np.cos(slope))
        floor = carom.Plane((0, 0), (0, 1))
        return carom.Spheres(
            [[0.0, 0.5]], 0.5, walls=[floor], gravity=down, friction=mu, inertia=1e9
        )

    sol = carom.solve(disc(0.6), carom.Maury(), t1=0.5, dt=1e-2, record=EVERY)
    assert carom.certify(sol).ok
    sol.pile = disc(0.5)
    assert failed(carom.certify(sol)) == ["cone", "slip"]
    for k, table in enumerate(sol.contacts):
        more = 0.5**2 * table.impulse / (1.0 - 0.5**2)
        pulled = table.friction - more[:, None] * table.normal
        sol.contacts[k] = dataclasses.replace(table, impulse=table.impulse + more, friction=pulled)
        sol.push[k] += np.sum(more)
    assert failed(carom.certify(sol)) == ["normal"]


def test_an_impulse_of_no_contact_is_found():
    """Two discs that stop in mid-air, each by the other's impulse, with a gap between them."""
    flying = carom.Spheres([[0.0, 0.0], [3.0, 0.0]], 0.5, velocity=[[1.0, 0.0], [-1.0, 0.0]])
    sol = carom.solve(flying, carom.Maury(), t1=0.8, dt=1e-2, record=EVERY)
    assert carom.certify(sol).ok
    sol.v[40:] = sol.moved[40:] = 0.0
    sol.x[40:] = sol.x[39]
    sol.impulse[40] += [[-1.0, 0.0], [1.0, 0.0]]
    assert carom.certify(sol)["contacts"].ok is False
    assert not carom.certify(sol).ok


def _emptied(table):
    return dataclasses.replace(
        table, **{f.name: getattr(table, f.name)[:0] for f in dataclasses.fields(table)}
    )


CHANGED = {
    "harder": lambda c: dataclasses.replace(c, impulse=1.001 * c.impulse),
    "rougher": lambda c: dataclasses.replace(c, friction=1.001 * c.friction),
    "turned": lambda c: dataclasses.replace(c, normal=c.normal[:, ::-1]),
    "none": _emptied,
}


@pytest.mark.parametrize("scheme", [carom.Maury(), carom.Moreau()], ids=str)
@pytest.mark.parametrize("change", CHANGED)
def test_contacts_that_do_not_make_the_motion_are_found(scheme, change):
    sol = carom.solve(pile(friction=0.4), scheme, t1=0.2, dt=1e-3, record=EVERY)
    found = carom.certify(sol)
    assert found["contacts"].ok, str(found)
    assert found["contacts"].value < 1e-3 * found["contacts"].allowed
    sol.contacts[150] = CHANGED[change](sol.contacts[150])
    assert carom.certify(sol)["contacts"].ok is False


def test_contacts_of_sparse_records_are_not_those_of_all_steps():
    sol = carom.solve(pile(), carom.Maury(), t1=0.2, dt=1e-3, record=carom.Record(every=7))
    with pytest.raises(KeyError):
        carom.certify(sol)["contacts"]


@pytest.mark.parametrize("scheme", [carom.Moreau(), carom.Maury()], ids=str)
def test_a_sphere_above_the_edge_of_a_panel(scheme):
    """Where the slope of its gap has a kink."""
    panel = carom.spheres.Panel((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0))
    pile = carom.Spheres([[1.0, 0.5, 0.4]], 0.4, walls=[panel], gravity=(0, 0, -9.81), friction=0.5)
    sol = carom.solve(pile, scheme, t1=0.02, dt=1e-3, record=carom.Record(every=1))
    assert np.all(sol.contacts[-1].impulse > 0.0)
    assert carom.certify(sol)["normal"].ok


def test_a_floor_that_turns_back_where_spheres_bounce():
    """A gap that opens at the end of a step, and was entered within it: moved, and not struck."""
    floor = carom.spheres.Plane(lambda t: (0.0, 0.14 * np.sin(20.0 * t)), (0.0, 1.0))
    x = np.column_stack([np.arange(20.0), 0.51 + 0.05 * np.arange(20.0)])
    pile = carom.Spheres(x, 0.5, walls=[floor], gravity=(0, -9.81), friction=0.3, restitution=0.5)
    sol = carom.solve(pile, carom.Maury(), t1=1.0, dt=0.01, record=carom.Record(every=1))
    assert carom.certify(sol).ok is not False
