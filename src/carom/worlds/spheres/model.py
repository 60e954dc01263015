"""Spheres: many bodies, and what they are made of."""

import copy
import operator
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np

from carom import errors, kernels
from carom.arguments import suggesting
from carom.shown import number_text, table_html
from carom.worlds.spheres import materials
from carom.worlds.spheres.given import asked, at_time, numbers
from carom.worlds.spheres.walls import Walls, Within, known


class Spheres:
    """Spheres (disks in two dimensions) with contacts that only push.

        m_i dv_i = (m_i gravity + force_i) dt + sum of contact impulses,    gaps >= 0
        gap of two spheres: |x_i - x_j| - r_i - r_j

    With friction contacts also hold, by Coulomb's law at the points of contact, and spheres spin:

        I_i dw_i = sum of r_i n_i x contact impulses, and couples that resist rolling and twisting

    Parameters
    ----------
    position
        (N, 2) or (N, 3) [m].
    radius
        A number or (N,) [m], or a function of t that returns either.
    velocity
        (N, d) [m/s]; None: at rest.
    mass
        A number or (N,) [kg]; None: 1 each.
    walls
        carom.Plane and what else is in carom.spheres: Box, Cylinder, Shell, Panel, Obstacles.
    gravity
        (d,) [m/s^2]; None: none.
    force
        ``force(t, x, v) -> (N, d)`` [N], or (d,) for all alike, beside gravity; x and v cannot be
        written to.
    restitution
        e in [0, 1], for all contacts; a function of the speed of an impact, (p,) of (p,) [m/s]; or
        a table of either by pairs of materials, ``{("steel", "glass"): 0.3, None: 0.5}``, the same
        both ways round, None for the pairs that are not there.
    friction
        mu >= 0, for all contacts, or a table by pairs of materials.  Moreau and Maury move spheres
        with friction.
    rolling
        Resistance to rolling, >= 0: the largest couple of a contact, over its normal force, in
        effective radii R, 1/R = 1/r_i + 1/r_j, with a wall R = r_i.  A ball rests on slopes of up
        to this tangent.  A number, or a table by pairs of materials.  It needs friction.
    twisting
        Likewise against spinning about the normal; balls alone.
    material
        A name, or one for each sphere; walls have their own.  None: none.
    glue
        True: contacts hold until they are pulled as much as they were pushed (e = 0, no friction,
        Maury).
    spin
        w (N, 3), in two dimensions (N,) [rad/s]; None: none.  Given, spheres spin also if mu = 0.
    inertia
        A number or (N,) [kg m^2]; None: of balls, 2/5 m r^2, or discs, 1/2 m r^2, with the radii at
        the start.
    periodic
        The period of each direction (d,) [m], None where space does not repeat.
    tolerance
        The largest overlap at the end of a step, in smallest radii; 300 times it is what velocities
        may be off by, of the change that contacts make to them in a step
        (kernels/numba/projection.py, (4)).
    iterations
        The most sweeps that one projection may take.

    Examples
    --------
    >>> import carom
    >>> pile = carom.Spheres(
    ...     position=[[0.0, 0.0, 0.5], [0.1, 0.0, 1.6]],
    ...     radius=0.5,
    ...     walls=[carom.Plane(point=(0, 0, 0), normal=(0, 0, 1))],
    ...     gravity=(0, 0, -9.81),
    ... )
    >>> sol = carom.solve(pile, carom.Maury(), t1=0.5, dt=1e-2)
    >>> sol.x.shape, bool(sol.stats.overlap < 1e-6)
    ((51, 2, 3), True)
    """

    @suggesting
    def __init__(
        self,
        position: Any,
        radius: Any,
        velocity: Any = None,
        mass: Any = None,
        walls: Any = (),
        gravity: Any = None,
        restitution: Any = 0.0,
        periodic: Any = None,
        *,
        friction: Any = 0.0,
        rolling: Any = 0.0,
        twisting: Any = 0.0,
        material: Any = None,
        glue: bool = False,
        spin: Any = None,
        inertia: Any = None,
        force: Callable[..., Any] | None = None,
        tolerance: float = 1e-6,
        iterations: int = 20_000,
    ) -> None:
        x = numbers(position, "position")
        if x.ndim != 2 or x.shape[1] not in (2, 3) or len(x) == 0:
            raise errors.ShapeError(f"position has shape {x.shape}; it must be (N, 2) or (N, 3)")
        N, d = x.shape
        self.position = _finite("position", x)  # (N, d) [m]
        self.velocity = _finite("velocity", _velocity(velocity, N, d))  # (N, d) [m/s]
        self.radius = radius if callable(radius) else _scalars("radius", radius, N)
        self.mass = _scalars("mass", 1.0 if mass is None else mass, N)  # (N,) [kg]
        self.walls = Walls(walls)
        self.gravity = _finite("gravity", _gravity(gravity, d))  # (d,) [m/s^2]
        self.period = _period(periodic, d)  # (d,) [m], 0 where space does not repeat
        if force is not None and not callable(force):
            raise errors.ShapeError(f"force must be a function of (t, x, v), not {force!r}")
        self.force, self.material = force, materials.labels(material, N)
        self.restitution = materials.coefficient("restitution", restitution)
        self.friction = materials.coefficient("friction", friction)
        self.rolling = materials.coefficient("rolling", rolling)
        self.twisting = _twisting(materials.coefficient("twisting", twisting), d)
        materials.check_pairs(self)
        _check_resistance(self)
        self.spins = self.rubs or spin is not None  # whether the state has a spin
        self.glue = _glue(glue, self)
        self.spin = _finite("spin", _spin(spin, N, d))  # (N, 3) or (N,) [rad/s]
        self.given_inertia = None if inertia is None else _scalars("inertia", inertia, N)
        self.tolerance, self.iterations = _tolerance(tolerance), _count("iterations", iterations)
        self.start = 0.0  # [s], when a run of it begins; matters where something depends on time
        if not (self.walls.moving or self.walls.drifting):
            self.walls.check(self.period, self.start)

    @cached_property
    def smallest(self) -> float:
        """[m] The smallest radius at the start, the unit of tolerances."""
        return float(np.min(self.radius_at(self.start)))

    @property
    def coefficients(self) -> tuple:
        """Restitution, friction and resistance, as they are given."""
        return self.restitution, self.friction, self.rolling, self.twisting

    @property
    def rubs(self) -> bool:
        """Whether a contact may have friction."""
        return materials.most(self.friction) > 0.0

    @property
    def rolls(self) -> bool:
        """Whether a contact may resist rolling or twisting."""
        return max(materials.most(self.rolling), materials.most(self.twisting)) > 0.0

    @property
    def bounces(self) -> bool:
        """Whether a contact may have restitution."""
        return materials.most(self.restitution) > 0.0

    @property
    def inertia(self) -> np.ndarray:
        """(N,) [kg m^2] about any axis through the centre."""
        if self.given_inertia is not None:
            return self.given_inertia
        part = 0.5 if self.dimension == 2 else 0.4
        return part * self.mass * self.radius_at(self.start) ** 2

    # What ``solve`` asks of it.

    format = ".vtkhdf"  # of its files
    usual = "Maury"  # scheme, where a run file does not say
    records = 100  # about so many where nothing is said

    def waits(self) -> str:
        """The kernels, where none are kept from a run before."""
        first = "compiling the kernels of spheres: half a minute, the first time only"
        return "" if kernels.compiled.kept() else first

    def world(self, t0: float, t1: float, dt: float) -> Any:
        """The world of one run."""
        from carom.worlds.spheres.world import World

        return World(self.during(t0, t1), dt)

    def initial(self, q0, v0) -> tuple[np.ndarray, np.ndarray]:
        """Positions (N, 3) and velocities (N, 3), (N, 6) with spin: they are its own."""
        from carom.worlds.spheres.checks import wide, with_spin

        if q0 is not None or v0 is not None:
            raise errors.ShapeError("Spheres carry their own state: leave q0 and v0 out")
        return wide(self.position), with_spin(self, wide(self.velocity))

    def check(self, scheme, record) -> None:
        """Refuse options that are of Systems, and friction under a scheme that has none."""
        from carom.worlds.spheres.checks import check_options

        check_options(self, scheme, record)

    def functions(self) -> Iterator[str]:
        """Names of its arguments that are functions, which no file can hold."""
        if callable(self.radius):
            yield "radius"
        if self.force is not None:
            yield "force"
        if any(callable(e) for e in materials.values(self.restitution)):
            yield "restitution"
        for k, wall in enumerate([*self.walls.walls, *self.walls.obstacles]):
            if not known(wall):
                yield f"walls[{k}], a {type(wall).__name__}"
            yield from (f"walls[{k}].{name}" for name, v in vars(wall).items() if callable(v))

    def during(self, t0: float, t1: float) -> "Spheres":
        """The same for a run from t0 to t1: its functions of time are asked within [t0, t1] only.

        Where a scheme looks beyond (a rate at an end, a mean position), they go straight on.
        """
        bound = copy.copy(self)
        bound.__dict__.pop("smallest", None)
        bound.start = float(t0)
        if callable(self.radius):
            bound.radius = Within(self.radius, float(t0), float(t1))
        bound.walls = self.walls.during(float(t0), float(t1))
        bound.walls.check(self.period, float(t0))
        bound.radius_at(t0)
        return bound

    @property
    def dimension(self) -> int:
        """2 or 3."""
        return self.position.shape[1]

    def __len__(self) -> int:
        """N."""
        return len(self.position)

    def __repr__(self) -> str:
        mu = f", mu={materials.text(self.friction)}" if self.spins else ""
        e, glue = materials.text(self.restitution), ", glue" * self.glue
        for name in ("rolling", "twisting") if self.rolls else ():
            mu += f", {name}={materials.text(getattr(self, name))}"
        return f"Spheres(N={len(self)}, dimension={self.dimension}, e={e}{mu}{glue})"

    def _repr_html_(self) -> str:
        walls = [*self.walls.walls, *self.walls.obstacles]
        rows = {
            "radius": (_span(self.radius_at(self.start)), "m"),
            "mass": (_span(self.mass), "kg"),
            "gravity": (number_text(self.gravity), "m/s^2"),
            "restitution": (materials.text(self.restitution), ""),
            "friction": (materials.text(self.friction), ""),
            "rolling": (materials.text(self.rolling), "radii"),
            "twisting": (materials.text(self.twisting), "radii"),
            "walls": (", ".join(type(w).__name__ for w in walls) or "none", ""),
            "periodic": (", ".join(f"{p:.4g}" if p else "no" for p in self.period), "m"),
        }
        return table_html(repr(self), ("", "", ""), [(k, *x) for k, x in rows.items()])

    def radius_at(self, t: float) -> np.ndarray:
        """(N,) radii at time t."""
        if not callable(self.radius):
            return self.radius
        return _scalars("radius", at_time(self.radius, t, "radius"), len(self))

    def force_at(self, t: float, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """The force of the user (N, d) or (d,) [N], who may look at the state but not change it."""
        seen = [x[:, : self.dimension].view() for x in (q, v)]
        for x in seen:
            x.flags.writeable = False
        found = numbers(asked(self.force, "force", t, *seen), "force(t, x, v)")
        wide = (len(self), self.dimension)
        none = found.ndim == 0 and found == 0.0
        if found.shape not in (wide, (1, *wide[1:]), wide[1:]) and not none:
            raise errors.ShapeError(
                f"force(t, x, v) has shape {found.shape} at t = {t:g}; it must be {wide}"
            )
        return found

    def replaced(self, **changes: Any) -> "Spheres":
        """The same with some arguments changed."""
        walls = [*self.walls.walls, *self.walls.obstacles]
        kept = {
            "position": self.position,
            "radius": self.radius,
            "velocity": self.velocity,
            "mass": self.mass,
            "walls": walls,
            "gravity": self.gravity,
            "restitution": self.restitution,
            "friction": self.friction,
            "rolling": self.rolling,
            "twisting": self.twisting,
            "material": self.material,
            "glue": self.glue,
            "spin": self.spin if self.spins else None,
            "inertia": self.given_inertia,
            "periodic": self.period,
            "force": self.force,
            "tolerance": self.tolerance,
            "iterations": self.iterations,
        }
        return Spheres(**(kept | changes))


def _span(values) -> str:
    """A number, or from the smallest to the largest."""
    low, high = float(np.min(values)), float(np.max(values))
    return f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"


def _finite(name, value):
    if not np.all(np.isfinite(value)):
        bad = np.argwhere(~np.isfinite(value))[0]
        raise errors.NonFiniteError(
            f"{name}{bad.tolist()} is {value[tuple(bad)]}: it must be finite"
        )
    return value


def _vectors(name, value, shape):
    if value is None:
        return np.zeros(shape)
    found = numbers(value, name)
    try:
        return np.array(np.broadcast_to(found, shape))
    except ValueError:
        raise errors.ShapeError(f"{name} has shape {found.shape}; it must be {shape}") from None


def _velocity(value, N, d):
    found = _vectors("velocity", value, (N, d))
    if value is not None and np.any(found) and np.shape(value) not in ((N, d), (1, d), (d,)):
        raise errors.ShapeError(f"velocity has shape {np.shape(value)}; it must be {(N, d)}")
    return found


def _gravity(value, d):
    found = _vectors("gravity", value, (d,))
    if value is not None and np.shape(value) != (d,) and np.any(found):
        example = (0.0,) * (d - 1) + (float(np.ravel(found)[0]),)
        raise errors.ShapeError(
            f"gravity is {value!r}; it must be a vector of {d} numbers, such as {example}"
        )
    return found


def _glue(value, pile):
    if value not in (True, False):
        raise errors.KindError(f"glue is {value!r}; it must be True or False")
    if value and pile.bounces:
        what = materials.text(pile.restitution)
        raise errors.RestitutionError(
            f"restitution is {what} with glue, which is inelastic: make it 0"
        )
    if value and pile.spins:
        raise errors.FrictionError(
            "glue and friction together have no law here: leave one of them, and spin, out"
        )
    return bool(value)


def _twisting(value, d):
    if d == 2 and materials.most(value) > 0.0:
        raise errors.FrictionError(
            f"twisting is {materials.text(value)} in two dimensions, where disks cannot spin about "
            "the normal of a contact: leave it out; rolling is what resists their turning"
        )
    return value


def _check_resistance(pile):
    """Refuse couples at contacts that do not hold."""
    for name in ("rolling", "twisting") if pile.rolls and not pile.rubs else ():
        given = getattr(pile, name)
        if materials.most(given) > 0.0:
            raise errors.FrictionError(
                f"{name} is {materials.text(given)} without friction, and a contact that does not "
                "hold does not roll: give friction=..., or leave it out"
            )


def _spin(value, N, d):
    shape = (N, 3) if d == 3 else (N,)
    if value is not None and d == 2 and np.ndim(value) > 1:
        raise errors.ShapeError(
            f"spin has shape {np.shape(value)}; disks turn in their plane, so that it is {shape}"
        )
    if value is not None and d == 3 and np.shape(value)[-1:] != (3,) and np.any(value):
        raise errors.ShapeError(f"spin has shape {np.shape(value)}; it must be {shape}")
    return _vectors("spin", value, shape)


def _tolerance(value):
    found = numbers(value, "tolerance")
    if found.shape != () or not 0.0 < found < 1.0:
        raise errors.ShapeError(
            f"tolerance is {value!r}; it must be positive, a part of a radius, such as 1e-6"
        )
    return float(found)


def _count(name, value):
    try:
        found = operator.index(value)
    except TypeError:
        found = 0
    if found < 1:
        raise errors.ShapeError(f"{name} is {value!r}; it must be a whole number, 1 or more")
    return found


_LIGHTEST = 1e-150  # [kg], of an inertia [kg m^2]


def _scalars(name, value, N):
    found = _vectors(name, value, (N,))
    if not np.all(found > 0.0) or not np.all(np.isfinite(found)):
        worst = int(np.argmin(np.where(np.isfinite(found), found, -np.inf)))
        kind = errors.MassError if name == "mass" else errors.ShapeError
        raise kind(f"{name}[{worst}] is {found[worst]}: every {name} must be positive and finite")
    if name in ("mass", "inertia") and not np.all((found > _LIGHTEST) & (found < 1.0 / _LIGHTEST)):
        worst = int(np.argmax(np.abs(np.log(found))))
        raise errors.MassError(
            f"{name}[{worst}] is {found[worst]}: its square or the inverse of that would be no "
            "number; take another unit"
        )
    return found


def _period(periodic, d):
    if periodic is None:
        return np.zeros(d)
    told = f"periodic is {periodic!r}; give one period per direction, None where there is none"
    several = isinstance(periodic, list | tuple) or (
        isinstance(periodic, np.ndarray) and periodic.ndim > 0
    )
    given = list(periodic) if several else [periodic] * d
    if len(given) != d or any(isinstance(p, list | tuple | np.ndarray) for p in given):
        raise errors.ShapeError(told)
    found = numbers([0.0 if p is None else p for p in given], "periodic")
    found = np.where(found == np.inf, 0.0, found)
    if not np.all((found >= 0.0) & np.isfinite(found)):
        raise errors.ShapeError(f"periodic is {periodic!r}; a period must be positive")
    return found
