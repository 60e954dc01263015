"""A page in a browser: it says nothing, and asks for nothing outside of its own file."""

import contextlib
import shutil

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SOFTWARE = ["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader"]
SOFTWARE += ["--enable-unsafe-swiftshader"]

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="needs chromium (Debian: apt install chromium)"
)


@contextlib.contextmanager
def opened(file, args=SOFTWARE, **options):
    """The page of a file; ``options`` of playwright's new_page."""
    from playwright.sync_api import sync_playwright

    said, asked = [], []
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=args)
        page = browser.new_page(**options)
        page.on("console", lambda m: said.append(m.text))
        page.on("pageerror", lambda e: said.append(str(e)))
        page.on("request", lambda r: asked.append(r.url))
        page.goto(file.as_uri())
        yield page
        browser.close()
    assert said == []
    assert all(url.startswith(("file:", "data:", "blob:")) for url in asked)


def check_help_and_picture(page):
    """A question mark shows the keys, and the picture can be kept."""
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()
    page.keyboard.press("Escape")
    with page.expect_download() as got:
        page.click("#picture")
    assert got.value.path().stat().st_size > 5000
