"""Going on from the end of a solution: ``solve(start=sol)``."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from carom.errors import KindError, RecordError, TimeError
from carom.programs import compiled
from carom.results.solution import End
from carom.run.checks import checked_times
from carom.run.loop import Carry, Run, Start, begin_compiled, go_on_compiled
from carom.schemes.named import scheme_of_text
from carom.schemes.scheme import State
from carom.status import Status

_ULPS = 8  # by which t1 may be missed where the old dt is kept
_NEAREST = {"tolerance": 1e-13, "iterations": 50}


def end_of(run: Run, carry: Carry, array: Callable = lambda x: x) -> End:
    """Where a run stands, in arrays made by ``array``."""
    state, steps = carry.state, carry.stats.steps
    t0, first, dt, steps, q, v = map(array, (run.t0, run.first, run.dt, steps, state.q, state.v))
    memory = [array(x) for x in jax.tree_util.tree_leaves(state.memory)]
    return End(t0, first + steps, dt, q, v, memory)


def check_end(start, *given) -> Any:
    """The end of a solution, with what its scheme remembers; None without one."""
    if start is None:
        return None
    if any(x is not None for x in given):
        raise TimeError("start= has a state and a time of its own: leave q0, v0 and t0 out")
    if not hasattr(start, "end"):
        raise KindError(f"start is {start!r}; give a solution of such a system, from solve or load")
    if np.ndim(start.t) > 1:
        raise RecordError("start is a batch of solutions: give one of them, start=sol[i]")
    if start.end is None:
        raise RecordError(
            "this solution does not say what its scheme remembers at its end (its file lacks it): "
            "start with q0=sol.q[-1], v0=sol.v[-1], t0=sol.t[-1] instead"
        )
    return start.end


def check_untraced(start) -> None:
    """Refuse start= inside jit and vmap."""
    if start is not None:
        raise RecordError(
            "start= goes on with one run, outside jit, vmap and derivatives: inside, pass "
            "its state as q0 and v0"
        )


def clock(end, t0, t1, dt) -> tuple[tuple[float, int, float], int]:
    """(t0, steps, dt), and the steps since t0 where the run starts.

    A run that goes on counts from the t0 of the one before where the dt of that one meets t1, and
    so has the same times as a run that never stopped.
    """
    if end is None:
        return checked_times(0.0 if t0 is None else t0, t1, dt), 0
    t0, first, old = float(end.t0), int(end.step), float(end.dt)
    now, steps, dt = checked_times(t0 + first * old, t1, dt)
    if abs(t0 + (first + steps) * old - t1) <= _ULPS * np.spacing(max(abs(t1), abs(t0))):
        return (t0, steps, old), first
    return (now, steps, dt), 0


def gone_on(run: Run, before) -> Start:
    """The end of the solution ``before`` as the start of ``run``.

    The same kind of scheme goes on with all that it remembers, and with its own small overlaps;
    another one starts at the nearest point of K.
    """
    end, scheme = before.end, before.scheme
    q, v = jnp.asarray(end.q, float), jnp.asarray(end.v, float)
    wanted = eqx.filter_eval_shape(run.scheme.start, run.system, run.t0, q, v, run.dt)
    leaves, shape = jax.tree_util.tree_flatten(wanted.memory)
    scheme = scheme_of_text(scheme) if isinstance(scheme, str) else scheme
    same = type(scheme) is type(run.scheme)
    if not same or [x.shape for x in leaves] != [np.shape(x) for x in end.memory]:
        return begin_compiled(run, _admissible(run, q), v)
    given = [jnp.asarray(x, like.dtype) for x, like in zip(end.memory, leaves, strict=True)]
    memory = jax.tree_util.tree_unflatten(shape, given)
    return go_on_compiled(run, State(run.time(jnp.array(0)), q, v, memory))


def admissible(run: Run, q) -> Array:
    """The point of K nearest to q, where a run begins that another one left there."""
    found = run.system.nearest(run.system.metric(q), run.time(jnp.array(0)), q, **_NEAREST)
    return jnp.where(found.status == Status.ok, q + found.shift, q)


_admissible = compiled(admissible)
