"""Certificates of spheres whose records are several steps apart, and of walls that bend."""

import copy
import dataclasses

import numpy as np
import pytest

import carom
from carom.spheres import Box, Cylinder, Shell

EVERY = carom.Record(every=1)
SPARSE = {
    "default": None,
    "second": carom.Record(every=2),
    "twentieth": carom.Record(every=20),
    "times": carom.Record(times=[0.0, 0.05, 0.1, 0.35]),
    "inside": carom.Record(times=[0.01234, 0.0303, 0.2717, 0.3999]),
}
SCHEMES = [carom.Maury(), carom.Moreau(), carom.PaoliSchatzman()]
FLOOR = carom.Plane((0, 0), (0, 1))


def flight(**options):
    """A disc that is thrown."""
    given = {"velocity": [[1.0, 0.0]], "gravity": (0, -9.81)} | options
    return carom.Spheres([[0.0, 5.0]], 0.5, **given)


def pile(**options):
    """Twelve discs that fall into a box."""
    return carom.spheres.lattice(
        [4, 3], 0.05, spacing=0.11, jitter=0.004, gravity=[0.0, -9.81],
        walls=[Box([0.0, 0.0], [0.44, np.inf])], **options,
    )  # fmt: skip


def elsewhere(sol, k, by, which=slice(None)):
    """The same, but from record k on the spheres lie elsewhere."""
    found = copy.deepcopy(sol)
    found.x[k:, which] += by
    return found


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
@pytest.mark.parametrize("e", [0.0, 0.5])
@pytest.mark.parametrize("kind", SPARSE)
def test_a_flight_that_goes_on_elsewhere_is_found(scheme, e, kind):
    """In flight records are tied to rounding, whatever lies between them."""
    sol = carom.solve(flight(restitution=e), scheme, t1=0.4, dt=1e-3, record=SPARSE[kind])
    found = carom.certify(sol)
    assert found["path"].ok, str(found)
    assert found.ok is not False, str(found)
    if scheme == carom.Maury() and e == 0.0:
        assert found.ok, str(found)
    for by in ([30.0, 7.0], [0.0, 0.05], [-0.01, 0.0]):
        for k in (1, len(sol) - 1):
            moved = carom.certify(elsewhere(sol, k, by))
            assert moved["path"].ok is False, str(moved)


def test_a_flight_is_bounded_to_rounding():
    sol = carom.solve(flight(), carom.Maury(), t1=0.8, dt=1e-3)
    assert carom.certify(elsewhere(sol, 20, [1e-9, 0.0]))["path"].ok is False


def test_x_that_stays_while_v_falls_is_found():
    sol = carom.solve(flight(), carom.Maury(), t1=0.8, dt=1e-3, record=carom.Record(every=20))
    sol.x[1:] = [1000.0, 5.0]
    assert carom.certify(sol)["path"].ok is False


@pytest.mark.parametrize("options", [{}, {"friction": 0.5}, {"restitution": 0.5}], ids=str)
@pytest.mark.parametrize("scheme", [carom.Maury(), carom.Moreau()], ids=str)
@pytest.mark.parametrize("kind", SPARSE)
def test_a_sphere_out_of_a_pile_is_found(scheme, options, kind):
    """For good or for one record, though contacts push; the right run is not refused."""
    sol = carom.solve(pile(**options), scheme, t1=0.4, dt=1e-3, record=SPARSE[kind])
    found = carom.certify(sol)
    assert found.ok is not False, str(found)
    if scheme == carom.Maury() and "restitution" not in options:
        assert found.ok, str(found)
    for which in (slice(None), 7):
        assert carom.certify(elsewhere(sol, len(sol) // 2, [0.0, 3.0], which)).ok is False
        once = copy.deepcopy(sol)
        once.x[1, which] += [0.0, 3.0]
        assert carom.certify(once).ok is False


@pytest.mark.parametrize("every", [10, 100])
def test_what_rests_is_bounded_by_the_energy_that_is_lost(every):
    """At rest none is: a disc strays by a part of a radius at most in a hundred steps.

    What contacts push in them would bring it over ten radii away.
    """
    radius, steps = 0.0625, 2 * every
    height = radius * (1.0 + 2.0 * np.arange(5))
    column = carom.Spheres(
        np.stack([np.full(5, 0.25), height], axis=1), radius,
        gravity=[0.0, -9.81], walls=[Box([0.0, 0.0], [0.5, np.inf])],
    )  # fmt: skip
    record = carom.Record(every=every)
    sol = carom.solve(column, carom.Maury(), t1=steps * 1e-3, dt=1e-3, record=record)
    found = carom.certify(sol)
    assert found.ok, str(found)
    strays = 0.3 * radius * (every / 100) ** 2
    assert found["path"].allowed < strays
    assert 0.5 * every * 1e-3 * sol.push[1] / column.mass[4] > 10.0 * radius * (every / 100) ** 2
    assert carom.certify(elsewhere(sol, 1, [0.0, strays], 4))["path"].ok is False


def _emptied(table):
    return dataclasses.replace(
        table, **{f.name: getattr(table, f.name)[:0] for f in dataclasses.fields(table)}
    )


CHANGED = {
    "none": _emptied,
    "harder": lambda c: dataclasses.replace(c, impulse=1.5 * c.impulse),
}


@pytest.mark.parametrize("every", [2, 10])
@pytest.mark.parametrize("change", CHANGED)
def test_contacts_of_a_last_step_that_made_no_such_motion_are_found(every, change):
    """At rest each step is like the one before, and so must the contacts of the last one be."""
    disc = carom.Spheres([[0.0, 0.5]], 0.5, gravity=(0, -9.81), walls=[FLOOR])
    record = carom.Record(every=every)
    sol = carom.solve(disc, carom.Maury(), t1=0.1, dt=1e-3, record=record)
    found = carom.certify(sol)
    assert found["last step"].ok, str(found)
    assert found["step before it"].ok, str(found)
    sol.contacts[3] = CHANGED[change](sol.contacts[3])
    assert carom.certify(sol)["last step"].ok is False


def test_contacts_left_out_of_a_moving_pile_are_found():
    """Two steps before a record the spheres would have been in each other."""
    sol = carom.solve(pile(), carom.Maury(), t1=0.4, dt=2e-3, record=carom.Record(every=10))
    found = carom.certify(sol)
    assert found.ok, str(found)
    sol.contacts = [_emptied(table) for table in sol.contacts]
    assert carom.certify(sol)["step before it"].ok is False


BENT = {
    "disc": ([0.0, -0.8], Shell((0, 0), 1.0)),
    "ball": ([0.0, 0.0, -0.8], Shell((0, 0, 0), 1.0)),
    "drum": ([0.0, 0.0, -0.8], Cylinder((0, 0, 0), (0, 1, 0), 1.0)),
}


@pytest.mark.parametrize("every", [1, 7])
@pytest.mark.parametrize("kind", BENT)
def test_what_a_bent_wall_lifts_out_is_no_energy_from_nowhere(kind, every):
    """lam d / h is gained where a wall was entered by d, as a ball climbs it: so much, not more."""
    x, wall = BENT[kind]
    up, along = np.eye(len(x))[-1], np.eye(len(x))[0]
    ball = carom.Spheres([x], 0.2, velocity=[1.4 * along], walls=[wall], gravity=-9.81 * up)
    record = carom.Record(every=every)
    sol = carom.solve(ball, carom.Maury(), t1=0.05, dt=1e-4, record=record)
    found = carom.certify(sol)
    assert found.ok, str(found)
    gained = np.diff(sol.kinetic_energy()) - sol.work[1:]
    assert np.max(gained) > 1e-2 * found["energy"].allowed  # there is something to be allowed
    faster = copy.deepcopy(sol)
    faster.v[-1] *= 1.0 + 1e-4
    assert carom.certify(faster)["energy"].ok is False


def test_what_rounding_leaves_of_a_push_is_no_contact():
    """Two bodies that fall side by side: a guess of 1e-16 is dropped, and judged as none before."""
    rng = np.random.default_rng(26)
    u = rng.normal(size=3)
    u /= np.linalg.norm(u)
    r, v = rng.uniform(0.3, 1, 2), 0.5 * rng.normal(size=(2, 3))
    two = carom.Spheres(
        [[0, 0, 0], u * r.sum()], r, velocity=v, gravity=(-10.0, -15, -13.0),
        mass=10 ** rng.uniform(-3, 3, 2),
    )  # fmt: skip
    sol = carom.solve(two, carom.Maury(), t1=0.3, dt=3e-2, record=EVERY)
    found = carom.certify(sol)
    assert found.ok, str(found)
    assert sol.contacts[0].impulse[0] > 0.01
    assert not any(len(table) for table in sol.contacts[2:])
    apart = copy.deepcopy(sol)  # 1e-9 of what they move at is a push at an open gap
    pushed = dataclasses.replace(sol.contacts[0], impulse=1e-9 * sol.contacts[0].impulse)
    apart.contacts[5] = pushed
    assert carom.certify(apart)["complementarity"].ok is False


LATE = {
    "final": carom.Record(final=True),
    "rest": carom.Record(times=[0.7, 0.8, 0.9]),
    "inside": carom.Record(times=[0.7003, 0.8001, 0.90007]),
}


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
@pytest.mark.parametrize("kind", LATE)
def test_an_impact_before_the_first_record_is_allowed_for(scheme, kind):
    """How fast it was nobody saw; what contacts pushed, and gravity, bound it."""
    drop = carom.Spheres([[0, 1.0]], 0.5, gravity=(0, -9.81), walls=[FLOOR])
    sol = carom.solve(drop, scheme, t1=1.0, dt=2e-3, record=LATE[kind])
    found = carom.certify(sol)
    assert found["feasibility"].ok, str(found)
    assert found["feasibility, run"].ok, str(found)
    assert found.ok is not False, str(found)
    deep = elsewhere(sol, 0, [0.0, -0.3])
    assert carom.certify(deep)["feasibility"].ok is False


def test_every_step_of_a_run_that_goes_on_is_bounded_as_before():
    """Its first record is its start: nothing unseen lies before it."""
    drop = carom.Spheres([[0, 1.0]], 0.5, gravity=(0, -9.81), walls=[FLOOR])
    first = carom.solve(drop, carom.Moreau(), t1=0.5, dt=1e-3, record=EVERY)
    rest = carom.solve(drop, carom.Moreau(), start=first, t1=0.6, dt=1e-3, record=EVERY)
    found = carom.certify(rest)["feasibility, run"]
    assert found.allowed < carom.certify(first)["feasibility, run"].allowed


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_one_record_alone_is_not_fully_checked(scheme):
    """Nothing says where it came from."""
    sol = carom.solve(flight(), scheme, t1=0.4, dt=1e-3, record=carom.Record(final=True))
    found = carom.certify(sol)
    assert found.ok is None
    assert found["path"].ok is None
    assert found["momentum"].ok is None


FORCES = {
    "swells": lambda t, x, v: 5.0 * (1.0 - np.cos(40.0 * t)) + 0.0 * x,
    "swings": lambda t, x, v: np.sin(300.0 * t) + 0.0 * x,
    "drags": lambda t, x, v: -0.3 * v,
}


@pytest.mark.parametrize("kind", [*SPARSE, "every"])
@pytest.mark.parametrize("force", FORCES)
def test_a_force_that_changes_within_a_step_gains_nothing(force, kind):
    """Its work is that of the force which the step had."""
    ball = flight(force=FORCES[force], gravity=(0, 0))
    record = (SPARSE | {"every": EVERY})[kind]
    sol = carom.solve(ball, carom.Maury(), t1=0.4, dt=1e-3, record=record)
    found = carom.certify(sol)
    assert found["energy"].ok, str(found)
    assert found.ok is not False, str(found)
    assert not carom.certify(elsewhere(sol, len(sol) // 2, [30.0, 7.0])).ok
    if kind != "inside":
        assert carom.certify(elsewhere(sol, len(sol) // 2, [3.0, 0.7]))["path"].ok is False


@pytest.mark.parametrize("every", [1, 7])
@pytest.mark.parametrize("e", [0.7, 1.0])
def test_a_bounce_that_takes_two_steps_is_not_refused(e, every):
    """PaoliSchatzman stops a velocity before it turns it: no energy comes from nowhere."""
    record, halfway = carom.Record(every=every), 0
    for height in np.linspace(1.0, 1.1, 5):
        ball = carom.Spheres(
            [[0, height]], 0.5, velocity=[[0.3, -2.0]], walls=[FLOOR], restitution=e
        )
        sol = carom.solve(ball, carom.PaoliSchatzman(), t1=1.5, dt=1e-2, record=record)
        halfway += np.any(np.diff(sol.kinetic_energy()) > 0.01)
        found = carom.certify(sol)
        assert found.ok is None, str(found)
        assert found["energy"].ok is None
        assert carom.certify(elsewhere(sol, len(sol) // 2, [0.0, 3.0])).ok is False
    assert halfway or every > 1
