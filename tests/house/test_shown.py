"""What things look like as values, in text and in notebooks."""

import runpy
from importlib.metadata import version
from pathlib import Path

import jax
import numpy as np
import pytest

import carom
from carom.certificates.certificate import Certificate
from carom.schemes.named import SCHEMES, scheme_of_text
from carom.shown import counted, summary_html


def gravity(t, q, v):
    return -q


def test_names():
    """What is offered for completion is what is public, and all of it is there."""
    assert {"solve", "study", "bench", "fclib"} <= set(dir(carom))
    assert "carom" not in dir(carom)
    assert not hasattr(carom, "carom")
    for name in dir(carom):
        assert getattr(carom, name) is not None
    assert carom.__version__ == version("carom")
    assert (Path(carom.__file__).parent / "py.typed").exists()


@pytest.mark.parametrize("name", SCHEMES)
def test_a_scheme_is_shown_as_it_is_written(name):
    written = f"{name}(lam=0.001)" if name == "Penalty" else f"{name}()"
    assert repr(scheme_of_text(written)) == written


def test_options_are_shown():
    text = "EventDriven(rtol=1e-09, jumps=[1.0, 2.0])"
    assert repr(scheme_of_text(text)) == text

    def traced(lam):
        assert repr(carom.Penalty(lam=lam)).startswith("Penalty(lam=...")
        assert "restitution=array()" in repr(carom.System(force=gravity, restitution=lam))
        return lam

    jax.make_jaxpr(traced)(0.5)


def test_values():
    wall = carom.System(force=gravity, gap=lambda t, q: q, mass=[2.0, 1.0], restitution=[0.5])
    assert repr(wall) == "System(force=gravity, gap=<lambda>, mass=<diagonal>, restitution=[0.5])"
    assert repr(carom.System(force=gravity)) == "System(force=gravity, restitution=0)"
    assert repr(carom.Record("a.nc", every=3)) == "Record('a.nc', every=3)"
    assert repr(carom.Record()) == "Record()"
    assert "bouncing_ball, 1 coordinate" in repr(carom.models.bouncing_ball())
    assert len(repr(carom.models.double_pendulum())) < 100


def test_results_take_one_line_and_a_table():
    certificate = Certificate("a run", ())
    assert repr(certificate) == "<Certificate: a run: a solution>"
    exponents = carom.study.Exponents(np.array([0.1, -0.3]), np.zeros((4, 2)), 2.0, 1.5)
    assert "\n" not in repr(exponents)
    assert "Lyapunov exponents 0.1, -0.3 after 4 intervals of 2" in repr(exponents)
    assert "<td>sum</td><td>-0.2</td>" in exponents._repr_html_()
    assert "&lt;b&gt;" in summary_html("<b>\n  a  b  c")
    assert counted(1, "step") == "1 step"
    assert counted(2, "step") == "2 steps"


def test_a_script_with_types_runs():
    runpy.run_path(str(Path(__file__).with_name("user_script.py")))
