"""What a contact obeys: the cone of its impulse, and what it keeps of a blow.

A law gives each contact an impulse and a relative velocity of ``size`` components, the normal one
first, and a closed convex cone K for the impulse, with its dual K* for the velocity.  A step is

    x* = argmin 1/2 |x - target|^2_M    subject to    H x + b in K*                           (1)
    M (x* - target) = H^T lam,      K* ∋ H x* + b   perp   lam ∈ K                            (2)

or, for a law that is no projection (Coulomb's), the same with a b that depends on x*.
"""

from functools import partial
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from carom.projection.cones import onto_cone
from carom.projection.coulomb import coulomb
from carom.projection.exact import Projection, project
from carom.projection.joints import free_of_joints
from carom.projection.metric import Metric, product
from carom.status import Status, failing, first_failure


class Law(eqx.Module):
    """Abstract: the contract of a law, over the p contacts of one configuration.

    The last ``joints`` of them are joints: their cone is the whole line, so they are always closed
    and may pull.
    """

    e: eqx.AbstractVar[Array]  # (p,) restitution, 0 for a joint
    joints: eqx.AbstractVar[int]
    only_pushes: ClassVar[bool] = False  # joints apart, lam = 0 wherever w_n >= 0 without it

    @property
    def size(self) -> int:
        """m, the components of an impulse."""
        raise NotImplementedError

    def onto(self, lam: Array) -> Array:
        """(p, m) the nearest points of K."""
        raise NotImplementedError

    def project(self, metric: Metric, target: Array, rows: Array, b: Array, active) -> Projection:
        """(1) with rows (p, m, d) and b (p, m); multipliers (p, m)."""
        raise NotImplementedError

    def kept(self, lam: Array) -> Any:
        """What a contact remembers of the impulses lam (p, m); None: nothing."""
        return None

    def status(self) -> Status:
        """What can be wrong with its coefficients."""
        mu = getattr(self, "mu", jnp.zeros(()))
        return first_failure(
            failing(jnp.any((self.e < 0.0) | (self.e > 1.0)), Status.restitution),
            failing(jnp.any(~((mu >= 0.0) & jnp.isfinite(mu))), Status.friction),
        )

    def bilateral(self) -> Array:
        """(p,) which contacts are joints."""
        count = self.e.shape[0]
        return jnp.arange(count) >= count - self.joints

    def shift(self, rate: Array, before: Array) -> Array:
        """b (p, m) of the impact law: w_n + e w_n(before) in the normal row.

        v+ = proj(v-, V) - e proj(v-, N*) is the projection of v- with this b: substitute
        u = -e v- + (1 + e) y.  In this form e may differ from contact to contact.
        """
        return in_normal(rate, rate[:, 0] + self.e * before[:, 0])


def in_normal(b: Array, normal: Array) -> Array:
    """b (p, m) with ``normal`` (p,) in its first column; written there it would cut a kernel."""
    return jnp.where(jnp.arange(b.shape[1]) == 0, normal[:, None], b)


def alone(e, before, a) -> tuple:
    """The impact law where no other contact is closed: the impulse p, and w after it.

    What a projection onto one row, a = n M^-1 n, makes of ``Law.shift``: w+ = w- + a p = -e w-.
    """
    return -(1.0 + e) * before / a, -e * before


class Restitution(Law):
    """No friction: K is lam >= 0, or the line for a joint."""

    e: Array
    joints: int = eqx.field(static=True, default=0)
    only_pushes: ClassVar[bool] = True

    @property
    def size(self):
        return 1

    def onto(self, lam):
        return jnp.where(self.bilateral()[:, None], lam, jnp.maximum(lam, 0.0))

    def project(self, metric, target, rows, b, active):
        found = project_both(target, rows[:, 0], b[:, 0], metric, active, self.joints)
        return with_multipliers(found, found.multipliers[:, None])


def unless_free(
    law: Law, metric: Metric, target: Array, rows: Array, b: Array, active
) -> Projection:
    """``law.project``, or the target itself where no contact that can only push has to.

    For the steps of a run: XLA evaluates a projection anew for each thing that is made of it, but
    not one behind a condition, and most steps need none.
    """
    if law.joints or not law.only_pushes:
        return law.project(metric, target, rows, b, active)
    opens = product(rows[:, 0], target) + b[:, 0] >= 0.0  # False where it is not finite
    opens = opens if active is None else opens | ~active
    if b.shape[0] == 1:
        active = None  # it is, where it does not open
    pushed = partial(law.project, metric, target, rows, b, active)
    return jax.lax.cond(jnp.all(opens), lambda: free(target, b), pushed)


def free(target: Array, b: Array) -> Projection:
    """The target itself, where nothing pushes."""
    return Projection(target, jnp.zeros_like(b), jnp.zeros(()), jnp.array(0), Status.ok)


def project_both(target, G, b, metric, active, joints: int) -> Projection:
    """The exact projection with ``joints`` equalities at the end."""
    if not joints:
        return project(target, G, b, mass=metric, active=active)
    kept = None if active is None else active[-joints:]
    free = free_of_joints(metric, target, G[:, None], b[:, None], joints, kept)
    active = None if active is None else active[:-joints]
    found = project(jnp.zeros_like(free.y0), free.rows[:, 0], free.b[:, 0], active=active)
    y, lam = free.y0 + found.point, found.multipliers
    return eqx.tree_at(
        lambda f: (f.point, f.multipliers, f.residual),
        found,
        (
            target + metric.lift(y),
            jnp.concatenate([lam, free.joint_impulse(y, lam[:, None])]),
            jnp.maximum(found.residual, free.residual(y)),
        ),
    )


def with_multipliers(found: Any, lam: Array) -> Any:
    """The same projection, its multipliers in another form."""
    return eqx.tree_at(lambda f: f.multipliers, found, lam)


class Glue(Law):
    """Contacts that hold until they are pulled with as much impulse as they were pushed with.

    The limit of lubrication forces (BL10, Remark 4.3; Maury 2007; Lefebvre-Lepot 2009): each gap
    carries gamma <= 0, d gamma = -d lam, and neither opens nor closes while gamma < 0.  No pull
    exceeds what is left of the pushes, lam >= gamma: with lam = gamma + l, (2) is

        x* = proj( target + M^-1 H^T gamma, { H x + b >= 0 } ),     l >= 0 its multipliers    (3)
        gamma1 = gamma - lam = -l                                                             (4)
    """

    e: Array  # (p,) 0: inelastic by nature
    gamma: Array  # (p,), 0 for a joint
    joints: int = eqx.field(static=True, default=0)

    @property
    def size(self):
        return 1

    def onto(self, lam):
        least = jnp.where(self.bilateral(), -jnp.inf, self.gamma)
        return jnp.maximum(lam, least[:, None])

    def kept(self, lam):
        return jnp.where(self.bilateral(), 0.0, jnp.minimum(self.gamma - lam[:, 0], 0.0))

    def project(self, metric, target, rows, b, active):
        gamma = self.gamma if active is None else jnp.where(active, self.gamma, 0.0)
        pulled = target + metric.solve(product(rows[:, 0].T, gamma))
        found = project_both(pulled, rows[:, 0], b[:, 0], metric, active, self.joints)
        return with_multipliers(found, (found.multipliers + gamma)[:, None])


class Coulomb(Law):
    """Friction: K is |lam_t| <= mu lam_n, or the line for a joint; projection/coulomb.py.

    It is the projection (1) with b shifted by mu |u_t| along the normal, u = H x* + b.
    """

    e: Array
    mu: Array  # (p,) >= 0
    plane: bool = eqx.field(static=True)  # two components, or three in space
    joints: int = eqx.field(static=True, default=0)
    only_pushes: ClassVar[bool] = True

    @property
    def size(self):
        return 2 if self.plane else 3

    def onto(self, lam):
        return jnp.where(self.bilateral()[:, None], lam, onto_cone(lam, self.mu))

    def project(self, metric, target, rows, b, active):
        active = jnp.ones(self.mu.shape, bool) if active is None else active
        return coulomb(metric, target, rows, b, self.mu, active, self.joints)
