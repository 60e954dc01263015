"""What a method is to the benchmark: one function that advances a problem."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import carom
from carom.models import Problem


@dataclass(frozen=True, kw_only=True)
class Motion:
    """What a method hands back: the motion at times of its own, and what else it knows.

    At least 20 equal parts of [t0, t1]: no two times further apart than a twentieth of it; v is the
    right limit.  What is None is not judged.
    """

    t: np.ndarray  # (n,) from t0 to t1
    q: np.ndarray  # (n, d)
    v: np.ndarray  # (n, d)
    steps: int | None = None  # taken inside, where they are not the reported ones
    evaluations: int | None = None  # of the force, where the method counts them
    impulse: np.ndarray | None = None  # (p,) received from each gap over the whole run
    impact_times: np.ndarray | None = None  # (k,) in order
    penetration: float | None = None  # largest, inside the steps too
    certified: bool | None = None  # the verdict of carom.certify
    wall: float | None = None  # [s] and
    cpu: float | None = None  # [s] of a method that runs in another process


@dataclass(frozen=True, kw_only=True)
class Method:
    """A method of the benchmark.

    ``advance(problem, size) -> Motion`` moves a `carom.models.Problem` from t0 to t1.  ``size`` is
    one of ``sizes``, from coarse to fine: a number of steps over [t0, t1], or a tolerance.
    ``certify(problem, size)`` says whether a certificate finds it a solution, outside the clock.
    """

    name: str  # in tables
    advance: Callable[[Problem, float], Motion]  # see above
    sizes: tuple[float, ...]  # from coarse to fine
    size: str = "steps"  # what a size is: steps, rtol, lam
    order: float | None = None  # declared order of sup q in 1 / steps, or in the tolerance
    evaluations: float | None = None  # of the force in a step taken inside; None: not known
    certify: Callable[[Problem, float], bool | None] | None = None


# Prime numbers of steps: impacts must not fall on the steps.
_STEPS = (1049, 2003, 4001, 8009, 16001, 32003, 64007, 128021)
_RTOL = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11)
_LAM = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
# Records of the methods with steps of their own.  A record ends a step of EventDriven: with many of
# them it would be more accurate than asked, whatever its tolerance.
_FEW, _MANY, _CERTIFIED = 20, 400, 1009


def _solved(problem: Problem, scheme, steps: int):
    return carom.solve(
        problem.system,
        scheme,
        problem.q0,
        problem.v0,
        t0=problem.t0,
        t1=problem.t1,
        dt=(problem.t1 - problem.t0) / steps,
    )


def _motion(sol, *, impacts: bool, inside: bool = False) -> Motion:
    """``inside``: count the steps that the method takes between two records."""
    stats = sol.stats
    return Motion(
        t=np.asarray(sol.t),
        q=np.asarray(sol.q),
        v=np.asarray(sol.v),
        steps=int(stats.iterations if inside else stats.steps),
        impulse=np.sum(np.asarray(sol.impulse), axis=0),
        impact_times=np.asarray(sol.impacts.time) if impacts else None,
        penetration=max(float(np.max(-sol.gap, initial=0.0)), float(stats.penetration)),
    )


def time_stepping(scheme, evaluations: float) -> Method:
    """A scheme of carom with fixed steps, as a method; sizes are numbers of steps."""

    def advance(problem, size):
        span = problem.t1 - problem.t0
        if problem.frequency is not None and size < 0.6 * span * problem.frequency:
            raise carom.errors.TimeError(
                f"{size} steps are too few: an explicit scheme needs dt below "
                f"{2 / problem.frequency:g} here"
            )
        return _motion(_solved(problem, scheme, int(size)), impacts=True)

    def certify(problem, size):
        return carom.certify(_solved(problem, scheme, int(size))).ok

    return Method(
        name=type(scheme).__name__,
        advance=advance,
        sizes=_STEPS,
        order=1.0,
        evaluations=evaluations,
        certify=certify,
    )


def tolerance(
    make, name: str, sizes, size: str, order: float | None, records: int, evaluations: float
) -> Method:
    """A scheme of carom made from a tolerance: ``make(size)``."""

    def advance(problem, size):
        scheme = make(size)
        return _motion(_solved(problem, scheme, records), impacts=scheme.rigid, inside=True)

    def certify(problem, size):
        return carom.certify(_solved(problem, make(size), _CERTIFIED)).ok

    return Method(
        name=name,
        advance=advance,
        sizes=sizes,
        size=size,
        order=order,
        evaluations=evaluations,
        certify=certify,
    )


# Evaluations of the force in a step, as tests/bench/test_evaluations.py counts them.  A step of
# EventDriven asks for it in its stages and wherever it looks for impacts: 80 to 90 times.
METHODS = {
    method.name: method
    for method in (
        time_stepping(carom.Moreau(), 1.0),
        time_stepping(carom.Maury(), 2.0),
        time_stepping(carom.PaoliSchatzman(), 1.0),
        tolerance(
            lambda rtol: carom.EventDriven(rtol=rtol, atol=rtol / 100, events_per_step=64),
            "EventDriven",
            _RTOL,
            "rtol",
            1.0,
            _FEW,
            84.0,
        ),
        tolerance(lambda lam: carom.Penalty(lam=lam), "Penalty", _LAM, "lam", 0.5, _MANY, 14.0),
    )
}
