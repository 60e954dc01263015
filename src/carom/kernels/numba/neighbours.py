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

Spheres are put in cells by level: level k holds the a_i in (a_max / 2^(k+1), a_max / 2^k], and
its cells are at least as wide as the longest reach (1) of a pair in it.  A sphere looks for
partners in its own level and in the coarser ones, where 27 cells hold all of them: a small sphere
never searches a large cell full of small ones, and a fast one is found by those around it.  Cells
that are neighbours along x lie side by side in the hash table, so 27 cells are 9 runs of memory.
"""

import numpy as np
from numba import prange

from carom.kernels.numba.disk import kernel
from carom.kernels.numba.projection import largest

_ROOM = 16  # partners of a body that are kept while all are counted
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
        sorted_cell[place] = cell[i]
    return first, order, sorted_cell


@kernel()
def _along(c, count, k):
    """The k-th of the cells around c along a direction, and how many there are."""
    if count == 0:
        return c - 1 + k, 3
    if count < 3:
        return k, count
    return (c - 1 + k) % count, 3


@kernel()
def _search(
    p,
    sorted_x,
    sorted_r,
    order,
    cells,
    first,
    mask,
    levels,
    counts,
    box,
    free,
    found,
    at,
    end,
):
    """Partners of the sphere at place ``p``: written from ``at`` on, before ``end``; their number.

    A pair belongs to the body on the finer level, then to the one of smaller index.
    """
    begun = at
    i, own = order[p], cells[p, 0]
    px, py, pz, pr = sorted_x[p, 0], sorted_x[p, 1], sorted_x[p, 2], sorted_r[p]
    for level in range(own + 1):
        if levels[level] == 0:
            continue
        cx, cy, cz = cells[p, 1], cells[p, 2], cells[p, 3]
        if level != own:
            cx = _cell(px, box[0, 0], box[1, 0], counts[level, 0], box[3 + level, 0])
            cy = _cell(py, box[0, 1], box[1, 1], counts[level, 1], box[3 + level, 1])
            cz = _cell(pz, box[0, 2], box[1, 2], counts[level, 2], box[3 + level, 2])
        nx = counts[level, 0]
        together = nx == 0 or (0 < cx < nx - 1)  # the three cells along x are one run
        runs = 1 if together else min(nx, 3)
        _, ny = _along(cy, counts[level, 1], 0)
        _, nz = _along(cz, counts[level, 2], 0)
        for a in range(nz):
            z, _ = _along(cz, counts[level, 2], a)
            for b in range(ny):
                y, _ = _along(cy, counts[level, 1], b)
                for c in range(runs):
                    if together:
                        low, high = cx - 1, cx + 1
                    else:
                        low, _ = _along(cx, nx, c)
                        high = low
                    start = _bucket(level, y, z, low, mask)
                    for part in range(2):  # a run may go round the end of the table
                        if part == 0:
                            begin, stop = start, min(start + high - low, mask)
                        else:
                            begin, stop = 0, start + high - low - mask - 1
                        if stop < begin:
                            break
                        for place in range(first[begin], first[stop + 1]):
                            q = np.uint64(place)
                            j = order[q]
                            if level == own and j <= i:
                                continue
                            dx = sorted_x[q, 0] - px
                            dy = sorted_x[q, 1] - py
                            dz = sorted_x[q, 2] - pz
                            dx -= box[1, 0] * np.rint(dx * box[2, 0])
                            dy -= box[1, 1] * np.rint(dy * box[2, 1])
                            dz -= box[1, 2] * np.rint(dz * box[2, 2])
                            reach = pr + sorted_r[q]
                            if dx * dx + dy * dy + dz * dz > reach * reach:
                                continue
                            if (
                                cells[q, 0] != level
                                or cells[q, 2] != y
                                or cells[q, 3] != z
                                or cells[q, 1] < low
                                or cells[q, 1] > high
                                or (i >= free and j >= free)
                            ):
                                continue
                            if at < end:
                                found[at] = j
                            at += 1
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
def find_pairs(sorted_x, sorted_r, order, cells, first, mask, levels, counts, box, free):
    """All pairs of (1) but those of two obstacles (index >= ``free``).

    ``sorted_r`` holds the a_i.  ``box`` (3 + L, 3): low corner, period, 1 / period (0 where not
    periodic), and the width of the cells of each level.  Returns the first entry of each body
    (B + 1,) and the partners.
    """
    B = order.shape[0]
    start = np.zeros(B + 1, np.int64)
    room = np.empty(B * _ROOM, np.int32)
    for p in prange(B):
        i = order[p]
        start[i + 1] = _search(
            np.int64(p),
            sorted_x,
            sorted_r,
            order,
            cells,
            first,
            mask,
            levels,
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
                sorted_x,
                sorted_r,
                order,
                cells,
                first,
                mask,
                levels,
                counts,
                box,
                free,
                found,
                start[i],
                start[i + 1],
            )
        _sort(found, start[i], start[i + 1])
    return start, found


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
