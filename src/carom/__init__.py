"""Mechanics with impacts.  Every public name, once."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from carom import _jax as _jax  # first: it sets up JAX
from carom import errors
from carom.arguments import nearest_name as _nearest_name
from carom.errors import CaromError
from carom.projection import project
from carom.projection.sparse import Sparse
from carom.results.solution import Solution, load
from carom.run.record import Record
from carom.run.refine import Refinement, refine
from carom.run.solve import solve
from carom.schemes.event_driven import EventDriven
from carom.schemes.maury import Maury
from carom.schemes.moreau import Moreau
from carom.schemes.moreau_jean import MoreauJean
from carom.schemes.paoli_schatzman import PaoliSchatzman
from carom.schemes.penalty import Penalty
from carom.status import Status
from carom.worlds.system.system import Lagrangian, System

if _TYPE_CHECKING:
    from carom import bench, fclib, models, spheres, study
    from carom.certificates.certify import Certificate, certify, certify_arrays
    from carom.spheres import Plane, Spheres

    __version__: str

__all__ = [
    "CaromError",
    "Certificate",
    "EventDriven",
    "Lagrangian",
    "Maury",
    "Moreau",
    "MoreauJean",
    "PaoliSchatzman",
    "Penalty",
    "Plane",
    "Record",
    "Refinement",
    "Solution",
    "Sparse",
    "Spheres",
    "Status",
    "System",
    "bench",
    "certify",
    "certify_arrays",
    "errors",
    "fclib",
    "load",
    "models",
    "project",
    "refine",
    "solve",
    "spheres",
    "study",
]


def __getattr__(name: str):
    """What a first run does not need is imported when it is first used."""
    import importlib

    if name in ("bench", "fclib", "models", "spheres", "study"):
        found = importlib.import_module(f"carom.{name}")
    elif name in ("Plane", "Spheres"):
        found = getattr(importlib.import_module("carom.spheres"), name)
    elif name in ("Certificate", "certify", "certify_arrays"):
        found = getattr(importlib.import_module("carom.certificates.certify"), name)
    elif name == "__version__":
        found = importlib.import_module("importlib.metadata").version("carom")
    else:
        rooms = (r for r in ("spheres", "models") if name in __getattr__(r).__all__)
        room = next(rooms, None)
        hint = f": it is in carom.{room}." if room else _nearest_name(name, __all__)
        raise AttributeError(f"carom has no {name!r}{hint} dir(carom) lists the names")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """What is public: the rest is how it is made."""
    return [*__all__, "__doc__", "__version__"]
