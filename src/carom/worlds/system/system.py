"""Equations you write: a mass, a force, and the gaps that must stay open."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from carom._jax import plain
from carom.arguments import suggesting
from carom.errors import FrictionError, KindError, RestitutionError, ShapeError
from carom.law import Coulomb, Glue, Law, Restitution
from carom.projection.exact import Projection
from carom.projection.joints import not_repeating
from carom.projection.metric import (
    Metric,
    check_definite,
    inertial_force,
    metric_of,
    product,
)
from carom.projection.nearest import Nearest, nearest
from carom.projection.sparse import is_sparse, sparse_metric
from carom.shown import Shown, call_text, function_text, number_text
from carom.status import Status, failing, first_failure
from carom.worlds.system.apart import Apart, with_force_apart
from carom.worlds.system.checks import (
    check_laws,
    check_potential,
    check_restitution,
    check_shapes,
    check_slip,
)
from carom.worlds.system.contacts import Contacts, Normals, OfSpeed
from carom.worlds.system.joints import held
from carom.worlds.world import JaxWorld, as_floats, check_finite

_ROUNDING = 4.0 * float(np.finfo(float).eps)  # of the terms of a gap: one so small is closed


class System(JaxWorld, Shown, eqx.Module):
    """M(q) q'' = force(t, q, v) while every gap(t, q) >= 0, with restitution at impacts.

    Parameters
    ----------
    force
        ``force(t, q, v) -> (d,)``; it holds all of the right-hand side, inertial terms included.
    gap
        ``gap(t, q) -> (p,)`` or a scalar; admissible where every entry is >= 0.  None: no gap.
    mass
        None (identity), (d,), (d, d), or a function of q that returns either of the last two.
        A constant mass may be a scipy.sparse matrix; it stays sparse.
    restitution
        e in [0, 1], one number or one per gap; or a function of the speed at which gaps close,
        ``restitution(speed) -> e``, (p,) of (p,), entry by entry.
    friction
        mu >= 0, one number or one per gap: Coulomb's law along ``slip``.  None: no friction.
    slip
        ``slip(t, q, v) -> (p,)`` in the plane, ``(p, 2)`` in space: the sliding velocity of each
        contact, affine in v.  Gaps are then lengths in its unit: of ``2 * q[1]`` mu is halved.
    joint
        ``joint(t, q) -> (k,)`` or a scalar that stays zero.  None: no joint.
    glue
        True: contacts hold until they are pulled as much as they were pushed (e = 0, Maury).
    law
        ``law(e, mu, joints, size) -> carom.law.Law``, a law of your own.  None: Coulomb's.

    Examples
    --------
    Two masses on a spring, the first of which must not pass a wall at 0:

    >>> import carom, jax.numpy as jnp
    >>> pair = carom.System(
    ...     mass=[1.0, 2.0],
    ...     force=lambda t, q, v: 50.0 * (q[1] - q[0] - 1.0) * jnp.array([1.0, -1.0]),
    ...     gap=lambda t, q: q[0],
    ...     restitution=0.9,
    ... )
    >>> carom.solve(pair, carom.Moreau(), q0=[0.5, 1.5], v0=[-1.0, -1.0], t1=2.0, dt=1e-3).ok
    True
    """

    force: Callable
    gap: Callable | None
    mass: Metric | Callable  # a constant mass is factorised once, here
    restitution: Any  # () or (p,), or a function of speed
    friction: Array | None  # () or (p,)
    slip: Callable | None
    joint: Callable | None
    glue: bool = eqx.field(static=True)
    own_law: Callable | None

    @suggesting
    def __init__(
        self,
        *,
        force: Callable[..., Any],
        gap: Callable[..., Any] | None = None,
        mass: Any = None,
        restitution: Any = 0.0,
        friction: Any = None,
        slip: Callable[..., Any] | None = None,
        joint: Callable[..., Any] | None = None,
        glue: bool = False,
        law: Callable[..., Any] | None = None,
    ) -> None:
        if not callable(force):
            raise ShapeError(f"force must be a function of (t, q, v), not {force!r}")
        if gap is not None and not callable(gap):
            raise ShapeError(f"gap must be a function of (t, q), not {gap!r}")
        self.force, self.gap = _hashable(force), _hashable(gap)
        self.mass = _hashable(mass) if callable(mass) else _constant_metric(mass)
        self.restitution = _checked_restitution(restitution)
        for name, given, shape in (("slip", slip, "(t, q, v)"), ("joint", joint, "(t, q)")):
            if given is not None and not callable(given):
                raise ShapeError(f"{name} must be a function of {shape}, not {given!r}")
        self.slip, self.joint = _hashable(slip), _hashable(joint)
        self.friction = _checked_friction(friction, slip, gap)
        self.glue, self.own_law = _checked_glue(glue, friction, restitution), law

    def __str__(self) -> str:
        kind = type(self.mass).__name__.removesuffix("Metric").lower()
        mass = f"<{kind}>" if isinstance(self.mass, Metric) else function_text(self.mass)
        return call_text(
            type(self).__name__,
            force=function_text(self.force),
            gap=function_text(self.gap),
            mass=None if kind == "identity" else mass,
            restitution=(
                function_text(self.restitution)
                if callable(self.restitution)
                else number_text(self.restitution)
            ),
            friction=None if self.friction is None else number_text(self.friction),
            slip=function_text(self.slip),
            joint=function_text(self.joint),
            glue=self.glue or None,
            law=function_text(self.own_law),
        )

    def __repr__(self) -> str:
        return str(self)

    # What ``solve`` asks of it.

    @plain
    def initial(self, q0, v0) -> tuple[Array, Array]:
        """q0 and v0 as float arrays of one shape (d,)."""
        if q0 is None or v0 is None:
            return super().initial(q0, v0)  # which refuses it
        q, v = as_floats("q0", q0), as_floats("v0", v0)
        if q.ndim != 1 or v.shape != q.shape or q.shape[0] == 0:
            raise ShapeError(
                f"q0 has shape {q.shape} and v0 {v.shape}; both must be (d,). For many initial "
                "states use jax.vmap"
            )
        check_finite(q0=q, v0=v)
        return q, v

    @plain
    def check(self, scheme, record) -> None:
        """Refuse a scheme that does not know the law of the contacts."""
        check_restitution(self, scheme)
        check_laws(self, scheme)

    @plain
    def check_shapes(self, t: Array, q: Array, v: Array) -> None:
        """Refuse functions that return what they must not, without running them."""
        check_shapes(self, t, q, v)

    @plain
    def check_data(self, t, q) -> None:
        """Refuse a sliding velocity that is not affine in v."""
        check_slip(self, t, q)

    def inertia(self, q: Array) -> Array | None:
        """mass(q), where it is a function."""
        return self.mass(q) if callable(self.mass) else None

    def for_batch(self) -> "System":
        """The same with its force and its projections evaluated once a step."""
        return with_force_apart(self)

    def told(self, state) -> str:
        """The energy is kinetic, and potential where the system has one."""
        name = "energy" if self.potential is not None else "kinetic energy"
        return f"{name} {float(self.energy(state.q, state.v)):.5g}"

    # What a scheme asks of its world.

    def metric(self, q: Array) -> Metric:
        """The kinetic metric at q."""
        if isinstance(self.mass, Metric):
            return self.mass
        return metric_of(jnp.asarray(self.mass(q), float))

    def acceleration(self, t: Array, q: Array, v: Array) -> Array:
        """M(q)^-1 force(t, q, v), the free acceleration."""
        return self.metric(q).solve(self.forces(t, q, v))

    def forces(self, t: Array, q: Array, v: Array) -> Array:
        """force(t, q, v) as a float array (d,)."""
        return jnp.reshape(jnp.asarray(self.force(t, q, v), float), q.shape)

    def gaps(self, t: Array, q: Array) -> Array:
        """gap(t, q) as a float array (p,)."""
        if self.gap is None:
            return jnp.zeros(0)
        return jnp.atleast_1d(jnp.asarray(self.gap(t, q), float))

    def joints(self, t: Array, q: Array) -> Array:
        """joint(t, q) as a float array (k,), zero where they hold."""
        if self.joint is None:
            return jnp.zeros(0)
        return jnp.atleast_1d(jnp.asarray(self.joint(t, q), float))

    def joint_status(self, old, new, asked=True) -> Status:
        """Whether joints held in a step from one state to the next (joints.py)."""
        return Status.ok if self.joint is None else held(self, old, new, asked)

    def normals(self, t: Array, q: Array) -> Normals:
        """Gaps and then joints, their gradients and their rates at (t, q), by differentiation.

        The gradient of an open gap pushes nothing, so it need not exist there.
        """
        t = jnp.asarray(t, float)

        def values(t, q):
            if self.joint is None:
                return self.gaps(t, q)
            return jnp.concatenate([self.gaps(t, q), self.joints(t, q)])

        gap, rate = jax.jvp(lambda t: values(t, q), (t,), (jnp.ones(()),))
        jacobian = jax.jacfwd if q.shape[0] <= 4 * gap.shape[0] else jax.jacrev
        joints = 0 if self.joint is None else self.joints(t, q).shape[0]
        rows = jacobian(values, argnums=1)(t, q)
        known = ~(gap > 0.0) | (jnp.all(jnp.isfinite(rows), axis=1) & jnp.isfinite(rate))
        rate, rows = jnp.where(known, rate, 0.0), jnp.where(known[:, None], rows, 0.0)
        return Normals(gap, rate, rows, known, joints)

    def contacts(self, t: Array, q: Array, memory=None, acting=None) -> Contacts:
        """The same with sliding velocities, and the law that all of them obey.

        With a ``memory``, that of glue; with ``acting`` (k,), those joints act, else the ones that
        do not repeat others here.
        """
        normals = self.normals(t, q)
        rate, rows = normals.rate[:, None], normals.rows[:, None, :]
        p = normals.gap.shape[0] - normals.joints
        if (sliding := self.slip) is not None:
            still = jnp.zeros_like(q)

            def slip(v):
                return jnp.reshape(jnp.asarray(sliding(t, q, v), float), (p, -1))

            free = ((0, normals.joints), (0, 0))
            rate = _beside(rate, jnp.pad(slip(still), free))
            along = jnp.pad(jax.jacfwd(slip)(still), (*free, (0, 0)))
            rows = _beside(rows, along)
        # the terms of g are as large as its changes with q and t, each by itself
        size = product(jnp.abs(normals.rows), jnp.abs(q)) + jnp.abs(normals.rate * t)
        law = self.law(p, normals.joints, rows.shape[1])
        if memory is not None:
            law = Glue(e=law.e, gamma=memory, joints=law.joints)
        of_speed = OfSpeed(self.restitution) if callable(self.restitution) else None
        alive = self.force.at(t) if isinstance(self.force, Apart) else None
        rounding = _ROUNDING * size
        found = normals.gap, rate, rows, normals.known, rounding, law, of_speed, alive
        return Contacts(*found, self.not_repeating(t, q, normals) if acting is None else acting)

    def not_repeating(self, t: Array, q: Array, normals: Normals) -> Array | None:
        """(k,) joints that do not repeat those before them; None: all of them."""
        if normals.joints < 2:
            return None
        return not_repeating(self.joints, t, q, normals.rows[-normals.joints :])

    def law(self, gaps: int, joints: int, size: int) -> Law:
        """What so many gaps and joints obey."""
        e = jnp.pad(self.restitutions(gaps, jnp.zeros(gaps)), (0, joints))
        if self.friction is None:
            return Restitution(e=e, joints=joints)
        mu = jnp.pad(jnp.broadcast_to(self.friction, (gaps,)), (0, joints))
        if self.own_law is not None:
            return self.own_law(e, mu, joints, size)
        return Coulomb(e=e, mu=mu, plane=size == 2, joints=joints)

    def force_uses_velocity(self, q: Array) -> bool:
        """Whether force depends on v at all, read off its program without running it."""
        program = jax.make_jaxpr(self.forces)(jnp.zeros(()), q, q).jaxpr
        return _depends(program, program.invars[-1])

    def common_restitution(self) -> Array:
        """e, where it is the same for all gaps ()."""
        return jnp.ravel(self.restitution)[0]

    @property
    def potential(self) -> Callable | None:
        """potential(q), where the system is a Lagrangian with one."""
        return getattr(self.force, "potential", None)

    def energy(self, q: Array, v: Array) -> Array:
        """1/2 v^T M(q) v, and the potential where it is known."""
        kinetic = self.metric(q).energy(v)
        if (potential := self.potential) is None:
            return kinetic
        return kinetic + jnp.reshape(potential(q), ())

    def restitutions(self, count: int, before: Array | None = None) -> Array:
        """e, one per gap (..., p), of impacts with the normal velocities ``before``, likewise.

        They matter where e is a function of speed; without them it is asked for a gap at rest.
        """
        if not callable(self.restitution):
            return jnp.broadcast_to(self.restitution, (count,))
        before = jnp.zeros(count) if before is None else jnp.asarray(before)
        return OfSpeed(self.restitution)(before)

    def project(self, metric: Metric, target: Array, contacts, b: Array, active=None) -> Projection:
        """Project ``target`` onto the set that the contacts allow, active ones only."""
        return contacts.project(metric, target, b, active)

    def moved(self, q: Array, u: Array, h: Array) -> Array:
        """q after moving with the velocity u for h."""
        return q + h * u

    def memory(self, t: Array, q: Array) -> Array | None:
        """gamma of the glue, (p,); None without."""
        return jnp.zeros_like(self.normals(t, q).gap) if self.glue else None

    def keep_open(self, metric: Metric, t: Array, q: Array, free: Array, dt: Array, memory=None):
        """The velocity nearest to ``free`` that keeps every gap open from q to time t.

        Gaps are linearised at q.  Returns them and the projection.  A gap without a gradient at q
        must be out of reach.
        """
        contacts, moved = super().keep_open(metric, t, q, free, dt, memory)
        moved = contacts.beyond_rounding(metric, free, moved, dt)
        p = contacts.gap.shape[0] - contacts.law.joints
        unknown = ~contacts.known[:p]

        def reached():
            return jnp.any(unknown & (self.gaps(t, self.moved(q, moved.point, dt)) < 0.0))

        unseen = self.if_any(unknown, reached, lambda: jnp.array(False))
        status = first_failure(moved.status, failing(unseen, Status.unseen))
        return contacts, eqx.tree_at(lambda m: m.status, moved, status)

    def nearest(self, metric: Metric, t: Array, W: Array, *, memory=None, **how) -> Nearest:
        """The point of ``{gap(t, .) >= 0}`` nearest to W."""
        return nearest(self, metric, t, W, **how)


class _LagrangianForce(eqx.Module):
    """Inertial terms of mass(q), minus the gradient of the potential, plus an extra force."""

    mass: Callable | None  # None when the mass is constant: no inertial terms
    potential: Callable | None
    force: Callable | None

    def __call__(self, t, q, v):
        total = jnp.zeros_like(q)
        if self.mass is not None:
            total += inertial_force(self.mass, q, v)
        if (potential := self.potential) is not None:
            check_potential(potential, q)
            total -= jax.grad(lambda q: jnp.reshape(potential(q), ()))(q)
        if self.force is not None:
            total += jnp.reshape(jnp.asarray(self.force(t, q, v), float), q.shape)
        return total


@suggesting
def Lagrangian(
    *,
    mass: Any = None,
    potential: Callable[..., Any] | None = None,
    gap: Callable[..., Any] | None = None,
    restitution: Any = 0.0,
    force: Callable[..., Any] | None = None,
    friction: Any = None,
    slip: Callable[..., Any] | None = None,
    joint: Callable[..., Any] | None = None,
    glue: bool = False,
) -> System:
    """A System whose equations are those of L = 1/2 v^T M(q) v - potential(q).

        M(q) q'' = dT/dq - (dM/dt) v - d potential/dq + force(t, q, v)

    Parameters
    ----------
    mass
        None (identity), (d,), (d, d), or a function of q that returns either of the last two.
    potential
        ``potential(q) -> scalar`` [J].  None: none.
    gap
        ``gap(t, q) -> (p,)`` or a scalar; admissible where every entry is >= 0.  None: no gap.
    restitution
        e in [0, 1], one number or one per gap, or a function of the closing speed.
    force
        ``force(t, q, v) -> (d,)``, what does not derive from the potential (damping, forcing).
        None: none.
    friction
        mu >= 0, one number or one per gap.  None: no friction.
    slip
        ``slip(t, q, v) -> (p,)`` or ``(p, 2)``: the sliding velocity of each contact, with
        friction.  Gaps are then lengths in its unit.
    joint
        ``joint(t, q) -> (k,)`` or a scalar that stays zero.  None: no joint.
    glue
        True: contacts hold until they are pulled as much as they were pushed.

    Examples
    --------
    A pendulum of length 1, damped, beside a wall at 0.2:

    >>> import carom, jax.numpy as jnp
    >>> pendulum = carom.Lagrangian(
    ...     mass=[1.0],
    ...     potential=lambda q: -9.81 * jnp.cos(q[0]),
    ...     force=lambda t, q, v: -0.1 * v,
    ...     gap=lambda t, q: 0.2 - jnp.sin(q[0]),
    ...     restitution=0.7,
    ... )
    >>> len(carom.solve(pendulum, carom.Maury(), [-1.0], [0.0], t1=1.0, dt=1e-3).impacts)
    1
    """
    inertia = (lambda q: jnp.asarray(mass(q), float)) if callable(mass) else None
    return System(
        force=_LagrangianForce(inertia, potential, force),
        gap=gap,
        mass=mass,
        restitution=restitution,
        friction=friction,
        slip=slip,
        joint=joint,
        glue=glue,
    )


class _ByIdentity:
    """A callable that hashes: compiled code is kept by what a system is made of."""

    def __init__(self, function):
        self.function = function

    def __call__(self, *arguments):
        return self.function(*arguments)


def _hashable(function) -> Any:
    """The function, wrapped where it is an object that does not hash (a dataclass with arrays)."""
    if isinstance(function, eqx.Module):
        return function
    try:
        hash(function)
    except TypeError:
        return _ByIdentity(function)
    return function


def _depends(program, variable) -> bool:
    """Whether an output of a jaxpr may depend on one of its inputs; nested programs count whole."""
    reached = {variable}
    for equation in program.eqns:
        if any(v in reached for v in equation.invars if not hasattr(v, "val")):
            reached.update(equation.outvars)
    return any(v in reached for v in program.outvars if not hasattr(v, "val"))


def _concrete(x) -> bool:
    return not isinstance(x, Tracer)


def _checked_restitution(restitution) -> Any:
    if callable(restitution):
        return _checked_function(restitution)
    if _is_text(restitution):
        raise RestitutionError(
            f"restitution is {restitution!r}, text; give a number in [0, 1], one per gap, or a "
            "function of the speed of an impact"
        )
    e = jnp.asarray(restitution, float)
    if e.ndim > 1:
        raise ShapeError(f"restitution has shape {e.shape}; give one number, or one per gap (p,)")
    if _concrete(e) and not np.all((np.asarray(e) >= 0.0) & (np.asarray(e) <= 1.0)):
        raise RestitutionError(
            f"restitution is {restitution!r}; it must lie in [0, 1] "
            "(0 keeps no normal velocity at an impact, 1 keeps all of it)"
        )
    return e


def _checked_function(restitution) -> Callable:
    """A function of speed, entry by entry, tried at some speeds."""
    speeds = jnp.array([0.0, 1e-3, 1e-2, 0.1, 1.0])
    try:
        e = jnp.asarray(restitution(speeds), float)
    except Exception as problem:
        raise RestitutionError(
            f"restitution is {restitution!r}; it raised {type(problem).__name__} for an array of "
            f"speeds: {problem}. It takes speeds (p,) and returns e (p,), written with jax.numpy"
        ) from problem
    if e.shape not in ((), speeds.shape):
        raise ShapeError(
            f"restitution(speed) has shape {e.shape} for {len(speeds)} speeds; it must be "
            f"{speeds.shape}, entry by entry"
        )
    if _concrete(e) and not np.all((np.asarray(e) >= 0.0) & (np.asarray(e) <= 1.0)):
        raise RestitutionError(
            f"restitution(speed) is {e} at the speeds {speeds}; it must lie in [0, 1] at every "
            "speed, 0 included: jnp.clip(..., 0, 1)"
        )
    return _hashable(restitution)


def _is_text(values) -> bool:
    """Whether there is text among them, which NumPy would read as numbers."""
    return not isinstance(values, jax.Array) and any(
        isinstance(x, str | bytes) for x in np.asarray(values, object).ravel()
    )


def _checked_glue(glue, friction, e) -> bool:
    if glue not in (True, False):
        raise KindError(f"glue is {glue!r}; it must be True or False")
    if glue and friction is not None:
        raise FrictionError("glue and friction together have no law here: leave one of them out")
    if glue and (callable(e) or not _concrete(e) or np.any(np.asarray(e) != 0.0)):
        raise RestitutionError(f"restitution is {e} with glue, which is inelastic: make it 0")
    return bool(glue)


def _checked_friction(friction, slip, gap) -> Array | None:
    if friction is None:
        if slip is not None:
            raise FrictionError("slip is given without friction: give friction=mu as well")
        return None
    if slip is None or gap is None:
        missing = "gap" if gap is None else "slip"
        raise FrictionError(
            f"friction is {friction!r}, but there is no {missing}: friction needs gap(t, q), and "
            "slip(t, q, v), the sliding velocity of each contact"
        )
    try:
        if isinstance(friction, bool) or _is_text(friction):
            raise TypeError
        mu = jnp.asarray(friction, float)
    except (TypeError, ValueError):
        raise FrictionError(f"friction is {friction!r}; give one number, or one per gap") from None
    if mu.ndim > 1:
        raise FrictionError(f"friction has shape {mu.shape}; give one number, or one per gap (p,)")
    if _concrete(mu) and not np.all((np.asarray(mu) >= 0.0) & np.isfinite(np.asarray(mu))):
        raise FrictionError(f"friction is {friction!r}; it must be finite and >= 0")
    return mu


def _constant_metric(mass) -> Metric:
    if mass is None:
        return metric_of(None)
    if is_sparse(mass):
        return sparse_metric(mass)
    M = jnp.asarray(mass, float)
    if M.ndim not in (1, 2) or (M.ndim == 2 and M.shape[0] != M.shape[1]):
        raise ShapeError(
            f"mass has shape {M.shape}; give None, (d,), (d, d), or a function of q that returns "
            "one of the last two (the same for both of two coordinates: mass=[2.0, 2.0])"
        )
    if _concrete(M):
        check_definite(np.asarray(M), "mass")
    return metric_of(M)


def _beside(normal: Array, along: Array) -> Array:
    """(p, m, ...) of (p, 1, ...) and (p, m - 1, ...); in the plane chosen from, not copied."""
    if along.shape[1] > 1:
        return jnp.concatenate([normal, along], axis=1)
    first = jnp.arange(2).reshape(2, *(1,) * (normal.ndim - 2)) == 0
    return jnp.where(first, normal, along)
