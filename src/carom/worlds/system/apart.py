"""A force that a batch evaluates once a step."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array


class _Apart(eqx.Module):
    """A force that the compiler evaluates once a step.

    On the CPU, XLA copies cheap-looking producers into the loop over each of the step's results: a
    batch would evaluate its force some seven times.  It does not look through a condition, and
    this one it cannot decide.  (benchmarks/speed.py, batch)

    ``alive`` is a number, positive when the program runs, that is the same for every member;
    without it the time takes its place, which does not do where members have times of their own.
    """

    force: Callable
    alive: Array | None = None

    def __call__(self, t, q, v):
        def evaluated(t, q, v):
            return jnp.reshape(jnp.asarray(self.force(t, q, v), float), q.shape)

        def guarded(t, q, v):
            runs = t > -jnp.inf if self.alive is None else self.alive > 0.0
            return jax.lax.cond(runs, evaluated, lambda t, q, v: jnp.zeros_like(q), t, q, v)

        return jax.lax.platform_dependent(t, q, v, cpu=guarded, default=evaluated)


def with_force_apart(system: Any, alive: Array | None = None) -> Any:
    """The same system, for a batch."""
    return eqx.tree_at(lambda s: s.force, system, _Apart(system.force, alive))
