"""No projection is wrong: degenerate.py, some of it and all of it."""

import numpy as np
import pytest

from carom import Status
from degenerate import every, projected


def check(n, seed, reported):
    total = np.zeros(4, int)
    for name, count in every(n, seed):
        assert count.wrong == 0, name
        total += count[:4]
    assert total[1] <= reported * total[0]
    assert total[3] <= 0.02 * total[0]


def test_some_degenerate_projections():
    check(50, 1, 0.003)


def test_rows_that_have_left_are_no_proof():
    """Opposite to 1e-9: with AVX-512 the search lost its digits, and "infeasible" was wrong."""
    # fmt: off
    G = np.array([
        [0.5862581728178612, 0.3921419742694106, -0.13760627698893454],
        [0.5862581728364408, 0.392141976156349, -0.13760627379125084],
        [-0.5862581717137355, -0.3921419759347783, 0.13760627607167475],
        [-0.5862581717336294, -0.39214197638931625, 0.13760627381759388],
        [-1.2025387429873875, 0.4794847386945504, -0.6505019454367096],
        [-1.2025387419541826, 0.4794847376131271, -0.6505019449411096],
        [1.2025387445885851, -0.47948473811253983, 0.6505019443947767],
        [0.5862581737542131, 0.39214197619086255, -0.13760627462971045],
    ])
    b = np.array([
        -0.11415974866313783, -0.11415974696041715, 0.11415974723066313, 0.1141597464091873,
        5.658210537351122, 0.6331238093332284, 2.9765372133066648, 0.10354704865920791,
    ])
    t = np.array([0.44544492279296394, 0.4437116371648679, 0.09150632863583727])
    mass = np.array([1.6657373019650161, 2.5796941630320234, 1.2173347991048395])
    # fmt: on
    found = projected(t[None], G[None], b[None], mass[None])
    assert found.status == Status.ok
    assert found.residual[0] < 1e-9


@pytest.mark.slow
def test_two_hundred_thousand_degenerate_projections():
    check(2100, 0, 0.001)
