"""No projection is wrong: degenerate.py, some of it and all of it."""

import numpy as np
import pytest

from degenerate import every


def check(n, seed, reported):
    total = np.zeros(4, int)
    for name, count in every(n, seed):
        assert count.wrong == 0, name
        total += count[:4]
    assert total[1] <= reported * total[0]
    assert total[3] <= 0.02 * total[0]


def test_some_degenerate_projections():
    check(50, 1, 0.003)


@pytest.mark.slow
def test_two_hundred_thousand_degenerate_projections():
    check(2100, 0, 0.001)
