"""What is kept of a run is what the whole run shows, whatever is asked for and in what pieces."""

import math
import os
import subprocess
import sys
from itertools import pairwise

import jax.numpy as jnp
import numpy as np
import pytest

import carom
from carom import Maury, Moreau, PaoliSchatzman, Record
from carom.errors import NonFiniteError, RecordError, TimeError
from carom.results.impacts import ImpactLog
from carom.run import compiled as SOLVE

# A ball between a floor and a ceiling that moves: two gaps, many impacts, then rest on the floor.
SYSTEM = carom.System(
    force=lambda t, q, v: -9.81 * jnp.ones_like(q),
    gap=lambda t, q: jnp.stack([q[0], 1.2 + 0.1 * jnp.sin(3.0 * t) - q[0]]),
    restitution=0.7,
)
STEPS = 1000
RUN = {"q0": [1.0], "v0": [3.0], "t1": 4.0, "dt": 4.0 / STEPS}


def run(record=None, scheme=Moreau(), system=SYSTEM, **changed):  # noqa: B008
    return carom.solve(system, scheme, record=record, **(RUN | changed))


@pytest.fixture(scope="module")
def whole():
    sol = run()
    assert len(sol) == STEPS + 1
    assert {0, 1} == set(sol.impacts.constraint)
    assert len(sol.impacts) > 8
    return sol


def sums(impulse, marks):
    """The impulses received up to each mark since the one before."""
    ends = [0, *(mark + 1 for mark in marks)]
    return np.array([impulse[a:b].sum(axis=0) for a, b in pairwise(ends)])


def assert_thinned(sol, whole, marks):
    """``sol`` is ``whole`` at the steps ``marks``."""
    assert np.allclose(sol.t, whole.t[marks], rtol=0, atol=1e-14)
    for name in ("q", "v", "gap"):
        assert np.array_equal(getattr(sol, name), getattr(whole, name)[marks])
    assert np.allclose(sol.impulse, sums(whole.impulse, marks), rtol=1e-12, atol=1e-13)


# Which steps.


@pytest.mark.parametrize("every", [1, 2, 7, 999, 1000, 5000])
def test_every(whole, every):
    """Every k-th step, the first and the last."""
    assert_thinned(run(Record(every=every)), whole, [*range(0, STEPS, every), STEPS])


@pytest.mark.parametrize("every", [1, 7, 5000])
def test_every_with_impacts(whole, every):
    sol = run(Record(every=every, impacts=True))
    assert_thinned(sol, whole, [*range(0, STEPS, every), STEPS])
    assert np.array_equal(sol.impacts, whole.impacts)


def test_impacts_alone(whole):
    sol = run(Record(impacts=True))
    assert_thinned(sol, whole, [0, STEPS])
    assert np.array_equal(sol.impacts, whole.impacts)


def test_final(whole):
    assert_thinned(run(Record(final=True)), whole, [STEPS])


def test_the_impulse_at_t0_is_not_lost():
    """An impact at t0 is in the first row, or in the first record after it."""
    start = {"q0": [0.0], "v0": [-3.0]}
    whole = run(**start)
    assert whole.impulse[0].tolist() == pytest.approx([5.1, 0.0])
    assert_thinned(run(Record(every=7), **start), whole, [*range(0, STEPS, 7), STEPS])
    assert_thinned(run(Record(final=True), **start), whole, [STEPS])
    times = run(Record(times=[1.0, 2.0]), **start)
    assert np.allclose(times.impulse, sums(whole.impulse, [250, 500]), rtol=1e-13)


def test_times(whole):
    """q linear, v constant between steps: what ``at`` says of the whole run."""
    ts = np.sort(np.random.default_rng(0).uniform(0.0, 4.0, 50))
    sol = run(Record(times=ts))
    q, v = whole.at(ts)
    assert np.allclose(sol.t, ts, rtol=0, atol=1e-14)
    assert np.allclose(sol.q, q, rtol=0, atol=1e-13)
    assert np.array_equal(sol.v, v)
    assert np.allclose(sol.gap[:, 0], q[:, 0], rtol=0, atol=1e-13)
    assert np.allclose(sol.gap[:, 1], 1.2 + 0.1 * np.sin(3.0 * ts) - q[:, 0], rtol=0, atol=1e-13)
    marks = np.floor(ts / RUN["dt"]).astype(int)
    assert np.allclose(sol.impulse, sums(whole.impulse, marks), rtol=1e-13, atol=1e-14)


def test_times_on_the_steps(whole):
    """Rounding does not push a time into the step before; both ends are allowed."""
    sol = run(Record(times=[0.0, 0.3 - 0.1, 1.2, 4.0]))
    assert_thinned(sol, whole, [0, 50, 300, 1000])


def test_many_times_in_one_step(whole):
    ts = 0.5 + RUN["dt"] * np.array([0.1, 0.5, 0.9])
    sol = run(Record(times=ts))
    assert np.allclose(sol.q, whole.at(ts)[0], rtol=0, atol=1e-14)
    assert np.all(np.asarray(sol.impulse)[1:] == 0.0)


BALL = carom.System(force=SYSTEM.force, gap=lambda t, q: q, restitution=0.7)


@pytest.mark.parametrize("scheme", [Maury(), PaoliSchatzman()], ids=["Maury", "PaoliSchatzman"])
def test_other_schemes(scheme):
    how = {"scheme": scheme, "system": BALL}
    whole, sol = run(**how), run(Record(every=7, impacts=True), **how)
    assert_thinned(sol, whole, [*range(0, STEPS, 7), STEPS])
    assert np.array_equal(sol.impacts, whole.impacts)
    ts = [0.123, 1.0, 3.999]
    assert np.allclose(run(Record(times=ts), **how).q, whole.at(ts)[0], rtol=0, atol=1e-13)


# Steps and times.


@pytest.mark.parametrize(
    ("dt", "steps"), [(0.5, 8), (0.3, 14), (3.9, 2), (4.0, 1), (10.0, 1), (0.1, 40), (1 / 3, 12)]
)
def test_dt_is_shortened_so_that_steps_end_at_t1(dt, steps):
    sol = run(dt=dt)
    assert len(sol) == steps + 1
    assert sol.t[-1] == 4.0
    assert sol.dt == pytest.approx(4.0 / steps, rel=1e-15)
    assert sol.dt <= dt * (1 + 1e-12)
    assert np.allclose(np.diff(sol.t), sol.dt, rtol=1e-12)


def test_times_do_not_drift():
    """t0 + n dt, not a sum of dt: 0.1 + ... + 0.1 is not 1."""
    sol = run(t0=10.0, t1=11.0, dt=0.1)
    assert sol.t.tolist() == [10.0 + n * 0.1 for n in range(11)]


# Contradictions.


def test_records_that_contradict_themselves():
    for options in (
        {"every": 2, "final": True},
        {"every": 2, "times": [1.0]},
        {"times": [1.0], "final": True},
    ):
        with pytest.raises(RecordError, match="choose one"):
            Record(**options)
    for options in ({"final": True}, {"times": [1.0]}):
        with pytest.raises(RecordError, match="impacts=True goes with"):
            Record(impacts=True, **options)


@pytest.mark.parametrize("every", [0, -1, 1.5])
def test_every_is_a_whole_number(every):
    with pytest.raises(RecordError, match=f"every is {every}.*whole number"):
        Record(every=every)


@pytest.mark.parametrize("times", [[], [2.0, 1.0], [1.0, 1.0], [-0.1], [4.1], [math.nan]])
def test_times_that_make_no_sense(times):
    with pytest.raises(TimeError, match=r"increase within \[0, 4\]; got"):
        run(Record(times=times))


def test_options_have_names():
    with pytest.raises(TypeError):
        Record("file.nc", 10)
    with pytest.raises(TypeError):
        Record(evry=10)


def test_impacts_that_were_not_recorded():
    with pytest.raises(RecordError, match=r"impacts=True"):
        _ = run(Record(every=7)).impacts


# Pieces.


@pytest.fixture
def small_pieces(monkeypatch):
    """Pieces of at most 64 records and 100 steps, whatever they hold."""
    monkeypatch.setattr(SOLVE, "_PIECE_BYTES", 8)
    monkeypatch.setattr(SOLVE, "_PIECE_STEPS", 100)


RECORDS = {
    "each": {},
    "every": {"every": 7},
    "every 1 without impacts": {"every": 1, "impacts": False},
    "every with impacts": {"every": 7, "impacts": True},
    "longer than a piece": {"every": 450},
    "impacts": {"impacts": True},
    "final": {"final": True},
    "times": {"times": np.linspace(0.0, 4.0, 300)},
    "few times": {"times": [0.5, 3.0]},
}


def assert_same(a, b):
    for name in ("t", "q", "v", "gap"):
        assert np.array_equal(getattr(a, name), getattr(b, name))
    assert np.allclose(a.impulse, b.impulse, rtol=1e-13, atol=1e-14)
    assert int(a.stats.steps) == int(b.stats.steps)
    if a.origin.impacts is not None or b.origin.impacts is not None:
        assert np.array_equal(a.impacts, b.impacts)


@pytest.fixture(scope="module")
def in_one_piece():
    return {name: run(Record(**options)) for name, options in RECORDS.items()}


@pytest.mark.parametrize("name", RECORDS)
def test_pieces_change_nothing(name, in_one_piece, small_pieces):
    assert_same(run(Record(**RECORDS[name])), in_one_piece[name])


def fed(cuts, impulse, before, after):
    """The table of impacts, from steps that come in pieces."""
    log, n = ImpactLog(impulse.shape[1]), len(impulse)
    for first, last in pairwise([0, *cuts, n]):
        piece = slice(first, last)
        index = np.arange(n)[piece]
        log.feed(index, 0.1 * index, impulse[piece], before[piece], after[piece])
    return log.table()


def test_an_impact_may_fall_on_the_end_of_a_piece():
    """Contacts of all lengths, cut in all places, and into pieces of one step."""
    rng = np.random.default_rng(1)
    shape = (40, 2)
    for _ in range(20):
        impulse = rng.uniform(0.5, 1.0, shape) * (rng.random(shape) < 0.6)
        steps = impulse, -rng.random(shape), rng.random(shape)
        table = fed([], *steps)
        for cuts in [*([k] for k in range(1, 40)), range(1, 40), [10, 11, 13, 30]]:
            assert np.array_equal(fed(cuts, *steps), table)


def test_an_impact_is_the_onset_of_a_contact():
    """Two steps in a row are one impact; what follows them is lasting contact."""
    impulse = np.array([0.0, 1.0, 0.0, 2.0, 3.0, 0.0, 4.0, 5.0, 6.0, 7.0])[:, None]
    before, after = -np.arange(10.0)[:, None], np.arange(10.0)[:, None]
    table = fed([], impulse, before, after)
    assert table.step.tolist() == [1, 3, 6]
    assert table.impulse.tolist() == [1.0, 5.0, 9.0]
    assert table.velocity_before.tolist() == [-1.0, -3.0, -6.0]
    assert table.velocity_after.tolist() == [1.0, 4.0, 7.0]
    assert np.allclose(table.time, [0.1, 0.3, 0.6])


def test_a_contact_that_rests_at_the_start_is_no_impact():
    """It goes on; but where another gap is struck in the first step, it passes the blow on."""
    impulse = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 0.0], [1.0, 2.0], [1.0, 0.0]])
    for struck, found in ((0.0, [(3, 1)]), (5.0, [(1, 0), (1, 1), (3, 1)])):
        impulse[1, 1] = struck
        log = ImpactLog(2, np.array([True, False]))
        log.feed(np.arange(5), 0.1 * np.arange(5), impulse, -impulse, 0.0 * impulse)
        table = log.table()
        assert list(zip(table.step, table.constraint, strict=True)) == found
    block = carom.System(force=lambda t, q, v: 0.0 * q - 9.81, gap=lambda t, q: q)
    rests = carom.solve(block, carom.Maury(), [0.0], [0.0], t1=0.05, dt=0.01)
    assert len(rests.impacts) == 0
    assert np.all(rests.impulse[1:] > 0.0)
    assert len(carom.solve(block, carom.Maury(), start=rests, t1=0.1, dt=0.01).impacts) == 0
    assert len(carom.solve(block, carom.Maury(), [0.0], [-1.0], t1=0.05, dt=0.01).impacts) == 1


def test_a_tiny_impact_is_listed_or_not_whatever_the_pieces():
    impulse = np.zeros((40, 1))
    impulse[[5, 30, 31], 0] = 1e-15, 1.0, 1e-15
    steps = impulse, -np.ones((40, 1)), np.ones((40, 1))
    whole = fed([], *steps)
    assert whole.step.tolist() == [30]
    for cut in range(1, 40):
        assert np.array_equal(fed([cut], *steps), whole)


def test_a_run_longer_than_a_piece():
    """150 000 records of 48 bytes: three real pieces."""
    steps = 150_000
    assert steps * 8 * 6 > SOLVE._PIECE_BYTES
    sol = run(dt=4.0 / steps)
    assert len(sol) == steps + 1
    coarse = run(Record(every=1000, impacts=True), dt=4.0 / steps)
    assert_thinned(coarse, sol, [*range(0, steps + 1, 1000)])
    assert np.array_equal(coarse.impacts, sol.impacts)
    assert np.max(np.abs(np.diff(sol.q[:, 0]) - sol.v[:-1, 0] * sol.dt)) < 1e-14


BREAKS_DOWN = carom.System(
    force=lambda t, q, v: jnp.where(t > 3.0, jnp.nan, -9.81) * jnp.ones_like(q),
    gap=SYSTEM.gap,
    restitution=0.7,
)


def broken_off(**record):
    """What is left of a run that fails after step 750, and the steps it holds."""
    with pytest.raises(NonFiniteError) as caught:
        run(Record(**record), system=BREAKS_DOWN)
    marks = [] if record.get("final") else range(0, 750, record.get("every", 1))
    return caught.value.solution, [*marks, 750]


@pytest.mark.parametrize("record", [{}, {"every": 7}, {"every": 7, "impacts": True}])
def test_a_failure_in_a_later_piece_keeps_the_earlier_ones(record, whole, small_pieces):
    sol, marks = broken_off(**record)
    assert np.allclose(sol.t, whole.t[marks], rtol=0, atol=1e-14)
    assert np.allclose(sol.q, whole.q[marks], rtol=0, atol=1e-14)
    assert np.allclose(sol.v, whole.v[marks], rtol=0, atol=1e-14)
    if record != {"every": 7}:
        assert np.allclose(sol.impulse, sums(whole.impulse, marks), rtol=1e-12, atol=1e-14)
        assert np.array_equal(sol.impacts.step, [s for s in whole.impacts.step if s <= 750])


@pytest.mark.parametrize("record", [{"every": 700}, {"final": True}])
def test_a_failure_keeps_the_impulse_of_the_last_good_steps(record, whole):
    sol, marks = broken_off(**record)
    assert np.allclose(sol.impulse, sums(whole.impulse, marks), rtol=1e-12, atol=1e-14)


def test_progress_says_how_far(capsys):
    assert run(progress=True).ok
    assert "1000/1000" in capsys.readouterr().out


# Memory.

LONG_RUN = """
import jax.numpy as jnp
import carom

oscillator = carom.System(
    force=lambda t, q, v: jnp.cos(t) - q, gap=lambda t, q: q + 0.5, restitution=0.8
)

def run(steps, every):
    record = carom.Record(every=every)
    return carom.solve(
        oscillator, carom.Moreau(), [0.0], [1.0], t1=1e-4 * steps, dt=1e-4, record=record
    )

def memory(name):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith(name))

for steps, every in ((10**7, 10**4), (10**6, 1)):
    run(20_000, min(every, 10))  # compiled
    with open("/proc/self/clear_refs", "w") as peak:
        peak.write("5")  # the peak is the present use again
    before = memory("VmRSS")
    sol = run(steps, every)
    assert sol.ok and int(sol.stats.steps) == steps and len(sol) == steps // every + 1
    print(memory("VmHWM") - before)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="peak memory of Linux")
def test_memory_is_that_of_the_records():
    """10^7 steps with 10^3 records; a tenth of the steps with all of them, for comparison.

    (The peak of getrusage does for a process of its own only: a child inherits its parent's.)
    """
    done = subprocess.run(
        [sys.executable, "-c", LONG_RUN], capture_output=True, text=True, check=True
    )
    few, all_of_them = map(float, done.stdout.split())
    print(f"peak memory grew by {few:.1f} MiB; by {all_of_them:.1f} MiB with 10^6 records")
    assert few < 10.0
    assert all_of_them > 30.0  # the measure sees what there is to see
