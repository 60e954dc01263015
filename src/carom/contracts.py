"""The parts that meet in a step, as schemes and drivers know them.

A world is what moves, a law what its contacts obey, a scheme which free motion is projected onto
which rows.  Each is written once here; ``tests/conformance.py`` states what an implementation must
satisfy, and every one is run through it.  Arrays are of the world's own namespace ``xp``: JAX for a
System, NumPy for Spheres.

    p contacts, m components of a contact, normal first, d velocities
"""

from typing import Any, Protocol, runtime_checkable

_SEEN: dict[tuple[type, type], bool] = {}


def offers(thing: Any, contract: type) -> bool:
    """Whether a thing has all that a contract lists; each class is looked at once."""
    key = type(thing), contract
    if key not in _SEEN:
        _SEEN[key] = isinstance(thing, contract)
    return _SEEN[key]


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

    def closed(self, metric: Any = None, moved: Any = None) -> Any:
        """(p,) where the law acts on velocities, in a step that freely moves by ``moved`` (d,)."""
        ...

    def ahead(self, dt: Any) -> Any:
        """b (p, m) that keeps gaps open at the end of a step from here."""
        ...

    def bounced(self, before: Any, dt: Any) -> Any:
        """b (p, m) of the impact law."""
        ...

    def struck(self, before: Any) -> Any:
        """The same without what joints have drifted apart."""
        ...

    def restitution(self, before: Any) -> Any:
        """(p,) e of an impact with the relative velocities ``before`` (p, m)."""
        ...

    def status(self, metric: Any, active: Any, point: Any) -> Any:
        """What can be wrong with the data of a step."""
        ...


@runtime_checkable
class Wall(Protocol):
    """What bounds spheres: a dataclass whose arguments may be functions of t (spheres/walls.py)."""

    velocity: Any  # (d,) [m/s] of its surface; None: of its own motion

    def pieces(self, t: float) -> list:
        """``described(kind, ...)`` for each piece, of the kinds that the kernels know."""
        ...


@runtime_checkable
class Model(Protocol):
    """What ``solve`` is given: a world, or what makes the world of one run (worlds/world.py)."""

    format: str  # the ending of its files, where a name does not say
    usual: str  # the scheme, where a run file does not say
    records: int | None  # about so many where nothing is said; None: every step

    def waits(self) -> str:
        """What a run waits for before its first step, in words; "" if for nothing."""
        ...

    def world(self, t0: float, t1: float, dt: float) -> Any:
        """The world of a run."""
        ...

    def initial(self, q0: Any, v0: Any) -> tuple[Any, Any]:
        """The state that it starts from, of what the user gives."""
        ...

    def check(self, scheme: Any, record: Any) -> None:
        """Refuse a scheme, or an option, that it cannot be moved by."""
        ...


@runtime_checkable
class World(Protocol):
    """Configuration, inertia, forces, contacts; fixed during a run.

    Of one of JAX arrays run/compiled.py asks ``gaps``, and what worlds/world.py has a default for;
    of one of NumPy arrays run/stepped.py asks what is in Stepped.
    """

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

    def between(self, q: Any, q1: Any, part: Any) -> Any:
        """A configuration on the way from q to q1, for records inside of a step."""
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

    def fixed_point(
        self, phi: Any, guess: Any, *, iterate: bool, newton: bool, noise: Any = None
    ) -> Any:
        """Solve x = phi(x).point; with memory=, x = phi(x, memory).point, as it likes."""
        ...

    def mean(self, f: Any, t: Any, dt: Any, tolerance: float) -> Any:
        """The mean of f(s) over [t, t + dt] (projection/quadrature.py)."""
        ...

    def if_any(self, where: Any, yes: Any, no: Any) -> Any:
        """yes() if an entry is True, else no()."""
        ...


@runtime_checkable
class Positions(Protocol):
    """What a world offers beside, where its configurations are vectors: PaoliSchatzman asks it."""

    def nearest(self, metric: Any, t: Any, W: Any) -> Any:
        """The admissible point nearest to W (projection/nearest.py).

        Without ``contacts`` in it the world has ``normals(t, q)``, as for Equations.
        """
        ...

    def common_restitution(self) -> Any:
        """e, where it is the same for all contacts."""
        ...


@runtime_checkable
class Equations(Protocol):
    """What a world offers beside, where its equations can be differentiated: a System."""

    def acceleration(self, t: Any, q: Any, v: Any) -> Any:
        """M(q)^-1 f(t, q, v)."""
        ...

    def normals(self, t: Any, q: Any) -> Any:
        """Gaps and joints, their gradients and rates."""
        ...


@runtime_checkable
class Result(Protocol):
    """What ``solve`` returns: arrays over records, and what certifies them."""

    t: Any  # (n,)
    certified_by: str | None  # module:function; None: as the motion of a System


@runtime_checkable
class Stepped(Protocol):
    """What a world of NumPy arrays offers beside, for its runs."""

    format: str  # the ending of its files, where a name does not say

    def observer(self, clock: Any) -> "Observer":
        """What adds up and records what happens."""
        ...

    def running(self) -> Any:
        """A context for as long as a run lasts."""
        ...

    def check_start(self, scheme: Any, t0: float) -> None:
        """Refuse an initial state that is not admissible."""
        ...

    def struck(self, state: Any, contacts: Any, lam: Any) -> Any:
        """The state that a run starts from, after the impulses lam of an impact at t0."""
        ...

    def gone_on(self, before: Any, scheme: Any, t: float) -> tuple[Any, Any, Any]:
        """q, v and memory at the end of the solution ``before``."""
        ...

    def parts(self, t0: float) -> dict[str, Any]:
        """What must be the same for a run to go on, by name."""
        ...

    def about(self, residual: float, iterations: int) -> str:
        """What to say of a run that failed."""
        ...


@runtime_checkable
class Neighbours(Protocol):
    """Which bodies are near each other (kernels/numba/neighbours.py)."""

    def sort_into_cells(self, x: Any, level: Any, *cells: Any) -> Any:
        """The first entry of each bucket, the bodies in the order of their cells, their cells."""
        ...

    def find_pairs(self, x: Any, r: Any, order: Any, *cells: Any) -> Any:
        """The first entry of each body, and its partners: every pair within reach, once."""
        ...

    def around(self, chosen: Any, x: Any, a: Any, *where: Any) -> Any:
        """The first entry of each chosen body, and its partners among all."""
        ...

    def renewed(self, start: Any, second: Any, chosen: Any, *around: Any) -> Any:
        """A list with other pairs of the chosen bodies."""
        ...

    def turned(self, start: Any, second: Any) -> Any:
        """A list whose pairs are each listed by the body of smaller index."""
        ...

    def by_slab(self, first: Any, second: Any, slab: Any, *where: Any) -> Any:
        """Pairs in the order of their slabs, and the first of each slab."""
        ...

    def carry_over(self, *lists: Any) -> None:
        """The values of pairs that an old list has too, into those of a new one."""
        ...

    def farthest(self, x: Any, y: Any, *reach: Any) -> float:
        """By how much a body may have gone beyond what a list covers; nan if anything is."""
        ...


@runtime_checkable
class Rows(Protocol):
    """Gaps of pairs and walls, and their gradients (kernels/numba/rows.py)."""

    def count_rows(self, x: Any, r: Any, reach: Any, *where: Any) -> Any:
        """(S + 1,) how many gaps of each slab are within reach, summed up."""
        ...

    def fill_rows(self, x: Any, at: Any, r: Any, reach: Any, *where: Any) -> None:
        """Bodies, sources, normals and gaps of the rows that were counted."""
        ...

    def closed_beyond(self, x: Any, r: Any, reach: Any, wider: Any, *where: Any) -> int:
        """How many gaps between two reaches a motion may close."""
        ...

    def measure(self, x: Any, r: Any, i: Any, j: Any, source: Any, *where: Any) -> None:
        """The gaps of rows at x, from their definition."""
        ...

    def relative_velocity(self, i: Any, j: Any, normal: Any, v: Any, w: Any) -> None:
        """w = n . (v_j - v_i)."""
        ...


@runtime_checkable
class Sweeps(Protocol):
    """The projection over rows, without friction or with it (kernels/numba/projection.py)."""

    def push(self, start: Any, i: Any, j: Any, normal: Any, *given: Any) -> None:
        """u += M^-1 G^T lam."""
        ...

    def accelerated_gauss_seidel(self, start: Any, i: Any, j: Any, normal: Any, *given: Any) -> Any:
        """From a guess of lam, which is overwritten: u, its measured residual, and sweeps."""
        ...


@runtime_checkable
class Kernels(Protocol):
    """A backend: rooms of functions of flat arrays, of the same bits however many threads run.

    Indices are 32 bits, numbers 64; results go into arrays that are given, where their size is
    known, so that a backend may keep what it is given where it computes.
    """

    neighbours: Neighbours
    rows: Rows
    projection: Sweeps
    sliding: Sweeps


@runtime_checkable
class Observer(Protocol):
    """What of a run is recorded: sums between records, and the records (spheres/observer.py)."""

    def struck(self, state: Any, contacts: Any, lam: Any, residual: Any) -> None:
        """An impact at the start."""
        ...

    def stands(self, state: Any) -> None:
        """The run goes on from the end of another."""
        ...

    def of_step(self, before: Any, state: Any, report: Any) -> Any:
        """What a step did, for ``add``; asked before records inside of it are made."""
        ...

    def add(self, found: Any) -> None:
        """One more step."""
        ...

    def verdict(self) -> Any:
        """The status of a run that reached its end: whether all of it was solved as asked."""
        ...

    def record(self, step: int, t: float, q: Any, v: Any) -> dict[str, Any]:
        """A record by the names of its fields (carom/fields.py); sums begin anew."""
        ...

    def ragged(self, name: str) -> bool:
        """Whether a field has another size at each record."""
        ...

    def tree(self, inside: bool) -> Any:
        """All that it holds, as arrays; ``inside``: whether a record lies inside the next step."""
        ...

    def restore(self, tree: Any) -> None:
        """Put it where it was."""
        ...

    def most_bytes(self, inside: bool) -> int:
        """By how much a dump of a run may grow."""
        ...

    def stats(self, state: Any) -> dict[str, Any]:
        """What was done, beside steps, iterations and residual."""
        ...

    def told(self, state: Any) -> str:
        """For the line of progress."""
        ...

    def solution(self, course: Any, t: Any, rows: dict[str, Any]) -> Any:
        """Of what was kept."""
        ...


@runtime_checkable
class Course(Protocol):
    """A run in progress, which run/drive.py moves: run/compiled.py, run/stepped.py."""

    world: Any
    scheme: Any
    steps: int
    total: int  # records, if all goes well

    @property
    def step(self) -> int:
        """How far it is."""
        ...

    @property
    def ended(self) -> bool:
        """Whether nothing is left to do."""
        ...

    def start(self) -> None:
        """Put it at its start."""
        ...

    def first_records(self) -> Any:
        """A drive.Piece of what there is before the first step."""
        ...

    def advance(self) -> Any:
        """The next drive.Piece."""
        ...

    def rest(self) -> Any:
        """A drive.Piece of what is left when it has ended."""
        ...

    def saved(self) -> bytes:
        """All that the rest of it depends on (carom/dump.py)."""
        ...

    def restore(self, data: bytes) -> None:
        """Put it where it was."""
        ...

    @property
    def room(self) -> int:
        """How long ``saved`` can be."""
        ...

    def settings(self) -> dict[str, Any]:
        """What a file says of it."""
        ...

    def parts(self) -> dict[str, Any]:
        """What must be the same to go on, by name: its fingerprint."""
        ...

    def times(self, at: Any) -> Any:
        """Of records that lie ``at`` so many steps from its start."""
        ...

    def solution(self, at: Any, rows: dict[str, Any], impacts: Any) -> Any:
        """Of what was kept."""
        ...

    def failure(self, solution: Any, record: Any) -> Exception:
        """For a run that stopped on the way."""
        ...


@runtime_checkable
class Store(Protocol):
    """Where records go: memory (run/drive.py: Kept), or a file that is open for writing."""

    def add(self, piece: Any, course: Any) -> None:
        """One more drive.Piece, and behind it the state of the run."""
        ...

    def solution(self, course: Any) -> Any:
        """What was kept, and how the run ended."""
        ...

    def close(self) -> None:
        """Release the file."""
        ...


@runtime_checkable
class Format(Protocol):
    """A kind of file, in the list of io/formats.py."""

    @staticmethod
    def holds(world: Any) -> bool:
        """Whether files can hold such a world."""
        ...

    @staticmethod
    def start(path: Any, course: Any, description: str) -> Store:
        """A new file."""
        ...

    @staticmethod
    def resume(path: Any, course: Any) -> Store | None:
        """An old file of the same run, which puts ``course`` where it was; None: from the start."""
        ...

    @staticmethod
    def load(path: Any, pile: Any = None) -> Any:
        """The solution in a file."""
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
