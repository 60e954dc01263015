"""Refinement: orders, estimates against exact motions, and when it says that it does not know.

``python tests/run/test_refine.py`` prints how often the estimate holds (docs/certificate.md).
"""

import math
from functools import cache

import matplotlib as mpl
import numpy as np
import pytest

import carom
from carom import errors, models
from carom.run.refine import RefineError, refine

mpl.use("Agg")

SCHEMES = {
    "Moreau": carom.Moreau(),
    "Maury": carom.Maury(),
    "PaoliSchatzman": carom.PaoliSchatzman(),
}


def refined(problem, scheme, steps, **options):
    dt = (problem.t1 - problem.t0) / steps
    return refine(
        problem.system, scheme, problem.q0, problem.v0, t0=problem.t0, t1=problem.t1, dt=dt,
        **options,
    )  # fmt: skip


def true_error(problem, found, level=-1):
    return np.max(np.abs(found.q[level] - problem.exact(found.t)[0]))


@cache
def ball():
    problem = models.bouncing_ball(e=0.5)
    return problem, refined(problem, carom.Moreau(), 300, levels=6)


def test_shapes_and_steps():
    problem, found = ball()
    assert found.q.shape == (6, 32, 1)
    assert found.differences.shape == (5,)
    assert found.estimate.shape == found.t.shape == (32,)
    steps = (problem.t1 - problem.t0) / found.dt
    np.testing.assert_allclose(steps, [307, 601, 1201, 2411, 4801, 9601], rtol=1e-12)
    np.testing.assert_array_equal(found.solution.q, found.q[-1])
    assert found.solution.dt == found.dt[-1]
    worst = np.max(np.abs(found.q[-1] - found.q[-2]))
    assert found.differences[-1] == worst


def test_order_one_through_an_accumulation():
    problem, found = ball()
    assert found.converges
    assert found.order == pytest.approx(1.0, abs=0.3)
    error = np.max(np.abs(found.q[-1] - problem.exact(found.t)[0]), axis=1)
    assert error.max() <= found.estimate.max()
    assert found.estimate.max() == found.estimates[-1] < 10 * error.max()


def test_order_two_where_contact_ends_smoothly():
    problem = models.lift_off()
    found = refined(problem, carom.PaoliSchatzman(), 100, levels=4)
    assert found.order == pytest.approx(2.0, abs=0.2)
    assert true_error(problem, found) < found.estimates[-1]


def test_it_stops_when_the_error_is_reached():
    problem = models.bouncing_ball(e=0.5)
    found = refined(problem, carom.Moreau(), 300, error=1e-2, times=[0.5, 1.0])
    assert found.reached
    assert 3 <= len(found.dt) < 6
    assert found.estimates[-1] <= 1e-2
    assert found.estimates[-2] > 1e-2 or math.isnan(found.estimates[-2])
    assert true_error(problem, found) <= 1e-2
    assert "reached" in str(found)
    np.testing.assert_allclose(found.t, [0.5, 1.0])


def test_it_says_when_it_is_not_reached():
    problem = models.bouncing_ball(e=0.5)
    found = refined(problem, carom.Moreau(), 300, error=1e-6, levels=3)
    assert found.reached is False
    assert len(found.dt) == 3
    assert "not reached" in str(found)


def test_no_convergence_is_said():
    """An unstable orbit, over a time in which the error of one step grows to the size of it."""
    problem = models.vibrating_table(e=1.0, acceleration=2.0)
    found = refined(problem, carom.Moreau(), 518, error=1e-9)
    assert true_error(problem, found) > 0.5
    assert not found.converges
    assert found.reached is False
    assert "no convergence" in str(found)


def test_exact_runs_have_no_order():
    resting = carom.System(force=models.bouncing_ball().system.force, gap=lambda t, q: q)
    found = refine(resting, carom.Moreau(), [0.0], [0.0], t1=1.0, dt=1e-2, error=1e-9)
    assert len(found.dt) == 3
    assert math.isnan(found.order)
    assert found.converges
    assert found.reached
    assert "at rounding" in str(found)


def test_text_and_picture():
    _, found = ball()
    text = str(found)
    assert len(text.splitlines()) == 1 + len(found.dt) + 1
    assert "sup norm of q" in text
    axes = found.plot()
    assert found.plot(axes) is axes


def test_bad_input():
    problem = models.bouncing_ball(e=0.5)
    with pytest.raises(RefineError, match="3 runs"):
        refined(problem, carom.Moreau(), 300, levels=2)
    with pytest.raises(RefineError, match="positive"):
        refined(problem, carom.Moreau(), 300, error=0.0)
    with pytest.raises(errors.TimeError, match="record times"):
        refined(problem, carom.Moreau(), 300, times=[99.0])
    with pytest.raises(errors.TimeError, match="positive"):
        refine(problem.system, carom.Moreau(), problem.q0, problem.v0, t1=1.0, dt=-1.0)


# ---- how often the estimate holds ---------------------------------------------------------------

MODELS = {
    "ball e=0.5": lambda: models.bouncing_ball(e=0.5),
    "ball e=0.8": lambda: models.bouncing_ball(e=0.8),
    "ball e=1": lambda: models.bouncing_ball(e=1.0),
    "stopped oscillator": models.stopped_oscillator,
    "impact oscillator": models.impact_oscillator,
    "resonance e=1": lambda: models.resonance(e=1.0),
    "resonance e=0.6": lambda: models.resonance(e=0.6),
    "disc e=0.5": lambda: models.disc(e=0.5),
    "disc e=1": lambda: models.disc(e=1.0),
    "disc polar": lambda: models.disc_polar(e=0.5),
    "outside disc": lambda: models.outside_disc(e=1.0),
    "wedge": models.wedge,
    "line polar": models.line_polar,
    "table e=0.5": lambda: models.vibrating_table(e=0.5),
    "table e=1": lambda: models.vibrating_table(e=1.0, acceleration=2.0),
    "row": models.row_of_balls,
    "row with gaps": lambda: models.row_of_balls(spacing=0.3),
    "stack dropped": lambda: models.stack(height=0.5, count=3),
}


def ratios(problem, scheme, all_steps, all_levels):
    """(true error / estimate, whether it says that it converges) of each refinement."""
    found = []
    for steps in all_steps:
        for levels in all_levels:
            r = refined(problem, scheme, steps, levels=levels)
            if r.differences.max() > 1e-9:
                found.append((true_error(problem, r) / r.estimates[-1], r.converges))
    return found


@pytest.mark.slow
def test_the_estimate_holds_almost_always():
    found = everything()
    converged = np.array([ratio for ratio, converges in found if converges])
    assert len(converged) > 0.8 * len(found)
    assert np.mean(converged <= 1.0) > 0.97
    assert converged.max() < 3.0


def everything():
    return [
        x
        for make in MODELS.values()
        for scheme in SCHEMES.values()
        for x in ratios(make(), scheme, (307, 457, 809, 1201), (4, 5, 6))
    ]


def main():
    found = everything()
    converged = np.array([ratio for ratio, converges in found if converges])
    print(f"{len(found)} refinements, {len(converged)} of which converge")
    print(f"error <= estimate in {100 * np.mean(converged <= 1.0):.1f} % of these")
    quantiles = np.quantile(converged, [0.1, 0.5, 0.9, 1.0])
    print("error / estimate, quantiles 0.1, 0.5, 0.9, 1:", np.round(quantiles, 2))


if __name__ == "__main__":
    main()
