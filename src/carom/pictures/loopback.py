"""Pages served to this machine alone."""

import http.server
import webbrowser
from importlib import resources

from carom.errors import RecordError


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers requests from this machine for this server, and says nothing on the terminal."""

    def asked_here(self) -> bool:
        """Whether the request names this server; a page from elsewhere cannot."""
        port = self.connection.getsockname()[1]
        names = {f"{host}:{port}" for host in ("127.0.0.1", "localhost")}
        origin = self.headers.get("Origin")
        here = origin is None or origin.removeprefix("http://") in names
        return here and self.headers.get("Host") in names

    def answer(self, body: bytes, kind: str = "text/html", code: int = 200) -> None:
        """A whole answer."""
        self.send_response(code)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format, *args):
        """Nothing."""


def template(name: str, **parts: str) -> str:
    """A page of this package, with its style and its charts inside; ``parts`` fill /*NAME*/."""

    def text(file):
        return resources.files("carom.pictures").joinpath(file).read_text(encoding="utf-8")

    page = text(name)
    for mark, found in {"STYLE": "page.css", "CHARTS": "charts.js"}.items():
        if f"/*{mark}*/" in page:
            page = page.replace(f"/*{mark}*/", text(found))
    for mark, part in parts.items():
        page = page.replace(f"/*{mark}*/null", part.replace("</", "<\\/"))
    return page


def serve_page(html: str, port: int, browser: bool, say) -> None:
    """Serve one page until Ctrl-C."""
    body = html.encode()

    class OnePage(Handler):
        def do_GET(self):
            found = self.asked_here() and self.path.partition("?")[0] in ("/", "/index.html")
            self.answer(body if found else b"", code=200 if found else 404)

    serve(OnePage, port, browser, say)


def serve(handler, port: int, browser: bool, say) -> None:
    """Answer on 127.0.0.1 until Ctrl-C."""
    try:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
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
