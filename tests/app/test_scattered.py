"""A TOML file says of spheres what Python says: positions, sizes, speeds, walls that move."""

from pathlib import Path

import numpy as np
import pytest

import carom
from carom.app import runfile

HEAD = "dt = 0.01\nt1 = 0.1\n"


def pile(text):
    return runfile.from_text(Path("run.toml"), HEAD + text, {}).problem


def test_what_python_takes():
    found = pile("""spheres = "Spheres"
[parameters]
position = [[0.0, 0.5], [1.0, 0.4], [2.0, 0.5]]
radius = [0.5, 0.4, 0.45]
velocity = [[0.0, 1.0], [0.0, 0.0], [-1.0, 0.0]]
mass = [1.0, 2.0, 3.0]
spin = [0.0, 1.0, 0.0]
friction = 0.3
rolling = 0.02
restitution = 0.5
gravity = [0.0, -9.81]
[[walls]]
kind = "Plane"
point = [0.0, 0.0]
normal = [0.0, 1.0]
velocity = [0.2, 0.0]
""")
    wall = carom.Plane(np.zeros(2), np.array([0.0, 1.0]), velocity=np.array([0.2, 0.0]))
    same = carom.Spheres(
        [[0.0, 0.5], [1.0, 0.4], [2.0, 0.5]], [0.5, 0.4, 0.45],
        [[0.0, 1.0], [0.0, 0.0], [-1.0, 0.0]], [1.0, 2.0, 3.0], walls=[wall],
        gravity=[0.0, -9.81], restitution=0.5, friction=0.3, spin=[0.0, 1.0, 0.0],
    )  # fmt: skip
    for name in ("position", "radius", "velocity", "mass", "spin", "gravity"):
        np.testing.assert_array_equal(getattr(found, name), getattr(same, name))
    assert (found.friction, found.rolling, found.restitution) == (0.3, 0.02, 0.5)
    np.testing.assert_array_equal(found.walls.walls[0].velocity, wall.velocity)


SIZES = {  # and the mean and deviation of many
    "{uniform = [0.8, 1.2]}": (1.0, 0.4 / 12**0.5),
    "{normal = [1.0, 0.1], seed = 3}": (1.0, 0.1),
    "{lognormal = [1.0, 0.2]}": (1.0, 0.2),
    "{shares = [[1.0, 3], [2.0, 1]]}": (1.25, 0.1875**0.5),
}


@pytest.mark.parametrize("size", SIZES)
def test_sizes(size):
    text = f'spheres = "lattice"\n[parameters]\nshape = [20, 20, 10]\nradius = {size}\n'
    found = pile(text + "mass = {density = 2.0}\n")
    mean, deviation = SIZES[size]
    r = found.radius
    assert r.shape == (4000,)
    assert abs(r.mean() - mean) < 4 * deviation / 4000**0.5
    assert abs(r.std() - deviation) < 0.1 * deviation
    np.testing.assert_allclose(found.mass, 2.0 * 4.0 / 3.0 * np.pi * r**3)
    np.testing.assert_array_equal(pile(text).radius, r)  # the same again


def test_a_column_of_sizes():
    found = pile('spheres = "column"\n[parameters]\nN = 3\nradius = [0.5, 0.25, 1.0]\n')
    np.testing.assert_allclose(found.position[:, 2], [0.5, 1.25, 2.5])
    with pytest.raises(runfile.RunFileError, match=r"line 6: parameters.radius: has shape \(2,\)"):
        pile('spheres = "column"\n[parameters]\nN = 3\nradius = [0.5, 0.25]\n')


def test_thermal_velocities():
    text = 'spheres = "lattice"\n[parameters]\nshape = [30, 30]\nradius = 0.5\n'
    v = pile(text + "velocity = {thermal = 0.3, seed = 7}\n").velocity
    assert v.shape == (900, 2)
    np.testing.assert_allclose(v.mean(axis=0), 0.0, atol=1e-12)
    assert abs(v.std() - 0.3) < 0.02
    other = pile(text + "velocity = {thermal = 0.3, seed = 8}\n").velocity
    assert not np.allclose(v, other)


MOVES = """spheres = "column"
[parameters]
N = 1
[[walls]]
kind = "Box"
low = [-2.0, -2.0, -inf]
high = [2.0, 2.0, 9.0]
moves = {velocity = [0.1, 0.0, 0.0], amplitude = [0.0, 0.0, 0.5], frequency = 2.0, phase = 0.3}
"""


def test_walls_that_move():
    box = pile(MOVES).walls.walls[-1]
    t = 0.7
    shake = 0.5 * np.sin(4 * np.pi * t + 0.3)
    np.testing.assert_allclose(box.high(t), [2.0 + 0.07, 2.0, 9.0 + shake])
    np.testing.assert_array_equal(box.low(t)[2], -np.inf)


def test_a_floor_that_rises_lifts(tmp_path, monkeypatch):
    """Run, and read back by the run file that the result holds."""
    monkeypatch.chdir(tmp_path)
    text = (
        'spheres = "Spheres"\n[parameters]\nposition = [[0.0, 0.5]]\nradius = 0.5\n'
        '[[walls]]\nkind = "Plane"\npoint = [0.0, 0.0]\nnormal = [0.0, 1.0]\n'
        "moves = {velocity = [0.0, 2.0]}\n"
    )
    plan = runfile.from_text(Path("run.toml"), HEAD + text, {})
    sol = plan.solve()
    np.testing.assert_allclose(sol.x[-1, 0], [0.0, 0.7], atol=1e-6)
    again = runfile.from_description(plan.description, "run.vtkhdf").problem
    np.testing.assert_array_equal(again.walls.walls[0].point(0.1), [0.0, 0.2])


BAD = {
    "radius = {uniform = [1.2, 0.8]}": r"line 7: parameters.radius.uniform: is \[1.2, 0.8\]: radii",
    "radius = {unifrom = [1, 2]}": "line 7: parameters.radius.unifrom: .*did you mean 'uniform'",
    "radius = {uniform = 1}": "line 7: parameters.radius.uniform: is 1; it must be two numbers",
    "radius = {normal = [1, 2], uniform = [1, 2]}": "line 7: parameters.radius: needs one of",
    "radius = {normal = [1.0, 5.0]}": "line 7: parameters.radius.normal: .* must be positive",
    "radius = {uniform = [1, 2], seed = 0.5}": "line 7: parameters.radius.seed: is 0.5",
    "radius = 1.0\nvelocity = {thermal = 'x'}": "line 8: parameters.velocity.thermal: is 'x'",
    "radius = 1.0\nvelocity = [[1.0, 2.0]]": r"line 8: parameters.velocity: has shape \(1, 2\)",
    "radius = 1.0\nfriction = -1": "line 8: parameters.friction: .*-1",
    "radius = 1.0\ngravity = {a = 1}": "line 8: parameters.gravity: is a table",
    "radius = 1.0\n[[walls]]\nkind = 'Plane'\npoint = [0,0]\nnormal = [0,1]\n[[walls]]\n"
    "kind = 'Plane'\npoint = [0,0]\nnormal = [0,1]\nmoves = {speed = 1}": (
        r"line 16: walls\[1\].moves.speed: is not a key here.* The keys are velocity, amplitude"
    ),
    "radius = 1.0\n[[walls]]\nkind = 'Plane'\npoint = [0,0]\nnormal = [0,1]\n[[walls]]\n"
    "kind = 'Plane'\npoint = [0,0]\nnormal = 'up'": r"line 15: walls\[1\].normal: has 'up'",
    "radius = 1.0\n[[walls]]\nkind = 'Plane'\npoint = [0,0]\nnormal = [0,1]\nmoves = 3": (
        r"line 12: walls\[0\].moves: must be a table"
    ),
}


def test_how_many_is_needed():
    for N in ("N = 1e300", "N = 'x'", "N = -1", "N = [1]", ""):
        with pytest.raises(runfile.RunFileError, match=r"parameters.N: is .*how many spheres"):
            pile(f'spheres = "random"\n[parameters]\nradius = {{normal = [1, 0.1]}}\n{N}\n')


@pytest.mark.parametrize("text", BAD, ids=lambda text: text.splitlines()[-1])
def test_mistakes_are_named(text):
    with pytest.raises(runfile.RunFileError, match=f"run.toml, {BAD[text]}"):
        pile(f'spheres = "random"\n[parameters]\nN = 10\nfraction = 0.1\n{text}\n')


@pytest.mark.parametrize(
    ("moves", "why"),
    [
        ("amplitude = [0.0, 0.1]", "an amplitude and no frequency"),
        ("frequency = 3.0", "a frequency and no amplitude"),
        ("phase = 1.0", "moves nothing"),
    ],
)
def test_a_wall_that_would_not_move(moves, why):
    wall = '[[walls]]\nkind = "Plane"\npoint = [0.0, -1.0]\nnormal = [0.0, 1.0]\n'
    text = 'spheres = "lattice"\n[parameters]\nshape = [2, 2]\nradius = 0.5\n' + wall
    with pytest.raises(runfile.RunFileError, match=why):
        pile(text + f"moves = {{{moves}}}\n")


def test_a_speed_is_not_negative():
    text = 'spheres = "lattice"\n[parameters]\nshape = [3, 3]\nradius = 0.5\n'
    with pytest.raises(runfile.RunFileError, match="thermal: is -1"):
        pile(text + "velocity = {thermal = -1.0}\n")
    with pytest.raises(runfile.RunFileError, match=r"interval: is -0\.2"):
        pile(text + "[record]\ninterval = -0.2\n")
