"""What ``solve`` hands back."""

import itertools
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, overload

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from carom.arguments import absent
from carom.errors import RecordError, TimeError
from carom.fields import MOTION, Field, attributes, axes_of
from carom.results.impacts import COLUMNS, ImpactLog, resting
from carom.schemes.named import scheme_or_text
from carom.shown import Shown, counted
from carom.status import Status, is_ok, name_of, text_of

if TYPE_CHECKING:
    from carom.worlds.spheres.model import Spheres
    from carom.worlds.spheres.solution import SpheresSolution


class Stats(eqx.Module):
    """What was done."""

    steps: Any  # () int, steps that succeeded
    residual: Any  # () worst measured residual of a projection or fixed point, relative
    iterations: Any  # () int, of projections and fixed points, in all
    contraction: Any  # () largest measured contraction factor of a fixed point
    penetration: Any  # () largest overlap inside a step (Penalty), where the records may miss it
    fallbacks: Any  # () int, accumulations taken for rest, and Painleve's cases (EventDriven)
    unlisted: Any = 0  # () int, impacts that ``events`` has no room for (EventDriven)

    @staticmethod
    def start(impact) -> "Stats":
        """Before the first step, after the impact at t0."""
        zero, none = jnp.zeros(()), jnp.array(0)
        return Stats(none, impact.residual, impact.iterations, zero, zero, none, none)

    def after(self, report, good) -> "Stats":
        """With one more step."""
        worst = jnp.maximum(self.residual, report.residual)
        unlisted = 0
        if report.struck is not None:
            unlisted = jnp.maximum(jnp.sum(report.struck) - report.events.shape[0], 0)
        return Stats(
            steps=self.steps + good,
            residual=jnp.where(good, worst, self.residual),
            iterations=self.iterations + report.iterations,
            contraction=jnp.maximum(self.contraction, report.contraction),
            penetration=jnp.maximum(self.penetration, report.penetration),
            fallbacks=self.fallbacks + report.fallbacks,
            unlisted=self.unlisted + unlisted,
        )


class End(eqx.Module):
    """Where a run stopped, with all that its scheme remembers: what ``start=`` goes on from."""

    t0: Any  # () of the run, or of the one that it went on from with the same dt
    step: Any  # () int, steps since t0
    dt: Any  # ()
    q: Any  # (d,)
    v: Any  # (d,)
    memory: list  # of arrays, what the scheme carries beside


@dataclass(frozen=True, eq=False)
class Origin:
    """Where a solution came from: kept beside the arrays, compared by identity."""

    scheme: Any  # the scheme, or its text in a loaded file
    system: Any = None  # None inside jit or vmap, and in a loaded file
    impacts: np.ndarray | None = None  # the table, when it was collected during the run
    glued: np.ndarray | None = None  # (p,) gamma at the first record, of a run that goes on


_NETCDF = ("", ".nc", ".nc4", ".cdf", ".h5", ".hdf5")  # endings that say so, or nothing else
_TABLES = "pandas.DataFrame(sol.q, index=sol.t), pandas.DataFrame(sol.impacts) or sol.to_xarray()"
ELSEWHERE = {  # what other packages, and the solution of Spheres, call it
    "x": "sol.q, the position",
    "y": "sol.q and sol.v",
    "contacts": "sol.gap, sol.impulse and sol.impacts",
    "success": "sol.ok",
    "message": "carom.Status[sol.status]",
    "to_pandas": _TABLES,
    "to_dataframe": _TABLES,
}


class Motion(Shown):
    """What can be asked of a motion, wherever its arrays are: here, or netcdf.RecordedSolution."""

    t: Any
    q: Any
    v: Any
    gap: Any
    impulse: Any
    joint_impulse: Any
    friction: Any
    velocity_before: Any
    velocity_after: Any
    events: Any
    stats: Any
    status: Any
    dt: Any
    end: Any
    origin: Any
    certified_by: ClassVar[str | None] = None  # what knows its clauses; None: those of a System

    if not TYPE_CHECKING:  # where types are checked, what is not there is known

        def __getattr__(self, name):
            raise absent(self, name, ELSEWHERE)

    @property
    def scheme(self):
        """The scheme that made it."""
        return self.origin.scheme

    @property
    def system(self):
        """The System it is a motion of; None after jit, vmap or load."""
        return self.origin.system

    @property
    def ok(self) -> bool:
        """Whether every run reached its end."""
        return is_ok(self.status)

    @property
    def impacts(self) -> np.recarray:
        """The impacts, with time, constraint, velocity_before, velocity_after, impulse and step.

        ``sol.impacts.time`` and ``sol.impacts["time"]`` are the same column.
        """
        if self.origin.impacts is not None:
            return self.origin.impacts.view(np.recarray)
        self._need_single("impacts")
        t, index = np.asarray(self.t), np.rint((self.t - self.t[0]) / self.dt).astype(int)
        if not getattr(self.scheme, "rigid", True):
            raise RecordError(
                "contacts with a yielding wall last, so there is no table of instants: look at "
                "sol.impulse, or use another scheme"
            )
        if self.velocity_before is None:
            raise RecordError(
                "the impacts were not recorded: use Record(), or Record(every=k, impacts=True)"
            )
        gap, after, v = (np.asarray(a[0]) for a in (self.gap, self.velocity_after, self.v))
        log = ImpactLog(self.impulse.shape[1], resting(gap, after, v))
        log.feed(
            index,
            t,
            *(np.asarray(a) for a in (self.impulse, self.velocity_before, self.velocity_after)),
        )
        return log.table()

    def at(self, t, *, side: str = "right", system=None) -> tuple[np.ndarray, np.ndarray]:
        """(q, v) at the times ``t``: q linear between records, v constant, as in the papers.

        Under EventDriven the motion is integrated again from the record before, to its tolerance;
        ``system`` is needed after jit, vmap or load.  Where v jumps, at a record or an impact,
        ``side="right"`` gives the velocity after it, ``"left"`` before.
        """
        self._need_single("at")
        if side not in ("left", "right"):
            raise RecordError(f"side is {side!r}; it must be 'left' or 'right'")
        times, slack = np.asarray(self.t), 1e-9 * float(self.dt)
        t = np.asarray(t, float)
        if np.any(t < times[0] - slack) or np.any(t > times[-1] + slack):
            raise TimeError(f"t = {t} is outside the recorded [{times[0]:g}, {times[-1]:g}]")
        if self._dense():
            from carom.run.between import between

            q, v = between(self, self.system if system is None else system, np.ravel(t), side)
            return q.reshape(*t.shape, -1), v.reshape(*t.shape, -1)
        shift = slack if side == "right" else -slack
        k = np.clip(np.searchsorted(times, t + shift, side="right") - 1, 0, len(times) - 1)
        q = np.stack([np.interp(t, times, x) for x in np.asarray(self.q).T], axis=-1)
        return q, np.asarray(self.v)[k]

    def _dense(self) -> bool:
        """Whether the scheme is exact at any step length."""
        text = self.scheme if isinstance(self.scheme, str) else ""
        return text.startswith("EventDriven") or getattr(self.scheme, "dense", False)

    def starting(self, record: int) -> tuple:
        """The world of a step from a record, and its t, q, v."""
        self._need_single("starting")
        if self.system is None:
            raise RecordError("a solution that was loaded has no system: solve it again")
        return self.system, *(jnp.asarray(x[record]) for x in (self.t, self.q, self.v))

    def plot(self, axes=None, kind: str = "time", **options):
        """A picture on ``axes``, matplotlib's, or on new ones; returns them.

            kind="time"      position, velocity, gap, impacts; force and friction of lasting contact
            kind="phase"     velocity against position, impacts marked; coordinates=[...]
            kind="energy"    energy, work of the force, loss at impacts

        After load ``system=`` is an option of the first, whose friction has its cone with it, and
        is needed for the last.
        """
        from carom.pictures.plot import plot

        return plot(self, axes, kind, **options)

    def energy_budget(self, system=None):
        """Energy, work and loss at the records (carom.results.energy.Budget).

        ``system`` is needed after jit, vmap or load.
        """
        from carom.results.energy import energy_budget

        return energy_budget(self, system)

    def animate(self, path=None, *, system=None, seconds: float = 8.0):
        """A moving picture of so many ``seconds``: .gif, .mp4 (with ffmpeg) or .html.

        Without a ``path`` it is returned, for a notebook.  After load ``system`` says what is not
        admissible, which is shaded.
        """
        from carom.pictures.animate import animate_solution

        return animate_solution(self, path, system=system, seconds=seconds)

    def view(self, looks=None):
        """The motion as a page to look at: shown in a notebook, ``.save("page.html")`` elsewhere.

        ``looks(t, q)`` returns how the mechanism looks, a list of carom.looks.Disc, Segment and
        Polygon; a model has its own in ``problem.looks``.
        """
        from carom.pictures.page import Page
        from carom.pictures.systems import system_page

        return Page(system_page(self, looks))

    def to_xarray(self):
        """The solution as an xarray Dataset with named axes."""
        import xarray

        batch = [f"member{k}" if k else "member" for k in range(np.ndim(self.t) - 1)]
        time = [*batch, "time"]
        fields = {
            field.name: (
                [*time, *_axes(self, field)[: np.ndim(found) - len(time)]],
                np.asarray(found),
                attributes(field),
            )
            for field in MOTION
            if (found := getattr(self, field.name)) is not None
        }
        fields |= {
            f"stats_{name}": (batch, np.asarray(getattr(self.stats, name))) for name in STATS
        }
        fields["status"] = (batch, np.asarray(self.status._value))
        fields["t" if batch else "time"] = (time, np.asarray(self.t))
        if self.end is not None:
            fields |= _end_fields(self.end, batch)
        if self.origin.glued is not None:
            fields["glued"] = (["constraint"], self.origin.glued)
        if not batch and self._has_impacts():
            fields |= {f"impact_{n}": ("impact", self.impacts[n]) for n, _ in COLUMNS}
        about = {
            "dt": float(np.ravel(self.dt)[0]),
            "scheme": scheme_text(self.scheme),
            "status_text": text_of(self.status) if not batch else "",
        }
        return xarray.Dataset(fields, attrs=about)

    def save(self, path: str | os.PathLike) -> None:
        """Write netCDF (.nc), which ``carom.load`` and xarray open."""
        if (ending := os.path.splitext(path)[1]) not in _NETCDF:
            raise RecordError(
                f"{os.fspath(path)!r}: a solution is saved as netCDF, .nc, not {ending}; sol.t, "
                "sol.q, sol.v are plain arrays for other formats, sol.impacts a table"
            )
        from carom.io.recording import save_dataset

        save_dataset(self.to_xarray(), path)

    def __len__(self) -> int:
        """The number of recorded times (of members, for a batch)."""
        return self.t.shape[0]

    def __str__(self) -> str:
        return summary(self)

    def _has_impacts(self) -> bool:
        try:
            return self.impacts is not None
        except RecordError:
            return False

    def _need_single(self, what):
        if np.ndim(self.t) > 1:
            raise RecordError(f"this is a batch of solutions: index it first, sol[i].{what}")

    def _need_batch(self, is_batch):
        if not is_batch:
            raise RecordError("this is one solution, not a batch: use sol.q[k], sol.at(t), ...")


class Solution(Motion, eqx.Module):
    """A motion, sampled at the recorded times.  Under vmap every array has a leading axis."""

    t: Any  # (n,) [s]
    q: Any  # (n, d) position
    v: Any  # (n, d) velocity, right limit
    gap: Any  # (n, p) negative means overlap
    impulse: Any  # (n, p) received since the record before (the step ending at t, if all are kept)
    joint_impulse: Any  # (n, k) likewise, of either sign; None without joints
    friction: Any  # (n, p) or (n, p, 2) likewise, along slip; None without friction
    velocity_before: Any  # (n, p) relative normal velocity before the reaction of the step ending
    velocity_after: Any  # at t, and after it; None unless every step was recorded
    events: Any  # (n, k, 5) impacts located inside the step, padded with -1; None without them
    stats: Stats  # of the work done: steps, iterations, residual, ...
    status: Status  # carom.Status.ok, or what went wrong
    dt: Any  # () the step that was used [s]
    end: Any  # where the run stopped, for ``start=``; None where it is not known
    origin: Origin = eqx.field(static=True)  # the scheme and the system

    def __getitem__(self, member) -> "Solution":
        """One member of a batch."""
        self._need_batch(np.ndim(self.t) > 1)
        if isinstance(member, int) and not -len(self) <= member < len(self):
            raise IndexError(f"member {member} of a batch of {len(self)}")
        return jax.tree_util.tree_map(lambda a: a[member], self)

    def __repr__(self) -> str:
        if isinstance(self.t, Tracer) or np.ndim(self.t) > 1:
            return f"<Solution of {self.scheme}: t {self.t.shape}, q {self.q.shape}>"
        records = counted(len(self.t), "record")
        return f"<Solution of {self.scheme}: {records}, q {self.q.shape}, {name_of(self.status)}>"


AXES = axes_of(MOTION)  # after time
STATS = ("steps", "residual", "iterations", "contraction", "penetration", "fallbacks", "unlisted")


@overload
def load(path: str | os.PathLike, *, pile: "Spheres") -> "SpheresSolution": ...
@overload
def load(path: str | os.PathLike, *, pile: None = None) -> "Solution | SpheresSolution": ...
def load(path: str | os.PathLike, *, pile: "Spheres | None" = None) -> Any:
    """A solution saved by ``sol.save``; its ``system`` is None, for functions are not saved.

    A recording made as a run went too, whole or as far as it got.

    Parameters
    ----------
    path
        The file: ``.nc`` of a System, ``.vtkhdf`` of Spheres.
    pile
        Spheres, where they have functions (walls or radii that move, a force): these are not saved.

    Examples
    --------
    >>> import carom
    >>> ball = carom.models.bouncing_ball()
    >>> sol = carom.solve(ball.system, carom.Moreau(), ball.q0, ball.v0, t1=1.0, dt=1e-2)
    >>> sol.save("ball.nc")
    >>> carom.load("ball.nc").q.shape
    (101, 1)
    """
    from carom.io.formats import format_of
    from carom.io.recording import read_from

    with read_from(path):
        return format_of(path).load(path, pile)


def saved_solution(path) -> "Solution":
    """Of netCDF that ``sol.save`` wrote."""
    import h5py

    from carom.io.recording import words_of

    with h5py.File(path, "r") as file:
        missing = {"q", "v", "gap", "impulse", "status"} - set(file)
        if missing and {"x", "overlap"} <= set(file):
            raise RecordError(
                f"{os.fspath(path)!r} is a motion of spheres for xarray, which opens it; one that "
                "carom opens is saved as .vtkhdf"
            )
        if missing:
            raise RecordError(
                f"{os.fspath(path)!r} is not a solution saved by carom: it has no "
                f"{', '.join(sorted(missing))}, but {', '.join(file) or 'nothing'}"
            )
        found = ((name, file[name]) for name in file)  # items() has None for what is damaged
        data = {name: np.asarray(a[()]) for name, a in found if isinstance(a, h5py.Dataset)}
        about: Any = file.attrs
        dt, scheme = np.ravel(about["dt"])[0], words_of(file, "scheme")
    status = jax.tree_util.tree_unflatten(
        jax.tree_util.tree_structure(Status.ok), [jnp.asarray(data["status"])]
    )
    impacts = None
    if "impact_time" in data:
        impacts = np.zeros(len(data["impact_time"]), COLUMNS)
        for name, _ in COLUMNS:
            impacts[name] = data[f"impact_{name}"]
    return Solution(
        t=data["t" if "t" in data else "time"],  # a batch has an axis named time
        **{name: data.get(name) for name in AXES},
        stats=Stats(*(_stat(data, name) for name in STATS)),
        status=status,
        dt=np.full(data["status"].shape, dt)[()],
        end=_saved_end(data),
        origin=Origin(scheme_or_text(scheme), impacts=impacts, glued=data.get("glued")),
    )


def _axes(sol, field: Field) -> tuple[str, ...]:
    """Of a field; velocities have one of their own where they are not as many as coordinates."""
    other = field.name == "v" and np.shape(sol.v)[-1] != np.shape(sol.q)[-1]
    return ("speed",) if other else field.axes


def _end_fields(end: End, batch: list[str]) -> dict:
    """Its arrays with their axes, for a file."""
    fields = {"end_t0": (batch, end.t0), "end_step": (batch, end.step)}
    fields["end_dt"] = (batch, end.dt)
    same = np.shape(end.q) == np.shape(end.v)
    for name, axis in (("q", "coordinate"), ("v", "coordinate" if same else "speed")):
        fields[f"end_{name}"] = ([*batch, axis], getattr(end, name))
    for k, x in enumerate(end.memory):
        axes = [f"end_memory{k}_{axis}" for axis in range(np.ndim(x) - len(batch))]
        fields[f"end_memory{k}"] = ([*batch, *axes], x)
    return {name: (axes, np.asarray(x)) for name, (axes, x) in fields.items()}


def _saved_end(data) -> End | None:
    if "end_step" not in data:
        return None
    names = itertools.takewhile(data.__contains__, (f"end_memory{k}" for k in itertools.count()))
    memory = [data[name] for name in names]
    found = {name: data[f"end_{name}"][()] for name in ("t0", "step", "dt", "q", "v")}
    return End(**found, memory=memory)


def _stat(data, name):
    """Of a file; what it does not know of is zero."""
    return data[f"stats_{name}"][()] if f"stats_{name}" in data else 0


def scheme_text(scheme) -> str:
    """The scheme as one would write it."""
    return str(scheme)


def summary(sol: Motion) -> str:
    """What was done and how well it holds, measured from the solution itself."""
    if np.ndim(sol.t) > 1:
        good = np.count_nonzero(np.asarray(sol.status == Status.ok))
        what = f"a batch of {len(sol)} runs, {good} of them ok; sol[i] is one"
        return f"{scheme_text(sol.scheme)}: {what}"
    gap, impulse = np.asarray(sol.gap), np.asarray(sol.impulse)
    lines = [
        f"{scheme_text(sol.scheme)}: {counted(int(sol.stats.steps), 'step')} of "
        f"{float(sol.dt):.6g} to t = {sol.t[-1]:.6g}, {name_of(sol.status)}",
    ]
    if gap.size:
        lines += [
            f"  smallest gap            {gap.min():+.3e}   (admissible: >= 0)",
            f"  smallest impulse        {impulse.min():+.3e}   (a contact only pushes: >= 0)",
            f"  total impulse           {impulse.sum():.6g}",
        ]
    lines.append(
        f"  worst projection        {float(sol.stats.residual):.3e}   (relative KKT residual)"
    )
    lines += _inside_lines(sol)
    if sol._has_impacts():
        lines += _impact_lines(sol)
    lines += _untouched_lines(sol)
    return "\n".join(lines)


def _inside_lines(sol):
    """What happened between the records."""
    lines, stats = [], sol.stats
    if stats.penetration > 0.0:
        lines = [
            f"  largest penetration     {float(stats.penetration):.3e}   (the wall yields)",
            f"  steps of the method     {int(stats.iterations)}",
        ]
    if stats.fallbacks > 0:
        what = "accumulations that run over several gaps in turn"
        if sol.friction is not None:
            what += ", or states with no acceleration or several (Painleve)"
        lines.append(f"  taken for rest          {int(stats.fallbacks)} {what}")
    if stats.unlisted > 0:
        lines.append(
            f"  not in sol.events       {int(stats.unlisted)} impacts: raise events_per_step"
        )
    return lines


def _untouched_lines(sol):
    """The gaps that received nothing: a sign or a place that is not meant, or as it should be."""
    gap, pushed = np.asarray(sol.gap), np.any(np.asarray(sol.impulse) != 0.0, axis=0)
    if not gap.size or np.all(pushed) or len(gap) < 2:
        return []
    idle = np.flatnonzero(~pushed)
    nearest = idle[np.argmin(np.min(gap[:, idle], axis=0))]
    k = int(np.argmin(gap[:, nearest]))
    where = f"gap {nearest} is {gap[k, nearest]:.3g} at t = {sol.t[k]:.4g}"
    if gap[0, nearest] <= 1e-9 * np.max(np.abs(gap)):
        where = f"gap {nearest} is closed at the start, and nothing pushed it: is its sign right?"
    if not np.any(pushed):
        return [f"  no contact              nearest: {where}"]
    named = ", ".join(map(str, idle)) if len(idle) <= 8 else f"{len(idle)} of them"
    return [f"  gaps never touched      {named}; nearest: {where}"]


def _impact_lines(sol):
    impacts = sol.impacts
    lines = [f"  impacts                 {len(impacts)}"]
    if sol.system is None or not len(impacts):
        return lines
    p, before, which = sol.gap.shape[1], impacts.velocity_before, impacts.constraint
    e = np.asarray(sol.system.restitutions(p, np.repeat(before[:, None], p, axis=1)))
    e = np.broadcast_to(e, (len(which), p))[np.arange(len(which)), which]
    fault = np.abs(impacts.velocity_after + e * impacts.velocity_before)
    fastest = np.max(np.abs(impacts.velocity_before))
    if fastest == 0.0:  # contacts that began at rest
        return lines
    hardest = np.argmax(np.abs(impacts.velocity_before))
    ratio = round(-impacts.velocity_after[hardest] / impacts.velocity_before[hardest], 9) + 0.0
    return [
        *lines,
        f"  hardest impact          {fastest:.6g} in, {ratio:.6g} of it out (e = {e[hardest]:g})",
        f"  restitution law         {np.max(fault):.3e}   (worst |after + e before|, gap by gap)",
    ]
