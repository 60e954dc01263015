"""Motions of spheres do what motions of systems do: saved, loaded, in xarray, drawn, refined."""

import gc
import signal

import numpy as np
import pytest

import carom
from carom.fields import SPHERES
from carom.worlds.spheres.world import World


@pytest.fixture(scope="module", params=[0.0, 0.3], ids=["smooth", "rough"])
def sol(request):
    pile = carom.Spheres(
        [[0.0, 0.5], [1.1, 0.5], [0.6, 1.6]],
        0.5,
        velocity=[[1.0, 0.0], [0.0, 0.0], [0.0, -1.0]],
        walls=[carom.Plane((0.0, 0.0), (0.0, 1.0))],
        gravity=(0.0, -9.81),
        friction=request.param,
    )
    return carom.solve(pile, carom.Maury(), t1=0.5, dt=1e-2, record=carom.Record(every=5))


def test_saved_and_loaded(sol, tmp_path):
    path = tmp_path / "pile.vtkhdf"
    sol.save(path)
    found = carom.load(path)
    for name in ("t", *(field.name for field in SPHERES)):
        np.testing.assert_array_equal(getattr(found, name), getattr(sol, name), err_msg=name)
    for a, b in zip(found.contacts, sol.contacts, strict=True):
        np.testing.assert_array_equal(a.pairs, b.pairs)
        np.testing.assert_array_equal(a.impulse, b.impulse)
    assert found.ok
    assert found.stats == sol.stats
    on = [carom.solve(sol.pile, carom.Maury(), start=s, t1=0.7, dt=1e-2) for s in (sol, found)]
    np.testing.assert_array_equal(on[0].x, on[1].x)
    record = carom.Record(path, every=5, resume=True)
    with pytest.raises(carom.CaromError, match="another run"):
        carom.solve(sol.pile, carom.Maury(), t1=0.5, dt=1e-2, record=record)
    with pytest.raises(carom.CaromError, match="vtkhdf"):
        sol.save(tmp_path / "pile.png")


def test_in_xarray(sol, tmp_path):
    """Every field with its axes and its unit; contacts one after another."""
    import xarray

    data = sol.to_xarray()
    assert data["x"].dims == ("time", "sphere", "direction")
    assert data["v"].attrs["units"] == "m/s"
    assert int(data["contacts"].sum()) == data.sizes["contact"]
    sol.save(tmp_path / "pile.nc")
    with xarray.open_dataset(tmp_path / "pile.nc", engine="h5netcdf") as found:
        np.testing.assert_array_equal(found["x"], sol.x)
    with pytest.raises(carom.CaromError):
        carom.load(tmp_path / "pile.nc")


def test_drawn(sol, tmp_path):
    sol.animate(tmp_path / "pile.gif", seconds=1.0)
    assert (tmp_path / "pile.gif").stat().st_size > 1000


def test_refined():
    """A ball in free fall under Maury: order 1, and the estimate is not below the error."""
    ball = carom.Spheres([[0.0, 0.0, 5.0]], 0.5, gravity=(0.0, 0.0, -9.81))
    runs = carom.refine(ball, carom.Maury(), t1=0.5, dt=0.05, levels=4)
    assert abs(runs.order - 1.0) < 0.05
    off = np.abs(runs.solution.x[:, 0, 2] - (5.0 - 0.5 * 9.81 * runs.t**2))
    assert np.all(off <= runs.estimate)


def test_a_world_is_fixed_during_a_run():
    """What changes is in the state: no attribute of the world does."""
    drag = carom.Spheres([[0.0, 0.4], [0.9, 0.4]], 0.5, force=lambda t, x, v: -5000.0 * v)
    for scheme in (carom.Maury(), carom.Moreau(implicit=True, newton=True), carom.PaoliSchatzman()):
        world = World(drag.during(0.0, 1.0), 1e-3)
        before = dict(vars(world))
        q, v = np.pad(drag.position, ((0, 0), (0, 1))), np.ones((2, 3)) * [1.0, 0.0, 0.0]
        state = scheme.start(world, 0.0, q, v, 1e-3)
        for _ in range(3):
            state, _ = scheme.step(world, state, 1e-3)
        assert all(vars(world)[name] is value for name, value in before.items())
        assert set(vars(world)) == set(before)


def test_two_records_inside_one_step_survive_a_stop(tmp_path):
    """A run that stops between records of one step goes on to the same bits."""
    pile = carom.spheres.column(3, restitution=0.5).replaced(velocity=[[0, 0, -1.0]] * 3)
    times = [0.0313, 0.0317, 0.0319, 0.0521]
    given = {"t1": 0.06, "dt": 1e-2}
    whole = carom.solve(pile, carom.Maury(), **given, record=carom.Record(times=times))
    path = tmp_path / "pile.vtkhdf"

    def stop(run):
        if run.step == 4:
            raise KeyboardInterrupt

    record = carom.Record(path, times=times)
    with pytest.raises(KeyboardInterrupt):
        carom.solve(pile, carom.Maury(), **given, record=record, progress=stop)
    assert len(carom.load(path)) == 3
    record = carom.Record(path, times=times, resume=True)
    resumed = carom.solve(pile, carom.Maury(), **given, record=record)
    for name in ("t", "x", "v", "moved", "impulse", "work", "push"):
        np.testing.assert_array_equal(getattr(resumed, name), getattr(whole, name))
    for a, b in zip(resumed.contacts, whole.contacts, strict=True):
        np.testing.assert_array_equal(a.impulse, b.impulse)


@pytest.mark.slow
@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_inside_the_garbage_collector_ends_the_run(tmp_path):
    """There Python drops it, and prints that: the run ends after that step, and nothing is said."""
    path, usual = tmp_path / "pile.vtkhdf", signal.default_int_handler
    before = signal.signal(signal.SIGINT, usual)  # a shell has what it starts with & ignore it

    def collecting(phase, info):
        signal.raise_signal(signal.SIGINT)

    def force(t, x, v):
        if 0.045 < t < 0.05 and collecting not in gc.callbacks:
            gc.callbacks.append(collecting)
            gc.collect()
            gc.callbacks.remove(collecting)
        return np.zeros_like(x)

    pile = carom.spheres.column(3, force=force)
    with pytest.raises(KeyboardInterrupt):
        carom.solve(pile, carom.Maury(), t1=0.2, dt=1e-2, record=carom.Record(path))
    assert 4 <= len(carom.load(path, pile=pile)) <= 7
    assert signal.signal(signal.SIGINT, before) is usual
