"""The gaps of a step and their gradients: pairs from the list, and walls.

A row k is a gap between body i and body j with unit normal n from i to j,

    gap(x) = |x_j - x_i| - r_i - r_j,      grad gap . u = n . (u_j - u_i)                     (1)

For a wall, j is the last body, which has no mass of its own and does not move, and n points from
the sphere to the wall.

Panels that meet make one surface.  Where the point of a panel nearest to a sphere lies on another
panel that is nearer, the surface goes on towards the sphere: it is no edge, and has no row.  (The
distance to the other panel is convex, and falls from that point on.)  A tangent there would stop
what slides along.  A body in ``whole`` keeps these rows.

Where space repeats, so do walls: a sphere meets every image of a panel that is within reach, and
the one image of a cylinder or a shell that it is in.
"""

import numpy as np
from numba import prange

from carom.kernels.numba.disk import kernel

_SEAM = 1e-6  # radii: panels so close to each other meet (a sphere would enter by 1e-13 radii)
_PIECE = 8192  # pairs in a piece of a parallel loop
_X, _Y, _Z = np.int64(0), np.int64(1), np.int64(2)  # as such: of a 0 Numba makes a type
PLANE, CYLINDER, SHELL, PANEL = 0, 1, 2, 3  # kinds of walls; their data are read by ``_to_wall``


@kernel()
def _to_wall(kind, data, x, y, z):
    """Distance of a point to a wall and the unit vector n from the point to the wall.

    PLANE    point, normal (towards the open side)
    CYLINDER point of the axis, unit axis, radius (open inside)
    SHELL    centre, 3 unused, radius (open inside)
    PANEL    corner, two orthogonal edges: the rectangle they span (open on both sides)
    """
    dx, dy, dz = x - data[0], y - data[1], z - data[2]
    if kind == PLANE:
        return dx * data[3] + dy * data[4] + dz * data[5], -data[3], -data[4], -data[5]
    if kind == PANEL:
        for e in range(2):
            ex, ey, ez = data[3 + 3 * e], data[4 + 3 * e], data[5 + 3 * e]
            square = ex * ex + ey * ey + ez * ez
            s = (dx * ex + dy * ey + dz * ez) / square if square > 0.0 else 0.0
            s = min(max(s, 0.0), 1.0)
            dx, dy, dz = dx - s * ex, dy - s * ey, dz - s * ez
        length = np.sqrt(dx * dx + dy * dy + dz * dz)
        scale = -1.0 / length if length > 0.0 else 0.0
        return length, scale * dx, scale * dy, scale * dz
    if kind == CYLINDER:
        along = dx * data[3] + dy * data[4] + dz * data[5]
        dx, dy, dz = dx - along * data[3], dy - along * data[4], dz - along * data[5]
    length = np.sqrt(dx * dx + dy * dy + dz * dz)
    scale = 1.0 / length if length > 0.0 else 0.0
    return data[9] - length, scale * dx, scale * dy, scale * dz


@kernel()
def _images(kind, period):
    """How many images of a wall are looked at: a panel can meet a sphere with both its ends."""
    return 27 if kind == PANEL and period[0] + period[1] + period[2] > 0.0 else 1


@kernel()
def _image(m, kind, data, x, y, z, period, inverse):
    """The m-th image of a point about a wall: the one nearest to its middle, then those beside it.

    NaN where there is none: in a direction that does not repeat, or that the panel spans.
    """
    if kind == PLANE or period[0] + period[1] + period[2] == 0.0:
        return x, y, z
    return (
        _beside(m % 3, kind, data, _X, x, period, inverse),
        _beside(m // 3 % 3, kind, data, _Y, y, period, inverse),
        _beside(m // 9, kind, data, _Z, z, period, inverse),
    )


@kernel()
def _beside(which, kind, data, d, x, period, inverse):
    """Coordinate d of an image: nearest to the middle of the wall (0), one period on (1, 2)."""
    if which == 0 and period[d] == 0.0:
        return x
    middle, extent = data[d], 0.0
    if kind == PANEL:
        middle += 0.5 * (data[3 + d] + data[6 + d])
        extent = abs(data[3 + d]) + abs(data[6 + d])
    if which > 0 and not extent < period[d]:
        return np.nan
    return x - period[d] * (np.rint((x - middle) * inverse[d]) + (0.0, 1.0, -1.0)[which])


@kernel()
def _nearest_wall(kind, data, x, y, z, period, inverse):
    """Distance of a point to the nearest image of a wall."""
    least = np.inf
    for m in range(_images(kind, period)):
        p = _image(m, kind, data, x, y, z, period, inverse)
        distance, _, _, _ = _to_wall(kind, data, p[0], p[1], p[2])
        least = min(least, distance) if distance == distance else least
    return least


@kernel()
def _facing_wall(kind, data, x, y, z, n, period, inverse):
    """The image of a point that sees the wall in the direction n."""
    best, seen = _image(0, kind, data, x, y, z, period, inverse), -np.inf
    for m in range(_images(kind, period)):
        p = _image(m, kind, data, x, y, z, period, inverse)
        _, nx, ny, nz = _to_wall(kind, data, p[0], p[1], p[2])
        along = nx * n[0] + ny * n[1] + nz * n[2]
        if along > seen + 1e-9:
            best, seen = p, along
    return best


@kernel()
def _far(i, w, x, r, reach, kinds, data):
    """Whether wall w is a plane out of reach: most are, and this much is compiled in place."""
    off = 0.0
    for d in range(3):
        off += (x[i, d] - data[w, d]) * data[w, 3 + d]
    return kinds[w] == PLANE and off - r[i] > reach[i]


@kernel()
def _meets(i, w, image, x, r, reach, whole, period, inverse, kinds, data):
    """Whether an image of sphere i has a row with wall w."""
    px, py, pz = _image(image, kinds[w], data[w], x[i, 0], x[i, 1], x[i, 2], period, inverse)
    distance, nx, ny, nz = _to_wall(kinds[w], data[w], px, py, pz)
    if not distance - r[i] <= reach[i]:
        return False
    if kinds[w] != PANEL or whole[i]:
        return True
    point = px + distance * nx, py + distance * ny, pz + distance * nz
    return not _goes_on(w, point, distance, x[i], _SEAM * r[i], period, inverse, kinds, data)


@kernel()
def _goes_on(w, point, distance, x, seam, period, inverse, kinds, data):
    """Whether another panel meets w at this point of it and comes nearer to x."""
    nearer = distance * (1.0 - 1e-12)
    for other in range(kinds.shape[0]):
        if other == w or kinds[other] != PANEL:
            continue
        kind, wall = kinds[other], data[other]
        away = _nearest_wall(kind, wall, point[0], point[1], point[2], period, inverse)
        if away <= seam and nearer > _nearest_wall(kind, wall, x[0], x[1], x[2], period, inverse):
            return True
    return False


@kernel(parallel=True)
def least_panel_gap(x, r, free, period, inverse, kinds, data):
    """(free,) the smallest gap of each sphere to a panel, inf if there is none."""
    gap = np.empty(free)
    for i in prange(free):
        least = np.inf
        for w in range(kinds.shape[0]):
            if kinds[w] == PANEL:
                least = min(
                    least,
                    _nearest_wall(kinds[w], data[w], x[i, 0], x[i, 1], x[i, 2], period, inverse),
                )
        gap[i] = least - r[i]
    return gap


@kernel()
def _separation(x, i, j, period, inverse):
    """Unit vector from i to the nearest image of j, and their distance."""
    dx, dy, dz = x[j, 0] - x[i, 0], x[j, 1] - x[i, 1], x[j, 2] - x[i, 2]
    dx -= period[0] * np.rint(dx * inverse[0])
    dy -= period[1] * np.rint(dy * inverse[1])
    dz -= period[2] * np.rint(dz * inverse[2])
    length = np.sqrt(dx * dx + dy * dy + dz * dz)
    scale = 1.0 / length if length > 0.0 else 0.0
    return scale * dx, scale * dy, scale * dz, length


@kernel(parallel=True)
def count_rows(
    x,
    r,
    reach,
    whole,
    first,
    second,
    pair_of,
    pair_start,
    body_of,
    body_start,
    period,
    inverse,
    kinds,
    data,
):
    """How many gaps of each slab are within reach: gap <= reach_i + reach_j; of walls, reach_i.

    Slab s holds the pairs pair_of[pair_start[s] : pair_start[s + 1]] and, likewise, the bodies
    whose walls it looks at.  Returns the running sum (S + 1,).
    """
    slabs = pair_start.shape[0] - 1
    start = np.zeros(slabs + 1, np.int64)
    for s in prange(slabs):
        found = 0
        for m in range(pair_start[s], pair_start[s + 1]):
            i, j = first[pair_of[m]], second[pair_of[m]]
            _, _, _, length = _separation(x, i, j, period, inverse)
            if length - r[i] - r[j] <= reach[i] + reach[j]:
                found += 1
        for m in range(body_start[s], body_start[s + 1]):
            i = body_of[m]
            for w in range(kinds.shape[0]):
                if _far(i, w, x, r, reach, kinds, data):
                    continue
                for n in range(_images(kinds[w], period)):
                    found += _meets(i, w, n, x, r, reach, whole, period, inverse, kinds, data)
        start[s + 1] = found
    for s in range(slabs):
        start[s + 1] += start[s]
    return start


@kernel(parallel=True)
def fill_rows(
    x,
    at,
    r,
    reach,
    whole,
    first,
    second,
    pair_of,
    pair_start,
    body_of,
    body_start,
    period,
    inverse,
    kinds,
    data,
    start,
    i_of,
    j_of,
    source,
    normal,
    gap,
):
    """The rows that ``count_rows`` counted.

    ``source`` is the place in the list of pairs, or -1 - w for wall w.  The tangent of a wall is
    taken at the point nearest to ``at``, and its gap is seen from x:
    distance(at) - n . (x - at) - r.
    """
    ground = x.shape[0]
    for s in prange(start.shape[0] - 1):
        k = start[s]
        for m in range(pair_start[s], pair_start[s + 1]):
            i, j = first[pair_of[m]], second[pair_of[m]]
            nx, ny, nz, length = _separation(x, i, j, period, inverse)
            if length - r[i] - r[j] <= reach[i] + reach[j]:
                i_of[k], j_of[k], source[k] = i, j, pair_of[m]
                normal[k, 0], normal[k, 1], normal[k, 2] = nx, ny, nz
                gap[k] = length - r[i] - r[j]
                k += 1
        for m in range(body_start[s], body_start[s + 1]):
            i = body_of[m]
            for w in range(kinds.shape[0]):
                if _far(i, w, x, r, reach, kinds, data):
                    continue
                for n in range(_images(kinds[w], period)):
                    if _meets(i, w, n, x, r, reach, whole, period, inverse, kinds, data):
                        p = _image(n, kinds[w], data[w], x[i, 0], x[i, 1], x[i, 2], period, inverse)
                        dx, dy, dz = x[i, 0] - at[i, 0], x[i, 1] - at[i, 1], x[i, 2] - at[i, 2]
                        d, nx, ny, nz = _to_wall(kinds[w], data[w], p[0] - dx, p[1] - dy, p[2] - dz)
                        i_of[k], j_of[k], source[k] = i, ground, -1 - w
                        normal[k, 0], normal[k, 1], normal[k, 2] = nx, ny, nz
                        gap[k] = d - (nx * dx + ny * dy + nz * dz) - r[i]
                        k += 1


@kernel(parallel=True)
def closed_beyond(
    x,
    r,
    reach,
    wider,
    whole,
    moved,
    spare,
    first,
    second,
    free,
    period,
    inverse,
    kinds,
    data,
):
    """How many gaps between ``reach`` and ``wider`` the motion ``moved`` (B, 3) may close.

    Pairs whose linearised gap is not above ``spare``, and every wall that comes into reach.
    """
    pieces = (first.shape[0] + _PIECE - 1) // _PIECE
    closed = np.zeros(pieces + 1, np.int64)
    for piece in prange(pieces):
        for k in range(piece * _PIECE, min(first.shape[0], (piece + 1) * _PIECE)):
            i, j = np.uint64(first[k]), np.uint64(second[k])
            if wider[i] <= reach[i] and wider[j] <= reach[j]:
                continue
            nx, ny, nz, length = _separation(x, i, j, period, inverse)
            gap = length - r[i] - r[j]
            if reach[i] + reach[j] < gap <= wider[i] + wider[j]:
                gap += nx * (moved[j, 0] - moved[i, 0])
                gap += ny * (moved[j, 1] - moved[i, 1])
                gap += nz * (moved[j, 2] - moved[i, 2])
                closed[piece] += not gap > spare
    for body in range(free):
        i = np.int32(body)  # of one type everywhere: _meets is compiled for each
        if wider[i] > reach[i]:
            for w in range(kinds.shape[0]):
                for n in range(_images(kinds[w], period)):
                    closed[pieces] += _meets(
                        i, w, n, x, r, wider, whole, period, inverse, kinds, data
                    ) and not _meets(i, w, n, x, r, reach, whole, period, inverse, kinds, data)
    total = 0
    for piece in range(pieces + 1):
        total += closed[piece]
    return total


@kernel(parallel=True)
def measure(x, r, i_of, j_of, source, period, inverse, kinds, data, gap):
    """The gaps of given rows at x, from their definition; ``gap`` is overwritten."""
    for k in prange(i_of.shape[0]):
        i = i_of[k]
        if source[k] >= 0:
            _, _, _, length = _separation(x, i, j_of[k], period, inverse)
            gap[k] = length - r[i] - r[j_of[k]]
        else:
            w = -1 - source[k]
            gap[k] = -r[i] + _nearest_wall(
                kinds[w], data[w], x[i, 0], x[i, 1], x[i, 2], period, inverse
            )


@kernel(parallel=True)
def opening_rate(
    x,
    growth,
    drift,
    i_of,
    j_of,
    source,
    normal,
    period,
    inverse,
    kinds,
    before,
    after,
    over,
    rate,
):
    """d gap / dt at fixed x: radii that grow, obstacles that drift, walls that move.

    ``growth`` (B,) dr/dt; ``drift`` (B, 3) velocity of obstacles; ``before`` and ``after`` are the
    data of the walls at two times, ``over`` apart.
    """
    for k in prange(i_of.shape[0]):
        i, j = i_of[k], j_of[k]
        rate[k] = -growth[i]
        if source[k] >= 0:
            rate[k] -= growth[j]
            for d in range(3):
                rate[k] += normal[k, d] * (drift[j, d] - drift[i, d])
        else:
            w = -1 - source[k]
            p = _facing_wall(
                kinds[w], before[w], x[i, 0], x[i, 1], x[i, 2], normal[k], period, inverse
            )
            early, _, _, _ = _to_wall(kinds[w], before[w], p[0], p[1], p[2])
            late, _, _, _ = _to_wall(kinds[w], after[w], p[0], p[1], p[2])
            rate[k] += (late - early) / over


@kernel(parallel=True)
def relative_velocity(i_of, j_of, normal, v, w):
    """n . (v_j - v_i) for each row; v has a last row of zeros for the walls."""
    for k in prange(i_of.shape[0]):
        i, j = i_of[k], j_of[k]
        w[k] = (
            normal[k, 0] * (v[j, 0] - v[i, 0])
            + normal[k, 1] * (v[j, 1] - v[i, 1])
            + normal[k, 2] * (v[j, 2] - v[i, 2])
        )
