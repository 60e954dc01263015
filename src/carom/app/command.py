"""The command ``carom``."""

import math
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="""Mechanics with impacts, from a file to a picture.

    \b
    carom new motion.py                   write a file to start from
    carom models                          which problems are ready
    carom run motion.py --plot            run what a file describes, and draw it
    carom run --resume settling.vtkhdf    go on with a run that was stopped
    carom info settling.vtkhdf            what a result is
    carom certify settling.vtkhdf         whether it is a solution
    carom plot settling.vtkhdf            a picture of it
    carom view settling.vtkhdf            look at it in a browser
    carom lab impact_oscillator           sliders, sections, bifurcation diagrams
    """,
)
_CODES = {"a solution": 0, "NOT a solution": 3, "too coarse to tell": 5, "not fully checked": 6}
_CERTIFIED = 20_000_000  # spheres or coordinates times records: larger runs are not certified


def _version(asked: bool):
    if asked:
        from importlib.metadata import version

        typer.echo(f"carom {version('carom')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which it is.")
    ] = False,
):
    pass


@app.command()
def new(
    file: Annotated[Path, typer.Argument(help="To write: .py (own equations), .toml (spheres).")],
    like: Annotated[str | None, typer.Option(help="Begin with this example instead.")] = None,
):
    """Write a commented file to start from, which `carom run` runs.

    Example: carom new motion.py, then carom run motion.py

    Examples to begin with (--like NAME): bouncing_ball.toml, settling.toml, spheres_drum.py, ...
    """
    from carom.app import starts
    from carom.errors import RecordError

    text = starts.text(file, like)
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError:
        raise RecordError(f"{str(file)!r} is there already: choose another name") from None
    except OSError as problem:
        raise RecordError(f"cannot write {str(file)!r}: {problem.strerror}") from None
    typer.echo(f"written: {file}; run it with: carom run {file}")


@app.command()
def models(
    name: Annotated[str | None, typer.Argument(help="One of them: its parameters.")] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Draw its exact motion to this file.")
    ] = None,
):
    """List the ready problems of carom.models, or show one: what it is, and its parameters."""
    import carom
    from carom.app import runfile

    names = carom.models.catalogue()
    if name is None:
        width = max(map(len, names))
        for name, line in names.items():
            typer.echo(f"{name:{width}}  {line}")
        return
    typer.echo(runfile.model_text(name))
    if picture is not None:
        _draw_model(name, picture)


def _draw_model(name, path):
    """The exact motion of a model, or its spheres, to a file."""
    import matplotlib

    import carom

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import numpy as np

    made = getattr(carom.models, name)()
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    if isinstance(made, carom.models.Problem):
        t = np.linspace(made.t0, made.t1, 2000)
        axes.plot(t, made.exact(t)[0])
        axes.set(xlabel="t", ylabel="q", title=name)
    else:
        now = carom.solve(made.system, carom.Maury(), t1=made.dt, dt=made.dt)
        now.plot(axes, 0)
        axes.set(title=f"{name}, at the start")
    _save(figure, path)


def _save(figure, path):
    from carom.errors import RecordError

    try:
        figure.savefig(path, dpi=200)
    except (OSError, ValueError) as problem:
        raise RecordError(f"cannot write {str(path)!r}: {problem}") from None
    typer.echo(f"written: {path}")


@app.command()
def schemes():
    """List the methods, one line each."""
    from carom.schemes.named import SCHEMES

    for name, scheme in SCHEMES.items():
        line = (scheme.__doc__ or "").partition("\n")[0]
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
    beside: Annotated[
        list[Path] | None,
        typer.Option(help="Results measured elsewhere (.jsonl) to show too (may be repeated)."),
    ] = None,
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
    for other in beside or ():
        results = results.beside(other)
    report = path.with_suffix(".html")
    results.report(report)
    typer.echo(f"\n{results.table()}\n\nresults in {path}, report in {report}")


def _first_line(problem) -> str:
    return " ".join(str(problem).split()) or type(problem).__name__


@app.command()
def run(
    file: Annotated[Path | None, typer.Argument(help="The run: TOML, or Python.")] = None,
    dt: Annotated[float | None, typer.Option(help="Step [s].")] = None,
    t1: Annotated[float | None, typer.Option(help="End [s].")] = None,
    scheme: Annotated[str | None, typer.Option(help="Such as Maury, 'Penalty(lam=1e-5)'.")] = None,
    out: Annotated[Path | None, typer.Option(help="Result: .nc, or .vtkhdf for spheres.")] = None,
    every: Annotated[int | None, typer.Option(help="Steps between records.")] = None,
    resume: Annotated[
        Path | None, typer.Option(help="Go on with the run that made this file.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", "--overwrite", help="Write over a result that is there.")
    ] = False,
    plot: Annotated[
        bool, typer.Option("--plot", help="Draw it too: a .png beside the result.")
    ] = False,
):
    """Run what FILE describes; ends with the certificate and the file written.

    Example: carom run examples/bouncing_ball.toml --dt 1e-4

    FILE is TOML with the keys model or spheres, scheme, dt, t1, out, [parameters], [[walls]],
    [record] (see examples/*.toml and docs/command.md), or Python that defines problem.
    A run that was stopped in any way goes on with: carom run --resume RESULT
    A result that is there is not written over without --force.

    Exit codes: 0 done, and nothing wrong; 1 the run had to stop (its records are kept); 2 a mistake
    in the input; 3 the result is not a solution; 4 a file cannot be read or written; 5 dt is too
    coarse to tell; 130 interrupted.
    """
    from carom.app import runfile
    from carom.run.progress import Progress
    from carom.shown import counted

    ended = ""
    if (file is None) == (resume is None):
        raise typer.BadParameter("give a FILE, or --resume with the file of a run to go on with")
    if resume is not None:
        if force or any(option is not None for option in (dt, t1, scheme, out, every)):
            raise typer.BadParameter("--resume goes on as the run began: leave the options out")
        plan, ended = _resumed(resume)
    else:
        plan = runfile.read(file, scheme=scheme, dt=dt, t1=t1, out=out, every=every)
    plan.record(resume=resume is not None, force=force).check_path()
    steps = max(1, math.ceil((plan.t1 - plan.t0) / plan.dt * (1 - 1e-12)))
    typer.echo(f"{_what(plan)}: {counted(steps, 'step')} to t = {plan.t1:g}")
    if ended:
        typer.echo(
            f"the run ended already ({ended}): nothing is left to do, {resume} stays as it is"
        )
    elif waits := plan.system.waits():
        typer.echo(waits)
    try:
        with Progress(steps).shown() as progress:
            sol = plan.solve(resume=resume is not None, force=force, progress=progress, throw=False)
    except KeyboardInterrupt:
        typer.echo(f"\ninterrupted{_how_to_go_on(plan)}", err=True)
        raise typer.Exit(130) from None
    large = len(sol) * _numbers(plan) > _CERTIFIED
    if large:
        typer.echo(f"\nnot summed up and certified, for its size; see: carom certify {plan.out}")
    else:
        typer.echo(f"\n{sol}")
    verdict = None if large else _certificate(plan, sol)
    size = plan.out.stat().st_size
    done = "as it was" if ended else "written"
    typer.echo(f"\n{done}: {plan.out} ({size / 1e6:.3g} MB, {len(sol.t)} records)")
    if plot:
        options = {} if plan.out.suffix == ".vtkhdf" else {"system": plan.system}
        _save(_figure(sol, **options), plan.out.with_suffix(".png"))
    raise typer.Exit(_left_with(verdict) if sol.ok else 1)


def _left_with(verdict) -> int:
    """The exit code of a run that reached its end: of its certificate, but for what is open."""
    code = 0 if verdict is None else _CODES[verdict]
    if code == _CODES["not fully checked"]:
        typer.echo("not fully checked, and nothing wrong was found: exit code 0 (carom certify: 6)")
        return 0
    if code:
        typer.echo(f"{verdict}: exit code {code}, as of carom certify")
    return code


def _figure(sol, **options):
    """Of a result, drawn without a screen."""
    import matplotlib

    matplotlib.use("Agg")
    import numpy as np

    return np.ravel(sol.plot(**options))[0].figure


def _what(plan) -> str:
    from carom.results.solution import scheme_text

    return f"{scheme_text(plan.scheme)} on {getattr(plan.problem, 'name', plan.problem)}"


def _resumed(path):
    """The run that made a file, and how it ended, or nothing."""
    from carom.app import runfile
    from carom.io import netcdf
    from carom.io.recorded import Reader
    from carom.io.recording import check_result
    from carom.status import name_of

    check_result(path)
    if path.suffix == ".vtkhdf":
        with Reader(path, empty=True) as found:
            description, status = found.description, found.status
    else:
        with netcdf.open_file(path) as h5:
            description, status = netcdf.description_of(h5), netcdf.status_of(h5)
    ended = name_of(status)
    return runfile.from_description(description, path), "" if ended == "unfinished" else ended


def _how_to_go_on(plan):
    if plan.out.exists():
        return f"; go on with: carom run --resume {plan.out}"
    return "; nothing was written"


def _numbers(plan) -> int:
    """Spheres or coordinates."""
    return len(plan.system.initial(plan.q0, plan.v0)[0])


def _certificate(plan, sol):
    """Print the certificate; its verdict."""
    import carom

    try:
        found = carom.certify(sol, q0=plan.q0, v0=plan.v0)
    except carom.errors.KindError as unknown:  # a law of one's own: a run all the same
        typer.echo(f"\nnot certified: {unknown}")
        return None
    typer.echo(f"\n{found}")
    return found.verdict


def _loaded(path, problem=None):
    """A saved result with the problem it is of: from a run file, or from what it says of itself."""
    import carom
    from carom.app import runfile
    from carom.io.recorded import Reader

    plan = None if problem is None else runfile.read(problem)
    if path.suffix == ".vtkhdf":
        with Reader(path) as found:
            if plan is None and found.functions:
                plan = runfile.from_description(found.description, path)
        found: Any = carom.load(path, pile=None if plan is None else plan.system)
        return found, plan
    from carom.io import netcdf

    sol: Any = carom.load(path)
    if plan is None and netcdf.is_recording(path):
        with netcdf.open_file(path) as h5:
            if description := netcdf.description_of(h5):
                plan = runfile.from_description(description, path)
    return sol, plan


@app.command()
def info(file: Annotated[Path, typer.Argument(help="A result (.nc, .vtkhdf), or a run file.")]):
    """Say what is in FILE: how a run ended, how to go on with it, or what a run file will do."""
    from carom.app import runfile
    from carom.shown import counted

    if file.suffix in (".toml", ".py"):
        plan = runfile.read(file)
        steps = math.ceil((plan.t1 - plan.t0) / plan.dt * (1 - 1e-12))
        typer.echo(f"{_what(plan)}, {counted(steps, 'step')} of {plan.dt:g} s")
        typer.echo(f"from t = {plan.t0:g} to {plan.t1:g} s, result in {plan.out}")
        return
    if file.suffix == ".vtkhdf":
        _info_of_spheres(file)
        return
    _info_of_system(file)


def _info_of_system(file):
    from carom.shown import counted

    sol, _ = _loaded(file)
    typer.echo(str(sol))
    typer.echo(f"  records                 {len(sol)}, {file.stat().st_size / 1e6:.3g} MB")
    if not getattr(sol, "finished", True):
        left = sol.settings["steps"]
        typer.echo(
            f"not finished, of {counted(left, 'step')}; go on with: carom run --resume {file}"
        )


def _info_of_spheres(file):
    from carom.io.recorded import Reader
    from carom.status import text_of

    with Reader(file) as found:
        rows, settings = found.frames, found.settings
        last = rows[-1]
        typer.echo(
            f"{found.N} spheres in {found.dimension} dimensions, moved by {settings['scheme']}\n"
            f"  step {last['step']} of {settings['steps']} of {settings['dt']:.4g} s, "
            f"t = {rows['t'][0]:g} to {last['t']:g} s\n"
            f"  {found.count} records, {file.stat().st_size / 1e6:.3g} MB\n"
            f"  contacts at the end     {last['contacts']}\n"
            f"  largest overlap         {rows['overlap'].max():.3g} m"
        )
        if not found.finished:
            typer.echo(f"not finished; go on with: carom run --resume {file}")
        else:
            typer.echo(f"ended: {text_of(found.status)}")


@app.command()
def certify(
    file: Annotated[Path, typer.Argument(help="A result: .nc or .vtkhdf.")],
    problem: Annotated[
        Path | None, typer.Option(help="The run file, where the result does not hold it.")
    ] = None,
):
    """Check a saved result against the definition of a solution.

    Exit codes: 0 a solution; 2 a mistake in the input; 3 not a solution; 4 the file cannot be read;
    5 too coarse to tell; 6 not fully checked, for clauses that these records leave open.
    """
    import carom

    sol, plan = _loaded(file, problem)
    if file.suffix == ".vtkhdf":
        found = carom.certify(sol)
    elif plan is None:
        raise carom.errors.RecordError(
            f"{str(file)!r} does not say which problem it is of: give --problem RUN.toml"
        )
    else:
        found = carom.certify(sol, plan.system, q0=plan.q0, v0=plan.v0)
    typer.echo(str(found))
    raise typer.Exit(_CODES[found.verdict])


@app.command()
def plot(
    file: Annotated[Path, typer.Argument(help="A result: .nc or .vtkhdf.")],
    out: Annotated[
        Path | None, typer.Option(help="Picture (.png, .pdf, .svg); moving: .gif, .mp4, .html.")
    ] = None,
    kind: Annotated[
        str | None, typer.Option(help="Systems: time (default), phase, energy.")
    ] = None,
    record: Annotated[int, typer.Option(help="Which record of spheres; -1 is the last.")] = -1,
    forces: Annotated[bool, typer.Option(help="Spheres: draw the contact forces.")] = False,
):
    """Draw a result: motion and impulses against time, phase plane, energy, or spheres.

    Example: carom plot ball.nc --kind phase --out ball.pdf

    With an OUT that ends in .gif, .mp4 or .html: a moving picture.
    """
    import matplotlib

    matplotlib.use("Agg")

    from carom.pictures.plot import KINDS

    if kind is not None and kind not in KINDS:
        raise typer.BadParameter(f"--kind {kind}: it must be one of {', '.join(KINDS)}")
    sol, plan = _loaded(file)
    spheres = file.suffix == ".vtkhdf"
    if spheres and kind is not None:
        raise typer.BadParameter(
            f"--kind {kind}: {file} holds spheres, which have no kinds; leave it out"
        )
    if forces and not spheres:
        raise typer.BadParameter(
            f"--forces: {file} holds a system, not spheres; its forces are drawn without it"
        )
    if out is not None and out.suffix in (".gif", ".mp4", ".html"):
        from carom.pictures.animate import animate_solution, animate_spheres

        if spheres:
            animate_spheres(sol, out, forces=forces)
        else:
            animate_solution(sol, out, system=_system(plan))
        typer.echo(f"written: {out}")
        return
    if spheres:
        if not -len(sol) <= record < len(sol):
            raise typer.BadParameter(f"--record {record}: there are {len(sol)} records")
        figure = _figure(sol, record=record, forces=forces)
    else:
        options = {} if kind == "phase" else {"system": _system(plan)}
        figure = _figure(sol, kind=kind or "time", **options)
    ending = "" if kind in (None, "time") else f"-{kind}"
    out = file.with_name(f"{file.stem}{ending}.png") if out is None else out
    _save(figure, out)


def _system(plan):
    return None if plan is None else plan.system


@app.command()
def view(
    file: Annotated[Path, typer.Argument(help="A result: .nc, or .vtkhdf of spheres.")],
    export: Annotated[Path | None, typer.Option(help="Write one HTML file instead.")] = None,
    records: Annotated[int, typer.Option(help="The most records to show.")] = 200,
    port: Annotated[int, typer.Option(help="0: any that is free.")] = 0,
    browser: Annotated[bool, typer.Option(help="Open a browser.")] = True,
):
    """Look at a result in a browser; works offline.

    Spheres: play, turn, cut, follow.  Systems: the mechanism where the problem says how it looks,
    phase plane, and positions, velocities, gaps and impulses on one time line.

    The page is served to this machine alone (127.0.0.1), until Ctrl-C.
    """
    from carom.pictures.loopback import serve_page

    html = _page(file, records)
    if export is not None:
        try:
            export.write_text(html, encoding="utf-8")
        except OSError as problem:
            from carom.errors import RecordError

            raise RecordError(f"cannot write {str(export)!r}: {problem.strerror}") from None
        typer.echo(f"written: {export} ({len(html) / 1e6:.3g} MB)")
        return
    serve_page(html, port, browser, typer.echo)


def _page(file, records) -> str:
    """Of a result, or an error that says what can be done with the file."""
    from carom.app import runfile
    from carom.io.recording import check_result

    check_result(file)
    if file.suffix == ".vtkhdf":
        from carom.io.recorded import Reader
        from carom.pictures.view import page

        with Reader(file) as found:
            if not found.functions:
                return page(found, records, found.pile())
            moved = found.description
            plan = runfile.from_description(moved, file) if moved else None
            return page(found, records, None if plan is None else plan.system)
    from carom.pictures.systems import system_page

    sol, plan = _loaded(file)
    looks = None if plan is None else getattr(plan.problem, "looks", None)
    return system_page(sol, looks, file.name)


@app.command()
def lab(
    subject: Annotated[
        str | None, typer.Argument(help="A model (carom models), or a Python file of your own.")
    ] = None,
    port: Annotated[int, typer.Option(help="0: any that is free.")] = 0,
    browser: Annotated[bool, typer.Option(help="Open a browser.")] = True,
):
    """A laboratory in the browser: sliders, motion, phase plane, sections, bifurcation diagrams.

    Example: carom lab impact_oscillator

    It is served to this machine alone (127.0.0.1) and computes here, until Ctrl-C.
    """
    from carom.app.lab import serve

    serve(subject, port, browser, typer.echo)


def main() -> None:
    """Run the command; what goes wrong is one line, not a traceback (CAROM_TRACEBACK=1 shows it).

    Exit codes: 0 done; 1 a run had to stop; 2 a mistake in the input; 3 not a solution; 4 a file
    cannot be read or written; 5 too coarse to tell; 6 not fully checked; 70 an error inside carom;
    130 interrupted.
    """
    from carom.errors import CaromError, RecordError, RunError

    try:
        app()
    except CaromError as problem:
        code = 4 if isinstance(problem, RecordError) else 1 if isinstance(problem, RunError) else 2
        _leave(problem, str(problem), code)
    except KeyboardInterrupt:
        _leave(None, "interrupted", 130)
    except Exception as problem:
        kind = type(problem).__name__
        where = " ".join(sys.argv[1:])
        _leave(problem, f"{kind} while doing `{where}`: {_first_line(problem)}", 70)


def _leave(problem, text, code):
    if problem is not None and os.environ.get("CAROM_TRACEBACK"):
        raise problem
    typer.echo(f"carom: {text}", err=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
