"""The problems of the benchmark.  To add one: a function in carom.models, a line here."""

import jax.numpy as jnp

from carom import models
from carom.models import Problem

# Title: how to build it.  Built when needed: building some of them takes a while.
TARGETS = (1e-2, 1e-4, 1e-8)  # errors of q relative to the motion, for which methods are compared
# Methods whose work is within such a factor of the least are tied: counts are exact but for what an
# evaluation is; times of the same run differ by half on a busy machine.
TIED = {"evaluations": 1.25, "CPU time": 4.0}

PROBLEMS = {
    "P1 ball, e = 0.5": lambda: models.bouncing_ball(e=0.5),
    "P1 ball, e = 0.9": lambda: models.bouncing_ball(e=0.9, t1=10.0),
    "P1 ball, e = 1": lambda: models.bouncing_ball(e=1.0),
    "P2 stopped oscillator": lambda: models.stopped_oscillator(),
    "P3 impact oscillator": lambda: models.impact_oscillator(),
    "P4 resonance, e = 1": lambda: models.resonance(e=1.0),
    "P5 in a disc, e = 1": lambda: models.disc(e=1.0),
    "P5 in a disc, e = 0.5": lambda: models.disc(e=0.5),
    "P5 in a disc, polar": lambda: models.disc_polar(e=0.5),
    "P5 outside a disc": lambda: models.outside_disc(e=1.0),
    "P5 wedge": lambda: models.wedge(),
    "P6 lift-off": lambda: models.lift_off(),
    "P7 line, polar": lambda: models.line_polar(),
    "P8 table, e = 0.5": lambda: models.vibrating_table(e=0.5),
    "P8 table, e = 0": lambda: models.vibrating_table(e=0.0),
    "P9 row, touching": lambda: models.row_of_balls(),
    "P9 row, with gaps": lambda: models.row_of_balls(spacing=0.3),
    "P10 stack, dropped": lambda: models.stack(height=0.5),
    "impact pair": lambda: models.impact_pair(),
    "rocking block": lambda: models.rocking_block(),
    "Newton's cradle": lambda: models.newtons_cradle(),
    "cam and follower": lambda: models.cam_and_follower(),
    "cantilever": lambda: models.cantilever(),
    "cantilever, elements": lambda: models.cantilever(elements=2),
    "double pendulum": lambda: models.double_pendulum(),
    "block on a slope": lambda: models.block_on_slope(),
    "dry oscillator": lambda: models.dry_oscillator(),
    "dry oscillator, stop": lambda: models.dry_oscillator(stop=-0.3),
    "stick-slip on a belt": lambda: models.stick_slip(),
    "skidding ball": lambda: models.skidding_ball(),
    "Painleve's rod": lambda: models.painleve_rod(),
    "brake squeal": lambda: models.brake_squeal(),
    "woodpecker": lambda: models.woodpecker(),
    "bouncing dimer": lambda: models.dimer(),
    "P12 wall": lambda: models.wall(),
    "P11 bar, thrown": lambda: models.elastic_bar(elements=100),
    "P11 bar, dropped": lambda: models.elastic_bar(elements=100, speed=0.0, g=10.0),
}

QUICK = (
    "P1 ball, e = 0.5",
    "P1 ball, e = 1",
    "P3 impact oscillator",
    "P5 in a disc, e = 0.5",
    "P6 lift-off",
    "P9 row, touching",
)

# Kinds of problems, and what to call them in a recommendation; the first that fits is it.
KINDS = {
    "rubbing": "friction",
    "stiff": "stiff, a large structure",
    "accumulating": "accumulating impacts",
    "several": "several gaps at once",
    "lasting": "lasting contact without impacts",
    "isolated": "isolated impacts",
}


def kind_of(problem: Problem) -> str:
    """One of KINDS, read off the ``problem``, a `carom.models.Problem`."""
    if problem.system.friction is not None:
        return "rubbing"
    if problem.frequency is not None:
        return "stiff"
    if problem.accumulation is not None and problem.accumulation < problem.t1:
        return "accumulating"
    if len(problem.system.gaps(jnp.asarray(problem.t0), jnp.asarray(problem.q0))) > 1:
        return "several"
    if problem.impact_times is not None and len(problem.impact_times) == 0:
        return "lasting"
    return "isolated"
