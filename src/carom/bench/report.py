"""The report: one HTML file with its figures inside, nothing fetched."""

import html
import io
import json
import math
import os
import platform
from typing import Any

from carom.bench.problems import KINDS, TARGETS, TIED

# One colour and one mark for each method, in the order in which they enter.
_COLOURS = ("#1b6ca8", "#d1495b", "#2e8b57", "#8a4fbe", "#c77d0a", "#4a4a4a", "#008b8b")
_MARKS = ("o", "s", "^", "D", "v", "P", "X")
_WHAT = {
    "q": "largest error of q",
    "v": "mean error of v",
    "impulse": "error of the impulse",
    "energy": "error of the energy",
    "penetration": "largest penetration",
}


def write(results: Any, path: str | os.PathLike) -> None:
    """Write the report to ``path``."""
    text = _page(results)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _page(results):
    sections = [
        ("advice", "Which method?", _advice(results)),
        ("diagrams", "Work and precision", _diagrams(results)),
        ("orders", "Orders", _orders(results)),
        ("runs", "All runs", _runs(results)),
    ]
    tabs = "".join(
        f'<button role="tab" data-tab="{key}">{title}</button>' for key, title, _ in sections
    )
    bodies = "".join(
        f'<section id="{key}" role="tabpanel"><h2>{title}</h2>{body}</section>'
        for key, title, body in sections
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<link rel="icon" href="data:,">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>carom: benchmark</title><style>{_STYLE}</style></head><body>"
        "<header><h1>Mechanics with impacts: the benchmark</h1>"
        f"<p>{len(results.problems)} problems, {len(results.methods)} methods, "
        f"{len(results)} runs, on {html.escape(_machine())}. Times are CPU times of calls that are "
        "already compiled.</p></header>"
        f'<nav role="tablist">{tabs}</nav><main>{bodies}</main>'
        f"<script>{_SCRIPT}</script></body></html>"
    )


def _machine():
    return f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"


def _advice(results):
    """The recommendations, and how each follows from the runs."""
    found = results.recommendations()
    if not found:
        return "<p>No run reached any of the targets.</p>"
    rows = []
    for kind, words in KINDS.items():
        for advice in (a for a in found if a.kind == kind):
            rows.append([words, f"{advice.target:.0e}"])
            for verdict in (advice.counted, advice.timed):
                rows[-1] += _verdict(verdict)
            rows[-1].append(html.escape(", ".join(advice.unjudged)))
    head = ["problem", "error", "fewest evaluations", "in", "least CPU time", "in"]
    head.append("not run far enough to say")
    ties = " and ".join(f"{factor:g} times the least {what}" for what, factor in TIED.items())
    return (
        "<p>For each kind of problem and each error (of q, relative to the size of the motion), "
        "the methods that take the least work in most problems: evaluations of the force, which "
        "are counted, and CPU time beyond the fixed cost of a call, which is measured (nothing "
        f"below twice that cost is told apart). Methods within {ties} are tied, and stand in "
        "alphabetical order. Computed from the runs below."
        f"</p>{_table(head, rows)}<p>{html.escape(results.not_run())}</p>"
    )


def _verdict(verdict):
    if verdict is None:
        return ["", ""]
    names = " = ".join(f"<strong>{html.escape(m)}</strong>" for m in verdict.methods)
    return [names, f"{verdict.wins} of {verdict.problems}"]


def _diagrams(results):
    """A tab of figures for each problem."""
    choices = "".join(
        f'<option value="{k}">{html.escape(p)}</option>' for k, p in enumerate(results.problems)
    )
    figures = []
    for k, problem in enumerate(results.problems):
        figures.append(
            f'<figure class="problem" data-problem="{k}">{_figure(results, problem)}'
            f"<figcaption>{html.escape(problem)}: {_reached(results, problem)}</figcaption>"
            "</figure>"
        )
    return (
        f'<p><label>Problem <select id="problem">{choices}</select></label> '
        '<button id="previous">previous</button> <button id="next">next</button> '
        "Down and to the left is better.</p>" + "".join(figures)
    )


def _reached(results, problem):
    parts = []
    for target in TARGETS:
        race = results.best(problem, target)
        parts.append(f"{target:.0e} by {', '.join(race) if race else 'none'}")
    return html.escape("; ".join(parts))


def _figure(results, problem):
    """Errors against CPU time, as SVG."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure
    from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

    shown = [what for what in _WHAT if any(_known(r.get(what)) for r in results.ok(problem))]
    figure = Figure(figsize=(13.0, 7.6), layout="constrained")
    FigureCanvasSVG(figure)
    axes = figure.subplots(2, 3).ravel()  # room for five, and the legend
    for ax in axes[len(shown) :]:
        ax.axis("off")
    for ax, what in zip(axes, shown, strict=False):
        for k, method in enumerate(results.methods):
            rows = [r for r in results.ok(problem, method) if _known(r.get(what))]
            ax.loglog(
                [r["cpu"] * 1e3 for r in rows],
                [max(r[what], 1e-17) for r in rows],
                marker=_MARKS[k % len(_MARKS)],
                color=_COLOURS[k % len(_COLOURS)],
                markersize=5,
                linewidth=1.2,
                label=method,
            )
        ax.set_xlabel("CPU time [ms]")
        ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.xaxis.set_major_formatter(FormatStrFormatter("%g"))
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.set_title(_WHAT[what], fontsize=10)
        ax.grid(True, which="major", alpha=0.3)
    axes[-1].legend(*axes[0].get_legend_handles_labels(), loc="center", frameon=False)
    out = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none"}):  # text stays text
        figure.savefig(out, format="svg", metadata={"Date": None})
    text = out.getvalue()
    return text[text.index("<svg") :]


def _known(value):
    return value is not None and math.isfinite(value) and value > 0.0


def _orders(results):
    rows = []
    for order in results.orders():
        apart = order.q is not None and order.declared and order.q < order.declared - 0.15
        note = "errors at rounding" if order.q is None else ("below the declared" if apart else "")
        if order.q is not None and order.declared and order.q > order.declared + 0.4:
            note = "better than declared: nothing strikes here"
        rows.append(
            [
                html.escape(order.problem),
                html.escape(order.method),
                "" if order.declared is None else f"{order.declared:g}",
                "" if order.q is None else f"{order.q:.2f}",
                "" if order.v is None else f"{order.v:.2f}",
                note,
            ]
        )
    return (
        "<p>Slopes in the number of steps, or in the tolerance: medians over all pairs of sizes. "
        "Declared is what a method promises through impacts. "
        "Few sizes make a rough slope; docs/orders.md has those of 81 runs each.</p>"
        + _table(["problem", "method", "declared", "q", "v", ""], rows)
    )


def _runs(results):
    head = ["problem", "method", "size", "q", "v", "impulse", "impact time", "energy"]
    head += ["penetration", "certificate", "steps", "evaluations", "CPU [ms]", "fixed [ms]"]
    head += ["wall [ms]", "ns/step", "status"]
    rows = []
    for row in results.rows:
        cells = [html.escape(row["problem"]), html.escape(row["method"])]
        cells.append(f"{row['size_is']} {row['size']:g}")
        for what in ("q", "v", "impulse", "impact_time", "energy", "penetration"):
            cells.append(_number(row.get(what)))
        cells.append({True: "accepted", False: "refused", None: ""}[row.get("certified")])
        cells += [str(row.get("steps", "")), str(row.get("evaluations") or "")]
        cells += [_milli(row.get(what)) for what in ("cpu", "fixed", "wall")]
        cells.append(_number(row.get("ns_per_step")))
        cells.append("" if row["status"] == "ok" else html.escape(row["status"]))
        rows.append(cells)
    data = html.escape(json.dumps(results.rows))
    return (
        '<p><label>Show <input id="filter" placeholder="a problem or a method"></label> '
        f'<a id="data" download="carom-bench.json" data-rows="{data}" href="#">the numbers</a></p>'
        + _table(head, rows)
    )


def _number(value):
    if value is None:
        return ""
    return f"{value:.1e}"


def _milli(value):
    return "" if value is None else f"{value * 1e3:.2f}"


def _table(head, rows):
    top = "".join(f"<th>{cell}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{c}</td>" for c in row) + "</tr>" for row in rows)
    return (
        f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'
    )


_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 1400px; padding: 1rem 2rem;
  color: #222; background: #fff }
h1 { font-size: 1.5rem; margin-bottom: 0 }
nav { border-bottom: 1px solid #ccc; margin: 1rem 0 }
nav button { border: 0; background: none; font: inherit; padding: .5rem 1rem; cursor: pointer }
nav button[aria-selected=true] { border-bottom: 3px solid #1b6ca8; font-weight: 600 }
section, figure.problem { display: none }
section.shown, figure.shown { display: block }
figure { margin: 0 } figure svg { max-width: 100%; height: auto }
.wide { overflow-x: auto; max-height: 75vh }
table { border-collapse: collapse; font-size: 13px }
th, td { padding: .25rem .6rem; text-align: left; border-bottom: 1px solid #eee;
  white-space: nowrap }
th { position: sticky; top: 0; background: #f6f6f6 }
figcaption { color: #555 }
"""

_SCRIPT = """
const all = s => [...document.querySelectorAll(s)];
function show(tab) {
  all('section').forEach(x => x.classList.toggle('shown', x.id === tab));
  all('nav button').forEach(x => x.setAttribute('aria-selected', x.dataset.tab === tab));
}
all('nav button').forEach(x => x.addEventListener('click', () => show(x.dataset.tab)));
const choice = document.getElementById('problem');
function figure() {
  all('figure.problem').forEach(x =>
    x.classList.toggle('shown', x.dataset.problem === choice.value));
}
function turn(by) {
  const n = choice.options.length;
  if (n) choice.selectedIndex = (choice.selectedIndex + by + n) % n;
  figure();
}
choice.addEventListener('change', figure);
document.getElementById('previous').addEventListener('click', () => turn(-1));
document.getElementById('next').addEventListener('click', () => turn(1));
document.getElementById('filter').addEventListener('input', event => {
  const words = event.target.value.toLowerCase();
  all('#runs tbody tr').forEach(r =>
    r.style.display = r.textContent.toLowerCase().includes(words) ? '' : 'none');
});
const data = document.getElementById('data');
data.addEventListener('click', () => {
  data.href = URL.createObjectURL(new Blob([data.dataset.rows], {type: 'application/json'}));
});
show('advice'); figure();
"""
