"""The mean of a function of time over a step, to a tolerance."""

from typing import Any

import numpy as np

_PANELS = 4  # at least, of a step
_DEPTH = 50  # halvings of a step: at a jump the rest is that small
_FINE, _COARSE = (np.polynomial.legendre.leggauss(n) for n in (8, 5))
_NODES = 0.5 + 0.5 * np.concatenate([_FINE[0], _COARSE[0]])  # (13,) in [0, 1]
_MEAN = 0.5 * np.concatenate([_FINE[1], 0.0 * _COARSE[1]])
_ERROR = 0.5 * np.concatenate([_FINE[1], -_COARSE[1]])


def adaptive_mean(f, t, dt, tolerance: float, xp, repeat) -> Any:
    """The mean of ``f``, which takes times (13,) to values (13, ...), over [t, t + dt].

    Panel by panel from the left: [p, p + w] of the step, p and w powers of two, is taken by Gauss'
    rule of 8 points if that of 5 is within

        |G8 - G5| <= tolerance max|f|      or      w = 2^-50                                   (1)

    with the largest value met so far, else halved; behind it w may double again, to 1/4 at most.
    So the mean is off by no more than (1), as far as G5 tells.  A step is seen at 52 times at
    least, none farther than dt / 23 from the next.  ``repeat(going, turn, state)`` is a loop,
    ``xp`` the namespace of arrays.
    """
    nodes, weights, defect = (xp.asarray(a) for a in (_NODES, _MEAN, _ERROR))

    def going(state):
        return state[0] < 1.0

    def turn(state):
        p, w, total, largest = state
        values = f(t + dt * (p + w * nodes))
        largest = xp.maximum(largest, xp.max(xp.abs(values)))
        off = xp.max(xp.abs(xp.tensordot(defect, values, 1)))
        good = ~(off > tolerance * largest) | (w <= 2.0**-_DEPTH)  # also what is not a number
        total = xp.where(good, total + w * xp.tensordot(weights, values, 1), total)
        p1 = xp.where(good, p + w, p)
        even = p1 / (2.0 * w) == xp.floor(p1 / (2.0 * w))
        wider = xp.where(even & (2.0 * w <= 1.0 / _PANELS), 2.0 * w, w)
        return p1, xp.where(good, wider, 0.5 * w), total, largest

    none = 0.0 * f(t + 0.0 * nodes + 0.5 * dt)[0]
    zero, width = xp.zeros(()), xp.asarray(1.0 / _PANELS)
    return repeat(going, turn, (zero, width, none, zero))[2]


def repeated(going, turn, state):
    """The loop of NumPy arrays."""
    while going(state):
        state = turn(state)
    return state
