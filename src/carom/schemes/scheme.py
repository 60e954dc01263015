"""What every time-stepping scheme is: a start and a step over a world."""

import abc
import dataclasses
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from carom._jax import plain
from carom.contracts import World
from carom.errors import KindError
from carom.projection import Projection
from carom.status import Status


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)  # a Module takes as long to make as a sphere to move
class State:
    """What evolves."""

    t: Array  # ()
    q: Array  # (d,) position
    v: Array  # (d,) velocity, right limit
    memory: Any = None  # what else a scheme carries from step to step


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)  # a Module takes as long to make as a sphere to move
class Report:
    """What one step did, beside moving the state."""

    impulse: Array  # (p, m) received in the step, normal first, >= 0
    before: Array  # (p, m) relative velocity before the reaction
    after: Array  # (p, m) and after it
    residual: Array  # () worst measured residual of the step's projections and fixed point
    iterations: Array  # () int, of projections and fixed point together
    contraction: Array  # () measured factor of the fixed point, 0 when there is none
    status: Status
    penetration: Any = 0.0  # () largest overlap inside the step (Penalty)
    fallbacks: Any = 0  # () int, intervals handed to another scheme
    events: Any = None  # (k, 5) impacts located inside the step: time, gap, before, after, impulse
    struck: Any = None  # (p,) int, impacts located on each gap, whether ``events`` has room or not
    contacts: Any = None  # the rows that impulse, before and after belong to


class Scheme(eqx.Module):
    """Abstract: a scheme is its formula; ``world`` is a System, or anything with its methods."""

    one_restitution: eqx.AbstractClassVar[bool]  # whether e must be the same for all gaps
    rigid: eqx.AbstractClassVar[bool]  # whether impacts are instants; False where the wall yields
    needs: ClassVar[type] = World  # what it asks of a world (carom/contracts.py)
    differentiable: ClassVar[bool] = False  # whether impact times move with the parameters
    frictional: ClassVar[bool] = False  # whether it moves contacts with friction
    jointed: ClassVar[bool] = False  # whether it moves joints
    gluey: ClassVar[bool] = False  # whether it carries what glued contacts remember
    at_ends: ClassVar[bool] = True  # whether it asks for the force at the ends of a step
    lockstep: ClassVar[bool] = True  # whether the steps of all members of a batch are as long
    dense: ClassVar[bool] = False  # whether a step of any length is exact: records between steps
    located: ClassVar[bool] = False  # whether the table of impacts has the times of all of them
    keeps_open: ClassVar[bool] = (
        False  # whether no step leaves a convex set, and Dq = h v without e
    )
    staggered: ClassVar[bool] = False  # whether v is that of the middle of the next step
    pushes_at_start: ClassVar[bool] = False  # whether ``first`` is its start, with a report of it
    events_per_step: ClassVar[int] = 0  # located impacts that the report of a step holds

    def __check_init__(self):
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.type is bool and not isinstance(value, bool | np.bool_):
                name = f"{type(self).__name__} has {field.name}"
                raise KindError(f"{name}={value!r}; it must be True or False")

    @property
    def tolerance_of_motion(self) -> Any:
        """The relative error of its integration between impacts; 0 where it has no tolerance."""
        return 0.0

    def contact_duration(self, system) -> Any:
        """How long an impact lasts; None where it is an instant."""
        return None

    @plain
    def over(self, span) -> "Scheme":
        """The scheme for a run of length ``span``."""
        return self

    def __repr__(self) -> str:
        """As one would write it: the options that are not the default, with their values."""
        options = []
        for field in dataclasses.fields(self):
            value = _plain(getattr(self, field.name))
            if field.repr and value != field.default:
                options.append(f"{field.name}={value!r}")
        return f"{type(self).__name__}({', '.join(options)})"

    @abc.abstractmethod
    def start(self, world, t: Array, q: Array, v: Array, dt: Array) -> State:
        """The first state, from admissible data (an impact at t0 has already been applied)."""

    @abc.abstractmethod
    def step(self, world, state: State, dt: Array) -> tuple[State, Report]:
        """Advance by dt."""


def started(scheme, world, t, q, v, dt) -> tuple[State, Any]:
    """The first state, and the Report of what its start pushed; None where a start does not."""
    if scheme.pushes_at_start:
        return scheme.first(world, t, q, v, dt)
    return scheme.start(world, t, q, v, dt), None


def number(x) -> Any:
    """A parameter of a scheme as an array: a new value of it compiles nothing anew."""
    try:
        return None if x is None else jnp.asarray(x, float)
    except (TypeError, ValueError):
        raise KindError(f"a number is wanted where a scheme was given {x!r}") from None


class NotKept:
    """In place of a parameter that was an argument of jit or vmap, once that has returned."""

    def __repr__(self) -> str:
        return "..."


NOT_KEPT = NotKept()


def kept(scheme: Scheme) -> Scheme:
    """The scheme as it may leave jit or vmap: an array that is traced there means nothing here."""
    return jax.tree_util.tree_map(lambda x: NOT_KEPT if isinstance(x, Tracer) else x, scheme)


def _plain(value) -> Any:
    """A number, a list or a text; an array that is not known, under jit or vmap, as it is."""
    if isinstance(value, Tracer):
        return NOT_KEPT
    return value.tolist() if hasattr(value, "tolist") else value


def rebound(world, metric, contacts, v: Array, active: Array) -> Projection:
    """The impact law (carom/law.py), with ``v`` the velocity before it."""
    b = contacts.struck(contacts.velocity(v))
    return world.project(metric, v, contacts, b, active)
