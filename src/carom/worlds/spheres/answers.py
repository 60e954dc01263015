"""What the world of spheres answers a scheme with: NumPy arrays, and the proof of what they are."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from carom.worlds.spheres.contacts import Contacts
from carom.worlds.spheres.memory import Memory


@dataclass(frozen=True, eq=False)
class Projection:
    """A projected point with the proof that it is one."""

    point: np.ndarray  # (N, 3), or (N, 6) with spin
    multipliers: np.ndarray  # (p,) >= 0, or (p, 4) with friction
    residual: float  # measured, relative to what the tolerance 1 would allow (see World)
    iterations: int
    status: Any


@dataclass(frozen=True, eq=False)
class Nearest:
    """The point of K nearest to W."""

    shift: np.ndarray  # (N, 3) P_K(W) - W
    lam: np.ndarray  # (p,)
    residual: float
    iterations: int
    status: Any
    contacts: Contacts

    @property
    def memory(self) -> Memory:
        """What the next step starts from."""
        return self.contacts.memory


@dataclass(frozen=True, eq=False)
class Solved:
    """x = phi(x), with how it was found."""

    value: Any
    change: float
    contraction: float
    turns: int
    status: Any


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
