"""One member of a sweep: a run whose step may depend on the parameters, and what is kept of it."""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from carom.errors import StudyError
from carom.run.loop import Run, Start, begin, one_step
from carom.schemes.scheme import Scheme
from carom.status import Status
from carom.worlds.system.apart import with_force_apart


class Keep(eqx.Module):
    """Abstract: what of a run goes into the Dataset of a sweep."""

    def start(self, state, p: int) -> Any:
        """Before the first kept step; p gaps."""
        raise NotImplementedError

    def step(self, kept, state, report) -> Any:
        """After each step."""
        return kept

    def mark(self, kept, record, state) -> Any:
        """After each record of ``every`` steps."""
        return kept

    def fields(self, kept) -> dict[str, Array]:
        """What goes into the Dataset, by name."""
        raise NotImplementedError

    def axes(self) -> dict[str, tuple[str, ...]]:
        """The axes of each field after those of the parameters."""
        raise NotImplementedError


class Final(Keep):
    """The state at the end: ``q`` and ``v``."""

    def start(self, state, p):
        return state.q, state.v

    def mark(self, kept, record, state):
        return state.q, state.v

    def fields(self, kept):
        return {"q": kept[0], "v": kept[1]}

    def axes(self):
        return {"q": ("coordinate",), "v": ("coordinate",)}


class Strobe(Keep):
    """The states at the records: ``strobe_q`` and ``strobe_v``, (record, coordinate)."""

    records: int  # how many there are: steps over every

    def start(self, state, p):
        return jnp.zeros((self.records, 2 * state.q.shape[0]))

    def mark(self, kept, record, state):
        row = jnp.concatenate([state.q, state.v])[None]
        return jax.lax.dynamic_update_slice(kept, row, (record, 0))

    def fields(self, kept):
        d = kept.shape[1] // 2
        return {"strobe_q": kept[:, :d], "strobe_v": kept[:, d:]}

    def axes(self):
        return {"strobe_q": ("record", "coordinate"), "strobe_v": ("record", "coordinate")}


class Impacts(Keep):
    """``impacts``, the impacts of the kept steps, gap by gap, and ``impulse``, their total.

    An impact is a step with an impulse that follows one without.
    """

    def start(self, state, p):
        return jnp.zeros(p, bool), jnp.zeros(p, int), jnp.zeros(p)

    def step(self, kept, state, report):
        before, count, impulse = kept
        if report.struck is None:
            struck = report.impulse[: before.shape[0], 0] > 0.0
            count = count + (struck & ~before)
        else:
            struck, count = before, count + report.struck
        return struck, count, impulse + report.impulse[: before.shape[0], 0]

    def fields(self, kept):
        return {"impacts": kept[1], "impulse": kept[2]}

    def axes(self):
        return {"impacts": ("constraint",), "impulse": ("constraint",)}


class Extremes(Keep):
    """``highest`` and ``lowest`` of each coordinate over the kept steps."""

    def start(self, state, p):
        return state.q, state.q

    def step(self, kept, state, report):
        return jnp.maximum(kept[0], state.q), jnp.minimum(kept[1], state.q)

    def fields(self, kept):
        return {"highest": kept[0], "lowest": kept[1]}

    def axes(self):
        return {"highest": ("coordinate",), "lowest": ("coordinate",)}


class Reduce(Keep):
    """A reduction of your own over the kept steps, as an array ``kept``."""

    name: str  # of the field of the Dataset
    begin: Callable  # ``begin(q, v) -> kept``, before the first of these steps
    update: Callable  # ``update(kept, t, q, v) -> kept``, after each
    axis_names: tuple[str, ...] = ()  # one for each axis of ``kept``

    def start(self, state, p):
        return jnp.asarray(self.begin(state.q, state.v))

    def step(self, kept, state, report):
        return self.update(kept, state.t, state.q, state.v)

    def fields(self, kept):
        return {self.name: kept}

    def axes(self):
        return {self.name: self.axis_names}


class Plan(NamedTuple):
    """What every member of a sweep does.

    A value or, where it depends on the parameters, a function of those of them that it names.
    """

    build: Callable  # of parameters, gives a System
    q0: Any  # (d,)
    v0: Any  # (d,)
    dt: Any  # ()
    t0: float
    scheme: Scheme
    settle: int  # steps before anything is kept
    every: int  # steps to a record
    records: int
    keep: tuple[Keep, ...]


def named(value, parameters: dict):
    """``value``, called with those of the parameters that it takes if it is a function."""
    if not callable(value):
        return value
    signature = inspect.signature(value).parameters
    if any(s.kind == s.VAR_KEYWORD for s in signature.values()):
        return value(**parameters)
    return value(**{name: parameters[name] for name in signature if name in parameters})


def check_names(plan: Plan, parameters) -> None:
    """Refuse a parameter that nothing takes, and a build that takes one that is not there."""
    check_build(plan.build)
    taken: set[str] = set()
    for value in filter(callable, (plan.build, plan.q0, plan.v0, plan.dt)):
        for name, found in inspect.signature(value).parameters.items():
            every = found.kind == found.VAR_KEYWORD
            taken |= set(parameters) if every else {name}
            if not every and name not in parameters and found.default is found.empty:
                raise StudyError(
                    f"{name!r} is an argument of build, q0, v0 or dt, but the parameters are "
                    f"{', '.join(parameters)}: give it values, or a default"
                )
    if unused := [name for name in parameters if name not in taken]:
        raise StudyError(
            f"the parameter {unused[0]!r} is no argument of build, q0, v0 or dt, which take "
            f"{', '.join(sorted(taken)) or 'none'}: nothing would change with it"
        )


def check_build(build) -> None:
    """Refuse a System where a function that makes one is asked for."""
    if not callable(build):
        raise StudyError(
            f"build is {build!r}; give a function of the parameter that makes a System, as in "
            "lambda w: carom.System(...)"
        )


def member(plan: Plan, parameters: dict, alive: Array) -> dict[str, Array]:
    """One run; ``status`` and what ``plan.keep`` asks for.  ``alive`` is 1, known at run time."""
    system = named(plan.build, parameters)
    if plan.scheme.lockstep:
        system = with_force_apart(system, alive)
    q0, v0 = (jnp.atleast_1d(jnp.asarray(named(x, parameters), float)) for x in (plan.q0, plan.v0))
    dt = jnp.asarray(named(plan.dt, parameters), float)
    scheme = plan.scheme.over((plan.settle + plan.every * plan.records) * dt)
    run = Run(system, scheme, jnp.asarray(float(plan.t0)), dt)
    carry, fields = kept_run(plan, run, begin(run, q0, v0))
    return {"status": jnp.asarray(carry.status._value, jnp.int32), **fields}


def kept_run(plan: Plan, run: Run, start: Start):
    """``settle`` steps, then ``records`` records of ``every`` steps: carry, fields."""
    carry = jax.lax.fori_loop(0, plan.settle, lambda _, c: one_step(run, c)[0], start.carry)
    kept = tuple(keep.start(carry.state, start.shape.p) for keep in plan.keep)

    def step(_, loop):
        carry, kept = loop
        carry, report = one_step(run, carry)
        pairs = zip(plan.keep, kept, strict=True)
        new = tuple(keep.step(k, carry.state, report) for keep, k in pairs)
        good = carry.status == Status.ok  # what has failed has no impacts
        return carry, jax.tree_util.tree_map(lambda a, b: jnp.where(good, a, b), new, kept)

    def record(r, loop):
        carry, kept = jax.lax.fori_loop(0, plan.every, step, loop)
        pairs = zip(plan.keep, kept, strict=True)
        return carry, tuple(keep.mark(k, r, carry.state) for keep, k in pairs)

    carry, kept = jax.lax.fori_loop(0, plan.records, record, (carry, kept))
    fields = {}
    for keep, k in zip(plan.keep, kept, strict=True):
        fields |= keep.fields(k)
    return carry, fields
