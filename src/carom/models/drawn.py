"""How the models look (carom.looks): each function takes sizes and returns ``looks(t, q)``."""

import math

import numpy as np

from carom.looks import Disc, Polygon, Segment


def _spring(x1, x2, y, width, turns=8):
    """A zigzag from x1 to x2."""
    x = np.linspace(x1, x2, 2 * turns + 2)
    up = width * np.array([0.0, *(1.0, -1.0) * turns, 0.0])
    return [Segment(x[k], y + up[k], x[k + 1], y + up[k + 1]) for k in range(len(x) - 1)]


def _box(x, y, width, height):
    return Polygon(
        [(x, y), (x + width, y), (x + width, y + height), (x, y + height)],
    )


def ball(size, surface=None):
    """A ball above a floor at 0, or at the height surface(t); q is the height of its lowest point.

    ``size`` is about how far it moves.
    """
    r = 0.05 * size

    def looks(t, q):
        y = 0.0 if surface is None else surface(t)
        return [Segment(-0.4 * size, y, 0.4 * size, y), Disc(0.0, q[0] + r, r)]

    return looks


def oscillator(size, stop=0.0, side=1):
    """A mass on a spring along x, and a stop that it touches from the left (1) or right (-1)."""
    w = 0.15 * size

    def looks(t, q):
        far = stop - side * 2.2 * size
        left = q[0] - w if side > 0 else q[0]
        back = left if side > 0 else left + w
        return [
            *_spring(far, back, 0.0, 0.04 * size),
            _box(left, -w / 2, w, w),
            Segment(stop, -w, stop, w),
            Segment(far, -w, far, w),
        ]

    return looks


def point_in_plane(*walls, size=1.0, polar=False):
    """A point at (x, y), or at (r, angle), among walls that do not move."""

    def looks(t, q):
        x, y = (q[0] * math.cos(q[1]), q[0] * math.sin(q[1])) if polar else q
        return [*walls, Disc(x, y, 0.03 * size)]

    return looks


def ring(radius, sides=72):
    """A circle, as segments."""
    a = np.linspace(0.0, 2.0 * math.pi, sides + 1)
    x, y = radius * np.cos(a), radius * np.sin(a)
    return [Segment(x[k], y[k], x[k + 1], y[k + 1]) for k in range(sides)]


def row(radius):
    """Balls side by side on a line; q has their centres."""

    def looks(t, q):
        ground = Segment(min(q) - 3 * radius, -radius, max(q) + 3 * radius, -radius)
        return [ground, *(Disc(x, 0.0, radius) for x in q)]

    return looks


def column(radius):
    """Balls one on the other."""

    def looks(t, q):
        return [Segment(-3 * radius, 0.0, 3 * radius, 0.0), *(Disc(0.0, y, radius) for y in q)]

    return looks


def cradle(size, spacing):
    """Balls on strings; q has how far each is from where it hangs, on a string so long that the
    swing is small beside it."""
    r, length = 0.25 * size, 3.0 * size

    def looks(t, q):
        shapes = [Segment(-2 * r, length, (2 * r + spacing) * len(q), length)]
        for i, x in enumerate(q):
            hung = i * (2 * r + spacing)
            lift = length - math.sqrt(max(length**2 - x**2, 0.0))
            shapes += [Segment(hung, length, hung + x, lift), Disc(hung + x, lift, r)]
        return shapes

    return looks


def double_pendulum(l1, l2, wall):
    """Two rods with bobs, and the wall to the left of the pivot."""
    r = 0.06 * (l1 + l2) / 2

    def looks(t, q):
        x1, y1 = l1 * math.sin(q[0]), -l1 * math.cos(q[0])
        x2, y2 = x1 + l2 * math.sin(q[1]), y1 - l2 * math.cos(q[1])
        return [
            Segment(-wall, 0.3 * l1, -wall, -1.1 * (l1 + l2)),
            Segment(0.0, 0.0, x1, y1),
            Segment(x1, y1, x2, y2),
            Disc(x1, y1, r),
            Disc(x2, y2, r),
        ]

    return looks


def block(slenderness):
    """A block of half diagonal 1 that stands on a corner, tilted by q."""
    w, h = 2 * math.sin(slenderness), 2 * math.cos(slenderness)

    def looks(t, q):
        c, s = math.cos(q[0]), math.sin(q[0])
        corners = [(0.0, 0.0), (-w, 0.0), (-w, h), (0.0, h)]
        turned = [(x * c + y * s, -x * s + y * c) for x, y in corners]
        return [Segment(-3 * w, 0.0, 2 * w, 0.0), Polygon(turned)]

    return looks


def casing(amplitude, frequency, half):
    """A ball between the walls of a casing."""

    def looks(t, q):
        middle, tall = amplitude * math.sin(frequency * t), 0.3 * half
        left, right = middle - half, middle + half
        walls = [Segment(left, -tall, left, tall), Segment(right, -tall, right, tall)]
        return [*walls, Segment(left, -tall, right, -tall), Disc(q[0], -0.7 * tall, 0.3 * tall)]

    return looks


def follower(amplitude, frequency):
    """A flat follower on an eccentric cam; q is its height above the middle of its travel."""
    R = 2.0 * amplitude

    def looks(t, q):
        x, y = amplitude * math.sin(frequency * t), -amplitude * math.cos(frequency * t)
        foot = q[0] + R
        return [
            Disc(x, y, R),
            Disc(0.0, 0.0, 0.08 * R),
            Segment(x, y, 0.0, 0.0),
            Segment(-R, foot, R, foot),
            Segment(0.0, foot, 0.0, foot + R),
        ]

    return looks
