"""The exact projection for few constraints, traceable and batched.

    x* = argmin 1/2 |x - target|^2_M   subject to   G x + b >= 0                              (1)
    KKT: M (x* - target) = G^T lam,   0 <= lam  perp  G x* + b >= 0                           (2)

One row has a closed form.  Several rows use the dual active-set method of Goldfarb and Idnani
(1983), which is finite, needs no feasible start, and meets linearly dependent, redundant and
contradictory rows as ordinary cases.  In the whitened unknown y, x = target + W^T y, with unit rows

    n_i = W G_i / |W G_i|,   c_i = (G_i target + b_i) / |W G_i|:   min 1/2 |y|^2,  n_i y + c_i >= 0.

The pseudo-inverse P of the rows in the working set is carried and updated by Greville's formulas:
products of vectors only, so no factorisation enters a compiled loop and the condition of the rows
is not squared, as it would be with G M^-1 G^T.  The derivative is that of (2) with the same rows
tight.

Three or more rows that are nearly opposite can make a working set in which digits are lost.  Where
the residual of (2) shows it, the dual is solved again by the proximal point method,

    lam_{k+1} = argmin 1/2 lam^T (N N^T + s_k^2) lam + (c - s_k^2 lam_k) lam,   lam >= 0      (3)

each time with the same active-set method on the rows [n_i, s_k e_i], which are independent, and
s_k falling; it tends to multipliers that are no larger than they must be.
"""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from carom.derivatives import derivative_of
from carom.errors import ShapeError
from carom.projection.metric import Metric, gram, metric_of, product, solve_dense, summed
from carom.status import Status, failing, first_failure

# A row is violated when its slack is below minus this times its own scale |G||x| + |b|; some
# hundred units of rounding, and ten times below the residual promised to callers.
_SLACK = 1e-13
# A contradiction within this many times the size of the data is one.
_REACH = 1e3
# A unit row closer than this to the span of the working rows is in the span.
_DEPENDENT = 1e-11


# A residual above this is not called ok, whatever the iteration thinks.
_UNCONVERGED = 1e-9
# One above this is worth (3), at most so many times.
_CARE = 1e-13
_PROXIMAL, _LEAST = 24, 1e-8  # and s_k


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)  # a Module takes as long to make as a sphere to move
class Projection:
    """A projected point with the proof that it is one; arrays of the caller's namespace."""

    point: Any  # (d,) x*
    multipliers: Any  # (p,) lam >= 0, momentum per unit of G
    residual: Any  # () relative KKT residual, measured from (2) in the caller's variables
    iterations: Any  # () int
    status: Status


def project(
    target: Array,
    G: Array,
    b: Array,
    *,
    mass: Array | Metric | None = None,
    active: Array | None = None,
) -> Projection:
    """The point of ``{x : G x + b >= 0}`` nearest to ``target`` in the kinetic metric.

    ``target`` is (d,), ``G`` (p, d), ``b`` (p,).  ``mass`` is None (identity), (d,), (d, d) or a
    Metric; ``active`` (p,) leaves out the rows where it is False.  Works under jit and vmap.
    Returned are the ``point`` (d,), its ``multipliers`` (p,) >= 0, the relative ``residual``
    measured from the definition, ``iterations`` and ``status``.

    Examples
    --------
    >>> import carom
    >>> onto = carom.project([1.0, -2.0], G=[[0.0, 1.0]], b=[0.0], mass=[1.0, 3.0])
    >>> print(onto.point, onto.multipliers)
    [1. 0.] [6.]
    """
    target, G, b = jnp.asarray(target, float), jnp.asarray(G, float), jnp.asarray(b, float)
    if not isinstance(mass, Metric):
        mass = metric_of(None if mass is None else jnp.asarray(mass, float))
    active = jnp.ones(b.shape, bool) if active is None else jnp.asarray(active, bool)
    if target.ndim != 1 or b.ndim != 1 or G.shape != (*b.shape, *target.shape):
        raise ShapeError(
            f"target {target.shape}, G {G.shape}, b {b.shape}: they must be (d,), (p, d), (p,)"
        )
    p = b.shape[0]
    if p == 0:
        return Projection(target, b, jnp.zeros(()), jnp.zeros((), int), Status.ok)
    if p == 1:
        point, lam, iterations, status = _one_row(mass, target, G, b, active)
    else:
        data = jax.lax.stop_gradient((mass, target, G, b))
        point, lam, iterations, status = _several_rows(*data, active)
        point, lam = derivative_of(_equality(mass, target, G, b, lam > 0.0), (point, lam))
    data = summed(jnp.where(active, b + summed(G), 0.0))
    finite = jnp.isfinite(summed(point) + data)
    status = first_failure(failing(~finite, Status.nonfinite), status)
    residual = kkt_residual(mass, target, G, b, active, point, lam)
    if p > 1:  # one row has a closed form
        status = first_failure(status, failing(residual > _UNCONVERGED, Status.unconverged))
    return Projection(point, lam, residual, iterations, status)


def kkt_residual(metric, target, G, b, active, x, lam) -> Array:
    """The largest violation of (2), each clause relative to the size of its own terms."""
    Mx, Mt, reaction = metric.apply(x), metric.apply(target), product(G.T, lam)
    length = jnp.sqrt(summed(G * G))
    balance = _norm(Mx - Mt - reaction)
    balance_scale = _norm(Mx) + _norm(Mt) + jnp.sum(length * jnp.abs(lam))
    size = length * (_norm(x) + _norm(target)) + jnp.abs(b)
    slack = (product(G, x) + b) / jnp.maximum(size, _TINY)
    slack = jnp.where(active, slack, 0.0)
    gap_or_push = jnp.where(lam > 0.0, jnp.abs(slack), jnp.maximum(-slack, 0.0))
    push_sign = jnp.max(-lam) / jnp.maximum(jnp.max(jnp.abs(lam)), _TINY)
    return jnp.maximum(
        jnp.maximum(balance / jnp.maximum(balance_scale, _TINY), push_sign), jnp.max(gap_or_push)
    )


_TINY = 1e-300  # keeps 0 / 0 at 0


def _norm(x):
    return jnp.sqrt(summed(x * x))


def _one_row(metric, target, G, b, active):
    """lam = (-(G target + b))_+ / (G M^-1 G^T)."""
    n = metric.whiten(G)
    square = summed(n[0] * n[0])
    slack = product(G, target) + b
    pushed = active & (slack < 0.0)
    flat = square == 0.0
    lam = jnp.where(pushed & ~flat, -slack / jnp.where(flat, 1.0, square), 0.0)
    point = target + lam[0] * metric.lift(n[0])
    status = failing(pushed[0] & flat, Status.infeasible)
    return point, lam, pushed[0].astype(int), status


def _equality(metric, target, G, b, tight):
    """Point and multipliers with G x + b = 0 on the rows ``tight``: (1) while these stay tight."""
    N = metric.whiten(G)
    both = tight[:, None] & tight[None, :]
    A = jnp.where(both, gram(N), jnp.eye(len(tight)))
    lam = solve_dense(A, jnp.where(tight, -(product(G, target) + b), 0.0))
    return target + metric.lift(product(N.T, lam)), lam


def _several_rows(metric, target, G, b, active):
    """Point, multipliers, iterations, status; the status of what is solved follows from (2)."""
    rows = metric.whiten(G)
    length = jnp.sqrt(jnp.sum(rows * rows, axis=1))
    length = jnp.where(length > 0.0, length, 1.0)
    N = rows / length[:, None]
    c = (product(G, target) + b) / length
    # (p,) the size of the terms that cancel in a slack: |target|_M + |b_i|, unit rows
    size = jnp.sqrt(jnp.sum(target * metric.apply(target))) + jnp.abs(b) / length

    def answer(y, lam):
        x, lam = target + metric.lift(y), lam / length
        return x, lam, kkt_residual(metric, target, G, b, active, x, lam)

    w = _active_set(N, c, size, active)
    infeasible = failing(w.infeasible, Status.infeasible)
    if len(c) == 2:
        return *answer(*_refined(w, N, c))[:2], w.iterations, infeasible
    found = _Answer(*answer(*_refined(w, N, c)), w.lam, w.iterations, jnp.array(0))

    def unfinished(a):
        return ~(a.residual <= _CARE) & (a.again < _PROXIMAL) & ~w.infeasible

    def turn(a):  # (3)
        s = jnp.maximum(10.0 ** (-1.0 - 0.5 * a.again), _LEAST)
        wide = jnp.sqrt(1.0 + s * s)
        held = jnp.where(a.again > 0, a.held, 0.0)
        beside = jnp.concatenate([N, s * jnp.eye(len(c))], axis=1) / wide
        w = _active_set(beside, (c - s * s * held) / wide, size, active)
        y, lam = _refined(w, beside, (c - s * s * held) / wide)
        lam = lam / wide
        new = answer(y[: N.shape[1]], lam)
        better = ~(new[2] >= a.residual)
        point, push, residual = (jnp.where(better, x, y) for x, y in zip(new, a.best, strict=True))
        return _Answer(point, push, residual, lam, a.turns + w.iterations, a.again + 1)

    found = jax.lax.while_loop(unfinished, turn, found)
    return found.point, found.push, found.turns, infeasible


class _Answer(eqx.Module):
    """The best so far, and where (3) stands."""

    point: Array
    push: Array
    residual: Array
    held: Array  # (p,) lam_k of the unit rows
    turns: Array
    again: Array  # () int, k

    @property
    def best(self):
        return self.point, self.push, self.residual


class _Working(eqx.Module):
    """The dual active set: lam >= 0 with zero slack on the rows of ``inside``."""

    lam: Array  # (p,) multipliers of the unit rows
    y: Array  # (d,) the whitened unknown, N^T lam
    inside: Array  # (p,) bool, the working set
    P: Array  # (p, d) rows of the transposed pseudo-inverse of the working rows, else 0
    settled: Array  # (p,) bool, dependent rows whose violation is rounding
    entering: Array  # () the row being added, or -1
    slack: Array  # (p,) n_i y + c_i, inf where left out
    iterations: Array
    infeasible: Array


def _active_set(N, c, data_scale, active) -> _Working:
    """min 1/2 |y|^2 with n_i y + c_i >= 0, by Goldfarb and Idnani."""
    p = c.shape[0]

    def slack_of(y):
        return jnp.where(active, product(N, y) + c, jnp.inf)

    def violated(w):
        tolerance = _SLACK * (data_scale + _norm(w.y))
        return jnp.where(~w.inside & ~w.settled & (w.slack < -tolerance), w.slack, jnp.inf)

    def unfinished(w):
        more = (w.entering >= 0) | jnp.any(jnp.isfinite(violated(w)))
        return more & ~w.infeasible & (w.iterations < limit)

    def turn(w):
        j = jnp.where(w.entering >= 0, w.entering, jnp.argmin(violated(w)))
        n = N[j]
        r, z, z2 = _split(N, w.P, n)
        # dual step: the first working multiplier to reach zero; primal step: the slack closes
        falls = w.inside & (r > _DEPENDENT * (1.0 + jnp.max(jnp.abs(r))))
        reach = jnp.where(falls, w.lam / jnp.where(falls, r, 1.0), jnp.inf)
        k = jnp.argmin(reach)
        dual_step = reach[k]
        independent = z2 > _DEPENDENT**2
        primal_step = jnp.where(independent, -w.slack[j] / jnp.where(independent, z2, 1.0), jnp.inf)
        primal_step = jnp.maximum(primal_step, 0.0)
        # n_j = sum r_i n_i with r <= 0: slack j is the same for all y with the working slacks zero,
        # so it is a contradiction, or the rounding of the sum that makes it.
        blocked = ~jnp.isfinite(dual_step) & ~independent
        # y = (1, -r) >= 0 is Farkas' proof: 0 <= y . (N x + c) = z . x + y . c wherever x is
        # admissible, so y . c < 0 leaves none within the reach, whatever was lost on the way.
        size = _norm(w.y)
        reach = _REACH * (jnp.max(data_scale) + size)
        rounding = _SLACK * (data_scale[j] + size + jnp.sum(jnp.abs(r) * (data_scale + size)))
        proof = c[j] - jnp.sum(jnp.where(w.inside, r * c, 0.0))
        # What is left of rows that have gone from the working set is no part of y.
        lost = jnp.sqrt(z2) + jnp.sum(jnp.where(w.inside, jnp.maximum(r, 0.0), jnp.abs(r)))
        infeasible = blocked & (proof < -rounding - lost * reach)
        settles = blocked & ~infeasible
        step = jnp.where(blocked, 0.0, jnp.minimum(dual_step, primal_step))
        enters = independent & (primal_step <= dual_step)
        is_j, is_k = jnp.arange(p) == j, jnp.arange(p) == k
        lam = jnp.where(w.inside, jnp.maximum(w.lam - step * r, 0.0), w.lam)
        lam = lam + jnp.where(is_j, step, 0.0)
        dual = z / jnp.where(enters, z2, 1.0)
        added = jnp.where(is_j[:, None], dual, w.P - r[:, None] * dual)
        dropped = _without(w.P, k)
        P = jnp.where(enters, added, jnp.where(blocked, w.P, dropped))
        inside = jnp.where(enters, w.inside | is_j, w.inside & (blocked | ~is_k))
        # y moves along z, which keeps its digits where nearly opposite rows make lam large
        y = w.y + step * z
        y = y - product(P.T, jnp.where(inside & enters, product(N, y) + c, 0.0))
        lam = jnp.where(~enters & ~blocked & is_k, 0.0, lam)
        # lam follows y, so that the next choice is made with its digits too
        missing = product(P, y - product(N.T, lam))
        lam = jnp.where(inside & enters, jnp.maximum(lam + missing, 0.0), lam)
        return _Working(
            lam=lam,
            y=y,
            inside=inside,
            P=P,
            settled=jnp.where(enters, False, w.settled | (settles & is_j)),
            entering=jnp.where(enters | settles, -1, j),
            slack=slack_of(y),
            iterations=w.iterations + 1,
            infeasible=infeasible,
        )

    limit = 20 * p + 20
    w = _Working(
        lam=jnp.zeros(p),
        y=jnp.zeros_like(N[0]),
        inside=jnp.zeros(p, bool),
        P=jnp.zeros_like(N),
        settled=jnp.zeros(p, bool),
        entering=jnp.array(-1),
        slack=slack_of(jnp.zeros_like(N[0])),
        iterations=jnp.array(0),
        infeasible=jnp.array(False),
    )
    return jax.lax.while_loop(unfinished, turn, w)


def _split(N, P, n):
    """n = N^T r + z with z orthogonal to the working rows; done twice, as Gram-Schmidt must be."""
    r = product(P, n)
    z = n - product(N.T, r)
    again = product(P, z)
    r, z = r + again, z - product(N.T, again)
    return r, z, jnp.sum(z * z)


def _without(P, k):
    """P after row k has left the working set (Greville)."""
    leaving = P[k]
    square = jnp.maximum(jnp.sum(leaving * leaving), _TINY)
    return P - (product(P, leaving) / square)[:, None] * leaving


def _refined(w, N, c):
    """y and lam of the working set S, with iterative refinement.

    y = -P^T c is the shortest solution of N_S y + c_S = 0 and lam = P y.  Taken in this order, the
    slacks close to rounding even where nearly contradictory rows make lam large.
    """
    y, lam = w.y, w.lam
    for _ in range(2):
        y = y - product(w.P.T, jnp.where(w.inside, product(N, y) + c, 0.0))
    for _ in range(2):
        lam = jnp.where(w.inside, lam + product(w.P, y - product(N.T, lam)), 0.0)
    keep = w.infeasible
    return jnp.where(keep, w.y, y), jnp.where(keep, w.lam, jnp.maximum(lam, 0.0))
