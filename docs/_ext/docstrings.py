"""Docstrings as they are written in carom, for the reference.

Equations are indented blocks, which become literal ones; | is a bar of a norm.  The comment behind
a field, its shape and unit, becomes the text of that field.  Examples (``>>>``), those of
api/examples.txt too, are run; one that fails fails the build, and so does a public name that has
no place in the reference.
"""

import contextlib
import doctest
import inspect
import io
import re
import tempfile
from pathlib import Path

from pygments.lexers.special import TextLexer
from sphinx.errors import ExtensionError

_FIELD = re.compile(r"^    (?:    self\.)?(\w+)(?:: [^=#]+)?(?: = [^#]*)?  # (.+)$")
_RUN: set[str] = set()


def setup(app):
    app.add_lexer("table", TextLexer)  # certificates in the guide
    app.connect("autodoc-process-docstring", literal, priority=100)
    app.connect("autodoc-process-docstring", fields, priority=110)
    app.connect("autodoc-process-docstring", beside, priority=115)
    app.connect("autodoc-process-docstring", examples, priority=120)
    app.connect("env-check-consistency", complete)
    return {"parallel_read_safe": False}


def literal(app, what, name, obj, options, lines):
    """An indented block after an empty line, and not below a heading, is an equation or a table."""
    out, inside = [], False
    for k, line in enumerate(lines):
        indented = line.startswith("    ")
        if inside and line and not indented:
            inside = False
        if indented and not inside and (k == 0 or not lines[k - 1]):
            out += [".. code-block:: text", ""]  # primes are no strings
            inside = True
        out.append(line if inside else barred(line))
    lines[:] = out


def barred(line):
    """With every | outside of double backticks as it stands."""
    parts = line.split("``")
    parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
    return "``".join(parts)


def fields(app, what, name, obj, options, lines):
    """The fields of a class that have a comment, as its attributes."""
    if what != "class":
        return
    found = {}
    for cls in reversed(inspect.getmro(obj)):
        if cls.__module__.startswith("carom"):
            with contextlib.suppress(OSError, TypeError):
                found.update(commented(inspect.getsource(cls)))
    if found and "Attributes" not in lines:
        lines += ["", "Attributes", "----------"]
        for field, text in found.items():
            lines += [field, f"    {barred(text)}"]


def commented(source):
    """Name and comment of each public field."""
    found = (_FIELD.match(line) for line in source.splitlines() if "ClassVar" not in line)
    return {m[1]: m[2] for m in found if m and not m[1].startswith("_") and m[1] not in _KEYWORDS}


_KEYWORDS = {"return", "raise", "if", "else", "elif", "for", "while", "with"}


_WRITTEN = (Path(__file__).parents[1] / "api" / "examples.txt").read_text(encoding="utf-8")
_BESIDE = dict(re.findall(r"(?ms)^\[([\w.]+)\]\n(.*?)(?=^\[carom|\Z)", _WRITTEN))


def beside(app, what, name, obj, options, lines):
    """The example of a name whose docstring has none, from api/examples.txt."""
    if name in _BESIDE and ">>>" not in "\n".join(lines):
        lines += ["", "Examples", "--------", *_BESIDE[name].rstrip().splitlines(), ""]


def examples(app, what, name, obj, options, lines):
    """Run what is written after >>>, once, in a folder of its own."""
    text = "\n".join(lines)
    if ">>>" not in text or name in _RUN:
        return
    _RUN.add(name)
    test = doctest.DocTestParser().get_doctest(text, {}, name, name, 0)
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    said = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        failed, _ = doctest.DocTestRunner(optionflags=flags).run(test, out=said.write)
    if failed:
        raise ExtensionError(f"the example of {name} fails:\n{said.getvalue()}")


def complete(app, env):
    """Every public name has its entry."""
    import carom

    known = {name.rpartition(".")[2] for name in env.domains["py"].objects}
    rooms = [carom, carom.spheres, carom.study, carom.models, carom.fclib, carom.bench]
    public = {name for room in rooms for name in room.__all__}
    public |= {name for name, value in vars(carom.errors).items() if inspect.isclass(value)}
    missing = sorted(public - known - {"bench", "errors", "fclib", "models", "spheres", "study"})
    if missing:
        raise ExtensionError(f"not in the reference (docs/api): {', '.join(missing)}")
