"""Faults planted in solutions, for a certificate to find.

``python tests/planted.py`` prints the table of them in docs/certificate.md.
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import carom
from carom import models
from carom.certificates.certify import certify_arrays
from certified import SCHEMES

STEPS = 3001
PLANTED = {
    "ball": models.bouncing_ball(e=0.8, t1=3.0),
    "disc": models.disc(e=0.8, t1=6.0),
    "line polar": models.line_polar(e=0.8),
}
PAIRS = [
    ("ball", "Moreau"),
    ("ball", "PaoliSchatzman"),
    ("disc", "Maury"),
    ("line polar", "Moreau"),
    ("ball", "Penalty"),
    ("disc", "Penalty"),
]
PLANTED_IN = {**SCHEMES, "Penalty": carom.Penalty(duration=1e-3)}


@dataclass(frozen=True)
class Planted:
    """A problem, a scheme, and motions that another system or a kick moves for a while."""

    problem: models.Problem
    scheme: object

    @property
    def system(self):
        return self.problem.system

    def certificate(self, motion):
        if not isinstance(self.scheme, carom.Penalty):
            return certify_arrays(self.system, *motion)
        options = {"resolution": float(self.scheme.duration), "tolerance": self.scheme.rtol}
        return certify_arrays(self.system, *motion, **options)

    @property
    def dt(self):
        return self.problem.t1 / STEPS

    def motion(self, *cuts):
        """t, q, v, impulse.  A cut is (step, system from there on, what to do to its record)."""
        k, system, q, v = 0, self.system, self.problem.q0, self.problem.v0
        parts = []
        for end, then, edit in (*cuts, (STEPS, None, None)):
            sol = self._piece(system, q, v, k, end)
            rows = [np.array(x)[1 if k else 0 :] for x in (sol.q, sol.v, sol.impulse)]
            if edit is not None:
                edit(end * self.dt, *rows)
            parts.append(rows)
            k, system, q, v = end, then, rows[0][-1], rows[1][-1]
        return np.arange(STEPS + 1) * self.dt, *map(np.concatenate, zip(*parts, strict=True))

    def _piece(self, system, q, v, start, end):
        t = start * self.dt
        if start and isinstance(self.scheme, carom.PaoliSchatzman):  # its v is half a step ahead
            v = v - self.dt / 2 * np.asarray(system.acceleration(t, jnp.asarray(q), jnp.asarray(v)))
        return carom.solve(system, self.scheme, q, v, t0=t, t1=end * self.dt, dt=self.dt)

    def around_impact(self):
        """Steps in free flight before and after the first impact."""
        hits = [0.0, *self.problem.impact_times, self.problem.t1]
        first = 0 if hits[1] > 0.0 else 1
        middle = [(hits[k] + hits[k + 1]) / 2 for k in (first, first + 1)]
        return [int(t / self.dt) for t in middle]

    def approach(self):
        """Normal speed of the first impact."""
        hit = self.problem.impact_times[self.problem.impact_times > 0.0][0]
        q, v = self.problem.exact(np.array([hit * (1 - 1e-9)]))
        return -float(self.system.normals(hit, jnp.asarray(q[0])).velocity(v[0])[0])

    def replaced(self, system):
        """Another system around the first impact."""
        before, after = self.around_impact()
        return self.motion((before, system, None), (after, self.system, None))

    def first_push(self):
        motion = self.motion()
        return int(np.argmax(motion[3][:, 0] > 0.0)), [np.array(x) for x in motion]


class Receded(eqx.Module):
    """A gap that is larger than it should be."""

    gap: object = eqx.field(static=True)
    by: jax.Array

    def __call__(self, t, q):
        return self.gap(t, q) + self.by


class Pumped(eqx.Module):
    """A force that also gains energy."""

    force: object = eqx.field(static=True)
    rate: jax.Array

    def __call__(self, t, q, v):
        return self.force(t, q, v) + self.rate * v


def wrong_restitution(at, size):
    """One impact with e (1 + size)."""
    e = at.system.restitution * (1 + size)
    return at.replaced(eqx.tree_at(lambda s: s.restitution, at.system, e))


def penetration(at, size):
    """One impact size dt |w-| behind the wall."""
    gap = Receded(at.system.gap, jnp.asarray(size * at.dt * at.approach()))
    return at.replaced(eqx.tree_at(lambda s: s.gap, at.system, gap))


def too_early(at, size):
    """One impact as far before the wall."""
    return penetration(at, -size)


def push_in_flight(at, size):
    """An impulse, and the change of velocity it makes, where no gap is closed."""

    def push(t, q, v, impulse):
        q, metric = jnp.asarray(q[-1]), at.system.metric(jnp.asarray(q[-1]))
        row = at.system.normals(t, q).rows[0]
        kick = metric.solve(row)
        lam = size * jnp.sqrt(2 * metric.energy(jnp.asarray(v[-1])) / (row @ kick))
        v[-1] += np.asarray(lam * kick)
        impulse[-1, 0] += float(lam)

    return at.motion((at.around_impact()[0], at.system, push))


def energy_from_nowhere(at, size):
    """The velocity grows by a factor 1 + size in one step of free flight."""

    def faster(t, q, v, impulse):
        v[-1] *= 1 + size

    return at.motion((at.around_impact()[0], at.system, faster))


def negative_damping(at, size):
    """A force size v that is not in the system, all the time."""
    pumped = eqx.tree_at(
        lambda s: s.force, at.system, Pumped(at.system.force, jnp.asarray(float(size)))
    )
    return at.motion((1, pumped, None))


def skipped_step(at, size):
    """``size`` steps in free flight are missing, and the clock does not know."""
    k, motion = at.around_impact()[0], at.motion()
    t, *rest = motion
    return t[:-size], *(np.delete(x, range(k, k + size), axis=0) for x in rest)


def skipped_contact(at, size):
    """The step of the first impact is missing."""
    k, (t, *rest) = at.first_push()
    return t[:-size], *(np.delete(x, range(k, k + size), axis=0) for x in rest)


def wrong_sign(at, size):
    """The impulse of the first contact is turned round, and ``size`` times as large."""
    k, (t, q, v, impulse) = at.first_push()
    end = k + int(np.argmin(np.any(impulse[k:] != 0.0, axis=1)))
    impulse[k:end] *= -size
    return t, q, v, impulse


# Fault, sizes from coarse to fine of which the first must be found, and a clause that must find it.
FAULTS = {
    wrong_restitution: ([0.05, 0.03, 0.02, 0.01], "impact law"),
    penetration: ([20, 10, 5, 4, 3, 2], "feasibility"),
    too_early: ([20, 10, 5, 4, 3, 2], "complementarity"),
    push_in_flight: ([0.01, 1e-3, 1e-4, 1e-5], "complementarity"),
    energy_from_nowhere: ([0.01, 1e-3, 1e-4, 1e-5, 1e-6], "momentum"),
    negative_damping: ([0.02, 0.01, 1e-3, 1e-4], "momentum"),
    skipped_step: ([1], "kinematics"),
    skipped_contact: ([1], "momentum"),
    wrong_sign: ([1, 1e-3, 1e-6], "sign"),
}


def fault_table():
    """Smallest size of each fault that is found, of those tried."""
    print("\n| fault |", " | ".join(f"{p}, {s}" for p, s in PAIRS), "| sizes tried |")
    print("|---|" + "---|" * (len(PAIRS) + 1))
    for fault, (sizes, _) in FAULTS.items():
        cells = []
        for title, scheme in PAIRS:
            at = Planted(PLANTED[title], PLANTED_IN[scheme])
            found = [s for s in sizes if at.certificate(fault(at, s)).ok is False]
            cells.append(f"{found[-1]:g}" if found else "none")
        name = fault.__name__.replace("_", " ")
        print(f"| {name} |", " | ".join(cells), "|", ", ".join(f"{s:g}" for s in sizes), "|")


if __name__ == "__main__":
    fault_table()
