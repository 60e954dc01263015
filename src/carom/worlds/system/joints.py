"""Whether a step has held the joints of a System.

A step takes out what the one before has left of them, so that c is of second order in the step's
own motion x = q1 - q, and in what drives them.  With the gradients J of c,

    |c(t1, q1)| <= 1/2 |J|_M^-1 |x|_M + (t1 - t) |d_t c|        (d_t c at t or t1, the larger)   (1)

or the step has leapt over the curve they are on, for which it must bend: J has turned; x without
the coordinates that a joint does not depend on.  The whole of d_t c is allowed, for Moreau is late
by a step: it leaves all of a joint that is set in motion.

Joints that contradict each other have no place where they all hold, and steps that look for one
may go to and fro with any speed, which (1) allows for.  So where c is more than a little of the
motion, such a place is looked for from q1 on: a step that is merely long finds it.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from carom.projection.joints import SMALL, where_they_hold
from carom.projection.metric import product, summed
from carom.status import Status, failing

_LEAPT = 0.5  # of the motion, (1)
_LITTLE = 0.02  # of both terms of (1): less is not looked at
_UNTOLD = 1e-6  # of the terms of a joint: what it may be off by, whatever moved
_TURNED = 0.1  # of J: less is no leap


def held(world: Any, old: Any, new: Any, asked: Array | bool = True) -> Status:
    """Infeasible where a step from state ``old`` to ``new`` did not; ok if it is not asked."""

    def seen(state):
        t, q = jnp.asarray(state.t, float), state.q
        c, rate = jax.jvp(lambda t: world.joints(t, q), (t,), (jnp.ones(()),))
        return jnp.abs(c), jnp.abs(rate), jax.jacfwd(world.joints, argnums=1)(t, q)

    (_, before, J0), (c, after, J) = seen(old), seen(new)
    metric, rate = world.metric(new.q), jnp.maximum(before, after)
    x = jnp.where((J0 != 0.0) | (J != 0.0), new.q - old.q, 0.0)
    moved = jnp.sqrt(2.0 * summed(metric.whiten(J) ** 2) * jax.vmap(metric.energy)(x))
    driven = rate * jnp.abs(new.t - old.t)
    size = jnp.sum(jnp.abs(J), axis=1)
    terms = product(jnp.abs(J), jnp.abs(new.q)) + SMALL * size + rate * jnp.abs(new.t)
    least = _UNTOLD * terms
    turned = jnp.sum(jnp.abs(J - J0), axis=1) > _TURNED * size
    leapt = jnp.any(turned & (c > least + _LEAPT * moved + driven))
    suspect = asked & jnp.any(c > least + _LITTLE * (moved + driven))
    _, off = where_they_hold(world.joints, new.t, new.q, suspect)
    nowhere = suspect & ~(off <= _UNTOLD)
    return failing(asked & (leapt | nowhere), Status.infeasible)
