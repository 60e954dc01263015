"""Certificates: what must be accepted, and faults planted to be found.

``python tests/test_certify.py`` prints the two tables of docs/certificate.md.
"""

import math
from dataclasses import dataclass
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
import pytest

import carom
from carom import errors, models
from carom.certify import certify, certify_arrays
from carom.models.uniqueness import bumps, primitives

mpl.use("Agg")

SCHEMES = {
    "Moreau": carom.Moreau(),
    "Maury": carom.Maury(),
    "PaoliSchatzman": carom.PaoliSchatzman(),
}

# Every model, several with other parameters: accumulation, rest, sliding, M(q), moving gap, many
# gaps, e = 0 and e = 1.
ACCEPTED = {
    "ball": lambda: models.bouncing_ball(e=0.5),
    "ball e=0": lambda: models.bouncing_ball(e=0.0),
    "stopped oscillator": models.stopped_oscillator,
    "impact oscillator": models.impact_oscillator,
    "resonance": lambda: models.resonance(e=1.0),
    "disc": lambda: models.disc(e=0.5),
    "disc e=0": lambda: models.disc(e=0.0, position=(0.2, 0.1), radius=2.0),
    "disc polar": lambda: models.disc_polar(e=0.5),
    "outside disc": lambda: models.outside_disc(e=1.0),
    "wedge": models.wedge,
    "lift-off": models.lift_off,
    "line polar": models.line_polar,
    "table": lambda: models.vibrating_table(e=0.5),
    "table e=0": lambda: models.vibrating_table(e=0.0),
    "row": models.row_of_balls,
    "row with gaps": lambda: models.row_of_balls(spacing=0.3),
    "stack": models.stack,
    "stack dropped": lambda: models.stack(height=0.5, count=3),
    "wall": models.wall,
    "impact pair": models.impact_pair,
    "rocking block": models.rocking_block,
    "cradle": models.newtons_cradle,
    "cradle with gaps": lambda: models.newtons_cradle(spacing=0.1, e=0.8),
    "cam": models.cam_and_follower,
    "cam e=0.5": lambda: models.cam_and_follower(e=0.5, preload=2.0),
    "cantilever": models.cantilever,
    "double pendulum": models.double_pendulum,
}
# Models that need shorter steps than those used here: the bar for its frequencies (test_bar.py),
# nonunique for the bumps of its force, whose motions are certified on a grid of their own below.
SHORT_STEPS = {"elastic_bar", "nonunique"}
SCENES = {"granular_gas", "settling_spheres"}  # spheres: test_spheres.py


def schemes_for(problem):
    """Every scheme.  Contacts with a yielding wall last 1 / 500 of the run: at the numbers of steps
    below they fall between two records, are as long as a step, and take many."""
    lasting = (problem.t1 - problem.t0) / 500
    return {
        **SCHEMES,
        "EventDriven": carom.EventDriven(),
        "Penalty": carom.Penalty(duration=lasting),
        "Penalty, fixed steps": carom.Penalty(duration=lasting, substeps=1),
    }


def solved(problem, scheme, steps, **options):
    dt = (problem.t1 - problem.t0) / steps
    return carom.solve(
        problem.system, scheme, problem.q0, problem.v0, t0=problem.t0, t1=problem.t1, dt=dt,
        **options,
    )  # fmt: skip


def failed(certificate):
    return [clause.name for clause in certificate.clauses if not clause.ok]


# ---- what must be accepted ----------------------------------------------------------------------


def test_every_model_is_in_the_table():
    assert {make().name for make in ACCEPTED.values()} == set(
        models.catalogue()
    ) - SHORT_STEPS - SCENES


def accept(problem, names, all_steps, refused=()):
    for name in names:
        for steps in all_steps:
            sol = solved(problem, schemes_for(problem)[name], steps)
            certificate = certify(sol, q0=problem.q0, v0=problem.v0)
            right = certificate.ok != ((name, steps) in refused)
            assert right, f"{name}, {steps} steps\n{certificate}"


# Known limits of fixed penalty steps (docs/schemes.md), and the certificate says so: several gaps
# at once, in steps of some sqrt(lam), do not follow the law; at rest against a wall that turns the
# motion within one step, the force and the push of that step do not quite balance.
REFUSED = {
    "stack dropped": [("Penalty, fixed steps", 1009)],
    "cradle": [("Penalty, fixed steps", 1009), ("Penalty, fixed steps", 8009)],
    "rocking block": [("Penalty, fixed steps", 307)],
}


MOVED = [name for name in models.catalogue() if name not in SHORT_STEPS | SCENES]
ONE_EACH = [(m, list(SCHEMES)[k % 3]) for k, m in enumerate(MOVED)]
OTHERS = [
    ("bouncing_ball", "EventDriven"),
    ("bouncing_ball", "Penalty"),
    ("disc", "EventDriven"),
    ("disc", "Penalty, fixed steps"),
    ("vibrating_table", "Penalty, fixed steps"),
]


@pytest.mark.parametrize(("model", "scheme"), ONE_EACH + OTHERS)
def test_a_solution_of_every_model_is_accepted(model, scheme):
    accept(getattr(models, model)(), [scheme], (307, 1009))


@pytest.mark.slow
@pytest.mark.parametrize("title", ACCEPTED)
def test_every_scheme_on_every_model_is_accepted(title):
    problem = ACCEPTED[title]()
    accept(problem, schemes_for(problem), (307, 1009, 8009), REFUSED.get(title, ()))


@pytest.mark.slow
@pytest.mark.parametrize("title", sorted(SHORT_STEPS))
def test_models_that_need_short_steps_are_accepted(title):
    """Known limit: a yielding wall under the bumps of nonunique is refused."""
    problem = models.elastic_bar(elements=20) if title == "elastic_bar" else models.nonunique()
    schemes = schemes_for(problem)
    names = [*SCHEMES, "EventDriven", *(["Penalty"] if title == "elastic_bar" else [])]
    for name in names:
        certificate = certify(
            solved(problem, schemes[name], 1249 if title == "elastic_bar" else 40009)
        )
        assert certificate.ok, f"{name}\n{certificate}"


def test_what_a_scheme_says_of_itself_is_used():
    """The tolerance of an integrator, the duration of a contact; a file or vmap forgets them."""
    problem = models.bouncing_ball(e=0.5, t1=1.0)
    loose = solved(problem, carom.EventDriven(rtol=1e-5, atol=1e-7), 211)
    assert certify(loose).ok
    wall = carom.Penalty(duration=1e-2, substeps=1)
    sol = solved(problem, wall, 1009)
    certificate = certify(sol)
    assert certificate.ok
    assert certificate["feasibility"].value > 0.0  # inside a contact, where no record is kept
    assert certify_arrays(problem.system, sol.t, sol.q, sol.v, sol.impulse).ok is False
    assert certify_arrays(problem.system, sol.t, sol.q, sol.v, sol.impulse, resolution=1e-2).ok

    def one(duration):
        scheme = carom.Penalty(duration=duration, substeps=1)
        return solved(problem, scheme, 1009)

    batch = jax.vmap(one)(jnp.array([1e-2, 2e-2]))
    with pytest.raises(errors.RecordError, match="resolution=duration"):
        certify(batch[0], problem.system)
    assert certify(batch[0], problem.system, resolution=1e-2).ok


def test_sparse_records_of_a_yielding_wall():
    problem = models.bouncing_ball(e=0.5, t1=1.0)
    wall = carom.Penalty(duration=1e-2, substeps=1)
    sol = solved(problem, wall, 2003, record=carom.Record(every=3))
    certificate = certify(sol)
    assert certificate["sign"].ok, certificate
    assert certificate["feasibility"].ok, certificate
    assert np.min(sol.impulse) < 0.0  # it does pull
    turned = certify(eqx.tree_at(lambda s: s.impulse, sol, -sol.impulse))
    assert turned["sign"].ok is False


def test_both_solutions_of_a_problem_without_uniqueness():
    """P13: at rest under a force that only presses, or bouncing since ever."""
    bouncing, b = models.nonunique(bouncing=True), bumps(0.5)
    system = bouncing.system
    inside = np.linspace(-1.0, 1.0, 60)
    t = np.concatenate([[0.0], *(c + w * inside for c, w in zip(b.centre, b.width, strict=True))])
    flights = np.stack([b.start, b.centre - b.width], axis=-1)
    t = np.unique(np.concatenate([t, *(np.linspace(*flight, 40) for flight in flights)]))
    t = t[(t < 0.97) & (np.diff(t, append=1.0) > 1e-14)]
    q, v = (x[:, 0] for x in bouncing.exact(t))
    impulse = np.zeros_like(t)
    for time in bouncing.impact_times[:-1]:  # the speed V_n / e turns into V_n
        impulse[np.searchsorted(t, time)] += bouncing.exact(time)[1][0] * (1.0 + 1.0 / 0.5)
    certificate = certify_arrays(system, t, q[:, None], v[:, None], impulse[:, None])
    assert certificate.ok, certificate
    assert np.max(q) > 0.1

    step, _ = primitives()
    total = np.sum(b.size * step(np.clip((t[:, None] - b.centre) / b.width, -1.0, 1.0)), axis=-1)
    reaction = np.diff(total, prepend=0.0)[:, None]
    at_rest = certify_arrays(system, t, 0 * q[:, None], 0 * v[:, None], reaction)
    assert at_rest.ok, at_rest
    # and neither the one with the reaction of the other
    assert certify_arrays(system, t, q[:, None], v[:, None], reaction).ok is False
    assert certify_arrays(system, t, 0 * q[:, None], 0 * v[:, None], impulse[:, None]).ok is False


def exact_ball(e=0.8, speed=0.0):
    """A ball with the two sides of each impact as two records at one time, on an uneven grid."""
    problem = models.bouncing_ball(e=e, t1=2.0)
    hits = problem.impact_times
    t = np.sort(np.concatenate([np.linspace(0.0, 2.0, 801) ** 1.3 / 2**0.3, hits, hits]))
    q, v = problem.exact(t)
    impulse = np.zeros_like(v)
    for k in np.searchsorted(t, hits):
        v[k] = -v[k + 1] / e  # left limit
        impulse[k + 1] = v[k + 1] - v[k]
    return problem.system, t, q, v, impulse


def test_exact_motion_with_both_sides_of_each_impact():
    certificate = certify_arrays(*exact_ball())
    assert certificate.ok, certificate


def test_an_impact_at_the_start():
    problem = models.bouncing_ball(e=0.8, t1=2.0)
    for scheme in SCHEMES.values():
        sol = carom.solve(problem.system, scheme, [0.0], [-2.0], t1=0.5, dt=1e-3)
        assert sol.impulse[0, 0] > 0.0
        assert certify(sol).ok
        assert certify(sol, q0=[0.0], v0=[-2.0]).ok
        assert failed(certify(sol, v0=[-2.1])) != []
        assert failed(certify(sol, q0=[0.1])) != []


def test_without_gaps():
    spring = carom.System(force=lambda t, q, v: -q)
    sol = carom.solve(spring, carom.Moreau(), [1.0], [0.0], t1=6.0, dt=1e-2)
    assert certify(sol).ok
    stiffer = carom.System(force=lambda t, q, v: -1.05 * q)
    assert "momentum" in failed(certify(sol, stiffer))


def test_what_each_step_hides_the_sum_shows():
    """On a circle under f = -q, a constant force of a part in a thousand is not in the system."""
    spring, pushed = (
        carom.System(force=lambda t, q, v, bias=bias: jnp.array([bias, 0.0]) - q)
        for bias in (0.0, 1e-3)
    )
    sol = carom.solve(pushed, carom.Moreau(), [1.0, 0.0], [0.0, 1.0], t1=30.0, dt=1e-3)
    certificate = certify(sol, spring)
    assert certificate["momentum"].ok
    assert certificate["momentum, run"].ok is False


def test_unequal_restitution_has_no_clause_of_passivity():
    system = carom.System(
        force=lambda t, q, v: jnp.array([0.0, -1.0]),
        gap=lambda t, q: jnp.stack([q[1], 1.0 - q[0]]),
        restitution=[0.5, 0.9],
    )
    sol = carom.solve(system, carom.Moreau(), [0.0, 0.5], [0.7, 0.0], t1=3.0, dt=1e-3)
    assert {0, 1} == set(sol.impacts.constraint)
    certificate = certify(sol)
    assert certificate.ok, certificate
    with pytest.raises(KeyError, match="passivity"):
        certificate["passivity"]


# ---- planted faults -----------------------------------------------------------------------------

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
        return -float(self.system.contacts(hit, jnp.asarray(q[0])).velocity(v[0])[0])

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
        row = at.system.contacts(t, q).rows[0]
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


@pytest.mark.parametrize(("title", "scheme"), PAIRS)
def test_planted_faults_are_found(title, scheme):
    at = Planted(PLANTED[title], PLANTED_IN[scheme])
    clean = at.certificate(at.replaced(at.system))
    assert clean.ok, clean  # cutting a run in two is no fault
    for fault, (sizes, clause) in FAULTS.items():
        certificate = at.certificate(fault(at, sizes[0]))
        assert certificate.ok is False, f"{fault.__name__} not found\n{certificate}"
        assert clause in failed(certificate), f"{fault.__name__}\n{certificate}"


@pytest.mark.parametrize(
    ("after", "pushes", "right"),
    [
        ([-1 / 3, 2 / 3, 2 / 3], [4 / 3, 2 / 3], True),  # the law, both gaps at once
        ([0.0, 0.0, 1.0], [1.0, 1.0], False),  # one after the other, as in Newton's cradle
        ([0.0, 1.0, 0.0], [1.0, 0.0], False),  # the second gap forgotten
    ],
)
def test_a_row_that_touches(after, pushes, right):
    problem = models.row_of_balls(e=1.0)
    t = np.linspace(0.0, 2.0, 401)
    v = np.where(t[:, None] >= 1.0, after, [1.0, 0.0, 0.0])
    q = problem.q0 + np.where(t < 1.0, t, 1.0)[:, None] * v[0]
    q = q + np.maximum(t - 1.0, 0.0)[:, None] * np.array(after)
    impulse = np.where(t[:, None] == 1.0, pushes, 0.0)
    certificate = certify_arrays(problem.system, t, q, v, impulse)
    assert bool(certificate.ok) == right, certificate
    if not right:
        assert "momentum" not in failed(certificate)


def test_a_missing_gap_is_noticed():
    problem = models.wedge()
    one = carom.System(
        force=problem.system.force, gap=lambda t, q: problem.system.gap(t, q)[:1], restitution=1.0
    )
    sol = carom.solve(one, carom.Maury(), problem.q0, problem.v0, t1=problem.t1, dt=1e-2)
    impulse = np.pad(sol.impulse, ((0, 0), (0, 1)))
    assert certify(sol).ok
    certificate = certify_arrays(problem.system, sol.t, sol.q, sol.v, impulse)
    assert "feasibility" in failed(certificate)


# ---- what is said, and when ---------------------------------------------------------------------


@cache
def ball_solution(**record):
    problem = models.bouncing_ball(e=0.8, t1=2.0)
    return solved(problem, carom.Moreau(), 1000, record=carom.Record(**record))


@pytest.mark.parametrize("record", [{"every": 7}, {"final": True}, {"impacts": True}])
def test_sparse_records_are_not_silently_ok(record):
    certificate = certify(ball_solution(**record))
    assert certificate.ok is None
    assert certificate["feasibility"].ok
    assert certificate["sign"].ok
    law = certificate["impact law"]
    assert law.ok is None
    assert math.isnan(law.value)
    assert law.note == "needs every step"
    assert "not fully checked" in str(certificate)


def test_sparse_records_can_fail():
    sol = ball_solution(every=7)
    assert certify(eqx.tree_at(lambda s: s.q, sol, sol.q - 0.2)).ok is False
    assert certify(eqx.tree_at(lambda s: s.impulse, sol, -sol.impulse)).ok is False


def test_text_picture_and_html():
    certificate = certify(ball_solution())
    text = str(certificate)
    assert "a solution" in text
    assert all(clause.name in text and clause.formula in text for clause in certificate.clauses)
    axes = certificate.plot()
    assert certificate.plot(axes) is axes
    html = certificate._repr_html_()
    assert html.count("<tr>") == len(certificate.clauses) + 1
    assert "&gt;= 0" in html
    wrong = certify(eqx.tree_at(lambda s: s.impulse, ball_solution(), -ball_solution().impulse))
    assert "NOT a solution" in str(wrong)


def test_nothing_is_taken_from_the_solver():
    sol = ball_solution()
    names = ("gap", "velocity_before", "velocity_after")
    edited = eqx.tree_at(
        lambda s: [getattr(s, n) for n in names], sol, [np.full_like(sol.gap, 7.0)] * 3
    )
    assert str(certify(edited)) == str(certify(sol))


def test_system_of_a_batch_and_of_a_file(tmp_path):
    sol = ball_solution()
    batch = jax.tree_util.tree_map(lambda a: np.stack([a, a]), sol)
    with pytest.raises(errors.RecordError, match="index it first"):
        certify(batch)
    assert certify(batch[1]).ok
    sol.save(tmp_path / "ball.nc")
    loaded = carom.load(tmp_path / "ball.nc")
    with pytest.raises(errors.RecordError, match="carries no system"):
        certify(loaded)
    assert certify(loaded, sol.system).ok


def test_units_do_not_matter():
    """Lengths in millimetres, times in minutes, masses in grams: the same ratios."""
    L, T, m = 1e3, 1.0 / 60.0, 1e3
    plain = models.bouncing_ball(e=0.8, t1=2.0)
    other = carom.System(
        force=lambda t, q, v: jnp.array([-9.81 * m * L / T**2]),
        gap=lambda t, q: q,
        mass=[m],
        restitution=0.8,
    )
    sol = ball_solution()
    a = certify_arrays(plain.system, sol.t, sol.q, sol.v, sol.impulse)
    b = certify_arrays(other, sol.t * T, sol.q * L, sol.v * L / T, sol.impulse * m * L / T)
    for one, two in zip(a.clauses, b.clauses, strict=True):
        if one.allowed > 1e-9:  # not rounding
            assert two.value / two.allowed == pytest.approx(one.value / one.allowed, abs=1e-6)


def test_bad_input_names_the_remedy():
    system, t, q, v, impulse = exact_ball()
    with pytest.raises(errors.ShapeError, match="must be"):
        certify_arrays(system, t, q[:-1], v, impulse)
    with pytest.raises(errors.ShapeError, match="for 1 gaps"):
        certify_arrays(system, t, q, v, impulse[:, :0])
    with pytest.raises(errors.TimeError, match="decreases"):
        certify_arrays(system, t[::-1], q, v, impulse)
    with pytest.raises(errors.NonFiniteError, match="q is not finite"):
        certify_arrays(system, t, np.where(q > 0.9, np.nan, q), v, impulse)
    with pytest.raises(errors.ShapeError, match="two records"):
        certify_arrays(system, t[:1], q[:1], v[:1], impulse[:1])


# ---- the tables of the documentation ------------------------------------------------------------


def accepted_table():
    """Largest violation / allowed of each clause and scheme over ACCEPTED, two step sizes."""
    worst, names = {}, list(schemes_for(ACCEPTED["ball"]()))
    for title, make in ACCEPTED.items():
        problem = make()
        for name, scheme in schemes_for(problem).items():
            for steps in (1009, 8009):
                for clause in certify(solved(problem, scheme, steps)).clauses:
                    found = (max(np.max(clause.ratio, initial=0.0), 0.0), title)
                    worst[clause.name, name] = max(worst.get((clause.name, name), (0.0, "")), found)
    print("| clause |", " | ".join(names), "|\n|" + "---|" * (len(names) + 1))
    for clause in dict.fromkeys(c for c, _ in worst):
        cells = [worst[clause, name] for name in names]
        print(
            f"| {clause} |", " | ".join(f"{r:.2f} {t}" if r > 0.005 else "0" for r, t in cells), "|"
        )


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
    accepted_table()
    fault_table()
