"""One step for stiff equations: linearly implicit Euler, extrapolated."""

import jax
import jax.numpy as jnp
from jax import Array

from carom.schemes.runge_kutta import step_for


class LinearlyImplicit:
    """Order k from k runs of 1, 2, ..., k Euler steps, with J = d rate / dy at the start.

        (1 - h_j J) (y_{i+1} - y_i) = h_j rate(t_{i+1}, y_i),      h_j = h / j                (1)
        T_{j,1} = y_j,     T_{j,m+1} = T_{j,m} + (T_{j,m} - T_{j-1,m}) / (j / (j-m) - 1)      (2)

    The result is T_{k,k} and the error T_{k,k} - T_{k,k-1} (Deuflhard 1985; Hairer and Wanner,
    Solving Ordinary Differential Equations II, section IV.9).  The table is one of increments, so
    that the weights of (2), some thousands in all, multiply the rounding of the increment only.
    """

    order = 8

    def step(self, rate, t: Array, y: Array, h: Array) -> tuple[Array, Array]:
        """y(t + h) and its estimated error, for y' = rate(t, y)."""
        count = jnp.arange(1, self.order + 1)
        hs = h / count
        J = jax.jacfwd(lambda y: rate(t, y))(y)
        inverse = jnp.linalg.inv(jnp.eye(y.shape[0]) - hs[:, None, None] * J)

        def euler(i, moved):  # (k, n)
            rated = jax.vmap(lambda h, z: rate(t + (i + 1) * h, y + z))(hs, moved)
            step = hs[:, None] * jnp.einsum("jab,jb->ja", inverse, rated)  # (1)
            return jnp.where(i < count[:, None], moved + step, moved)

        moved = jax.lax.fori_loop(0, self.order, euler, jnp.zeros((self.order, y.shape[0])))
        table, before = list(moved), moved[-1]
        for m in range(1, self.order):
            before = table[-1]
            for j in range(self.order, m, -1):  # (2), from below so that nothing is overwritten
                slope = (table[j - 1] - table[j - 2]) * ((j - m) / m)
                table[j - 1] = table[j - 1] + slope
        return y + table[-1], table[-1] - before

    def damped(self, rate, t: Array, y: Array, h: Array, faults: Array) -> Array:
        """Faults (m, n) of the rate, as they reach the motion: times (1 - h J)^-1."""
        J = jax.jacfwd(lambda y: rate(t, y))(y)
        return faults @ jnp.linalg.inv(jnp.eye(y.shape[0]) - h * J).T

    def next_step(self, h: Array, error: Array) -> Array:
        """The step that would have had an error of about one."""
        return step_for(h, error, self.order)
