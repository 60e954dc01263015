"""A contact with a yielding wall in one dimension, solved exactly."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

_CONTACTS = 2  # followed in one call; a third one waits for the next
_ROOT_TURNS = 16  # of Newton's method, kept in a bracket: quadratic once it is close
_CRITICAL = 1e-7  # eps = 1 is the limit of this much less: sin(x)/x is one to 1e-14


class Depth(NamedTuple):
    """Where the point is, against the wall's undeformed face."""

    y: Array  # () depth, negative outside the wall
    u: Array  # () y'
    deepest: Array  # () the largest y on the way


def through(y: Array, u: Array, a: Array, h: Array, eps: Array, root: Array) -> Depth:
    """The depth after the time h, from (y, u) at 0, under a constant acceleration a:

    y'' = a                                             while y <= 0                        (1)
    y'' + (2 eps / root) y' + y / root^2 = a            while y > 0                         (2)
    """
    deepest = jnp.maximum(y, 0.0)
    for _ in range(_CONTACTS):
        entry = jnp.where(y > 0.0, 0.0, jnp.minimum(_arrival(y, u, a), h))
        hit, y, u = (y > 0.0) | (entry < h), y + (u + a * entry / 2) * entry, u + a * entry
        y, h = jnp.where(hit & (entry > 0.0), 0.0, y), h - entry
        spring = _Spring(y, u, a, eps, root)
        top, end = spring.extremes()
        end = jnp.minimum(end, h)
        leaves = hit & (spring.depth(end) < 0.0)
        end = jnp.where(leaves, spring.exit(jnp.minimum(top, end), end), h)
        deepest = jnp.where(hit, jnp.maximum(deepest, spring.depth(jnp.minimum(top, end))), deepest)
        y = jnp.where(leaves, 0.0, jnp.where(hit, spring.depth(end), y))
        u = jnp.where(hit, spring.speed(end), u)
        h = jnp.where(hit, h - end, h)
    entry = _arrival(y, u, a)
    again = (y <= 0.0) & (entry < h)  # a third contact waits at the face: no energy is made there
    h = jnp.where(again, entry, h)
    return Depth(jnp.where(again, 0.0, y + (u + a * h / 2) * h), u + a * h, deepest)


def _arrival(y, u, a):
    """The first time at which (1) comes to y = 0 from below; inf where it does not."""
    square = u**2 - 2.0 * a * y
    speed = jnp.sqrt(jnp.where(square > 0.0, square, 0.0))  # at the face
    inward = u + speed
    at_face = jnp.where((y == 0.0) & (a > 0.0), 0.0, jnp.inf)
    onward = jnp.where(inward > 0.0, -2.0 * y / jnp.where(inward > 0.0, inward, 1.0), at_face)
    back = jnp.where(a > 0.0, (speed - u) / jnp.where(a > 0.0, a, 1.0), jnp.inf)
    return jnp.where(square < 0.0, jnp.inf, jnp.where(u >= 0.0, onward, back))


class _Spring(NamedTuple):
    """(2) from (y, u): about its rest a root^2, a damped oscillation."""

    y: Array
    u: Array
    a: Array
    eps: Array
    root: Array

    @property
    def frequency(self):
        return jnp.sqrt(jnp.maximum(1.0 - self.eps**2, _CRITICAL**2)) / self.root

    @property
    def offset(self):
        return self.y - self.a * self.root**2

    def depth(self, s):
        w, z = self.frequency, self.offset
        swing = z * jnp.cos(w * s) + (self.u + self.eps / self.root * z) / w * jnp.sin(w * s)
        return self.a * self.root**2 + jnp.exp(-self.eps / self.root * s) * swing

    def speed(self, s):
        w = self.frequency
        pull = (self.offset / self.root + self.eps * self.u) / self.root
        swing = self.u * jnp.cos(w * s) - pull / w * jnp.sin(w * s)
        return jnp.exp(-self.eps / self.root * s) * swing

    def extremes(self):
        """The time of the greatest depth, 0 if it is past, and of the least depth after it."""
        w = self.frequency
        pull = (self.offset / self.root + self.eps * self.u) / self.root
        phase = jnp.arctan2(self.u, pull / w)
        return jnp.maximum(phase, 0.0) / w, (phase + jnp.pi) / w

    def exit(self, low, high):
        """The zero of the depth between two times, where it falls."""

        def turn(_, bracket):
            a, b, x = bracket
            y, u = self.depth(x), self.speed(x)
            a, b = jnp.where(y > 0.0, x, a), jnp.where(y > 0.0, b, x)
            new = x - y / jnp.where(u == 0.0, 1.0, u)
            return a, b, jnp.where((new >= a) & (new <= b) & (u != 0.0), new, (a + b) / 2)

        return jax.lax.fori_loop(0, _ROOT_TURNS, turn, (low, high, (low + high) / 2))[2]
