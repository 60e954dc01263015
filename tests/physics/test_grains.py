"""Scenes of spheres with a known answer (P14, P15)."""

import numpy as np
import pytest

import carom
from carom import models


def solved(scene, **options):
    return carom.solve(
        scene.system, carom.Maury(), scene.q0, scene.v0, t1=scene.t1, dt=scene.dt, **options
    )


def test_a_small_pile_settles():
    scene = models.settling_spheres(shape=(4, 4, 5))
    sol = solved(scene, record=carom.Record(every=100))
    for name, (measured, known) in scene.expected(sol).items():
        assert measured == pytest.approx(known, rel=1e-3 if name == "floor force" else 0.05)


@pytest.mark.slow
def test_a_gas_cools():
    """Haff's law within 3 %, 1000 spheres, to three times tau."""
    scene = models.granular_gas()
    sol = solved(scene, record=carom.Record(every=100))
    measured, known = scene.expected(sol)["temperature"]
    print("largest departure from Haff's law", np.max(np.abs(measured / known - 1)))
    assert known[-1] < 0.07 * known[0]
    assert np.max(np.abs(measured / known - 1)) < 0.03


def test_beyond_the_law():
    with pytest.raises(models.ModelError, match=r"e 0\.5"):
        models.granular_gas(e=0.5)
