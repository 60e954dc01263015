"""A new world is one class: a body that turns about a point, its configuration a unit quaternion.

    I w' = I w x w + torque,      q' = 1/2 q (0, w),      w in the frame of the body

A pointer fixed to it must stay above a level.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import carom
import conformance
from carom.law import Restitution
from carom.projection.metric import metric_of
from carom.worlds.system.contacts import Contacts
from carom.worlds.world import JaxWorld
from stopping import Stopped


def product(a, b):
    """Of quaternions, the real part first."""
    real = a[0] * b[0] - a[1:] @ b[1:]
    return jnp.concatenate([real[None], a[0] * b[1:] + b[0] * a[1:] + jnp.cross(a[1:], b[1:])])


def turned(q, x):
    """The vector x of the body, in space."""
    bare = q * jnp.array([1.0, -1.0, -1.0, -1.0])
    return product(product(q, jnp.concatenate([jnp.zeros(1), x])), bare)[1:]


class Body(JaxWorld, eqx.Module):
    """(4,) and (3,)."""

    moments: Array  # (3,)
    weight: Array  # (), on the pointer's end
    e: Array  # ()
    level: float = -0.5

    def metric(self, q):
        return metric_of(self.moments)

    def forces(self, t, q, w):
        pull = turned(q * jnp.array([1.0, -1.0, -1.0, -1.0]), jnp.array([0.0, 0.0, -1.0]))
        return jnp.cross(self.moments * w, w) + self.weight * jnp.cross(POINTER, pull)

    def moved(self, q, u, h):
        half = 0.5 * h * u
        angle = jnp.sqrt(jnp.maximum(half @ half, 1e-300))
        part = jnp.concatenate([jnp.cos(angle)[None], jnp.sinc(angle / jnp.pi) * half])
        q = product(q, part)
        return q / jnp.sqrt(q @ q)

    def between(self, q, q1, part):
        q = q + part * (q1 - q)
        return q / jnp.sqrt(q @ q)

    def gaps(self, t, q):
        return (turned(q, POINTER)[2] - self.level)[None]

    def contacts(self, t, q, memory=None):
        across = jnp.cross(POINTER, turned(q * jnp.array([1.0, -1.0, -1.0, -1.0]), UP))
        rows = across[None, None]  # d gap / dt = UP . R (w x POINTER)
        law = Restitution(self.e[None])
        one = jnp.ones(1, bool)
        return Contacts(self.gaps(t, q), jnp.zeros((1, 1)), rows, one, jnp.full(1, 1e-15), law)

    def project(self, metric, target, contacts, b, active=None):
        return contacts.project(metric, target, b, active)


POINTER, UP = jnp.array([1.0, 0.0, 0.0]), jnp.array([0.0, 0.0, 1.0])
TOP = Body(jnp.array([1.0, 1.0, 0.4]), jnp.array(0.0), jnp.array(1.0), level=-2.0)
HELD = Body(jnp.array([1.0, 1.2, 0.8]), jnp.array(2.0), jnp.array(0.5))
q0, w0 = np.array([1.0, 0.0, 0.0, 0.0]), np.array([0.3, 0.5, 1.0])
GIVEN = {"q0": q0, "v0": w0, "t1": 2.0, "dt": 1e-3}
FIELDS = ("t", "q", "v", "gap", "impulse")


def test_conforms():
    conformance.conforming_world(HELD, 0.0, jnp.asarray(q0), jnp.asarray(w0))
    for scheme in (carom.Moreau(), carom.Maury()):
        conformance.conforming_scheme(scheme, HELD, 0.0, jnp.asarray(q0), jnp.asarray(w0), 1e-2)


def test_free_precession():
    """w1 + i w2 turns by (I3 - I1) / I1 w3: first order, and exact as dt goes to 0."""
    rate, errors = (0.4 - 1.0) * w0[2], []
    for dt in (2e-3, 1e-3):
        sol = carom.solve(TOP, carom.Moreau(), **(GIVEN | {"dt": dt}))
        found = sol.v[:, 0] + 1j * sol.v[:, 1]
        errors.append(np.max(np.abs(found - (w0[0] + 1j * w0[1]) * np.exp(1j * rate * sol.t))))
        np.testing.assert_allclose(np.linalg.norm(sol.q, axis=1), 1.0, atol=1e-14)
    assert errors[1] < 1e-3
    assert 1.8 < errors[0] / errors[1] < 2.2


@pytest.mark.parametrize("scheme", [carom.Moreau(), carom.Maury()], ids=str)
def test_end_to_end(scheme, tmp_path):
    """Solved with impacts, recorded, stopped, resumed to the same bits, saved and gone on with."""
    whole = carom.solve(HELD, scheme, **GIVEN)
    assert whole.ok
    assert (whole.q.shape, whole.v.shape) == ((2001, 4), (2001, 3))
    impacts = whole.impacts
    assert len(impacts) >= 1
    np.testing.assert_allclose(
        impacts.velocity_after[0], -0.5 * impacts.velocity_before[0], rtol=1e-9
    )
    assert whole.gap.min() > -5e-3
    path = tmp_path / "body.nc"

    def stop(run):
        if run.step > 700:
            raise Stopped

    with pytest.raises(Stopped):
        carom.solve(HELD, scheme, **GIVEN, record=carom.Record(path), progress=stop)
    assert len(carom.load(path)) < len(whole)
    resumed = carom.solve(HELD, scheme, **GIVEN, record=carom.Record(path, resume=True))
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(resumed, name), getattr(whole, name))
    np.testing.assert_array_equal(resumed.impacts, impacts)
    whole.save(tmp_path / "saved.nc")
    half = carom.solve(HELD, scheme, **(GIVEN | {"t1": 1.0}))
    after = carom.solve(HELD, scheme, start=half, t1=2.0, dt=1e-3)
    for other, rows in (
        (carom.load(tmp_path / "saved.nc"), slice(None)),
        (after, slice(1000, None)),
    ):
        np.testing.assert_array_equal(other.q, whole.q[rows])
        np.testing.assert_array_equal(other.v, whole.v[rows])
    assert whole.to_xarray()["v"].dims == ("time", "speed")


def test_records_between_steps_and_batches():
    """On the way between two steps q stays a unit quaternion; a batch is its members."""
    times = [0.1234567, 0.5, 1.9999]
    sol = carom.solve(HELD, carom.Moreau(), **GIVEN, record=carom.Record(times=times))
    np.testing.assert_allclose(sol.t, times)
    np.testing.assert_allclose(np.linalg.norm(sol.q, axis=1), 1.0, atol=1e-14)

    def end(e):
        body = Body(HELD.moments, HELD.weight, e)
        return carom.solve(body, carom.Moreau(), **GIVEN, record=carom.Record(final=True)).q

    batch = jax.vmap(end)(jnp.array([0.2, 0.5]))
    np.testing.assert_allclose(batch[1], end(jnp.array(0.5)), atol=1e-12)


def test_what_it_cannot_do_is_said():
    """A scheme of positions asks for vectors; the certificate knows no such world."""
    with pytest.raises(carom.CaromError, match="PaoliSchatzman"):
        carom.solve(HELD, carom.PaoliSchatzman(), **GIVEN)
    with pytest.raises(carom.CaromError, match="Body"):
        carom.certify(carom.solve(HELD, carom.Moreau(), **GIVEN))
    with pytest.raises(carom.CaromError, match="vector"):
        carom.solve(HELD, carom.Moreau(), **(GIVEN | {"q0": np.eye(4)}))
