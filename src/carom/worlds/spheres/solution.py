"""What ``solve`` hands back for Spheres."""

import contextlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from carom.arguments import absent
from carom.errors import RecordError
from carom.fields import CONTACT, SPHERES, attributes
from carom.shown import Shown, counted
from carom.status import Status, text_of
from carom.worlds.spheres.materials import Materials


@dataclass(frozen=True, eq=False)
class ContactTable:
    """The contacts that pushed in the step that ends at a record; c of them."""

    pairs: np.ndarray  # (c, 2) int: two spheres; an obstacle k is N + k, a wall w is -1 - w
    position: np.ndarray  # (c, d) [m], of the point of contact
    normal: np.ndarray  # (c, d) unit, from the first to the second
    impulse: np.ndarray  # (c,) [kg m/s] in the step, < 0: glue pulls; the first has -impulse normal
    force: np.ndarray  # (c,) [N], impulse over the length of the step
    branch: np.ndarray  # (c, d) [m], from centre to centre, or from centre to wall
    friction: np.ndarray  # (c, d) [kg m/s] tangential impulse; the first receives -friction
    friction_force: np.ndarray  # (c, d) [N], friction over the length of the step
    gamma: np.ndarray  # (c,) [kg m/s] <= 0, what glue remembers after the step
    couple: np.ndarray  # (c, 3), in the plane (c,) [kg m^2/s] of rolling and twisting resistance
    torque: np.ndarray  # likewise [N m], couple over the length of the step; the first has -torque

    def __len__(self) -> int:
        """How many."""
        return len(self.impulse)

    def felt(self, N: int) -> np.ndarray:
        """(N,) [N] the sum of the sizes of the contact forces on each sphere, in the last step."""
        total, force = np.zeros(N), np.abs(self.force)
        if np.any(self.friction_force):
            force = np.sqrt(force**2 + np.sum(self.friction_force**2, axis=1))
        for side in (0, 1):
            body = self.pairs[:, side]
            mine = (body >= 0) & (body < N)
            total += np.bincount(body[mine], weights=force[mine], minlength=N)
        return total


@dataclass(frozen=True)
class SphereStats:
    """What was done."""

    steps: int  # that succeeded
    iterations: int  # sweeps, in all
    residual: float  # worst measured residual of a projection, an overlap in smallest radii
    overlap: float  # [m] largest at the end of a step
    rebuilds: int  # of the list of pairs
    loose: int = 0  # steps with friction that were not solved to the tolerance


@dataclass(frozen=True, eq=False)
class SpheresEnd:
    """Where a run stopped: what ``start=`` goes on from."""

    t0: float  # of the run, or of the one that it went on from with the same dt
    step: int  # since t0
    dt: float
    state: bytes  # of the run, dumped


_TABLES = "sol.to_xarray(), or pandas.DataFrame(sol.x[k]) of one record"
ELSEWHERE = {  # what other packages, and the solution of a System, call it
    "position": "sol.x",
    "velocity": "sol.v",
    "gap": "sol.overlap, and sol.contacts[k] of record k",
    "impacts": "sol.contacts[k], those that pushed in the step that ends at record k",
    "friction": "sol.contacts[k].friction of record k",
    "to_pandas": _TABLES,
    "to_dataframe": _TABLES,
}


class SpheresSolution(Shown):
    """The motion of spheres, sampled at the recorded times: n records, N spheres, W walls."""

    t: np.ndarray  # (n,) [s]
    x: np.ndarray  # (n, N, d) [m]
    v: np.ndarray  # (n, N, d) [m/s], right limit
    moved: np.ndarray  # (n, N, d) [m] in the step that ends at t
    radius: np.ndarray  # (n, N) [m]
    impulse: np.ndarray  # (n, N, d) [kg m/s] from contacts, since the record before
    wall_impulse: np.ndarray  # (n, W, d) on the walls, likewise
    work: np.ndarray  # (n,) [J] of gravity and force, likewise
    push: np.ndarray  # (n,) sum of all impulses, likewise
    overlap: np.ndarray  # (n,) [m] largest, likewise
    contacts: list[ContactTable]  # n tables
    spin: np.ndarray  # (n, N, 3), in two dimensions (n, N) [rad/s]
    angular_impulse: np.ndarray  # likewise, since the record before
    steps: np.ndarray  # (n,) int, whole ones since end.t0 before t
    stats: SphereStats  # of the work done: steps, iterations, residual, ...
    status: Any  # carom.Status.ok, or what went wrong
    error: Exception | None  # what stopped the run, where status is Status.error
    dt: float  # the step that was used [s]
    scheme: Any  # how it stepped
    pile: Any  # the Spheres as they were at the start
    end: SpheresEnd | None  # where the run stopped, for ``start=``

    certified_by = "carom.certificates.spheres:certify_spheres"

    if not TYPE_CHECKING:  # where types are checked, what is not there is known

        def __getattr__(self, name):
            raise absent(self, name, ELSEWHERE)

    def __init__(self, t, fields: dict, *, stats, status, dt, scheme, pile, end=None, error=None):
        """``fields``: of carom/fields.py, SPHERES, and the tables of contacts."""
        self.t, self.scheme, self.pile = t, scheme, pile
        for name, values in fields.items():
            setattr(self, name, values)
        if not pile.spins:
            self.spin = self.angular_impulse = still(len(t), pile)
        self.stats, self.status, self.error = stats, status, error
        self.dt, self.end = dt, end

    @property
    def q(self) -> np.ndarray:
        """The same as x, by the name that it has in the solution of a System."""
        return self.x

    @property
    def ok(self) -> bool:
        """Whether the run reached its end, every step solved to its tolerance."""
        return self.status is Status.ok

    def __len__(self) -> int:
        """n."""
        return len(self.t)

    def starting(self, record: int) -> tuple:
        """The world of a step from a record, and its t, q, v."""
        t, dt, missing = float(self.t[record]), float(self.dt), 3 - self.x.shape[2]
        world = self.pile.world(t, t + dt, dt)
        q, v = (np.pad(a[record], ((0, 0), (0, missing))) for a in (self.x, self.v))
        if self.pile.spins:
            w = self.spin[record].reshape(len(q), -1)
            v = np.concatenate([v, np.pad(w, ((0, 0), (3 - w.shape[1], 0)))], axis=1)
        return world, t, q, v

    def __str__(self) -> str:
        s, end = self.stats, "ok" if self.ok else text_of(self.status)
        small = self.pile.smallest
        return "\n".join(
            [
                f"{self.scheme} on {self.pile}: {counted(s.steps, 'step')} of {self.dt:.4g} to "
                f"t = {self.t[-1]:g}, {end}",
                f"  largest overlap         {s.overlap / small:.2e} of the smallest radius",
                f"  worst projection        {s.residual:.2e} of the smallest radius",
                f"  sweeps                  {s.iterations / max(s.steps, 1):.1f} a step",
                f"  lists of pairs          {s.rebuilds}",
                *[f"  off the tolerance       {counted(s.loose, 'step')}"] * (s.loose > 0),
                f"  contacts at the end     {len(self.contacts[-1])}",
            ]
        )

    def to_xarray(self):
        """The solution as an xarray Dataset with named axes and units (carom/fields.py).

        The tables of contacts are one after another, ``contacts`` of them at each record.
        """
        import xarray

        def variable(field, axes, found):
            return [*axes, *field.axes[: found.ndim - len(axes)]], found, attributes(field)

        fields: dict[str, Any] = {
            f.name: variable(f, ["time"], np.asarray(getattr(self, f.name))) for f in SPHERES
        }
        for f in CONTACT:
            found = np.concatenate([getattr(table, f.name) for table in self.contacts])
            fields[f"contact_{f.name}"] = variable(f, ["contact"], found)
        fields["contacts"] = "time", np.array([len(table) for table in self.contacts])
        fields["time"] = "time", self.t, {"units": "s"}
        stats = {f"stats_{name}": value for name, value in vars(self.stats).items()}
        about = {"dt": self.dt, "scheme": str(self.scheme), "status_text": text_of(self.status)}
        return xarray.Dataset(fields, attrs=about | stats)

    def save(self, path) -> None:
        """Write VTKHDF (.vtkhdf), which ``carom.load`` and ParaView open; .nc is for xarray."""
        if str(path).endswith(".nc"):
            from carom.io.recording import save_dataset

            save_dataset(self.to_xarray(), path)
            return
        if not str(path).endswith(".vtkhdf"):
            raise RecordError(f"{str(path)!r}: a motion of spheres is saved as .vtkhdf or .nc")
        from carom.io.formats import format_of

        format_of(path, self.pile).save(self, path)

    def animate(self, path=None, *, forces: bool = False, seconds: float = 8.0):
        """A moving picture of so many ``seconds``: .gif, .mp4 (with ffmpeg) or .html.

        Without a ``path`` it is returned, for a notebook; with ``forces`` as in ``plot``.
        """
        from carom.pictures.animate import animate_spheres

        return animate_spheres(self, path, forces=forces, seconds=seconds)

    # What physicists ask for; each is (n,) or (n, ...) over the records.

    def kinetic_energy(self) -> np.ndarray:
        """(n,) [J] sum of m v^2 / 2, and of I w^2 / 2."""
        moving = 0.5 * np.einsum("i,nid,nid->n", self.pile.mass, self.v, self.v)
        if not self.pile.spins:
            return moving
        w = self.spin.reshape(*self.v.shape[:2], -1)
        return moving + 0.5 * np.einsum("i,nid,nid->n", self.pile.inertia, w, w)

    def potential_energy(self) -> np.ndarray:
        """(n,) [J] - sum of m gravity . x."""
        return -np.einsum("i,nid,d->n", self.pile.mass, self.x, self.pile.gravity)

    def energy(self) -> np.ndarray:
        """(n,) [J] kinetic and potential."""
        return self.kinetic_energy() + self.potential_energy()

    def momentum(self) -> np.ndarray:
        """(n, d) [kg m/s]."""
        return np.einsum("i,nid->nd", self.pile.mass, self.v)

    def temperature(self) -> np.ndarray:
        """(n,) [J] sum of m (v - mean)^2 / (d N), with the mean of momentum."""
        mean = self.momentum() / np.sum(self.pile.mass)
        peculiar = self.v - mean[:, None]
        total = np.einsum("i,nid,nid->n", self.pile.mass, peculiar, peculiar)
        return total / (self.pile.dimension * len(self.pile))

    def contact_number(self) -> np.ndarray:
        """(n,) contacts that push, per sphere; a pair counts for both, a wall once."""
        return np.array([_touches(c, len(self.pile)).sum() / len(self.pile) for c in self.contacts])

    def coordination(self) -> np.ndarray:
        """(n,) twice the contacts over the spheres of the backbone: 2 d where forces are unique.

        Spheres that cannot be held (fewer than d + 1 contacts, or d where gravity holds them too)
        are left out, with their contacts, until none is left.
        """
        return np.array([self._backbone(c) for c in self.contacts])

    def _backbone(self, table):
        N, d = len(self.pile), self.pile.dimension
        least = d if np.any(self.pile.gravity) else d + 1
        pairs, kept = table.pairs, np.ones(len(table), bool)
        while True:
            count = _touches(table, N, kept)
            loose = (count > 0) & (count < least)
            if not np.any(loose):
                bearing = np.count_nonzero(count)
                return 2.0 * np.count_nonzero(kept) / bearing if bearing else 0.0
            out = loose[np.where(pairs[:, 0] < N, pairs[:, 0], 0)]
            second = (pairs[:, 1] >= 0) & (pairs[:, 1] < N)
            out |= second & loose[np.where(second, pairs[:, 1], 0)]
            kept &= ~out

    def mobilisation(self) -> list[np.ndarray]:
        """n arrays (c,): |friction| / (mu impulse) of each of the ``contacts``, 1 where one slides.

        nan where nothing rubs (mu = 0) and where glue pulls.
        """
        friction, found = Materials(self.pile).friction, []
        for table in self.contacts:
            i, j = table.pairs.T
            most = friction(i, j, j) * table.impulse
            size = np.linalg.norm(table.friction, axis=1)
            found.append(np.divide(size, most, out=np.full(len(table), np.nan), where=most > 0.0))
        return found

    def wall_force(self) -> np.ndarray:
        """(n, W, d) [N] mean force on each wall since the record before; 0 in the first."""
        span = np.diff(self.t, prepend=self.t[0])[:, None, None]
        return np.divide(
            self.wall_impulse, span, out=np.zeros_like(self.wall_impulse), where=span > 0.0
        )

    def volume(self) -> np.ndarray:
        """(n,) [m^d] of the smallest box around the spheres; a period where there is one."""
        low = np.min(self.x - self.radius[..., None], axis=1)
        high = np.max(self.x + self.radius[..., None], axis=1)
        return np.prod(np.where(self.pile.period > 0.0, self.pile.period, high - low), axis=1)

    def packing_fraction(self, volume=None, *, between=None) -> np.ndarray:
        """(n,) volume of the spheres over ``volume`` (default: ``self.volume()``).

        ``between=(axis, low, high)``: of the slice low < x_axis < high, whose base is that of the
        box around the spheres; spheres that are cut count in part.
        """
        d = self.pile.dimension
        if between is None:
            solid = np.sum(_ball(self.radius, self.radius, d), axis=1)
            return solid / (self.volume() if volume is None else volume)
        axis, low, high = between
        if not high > low:
            raise RecordError(f"between is {between}: low must be below high")
        centre = self.x[..., axis]
        solid = _ball(self.radius, high - centre, d) - _ball(self.radius, low - centre, d)
        extent = np.max(centre + self.radius, axis=1) - np.min(centre - self.radius, axis=1)
        base = self.volume() / extent
        return np.sum(solid, axis=1) / (base * (high - low))

    def stress(self, volume=None) -> np.ndarray:
        """(n, d, d) [Pa] mean stress, positive in compression, of the step that ends at a record.

        (sum of m v v + sum over contacts of force branch) / volume, v relative to the mean, force
        with its friction.  ``volume`` is a number or (n,) [m^d]; None: ``sol.volume()``.
        """
        mean = self.momentum() / np.sum(self.pile.mass)
        v = self.v - mean[:, None]
        total = np.einsum("i,nia,nib->nab", self.pile.mass, v, v)
        total += np.array(
            [
                np.einsum("ca,cb->ab", c.force[:, None] * c.normal + c.friction_force, c.branch)
                for c in self.contacts
            ]
        )
        size = self.volume() if volume is None else np.broadcast_to(volume, self.t.shape)
        return total / size[:, None, None]

    def pressure(self, volume=None) -> np.ndarray:
        """(n,) [Pa] a d-th of the trace of the ``stress``; ``volume`` as there."""
        return np.trace(self.stress(volume), axis1=1, axis2=2) / self.pile.dimension

    @cached_property
    def folded(self) -> np.ndarray:
        """(n, N, d) positions folded into [0, period) where space repeats."""
        period = self.pile.period
        return np.where(period > 0.0, np.mod(self.x, np.where(period > 0.0, period, 1.0)), self.x)

    def opened(self) -> Any:
        """A context with its records one by one, where they are in a file; else with None."""
        return contextlib.nullcontext()

    def view(self, records: int = 200):
        """The motion as a page to look at: shown in a notebook, ``.save("page.html")`` elsewhere.

        With at most so many ``records``.
        """
        from carom.pictures.page import Page
        from carom.pictures.view import page_of

        return Page(page_of(self, records))

    def plot(self, axes=None, record: int = -1, **style):
        """The spheres of one ``record`` on ``axes``, matplotlib's, or on new ones; returns them.

        along=1          the axis along which one looks, in space
        color=None       (N,) for each sphere; None: the speed [m/s]
        forces=False     True: contact forces as lines, as thick and dark as they are strong
        """
        from carom.pictures.spheres import plot_spheres

        return plot_spheres(self, axes, record, **style)


def _touches(table, N, kept=None) -> np.ndarray:
    """(N,) how many contacts each sphere has."""
    pairs = table.pairs if kept is None else table.pairs[kept]
    second = pairs[(pairs[:, 1] >= 0) & (pairs[:, 1] < N), 1]
    first = pairs[pairs[:, 0] < N, 0]
    return np.bincount(first, minlength=N) + np.bincount(second, minlength=N)


def _ball(r, h, d):
    """Volume of the part of a ball of radius r that lies below height h above its centre."""
    s = np.clip(h, -r, r)
    if d == 3:
        return np.pi * (r**2 * (s + r) - (s**3 + r**3) / 3.0)
    return s * np.sqrt(np.maximum(r**2 - s**2, 0.0)) + r**2 * (
        np.arcsin(np.clip(s / r, -1.0, 1.0)) + np.pi / 2.0
    )


def turning(w: np.ndarray, d: int) -> np.ndarray:
    """(N, 3) of spin, or (N,) in the plane, of what is (N, 3); empty where there is none."""
    return w[:, 2].copy() if d == 2 and w.shape[1] else w.copy()


def couples(C: np.ndarray, d: int) -> np.ndarray:
    """(c, 3), or (c,) in the plane, of couples (c, 3); of none (c, 0), zeros of no memory."""
    if C.shape[1] == 0:
        return np.broadcast_to(0.0, (len(C), 3)[: d - 1])
    return turning(C, d)


def still(n: int, pile) -> np.ndarray:
    """The spin of spheres that have none: zeros that take no memory."""
    return np.broadcast_to(0.0, (n, *pile.spin.shape))


def contact_table(world, pushed: dict, q: np.ndarray, t: float, dt: float) -> ContactTable:
    """The rows of a step that pushed: i, j, source, normal, and lam (c, m)."""
    i, source, n, lam = (pushed[name] for name in ("i", "source", "normal", "lam"))
    x, r, wall, d = world.bodies(t, q), world.radii(t), source < 0, world.dimension
    second = np.where(wall, source, pushed["j"])
    j = np.where(wall, 0, pushed["j"])
    branch = np.where(wall[:, None], r[i, None] * n, world.cell.nearest_image(x[j] - x[i]))
    friction = lam[:, 1:4] if lam.shape[1] > 1 else np.broadcast_to(0.0, n.shape)
    couple = couples(lam[:, 4:], d)
    return ContactTable(
        pairs=np.stack([i, second], axis=1).astype(np.int64),
        position=(x[i] + r[i, None] * n)[:, :d],
        normal=n[:, :d],
        impulse=lam[:, 0],
        force=lam[:, 0] / dt,
        branch=branch[:, :d],
        friction=friction[:, :d],
        friction_force=friction[:, :d] / dt,
        gamma=pushed.get("gamma", np.broadcast_to(0.0, len(i))),
        couple=couple,
        torque=couple / dt if lam.shape[1] > 4 else couple,
    )
