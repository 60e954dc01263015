"""Scenes of spheres with a known answer (P14, P15)."""

import importlib.util
from pathlib import Path

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


def benchmark():
    """benchmarks/grains.py as a module."""
    path = Path(__file__).parents[2] / "benchmarks" / "grains.py"
    spec = importlib.util.spec_from_file_location("grains", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_friction_loosens_the_packing():
    """From 0.64 to 0.55 to 0.58 as mu grows from 0 to 1 (Silbert 2010)."""
    found = [float(row[1]) for row in benchmark().packing(1, quick=True)]
    print(found)
    assert found == sorted(found, reverse=True)
    assert found[0] == pytest.approx(0.64, abs=0.015)
    assert 0.54 < found[-1] < 0.585


@pytest.mark.slow
def test_a_column_runs_out():
    """About 1.2 times its ratio of height to width (Lube 2005), in the plane with mu = 0.5."""
    rows = list(benchmark().collapse(1, quick=True))
    print(*rows, sep="\n")
    ratio = np.array([float(row[0].split("=")[1]) for row in rows])
    round_ones, rolling = np.split(np.array([float(row[1]) for row in rows]) / ratio, 2)
    assert 0.9 < np.mean(round_ones) < 1.9
    assert 0.5 < np.mean(rolling) < np.mean(round_ones)


@pytest.mark.slow
def test_side_walls_hold_a_column():
    """Spheres in a slot five diameters deep do not run as far as between periodic sides."""
    wide, slot = list(benchmark().channel(1, quick=True))
    print(wide, slot, sep="\n")
    assert 0.8 * float(slot[2].split(",")[0]) < float(slot[1]) < 0.95 * float(wide[1])
