"""Coulomb's law for few contacts, solved exactly, traceable and batched.

    u = H x + b,    M (x - target) = H^T r + J^T s,    J x + c = 0                            (1)
    K* ∋ u + mu |u_t| n   perp   r ∈ K,      K = { |r_t| <= mu r_n },  contact by contact     (2)

(2) says: open (r = 0), stick (u = 0), or slip, u_n = 0 and r_t opposite to u_t with |r_t| = mu r_n
(De Saxce).  Joints J are eliminated first (projection/joints.py).  Then, with A = H M^-1 H^T and
w = H x_free + b, u = A r + w.

One contact has a solution in closed form but for one root.  Where w_n < 0, with the normal
eliminated, S = A_tt - A_tn A_nt / A_nn and c = w_t - A_tn w_n / A_nn,

    (S + l) r_t = -c,     r_n = -(w_n + A_nt r_t) / A_nn,     l >= 0                          (3)

sticks at l = 0 if that is in the cone; else it slips with u_t = -l r_t, and l is the root of
mu r_n = |r_t|, which exists: |r_t| falls to zero as l grows while r_n tends to -w_n / A_nn > 0.
In the plane the root is a fraction.

Several contacts take turns at (3), Gauss-Seidel, and between the turns Newton's method tries the
equations of Alart and Curnier, which are (2) written with projections; it ends what turns begin.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from carom.projection.exact import Projection
from carom.projection.joints import free_of_joints
from carom.projection.metric import Metric
from carom.status import Status, failing, first_failure

_RESOLVED = 1e-13  # relative residual at which nothing more is tried
_UNCONVERGED = 1e-9  # and above which the answer is not called one
_TURNS = 60  # each of some sweeps and a step of Newton's method
_SWEEPS = 6  # in a turn, of the first
_QUICK = 4  # turns; sweeps that cycle, as they can where friction is large, are damped after them:
_DAMPING = 0.1  # part of its own trace that holds a contact where it was,
_PATIENT = 40  # sweeps in a turn then
_ROOTS = 60  # halvings at the worst
_TINY = 1e-300


def coulomb(
    metric: Metric,
    target: Array,
    rows: Array,
    b: Array,
    mu: Array,
    active: Array,
    joints: int = 0,
) -> Projection:
    """x of (1) and (2), with rows (p, m, d), b (p, m), mu (p,), active (p,).

    The last ``joints`` of the p hold by their first row.  Multipliers are (p, m), normal first.
    """
    free = free_of_joints(metric, target, rows, b, joints)
    n = free.b.shape[0]
    mu, active = mu[:n], active[:n]
    A = jnp.einsum("iak,jbk->iajb", free.rows, free.rows)
    r, turns = _solved(A, free.b, mu, active)
    y = free.y0 + jnp.einsum("iak,ia->k", free.rows, r)
    x = target + metric.lift(y)
    u = (b + jnp.einsum("iad,d->ia", rows, x))[:n]
    residual = jnp.maximum(_measured(A, u, free.b, r, mu, active), free.residual(y))
    status = first_failure(
        failing(~jnp.all(jnp.isfinite(x)), Status.nonfinite),
        failing(residual > _UNCONVERGED, Status.unconverged),
    )
    s = jnp.pad(free.joint_impulse(y, r)[:, None], ((0, 0), (0, r.shape[1] - 1)))
    return Projection(x, jnp.concatenate([r, s]), residual, turns, status)


def _measured(A, u, w, r, mu, active):
    """The largest violation of (2): the natural map as a velocity, relative to its terms."""
    rho = 1.0 / jnp.maximum(jnp.einsum("iaia->i", A), _TINY)
    t = jnp.sqrt(jnp.sum(u[:, 1:] ** 2, axis=1))
    bar = u.at[:, 0].add(mu * t)
    off = (r - onto(r - rho[:, None] * bar, mu)) / rho[:, None]
    scale = jnp.abs(w) + jnp.einsum("iajb,jb->ia", jnp.abs(A), jnp.abs(r))
    off = jnp.max(jnp.abs(off), axis=1) / jnp.maximum((1.0 + mu) * jnp.max(scale, axis=1), _TINY)
    return jnp.max(jnp.where(active, off, 0.0), initial=0.0)


def onto(r: Array, mu: Array) -> Array:
    """(p, m) the nearest points of the cones |r_t| <= mu r_n."""
    n, t = r[:, 0], r[:, 1:]
    length = jnp.sqrt(jnp.sum(t**2, axis=1))
    along = (n + mu * length) / (1.0 + mu**2)  # on the face, of the unit vector (1, mu t/|t|)
    face = jnp.concatenate(
        [along[:, None], (mu * along / jnp.maximum(length, _TINY))[:, None] * t], axis=1
    )
    inside, polar = length <= mu * n, mu * length <= -n
    return jnp.where(inside[:, None], r, jnp.where(polar[:, None], 0.0, face))


# ---- one contact --------------------------------------------------------------------------------


def _one(A, w, mu, active):
    """r (m,) of (3)."""
    pushed = active & (w[0] < 0.0) & (A[0, 0] > 0.0)
    a, w_n = jnp.where(pushed, A[0, 0], 1.0), jnp.where(pushed, w[0], -1.0)
    S = A[1:, 1:] - jnp.outer(A[1:, 0], A[0, 1:]) / a
    c = w[1:] - A[1:, 0] * w_n / a
    t = _plane(S, c, A, w_n, a, mu) if w.shape[0] == 2 else _space(S, c, A, w_n, a, mu)
    n = -(w_n + jnp.dot(A[0, 1:], t)) / a
    return jnp.where(pushed, jnp.concatenate([n[None], t]), 0.0)


def _plane(S, c, A, w_n, a, mu):
    """The root is 1 / (S + l) = mu |w_n| / a / (|c| - mu A_tn c / a)."""
    S, c, coupling = S[0, 0], c[0], A[0, 1]
    below = jnp.abs(c) - mu * coupling * c / a
    slips = below > 0.0
    slip = jnp.where(slips, -mu * w_n / a / jnp.where(slips, below, 1.0), jnp.inf)
    stick = jnp.where(S > 0.0, 1.0 / jnp.where(S > 0.0, S, 1.0), jnp.inf)
    x = jnp.minimum(slip, stick)
    return jnp.where(jnp.isfinite(x), -c * jnp.where(jnp.isfinite(x), x, 0.0), 0.0)[None]


def _space(S, c, A, w_n, a, mu):
    """The root by Newton's method, kept between bounds, in the directions where S is diagonal."""
    mean, half, cross = (S[0, 0] + S[1, 1]) / 2, (S[0, 0] - S[1, 1]) / 2, (S[0, 1] + S[1, 0]) / 2
    radius = jnp.sqrt(half**2 + cross**2)
    angle = 0.5 * jnp.arctan2(cross, half)
    turn = jnp.array([[jnp.cos(angle), jnp.sin(angle)], [-jnp.sin(angle), jnp.cos(angle)]])
    s = jnp.maximum(jnp.stack([mean + radius, mean - radius]), 0.0)
    c, coupling = turn @ c, turn @ A[0, 1:]

    def at(l):
        return -c / jnp.maximum(s + l, _TINY)

    def over(l):  # mu r_n - |r_t|: negative where it slips more
        t = at(l)
        return -mu * (w_n + coupling @ t) / a - jnp.sqrt(jnp.sum(t**2))

    # beyond this |r_t| <= |c| / l is too small to leave the cone whatever its direction
    most = jnp.sqrt(jnp.sum(c**2)) * (a / jnp.maximum(mu, _TINY) + jnp.sqrt(jnp.sum(coupling**2)))
    most = jnp.where(mu > 0.0, most / -w_n, 0.0)

    def closer(_, bounds):
        low, high, l = bounds
        value, slope = jax.jvp(over, (l,), (jnp.ones(()),))
        low, high = jnp.where(value < 0.0, l, low), jnp.where(value < 0.0, high, l)
        new = l - value / jnp.where(slope != 0.0, slope, 1.0)
        good = (new > low) & (new < high) & jnp.isfinite(new)
        return low, high, jnp.where(good, new, 0.5 * (low + high))

    sticks = over(jnp.zeros(())) >= 0.0
    low, high, l = jax.lax.fori_loop(0, _ROOTS, closer, (jnp.zeros(()), most, 0.5 * most))
    l = jnp.where(sticks, 0.0, jnp.where((l > low) & (l < high), l, high))
    return jnp.where(mu > 0.0, turn.T @ at(l), 0.0)


# ---- several ------------------------------------------------------------------------------------


class _Turn(eqx.Module):
    r: Array
    residual: Array
    turns: Array


def _solved(A, w, mu, active):
    """r (p, m), and the number of turns."""
    p = w.shape[0]
    if p == 0:
        return w, jnp.array(0)
    if p == 1:
        return _one(A[0, :, 0], w[0], mu[0], active[0])[None], jnp.array(0)

    def residual(r):
        u = w + jnp.einsum("iajb,jb->ia", A, r)
        return _measured(A, u, w, r, mu, active)

    def swept(r, times, damping):
        def contact(i, r):
            own = A[i, :, i] + damping * jnp.trace(A[i, :, i]) * jnp.eye(w.shape[1])
            left = w[i] + jnp.einsum("ajb,jb->a", A[i], r) - own @ r[i]
            return r.at[i].set(_one(own, left, mu[i], active[i]))

        one = lambda _, r: jax.lax.fori_loop(0, p, contact, r)  # noqa: E731
        return jax.lax.fori_loop(0, times, one, r)

    def turn(s):
        patient = s.turns >= _QUICK
        r = swept(s.r, jnp.where(patient, _PATIENT, _SWEEPS), jnp.where(patient, _DAMPING, 0.0))
        tried = _newton(A, w, mu, active, r)
        before, after = residual(r), residual(tried)
        better = after < before  # not where it is NaN
        r = jnp.where(better, tried, r)
        return _Turn(r, jnp.where(better, after, before), s.turns + 1)

    start = _Turn(jnp.zeros_like(w), residual(jnp.zeros_like(w)), jnp.array(0))
    unfinished = lambda s: (s.residual > _RESOLVED) & (s.turns < _TURNS)  # noqa: E731
    s = jax.lax.while_loop(unfinished, turn, start)
    return s.r, s.turns


def _newton(A, w, mu, active, r):
    """Steps of Newton's method on the equations of Alart and Curnier."""
    p, m = w.shape
    rho = 1.0 / jnp.maximum(jnp.einsum("iaia->i", A), _TINY)[:, None]

    def fault(flat):
        r = flat.reshape(p, m)
        u = w + jnp.einsum("iajb,jb->ia", A, r)
        want = r - rho * u
        n = jnp.maximum(want[:, 0], 0.0)
        t, most = want[:, 1:], mu * n
        square = jnp.sum(t**2, axis=1)
        slides = square > most**2
        length = jnp.sqrt(jnp.where(slides & (square > 0.0), square, 1.0))
        t = jnp.where(slides[:, None], (most / length)[:, None] * t, t)
        found = jnp.concatenate([n[:, None], t], axis=1)
        return jnp.ravel((r - jnp.where(active[:, None], found, 0.0)) / rho)

    def step(_, flat):
        slope, value = jax.jacfwd(fault)(flat), fault(flat)
        new = flat - jnp.linalg.lstsq(slope, value)[0]
        better = jnp.sum(fault(new) ** 2) < jnp.sum(value**2)
        return jnp.where(better, new, flat)

    return jax.lax.fori_loop(0, 3, step, jnp.ravel(r)).reshape(p, m)
