"""Spheres in a browser: one page that needs nothing else, made from a recording."""

import base64
import json

import numpy as np

from carom.io.vtkhdf import Reader
from carom.pictures.loopback import template

_MOST_BYTES = 256 * 2**20  # of a page; more records than fit are thinned


def page(path, records: int = 200) -> str:
    """The HTML page of a recording, with at most so many of its records."""
    with Reader(path) as found:
        each = found.N * 5 * 4 * 4 / 3
        most = max(2, min(records, int(_MOST_BYTES / each)))
        count = min(found.count, most)
        chosen = np.unique(np.rint(np.linspace(0, found.count - 1, count)).astype(int))
        data = _data(found, chosen)
    return template("view.html", DATA=json.dumps(data))


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
