"""What Spheres and their walls are given: every mistake has a name, every promise is kept."""

import numpy as np
import pytest

import carom
from carom.spheres import Panel

SCHEMES = [carom.Maury(), carom.Moreau(), carom.PaoliSchatzman()]


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("turns", [0, -1, 3])
def test_a_sphere_meets_the_images_of_a_panel(scheme, turns):
    panel = Panel((5.0 + 10.0 * turns, -1.0), (0.0, 2.0))
    pile = carom.Spheres([[7.0, 0.0]], 0.5, [[1.0, 0.0]], periodic=(10, None), walls=[panel])
    sol = carom.solve(pile, scheme, t1=9.0, dt=1e-2)
    assert np.max(sol.x[..., 0]) == pytest.approx(14.5, abs=0.011)
    assert sol.v[-1, 0, 0] == pytest.approx(0.0, abs=1e-6)
