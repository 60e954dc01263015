"""Spheres in a browser: one page that needs nothing else, made from a recording or a solution."""

import base64
import json
from typing import Any

import numpy as np

from carom.pictures.loopback import template
from carom.pictures.scene import wall_lines

_MOST_BYTES = 256 * 2**20  # of a page; more records than fit are thinned
_MOST_CONTACTS = 2_000_000  # in a page; of more the strongest of each record


def page_of(sol, records: int = 200) -> str:
    """The HTML page of a SpheresSolution."""
    with sol.opened() as found:
        return page(_Memory(sol) if found is None else found, records, sol.pile)


def page(found, records: int, pile) -> str:
    """The HTML page of a recording that is open (io/recorded.py), with at most so many records.

    ``pile`` may be None: its walls are then not drawn.
    """
    each = found.N * 5 * 4 * 4 / 3
    most = max(2, min(records, int(_MOST_BYTES / each)))
    count = min(found.count, most)
    chosen = np.unique(np.rint(np.linspace(0, found.count - 1, count)).astype(int))
    return template("view.html", DATA=json.dumps(_data(found, chosen, pile)))


class _Memory:
    """A solution that is not in a file, read as a Reader is."""

    def __init__(self, sol):
        self.sol, self.path, self.count = sol, "spheres", len(sol)
        self.N, self.dimension = len(sol.pile), sol.pile.dimension
        self.period = np.asarray(sol.pile.period)
        self.settings = {"scheme": str(sol.scheme), "dt": sol.dt}
        self.frames = {"t": sol.t, "contacts": np.array([len(table) for table in sol.contacts])}

    def points(self, name, k):
        """As of a file."""
        if name == "contact_force":
            return self.sol.contacts[k].felt(self.N)
        values = getattr(self.sol, name)[k]
        return np.pad(values, ((0, 0), (0, 3 - values.shape[1]))) if values.ndim == 2 else values

    def contact_rows(self, k):
        """As of a file."""
        table = self.sol.contacts[k]
        normal = np.pad(table.normal, ((0, 0), (0, 3 - table.normal.shape[1])))
        return {"pair": table.pairs, "impulse": table.impulse, "normal": normal}


def _data(found: Any, chosen, pile) -> dict:
    """Numbers of the page: per record x, y, z, and what gives a colour, in single precision."""
    x = np.stack([found.points("x", k) for k in chosen])
    period = np.pad(found.period, (0, 3 - len(found.period)))
    x = np.where(period > 0.0, np.mod(x, np.where(period > 0.0, period, 1.0)), x)
    speed = np.stack([np.linalg.norm(found.points("v", k), axis=1) for k in chosen])
    force = np.stack([found.points("contact_force", k) for k in chosen])
    radius = np.stack([found.points("radius", k) for k in chosen])
    still = bool(np.all(radius == radius[0]))
    times = np.asarray(found.frames["t"])[chosen]
    return {
        "name": str(found.path).rpartition("/")[2],
        "scheme": found.settings["scheme"],
        "N": found.N,
        "dimension": found.dimension,
        "times": [float(t) for t in times],
        "contacts": [int(n) for n in np.asarray(found.frames["contacts"])[chosen]],
        "x": _packed(x),
        "speed": _packed(speed),
        "force": _packed(force),
        "radius": _packed(radius[:1] if still else radius),
        "still": still,
        "period": [float(p) for p in period],
        "pushes": _pushes(found, chosen, x, radius, period, pile, times),
        **_scene(pile, times, x, radius, found.dimension),
    }


def _pushes(found, chosen, x, radius, period, pile, times) -> list[str]:
    """Of each record: sphere, force, and the way to the other centre or the wall, (c, 5)."""
    most, parts = _MOST_CONTACTS // len(chosen), []
    for m, k in enumerate(chosen):
        rows = found.contact_rows(k)
        strong = np.argsort(-rows["impulse"])[:most]
        pair, normal = rows["pair"][strong].astype(int), rows["normal"][strong]
        bodies = x[m]
        if pile is not None:
            bodies = np.concatenate([bodies, pile.walls.obstacles_at(times[m])[0]])
        i, j = pair[:, 0], np.where(pair[:, 1] < len(bodies), pair[:, 1], -1)
        way = bodies[j] - x[m][i]
        fold = np.where(period > 0.0, period, 1.0)
        way = np.where(period > 0.0, way - fold * np.rint(way / fold), way)
        way = np.where((j < 0)[:, None], radius[m][i, None] * normal, way)
        force = rows["impulse"][strong] / found.settings["dt"]
        parts.append(_packed(np.column_stack([i, force, way])))
    return parts


def _scene(pile, times, x, radius, dimension) -> dict:
    """Walls as segments and obstacles as spheres: once, or for each record where they move."""
    if pile is None:
        return {"walls": [], "obstacles": [], "unknown": True}
    room = np.max(radius) * (np.arange(3) < dimension)
    low, high = (x.min(axis=(0, 1)) - 1.5 * room, x.max(axis=(0, 1)) + 1.5 * room)
    moving = pile.walls.moving or pile.walls.drifting
    walls, obstacles = [], []
    for t in times if moving else times[:1]:
        kinds, data = pile.walls.at(t)
        walls.append(_packed(wall_lines(kinds, data, low, high)))
        obstacles.append(_packed(np.column_stack(pile.walls.obstacles_at(t))))
    return {"walls": walls, "obstacles": obstacles, "unknown": False}


def _packed(a) -> str:
    return base64.b64encode(np.ascontiguousarray(a, "<f4").tobytes()).decode()
