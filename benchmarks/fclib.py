"""Frictional problems of others: CPU time beside Siconos, and the figures of an earlier trial.

    python benchmarks/fclib.py [--tolerance 1e-8] [--siconos /usr/bin/python3]

The problems are the .npz files of $CAROM_FCLIB, else of ../shared/fclib.  Siconos runs in a process
of its own, with the Python that can import it (Debian: python3-siconos and python3-scipy), through
three of its solvers, with its tolerance lowered until the measure of carom.fclib, (3), is reached.
CPU time of one core, best of several; the problem is built before, in both.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from scipy import sparse

from carom.fclib import Problem

FOLDER = Path(os.environ.get("CAROM_FCLIB", Path(__file__).parents[2] / "shared" / "fclib"))
LIMIT = 3.0  # seconds for one Siconos solver, all its attempts

SICONOS = """
import json, sys, time
import numpy as np
import siconos.numerics as sn
from scipy.sparse import csc_matrix
path, solver, tolerance, spare = sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4]
z = np.load(path)
q, mu, dim = z["q"], z["mu"], int(z["dim"])
W = csc_matrix(z["W"]) if dim == 3 else np.asfortranarray(z["W"])  # what each can take
names = {
    "nsgs": ("SICONOS_FRICTION_3D_NSGS", "fc3d_nsgs"),
    "nsn_ac": ("SICONOS_FRICTION_3D_NSN_AC", "fc3d_nonsmooth_Newton_AlartCurnier"),
    "prox": ("SICONOS_FRICTION_3D_PROX", "fc3d_proximal"),
}
if dim == 2:
    names = {"nsgs": ("SICONOS_FRICTION_2D_NSGS", "fc2d_driver")}
    if solver != "nsgs": sys.exit("planar")
code, call = getattr(sn, names[solver][0]), getattr(sn, names[solver][1])
problem = sn.FrictionContactProblem(dim, W, q, mu)
own = tolerance
for attempt in range(6):
    times = []
    for repeat in range(3):
        options = sn.SolverOptions(code)
        options.dparam[sn.SICONOS_DPARAM_TOL] = own
        options.iparam[sn.SICONOS_IPARAM_MAX_ITER] = 100000
        r, u = np.zeros(len(q)), np.zeros(len(q))
        begin = time.process_time()
        call(problem, r, u, options)
        times.append(time.process_time() - begin)
    np.save(f"{spare}{attempt}.npy", r)
    print(json.dumps([min(times), attempt]), flush=True)
    own /= 10.0
"""


def siconos(python, problem, solver, tolerance):
    """Milliseconds of the first run that reaches the tolerance by our measure, else None."""
    with tempfile.TemporaryDirectory() as folder:
        path, spare = Path(folder) / "p.npz", Path(folder) / "r"
        np.savez(path, W=problem.W.toarray(), q=problem.q, mu=problem.mu, dim=problem.dim)
        command = [python, "-c", SICONOS, str(path), solver, str(tolerance), str(spare)]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        clock = threading.Timer(LIMIT, process.kill)
        clock.start()
        try:
            for line in process.stdout or ():
                if not line.startswith("["):
                    continue
                seconds, attempt = json.loads(line)
                if problem.residual(np.load(f"{spare}{attempt}.npy")) <= tolerance:
                    return 1e3 * seconds
        finally:
            clock.cancel()
            process.kill()
            process.wait()
    return None


def own(problem, tolerance):
    """Milliseconds, the best of several, and the result."""
    found, times = problem.solve(tolerance), []
    for _ in range(10):
        begin = time.process_time()
        found = problem.solve(tolerance)
        times.append(time.process_time() - begin)
    return 1e3 * min(times), found


def table_of_lab():
    """Milliseconds of the earlier trial by (problem, tolerance): best of Siconos, lab."""
    readme, figures = FOLDER / "README.md", {}
    for line in readme.read_text().splitlines() if readme.is_file() else []:
        cells = [cell.strip() for cell in line.strip("| ").split("|")]
        if len(cells) == 12 and cells[1] in ("2", "3"):
            figures[cells[0], 1e-4] = cells[7], cells[8]
            figures[cells[0], 1e-8] = cells[10], cells[11]
    return figures


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--tolerance", type=float, nargs="*", default=[1e-4, 1e-8])
    arguments.add_argument("--siconos", default=None, help="a Python that can import siconos")
    given = arguments.parse_args()
    if given.siconos:
        needed = "import numpy, scipy.sparse, siconos.numerics"
        tried = subprocess.run([given.siconos, "-c", needed], capture_output=True, text=True)
        if tried.returncode:
            sys.exit(f"{given.siconos} cannot run Siconos:\n{tried.stderr}")
    lab, paths = table_of_lab(), sorted(FOLDER.glob("*.npz"))
    if not paths:
        sys.exit(f"no problems in {FOLDER}; set CAROM_FCLIB")
    for tolerance in given.tolerance:
        print(f"\nCPU ms to a residual of {tolerance:g}")
        print(f"{'problem':38}{'n':>6}{'carom':>10}{'sweeps':>8}{'residual':>10}  ", end="")
        print("nsgs, nsn_ac, prox here | best of Siconos, lab in the trial")
        for path in paths:
            z = np.load(path)
            W = sparse.csc_matrix((z["W_data"], z["W_indices"], z["W_indptr"]), z["W_shape"])
            problem = Problem(W=W, q=z["q"], mu=z["mu"], dim=int(z["dim"]))
            ms, found = own(problem, tolerance)
            print(f"{path.stem:38}{problem.contacts:6}{ms:10.4g}{found.iterations:8}", end="")
            print(f"{found.residual:10.1e}  ", end="", flush=True)
            if given.siconos:
                others = [
                    siconos(given.siconos, problem, solver, tolerance)
                    for solver in ("nsgs", "nsn_ac", "prox")
                ]
                print(*("-" if t is None else f"{t:.4g}" for t in others), sep=", ", end="")
            print(" |", *lab.get((path.stem, tolerance), ()), flush=True)


if __name__ == "__main__":
    main()
