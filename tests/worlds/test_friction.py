"""Friction and joints of a System: the answers of dry friction, and the law itself."""

import clarabel
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse

import carom
from blocks import G, Push, along, block, floor
from by_trait import STEPPING_WITH_FRICTION
from carom.projection.cones import project_cones
from carom.projection.coulomb import coulomb
from carom.projection.metric import metric_of

SCHEMES = {
    "Moreau": carom.Moreau(),
    "implicit": carom.Moreau(implicit=True),
    "Maury": carom.Maury(),
    "MoreauJean": carom.MoreauJean(),
}
each_scheme = pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES)


def first_order(errors, factor=4.0):
    """Errors at steps that fall by ``factor`` fall like them."""
    coarse, fine = errors
    return fine < 1.3 * coarse / factor + 1e-12


@each_scheme
def test_a_block_on_a_slope(scheme):
    rests = carom.solve(block(0.3, 0.5), scheme, [0.0, 0.0], [0.0, 0.0], t1=1.0, dt=1e-2)
    np.testing.assert_array_equal(rests.q[-1], 0.0)
    np.testing.assert_allclose(rests.friction[1:, 0], -G * np.sin(0.3) * 1e-2, rtol=1e-12)
    slides = 0.5 * G * (np.sin(0.5) - 0.3 * np.cos(0.5))
    errors = []
    for dt in (1e-2, 2.5e-3):
        sol = carom.solve(block(0.5, 0.3), scheme, [0.0, 0.0], [0.0, 0.0], t1=1.0, dt=dt)
        errors.append(abs(sol.q[-1, 0] - slides))
    assert first_order(errors)


@each_scheme
def test_a_block_stops_on_the_level(scheme):
    errors = []
    for dt in (1e-2, 2.5e-3):
        sol = carom.solve(block(0.0, 0.3), scheme, [0.0, 0.0], [2.0, 0.0], t1=1.0, dt=dt)
        errors.append(abs(sol.q[-1, 0] - 4.0 / (2 * 0.3 * G)))
        stopped = sol.t > 2.0 / (0.3 * G) + 2 * dt
        np.testing.assert_array_equal(sol.v[stopped], 0.0)
    assert first_order(errors)


def test_spring_and_dry_friction():
    """x'' + x = -mu g sign x': turning points (-1)^k (x0 - 2 k mu g), then it sticks."""

    def force(t, q, v):
        return jnp.array([-q[0], -G])

    system = carom.System(force=force, gap=floor, slip=along, friction=0.06 / G)
    for dt, allowed in ((1e-2, 2e-2), (1e-3, 2e-3)):
        sol = carom.solve(system, carom.Moreau(), [1.0, 0.0], [0.0, 0.0], t1=40.0, dt=dt)
        k = np.arange(1, 8)
        times = np.searchsorted(sol.t, k * np.pi)
        np.testing.assert_allclose(sol.q[times, 0], (-1.0) ** k * (1 - 0.12 * k), atol=allowed)
        assert abs(sol.q[-1, 0]) <= 0.06
        assert sol.v[-1, 0] == 0.0


def ball(mu, e, inertia):
    def slip(t, q, v):
        return v[0] + v[2]

    mass = jnp.array([1.0, 1.0, inertia])
    f = Push(jnp.array([0.0, -G, 0.0]))
    return carom.System(
        mass=mass, force=f, gap=lambda t, q: q[1] - 1.0, slip=slip, friction=mu, restitution=e
    )


@pytest.mark.parametrize("inertia", [0.4, 0.5], ids=["ball", "disc"])
@pytest.mark.parametrize(("height", "e"), [(1.0, 0.0), (1.5, 0.6)], ids=["rolls", "bounces"])
@pytest.mark.slow
def test_it_rolls_in_the_end(inertia, height, e):
    """(v0 - I w0) / (1 + I), bouncing or not; angular momentum about the contact is kept."""
    for scheme in STEPPING_WITH_FRICTION:
        sol = carom.solve(
            ball(0.3, e, inertia), scheme, [0.0, height, 0.0], [3.0, 0.0, 1.0], t1=6.0, dt=2e-3
        )
        end = (3.0 - inertia * 1.0) / (1.0 + inertia)
        np.testing.assert_allclose(sol.v[-1, [0, 2]], [end, -end], rtol=1e-9)


@pytest.mark.parametrize("mu", [0.05, 0.8])
def test_an_oblique_impact(mu):
    """J_n = (1 + e) |v_n|, J_t = min(mu J_n, 2/7 |s|)."""
    e, v = 0.7, np.array([2.0, -3.0, 0.5])
    for scheme in STEPPING_WITH_FRICTION:
        sol = carom.solve(ball(mu, e, 0.4), scheme, [0.0, 1.0, 0.0], v, t1=1e-6, dt=1e-6)
        normal = (1 + e) * 3.0
        tangent = min(mu * normal, 2.0 / 7.0 * 2.5)
        assert sol.impulse[0, 0] == pytest.approx(normal, rel=1e-12)
        assert sol.friction[0, 0] == pytest.approx(-tangent, rel=1e-12)


def in_space(mu, e=0.0, turn=0.0):
    c, s = np.cos(turn), np.sin(turn)
    R = jnp.array([[c, s], [-s, c]])
    return carom.System(
        force=Push(jnp.array([0.0, 0.0, -G])),
        gap=lambda t, q: q[2],
        slip=lambda t, q, v: R @ v[:2],
        friction=mu,
        restitution=e,
    )


@pytest.mark.slow
def test_in_space_it_slides_straight_whatever_the_frame():
    far = 5.0 / (2 * 0.3 * G) / np.sqrt(5.0)
    found = []
    for turn in (0.0, 0.7):
        sol = carom.solve(
            in_space(0.3, turn=turn), carom.Moreau(), [0.0] * 3, [1.0, 2.0, 0.0], t1=1.0, dt=1e-3
        )
        np.testing.assert_allclose(sol.q[-1, :2], [far, 2 * far], rtol=3e-3)
        found.append(sol)
    np.testing.assert_allclose(found[0].q, found[1].q, atol=1e-12)
    c, s = np.cos(0.7), np.sin(0.7)
    turned = found[0].friction[:, 0] @ np.array([[c, s], [-s, c]]).T
    np.testing.assert_allclose(found[1].friction[:, 0], turned, atol=1e-12)


def test_no_friction_and_endless_friction():
    start = [0.0, 0.0, 0.5], [1.0, 2.0, 0.0]
    for scheme in STEPPING_WITH_FRICTION:
        plain = carom.System(
            force=Push(jnp.array([0.0, 0.0, -G])), gap=lambda t, q: q[2], restitution=0.5
        )
        without = carom.solve(plain, scheme, *start, t1=2.0, dt=1e-2)
        zero = carom.solve(in_space(0.0, 0.5), scheme, *start, t1=2.0, dt=1e-2)
        np.testing.assert_allclose(zero.q, without.q, atol=1e-13)
        endless = carom.solve(in_space(1e3, 0.5), scheme, *start, t1=2.0, dt=1e-2)
        first = int(np.argmax(endless.impulse[:, 0] > 0.0))
        np.testing.assert_allclose(endless.v[first:, :2], 0.0, atol=1e-12)


def test_other_coordinates_give_the_same_motion():
    """A linear change of coordinates, M and all: step by step."""
    T = np.array([[1.0, 0.3], [-0.4, 0.8]])
    x0, v0 = np.array([0.0, 0.4]), np.array([1.0, 0.0])
    for scheme, e in ((carom.Moreau(), 0.4), (carom.Maury(), 0.0)):
        straight = block(0.5, 0.3, e)
        skew = carom.System(
            mass=T.T @ T,
            force=lambda t, q, v: T.T @ (G * jnp.array([jnp.sin(0.5), -jnp.cos(0.5)])),
            gap=lambda t, q: (T @ q)[1],
            slip=lambda t, q, v: (T @ v)[0],
            friction=0.3,
            restitution=e,
        )
        a = carom.solve(straight, scheme, x0, v0, t1=1.0, dt=1e-2)
        b = carom.solve(
            skew, scheme, np.linalg.solve(T, x0), np.linalg.solve(T, v0), t1=1.0, dt=1e-2
        )
        np.testing.assert_allclose(b.q @ T.T, a.q, atol=1e-9)


def test_batches():
    mus = jnp.linspace(0.0, 1.0, 5)
    run = jax.jit(
        jax.vmap(
            lambda mu: carom.solve(
                block(0.5, mu), carom.Moreau(), [0.0, 0.0], [0.0, 0.0], t1=1.0, dt=1e-2
            )
        )
    )
    sols = run(mus)
    for k, mu in enumerate(mus):
        one = carom.solve(block(0.5, mu), carom.Moreau(), [0.0, 0.0], [0.0, 0.0], t1=1.0, dt=1e-2)
        np.testing.assert_allclose(sols[k].q, one.q, atol=1e-14)
        np.testing.assert_allclose(sols[k].friction, one.friction, atol=1e-14)
    assert not run(mus - 0.5).ok  # a negative coefficient is a status


# The law.


def random_contacts(rng, p, m, d, mus):
    """Rows with a strictly admissible velocity, so that a solution exists."""
    H, v = rng.normal(size=(p, m, d)), rng.normal(size=d)
    b = -H @ v
    b[:, 0] += rng.uniform(0.01, 0.5, size=p)
    return H, b, rng.choice(mus, size=p)


def faults(u, r, mu):
    """Of open, stick or slip, contact by contact."""
    n, t = u[:, 0], np.linalg.norm(u[:, 1:], axis=1)
    lam, push = r[:, 0], np.linalg.norm(r[:, 1:], axis=1)
    power = np.sum(u[:, 1:] * r[:, 1:], axis=1) + mu * lam * t  # 0 where it slips, or sticks
    return np.max(
        np.abs(
            [np.minimum(n, 0), np.minimum(lam, 0), n * lam, np.maximum(push - mu * lam, 0), power]
        )
    )


@pytest.mark.parametrize(("p", "m", "d"), [(1, 2, 3), (1, 3, 3), (2, 2, 4), (3, 3, 9)])
def test_the_law_from_its_definition(p, m, d):
    solve = jax.jit(
        lambda H, b, mu: coulomb(metric_of(None), jnp.zeros(d), H, b, mu, jnp.ones(p, bool))
    )
    rng, left = np.random.default_rng(p), 0
    for _ in range(200):
        H, b, mu = random_contacts(rng, p, m, d, [0.0, 0.2, 0.5, 1.0])
        found = solve(H, b, mu)
        if found.status == carom.Status.unconverged:  # said, and rare
            left += 1
            continue
        u, r = b + H @ found.point, np.asarray(found.multipliers)
        np.testing.assert_allclose(found.point, np.einsum("iad,ia->d", H, r), atol=1e-10)
        assert faults(u, r, mu) < 1e-9 * (1 + np.max(np.abs(r))) ** 2
    assert left <= 2


def socp(H, b, mu):
    """argmin 1/2 |x|^2 with H x + b in K*, by Clarabel."""
    p, m, d = H.shape
    rows = np.concatenate([H[i] * np.array([1.0, *[mu[i]] * (m - 1)])[:, None] for i in range(p)])
    right = np.concatenate([b[i] * np.array([1.0, *[mu[i]] * (m - 1)]) for i in range(p)])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    cones = [clarabel.SecondOrderConeT(m)] * p
    solver = clarabel.DefaultSolver(
        sparse.eye(d, format="csc"), np.zeros(d), sparse.csc_matrix(-rows), right, cones, settings
    )
    return np.array(solver.solve().x)


@pytest.mark.slow
def test_it_is_the_projection_with_its_own_shift():
    """De Saxce: with s = mu |u_t| held fixed the answer is the nearest point of a convex set."""
    rng = np.random.default_rng(3)
    for p, m, d in ((1, 3, 3), (2, 3, 6), (3, 3, 9), (4, 3, 6)):
        solve = jax.jit(
            lambda H, b, mu, p=p, d=d: coulomb(
                metric_of(None), jnp.zeros(d), H, b, mu, jnp.ones(p, bool)
            )
        )
        for _ in range(10):
            H, b, mu = random_contacts(rng, p, m, d, [0.2, 0.5])
            found = solve(H, b, mu)
            assert found.status == carom.Status.ok
            u = b + H @ found.point
            shifted = b.copy()
            shifted[:, 0] += mu * np.linalg.norm(u[:, 1:], axis=1)
            x, y = np.asarray(found.point), socp(H, shifted, mu)
            inside = shifted + H @ x
            assert np.all(inside[:, 0] >= mu * np.linalg.norm(inside[:, 1:], axis=1) - 1e-9)
            assert x @ x <= y @ y + 1e-8  # the nearest of the set, which y is in


@pytest.mark.slow
def test_no_energy_is_gained_without_restitution():
    """At impacts of several contacts with friction and e = 0, over random masses and rows."""
    rng = np.random.default_rng(5)

    @jax.jit
    def struck(M, H, v, e, mu):
        b = (e * H[:, 0] @ v)[:, None] * jnp.array([1.0, 0.0, 0.0])
        return coulomb(metric_of(M), v, H, b, mu, jnp.ones(3, bool))

    worst, solved = -np.inf, 0
    for _ in range(200):
        L, H, v = rng.normal(size=(6, 6)), rng.normal(size=(3, 3, 6)), rng.normal(size=6)
        M = L @ L.T + 0.3 * np.eye(6)
        found = struck(M, H, v, 0.0, rng.choice([0.1, 0.5], size=3))
        if found.status == carom.Status.ok:
            solved += 1
            after, before = found.point @ M @ found.point, v @ M @ v
            worst = max(worst, (after - before) / before)
    assert worst < 1e-12
    assert solved >= 195


# Joints.


def pendulum():
    return carom.System(force=Push(jnp.array([0.0, -G])), joint=lambda t, q: jnp.sqrt(q @ q) - 1.0)


@pytest.mark.parametrize(
    "scheme",
    [carom.Moreau(), carom.Maury(), carom.MoreauJean(theta=0.75), carom.PaoliSchatzman()],
    ids=lambda s: type(s).__name__,
)
def test_a_pendulum_by_a_joint(scheme):
    angle = carom.Lagrangian(potential=lambda q: -G * jnp.cos(q[0]), gap=lambda t, q: q + 10.0)
    t = carom.solve(angle, carom.EventDriven(), [1.0], [0.0], t1=2.0, dt=0.5).q[-1, 0]
    exact, errors, drift = np.array([np.sin(t), -np.cos(t)]), [], []
    start = [np.sin(1.0), -np.cos(1.0)], [0.0, 0.0]
    for dt in (4e-3, 1e-3):
        sol = carom.solve(pendulum(), scheme, *start, t1=2.0, dt=dt)
        errors.append(np.max(np.abs(sol.q[-1] - exact)))
        drift.append(np.max(np.abs(np.linalg.norm(sol.q, axis=1) - 1.0)))
        assert sol.joint_impulse.shape == (len(sol), 1)
    assert first_order(errors)
    assert drift[1] < 1.1 * drift[0] / 16 + 1e-15  # second order: it is made good in each step


def test_a_joint_pulls_with_its_weight():
    sol = carom.solve(pendulum(), carom.Moreau(), [0.0, -1.0], [0.0, 0.0], t1=1.0, dt=1e-2)
    np.testing.assert_allclose(sol.joint_impulse[1:, 0], -G * 1e-2, rtol=1e-9)
    np.testing.assert_allclose(sol.q[-1], [0.0, -1.0], atol=1e-14)


@pytest.mark.slow
def test_redundant_joints_and_an_impact():
    """The same joint three times, and a wall: as if it were there once."""

    def swing(joint):
        return carom.System(
            force=Push(jnp.array([0.0, -G])),
            joint=joint,
            gap=lambda t, q: q[0] + 0.1,
            restitution=0.6,
        )

    once = swing(lambda t, q: jnp.sqrt(q @ q) - 1.0)
    thrice = swing(lambda t, q: jnp.stack([jnp.sqrt(q @ q) - 1.0, q @ q - 1.0, 1.0 - q @ q]))
    start = [np.sin(1.0), -np.cos(1.0)], [0.0, 0.0]
    for scheme in STEPPING_WITH_FRICTION:
        a = carom.solve(once, scheme, *start, t1=2.0, dt=1e-3)
        b = carom.solve(thrice, scheme, *start, t1=2.0, dt=1e-3)
        assert len(a.impacts) == len(b.impacts) >= 2
        np.testing.assert_allclose(a.q, b.q, atol=2e-5)  # q @ q - 1 bends otherwise, by O(dt^2)


# What is refused, and how.


@pytest.mark.parametrize("scheme", [carom.PaoliSchatzman(), carom.Penalty(lam=1e-4)])
def test_schemes_without_a_law_of_friction(scheme):
    with pytest.raises(carom.errors.FrictionError, match="Moreau, MoreauJean or Maury"):
        carom.solve(block(0.1, 0.3), scheme, [0.0, 0.0], [0.0, 0.0], t1=1.0, dt=0.1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"friction": 0.3}, "slip"),
        ({"friction": -0.3, "slip": along}, "-0.3"),
        ({"friction": "much", "slip": along}, "much"),
        ({"slip": along}, "without friction"),
        ({"friction": [[0.3]], "slip": along}, "shape"),
    ],
)
def test_input_that_makes_no_sense(options, words):
    with pytest.raises(carom.errors.FrictionError, match=words):
        carom.System(force=Push(jnp.zeros(2)), gap=floor, **options)


def test_slip_must_be_affine():
    system = carom.System(
        force=Push(jnp.array([0.0, -G])), gap=floor, slip=lambda t, q, v: abs(v[0]), friction=0.3
    )
    with pytest.raises(carom.errors.FrictionError, match="affine"):
        carom.solve(system, carom.Moreau(), [0.0, 0.0], [1.0, 0.0], t1=1.0, dt=0.1)


def test_slip_of_the_wrong_shape():
    system = carom.System(
        force=Push(jnp.array([0.0, -G])), gap=floor, slip=lambda t, q, v: jnp.zeros(3), friction=1
    )
    with pytest.raises(carom.errors.ShapeError, match="slip returns shape"):
        carom.solve(system, carom.Moreau(), [0.0, 0.0], [1.0, 0.0], t1=1.0, dt=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", STEPPING_WITH_FRICTION, ids=str)
def test_a_batch_with_one_contact_is_the_closed_form(scheme):
    """No matrix product and no write into an array in its loop, which cost it a factor of two;
    each member moves as it does alone.  (benchmarks/speed.py, friction: at most 3 times none)"""

    def thrown(speed):
        system = carom.System(
            force=lambda t, q, v: jnp.array([0.0, -9.81]),
            gap=lambda t, q: q[1:],
            friction=0.3,
            slip=lambda t, q, v: v[:1] - 0.1,
            restitution=0.4,
        )
        start = {"q0": jnp.array([0.0, 0.01]), "v0": jnp.stack([speed, 0.0])}
        sol = carom.solve(system, scheme, **start, t1=0.2, dt=1e-3, record=carom.Record(final=True))
        return sol.q[-1], sol.v[-1]

    speeds = np.linspace(-0.5, 1.5, 9)
    batch = jax.jit(jax.vmap(thrown)).lower(speeds).compile()
    inside = [line for line in batch.as_text().splitlines() if "while/body/while/body" in line]
    assert inside
    assert not [line for line in inside if " dot(" in line or " dynamic-update-slice(" in line]
    alone = [jax.jit(thrown)(speed) for speed in speeds]
    for together, one in zip(batch(speeds), zip(*alone, strict=True), strict=True):
        np.testing.assert_allclose(together, one, rtol=1e-12, atol=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", [carom.Moreau(), carom.Maury(), carom.EventDriven()], ids=repr)
def test_a_smooth_gap_may_say_that_nothing_slides(scheme):
    """A block in a shaken box: along its smooth stops the slip is 0, or that of the block."""

    def box(t):
        return 0.02 * jnp.sin(20.0 * t)

    def moved(along_stops):
        system = carom.System(
            force=lambda t, q, v: jnp.array([0.0, -G]),
            gap=lambda t, q: jnp.array([q[1], q[0] - box(t) + 0.015, 0.015 - q[0] + box(t)]),
            slip=lambda t, q, v: jnp.array(
                [v[0] - 0.4 * jnp.cos(20.0 * t), along_stops * v[1], along_stops * v[1]]
            ),
            friction=[0.2, 0.0, 0.0],
            restitution=[0.0, 0.6, 0.6],
        )
        return carom.solve(system, scheme, [0.0, 0.0], [0.0, 0.0], t1=0.5, dt=1e-3)

    still, sliding = moved(0.0), moved(1.0)
    assert len(still.impacts) >= 4
    np.testing.assert_allclose(still.q, sliding.q, atol=1e-9)
    np.testing.assert_array_equal(still.friction[:, 1:], 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("convex", [False, True])
def test_below_a_cone_without_width(convex):
    """mu = 0 and no tangential row: a gap that opens is not pulled."""
    H, b = jnp.array([[[1.0, 0.0], [0.0, 0.0]]] * 2), jnp.array([[1.0, 0.0], [-2.0, 0.0]])
    found = project_cones(jnp.zeros(2), H, b, jnp.zeros(2), convex=convex)
    np.testing.assert_allclose(found.multipliers, [[0.0, 0.0], [2.0, 0.0]], atol=1e-12)


@pytest.mark.slow
def test_what_is_called_solved_is_so_for_light_and_heavy_parts():
    """Masses 1e-6 to 1e6 make A r a small rest of large terms, to which its error must not be
    compared: a contact that is closed at half a metre a second was called solved."""
    rng, p, d = np.random.default_rng(4), 2, 4
    everywhere = jnp.ones(p, bool)

    @jax.jit
    def solve(M, v, H, b, mu):
        found = coulomb(metric_of(M), v, H, b, mu, everywhere)
        return found.point, found.multipliers, found.status

    solved = 0
    for _ in range(150):
        M, v, H = 10.0 ** rng.uniform(-6, 6, d), rng.normal(size=d), rng.normal(size=(p, 3, d))
        b, mu = np.zeros((p, 3)), rng.choice([0.0, 0.3, 1.0, 1e3], p)
        b[:, 0] = rng.choice([0.0, 0.5], p) * (H[:, 0] @ v)
        x, r, status = solve(M, v, H, b, mu)
        if status != carom.Status.ok:
            continue
        x, r = np.asarray(x), np.asarray(r)
        u = b + H @ x
        stiff = np.sum(H**2 / M, axis=(1, 2))
        rounding = np.max(np.sum(np.abs(H[:, 0]) @ (np.abs(r[:, :, None] * H).sum((0, 1)) / M)))
        allowed = 1e-6 * (np.abs(v).max() + np.abs(x).max()) + 1e-13 * rounding
        assert np.all(np.abs(np.minimum(u[:, 0], stiff * r[:, 0])) < allowed)
        solved += 1
    assert solved > 100


def test_one_contact_in_space_may_have_a_component_that_is_still():
    """Slip (2,) of one gap was taken for that of two."""
    system = carom.System(
        force=Push(jnp.array([0.0, 0.0, -G])),
        gap=lambda t, q: q[2],
        slip=lambda t, q, v: jnp.stack([v[0], 0.0 * v[1]]),
        friction=0.3,
    )
    sol = carom.solve(system, carom.Moreau(), [0.0] * 3, [2.0, 1.0, 0.0], t1=0.1, dt=0.01)
    assert np.allclose(sol.v[-1], [2.0 - 0.03 * G, 1.0, 0.0], atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("slip", [lambda t, q, v: q[0], lambda t, q, v: 0.4, lambda t, q, v: 0 * v])
def test_slip_must_depend_on_v(slip):
    system = carom.System(
        force=Push(jnp.array([0.0, -G])), gap=lambda t, q: q[1:], slip=slip, friction=0.3
    )
    with pytest.raises(carom.errors.FrictionError, match="slip of gap 0 does not depend on v"):
        carom.solve(system, carom.Moreau(), [1.5, 0.0], [1.0, 0.0], t1=0.1, dt=0.1)


@pytest.mark.parametrize(
    ("gap", "slip", "name"),
    [
        (lambda t, q: q[1], lambda t, q, v: v, "slip of gap 0, component 1,"),
        (lambda t, q: 1.0 - q[1], lambda t, q, v: v[1], "slip of gap 0"),
        (lambda t, q: jnp.hypot(*q) - 0.1, lambda t, q, v: q @ v / jnp.hypot(*q), "slip of gap 0"),
    ],
)
def test_slip_is_not_the_normal_velocity(gap, slip, name):
    system = carom.System(force=Push(jnp.zeros(2)), gap=gap, slip=slip, friction=0.3)
    said = name + " is the velocity at which the gap opens"
    with pytest.raises(carom.errors.FrictionError, match=said):
        carom.solve(system, carom.Moreau(), [0.0, 0.1], [2.0, -1.0], t1=0.1, dt=0.1)


@pytest.mark.slow
def test_a_slip_that_is_singular_at_the_start_is_none_that_lacks_v():
    """An arm that stands upright: its end slides as soon as it leans."""
    arm = carom.System(
        force=lambda t, q, v: jnp.sin(q),
        gap=lambda t, q: q[0] + 1.0,
        slip=lambda t, q, v: jnp.sin(q[0]) * v[0],
        friction=0.3,
    )
    assert carom.solve(arm, carom.Moreau(), [0.0], [1.0], t1=0.1, dt=0.1).ok
    smooth = carom.System(
        force=lambda t, q, v: -q,
        gap=lambda t, q: q,
        slip=lambda t, q, v: jnp.array([v[1], 0.0]),
        friction=[0.3, 0.0],
    )
    assert carom.solve(smooth, carom.Moreau(), [1.0, 1.0], [1.0, 0.0], t1=0.1, dt=0.1).ok


def test_members_whose_friction_is_no_number_say_so():
    """As a single call refuses them."""

    def moved(mu):
        block = carom.System(
            force=lambda t, q, v: jnp.array([1.0, -9.81]),
            gap=lambda t, q: q[1:],
            slip=lambda t, q, v: v[:1],
            friction=mu,
        )
        start = {"q0": jnp.zeros(2), "v0": jnp.zeros(2)}
        return carom.solve(block, carom.Moreau(), **start, t1=0.1, dt=0.01).status

    status = jax.vmap(moved)(jnp.array([0.1, -1.0, jnp.nan, jnp.inf]))
    assert np.array_equal(status == carom.Status.ok, [True, False, False, False])
