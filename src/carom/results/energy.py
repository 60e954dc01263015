"""Where the energy of a motion comes from and goes to.

    T - T0 = work of the force, moving gaps, friction - loss at impacts + error of the scheme  (1)

    force         sum over the steps of f . Dq + 1/4 (v_a DM v_a + v_b DM v_b), f of both ends
    moving gaps   - sum of lam d_t g
    friction      sum of r . u, u what slides, at the mean of both ends; joints likewise
    loss          - sum over the impacts of lam (w- + w+) / 2, w the relative normal velocity

With a potential U(q) the energy is T + U, and the work that of all other forces.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from carom.certificates.measured import beside, in_chunks
from carom.errors import RecordError
from carom.programs import compiled


@dataclass(frozen=True)
class Budget:
    """The terms of (1) at the records, summed from the first on; None where they are not known."""

    t: np.ndarray  # (n,)
    kinetic: np.ndarray  # (n,)
    potential: np.ndarray | None = None  # (n,)
    work: np.ndarray | None = None  # (n,) of the forces that have no potential
    moving: np.ndarray | None = None  # (n,) of gaps that move
    loss: np.ndarray | None = None  # (n,) at impacts
    friction: np.ndarray | None = None  # (n,) work of friction and joints
    measured: bool = True  # False: walls yield, and the loss is what (1) lacks

    @property
    def total(self) -> np.ndarray:
        """(n,) kinetic, and potential where it is known."""
        return self.kinetic if self.potential is None else self.kinetic + self.potential

    @property
    def error(self) -> np.ndarray | None:
        """(n,) of the scheme: what (1) lacks."""
        if self.work is None or self.moving is None or self.loss is None:
            return None
        rubbed = 0.0 if self.friction is None else self.friction
        return self.total - self.total[0] - self.work - self.moving - rubbed + self.loss


def energy_budget(sol, system=None) -> Budget:
    """The budget of a Solution; kinetic and potential alone where not every step was recorded."""
    sol._need_single("energy_budget")
    system = sol.system if system is None else system
    if system is None:
        raise RecordError(
            "this solution carries no system (functions are lost by vmap, jit and load), and its "
            "energy needs the mass: give system="
        )
    t, q, v = (np.asarray(x) for x in (sol.t, sol.q, sol.v))
    at = in_chunks(_at_records, system, (t, q, v))
    potential = None if system.potential is None else at.potential
    if sol.velocity_before is None or len(t) < 2:
        return Budget(t, at.kinetic, potential)
    over = in_chunks(_over_steps, system, (t[:-1], t[1:], q[:-1], q[1:], v[:-1], v[1:]))
    work = _summed(over.work + over.inertia)
    work = work if potential is None else work + potential - potential[0]
    rate = (at.rate[1:] + at.rate[:-1]) / 2
    moving = _summed(-np.sum(np.asarray(sol.impulse)[1:] * rate, axis=1))
    rubbed = _rubbed(sol, at.beside)
    if sol._has_impacts():
        return Budget(t, at.kinetic, potential, work, moving, _loss(sol, t), rubbed)
    known = Budget(t, at.kinetic, potential).total
    lost = work + moving - known + known[0] + (0.0 if rubbed is None else rubbed)
    return Budget(t, at.kinetic, potential, work, moving, lost, rubbed, False)


def _rubbed(sol, u):
    """The work of friction and joints; None without."""
    if not u.shape[1]:
        return None
    given = [x for x in (sol.friction, sol.joint_impulse) if x is not None]
    impulse = np.concatenate([np.reshape(x, (len(u), -1)) for x in given], axis=1)
    return _summed(np.sum(impulse[1:] * (u[1:] + u[:-1]) / 2, axis=1))


def _loss(sol, t):
    """Of the impacts up to each record; one at t0 is before the first."""
    table = sol.impacts[sol.impacts.step > 0]
    each = -0.5 * table.impulse * (table.velocity_before + table.velocity_after)
    count = np.searchsorted(table.time, t + 1e-9 * float(sol.dt), side="right")
    return _summed(each)[count]


def _summed(x):
    return np.concatenate([[0.0], np.cumsum(x)])


class _At(NamedTuple):
    kinetic: Any
    potential: Any
    rate: Any  # (p,) d_t g
    beside: Any  # (r,) velocities along friction and joints


class _Over(NamedTuple):
    work: Any  # f . Dq
    inertia: Any  # 1/4 (v_a DM v_a + v_b DM v_b)


@compiled
def _at_records(system, arrays):
    def at(t, q, v):
        kinetic = system.metric(q).energy(v)
        along = beside(system, t, q).rows @ v
        return _At(kinetic, system.energy(q, v) - kinetic, system.normals(t, q).rate, along)

    return jax.vmap(at)(*arrays)


@compiled
def _over_steps(system, arrays):
    def over(ta, tb, qa, qb, va, vb):
        force = (system.forces(ta, qa, va) + system.forces(tb, qb, vb)) / 2
        Ma, Mb = system.metric(qa), system.metric(qb)
        inertia = sum(jnp.sum(v * (Mb.apply(v) - Ma.apply(v))) for v in (va, vb)) / 4
        return _Over(jnp.sum(force * (qb - qa)), inertia)

    return jax.vmap(over)(*arrays)
