"""What is measured of a motion.  docs/benchmark.md states the same in words."""

import jax.numpy as jnp
import numpy as np

from carom.bench.methods import Motion
from carom.certificates.measured import in_chunks, records
from carom.certificates.rows import count
from carom.errors import CaromError
from carom.models import Problem

LISTED = 20  # impacts compared, at most
_FURTHEST = 0.0501  # two reported times, relative to t1 - t0; a twentieth, and rounding


class MotionError(CaromError, ValueError):
    """A method handed back something that cannot be judged."""


def measured(problem: Problem, motion: Motion, impulse: np.ndarray | None) -> dict:
    """Errors against the exact motion, at the times the method reports.

    q        sup over times and coordinates of |q - q_exact|
    v        integral of |v - v_exact|_1 dt / (t1 - t0)
    energy   integral of |T - T_exact| dt / (t1 - t0), T the kinetic energy, over the largest T
    impulse  sup over gaps of |total received - exact|, over the largest exact one
    impact_time   sup over the first impacts of |time - exact|

    None where the method or the problem does not say.
    """
    _check(problem, motion)
    exact_q, exact_v = problem.exact(motion.t)
    weight = np.gradient(motion.t) / (problem.t1 - problem.t0)
    kinetic, gaps = _energy_and_gaps(problem, motion.t, motion.q, motion.v)
    exact_kinetic, _ = _energy_and_gaps(problem, motion.t, exact_q, exact_v)
    return {
        "q": float(np.max(np.abs(motion.q - exact_q))),
        "v": float(np.sum(weight * np.sum(np.abs(motion.v - exact_v), axis=1))),
        "energy": float(np.sum(weight * np.abs(kinetic - exact_kinetic)) / np.max(exact_kinetic)),
        "impulse": _impulse_error(motion.impulse, impulse),
        "impact_time": _impact_error(problem, motion.impact_times),
        "penetration": max(float(np.max(-gaps, initial=0.0)), motion.penetration or 0.0),
    }


def scale_of(problem: Problem) -> float:
    """The size of the motion: errors relative to it can be compared between problems."""
    q, _ = problem.exact(np.linspace(problem.t0, problem.t1, 401))
    return float(np.max(np.ptp(q, axis=0)))


def _check(problem, motion):
    t, d = np.asarray(motion.t), len(problem.q0)
    n = len(t)
    if motion.q.shape != (n, d) or motion.v.shape != (n, d):
        raise MotionError(
            f"t {t.shape}, q {motion.q.shape}, v {motion.v.shape}: q and v must be {(n, d)}"
        )
    span = problem.t1 - problem.t0
    reaches = abs(t[0] - problem.t0) + abs(t[-1] - problem.t1) < 1e-6 * span
    if not reaches or np.max(np.diff(t)) > _FURTHEST * span:
        raise MotionError(
            f"{n} times from {t[0]:g} to {t[-1]:g}: report from {problem.t0:g} to {problem.t1:g}, "
            f"no two times further apart than {span / 20:g}"
        )
    if not (np.all(np.isfinite(motion.q)) and np.all(np.isfinite(motion.v))):
        raise MotionError("the motion is not finite")


def _energy_and_gaps(problem, t, q, v):
    """1/2 v^T M(q) v (n,) and the gaps (n, p), by the program that certificates use."""
    p = len(problem.system.gaps(jnp.asarray(t[0]), jnp.asarray(q[0])))
    s, k = count(problem.system, t[0], jnp.asarray(q[0]))
    none = np.zeros((len(t), p)), np.zeros((len(t), p * s + k))
    at = in_chunks(records, problem.system, (t, q, v, *none))
    return at.energy, at.gap


def _impulse_error(found, exact):
    if found is None or exact is None or not len(exact) or np.max(np.abs(exact)) == 0.0:
        return None
    return float(np.max(np.abs(found - exact)) / np.max(np.abs(exact)))


def _impact_error(problem, found):
    exact = problem.impact_times
    if found is None or exact is None or not len(exact):
        return None
    exact = np.unique(np.round(exact, 12))[:LISTED]
    found = np.unique(np.round(found, 12))
    if not len(found):
        return None
    nearest = np.abs(found[:, None] - exact).min(axis=0)
    return float(np.max(nearest))
