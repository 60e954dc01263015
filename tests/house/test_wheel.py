"""The wheel alone, away from the clone: what a user who installed carom has."""

import json
import os
import re
import subprocess
import sys
import sysconfig
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """``carom`` of a wheel in an environment of its own, which borrows the packages beside it."""
    pytest.importorskip("hatchling", reason="needs hatchling, which builds the wheel")
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    build = [*pip, "wheel", ROOT, "--no-deps", "--no-build-isolation", "-q", "-w", folder]
    subprocess.run(build, check=True)
    (wheel,) = folder.glob("carom-*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "env"], check=True)
    python = folder / "env" / "bin" / "python"
    installed = [*pip, "--python", python, "install", "-q", "--no-deps", wheel]
    subprocess.run(installed, check=True)
    purelib = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    here = subprocess.run([python, "-c", purelib], check=True, capture_output=True, text=True)
    # A line of a .pth is a place to look in; the .pth files there, such as a clone's, do not count.
    pth = Path(here.stdout.strip()) / "borrowed.pth"
    pth.write_text(sysconfig.get_paths()["purelib"] + "\n")
    return folder / "env" / "bin" / "carom"


@pytest.fixture
def started(bare, tmp_path):
    """Start the command in an empty folder."""
    environment = {k: x for k, x in os.environ.items() if not k.startswith("PYTHON")}
    running = []

    def start(*arguments):
        process = subprocess.Popen(
            [bare, *map(str, arguments)], cwd=tmp_path, env=environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        running.append(process)
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.communicate()


def done(process):
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 0, said
    return said


def served(process):
    found = re.search(r"http://127\.0\.0\.1:\d+/", process.stdout.readline())
    assert found
    return found[0]


def got(address, body=None):
    with urllib.request.urlopen(urllib.request.Request(address, body), timeout=120) as found:
        return found.read().decode()


def test_it_is_the_wheel(bare):
    python = bare.parent / "python"
    where = subprocess.run(
        [python, "-P", "-c", "import carom; print(carom.__file__)"],
        check=True, capture_output=True, text=True, cwd="/", env={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    assert Path(where.stdout.strip()).is_relative_to(bare.parents[1])


def test_from_new_to_view(started, tmp_path):
    done(started("new", "motion.py"))
    said = done(started("run", "motion.py", "--dt", "0.01"))
    assert "a solution" in said
    assert (tmp_path / "motion.nc").exists()
    page = got(served(started("view", "motion.nc", "--no-browser")))
    assert "motion.nc" in page
    assert "https://" not in page  # nothing from elsewhere


def test_from_new_to_view_with_spheres(started, tmp_path):
    """Three steps: the kernels are compiled beside the package."""
    done(started("new", "pile.toml"))
    done(started("run", "pile.toml", "--t1", "0.003", "--every", "1"))
    page = got(served(started("view", "pile.vtkhdf", "--no-browser")))
    assert "pile.vtkhdf" in page
    assert "https://" not in page


def test_models_and_examples(started, tmp_path):
    assert "g" in done(started("models", "bouncing_ball", "--picture", "ball.png"))
    assert (tmp_path / "ball.png").stat().st_size > 5_000
    done(started("new", "own.toml", "--like", "bouncing_ball.toml"))
    assert "bouncing_ball" in done(started("info", "own.toml"))


def test_the_laboratory(started):
    address = served(started("lab", "bouncing_ball", "--no-browser"))
    assert "https://" not in got(address)
    asked = {
        "page": "test", "serial": 1, "subject": "bouncing_ball", "parameters": {"e": 0.5},
        "schemes": ["Moreau"], "dt": 0.01, "t1": 1.0, "coordinate": 0,
    }  # fmt: skip
    lines = got(address + "motion", json.dumps(asked).encode()).splitlines()
    parts = [json.loads(line) for line in lines]
    assert [part["part"] for part in parts][:3] == ["motion", "section", "certificate"]
