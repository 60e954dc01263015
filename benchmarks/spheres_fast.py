"""One fast sphere beside many at rest, and a hopper that runs empty: what a step costs.

    python benchmarks/spheres_fast.py [--only leaving bullet hopper] [--N 8000]

leaving  a pile at rest, and one sphere that flies away from it
bullet   the same, and the sphere flies into the pile; ``blow``: no bullet, and its momentum given
         to the sphere at the top that it would have met
hopper   6000 spheres run out of a hopper and fall for ever

``rows`` and ``pairs`` are those of a step (contacts looked at, and pairs in the list), ``lists``
how many lists were made in the steps measured, ``again`` how many projections a step took beyond
the first, for what was pushed out of reach.  ``CPU`` is in ms a step, the least of three, and
against the pile without the fast one in the same run; counts do not depend on what else a machine
does.  ``visits`` are rows times sweeps: what a bullet adds there are contacts that happen, at
velocities that must be right to 5e-4 m/s, for the tolerance is an overlap; the rest is search.
``moved`` is how many spheres of a hundred change their velocity by more than that in a step: what
no step may leave out.
"""

import argparse
import time

import numpy as np

import carom
from carom.kernels.numba.threads import enough_for
from carom.worlds.spheres.world import World

R, DT, G = 0.01, 2e-3, 9.81
SPEEDS = (0.0, 10.0, 30.0, 100.0, 1000.0, 10_000.0)
REPEATS = 3
FIELDS = ("CPU", "sweeps", "rows", "pushed", "pairs", "lists", "again", "visits", "moved")


class Counted:
    """Steps of a pile, counted."""

    def __init__(self, spheres):
        self.world, self.scheme = World(spheres, DT), carom.Maury()
        self.state = self.scheme.start(self.world, 0.0, spheres.position, spheres.velocity, DT)
        self._project, self.projections, self.visits = self.world._project, 0, 0
        self.world._project = self._counting

    def _counting(self, target, contacts, *given, **more):
        found = self._project(target, contacts, *given, **more)
        self.projections += 1
        self.visits += found.iterations * len(contacts.gap)
        return found

    def run(self, steps):
        """The FIELDS of these steps, each a mean of a step but for ``lists``."""
        self.projections = self.visits = 0
        total, moved, lists = np.zeros(4), 0.0, self.state.memory.rebuilds
        start = time.process_time()
        with enough_for(self.world.N):
            for _ in range(steps):
                v = self.state.v
                self.state, report = self.scheme.step(self.world, self.state, DT)
                change = np.linalg.norm(self.state.v - v, axis=1)
                moved += 100.0 * np.mean(change > self.world._length() / DT)
                if report.status is not carom.Status.ok:
                    raise SystemExit(f"a step ended with {report.status}")
                total += (
                    report.iterations,
                    len(report.contacts.gap),
                    np.count_nonzero(report.impulse[:, 0]),
                    len(self.state.memory.pairs.second),
                )
        cpu = 1e3 * (time.process_time() - start) / steps
        return dict(
            zip(
                FIELDS,
                (
                    cpu,
                    *total / steps,
                    int(self.state.memory.rebuilds - lists),
                    self.projections / steps - 1,
                    self.visits / steps,
                    moved / steps,
                ),
                strict=True,
            )
        )


def show(name, found, without=None):
    ratio = "" if without is None else f"{found['CPU'] / without['CPU']:6.2f}"
    print(
        f"{name:>16} {found['CPU']:8.1f} {ratio:>6} {found['sweeps']:7.1f} {found['rows']:8.0f} "
        f"{found['pushed']:8.0f} {found['pairs']:8.0f} {found['lists']:5d} {found['again']:6.2f} "
        f"{found['visits'] / 1e6:8.2f} {found['moved']:6.1f}",
        flush=True,
    )


def head(title):
    print(f"\n{title}")
    print(
        f"{'':>16} {'CPU':>8} {'ratio':>6} {'sweeps':>7} {'rows':>8} {'pushed':>8} {'pairs':>8} "
        f"{'lists':>5} {'again':>6} {'visits/M':>8} {'moved':>6}"
    )


def box(N, x=None, v=None):
    """N spheres in a box 12 diameters deep, from a lattice or at (x, v)."""
    n = max(2, round((N / 12) ** 0.5))
    if x is None:
        k = np.arange(N)
        x = np.stack([k % n, k // n % n, k // n**2], axis=1) * 2.1 * R + 1.05 * R
        x = x + 0.04 * R * np.random.default_rng(0).uniform(-1, 1, x.shape)
    walls = [carom.spheres.Box((0, 0, 0), (n * 2.1 * R, n * 2.1 * R, np.inf))]
    return carom.Spheres(x, R, v, walls=walls, gravity=(0, 0, -G), tolerance=1e-4)


def at_rest(N):
    poured = Counted(box(N))
    poured.run(400)
    return poured.state.q


def with_one(q, speed, down):
    """One sphere above the pile, on its way up, aslant, or down into it."""
    middle = np.append(0.5 * (np.min(q, axis=0) + np.max(q, axis=0))[:2], np.max(q[:, 2]) + 3 * R)
    way = np.array([0.3, 0.2, -1.0 if down else 1.0])
    v = np.zeros((len(q) + 1, 3))
    v[-1] = speed * way / np.linalg.norm(way)
    return box(len(q), np.vstack([q, middle]), v)


def with_blow(q, speed):
    """No bullet: the sphere of the pile that is nearest to where it starts has its velocity."""
    bullet = with_one(q, speed, down=True)
    v = np.zeros_like(q)
    v[np.argmin(np.linalg.norm(q - bullet.position[-1], axis=1))] = bullet.velocity[-1]
    return box(len(q), q, v)


def fast(title, q, down, steps):
    head(title)
    cases = {"without": box(len(q), q)}
    for speed in SPEEDS:
        cases[f"{speed:g} m/s"] = with_one(q, speed, down)
        if down and speed > 0.0:
            cases[f"{speed:g} m/s, blow"] = with_blow(q, speed)
    found = {}
    for _ in range(REPEATS):  # in turn: counts repeat themselves, of times the least is kept
        for name, pile in cases.items():
            again = Counted(pile).run(steps)
            found[name] = min(found.get(name, again), again, key=lambda one: one["CPU"])
    for name, one in found.items():
        show(name, one, found["without"])


def hopper():
    head("A hopper of 6000 runs empty: 100 steps at a time")
    pile = carom.spheres.hopper(6000, R, opening=0.1, width=0.4, tolerance=1e-4)
    stepper = Counted(pile)
    for _ in range(8):
        found = stepper.run(100)
        fallen = np.count_nonzero(stepper.state.q[:, 2] < -0.05)
        show(f"{fallen} fallen", found)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = ["leaving", "bullet", "hopper"]
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--N", type=int, default=8000)
    options = parser.parse_args()
    Counted(box(100)).run(20)  # compiles
    q = None
    if {"leaving", "bullet"} & {*options.only}:
        q = at_rest(options.N)
    if "leaving" in options.only:
        fast(f"{options.N} at rest, one flies away: 10 steps", q, False, 10)
    if "bullet" in options.only:
        for steps in (10, 100):
            fast(f"{options.N} at rest, one flies into them: {steps} steps", q, True, steps)
    if "hopper" in options.only:
        hopper()


if __name__ == "__main__":
    main()
