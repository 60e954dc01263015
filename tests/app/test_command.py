"""The command: what it runs, what it says, and how it leaves."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import carom
from browsing import check_help_and_picture, needs_chromium, opened
from carom.app import runfile
from carom.errors import CaromError
from carom.pictures import loopback, view
from carom.run import compiled, stepped

ROOT = Path(__file__).parents[2]
BALL = """
model = "bouncing_ball"
scheme = "Moreau"
dt = 0.01
t1 = 1.0
out = "ball.nc"
[parameters]
e = 0.8
"""
PILE = """
spheres = "lattice"
dt = 4e-3
t1 = 0.1
out = "pile.vtkhdf"
[parameters]
shape = [3, 3, 4]
radius = 0.05
spacing = 0.11
jitter = 0.004
gravity = [0.0, 0.0, -9.81]
[[walls]]
kind = "Box"
low = [0.0, 0.0, 0.0]
high = [0.33, 0.33, inf]
[record]
every = 5
"""


# ---- a file, a run, a picture -------------------------------------------------------------------


def test_a_system(carom_does, tmp_path, monkeypatch):
    (tmp_path / "ball.toml").write_text(BALL)
    code, said, progress = carom_does("run", "ball.toml", "--dt", "0.005", "--scheme", "Maury")
    assert code == 0
    assert "Maury(): 200 steps of 0.005 to t = 1, ok" in said
    assert "a solution" in said
    assert re.search(r"written: ball.nc \(.* MB, 201 records\)", said)
    assert "step 200 of 200 (100 %)" in progress
    sol = carom.load("ball.nc")
    exact = carom.models.bouncing_ball(e=0.8, t1=1.0)
    assert np.max(np.abs(sol.q - exact.exact(sol.t)[0])) < 0.1
    assert "200 steps of 0.005" in carom_does("info", "ball.nc")[1]
    code, said, _ = carom_does("certify", "ball.nc")
    assert (code, "a solution" in said) == (0, True)
    assert carom_does("plot", "ball.nc", "--out", "ball.png")[0] == 0
    assert Path("ball.png").read_bytes().startswith(b"\x89PNG")
    for kind in ("phase", "energy"):
        assert carom_does("plot", "ball.nc", "--kind", kind)[0] == 0
        assert Path(f"ball-{kind}.png").read_bytes().startswith(b"\x89PNG")
    code, _, said = carom_does("plot", "ball.nc", "--kind", "fase")
    assert (code, "must be one of time, phase, energy" in said) == (2, True)
    monkeypatch.setattr("carom.pictures.animate._FRAMES", 3)
    assert carom_does("plot", "ball.nc", "--out", "ball.gif")[0] == 0
    assert frames_of("ball.gif") == 3
    assert "Maury() on bouncing_ball" not in carom_does("info", "ball.toml")[1]
    before = Path("ball.nc").read_bytes()
    code, said, _ = carom_does("run", "--resume", "ball.nc")  # finished: nothing is left to do
    assert (code, "a solution" in said) == (0, True)
    assert "the run ended already (ok): nothing is left to do, ball.nc stays as it is" in said
    assert "written" not in said
    assert carom.load("ball.nc").q.tobytes() == sol.q.tobytes()
    assert len(before) == Path("ball.nc").stat().st_size


def test_a_system_stopped_and_resumed(carom_does, tmp_path, monkeypatch):
    (tmp_path / "ball.toml").write_text(BALL)
    monkeypatch.setattr(compiled, "_PIECE_STEPS", 20)
    monkeypatch.setattr(compiled, "_PIECE_SECONDS", np.inf)
    assert carom_does("run", "ball.toml", "--out", "whole.nc")[0] == 0
    piece, left = compiled.Compiled.advance, [3]

    def interrupted(self):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return piece(self)

    monkeypatch.setattr(compiled.Compiled, "advance", interrupted)
    code, _, said = carom_does("run", "ball.toml")
    assert (code, "go on with: carom run --resume ball.nc" in said) == (130, True)
    said = carom_does("info", "ball.nc")[1]
    assert "not finished, of 100 steps; go on with: carom run --resume ball.nc" in said
    assert "60 steps of 0.01" in said
    assert carom_does("plot", "ball.nc")[0] == 0
    left[0] = 10**6
    (tmp_path / "ball.toml").unlink()  # the recording knows
    code, said, progress = carom_does("run", "--resume", "ball.nc")
    assert code == 0
    assert re.search(r"step 100 of 100 .*kinetic energy \S+, \d contacts?, \d impacts?", progress)
    one, other = carom.load("ball.nc"), carom.load("whole.nc")
    for name in ("t", "q", "v", "gap", "impulse", "velocity_before"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    np.testing.assert_array_equal(one.impacts, other.impacts)


def test_the_line_of_a_terminal(tmp_path, monkeypatch):
    """rich on a terminal of its own: one line that changes, with rate, time left and energy."""
    import io

    from carom.run.progress import Progress

    monkeypatch.setattr("carom.run.progress._LIVE", 0.0)
    monkeypatch.setattr(compiled, "_PIECE_STEPS", 25)
    monkeypatch.setattr(compiled, "_PIECE_SECONDS", np.inf)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("NO_COLOR", raising=False)
    ball, out = carom.models.bouncing_ball(t1=1.0), io.StringIO()
    with Progress(100, live=True, out=out).shown() as progress:
        carom.solve(
            ball.system, carom.Moreau(), ball.q0, ball.v0, t1=1.0, dt=0.01, progress=progress
        )
    shown = out.getvalue()
    assert shown.count("step 25 of 100 (25 %)") >= 1
    assert re.search(
        r"step (\d\d) of 100 \(\1 %\), \S+ steps/s, \d+ s left; kinetic energy \S+, \d contacts?, "
        r"\d impacts?",
        shown,
    )
    assert "\x1b[2K" in shown  # the line is written over
    assert shown.endswith("\x1b[2K")  # and gone at the end


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_the_command_in_a_terminal(tmp_path):
    import pty

    (tmp_path / "ball.toml").write_text(BALL.replace("0.01", "1e-5"))
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "carom.app.command", "run", "ball.toml"]
    child = subprocess.Popen(command, cwd=tmp_path, stdout=theirs, stderr=theirs, stdin=theirs)
    os.close(theirs)
    shown = b""
    while True:
        try:
            more = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        if not more:
            break
        shown += more
    os.close(ours)
    assert child.wait() == 0, shown
    assert re.search(rb"step \d+ of 100000 .*steps/s", shown)
    assert b"\x1b[?25l" in shown  # the cursor is hidden while the line changes
    assert b"written: ball.nc" in shown


@pytest.fixture(scope="module")
def pile(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pile")
    (folder / "pile.toml").write_text(PILE)
    runfile.read(folder / "pile.toml", out=str(folder / "pile.vtkhdf")).solve()
    return folder / "pile.vtkhdf"


def test_spheres(carom_does, tmp_path, pile):
    (tmp_path / "pile.toml").write_text(PILE)
    code, said, progress = carom_does("run", "pile.toml")
    assert code == 0
    assert "written: pile.vtkhdf" in said
    assert re.search(r"energy .* J, \d+ contacts, worst overlap .* radii", progress)
    np.testing.assert_array_equal(carom.load("pile.vtkhdf").x, carom.load(pile).x)
    said = carom_does("info", "pile.vtkhdf")[1]
    assert "36 spheres in 3 dimensions" in said
    assert "ended: ok" in said
    assert carom_does("certify", "pile.vtkhdf")[0] == 0
    assert carom_does("plot", "pile.vtkhdf", "--forces")[0] == 0
    assert carom_does("plot", "pile.vtkhdf", "--record", "99")[0] == 2
    assert carom_does("plot", "pile.vtkhdf", "--out", "pile.gif")[0] == 0
    assert frames_of("pile.gif") == 6
    code, said, _ = carom_does("run", "--resume", "pile.vtkhdf")  # finished: nothing is left to do
    assert (code, "a solution" in said or "not fully checked" in said) == (0, True)


def frames_of(path):
    from PIL import Image

    with Image.open(path) as picture:
        return picture.n_frames


def test_stopped_and_resumed(carom_does, tmp_path, pile, monkeypatch):
    (tmp_path / "pile.toml").write_text(PILE)
    step, left = stepped.Stepped.advance, [13]

    def interrupted(self):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return step(self)

    monkeypatch.setattr(stepped.Stepped, "advance", interrupted)
    code, _, said = carom_does("run", "pile.toml")
    assert (code, "go on with: carom run --resume pile.vtkhdf" in said) == (130, True)
    assert "not finished; go on with: carom run" in carom_does("info", "pile.vtkhdf")[1]
    left[0] = 10**6
    (tmp_path / "pile.toml").unlink()  # the recording knows
    assert carom_does("run", "--resume", "pile.vtkhdf")[0] == 0
    one, other = carom.load("pile.vtkhdf"), carom.load(pile)
    for name in ("x", "v", "impulse", "overlap"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_codes_of_certify(carom_does, tmp_path):
    """0 is for a solution alone."""
    (tmp_path / "ball.toml").write_text(BALL)
    for dt, every, wanted in (("0.3", "1", 5), ("0.005", "7", 6), ("0.005", "1", 0)):
        options = ("--scheme", "Maury", "--dt", dt, "--every", every, "--out", f"{wanted}.nc")
        code, said, _ = carom_does("run", "ball.toml", *options)
        assert code == (0 if wanted == 6 else wanted)
        assert ("exit code" in said) == (wanted > 0)
        code, said, _ = carom_does("certify", f"{wanted}.nc")
        assert code == wanted, said
    import h5py

    with h5py.File(tmp_path / "0.nc", "r+") as h5:
        h5["impulse"][...] = -h5["impulse"][...]
    assert carom_does("certify", "0.nc")[0] == 3


def test_a_python_file(carom_does, tmp_path):
    (tmp_path / "own.py").write_text(
        "import carom\n"
        "ball = carom.System(force=lambda t, q, v: -9.81, gap=lambda t, q: q, restitution=0.5)\n"
        "problem, q0, v0 = ball, [1.0], [0.0]\n"
        "dt, t1 = 0.01, 0.8\n"
    )
    assert carom_does("run", "own.py")[0] == 0
    assert carom_does("certify", "own.nc")[0] == 0
    (tmp_path / "bad.py").write_text("x = 1\nproblem = 1 / 0\n")
    code, _, said = carom_does("run", "bad.py")
    assert (code, "bad.py, line 2: ZeroDivisionError" in said) == (2, True)
    (tmp_path / "none.py").write_text("x = 1\n")
    assert "problem: is missing" in carom_does("run", "none.py")[2]


def test_every_model_can_be_run_from_a_file():
    for name in carom.models.catalogue():
        plan = runfile.from_text(Path("m.toml"), f'model = "{name}"\ndt = 0.01', {})
        assert plan.t1 > plan.t0
    for path in sorted((ROOT / "examples").glob("*.toml")):
        assert runfile.read(path).dt > 0.0


def test_a_run_that_fails_keeps_its_records(carom_does, tmp_path):
    (tmp_path / "pile.toml").write_text(
        PILE.replace("radius = 0.05", "radius = 0.05\niterations = 1\ntolerance = 1e-14")
    )
    code, said, _ = carom_does("run", "pile.toml")
    assert (code, "did not reach its tolerance" in said) == (1, True)
    assert len(carom.load("pile.vtkhdf")) >= 1


# ---- mistakes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("dt =", "dtt ="), "ball.toml, line 4: dtt: is not a key here; did you mean 'dt'?"),
        (("bouncing_ball", "bouncing_bal"), "line 2: model: .* did you mean 'bouncing_ball'"),
        (("e = 0.8", "ee = 0.8"), r"line 8: parameters.ee: .* did you mean 'e'"),
        (("e = 0.8", "e = 'x'"), "parameters.e: is 'x'; it must be a number"),
        (("e = 0.8", "e = 1.8"), r"ball.toml.*: "),
        (('"bouncing_ball"', "bouncing_ball"), "line 2.*: `model = bouncing_ball`; .*in quotes"),
        (("Moreau", "Moro"), "line 3: scheme: there is no scheme 'Moro'; did you mean 'Moreau'"),
        (("Moreau", "Moreau(x=1)"), r"scheme: .*has no argument 'x'"),
        (("0.01", "-0.01"), "line 4: dt: is -0.01; it must be positive"),
        (("0.01", "nan"), "dt: must be a finite number"),
        (("dt = 0.01", ""), "dt: is missing: add dt = ... .s., or give --dt"),
        (("t1 = 1.0", "t1 = -1.0"), "t1: is -1; it must be after t0 = 0"),
        (("ball.nc", "ball.vtkhdf"), "out: is 'ball.vtkhdf'; it must end in .nc"),
        (("model", "spheres"), "spheres: is 'bouncing_ball'. There are .*lattice"),
        (("[parameters]", "[parameters"), r"not valid TOML: .*line 7"),
    ],
)
def test_mistakes_are_named(carom_does, tmp_path, change, message):
    (tmp_path / "ball.toml").write_text(BALL.replace(*change))
    code, _, said = carom_does("run", "ball.toml")
    assert code == 2
    assert re.search(message, said), said
    assert len(said.splitlines()) == 1


def test_files_that_are_not_there(carom_does, tmp_path):
    assert carom_does("run", "none.toml")[::2] == (
        2,
        "carom: none.toml: cannot be read: No such file or directory\n",
    )
    for command in ("info", "certify", "plot", "view"):
        assert carom_does(command, "none.vtkhdf")[0] == 4
        (tmp_path / "junk.vtkhdf").write_bytes(b"junk")
        assert carom_does(command, "junk.vtkhdf")[0] == 4
    for command in ("info", "certify", "plot"):
        (tmp_path / "junk.nc").write_bytes(b"junk")
        assert carom_does(command, "junk.nc")[0] == 4
    (tmp_path / "ball.toml").write_text(BALL)
    assert carom_does("run", "ball.toml", "--out", "no/ball.nc")[0] == 4
    assert carom_does("run")[0] == 2


KEYS = ["model", "spheres", "scheme", "dt", "t1", "out", "parameters", "walls", "record", "dtt"]
NAMES = ["e", "shape", "radius", "spacing", "count", "N", "kind", "low", "every", "interval", "g"]
WORDS = ["bouncing_ball", "lattice", "column", "stack", "Maury", "Plane", "Box", "a.nc", "", "é\n"]
VALUES = st.one_of(
    st.sampled_from([0, 1, 3, -1, 0.5, 1e-3, 1e308, -1e-320, 10**30, float("inf"), float("nan")]),
    st.booleans(),
    st.sampled_from(WORDS),
    st.lists(st.sampled_from([0, 1, 2, 0.5, -1, "x"]), max_size=4),
)
TABLES = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=5)
FILES = st.fixed_dictionaries(
    {},
    optional={
        key: st.one_of(VALUES, TABLES, st.lists(TABLES, min_size=1, max_size=2)) for key in KEYS
    }
    | {"model": st.sampled_from([*carom.models.catalogue(), "x"]), "dt": st.just(0.01)},
)


def toml(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k} = {toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value, ensure_ascii=True) if isinstance(value, str) else repr(value)


def refused_well(text):
    """Read a file; what is wrong is said with its name."""
    said = "fuzz.toml: fine"
    try:
        runfile.from_text(Path("fuzz.toml"), text, {})
    except CaromError as problem:
        said = str(problem)
    assert said.startswith("fuzz.toml")
    assert ": " in said


FUZZ = settings(deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


@settings(FUZZ, max_examples=300)
@given(FILES)
def test_fuzzed_tables(found):
    refused_well("\n".join(f"{key} = {toml(value)}" for key, value in found.items()))


@settings(FUZZ, max_examples=300)
@given(st.data())
def test_fuzzed_text(data):
    """A good file with a piece cut out, doubled, or replaced by anything."""
    text = data.draw(st.sampled_from([BALL, PILE]))
    a, b = sorted(data.draw(st.tuples(*[st.integers(0, len(text))] * 2)))
    b = min(b, a + 12)
    refused_well(text[:a] + data.draw(st.text(max_size=6)) + text[b:])


@settings(FUZZ, max_examples=100)
@given(st.text(max_size=40))
def test_fuzzed_schemes(text):
    refused_well(BALL.replace('"Moreau"', json.dumps(text)))


# ---- the view -----------------------------------------------------------------------------------


def test_served_to_this_machine_alone(pile):
    said, html = [], view.page_of(carom.load(pile))
    threading.Thread(
        target=loopback.serve_page, args=(html, 0, False, said.append), daemon=True
    ).start()
    while not said:
        time.sleep(0.01)
    address = re.search(r"http://127\.0\.0\.1:\d+/", said[0])[0]
    with urllib.request.urlopen(address) as answer:
        assert "36" in answer.read().decode()


@needs_chromium
def test_the_view_in_a_browser(carom_does, pile, tmp_path):
    assert carom_does("view", pile, "--export", "pile.html")[0] == 0
    window = {"viewport": {"width": 800, "height": 600}}
    for colour in ("light", "dark"):  # as the system is
        with opened(tmp_path / "pile.html", **window, color_scheme=colour) as page:
            assert page.evaluate("document.documentElement.dataset.theme === 'light'") == (
                colour == "light"
            )
    with opened(tmp_path / "pile.html", **window, color_scheme="dark") as page:
        until(page, "S.frames > 0")
        sol = carom.load(pile)
        assert page.evaluate("S.drawn") == 36
        assert "36 spheres, 6 records" in page.inner_text("#what")
        assert page.evaluate("gl.getError()") == 0
        page.click("#play")
        until(page, "S.k >= 1")
        page.click("#play")
        page.fill("#scrub", "5")
        until(page, "S.k === 5")
        assert f"t = {sol.t[5]:.5f} s" in page.inner_text("#time")
        shown = page.evaluate("Array.from(F.x.subarray(3 * 36 * 5, 3 * 36 * 6))")
        np.testing.assert_allclose(np.reshape(shown, (36, 3)), sol.x[5], rtol=1e-6)
        before = seen(page)
        assert before > 2000  # pixels of spheres
        page.select_option("#colour", "force")
        page.fill("#follow", "7")
        page.dispatch_event("#follow", "change")
        until(page, "S.follow === 7")
        page.fill("#follow", "-1")
        page.dispatch_event("#follow", "change")
        page.select_option("#axis", "2")
        page.fill("#cut", "300")
        page.wait_for_timeout(300)
        assert seen(page) < 0.9 * before  # a part is cut off
        page.mouse.move(400, 300)
        page.mouse.down()
        page.mouse.move(500, 320)
        page.mouse.up()
        until(page, "S.turn !== 0.6")
        page.keyboard.press("r")
        assert page.evaluate("[S.turn, S.home]") == [0.6, True]
        page.select_option("#axis", "-1")
        page.keyboard.press("f")
        table = sol.contacts[5]
        pushes = np.reshape(page.evaluate("Array.from(pushes(5))"), (-1, 5))
        strong = np.argsort(-table.force)
        np.testing.assert_allclose(pushes[:, 1], table.force[strong], rtol=1e-6)
        np.testing.assert_allclose(pushes[:, 2:], table.branch[strong], rtol=1e-5, atol=1e-9)
        page.keyboard.press("w")
        until(page, "!$('walls').checked")
        page.keyboard.press("w")
        until(page, "$('walls').checked")
        walls = "$('walls').checked"  # both at once: a page that is slow draws fewer pixels
        without, shown = page.evaluate(
            f"() => {{ const n = {SEEN}; {walls} = false; const a = n(); {walls} = true;"
            "return [a, n()] }"
        )
        assert shown > without + 50  # pixels of walls
        assert page.evaluate("gl.getError()") == 0
        bar = page.evaluate("S.bar * canvas.clientHeight / 2 / Math.tan(0.35) / S.far")
        assert 30 < bar < 131  # pixels of the scale bar
        check_help_and_picture(page)
        page.click("#light")
        assert page.evaluate("ground()[0]") > 0.9


def until(page, condition):
    """Wait; the page's own policy forbids playwright's way of doing it."""
    for _ in range(200):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"{condition} did not come true")


def seen(page):
    """Pixels that are not background."""
    return page.evaluate(SEEN)


SEEN = """() => { draw(); const w = canvas.width, h = canvas.height, p = new Uint8Array(4 * w * h);
        gl.readPixels(0, 0, w, h, gl.RGBA, gl.UNSIGNED_BYTE, p);
        let n = 0; for (let i = 0; i < p.length; i += 4) n += p[i + 1] > 40 || p[i] > 40;
        return n }"""


def test_a_killed_command_is_gone_on_with(tmp_path):
    """The installed command, SIGINT while it runs, and --resume."""
    text = PILE.replace("[3, 3, 4]", "[6, 6, 10]").replace("0.33, 0.33", "0.66, 0.66")
    (tmp_path / "pile.toml").write_text(text.replace("t1 = 0.1", "t1 = 40.0"))
    command = [sys.executable, "-m", "carom.app.command", "run", "pile.toml"]
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell has what it starts with &
    child = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)  # ignore it
    signal.signal(signal.SIGINT, before)
    while not (tmp_path / "pile.vtkhdf").exists() and child.poll() is None:
        time.sleep(0.05)
    time.sleep(1.0)
    child.send_signal(signal.SIGINT)
    said = child.communicate(timeout=60)[1]
    assert child.returncode == 130, said
    assert "carom run --resume pile.vtkhdf" in said
    assert "Traceback" not in said


# ---- notebooks ----------------------------------------------------------------------------------


def test_notebooks_show_tables(pile):
    ball = carom.models.bouncing_ball(t1=0.5)
    sol = carom.solve(ball.system, carom.Maury(), ball.q0, ball.v0, t1=0.5, dt=0.01)
    for shown in (sol, carom.load(pile), carom.certify(sol)):
        html = shown._repr_html_()
        assert html.count("<tr>") == html.count("</tr>") > 3
        assert ">=" not in html  # escaped
    assert "<td>smallest gap</td>" in sol._repr_html_()
    assert "<td>contacts at the end</td>" in carom.load(pile)._repr_html_()


# ---- what does not go ---------------------------------------------------------------------------


def test_what_does_not_go_together(carom_does, tmp_path):
    (tmp_path / "ball.toml").write_text(BALL + "f = 2\n")
    assert "is not a key here. The keys are" in carom_does("run", "ball.toml")[2]
    (tmp_path / "ball.toml").write_text(BALL)
    carom_does("run", "ball.toml")
    assert "--forces: ball.nc holds a system" in carom_does("plot", "ball.nc", "--forces")[2]


def test_a_port_that_is_taken(carom_does, pile):
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, _, said = carom_does("view", pile, "--port", port, "--no-browser")
    assert (code, f"port {port} cannot be had" in said) == (4, True)
