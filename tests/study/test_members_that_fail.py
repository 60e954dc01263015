"""One member that fails: it says so, keeps its last good state, and the others do not notice."""

import jax.numpy as jnp
import numpy as np
import pytest

import carom
from carom import study

G = 9.81
KINDS = {"none": 0.0, "gap": 1.0, "force": 2.0, "restitution": 3.0, "slip": 4.0, "belt": 5.0}
MU = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, np.inf, np.nan, -0.1, 0.35])
KIND = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 0.0, 0.0, 0.0, 0.0, 0.0])
GOOD = np.array([0, 5, 9])


def block(mu, kind):
    """It falls on a belt; what is wrong begins at once, or at t = 0.3."""

    def wrong(name, t, value, else_, since=0.3):
        return jnp.where((kind == KINDS[name]) & (t >= since), value, else_)

    def force(t, q, v):
        along = wrong("force", t, jnp.nan, 3.0 * jnp.sin(5.0 * t) - 8.0 * q[0])
        return jnp.stack([along, jnp.array(-G)])

    def slip(t, q, v):
        belt = wrong("slip", t, jnp.nan, wrong("belt", t, jnp.inf, 0.4, 0.0), 0.0)
        return v[0] - belt

    return carom.System(
        force=force,
        gap=lambda t, q: wrong("gap", t, jnp.nan, q[1]),
        slip=slip,
        friction=mu,
        restitution=wrong("restitution", 0.3, 1.5, 0.2),
    )


def run(mu, kind, scheme):
    dt, steps = (2e-3, 400) if scheme.lockstep else (0.1, 8)
    return study.sweep(
        block,
        {"mu": mu, "kind": kind},
        samples=True,
        q0=[0.0, 0.05],
        v0=[0.5, 0.0],
        scheme=scheme,
        dt=dt,
        steps=steps,
        keep=(study.Final(), study.Impacts()),
    )


@pytest.mark.parametrize(
    "scheme",
    [
        carom.Moreau(),
        pytest.param(carom.Maury(), marks=pytest.mark.slow),
        pytest.param(carom.EventDriven(), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_the_others_do_not_notice(scheme):
    """Bit for bit what they are without it.  Under EventDriven a block fell through a belt whose
    speed is no number, or without end, and its status was ok."""
    found = run(MU, KIND, scheme)
    names = found.status.values
    assert np.all(names[GOOD] == 0)
    assert np.all(np.delete(names, GOOD) != 0)
    assert np.all(np.isfinite(found.q))
    assert np.all(np.isfinite(found.v))
    assert np.all(np.isfinite(found.impulse))
    alone = run(np.where(KIND + ~np.isin(np.arange(10), GOOD) > 0, 0.2, MU), 0.0 * KIND, scheme)
    assert np.all(alone.status == 0)
    for name in ("q", "v", "impulse", "impacts"):
        np.testing.assert_array_equal(found[name][GOOD], alone[name][GOOD])
    if not scheme.lockstep:
        kinds = np.array([0.0, 4.0, 5.0])
        at_once = run(np.full(3, 0.3), kinds, scheme)
        np.testing.assert_array_equal(at_once.status != 0, kinds > 0.0)


@pytest.mark.slow
def test_a_diagram_is_carried_through_overlaps():
    """Moreau's steps end a little inside of the table: every other value was refused as outside,
    and the one after it began afresh."""

    def shaken(w):
        return carom.System(
            force=lambda t, q, v: jnp.stack([4.0 * jnp.sin(w * t) - 20.0 * q[0], jnp.array(-G)]),
            gap=lambda t, q: q[1] - 0.02 * jnp.sin(w * t),
            slip=lambda t, q, v: v[0] - 0.3,
            friction=0.3,
            restitution=0.2,
        )

    values, period = np.linspace(20.0, 40.0, 5), 2.0 * np.pi
    how = {"q0": [0.0, 0.1], "v0": [0.0, 0.0], "steps": 200, "settle": 20, "keep": 4}
    found = study.bifurcation(shaken, values, period=lambda w: period / w, **how)
    assert np.all(found.status == 0)
    lowest = found.strobe_q.values[:, :-1, -1, 1]
    assert np.min(lowest) < -1e-6  # states that begin the next value, but for the overlap
    outside = study.bifurcation(
        shaken, values, period=lambda w: period / w, **{**how, "q0": [0.0, -0.1]}
    )
    assert np.all(outside.status == 1)  # what the user gives is not moved
