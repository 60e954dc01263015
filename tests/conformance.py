"""What every implementation of a contract (carom/contracts.py) must satisfy: identities."""

import jax
import jax.numpy as jnp
import numpy as np

import carom
from carom import contracts
from carom.schemes.scheme import Report, State
from carom.status import Status, is_ok


def conforming_metric(metric, v):
    """M^-1 M = 1, symmetric, positive."""
    assert isinstance(metric, contracts.Metric)
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=np.shape(v)) for _ in range(2))
    np.testing.assert_allclose(metric.solve(metric.apply(x)), x, rtol=1e-9, atol=1e-12)
    assert np.sum(x * metric.apply(y)) == np.float64(np.sum(y * metric.apply(x))) or np.isclose(
        np.sum(x * metric.apply(y)), np.sum(y * metric.apply(x)), rtol=1e-12
    )
    assert np.sum(x * metric.apply(x)) > 0.0


def conforming_law(law, p, seed=0):
    """onto is the nearest point of a cone: idempotent, positively homogeneous, and Moreau's."""
    m, rng = law.size, np.random.default_rng(seed)
    for _ in range(20):
        x, y = rng.normal(size=(p, m)), rng.normal(size=(p, m))
        a, b = np.asarray(law.onto(jnp.asarray(x))), np.asarray(law.onto(jnp.asarray(y)))
        np.testing.assert_allclose(law.onto(jnp.asarray(a)), a, atol=1e-12)
        np.testing.assert_allclose(law.onto(jnp.asarray(3.0 * x)), 3.0 * a, atol=1e-12)
        np.testing.assert_allclose(np.sum(a * (x - a), axis=1), 0.0, atol=1e-12)  # x - a in -K*
        assert np.all(np.sum(b * (x - a), axis=1) <= 1e-12)
    rate, before = rng.normal(size=(p, m)), rng.normal(size=(p, m))
    b = np.asarray(law.shift(jnp.asarray(rate), jnp.asarray(before)))
    np.testing.assert_allclose(b[:, 0], rate[:, 0] + np.asarray(law.e) * before[:, 0])
    np.testing.assert_allclose(b[:, 1:], rate[:, 1:])


def conforming_contacts(contacts, v):
    """Shapes, and that velocities are affine in v."""
    assert isinstance(contacts, contracts.Contacts)
    p, m = np.shape(contacts.rate)
    assert np.shape(contacts.gap) == (p,)
    assert contacts.law.size == m
    w = np.asarray(contacts.velocity(v))
    assert w.shape == (p, m)
    still = np.asarray(contacts.velocity(0.0 * v))
    np.testing.assert_allclose(still, contacts.rate, atol=1e-12)
    np.testing.assert_allclose(contacts.velocity(2.0 * v) - still, 2.0 * (w - still), atol=1e-9)
    assert np.shape(contacts.closed()) == (p,)
    assert np.shape(contacts.ahead(0.1)) == np.shape(contacts.bounced(w, 0.1)) == (p, m)


def conforming_world(world, t, q, v):
    """Its parts conform, nothing moves in no time, and a projection obeys its own law."""
    assert isinstance(world, contracts.World)
    metric, contacts = world.metric(q), world.contacts(t, q)
    conforming_metric(metric, v)
    conforming_contacts(contacts, v)
    np.testing.assert_array_equal(world.moved(q, v, 0.0), q)
    half = world.moved(world.moved(q, v, 0.05), v, 0.05)
    np.testing.assert_allclose(half, world.moved(q, v, 0.1), atol=1e-12)  # along one velocity
    assert np.shape(world.forces(t, q, v)) == np.shape(v)
    before = contacts.velocity(v)
    b = contacts.law.shift(contacts.rate, before)
    found = world.project(metric, v, contacts, b, contacts.closed())
    assert is_ok(found.status)
    assert np.shape(found.multipliers) == np.shape(contacts.rate)
    after, e = np.asarray(contacts.velocity(found.point))[:, 0], np.asarray(contacts.law.e)
    scale = 1e-6 * (1.0 + np.max(np.abs(v)))
    closed = np.asarray(contacts.closed())
    assert np.all((after + e * np.asarray(before)[:, 0])[closed] >= -scale)
    pushed = np.asarray(found.multipliers)[:, 0]
    assert np.all(pushed[~closed] == 0.0)


def conforming_kernels(kernels):
    """Rows have the gaps of their definition, and the projection over them that of Kuhn and Tucker.

    Twice the same bits.
    """
    assert isinstance(kernels, contracts.Kernels)
    x = np.array([[0.0, 0.0, 0.5], [0.99, 0.0, 0.5], [0.5, 0.0, 1.35], [3.0, 0.0, 0.6]])
    pile = carom.Spheres(x, 0.5, walls=[carom.Plane((0, 0, 0), (0, 0, 1))], tolerance=1e-9)
    world = pile.world(0.0, 1.0, 1e-2)
    v = np.array([[1.0, 0.0, -1.0], [-1.0, 0.2, -1.0], [0.0, 0.0, -2.0], [0.0, 0.1, 0.3]])
    c = world.contacts(0.0, x, world.memory(0.0, x))
    assert len(c.gap) >= 5
    there, wall = np.concatenate([x, np.zeros((1, 3))]), c.source < 0
    way = there[c.j] - there[c.i]
    gap = np.where(wall, there[c.i][:, 2], np.linalg.norm(way, axis=1) - 0.5) - 0.5
    np.testing.assert_allclose(c.gap, gap, atol=1e-15)
    wide, w = c.spread(v), np.empty(len(gap))
    kernels.rows.relative_velocity(c.i, c.j, c.normal, wide, w)
    G = np.zeros((len(gap), *wide.shape))
    for k in range(len(gap)):
        G[k, c.i[k]], G[k, c.j[k]] = -c.normal[k], c.normal[k]
    G = G.reshape(len(gap), -1)
    np.testing.assert_allclose(w, G @ wide.ravel(), atol=1e-15)
    inverse = np.append(1.0 / pile.mass, 0.0)
    step = np.repeat(inverse, 3)
    found = []
    for _ in range(2):
        lam, b = np.zeros(len(gap)), np.maximum(c.gap, 0.0) / 1e-2
        u, residual, _ = kernels.projection.accelerated_gauss_seidel(
            c.start, c.i, c.j, c.normal, b, inverse, wide, wide, lam, 1e-9, 1e-9, 10_000
        )
        found.append((u.tobytes(), lam.tobytes()))
    assert residual <= 1.0
    assert found[0] == found[1]
    w = G @ u.ravel() + b
    assert np.all(lam >= 0.0)
    assert np.all(w >= -1e-8)
    assert np.max(lam * np.abs(w)) < 1e-8
    assert np.any(lam > 0.1)
    np.testing.assert_allclose(u.ravel(), wide.ravel() + step * (G.T @ lam), atol=1e-12)


def conforming_scheme(scheme, world, t, q, v, dt):
    """A step moves the time by dt, keeps shapes, reports (p, m), and is the same twice."""
    assert isinstance(scheme, contracts.Scheme)
    state = scheme.start(world, jnp.asarray(t, float), q, v, jnp.asarray(dt, float))
    new, report = scheme.step(world, state, jnp.asarray(dt, float))
    again, _ = scheme.step(world, state, jnp.asarray(dt, float))
    assert isinstance(new, State)
    assert isinstance(report, Report)
    assert report.status == Status.ok
    np.testing.assert_allclose(new.t, t + dt)
    assert np.shape(new.q) == np.shape(q)
    assert np.shape(new.v) == np.shape(v)
    for a, b in zip(*map(jax.tree_util.tree_leaves, (new, again)), strict=True):
        np.testing.assert_array_equal(a, b)
    p, m = np.shape(world.contacts(t, q).rate)
    assert np.shape(report.impulse) == np.shape(report.before) == np.shape(report.after) == (p, m)


def conforming_format(kind, system, given, path):
    """A file holds a run as memory does, and goes on from where it stands, and nowhere else."""
    import carom

    assert isinstance(kind, contracts.Format)
    world = system.world(0.0, 1.0, 1e-3)
    assert kind.holds(world)
    kept = carom.solve(system, carom.Moreau(), **given, record=carom.Record(every=3))
    made = carom.solve(system, carom.Moreau(), **given, record=carom.Record(path, every=3))
    found = kind.load(path)
    for sol in (made, found):
        for name in ("t", "q", "v"):
            np.testing.assert_array_equal(getattr(sol, name), getattr(kept, name))
    again = carom.Record(path, every=3, resume=True)  # it has ended: nothing is left to do
    carom.solve(system, carom.Moreau(), **given, record=again)
    np.testing.assert_array_equal(kind.load(path).q, kept.q)


def conforming_wall(wall, t=0.0, seed=0):
    """Pieces that the kernels know, whose unit normal is minus the gradient of the distance."""
    from carom.kernels.numba.rows import _to_wall

    assert isinstance(wall, contracts.Wall)
    rng, h = np.random.default_rng(seed), 1e-6
    for kind, data in wall.pieces(t):
        assert kind in (0, 1, 2, 3)
        assert data.shape == (10,)
        assert np.all(np.isfinite(data))
        for x in rng.normal(size=(5, 3)):
            _, *n = _to_wall(kind, data, *x)
            slope = [
                (_to_wall(kind, data, *(x + h * e))[0] - _to_wall(kind, data, *(x - h * e))[0])
                / (2.0 * h)
                for e in np.eye(3)
            ]
            np.testing.assert_allclose(slope, -np.array(n), atol=1e-6)
            np.testing.assert_allclose(np.linalg.norm(n), 1.0, atol=1e-12)
