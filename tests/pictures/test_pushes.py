"""Blows and lasting forces, told apart."""

from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest

import carom
from carom.pictures.pushes import Pushes
from carom.results.impacts import COLUMNS


def given(impulse, friction=None, impacts=None):
    """What Pushes asks of a solution with records at 0, 0.1, ..."""
    impulse = np.array(impulse, float)[:, None]
    table = np.array([] if impacts is None else impacts, COLUMNS).view(np.recarray)
    rub = None if friction is None else np.array(friction, float)[:, None]
    return SimpleNamespace(
        t=0.1 * np.arange(len(impulse)), dt=0.1, impulse=impulse, friction=rub, impacts=table,
        _has_impacts=lambda: impacts is not None,
    )  # fmt: skip


def test_a_blow_is_an_impulse_and_what_lasts_a_force():
    """An impact of 5 N s spread over two steps, then 10 N."""
    blow = [(0.2, 0, -2.0, 1.0, 5.0, 2)]
    found = Pushes.of(given([0, 0, 3, 2, 1, 1], [0, 0, 0.6, 0, 0.3, -0.3], blow))
    assert np.allclose(found.force[:, 0], [0, 0, 0, 10, 10])
    assert np.allclose(found.friction[:, 0], [0, 0, 0, 3, -3])
    assert np.allclose(found.rubbed[:, 0], [0, 0, 0.6, 0, 0, 0])
    assert found.impulse.tolist() == [5.0]


def test_a_blow_beside_a_lasting_force():
    """Between two records 4 N s by impacts, 1 N s by contact; friction is shared likewise."""
    found = Pushes.of(given([0, 5], [0, 1.0], [(0.07, 0, -2.0, 1.0, 4.0, 1)]))
    assert np.allclose(found.force, 10.0)
    assert np.allclose([found.friction[0, 0], found.rubbed[1, 0]], [2.0, 0.8])


def test_without_a_table_all_is_force():
    found = Pushes.of(given([0, 0, 3, 2]))
    assert np.allclose(found.force[:, 0], [0, 30, 20])
    assert (len(found.impulse), found.friction) == (0, None)


@pytest.mark.slow
def test_the_picture_of_a_ball_that_comes_to_rest():
    """Stems while it bounces, its weight when it rests, and a word where nothing touches."""
    ball = carom.models.bouncing_ball(e=0.5).system
    axes = carom.solve(ball, carom.Moreau(), [1.0], [0.0], t1=3.0, dt=1e-3).plot()
    force = axes[4].lines[0].get_ydata()
    assert abs(force[-1] - 9.81) < 1e-9
    assert len(axes[3].lines[0].get_xdata()) > 5  # impacts, not the 1600 steps of rest
    high = carom.solve(ball, carom.Moreau(), [100.0], [0.0], t1=1.0, dt=1e-2).plot()
    assert [text.get_text() for text in high[3].texts] == ["no contact"]
    plt.close("all")
