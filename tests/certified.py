"""The runs that a certificate must accept.

``python tests/certified.py`` prints the table of them in docs/certificate.md, which takes long;
``python tests/certified.py ball disc`` that of some.
"""

import sys

import numpy as np

import carom
from carom import models
from carom.certificates.certify import certify

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
# nonunique for the bumps of its force.  Both have numbers of their own in test_certify_accepted.py.
SHORT_STEPS = {"elastic_bar", "nonunique"}
# of friction, which not all schemes know: models/test_rubbing.py; of spheres: test_spheres.py
RUBBING = {"block_on_slope", "dry_oscillator", "stick_slip", "skidding_ball", "painleve_rod"}
RUBBING |= {"brake_squeal", "woodpecker", "dimer"}
SCENES = {"granular_gas", "settling_spheres"} | RUBBING


def schemes_for(problem):
    """Every scheme.  Contacts with a yielding wall last 1 / 500 of the run: at the numbers of steps
    used they fall between two records, are as long as a step, and take many."""
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


def largest(title):
    """{(clause, scheme): largest violation / allowed} of one of ACCEPTED, two step sizes."""
    problem, found = ACCEPTED[title](), {}
    for name, scheme in schemes_for(problem).items():
        for steps in (1009, 8009):
            for clause in certify(solved(problem, scheme, steps)).clauses:
                ratio = max(np.max(clause.ratio, initial=0.0), 0.0)
                found[clause.name, name] = max(found.get((clause.name, name), 0.0), ratio)
    return found


def accepted_table(titles):
    """Largest violation / allowed of each clause and scheme over ACCEPTED, and where."""
    worst, names = {}, list(schemes_for(ACCEPTED["ball"]()))
    for title in titles or ACCEPTED:
        for key, ratio in largest(title).items():
            worst[key] = max(worst.get(key, (0.0, "")), (ratio, title))
    print("| clause |", " | ".join(names), "|\n|" + "---|" * (len(names) + 1))
    for clause in dict.fromkeys(c for c, _ in worst):
        cells = [worst[clause, name] for name in names]
        print(
            f"| {clause} |", " | ".join(f"{r:.2f} {t}" if r > 0.005 else "0" for r, t in cells), "|"
        )


if __name__ == "__main__":
    accepted_table(sys.argv[1:])
