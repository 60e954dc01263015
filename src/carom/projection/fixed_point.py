"""The fixed point of a force that depends on the velocity it produces."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from carom.projection.metric import solve_dense
from carom.status import Status, failing, first_failure

_TOLERANCE = 1e-13  # last change, relative to the velocity: some hundred units of rounding
_TURNS = 400  # enough for a contraction of factor 0.92; a slower one calls for a smaller dt
_ENOUGH = 1e-9  # of it where changes fall no more; the residual of the step then says so
_NEAR = 1e-3  # of it: a change that is no larger has not grown
_PATIENCE = 20  # turns before a change that exceeds the one before it ends them: modes change too
_NEWTON_TURNS = 30


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)  # a Module takes as long to make as a sphere to move
class Solved:
    """x = phi(x), with how it was found; arrays of the world's own namespace."""

    value: Any  # the last phi(x), a Projection or what else has its fields; its point is the answer
    distance: Any  # () |phi(x) - x| at the last evaluation
    change: Any  # () the same, relative to |phi(x)| + |x|
    contraction: Any  # () largest measured ratio of successive changes
    turns: Any  # () int, evaluations of phi
    status: Status


def fixed_point(phi, guess: Array, *, iterate: bool, newton: bool, noise=None) -> Solved:
    """Solve ``x = phi(x).point`` from ``guess``; one evaluation when phi does not depend on x.

    ``noise(value)`` is how well phi(x) is known, in the units of x: a change below it is none.
    """
    if not iterate:
        value = phi(guess)
        zero = jnp.zeros(())
        return Solved(value, zero, zero, zero, jnp.array(0), value.status)
    noise = (lambda value: 0.0) if noise is None else noise
    solved = _picard(phi, guess, noise)
    if newton:
        solved = _newton(phi, guess, solved, noise)
    # where contacts nearly repeat each other, phi(x) itself is known no better than this
    status = Status.where(solved.change <= _ENOUGH, Status.ok, solved.status)
    status = first_failure(solved.value.status, status)
    return eqx.tree_at(lambda s: s.status, solved, status)


def _change(value, x):
    """|phi(x) - x|, and relative to the size of both."""
    distance = jnp.max(jnp.abs(value.point - x))
    size = jnp.max(jnp.abs(value.point)) + jnp.max(jnp.abs(x))
    return distance, distance / jnp.maximum(size, 1e-300)


def _blank(phi, x):
    """What phi returns, as zeros: the loops need its shape before its first evaluation."""
    blank = jax.tree_util.tree_map(lambda a: jnp.zeros(a.shape, a.dtype), jax.eval_shape(phi, x))
    return eqx.tree_at(lambda v: v.point, blank, x)


def _picard(phi, guess, noise):
    """x <- phi(x), given up where changes grow."""

    def unfinished(s):
        on = (s.contraction < 1.0) | (s.turns < _PATIENCE)
        return (s.status != Status.ok) & on & (s.turns < _TURNS)

    def turn(s):
        x = s.value.point
        value = phi(x)
        distance, change = _change(value, x)
        noisy = distance <= noise(value)
        ratio = jnp.where((s.turns > 0) & ~noisy, distance / s.distance, 0.0)
        contraction = jnp.maximum(s.contraction, ratio)
        status = failing(~(noisy | (change <= _TOLERANCE)), Status.contraction)
        return Solved(value, distance, change, contraction, s.turns + 1, status)

    inf = jnp.array(jnp.inf)
    start = Solved(_blank(phi, guess), inf, inf, jnp.zeros(()), jnp.array(0), Status.contraction)
    return jax.lax.while_loop(unfinished, turn, start)


def _newton(phi, guess, s, noise):
    """Newton on x - phi(x) = 0; nothing is left to do where Picard has converged.

    From where changes have led, or from the guess where they grew.
    """

    def residual(x):
        value = phi(x)
        return value.point - x, value

    def unfinished(loop):
        s, _, turns = loop
        return (s.status != Status.ok) & (turns < _NEWTON_TURNS)

    def turn(loop):
        s, x, turns = loop
        slope, value = jax.jacfwd(residual, has_aux=True)(x)
        x1 = x + solve_dense(-slope, value.point - x)
        distance, change = _change(value, x)
        settled = (change <= _TOLERANCE) | (distance <= noise(value))
        status = failing(~settled, Status.contraction)
        found = Solved(value, distance, change, s.contraction, s.turns + 1, status)
        return found, x1, turns + 1

    x = s.value.point
    start = jnp.where(jnp.all(jnp.isfinite(x)) & (s.change <= _NEAR), x, guess)
    return jax.lax.while_loop(unfinished, turn, (s, start, jnp.array(0)))[0]
