"""The laboratory: what it computes, what it refuses, and the page in a browser."""

import base64
import json
import re
import threading
import time
import urllib.error
import urllib.request

import numpy as np
import pytest

import carom
from browsing import CHROMIUM
from carom.app import lab, runfile
from carom.app.subject import LabError, Model, OwnFile, lifted, systems

OWN = '''"""A block on a belt."""
import jax.numpy as jnp
import carom

belt = 0.5  # [m/s]
k = 10.0


def force(t, q, v):
    return jnp.array([-k * q[0], -9.81])


problem = carom.System(
    force=force, gap=lambda t, q: q[1], slip=lambda t, q, v: v[0] - belt, friction=0.3
)
q0 = [0.0, 0.0]
v0 = [0.0, 0.0]
t1 = 1.0
dt = 0.01
'''
BALL = {
    "subject": "bouncing_ball",
    "parameters": {"e": 0.5},
    "schemes": ["Moreau"],
    "dt": 0.01,
    "t1": 1.0,
    "coordinate": 0,
}


@pytest.fixture(scope="module")
def address():
    said = []
    threading.Thread(target=lab.serve, args=(None, 0, False, said.append), daemon=True).start()
    while not said:
        time.sleep(0.01)
    return re.search(r"http://127\.0\.0\.1:\d+/", said[0])[0]


def answer(address, question, asked, **headers):
    body = json.dumps({"page": "test", "serial": 1, **asked}).encode()
    request = urllib.request.Request(address + question, body, headers)
    with urllib.request.urlopen(request) as found:
        return [json.loads(line) for line in found.read().splitlines()]


def test_a_motion_is_that_of_the_library(address):
    parts = answer(address, "motion", BALL)
    assert [part["part"] for part in parts] == ["motion", "section", "certificate", "end"]
    p = carom.models.bouncing_ball(e=0.5)
    sol = carom.solve(p.system, carom.Moreau(), p.q0, p.v0, t1=1.0, dt=0.01)
    shown = np.frombuffer(base64.b64decode(parts[0]["q"]), "<f4")
    np.testing.assert_allclose(shown, sol.q[:, 0], rtol=1e-6, atol=1e-9)
    assert parts[0]["count"] == len(sol.impacts)
    assert (
        parts[2]["verdict"]
        == str(carom.certify(sol, q0=p.q0, v0=p.v0)).partition(": ")[2].partition("\n")[0]
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", systems())
def test_every_model_moves(address, name):
    """With its defaults and with another number: no error, a finite motion."""
    (found, _) = answer(address, "described", {"subject": name})
    numbers = [p for p in found["parameters"] if p["kind"] == "number" and p["value"]]
    asked = {"subject": name, "schemes": [found["scheme"]], "coordinate": 0}
    asked |= {"dt": found["dt"], "t1": found["t1"]}
    for parameters in [{}, *({p["name"]: 0.97 * p["value"]} for p in numbers[:1])]:
        parts = answer(address, "motion", asked | {"parameters": parameters})
        assert [part["part"] for part in parts][:1] == ["motion"], parts
        shown = np.frombuffer(base64.b64decode(parts[0]["q"]), "<f4")
        assert np.all(np.isfinite(shown))
        assert parts[0]["said"] == ""


@pytest.mark.slow
def test_a_large_structure_is_not_certified_here(address):
    """It would take a minute, in which no slider answers."""
    asked = {**BALL, "subject": "elastic_bar", "parameters": {"elements": 30}, "dt": 2e-4}
    parts = answer(address, "motion", asked | {"t1": 0.01})
    assert parts[2]["verdict"] == "not certified here"
    assert "carom run certifies" in parts[2]["text"]


@pytest.mark.slow
def test_a_slider_computes_no_reference(monkeypatch):
    """Of a double pendulum with other numbers the exact motion would take seconds."""
    from carom.models import references

    asked, follow = [], references.follow
    monkeypatch.setattr(references, "follow", lambda *a: asked.append(a[-1]) or follow(*a))
    made = Model("double_pendulum").problem({"e": 0.77})
    assert asked == [1e-3]
    assert float(made.system.restitution) == 0.77
    assert Model("double_pendulum").natural()["t1"] > 1.0


def test_errors_are_answers(address):
    for change, said in (
        ({"dt": 1e-9}, "raise dt"),
        ({"parameters": {"e": 2.0}}, "restitution"),
        ({"parameters": {"q0": -1.0}}, "height"),
        ({"schemes": ["Morreau"]}, "did you mean 'Moreau'"),
        ({"subject": "nothing"}, "there is no model 'nothing'"),
        ({"q0": [1.0, 2.0]}, "as many numbers"),
    ):
        (part,) = answer(address, "motion", BALL | change)
        assert part["part"] == "error"
        assert said in part["error"]


def test_a_page_from_elsewhere_is_refused(address):
    for headers in ({"Host": "example.org"}, {"Origin": "http://example.org"}):
        with pytest.raises(urllib.error.HTTPError, match="403"):
            answer(address, "motion", BALL, **headers)


def test_what_is_out_of_date_is_dropped():
    turns, done = lab.Turns(), []

    def parts():
        for k in range(3):
            done.append(k)
            yield {"part": k}

    first = turns.asked("page", "motion", 1)
    answers = turns.taken(parts(), first)
    assert next(answers) == {"part": 0}
    turns.asked("page", "diagram", 2)  # another question: both go on
    assert next(answers) == {"part": 1}
    turns.asked("page", "motion", 3)
    assert list(answers) == []
    assert done == [0, 1]


def test_a_number_alone_compiles_nothing():
    p = carom.models.double_pendulum()
    one, other = (lifted(carom.models.double_pendulum().system, [1.0, 1.4]) for _ in range(2))
    import jax

    assert jax.tree_util.tree_structure(one) == jax.tree_util.tree_structure(other)
    other = lifted(carom.models.bouncing_ball(g=5.0).system, [1.0])
    usual = lifted(carom.models.bouncing_ball().system, [1.0])
    assert jax.tree_util.tree_structure(usual) == jax.tree_util.tree_structure(other)
    q, v = np.array([0.3, 0.5]), np.array([1.0, -2.0])
    np.testing.assert_array_equal(one.acceleration(0.0, q, v), p.system.acceleration(0.0, q, v))
    np.testing.assert_array_equal(other.acceleration(0.0, q[:1], v[:1]), [-5.0])


def test_where_no_exact_motion_is_known():
    """Below one impact a period the ball on its table moves all the same."""
    model = Model("vibrating_table")
    with pytest.raises(carom.models.ModelError):
        carom.models.vibrating_table(acceleration=0.8)
    made = model.problem({"acceleration": 0.8})
    np.testing.assert_array_equal(made.q0, carom.models.vibrating_table().q0)
    assert made.period == 2 * np.pi / 10
    with pytest.raises(carom.models.ModelError):  # nothing to solve at all
        model.problem({"acceleration": -1.0})


def test_run_files_run_as_shown(tmp_path):
    asked = {"parameters": {"acceleration": 0.8}, "q0": None, "v0": None}
    asked |= {"dt": 0.01, "t1": 3.0, "scheme": "Maury"}
    path = tmp_path / "run.toml"
    path.write_text(Model("vibrating_table").run_file(asked))
    plan = runfile.read(path)
    made = Model("vibrating_table").problem({"acceleration": 0.8})
    np.testing.assert_array_equal(plan.problem.q0, made.q0)
    assert (plan.t1, plan.dt, str(plan.scheme)) == (3.0, 0.01, "Maury()")
    assert plan.problem.system.gap.amplitude == 0.8 * 9.81 / 10**2
    moved = asked | {"q0": [0.5], "v0": [0.25]}
    path.write_text(Model("vibrating_table").run_file(moved))
    plan = runfile.read(path)
    assert (*plan.problem.q0, *plan.problem.v0) == (0.5, 0.25)
    path.write_text(Model("disc").run_file(asked | {"parameters": {"position.0": 0.5}}))
    assert runfile.read(path).problem.q0[0] == 0.5


def test_a_file_of_ones_own(tmp_path):
    path = tmp_path / "belt.py"
    path.write_text(OWN)
    own = OwnFile(path)
    assert [p["name"] for p in own.parameters] == ["belt", "k", "friction"]
    made = own.problem({"belt": -1.0, "friction": 0.7, "k": 4})
    q = v = np.array([0.5, 0.0])
    np.testing.assert_allclose(made.system.force(0.0, q, v), [-2.0, -9.81])
    assert float(made.system.friction) == 0.7
    assert made is not own.problem({})
    assert own.problem({}).system is own.problem({}).system
    text = own.run_file(
        {"parameters": {"belt": 2.0}, "scheme": "Maury", "dt": 0.02, "t1": 3.0, "q0": [1.0, 2.0]}
        | {"v0": None}
    )
    again = tmp_path / "again.py"
    again.write_text(text)
    plan = runfile.read(again)
    assert (plan.dt, plan.t1, str(plan.scheme)) == (0.02, 3.0, "Maury()")
    np.testing.assert_array_equal(plan.problem.q0, [1.0, 2.0])
    assert float(plan.problem.system.slip(0.0, q, v)) == -1.5
    path.write_text(OWN.replace("import carom", "import carrom"))
    with pytest.raises(runfile.RunFileError, match="carrom"):
        OwnFile(path)


def test_numbers_side_by_side_and_in_lists_can_be_varied(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(
        "import carom\ng, (l, r) = 9.81, (1, 2)\na, b = 0.5, 2.0\n"
        "problem = carom.System(force=lambda t, q, v: -a * q, gap=lambda t, q: [q[0], b - q[0]],\n"
        "    restitution=[0.0, 0.6])\nq0, v0, t1, dt = [1.0], [0.0], 1.0, 0.1\n"
    )
    own = OwnFile(path)
    assert [p["name"] for p in own.parameters] == ["g", "a", "b", "restitution.0", "restitution.1"]
    made = own.problem({"restitution.1": 0.25, "a": 3.0})
    assert made.system.restitution.tolist() == [0.0, 0.25]
    assert made.system.force(0.0, np.ones(1), None) == -3.0


def test_models_of_spheres_are_not_here():
    assert "granular_gas" not in systems()
    assert "bouncing_ball" in systems()
    with pytest.raises(LabError, match="There are bouncing_ball"):
        lab.Laboratory("granular_gas")


# ---- in a browser --------------------------------------------------------------------------------


@pytest.fixture
def browser(address):
    """A page that can reach 127.0.0.1 alone; ``outside`` and ``said`` must stay empty."""
    if CHROMIUM is None:
        pytest.skip("needs chromium (Debian: apt install chromium)")
    from playwright.sync_api import sync_playwright

    outside, said = [], []

    def routed(route):
        url = route.request.url
        if url.startswith((address, "data:", "blob:")):
            route.continue_()
        else:
            outside.append(url)
            route.abort()

    with sync_playwright() as play:
        opened = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        context = opened.new_context(viewport={"width": 1200, "height": 900}, accept_downloads=True)
        context.route("**/*", routed)
        page = context.new_page()
        page.on("console", lambda m: said.append(m.text))
        page.on("pageerror", lambda e: said.append(str(e)))
        yield page
        opened.close()
    assert (outside, said) == ([], [])


def until(page, condition):
    """Wait; the page's own policy forbids playwright's way of doing it."""
    for _ in range(2400):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    error = page.inner_text("#error")
    raise AssertionError(f"{condition} did not come true; the page says {error!r}")


BALL_LINK = "#subject=bouncing_ball&dt=0.01&t1=1&p.e=0.5"


def test_a_slider_changes_the_motion(browser, address):
    browser.goto(address + BALL_LINK)
    until(browser, "L.answered > 0")
    before = browser.evaluate("Array.from(L.motions[0].q)")
    browser.evaluate(
        """() => { const s = document.querySelector('#numbers input[type=range]');
        s.value = 0.9; s.dispatchEvent(new Event('input')); }"""
    )
    until(browser, "L.answered > 1")
    after = browser.evaluate("Array.from(L.motions[0].q)")
    assert max(after[50:]) > max(before[50:]) + 0.1
    assert "p.e=0.9" in browser.evaluate("location.hash")
    browser.fill("#p-e", "3")
    until(browser, "$('error').textContent.includes('restitution')")


@pytest.mark.slow
def test_the_laboratory_in_a_browser(browser, address):
    browser.goto(address)
    until(browser, "L.answered > 0")
    assert browser.input_value("#subject") == "impact_oscillator"
    browser.fill("#p-frequency", "2.8")
    browser.select_option("#second", "Maury")
    until(browser, "L.answered > 1 && L.certificates.length === 2")
    assert browser.evaluate("L.motions.map(m => m.scheme)") == ["Moreau", "Maury"]
    assert "Maury: " in browser.inner_text("#certificates")
    assert browser.evaluate("L.sections[0].q.length") == 400

    browser.fill("#count", "12")
    browser.click("#compute")
    until(browser, "L.points.length > 0")
    assert browser.evaluate("L.points.length") < 24 or browser.evaluate("L.diagramDone")
    until(browser, "L.diagramDone")
    box = browser.locator("#diagramchart").bounding_box()
    answered = browser.evaluate("L.answered")
    browser.mouse.click(box["x"] + 0.8 * box["width"], box["y"] + 0.5 * box["height"])
    value = float(browser.input_value("#p-frequency"))
    low, high = (float(browser.input_value(f"#{end}")) for end in ("low", "high"))
    assert abs(value - low - 0.8 * (high - low)) < 0.15 * (high - low)
    until(browser, f"L.answered > {answered} && !document.body.classList.contains('busy')")
    settled = browser.evaluate(
        "L.points.filter(p => Math.abs(p.value - numbers().frequency) < 1e-9)"
    )
    start = [float(x) for x in browser.input_value("#q0").split(",")]
    assert any(np.allclose(p["q0"], start) for p in settled)
    np.testing.assert_allclose(browser.evaluate("L.motions[0].q0"), start)

    link, motion = browser.evaluate("location.href"), browser.evaluate("Array.from(L.motions[0].q)")
    with browser.expect_download() as got:
        browser.click("#download")
    text = got.value.path().read_text()
    assert 'model = "impact_oscillator"' in text
    assert f"frequency = {value!r}" in text
    browser.goto("about:blank")
    browser.goto(link)
    until(browser, "L.answered > 0 && L.diagramDone")
    assert browser.evaluate("Array.from(L.motions[0].q)") == motion
    assert browser.input_value("#second") == "Maury"

    browser.set_viewport_size({"width": 420, "height": 800})
    browser.wait_for_timeout(200)
    assert browser.evaluate("document.documentElement.scrollWidth") <= 420
    was = browser.evaluate("theme.now()")
    browser.click("#light")
    assert browser.evaluate("theme.now()") != was
