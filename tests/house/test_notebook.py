"""The notebook of the examples, executed: every object shows itself in it."""

import re
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "first_look.ipynb"
SHOWN = {  # the beginning of a cell's last line, and what its table must say
    "oscillator": r"<b>System\(force=&lt;lambda&gt;.*restitution=0.8",
    "record": r"<b>Record\(every=10\)",
    "sol": r"</progress> 20000 of 20000 steps.*<b>Moreau\(\): 20000 steps.*<td>smallest gap</td>",
    "certificate": r"a solution to within.*<th>clause</th>.*<td>feasibility</td>",
    "refinement": r"<table>.*order",
    "orbit": r"<b>orbit of period 2.513.*1 impact, stable",
    "branch": r"<b>\d+ orbits from 2.5 to 2.6",
    "exponents": r"<b>Lyapunov exponents.*<td>sum</td>",
    "pile": r"<b>Spheres\(N=3, dimension=3.*<td>walls</td><td>Plane</td>",
    "settled": r"<b>Maury\(\) on Spheres.*<td>contacts at the end</td>",
    "carom.certify(settled)": r"<th>clause</th>.*<td>momentum, total</td>",
    "sol.plot();": "",
    "sol.animate()": "<iframe",
    "sol.view()": "<iframe",
    "settled.view()": "<iframe",
}


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    nbclient = pytest.importorskip("nbclient", reason="needs nbclient and ipykernel")
    pytest.importorskip("ipykernel")
    import nbformat

    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)  # kept without them
    folder = tmp_path_factory.mktemp("notebook")
    nbclient.NotebookClient(
        notebook, timeout=300, resources={"metadata": {"path": folder}}
    ).execute()
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return {cell.source.splitlines()[-1]: cell.outputs for cell in code}


@pytest.mark.slow
@pytest.mark.parametrize("line", SHOWN)
def test_a_cell_shows(executed, line):
    data = [output["data"] for output in executed[line] if "data" in output]
    html = " ".join(x["text/html"] for x in data if "text/html" in x)
    assert re.search(SHOWN[line], html, re.DOTALL), (html or str(executed[line]))[:2000]
    if line == "sol.plot();":
        assert any("image/png" in x for x in data)
    for x in data:
        text = x.get("text/plain", "")
        assert len(text) < 200 or "html" in text
        assert "\n" not in text.strip()
