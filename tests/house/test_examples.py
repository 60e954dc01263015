"""Examples and documents do what they say: each is run, and its results are looked at."""

import contextlib
import importlib.util
import io
import math
import re
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest

import carom

matplotlib.use("Agg")

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# --- examples ------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_import_has_no_side_effects(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    plt.close("all")  # of tests before it
    assert callable(load(path.stem).main)
    assert list(tmp_path.iterdir()) == []
    assert capsys.readouterr().out == ""
    assert plt.get_fignums() == []


def test_bouncing_ball(tmp_path, capsys):
    sol = load("bouncing_ball").main(tmp_path / "new")
    assert is_png(tmp_path / "new" / "bouncing_ball.png")
    assert str(sol) in capsys.readouterr().out
    exact = carom.models.bouncing_ball(e=0.8, t1=5.0)
    assert np.max(np.abs(sol.q - exact.exact(sol.t)[0])) < 0.02  # 20 dt; 9.5 dt was measured
    late = sol.t > exact.accumulation + 0.1
    assert late.sum() > 500
    assert np.max(np.abs(sol.q[late])) < 1e-2
    # From rest to rest, the floor gives back what the weight has taken.
    np.testing.assert_allclose(sol.impulse.sum(), 9.81 * 5.0, rtol=1e-3)


def test_double_pendulum_wall(tmp_path, capsys):
    example = load("double_pendulum_wall")
    moreau, maury = example.main(tmp_path)
    assert is_png(tmp_path / "double_pendulum_wall.png")
    printed = capsys.readouterr().out
    assert str(moreau) in printed
    assert str(maury) in printed
    assert np.max(np.abs(moreau.q - maury.q)) < 3e-3  # both of order 1, with dt = 1e-4
    assert moreau.gap.min() > -1e-3
    assert maury.gap.min() > -1e-6
    assert set(moreau.impacts.constraint) == {0, 1}
    np.testing.assert_array_equal(moreau.impacts.constraint, maury.impacts.constraint)
    np.testing.assert_allclose(moreau.impacts.time, maury.impacts.time, atol=2e-3)
    check_energy(example, moreau)
    check_energy(example, maury)


def check_energy(example, sol, e=0.6):
    """Loss at an impact = (1-e^2)/2 w^2 / (grad g . M^-1 grad g) = (1-e)/2 |w| impulse."""
    for impact in sol.impacts:
        before, after = (
            kinetic_energy(example, sol.q[k], sol.v[k]) for k in (impact.step - 1, impact.step)
        )
        loss = 0.5 * (1.0 - e) * abs(impact.velocity_before) * impact.impulse
        # In one step weight and inertia change the energy by O(dt) too.
        assert before - after == pytest.approx(loss, abs=5e-3)


def kinetic_energy(example, q, v):
    (m1, m2), (l1, l2) = example.MASSES, example.RODS
    u1 = l1 * v[0] * np.array([math.cos(q[0]), math.sin(q[0])])
    u2 = u1 + l2 * v[1] * np.array([math.cos(q[1]), math.sin(q[1])])
    return 0.5 * m1 * u1 @ u1 + 0.5 * m2 * u2 @ u2


def is_png(path):
    return path.stat().st_size > 5_000 and path.read_bytes().startswith(b"\x89PNG")


# --- documents -----------------------------------------------------------------------------------

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"[-+]?\d+(?:\.\d*)?(?:e[-+]?\d+)?")


@pytest.mark.parametrize(
    "path",
    [pytest.param(p, marks=pytest.mark.slow) if p.name == "study.md" else p for p in DOCUMENTS],
    ids=lambda path: path.name,
)
def test_document(path, tmp_path, monkeypatch):
    """Run the python blocks of a document in order; a text block after one is what it prints."""
    monkeypatch.chdir(tmp_path)
    text = path.read_text()
    if ".zarr" in text:
        pytest.importorskip("zarr", reason="needs zarr (pip install 'carom[sweep]')")
    blocks = [(m[1], m[2], text[: m.start()].count("\n") + 1) for m in FENCE.finditer(text)]
    names = {"__name__": "document"}
    following = [*blocks[1:], ("", "", 0)]
    for (kind, code, line), (next_kind, expected, _) in zip(blocks, following, strict=False):
        if kind == "python":
            where = f"{path.name}, block at line {line}"
            printed = output(compile(code, where, "exec"), names, may_raise=next_kind == "text")
            if next_kind == "text":
                assert same(printed, expected), f"{where}, prints:\n{printed}"
    plt.close("all")


def output(code, names, *, may_raise):
    """What a block prints; an exception ends it like the last line of a traceback."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            exec(code, names)
        except Exception as error:
            if not may_raise:
                raise
            kind = type(error)
            module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
            print(f"{module}{kind.__qualname__}: {error}")
    return printed.getvalue()


def same(printed, expected):
    """Equal but for line breaks and for digits that depend on the machine."""
    a, b = (" ".join(NUMBER.sub("#", text).split()) for text in (printed, expected))
    numbers = zip(NUMBER.findall(printed), NUMBER.findall(expected), strict=False)
    return a == b and all(
        math.isclose(float(x), float(y), rel_tol=0.1, abs_tol=0.01) for x, y in numbers
    )


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_pictures_exist_and_are_small(path):
    for picture in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", path.read_text()):
        assert is_png(path.parent / picture)
        assert (path.parent / picture).stat().st_size < 200_000
