"""The command ``carom``."""

import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Mechanics with impacts: run the benchmark, list the models and the schemes.",
)


@app.command()
def models():
    """List the ready problems of carom.models, one line each."""
    import carom

    names = carom.models.catalogue()
    width = max(map(len, names))
    for name, line in names.items():
        typer.echo(f"{name:{width}}  {line}")


@app.command()
def schemes():
    """List the five methods, one line each."""
    import carom

    for name in ("Moreau", "Maury", "PaoliSchatzman", "Penalty", "EventDriven"):
        line = (getattr(carom, name).__doc__ or "").partition("\n")[0]
        typer.echo(f"{name:14}  {line}")


@app.command()
def bench(
    quick: Annotated[
        bool, typer.Option(help="A few problems and sizes: under two minutes.")
    ] = False,
    problem: Annotated[
        list[str] | None, typer.Option(help="Only this problem (may be repeated).")
    ] = None,
    method: Annotated[
        list[str] | None, typer.Option(help="Only this method (may be repeated).")
    ] = None,
    outside: Annotated[
        bool, typer.Option(help="SciPy and Siconos too, where they are installed.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder of the results and the report.")] = Path("out"),
    fresh: Annotated[
        bool, typer.Option(help="Forget earlier results; otherwise the run goes on from them.")
    ] = False,
):
    """Problems x methods x sizes: work against precision, a table and an HTML report."""
    import carom.bench
    from carom.bench.outside import scipy_events, siconos, siconos_python

    out.mkdir(parents=True, exist_ok=True)
    path = out / ("bench-quick.jsonl" if quick else "bench.jsonl")
    if fresh:
        path.unlink(missing_ok=True)
    entering: list = list(method or carom.bench.METHODS)
    if outside:
        entering.append(scipy_events())
        if siconos_python() is not None:
            entering.append(siconos())
    results = carom.bench.run(problem, entering, quick=quick, path=path, progress=True)
    report = path.with_suffix(".html")
    results.report(report)
    typer.echo(f"\n{results.table()}\n\nresults in {path}, report in {report}")


def main() -> None:
    """Run the command; what a user did wrong is one line, not a traceback."""
    from carom.errors import CaromError

    try:
        app()
    except CaromError as problem:
        typer.echo(f"carom: {problem}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
