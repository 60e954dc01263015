"""No impact is missed and none is lost: EventDriven at any spacing of its records."""

import equinox as eqx
import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import carom
import random_events
from carom import models
from random_families import FAMILIES

SCHEME = carom.EventDriven()


class Table(eqx.Module):
    """gap = q - a sin t: one compilation for all a."""

    a: jax.Array

    def __call__(self, t, q):
        return q - self.a * jnp.sin(t)


def falling(t, q, v):
    return -jnp.ones(1)


def table(a, e):
    return carom.System(force=falling, gap=Table(jnp.asarray(a, float)), restitution=e)


def test_a_table_that_moves_under_long_steps():
    """A smooth flight that any step integrates exactly, over a table that comes up in between."""
    ends = [
        carom.solve(table(2.5, 0.1), SCHEME, [1.0], [0.0], t1=40.0, dt=dt)
        for dt in (0.1, 0.4, 3, 40)
    ]
    hard = [np.count_nonzero(sol.impacts.impulse > 1e-6) for sol in ends]
    assert hard == [hard[0]] * 4
    assert hard[0] > 20
    np.testing.assert_allclose([sol.q[-1, 0] for sol in ends], 3.54423155, atol=1e-8)
    np.testing.assert_allclose([sol.q[-1, 0] for sol in ends], ends[0].q[-1, 0], atol=1e-9)


def test_the_unit_of_length_does_not_matter():
    """Nanometres in metres: 1e-13 of them, the absolute tolerance, was 1e-4 of the motion."""
    ball, found = table(0.0, 0.9), []
    for a in (1.0, 1e-9, 1e6):
        sol = carom.solve(ball, SCHEME, [a], [0.0], t1=40.0 * a**0.5, dt=a**0.5)
        found.append(np.concatenate([sol.q / a, sol.v / a**0.5]))
    np.testing.assert_allclose(found[1:], [found[0]] * 2, atol=1e-8)


def test_every_impact_is_in_the_table():
    """More than a hundred impacts of a ball that come to an end within one dt."""
    ball = carom.System(force=falling, gap=Table(jnp.zeros(())), restitution=0.9)
    tables = [carom.solve(ball, SCHEME, [1.0], [0.0], t1=40.0, dt=dt).impacts for dt in (0.1, 40.0)]
    one, other = (table[table.impulse > 1e-5] for table in tables)  # above what rounding decides
    assert len(one) == len(other) > 100
    np.testing.assert_allclose(other.time, one.time, atol=1e-10)
    flight = np.sqrt(2.0)
    times = flight + 2.0 * flight * np.cumsum(0.9 ** np.arange(1, 60))
    np.testing.assert_allclose(tables[1].time[1:60], times, atol=1e-11)


@pytest.mark.parametrize("after", [1e-5, 1e-7, 1e-10, 1e-13])
def test_an_impact_just_before_a_record(after):
    """The step to it was stretched to the record, and the wall entered as far."""
    ball = carom.System(force=falling, gap=Table(jnp.zeros(())), restitution=0.9)
    flight = np.sqrt(2.0)
    dt = flight + after
    sol = carom.solve(ball, SCHEME, [1.0], [0.0], t1=28 * dt, dt=dt)
    assert sol.impacts.time[0] == pytest.approx(flight, abs=1e-13)
    assert sol.v[1, 0] == pytest.approx(0.9 * flight - after, abs=1e-12)


@pytest.mark.slow
def test_states_between_records():
    """sol.at and Record(times=) where the records are 20 apart, against fine records."""
    system = table(2.5, 0.1)
    fine = carom.solve(system, SCHEME, [1.0], [0.0], t1=40.0, dt=0.1)
    coarse = carom.solve(system, SCHEME, [1.0], [0.0], t1=40.0, dt=20.0)
    some = np.arange(3, 400, 37)
    q, v = coarse.at(fine.t[some])
    np.testing.assert_allclose(q, fine.q[some], atol=1e-9)
    np.testing.assert_allclose(v, fine.v[some], atol=1e-9)
    chosen = carom.Record(times=fine.t[some])
    sol = carom.solve(system, SCHEME, [1.0], [0.0], t1=40.0, dt=20.0, record=chosen)
    np.testing.assert_allclose(sol.q, fine.q[some], atol=1e-9)
    first = coarse.impacts[0]
    before, after = (coarse.at(first.time, side=side)[1][0] for side in ("left", "right"))
    assert after - before == pytest.approx(first.impulse, abs=1e-9)


@pytest.mark.parametrize(("a", "e"), [(2.0, 0.6), (0.1, 0.6)])
@pytest.mark.slow
def test_derivatives_at_ordinary_impacts(a, e):
    """Against central differences of the motion."""

    def end(x):
        sol = carom.solve(table(a, e), SCHEME, x[:1], x[1:], t1=4.0, dt=2.0)
        return jnp.concatenate([sol.q[-1], sol.v[-1]])

    both = jax.jit(jax.jacfwd(lambda x: (end(x),) * 2, has_aux=True))
    x, step = np.array([1.0, 0.0]), 1e-5
    columns = [(both(x + step * c)[1] - both(x - step * c)[1]) / (2 * step) for c in np.eye(2)]
    expected = np.stack(columns, axis=-1)
    assert np.max(np.abs(both(x)[0] - expected)) < 1e-6 * max(1.0, np.max(np.abs(expected)))


@pytest.mark.slow
def test_opposite_and_repeated_gaps():
    """A guide [y, -y], and one floor three times, from rest and from a height."""
    guide = carom.System(
        force=lambda t, q, v: jnp.stack([jnp.sin(t), 1.0]),
        gap=lambda t, q: jnp.stack([q[0], -q[0]]),
        restitution=0.5,
    )
    sol = carom.solve(guide, SCHEME, [0.0, 0.0], [0.0, 0.0], t1=10.0, dt=1.0)
    np.testing.assert_allclose(sol.q[-1], [0.0, 50.0], atol=1e-9)
    floor = carom.System(
        force=falling, gap=lambda t, q: jnp.concatenate([q, q, 2 * q]), restitution=0.5
    )
    for height in (0.0, 1.0):
        sol = carom.solve(floor, SCHEME, [height], [0.0], t1=10.0, dt=1.0)
        np.testing.assert_allclose(sol.q[-1], 0.0, atol=1e-12)
        np.testing.assert_allclose(sol.impulse[-1] @ [1.0, 1.0, 2.0], 1.0, rtol=1e-9)


@pytest.mark.slow
def test_an_accumulation_on_a_ball_that_rests():
    """Two balls pressed to a wall: the lower one's speed is what is left of blows that cancel."""
    m, f = np.array([0.82871122, 1.71210251]), np.array([-0.13226219, -0.19494596])
    system = carom.System(
        force=lambda t, q, v: jnp.asarray(f),
        gap=lambda t, q: jnp.stack([q[0], q[1] - q[0]]),
        mass=m,
        restitution=0.7482663403581471,
    )
    for dt in (1.0, 40.0):
        sol = carom.solve(system, SCHEME, [0.775, 1.127], [-0.241, -0.623], t1=40.0, dt=dt)
        np.testing.assert_allclose(sol.q[-1], 0.0, atol=1e-11)
        assert len(sol.impacts) < 400


@pytest.mark.slow
def test_a_square_wave_far_out():
    """Jumps of the force that are not told, at t up to 1000, to the tolerance at two spacings."""

    def force(t, q, v):
        return -1.0 - q + jnp.where(jnp.sin(1.3 * t) > 0.0, 2.0, -2.0)

    system = carom.System(force=force, gap=lambda t, q: q + 1.0, restitution=0.8)
    ends = [carom.solve(system, SCHEME, [0.0], [0.0], t1=1000.0, dt=dt) for dt in (1.0, 10.0)]
    np.testing.assert_allclose(ends[0].q[-1], ends[1].q[-1], atol=1e-7)


@pytest.mark.slow
def test_a_short_kick():
    """30 ms of a strong force in a run of 20 s: found, told by its jumps, and by max_step."""

    def force(t, q, v):
        return -q + jnp.where((t > 7.3) & (t < 7.33), 100.0, 0.0)

    system = carom.System(force=force, gap=lambda t, q: q + 5.0, restitution=0.5)
    schemes = [SCHEME, carom.EventDriven(jumps=[7.3, 7.33]), carom.EventDriven(max_step=0.02)]
    ends = [
        carom.solve(system, s, [0.0], [1.0], t1=20.0, dt=dt).q[-1, 0]
        for s, dt in zip(schemes, (20.0, 20.0, 3.0), strict=True)
    ]
    np.testing.assert_allclose(ends, ends[1], atol=1e-8)


def test_a_stiff_method_at_kinks():
    """A compliant stop, against its closed form: sines of frequencies 1 and sqrt(101) in turn."""

    def force(t, q, v):
        return -q - jnp.where(q > 0.5, 100.0 * (q - 0.5), 0.0)

    # from q = 0 with speed 1 to 0.5 in pi/6, with speed u; above, about 50/101, until -u; back
    w, middle, u = np.sqrt(101.0), 50.0 / 101.0, np.sqrt(0.75)
    above = 2.0 * np.arctan2(u / w, 0.5 - middle) / w
    period = np.pi + 2.0 * np.pi / 6.0 + above
    t = 100.0 % period - (np.pi / 6.0 + above)
    assert 0.0 < t < np.pi + np.pi / 6.0
    expected = np.sin(5.0 * np.pi / 6.0 + t)
    for dt in (1.0, 100.0):
        sol = carom.solve(
            carom.System(force=force), carom.EventDriven(stiff=True), [0.0], [1.0], t1=100.0, dt=dt
        )
        assert sol.q[-1, 0] == pytest.approx(expected, abs=1e-7)
        q, v = sol.q, sol.v
        energy = 0.5 * (v**2 + q**2) + 50.0 * np.maximum(q - 0.5, 0.0) ** 2
        assert np.ptp(energy) < 1e-7 * energy[0]


@pytest.mark.slow
def test_a_batch_costs_no_more_than_its_members():
    """vmap runs the members one after another: the loop has one of them at a time."""

    def end(e):
        return carom.solve(table(0.0, e), SCHEME, [1.0], [0.0], t1=3.0, dt=3.0).q[-1]

    es = jnp.linspace(0.1, 0.9, 5)
    program = str(jax.make_jaxpr(jax.vmap(end))(es))
    assert "scan" in program
    singles = [
        models.bouncing_ball(e=float(e), g=1.0, t1=3.0).exact(np.array([3.0]))[0][0] for e in es
    ]
    np.testing.assert_allclose(jax.jit(jax.vmap(end))(es), singles, atol=1e-10)


def _without_fault(found, grazes=0.2):
    settled = found["systems"] - found["unsettled"]
    assert found["faults"] == []
    assert found["own error of the other route"] < 0.1
    assert settled >= 0.9 * found["systems"]
    assert max(found["grazes"].values()) <= grazes * found["systems"]


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.name)
def test_random_systems(family):
    """tests/random_events.py: no spacing and no tolerance matters, and no impact is missed."""
    found = random_events.compared(family, 40, 7)
    _without_fault(found)
    assert found["impacts"] > 40


@pytest.mark.slow
@hypothesis.settings(max_examples=8, deadline=None)
@hypothesis.given(st.integers(0, 2**31))
def test_random_systems_of_any_seed(seed):
    """A table that moves, and a disc in an oval.

    The rate of grazes is that of the test before; of ten systems of any seed more may be one.
    """
    _without_fault(random_events.compared(FAMILIES[0], 10, seed), grazes=0.5)
    _without_fault(random_events.compared(FAMILIES[-1], 10, seed), grazes=0.5)


@pytest.mark.slow
def test_a_kink_that_the_method_does_not_see():
    """Past three quarters of a step, where the two formulas of the method agree by chance."""
    stops = next(family for family in FAMILIES if family.name == "compliant stops")
    x = jnp.asarray(stops.drawn(250, 1000)[148:149])
    loose, tight = (
        np.asarray(random_events.driven(stops.kind)(x, 120, rtol).places)[:, 1:]
        for rtol in (1e-8, 1e-12)
    )
    assert loose == pytest.approx(tight, abs=1e-8)
