"""The kinetic metric of spheres."""

import numpy as np


class Metric:
    """One mass a sphere, and one inertia where spheres spin."""

    def __init__(self, pile):
        self.mass = pile.mass[:, None]
        if pile.spins:
            self.mass = np.repeat(np.stack([pile.mass, pile.inertia], axis=1), 3, axis=1)

    def solve(self, f):
        """M^-1 f, (N, 3) or (N, 6)."""
        return f / self.mass

    def apply(self, v):
        """M v, likewise."""
        return self.mass * v
