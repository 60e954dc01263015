"""solve(start=sol): a run that goes on is the run that never stopped."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import carom
from carom import errors

SCHEMES = {
    "Moreau": carom.Moreau(),
    "Maury": carom.Maury(),
    "PaoliSchatzman": carom.PaoliSchatzman(),
    "Penalty": carom.Penalty(lam=1e-5),
    "substeps": carom.Penalty(lam=1e-5, substeps=4),
    "EventDriven": carom.EventDriven(max_step=0.05),  # without it, a part of each run
}
BALL = carom.System(
    force=lambda t, q, v: jnp.stack([-9.81 - 0.1 * v[0], jnp.sin(3.0 * t) - q[1]]),
    gap=lambda t, q: q[0] - 0.1 * jnp.sin(q[1]),
    mass=[2.0, 1.0],
    restitution=0.6,
)
START = {"q0": [0.5, 0.0], "v0": [0.0, 1.5]}
FIELDS = ("t", "q", "v", "gap", "impulse")


def starts(scheme, folder, **run):
    """The same run in memory, saved, and recorded."""
    half = carom.solve(BALL, scheme, **START, **run)
    half.save(folder / "half.nc")
    yield from (half, carom.load(folder / "half.nc"))
    if not isinstance(scheme, carom.EventDriven | carom.Moreau):
        return
    yield carom.solve(BALL, scheme, **START, **run, record=carom.Record(folder / "record.nc"))
    yield carom.load(folder / "record.nc")


@pytest.mark.parametrize(
    "scheme",
    [
        pytest.param(scheme, marks=pytest.mark.slow if name == "substeps" else (), id=name)
        for name, scheme in SCHEMES.items()
    ],
)
def test_a_system_goes_on_bit_for_bit(scheme, tmp_path):
    whole = carom.solve(BALL, scheme, **START, t0=0.125, t1=1.125, dt=2.0**-6)
    for start in starts(scheme, tmp_path, t0=0.125, t1=0.625, dt=2.0**-6):
        rest = carom.solve(BALL, scheme, start=start, t1=1.125, dt=2.0**-6)
        assert len(rest) == 33
        for name in FIELDS:
            assert np.array_equal(getattr(rest, name)[1:], getattr(whole, name)[33:]), name
        assert rest.t[0] == start.t[-1]
        assert np.array_equal(rest.q[0], start.q[-1])
        assert np.sum(rest.impulse[0]) == 0.0


@pytest.mark.parametrize("name", ["Moreau", "PaoliSchatzman"])
def test_in_three_parts_of_other_lengths(name):
    """t1 that the old dt does not meet: the times start anew, and the motion agrees."""
    scheme = SCHEMES[name]
    whole = carom.solve(BALL, scheme, **START, t1=0.3, dt=1e-3)
    sol = carom.solve(BALL, scheme, **START, t1=0.1, dt=1e-3)
    sol = carom.solve(BALL, scheme, start=sol, t1=0.2, dt=1e-3)
    sol = carom.solve(BALL, scheme, start=sol, t1=0.3, dt=1e-3)
    assert np.allclose(sol.q[-1], whole.q[-1], rtol=0, atol=1e-9)
    other = carom.solve(BALL, scheme, start=sol, t1=0.35, dt=7e-4)
    assert other.ok
    assert other.t[0] == sol.t[-1]


@pytest.mark.slow
def test_an_own_end_is_admissible():
    """Moreau ends inside the floor; another scheme starts on it."""
    ball = carom.System(force=lambda t, q, v: -9.81 + 0.0 * q, gap=lambda t, q: q, restitution=0.8)
    sol = carom.solve(ball, carom.Moreau(), [1.0], [0.0], t1=0.48, dt=0.02)
    assert sol.q[-1, 0] < -1e-3
    assert carom.solve(ball, carom.Moreau(), start=sol, t1=1.0, dt=0.02).ok
    other = carom.solve(ball, carom.EventDriven(), start=sol, t1=1.0, dt=0.02)
    assert other.q[0, 0] == pytest.approx(0.0, abs=1e-12)
    with pytest.raises(errors.AdmissibilityError):
        carom.solve(
            carom.System(force=ball.force, gap=lambda t, q: q - 0.5, restitution=0.8),
            carom.Moreau(),
            start=sol,
            t1=1.0,
            dt=0.02,
        )


@pytest.mark.slow
def test_what_start_refuses():
    sol = carom.solve(BALL, carom.Moreau(), **START, t1=0.1, dt=0.01)
    with pytest.raises(errors.TimeError, match="leave q0, v0 and t0 out"):
        carom.solve(BALL, carom.Moreau(), [0.5, 0.0], start=sol, t1=0.2, dt=0.01)
    with pytest.raises(errors.TimeError, match="not after"):
        carom.solve(BALL, carom.Moreau(), start=sol, t1=0.1, dt=0.01)
    with pytest.raises(errors.KindError, match="give a solution"):
        carom.solve(BALL, carom.Moreau(), start=3, t1=0.2, dt=0.01)
    batch = jax.vmap(
        lambda x: carom.solve(
            BALL, carom.Moreau(), jnp.stack([x, 0.0]), [0.0, 0.0], t1=0.1, dt=0.01
        )
    )(jnp.array([0.5, 0.6]))
    with pytest.raises(errors.RecordError, match=r"start=sol\[i\]"):
        carom.solve(BALL, carom.Moreau(), start=batch, t1=0.2, dt=0.01)
    rest = carom.solve(BALL, carom.Moreau(), start=batch[1], t1=0.2, dt=0.01)
    whole = carom.solve(BALL, carom.Moreau(), [0.6, 0.0], [0.0, 0.0], t1=0.2, dt=0.01)
    assert np.allclose(rest.q[-1], whole.q[-1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("scheme", [carom.Maury(), carom.Moreau(), carom.PaoliSchatzman()])
def test_spheres_go_on_bit_for_bit(scheme, tmp_path):
    rng = np.random.default_rng(3)
    x = np.stack(np.meshgrid(*[0.6 + np.arange(3) * 1.1] * 3), -1).reshape(-1, 3)
    pile = carom.Spheres(
        x + 0.04 * rng.random(x.shape),
        0.5,
        rng.normal(size=x.shape),
        walls=[carom.Plane((0, 0, 0), (0, 0, 1))],
        gravity=(0, 0, -9.81),
        restitution=0.3,
    )
    every = carom.Record(every=1)
    whole = carom.solve(pile, scheme, t1=0.5, dt=2.0**-8, record=every)
    half = carom.solve(pile, scheme, t1=0.25, dt=2.0**-8, record=every)
    path = tmp_path / "half.vtkhdf"
    carom.solve(pile, scheme, t1=0.25, dt=2.0**-8, record=carom.Record(path, every=8))
    for start in (half, carom.load(path)):
        rest = carom.solve(pile, scheme, start=start, t1=0.5, dt=2.0**-8, record=every)
        assert rest.stats.steps == 64
        for name in ("t", "x", "v", "impulse"):
            assert np.array_equal(getattr(rest, name)[1:], getattr(whole, name)[65:]), name
        assert np.array_equal(rest.x[0], half.x[-1])
    recorded = carom.Record(tmp_path / "rest.vtkhdf", every=1)
    rest = carom.solve(pile, scheme, start=half, t1=0.5, dt=2.0**-8, record=recorded)
    assert np.array_equal(rest.x[1:], whole.x[65:])
    assert rest.stats.steps == 64
    other = carom.Spheres(x[:5], 0.5)
    with pytest.raises(errors.ShapeError, match="go on with the pile"):
        carom.solve(other, scheme, start=half, t1=0.5, dt=2.0**-8)


@pytest.mark.slow
def test_an_orbit_that_settles_on_a_gap():
    """The settled state is an impact to rounding, on either side of it: another phase is told."""
    table = carom.System(
        force=lambda t, q, v: -1.0 + 0.0 * q,
        gap=lambda t, q: q - 1.1 * jnp.sin(t),
        restitution=0.5,
    )
    t0 = np.arccos(np.pi / 3.3)
    found = carom.study.orbit(
        table, [1.1 * np.sin(t0) + 1e-15], [np.pi], period=2 * np.pi, t0=t0, settle=60
    )
    assert found.impact_times == pytest.approx([t0], abs=1e-12)
    assert found.residual < 1e-12
    assert found.t0 == pytest.approx(t0 - np.pi, abs=1e-9)
    beside = carom.study.orbit(table, found.q0, found.v0, period=2 * np.pi, t0=found.t0)
    assert found.determinant == pytest.approx(0.5**2, rel=1e-9)
    assert found.trace == pytest.approx(beside.trace, rel=1e-9)


@pytest.mark.parametrize("name", ["Maury", "PaoliSchatzman"])
@pytest.mark.parametrize("side", [1.0, -1.0])
def test_a_mechanism_goes_on(name, side):
    """By its own scheme and by another, whichever side of 0 its joint has drifted to: any joint
    below 0 was refused, as a gap that must be >= 0."""
    pendulum = carom.System(
        force=lambda t, q, v: jnp.array([0.0, -9.81]),
        joint=lambda t, q: side * 0.5 * (q @ q - 1.0),
    )
    start = {"q0": [1.0, 0.0], "v0": [0.0, 0.0]}
    half = carom.solve(pendulum, carom.Moreau(), **start, t1=0.5, dt=2.0**-9)
    assert side * pendulum.joints(0.5, half.q[-1])[0] > 1e-8
    own = carom.solve(pendulum, carom.Moreau(), start=half, t1=1.0, dt=2.0**-9)
    whole = carom.solve(pendulum, carom.Moreau(), **start, t1=1.0, dt=2.0**-9)
    np.testing.assert_array_equal(own.q, whole.q[256:])
    other = carom.solve(pendulum, SCHEMES[name], start=half, t1=1.0, dt=2.0**-9)
    np.testing.assert_allclose(other.q[-1], whole.q[-1], atol=0.02)
    with pytest.raises(errors.AdmissibilityError, match=r"joint 0 is .* and must be 0"):
        carom.solve(pendulum, carom.Moreau(), [1.1, 0.0], [0.0, 0.0], t1=1.0, dt=0.1)
