"""Coefficients of contacts: a number for all, by pairs of materials, or by the speed of an impact.

With a and b the materials of the two bodies of contact k, and w_k the normal velocity before it,

    mu_k = mu(a, b),        e_k = e(a, b)   or   e(a, b)(max(-w_k, 0))                        (1)
    l_k = rolling(a, b) R,  or twisting(a, b) R,     1/R = 1/r_i + 1/r_j, with a wall 1/r_i     (2)

all symmetric in a and b.  Where one number is for all of them nothing is looked up.
"""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from carom import errors
from carom.arguments import nearest_name
from carom.worlds.spheres.given import numbers

_SPEEDS = np.array([0.0, 1e-3, 1e-2, 0.1, 1.0])  # at which a function of them is tried at once
_NUMBER = {"restitution": "a number in [0, 1]", "friction": "a number mu >= 0"}
_KIND = {"restitution": errors.RestitutionError, "friction": errors.FrictionError}
for _name in ("rolling", "twisting"):  # resistance
    _NUMBER[_name], _KIND[_name] = "a number >= 0, a part of the radius", errors.FrictionError


def coefficient(name: str, given: Any) -> Any:
    """A number, a table by pairs of materials, or a function of speed, checked."""
    if isinstance(given, dict):
        return _table(name, given)
    if callable(given) and name == "restitution":
        of_speed(given, _SPEEDS)
        return given
    return _number(name, given, f"{name} is {given!r}", ", for all contacts, or a table by pairs")


def _number(name, given, what, more=""):
    try:
        found = numbers(given, name)
    except errors.ShapeError:
        found = np.array(np.nan)
    most = 1.0 if name == "restitution" else np.finfo(float).max
    if found.shape != () or not 0.0 <= found <= most:
        raise _KIND[name](f"{what}; it must be {_NUMBER[name]}{more}")
    return float(found)


def _table(name, given) -> dict:
    """Keys in alphabetic order; None: of the pairs that are not there."""
    found: dict = {}
    for key, value in given.items():
        pair = _pair(key)
        if key is not None and pair is None:
            raise _KIND[name](
                f"{name} has the key {key!r}; a key is a pair of materials, such as "
                f"('steel', 'glass'), or None for the pairs that are not there"
            )
        what = f"{name} of {key or 'other pairs'} is {value!r}"
        made = value
        if callable(value) and name == "restitution":
            of_speed(value, _SPEEDS)
        else:
            made = _number(name, value, what)
        if found.get(pair, made) != made:
            raise _KIND[name](
                f"{name} has {pair} both ways round, which is the same pair, with two values: "
                "leave one out"
            )
        found[pair] = made
    if not found:
        raise _KIND[name](f"{name} is a table without entries: give pairs, or one number")
    return found


def _pair(key) -> tuple[str, str] | None:
    """Two names in alphabetic order."""
    if not isinstance(key, tuple) or len(key) != 2 or not all(isinstance(a, str) for a in key):
        return None
    a, b = sorted(key)
    return a, b


def labels(given: Any, N: int) -> np.ndarray | None:
    """(N,) the materials of spheres; None where they have none."""
    if given is None:
        return None
    found = np.array([given] * N if isinstance(given, str) else list(_each(given)), object)
    if found.shape != (N,) or not all(isinstance(a, str) for a in found):
        raise errors.KindError(
            f"material is {given!r}; it must be a name, such as 'steel', or one for each of the "
            f"{N} spheres"
        )
    return found


def _each(given):
    try:
        return list(given)
    except TypeError:
        return [given]


def of_speed(function: Callable, speed: np.ndarray) -> np.ndarray:
    """(p,) e of impacts at ``speed`` (p,) [m/s], by a function of the user."""
    if not len(speed):
        return np.zeros(0)
    try:
        given = function(speed)
    except Exception as problem:
        raise errors.RunError(
            f"restitution(speed) raised {type(problem).__name__} for an array of "
            f"{len(speed)} speeds: {problem}"
        ) from problem
    found = numbers(given, "restitution(speed)")
    if found.shape not in ((), speed.shape):
        raise errors.ShapeError(
            f"restitution(speed) has shape {found.shape} for {len(speed)} speeds; it must be "
            f"{speed.shape}: take functions of arrays, such as np.minimum"
        )
    found = np.broadcast_to(found, speed.shape)
    if not np.all((found >= 0.0) & (found <= 1.0)):
        k = int(np.argmin((found >= 0.0) & (found <= 1.0)))
        raise errors.RestitutionError(
            f"restitution(speed) is {found[k]:g} at the speed {speed[k]:g}; it must lie in [0, 1] "
            "at every speed, 0 included: np.clip(..., 0, 1)"
        )
    return found


def values(given: Any) -> list:
    """All that a coefficient may be."""
    return list(given.values()) if isinstance(given, dict) else [given]


def most(given: Any) -> float:
    """The largest that it may be; of a function 1."""
    return max(1.0 if callable(value) else value for value in values(given))


def text(given: Any) -> str:
    """For a line about the pile."""
    if isinstance(given, dict):
        return "by materials"
    return "of speed" if callable(given) else f"{given:g}"


def listed(given: Any) -> list:
    """Numbers and names, for a fingerprint; what a function is, nobody can tell."""
    if not isinstance(given, dict):
        return ["function"] if callable(given) else [given]
    return [
        x
        for key in sorted(given, key=str)
        for x in (str(key), "function" if callable(given[key]) else given[key])
    ]


def names(pile) -> list[str]:
    """Of spheres and walls, one after the other."""
    of_spheres = [] if pile.material is None else list(pile.material)
    of_walls = [wall_material(w) for w in (*pile.walls.walls, *pile.walls.obstacles)]
    return [str(name) for name in (*of_spheres, *of_walls)]


def lookup(given: Any, a: str | None, b: str | None) -> Any:
    """The entry of a table for two materials; None: there is none."""
    pair = None if a is None or b is None else tuple(sorted((a, b)))
    return given.get(pair, given.get(None)) if pair else given.get(None)


def check_pairs(pile) -> None:
    """Refuse tables in which a pair that may meet is missing."""
    for name in _NUMBER:
        given = getattr(pile, name)
        if isinstance(given, dict) and None in given:
            _tell_strangers(pile, name, given)
        if not isinstance(given, dict) or None in given:
            continue
        for a, b, where in _meetings(pile):
            if lookup(given, a, b) is None:
                nameless = [what for label, what in ((a, "the spheres"), (b, where)) if not label]
                why = f"has no entry for {tuple(sorted((a, b)))!r}" if not nameless else ""
                why = why or f"is a table, and {nameless[0]} have no material: material='...'"
                raise _KIND[name](
                    f"{name} {why} (spheres with {where}): add it, or give the value of all other "
                    f"pairs as None: {name}={{..., None: 0.3}}"
                )


def _tell_strangers(pile, name, table) -> None:
    """Warn of an entry for a material that nobody has: a typo would leave its pairs to ``None``."""
    known = {a for pair in _meetings(pile) for a in pair[:2] if a is not None}
    for stranger in sorted({a for pair in table if pair is not None for a in pair} - known):
        warnings.warn(
            f"{name} has an entry for {stranger!r}, which no sphere and no wall is made of"
            f"{nearest_name(stranger, known)} Pairs that are not in the table have the value of "
            "None",
            stacklevel=4,
        )


def _meetings(pile) -> Iterator[tuple[Any, Any, str]]:
    """The materials of bodies that may meet, and what the second is."""
    of_spheres = [None] * len(pile) if pile.material is None else list(pile.material)
    kinds = list(dict.fromkeys(of_spheres))
    for a, b in combinations_with_replacement(kinds, 2):
        if a != b or of_spheres.count(a) > 1:
            yield a, b, "spheres"
    for k, wall in enumerate([*pile.walls.walls, *pile.walls.obstacles]):
        for a in kinds:
            yield a, wall_material(wall), f"walls[{k}], a {type(wall).__name__}"


def wall_material(wall) -> str | None:
    """Its label; a wall of one's own need not have one."""
    found = getattr(wall, "material", None)
    if found is not None and not isinstance(found, str):
        raise errors.KindError(
            f"the material of a {type(wall).__name__} is {found!r}; it must be a name"
        )
    return found


@dataclass(frozen=True, eq=False)
class BySpeed:
    """e of p contacts, some of them functions of speed."""

    functions: tuple[Callable, ...]
    which: np.ndarray  # (p,) int, of these; -1: none
    value: np.ndarray  # (p,) where there is none

    def chosen(self, active) -> "BySpeed":
        """The contacts where ``active`` is True."""
        return BySpeed(self.functions, self.which[active], self.value[active])

    def __call__(self, before: np.ndarray) -> np.ndarray:
        """(p,) of normal velocities (p,) before an impact, (1)."""
        e = self.value.copy()
        for k, function in enumerate(self.functions):
            mine = self.which == k
            e[mine] = of_speed(function, np.maximum(-before[mine], 0.0))
        return e


class Materials:
    """The coefficients of the contacts of a run."""

    def __init__(self, pile):
        self.codes: Any = None  # of bodies (B,) and of walls (W,), where there is a table
        self._mu, self._e = pile.friction, pile.restitution
        self._functions = tuple(dict.fromkeys(f for f in values(self._e) if callable(f)))
        self._resists = pile.rolling, pile.twisting
        if not any(isinstance(x, dict) for x in pile.coefficients):
            return
        t, walls = pile.start, pile.walls
        bodies = [None] * len(pile) if pile.material is None else list(pile.material)
        for some in walls.obstacles:
            bodies += [wall_material(some)] * len(some.at(t)[0])
        pieces = [wall_material(w) for w in walls.walls for _ in w.pieces(t)]
        names = list(dict.fromkeys([*bodies, *pieces]))
        code = {name: k for k, name in enumerate(names)}
        self.codes = tuple(np.array([code[a] for a in x], np.intp) for x in (bodies, pieces))
        if isinstance(self._mu, dict):
            self._mu = _square(self._mu, names)
        self._resists = tuple(
            _square(x, names) if isinstance(x, dict) else x for x in self._resists
        )
        if isinstance(self._e, dict):
            number = {key: self._number(e) for key, e in self._e.items()}
            self._which = _square(number, names)
            self._e = _square({key: 0.0 if callable(e) else e for key, e in self._e.items()}, names)

    def friction(self, i, j, wall) -> Any:
        """mu, a number or (p,); ``wall`` (p,) is -1 - w for wall w, else 0 or more."""
        return self._mu if isinstance(self._mu, float) else self._mu[self._pairs(i, j, wall)]

    def resistance(self, i, j, wall, arm) -> np.ndarray:
        """(p, 3) [m] (2): the lengths of rolling and of twisting, and R, of arms (p, 2)."""
        pairs = None if self.codes is None else self._pairs(i, j, wall)
        R = effective_radius(arm)
        parts = [R * (x if isinstance(x, float) else x[pairs]) for x in self._resists]
        return np.column_stack([*parts, R])

    def restitution(self, i, j, wall) -> Any:
        """e, a number, (p,), or a function of normal velocities."""
        if isinstance(self._e, float):
            return self._e
        if callable(self._e):
            return BySpeed(self._functions, np.zeros(len(i), int), np.zeros(len(i)))
        pairs = self._pairs(i, j, wall)
        if not self._functions:
            return self._e[pairs]
        return BySpeed(self._functions, self._which[pairs].astype(int), self._e[pairs])

    def _number(self, e):
        """Of a function, -1 of a number."""
        return self._functions.index(e) if callable(e) else -1

    def _pairs(self, i, j, wall) -> tuple[np.ndarray, np.ndarray]:
        """(p,) the codes of both bodies."""
        of_body, of_wall = self.codes
        pair, b = wall >= 0, np.zeros(len(i), np.intp)
        b[pair], b[~pair] = of_body[j[pair]], of_wall[-1 - wall[~pair]]
        return of_body[i], b


def effective_radius(arm) -> np.ndarray:
    """(p,) [m] of arms (p, 2): 1/R = 1/r_i + 1/r_j; with a wall, whose arm is 0, r."""
    total, product = arm.sum(axis=1), arm.prod(axis=1)
    return np.where(product > 0.0, product / total, total)


def _square(table, names) -> np.ndarray:
    """(L, L) of a table by pairs; nan of two that cannot meet."""
    return np.array([[lookup(table, a, b) for b in names] for a in names], float)
