"""The film button of the viewer, pressed; and what a frame of many spheres costs."""

import shutil
import subprocess

import numpy as np
import pytest

import carom
from browsing import CHROMIUM, SOFTWARE, needs_chromium
from carom.pictures.view import page_of

pytestmark = [pytest.mark.slow, needs_chromium]


def recorded(path, shape, steps):
    pile = carom.spheres.lattice(shape, 0.5, spacing=1.05, velocity=(0.3, 0.2, 0.1))
    record = carom.Record(path, every=1)
    return carom.solve(pile, carom.Maury(), t1=steps * 0.1, dt=0.1, record=record)


@pytest.fixture
def opened(tmp_path):
    """A page of a recording in the browser."""
    from playwright.sync_api import sync_playwright

    said = []
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=SOFTWARE)

        def shown(file):
            page = browser.new_page(viewport={"width": 800, "height": 600})
            page.on("pageerror", lambda e: said.append(str(e)))
            (tmp_path / "page.html").write_text(page_of(carom.load(file)), encoding="utf-8")
            page.goto((tmp_path / "page.html").as_uri())
            for _ in range(600):
                if page.evaluate("S.frames > 0"):
                    return page
                page.wait_for_timeout(100)
            raise AssertionError("nothing was drawn")

        yield shown
        browser.close()
    assert said == []


def test_the_film_button_writes_a_film(opened, tmp_path):
    recorded(tmp_path / "pile.vtkhdf", (3, 3, 3), 10)
    page = opened(tmp_path / "pile.vtkhdf")
    with page.expect_download(timeout=120_000) as got:
        page.click("#film")
    film = got.value.path()
    assert got.value.suggested_filename == "pile.webm"
    assert film.read_bytes().startswith(b"\x1a\x45\xdf\xa3")  # EBML, as WebM begins
    if shutil.which("ffprobe"):
        asked = ["ffprobe", "-v", "error", "-count_frames", "-select_streams", "v:0"]
        asked += ["-show_entries", "stream=nb_read_frames", "-of", "csv=p=0", str(film)]
        found = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
        assert int(found.strip().rstrip(",")) >= 5
    assert page.inner_text("#film") == "film"


def test_a_frame_of_ten_thousand_spheres(opened, tmp_path):
    """Milliseconds of a draw to its last pixel, by software: printed, and bounded widely."""
    recorded(tmp_path / "many.vtkhdf", (22, 22, 21), 2)
    page = opened(tmp_path / "many.vtkhdf")
    pixel = "gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, new Uint8Array(4))"
    times = page.evaluate(
        f"() => {{ const found = []; for (let k = 0; k < 12; k++) {{ const a = performance.now();"
        f"draw(); {pixel}; found.push(performance.now() - a); }} return found; }}"
    )
    drawn = page.evaluate("S.drawn")
    print(f"{drawn} spheres: {np.min(times):.0f} ms at best, {np.median(times):.0f} in the middle")
    assert drawn == 22 * 22 * 21
    assert np.min(times) < 1000.0
