"""Pairs of spheres that are near each other, from hashed cells of several sizes.

The list made at positions y with radii R and a margin s_i for each body holds every pair with

    |y_i - y_j| <= a_i + a_j,        a_i = R_i + s_i                                          (1)

(nearest images in periodic directions).  Take a later position x, radii r, and a step by h u.  For
a pair that is not listed, the triangle inequality gives, e = (x_j - x_i) / |x_j - x_i|,

    |x_j - x_i| + e . h (u_j - u_i) - r_i - r_j  >  s_i - c_i + s_j - c_j,
    c_i = |x_i - y_i| + h |u_i| + max(r_i - R_i, 0)                                           (2)

so that no constraint of a step, linearised or not, is missing from the list while

    c_i <= s_i    for each i                                                                  (3)

A step looks up to a reach of its own for each body, h |u_i| <= reach_i, among the listed pairs:
``farthest`` measures (3) with it.  The pairs left out have gap > reach_i + reach_j, so that

    gap + e . h (u_j - u_i)  >=  gap - h |u_i| - h |u_j|  >  0:                               (4)

their rows are open at the u that was found without them, and u is the projection with them too.
Where u is beyond the reach of some, the same is seen of the pairs that so came into reach, one by
one (``rows.closed_beyond``), and the step is done again only if one of them is not open.
One body that is fast has a long reach and a wide margin; those of the others stay as they are.
Nothing in (2) asks that y_i and y_j are of one time: where a few bodies alone have used up their
margins, their y, R and s are set anew, and their pairs, found by a look at all bodies (``around``),
take the place of those they had (``renewed``).  The list is the same as one made at these y.

Spheres are put in cells by level: level k holds the a_i in (a_max / 2^(k+1), a_max / 2^k], and
its cells are as wide as the longest reach (1) of a pair in it.  A sphere looks for partners in its
own level, in 27 cells, and in the finer ones, in as many cells as it reaches: a large or a fast one
finds those around it, and the many small ones do not look for it.  Cells that are neighbours along
x lie side by side in the hash table, so 27 cells are 9 runs of memory.
"""

import numpy as np
from numba import prange

from carom.kernels.numba.disk import kernel
from carom.kernels.numba.projection import largest

_ROOM = 24  # partners of a body that are kept while all are counted
_RUNS = 1024  # rows of cells: one that would look at more looks at all bodies
_FAR = np.int64(2**62)
_SPARE = 1e-3  # of a cell, and
_ROUNDING = 8 * np.finfo(float).eps  # of a coordinate: cells a little beyond the reach
_STEPS = (701, 301, 132, 57, 23, 10, 4, 1)  # of the sort, as Ciura found them (2001)
_PIECE = 4096  # bodies in a piece of a parallel reduction: fixed, so that sums do not vary


@kernel()
def _bucket(level, cy, cz, cx, mask):
    key = cy * 73856093 ^ cz * 83492791 ^ level * 19349669
    return (key * 2654435761 + cx) & mask


@kernel()
def _cell(x, low, period, count, width):
    """The cell of one coordinate; ``count`` is 0 where the direction is not periodic."""
    if count == 0:
        return np.int64(np.floor(x / width))
    folded = (x - low) / period
    folded -= np.floor(folded)
    return min(np.int64(folded * count), count - 1)


@kernel()
def sort_into_cells(x, level, low, period, counts, width, mask):
    """Bodies in the order of their cells.

    ``level`` (B,), ``counts`` (L, 3) cells a period, ``width`` (L, 3).  Returns the first entry of
    each bucket (T + 2,), the bodies in order (B,), and their cells (B, 4) as level, cx, cy, cz.
    """
    B = x.shape[0]
    cell = np.empty((B, 4), np.int64)
    bucket = np.empty(B, np.int64)
    first = np.zeros(mask + 3, np.int64)
    for i in range(B):
        k = level[i]
        cell[i, 0] = k
        for d in range(3):
            cell[i, d + 1] = _cell(x[i, d], low[d], period[d], counts[k, d], width[k, d])
        bucket[i] = _bucket(k, cell[i, 2], cell[i, 3], cell[i, 1], mask)
        first[bucket[i] + 2] += 1
    for b in range(2, mask + 3):
        first[b] += first[b - 1]
    order = np.empty(B, np.int64)
    sorted_cell = np.empty((B, 4), np.int64)
    for i in range(B):
        place = first[bucket[i] + 1]
        first[bucket[i] + 1] += 1
        order[place] = i
        for d in range(4):
            sorted_cell[place, d] = cell[i, d]
    return first, order, sorted_cell


@kernel()
def _cells_within(x, reach, low, count, width):
    """The first cell along a direction that is within reach of x, and how many there are."""
    reach += _SPARE * width + _ROUNDING * (abs(x) + abs(low))
    if count == 0:
        begin = np.int64(np.floor((x - reach) / width))
        return begin, np.int64(np.floor((x + reach) / width)) - begin + 1
    begin = np.int64(np.floor((x - low - reach) / width))
    cells = np.int64(np.floor((x - low + reach) / width)) - begin + 1
    if cells >= count:
        return np.int64(0), count
    return begin % count, cells


@kernel()
def _look(p, begin, stop, cell, x, a, order, cells, box, free, found, at, end):
    """Partners of the sphere at place p among those at places begin to stop that are in ``cell``.

    ``cell`` is a level, and first and last along x, y and z; on its own level p looks at later
    places alone.  They are written from ``at`` on, before ``end``; returns where they end.
    """
    level, x0, x1, y0, y1, z0, z1 = cell
    px, py, pz, pr = x[p, 0], x[p, 1], x[p, 2], a[p]
    if level == cells[p, 0]:
        begin = max(begin, p + 1)
    periodic = box[2, 0] + box[2, 1] + box[2, 2] > 0.0
    for place in range(begin, stop):
        q = np.uint64(place)
        dx, dy, dz = x[q, 0] - px, x[q, 1] - py, x[q, 2] - pz
        if periodic:
            dx -= box[1, 0] * np.rint(dx * box[2, 0])
            dy -= box[1, 1] * np.rint(dy * box[2, 1])
            dz -= box[1, 2] * np.rint(dz * box[2, 2])
        reach = pr + a[q]
        if dx * dx + dy * dy + dz * dz > reach * reach:
            continue
        if (
            cells[q, 0] != level
            or not x0 <= cells[q, 1] <= x1
            or not y0 <= cells[q, 2] <= y1
            or not z0 <= cells[q, 3] <= z1
            or (order[p] >= free and order[q] >= free)
        ):
            continue
        if at < end:
            found[at] = order[q]
        at += 1
    return at


@kernel()
def _search(p, x, a, order, cells, first, mask, largest, counts, box, free, found, at, end):
    """Partners of the sphere at place ``p``: written from ``at`` on, before ``end``; their number.

    On its own level those at later places, on finer ones all.
    """
    begun, own = at, cells[p, 0]
    for level in range(own, largest.shape[0]):
        reach, n, w = a[p] + largest[level], counts[level], box[3 + level]
        if largest[level] == 0.0:  # nobody
            continue
        if level > own and (2.0 * reach / w[1] + 2.0) * (2.0 * reach / w[2] + 2.0) > _RUNS:
            everywhere = (level, -_FAR, _FAR, -_FAR, _FAR, -_FAR, _FAR)
            at = _look(
                p, 0, order.shape[0], everywhere, x, a, order, cells, box, free, found, at, end
            )
            continue
        x0, nx = _cells_within(x[p, 0], reach, box[0, 0], n[0], w[0])
        y0, ny = _cells_within(x[p, 1], reach, box[0, 1], n[1], w[1])
        z0, nz = _cells_within(x[p, 2], reach, box[0, 2], n[2], w[2])
        for c in range(nz):
            z = (z0 + c) % n[2] if n[2] > 0 else z0 + c
            for b in range(ny):
                y = (y0 + b) % n[1] if n[1] > 0 else y0 + b
                low, left = x0, nx
                while left > 0:  # cells along x in pieces, which go round neither period nor table
                    start = _bucket(level, y, z, low, mask)
                    length = min(left, mask + 1 - start)
                    if n[0] > 0:
                        length = min(length, n[0] - low)
                    run = (level, low, low + length - 1, y, y, z, z)
                    begin, stop = first[start], first[start + length]
                    at = _look(p, begin, stop, run, x, a, order, cells, box, free, found, at, end)
                    low, left = low + length, left - length
                    if low == n[0] and n[0] > 0:
                        low = np.int64(0)
    return at - begun


@kernel()
def _sort(values, begin, end):
    """values[begin:end] in order: one by one, of many those far from each other first (Shell)."""
    for step in _STEPS:
        for k in range(begin + step, end):
            value, m = values[k], k
            while m >= begin + step and values[m - step] > value:
                values[m] = values[m - step]
                m -= step
            values[m] = value


@kernel(parallel=True)
def find_pairs(x, a, order, cells, first, mask, largest, counts, box, free):
    """All pairs of (1) but those of two obstacles (index >= ``free``).

    ``x`` and ``a`` are in the order of cells; ``largest`` (L,) is the largest a_i of each level.
    ``box`` (3 + L, 3): low corner, period, 1 / period (0 where not periodic), and the width of the
    cells of each level.  Returns the first entry of each body (B + 1,) and the partners, in no
    order; a pair is listed by the one that found the other (``turned``).
    """
    B = order.shape[0]
    start = np.zeros(B + 1, np.int64)
    room = np.empty(B * _ROOM, np.int32)
    for p in prange(B):
        i = order[p]
        start[i + 1] = _search(
            np.int64(p),
            x,
            a,
            order,
            cells,
            first,
            mask,
            largest,
            counts,
            box,
            free,
            room,
            i * _ROOM,
            (i + 1) * _ROOM,
        )
    for i in range(B):
        start[i + 1] += start[i]
    found = np.empty(start[B], np.int32)
    for p in prange(B):
        i = order[p]
        if start[i + 1] - start[i] <= _ROOM:
            for k in range(start[i + 1] - start[i]):
                found[start[i] + k] = room[i * _ROOM + k]
        else:  # again, with as much room as it needs
            _search(
                np.int64(p),
                x,
                a,
                order,
                cells,
                first,
                mask,
                largest,
                counts,
                box,
                free,
                found,
                start[i],
                start[i + 1],
            )
    return start, found


@kernel()
def _running_sum(start):
    for i in range(start.shape[0] - 1):
        start[i + 1] += start[i]


@kernel()
def _all_around(i, x, a, period, inverse, free, is_chosen, found, at, end):
    """Partners of body i among all, written from ``at`` on, before ``end``; their number."""
    begun = at
    px, py, pz, pr = x[i, 0], x[i, 1], x[i, 2], a[i]
    periodic = inverse[0] + inverse[1] + inverse[2] > 0.0
    for body in range(x.shape[0]):
        j = np.uint64(body)
        dx, dy, dz = x[j, 0] - px, x[j, 1] - py, x[j, 2] - pz
        if periodic:
            dx -= period[0] * np.rint(dx * inverse[0])
            dy -= period[1] * np.rint(dy * inverse[1])
            dz -= period[2] * np.rint(dz * inverse[2])
        reach = pr + a[j]
        if dx * dx + dy * dy + dz * dz > reach * reach:
            continue
        if body == i or (is_chosen[j] and body < i) or (i >= free and body >= free):
            continue
        if at < end:
            found[at] = body
        at += 1
    return at - begun


@kernel()
def _marked(chosen, B):
    found = np.zeros(B, np.bool_)
    for c in chosen:
        found[c] = True
    return found


@kernel(parallel=True)
def around(chosen, x, a, period, inverse, free):
    """All pairs of (1) that have a body of ``chosen`` (m,), from a look at all bodies.

    Returns the first entry of each (m + 1,) and the partners, in order; of two that are chosen the
    one of smaller index lists the other.
    """
    m, is_chosen = chosen.shape[0], _marked(chosen, x.shape[0])
    start, found = np.zeros(m + 1, np.int64), np.empty(0, np.int32)
    for c in prange(m):
        start[c + 1] = _all_around(chosen[c], x, a, period, inverse, free, is_chosen, found, 0, 0)
    _running_sum(start)
    found = np.empty(start[m], np.int32)
    for c in prange(m):
        _all_around(
            chosen[c], x, a, period, inverse, free, is_chosen, found, start[c], start[c + 1]
        )
    return start, found


@kernel(parallel=True)
def renewed(start, second, chosen, around_start, partners):
    """A list, with other pairs of the ``chosen`` bodies.

    Each pair is listed by its body of smaller index, partners in order.
    """
    B, m = start.shape[0] - 1, chosen.shape[0]
    is_chosen = _marked(chosen, B)
    new = np.zeros(B + 1, np.int64)
    for i in prange(B):
        kept = 0
        if not is_chosen[i]:
            for k in range(start[i], start[i + 1]):
                kept += not is_chosen[second[k]]
        new[i + 1] = kept
    at = new[1:].copy()
    for c in range(m):
        for k in range(around_start[c], around_start[c + 1]):
            new[min(chosen[c], partners[k]) + 1] += 1
    _running_sum(new)
    found = np.empty(new[B], np.int32)
    for i in prange(B):
        at[i] += new[i]
        if not is_chosen[i]:
            place = new[i]
            for k in range(start[i], start[i + 1]):
                if not is_chosen[second[k]]:
                    found[place] = second[k]
                    place += 1
    mixed = np.zeros(B, np.bool_)
    for c in range(m):
        for k in range(around_start[c], around_start[c + 1]):
            i, j = min(chosen[c], partners[k]), max(chosen[c], partners[k])
            found[at[i]], mixed[i] = j, True
            at[i] += 1
    for i in prange(B):
        if mixed[i]:
            _sort(found, new[i], new[i + 1])
    return new, found


@kernel()
def turned(start, second):
    """A list whose pairs are each listed by the body of smaller index, partners in order.

    First by the larger one: who is then dealt out in the order of the larger is in order.
    """
    B = start.shape[0] - 1
    new, high = np.zeros(B + 1, np.int64), np.zeros(B + 1, np.int64)
    for i in range(B):
        for k in range(start[i], start[i + 1]):
            new[min(i, second[k]) + 1] += 1
            high[max(i, second[k]) + 1] += 1
    _running_sum(new)
    _running_sum(high)
    at, lower = high[:-1].copy(), np.empty_like(second)
    for i in range(B):
        for k in range(start[i], start[i + 1]):
            j = max(i, second[k])
            lower[at[j]] = min(i, second[k])
            at[j] += 1
    at, found = new[:-1].copy(), np.empty_like(second)
    for j in range(B):
        for k in range(high[j], high[j + 1]):
            i = lower[k]
            found[at[i]] = j
            at[i] += 1
    return new, found


@kernel()
def by_slab(first, second, slab, wide, free, count, stride):
    """Pairs in the order of their slabs, and the first of each slab (count + 2,).

    ``slab`` (B,), of ``count``; the last, one more, holds the pairs of bodies that are ``wide``.
    Within a slab pairs are in the order 0, s, 2 s, ... modulo their number, of a ``stride`` s.
    """
    P = first.shape[0]
    start = np.zeros(count + 3, np.int64)
    lower = np.empty(P, np.int32)
    for k in range(P):
        i, j = first[k], second[k]
        # of an obstacle, which no row moves, the slab does not matter
        a = slab[i] if i < free else slab[j]
        b = slab[j] if j < free else slab[i]
        if wide[i] or wide[j]:
            lower[k] = count
        elif abs(a - b) > 1:  # round the period
            lower[k] = count - 1
        else:
            lower[k] = min(a, b)
        start[lower[k] + 2] += 1
    _running_sum(start[1:])
    order, k = np.empty(P, np.int32), 0
    for _ in range(P):
        place = start[lower[k] + 1]
        start[lower[k] + 1] += 1
        order[place] = k
        k += stride
        if k >= P:
            k -= P
    return order, start[:-1]


@kernel()
def _place(values, begin, end, value):
    """Where ``value`` is in values[begin:end], which is in order; -1 if it is not."""
    while begin < end:
        middle = (begin + end) // 2
        if values[middle] == value:
            return middle
        if values[middle] < value:
            begin = middle + 1
        else:
            end = middle
    return -1


@kernel(parallel=True)
def carry_over(old_start, old_partner, old_value, start, partner, value):
    """Copy the value of every pair that was listed before, on either side; 0 for the others."""
    for i in prange(start.shape[0] - 1):
        for k in range(start[i], start[i + 1]):
            j = partner[k]
            m = _place(old_partner, old_start[i], old_start[i + 1], j)
            if m < 0:
                m = _place(old_partner, old_start[j], old_start[j + 1], i)
            value[k] = old_value[m] if m >= 0 else 0.0


@kernel(parallel=True)
def farthest(x, y, reach, r, R, margin):
    """max_i c_i - s_i of (3) with h |u_i| = reach_i, or 0 if none is positive; nan if one is."""
    B = x.shape[0]
    pieces = (B + _PIECE - 1) // _PIECE
    most = np.zeros(max(pieces, 1))
    for piece in prange(pieces):
        worst = 0.0
        for i in range(piece * _PIECE, min(B, (piece + 1) * _PIECE)):
            moved = 0.0
            for d in range(3):
                moved += (x[i, d] - y[i, d]) ** 2
            c = np.sqrt(moved) + reach[i] + max(r[i] - R[i], 0.0) - margin[i]
            if c > worst or c != c:
                worst = c
            if worst != worst:
                break
        most[piece] = worst
    return largest(most)
