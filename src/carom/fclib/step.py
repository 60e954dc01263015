"""A step of a run as a frictional problem: what the scheme asks of its world, heard."""

import jax
import numpy as np
from scipy import sparse

from carom.arguments import suggesting
from carom.errors import FrictionError, KindError
from carom.fclib.problem import Problem


@suggesting
def of_step(sol, record: int = -1) -> Problem:
    """The frictional problem of the step that starts at a record of a run: a global problem.

        M v1 = H r + f,   u = H^T v1 + w,      f = M v + dt force,  w of the impact law or gap/dt

    as the scheme of the run (Moreau, MoreauJean, Maury) poses it; of several it poses in a step,
    the first.  A force at the end of the step is that of the solution.
    ``problem.save(path)`` writes it.

    Parameters
    ----------
    sol
        A solution with friction, of Moreau, MoreauJean or Maury.
    record
        The index of the record, -1 for the last.
    """
    if not hasattr(sol, "starting"):
        raise KindError(f"sol={str(sol)[:60]!r}: a solution of carom.solve is wanted")
    count = len(sol.t)
    if not isinstance(record, int | np.integer) or not -count <= record < count:
        raise KindError(f"record={record!r}: a whole number from {-count} to {count - 1} is wanted")
    world, t, q, v = sol.starting(record)
    heard = _Listener(world)
    scheme, dt = sol.scheme, float(sol.dt)
    scheme.step(heard, scheme.start(world, t, q, v, dt), dt)
    if heard.posed is None:
        raise FrictionError(f"record {record}: {scheme} poses no problem in the step after it")
    metric, free, contacts, b, active = heard.posed
    H, w, mu, dim = contacts.frictional(b, active)
    if not len(mu):
        raise FrictionError(f"record {record}, t = {float(t):g}: nothing touches in the step after")
    f = np.asarray(metric.apply(free))
    if f.ndim == 1:
        M = jax.vmap(metric.apply)(np.eye(len(f)))
    else:  # one row a body
        M = sparse.diags(np.broadcast_to(metric.mass, f.shape).ravel())
    return Problem.from_global(M=M, H=H, f=f.ravel(), w=w, mu=mu, dim=dim)


class _Listener:
    """A world that keeps the first problem it is asked to solve."""

    def __init__(self, world):
        self._world, self.posed = world, None

    def __getattr__(self, name):
        return getattr(self._world, name)

    def keep_open(self, metric, t, q, free, dt, memory=None):
        contacts, moved = self._world.keep_open(metric, t, q, free, dt, memory)
        self.posed = self.posed or (metric, free, contacts, contacts.ahead(dt), None)
        return contacts, moved

    def fixed_point(self, phi, guess, **how):
        solved = self._world.fixed_point(phi, guess, **how)  # poses many on the way, or traced ones
        self.posed = None
        phi(solved.value.point)
        return solved

    def project(self, metric, target, contacts, b, active=None):
        self.posed = self.posed or (metric, target, contacts, b, active)
        return self._world.project(metric, target, contacts, b, active)
