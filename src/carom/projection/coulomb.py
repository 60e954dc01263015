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
In the plane the root is a fraction: projection/planar.py.

Several contacts: projection/cones.py, and where that fails projection/grown.py.  Two or three in
the plane are first tried by Newton's method alone, projection/newton_planar.py.  A few in the plane
whose residual is not good enough after all this are solved by their modes, projection/modes.py;
others once more without the part of b that is the bounce of what has all but come to rest.
"""

from functools import reduce

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from carom.projection.cones import length_of, multipliers, scaled_contacts, solved
from carom.projection.exact import Projection
from carom.projection.grown import grown
from carom.projection.joints import Free, free_of_joints
from carom.projection.metric import Metric, gram, metric_of, product, summed
from carom.projection.modes import MOST, best_mode
from carom.projection.newton_planar import newton_planar
from carom.projection.planar import (
    OF_IMPULSE,
    ROUNDING,
    TINY,
    UNCONVERGED,
    impulse_in_plane,
    one_in_plane,
)
from carom.status import Status, failing, first_failure

_ROOTS = 60  # halvings at the worst
_GOOD = 1e-13  # a residual that nothing else has to better
_FEW = 3  # contacts in the plane that newton_planar.py is written for
_SHORT = 8  # terms of a sum that is written out
_POWERS = 0.0, 0.5, 0.75, 0.25  # of mu, where it is large: units of the normal that are tried
_RESTS = 1e-5  # of the velocity without impulses: what b asks for may be left out at last


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

    The last ``joints`` of the p hold by their first row, active ones only.  Multipliers are
    (p, m), normal first.
    """
    if rows.shape[:2] == (1, 2) and not joints:
        return one_in_plane(metric, target, rows[0], b[0], mu[0], active[0])
    n = rows.shape[0] - joints
    free = free_of_joints(metric, target, rows, b, joints, active[n:])
    flat = free.rows.reshape(-1, free.rows.shape[2])
    A = gram(flat).reshape(n, -1, n, free.rows.shape[1])
    contacts = _Contacts(metric, target, rows, b, mu[:n], active[:n], free, A)
    r, turns, residual = contacts.solved()
    y, x = contacts.moved(r)
    unseen = active[:n] & ~(free.b[:, 0] >= 0.0) & jnp.isnan(summed(free.b))
    status = first_failure(
        failing(~jnp.all(jnp.isfinite(x)) | jnp.any(unseen), Status.nonfinite),
        failing(residual > UNCONVERGED, Status.unconverged),
    )
    s = jnp.pad(free.joint_impulse(y, r)[:, None], ((0, 0), (0, r.shape[1] - 1)))
    return Projection(x, jnp.concatenate([r, s]), residual, turns, status)


class _Contacts(eqx.Module):
    """The problem as it is given, the n contacts without its joints, and A."""

    metric: Metric
    target: Array
    rows: Array  # (p, m, d)
    b: Array  # (p, m)
    mu: Array  # (n,)
    active: Array  # (n,)
    free: Free
    A: Array  # (n, m, n, m)

    def solved(self):
        """r (n, m), turns and the residual."""
        (n, m), free = self.free.b.shape, self.free
        if n <= 1:
            one = [_one(self.A[k, :, k], free.b[k], self.mu[k], self.active[k]) for k in range(n)]
            r = jnp.stack(one) if n else free.b
            return r, jnp.array(0), self.residual(r)
        fixed = jax.lax.stop_gradient(self)
        by = fixed.few_in_plane if m == 2 and n <= _FEW else fixed.several
        return multipliers(self.scaled(), by)

    def scaled(self, power: Array | float = 0.0):
        """The law as cones.py has it, mu^power the unit of its normals."""
        still, never = jnp.zeros_like(self.free.y0), jnp.zeros_like(self.active)
        law = self.mu, self.active, never, False
        return scaled_contacts(metric_of(None), still, self.free.rows, self.free.b, *law, power)

    def several(self, _):
        """r, turns and the residual: those of cones.py, and where they fail from grown.py on.

        Where that fails too with large mu, the same again in other units of the normal; then
        without what b asks for in the last moments before rest, which hang on slips of no size.
        """
        powers, small = jnp.array(_POWERS), self.of_rest()
        units = jnp.where(jnp.any(self.active & (self.mu > 1.0)), powers.size, 1)
        modes = self.free.b.shape[1] == 2 and len(self.mu) <= MOST  # these solve it as it is
        most = 2 * units + (0 if modes else 2 * jnp.any(small != 0.0))

        def unfinished(state):
            return ~(state[2] <= UNCONVERGED) & (state[3] < most)

        def turn(state):
            r, turns, residual, k = state
            posed = self.without(jnp.where(k < 2 * units, 0.0, small))
            scaled, again = posed.scaled(powers[k // 2 % units]), k % 2 > 0
            rows = self.free.rows / scaled.scale[..., None]
            guess, more = grown(scaled, rows, jnp.where(again, r, 0.0), again)
            other, last = solved(scaled, guess)
            found = posed.residual(other)
            better = ~(found >= residual)  # or no number
            r, residual = jnp.where(better, other, r), jnp.where(better, found, residual)
            return r, turns + more + last, residual, k + 1

        start = jnp.zeros_like(self.free.b), jnp.array(0), jnp.array(jnp.inf), jnp.array(0)
        r, turns, residual, _ = jax.lax.while_loop(unfinished, turn, start)
        if modes:
            r, residual, tried = self.best_mode(r)
            turns = turns + tried
        return r, turns, residual

    def of_rest(self):
        """(n,) the normal b of contacts where it is small beside the velocity without impulses.

        What bounces in a corner of walls that rub, e > 0, comes to rest in ever smaller bounces: b
        is 1e-8 of what the force does in a step, and the direction of a slip as small decides.
        """
        b = self.b[: len(self.mu), 0]
        largest = jnp.max(jnp.where(self.active[:, None], jnp.abs(self.free.b), 0.0))
        return jnp.where(self.active & (jnp.abs(b) <= _RESTS * largest), b, 0.0)

    def without(self, small):
        """The problem whose normal b has ``small`` (n,) less."""
        n, where = len(self.mu), lambda s: (s.b, s.free.b)
        less = self.b.at[:n, 0].add(-small), self.free.b.at[:, 0].add(-small)
        return eqx.tree_at(where, self, less)

    def few_in_plane(self, scaled):
        """r, turns and the residual: Newton steps, or all there is where these are not enough.

        That is a loop of one turn: a batch does without it where no member needs it.  It starts
        from its state: XLA takes out of a loop, and always computes, what does not hang on that.
        """
        y, turns = newton_planar(scaled.A, scaled.w, self.mu, self.active)
        r = y / scaled.scale

        def unfinished(state):
            return state[3]

        def turn(state):
            r, turns, _, bad = state
            r, more = solved(scaled, jnp.where(bad, 0.0, r))
            r, residual, tried = self.best_mode(r)
            return r, turns + more + tried, residual, jnp.array(False)

        residual = self.residual(r)
        state = r, turns, residual, ~(residual <= _GOOD)
        return jax.lax.while_loop(unfinished, turn, state)[:3]

    def best_mode(self, r):
        """r, its residual and turns: r as it is, or that of a mode where it is not good enough."""
        law = self.free.b, self.mu, self.active
        return best_mode(self.free.rows, *law, self.residual, r, UNCONVERGED)

    def moved(self, r):
        """y and x of (1)."""
        flat = self.free.rows.reshape(-1, self.free.rows.shape[2])
        y = self.free.y0 + product(flat.T, r.reshape(-1))
        return y, self.target + self.metric.lift(y)

    def residual(self, r):
        """The larger of what is left of (2) and of the joints."""
        (n, m), free = r.shape, self.free
        y, x = self.moved(r)
        u = (self.b + _summed(self.rows, x))[:n]
        terms = jnp.abs(self.b) + _summed(jnp.abs(self.rows), jnp.abs(self.target) + jnp.abs(x))
        # terms of u that end in rounding: the pushes of contacts that A does not couple
        shares = jnp.abs(free.rows).reshape(n * m, -1)
        lost = _summed(shares, _summed(shares.T, jnp.abs(r).reshape(-1))).reshape(n, m)
        if free.joints.shape[0]:
            pushes = jnp.abs(free.contacts).reshape(n * m, -1).T @ jnp.abs(r).reshape(-1)
            whole = jnp.abs(self.metric.lift(jnp.abs(free.y0) + pushes))
            lost = lost + _summed(jnp.abs(self.rows), whole)[:n]  # and what joints take
        law = _measured(self.A, u, free.b, r, self.mu, self.active, terms[:n], lost)
        return jnp.maximum(law, free.residual(y))


def _measured(A, u, w, r, mu, active, terms, lost):
    """The largest violation of (2), as a velocity, relative to u's own terms: with z = tr(A_kk) r,

        min(z_n, u_n) = 0,     z_t = P(z_t - u_t) onto the disc of radius mu z_n

    (Alart and Curnier), which does not make a rounding of u_t mu times larger.  Terms are
    |w| + |A||r|, or |b| + |H|(|x| + |target|) where that is less (masses 1 : 10^6 make A r a small
    rest of large terms); and no less than what rounding leaves of both.  What slips may be off by
    1e-12 of its impulse."""
    z = r * jnp.einsum("iaia->i", A)[:, None]
    t, reach = z[:, 1:] - u[:, 1:], mu * jnp.maximum(z[:, 0], 0.0)
    size = length_of(t)
    sticks = size <= reach
    along = jnp.where(sticks, 1.0, reach / jnp.where(size > 0.0, size, 1.0))[:, None] * t
    scale = jnp.abs(w) + _summed(jnp.abs(A).reshape(*r.shape, -1), jnp.abs(r).reshape(-1))
    scale, terms, lost = _largest(scale), _largest(terms), _largest(lost)
    scale = jnp.maximum(jnp.minimum(scale, terms), ROUNDING * (scale + terms + lost))
    scale = jnp.maximum(scale, TINY)
    slips = jnp.where(sticks, scale, jnp.maximum(scale, OF_IMPULSE * reach))
    opens, slides = jnp.abs(jnp.minimum(z[:, 0], u[:, 0])), _largest(jnp.abs(z[:, 1:] - along))
    off = jnp.maximum(opens / scale, slides / slips)
    return jnp.max(jnp.where(active, off, 0.0), initial=0.0)


def _largest(x):
    """(p,) of (p, m); written out, as sums are in ``_summed``."""
    return reduce(jnp.maximum, [x[:, a] for a in range(x.shape[1])])


def _summed(A, x):
    """``product`` written out while it is short: a reduction in a reduction is not vectorised."""
    if x.shape[0] > _SHORT:
        return product(A, x)
    return reduce(jnp.add, [A[..., k] * x[k] for k in range(x.shape[0])])


def _one(A, w, mu, active):
    """r (m,) of (3)."""
    if w.shape[0] == 2:
        return jnp.stack(impulse_in_plane(A[0, 0], A[0, 1], A[1, 1], w[0], w[1], mu, active))
    pushed = active & (w[0] < 0.0) & (A[0, 0] > 0.0)
    a, w_n = jnp.where(pushed, A[0, 0], 1.0), jnp.where(pushed, w[0], -1.0)
    S = A[1:, 1:] - jnp.outer(A[1:, 0], A[0, 1:]) / a
    c = w[1:] - A[1:, 0] * w_n / a
    t = _space(S, c, A, w_n, a, mu)
    n = -(w_n + jnp.dot(A[0, 1:], t)) / a
    return jnp.where(pushed, jnp.concatenate([n[None], t]), 0.0)


def _space(S, c, A, w_n, a, mu):
    """The root by Newton's method, kept between bounds, in the directions where S is diagonal."""
    mean, half, cross = (S[0, 0] + S[1, 1]) / 2, (S[0, 0] - S[1, 1]) / 2, (S[0, 1] + S[1, 0]) / 2
    radius = jnp.sqrt(half**2 + cross**2)
    angle = 0.5 * jnp.arctan2(cross, half)
    turn = jnp.array([[jnp.cos(angle), jnp.sin(angle)], [-jnp.sin(angle), jnp.cos(angle)]])
    s = jnp.maximum(jnp.stack([mean + radius, mean - radius]), 0.0)
    c, coupling = turn @ c, turn @ A[0, 1:]

    def at(l):
        return -c / jnp.maximum(s + l, TINY)

    def over(l):  # mu r_n - |r_t|: negative where it slips more
        t = at(l)
        return -mu * (w_n + coupling @ t) / a - jnp.sqrt(jnp.sum(t**2))

    # beyond this |r_t| <= |c| / l is too small to leave the cone whatever its direction
    most = jnp.sqrt(jnp.sum(c**2)) * (a / jnp.maximum(mu, TINY) + jnp.sqrt(jnp.sum(coupling**2)))
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
