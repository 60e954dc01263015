"""Every public name has an example, which prints what it says, and says what it takes."""

import contextlib
import doctest
import functools
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


def text_of(x) -> str:
    init = x.__init__.__doc__ if inspect.isclass(x) else None
    return f"{inspect.getdoc(x) or ''}\n\n{init or ''}"


def listed(x) -> set[str]:
    """The parameters that have an entry under Parameters."""
    found = re.search(r"^Parameters\n-+\n(.*?)(?=\n\n|\Z)", text_of(x), re.MULTILINE | re.DOTALL)
    heads = re.findall(r"^\S.*$", found[1], re.MULTILINE) if found else []
    return set(re.findall(r"\w+", " ".join(heads)))


def commented(x) -> set[str]:
    """The fields of a class with a comment: the reference shows it."""
    own = [c for c in inspect.getmro(x) if c.__module__.startswith("carom")]
    fields = [re.findall(r"^    (\w+): .*  # \S", inspect.getsource(c), re.MULTILINE) for c in own]
    return {name for found in fields for name in found}


def unsaid(x) -> set[str]:
    """Parameters that neither Parameters, nor a field's comment, nor ``code`` speaks of."""
    try:
        takes = set(inspect.signature(x).parameters)
    except (TypeError, ValueError):  # a table, or an exception as Python has it
        return set()
    quoted = re.findall(r"``(.+?)``", text_of(x), re.DOTALL)
    fields = commented(x) if inspect.isclass(x) else set()
    return takes - listed(x) - fields - set(re.findall(r"\w+", " ".join(quoted)))


NAMES = public()


def test_every_public_name_says_what_it_takes():
    assert {name: unsaid(x) for name, x in NAMES.items() if unsaid(x)} == {}
    made = {name: x for name, x in NAMES.items() if callable(x)}
    empty = [n for n, x in made.items() if not x.__doc__ or x.__doc__.startswith(f"{x.__name__}(")]
    assert empty == []


def test_every_model_lists_its_parameters():
    for name in carom.models.catalogue():
        model = getattr(carom.models, name)
        assert listed(model) == set(inspect.signature(model).parameters), name


def test_no_property_begins_with_a_type():
    """Sphinx takes what stands before a colon in the first line of a property for its type."""
    classes = {name: x for name, x in NAMES.items() if inspect.isclass(x)}
    kinds = (property, functools.cached_property)
    owned = [(f"{n}.{k}", inspect.getattr_static(x, k)) for n, x in classes.items() for k in dir(x)]
    first = {n: (inspect.getdoc(f) or "").partition("\n")[0] for n, f in owned if type(f) in kinds}
    assert [name for name, line in first.items() if ": " in line] == []


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
