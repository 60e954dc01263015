"""Poincaré sections, bifurcation diagrams, basins of attraction and resonance curves."""

import concurrent.futures
import inspect
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from carom.arguments import suggesting
from carom.errors import StudyError
from carom.run.going_on import admissible
from carom.run.loop import Run, begin
from carom.run.record import Record
from carom.run.solve import solve
from carom.schemes.event_driven import EventDriven
from carom.schemes.moreau import Moreau
from carom.schemes.scheme import Scheme
from carom.study.batches import sweep
from carom.study.members import Extremes, Impacts, Plan, Strobe, check_build, kept_run, named
from carom.worlds.system.apart import with_force_apart
from carom.worlds.system.system import System


@suggesting
def poincare(
    system: System,
    q0,
    v0,
    *,
    period: float,
    points: int = 1000,
    settle: int = 100,
    at_impacts: bool = False,
    scheme: Scheme | None = None,
    steps: int = 500,
):
    """A Poincaré section of one motion: a Dataset with axes ``point`` and ``coordinate``.

    The states at whole periods of the forcing after ``settle`` of them; or, with ``at_impacts``,
    the phase and normal velocities of every impact in ``points`` periods.

    Parameters
    ----------
    system
        A System whose force, or gaps, have the period.
    q0, v0
        (d,) position and velocity at t = 0.
    period
        Of the forcing [s].
    points
        Periods that are kept: as many points, unless ``at_impacts``.
    settle
        Periods before anything is kept.
    at_impacts
        True: a point for each impact instead of each period.
    scheme
        How to step.  None: ``carom.EventDriven()``.
    steps
        Of each period, with a scheme that steps.
    """
    import xarray

    chosen = EventDriven() if scheme is None else scheme
    per_period = 1 if chosen.dense else steps
    dt, t1 = period / per_period, period * (settle + points)
    record = Record(impacts=True) if at_impacts else Record(every=per_period)
    sol = solve(system, chosen, q0, v0, t1=t1, dt=dt, record=record)
    attributes = {"study": "poincare", "period": float(period)}
    if not at_impacts:
        fields = {n: (("point", "coordinate"), getattr(sol, n)[settle + 1 :]) for n in "qv"}
        return xarray.Dataset(fields, attrs=attributes)
    hits = np.asarray(sol.impacts)
    hits = hits[hits["time"] > settle * period]
    fields = {
        "phase": ("point", 2 * np.pi * (hits["time"] / period % 1.0)),
        **{n: ("point", hits[n]) for n in ("time", "constraint", "velocity_before", "impulse")},
    }
    return xarray.Dataset(fields, attrs=attributes)


@suggesting
def bifurcation(
    build: Callable,
    values,
    *,
    period: Callable | float,
    q0,
    v0,
    scheme: Scheme | None = None,
    steps: int = 500,
    settle: int = 300,
    keep: int = 100,
    carried: bool = True,
    **sweeping,
):
    """A bifurcation diagram by brute force: a Dataset with axes ``direction``, p, ``record``.

    For each value of the parameter of ``build``, ``settle`` periods of ``steps`` steps, then
    ``keep`` more with the state at each in ``strobe_q``, ``strobe_v`` and the mean number of
    impacts in ``impacts_per_period``.

    ``carried``: each value starts from the last state of the one before, at the nearest point that
    its own gaps allow, once with the values up and once down, so that coexisting attractors show as
    hysteresis; one core for each direction.
    Otherwise all values start from (q0, v0) and run at once; ``sweeping`` are then options of
    ``study.sweep``, such as ``path`` and ``client``.

    Parameters
    ----------
    build
        A function of one parameter that makes a System: ``lambda w: carom.System(...)``.
    values
        (n,) of the parameter.
    period
        Of the forcing [s], or a function of the parameter: ``lambda w: 2 * jnp.pi / w``.
    q0, v0
        (d,) position and velocity at t = 0.
    scheme
        How to step.  None: ``carom.Moreau()``.
    steps
        Of each period.
    settle, keep
        Periods before anything is kept, and periods after.
    carried
        True: each value starts where the one before ended.
    **sweeping
        Options of ``study.sweep``, where ``carried=False``: ``path``, ``client``, ...
    """
    values = np.ravel(np.asarray(values, float))
    name = _parameter_of(build)
    plan = Plan(
        build=build,
        q0=q0,
        v0=v0,
        dt=_step_of(period, steps),
        t0=0.0,
        scheme=Moreau() if scheme is None else scheme,
        settle=settle * steps,
        every=steps,
        records=keep,
        keep=(Strobe(keep), Impacts()),
    )
    if carried:
        if sweeping:
            raise StudyError(f"{sorted(sweeping)} go with carried=False, where a sweep is run")
        data = _carried(plan, name, values)
    else:
        data = sweep(
            build,
            {name: values},
            q0=q0,
            v0=v0,
            scheme=plan.scheme,
            dt=plan.dt,
            settle=plan.settle,
            steps=keep * steps,
            every=steps,
            keep=plan.keep,
            **sweeping,
        ).expand_dims(direction=["none"])
    data["impacts_per_period"] = data["impacts"] / keep
    data.attrs |= {"study": "bifurcation", "parameter": name}
    return data


def _parameter_of(build) -> str:
    check_build(build)
    names = list(inspect.signature(build).parameters)
    if len(names) != 1:
        raise StudyError(
            f"build takes {names}: here it must take one parameter, as in lambda w: System(...)"
        )
    return names[0]


def _step_of(period, steps):
    """dt: the period, or that of the parameters it names, cut into steps."""
    if not callable(period):
        return float(period) / steps
    names = list(inspect.signature(period).parameters)
    if len(names) != 1:
        raise StudyError(f"period takes {names}: it must take one parameter, as build does")
    return lambda **parameters: period(next(iter(parameters.values()))) / steps


def _carried(plan: Plan, name: str, values):
    import xarray

    q0, v0 = (jnp.atleast_1d(jnp.asarray(x, float)) for x in (plan.q0, plan.v0))

    @jax.jit
    def walked(values, alive):
        def at(loop, value):
            (q, v), carried = loop
            parameters = {name: value}
            system = with_force_apart(named(plan.build, parameters), alive)
            dt = jnp.asarray(named(plan.dt, parameters), float)
            scheme = plan.scheme.over((plan.settle + plan.every * plan.records) * dt)
            run = Run(system, scheme, jnp.asarray(float(plan.t0)), dt)
            q = jnp.where(carried, admissible(run, q), q)
            carry, fields = kept_run(plan, run, begin(run, q, v))
            status = jnp.asarray(carry.status._value, jnp.int32)
            ok = status == 0  # the next value starts afresh after a failure
            state = jnp.where(ok, carry.state.q, q0), jnp.where(ok, carry.state.v, v0)
            return (state, ok), {"status": status, **fields}

        return jax.lax.scan(at, ((q0, v0), jnp.array(False)), values)[1]

    up = np.sort(values)
    walked.lower(up, 1.0)  # traced once, before the threads
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        rising, falling = pool.map(
            lambda v: jax.tree_util.tree_map(np.asarray, walked(v, 1.0)), (up, up[::-1])
        )
    axes = {"status": ()}
    for keep in plan.keep:
        axes |= keep.axes()
    fields = {
        n: (("direction", name, *axes[n]), np.stack([rising[n], falling[n][::-1]])) for n in rising
    }
    return xarray.Dataset(fields, coords={name: up, "direction": ["up", "down"]})


@suggesting
def basins(
    system: System,
    initial: dict,
    *,
    q0: Callable,
    v0: Callable,
    period: float,
    scheme: Scheme | None = None,
    steps: int = 200,
    settle: int = 100,
    keep: int = 16,
    tol: float = 0.05,
    **sweeping,
):
    """Which attractor each initial state of a grid goes to: a Dataset with the axes of ``initial``.

    ``initial`` has the names and values of the grid, and ``q0``, ``v0`` make a state of them:
    ``basins(system, {"x": xs, "u": us}, q0=lambda x: x, v0=lambda u: u, ...)``.

    After ``settle`` periods the states of ``keep`` more are compared, relative to the largest of
    each coordinate over all members, with tolerance ``tol``: they repeat with the smallest such
    period, up to keep/2, or not at all.  With steps of a fixed length impact times are whole
    steps, and an orbit trembles by some dt times its speed: ``tol`` must be above that.

    ``attractor`` has a label, the most visited first, -1 where the run failed (its ``status`` says
    why); ``attractor_period`` its period in periods of the forcing, 0 for those that do not
    repeat, which share one label; ``attractor_point`` a state of each.

    Parameters
    ----------
    system
        A System whose force, or gaps, have the period.
    initial
        Name to values (n,) of the grid.
    q0, v0
        Functions of these names that return (d,), or a number where d = 1.
    period
        Of the forcing [s].
    scheme
        How to step.  None: ``carom.Moreau()``.
    steps
        Of each period.
    settle, keep
        Periods before anything is compared, and periods that are.
    tol
        How near states are that repeat, in parts of the largest.
    **sweeping
        Options of ``study.sweep``, such as ``path`` and ``client``.
    """
    data = sweep(
        lambda: system,
        initial,
        q0=q0,
        v0=v0,
        scheme=Moreau() if scheme is None else scheme,
        dt=period / steps,
        settle=settle * steps,
        steps=keep * steps,
        every=steps,
        keep=Strobe(keep),
        **sweeping,
    )
    axes = data["status"].dims
    states = np.concatenate([data["strobe_q"].values, data["strobe_v"].values], axis=-1)
    flat = states.reshape(-1, *states.shape[len(axes) :])
    ok = data["status"].values.ravel() == 0
    label, repeats, points = attractors(flat, ok, tol, _sizes(flat[ok], period))
    found = data[["status"]]
    found["attractor"] = (axes, label.reshape(data["status"].shape))
    found["attractor_period"] = ("label", repeats)
    found["attractor_point"] = (("label", "state"), points)
    found.attrs |= {"study": "basins"}
    return found


def _sizes(states, period):
    """(2d,) the largest of each coordinate; a velocity counts at least coordinate / period."""
    q, v = np.split(np.max(np.abs(states), axis=(0, 1), initial=0.0), 2)
    return np.concatenate([q, np.maximum(v, q / period)])


def attractors(states, ok, tol, sizes):
    """Label (n,) of each member's last states (n, keep, 2d), and period and point per label."""
    n, keep, _ = states.shape
    scaled = states / np.where(sizes > 0.0, sizes, 1.0)
    period = np.zeros(n, int)
    for m in range(keep // 2, 0, -1):
        period[np.max(np.abs(scaled[:, m:] - scaled[:, :-m]), axis=(1, 2)) <= tol] = m
    # the point of an orbit that stands for it: the one with the smallest first coordinate
    within = np.arange(keep)[None] < np.maximum(period, 1)[:, None]
    lowest = np.argmin(np.where(within, scaled[:, :, 0], np.inf), axis=1)
    point = scaled[np.arange(n), lowest]
    cell = np.where((ok & (period > 0))[:, None], np.round(point / tol), 0.0)
    keys = np.column_stack([np.where(ok, period, -1), cell])
    keys, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    group = _merged(keys[:, 0].astype(int), scaled[first], 2 * tol)[np.ravel(inverse)]
    names, label = np.unique(group, return_inverse=True)
    sizes = np.bincount(label[ok], minlength=len(names))
    order = np.argsort(-sizes, kind="stable")
    order = order[sizes[order] > 0]
    rank = np.full(len(names), -1)
    rank[order] = np.arange(len(order))
    label = np.where(ok, rank[label], -1)
    chosen = np.array([np.argmax(label == k) for k in range(len(order))], int)
    points = states[chosen, lowest[chosen]]
    return label, period[chosen], points


def _merged(periods, states, near):
    """Cells of one period with neighbouring states (n, keep, 2d), in some phase, are one."""
    group = np.arange(len(states))
    for k in range(1, len(states)):
        for j in np.flatnonzero(periods[:k] == periods[k]):
            if group[j] != group[k] and _alike(states[j], states[k], periods[k], near):
                group[group == group[k]] = group[j]
    return group


def _alike(one, other, period, near):
    if period <= 0:  # what does not repeat, and what failed, is not told apart
        return True
    turned = (np.roll(other[:period], shift, axis=0) for shift in range(period))
    return any(np.max(np.abs(one[:period] - states)) <= near for states in turned)


@suggesting
def resonance(
    build: Callable,
    values,
    *,
    period: Callable | float,
    q0,
    v0,
    scheme: Scheme | None = None,
    steps: int = 500,
    settle: int = 200,
    keep: int = 50,
    **sweeping,
):
    """Amplitude, impact rate and impulse against a parameter, a frequency for example: a Dataset.

    Over ``keep`` periods after ``settle``: ``amplitude``, half of highest minus lowest of each
    coordinate; ``impact_rate`` and ``impulse_rate``, impacts and impulse per unit of time, gap by
    gap.

    Parameters
    ----------
    build
        A function of one parameter that makes a System: ``lambda w: carom.System(...)``.
    values
        (n,) of the parameter.
    period
        Of the forcing [s], or a function of the parameter: ``lambda w: 2 * jnp.pi / w``.
    q0, v0
        (d,) position and velocity at t = 0.
    scheme
        How to step.  None: ``carom.Moreau()``.
    steps
        Of each period.
    settle, keep
        Periods before anything is kept, and periods after.
    **sweeping
        Options of ``study.sweep``, such as ``path`` and ``client``.
    """
    name = _parameter_of(build)
    dt = _step_of(period, steps)
    data = sweep(
        build,
        {name: values},
        q0=q0,
        v0=v0,
        scheme=Moreau() if scheme is None else scheme,
        dt=dt,
        settle=settle * steps,
        steps=keep * steps,
        keep=(Extremes(), Impacts()),
        **sweeping,
    )
    periods = [float(period(v)) if callable(period) else float(period) for v in data[name].values]
    time = data[name].copy(data=np.array(periods) * keep)
    data["amplitude"] = 0.5 * (data["highest"] - data["lowest"])
    data["impact_rate"] = data["impacts"] / time
    data["impulse_rate"] = data["impulse"] / time
    data.attrs |= {"study": "resonance", "parameter": name}
    return data
