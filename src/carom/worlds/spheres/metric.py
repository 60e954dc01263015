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


def lengths(v):
    """(N,) of the rows of v, spin left out."""
    return np.sqrt(np.einsum("ij,ij->i", v[:, :3], v[:, :3]))


def largest(x):
    """(N,) the largest of |x_1|, |x_2|, |x_3|; NumPy's maximum over so short an axis takes long."""
    return np.maximum(np.maximum(np.abs(x[:, 0]), np.abs(x[:, 1])), np.abs(x[:, 2]))


def fastest(v):
    """The largest length of the rows of v."""
    return float(np.max(lengths(v), initial=0.0))
