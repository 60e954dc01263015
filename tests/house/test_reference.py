"""Every public name has an example, and each prints what it says."""

import contextlib
import doctest
import inspect
import re
from pathlib import Path

import matplotlib as mpl
import pytest

import carom

mpl.use("Agg")
ROOT = Path(__file__).parents[2]
ROOMS = ("spheres", "study", "models", "fclib", "bench")


def written() -> dict[str, str]:
    """Those beside the docstrings, by name."""
    text = (ROOT / "docs" / "api" / "examples.txt").read_text(encoding="utf-8")
    return dict(re.findall(r"^\[([\w.]+)\]\n(.*?)(?=^\[carom|\Z)", text, re.MULTILINE | re.DOTALL))


def public() -> dict[str, object]:
    """Every public name once, where it is at home."""
    found = {f"carom.{n}": getattr(carom, n) for n in carom.__all__ if n not in (*ROOMS, "errors")}
    for room in ROOMS:
        here = getattr(carom, room)
        names = [n for n in here.__all__ if getattr(carom, n, None) is not getattr(here, n)]
        found |= {f"carom.{room}.{n}": getattr(here, n) for n in names}
    errors = vars(carom.errors).items()
    found |= {f"carom.errors.{n}": x for n, x in errors if inspect.isclass(x)}
    found.pop("carom.errors.CaromError")  # carom.CaromError
    return {name: x for name, x in found.items() if not name.endswith("__version__")}


EXAMPLES = written()


def test_every_public_name_has_an_example():
    own = {name for name, x in public().items() if ">>>" in (inspect.getdoc(x) or "")}
    assert set(public()) - own == set(EXAMPLES)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_prints_what_it_says(name, tmp_path):
    if ".zarr" in EXAMPLES[name]:
        pytest.importorskip("zarr", reason="needs zarr (pip install 'carom[sweep]')")
    test = doctest.DocTestParser().get_doctest(EXAMPLES[name], {}, name, name, 0)
    said = []
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    with contextlib.chdir(tmp_path):
        failed, _ = doctest.DocTestRunner(optionflags=flags).run(test, out=said.append)
    assert not failed, "".join(said)
