"""Sweeps and the diagrams made of them."""

import importlib
import os
import signal

import jax.numpy as jnp
import matplotlib
import numpy as np
import pytest

import carom
from carom import study
from carom.errors import StudyError
from carom.study.diagrams import attractors

matplotlib.use("Agg")
batches = importlib.import_module("carom.study.batches")


def oscillator(w, r=0.8):
    """P3, damped."""
    return carom.System(
        force=lambda t, q, v: jnp.cos(w * t) - q - 0.02 * v, gap=lambda t, q: -q, restitution=r
    )


AXES = {"w": np.linspace(2.4, 2.9, 5), "r": np.array([0.5, 0.7, 0.8, 1.5])}
SETTINGS = {
    "q0": [-0.3],
    "v0": [0.0],
    "scheme": carom.Moreau(),
    "dt": lambda w: 2 * jnp.pi / w / 100,
    "settle": 200,
    "steps": 400,
    "every": 100,
    "keep": (study.Final(), study.Strobe(4), study.Impacts(), study.Extremes()),
    "chunk": 6,
}


@pytest.fixture(scope="module")
def data():
    return study.sweep(oscillator, AXES, **SETTINGS)


def test_every_member_is_its_own_run(data):
    assert data["strobe_q"].dims == ("w", "r", "record", "coordinate")
    for w, r in ((2.4, 0.5), (2.9, 0.8)):
        T = 2 * np.pi / w
        system = oscillator(w, r)
        sol = carom.solve(system, carom.Moreau(), [-0.3], [0.0], t1=6 * T, dt=T / 100)
        one, late = data.sel(w=w, r=r), slice(201, None)
        np.testing.assert_allclose(one["q"], sol.q[-1], rtol=0, atol=1e-12)
        np.testing.assert_allclose(one["strobe_v"], sol.v[300::100], rtol=0, atol=1e-12)
        np.testing.assert_allclose(one["impulse"], sol.impulse[late].sum(axis=0), rtol=1e-12)
        np.testing.assert_allclose(one["highest"][0], sol.q[200:].max(), rtol=0, atol=1e-12)
        assert int(one["impacts"][0]) == np.sum(np.asarray(sol.impacts)["step"] > 200)


def test_a_failing_member_is_recorded(data):
    """r = 1.5 is no restitution; the others are not disturbed."""
    assert np.all(data["status"].sel(r=1.5) == 2)
    assert data["status"].attrs["flag_meanings"].split()[2] == "restitution"
    assert np.all(data["status"].sel(r=[0.5, 0.7, 0.8]) == 0)


def test_resumed_where_it_stopped(data, tmp_path, monkeypatch):
    """Interrupted after two chunks of five, then again, then once more: nothing is done twice."""
    pytest.importorskip("zarr", reason="needs zarr (pip install 'carom[sweep]')")
    run, done = batches._batch, []

    def counted(plan, fingerprint, parameters):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(0)
        return run(plan, fingerprint, parameters)

    path = tmp_path / "sweep.zarr"
    monkeypatch.setattr(batches, "_batch", counted)
    with pytest.raises(KeyboardInterrupt):
        study.sweep(oscillator, AXES, path=path, **SETTINGS)
    chunks = int(study.open_sweep(path).sizes["chunk"])
    kept = int(study.open_sweep(path)["done"].sum())
    assert 0 < kept < chunks
    calls = []
    monkeypatch.setattr(batches, "_batch", lambda *a: calls.append(0) or run(*a))
    assert study.sweep(oscillator, AXES, path=path, **SETTINGS).equals(data)
    assert len(calls) == chunks - kept
    assert study.sweep(oscillator, AXES, path=path, **SETTINGS).equals(data)
    assert len(calls) == chunks - kept
    with pytest.raises(StudyError, match="another sweep"):
        study.sweep(oscillator, AXES, path=path, **{**SETTINGS, "steps": 800})


def test_a_chunk_that_crashes_does_not_take_the_sweep_down(data, monkeypatch):
    run = batches._batch

    def crashing(plan, fingerprint, parameters):
        if parameters["w"][0] > 2.8:
            raise MemoryError("no room")
        return run(plan, fingerprint, parameters)

    monkeypatch.setattr(batches, "_batch", crashing)
    with pytest.warns(UserWarning, match="no room"):
        found = study.sweep(oscillator, AXES, **SETTINGS)
    lost = found["status"] == -1
    assert 0 < np.count_nonzero(lost) < lost.size
    assert np.all(np.isnan(found["q"].values[lost]))
    np.testing.assert_array_equal(found["q"].values[~lost], data["q"].values[~lost])


@pytest.mark.slow
def test_dask_with_a_worker_killed(data, tmp_path):
    """The chunks of a lost worker are run again, and the Dataset is the same."""
    distributed = pytest.importorskip("dask.distributed")

    def slowly(w, r):  # pickled by value, and slow enough to be killed in the act
        import time

        import jax.numpy as jnp

        import carom

        time.sleep(2.0)
        return carom.System(
            force=lambda t, q, v: jnp.cos(w * t) - q - 0.02 * v,
            gap=lambda t, q: -q,
            restitution=r,
        )

    killed = []
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        plan = batches._Work

        def killing(self, i):
            if not killed:
                pids = client.run(os.getpid)
                killed.append(next(iter(pids.values())))
            if i == 2 and killed[0]:
                os.kill(killed[0], signal.SIGKILL)
                killed[0] = 0
            return original(self, i)

        original = plan.parameters_of
        plan.parameters_of = killing
        try:
            found = study.sweep(slowly, AXES, client=client, **SETTINGS)
        finally:
            plan.parameters_of = original
    assert killed == [0]
    for name in data.data_vars:
        np.testing.assert_array_equal(found[name], data[name])


def test_samples_and_reductions():
    """Values that belong together, and the mean square of the position: 1/2 for a sine."""
    mean_square = study.Reduce(
        "mean_square", lambda q, v: jnp.zeros(()), lambda kept, t, q, v: kept + q[0] ** 2 / 1000
    )
    found = study.sweep(
        lambda k: carom.System(force=lambda t, q, v: -k * q),
        {"k": [1.0, 4.0], "a": [1.0, 2.0]},
        q0=lambda a: a,
        v0=[0.0],
        scheme=carom.Moreau(),
        dt=lambda k: 2 * jnp.pi / jnp.sqrt(k) / 1000,
        steps=1000,
        keep=mean_square,
        samples=True,
    )
    assert found["mean_square"].dims == ("sample",)
    np.testing.assert_allclose(found["mean_square"], [0.5, 2.0], rtol=1e-2)
    np.testing.assert_array_equal(found["a"], [1.0, 2.0])


def test_bad_sweeps():
    with pytest.raises(StudyError, match="multiple"):
        study.sweep(oscillator, AXES, **{**SETTINGS, "every": 7})
    with pytest.raises(StudyError, match="empty"):
        study.sweep(oscillator, {}, **SETTINGS)
    with pytest.raises(StudyError, match="as many values"):
        study.sweep(oscillator, AXES, samples=True, **SETTINGS)
    with pytest.raises(StudyError, match="one parameter"):
        study.bifurcation(oscillator, [2.5], period=1.0, q0=[0.0], v0=[0.0])


# --- diagrams ------------------------------------------------------------------------------------

SHORT = {"q0": [-0.3], "v0": [0.0], "period": lambda w: 2 * jnp.pi / w, "steps": 100}


def test_bifurcation_diagram():
    """Below the period doubling at 2.65 the states are equal but for the tremble of fixed steps,
    above it every second one is; the same both ways."""
    found = study.bifurcation(
        lambda w: oscillator(w),
        np.array([2.5, 2.55, 2.7]),
        settle=120,
        keep=8,
        **(SHORT | {"steps": 400}),
    )
    assert list(found["direction"].values) == ["up", "down"]
    q = found["strobe_q"].values[..., 0]
    every, second = np.abs(np.diff(q, axis=2)), np.abs(q[:, :, 2:] - q[:, :, :-2])
    assert np.all(every[:, :2] < 0.1)
    assert np.all(every[:, 2] > 0.3)
    assert np.all(second < 0.1)
    np.testing.assert_allclose(found["impacts_per_period"][:, :2], 1.0)
    assert study.plot(found).get_xlabel() == "w"


def test_resonance_curve():
    """A linear oscillator, its stop out of reach: amplitude |1/(1 - w^2)| near its steady state."""
    ws = np.array([2.0, 3.0])
    found = study.resonance(
        lambda w: carom.System(
            force=lambda t, q, v: jnp.cos(w * t) - q - 0.2 * v, gap=lambda t, q: 5.0 - q
        ),
        ws,
        **(SHORT | {"steps": 1000}),
        settle=40,
        keep=2,
    )
    exact = 1 / np.hypot(1 - ws**2, 0.2 * ws)
    np.testing.assert_allclose(found["amplitude"][:, 0], exact, rtol=5e-3)
    assert np.all(found["impact_rate"] == 0.0)
    assert study.plot(found).get_ylabel().startswith("amplitude")


def test_basins_of_a_double_well():
    """A damped particle in x^4/4 - x^2/2 falls into the well on its side, if it is slow."""
    system = carom.System(
        force=lambda t, q, v: q - q**3 - 0.5 * v, gap=lambda t, q: q + 2.0, restitution=0.5
    )
    found = study.basins(
        system,
        {"x": np.array([-3.0, -1.2, -0.5, 0.5, 1.2])},
        q0=lambda x: x,
        v0=[0.0],
        period=1.0,
        steps=50,
        settle=40,
        keep=4,
    )
    assert found["attractor"].values.tolist() == [-1, 0, 0, 1, 1]  # -3 is behind the stop
    assert found["attractor_period"].values.tolist() == [1, 1]
    np.testing.assert_allclose(found["attractor_point"][:, 0], [-1.0, 1.0], atol=1e-3)


def test_attractors_are_told_apart():
    """Orbits of periods 1 and 2 out of phase with themselves, noise below the tolerance, chaos."""
    rng = np.random.default_rng(0)
    fixed = np.tile([[0.2, 0.0]], (8, 1))
    two = np.array([[0.0, 1.0], [1.0, 0.0]] * 4)
    wild = rng.random((2, 8, 2))
    states = np.stack([two, fixed, np.roll(two, 1, axis=0), fixed, two, *wild, two, fixed, fixed])
    states = states + 1e-5 * rng.random(states.shape)
    ok = np.array([True] * 9 + [False])
    label, period, _ = attractors(states, ok, 1e-3, np.ones(2))
    assert label.tolist() == [0, 1, 0, 1, 0, 2, 2, 0, 1, -1]
    assert period.tolist() == [2, 1, 0]


@pytest.mark.slow
def test_poincare_sections():
    """On P3's orbit a section is one point, once a period and at impacts."""
    problem = carom.models.impact_oscillator()
    settings = {"period": 2 * np.pi / 2.5, "points": 5, "settle": 2}
    states = study.poincare(problem.system, problem.q0, problem.v0, **settings)
    np.testing.assert_allclose(states["q"], np.tile(problem.q0, (5, 1)), atol=1e-9)
    hits = study.poincare(problem.system, problem.q0, problem.v0, at_impacts=True, **settings)
    np.testing.assert_allclose(-hits["velocity_before"], 0.6453521784141956, atol=1e-9)
    assert study.plot(hits).get_xlabel().startswith("phase")
