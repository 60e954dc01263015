"""Derivatives of a run: right at impacts, or refused.

With y what a run returns (states, located impacts, impulses) and x the numbers that are
differentiated (parameters, initial data), the rule for both modes of JAX is

    dy = J dx,    J = dy/dx by columns, in forward mode                                       (1)

The columns share one motion.  A product with J can be transposed, which a loop of unknown length
cannot, and ``jax.grad`` keeps nothing of the motion in memory.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.tree_util import tree_map

from carom.errors import DerivativeError


def differentiable(function, *, lockstep: bool = True):
    """``function`` of arrays with the rule (1), for what it closes over too, to any order.

    Without ``lockstep`` the members of a batch are run one after another: in a loop whose length
    differs from member to member, side by side, each would take as long as the longest.
    """

    def called(*args):
        closed = eqx.filter_closure_convert(function, *args)
        return _by_columns(closed, *args, lockstep=lockstep)

    return called


def refusing(function, reason: str):
    """``function`` of arrays, which raises a DerivativeError where JAX would differentiate it."""

    def called(*args):
        return _refused(eqx.filter_closure_convert(function, *args), *args, reason=reason)

    return called


@eqx.filter_custom_jvp
def _by_columns(function, *args, lockstep):
    return function(*args) if lockstep else _one_by_one(function, *args)


@_by_columns.def_jvp
def _by_columns_rule(primals, tangents, *, lockstep):
    x, shaped = ravel_pytree(_where_moved(tangents, primals))
    dx, _ = ravel_pytree(tangents)
    fixed = tree_map(lambda t, p: p if t is None else None, tangents, primals, is_leaf=_is_none)

    def value_and_columns(x):
        def value(x):
            function, *args = eqx.combine(shaped(x), fixed)
            return eqx.partition(function(*args), eqx.is_inexact_array)

        def column(dx):
            return jax.jvp(value, (x,), (dx,), has_aux=True)

        return jax.vmap(column, out_axes=(None, 0, None))(jnp.eye(x.size))

    y, J, rest = differentiable(value_and_columns, lockstep=lockstep)(x)
    return eqx.combine(y, rest), tree_map(lambda c: jnp.tensordot(dx, c, 1), J)


def _one_by_one(*call):
    """function(*args) for call = (function, *args), with a vmap that is a map."""
    arrays, rest = eqx.partition(call, eqx.is_array)
    leaves, tree = jax.tree_util.tree_flatten(arrays)

    @jax.custom_batching.custom_vmap
    def called(*leaves):
        function, *args = eqx.combine(jax.tree_util.tree_unflatten(tree, leaves), rest)
        return function(*args)

    @called.def_vmap
    def mapped(size, batched, *leaves):
        def one(moving):
            moving = iter(moving)
            pairs = zip(leaves, batched, strict=True)
            return called(*(next(moving) if several else leaf for leaf, several in pairs))

        moving = tuple(x for x, several in zip(leaves, batched, strict=True) if several)
        found = jax.lax.map(one, moving) if moving else called(*leaves)
        return found, tree_map(lambda _: bool(moving), found)

    return called(*leaves)


@eqx.filter_custom_jvp
def _refused(function, *args, reason):
    return function(*args)


@_refused.def_jvp
def _refused_rule(primals, tangents, *, reason):
    raise DerivativeError(reason)


@jax.custom_jvp
def no_derivative_where(found, x):
    """x; where ``found`` holds its derivative is NaN, and so is that of all that follows."""
    return x


@no_derivative_where.defjvp
def _no_derivative_rule(primals, tangents):
    (found, x), (_, dx) = primals, tangents
    return no_derivative_where(found, x), tree_map(lambda d: jnp.where(found, jnp.nan, d), dx)


@jax.custom_jvp
def derivative_of(formula, x):
    """x with the derivative of ``formula``, of which x is a more accurate value.

    Where nothing is differentiated, the formula is not computed.
    """
    return x


@derivative_of.defjvp
def _derivative_of_rule(primals, tangents):
    return derivative_of(*primals), tangents[0]  # so that a second derivative finds the first


def _is_none(x):
    return x is None


def _where_moved(tangents, primals):
    """The primals that have a tangent; None for the others."""
    return tree_map(lambda t, p: None if t is None else p, tangents, primals, is_leaf=_is_none)
