"""Many bodies: spheres, walls, and the usual ways to start."""

from carom.spheres.model import Spheres
from carom.spheres.walls import Box, Cylinder, Obstacles, Panel, Plane, Shell

__all__ = ["Box", "Cylinder", "Obstacles", "Panel", "Plane", "Shell", "Spheres"]
