"""Many bodies: spheres, walls, and the usual ways to start."""

from carom.worlds.spheres.builders import column, drum, hopper, lattice, random
from carom.worlds.spheres.model import Spheres
from carom.worlds.spheres.relax import relax
from carom.worlds.spheres.solution import ContactTable, SpheresSolution
from carom.worlds.spheres.walls import Box, Cylinder, Obstacles, Panel, Plane, Shell

__all__ = [
    "Box",
    "ContactTable",
    "Cylinder",
    "Obstacles",
    "Panel",
    "Plane",
    "Shell",
    "Spheres",
    "SpheresSolution",
    "column",
    "drum",
    "hopper",
    "lattice",
    "random",
    "relax",
]
