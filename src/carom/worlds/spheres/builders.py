"""Usual ways to start, each a Spheres; what they are given besides goes to Spheres."""

import math

import numpy as np

from carom.errors import ConvergenceError, ShapeError
from carom.worlds.spheres.given import numbers
from carom.worlds.spheres.model import Spheres
from carom.worlds.spheres.relax import relax
from carom.worlds.spheres.walls import Box, Cylinder, Obstacles, Panel, Plane

_GROWTH = 0.1  # of random spheres at once, in final radii ...
_LEAST_GROWTH = 1e-4  # ... and when it is given up


def lattice(
    shape, radius, *, spacing: float | None = None, jitter: float = 0.0, seed=0, **options
) -> Spheres:
    """A square or cubic lattice of ``shape`` spheres, from ``spacing`` / 2 on in each direction.

    Parameters
    ----------
    shape
        (2,) or (3,) numbers of spheres, along x, y (and z); N is their product.
    radius
        A number or (N,) [m], the first axis of the shape running fastest.
    spacing
        From centre to centre [m], at least two radii and two jitters.  None: touching.
    jitter
        Each sphere is moved by up to so much in each direction [m].
    seed
        Of the jitter, a whole number.
    **options
        What Spheres takes besides: gravity, walls, restitution, ...
    """
    widest = float(np.max(numbers(radius, "radius")))
    if not widest > 0.0:
        raise ShapeError(f"radius is {radius}: every radius must be positive")
    spacing = 2.0 * widest if spacing is None else spacing
    if spacing < 2.0 * (widest + jitter) * (1.0 - 1e-12):
        raise ShapeError(
            f"spacing {spacing:g} is less than two radii and two jitters, "
            f"{2.0 * (widest + jitter):g}: spheres would overlap"
        )
    grid = np.stack(np.meshgrid(*(np.arange(n) for n in shape), indexing="ij"), axis=-1)
    order = np.lexsort(grid.reshape(-1, len(shape)).T)  # layer by layer, the last axis slowest
    x = (grid.reshape(-1, len(shape))[order] + 0.5) * spacing
    x = x + jitter * np.random.default_rng(seed).uniform(-1.0, 1.0, x.shape)
    return Spheres(x, radius, **options)


def random(
    N: int,
    fraction: float,
    *,
    radius=1.0,
    dimension: int = 3,
    periodic: bool = True,
    seed=0,
    **options,
) -> Spheres:
    """N spheres at random in a cubic box, at a packing fraction, none overlapping.

    Points at random grow to their radii; what overlaps on the way is pushed apart.

    Parameters
    ----------
    N
        The spheres.
    fraction
        Of the box that they fill, up to 0.6, in two dimensions 0.8.
    radius
        A number or (N,) [m].
    dimension
        2 or 3.
    periodic
        True: the box repeats; False: it has walls.
    seed
        Of the points, a whole number.
    **options
        What Spheres takes besides: velocity, restitution, ...
    """
    r = np.broadcast_to(np.asarray(radius, float), (N,))
    solid = np.sum(math.pi * r**2 if dimension == 2 else 4.0 / 3.0 * math.pi * r**3)
    dense = 0.8 if dimension == 2 else 0.6
    if not 0.0 < fraction <= dense:
        raise ShapeError(f"fraction is {fraction}; random spheres reach up to {dense}")
    side = (solid / fraction) ** (1.0 / dimension)
    widest = 2.0 * np.sum(np.sort(r)[-2:])
    if periodic and side < 1.01 * widest:
        short = (1.01 * widest / side) ** dimension
        raise ShapeError(
            f"{N} spheres at a fraction of {fraction:g} are in a box of side {side:.3g}, where the "
            f"two largest could meet through two images at once: they need {widest:.3g}. Take "
            f"{math.ceil(N * short)} or more spheres of these sizes, a fraction of "
            f"{math.floor(1e3 * fraction / short) / 1e3:g} or less, or periodic=False"
        )
    room = r[:, None] if not periodic else 0.0
    x = room + (side - 2.0 * room) * np.random.default_rng(seed).uniform(size=(N, dimension))
    box = {"periodic": [side] * dimension} if periodic else {}
    walls = [*options.pop("walls", ())]
    if not periodic:
        walls = [Box(np.zeros(dimension), np.full(dimension, side)), *walls]
    x = _grown(x, r, {"walls": walls, **box})
    return Spheres(x, r, walls=walls, **box, **options)


def _grown(x, r, where):
    """The points, pushed apart while spheres grow around them to their radii.

    And beyond, by a little more than the tolerance here: none overlap, whatever tolerance follows.
    """
    size, growth, full = 0.0, _GROWTH, 1.0 + 4e-6
    while size < full:
        larger = min(full, size + growth)
        try:
            pile = Spheres(x, larger * r, iterations=2_000, tolerance=1e-6, **where)
            x, size = relax(pile, largest=np.inf).position, larger
        except ConvergenceError:  # too much at once
            growth /= 2.0
            if growth < _LEAST_GROWTH:
                raise
    return x


def column(N: int, radius=0.5, *, dimension: int = 3, gravity: float = 9.81, **options):
    """N spheres one on the other on a floor; the i-th of equal ones is at the height r (2 i - 1).

    Parameters
    ----------
    N
        The spheres.
    radius
        A number or (N,) [m].
    dimension
        2 or 3; the last coordinate is the height.
    gravity
        A number [m/s^2], downwards.
    **options
        What Spheres takes besides: restitution, friction, ...
    """
    x = np.zeros((N, dimension))
    each = numbers(radius, "radius")
    if each.shape not in ((), (N,)):
        raise ShapeError(f"radius has shape {each.shape}; it must be a number or ({N},)")
    one = np.arange(1, N + 1)
    x[:, -1] = each * (2.0 * one - 1.0) if each.ndim == 0 else np.cumsum(2.0 * each) - each
    up = np.eye(dimension)[-1]
    floor = Plane(np.zeros(dimension), up)
    return Spheres(x, radius, walls=[floor], gravity=-gravity * up, **options)


def hopper(
    N: int,
    radius: float,
    *,
    opening: float,
    width: float,
    slope: float = 1.0,
    gravity: float = 9.81,
    seed=0,
    **options,
) -> Spheres:
    """N spheres above a square funnel that is open below; z = 0 is the level of its opening.

    Spheres that have left fall for ever.

    Parameters
    ----------
    N
        The spheres.
    radius
        A number [m].
    opening
        Side of the hole [m], more than a diameter.
    width
        Side of the shaft above [m], more than the opening.
    slope
        Rise of the funnel's sides over their run.
    gravity
        A number [m/s^2], downwards.
    seed
        Of small shifts of the start, a whole number.
    **options
        What Spheres takes besides: restitution, friction, ...
    """
    if not 2.0 * radius < opening < width:
        raise ShapeError(
            f"opening {opening:g} must lie between a diameter, {2 * radius:g}, and width {width:g}"
        )
    low, half = opening / 2.0, width / 2.0
    rise = slope * (half - low)
    walls = []
    for axis in (0, 1):
        across = np.eye(3)[1 - axis]
        for side in (-1.0, 1.0):
            corner = side * low * np.eye(3)[axis] - half * across
            edge = side * (half - low) * np.eye(3)[axis] + np.array([0.0, 0.0, rise])
            walls.append(Panel(corner, edge, width * across))
    shaft = Box((-half, -half, -np.inf), (half, half, np.inf))
    spacing = 2.2 * radius
    per = max(1, int((width - 2.0 * radius) / spacing) + 1)
    k = np.arange(N)
    x = np.stack([k % per, k // per % per, k // per**2], axis=1) * spacing
    x[:, :2] -= (per - 1) * spacing / 2.0
    x[:, 2] += rise + 2.0 * radius
    shake = min(0.09 * radius, max(0.0, half - radius - (per - 1) * spacing / 2.0))
    x += np.random.default_rng(seed).uniform(-shake, shake, x.shape)
    return Spheres(x, radius, walls=[*walls, shaft], gravity=(0.0, 0.0, -gravity), **options)


def drum(
    N: int,
    radius: float,
    *,
    drum_radius: float,
    turn: float,
    ribs: int = 8,
    rib_spheres: int = 3,
    length: float | None = None,
    gravity: float = 9.81,
    seed=0,
    **options,
) -> Spheres:
    """N spheres in a drum about the y axis, whose ribs turn.

    A smooth drum could not take frictionless spheres along: rows of obstacles, ``ribs``, do.
    Space repeats along y.

    Parameters
    ----------
    N
        The spheres.
    radius
        A number [m], that of the obstacles too.
    drum_radius
        Inner radius of the drum [m].
    turn
        Angular velocity of the ribs [rad/s], from x towards z.
    ribs
        Rows of obstacles.
    rib_spheres
        Obstacles in a row, from the wall inwards.
    length
        Period along y [m].  None: 6 diameters.
    gravity
        A number [m/s^2], against z.
    seed
        Of small shifts of the start, a whole number.
    **options
        What Spheres takes besides: restitution, friction, ...
    """
    length = 12.0 * radius if length is None else length
    across = max(1, int(length / (2.0 * radius)))
    inward = drum_radius - radius * (2.0 * np.arange(rib_spheres) + 1.0)
    y = (np.arange(across) + 0.5) * length / across
    phase, r, y = (a.ravel() for a in np.meshgrid(2 * math.pi * np.arange(ribs) / ribs, inward, y))

    def ribs_at(t):
        angle = phase + turn * t
        return np.stack([r * np.cos(angle), y, r * np.sin(angle)], axis=1)

    x = _inside(N, 2.1 * radius, drum_radius - 2.2 * radius * (rib_spheres + 0.5), length, seed)
    return Spheres(
        x,
        radius,
        walls=[Cylinder((0, 0, 0), (0, 1, 0), drum_radius), Obstacles(ribs_at, radius)],
        gravity=(0.0, 0.0, -gravity),
        periodic=(None, length, None),
        **options,
    )


def _inside(N, spacing, reach, length, seed):
    """N points of a lattice in a cylinder about y, from below."""
    count = max(1, int(length / spacing))
    n = int(reach / spacing)
    line = np.arange(-n, n + 1) * spacing
    z, x, y = (
        a.ravel()
        for a in np.meshgrid(line, line, (np.arange(count) + 0.5) * length / count, indexing="ij")
    )
    kept = np.hypot(x, z) <= reach
    if np.count_nonzero(kept) < N:
        raise ShapeError(
            f"{N} spheres do not fit into the drum; {np.count_nonzero(kept)} would: make it larger"
        )
    points = np.stack([x, y, z], axis=1)[kept][:N]
    return points + 0.02 * spacing * np.random.default_rng(seed).uniform(-1, 1, points.shape)
