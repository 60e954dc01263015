"""Certificates of friction, joints and glue: what is accepted, and faults that must be found."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import carom
from blocks import G, Push, block, bouncing, sliding
from by_trait import STEPPING_WITH_FRICTION, WITH_FRICTION
from carom.certificates.certify import certify, certify_arrays
from certified import failed

GOOD = {
    "slides": (block(0.5, 0.3), [0.0, 0.0], [0.0, 0.0], 1.0, sliding(0.5, 0.3, 0.0)),
    "rests": (block(0.2, 0.3), [0.0, 0.0], [0.0, 0.0], 1.0, sliding(0.2, 0.3, 0.0)),
    "to rest": (block(0.1, 0.5), [0.0, 0.0], [2.0, 0.0], 1.2, sliding(0.1, 0.5, 2.0)),
    "bounces": (block(0.0, 0.3, 0.6), [0.0, 1.0], [2.0, 0.0], 1.2, bouncing(0.3, 0.6, 2.0, 1.0)),
}


def judged(system, scheme, q0, v0, t1, exact, steps):
    """The certificate, and the true error over the size of the motion."""
    sol = carom.solve(system, scheme, q0, v0, t1=t1, dt=t1 / steps)
    q = exact(np.asarray(sol.t))
    true = np.max(np.linalg.norm(sol.q - q, axis=1))
    found = certify(sol, q0=q0, v0=v0)
    size = max(np.max(np.linalg.norm(q - np.mean(q, axis=0), axis=1)), 1e-6)
    assert found.ok is not False, f"{scheme}, {steps} steps\n{found}"
    assert not (found.ok and true > 0.3 * size), f"{scheme}, {steps} steps, {true}\n{found}"
    if found.ok:
        assert found.error >= true - 1e-12, f"{scheme}, {steps} steps, {true}\n{found}"
    return found


@pytest.mark.parametrize("scheme", STEPPING_WITH_FRICTION, ids=str)
@pytest.mark.parametrize("title", GOOD)
def test_friction_is_accepted_where_it_is_right(title, scheme):
    found = {n: judged(*GOOD[title][:1], scheme, *GOOD[title][1:], n) for n in (5, 23, 211, 1009)}
    assert found[1009].ok, str(found[1009])
    if scheme in WITH_FRICTION and title != "rests":  # MoreauJean: of order 2, or exact
        assert found[5].ok is None


@pytest.mark.parametrize("scheme", [carom.Moreau(), carom.MoreauJean()], ids=str)
def test_a_slip_that_turns_round_anywhere_in_a_step(scheme):
    """Steps of the certificate that all begin after it, or end before it, agree and are wrong."""
    slope, mu, low = 0.5, 0.3, []
    up, down = (G * (np.sin(slope) + side * mu * np.cos(slope)) for side in (1.0, -1.0))
    for steps in (20, 101):
        for part in (0.003, 0.03, 0.12, 0.4, 0.7, 0.95, 0.98, 0.997):
            turn = (round(0.3 * steps) + part) / steps
            v0 = np.array([-up * turn, 0.0])
            sol = carom.solve(block(slope, mu), scheme, [0.0, 0.0], v0, t1=1.0, dt=1 / steps)
            late = np.maximum(np.asarray(sol.t) - turn, 0.0)
            t = np.minimum(np.asarray(sol.t), turn)
            x = v0[0] * t + 0.5 * up * t**2 + 0.5 * down * late**2
            found = certify(sol, q0=[0.0, 0.0], v0=v0)
            assert found.ok is not False, str(found)
            off = np.max(np.abs(sol.q[:, 0] - x))
            if found.ok and found.error < off:
                low.append((steps, part, off, found.error))
    assert not low


def planted(run, system):
    """Each as another system does it, so that all but the fault is right."""
    sol = carom.solve(run, carom.Moreau(), [0.0, 0.0], [2.0, 0.0], t1=0.4, dt=1e-3)
    return certify_arrays(system, sol.t, sol.q, sol.v, sol.impulse, friction=sol.friction)


@pytest.mark.parametrize("slope", [0.0, 0.4])
def test_faults_of_friction_are_found(slope):
    system = block(slope, 0.3)
    assert planted(system, system).ok
    assert failed(planted(block(slope, 0.31), system)) == ["cone", "slip"]
    assert failed(planted(block(slope, 0.29), system)) == ["slip"]  # as if it stuck, and slides
    pushed = block(slope, 0.0, push=0.3 * G * np.cos(slope))  # friction along the slip
    sol = carom.solve(pushed, carom.Moreau(), [0.0, 0.0], [2.0, 0.0], t1=0.4, dt=1e-3)
    along = np.where(sol.t[:, None] > 0.0, 0.3 * sol.impulse, 0.0)
    found = certify_arrays(system, sol.t, sol.q, sol.v, sol.impulse, friction=along)
    assert {"slip", "friction, work"} <= set(failed(found)), str(found)
    assert "momentum" not in failed(found)
    none = certify_arrays(system, sol.t, sol.q, sol.v, sol.impulse)
    assert "momentum" in failed(none)
    with pytest.raises(carom.errors.ShapeError, match="friction has shape"):
        certify_arrays(system, sol.t, sol.q, sol.v, sol.impulse, friction=along[:, 0])


def test_what_a_bounce_with_friction_gains_is_shown():
    """Newton's law contact by contact: judged without a bounce, shown with one."""
    for e, note in ((0.0, ""), (0.6, "shown")):
        sol = carom.solve(
            block(0.0, 0.3, e), carom.Moreau(), [0.0, 0.2], [1.0, 0.0], t1=0.5, dt=1e-3
        )
        clause = certify(sol)["passivity"]
        assert note in clause.note
        assert np.isfinite(clause.allowed) == (e == 0.0)
        assert clause.value < 0.0


class Length(eqx.Module):
    """A joint that grows."""

    rate: jax.Array

    def __call__(self, t, q):
        return jnp.sqrt(q @ q) - 1.0 - self.rate * t


def pendulum(rate=0.0):
    return carom.System(force=Push(jnp.array([0.0, -G])), joint=Length(jnp.array(rate)))


@pytest.fixture(scope="module")
def swing():
    """The same by its angle."""
    from scipy.integrate import solve_ivp

    angle = solve_ivp(
        lambda t, x: [x[1], -G * np.sin(x[0])], (0.0, 3.0), [np.pi / 2, 0.0],
        rtol=1e-11, atol=1e-12, dense_output=True,
    ).sol  # fmt: skip
    return lambda t: np.stack([np.sin(angle(t)[0]), -np.cos(angle(t)[0])], axis=1)


@pytest.mark.parametrize(
    "scheme", [carom.Moreau(), pytest.param(carom.Maury(), marks=pytest.mark.slow)], ids=str
)
def test_a_pendulum_on_a_joint(scheme, swing):
    found = {
        n: judged(pendulum(), scheme, [1.0, 0.0], [0.0, 0.0], 3.0, swing, n) for n in (11, 1009)
    }
    assert found[1009].ok, str(found[1009])
    assert found[11].ok is None


def test_faults_of_joints_are_found():
    right, sol = pendulum(), {}
    for rate in (0.0, 0.01):
        sol[rate] = carom.solve(
            pendulum(rate), carom.Moreau(), [1.0, 0.0], [0.0, 0.0], t1=3.0, dt=3e-3
        )
    drifts = sol[0.01]
    found = certify_arrays(right, drifts.t, drifts.q, drifts.v, joint_impulse=drifts.joint_impulse)
    assert "joint" in failed(found), str(found)
    s = sol[0.0]
    lost = certify_arrays(right, s.t, s.q, s.v, joint_impulse=0.98 * s.joint_impulse)
    assert "momentum" in failed(lost), str(lost)


def wall(pull, glue):
    return carom.System(force=Push(jnp.array([pull])), gap=lambda t, q: q, glue=glue)


def test_glue():
    """Pushed by 1.5 and pulled by 2: it leaves at 0.75."""
    system = wall(2.0, True)

    def exact(t):
        return np.maximum(t - 0.75, 0.0)[:, None] ** 2

    found = {
        n: judged(system, carom.Maury(), [0.0], [-1.5], 2.0, exact, n) for n in (11, 101, 1009)
    }
    assert found[1009].ok, str(found[1009])
    assert found[11].ok is None
    sol = carom.solve(system, carom.Maury(), [0.0], [-1.5], t1=2.0, dt=2e-3)
    arrays = sol.t, sol.q, sol.v
    assert "sign" in failed(certify_arrays(wall(2.0, False), *arrays, sol.impulse))
    less = np.array(sol.impulse)
    less[0] *= 0.8  # pushed by less, and pulled as much
    assert "sign" in failed(certify_arrays(system, *arrays, less))
    more = np.array(sol.impulse)
    more[0] *= 1.2  # and held by more, it should not have left
    assert {"glue, velocity", "glue, gap"} <= set(failed(certify_arrays(system, *arrays, more)))


@pytest.mark.slow
@pytest.mark.parametrize("dt", [1e-2, 1e-3])
def test_friction_that_turns_at_an_impact_inside_of_a_step(dt):
    """A block on a slope, held by a spring, strikes a smooth stop while it slides."""

    def force(t, q, v):
        return jnp.array([1.5 * 9.81 * 0.5 - 20.0 * q[0], -1.5 * 9.81 * 0.75**0.5])

    block = carom.System(
        mass=[1.5, 1.5],
        force=force,
        gap=lambda t, q: jnp.array([q[1], 0.35 - q[0]]),
        slip=lambda t, q, v: jnp.array([v[0], v[1]]),
        friction=[0.25, 0.0],
        restitution=[0.0, 0.6],
    )
    sol = carom.solve(block, carom.EventDriven(), [0.0, 0.0], [0.0, 0.0], t1=2.0, dt=dt)
    found = carom.certify(sol)
    assert found.ok, str(found)
    turned = carom.certify_arrays(
        block, sol.t, sol.q, sol.v, sol.impulse, friction=-np.asarray(sol.friction)
    )
    assert not turned.ok


def test_glue_that_a_run_goes_on_with(tmp_path):
    """It may be pulled for as long as the run before has pushed it, from a file too."""
    system = wall(2.0, True)
    first = carom.solve(system, carom.Maury(), [0.0], [-1.5], t1=0.5, dt=2e-3)
    record = carom.Record(tmp_path / "on.nc")
    sol = carom.solve(system, carom.Maury(), start=first, t1=2.0, dt=2e-3, record=record)
    assert certify(sol).ok, str(certify(sol))
    assert certify(carom.load(tmp_path / "on.nc"), system).ok
    sol = carom.solve(system, carom.Maury(), start=first, t1=2.0, dt=2e-3)
    sol.save(tmp_path / "saved.nc")
    assert certify(carom.load(tmp_path / "saved.nc"), system).ok
    alone = certify_arrays(system, sol.t, sol.q, sol.v, sol.impulse)
    assert "sign" in failed(alone)  # nothing had pushed it


@pytest.mark.parametrize("angle", [1.1, 1.3])
def test_what_rests_does_not_slip_by_its_rounding(angle):
    """A ladder between two rough walls; without a change of slip in free flight at its foot."""
    ladder = carom.System(
        mass=[1.0, 1.0, 1.0 / 3.0],
        force=lambda t, q, v: jnp.array([0.0, -G, 0.0]),
        gap=lambda t, q: jnp.array([q[0] - jnp.cos(q[2]), q[1] - jnp.sin(q[2])]),
        slip=lambda t, q, v: jnp.array([v[1] + jnp.cos(q[2]) * v[2], v[0] - jnp.sin(q[2]) * v[2]]),
        friction=0.6,
    )
    start = [np.cos(angle), np.sin(angle), angle], [0.0, 0.0, 0.0]
    sol = carom.solve(ladder, carom.Moreau(), *start, t1=0.1, dt=1e-3)
    assert np.abs(sol.v).max() < 1e-15
    assert certify(sol).ok, str(certify(sol))
    friction = np.array(sol.friction)
    friction[50, 1] *= -1.0
    found = certify_arrays(ladder, sol.t, sol.q, sol.v, sol.impulse, friction=friction)
    assert found.ok is False


@pytest.mark.parametrize("dt", [1e-2, 1e-3])
def test_glue_on_a_wall_that_moves(dt):
    """Struck at t = 1 with J = 1 and carried along; gamma = -cos(t - 1), so it is let go at q = 1.

    What the wall pulls with must not take from what the energy may be off by.
    """
    system = carom.System(
        force=Push(jnp.array([0.0])), gap=lambda t, q: q - jnp.sin(t - 1.0), glue=True
    )
    sol = carom.solve(system, carom.Maury(), [0.0], [0.0], t1=4.0, dt=dt)
    assert abs(sol.q[-1, 0] - 1.0) < 2.0 * dt
    assert certify(sol).ok, str(certify(sol))
    pulled = np.array(sol.v)
    pulled[sol.t > 2.0] *= 1.1
    assert certify_arrays(system, sol.t, sol.q, pulled, sol.impulse).ok is False


@pytest.mark.parametrize("record", [carom.Record(final=True), carom.Record(times=[0.5])])
def test_one_record_with_friction_is_left_open(record):
    sol = carom.solve(
        block(0.0, 0.3), carom.Moreau(), [0.0, 0.1], [0.0, 0.0], t1=1.0, dt=1e-2, record=record
    )
    assert len(sol.t) == 1
    assert certify(sol).ok is None
