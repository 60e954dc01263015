"""Coulomb's law for one contact in the plane, in single numbers.

    u = A r + w,   r = 0 where w_n >= 0, else u = 0, or u_n = 0 and r_t = -mu r_n sign(u_t)   (1)

With g = A_nn w_t - A_tn w_n, of the sign of the sliding that is left without friction, and
D = A_nn A_tt - A_tn^2, (3) of projection/coulomb.py is

    stick:  r_t = -g / D                                                                      (2)
    slip:   r_t = mu w_n sign(g) / (A_nn - mu A_tn sign(g)),       where that is less         (3)
    r_n = -(w_n + A_tn r_t) / A_nn                                                            (4)

It is the commonest problem of a batch, and is written for its compiler: XLA cuts a kernel at each
division that several things are made of, and a short array in a member is not a lane of a vector.
So there are two divisions, and none in the test of what is left of (1); where the residual is
asked for it has its own.
"""

import jax.numpy as jnp
from jax import Array

from carom.projection.exact import Projection
from carom.projection.metric import Metric, summed
from carom.status import Status, failing, first_failure

UNCONVERGED = 1e-9  # a residual above this is not called ok
ROUNDING = 16 * 2.0**-52 / UNCONVERGED
OF_IMPULSE = 1e-12 / UNCONVERGED
TINY = 1e-300


def one_in_plane(
    metric: Metric, target: Array, rows: Array, b: Array, mu: Array, active: Array
) -> Projection:
    """x, r and what is left of the law, with rows (2, d), b (2,), mu () and active ()."""
    N = metric.whiten(rows)
    (H_n, H_t), (n, t), (b_n, b_t) = rows, N, b
    w_n, w_t = b_n + summed(H_n * target), b_t + summed(H_t * target)
    A = summed(n * n), summed(n * t), summed(t * t)
    r_n, r_t = impulse_in_plane(*A, w_n, w_t, mu, active)
    x = target + metric.lift(r_n * n + r_t * t)
    left, scale = _left(A, (w_n, w_t), (r_n, r_t), mu, (rows, N, b), (target, x))
    over = [active & (off > UNCONVERGED * size) for off, size in zip(left, scale, strict=True)]
    residual = jnp.where(active, _more(left[0] / scale[0], left[1] / scale[1]), 0.0)
    unseen = active & ~(w_n >= 0.0) & jnp.isnan(w_n + w_t)
    status = first_failure(
        failing(~jnp.isfinite(summed(x)) | unseen, Status.nonfinite),
        failing(over[0] | over[1], Status.unconverged),
    )
    r = jnp.where(jnp.arange(2) == 0, r_n, r_t)  # chosen from, where a stack would be a kernel
    return Projection(x, r[None], residual, jnp.array(0), status)


def impulse_in_plane(a, c, s, w_n, w_t, mu, active) -> tuple[Array, Array]:
    """r_n and r_t of (2) to (4), with a = A_nn, c = A_tn, s = A_tt."""
    pushed = active & (w_n < 0.0) & (a > 0.0)
    D, g = a * s - c * c, a * w_t - c * w_n
    back, edge, tip = g < 0.0, mu * w_n, mu * c
    below = a - jnp.where(back, -tip, tip)
    slips = (below > 0.0) & ((D <= 0.0) | (-edge * D < jnp.abs(g) * below))
    over = jnp.where(slips, below, D)
    along = jnp.where(slips, jnp.where(back, -edge, edge), -g)
    rubs = pushed & (over > 0.0) & (g != 0.0)
    r_t = jnp.where(rubs, along, 0.0) / jnp.where(rubs, over, 1.0)
    return jnp.where(pushed, -(w_n + c * r_t), 0.0) / jnp.where(pushed, a, 1.0), r_t


def _left(A, w, r, mu, data, points):
    """What is left of the law, normal and tangential, and what each is relative to.

    That of ``_measured`` in projection/coulomb.py, in the plane.
    """
    (a, c, s), (w_n, w_t), (r_n, r_t) = A, w, r
    (H_n, H_t), (n, t), (b_n, b_t) = data
    target, x = points
    u_n, u_t = b_n + summed(H_n * x), b_t + summed(H_t * x)
    z_n, z_t = (a + s) * r_n, (a + s) * r_t
    ahead, reach = z_t - u_t, mu * _more(z_n, 0.0)
    along = _less(_more(ahead, -reach), reach)
    product = _more(
        jnp.abs(w_n) + jnp.abs(a * r_n) + jnp.abs(c * r_t),
        jnp.abs(w_t) + jnp.abs(c * r_n) + jnp.abs(s * r_t),
    )
    both = jnp.abs(target) + jnp.abs(x)
    terms = _more(
        jnp.abs(b_n) + summed(jnp.abs(H_n) * both), jnp.abs(b_t) + summed(jnp.abs(H_t) * both)
    )
    pushes = jnp.abs(n * r_n) + jnp.abs(t * r_t)
    lost = _more(summed(jnp.abs(n) * pushes), summed(jnp.abs(t) * pushes))
    scale = _more(_less(product, terms), ROUNDING * (product + terms + lost))
    scale = _more(scale, TINY)
    slips = jnp.where(jnp.abs(ahead) <= reach, scale, _more(scale, OF_IMPULSE * reach))
    return (jnp.abs(_less(z_n, u_n)), jnp.abs(z_t - along)), (scale, slips)


# Without the care that jnp.maximum takes of what is not finite, which the caller looks at.
def _more(x, y):
    return jnp.where(x > y, x, y)


def _less(x, y):
    return jnp.where(x < y, x, y)
