"""Methods from outside: SciPy's event detection, and Siconos in a process of its own.

Worked examples of how any method enters: a function ``advance(problem, size) -> Motion``, and a
`Method` that names it.
"""

import json
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from carom.bench.methods import Method, Motion
from carom.errors import CaromError
from carom.models import Problem
from carom.schemes.scheme import rebound

_EVENTS = 2000  # after so many impacts SciPy is stopped: they accumulate


class OutsideError(CaromError):
    """A method from outside does not cover this problem, or failed on it."""


def scipy_events() -> Method:
    """``scipy.integrate.solve_ivp`` with one terminal event for each gap, and the impact law."""
    return Method(
        name="SciPy events",
        advance=_scipy,
        sizes=(1e-3, 1e-5, 1e-7, 1e-9, 1e-11),
        size="rtol",
        order=1.0,
    )


@cache
def _functions(problem: Problem):
    """Compiled acceleration, gaps, and what the impact law makes of (t, q, v)."""
    system = problem.system

    def struck(t, q, v, closed):
        return rebound(system, system.metric(q), system.contacts(t, q), v, closed).point

    def closing(t, q, v):
        return system.normals(t, q).velocity(v)

    def acceleration(t, q, v):
        return system.acceleration(t, q, v)

    def gaps(t, q):
        return system.gaps(t, q)

    return tuple(jax.jit(f) for f in (acceleration, gaps, struck, closing))


def _scipy(problem, rtol):
    from scipy.integrate import solve_ivp

    acceleration, gaps, struck, closing = _functions(problem)
    d = len(problem.q0)
    p = len(gaps(problem.t0, problem.q0))

    def rate(t, y):
        return np.concatenate([y[d:], acceleration(t, y[:d], y[d:])])

    def event(i):
        def gap(t, y):
            return float(gaps(t, y[:d])[i])

        gap.terminal, gap.direction = True, -1.0
        return gap

    events = [event(i) for i in range(p)]
    times = np.linspace(problem.t0, problem.t1, 401)
    rows, impacts, asked = [], [], 0
    t, y = problem.t0, np.concatenate([problem.q0, problem.v0])
    while True:
        left = times[times > t] if rows else times[times >= t]
        found = solve_ivp(
            rate, (t, problem.t1), y, method="DOP853", rtol=rtol, atol=rtol / 100, events=events,
            t_eval=left,
        )  # fmt: skip
        rows.append(np.reshape(found.y, (2 * d, -1)).T)  # an empty list where nothing is asked
        asked += found.nfev
        if found.status == 0:
            break
        t = max(te[0] for te in found.t_events if len(te))
        y = next(ye[0] for te, ye in zip(found.t_events, found.y_events, strict=True) if len(te))
        closed = np.asarray(gaps(t, y[:d])) <= 1e-9
        closed |= [len(te) > 0 for te in found.t_events]
        v = np.asarray(struck(t, y[:d], y[d:], closed))
        impacts.append(t)
        if len(impacts) > _EVENTS or np.min(np.asarray(closing(t, y[:d], v))[closed]) < 1e-9:
            raise OutsideError(
                f"SciPy's events stop at t = {t:g}, after {len(impacts)} impacts: an accumulation "
                "or a lasting contact, for which it has no rule"
            )
        y = np.concatenate([y[:d], v])
    path = np.concatenate(rows)
    return Motion(
        t=times,
        q=path[:, :d],
        v=path[:, d:],
        steps=asked // 12,
        evaluations=asked,
        impact_times=np.array(impacts),
    )


def siconos() -> Method:
    """Siconos' Moreau-Jean scheme, for the bouncing ball; Debian's ``python3-siconos``."""
    return Method(
        name="Siconos",
        advance=_siconos,
        sizes=(1009, 4001, 16001, 64007),
        order=1.0,
        evaluations=1.0,
    )


def siconos_python() -> str | None:
    """The Python that has Siconos: the system's own, not that of a virtual environment."""
    for python in ("/usr/bin/python3", shutil.which("python3")):
        if python and python != sys.executable and Path(python).exists():
            test = subprocess.run([python, "-c", "import siconos.kernel"], capture_output=True)
            if test.returncode == 0:
                return python
    return None


def siconos_ball(python: str, data: dict) -> dict:
    """What siconos_ball.py prints for ``data``, run by ``python``."""
    done = subprocess.run(
        [python, str(Path(__file__).with_name("siconos_ball.py")), json.dumps(data)],
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise OutsideError(f"Siconos failed: {done.stderr.strip().splitlines()[-1:]}")
    return json.loads(done.stdout.splitlines()[-1])


def _siconos(problem, size):
    if problem.name != "bouncing_ball":
        raise OutsideError("the example for Siconos covers the bouncing ball only")
    python = siconos_python()
    if python is None:
        raise OutsideError("Siconos is not installed (Debian: apt install python3-siconos)")
    force = problem.system.forces(jnp.zeros(()), jnp.asarray(problem.q0), jnp.asarray(problem.v0))
    data = {
        "q0": float(problem.q0[0]),
        "v0": float(problem.v0[0]),
        "weight": float(force[0]),
        "e": float(problem.system.common_restitution()),
        "t1": problem.t1,
        "steps": int(size),
    }
    out = siconos_ball(python, data)
    path = np.array(out["path"])
    return Motion(
        t=path[:, 0],
        q=path[:, 1:2],
        v=path[:, 2:3],
        steps=int(size),
        impulse=np.array([np.sum(path[:, 3])]),
        wall=out["wall"],
        cpu=out["cpu"],
    )
