"""How results look in a notebook."""

import re
from html import escape


def summary_html(text: str) -> str:
    """A summary as a heading and a table: name, value, and the remark in brackets."""
    first, *lines = text.splitlines()
    rows = []
    for line in lines:
        name, _, rest = line.strip().partition("  ")
        value, _, remark = re.sub(r"\s{2,}", "\t", rest.strip()).partition("\t")
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in (name, value, remark))
        rows.append(f"<tr>{cells}</tr>")
    table = f"<table>{''.join(rows)}</table>" if rows else ""
    return f"<p><b>{escape(first)}</b></p>{table}"
