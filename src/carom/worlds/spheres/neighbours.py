"""The list of near pairs, kept from step to step and made anew when it must be."""

import math
from dataclasses import dataclass

import jax
import numpy as np

from carom import kernels
from carom.errors import ShapeError
from carom.worlds.spheres.metric import lengths

_MADE_FROM = ("x", "radius", "margin")
_SLABS = 64  # at most; pieces of space that are swept side by side
_STEPS = (8.0, 4.0, 2.0, 1.25)  # that a list should serve
_FAST = 0.4  # smallest radii: a body that goes further in these steps is fast
_LEAST = 0.35  # smallest radii: the margin of a body at rest
_LONELY = 0.1  # partners that a body without any is taken to have
_PAIRS = 6  # for each body, that fast bodies may add to a list
_WIDE = 2.0  # times what 99 in 100 bodies reach: beyond it, a body is in no slab
_SOON = 0.5  # of a margin: a body that has used so much of it will soon have used it up
FEW = 160  # bodies: so many are looked for among all, not in cells
_SLAB_BODIES = 32  # at least, on average: below this a slab is not worth its bookkeeping


@dataclass(frozen=True)
class Cell:
    """Periodic directions: ``period`` is 0 where space does not repeat, ``low`` where it starts."""

    low: np.ndarray  # (3,) [m]
    period: np.ndarray  # (3,) [m]
    dimension: int

    @property
    def inverse(self) -> np.ndarray:
        """(3,) 1 / period, 0 where space does not repeat."""
        return np.divide(1.0, self.period, out=np.zeros(3), where=self.period > 0.0)

    def room(self, radii: float) -> float:
        """The widest skin with which a pair, of two radii together, has one nearest image."""
        return np.min(self.period[self.period > 0.0], initial=np.inf) / 2.0 - radii

    def nearest_image(self, d: np.ndarray) -> np.ndarray:
        """The shortest of the images of differences d, (..., 3)."""
        return d - self.period * np.rint(d * self.inverse)


@jax.tree_util.register_pytree_with_keys_class
class PairList:
    """Pairs within a_i + a_j of each other at one time, a = radius + margin (its kernels, (1)).

    As a tree of arrays it is what it was made from: from the same it is made again to the bit.
    """

    def __init__(self, x, radius, margin, cell: Cell, free: int):
        """``x`` (B, 3), ``radius``, ``margin`` (B,); bodies from ``free`` on are obstacles."""
        self.x, self.radius, self.margin = (np.array(a, float) for a in (x, radius, margin))
        self.cell, self.free = cell, free
        self._find()

    def tree_flatten_with_keys(self):
        """x, radius and margin."""
        named = ((jax.tree_util.GetAttrKey(n), getattr(self, n)) for n in _MADE_FROM)
        return tuple(named), (self.cell, self.free)

    @classmethod
    def tree_unflatten(cls, where, arrays):
        """The list made again, where these are arrays."""
        if all(isinstance(a, np.ndarray) for a in arrays):
            return cls(*arrays, *where)
        hollow = object.__new__(cls)
        (hollow.x, hollow.radius, hollow.margin), (hollow.cell, hollow.free) = arrays, where
        return hollow

    @property
    def wide(self) -> np.ndarray:
        """(B,) the a_i."""
        return self.radius + self.margin

    def renewed(self, bodies, x, radius, margin) -> "PairList":
        """The list with these (B,) where ``bodies``, bool (B,), and as it is elsewhere."""
        made = object.__new__(PairList)
        made.x = np.where(bodies[:, None], x, self.x)
        made.radius = np.where(bodies, radius, self.radius)
        made.margin = np.where(bodies, margin, self.margin)
        made.cell, made.free = self.cell, self.free
        chosen = np.flatnonzero(bodies)
        around = kernels.neighbours.around(
            chosen, made.x, made.wide, self.cell.period, self.cell.inverse, self.free
        )
        made._arranged(*kernels.neighbours.renewed(self.start, self.second, chosen, *around))
        return made

    def _find(self):
        a = self.wide
        level = _levels(a)
        largest = np.array([a[level == k].max(initial=0.0) for k in range(np.max(level) + 1)])
        width, counts, box = _cells(2.0 * largest, self.cell)
        mask = (1 << max(4, int(2 * len(a) - 1).bit_length())) - 1
        first, order, cells = kernels.neighbours.sort_into_cells(
            self.x, level, box[0], box[1], counts, width, mask
        )
        found = kernels.neighbours.find_pairs(
            self.x[order], a[order], order, cells, first, mask, largest, counts, box, self.free
        )
        self._arranged(*kernels.neighbours.turned(*found))

    def _arranged(self, start, second):
        self.start, self.second = start, second
        self.first = np.repeat(np.arange(len(self.x), dtype=np.int32), np.diff(start))
        self.slabs = _Slabs(self)

    def carried(self, old: "PairList | None", value: np.ndarray) -> np.ndarray:
        """(p,) what ``value`` says of each pair in the old list; 0 for a pair that is new."""
        new = np.zeros(len(self.second))
        if old is not None:
            kernels.neighbours.carry_over(
                old.start, old.second, value, self.start, self.second, new
            )
        return new

    def covers(self, x, radius, reach) -> bool:
        """Whether every pair that bodies at x, which move by up to ``reach`` (B,), meet is here."""
        left = kernels.neighbours.farthest(x, self.x, reach, radius, self.radius, self.margin)
        return left <= 0.0  # False if it is nan

    def outgrown(self, x, radius, reach) -> np.ndarray:
        """(B,) bool, which bodies have used up their margins, or soon will have."""
        used = self.went(x) + reach + np.maximum(radius - self.radius, 0.0)
        return ~(used <= _SOON * self.margin)

    def partners(self) -> np.ndarray:
        """(B,) in how many pairs each body is."""
        return np.bincount(self.second, minlength=len(self.x)) + np.diff(self.start)

    def went(self, x) -> np.ndarray:
        """(B,) how far bodies have gone since the list was made [m]."""
        return lengths(x - self.x)


def margins(
    reach, went, radius, smallest: float, dimension: int, last: PairList | None
) -> np.ndarray:
    """(B,) how far each body may go before a list must be made anew [m].

    Some steps of its own reach, or of what it went since the last list.  Fewer for those that would
    add more than their share of the pairs that fast bodies may add.
    """
    most, usual = _PAIRS * len(reach), np.maximum(reach, 0.25 * went)
    steps = np.full(len(reach), _STEPS[0])
    partners = None if last is None else last.partners() + _LONELY
    for fewer in _STEPS[1:]:
        margin = steps * usual
        fast = margin > _FAST * smallest
        added = fast * np.minimum((1.0 + margin / smallest) ** dimension, len(reach))
        if last is not None and np.sum(added) > most:  # space is as full around as it was
            wider = (radius + margin) / last.wide
            added = fast * np.minimum(partners * wider**dimension, added)
        if np.sum(added) <= most:
            break
        steps[added > most / np.count_nonzero(fast)] = fewer
    return np.maximum(steps * usual, _LEAST * smallest)


class _Slabs:
    """Slices of space, such that a pair lies in one of them or in two that are neighbours.

    But for the last: it holds the pairs of the few bodies that reach much further than the others.
    """

    def __init__(self, pairs: PairList):
        x, free, cell = pairs.x, pairs.free, pairs.cell
        a = pairs.wide
        wide = a > _usual(a)
        reach = 2.0 * np.max(a[~wide], initial=0.0)
        axis = _axis(x[:free], cell)
        slab, count = _sliced(x[:, axis], free, cell.low[axis], cell.period[axis], reach)
        # Within a slab in no order: rows in a row that share a body would wait for each other.
        self.pair_of, self.pair_start = kernels.neighbours.by_slab(
            pairs.first, pairs.second, slab, wide, free, count, _stride(len(pairs.first))
        )
        self.body_of = np.argsort(slab[:free].astype(np.int16), kind="stable").astype(np.int32)
        self.body_start = _running(np.bincount(slab[:free], minlength=count + 1))


def _usual(a):
    """Beyond it, an a_i is much larger than others."""
    return _WIDE * np.quantile(a, 0.99)


def _stride(count):
    """s, such that 0, s, 2 s, ... modulo ``count`` is each place once, and far from the next."""
    stride = max(1, int(0.618 * count))
    while math.gcd(stride, count) > 1:
        stride += 1
    return stride


def _axis(x, cell):
    """The direction to slice: a long one, along which bodies that follow each other lie close.

    Then a slab is one piece of memory, and threads do not write into each other's cache lines.
    """
    along = np.ascontiguousarray(x.T)  # (3, N): NumPy reduces rows ten times as fast as columns
    extent = np.where(cell.period > 0.0, cell.period, np.ptp(along, axis=1))
    d = np.diff(along, axis=1)
    d -= cell.period[:, None] * np.rint(d * cell.inverse[:, None])
    hop = np.mean(np.abs(d), axis=1) if len(x) > 1 else extent
    return int(np.argmin(np.where(extent >= 0.5 * np.max(extent), hop, np.inf)))


def _sliced(x, free, low, period, reach):
    """The slab of each body (B,) and the number of slabs, each at least ``reach`` wide."""
    extent = period if period > 0.0 else np.ptp(x[:free])
    low = low if period > 0.0 else np.min(x[:free])
    count = int(min(extent / reach, 1e6)) if reach > 0.0 else 1
    if count < 2:
        return np.zeros(len(x), np.int64), 1
    place = (x - low) / extent
    place = place - np.floor(place) if period > 0.0 else place
    fine = np.clip((place * count).astype(np.int64), 0, count - 1)
    filled = np.cumsum(np.bincount(fine[:free], minlength=count))
    share = max(free / _SLABS, _SLAB_BODIES)
    _, merged = np.unique((filled - 1) // share, return_inverse=True)
    merged = np.maximum(merged, 0)
    slabs = int(merged[-1]) + 1
    if period > 0.0 and slabs % 2 and slabs > 1:
        slabs -= 1  # even, for the last is beside the first
    return np.minimum(merged, slabs - 1)[fine], slabs


def _levels(radius):
    """(B,) 0 for the larger half of the radii, 1 for the next, ...: each halves the one before."""
    largest = np.max(radius, initial=0.0)
    if not largest > 0.0:
        return np.zeros(len(radius), np.int64)
    with np.errstate(divide="ignore"):
        return np.clip(np.floor(np.log2(largest / radius)), 0, 30).astype(np.int64)


def _cells(reach, cell: Cell):
    """Widths (L, 3) and counts (L, 3) of the cells of each level, and both in kernel form."""
    reach = np.maximum(reach, 1e-300)
    repeats = cell.period > 0.0
    period = np.where(repeats, cell.period, 1.0)
    counts = np.where(repeats, np.clip(period / reach[:, None], 1.0, 2.0**20), 0.0).astype(np.int64)
    width = np.where(repeats, period / np.maximum(counts, 1), reach[:, None])
    if cell.dimension == 2:
        counts[:, 2] = 1  # one layer, that is not searched three times
    box = np.vstack([cell.low, np.where(repeats, period, 1.0), cell.inverse, width])
    return width, counts, box


def _running(counts):
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def within_period(cell: Cell, radius, reach, margin) -> np.ndarray:
    """(B,) the margins, with which no pair meets through two images; refuses too short a period."""
    need = np.sort(radius + reach)[-2:].sum() * (2.0 if len(radius) == 1 else 1.0)
    short = (cell.period > 0.0) & (cell.period < 2.0 * need)
    if np.any(short):
        axis = int(np.argmax(short))
        raise ShapeError(
            f"the period {cell.period[axis]:g} along axis {axis} is less than twice the reach "
            f"{need:g} of a pair (two radii, and what spheres move in a step): take a longer "
            "period or a smaller dt"
        )
    left = np.min(cell.period[cell.period > 0.0], initial=np.inf) / 2.0 - need
    return np.minimum(margin, reach + left / 2.0)
