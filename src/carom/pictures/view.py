"""Spheres in a browser: one page that needs nothing else, made from a recording."""

import base64
import http.server
import json
import webbrowser
from importlib import resources

import numpy as np

from carom.errors import RecordError
from carom.io.vtkhdf import Reader

_MOST_BYTES = 256 * 2**20  # of a page; more records than fit are thinned


def page(path, records: int = 200) -> str:
    """The HTML page of a recording, with at most so many of its records."""
    with Reader(path) as found:
        each = found.N * 5 * 4 * 4 / 3
        most = max(2, min(records, int(_MOST_BYTES / each)))
        count = min(found.count, most)
        chosen = np.unique(np.rint(np.linspace(0, found.count - 1, count)).astype(int))
        data = _data(found, chosen)
    template = resources.files("carom.pictures").joinpath("view.html").read_text(encoding="utf-8")
    return template.replace("/*DATA*/null", json.dumps(data).replace("</", "<\\/"))


def _data(found: Reader, chosen) -> dict:
    """Numbers of the page: per record x, y, z, and what gives a colour, in single precision."""
    x = np.stack([found.points("Points", k) for k in chosen])
    period = found.h5["carom/pile/period"][:]
    period = np.pad(period, (0, 3 - len(period)))
    x = np.where(period > 0.0, np.mod(x, np.where(period > 0.0, period, 1.0)), x)
    speed = np.stack([np.linalg.norm(found.points("Velocity", k), axis=1) for k in chosen])
    force = np.stack([found.points("ContactForce", k) for k in chosen])
    radius = np.stack([found.points("Radius", k) for k in chosen])
    still = bool(np.all(radius == radius[0]))
    return {
        "name": found.path.rpartition("/")[2],
        "scheme": found.settings["scheme"],
        "N": found.N,
        "dimension": found.dimension,
        "times": [float(t) for t in found.frames["t"][chosen]],
        "contacts": [int(n) for n in found.frames["contacts"][chosen]],
        "x": _packed(x),
        "speed": _packed(speed),
        "force": _packed(force),
        "radius": _packed(radius[:1] if still else radius),
        "still": still,
    }


def _packed(a) -> str:
    return base64.b64encode(np.ascontiguousarray(a, "<f4").tobytes()).decode()


def serve(html: str, port: int, browser: bool, say) -> None:
    """Serve the page on 127.0.0.1 until Ctrl-C."""
    body = html.encode()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            found = self.path in ("/", "/index.html")
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body) if found else 0))
            self.end_headers()
            if found:
                self.wfile.write(body)

        def log_message(self, format, *args):
            pass

    try:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except (OSError, OverflowError) as problem:
        why = getattr(problem, "strerror", None) or problem
        raise RecordError(
            f"port {port} cannot be had ({why}): leave --port out, and a free one is found"
        ) from None
    with server:
        address = f"http://127.0.0.1:{server.server_address[1]}/"
        say(f"look at {address} (Ctrl-C ends)")
        if browser:
            webbrowser.open(address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            say("")
