"""Every scheme goes on with a System bit for bit: all that it carries is in the file."""

import jax.numpy as jnp
import numpy as np
import pytest

import carom
import system_run
from carom.schemes.named import scheme_of_text

# A mass on a spring against one stop, driven.
SYSTEM = carom.System(
    force=lambda t, q, v: 2.0 * jnp.sin(1.7 * t) - 0.1 * v - q,
    gap=lambda t, q: 0.3 - q,
    restitution=0.7,
)
SCHEMES = [
    "Moreau(implicit=True)",
    "Maury",
    "PaoliSchatzman",
    "Penalty(lam=1e-3, substeps=2)",
    "Penalty(lam=1e-3)",
    "EventDriven",
]


class Stopped(BaseException):
    pass


def stop_after(steps):
    def progress(run):
        if run.step >= steps:
            raise Stopped

    return progress


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_scheme_goes_on(scheme, tmp_path, monkeypatch):
    monkeypatch.setattr(system_run.SOLVE, "_PIECE_STEPS", 40)
    path, whole = tmp_path / "run.nc", tmp_path / "whole.nc"

    def run(path, progress=False, resume=False):
        return carom.solve(
            SYSTEM,
            scheme_of_text(scheme),
            [0.1],
            [0.5],
            t1=30.0,
            dt=0.1,
            record=carom.Record(path, resume=resume),
            progress=progress,
        )

    run(whole)
    for steps in (1, 100, 200):
        with pytest.raises(Stopped):
            run(path, stop_after(steps), resume=steps > 1)
        left = system_run.contents(path)
        assert steps < len(left["time"]) <= steps + 41
        assert system_run.beginning_of(left, system_run.contents(whole))
    run(path, resume=True)
    assert np.count_nonzero(system_run.contents(path)["impulse"]) > 4
    assert system_run.same(system_run.contents(path), system_run.contents(whole))
    assert carom.load(path).stats == carom.load(whole).stats
