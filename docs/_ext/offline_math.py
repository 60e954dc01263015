"""Equations without the network: one file of MathJax, glyphs included, is copied into the site.

It comes from the package sphinx-mathjax-offline; of its 24 MB ``tex-svg.js`` is enough.
"""

from importlib.metadata import distribution
from pathlib import Path

from sphinx.util.fileutil import copy_asset_file

FILE = "tex-svg.js"


def setup(app):
    app.config.mathjax_path = FILE
    app.config.mathjax3_config = {
        "options": {"enableMenu": False, "enableAssistiveMml": False},
        "svg": {"fontCache": "global"},
    }
    app.connect("builder-inited", copied)
    return {"parallel_read_safe": True}


def copied(app):
    """Put it beside the other static files."""
    if app.builder.format != "html":
        return
    found = [p for p in distribution("sphinx-mathjax-offline").files or () if p.name == FILE]
    target = Path(app.outdir, "_static")
    target.mkdir(parents=True, exist_ok=True)
    copy_asset_file(str(found[0].locate()), target)
