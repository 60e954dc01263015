"""The fixed point of a force that depends on the velocity it produces."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from carom.metric import solve_dense
from carom.status import Status, failing, first_failure

_TOLERANCE = 1e-13  # last change, relative to the velocity: some hundred units of rounding
_TURNS = 200  # reached by a contraction of factor 0.86; a slower one calls for a smaller dt
_NEWTON_TURNS = 30


class Solved(eqx.Module):
    """x = phi(x), with how it was found."""

    value: Any  # phi at the solution: a Projection, or what else has its fields
    change: Array  # () |phi(x) - x| relative to |x|, measured after the loop
    contraction: Array  # () largest measured ratio of successive changes
    turns: Array  # () int
    status: Status


def fixed_point(phi, guess: Array, *, iterate: bool, newton: bool) -> Solved:
    """Solve ``x = phi(x).point`` from ``guess``; one evaluation when phi does not depend on x."""
    if not iterate:
        value = phi(guess)
        return Solved(value, jnp.zeros(()), jnp.zeros(()), jnp.array(0), value.status)
    x, contraction, turns = _picard(phi, guess)
    if newton:
        x, more = _newton(phi, x)
        turns += more
    value = phi(x)
    change = _distance(value.point, x) / _size(value.point, guess)
    status = failing(~(change <= 10 * _TOLERANCE), Status.contraction)
    return Solved(value, change, contraction, turns, first_failure(value.status, status))


def _distance(a, b):
    return jnp.max(jnp.abs(a - b))


def _size(*vectors):
    return jnp.maximum(sum(jnp.max(jnp.abs(v)) for v in vectors), 1e-300)


def _picard(phi, guess):
    """x <- phi(x), given up as soon as two changes in a row have grown."""

    def unfinished(loop):
        x, change, contraction, turns = loop
        return (change > _TOLERANCE * _size(x, guess)) & (contraction < 1.0) & (turns < _TURNS)

    def turn(loop):
        x, change, contraction, turns = loop
        new = phi(x).point
        new_change = _distance(new, x)
        ratio = jnp.where(turns > 0, new_change / change, 0.0)
        return new, new_change, jnp.maximum(contraction, ratio), turns + 1

    loop = (guess, jnp.array(jnp.inf), jnp.zeros(()), jnp.array(0))
    x, _, contraction, turns = jax.lax.while_loop(unfinished, turn, loop)
    return x, contraction, turns


def _newton(phi, x):
    """Newton on x - phi(x) = 0; does nothing where Picard has converged."""

    def residual(x):
        return phi(x).point - x

    def unfinished(loop):
        x, change, turns = loop
        return (change > _TOLERANCE * _size(x)) & (turns < _NEWTON_TURNS)

    def turn(loop):
        x, _, turns = loop
        step = solve_dense(-jax.jacfwd(residual)(x), residual(x))
        return x + step, jnp.max(jnp.abs(step)), turns + 1

    start = jnp.where(jnp.all(jnp.isfinite(x)), x, 0.0)
    x, _, turns = jax.lax.while_loop(unfinished, turn, (start, _distance(residual(start), 0.0), 0))
    return x, turns
