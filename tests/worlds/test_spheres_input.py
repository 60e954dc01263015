"""What Spheres and their walls are given: every mistake has a name, every promise is kept."""

import numpy as np
import pytest

import carom
from by_trait import OF_ANY_WORLD
from carom import errors
from carom.spheres import Box, Cylinder, Obstacles, Panel, Plane, Shell
from carom.worlds.spheres.walls import described

each_scheme = pytest.mark.parametrize("scheme", OF_ANY_WORLD, ids=lambda s: type(s).__name__)


# ---- walls where space repeats ------------------------------------------------------------------


@each_scheme
@pytest.mark.parametrize("turns", [0, -1, 3])
def test_a_sphere_meets_the_images_of_a_panel(scheme, turns):
    panel = Panel((5.0 + 10.0 * turns, -1.0), (0.0, 2.0))
    pile = carom.Spheres([[7.0, 0.0]], 0.5, [[1.0, 0.0]], periodic=(10, None), walls=[panel])
    sol = carom.solve(pile, scheme, t1=9.0, dt=1e-2)
    assert np.max(sol.x[..., 0]) == pytest.approx(14.5, abs=0.011)
    assert sol.v[-1, 0, 0] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize(
    ("wall", "text"),
    [
        (Plane((0, 0, 0), (1, 0, 1)), "across the period"),
        (Box((0, 0, 0), (10, 10, np.inf)), "across the period"),
        (Cylinder((0, 0, 0), (1, 0, 1), 2.0), "askew"),
        (Cylinder((0, 0, 0), (0, 1, 0), 6.0), "does not fit"),
        (Shell((0, 0, 0), 6.0), "does not fit"),
        (Panel((0, 0, 0), (20, 0, 1)), "longer than the period"),
    ],
)
def test_a_wall_that_contradicts_its_images(wall, text):
    with pytest.raises(errors.ShapeError, match=text):
        carom.Spheres([[1.0, 1, 1]], 0.1, walls=[wall], periodic=(10, None, None))


# ---- functions of time --------------------------------------------------------------------------


@each_scheme
@pytest.mark.parametrize("e", [0.0, 0.7])
def test_a_radius_is_asked_within_the_run(scheme, e):
    asked = []

    def radius(t):
        asked.append(t)
        return 1.0 * t

    def floor(t):
        asked.append(t)
        return (0.0, 0.0, 0.1 * t)

    pile = carom.Spheres(
        [[0, 0, 3.0], [5.0, 0, 3.0]], radius, walls=[Plane(floor, (0, 0, 1))], restitution=e
    )
    sol = carom.solve(pile, scheme, t1=1.9, t0=1.0, dt=0.01)
    assert min(asked) >= 1.0
    assert max(asked) <= 1.9
    assert sol.pile.smallest == 1.0
    assert carom.certify(sol).ok is not False


@each_scheme
def test_a_floor_that_rises_to_the_end(scheme):
    """The rates at both ends, and what a scheme asks for beyond, go straight on."""
    rise = Plane(lambda t: (0.0, 0.5 * t) if 0.0 <= t <= 1.0 else (np.nan, np.nan), (0, 1))
    sol = carom.solve(carom.Spheres([[0, 1.0]], 1.0, walls=[rise]), scheme, t1=1.0, dt=0.02)
    np.testing.assert_allclose(sol.v[-1, 0], (0.0, 0.5), atol=1e-5)
    np.testing.assert_allclose(sol.x[-1, 0], (0.0, 1.5), atol=0.011)


# ---- failures keep what there is ----------------------------------------------------------------


def falling(**options):
    return carom.Spheres([[0.0, 0.0]], 0.5, gravity=(0.0, -9.81), **options)


FAILURES = {
    "period": (
        lambda: carom.Spheres([[0.0, 0.0]], lambda t: 0.5 + t, periodic=(3, 3)),
        errors.ShapeError,
        "period 3",
    ),
    "shape": (
        lambda: falling(force=lambda t, x, v: np.zeros((2, 3) if t > 0.5 else (1, 2)) + 1.0),
        errors.ShapeError,
        r"force\(t, x, v\) has shape \(2, 3\)",
    ),
    "raises": (
        lambda: falling(force=lambda t, x, v: x / (0 if t > 0.5 else 1) if t <= 0.5 else {}["a"]),
        errors.RunError,
        "force raised KeyError",
    ),
    "radius": (
        lambda: carom.Spheres([[0.0, 0.0]], lambda t: 0.5 - t),
        errors.ShapeError,
        "every radius must be positive",
    ),
    "wall": (
        lambda: falling(walls=[Plane(lambda t: (0, -9) if t < 0.5 else (0, np.nan), (0, 1))]),
        errors.ShapeError,
        "point is",
    ),
    "obstacles": (
        lambda: falling(walls=[Obstacles(lambda t: [[9, 9]] * (1 + (t > 0.5)), 1.0)]),
        errors.ShapeError,
        "number must stay the same",
    ),
}


@each_scheme
@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_keeps_what_there_is(name, scheme, tmp_path):
    make, kind, text = FAILURES[name]
    options = {"t1": 1.0, "dt": 0.01}
    with pytest.raises(kind, match=text) as caught:
        carom.solve(make(), scheme, **options)
    sol = caught.value.solution
    assert 1 < len(sol) < 102
    assert sol.stats.steps > 0
    assert sol.t[-1] == pytest.approx(0.01 * sol.stats.steps)
    quiet = carom.solve(make(), scheme, throw=False, **options)
    assert quiet.status is carom.Status.error
    assert text.split()[0].strip("\\") in str(quiet.error) or kind is errors.ShapeError
    np.testing.assert_array_equal(quiet.x, sol.x)
    path = tmp_path / "run.vtkhdf"
    written = carom.solve(make(), scheme, throw=False, record=carom.Record(path), **options)
    np.testing.assert_array_equal(written.x[-1], sol.x[-1])
    assert not carom.load(path, pile=make()).ok


def test_a_fall_through_a_short_period():
    pile = falling(periodic=(6, 6))
    sol = carom.solve(pile, carom.Maury(), t1=20.0, dt=0.02, throw=False)
    assert sol.ok or (sol.stats.steps > 100 and "period" in str(sol.error))


# ---- what is refused ----------------------------------------------------------------------------

IN_SPACE = {"position": [[0.0, 1.0, 0.5]], "radius": 0.5}


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"gravity": -9.81}, errors.ShapeError, r"gravity is -9\.81; .*\(0\.0, -9\.81\)"),
        ({"velocity": 3.0}, errors.ShapeError, "velocity"),
        ({"restitution": [0.5, 0.5]}, errors.RestitutionError, "for all contacts"),
        ({"restitution": "half"}, errors.RestitutionError, "half"),
        ({"position": "here"}, errors.ShapeError, "position is 'here'"),
        ({"position": [[0, 1], [2]]}, errors.ShapeError, "position"),
        ({"radius": None}, errors.ShapeError, "radius"),
        ({"iterations": 2.5}, errors.ShapeError, "whole number"),
        ({"periodic": "xy"}, errors.ShapeError, "periodic"),
        ({"walls": 3}, errors.KindError, "walls is 3"),
        ({"walls": [Shell((0, 0), np.nan)]}, errors.ShapeError, "radius is"),
        ({"walls": [Shell((0, 0), -1.0)]}, errors.ShapeError, "radius is"),
        ({"walls": [Cylinder((0, 0), (0, 0, 1), [1, 2])]}, errors.ShapeError, "radius is"),
        ({"walls": [Obstacles([[9, 9]], -0.1)]}, errors.ShapeError, "radius of obstacles"),
        ({"walls": [Obstacles([[9, 9]], np.nan)]}, errors.ShapeError, "radius of obstacles"),
        ({"walls": [Obstacles([[9, 9]], [1, 2, 3])]}, errors.ShapeError, "1 obstacles has shape"),
        ({"walls": [Panel((0, 0), (0, 0))]}, errors.ShapeError, "must have a length"),
        ({"walls": [Plane((0, 0, 0), (0, 0, 1))]}, errors.ShapeError, "disks move in the plane"),
        (IN_SPACE | {"walls": Plane((0, 0), (0, 1))}, errors.ShapeError, "Plane has 2 numbers"),
        (IN_SPACE | {"walls": Box((-9, -9), (9, 9))}, errors.ShapeError, "Box has 2 numbers"),
        (IN_SPACE | {"walls": Obstacles([[5, 5]], 0.1)}, errors.ShapeError, "has 2 numbers"),
        (
            {"walls": Plane((0, -1), (0, 1), velocity=(1, 1))},
            errors.ShapeError,
            "velocity = .* is not along the plane",
        ),
        (
            IN_SPACE | {"walls": Plane((0, 0, -9), (0, 0, 1), spin=2.0)},
            errors.ShapeError,
            "spin = 2 of the surface of Plane is one number",
        ),
        (
            {"walls": Panel((-9, -2), (18, 0), velocity=(1, 1))},
            errors.ShapeError,
            "velocity = .* is not along the panel",
        ),
        (
            IN_SPACE | {"walls": Plane((0, 0, -9), (0, 0, 1), spin=(0, 1, 0))},
            errors.ShapeError,
            "turns the surface of a Plane out of the plane",
        ),
        (
            {"walls": Plane((0, -1), (0, 1), spin=1.0)},
            errors.ShapeError,
            "in the plane there is no such spin",
        ),
        ({"inertia": 1e-200}, errors.MassError, "another unit"),
    ],
)
def test_bad_input_has_a_name(options, kind, text):
    with pytest.raises(kind, match=text):
        carom.Spheres(**({"position": [[0.0, 0.0], [5.0, 0.0]], "radius": 1.0} | options))


def test_a_force_of_no_spheres_is_refused():
    """Though all of its numbers are 0; a plain 0 is no force."""
    with pytest.raises(errors.ShapeError, match=r"has shape \(0, 3, 2\)"):
        carom.solve(
            falling(force=lambda t, x, v: np.zeros((0, 3, 2))), carom.Maury(), t1=0.1, dt=0.1
        )
    sol = carom.solve(falling(force=lambda t, x, v: 0.0), carom.Maury(), t1=0.1, dt=0.1)
    np.testing.assert_allclose(sol.v[-1], [[0.0, -0.981]])


def test_a_force_looks_and_does_not_touch():
    def pushing(t, x, v):
        x += 1.0
        return 0.0 * x

    with pytest.raises(errors.RunError, match=r"force raised ValueError.*read-only"):
        carom.solve(falling(force=pushing), carom.Maury(), t1=1.0, dt=0.1)


def test_a_wall_names_the_nearest_of_its_arguments():
    with pytest.raises(errors.KindError, match="Plane has no argument 'velocty'; did you mean"):
        Plane((0, 0), (0, 1), velocty=(1, 0))


def test_a_wall_has_ten_numbers():
    with pytest.raises(errors.ShapeError, match="11 numbers"):
        described(3, np.zeros(11))


@pytest.mark.parametrize(
    ("scheme", "text"),
    [
        (carom.PaoliSchatzman(geodesics=True), "geodesics"),
        (carom.PaoliSchatzman(tolerance=1e-8), "tolerance of their own"),
    ],
)
def test_options_of_systems(scheme, text):
    with pytest.raises(errors.KindError, match=text):
        carom.solve(falling(), scheme, t1=1.0, dt=0.1)


# ---- records ------------------------------------------------------------------------------------


def dropped():
    walls = [Plane((0, 0), (0, 1))]
    x = [[0.0, 0.3], [0.05, 0.55]]
    return carom.Spheres(x, 0.1, [[0.2, 0], [0, 0]], walls=walls, gravity=(0, -9.81))


@each_scheme
def test_records_lie_at_their_times(scheme, tmp_path):
    """Linear in x and constant in v between the steps, in memory and in a file."""
    run = {"t1": 0.5, "dt": 0.01}
    whole = carom.solve(dropped(), scheme, record=carom.Record(every=1), **run)
    ts = np.array([0.003, 0.1, 0.123, 0.1234, 0.2999, 0.5])
    sol = carom.solve(dropped(), scheme, record=carom.Record(times=ts), **run)
    np.testing.assert_allclose(sol.t, ts, rtol=0, atol=1e-15)
    for i in range(2):
        for d in range(2):
            straight = np.interp(ts, whole.t, whole.x[:, i, d])
            np.testing.assert_allclose(sol.x[:, i, d], straight, rtol=0, atol=1e-14)
    last = np.floor(ts / 0.01 + 1e-9).astype(int)
    np.testing.assert_array_equal(sol.v[1:], whole.v[last[1:]])
    np.testing.assert_allclose(sol.push.sum(), whole.push.sum(), rtol=1e-12)
    assert carom.certify(sol).ok is not False
    record = carom.Record(tmp_path / "times.vtkhdf", times=ts)
    written = carom.solve(dropped(), scheme, record=record, **run)
    np.testing.assert_array_equal(written.x, sol.x)
    np.testing.assert_array_equal(written.t, sol.t)


def test_records_inside_of_a_step_go_on(tmp_path):
    """Stopped after each step in turn, resumed to the same bits."""
    ts = [0.015, 0.0255, 0.0258, 0.06, 0.1333, 0.2]
    run = {"t1": 0.2, "dt": 0.01}
    path = tmp_path / "stopped.vtkhdf"
    whole = carom.solve(dropped(), carom.Maury(), record=carom.Record(times=ts), **run)
    for last in range(1, 20, 3):
        path.unlink(missing_ok=True)

        def stop(run, last=last):
            if run.step == last:
                raise KeyboardInterrupt

        record = carom.Record(path, times=ts)
        with pytest.raises(KeyboardInterrupt):
            carom.solve(dropped(), carom.Maury(), record=record, progress=stop, **run)
        record = carom.Record(path, times=ts, resume=True)
        sol = carom.solve(dropped(), carom.Maury(), record=record, **run)
        for name in ("t", "x", "v", "impulse", "work", "push", "wall_impulse"):
            assert getattr(sol, name).tobytes() == getattr(whole, name).tobytes(), (last, name)


def test_spheres_have_no_table_of_impacts():
    with pytest.raises(errors.RecordError, match="no table of impacts"):
        carom.solve(dropped(), carom.Maury(), t1=1.0, dt=0.1, record=carom.Record(impacts=True))


@pytest.mark.parametrize(
    "scheme", [s for s in OF_ANY_WORLD if not s.keeps_open], ids=lambda s: type(s).__name__
)
@pytest.mark.parametrize("e", [0.0, 0.6])
def test_a_last_state_is_a_start(scheme, e):
    pile = dropped().replaced(restitution=e)
    for t1 in (0.23, 0.3, 1.0):
        sol = carom.solve(pile, scheme, t1=t1, dt=0.01)
        again = pile.replaced(position=sol.x[-1], velocity=sol.v[-1])
        assert carom.solve(again, scheme, t1=0.1, dt=0.01).ok


def test_large_overlaps_are_no_start():
    pile = carom.Spheres([[0.0, 0.0], [1.2, 0.0]], 1.0)
    for scheme in OF_ANY_WORLD:
        with pytest.raises(errors.AdmissibilityError, match=f"{type(scheme).__name__} starts with"):
            carom.solve(pile, scheme, t1=1.0, dt=0.1)


def test_relax_says_what_is_left():
    with pytest.raises(errors.ConvergenceError, match=r"overlaps of 2\.00e\+00 radii are left"):
        carom.spheres.relax(carom.Spheres([[0.0, 0.0], [0.0, 0.0]], 1.0), largest=9.0)
    # three points 2 apart do not lie in a cube of side 1.34
    r = np.where(np.arange(30) < 3, 1.0, 1.0 / 3.0)
    with pytest.raises(
        errors.ConvergenceError, match=r"overlaps of [1-9]\.\d\de-0\d radii are left"
    ):
        carom.spheres.random(30, 0.45, radius=r, periodic=False)


@pytest.mark.slow
def test_absurd_sizes_are_told():
    """Motions and masses whose squares are no numbers."""
    pile = carom.Spheres([[0.0, 0.0, 0.0], [2.5, 0.0, 0.0]], 1.0, gravity=(-1e300, 0.0, 0.0))
    told = pytest.raises(carom.errors.NonFiniteError, match="would move by")
    with np.errstate(all="ignore"), told:
        carom.solve(pile, carom.PaoliSchatzman(), t1=1.0, dt=1.0)
    with pytest.raises(carom.errors.MassError, match="another unit"):
        carom.Spheres([[0.0, 0.0, 0.0]], 1.0, mass=5e-324)


def test_what_is_not_opened_or_taken_is_named(tmp_path):
    pile = carom.Spheres([[0.0, 0.0]], 0.5)
    with pytest.raises(carom.CaromError, match="did you mean 'friction'"):
        pile.replaced(fricton=0.1)
    sol = carom.solve(pile, carom.Moreau(), t1=0.1, dt=0.1)
    sol.save(tmp_path / "for_xarray.nc")
    with pytest.raises(carom.CaromError, match=r"saved as \.vtkhdf"):
        carom.load(tmp_path / "for_xarray.nc")
