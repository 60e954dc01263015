"""States between the records of a scheme that is exact at any step length."""

import jax
import jax.numpy as jnp
import numpy as np

from carom.errors import RecordError
from carom.programs import compiled
from carom.schemes.named import scheme_of_text
from carom.status import is_ok


def between(sol, system, t: np.ndarray, side: str) -> tuple[np.ndarray, np.ndarray]:
    """(q, v) at the times t (n,): the motion from the record before each of them.

    A time that is an impact's, to rounding, is taken just before or just after it.
    """
    if system is None:
        raise RecordError(
            "between its records this motion is integrated again, and its system is not known "
            "after jit, vmap or load: give it, sol.at(t, system=...)"
        )
    scheme = scheme_of_text(sol.scheme) if isinstance(sol.scheme, str) else sol.scheme
    times, slack = np.asarray(sol.t), 1e-9 * float(sol.dt)
    right = side == "right"
    shift = slack if right else -slack
    k = np.clip(np.searchsorted(times, t + shift, side="right" if right else "left") - 1, 0, None)
    near = 8.0 * np.finfo(float).eps * np.maximum(np.abs(t), float(sol.dt))
    at_record = np.abs(t - times[k]) <= slack
    end = np.where(at_record, times[k], t + near if right else t - near)
    room = 2 ** int(np.ceil(np.log2(max(len(t), 1))))  # few sizes, few compilations
    given = (times[k], np.asarray(sol.q)[k], np.asarray(sol.v)[k], end)
    padded = (np.concatenate([x, np.repeat(x[:1], room - len(x), axis=0)]) for x in given)
    q, v, status = _moved(system, scheme, *map(jnp.asarray, padded))
    if not is_ok(status):
        raise RecordError("the motion between two records could not be followed: take a smaller dt")
    return np.asarray(q)[: len(t)], np.asarray(v)[: len(t)]


@compiled
def _moved(system, scheme, t0, q0, v0, t1):
    def one(given):
        t0, q0, v0, t1 = given
        state, report = scheme.step(system, scheme.start(system, t0, q0, v0, t1 - t0), t1 - t0)
        return state.q, state.v, report.status

    return jax.lax.map(one, (t0, q0, v0, t1))
