"""Where one begins: new files, models, examples, and what a run file of one's own needs."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

import carom
from carom.app import runfile

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["motion.py", "pile.toml"])
def test_a_new_file_is_ready(carom_does, tmp_path, name):
    assert carom_does("new", name)[0] == 0
    plan = runfile.read(tmp_path / name)
    assert plan.dt > 0.0
    code, _, said = carom_does("new", name)
    assert (code, "is there already" in said) == (4, True)


def test_a_new_file_runs(carom_does):
    """A block that sticks to a belt up to mu m g / k, and slips on by V / sqrt(k/m)."""
    carom_does("new", "motion.py")
    assert carom_does("run", "motion.py", "--dt", "0.01")[0] == 0
    sol = carom.load("motion.nc")
    assert abs(np.max(sol.q[:, 0]) - (0.3 * 0.981 + 0.5 / 10**0.5)) < 5e-3
    axes = sol.plot(system=runfile.read("motion.py").system)
    names = ["position q", "velocity v", "gap [m]", "contact force [N]", "friction [N]"]
    assert [axis.get_ylabel() for axis in axes] == names  # it rests on the belt: no impact
    force, slipping = (axis.lines[0].get_ydata() for axis in axes[3:])
    assert np.allclose(force, 9.81)
    assert abs(np.max(slipping) - 0.3 * 9.81) < 1e-6
    cone = axes[4].collections[0].get_paths()[0].vertices[:, 1]
    assert np.allclose([cone.min(), cone.max()], [-0.3 * 9.81, 0.3 * 9.81])
    plt.close("all")


@pytest.mark.slow
def test_the_looks_of_a_new_file(carom_does, tmp_path):
    """As they stand there, with the marks of comments taken off."""
    carom_does("new", "motion.py")
    text = (tmp_path / "motion.py").read_text()
    own = text.replace("# from carom.looks", "from carom.looks").replace("# looks =", "looks =")
    (tmp_path / "motion.py").write_text(own)
    assert carom_does("run", "motion.py", "--dt", "0.01")[0] == 0
    assert carom_does("view", "motion.nc", "--export", "motion.html")[0] == 0
    page = (tmp_path / "motion.html").read_text()
    assert '["segment", -0.5, 0.0, 1.0, 0.0], ["disc", 0.0, 0.05, 0.05]' in page


def test_new_from_an_example(carom_does, tmp_path):
    assert carom_does("new", "own.toml", "--like", "bouncing_ball.toml")[0] == 0
    assert runfile.read(tmp_path / "own.toml").problem.name == "bouncing_ball"
    assert "There are bouncing_ball.py" in carom_does("new", "a.toml", "--like", "nope")[2]
    assert "must end in .py" in carom_does("new", "a.txt")[2]


def test_version(carom_does):
    assert carom_does("--version")[1] == f"carom {carom.__version__}\n"


def test_one_model(carom_does, tmp_path):
    code, said, _ = carom_does("models", "bouncing_ball", "--picture", "ball.png")
    assert "t1  None  End [s]. None: a quarter beyond the time of rest; for e = 1" in said
    assert "g   9.81  Gravity [m/s^2], > 0." in said
    assert (code, (tmp_path / "ball.png").exists()) == (0, True)
    code, _, said = carom_does("models", "nope")
    assert (code, "did you mean" in said) == (2, False)
    assert "'nope'. There are bouncing_ball, " in said
    assert "did you mean 'bouncing_ball'" in carom_does("models", "bouncing_bal")[2]


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.stem)
def test_every_example_is_a_run_file(path):
    plan = runfile.read(path)
    assert plan.t1 > plan.dt > 0.0


def test_a_system_needs_its_start(carom_does, tmp_path):
    (tmp_path / "own.py").write_text(
        "import carom\nproblem = carom.System(force=lambda t, q, v: -q)\nt1, dt = 1.0, 0.1\n"
    )
    assert "q0: is missing; problem is a carom.System" in carom_does("run", "own.py")[2]
    (tmp_path / "own.py").write_text(
        "import carom\nproblem = carom.System(force=lambda t, q, v: -q)\n"
        "q0 = v0 = [1.0]\ndt = 0.1\n"
    )
    assert "t1: is missing" in carom_does("run", "own.py")[2]
