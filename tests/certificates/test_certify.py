"""Certificates: what is said, and when."""

import math
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
import pytest

import carom
from carom import errors, models
from carom.certificates.certify import certify, certify_arrays
from certified import exact_ball, solved

mpl.use("Agg")


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
    with pytest.raises(errors.ShapeError, match="for 1 gap "):
        certify_arrays(system, t, q, v, impulse[:, :0])
    with pytest.raises(errors.TimeError, match="decreases"):
        certify_arrays(system, t[::-1], q, v, impulse)
    with pytest.raises(errors.NonFiniteError, match="q is not finite"):
        certify_arrays(system, t, np.where(q > 0.9, np.nan, q), v, impulse)
    with pytest.raises(errors.ShapeError, match="two records"):
        certify_arrays(system, t[:1], q[:1], v[:1], impulse[:1])
