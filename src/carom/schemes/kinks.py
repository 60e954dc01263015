"""Kinks of the force, met by the steps of a method of high order: a step of each ends beside it.

Across a kink the motion and its derivative are continuous, and the error of a step of length h that
holds one is of low order, whatever the method: with K the change of the slope of the force,

    error of x   ~  K |v| h^2,        of its derivative  ~  K h                               (1)

so that where the first is a tolerance the second is its square root.  A kink is seen where a step
that was shortened from h' to h has lost less of its error than order 4 would:

    error(h) > (h / h')^4 error(h')                                                           (2)

It lies before the end of that step, the fence.  What is left to the fence is halved, and a part of
it is passed only with an error below SHARP tolerances: the error of the derivative is 1e-4 of what
it would be.  A force without kinks never meets (2).

Where a step begins at a kink, or within rounding of it, JAX has the slope of one side and the step
goes on with that of the other.  With d(s) = f(s) - f(0) - s f'(0) along the motion,

    |d(s)| > 1e-4 s (|f'(0)| + |f(0)| / h),    d(2 s) = 2 d(s),      s = 1e-6 h               (3)

says so, and the step is short.  It is asked where runs begin and at records, whose times are round.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

SHARP = 1e-8  # tolerances; and of a step
_PART = 1e-6  # of a step, in (3)


class Kink(eqx.Module):
    """What is known of a kink ahead."""

    fence: Array  # () the time before which it lies; inf: none is known
    failed: Array  # () length of the last step refused for its error, since the last one taken
    fault: Array  # () its error

    @staticmethod
    def none() -> "Kink":
        return Kink(jnp.asarray(jnp.inf), jnp.zeros(()), jnp.zeros(()))

    @property
    def ahead(self) -> Array:
        return self.fence < jnp.inf

    def strict(self, errors: Array, rounding: Array) -> Array:
        """Errors in parts of what is allowed here."""
        return jnp.where(self.ahead, jnp.maximum(errors - rounding, 0.0) / SHARP, errors)

    def refused(self, t: Array, h: Array, error: Array) -> "Kink":
        """After a step from t whose error was too large."""
        slow = (self.failed > 0.0) & (error > self.fault * (h / self.failed) ** 4)  # (2)
        fence = jnp.where(slow, jnp.minimum(self.fence, t + h), self.fence)
        begun = slow & ~self.ahead  # from now on errors are in parts of SHARP
        return Kink(fence, h, jnp.where(begun, error / SHARP, error))

    def taken(self, t: Array, h: Array) -> "Kink":
        """After a step from t."""
        passed = t + h >= self.fence - 1e-3 * h
        gone = ~self.ahead | passed
        fence = jnp.where(passed, jnp.inf, self.fence)
        return Kink(fence, *(jnp.where(gone, 0.0, x) for x in (self.failed, self.fault)))

    def limited(self, t: Array, h: Array) -> Array:
        """A step from t: half of what is left to the fence, or all where (1) lets it."""
        left = self.fence - t
        whole = self.fault * left**2 <= 0.5 * self.failed**2
        return jnp.where(self.ahead, jnp.minimum(h, jnp.where(whole, left, 0.5 * left)), h)


def short_at_kink(world, state, h: Array) -> Array:
    """h, or where (3) holds less."""
    t, q, v, h = jax.lax.stop_gradient((state.t, state.q, state.v, h))
    a = world.metric(q).solve(world.forces(t, q, v))

    def force(s):
        return world.forces(t + s, q + s * v, v + s * a)

    f, slope = jax.jvp(force, (jnp.zeros(()),), (jnp.ones(()),))
    s, size, steep = _PART * h, jnp.max(jnp.abs(f)), jnp.max(jnp.abs(slope))
    one, two = (jnp.abs(force(x) - f - x * slope) for x in (s, 2.0 * s))
    i = jnp.argmax(one)
    kinked = (one[i] > 1e-4 * s * (steep + size / h)) & (
        jnp.abs(two[i] - 2 * one[i]) < 0.02 * one[i]
    )
    return jnp.where(kinked, SHARP * h, h)
