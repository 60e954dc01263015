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
        kept = {n: np.asarray(v, float).tolist() for n, v in given.items()}
        walls.append({"kind": type(wall).__name__, **kept})
    group.attrs["dimension"] = pile.dimension
    group.attrs["functions"] = json.dumps(missing)
    group["walls"] = np.frombuffer(json.dumps(walls).encode(), "u1")
    for name in ("position", "velocity", "mass", "gravity", "period"):
        group[name] = getattr(pile, name)
    group["radius"] = pile.radius_at(pile.start)
    group.attrs["restitution"], group.attrs["tolerance"] = pile.restitution, pile.tolerance
    group.attrs["iterations"] = pile.iterations
    if pile.spins:
        group.attrs["friction"] = pile.friction
        group["spin"], group["inertia"] = pile.spin, pile.inertia


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
        walls.append(kind(**{n: np.array(v) for n, v in wall.items()}))
    given: Any = {n: group[n][:] for n in ("position", "radius", "velocity", "mass", "gravity")}
    if "spin" in group:
        given |= {n: group[n][:] for n in ("spin", "inertia")}
        given["friction"] = float(group.attrs["friction"])
    return Spheres(
        **given,
        walls=walls,
        restitution=float(group.attrs["restitution"]),
        periodic=[p if p > 0.0 else None for p in group["period"][:]],
        tolerance=float(group.attrs["tolerance"]),
        iterations=int(group.attrs["iterations"]),
    )
