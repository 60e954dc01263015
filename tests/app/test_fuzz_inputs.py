"""A slice of tests/fuzz_inputs.py; ``python tests/fuzz_inputs.py 0 100000`` is all of it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import fuzz_inputs

# In a process of its own: children of one whose OpenMP threads have run may not use theirs.
CODE = "import json, sys, fuzz_inputs; print(json.dumps(fuzz_inputs.fuzz(1_000_000, {})))"


@pytest.mark.parametrize(
    "count",
    [pytest.param(800, id="some"), pytest.param(10_000, id="many", marks=pytest.mark.slow)],
)
def test_junk_is_refused_by_name(count):
    """Shapes, walls and files of Spheres, by the kind."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CODE.format(count)],
        cwd=Path(fuzz_inputs.__file__).parent,
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert sum(sum(ends.values()) for ends in found["ends"].values()) == count
    for kind, ends in found["ends"].items():
        assert ends.get("taken", 0) > 0.02 * sum(ends.values()), (kind, ends)  # not all is junk
        assert ends.get("refused", 0) > 0.1 * sum(ends.values()), (kind, ends)
    assert not found["wrong"], found["wrong"][0]
