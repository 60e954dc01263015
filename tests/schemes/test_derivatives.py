"""Derivatives through impacts: closed forms, finite differences, and refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import carom
import random_derivatives
import tangents
from carom.derivatives import derivative_of
from carom.errors import DerivativeError
from random_families import FAMILIES

SCHEME = carom.EventDriven()


def differences(function, x, step=1e-5):
    """Central differences of fourth order, one column per entry of x (n,)."""

    def slope(direction):
        near, far = (
            np.asarray(function(x + h * direction)) - np.asarray(function(x - h * direction))
            for h in (step, 2 * step)
        )
        return (8 * near - far) / (12 * step)

    return np.stack([slope(direction) for direction in np.eye(len(x))], axis=-1)


# --- P16: y(T) = e (v T - y0), with everything differentiable in closed form ---------------------


def flight(x):
    """Height at T = 2, time and impulse of the impact, from y0 at -v; no force but for a spring."""
    y0, v, e, stiffness, rest = x
    system = carom.System(
        force=lambda t, q, v: stiffness * (rest - q),
        gap=lambda t, q: q,
        restitution=e,
        mass=jnp.array([2.0]),
    )
    sol = carom.solve(system, SCHEME, q0=jnp.stack([y0]), v0=jnp.stack([-v]), t1=2.0, dt=1.0)
    return jnp.stack([sol.q[-1, 0], jnp.max(sol.events[:, :, 0]), jnp.sum(sol.impulse)])


X16 = np.array([1.3, 1.2, 0.7, 0.0, 0.0])
J16 = np.array(
    [
        [-0.7, 0.7 * 2.0, 1.2 * 2.0 - 1.3],
        [1 / 1.2, -1.3 / 1.2**2, 0.0],  # the impact at y0/v
        [0.0, 2.0 * 1.7, 2.0 * 1.2],  # the impulse m (1 + e) v
    ]
)


@pytest.fixture(scope="module")
def flights():
    """A batch of gradients: values (n, 3) and Jacobians (n, 3, 5)."""
    batch = jnp.array(
        [
            X16,
            [1.3, 0.8, 0.7, 0.0, 0.0],
            [0.0, 1.2, 0.7, 0.0, 0.0],
            [1.0, 1.0, 0.7, 2.0, 1.0],
            [1.1, 1.0, 0.7, 2.0, 1.1],
        ]
    )
    jacobians, values = jax.jit(jax.vmap(jax.jacrev(lambda x: (flight(x),) * 2, has_aux=True)))(
        batch
    )
    return values, jacobians


def test_p16(flights):
    """The second impact is in another step; the third starts on the wall, where the impact is at
    y0/v for every y0 >= 0 and the derivatives are the same."""
    found = flights[1][:, :, :3]
    np.testing.assert_allclose(found[0], J16, rtol=0, atol=1e-8)
    np.testing.assert_allclose(found[1:3, 0], [[-0.7, 1.4, 0.3], [-0.7, 1.4, 2.4]], atol=1e-8)


def test_a_graze_has_no_derivative(flights):
    """On a spring of rest 1 and frequency 1, from there at speed 1, the motion just touches 0."""
    values, jacobians = flights
    assert np.all(np.isfinite(values[3]))
    assert np.all(np.isnan(jacobians[3]))
    np.testing.assert_allclose(jacobians[4, 0, :2], [np.cos(2.0), -np.sin(2.0)], atol=1e-9)


@pytest.mark.slow
def test_p16_second_derivatives():
    """d2 y / dv de = T, d2 y / dy0 de = -1, the others 0."""
    exact = np.array([[0.0, 0.0, -1.0], [0.0, 0.0, 2.0], [-1.0, 2.0, 0.0]])
    found = jax.jit(jax.hessian(lambda x: flight(jnp.append(x, jnp.zeros(2)))[0]))(X16[:3])
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-8)


# --- two degrees of freedom, M(q), a moving gap, three impacts -----------------------------------


def pendulum(x):
    """A double pendulum beside a wall that shakes: end state, impact times, impulses."""
    e, weight, shake, q1, q2, v1, v2 = x

    def mass(q):
        c = jnp.cos(q[0] - q[1])
        return jnp.array([[2.0, c], [c, 1.0]])

    def force(t, q, v):
        s = jnp.sin(q[0] - q[1])
        inertial = jnp.stack([-s * v[1] ** 2, s * v[0] ** 2])
        return inertial - weight * jnp.array([2.0, 1.0]) * jnp.sin(q) - 0.1 * v

    system = carom.System(
        force=force,
        gap=lambda t, q: 0.3 + shake * jnp.sin(5.0 * t) - jnp.sum(jnp.sin(q)),
        mass=mass,
        restitution=e,
    )
    q0, v0 = jnp.stack([q1, q2]), jnp.stack([v1, v2])
    sol = carom.solve(system, SCHEME, q0, v0, t1=4.6, dt=2.3)
    events = sol.events.reshape(-1, 5)
    found = jnp.argsort(events[:, 1] < 0.0, stable=True)[:3]
    count = jnp.sum(events[:, 1] >= 0.0, dtype=float)
    found = events[found]
    return jnp.concatenate([sol.q[-1], sol.v[-1], found[:, 0], found[:, 4], count[None]])


X2 = np.array([0.8, 9.81, 0.05, -0.4, 0.3, 1.0, -0.5])


def value_and_jacobian(function, derivative):
    """Both from one compilation, as functions of x."""
    both = jax.jit(derivative(lambda x: (function(x),) * 2, has_aux=True))
    return lambda x: both(x)[1], lambda x: both(x)[0]


def test_two_dof_through_three_impacts():
    """States, times and impulses, by jax.jacfwd and by differences of the motion."""
    value, jacobian = value_and_jacobian(pendulum, jax.jacfwd)
    assert int(value(X2)[-1]) == 3
    expected = differences(value, X2, 1e-4)
    scale = np.max(np.abs(expected), axis=1, keepdims=True)
    assert np.max(np.abs(jacobian(X2) - expected)[:-1] / scale[:-1]) < 1e-7


@pytest.mark.slow
def test_grad_of_two_dof_through_three_impacts():
    """jax.grad of the last position, against differences."""
    both = jax.jit(jax.value_and_grad(lambda x: pendulum(x)[0]))
    expected = differences(lambda x: both(x)[0][None], X2, 1e-4)[0]
    assert np.max(np.abs(both(X2)[1] - expected)) < 1e-7 * np.max(np.abs(expected))


# --- lasting contact -----------------------------------------------------------------------------


def disc(x):
    """Inside a disc, against a wind, to T = 4: state and impulse."""
    e, vn, wind, R = x
    system = carom.System(
        force=lambda t, q, v: jnp.stack([-wind, 0.3 * wind * q[0]]),
        gap=lambda t, q: R - jnp.sqrt(jnp.sum(q * q)),
        restitution=e,
    )
    sol = carom.solve(system, SCHEME, [1.0, 0.0], jnp.stack([-vn, 1.0]), t1=4.0, dt=4.0)
    return jnp.concatenate([sol.q[-1], sol.v[-1], sol.impulse.sum(axis=0), sol.gap[-1]])


@pytest.fixture(scope="module")
def disc_and_jacobian():
    return value_and_jacobian(disc, jax.jacrev)


@pytest.mark.slow  # to compile
def test_sliding(disc_and_jacobian):
    """e = 0: an impact, then lasting contact; e itself stays, and R is not that of the start."""
    value, jacobian = disc_and_jacobian
    x = np.array([0.0, 1.0, 0.2, 1.1])
    assert abs(float(value(x)[-1])) < 1e-12  # in contact to the end
    expected = differences(lambda y: value(np.append(0.0, y)), x[1:], 1e-4)
    np.testing.assert_allclose(jacobian(x)[:, 1:], expected, rtol=0, atol=1e-8)


@pytest.mark.slow
def test_through_an_accumulation(disc_and_jacobian):
    """P5 behind its accumulation: turned by the sum of 2 atan(vn_k/vt), then a slide at vt/R."""

    def exact(x):
        e, vn = x
        vn = vn * e ** jnp.arange(100.0)
        ended = jnp.sum(2.0 * vn / (1.0 + vn**2))
        angle = jnp.sum(2.0 * jnp.arctan(vn)) + 4.0 - ended
        return jnp.stack([jnp.cos(angle), jnp.sin(angle)])

    x = np.array([0.5, 1.0, 0.0, 1.0])
    value, jacobian = disc_and_jacobian
    np.testing.assert_allclose(value(x)[:2], exact(x[:2]), atol=1e-9)
    np.testing.assert_allclose(jacobian(x)[:2, :2], jax.jacfwd(exact)(x[:2]), atol=1e-6)


# --- where there is none -------------------------------------------------------------------------


@pytest.mark.slow
def test_a_corner_has_no_derivative():
    """Two gaps struck at once: which one is first depends on the side one comes from."""

    def height(offset):
        system = carom.System(
            force=lambda t, q, v: jnp.zeros(2), gap=lambda t, q: q, restitution=0.5
        )
        q0 = jnp.stack([1.0 + offset, 1.0])
        return carom.solve(system, SCHEME, q0, [-1.0, -1.0], t1=2.0, dt=2.0).q[-1, 0]

    gradient = jax.jit(jax.grad(height))
    assert np.isnan(gradient(0.0))
    np.testing.assert_allclose(gradient(0.1), -0.5, atol=1e-9)


@pytest.mark.parametrize(
    "scheme",
    [carom.Moreau(), carom.Maury(), carom.PaoliSchatzman(), carom.Penalty(lam=1e-4)],
    ids=lambda s: type(s).__name__,
)
def test_fixed_steps_refuse(scheme):
    """The step of the impact does not move: automatic differentiation would not give -e."""

    def height(y0):
        system = carom.System(force=lambda t, q, v: 0.0 * q, gap=lambda t, q: q, restitution=0.5)
        return carom.solve(system, scheme, jnp.stack([y0]), [-1.0], t1=2.0, dt=0.1).q[-1, 0]

    with pytest.raises(DerivativeError, match="EventDriven"):
        jax.grad(height)(1.0)
    with pytest.raises(DerivativeError, match=type(scheme).__name__):
        jax.jacfwd(jax.jit(height))(1.0)
    with pytest.raises(DerivativeError):
        jax.vmap(jax.grad(height))(jnp.array([1.0, 1.1]))
    # a batch is not a derivative, and neither is a constant of one
    assert np.isfinite(jax.jit(jax.vmap(height))(jnp.array([1.0, 1.1]))).all()


@pytest.mark.slow
def test_no_gap_no_refusal():
    """Without gaps the derivative of Moreau's steps is theirs: dq/dv0 = T."""

    def place(v0):
        system = carom.System(force=lambda t, q, v: 0.0 * q)
        return carom.solve(system, carom.Moreau(), [0.0], jnp.stack([v0]), t1=2.0, dt=0.1).q[-1, 0]

    np.testing.assert_allclose(jax.grad(place)(1.0), 2.0, rtol=1e-12)


@pytest.mark.slow  # to compile
@pytest.mark.parametrize(("q0", "v0", "t1"), [(0.0, 1.0, 0.7), (0.0, 0.9137, 0.7), (0.5, 1.0, 0.3)])
@pytest.mark.parametrize("stiff", [False, True])
def test_through_a_kink_of_the_force(q0, v0, t1, stiff):
    """A stop at 1/2, reached from afar, at a record to the last digit, or begun with."""

    def end(x):
        system = carom.System(force=lambda t, q, v: -jnp.where(q > 0.5, 100.0 * (q - 0.5), 0.0))
        scheme = carom.EventDriven(stiff=stiff)
        sol = carom.solve(system, scheme, x[:1], x[1:], t1=t1, dt=0.1)
        return jnp.append(sol.q[-1], sol.v[-1])

    def exact(x):
        angle = 10.0 * (t1 - (0.5 - x[0]) / x[1])
        return jnp.stack([0.5 + x[1] / 10.0 * jnp.sin(angle), x[1] * jnp.cos(angle)])

    found, expected = (jax.jacfwd(f)(jnp.array([q0, v0])) for f in (end, exact))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-7 * np.max(np.abs(expected)))


@pytest.mark.slow  # to compile
@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.name)
def test_random_systems(family):
    """tests/random_derivatives.py: along a random direction of all parameters, jumps' times too."""
    found = random_derivatives.compared(family, 40, 3)
    assert found["faults"] == []
    assert found["compared"] >= 20
    assert found["NaN"] <= 2


def test_a_second_derivative_finds_the_first():
    def square(a):  # sin, of which the value is known without a derivative
        return derivative_of(jnp.sin(a), jax.lax.stop_gradient(jnp.sin(a))) ** 2

    assert float(jax.grad(jax.grad(square))(0.3)) == pytest.approx(2.0 * np.cos(0.6), rel=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("t1", [12.0, 60.0])
def test_tables_against_tangents_in_closed_form(t1):
    """tests/tangents.py: equal, or off by no more than a start within the tolerance is."""
    found = tangents.compared(60, 0, t1)
    assert found["faults"] == []
    assert found["NaN"] == 0
    assert found["equal"] >= (60 if t1 == 12.0 else 50)
