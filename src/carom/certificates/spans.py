"""Along the records of a motion: neighbours, spans between two of them, many at a time."""

import numpy as np

# Every bound is this times the first-order estimate of what a scheme may do in a step.
MARGIN = 2.0
_CHUNK = (1024, 8192)  # records evaluated by one call: two sizes, so two compilations at most


def in_chunks(function, system, arrays, sizes=_CHUNK):
    """``function`` over the leading axis, in calls of one size: the last is padded."""
    n = len(arrays[0])
    size = sizes[0] if n <= sizes[0] else sizes[1]
    padded = [np.concatenate([a, np.repeat(a[-1:], -n % size, axis=0)]) for a in arrays]
    found = [function(system, [a[k : k + size] for a in padded]) for k in range(0, n, size)]
    return type(found[0])(*(np.concatenate(x)[:n] for x in zip(*found, strict=True)))


def ends(x):
    return x[:-1], x[1:]


def earlier(x, start):
    """The entry before, along the first axis."""
    return np.concatenate([np.full_like(x[:1], start), x[:-1]])


def later(x, end):
    """The entry after."""
    return np.concatenate([x[1:], np.full_like(x[:1], end)])


def widest(x):
    """The largest of an entry and its neighbours along the first axis."""
    padded = np.concatenate([x[:1], x, x[-1:]])
    return np.maximum(np.maximum(padded[:-2], padded[1:-1]), padded[2:])
