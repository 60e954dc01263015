"""What a newcomer writes: misspelt names, Python where JAX traces, a run that meets nothing."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import carom
from carom import errors

OPEN = {"force": lambda t, q, v: -q, "gap": lambda t, q: q + 2.0}


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: carom.System(**OPEN, restitutoin=0.5),
            "System has .*mean 'restitution'",
        ),
        (lambda: carom.Spheres([[0.0, 0.0]], 1.0, graivty=(0, -1)), "did you mean 'gravity'"),
        (lambda: carom.spheres.column(2, frictoin=0.5), "Spheres has no .*did you mean 'friction'"),
        (lambda: carom.Record(evry=2), "did you mean 'every'"),
        (lambda: carom.Record("a.nc", force=True), "did you mean 'overwrite'"),
        (lambda: carom.Lagrangian(potental=abs), "Lagrangian has .*did you mean 'potential'"),
        (
            lambda: carom.solve(
                carom.System(**OPEN), carom.Moreau(), [1.0], [0.0], t1=1.0, dtt=0.1
            ),
            "solve has no argument 'dtt'; did you mean 'dt'",
        ),
    ],
)
def test_a_misspelt_argument_is_told_with_the_right_one(call, said):
    with pytest.raises(errors.KindError, match=said):
        call()


def sines(t, q, v):
    return -math.sin(q[0]) * q


def branches(t, q):
    if q[0] > 0.0:
        return q + 2.0
    return q + 1.0


def writes(t, q, v):
    q[0] = 1.0
    return q


@pytest.mark.parametrize(
    ("functions", "said"),
    [
        ({"force": sines}, r"force, .*test_messages.py, line \d+, .*: .*jnp.sin for math.sin"),
        ({"force": lambda t, q, v: np.array([q[0]])}, "jnp.array for np.array"),
        ({"gap": branches}, r"gap, .*test_messages.py, line \d+, `if q.0. > 0.0:`.*jnp.where"),
        ({"force": writes}, "arrays are not written into"),
        ({"mass": lambda q: [math.exp(q[0])]}, "mass, .*jnp.exp for math.exp"),
        ({"joint": lambda t, q: q[0] + unknown}, "joint, .*NameError: name 'unknown'"),  # noqa: F821
        ({"gap": lambda q: q}, r"gap: TypeError: .*; it is called as gap\(t, q\)"),
        ({"slip": lambda t, q, v: float(v[0]), "friction": 0.1}, "slip, .*: no float"),
        ({"gap": lambda t, q: float(q)}, "gap, .*: no float"),
        ({"restitution": lambda w: 0.5 if w[0] > 1.0 else 0.2}, "restitution, .*jnp.where"),
    ],
)
def test_what_a_function_may_not_do_is_told_with_its_line(functions, said):
    system = carom.System(**(OPEN | functions))

    def solved(x):
        return carom.solve(system, carom.Moreau(), x, [1.0], t1=0.1, dt=0.01).q

    for way, x in ((lambda f: f, [0.0]), (jax.vmap, np.zeros((2, 1))), (jax.jit, np.zeros(1))):
        with pytest.raises(errors.KindError, match=said):
            way(solved)(x)


def test_a_joint_has_one_axis():
    system = carom.System(**(OPEN | {"joint": lambda t, q: jnp.outer(q, q)}))
    with pytest.raises(errors.ShapeError, match=r"joint returns shape \(1, 1\)"):
        carom.solve(system, carom.Moreau(), [0.0], [1.0], t1=0.1, dt=0.01)


@pytest.mark.parametrize(
    ("start", "said"),
    [(0.5, "no contact              nearest: gap 0 is 2.5 at t"), (-2.0, "closed at the start")],
)
def test_a_run_without_contact_says_so(start, said):
    pulled = carom.System(force=lambda t, q, v: 0.0 * q + 1.0, gap=lambda t, q: q + 2.0)
    sol = carom.solve(pulled, carom.Moreau(), [start], [0.0], t1=0.1, dt=0.05)
    assert said in str(sol)


BLOCK = {"force": lambda t, q, v: -9.81 * jnp.eye(2)[1], "gap": lambda t, q: q[1]}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"joint": lambda t, q: q[0] * jnp.nan}, "^joint is .*nan"),
        ({"joint": lambda t, q: jnp.where(t > 0.05, jnp.nan, q[0])}, "a joint.* t = 0.0"),
        ({"slip": lambda t, q, v: v[0] * jnp.nan, "friction": 0.3}, "^slip is nan"),
        (
            {"slip": lambda t, q, v: jnp.where(t > 0.05, jnp.nan, v[0]), "friction": 0.3},
            "slip.* t = 0.0",
        ),
    ],
)
def test_what_is_no_number_is_named(more, said):
    with pytest.raises(errors.NonFiniteError, match=said):
        carom.solve(
            carom.System(**BLOCK, **more), carom.Moreau(), [0.0, 0.0], [0.0, 0.0], t1=0.1, dt=0.01
        )


@pytest.mark.parametrize("friction", ["0.3", ["0.3"], True])
def test_friction_is_a_number(friction):
    with pytest.raises(errors.FrictionError, match="give one number, or one per gap"):
        carom.System(**BLOCK, slip=lambda t, q, v: v[0], friction=friction)


@pytest.mark.parametrize("theta", ["a", None, 0.2, [0.5, 0.6], math.nan])
def test_theta_is_a_number(theta):
    with pytest.raises(errors.KindError):
        carom.MoreauJean(theta=theta)
