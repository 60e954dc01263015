"""The projection onto cones for few contacts, and Coulomb's law, traceable and batched.

    convex law:  x* = argmin 1/2 |x - target|^2_M   subject to   H_k x + b_k in K*_k           (1)
    KKT:         M (x* - target) = sum_k H_k^T lam_k,     K*_k ∋ u_k   perp   lam_k ∈ K_k      (2)
    Coulomb:     the same with u_k + mu |u_t| n in place of u_k = H_k x* + b_k                 (3)

K is |lam_t| <= mu lam_n, normal first, or the whole space for a joint.  In the multipliers, with
A = H M^-1 H^T and w = H target + b, u = A lam + w.  Each contact is scaled so that |A_kk| = 1.  The
law does not change where H_n, b_n and mu are divided by the same number, a unit of the normal: some
problems with large mu are solved only where that is not 1.

One turn is a sweep of exact solutions of one contact after another (kernels/numba/friction.py has
the equations), damped, and then a Newton step, which is kept where it makes the residual smaller.
For Coulomb's law it is that of Alart and Curnier (1991),

    F_n = lam_n - (z_n)_+,   F_t = lam_t - P_D(z_t),   z = lam - u,   D = { |t| <= mu (z_n)_+ } (4)

and for the convex law that of F = lam - P_K(z).  A may have less than full rank, for hyperstatic
contacts are the normal case: the matrix of the step has A + eps in place of A, which is Newton's
method for the proximal point, and eps falls as steps succeed.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from carom.derivatives import derivative_of
from carom.errors import ShapeError
from carom.projection.exact import Projection
from carom.projection.metric import Metric, gram, metric_of, product, solve_dense
from carom.status import Status, failing, first_failure

_DAMPING = 0.1
_TURNS = 300
_PARTS = np.array([1.0, 0.5, 0.2, 0.05])  # of a Newton step, which are tried
_START, _FALL, _RISE, _NEAR, _TRIES = 0.1, 0.3, 3.0, 0.3, 10
_ROUNDING = 2e-15  # of the terms of u: a residual below it is not worth another turn
_UNCONVERGED = 1e-9  # a residual above this is not called ok
_TINY = 1e-300


def project_cones(
    target: Array,
    H: Array,
    b: Array,
    mu: Array,
    *,
    mass: Array | Metric | None = None,
    active: Array | None = None,
    free: Array | None = None,
    convex: bool = False,
) -> Projection:
    """The point nearest to ``target`` that contacts with friction allow, in the kinetic metric.

    ``target`` is (d,), ``H`` (p, m, d) and ``b`` (p, m) with the normal row first, m = 1 (no
    friction), 2 or 3; ``mu`` (p,).  ``mass`` is None (identity), (d,), (d, d) or a Metric;
    ``active`` (p,) leaves out contacts where it is False; ``free`` (p,) marks joints, whose rows
    are equations.  ``convex`` asks for (1) instead of Coulomb's law (3).  Works under jit and vmap;
    multipliers are (p, m).
    """
    target, H, b = jnp.asarray(target, float), jnp.asarray(H, float), jnp.asarray(b, float)
    if H.ndim != 3 or target.ndim != 1 or H.shape != (*b.shape, *target.shape) or b.shape[1] > 3:
        raise ShapeError(
            f"target {target.shape}, H {H.shape}, b {b.shape}: they must be (d,), (p, m, d), "
            "(p, m) with m at most 3"
        )
    p, m, d = H.shape
    if not isinstance(mass, Metric):
        mass = metric_of(None if mass is None else jnp.asarray(mass, float))
    mu = jnp.broadcast_to(jnp.asarray(mu, float), (p,))
    active = jnp.ones(p, bool) if active is None else jnp.asarray(active, bool)
    free = jnp.zeros(p, bool) if free is None else jnp.asarray(free, bool)
    if p == 0:
        return Projection(target, b, jnp.zeros(()), jnp.zeros((), int), Status.ok)
    contacts = scaled_contacts(mass, target, H, b, mu, active, free, convex)
    lam, turns = multipliers(contacts)
    N = mass.whiten(H.reshape(p * m, d))
    point = target + mass.lift(product(N.T, lam.reshape(-1)))
    data = jnp.sum(jnp.where(active[:, None], b + jnp.sum(H, axis=2), 0.0))
    finite = jnp.isfinite(jnp.sum(point)) & jnp.isfinite(data)
    residual = law_residual(mass, target, H, b, mu, active, free, convex, point, lam)
    stuck = jnp.any(active & contacts.flat & ~free & (contacts.w[:, 0] < 0.0))
    status = first_failure(
        failing(~finite, Status.nonfinite),
        failing(stuck, Status.infeasible),
        failing(~(residual <= _UNCONVERGED), Status.unconverged),
    )
    return Projection(point, lam, residual, turns, status)


def law_residual(metric, target, H, b, mu, active, free, convex, x, lam) -> Array:
    """The largest violation of (2) or (3), relative to the size of its own terms.

    That of the law is the natural map lam - P_K(lam - rho (u + mu |u_t| n)), as a velocity.
    """
    p, m, d = H.shape
    Mx, Mt = metric.apply(x), metric.apply(target)
    rows = H.reshape(p * m, d)
    balance = jnp.max(jnp.abs(Mx - Mt - product(rows.T, lam.reshape(-1))))
    balance_scale = jnp.max(
        jnp.abs(Mx) + jnp.abs(Mt) + product(jnp.abs(rows).T, jnp.abs(lam.reshape(-1)))
    )
    stiffness = _stiffness(metric.whiten(rows).reshape(p, m, d))
    u = product(rows, x).reshape(p, m) + b
    natural = _natural(lam * stiffness[:, None], u, mu, active, free, convex)
    size = jnp.max(jnp.abs(H), axis=(1, 2)) * jnp.sum(jnp.abs(x) + jnp.abs(target))
    size = jnp.maximum(size + jnp.max(jnp.abs(b), axis=1), _TINY)
    outside = jnp.where(active[:, None], natural, 0.0) / size[:, None]
    return jnp.maximum(
        balance / jnp.maximum(balance_scale, _TINY), jnp.max(jnp.abs(outside), initial=0.0)
    )


class Contacts(eqx.Module):
    """The law in scaled multipliers y = scale lam: u = A y + w with |A_kk| = 1."""

    A: Array  # (p, m, p, m)
    w: Array  # (p, m)
    mu: Array  # (p,)
    scale: Array  # (p, m) sqrt |H_k M^-1 H_k^T|, that of the normal in its unit
    flat: Array  # (p,) bool: no rows
    active: Array
    free: Array
    convex: bool = eqx.field(static=True)

    def velocity(self, y):
        p, m = self.w.shape
        return product(self.A.reshape(p * m, p * m), y.reshape(-1)).reshape(p, m) + self.w

    def residual(self, y):
        """The norm of the natural map."""
        u = self.velocity(y)
        return _norm(_natural(y, u, self.mu, self.active, self.free, self.convex))

    def newton_map(self, y):
        """(4), or lam - P_K(z): what a Newton step brings to zero."""
        u = self.velocity(y)
        if self.convex or y.shape[1] == 1:
            return _natural(y, u, self.mu, self.active, self.free, True)
        z = y - u
        push = jnp.maximum(z[:, 0], 0.0)
        reach, length = self.mu * push, length_of(z[:, 1:])
        shrink = jnp.where(length <= reach, 1.0, reach / jnp.where(length > 0.0, length, 1.0))
        onto = jnp.concatenate([push[:, None], shrink[:, None] * z[:, 1:]], axis=1)
        return _where(self.free, u, _where(self.active, y - onto, y))


def multipliers(contacts: Contacts, by=None) -> tuple:
    """lam (p, m) and turns, or lam and what else there is ``by(contacts)``."""
    fixed = jax.lax.stop_gradient(contacts)
    lam, *more = solved(fixed) if by is None else by(fixed)
    y = lam * fixed.scale
    step = _newton(fixed, y, contacts.newton_map(y), 1e-10)
    return derivative_of((y + step) / contacts.scale, lam), *more


def scaled_contacts(metric, target, H, b, mu, active, free, convex, power: Array | float = 0.0):
    """Contacts, with mu^power for the unit of the normal."""
    p, m, d = H.shape
    unit = jnp.where((mu > 1.0) & (mu < jnp.inf), mu, 1.0) ** power
    units = jnp.where(jnp.arange(m) == 0, unit[:, None], 1.0)
    N = metric.whiten(H.reshape(p * m, d))
    scale = jnp.sqrt(_stiffness(N.reshape(p, m, d) / units[..., None]))[:, None] * units
    flat = jnp.max(jnp.abs(H), axis=(1, 2)) == 0.0
    N = N / scale.reshape(-1)[:, None]
    A = gram(N).reshape(p, m, p, m)
    w = (product(H.reshape(p * m, d), target).reshape(p, m) + b) / scale
    return Contacts(A, w, mu / unit, scale, flat, active, free & active, convex)


def _stiffness(N):
    """|H_k M^-1 H_k^T| of whitened rows (p, m, d), 1 where there are none."""
    square = jnp.sum(N * N, axis=(1, 2))
    return jnp.where(square > 0.0, square, 1.0)


def _natural(y, u, mu, active, free, convex):
    """y - P_K(y - u - mu |u_t| n), contact by contact; y where not active, u for a joint."""
    shift = 0.0 if convex or y.shape[1] == 1 else mu * length_of(u[:, 1:])
    z = (y - u).at[:, 0].add(-shift)
    return _where(free, u, _where(active, y - onto_cone(z, mu), y))


def onto_cone(z, mu, xp: Any = jnp):
    """The nearest point of |z_t| <= mu z_n, contact by contact: z (p, m), mu (p,)."""
    length = length_of(z[:, 1:], xp)
    normal = xp.maximum((z[:, 0] + mu * length) / (1.0 + mu * mu), 0.0)
    along = (mu * normal / xp.where(length > 0.0, length, 1.0))[:, None] * z[:, 1:]
    edge = xp.concatenate([normal[:, None], along], axis=1)
    inside = (length <= mu * z[:, 0]) & (z[:, 0] >= 0.0)  # without width: not below
    return xp.where(inside[:, None], z, edge)


def _where(which, a, b):
    return jnp.where(which[:, None], a, b)


def _norm(x):
    return jnp.sqrt(jnp.sum(x * x))


def length_of(t, xp: Any = jnp):
    """|t| over the last axis, with a derivative of 0 at 0."""
    if t.shape[-1] == 1:
        return xp.abs(t[..., 0])
    square = xp.sum(t * t, axis=-1)
    return xp.where(square > 0.0, xp.sqrt(xp.where(square > 0.0, square, 1.0)), 0.0)


def _newton(c: Contacts, y, F, eps):
    """The step -J^-1 F with A + eps for A, J the generalised derivative of the map."""
    p, m = y.shape
    u = c.velocity(y)
    E = jnp.eye(p * m).reshape(p, m, p, m)
    A = c.A + eps * E
    z = y - u
    n, t = z[:, 0], z[:, 1:]
    length = length_of(t)
    unit = t / jnp.where(length > 0.0, length, 1.0)[:, None]
    through = E - A  # dz
    across = unit[:, :, None] * unit[:, None, :]
    turning = jnp.eye(m - 1) - across  # (p, m - 1, m - 1)
    along = jnp.einsum("kt,ktjs->kjs", unit, through[:, 1:])
    sideways = jnp.einsum("kst,ktjr->ksjr", turning, through[:, 1:])
    if c.convex or m == 1:
        mu = c.mu[:, None, None]
        radius = jnp.maximum((n + c.mu * length) / (1.0 + c.mu**2), 0.0)
        dn = (through[:, 0] + mu * along) / (1.0 + mu**2)
        inside, polar = (length <= c.mu * n) & (n >= 0.0), c.mu * length <= -n
        slips = ~inside & ~polar
        edge_n = dn
        ratio = c.mu * radius / jnp.where(length > 0.0, length, 1.0)
        edge_t = unit[:, :, None, None] * (mu * dn)[:, None] + ratio[:, None, None, None] * sideways
        d_n = jnp.where(_wide(inside, 3), through[:, 0], jnp.where(_wide(slips, 3), edge_n, 0.0))
        d_t = jnp.where(_wide(inside, 4), through[:, 1:], jnp.where(_wide(slips, 4), edge_t, 0.0))
    else:
        closed = n > 0.0
        reach = c.mu * jnp.maximum(n, 0.0)
        sticks = closed & (length <= reach)
        ratio = reach / jnp.where(length > 0.0, length, 1.0)
        edge_t = ratio[:, None, None, None] * sideways
        edge_t = edge_t + unit[:, :, None, None] * (c.mu[:, None, None] * through[:, 0])[:, None]
        d_n = jnp.where(_wide(closed, 3), through[:, 0], 0.0)
        d_t = jnp.where(_wide(sticks, 4), through[:, 1:], jnp.where(_wide(closed, 4), edge_t, 0.0))
    J = E - jnp.concatenate([d_n[:, None], d_t], axis=1)
    J = jnp.where(_wide(c.free, 4), A, jnp.where(_wide(c.active, 4), J, E))
    step = solve_dense(J.reshape(p * m, p * m), -F.reshape(-1)).reshape(p, m)
    return jnp.where(jnp.all(jnp.isfinite(step)), step, 0.0)


def _wide(which, axes):
    return which.reshape(which.shape + (1,) * (axes - 1))


class _State(eqx.Module):
    y: Array
    centre: Array  # of the proximal term eps (y - centre)
    near: Array  # residual of the proximal problem at y
    goal: Array  # where that is good enough
    eps: Array
    tries: Array  # turns with this centre and eps
    best: Array
    least: Array  # residual of best
    idle: Array  # turns since best was found
    turns: Array


def solved(c: Contacts, guess=None) -> tuple[Array, Array]:
    """lam (p, m) and turns, from a guess (p, m) of it or from 0."""
    size = _norm(c.w)

    def unfinished(s):
        rounding = _ROUNDING * (size + _norm(s.best))
        patience = jnp.where(s.least > 1e3 * rounding, _TURNS, 4)
        return (s.least > rounding) & (s.turns < _TURNS) & (s.idle < patience)

    def turn(s):
        shifted = eqx.tree_at(lambda c: (c.A, c.w), c, (c.A + s.eps * E, c.w - s.eps * s.centre))
        swept = _sweep(shifted, s.y)
        before = shifted.residual(swept)
        step = _newton(shifted, swept, shifted.newton_map(swept), 0.0)
        trials = swept + _PARTS[:, None, None] * step
        afters = jax.vmap(shifted.residual)(trials)
        which = jnp.argmin(afters)
        trial, after = trials[which], afters[which]
        better = after < before
        y, near = jnp.where(better, trial, swept), jnp.minimum(after, before)
        found = c.residual(y)
        record = found < s.least
        least = jnp.minimum(found, s.least)
        done, lost = near <= s.goal, s.tries >= _TRIES
        eps = jnp.where(done, _FALL * s.eps, jnp.where(lost, _RISE * s.eps, s.eps))
        return _State(
            y=y,
            centre=jnp.where(done, y, s.centre),
            near=near,
            goal=jnp.where(done, _NEAR * found, s.goal),
            eps=jnp.clip(eps, 1e-10, 1.0),
            tries=jnp.where(done | lost, 0, s.tries + 1),
            best=jnp.where(record, y, s.best),
            least=least,
            idle=jnp.where(record, 0, s.idle + 1),
            turns=s.turns + 1,
        )

    p, m = c.w.shape
    E = jnp.eye(p * m).reshape(p, m, p, m)
    zero = jnp.zeros_like(c.w) if guess is None else guess * c.scale
    if p == 1:  # at once, where A is regular
        alone = _contact(c.A[0, :, 0], c.w[0], c.mu[0], c.free[0], c.convex, zero[0])
        zero = jnp.where(c.active[0] & jnp.all(jnp.isfinite(alone)), alone, 0.0)[None]
    first = c.residual(zero)
    start = _State(
        zero, zero, first, _NEAR * first, jnp.array(_START), jnp.array(0), zero, first,
        jnp.array(0), jnp.array(0),
    )  # fmt: skip
    end = jax.lax.while_loop(unfinished, turn, start)
    return end.best / c.scale, end.turns


def _sweep(c: Contacts, y):
    """One contact after the other, damped."""
    p, m = y.shape

    def one(k, y):
        u = product(c.A[k].reshape(m, p * m), y.reshape(-1)) + c.w[k]
        A = c.A[k, :, k] + _DAMPING * jnp.eye(m)
        new = _contact(A, u - product(A, y[k]), c.mu[k], c.free[k], c.convex, y[k])
        return y.at[k].set(jnp.where(c.active[k], new, 0.0))

    return jax.lax.fori_loop(0, p, one, y)


def _contact(A, b, mu, free, convex, guess):
    """The exact solution of one contact, A regular."""
    m = b.shape[0]
    held = solve_dense(A, -b)
    if m == 1:
        return jnp.where(free, held, jnp.maximum(held, 0.0))
    length = length_of(held[1:])
    if convex:
        stays = (length <= mu * held[0]) & (held[0] >= 0.0)
        new = jax.lax.fori_loop(
            0, 8, lambda _, y: onto_cone((y - 0.9 * (product(A, y) + b))[None], mu[None])[0], guess
        )
        return jnp.where(free | stays, held, new)
    h, g, a = -b[0] / A[0, 0], A[0, 1:] / A[0, 0], A[1:, 0]
    S, c = A[1:, 1:] - a[:, None] * g, b[1:] + a * h
    sticks = (held[0] >= 0.0) & (length <= mu * held[0])
    slips = _slip_planar(c, g, h, mu) if m == 2 else _slip(S, c, g, h, mu, ~sticks & (b[0] < 0.0))
    closed = jnp.where(sticks, held, jnp.where(mu > 0.0, slips, jnp.zeros(m).at[0].set(h)))
    return jnp.where(free, held, jnp.where(b[0] >= 0.0, 0.0, closed))


def _slip_planar(c, g, h, mu):
    side = jnp.where(c[0] < 0.0, 1.0, -1.0)
    side = jnp.where(1.0 + side * mu * g[0] > 0.0, side, -side)
    normal = h / (1.0 + side * mu * g[0])
    return jnp.stack([normal, side * mu * normal])


def _slip(S, c, g, h, mu, wanted):
    """(S + l) t = -c with mu (h - g . t) = |t|: the root l by a bracketed Newton method."""

    def sliding(l):
        x, y = S[0, 0] + l, S[1, 1] + l
        det = x * y - S[0, 1] * S[1, 0]
        t = jnp.stack([S[0, 1] * c[1] - y * c[0], S[1, 0] * c[0] - x * c[1]]) / det
        dt = jnp.stack([S[0, 1] * t[1] - y * t[0], S[1, 0] * t[0] - x * t[1]]) / det
        return t, dt

    def unfinished(state):
        _, _, _, open_, k = state
        return open_ & (k < 60)

    def turn(state):
        l, low, high, _, k = state
        t, dt = sliding(l)
        length, normal = length_of(t), h - jnp.sum(g * t)
        f = mu * normal - length
        low, high = jnp.where(f < 0.0, l, low), jnp.where(f < 0.0, high, l)
        slope = mu * (-jnp.sum(g * dt) * length - normal * jnp.sum(t * dt) / length)
        new = jnp.where(slope > 0.0, l - f * length / jnp.where(slope > 0.0, slope, 1.0), -1.0)
        middle = jnp.where(jnp.isfinite(high), 0.5 * (low + high), 4.0 * l)
        new = jnp.where((new > low) & (new < high), new, middle)
        near = (jnp.abs(f) <= 4e-15 * (length + mu * jnp.abs(h))) | (jnp.abs(new - l) <= 1e-15 * l)
        return jnp.where(near, l, new), low, high, ~near, k + 1

    start = (jnp.array(1.0), jnp.array(0.0), jnp.array(jnp.inf), wanted, jnp.array(0))
    t, _ = sliding(jax.lax.while_loop(unfinished, turn, start)[0])
    return jnp.concatenate([length_of(t)[None] / jnp.where(mu > 0.0, mu, 1.0), t])
