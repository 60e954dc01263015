"""How an order is measured: step sizes that align with no impact, a slope of the logarithms.

sup |q| over the run, and the L1 norm in time of v, against the exact motion of a model.
"""

from dataclasses import dataclass

import numpy as np

import carom

# Numbers of steps: primes in geometric progression, so that no grid falls on an impact time.
STEPS = (
    1511,
    1931,
    2459,
    3137,
    4013,
    5147,
    6563,
    8389,
    10729,
    13721,
    17551,
    22441,
    28697,
    36691,
    46919,
    60013,
)
_INSIDE = 4  # points of each step at which the piecewise exact and computed motions are compared


@dataclass(frozen=True)
class Orders:
    """Fitted slopes, with the errors they were fitted to."""

    q: float
    v: float
    q_errors: np.ndarray
    v_errors: np.ndarray


def errors(problem, scheme, steps):
    """(sup |q|, L1 of v) over the run."""
    dt = (problem.t1 - problem.t0) / steps
    sol = carom.solve(
        problem.system, scheme, problem.q0, problem.v0, t0=problem.t0, t1=problem.t1, dt=dt
    )
    assert len(sol.t) == steps + 1
    q_error = np.max(np.abs(sol.q - problem.exact(sol.t)[0]))
    inside = (np.arange(_INSIDE) + 0.5) / _INSIDE
    t = (sol.t[:-1, None] + inside * dt).ravel()
    v_error = np.abs(np.repeat(sol.v[:-1], _INSIDE, axis=0) - problem.exact(t)[1]).sum(axis=1)
    return q_error, v_error.sum() * dt / _INSIDE


def orders(problem, scheme, steps=STEPS) -> Orders:
    """Median slopes of log error against log dt (Theil and Sen)."""
    found = np.array([errors(problem, scheme, n) for n in steps])
    return Orders(*(_slope(steps, e) for e in found.T), found[:, 0], found[:, 1])


def _slope(steps, errors):
    """Median over all pairs: the error constant of each run depends on where in a step the
    impacts fall, and a median is not led astray by the runs where they fall luckily."""
    x, y = -np.log(np.array(steps, float)), np.log(np.maximum(errors, 1e-300))
    i, j = np.triu_indices(len(x), 1)
    return float(np.median((y[i] - y[j]) / (x[i] - x[j])))
