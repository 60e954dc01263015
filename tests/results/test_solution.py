"""What ``solve`` hands back: fields, times between records, impacts, files, pictures."""

from itertools import islice

import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
import pytest

import carom
from carom import Moreau, Record, Status
from carom.errors import CaromError, RecordError, TimeError

mpl.use("Agg")

# A particle in the plane over a floor and beside a wall.
SYSTEM = carom.System(
    force=lambda t, q, v: jnp.array([0.0, -9.81]),
    gap=lambda t, q: jnp.stack([q[1], 2.0 - q[0]]),
    mass=[2.0, 2.0],
    restitution=[0.5, 0.8],
)
RUN = {"q0": [0.0, 1.0], "v0": [2.0, 0.0], "t1": 2.0, "dt": 0.01}
N, D, P = 201, 2, 2


def run(**changed):
    return carom.solve(SYSTEM, Moreau(), **(RUN | changed))


@pytest.fixture(scope="module")
def sol():
    return run()


@pytest.fixture(scope="module")
def grid():
    """Two batches of three."""
    v0 = jnp.array([[[2.0, 0.0], [1.0, 1.0], [0.0, 3.0]], [[1.0, 0.0], [2.0, 2.0], [0.0, 1.0]]])
    return jax.jit(jax.vmap(jax.vmap(lambda v0: run(v0=v0))))(v0)


@pytest.fixture(scope="module")
def batch(grid):
    return grid[0]


# Fields.


def test_shapes(sol):
    assert sol.t.shape == (N,)
    assert sol.q.shape == sol.v.shape == (N, D)
    assert sol.gap.shape == sol.impulse.shape == (N, P)
    assert sol.velocity_before.shape == sol.velocity_after.shape == (N, P)
    assert len(sol) == N


def test_arrays_are_numpy(sol):
    for name in ("t", "q", "v", "gap", "impulse"):
        assert isinstance(getattr(sol, name), np.ndarray)
        assert getattr(sol, name).dtype == np.float64


def test_what_the_fields_mean(sol):
    assert sol.t[0] == 0.0
    assert sol.t[-1] == 2.0
    assert sol.q[0].tolist() == [0.0, 1.0]
    assert np.array_equal(sol.gap, np.stack([sol.q[:, 1], 2.0 - sol.q[:, 0]], axis=1))
    assert np.all(sol.impulse >= 0.0)
    # momentum: 2 v' = force + the impulses, step by step
    push = np.stack([-sol.impulse[1:, 1], sol.impulse[1:, 0]], axis=1)
    change = 2.0 * np.diff(sol.v, axis=0) - sol.dt * np.array([0.0, -9.81])
    assert np.allclose(change, push, rtol=0, atol=1e-12)


def test_stats_and_status(sol):
    assert sol.ok
    assert bool(sol.status == Status.ok)
    assert sol.stats.steps == N - 1
    assert 0.0 <= sol.stats.residual < 1e-12
    assert sol.stats.iterations > 0
    assert sol.dt == 0.01
    assert sol.scheme == Moreau()
    assert sol.system is SYSTEM


def test_no_gap():
    free = carom.System(force=lambda t, q, v: -q)
    sol = carom.solve(free, Moreau(), [1.0], [0.0], t1=1.0, dt=0.1)
    assert sol.gap.shape == sol.impulse.shape == (11, 0)
    assert len(sol.impacts) == 0
    assert "smallest gap" not in str(sol)


# Between the records.


def test_at_is_linear_in_q_and_constant_in_v(sol):
    t = np.array([0.0, 0.005, 0.0125, 1.999, 2.0])
    q, v = sol.at(t)
    assert q.shape == v.shape == (5, D)
    assert np.allclose(q[1], (sol.q[0] + sol.q[1]) / 2, rtol=0, atol=1e-15)
    assert np.allclose(q[2], 0.75 * sol.q[1] + 0.25 * sol.q[2], rtol=0, atol=1e-15)
    assert np.array_equal(v, sol.v[[0, 0, 1, 199, 200]])
    assert np.array_equal(q[-1], sol.q[-1])


def test_at_one_time(sol):
    q, v = sol.at(0.505)
    assert q.shape == v.shape == (D,)
    assert np.array_equal(v, sol.v[50])


def test_at_the_side_of_a_jump(sol):
    step = int(sol.impacts.step[0])
    t = sol.t[step]
    (q_left, left), (q_right, right) = sol.at(t, side="left"), sol.at(t, side="right")
    assert np.array_equal(left, sol.v[step - 1])
    assert np.array_equal(right, sol.v[step])
    assert np.array_equal(sol.at(t)[1], right)
    assert np.array_equal(q_left, q_right)
    assert np.array_equal(sol.at(0.0, side="left")[1], sol.v[0])


def test_at_every_recorded_time_is_the_record(sol):
    q, v = sol.at(sol.t)
    assert np.array_equal(q, sol.q)
    assert np.array_equal(v, sol.v)
    t = np.arange(N) * 0.01  # the same times, rounded otherwise
    assert np.array_equal(sol.at(t)[1], sol.v)
    assert np.array_equal(sol.at(t[1:], side="left")[1], sol.v[:-1])


def test_at_outside(sol):
    for t in (-0.1, 2.1, [1.0, 3.0]):
        with pytest.raises(TimeError, match=r"outside the recorded \[0, 2\]"):
            sol.at(t)


def test_at_a_wrong_side(sol):
    with pytest.raises(RecordError, match=r"'middle'.*'left' or 'right'"):
        sol.at(1.0, side="middle")
    with pytest.raises(TypeError):
        sol.at(1.0, "left")


# Impacts.


def test_impact_columns(sol):
    table = sol.impacts
    assert table.dtype.names == (
        "time",
        "constraint",
        "velocity_before",
        "velocity_after",
        "impulse",
        "step",
    )
    assert np.array_equal(table.time, table["time"])
    assert np.all(np.diff(table.time) >= 0.0)
    assert np.allclose(table.time, sol.t[table.step], rtol=0, atol=1e-14)
    assert set(table.constraint) == {0, 1}


def test_impacts_obey_the_law(sol):
    table, e = sol.impacts, np.array([0.5, 0.8])
    hard = table[table.velocity_before < -0.5]
    assert len(hard) >= 3
    assert np.allclose(hard.velocity_after, -e[hard.constraint] * hard.velocity_before, rtol=0.1)
    gained = 2.0 * (hard.velocity_after - hard.velocity_before)  # both normals are of length 1
    assert np.allclose(hard.impulse, gained, rtol=0.05)


def test_first_impacts_are_where_they_should_be(sol):
    floor = sol.impacts[sol.impacts.constraint == 0]
    wall = sol.impacts[sol.impacts.constraint == 1]
    assert floor.time[0] == pytest.approx(np.sqrt(2 * 2 / 9.81), abs=0.02)
    assert wall.time[0] == pytest.approx(1.0, abs=0.02)
    assert wall.velocity_before[0] == pytest.approx(-2.0)
    assert wall.velocity_after[0] == pytest.approx(1.6)
    assert wall.impulse[0] == pytest.approx(2.0 * 3.6)


# Text.


def test_str(sol):
    text = str(sol)
    assert text.startswith("Moreau")
    assert "200 steps of 0.01 to t = 2, ok" in text
    for line in ("smallest gap", "total impulse", "KKT residual", "impacts", "restitution law"):
        assert line in text
    assert f"impacts                 {len(sol.impacts)}" in text


def test_repr(sol, batch):
    assert repr(sol) == "<Solution of Moreau(): 201 records, q (201, 2), ok>"
    assert "(3, 201, 2)" in repr(batch)


def test_str_of_a_batch(batch):
    assert "3" in str(batch)


# A batch.


def test_batch_shapes(batch):
    assert batch.t.shape == (3, N)
    assert batch.q.shape == (3, N, D)
    assert batch.impulse.shape == (3, N, P)
    assert len(batch) == 3
    assert batch.ok
    assert batch.system is None


def test_a_member_is_a_solution(batch):
    one = batch[1]
    assert one.q.shape == (N, D)
    assert len(one) == N
    assert one.ok
    assert int(one.stats.steps) == N - 1
    alone = run(v0=[1.0, 1.0])
    assert np.allclose(one.q, alone.q, rtol=0, atol=1e-12)
    assert np.array_equal(one.impacts.step, alone.impacts.step)
    assert np.allclose(one.impacts.impulse, alone.impacts.impulse, rtol=1e-10)
    assert np.allclose(one.at(1.005)[0], alone.at(1.005)[0], rtol=0, atol=1e-12)
    assert "ok" in str(one)


def test_part_of_a_batch(batch):
    part = batch[1:]
    assert part.q.shape == (2, N, D)
    assert np.array_equal(part[0].q, batch[1].q)
    assert np.array_equal(batch[-1].q, batch[2].q)


def test_members_are_iterable(batch):
    assert len(list(islice(batch, 10))) == 3


def test_a_member_that_does_not_exist(batch):
    with pytest.raises(IndexError):
        batch[3]


def test_a_batch_is_not_one_solution(batch):
    for use in (
        lambda: batch.impacts,
        lambda: batch.at(1.0),
        lambda: batch.plot(),
    ):
        with pytest.raises(RecordError, match=r"index it first, sol\[i\]"):
            use()


def test_one_solution_is_not_a_batch(sol):
    with pytest.raises(RecordError, match="not a batch"):
        sol[0]


def test_the_status_of_a_batch_that_differs_needs_an_index():
    def broken_at(when):
        return carom.System(force=lambda t, q, v: jnp.where(t > when, jnp.nan, 0.0) * q)

    batch = jax.jit(
        jax.vmap(lambda w: carom.solve(broken_at(w), Moreau(), [1.0], [0.0], t1=1.0, dt=0.1))
    )(jnp.array([0.5, 2.0]))
    assert not batch.ok
    assert np.asarray(batch.status == Status.ok).tolist() == [False, True]
    with pytest.raises(CaromError, match="Index the batch"):
        carom.status.name_of(batch.status)


# Files.

FIELDS = ("t", "q", "v", "gap", "impulse", "velocity_before", "velocity_after")


def assert_same(a, b):
    for name in FIELDS:
        x, y = getattr(a, name), getattr(b, name)
        assert (x is None and y is None) or np.array_equal(x, y)
    for name in ("steps", "residual", "iterations", "contraction"):
        assert np.array_equal(getattr(a.stats, name), getattr(b.stats, name))
    assert np.array_equal(a.status == Status.ok, b.status == Status.ok)
    assert np.ravel(a.dt)[0] == np.ravel(b.dt)[0]


@pytest.mark.parametrize("record", [{}, {"every": 7}, {"every": 7, "impacts": True}])
def test_save_and_load(record, tmp_path):
    path = tmp_path / "motion.nc"
    sol = run(record=Record(**record))
    sol.save(path)
    back = carom.load(path)
    assert_same(sol, back)
    assert str(back.scheme) == str(sol.scheme)
    assert back.system is None
    if record == {"every": 7}:
        with pytest.raises(RecordError):
            _ = back.impacts
    else:
        assert np.array_equal(back.impacts, sol.impacts)
        assert back.impacts.time[0] == sol.impacts.time[0]
    assert np.array_equal(back.at(0.5)[0], sol.at(0.5)[0])
    assert "ok" in str(back)


def test_record_path_saves(tmp_path):
    path = tmp_path / "motion.nc"
    assert_same(run(record=Record(path)), carom.load(path))
    with pytest.raises(RecordError, match="is there already"):
        run(record=Record(str(path), final=True))
    run(record=Record(str(path), final=True, overwrite=True))
    assert len(carom.load(str(path))) == 1


def test_save_and_load_a_batch(batch, tmp_path):
    path = tmp_path / "batch.nc"
    batch.save(path)
    back = carom.load(path)
    assert_same(batch, back)
    assert len(back) == 3


def test_index_a_loaded_batch(batch, tmp_path):
    batch.save(tmp_path / "batch.nc")
    back = carom.load(tmp_path / "batch.nc")
    assert_same(back[1], batch[1])
    assert np.array_equal(back[1].impacts, batch[1].impacts)


def test_a_batch_of_batches(grid, tmp_path):
    assert grid.q.shape == (2, 3, N, D)
    assert grid[1][2].q.shape == (N, D)
    assert grid.to_xarray().q.dims == ("member", "member1", "time", "coordinate")
    grid.save(tmp_path / "grid.nc")
    assert_same(carom.load(tmp_path / "grid.nc"), grid)


def test_to_xarray(sol):
    data = sol.to_xarray()
    assert data.q.dims == data.v.dims == ("time", "coordinate")
    assert data.gap.dims == data.impulse.dims == ("time", "constraint")
    assert np.array_equal(data.time, sol.t)
    assert np.array_equal(data.q, sol.q)
    assert data.q.sel(time=1.0, method="nearest").shape == (D,)
    assert data.impact_time.dims == ("impact",)
    assert np.array_equal(data.impact_impulse, sol.impacts.impulse)
    assert int(data.stats_steps) == N - 1
    assert data.attrs["dt"] == 0.01
    assert data.attrs["scheme"] == str(Moreau())
    assert data.attrs["status_text"] == "ok"


def test_batch_to_xarray(batch):
    data = batch.to_xarray()
    assert data.q.dims == ("member", "time", "coordinate")
    assert data.t.dims == ("member", "time")
    assert data.stats_steps.dims == data.status.dims == ("member",)
    assert np.array_equal(data.q.isel(member=1), batch[1].q)


def test_a_file_that_xarray_reads(sol, tmp_path):
    import xarray

    sol.save(tmp_path / "motion.nc")
    with xarray.open_dataset(tmp_path / "motion.nc", engine="h5netcdf") as data:
        assert np.array_equal(data.q, sol.q)


# Pictures.


def test_plot_makes_an_axes_for_each_kind(sol):
    axes = sol.plot()
    assert all(isinstance(axis, mpl.axes.Axes) for axis in axes)
    names = ["position q", "velocity v", "gap [m]", "impulse [N s]", "contact force [N]"]
    assert [axis.get_ylabel() for axis in axes] == names[: len(axes)]
    assert np.array_equal(axes[0].lines[1].get_ydata(), sol.q[:, 1])
    assert axes[-1].get_xlabel() == "time [s]"
    mpl.pyplot.close("all")


def test_plot_takes_axes(sol):
    figure, given = mpl.pyplot.subplots(2, 2)
    axes = sol.plot(given)
    assert list(axes) == list(given.ravel())
    assert all(axis.figure is figure for axis in axes)
    assert len(mpl.pyplot.get_fignums()) == 1
    mpl.pyplot.close("all")


def test_phase_plane(sol):
    axes = sol.plot(kind="phase")
    assert len(axes) == D
    motion, rings = axes[0].lines[0], [line for line in axes[0].lines if line.get_marker() == "o"]
    shown = motion.get_xdata()[~np.isnan(motion.get_xdata())]
    assert np.array_equal(shown, sol.q[:, 0])
    before, after = rings
    assert len(before.get_xdata()) == len(after.get_xdata()) > 0
    for x, y in zip(after.get_xdata(), after.get_ydata(), strict=True):
        k = np.flatnonzero((sol.q[:, 0] == x) & (sol.v[:, 0] == y))
        assert set(k) & set(sol.impacts.step)  # an impact ended in that step
    assert len(sol.plot(kind="phase", coordinates=[1])) == 1
    with pytest.raises(RecordError, match="must be one of time, phase, energy"):
        sol.plot(kind="fase")
    mpl.pyplot.close("all")


def test_energy_budget_of_a_bouncing_ball():
    """What is lost at each impact is (1 - e^2) of the kinetic energy; gravity gives it."""
    e, system = 0.5, carom.models.bouncing_ball(e=0.5).system
    sol = carom.solve(system, carom.EventDriven(), [1.0], [0.0], t1=1.1, dt=0.01)
    budget = sol.energy_budget()
    energy = 9.81 * np.cumprod([1.0, e**2])  # before the first impact and the second
    assert len(sol.impacts) == 2
    assert budget.loss[-1] == pytest.approx((1.0 - e**2) * np.sum(energy), rel=1e-9)
    assert np.allclose(budget.work, 9.81 * (1.0 - sol.q[:, 0]), rtol=0, atol=1e-9)
    assert np.max(np.abs(budget.error)) < 1e-9
    assert budget.potential is None
    with_potential = carom.Lagrangian(
        potential=lambda q: 9.81 * q[0], gap=lambda t, q: q, restitution=e
    )
    again = carom.solve(with_potential, carom.EventDriven(), [1.0], [0.0], t1=1.1, dt=0.01)
    budget = again.energy_budget()
    assert np.max(np.abs(budget.work)) < 1e-9
    assert np.allclose(budget.total, 9.81 - budget.loss, rtol=0, atol=1e-9)
    axes = again.plot(kind="energy")
    assert [line.get_label() for line in axes[0].lines[:3]] == ["kinetic", "potential", "total"]
    assert np.array_equal(axes[0].lines[2].get_ydata(), budget.total)
    mpl.pyplot.close("all")


def test_energy_of_a_moving_floor_and_of_few_records():
    """A floor that rises at constant speed under a resting block lifts it: its work is m g h."""
    lift = carom.System(
        force=lambda t, q, v: -9.81 * jnp.ones_like(q), gap=lambda t, q: q - 0.5 * t
    )
    run = {"q0": [0.0], "v0": [0.5], "t1": 1.0, "dt": 0.01}
    budget = carom.solve(lift, carom.Maury(), **run).energy_budget()
    assert budget.moving[-1] == pytest.approx(9.81 * 0.5, rel=1e-6)
    assert budget.work[-1] == pytest.approx(-9.81 * 0.5, rel=1e-6)
    # the onset of the contact is listed, as an impact with the free velocity g dt of two steps
    assert abs(budget.error[-1]) <= 1.001 * (9.81 * 0.01) ** 2
    few = carom.solve(lift, carom.Maury(), **run, record=Record(every=10))
    assert few.energy_budget().work is None
    assert len(few.plot(kind="energy")) == 1
    mpl.pyplot.close("all")


@pytest.mark.parametrize("d", [1, 2, 3])
def test_moving_pictures(d, tmp_path, monkeypatch):
    from PIL import Image

    from carom.pictures import animate

    monkeypatch.setattr(animate, "_FRAMES", 4)
    monkeypatch.setattr(animate, "_GRID", 30)
    ball = carom.System(
        force=lambda t, q, v: -9.81 * jnp.ones_like(q), gap=lambda t, q: q, restitution=0.5
    )
    moving = carom.solve(ball, Moreau(), np.linspace(0.5, 1.0, d), np.zeros(d), t1=1.0, dt=0.01)
    moving.animate(tmp_path / "ball.gif", seconds=1.0)
    with Image.open(tmp_path / "ball.gif") as picture:
        assert picture.n_frames == 4
        first = np.asarray(picture.convert("L"), float)
        picture.seek(3)
        assert np.count_nonzero(first != np.asarray(picture.convert("L"), float)) > 100
        if d < 3:  # below the floor it is grey
            assert np.count_nonzero(first == 209) > 0.02 * first.size
    with pytest.raises(RecordError, match=r"ends in \.gif"):
        moving.animate(tmp_path / "ball.avi")
    assert mpl.pyplot.get_fignums() == []


def test_a_loaded_run_by_penalty_has_no_table_of_impacts(tmp_path):
    ball = carom.models.bouncing_ball().system
    made = carom.solve(ball, carom.Penalty(lam=1e-4), [0.1], [0.0], t1=0.3, dt=0.01)
    made.save(tmp_path / "ball.nc")
    back = carom.load(tmp_path / "ball.nc")
    assert not made._has_impacts()
    assert not back._has_impacts()
    assert repr(back.scheme) == repr(made.scheme)  # that of the run knows its length too
