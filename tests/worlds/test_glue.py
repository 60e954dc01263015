"""Glue: contacts hold until they are pulled with as much impulse as they were pushed with."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import carom
from carom.law import Glue
from carom.projection.metric import DenseMetric


def ball(pull):
    """A unit ball at a wall, pulled away by a constant force."""
    return carom.System(force=lambda t, q, v: pull + 0.0 * q, gap=lambda t, q: q, glue=True)


def test_it_leaves_after_the_impulse_over_the_force():
    """Pushed by J = 1.5 and pulled by F = 2: it leaves at J / F, then q = F (t - J/F)^2 / 2."""
    errors = []
    for dt in (1.1e-2, 1.1e-3):
        sol = carom.solve(ball(2.0), carom.Maury(), [0.0], [-1.5], t1=2.0, dt=dt)
        errors.append(np.max(np.abs(sol.q[:, 0] - np.maximum(sol.t - 0.75, 0.0) ** 2)))
        left = sol.t[np.argmax(sol.q[:, 0] > 0.0)]
        assert abs(left - 0.75) <= 2 * dt
    assert errors[1] < 0.15 * errors[0]
    assert np.sum(sol.impulse) == pytest.approx(0.0, abs=1e-13)  # as much pulled as pushed


def test_an_impact_on_the_way():
    """It meets the wall at speed 1 at t = 1, and is pulled by 0.5 from then on: leaves at t = 3."""
    system = carom.System(
        force=lambda t, q, v: jnp.where(t < 1.0, 0.0, 0.5) + 0.0 * q, gap=lambda t, q: q, glue=True
    )
    errors = []
    for dt in (1.3e-2, 1.3e-3):
        sol = carom.solve(system, carom.Maury(), [1.0], [-1.0], t1=5.0, dt=dt)
        exact = np.where(sol.t < 1.0, 1.0 - sol.t, 0.25 * np.maximum(sol.t - 3.0, 0.0) ** 2)
        errors.append(np.max(np.abs(sol.q[:, 0] - exact)))
    assert errors[1] < 0.15 * errors[0]


@pytest.mark.parametrize("when", [0.5, 0.5097])
@pytest.mark.parametrize("dt", [1e-2, 1e-3])
def test_a_blow_takes_what_was_pushed_and_no_more(when, dt):
    """Pushed by 1 and jerked by 3, wherever in a step that falls: it leaves with the speed 2."""

    def mean(t, t1, q, v):
        return jnp.where((t < when) & (when <= t1), 3.0 / (t1 - t), 0.0) + 0.0 * q

    sol = carom.solve(ball(0.0), carom.Maury(mean=mean), [0.0], [-1.0], t1=1.0, dt=dt)
    assert sol.v[-1, 0] == pytest.approx(2.0, rel=1e-13)
    assert abs(sol.q[-1, 0] - 2.0 * (1.0 - when)) <= 2.1 * dt


def test_the_law_of_a_step():
    """lam >= gamma, and lam > gamma only where a gap is closed; rows that repeat each other too."""
    rng, project = np.random.default_rng(4), eqx.filter_jit(Glue.project)
    for case in range(60):
        d, p, joints = 4, 5, case % 4 // 2
        A, G = rng.normal(size=(d, d)), rng.normal(size=(p + joints, d))
        if case % 2:
            G[3] = G[1] - 0.5 * G[0]
        b, gamma = rng.normal(size=p + joints), -rng.exponential(size=p) * (rng.random(p) < 0.6)
        b[:p] += 1.0 - np.min(b[:p])  # open at v = 0, which joints allow
        b[p:] = 0.0
        law = Glue(e=jnp.zeros(p + joints), gamma=jnp.pad(gamma, (0, joints)), joints=joints)
        M, target = A @ A.T + np.eye(d), 3.0 * rng.normal(size=d)
        metric, rows = DenseMetric(jnp.asarray(M)), jnp.asarray(G)[:, None]
        found = project(law, metric, target, rows, b[:, None], None)
        lam, w = np.asarray(found.multipliers[:, 0]), G @ found.point + b
        np.testing.assert_allclose(M @ (found.point - target), G.T @ lam, atol=1e-9)
        np.testing.assert_allclose(w[p:], 0.0, atol=1e-10)
        assert np.min(w) > -1e-10
        assert np.min(lam[:p] - gamma) > -1e-10
        np.testing.assert_allclose((lam[:p] - gamma) * w[:p], 0.0, atol=1e-9)
        np.testing.assert_allclose(law.kept(found.multipliers)[:p], gamma - lam[:p], atol=1e-12)


def test_a_chain_of_beads_pulled_apart():
    """Three beads pressed together by J: the pulled end leaves first, the others later or never."""
    chain = carom.System(
        force=lambda t, q, v: jnp.array([0.0, 0.0, 1.0]),
        gap=lambda t, q: jnp.diff(q) - 1.0,
        glue=True,
    )
    sol = carom.solve(chain, carom.Maury(), [0.0, 1.0, 2.0], [1.0, 0.0, -1.0], t1=6.0, dt=1e-3)
    # each contact is pushed by 1; while all hold, a = 1/3: contact 1 is pulled by 1/3, 2 by 2/3
    held = sol.t < 1.5 - 1e-2
    np.testing.assert_allclose(np.diff(sol.q[held], axis=1), 1.0, atol=1e-9)
    second = sol.t[np.argmax(sol.gap[:, 1] > 1e-9)]
    assert second == pytest.approx(1.5, abs=5e-3)
    # what is left of the first, 1 - 1.5/3, is never asked for: no force acts on the other two
    np.testing.assert_allclose(sol.gap[:, 0], 0.0, atol=1e-9)


def test_gamma_survives_a_stop(tmp_path):
    start = {"q0": [0.0], "v0": [-1.5], "t1": 2.0, "dt": 1e-3}
    whole = carom.solve(ball(2.0), carom.Maury(), **start)
    path = tmp_path / "glue.nc"

    class Stopped(Exception):
        pass

    def stop(run):
        if run.step > 300:
            raise Stopped

    with pytest.raises(Stopped):
        carom.solve(ball(2.0), carom.Maury(), **start, record=carom.Record(path), progress=stop)
    record = carom.Record(path, resume=True)
    resumed = carom.solve(ball(2.0), carom.Maury(), **start, record=record)
    np.testing.assert_array_equal(resumed.q, whole.q)


def test_many_at_once():
    """A system that is made inside of jit has a restitution of 0 as well: it was refused."""

    def left(pull):
        return carom.solve(ball(pull), carom.Maury(), [0.0], [-1.5], t1=2.0, dt=1e-2).q[-1, 0]

    pulls = jnp.array([1.0, 2.0, 4.0])
    np.testing.assert_allclose(jax.jit(jax.vmap(left))(pulls), [left(x) for x in pulls], rtol=1e-13)


def test_what_is_refused():
    with pytest.raises(carom.errors.KindError, match="use Maury"):
        carom.solve(ball(1.0), carom.Moreau(), [0.0], [0.0], t1=1.0, dt=0.1)
    with pytest.raises(carom.errors.RestitutionError, match="inelastic"):
        carom.System(force=lambda t, q, v: q, gap=lambda t, q: q, glue=True, restitution=0.5)
