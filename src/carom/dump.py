"""A tree of arrays as bytes, and back: a checkpoint is the state of a run, dumped.

Whatever a world or a scheme remembers is a tree of arrays (a JAX pytree), each under its path in
the tree: ``state.q``, ``state.memory.pair``.  No world and no file format knows more of it.
"""

import io
from typing import Any

import jax
import numpy as np

_LARGE = 512  # entries from which an array of few numbers is kept as those
_PARTS = AT, OF, SHAPE = "#at", "#of", "#shape"


def dumped(tree: Any, *, short: bool = True) -> bytes:
    """All of its arrays; if ``short``, of a large one that is zero in most places, the others.

    If not, the length depends on the shapes alone.
    """
    buffer, arrays = io.BytesIO(), {}
    for name, value in named(tree).items():
        arrays |= _few(name, value) if short and value.size >= _LARGE else {name: value}
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def named(tree: Any) -> dict[str, np.ndarray]:
    """The arrays of a tree by their paths."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {
        jax.tree_util.keystr(path, simple=True, separator="."): np.asarray(x) for path, x in leaves
    }


def arrays_of(data: bytes) -> dict[str, np.ndarray]:
    """The arrays of a dump by their paths, in their order in the tree."""
    with np.load(io.BytesIO(data)) as found:
        names = dict.fromkeys(name.partition("#")[0] for name in found.files)
        return {name: _whole(found, name) for name in names}


def restored(data: bytes, like: Any) -> Any:
    """The tree that was dumped, of NumPy arrays; ``like`` is one of the same making."""
    found, (_, shape) = arrays_of(data), jax.tree_util.tree_flatten(like)
    return jax.tree_util.tree_unflatten(shape, [found[name] for name in named(like)])


def _few(name, value) -> dict[str, np.ndarray]:
    at = np.flatnonzero(value)
    if 2 * len(at) >= value.size:
        return {name: value}
    return {name + AT: at, name + OF: value.ravel()[at], name + SHAPE: np.array(value.shape)}


def _whole(found, name) -> np.ndarray:
    if name in found:
        return found[name]
    at, of, shape = (found[name + part] for part in _PARTS)
    value = np.zeros(shape, of.dtype)
    value.ravel()[at] = of
    return value
