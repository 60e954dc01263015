"""A slice of tests/fuzz_inputs.py; ``python tests/fuzz_inputs.py 0 100000`` is all of it."""

import pytest

import fuzz_inputs


@pytest.mark.parametrize(
    "count",
    [pytest.param(800, id="some"), pytest.param(10_000, id="many", marks=pytest.mark.slow)],
)
@pytest.mark.filterwarnings("ignore")
def test_junk_is_refused_by_name(count):
    found = fuzz_inputs.fuzz(1_000_000, count)
    assert sum(sum(ends.values()) for ends in found["ends"].values()) == count
    for kind, ends in found["ends"].items():
        assert ends["taken"] > 0.02 * sum(ends.values()), (kind, ends)  # not all is junk
        assert ends["refused"] > 0.1 * sum(ends.values()), (kind, ends)
    assert not found["wrong"], found["wrong"][0]
