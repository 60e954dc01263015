"""The pages of Systems: what is in them, and in a browser."""

import base64
import json
import re

import numpy as np
import pytest

import carom
from browsing import check_help_and_picture, needs_chromium, opened
from carom import looks
from carom.app import command as cli
from carom.app import runfile
from carom.errors import CaromError, RecordError, ShapeError
from carom.pictures.systems import system_page

BALL = 'model = "bouncing_ball"\ndt = 0.01\nt1 = 1.0\nout = "ball.nc"\n'


@pytest.fixture(scope="module")
def ball():
    p = carom.models.bouncing_ball()
    return carom.solve(p.system, carom.Moreau(), p.q0, p.v0, t1=1.0, dt=0.01), p


def data_of(html):
    return json.loads(re.search(r"const D = (\{.*\});\n", html)[1].replace("<\\/", "</"))


def test_a_page_holds_the_motion_and_the_mechanism(ball):
    sol, p = ball
    found = data_of(sol.view(p.looks).html)
    np.testing.assert_allclose(found["t"], sol.t, rtol=1e-8)
    assert found["impacts"] == len(sol.impacts)
    disc = next(s for s in found["frames"][0] if s[0] == "disc")
    assert disc[2] - disc[3] == pytest.approx(1.0)  # its lowest point is q
    assert data_of(sol.view().html)["frames"] == []


def test_in_a_notebook_it_is_a_frame_of_its_own(ball, tmp_path):
    page = ball[0].view()
    shown = page._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert "<script" not in shown
    page.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == page.html
    with pytest.raises(RecordError, match="cannot write"):
        page.save(tmp_path / "no" / "page.html")


def test_thinned_records_keep_impacts_and_impulses(ball):
    p = ball[1]
    sol = carom.solve(p.system, carom.Moreau(), p.q0, p.v0, t1=1.0, dt=1e-4)
    found = data_of(system_page(sol))
    assert len(found["t"]) < len(sol.t)
    times = np.array(found["t"])
    hits = times[np.array(found["jumps"]) + 1]
    assert np.max(np.min(np.abs(hits[:, None] - sol.impacts.time), axis=1)) < 1e-6
    pushed = np.frombuffer(base64.b64decode(found["impulse"]), "<f4")
    assert pushed.sum() == pytest.approx(float(np.sum(sol.impulse)), rel=1e-5)


def test_the_page_tells_impacts_from_lasting_contact():
    """A ball that comes to rest: its weight as a force, thinned or not, and no stem of rest."""
    p = carom.models.bouncing_ball(e=0.0)
    for dt in (1e-3, 1e-4):  # 1,000 records, and more than a page has
        sol = carom.solve(p.system, carom.Moreau(), [0.1], [0.0], t1=1.0, dt=dt)
        found = data_of(system_page(sol))
        blow, force = (
            np.frombuffer(base64.b64decode(found[n]), "<f4") for n in ("impulse", "force")
        )
        assert np.count_nonzero(blow) <= 2
        assert blow.sum() == pytest.approx(float(sol.impacts.impulse.sum()), rel=1e-6)
        assert np.allclose(force[np.array(found["t"]) > 0.2], 9.81, rtol=1e-5)
        assert found["friction"] is None


@pytest.mark.parametrize("name", list(carom.models.catalogue()))
def test_looks_of_models_are_shapes(name):
    made = getattr(carom.models, name)()
    if getattr(made, "looks", None) is None:
        assert name in (
            "lift_off",
            "nonunique",
            "cantilever",
            "elastic_bar",
            "granular_gas",
            "settling_spheres",
        )
        return
    t = np.linspace(made.t0, made.t1, 5)
    for shapes in looks.frames(made.looks, t, made.exact(t)[0]):
        assert shapes
        assert all(np.all(np.isfinite(shape[1:])) for shape in shapes)


def test_looks_that_cannot_be_drawn_are_said(ball):
    for wrong, said in (
        (lambda t, q: [("circle", 0, 0, 1)], "it must return a list of carom.looks.Disc"),
        (lambda q: [], "looks\\(t, q\\) raised TypeError"),
        (lambda t, q: [looks.Disc(q[3], 0.0)], "raised IndexError"),
    ):
        with pytest.raises(ShapeError, match=said):
            ball[0].view(wrong)


def test_a_run_file_says_how_it_looks(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(
        "import carom\nfrom carom.looks import Disc\n"
        "problem = carom.System(force=lambda t, q, v: -q, gap=lambda t, q: q)\n"
        "q0, v0, t1, dt = [1.0], [0.0], 1.0, 0.1\n"
        "def looks(t, q):\n    return [Disc(0, q[0], 2.0)]\n"
    )
    assert runfile.read(path).problem.looks(0.0, [3.0]) == [looks.Disc(0, 3.0, 2.0)]


def test_other_files_are_told_what_to_do(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    from pathlib import Path

    for name, said in (("a.toml", "carom run a.toml"), ("a.py", "carom lab a.py")):
        (tmp_path / name).write_text("")
        with pytest.raises(CaromError, match=said):
            cli._page(Path(name), 200)
    (tmp_path / "a.txt").write_text("x")
    for name in ("a.txt", "none.nc"):
        with pytest.raises(RecordError):
            cli._page(Path(name), 200)


@needs_chromium
def test_the_view_of_a_system_in_a_browser(tmp_path, monkeypatch):
    from pathlib import Path

    monkeypatch.chdir(tmp_path)
    (tmp_path / "ball.toml").write_text(BALL)
    sol = runfile.read(Path("ball.toml")).solve()
    page_file = tmp_path / "ball.html"
    page_file.write_text(cli._page(Path("ball.nc"), 200), encoding="utf-8")
    with opened(page_file, ["--no-sandbox"], viewport={"width": 1000, "height": 700}) as page:
        assert f"101 records, {len(sol.impacts)} impacts" in page.inner_text("#what")
        assert page.locator("#mechanismbox").is_visible()
        page.click("#play")
        page.wait_for_timeout(600)
        page.click("#play")
        now = page.evaluate("S.t")
        assert 0.0 < now < 1.0
        drop = page.evaluate("D.frames[frame()].find(s => s[0] === 'disc')[2]")
        assert drop == pytest.approx(page.evaluate("position(S.t, 0)") + 0.05, abs=0.02)
        box = page.locator("#cq").bounding_box()
        page.mouse.click(box["x"] + 62 + 0.5 * (box["width"] - 72), box["y"] + 40)
        assert page.evaluate("S.t") == pytest.approx(0.5, abs=0.01)
        page.keyboard.press("End")
        assert page.evaluate("S.t") == pytest.approx(1.0)
        check_help_and_picture(page)
        page.set_viewport_size({"width": 420, "height": 800})
        page.wait_for_timeout(100)
        assert page.evaluate("document.documentElement.scrollWidth") <= 420
