"""Spheres as they are given, in a group of an HDF5 file."""

import json
import os
from typing import Any

import numpy as np

from carom.errors import RecordError
from carom.io.recording import put_text, text_in
from carom.worlds.spheres import walls as wall_kinds
from carom.worlds.spheres.model import Spheres


def save_pile(group, pile: Spheres) -> None:
    """All but functions, and walls of one's own: those are named."""
    missing = list(pile.functions())
    walls = []
    for wall in [*pile.walls.walls, *pile.walls.obstacles]:
        if not wall_kinds.known(wall):
            continue
        given = {n: v for n, v in vars(wall).items() if not callable(v) and v is not None}
        kept = {
            n: v if isinstance(v, str) else np.asarray(v, float).tolist() for n, v in given.items()
        }
        walls.append({"kind": type(wall).__name__, **kept})
    group.attrs["dimension"] = pile.dimension
    put_text(group, "functions", json.dumps(missing))
    put_text(group, "walls", json.dumps(walls))
    for name in ("position", "velocity", "mass", "gravity", "period"):
        group[name] = getattr(pile, name)
    group["radius"] = pile.radius_at(pile.start)
    _keep(group, "restitution", pile.restitution)
    group.attrs["tolerance"] = pile.tolerance
    group.attrs["iterations"] = pile.iterations
    if pile.spins:
        _keep(group, "friction", pile.friction)
        group["spin"], group["inertia"] = pile.spin, pile.inertia
    if pile.rolls:
        _keep(group, "rolling", pile.rolling)
        _keep(group, "twisting", pile.twisting)
    if pile.glue:
        group.attrs["glue"] = True
    if pile.material is not None:
        names = list(dict.fromkeys(pile.material))
        put_text(group, "materials", json.dumps(names))
        group["material"] = np.array([names.index(a) for a in pile.material])


def _keep(group, name, given) -> None:
    """A coefficient: a number, or the text of a table by pairs; functions are named elsewhere."""
    if not isinstance(given, dict):
        group.attrs[name] = np.nan if callable(given) else given
        return
    rows = [[*(key or (None, None)), None if callable(e) else e] for key, e in given.items()]
    put_text(group, name, json.dumps(rows))


def _kept(group, name) -> Any:
    """What _keep wrote."""
    if name not in group and group.attrs.get_id(name).dtype.kind == "f":
        return float(group.attrs[name])
    rows = json.loads(text_in(group, name))
    return {None if a is None else (a, b): value for a, b, value in rows}


def load_pile(group, path) -> Spheres:
    """The spheres of a group of the file at ``path``."""
    missing = json.loads(text_in(group, "functions"))
    if missing:
        raise RecordError(
            f"{os.fspath(path)!r} is of spheres with functions, which no file can hold "
            f"({', '.join(missing)}): give the same Spheres, carom.load(path, pile=...)"
        )
    walls = []
    for wall in json.loads(text_in(group, "walls")):
        kind = getattr(wall_kinds, wall.pop("kind"))
        walls.append(kind(**{n: v if isinstance(v, str) else np.array(v) for n, v in wall.items()}))
    given: Any = {n: group[n][:] for n in ("position", "radius", "velocity", "mass", "gravity")}
    if "spin" in group:
        given |= {n: group[n][:] for n in ("spin", "inertia")}
        given["friction"] = _kept(group, "friction")
    for name in ("rolling", "twisting"):
        if name in group.attrs or name in group:
            given[name] = _kept(group, name)
    if "material" in group:
        names = json.loads(text_in(group, "materials"))
        given["material"] = [names[k] for k in group["material"][:]]
    return Spheres(
        **given,
        walls=walls,
        restitution=_kept(group, "restitution"),
        periodic=[p if p > 0.0 else None for p in group["period"][:]],
        glue=bool(group.attrs.get("glue", False)),
        tolerance=float(group.attrs["tolerance"]),
        iterations=int(group.attrs["iterations"]),
    )
