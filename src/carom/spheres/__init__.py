"""Many bodies: spheres, walls, and the usual ways to start."""

from carom.spheres.builders import column, drum, hopper, lattice, random
from carom.spheres.model import Spheres
from carom.spheres.relax import relax
from carom.spheres.solution import ContactTable, SpheresSolution
from carom.spheres.walls import Box, Cylinder, Obstacles, Panel, Plane, Shell

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
