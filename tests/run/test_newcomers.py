"""What is typed from the memory of other tools: a right answer, or an error with the remedy."""

import jax.numpy as jnp
import numpy as np
import pytest

import carom
from carom import study

pytestmark = pytest.mark.slow


def ball(**options):
    return carom.System(
        **{"force": lambda t, q, v: 0.0 * q - 9.81, "gap": lambda t, q: q} | options
    )


def run(system=None, scheme=None, q0=(1.0,), v0=(0.0,), **options):
    times = {"t1": 0.1, "dt": 0.01} | options
    return carom.solve(system or ball(), scheme or carom.Moreau(), q0, v0, **times)


@pytest.fixture(scope="module")
def sol():
    return run()


@pytest.fixture(scope="module")
def pile():
    floor = carom.Plane((0, 0, 0), (0, 0, 1))
    spheres = carom.Spheres([[0, 0, 1]], 1, walls=[floor], gravity=(0, 0, -10))
    return carom.solve(spheres, carom.Maury(), t1=0.05, dt=0.01)


def swept(build, parameters):
    options = {"scheme": carom.Moreau(), "dt": 0.01, "steps": 10}
    return study.sweep(build, parameters, q0=[1.0], v0=[0.0], **options)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: run(t_span=(0, 1)), "'t_span'; did you mean 't1'"),
        (lambda: run(t_eval=[0.0]), "did you mean 'record'"),
        (lambda: ball(mu=0.3), "did you mean 'friction'"),
        (lambda: ball(e=0.3), "did you mean 'restitution'"),
        (lambda: ball(coefficient_of_restitution=0.3), "did you mean 'restitution'"),
        (lambda: carom.Spheres([[0, 0, 1]], diameter=0.5), "did you mean 'radius'"),
        (lambda: carom.Moreau(implict=True), "Moreau has no argument.*did you mean 'implicit'"),
        (lambda: carom.EventDriven(tol=1e-8), "did you mean 'rtol'"),
        (lambda: carom.Moreau(0.5), "implicit=0.5; it must be True or False"),
        (lambda: carom.models.bouncing_ball(restitution=0.5), "Its arguments are e, q0"),
        (lambda: run(t1="1"), "t1 is '1'; it must be a number"),
        (lambda: run(dt=[0.1, 0.2]), "it must be a number"),
        (lambda: run(q0={"x": 1.0}), "q0 is .'x': 1.0.; it must be a list of numbers"),
        (lambda: run(q0=["1.0"]), "list of numbers"),
        (lambda: run(q0=[1 + 0j]), "list of numbers"),
        (lambda: run(q0=[[1.0], [1.0, 2.0]]), "list of numbers"),
        (lambda: run(ball(gap=lambda t, q: q > 0)), "how far the contact is open"),
        (lambda: run(ball(restitution=[0.8, 0.5])), "there is 1 gap: give one number"),
        (lambda: carom.certify(None), "certify is given NoneType"),
        (lambda: carom.certify(ball()), "certify is given System"),
        (
            lambda: carom.solve(carom.models.bouncing_ball(), carom.Moreau(), t1=1.0, dt=0.1),
            "give its system",
        ),
        (
            lambda: run(carom.Lagrangian(mass=[1.0], potential=lambda t, q: q[0])),
            r"potential: .* it is called as potential\(q\)",
        ),
        (
            lambda: run(carom.Lagrangian(potential=lambda q: q), q0=[1, 1], v0=[0, 0]),
            r"potential returns shape \(2,\)",
        ),
        (lambda: study.bifurcation(ball(), [1.0], period=1.0, q0=[1], v0=[0]), "build is System"),
        (lambda: swept(lambda w: ball(), [0.1, 0.2]), "parameters is .0.1, 0.2.: give names"),
        (lambda: swept(lambda w: ball(), {"f": [0.1]}), "'w' is an argument .* are f:"),
        (lambda: swept(lambda: ball(), {"f": [0.1]}), "parameter 'f' is no argument"),
    ],
)
def test_it_is_told_what_to_write(call, said):
    with pytest.raises(carom.CaromError, match=said):
        call()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda sol, pile: sol.plot("a.png"), r"pyplot.savefig\('a.png'\)"),
        (lambda sol, pile: pile.plot("a.png"), r"pyplot.savefig\('a.png'\)"),
        (lambda sol, pile: pile.plot(record=500), "record is 500; there are 6 records"),
        (lambda sol, pile: sol.save("a.csv"), "saved as netCDF, .nc, not .csv"),
    ],
)
def test_of_a_result_it_is_told_what_to_write(sol, pile, call, said):
    with pytest.raises(carom.CaromError, match=said):
        call(sol, pile)


@pytest.mark.parametrize(
    ("name", "said"), [("x", "use sol.q"), ("to_dataframe", "pandas"), ("impulses", "'impulse'")]
)
def test_a_name_of_elsewhere_is_told_with_ours(sol, name, said):
    with pytest.raises(AttributeError, match=said):
        getattr(sol, name)
    assert not hasattr(sol, "_repr_latex_")


def test_of_spheres_and_of_files(sol, pile, tmp_path):
    with pytest.raises(AttributeError, match=r"use sol\.x"):
        _ = pile.position
    record = carom.Record(tmp_path / "ball.nc")
    with pytest.raises(AttributeError, match=r"use sol\.q"):
        _ = run(record=record).x
    record = carom.Record(tmp_path / "pile.vtkhdf")
    again = carom.solve(pile.pile, carom.Maury(), t1=0.05, dt=0.01, record=record)
    with pytest.raises(AttributeError, match=r"use sol\.x"):
        _ = again.position


@pytest.mark.parametrize(
    ("name", "said"),
    [("moreau", "did you mean 'Moreau'"), ("simulate", "lists the names")],
)
def test_a_name_that_carom_has_not(name, said):
    with pytest.raises(AttributeError, match=said):
        getattr(carom, name)
    with pytest.raises(AttributeError, match="did you mean 'bouncing_ball'"):
        _ = carom.models.bouncing_bal


def test_what_is_meant_all_the_same():
    """Integers, lists, tuples, float32, one number for one coordinate."""
    usual = run().q
    for q0 in ([1], (1,), np.float32([1]), jnp.array([1])):
        np.testing.assert_array_equal(run(q0=q0, v0=[0]).q, usual)
    for force in (lambda t, q, v: [-9.81], lambda t, q, v: -9.81):
        np.testing.assert_array_equal(run(ball(force=force)).q, usual)
