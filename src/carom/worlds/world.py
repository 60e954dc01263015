"""What a world of JAX arrays need not write itself (contracts.World, contracts.Model)."""

import contextlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from carom._jax import plain
from carom.errors import NonFiniteError, ShapeError
from carom.projection.fixed_point import Solved, fixed_point
from carom.projection.quadrature import adaptive_mean


def check_finite(**values: Array) -> None:
    """Refuse what is not finite, by its name."""
    for name, value in values.items():
        if not isinstance(value, Tracer) and not np.all(np.isfinite(value)):
            raise NonFiniteError(f"{name} is {value}; it must be finite")


def as_floats(name: str, given) -> Any:
    """An array of what a user gives: of NumPy, which is made in no time, if nothing is traced."""
    with contextlib.suppress(TypeError, ValueError):
        if np.asarray(given).dtype.kind not in "US":
            return np.asarray(given, float)
        given = str(given)  # text, even of a number, is a mistake
    with contextlib.suppress(TypeError, ValueError):
        return jnp.asarray(given, float)
    raise ShapeError(f"{name} is {given!r}; it must be a list of numbers, one for each coordinate")


class JaxWorld:
    """Defaults: q and v are vectors, nothing is remembered, and the world is as it is given."""

    format = ".nc"  # of its files, where a name does not say
    usual = "Moreau"  # scheme, where a run file does not say
    records: int | None = None  # about so many where nothing is said; None: every step

    @property
    def xp(self) -> Any:
        """The namespace of its arrays."""
        return jnp

    # What ``solve`` asks of what it is given.

    @plain
    def waits(self) -> str:
        """Nothing that is known before."""
        return ""

    @plain
    def world(self, t0: float, t1: float, dt: float) -> Any:
        """The world of one run."""
        return self

    @plain
    def initial(self, q0, v0) -> tuple[Array, Array]:
        """The state that a run starts from, of what the user gives."""
        if q0 is None or v0 is None:
            raise ShapeError(
                f"a {type(self).__name__} needs its initial state: solve(..., q0=[...], v0=[...])"
            )
        q, v = as_floats("q0", q0), as_floats("v0", v0)
        for name, value in (("q0", q), ("v0", v)):
            if value.ndim != 1 or not value.size:
                raise ShapeError(
                    f"{name} has shape {value.shape}; it must be a vector. For many initial states "
                    "use jax.vmap"
                )
        check_finite(q0=q, v0=v)
        return q, v

    @plain
    def check(self, scheme, record) -> None:
        """Refuse a scheme, or an option, that it cannot be moved by."""

    @plain
    def check_shapes(self, t, q, v) -> None:
        """Refuse functions that return what they must not, without running them."""

    @plain
    def check_data(self, t, q) -> None:
        """Refuse functions whose values at the start are not what they must be."""

    def inertia(self, q) -> Any:
        """A mass matrix (n, n) or (n,) that must be positive definite; None: nothing to check."""
        return None

    def for_batch(self) -> Any:
        """The same, for many members side by side."""
        return self

    @plain
    def running(self) -> Any:
        """A context for as long as a run lasts."""
        return contextlib.nullcontext()

    def told(self, state) -> str:
        """Its energy, for the line of progress."""
        momentum = self.metric(state.q).apply(state.v)
        return f"kinetic energy {0.5 * float(jnp.vdot(state.v, momentum)):.5g}"

    # What a scheme asks of its world.

    metric: Callable
    gaps: Callable
    contacts: Callable
    project: Callable
    moved: Callable

    def force_uses_velocity(self, q: Array) -> bool:
        """Whether forces may depend on v."""
        return True

    def memory(self, t: Array, q: Array) -> Any:
        """What changes from step to step beside q and v; None: nothing."""
        return None

    def between(self, q: Array, q1: Array, part: Array) -> Array:
        """A configuration on the way from q to q1, for records inside of a step."""
        return q + part * (q1 - q)

    def keep_open(self, metric, t: Array, q: Array, free: Array, dt: Array, memory=None):
        """The velocity nearest to ``free`` that keeps every gap open from q to time t."""
        contacts = self.contacts(t, q, memory)
        return contacts, self.project(metric, free, contacts, contacts.ahead(dt))

    def fixed_point(self, phi: Callable, guess: Array, *, memory=None, **how) -> Solved:
        """Solve ``x = phi(x).point`` from ``guess`` (projection/fixed_point.py)."""
        return fixed_point(phi, guess, **how)

    def mean(self, f: Callable, t: Array, dt: Array, tolerance: float) -> Array:
        """Of f(s) over [t, t + dt]."""
        return adaptive_mean(jax.vmap(f), t, dt, tolerance, jnp, jax.lax.while_loop)

    def if_any(self, where: Array, yes: Callable, no: Callable):
        """yes() if an entry is True, else no()."""
        return jax.lax.cond(jnp.any(where), yes, no)
