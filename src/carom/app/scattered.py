"""What a TOML file says of spheres where Python would give arrays and functions of t.

    radius = {uniform = [0.8, 1.2], seed = 1}      from the first to the second
    radius = {normal = [1.0, 0.1]}                 mean and deviation; lognormal likewise
    radius = {shares = [[1.0, 0.7], [2.0, 0.3]]}   each radius with its share of the spheres
    mass = {density = 2500.0}                      of balls [kg/m^3], of discs [kg/m^2]
    velocity = {thermal = 0.3, seed = 2}           normal, each way; their mean is 0
    material = {shares = [["steel", 0.7], ["glass", 0.3]]}
    friction = {steel.glass = 0.3, others = 0.5}   by pairs of materials, as restitution,
                                                   rolling and twisting

and in [[walls]], for where the wall is (point, center, corner, position, low and high):

    moves = {velocity = [0, 0, 0.1], amplitude = [0, 0, 0.01], frequency = 5.0, phase = 0.0}
    x(t) = x + velocity t + amplitude sin(2 pi frequency t + phase)                              (1)
"""

import math
from dataclasses import dataclass

import numpy as np

PER_SPHERE = ("position", "radius", "velocity", "mass", "spin", "inertia")
_SIZES = {"uniform": 2, "normal": 2, "lognormal": 2, "shares": None}  # numbers of each
_MOST = 10_000_000  # spheres
_MOVES = ("velocity", "amplitude", "frequency", "phase")
_PLACES = ("point", "low", "high", "center", "corner", "position")  # of walls that move


def of_materials(file, name: str, parameters: dict) -> tuple[dict, dict]:
    """What a builder is given of materials, as Spheres take it; and the other parameters."""
    found, others = {}, dict(parameters)
    if isinstance(others.get("glue"), bool):
        found["glue"] = others.pop("glue")
    if "material" in others:
        found["material"] = _materials(file, name, others)
    for key in ("restitution", "friction", "rolling", "twisting"):
        if isinstance(others.get(key), dict):
            found[key] = _by_pairs(file, f"parameters.{key}", others.pop(key))
    return found, others


def _materials(file, name, others):
    key, given = "parameters.material", others.pop("material")
    if isinstance(given, dict):
        _, rows, random = _only(file, key, given, ("shares",))
        N, _ = _size(file, name, others)
        try:
            names = [str(a) for a, _ in rows]
            shares = [(1.0 + k, share) for k, (_, share) in enumerate(rows)]
        except (TypeError, ValueError):
            raise file.error(f"{key}.shares", f"is {rows!r}; a list of [name, share]") from None
        shares = _floats(file, f"{key}.shares", shares, (None, 2), "a list of [name, share]")
        return [names[int(k) - 1] for k in _shared(file, key, shares, N, random)]
    if not isinstance(given, str) and not (
        isinstance(given, list) and all(isinstance(a, str) for a in given)
    ):
        raise file.error(key, f"is {given!r}; it must be a name, or one for each sphere")
    return given


def _by_pairs(file, key, table) -> dict:
    """{("steel", "glass"): 0.3, None: 0.5} of {steel.glass = 0.3, others = 0.5}."""
    found: dict = {}
    for a, row in table.items():
        if a == "others":
            found[None] = float(_floats(file, f"{key}.others", row, (), "a number"))
            continue
        if not isinstance(row, dict):
            raise file.error(f"{key}.{a}", f"is {row!r}; name the other material: {a}.{a} = ...")
        for b, value in row.items():
            number = float(_floats(file, f"{key}.{a}.{b}", value, (), "a number"))
            if found.get((b, a), number) != number:
                raise file.error(f"{key}.{a}.{b}", f"is {value}, and {b}.{a} is another number")
            found[a, b] = number
    return found


def tables(file, name: str, parameters: dict) -> dict:
    """The parameters of a builder, those that are tables made to arrays."""
    made, where = dict(parameters), "parameters."
    if not any(isinstance(value, dict) for value in parameters.values()):
        return made
    N, d = _size(file, name, parameters)
    makers = {"radius": _radii, "velocity": _thermal, "mass": _masses}  # masses need the radii
    for key, make in makers.items():
        if isinstance(made.get(key), dict):
            made[key] = make(file, where + key, made[key], N, d, made).tolist()
    for key, value in made.items():
        if isinstance(value, dict):
            raise file.error(where + key, "is a table; only radius, velocity and mass may be one")
    return made


def _size(file, name, parameters) -> tuple[int, int]:
    """How many spheres, in how many dimensions."""
    key = {"lattice": "shape", "Spheres": "position"}.get(name, "N")
    given = parameters.get(key)
    try:
        if name == "lattice":
            N, d = math.prod(given), len(given)
        elif name == "Spheres":
            N, d = len(given), len(given[0])
        else:
            N, d = int(given), int(parameters.get("dimension", 3))
    except (TypeError, ValueError, IndexError, OverflowError):
        N, d = 0, 0
    if not 0 < N <= _MOST or d not in (2, 3):
        raise file.error(f"parameters.{key}", f"is {given!r}: how many spheres are there?")
    return N, d


def _only(file, key, table, names):
    """The one of ``names`` that is in a table, and its generator of random numbers."""
    file.known(table, (*names, "seed"), f"{key}.")
    kinds = [kind for kind in table if kind in names]
    if len(kinds) != 1:
        raise file.error(key, f"needs one of {', '.join(names)}")
    seed = table.get("seed", 0)
    if type(seed) is not int or seed < 0:
        raise file.error(f"{key}.seed", f"is {seed!r}; it must be a whole number, 0 or more")
    return kinds[0], table[kinds[0]], np.random.default_rng(seed)


def _floats(file, key, value, shape, what) -> np.ndarray:
    """Finite numbers of a shape; None in it: of any length."""
    try:
        found = np.array(value, float)
    except (TypeError, ValueError, OverflowError):
        found = np.full((), math.nan)
    fits = len(found.shape) == len(shape) and all(
        b is None or a == b for a, b in zip(found.shape, shape, strict=True)
    )
    if not fits or not np.all(np.isfinite(found)):
        raise file.error(key, f"is {value!r}; it must be {what}")
    return found


def _radii(file, key, table, N, d, made) -> np.ndarray:
    kind, value, random = _only(file, key, table, tuple(_SIZES))
    key = f"{key}.{kind}"
    if kind == "shares":
        rows = _floats(file, key, value, (None, 2), "a list of [radius, share]")
        return _shared(file, key, rows, N, random)
    a, b = _floats(file, key, value, (2,), "two numbers [m]")
    if kind == "uniform":
        found = random.uniform(a, b, N) if a <= b else np.array([-1.0])
    elif kind == "normal":
        found = random.normal(a, abs(b), N)
    else:
        wide = math.log1p((b / a) ** 2) if a > 0.0 else 0.0  # variance of the logarithm
        found = random.lognormal(math.log(a) - wide / 2.0, wide**0.5, N) if a > 0.0 else -np.ones(1)
    if not np.all(found > 0.0):
        raise file.error(
            key, f"is {value}: radii must be positive, and the first of uniform smaller"
        )
    return found


def _shared(file, key, rows, N, random) -> np.ndarray:
    """So many of each that their shares are nearest, in random order."""
    radius, share = rows.T
    if not (len(rows) and np.all(radius > 0.0) and np.all(share >= 0.0) and share.sum() > 0.0):
        raise file.error(key, f"is {rows.tolist()}: radii must be positive, shares not negative")
    ends = np.round(N * np.cumsum(share) / share.sum()).astype(int)
    return random.permutation(np.repeat(radius, np.diff(ends, prepend=0)))


def _thermal(file, key, table, N, d, made) -> np.ndarray:
    _, speed, random = _only(file, key, table, ("thermal",))
    speed = _floats(file, f"{key}.thermal", speed, (), "a speed [m/s]")
    if speed < 0.0:
        raise file.error(f"{key}.thermal", f"is {speed:g}; a speed [m/s] is 0 or more")
    v = speed * random.normal(size=(N, d))
    return v - v.mean(axis=0)


def _masses(file, key, table, N, d, made) -> np.ndarray:
    file.known(table, ("density",), f"{key}.")
    density = _floats(file, f"{key}.density", table.get("density"), (), "a number [kg/m^3]")
    r = np.broadcast_to(np.array(made.get("radius", math.nan), float), (N,))
    return density * (math.pi * r**2 if d == 2 else 4.0 / 3.0 * math.pi * r**3)


@dataclass(frozen=True)
class Moved:
    """A place that moves by (1)."""

    place: np.ndarray
    velocity: np.ndarray
    amplitude: np.ndarray
    frequency: float
    phase: float

    def __call__(self, t: float) -> np.ndarray:
        """Where it is."""
        angle = 2.0 * math.pi * self.frequency * t + self.phase
        return self.place + self.velocity * t + self.amplitude * math.sin(angle)


def moving(file, key: str, wall: dict, moves) -> dict:
    """The arguments of a wall, its places made to functions of t."""
    if not isinstance(moves, dict):
        raise file.error(
            key, "must be a table: moves = {velocity = [...]}, or amplitude, frequency"
        )
    file.known(moves, _MOVES, f"{key}.")
    places = {name: np.array(wall[name], float) for name in _PLACES if name in wall}
    d = min((x.shape[-1] for x in places.values()), default=3)
    vector, number = (d,), ()
    velocity, amplitude = (
        _floats(file, f"{key}.{n}", moves.get(n, [0.0] * d), vector, f"{d} numbers")
        for n in _MOVES[:2]
    )
    frequency, phase = (
        float(_floats(file, f"{key}.{n}", moves.get(n, 0.0), number, "a number"))
        for n in _MOVES[2:]
    )
    swings = bool(np.any(amplitude != 0.0))
    if swings != (frequency != 0.0):
        has, lacks = ("an amplitude", "frequency") if swings else ("a frequency", "amplitude")
        raise file.error(key, f"has {has} and no {lacks}: what swings needs both (frequency in Hz)")
    if not (swings or np.any(velocity != 0.0)):
        raise file.error(key, "moves nothing: give a velocity, or an amplitude and a frequency")
    return wall | {
        name: Moved(x, velocity, amplitude, frequency, phase) for name, x in places.items()
    }
