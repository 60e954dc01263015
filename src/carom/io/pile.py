"""Spheres as they are given, in a group of an HDF5 file."""

import json
import os
from typing import Any

import numpy as np

from carom.errors import RecordError
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
    group.attrs["functions"] = json.dumps(missing)
    group["walls"] = np.frombuffer(json.dumps(walls).encode(), "u1")
    for name in ("position", "velocity", "mass", "gravity", "period"):
        group[name] = getattr(pile, name)
    group["radius"] = pile.radius_at(pile.start)
    group.attrs["restitution"] = _kept(pile.restitution)
    group.attrs["tolerance"] = pile.tolerance
    group.attrs["iterations"] = pile.iterations
    if pile.spins:
        group.attrs["friction"] = _kept(pile.friction)
        group["spin"], group["inertia"] = pile.spin, pile.inertia
    if pile.rolls:
        group.attrs["rolling"], group.attrs["twisting"] = _kept(pile.rolling), _kept(pile.twisting)
    if pile.glue:
        group.attrs["glue"] = True
    if pile.material is not None:
        names = list(dict.fromkeys(pile.material))
        group.attrs["materials"] = json.dumps(names)
        group["material"] = np.array([names.index(a) for a in pile.material])


def _kept(given) -> Any:
    """A coefficient: a number, or the text of a table by pairs; functions are named elsewhere."""
    if not isinstance(given, dict):
        return np.nan if callable(given) else given
    return json.dumps(
        [[*(key or (None, None)), None if callable(e) else e] for key, e in given.items()]
    )


def _found(kept) -> Any:
    if not isinstance(kept, str):
        return float(kept)
    return {None if a is None else (a, b): value for a, b, value in json.loads(kept)}


def load_pile(group, path) -> Spheres:
    """The spheres of a group of the file at ``path``."""
    missing = json.loads(group.attrs["functions"])
    if missing:
        raise RecordError(
            f"{os.fspath(path)!r} is of spheres with functions, which no file can hold "
            f"({', '.join(missing)}): give the same Spheres, carom.load(path, pile=...)"
        )
    walls = []
    for wall in json.loads(bytes(group["walls"][:])):
        kind = getattr(wall_kinds, wall.pop("kind"))
        walls.append(kind(**{n: v if isinstance(v, str) else np.array(v) for n, v in wall.items()}))
    given: Any = {n: group[n][:] for n in ("position", "radius", "velocity", "mass", "gravity")}
    if "spin" in group:
        given |= {n: group[n][:] for n in ("spin", "inertia")}
        given["friction"] = _found(group.attrs["friction"])
    for name in ("rolling", "twisting"):
        if name in group.attrs:
            given[name] = _found(group.attrs[name])
    if "material" in group:
        names = json.loads(group.attrs["materials"])
        given["material"] = [names[k] for k in group["material"][:]]
    return Spheres(
        **given,
        walls=walls,
        restitution=_found(group.attrs["restitution"]),
        periodic=[p if p > 0.0 else None for p in group["period"][:]],
        glue=bool(group.attrs.get("glue", False)),
        tolerance=float(group.attrs["tolerance"]),
        iterations=int(group.attrs["iterations"]),
    )
