"""What a batch evaluates once a step: its force, and its projections."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array


def once(alive: Array, function: Callable, otherwise: Callable, *args: Any) -> Any:
    """``function(*args)``, which the compiler evaluates once.

    On the CPU, XLA copies cheap-looking producers into the loop over each of the step's results: a
    batch would evaluate its force some seven times, and its impact law four.  It does not look
    through a condition, and this one it cannot decide: ``alive`` is a number, greater than
    -infinity when the program runs, that is the same for every member.
    (benchmarks/speed.py, batch)
    """

    def guarded(*args):
        return jax.lax.cond(alive > -jnp.inf, function, otherwise, *args)

    return jax.lax.platform_dependent(*args, cpu=guarded, default=function)


class Apart(eqx.Module):
    """A force that is evaluated ``once`` a step.

    Without ``alive`` the time takes its place, which does not do where members have times of their
    own.
    """

    force: Callable
    alive: Array | None = None

    def at(self, t: Array) -> Array:
        """What says that the program runs."""
        return t if self.alive is None else self.alive

    def __call__(self, t, q, v):
        def evaluated(t, q, v):
            return jnp.reshape(jnp.asarray(self.force(t, q, v), float), q.shape)

        return once(self.at(t), evaluated, lambda t, q, v: jnp.zeros_like(q), t, q, v)


def with_force_apart(system: Any, alive: Array | None = None) -> Any:
    """The same system, for a batch."""
    return eqx.tree_at(lambda s: s.force, system, Apart(system.force, alive))
