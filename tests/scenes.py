"""What should not matter to Spheres: random scenes seen in other frames, orders and units.

    python tests/scenes.py SEED COUNT [KIND]

Each scene is run as it is and as it looks after each change of KINDS, and every motion is brought
back and compared, step by step: positions in radii, velocities in that of the scene.  Prints, for
each kind, the median and the largest difference in the first steps, and every scene that differs by
more than ALIKE.  A scene is drawn from (SEED, number) alone: ``python tests/scenes.py 7 12 turned``
prints the kind alone, ``scene(7, 12)`` is the last.
"""

import sys
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import carom
from carom.spheres import Box, Cylinder, Obstacles, Panel, Plane, Shell
from carom.worlds.spheres.checks import check_overlap

TOLERANCE = 1e-12  # of the runs: 300 times it is what a velocity may be off by
PRESSED = 1e-15  # ... before the start of a pressed pile: its gaps are closed, not nearly
HELD = 1e-10  # ... under Moreau: where a gap counts as closed must not be rounding, also far away
ALIKE = 1e-7  # in the first steps: the tolerance, grown by the impacts of a few of them
FIRST = 12  # steps
FIELDS = {  # of walls: how an argument is carried along
    "point": "place",
    "center": "place",
    "corner": "place",
    "position": "place",
    "normal": "direction",
    "axis": "direction",
    "edge": "arrow",
    "other_edge": "arrow",
    "radius": "length",
    "velocity": "speed",
    "spin": "axial",
    "material": "name",
}


@dataclass(frozen=True)
class Change:
    """x -> length (turn x) + shift, and units of time and mass."""

    turn: np.ndarray  # (d, d) orthogonal
    shift: Any = 0.0  # (d,), in new units
    length: float = 1.0
    time: float = 1.0
    mass: float = 1.0

    def arrow(self, x, per_time=0):
        return self.length / self.time**per_time * np.asarray(x) @ self.turn.T

    def place(self, x):
        return self.arrow(x) + self.shift

    def axial(self, w):
        turned = w if self.turn.shape == (2, 2) else np.asarray(w) @ self.turn.T
        return np.sign(np.linalg.det(self.turn)) * turned / self.time

    def carried(self, how, x):
        """A value of a wall, or its function of time."""
        if callable(x):
            return lambda t: self.carried(how, x(t / self.time))
        return {
            "place": self.place,
            "direction": lambda a: np.asarray(a) @ self.turn.T,
            "arrow": self.arrow,
            "length": lambda a: self.length * np.asarray(a),
            "speed": lambda a: self.arrow(a, 1),
            "axial": self.axial,
            "name": lambda a: a,
        }[how](x)

    def wall(self, wall):
        flat = self.turn.shape == (2, 2)
        new = {}
        for name, value in vars(wall).items():
            if value is None or (flat and name == "axis"):
                continue
            new[name] = self.carried(FIELDS[name], value)
        return replace(wall, **new)


@dataclass(frozen=True)
class Scene:
    """What is run: Spheres, a scheme, and steps."""

    given: dict
    scheme: Any
    dt: float
    steps: int
    drag: float = 0.0  # [1/s]
    grow: float = 0.0  # [1/s] of radii
    about: str = ""
    pressed: bool = False  # whether it starts with gaps of any size down to rounding
    tolerance: float | None = None
    seen: Any = field(default=None, repr=False)  # how a motion is brought back

    def run(self, **record):
        given = dict(self.given)
        if self.drag:
            mass = given["mass"][:, None]
            given["force"] = lambda t, x, v: -self.drag * mass * v
        if self.grow:
            radius = given["radius"]
            given["radius"] = lambda t: radius * (1.0 + self.grow * t)
        usual = HELD if isinstance(self.scheme, carom.Moreau) else TOLERANCE
        pile = carom.Spheres(**given, tolerance=self.tolerance or usual)
        record = carom.Record(**(record or {"every": 1}))
        T = self.steps * self.dt
        return carom.solve(pile, self.scheme, t1=T, dt=self.dt, record=record, throw=False)


def changed(scene, change):
    g, back = scene.given, np.linalg.inv(change.turn)
    new = dict(
        g,
        position=change.place(g["position"]),
        velocity=change.arrow(g["velocity"], 1),
        radius=change.length * g["radius"],
        mass=change.mass * g["mass"],
        walls=[change.wall(w) for w in unboxed(g["walls"])],
        gravity=change.arrow(g["gravity"], 2),
    )
    if g.get("spin") is not None:
        new["spin"] = change.axial(g["spin"])
    if g.get("inertia") is not None:
        new["inertia"] = change.mass * change.length**2 * g["inertia"]
    if g.get("periodic") is not None:
        new["periodic"] = change.length * np.abs(np.round(change.turn)) @ g["periodic"]

    def seen(x, v, w):
        w = w * change.time * np.sign(np.linalg.det(change.turn))
        return (
            (x - change.shift) / change.length @ back.T,
            v * change.time / change.length @ back.T,
            w if w.ndim == 2 else w @ back.T,
        )

    return replace(
        scene,
        given=new,
        dt=scene.dt * change.time,
        drag=scene.drag / change.time,
        grow=scene.grow / change.time,
        seen=seen,
    )


def unboxed(walls):
    """Boxes as planes, which can be turned."""
    found = []
    for wall in walls:
        if not isinstance(wall, Box):
            found.append(wall)
            continue
        d = len(wall.low)
        for _, data in wall.pieces(0.0):
            found.append(Plane(data[:d], data[3 : 3 + d], wall.velocity, material=wall.material))
    return found


def permuted(scene, rng):
    order = rng.permutation(len(scene.given["position"]))
    new = dict(scene.given)
    for name in ("position", "velocity", "radius", "mass", "spin", "inertia", "material"):
        if new.get(name) is not None and not isinstance(new[name], str):
            new[name] = [new[name][k] for k in order]
            new[name] = new[name] if name == "material" else np.array(new[name])
    back = np.argsort(order)
    return replace(scene, given=new, seen=lambda x, v, w: (x[:, back], v[:, back], w[:, back]))


def other_walls(scene, rng):
    walls = unboxed(scene.given["walls"])
    return replace(
        scene, given=dict(scene.given, walls=[walls[k] for k in rng.permutation(len(walls))])
    )


def images(scene, rng):
    """Each sphere some periods away, and the scene shifted by a part of one."""
    period = scene.given["periodic"]
    if period is None:
        return None
    by = rng.integers(-3, 4, scene.given["position"].shape) * period
    given = dict(scene.given, position=scene.given["position"] + by)
    return replace(scene, given=given, seen=lambda x, v, w: (x - by, v, w))


def in_space(scene, rng):
    """Discs as balls in a plane of space, turned with it."""
    if scene.given["position"].shape[1] == 3 or scene.given["periodic"] is not None:
        return None
    g = scene.given

    def wide(a):
        a = np.asarray(a)
        return np.concatenate([a, np.zeros((*a.shape[:-1], 1))], axis=-1)

    def lifted(how, x):
        if callable(x):
            return lambda t: lifted(how, x(t))
        if how in ("place", "arrow", "speed") or (how == "direction" and len(x) == 2):
            return wide(x)
        return np.array([0.0, 0.0, x]) if how == "axial" else x

    walls = [
        replace(w, **{n: lifted(FIELDS[n], v) for n, v in vars(w).items() if v is not None})
        for w in unboxed(g["walls"])
    ]
    walls = [
        Cylinder(w.center, (0, 0, 1), w.radius, w.velocity, w.spin, w.material)
        if isinstance(w, Shell)
        else w
        for w in walls
    ]
    given = dict(
        g,
        position=wide(g["position"]),
        velocity=wide(g["velocity"]),
        gravity=wide(g["gravity"]),
        walls=walls,
        inertia=0.5 * g["mass"] * g["radius"] ** 2 if g["inertia"] is None else g["inertia"],
    )
    if g["spin"] is not None:
        given["spin"] = np.stack([0 * g["spin"], 0 * g["spin"], g["spin"]], axis=1)
    flat = replace(scene, given=given)
    there = changed(flat, Change(rotation(rng, 3)))

    def seen(x, v, w):
        x, v, w = there.seen(x, v, w)
        return x[..., :2], v[..., :2], w[..., 2]

    return replace(there, seen=seen)


def rotation(rng, d):
    Q, R = np.linalg.qr(rng.normal(size=(d, d)))
    Q = Q * np.sign(np.diag(R))
    if np.linalg.det(Q) < 0:
        Q[:, 0] *= -1
    return Q


def quarter(rng, d):
    """A permutation of the axes, with signs, of determinant 1."""
    Q = np.eye(d)[rng.permutation(d)] * rng.choice([-1.0, 1.0], d)
    if np.linalg.det(Q) < 0:
        Q[0] *= -1
    return Q


def dimension(scene):
    return scene.given["position"].shape[1]


def turned(scene, rng):
    if scene.given["periodic"] is not None:
        return None
    return changed(scene, Change(rotation(rng, dimension(scene))))


def mirrored(scene, rng):
    Q = np.eye(dimension(scene))
    Q[0, 0] = -1.0
    return changed(scene, Change(Q))


def shifted(size):
    def at(scene, rng):
        d = dimension(scene)
        by = size * np.max(scene.given["radius"]) * rng.uniform(-1, 1, d)
        return changed(scene, Change(np.eye(d), shift=by))

    return at


def far(scene, rng):
    """Not of a pressed pile: which of its gaps are closed, rounding there decides otherwise."""
    return None if scene.pressed else shifted(1e3)(scene, rng)


def in_units(**units):
    return lambda scene, rng: changed(scene, Change(np.eye(dimension(scene)), **units))


KINDS = {
    "quarter": lambda s, rng: changed(s, Change(quarter(rng, dimension(s)))),
    "turned": turned,
    "mirrored": mirrored,
    "shifted": shifted(1.0),
    "far": far,
    "permuted": permuted,
    "walls": other_walls,
    "images": images,
    "in space": in_space,
    "mm": in_units(length=1e3),
    "km": in_units(length=1e-3),
    "ms": in_units(time=1e3),
    "ks": in_units(time=1e-3),
    "mg": in_units(mass=1e6),
    "kt": in_units(mass=1e-6),
}


# ---- scenes -------------------------------------------------------------------------------------


def scene(seed, number):
    rng = np.random.default_rng([seed, number])
    d = int(rng.choice([2, 3]))
    N, L = int(rng.integers(3, 61 if rng.random() < 0.3 else 21)), 1.0
    mean = L * (rng.choice([0.1, 0.4]) / N) ** (1 / d)
    ratio = rng.choice([1.0, 1.5, 10.0])
    r = mean * ratio ** -rng.random(N)
    period = None
    if rng.random() < 0.3:
        period = np.where(rng.random(d) < 0.6, 2.0 * L, 0.0)
        period = period if np.any(period) else None
    walls, kind = container(rng, d, L, period)
    walls += [some(rng, d, mean, L, period) for _ in range(rng.integers(0, 4))]
    x, r = placed(rng, d, L, r, walls, period)
    if not len(r):
        return scene(seed, number + 10_000)
    N = len(r)
    speed = 1.0
    scheme, rub = chosen(rng)
    e = rng.choice([0.0, 0.0, 0.5, 1.0])
    material = None
    if rng.random() < 0.25 and not isinstance(scheme, carom.PaoliSchatzman):
        e = {("a", "a"): 0.8, ("a", "b"): 0.2, ("b", "b"): 0.0, None: 0.5}
        material = [str(rng.choice(["a", "b"])) for _ in range(N)]
    glue = isinstance(scheme, carom.Maury) and rub == 0 and rng.random() < 0.2
    if glue:
        e, material = 0.0, None
    spin = None
    if rub > 0 or (
        not glue and not isinstance(scheme, carom.PaoliSchatzman) and rng.random() < 0.2
    ):
        spin = speed / mean * rng.normal(size=(N, 3) if d == 3 else N)
    gravity = rng.choice([0.0, 1.0, 10.0]) * speed**2 / L * unit(rng, d)
    drag = float(rng.choice([0.0, 0.0, 1.0]))
    given = {
        "position": x,
        "radius": r,
        "velocity": speed * rng.normal(size=(N, d)) * rng.choice([0.0, 1.0]),
        "mass": rng.uniform(0.5, 2.0, N) * (r / mean) ** d,
        "walls": walls,
        "gravity": gravity,
        "restitution": e if isinstance(e, dict) else float(e),
        "periodic": period,
        "friction": float(rub),
        "material": material,
        "glue": bool(glue),
        "spin": spin,
        "inertia": None,
    }
    if rub > 0 and rng.random() < 0.2:
        given["rolling"] = 0.1
        given["twisting"] = 0.1 if d == 3 else 0.0
    dt = rng.choice([0.03, 0.3]) * mean / speed
    grow = float(rng.choice([0.0, 0.0, 0.0, 0.2])) * speed / L
    pressed = rng.random() < 0.5 and not any(callable(a) for w in walls for a in vars(w).values())
    if pressed:
        given |= settled(given, float(dt), unit(rng, d) / L)
    names = ",".join(type(w).__name__ for w in walls)
    about = f"d={d} N={N} {kind}{' pressed' * pressed} {names} {scheme} mu={rub:g} "
    about += f"e={given['restitution']} "
    about += f"{'glue ' * bool(glue)}drag={drag} grow={grow:.1g} period={period} ratio={ratio} "
    about += f"spin={spin is not None} rolling={given.get('rolling', 0)} dt={dt:.2g}"
    return Scene(given, scheme, float(dt), 40, drag, grow, about, pressed)


def settled(given, dt, down):
    """The same spheres after they fell on each other for a while, without friction; e = 0.

    (With e > 0 what comes of impacts at once is no continuous function of the state.)
    """
    plain = dict(given, restitution=0.0, friction=0.0, rolling=0.0, twisting=0.0, spin=None)
    plain |= {"glue": False, "gravity": 20.0 * down}
    end = Scene(plain, carom.Maury(), dt, 100, drag=3.0, tolerance=PRESSED).run(final=True)
    gravity = given["gravity"] if np.any(given["gravity"]) else 10.0 * down
    start = {"position": end.x[-1], "velocity": end.v[-1], "gravity": gravity}
    return start | {"restitution": 0.0, "material": None}


def unit(rng, d):
    n = rng.normal(size=d)
    return n / np.linalg.norm(n)


def chosen(rng):
    scheme = rng.choice(5)
    rub = rng.choice([0.0, 0.0, 0.3, 1e3])
    if scheme == 4:
        return carom.PaoliSchatzman(), 0.0
    return (
        carom.Maury(),
        carom.Moreau(),
        carom.Moreau(correct=True),
        carom.Moreau(implicit=True),
    )[scheme], rub


def container(rng, d, L, period):
    if period is not None:
        open_ = period > 0
        low, high = np.where(open_, -np.inf, -L), np.where(open_, np.inf, L)
        return ([] if np.all(open_) else [Box(low, high, material="b")]), "periodic"
    pick = rng.choice(["box", "planes", "round", "floor", "none"])
    if pick == "box":
        return [Box(np.full(d, -L), np.full(d, L), material="a")], pick
    if pick == "planes":
        walls = []
        for _ in range(d + 2):
            n = unit(rng, d)
            walls.append(Plane(-1.2 * L * n, n, material=str(rng.choice(["a", "b"]))))
        return walls, pick
    if pick == "round":
        if d == 3 and rng.random() < 0.5:
            n = unit(rng, 3)
            return [
                Cylinder(np.zeros(3), n, 1.2 * L, spin=tuple(n), material="a"),
                Plane(-L * n, n),
                Plane(L * n, -n),
            ], pick
        if d == 2 and rng.random() < 0.5:
            return [Cylinder((0.0, 0.0), (0, 0, 1), 1.2 * L, spin=2.0)], pick
        return [Shell(np.zeros(d), 1.2 * L, material="b")], pick
    if pick == "floor":
        n, a = unit(rng, d), 0.05 * L * unit(rng, d)
        return [Plane(lambda t: -L * n + np.sin(3.0 * t) * a, n)], pick
    return [], pick


def some(rng, d, mean, L, period):
    """A panel or obstacles, that may move."""
    x = rng.uniform(-0.8, 0.8, d) * L
    if rng.random() < 0.5:
        if rng.random() < 0.5:
            a = mean * unit(rng, d)
            return Obstacles(lambda t: (x + np.sin(2.0 * t) * a)[None], 1.5 * mean, material="b")
        return Obstacles(np.stack([x, x + 3 * mean * unit(rng, d)]), np.array([mean, 2 * mean]))
    frame = rotation(rng, d)
    edge, other = 3 * mean * frame[0], (2 * mean * frame[1] if d == 3 else (0.0, 0.0))
    if rng.random() < 0.4:
        b = mean * unit(rng, d)
        return Panel(lambda t: x + np.sin(4.0 * t) * b, edge, other, material="a")
    return Panel(x, edge, other, velocity=unit(rng, d))


def placed(rng, d, L, radii, walls, period):
    """Spheres one after another where there is room; a third of them touching the one before."""
    done = np.zeros((0, d)), np.zeros(0)
    for r in sorted(radii, reverse=True):
        for _ in range(200):
            x = rng.uniform(-L, L, d)
            if len(done[1]) and rng.random() < 0.5:
                k = rng.integers(len(done[1]))
                x = done[0][k] + (done[1][k] + r) * unit(rng, d)
            new = np.concatenate([done[0], x[None]]), np.append(done[1], r)
            if admissible(*new, walls, period):
                done = new
                break
    return done


def admissible(x, r, walls, period):
    try:
        pile = carom.Spheres(x, r, walls=walls, periodic=period)
        check_overlap(pile.world(0.0, 1.0, 1e-3), carom.Maury(), 0.0)
    except carom.errors.CaromError:
        return False
    return True


# ---- comparison ---------------------------------------------------------------------------------


def difference(scene, plain, other, sol):
    """(n,) of positions in smallest radii and of velocities, of all steps that both made."""
    n = min(len(plain.t), len(sol.t))
    x, v, w = sol.x[:n], sol.v[:n], sol.spin[:n]
    if other.seen is not None:
        x, v, w = other.seen(x, v, w)
    r = np.min(scene.given["radius"])
    speed = np.max(np.abs(plain.v)) + np.max(np.abs(plain.spin)) * r + 1e-3 * r / scene.dt
    off = [
        np.abs(x - plain.x[:n]).reshape(n, -1).max(axis=1) / r,
        np.abs(v - plain.v[:n]).reshape(n, -1).max(axis=1) / speed,
        np.abs(w - plain.spin[:n]).reshape(n, -1).max(axis=1) * r / speed,
    ]
    return np.maximum.accumulate(np.max(off, axis=0))


def compared(seed, number, kinds=KINDS):
    """Of each kind the differences (n,), and whether one run went on where the other stopped."""
    here = scene(seed, number)
    plain, found = here.run(), {}
    for k, (name, change) in enumerate(kinds.items()):
        other = change(here, np.random.default_rng([seed, number, k]))
        if other is not None:
            sol = other.run()
            found[name] = difference(here, plain, other, sol), (len(plain.t), len(sol.t))
    return here, plain, found


def main():
    seed, count = int(sys.argv[1]), int(sys.argv[2])
    kinds = {k: f for k, f in KINDS.items() if k in (sys.argv[3:] or KINDS)}
    off = {k: [] for k in kinds}
    stopped = pushed = 0
    for number in range(count):
        here, plain, found = compared(seed, number, kinds)
        stopped += not plain.ok
        pushed += sum(len(table) for table in plain.contacts)
        bad = []
        for name, (gone, steps) in found.items():
            first = gone[min(FIRST, len(gone) - 1)]
            off[name].append(first)
            if first > ALIKE or steps[0] != steps[1]:
                when = int(np.argmax(gone > ALIKE)) if np.any(gone > ALIKE) else -1
                bad.append(f"{name} {first:.1e} from step {when}, {steps}")
        if bad:
            print(f"{number}: {here.about} status={plain.status}", *bad, sep="\n    ", flush=True)
    print(f"{count} scenes, {pushed} contacts that pushed, {stopped} scenes stopped early")
    for name, values in off.items():
        if values:
            print(
                f"{name:10} {len(values):4} median {np.median(values):.1e} most {max(values):.1e}"
            )


if __name__ == "__main__":
    main()
