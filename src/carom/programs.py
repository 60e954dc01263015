"""Compiled programs that are let go of with the functions they were made of."""

import functools
import weakref
from collections.abc import Callable
from typing import Any, TypeVar, cast

import equinox as eqx
import jax
from jax.tree_util import tree_flatten, tree_unflatten

_F = TypeVar("_F", bound=Callable)


def compiled(function: _F, jit: Callable = jax.jit) -> _F:
    """``function`` of arrays and of anything that hashes, compiled once for each of the latter.

    JAX keeps what it compiled, and with it all that a closure holds.  Here a function among the
    arguments, as in a System, is known by itself and not kept: what was compiled with it goes when
    it goes.
    """
    programs: dict = {}

    @functools.wraps(function)
    def called(*args, **kwargs):
        arrays, rest = eqx.partition((args, kwargs), eqx.is_array)
        leaves, tree = tree_flatten(rest)
        key = (tuple(_not_kept(x) for x in leaves), tree)
        program = programs.get(key)
        if program is None:
            program = programs[key] = jit(_program(function, *key))
            for x in key[0]:
                if isinstance(x, _NotKept):
                    weakref.finalize(x.found(), programs.pop, key, None).atexit = False
        return program(arrays)

    return cast(_F, called)


def _program(function, leaves, tree):
    def of_arrays(arrays):
        args, kwargs = eqx.combine(arrays, tree_unflatten(tree, leaves))
        return function(*args, **kwargs)

    of_arrays.__name__ = function.__name__
    return of_arrays


class _NotKept:
    """A function that is alive elsewhere."""

    def __init__(self, function: Any):
        self.found: Callable[[], Any] = weakref.ref(function)
        self.hashed = hash(function)

    def __call__(self, *args):
        return self.found()(*args)

    def __getattr__(self, name):
        return getattr(self.found(), name)

    def __hash__(self):
        return self.hashed

    def __eq__(self, other):
        return isinstance(other, _NotKept) and self.found() is other.found() is not None


def _not_kept(x: Any) -> Any:
    """A callable that is equal to itself alone; others, numbers and texts, as they are."""
    alone = callable(x) and type(x).__hash__ is object.__hash__
    return _NotKept(x) if alone and type(x).__weakrefoffset__ else x
