"""What trials from outside once found wrong, one small check for each, with public names alone.

    python tests/outside_trials.py                     all of them
    python tests/outside_trials.py events spheres.4    of one part, or one
    PYTHONPATH=../before/src python tests/outside_trials.py      of another state of the code

Each line says whether the check holds, and what it saw.  The tests proper are beside what they
test; these need nothing of the house, so that they run on any state of it.
"""

import gc
import itertools
import re
import resource
import sys
import tempfile
import time
import warnings
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import carom
from carom import errors
from carom.spheres import Cylinder, Panel, Plane, Shell

CHECKS = {}
FINAL, EVERY = carom.Record(final=True), carom.Record(every=1)


def check(name):
    def kept(function):
        CHECKS[name] = function
        return function

    return kept


def near(found, wanted, allowed):
    """Says how far, or fails."""
    off = float(np.max(np.abs(np.asarray(found) - np.asarray(wanted))))
    if not off <= allowed:
        raise AssertionError(f"off by {off:.1e}, allowed {allowed:.0e}")
    return f"off by {off:.1e}, allowed {allowed:.0e}"


def refused(kind, function, words=""):
    try:
        function()
    except kind as error:
        if not re.search(words, str(error)):
            raise AssertionError(f"says {error}") from None
        return f"{type(error).__name__}"
    raise AssertionError("is taken")


class Table(eqx.Module):
    a: jax.Array

    def __call__(self, t, q):
        return q - self.a * jnp.sin(t)


def falling(t, q, v):
    return -jnp.ones(1)


def table(a, e):
    return carom.System(force=falling, gap=Table(jnp.asarray(a, float)), restitution=e)


def events(system, q0, v0, t1, dt, **options):
    return carom.solve(system, carom.EventDriven(**options), q0, v0, t1=t1, dt=dt)


def ring(e=0.0):
    return carom.System(
        force=lambda t, q, v: 0.0 * q, gap=lambda t, q: 1.0 - jnp.linalg.norm(q), restitution=e
    )


def ball(e):
    return carom.System(force=falling, gap=lambda t, q: q, restitution=e)


# ---- event detection, derivatives, certificates -------------------------------------------------


@check("events.1 impacts missed, depending on dt")
def _():
    ends = [events(table(2.5, 0.1), [1.0], [0.0], 40.0, dt).q[-1, 0] for dt in (0.1, 0.4, 3.0)]
    return near(ends, 3.54423155, 1e-7)


@check("events.2 derivatives at ordinary impacts")
def _():
    def end(a, x):
        sol = events(table(a, 0.6), x[:1], x[1:], 4.0, 2.0)
        return jnp.concatenate([sol.q[-1], sol.v[-1]])

    both = jax.jit(jax.jacfwd(lambda x, a: (end(a, x),) * 2, has_aux=True))
    x, h, off = np.array([1.0, 0.0]), 1e-5, []
    for a in (2.0, 0.1):
        columns = [(both(x + h * c, a)[1] - both(x - h * c, a)[1]) / (2 * h) for c in np.eye(2)]
        off.append(np.max(np.abs(both(x, a)[0] - np.stack(columns, axis=-1))))
    return near(off, 0.0, 1e-6)


@check("events.3 a stiff method at a kink")
def _():
    def force(t, q, v):
        return -q - jnp.where(q > 0.5, 100.0 * (q - 0.5), 0.0)

    stop = carom.System(force=force, gap=lambda t, q: q + 5.0)
    sol = events(stop, [0.0], [1.0], 100.0, 1.0, stiff=True)
    energy = 0.5 * (sol.v**2 + sol.q**2) + 50.0 * np.maximum(sol.q - 0.5, 0.0) ** 2
    return near(energy, 0.5, 1e-7)


@check("events.4 certificates: an elastic ball that loses its energy is not accepted")
def _():
    sol = carom.solve(ball(1.0), carom.Maury(), [1.0], [0.0], t1=2800.0, dt=0.05)
    energy = 0.5 * sol.v[-1, 0] ** 2 + sol.q[-1, 0]
    assert carom.certify(sol).ok is not True, f"energy {energy:.1e} of 1 accepted"
    return f"energy {energy:.1e} of 1 not accepted"


@check("events.4 certificates: a bead that leaves its ring is not accepted")
def _():
    sol = carom.solve(ring(), carom.Moreau(), [1.0, 0.0], [0.0, 10.0], t1=10.0, dt=1e-3)
    r = np.linalg.norm(sol.q[-1])
    assert carom.certify(sol).ok is not True, f"radius {r:.2f} accepted"
    return f"radius {r:.2f} not accepted"


@check("events.4 certificates: one step over everything is not accepted")
def _():
    problem = carom.models.bouncing_ball(e=0.8, t1=1.69)
    sol = carom.solve(problem.system, carom.Maury(), problem.q0, problem.v0, t1=1.69, dt=1.69)
    assert carom.certify(sol).ok is not True, "accepted"
    return "not accepted"


@check("events.4 certificates: exact motions at any spacing are accepted")
def _():
    def force(t, q, v):
        return 0.0 * q

    walls = carom.System(
        force=force,
        gap=lambda t, q: jnp.concatenate([q - 0.1 * jnp.sin(t), 1.0 - q]),
        restitution=1.0,
    )
    words = [str(carom.certify(events(walls, [0.5], [1.0], 20.0, dt)).ok) for dt in (1.0, 0.1)]
    assert words == ["True", "True"], words
    return "accepted at 1 and 0.1"


@check("events.5 Penalty starts with the velocity that is given")
def _():
    free = carom.System(force=lambda t, q, v: 0.0 * q, gap=lambda t, q: q, restitution=0.5)
    sol = carom.solve(free, carom.Penalty(lam=1e-6), [0.0], [-1.0], t1=2e-3, dt=1e-4)
    assert np.min(sol.q) < -1e-4, "the wall is not entered"
    return near(sol.v[0, 0], -1.0, 0.0)


@check("events.6 Moreau's drift can be corrected")
def _():
    scheme = carom.Moreau(correct=True)
    sol = carom.solve(ring(), scheme, [1.0, 0.0], [0.0, 10.0], t1=1.0, dt=1e-3)
    return near(np.linalg.norm(sol.q, axis=1), 1.0, 1e-10)


@check("events.7 a square wave far out")
def _():
    def force(t, q, v):
        return -1.0 - q + jnp.where(jnp.sin(1.3 * t) > 0.0, 2.0, -2.0)

    system = carom.System(force=force, gap=lambda t, q: q + 1.0, restitution=0.8)
    one, other = (events(system, [0.0], [0.0], 600.0, dt).q[-1] for dt in (1.0, 10.0))
    return near(one, other, 1e-7)


@check("events.7 opposite gaps")
def _():
    guide = carom.System(
        force=lambda t, q, v: jnp.stack([jnp.sin(t), 1.0]),
        gap=lambda t, q: jnp.stack([q[0], -q[0]]),
        restitution=0.5,
    )
    return near(events(guide, [0.0, 0.0], [0.0, 0.0], 10.0, 1.0).q[-1], [0.0, 50.0], 1e-8)


@check("events.7 a gap three times, at rest")
def _():
    floor = carom.System(
        force=falling, gap=lambda t, q: jnp.concatenate([q, q, 2 * q]), restitution=0.5
    )
    return near(events(floor, [0.0], [0.0], 10.0, 1.0).q[-1], 0.0, 1e-12)


@check("events.8 PaoliSchatzman on the hopping leg")
def _():
    def mass(q):
        side = 0.5 * jnp.sin(q[1])
        return jnp.array([[3.5, side], [side, 0.5]])

    leg = carom.Lagrangian(
        mass=mass,
        potential=lambda q: 3.5 * 9.81 * q[0] + 10.0 * (q[1] - 0.6) ** 2,
        gap=lambda t, q: q[0] - jnp.cos(q[1]),
        force=lambda t, q, v: jnp.array([0.0, 2.0 * jnp.sin(6.0 * t) - 0.2 * v[1]]),
        restitution=0.0,
    )
    for dt in (1e-3, 1e-4, 5e-5, 2e-5, 1e-5):
        carom.solve(
            leg, carom.PaoliSchatzman(), [1.2, 0.5], [0.0, 0.0], t1=0.8, dt=dt, record=FINAL
        )
    return "no step stops"


@check("events.9 every impact in the table")
def _():
    counts = [
        np.sum(events(ball(0.9), [1.0], [0.0], 40.0, dt).impacts.impulse > 1e-5) for dt in (0.1, 40)
    ]
    assert counts[0] == counts[1] > 100, counts
    return f"{counts[0]} and {counts[1]}"


@check("events.9 states between records")
def _():
    sol = events(ball(0.9), [1.0], [0.0], 4.0, 4.0)
    return near(sol.at(1.0)[0], 0.5, 1e-10)


@check("events.10 a run goes on from its own end")
def _():
    run = {"dt": 1e-2}
    whole = carom.solve(ball(0.5), carom.Moreau(), [1.0], [0.0], t1=4.0, **run)
    half = carom.solve(ball(0.5), carom.Moreau(), [1.0], [0.0], t1=2.0, **run)
    again = carom.solve(ball(0.5), carom.Moreau(), half.q[-1], half.v[-1], t1=0.1, **run)
    assert again.ok
    sol = carom.solve(ball(0.5), carom.Moreau(), start=half, t1=4.0, **run)
    return near(sol.q[-1], whole.q[-1], 0.0)


@check("events.11 an open gap without a gradient")
def _():
    for scheme in (carom.Moreau(), carom.Maury()):
        assert carom.solve(ring(1.0), scheme, [0.0, 0.0], [1.0, 0.0], t1=4.0, dt=1 / 64).ok
    return "no run stops"


@check("events.11 restitution that is no number")
def _():
    refused(errors.RestitutionError, lambda: ball("0.5"))
    constant, number = (
        events(ball(e), [1.0], [0.0], 2.0, 2.0).q[-1] for e in (lambda w: 0.5 + 0.0 * w, 0.5)
    )
    return near(constant, number, 1e-12)


@check("events.12 64 members cost what they cost one by one")
def _():
    def end(e):
        return events(table(0.0, e), [1.0], [0.0], 30.0, 30.0).q[-1]

    es = np.linspace(0.1, 0.9, 64)
    one, batch = jax.jit(end), jax.jit(jax.vmap(end))
    jax.block_until_ready((one(es[0]), batch(es)))

    def cost(function):
        start = time.process_time()
        jax.block_until_ready(function())
        return time.process_time() - start

    ratio = min(cost(lambda: batch(es)) / cost(lambda: [one(e) for e in es]) for _ in range(3))
    assert ratio < 2.0, f"{ratio:.1f} times"
    return f"{ratio:.2f} times"


@check("events.13 a System of closures is let go of")
def _():
    def used(k):
        system = carom.System(force=lambda t, q, v: -1.0 - k * q, gap=lambda t, q: q - 0.01 * k)
        carom.solve(system, carom.Moreau(), [1.0], [0.0], t1=0.1, dt=0.01)

    def size():
        gc.collect()
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6

    for k in range(4):
        used(k)
    before = size()
    for k in range(4, 16):
        used(k)
    each = (size() - before) / 12
    assert each < 1.0, f"{each:.1f} MB each"
    return f"{each:.2f} MB each"


@check("events.14 a scheme that is implicit in q")
def _():
    spring = carom.System(force=lambda t, q, v: -1e8 * q, gap=lambda t, q: q + 10.0)
    sol = carom.solve(spring, carom.MoreauJean(theta=0.5), [1.0], [0.0], t1=1.0, dt=1e-3)
    return near(0.5 * sol.v**2 + 0.5e8 * sol.q**2, 0.5e8, 1.0)


# ---- spheres ------------------------------------------------------------------------------------


@check("spheres.1 six touching balls at dt = 1e-5")
def _():
    x, v = np.zeros((6, 3)), np.zeros((6, 3))
    x[:, 0], v[0, 0] = np.arange(6.0), 1.0
    x[0, 0] = -5e-4
    sol = carom.solve(carom.Spheres(x, 0.5, v), carom.Maury(), t1=6e-4, dt=1e-5, record=FINAL)
    return near(sol.v[-1, :, 0], 1 / 6, 1e-4)


@check("spheres.1 a column of ten at rest at dt = 1e-5")
def _():
    pile = carom.spheres.column(10, 0.5)
    sol = carom.solve(pile, carom.Maury(), t1=6e-4, dt=1e-5, record=EVERY)
    return near(np.mean(-sol.wall_force()[1:, 0, 2]), 98.1, 0.05)


@check("spheres.1 an elastic bounce of PaoliSchatzman at dt = 1e-6")
def _():
    floor = [Plane((0, 0), (0, 1))]
    pile = carom.Spheres([[0.0, 0.5 + 20.3e-6]], 0.5, [[0.3, -1.0]], walls=floor, restitution=1.0)
    sol = carom.solve(pile, carom.PaoliSchatzman(), t1=6e-5, dt=1e-6, record=FINAL)
    return near(sol.v[-1], [[0.3, 1.0]], 1e-3)


@check("spheres.2 nearly opposite rows, on this processor")
def _():
    rng = np.random.default_rng(2)
    base = rng.normal(size=(2000, 1, 10))
    rows = base + 1e-7 * rng.normal(size=(2000, 10, 10))
    rows = rows * rng.choice([-1.0, 1.0], (2000, 10, 1))
    found = jax.jit(jax.vmap(lambda t, G: carom.project(t, G, jnp.zeros(10))))(
        rng.normal(size=(2000, 10)), rows
    )
    lost = int(np.sum(np.asarray(found.status._value) != 0))
    assert lost == 0, f"{lost} of 2000 not solved"
    return "2000 of 2000 solved"


@check("spheres.3 Moreau in a cylinder can be corrected")
def _():
    wall = Cylinder((0, 0, 0), (0, 0, 1), 1.0)
    pile = carom.Spheres([[0.9, 0.0, 0.0]], 0.1, [[0.0, 1.0, 0.0]], walls=[wall])
    sol = carom.solve(pile, carom.Moreau(correct=True), t1=10.0, dt=1e-2, record=FINAL)
    return near(np.linalg.norm(sol.x[-1, 0, :2]), 0.9, 1e-6)


@check("spheres.4 a panel where space repeats")
def _():
    panel = Panel((5.0, -1.0), (0.0, 2.0))
    pile = carom.Spheres([[7.0, 0.0]], 0.5, [[1.0, 0.0]], periodic=(10, None), walls=[panel])
    sol = carom.solve(pile, carom.Maury(), t1=9.0, dt=1e-2)
    return near(np.max(sol.x[..., 0]), 14.5, 0.011)


@check("spheres.4 sixty panels are one plane")
def _():
    edges = np.linspace(0.0, 6.0, 61)
    panels = [Panel((a, 0.0), (b - a, 0.0)) for a, b in itertools.pairwise(edges)]
    pile = carom.Spheres([[0.25, 0.1]], 0.1, [[1.0, 0.0]], walls=panels, gravity=(0.0, -9.81))
    return near(carom.solve(pile, carom.Maury(), t1=4.0, dt=2e-3).v[:, 0, 0], 1.0, 1e-6)


@check("spheres.5 touching whatever the rounding")
def _():
    found = []
    for x0 in (0.0, 0.3):
        x, v = np.zeros((5, 2)), np.zeros((5, 2))
        x[:, 0], v[0, 0] = x0 + 0.2 * np.arange(5.0), 1.0
        pile = carom.Spheres(x, 0.1, v, restitution=1.0)
        found.append(carom.solve(pile, carom.Maury(), t1=1e-4, dt=1e-4, record=EVERY).v[0, :, 0])
    return near(found, [[-0.6, 0.4, 0.4, 0.4, 0.4]] * 2, 1e-4)


@check("spheres.6 a radius is asked for within the run")
def _():
    asked = []

    def radius(t):
        asked.append(t)
        return 1.0 * t

    pile = carom.Spheres([[0, 0, 3.0], [5.0, 0, 3.0]], radius)
    carom.solve(pile, carom.Maury(), t0=1.0, t1=1.9, dt=0.01)
    assert min(asked) >= 1.0, asked
    assert max(asked) <= 1.9, asked
    return f"from {min(asked)} to {max(asked)}"


@check("spheres.7 a pulse within a step of Maury")
def _():
    def force(t, q, v):
        return jnp.where((t > 0.0123) & (t < 0.0133), 1e3, 0.0) + 0.0 * q

    free = carom.System(force=force, gap=lambda t, q: q + 9.0)
    sol = carom.solve(free, carom.Maury(points="adaptive"), [0.0], [0.0], t1=0.1, dt=1e-2)
    return near(sol.v[-1], 1.0, 1e-6)


@check("spheres.8 one fast sphere does not slow the others")
def _():
    base = carom.spheres.lattice((12, 12, 12), 0.5, spacing=1.05)
    x = np.vstack([base.position, [[6.0, 6.0, 14.0]]])

    def cost(speed):
        v = np.zeros_like(x)
        v[-1, 2] = speed
        start = time.process_time()
        carom.solve(carom.Spheres(x, 0.5, v), carom.Maury(), t1=0.04, dt=2e-3, record=FINAL)
        return time.process_time() - start

    cost(0.0)
    ratio = min(cost(1000.0) / cost(0.0) for _ in range(3))
    assert ratio < 1.5, f"{ratio:.1f} times"
    return f"{ratio:.2f} times"


@check("spheres.8 random spheres of broad sizes at low density")
def _():
    for ratio, fraction in ((10, 0.1), (5, 0.3)):
        r = np.where(np.arange(200) < 5, 1.0, 1.0 / ratio)
        carom.spheres.random(200, fraction, radius=r)
    return "placed"


@check("spheres.9 a file that is there is not written over")
def _():
    pile = carom.Spheres([[0.0, 0.0]], 0.5, [[1.0, 0.0]])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.vtkhdf"
        path.write_text("mine")

        def again():
            carom.solve(pile, carom.Maury(), t1=0.1, dt=0.01, record=carom.Record(path))

        word = refused(carom.CaromError, again)
        assert path.read_text() == "mine"
    return word


@check("spheres.10 a failure on the way keeps what there is")
def _():
    pile = carom.Spheres([[0.0, 0.0]], lambda t: 0.5 + t, periodic=(3, 3))
    sol = carom.solve(pile, carom.Maury(), t1=1.0, dt=0.01, throw=False)
    assert len(sol) > 10
    return f"{len(sol)} records"


@check("spheres.11 input that makes no sense has a name")
def _():
    x = [[0.0, 0.0], [5.0, 0.0]]
    for options in (
        {"gravity": -9.81},
        {"walls": [Shell((0, 0), np.nan)]},
        {"walls": [Shell((0, 0), -1.0)]},
        {"restitution": [0.5, 0.5]},
    ):
        try:
            refused(carom.CaromError, lambda options=options: carom.Spheres(x, 1.0, **options))
        except AssertionError as error:
            raise AssertionError(f"{options} {error}") from None
    return "four refused"


@check("spheres.11 a force looks and does not touch")
def _():
    def pushing(t, x, v):
        x += 1.0
        return 0.0 * x

    pile = carom.Spheres([[0.0, 0.0]], 0.5, force=pushing)
    return refused(carom.CaromError, lambda: carom.solve(pile, carom.Maury(), t1=1.0, dt=0.1))


@check("spheres.11 a last state is a start")
def _():
    run = {"walls": [Plane((0, 0), (0, 1))], "gravity": (0, -9.81)}
    x, v = [[0.0, 0.3], [0.05, 0.55]], [[0.2, 0.0], [0.0, 0.0]]
    for scheme in (carom.Moreau(), carom.PaoliSchatzman()):
        for t1 in (0.23, 0.3, 1.0):
            sol = carom.solve(carom.Spheres(x, 0.1, v, **run), scheme, t1=t1, dt=0.01)
            again = carom.Spheres(sol.x[-1], 0.1, sol.v[-1], **run)
            assert carom.solve(again, scheme, t1=0.1, dt=0.01).ok
    return "six ends taken"


@check("spheres.12 relax says what is left")
def _():
    pile = carom.Spheres([[0.0, 0.0], [0.0, 0.0]], 1.0)
    return refused(
        errors.ConvergenceError, lambda: carom.spheres.relax(pile, largest=9.0), r"2\.00e\+00"
    )


def main(*chosen):
    warnings.simplefilter("ignore")
    failed = 0
    for name, function in CHECKS.items():
        if chosen and not any(name.startswith(part) for part in chosen):
            continue
        try:
            holds, words = "holds", function()
        except Exception as error:  # of any kind: another state of the code may not know a name
            holds, words = "FAILS", f"{type(error).__name__}: {error}".partition("\n")[0]
        failed += holds == "FAILS"
        print(f"{holds}  {name:80} {words[:150]}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(min(main(*sys.argv[1:]), 1))
