"""Identities first: impact law, energy, momentum, feasibility, invariance; then long runs."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import carom
from by_trait import OF_ANY_WORLD
from carom import models
from carom.projection.nearest import nearest
from carom.schemes.scheme import State, rebound


def name(scheme):
    return type(scheme).__name__


# ---- random systems: M(q) positive definite, gaps curved, e anything ---------------------------


class _Mass(eqx.Module):
    """M(q) = B + c c^T, c = C sin q; data, so that all examples of a size compile once."""

    B: jax.Array
    C: jax.Array

    def __call__(self, q):
        c = self.C @ jnp.sin(q)
        return self.B + jnp.outer(c, c)


class _Gaps(eqx.Module):
    """Gaps D q + q E q + sin q_0, less their values at a point: all zero there."""

    D: jax.Array
    E: jax.Array
    point: jax.Array

    def __call__(self, t, q):
        def raw(q):
            return self.D @ q + jnp.einsum("pij,i,j->p", self.E, q, q) + jnp.sin(q[0])

        return raw(q) - raw(self.point)


def _no_force(t, q, v):
    return jnp.zeros_like(q)


def random_impact(seed, d, p):
    """A random system, a state at which every gap is closed, and what the impact law makes of it:
    before, after, multipliers, M, G, w, e, all in NumPy."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(d, d))
    q, v = jnp.asarray(rng.normal(size=d)), jnp.asarray(rng.normal(size=d))
    e = float(rng.choice([0.0, rng.uniform(), rng.uniform(), 1.0]))
    data = A @ A.T + 0.1 * np.eye(d), rng.normal(size=(d, d))
    curved = rng.normal(size=(p, d)), rng.normal(size=(p, d, d)), q
    system = carom.System(force=_no_force, gap=_Gaps(*curved), mass=_Mass(*data), restitution=e)
    return jax.tree_util.tree_map(np.asarray, _struck(system, q, v)), np.asarray(v), e


@eqx.filter_jit
def _struck(system, q, v):
    metric, contacts = system.metric(q), system.contacts(0.0, q)
    hit = rebound(system, metric, contacts, v, jnp.ones(contacts.gap.shape, bool))
    flat = eqx.tree_at(lambda h: h.multipliers, hit, hit.multipliers[:, 0])
    return flat, metric.mass, contacts.rows[:, 0]


def kinetic(M, v):
    return 0.5 * v @ M @ v


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), d=st.integers(1, 4))
def test_impact_law_of_one_gap_and_its_energy(seed, d):
    (hit, M, G), v, e = random_impact(seed, d, 1)
    w, MG = min(G[0] @ v, 0.0), np.linalg.solve(M, G[0])
    np.testing.assert_allclose(hit.point, v - (1 + e) * w / (G[0] @ MG) * MG, rtol=1e-9, atol=1e-9)
    identity = (1 - e**2) / 2 * w**2 / (G[0] @ MG)
    loss = kinetic(M, v) - kinetic(M, hit.point)
    assert loss == pytest.approx(identity, rel=1e-9, abs=1e-11 * kinetic(M, v))


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), d=st.integers(2, 4), p=st.sampled_from([2, 5]))
def test_no_energy_is_gained_at_an_impact_with_many_gaps(seed, d, p):
    (hit, M, G), v, _ = random_impact(seed, d, p)
    assert hit.status == carom.Status.ok  # u = 0 is always admissible for fixed gaps
    assert kinetic(M, hit.point) <= kinetic(M, v) * (1 + 1e-12)
    # M (v+ - v-) is a push along the gradients, and the pushes only push
    push = M @ (hit.point - v) - G.T @ hit.multipliers
    assert np.max(np.abs(push)) < 1e-9 * (1 + np.max(hit.multipliers))
    assert np.min(hit.multipliers) >= 0.0


@pytest.mark.parametrize("scheme", OF_ANY_WORLD, ids=name)
@pytest.mark.parametrize("e", [0.0, 0.3, 0.9, 1.0])
def test_energy_identity_at_every_impact_of_a_run(scheme, e):
    """No force, a disc, an anisotropic mass: the energy changes at impacts only, by the identity
    (1 - e^2)/2 w^2 / (grad g^T M^-1 grad g)."""
    M = np.array([[2.0, 0.3], [0.3, 0.7]])
    system = carom.System(
        force=lambda t, q, v: jnp.zeros(2),
        gap=lambda t, q: 1.0 - jnp.sqrt(jnp.sum(q**2)),
        mass=M,
        restitution=e,
    )
    dt = 1e-4
    sol = carom.solve(system, scheme, [0.2, 0.0], [1.0, 0.7], t1=4.0, dt=dt)
    energy = 0.5 * np.einsum("ni,ij,nj->n", sol.v, M, sol.v)
    struck = np.flatnonzero(sol.impulse[:, 0] > 0.0)
    quiet = np.setdiff1d(np.arange(1, len(sol.t)), struck)
    assert np.max(np.abs(np.diff(energy)[quiet - 1])) < 1e-13  # nothing happens in free flight
    # from one free flight to the next none is gained (PaoliSchatzman takes two steps to turn)
    between = energy[np.append(0, quiet)]
    assert np.max(np.diff(between)) < (1e-13 if name(scheme) != "PaoliSchatzman" else 5 * dt)
    first = sol.impacts[0]
    k = first.step
    normal = -sol.q[k] / np.linalg.norm(sol.q[k])
    identity = (1 - e**2) / 2 * first.velocity_before**2 / (normal @ np.linalg.solve(M, normal))
    after = np.flatnonzero(sol.impulse[k:, 0] == 0.0)[0] + k if e > 0 else k + 2
    assert energy[k - 1] - energy[after] == pytest.approx(identity, abs=20 * dt)
    assert first.velocity_after == pytest.approx(-e * first.velocity_before, abs=20 * dt)


@pytest.mark.parametrize("e", [0.0, 0.4, 1.0])
def test_moreau_energy_identity_to_rounding(e):
    """For Moreau and a flat wall the identity is exact, step by step."""
    M = np.array([[2.0, 0.3], [0.3, 0.7]])
    G = np.array([0.6, 0.8])
    system = carom.System(
        force=lambda t, q, v: jnp.zeros(2), gap=lambda t, q: G @ q + 1.0, mass=M, restitution=e
    )
    for scheme in OF_ANY_WORLD[:2]:
        sol = carom.solve(system, scheme, [0.0, 0.0], [-1.0, -0.4], t1=4.0, dt=1.3e-3)
        energy = 0.5 * np.einsum("ni,ij,nj->n", sol.v, M, sol.v)
        (impact,) = sol.impacts
        identity = (1 - e**2) / 2 * impact.velocity_before**2 / (G @ np.linalg.solve(M, G))
        assert energy[0] - energy[-1] == pytest.approx(identity, rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("scheme", OF_ANY_WORLD, ids=name)
def test_momentum_balance_of_every_step(scheme):
    """M (v1 - v0) = h f + grad g impulse, with f where the scheme takes it (here constant)."""
    f, M = np.array([0.3, -9.81]), np.array([1.5, 0.5])
    system = carom.System(
        force=lambda t, q, v: jnp.asarray(f),
        gap=lambda t, q: jnp.array([q[1], q[0] + 0.5]),
        mass=M,
        restitution=0.6,
    )
    sol = carom.solve(system, scheme, [0.0, 0.4], [-1.0, 0.0], t1=3.0, dt=1e-3)
    pushed = sol.impulse[1:, ::-1]  # gap 0 pushes along y, gap 1 along x
    balance = M * np.diff(sol.v, axis=0) - sol.dt * f - pushed
    start = 1 if name(scheme) == "PaoliSchatzman" else 0  # its first velocity is at half a step
    assert np.max(np.abs(balance[start:])) < 1e-12
    assert np.count_nonzero(sol.impulse) > 10


# ---- each scheme is the formula of its paper ----------------------------------------------------


@pytest.mark.parametrize("e", [0.0, 0.35, 1.0])
def test_moreau_step_is_dmp09(e):
    """v1 = -e v + (1 + e) proj(v + h/(1+e) M^-1 f, V), one gap, by its closed form."""
    M, f, h = np.diag([1.0, 3.0]), np.array([0.5, -2.0]), 0.01
    system = carom.System(
        force=lambda t, q, v: jnp.asarray(f),
        gap=lambda t, q: q[1] - 0.1 * q[0] ** 2 - 0.2 * t,
        mass=M,
        restitution=e,
    )
    q, v = np.array([0.3, 0.0]), np.array([1.0, -0.5])
    state, _ = carom.Moreau().step(system, State(0.0, jnp.asarray(q), jnp.asarray(v)), h)
    q1 = q + h * v
    G, rate = np.array([-0.2 * q1[0], 1.0]), -0.2
    target = v + h / (1 + e) * np.linalg.solve(M, f)
    MG = np.linalg.solve(M, G)
    projected = target + max(0.0, -(G @ target + rate)) / (G @ MG) * MG
    np.testing.assert_allclose(state.q, q1, rtol=1e-15)
    np.testing.assert_allclose(state.v, -e * v + (1 + e) * projected, rtol=1e-13)


def test_paoli_schatzman_is_the_three_term_recurrence():
    """U^{m+1} = -e U^{m-1} + (1+e) P_K(W^m), W^m = (2 U^m - (1-e) U^{m-1} + h^2 F) / (1+e)."""
    e, h, g = 0.6, 1e-2, 9.81
    system = carom.System(force=lambda t, q, v: jnp.array([-g]), gap=lambda t, q: q, restitution=e)
    sol = carom.solve(system, carom.PaoliSchatzman(), [1.0], [0.0], t1=2.0, dt=h)
    U = [1.0, 1.0 - h**2 * g / 2]
    for _ in range(199):
        W = (2 * U[-1] - (1 - e) * U[-2] - h**2 * g) / (1 + e)
        U.append(-e * U[-2] + (1 + e) * max(W, 0.0))
    np.testing.assert_allclose(sol.q[:, 0], U, atol=1e-11)
    mean = (sol.q[2:] + e * sol.q[:-2]) / (1 + e)
    assert mean.min() >= -1e-15  # on K, exactly


def test_paoli_schatzman_velocity_bound():
    """PS99 Lemma 2.1: |V^m| <= max(|V^{m-1}|, e |V^{m-2}|) + h (|F^m| + |F^{m-1}|)."""
    problem, h = models.bouncing_ball(e=0.7), 1e-3
    sol = carom.solve(
        problem.system, carom.PaoliSchatzman(), problem.q0, problem.v0, t1=problem.t1, dt=h
    )
    V = np.abs(sol.v[:, 0])
    bound = np.maximum(V[1:-1], 0.7 * V[:-2]) + 2 * sol.dt * 9.81
    assert np.all(V[2:] <= bound + 1e-12)


@pytest.mark.parametrize("e", [0.0, 0.4, 1.0])
def test_paoli_schatzman_in_a_moving_frame(e):
    """A wall in steady motion is a change of frame: the same discrete motion to rounding."""
    c = 0.7
    still = carom.System(force=lambda t, q, v: jnp.array([-1.0]), gap=lambda t, q: q, restitution=e)
    moving = carom.System(
        force=lambda t, q, v: jnp.array([-1.0]), gap=lambda t, q: q - c * t, restitution=e
    )
    for scheme in OF_ANY_WORLD:
        a = carom.solve(still, scheme, [0.987], [0.013], t1=6.1, dt=1e-2)
        b = carom.solve(moving, scheme, [0.987], [c + 0.013], t1=6.1, dt=1e-2)
        np.testing.assert_allclose(b.q[:, 0] - c * b.t, a.q[:, 0], atol=1e-11)


@pytest.mark.slow
def test_geodesic_and_frozen_projection_agree_to_second_order():
    problem = models.line_polar(e=0.5)
    gaps = []
    for n in (500, 1000, 2000):
        a, b = (
            carom.solve(problem.system, s, problem.q0, problem.v0, t1=problem.t1, dt=problem.t1 / n)
            for s in (carom.PaoliSchatzman(), carom.PaoliSchatzman(geodesics=True))
        )
        gaps.append(np.max(np.abs(a.q - b.q)))
    assert 0.0 < gaps[0] < 1e-3
    assert gaps[2] < 0.4 * gaps[0]


def test_geodesic_projection_is_the_nearest_point():
    """In polar coordinates the nearest point of a straight wall is the Cartesian foot."""
    system = carom.System(
        force=lambda t, q, v: jnp.zeros(2),
        gap=lambda t, q: q[0] * jnp.cos(q[1]) - 1.0,
        mass=lambda q: jnp.array([1.0, q[0] ** 2]),
        restitution=0.0,
    )
    x, y = 0.98, 0.3
    W = jnp.array([np.hypot(x, y), np.arctan2(y, x)])
    limits = {"tolerance": 1e-13, "iterations": 50}
    P = nearest(system, system.metric(W), jnp.zeros(()), W, geodesics=True, **limits)
    r, th = np.asarray(W + P.shift)
    np.testing.assert_allclose([r * np.cos(th), r * np.sin(th)], [1.0, y], atol=1e-9)
    frozen = nearest(system, system.metric(W), jnp.zeros(()), W, **limits)
    r, th = np.asarray(W + frozen.shift)
    foot = r * np.cos(th), r * np.sin(th)
    assert 1e-7 < abs(foot[1] - y) < 0.02**2  # second order in the distance, not zero


# ---- feasibility --------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), dt=st.sampled_from([1e-3, 1e-2, 0.1, 0.5]))
def test_maury_never_leaves_a_convex_moving_set(seed, dt):
    """Gaps convex in q (distances to moving points minus moving radii), many, at any dt."""
    rng = np.random.default_rng(seed)
    data = {
        "centre": jnp.asarray(rng.normal(size=(4, 2)) * 3.0),
        "speed": jnp.asarray(rng.normal(size=(4, 2)) * 0.3),
        "grow": jnp.asarray(rng.uniform(-0.1, 0.1, size=4)),
        "e": jnp.asarray(rng.choice([0.0, rng.uniform(), 1.0])),
    }
    q0, v0 = rng.normal(size=2) * 0.1, rng.normal(size=2)
    distance = np.linalg.norm(q0 - np.asarray(data["centre"]), axis=1)
    data["radius"] = jnp.asarray(rng.uniform(0.3, 1.0, size=4) * distance)
    sol = _moving_discs(data, jnp.asarray(q0), jnp.asarray(v0), dt)
    reached = np.asarray(sol.status == carom.Status.ok)
    assert float(sol.gap.min()) > -1e-12
    # a set that closes on the point may become empty; that is said, and the last state is kept
    assert reached or bool(sol.status == carom.Status.infeasible)


def _moving_discs(data, q0, v0, dt):
    system = carom.System(
        force=_pull,
        gap=_DiscGaps(data["centre"], data["speed"], data["radius"], data["grow"]),
        restitution=data["e"],
    )
    return carom.solve(system, carom.Maury(), q0, v0, t1=2.0, dt=dt, throw=False)


def _pull(t, q, v):
    return jnp.array([0.3, -1.0]) - q


class _DiscGaps(eqx.Module):
    """Distances to moving discs, as data: one compilation for all examples."""

    centre: jax.Array
    speed: jax.Array
    radius: jax.Array
    grow: jax.Array

    def __call__(self, t, q):
        offset = q - self.centre - t * self.speed
        return jnp.sqrt(jnp.sum(offset**2, axis=1)) - self.radius * (1.0 + self.grow * t)


@pytest.mark.parametrize("scheme", [OF_ANY_WORLD[0], OF_ANY_WORLD[2]], ids=name)
def test_penetration_of_the_others_is_first_order(scheme):
    """Lemma 4 of DMP09: penetration O(h), with the constant of the fastest impact."""
    problem = models.disc(e=0.5)
    for dt in (1e-2, 1e-3, 1e-4):
        sol = carom.solve(problem.system, scheme, problem.q0, problem.v0, t1=2.0, dt=dt)
        assert -sol.gap.min() < 2 * dt * np.max(np.abs(sol.impacts.velocity_before))


# ---- invariance ---------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", OF_ANY_WORLD, ids=name)
def test_linear_change_of_coordinates(scheme):
    """q = A y: the kinetic metric makes every scheme equivariant, to rounding, step by step."""
    A = np.array([[1.0, 0.7], [-0.2, 2.0]])
    M = np.array([[1.5, 0.2], [0.2, 0.8]])

    def force(t, q, v):
        return jnp.array([jnp.sin(t), -3.0]) - 0.1 * v

    def gap(t, q):
        return jnp.array([1.0 - jnp.sum(q**2), q[0] + 0.6])

    plain = carom.System(force=force, gap=gap, mass=M, restitution=0.7)
    changed = carom.System(
        force=lambda t, y, w: A.T @ force(t, A @ y, A @ w),
        gap=lambda t, y: gap(t, A @ y),
        mass=A.T @ M @ A,
        restitution=0.7,
    )
    q0, v0, inverse = np.array([0.1, 0.2]), np.array([-1.0, 0.5]), np.linalg.inv(A)
    a = carom.solve(plain, scheme, q0, v0, t1=5.0, dt=1e-3)
    b = carom.solve(changed, scheme, inverse @ q0, inverse @ v0, t1=5.0, dt=1e-3)
    assert len(a.impacts) > 2
    np.testing.assert_allclose(b.q @ A.T, a.q, atol=1e-9)
    np.testing.assert_allclose(b.impulse, a.impulse, atol=1e-8)


@pytest.mark.parametrize("scheme", OF_ANY_WORLD, ids=name)
def test_polar_and_cartesian_have_the_same_limit(scheme):
    """The distance between the two discrete motions goes to zero in proportion to dt."""
    cartesian, polar = models.disc(e=0.5), models.disc_polar(e=0.5)
    apart = []
    for n in (2003, 8009, 32003):
        dt = cartesian.t1 / n
        a = carom.solve(
            cartesian.system, scheme, cartesian.q0, cartesian.v0, t1=cartesian.t1, dt=dt
        )
        b = carom.solve(polar.system, scheme, polar.q0, polar.v0, t1=cartesian.t1, dt=dt)
        r, th = b.q.T
        apart.append(np.max(np.abs(np.stack([r * np.cos(th), r * np.sin(th)], 1) - a.q)))
    assert apart[0] < 0.2
    assert apart[2] < 0.2 * apart[0]


# ---- long runs ----------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", OF_ANY_WORLD, ids=name)
def test_rest_does_not_drift(scheme):
    """10^7 steps at rest on a floor that is not at zero, after the accumulation of impacts."""
    system = carom.System(
        force=lambda t, q, v: jnp.array([-9.81]), gap=lambda t, q: q - 1.0 / 3.0, restitution=0.5
    )
    dt = 1e-4
    sol = carom.solve(
        system, scheme, [1.0], [0.0], t1=1000.0, dt=dt, record=carom.Record(every=10**6)
    )
    assert sol.stats.steps == 10**7
    rest = sol.q[1:, 0] - 1.0 / 3.0
    assert np.max(np.abs(rest)) < 10 * dt  # within the penetration the scheme is allowed
    assert np.ptp(rest) < 1e-12  # and not one digit more after 10^7 steps
    weight = np.diff(sol.t)[1:] * 9.81
    np.testing.assert_allclose(sol.impulse[2:, 0], weight, rtol=1e-8)


# An impact is felt some steps late, each time.  Moreau and Maury feel it at the end of its step:
# with a whole number of steps between impacts the delays do not add up, and a forced motion keeps
# its phase.  PaoliSchatzman with e = 1 is late by two steps, wherever the impact lies: it goes on
# from U^{m-1} = a, U^m = a - h v < 0 with -U^{m-1} = -a and -U^m = h v - a, which falls through
# zero at step m - 1 + a/(h v) and rises through it at m + 1 + a/(h v).  The phase is lost, at a
# rate that is known, and the speed can be predicted with it.


@pytest.mark.slow
@pytest.mark.parametrize("scheme", OF_ANY_WORLD[:2], ids=name)
def test_resonance_over_many_impacts(scheme):
    """P4 with e = 1 over 10^5 impacts: the speed grows by 4/3 from one to the next, no more and no
    less than first order allows."""
    system, count = models.resonance(e=1.0).system, 10**5
    for n in (401, 1605):
        record = carom.Record(every=100 * n)
        sol = carom.solve(
            system, scheme, [0.0], [1.0], t1=count * np.pi, dt=np.pi / n, record=record
        )
        exact = 1.0 + 4.0 / 3.0 * sol.t / np.pi
        error = np.max(np.abs(np.abs(sol.v[:, 0]) / exact - 1.0)[1:])
        print(name(scheme), "dt", sol.dt, "relative error of the speed", error)
        assert error < sol.dt


def delayed_resonance(v, delay, count):
    """Speeds after the impacts of P4 with e = 1, each followed by ``delay``: exact flights
    u = -sin(2t)/3 + A cos s + B sin s, s the time since the last impact."""
    start, speeds = 0.0, []
    for _ in range(count):
        A, B, s = math.sin(2 * start) / 3, v + 2 / 3 * math.cos(2 * start), math.pi
        for _ in range(3):  # Newton, to the next impact
            t = start + s
            u = -math.sin(2 * t) / 3 + A * math.cos(s) + B * math.sin(s)
            du = -2 / 3 * math.cos(2 * t) - A * math.sin(s) + B * math.cos(s)
            s -= u / du
        start, v = (start + s + delay) % math.pi, -du
        speeds.append(v)
    return np.array(speeds)


@pytest.mark.slow
def test_resonance_with_late_impacts_over_many_impacts():
    """P4 with e = 1 over 10^5 impacts, PaoliSchatzman: nothing is lost or gained beside the phase.

    Between impacts the scheme is Stormer's: its half period is pi (1 - h^2/24)."""
    system, v0 = models.resonance(e=1.0).system, 300.0
    for n in (100.37, 400.37):  # off the grid
        sol = carom.solve(
            system,
            carom.PaoliSchatzman(),
            [0.0],
            [v0],
            t1=1.03e5 * np.pi,
            dt=np.pi / n,
            record=carom.Record(impacts=True),
        )
        speeds, h = sol.impacts.velocity_after, sol.dt
        assert len(speeds) >= 10**5
        expected = delayed_resonance(v0, 2 * h - np.pi * h**2 / 24, len(speeds))
        error = np.max(np.abs(speeds - expected)) / v0
        print("dt", h, len(speeds), "impacts, relative error of the speed", error)
        assert error < h
