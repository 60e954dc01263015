"""How things show themselves: one line as a value, a table in a notebook."""

import re
from html import escape


class Shown:
    """What has a summary as text shows its first line as a value, and all of it in a notebook."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {str(self).partition(chr(10))[0]}>"

    def _repr_html_(self) -> str:
        return summary_html(str(self))


def summary_html(text: str) -> str:
    """A summary as a heading and a table: name, value, and the remark in brackets."""
    first, *lines = text.splitlines()
    rows = []
    for line in lines:
        cells = re.split(r"\s{2,}", line.strip(), maxsplit=2)
        cells += [""] * (3 - len(cells))
        rows.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
    table = f"<table>{''.join(rows)}</table>" if rows else ""
    return f"<p><b>{escape(first)}</b></p>{table}"


def table_html(heading: str, head, rows) -> str:
    """A heading and a table with names of its columns."""

    def row(cells, tag):
        return "<tr>" + "".join(f"<{tag}>{escape(c)}</{tag}>" for c in cells) + "</tr>"

    body = "".join(row(cells, "td") for cells in rows)
    return f"<p><b>{escape(heading)}</b></p><table>{row(head, 'th')}{body}</table>"


def counted(number: int, what: str) -> str:
    """``1 step``, ``2 steps``."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def call_text(name: str, *given, **options) -> str:
    """``name(given, key=value, ...)`` of the options that are not None."""
    named = (f"{key}={value}" for key, value in options.items() if value is not None)
    return f"{name}({', '.join([*given, *named])})"


def function_text(function) -> str | None:
    """The name of a function, or the kind of what is called like one; None for None."""
    if function is None:
        return None
    return getattr(function, "__name__", type(function).__name__)


def number_text(value) -> str:
    """A number or a few, with four digits; of arrays that are not known, or large, the shape."""
    try:
        found = value.tolist() if hasattr(value, "tolist") else value
        if isinstance(found, list):
            if len(found) > 6 or not all(isinstance(x, int | float) for x in found):
                raise TypeError
            return f"[{', '.join(f'{x:.4g}' for x in found)}]"
        return f"{found:.4g}"
    except Exception:  # traced, or of another kind
        return f"array{tuple(getattr(value, 'shape', ()))}"
