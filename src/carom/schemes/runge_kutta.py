"""One explicit Runge-Kutta step, with the coefficients of a Diffrax solver."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from carom.projection.metric import times


class RungeKutta:
    """A tableau as dense arrays; order 8(7) of Dormand and Prince by default."""

    def __init__(self, name: str = "Dopri8"):
        import diffrax  # here: `import carom` stays quick

        solver = getattr(diffrax, name)
        tableau = solver.tableau
        stages = len(tableau.b_sol)
        self.order = solver().order(None)
        self.c = np.concatenate([[0.0], tableau.c])
        self.a = np.zeros((stages, stages))
        for i, row in enumerate(tableau.a_lower):
            self.a[i + 1, : len(row)] = row
        self.b, self.b_error = np.asarray(tableau.b_sol), np.asarray(tableau.b_error)

    def step(self, rate, t: Array, y: Array, h: Array) -> tuple[Array, Array]:
        """y(t + h) and its estimated error, for y' = rate(t, y)."""
        a, c = jnp.asarray(self.a), jnp.asarray(self.c)

        def stage(i, k):
            rated = rate(t + c[i] * h, y + h * times(a[i], k))
            return jax.lax.dynamic_update_slice(k, rated[None], (i, 0))

        k = jax.lax.fori_loop(0, len(self.b), stage, jnp.zeros((len(self.b), y.shape[0])))
        return y + h * times(self.b, k), h * times(self.b_error, k)

    def damped(self, rate, t: Array, y: Array, h: Array, faults: Array) -> Array:
        """Faults (m, n) of the rate, as they reach the motion."""
        return faults

    def next_step(self, h: Array, error: Array) -> Array:
        """The step that would have had an error of about one."""
        return step_for(h, error, self.order)


def step_for(h: Array, error: Array, order: int) -> Array:
    """The step that would have had an error of about one, where h had ``error``."""
    factor = 0.9 * jnp.maximum(error, 1e-10) ** (-1.0 / order)
    return h * jnp.clip(factor, 0.2, 5.0)


def absolute(part: float, span: Array, gap: Array, q: Array, v: Array, a: Array) -> Array:
    """The absolute tolerance of a motion of length T = ``span`` that starts so,

        part min(1, S),    S = max( |q|, |g|, T |v|, T^2 |a| )

    which does not depend on the unit of length where the motion is smaller than that.
    """
    sizes = jnp.concatenate([q, gap, span * v, span**2 * a])
    largest = jnp.max(jnp.abs(jax.lax.stop_gradient(sizes)))
    return part * jnp.where(largest > 0.0, jnp.minimum(largest, 1.0), 1.0)
