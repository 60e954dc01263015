"""The site in a browser: search, dark and light, equations, the gallery, the reference."""

import importlib.util
import re
import shutil
import subprocess
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

ROOT = Path(__file__).parents[2]
SITE = ROOT / "out" / "docs"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium (Debian: apt install chromium)"),
]


def fresh():
    """Whether the site was built from the pages and the code as they are."""
    made = SITE / "index.html"
    sources = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("docs/scripts/*"), *ROOT.glob("src/**/*.py")]
    return made.exists() and made.stat().st_mtime > max(p.stat().st_mtime for p in sources)


@pytest.fixture(scope="module")
def site():
    if not fresh():
        if importlib.util.find_spec("sphinx_gallery") is None:
            pytest.skip("needs the site: make docs")
        command = [sys.executable, "-m", "sphinx", "-q", "-E", "-W", "-b", "html", "docs", SITE]
        subprocess.run(command, cwd=ROOT, check=True)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=SITE)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class Quiet(SimpleHTTPRequestHandler):
    """A server that says nothing."""

    def log_message(self, format, *args):
        pass


@pytest.fixture
def page(site):
    """A page at the front of the site; nothing may be asked of the network, nothing may fail."""
    from playwright.sync_api import sync_playwright

    wrong, asked = [], []
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1300, "height": 900}, color_scheme="light")
        page.on("pageerror", lambda e: wrong.append(str(e)))
        page.on("requestfailed", lambda r: wrong.append(r.url))
        page.on("request", lambda r: asked.append(r.url))
        page.goto(f"{site}/index.html")
        page.wait_for_load_state("networkidle")  # what a page that is left still loads has failed
        yield page
        page.wait_for_load_state("networkidle")
        browser.close()
    assert wrong == []
    assert [url for url in asked if not url.startswith((site, "data:"))] == []


def test_search(page):
    page.keyboard.press("Control+k")
    page.keyboard.type("accumulation")
    page.keyboard.press("Enter")
    page.wait_for_selector("#search-results li a")
    found = page.eval_on_selector_all("#search-results li a", "links => links.map(a => a.href)")
    assert any("gallery/bouncing_ball" in link for link in found)
    assert any("EventDriven" in link for link in found)


def test_dark_and_light(page, site):
    shade = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(shade)
    page.click("button.theme-switch-button")
    page.click("button.theme-change-button[data-mode=dark]")
    page.wait_for_selector("html[data-theme=dark]")
    dark = page.evaluate(shade)
    assert brightness(light) > 200
    assert brightness(dark) < 60
    page.goto(f"{site}/theory.html")  # it is remembered
    assert page.get_attribute("html", "data-theme") == "dark"
    assert page.evaluate(shade) == dark


def brightness(colour):
    """Mean of r, g, b."""
    numbers = colour[colour.index("(") + 1 : -1].split(",")
    return sum(float(n) for n in numbers[:3]) / 3


def test_equations_are_drawn(page, site):
    page.goto(f"{site}/theory.html")
    page.wait_for_selector("mjx-container svg")
    page.wait_for_function("document.querySelectorAll('mjx-container svg').length > 30")
    assert page.locator("mjx-merror, [data-mjx-error]").count() == 0


def test_a_page_of_the_gallery(page, site):
    page.click("text=Gallery")
    page.wait_for_load_state("networkidle")
    names = {p.stem for p in (ROOT / "docs" / "scripts").glob("*.py")}
    shown = page.eval_on_selector_all(
        ".sphx-glr-thumbcontainer a[href]", "links => links.map(a => a.getAttribute('href'))"
    )
    assert {Path(link.split("#")[0]).stem for link in shown} >= names
    page.goto(f"{site}/gallery/stick_slip.html")
    assert "Stick and slip" in page.inner_text("h1")
    assert "slip=lambda" in page.inner_text("article")
    assert "ok" in page.inner_text(".sphx-glr-script-out")
    pictures = page.eval_on_selector_all(
        "article img", "all => all.map(i => [i.currentSrc, i.naturalWidth])"
    )
    assert all(width > 300 for _, width in pictures)
    assert {Path(name).suffix for name, _ in pictures} == {".png", ".gif"}


def test_the_reference_of_solve(page, site):
    page.goto(f"{site}/api/generated/carom.solve.html")
    signature = page.inner_text("dt.sig")
    assert all(name in signature for name in ("carom.", "solve", "q0", "t1", "dt", "record"))
    text = page.inner_text("article")
    for part in ("Parameters", "(d,) position and velocity at t0", "Length of a step [s]"):
        assert part in text
    assert "first impact at 0.453 s" in text  # run when the site was built
    page.goto(f"{site}/api/generated/carom.Solution.html")
    assert "(n, p) negative means overlap" in page.inner_text("article")


def test_no_page_fetches_anything(site):
    """Scripts, styles and pictures of every page are its own."""
    outside = re.compile(r"""<(?:script|img|iframe)[^>]*src="(?:https?:)?//|<link[^>]*href="http""")
    for path in SITE.rglob("*.html"):
        found = outside.search(path.read_text(encoding="utf-8"))
        assert found is None, f"{path}: {found[0]}"
