"""The parts that meet in a step, as schemes and drivers know them.

A world is what moves, a law what its contacts obey, a scheme which free motion is projected onto
which rows.  Each is written once here; ``tests/conformance.py`` states what an implementation must
satisfy, and every one is run through it.  Arrays are of the world's own namespace ``xp``: JAX for a
System, NumPy for Spheres.

    p contacts, m components of a contact, normal first, d velocities
"""

from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Metric(Protocol):
    """The kinetic metric at one configuration: M, and its inverse."""

    def apply(self, v: Any) -> Any:
        """M v, the momentum of a velocity."""
        ...

    def solve(self, f: Any) -> Any:
        """M^-1 f, the velocity of a momentum."""
        ...


@runtime_checkable
class Law(Protocol):
    """The cone of one contact's impulse, and what it keeps of a blow (carom/law.py)."""

    e: Any  # (p,) restitution

    @property
    def size(self) -> int:
        """m."""
        ...

    def shift(self, rate: Any, before: Any) -> Any:
        """b (p, m) of the impact law, from the rate and the relative velocity before it."""
        ...


@runtime_checkable
class Contacts(Protocol):
    """The contacts within reach of a step, linearised."""

    gap: Any  # (p,) negative means overlap

    @property
    def rate(self) -> Any:
        """(p, m) relative velocity of what is at rest: walls that move, radii that grow."""
        ...

    @property
    def law(self) -> Any:
        """What they obey."""
        ...

    def velocity(self, v: Any) -> Any:
        """(p, m) relative velocity, normal first; negative means approaching."""
        ...

    def kept(self, lam: Any) -> Any:
        """What the next step starts from, after the impulses lam (p, m); None: nothing."""
        ...

    def closed(self) -> Any:
        """(p,) where the law acts on velocities."""
        ...

    def ahead(self, dt: Any) -> Any:
        """b (p, m) that keeps gaps open at the end of a step from here."""
        ...

    def bounced(self, before: Any, dt: Any) -> Any:
        """b (p, m) of the impact law."""
        ...

    def status(self, metric: Any, active: Any, point: Any) -> Any:
        """What can be wrong with the data of a step."""
        ...


@runtime_checkable
class World(Protocol):
    """Configuration, inertia, forces, contacts."""

    @property
    def xp(self) -> Any:
        """The namespace of its arrays."""
        ...

    def metric(self, q: Any) -> Any:
        """The kinetic metric at q."""
        ...

    def forces(self, t: Any, q: Any, v: Any) -> Any:
        """All of the right-hand side of M v' = f, contacts apart."""
        ...

    def force_uses_velocity(self, q: Any) -> bool:
        """Whether forces may depend on v."""
        ...

    def moved(self, q: Any, u: Any, h: Any) -> Any:
        """q after moving with the velocity u for h: q + h u, or a rotation."""
        ...

    def contacts(self, t: Any, q: Any, memory: Any = None) -> Any:
        """The gaps at (t, q), at least those that are closed."""
        ...

    def project(self, metric: Any, target: Any, contacts: Any, b: Any, active: Any = None) -> Any:
        """The velocity nearest to ``target`` that the law allows: point, multipliers (p, m)."""
        ...

    def memory(self, t: Any, q: Any) -> Any:
        """What changes from step to step beside q and v, at the start of a run; None: nothing.

        A tree of arrays.  It is the only place for it: a world is fixed during a run.
        """
        ...

    def keep_open(self, metric: Any, t: Any, q: Any, free: Any, dt: Any, memory: Any) -> Any:
        """(contacts, projection) that keeps every gap open from q to time t."""
        ...

    def fixed_point(self, phi: Any, guess: Any, *, iterate: bool, newton: bool) -> Any:
        """Solve x = phi(x).point; with memory=, x = phi(x, memory).point, as it likes."""
        ...

    def if_any(self, where: Any, yes: Any, no: Any) -> Any:
        """yes() if an entry is True, else no()."""
        ...


@runtime_checkable
class Positions(Protocol):
    """What a world offers beside, where its configurations are vectors: PaoliSchatzman asks it."""

    def nearest(self, metric: Any, t: Any, W: Any) -> Any:
        """The admissible point nearest to W."""
        ...

    def common_restitution(self) -> Any:
        """e, where it is the same for all contacts."""
        ...


@runtime_checkable
class Scheme(Protocol):
    """A free motion, the rows it is projected onto, and b (carom/schemes/scheme.py)."""

    def start(self, world: Any, t: Any, q: Any, v: Any, dt: Any) -> Any:
        """The first state."""
        ...

    def step(self, world: Any, state: Any, dt: Any) -> tuple[Any, Any]:
        """The next state, and a report."""
        ...
