"""A restitution that is a function of the speed of an impact."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import carom
from carom import errors

G, T1 = 9.81, 2.37
EVERY = carom.Record(every=1)
FLOOR = carom.Plane((0, 0, 0), (0, 0, 1))


def e_of(speed):
    """v leaves as v / (1 + v / 5)."""
    return 1.0 / (1.0 + 0.2 * speed)


def falling(t, q, v):
    return 0.0 * q - G


def height(t):
    """Of a ball dropped from 1 m, bounce by bounce."""
    v = np.sqrt(2.0 * G)
    hit = v / G
    if t < hit:
        return 1.0 - 0.5 * G * t * t
    while True:
        v = e_of(v) * v
        if t < hit + 2.0 * v / G:
            return v * (t - hit) - 0.5 * G * (t - hit) ** 2
        hit += 2.0 * v / G


def system(e=e_of):
    return carom.System(force=falling, gap=lambda t, q: q, restitution=e)


def spheres(e=e_of, **options):
    return carom.Spheres(
        [[0, 0, 1.5]], 0.5, walls=[FLOOR], gravity=(0, 0, -G), restitution=e, **options
    )


def off(sol):
    found = sol.q[:, 0] if sol.q.ndim == 2 else sol.q[:, 0, 2] - 0.5
    return np.max(np.abs(found - [height(t) for t in np.asarray(sol.t)]))


def moved(ball, scheme, dt, t1=T1):
    start = {} if isinstance(ball, carom.Spheres) else {"q0": [1.0], "v0": [0.0]}
    return carom.solve(ball, scheme, **start, t1=t1, dt=dt, record=EVERY)


@pytest.mark.parametrize("made", [pytest.param(system, marks=pytest.mark.slow), spheres])
def test_bounces(made):
    assert off(moved(made(), carom.Moreau(), 4e-3, t1=1.3)) < 0.03
    assert off(moved(made(lambda v: 0.5 + 0.0 * v), carom.Moreau(), 4e-3, t1=1.3)) > 0.06


@pytest.mark.slow
@pytest.mark.parametrize("scheme", [carom.Moreau(), carom.Maury()], ids=str)
def test_order_1(scheme):
    """When in a step an impact falls is as good as random: medians over many steps."""
    dt = 8e-3 * 0.8 ** np.arange(20)
    error = np.array([off(moved(system(), scheme, h)) for h in dt]) / dt
    assert np.max(error) < 15.0
    assert 0.5 < np.median(error[:10]) / np.median(error[10:]) < 2.0  # dt differs by 0.8^10 = 1/9
    for made in (system, spheres):
        assert carom.certify(moved(made(), scheme, 1e-3)).ok in (True, None)
    both = [moved(made(), scheme, 2e-3) for made in (system, spheres)]
    np.testing.assert_allclose(both[1].x[:, 0, 2] - 0.5, both[0].q[:, 0], atol=1e-12)


@pytest.mark.slow
def test_events_are_exact_and_derivatives_right():
    sol = moved(system(), carom.EventDriven(), 1e-2)
    assert off(sol) < 1e-12
    assert carom.certify(sol).ok
    assert float(str(sol).split("restitution law")[1].split()[0]) < 1e-14

    def end(c):
        ball = system(lambda speed: 1.0 / (1.0 + c * speed))
        return carom.solve(ball, carom.EventDriven(), [1.0], [0.0], t1=1.0, dt=0.1).q[-1, 0]

    difference = (end(0.2001) - end(0.1999)) / 2e-4
    assert jax.grad(end)(0.2) == pytest.approx(difference, rel=1e-5)
    several = jax.vmap(end)(jnp.array([0.1, 0.2]))
    np.testing.assert_allclose(several, [end(0.1), end(0.2)], rtol=1e-12)


@pytest.mark.slow
def test_another_restitution_is_found():
    """A motion with e = 0.6 at all speeds is no solution with e that falls with speed."""
    sol = moved(system(0.6), carom.Moreau(), 1e-3)
    assert carom.certify(sol).ok
    assert not carom.certify(sol, system()).ok


def test_by_pairs_and_recorded(tmp_path):
    """Functions and numbers in one table; a file names it, and asks for it."""
    table = {("steel", "glass"): e_of, None: 0.5}
    glass = carom.Plane((0, 0, 0), (0, 0, 1), material="glass")
    pile = carom.Spheres(
        [[0, 0, 1.5], [2, 0, 1.5]],
        0.5,
        walls=[glass],
        gravity=(0, 0, -G),
        material=["steel", "wood"],
        restitution=table,
    )
    path, given = tmp_path / "run.vtkhdf", {"t1": 0.7, "dt": 1e-2}
    sol = carom.solve(pile, carom.Moreau(), **given, record=carom.Record(path, every=1))
    after, before = sol.v[1:, :, 2].max(axis=0), -sol.v[:, :, 2].min(axis=0)
    np.testing.assert_allclose(after, np.array([e_of(before[0]), 0.5]) * before, atol=0.02 * G)
    with pytest.raises(carom.CaromError, match="restitution"):
        carom.load(path)
    np.testing.assert_array_equal(carom.load(path, pile=pile).x, sol.x)


@pytest.mark.parametrize("made", [system, spheres])
@pytest.mark.parametrize(
    ("e", "text"),
    [
        (lambda v: 2.0 + 0.0 * v, "lie in .0, 1."),
        (lambda v: (v + 1e-9) ** -0.25, "0 included"),
        (lambda v: jnp.zeros(3), "shape"),
        (lambda v: 0.5 if v > 1.0 else 0.1, "raised ValueError"),
    ],
)
def test_refused_at_once(made, e, text):
    with pytest.raises(carom.CaromError, match=text):
        made(e)


@pytest.mark.slow
def test_refused_on_the_way():
    """What is in [0, 1] up to 1 m/s may not be so beyond."""
    with pytest.raises(errors.NonFiniteError, match=r"restitution\(speed\) not in"):
        carom.solve(system(lambda v: 0.4 * v), carom.Moreau(), [1.0], [0.0], t1=1.0, dt=1e-2)
    with pytest.raises(errors.RestitutionError, match=r"is 1.76.* at the speed 4.41"):
        carom.solve(spheres(lambda v: 0.4 * v), carom.Moreau(), t1=1.0, dt=1e-2)
    for ball, start in ((system(), {"q0": [1.0], "v0": [0.0]}), (spheres(), {})):
        with pytest.raises(errors.RestitutionError, match="PaoliSchatzman has one e"):
            carom.solve(ball, carom.PaoliSchatzman(), **start, t1=1.0, dt=1e-2)
