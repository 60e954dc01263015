"""What a fresh interpreter sees."""

import ast
import graphlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import carom

OPTIONAL = {"matplotlib", "xarray", "dask", "scipy", "pandas", "h5netcdf", "h5py", "rich", "numba"}
OURS = "xla_cpu_small_while_loop_byte_threshold"  # the one flag that carom adds


def fresh(code, **environment):
    """What ``code`` prints in a new interpreter, as JSON."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XLA_"))}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=kept | environment,
    )
    return json.loads(done.stdout)


def test_optional_packages_and_settings():
    """Neither the import nor a run loads what only plots and files need; x64 is on."""
    code = """
import json, os, sys
import carom
imported = sorted({name.partition(".")[0] for name in sys.modules})
import jax.numpy as jnp
ball = carom.System(force=lambda t, q, v: -q, gap=lambda t, q: q)
sol = carom.solve(ball, carom.Moreau(), [1.0], [0.0], t1=1.0, dt=0.1)
str(sol), sol.impacts, sol.at(0.5)
run = sorted({name.partition(".")[0] for name in sys.modules})
print(json.dumps([imported, run, jnp.ones(1).dtype.name, os.environ["XLA_FLAGS"].split()]))
"""
    imported, run, dtype, flags = fresh(code)
    assert "jax" in imported
    assert set(imported) & OPTIONAL == set()
    assert set(run) & OPTIONAL == set()
    assert dtype == "float64"
    assert [OURS in flag for flag in flags] == [True]


FLAGS = """
import json, os
import carom
print(json.dumps(os.environ["XLA_FLAGS"].split()))
"""


def test_flags_of_the_user_are_kept():
    flags = fresh(FLAGS, XLA_FLAGS="--xla_force_host_platform_device_count=2")
    assert flags[0] == "--xla_force_host_platform_device_count=2"
    assert [OURS in flag for flag in flags] == [False, True]


def test_the_value_of_the_user_wins():
    theirs = f"--xla_backend_extra_options={OURS}=2048"
    assert fresh(FLAGS, XLA_FLAGS=theirs) == [theirs]


def test_carom_after_jax():
    """In either order, and after JAX has compiled something."""
    code = """
import json
import jax.numpy as jnp
jnp.ones(3).sum()
import carom
ball = carom.System(force=lambda t, q, v: -9.81 + 0 * q, gap=lambda t, q: q, restitution=0.5)
sol = carom.solve(ball, carom.Moreau(), [1.0], [0.0], t1=1.0, dt=0.01)
print(json.dumps([sol.q.dtype.name, float(sol.q[-1, 0])]))
"""
    dtype, last = fresh(code)
    assert dtype == "float64"
    assert last == pytest.approx(0.0612555656575454, abs=0.03)  # benchmarks P1


def test_public_names():
    assert len(carom.__all__) == len(set(carom.__all__))
    assert list(carom.__all__) == sorted(carom.__all__, key=str)
    for name in carom.__all__:
        assert getattr(carom, name) is not None


def test_no_other_public_name():
    """Modules of the package are reachable, and nothing else is in its face."""
    import types

    visible = {name for name in vars(carom) if not name.startswith("_")}
    modules = {name for name in visible if isinstance(getattr(carom, name), types.ModuleType)}
    assert visible - modules <= set(carom.__all__)
    assert all(getattr(carom, name).__name__.partition(".")[0] == "carom" for name in modules)


def test_star_import():
    names = {}
    exec("from carom import *", names)
    assert set(carom.__all__) <= set(names)
    assert names["solve"] is carom.solve


def test_the_contract():
    """Names that outside programs call."""
    expected = {
        "CaromError",
        "Lagrangian",
        "Maury",
        "Moreau",
        "MoreauJean",
        "PaoliSchatzman",
        "Record",
        "Solution",
        "Status",
        "System",
        "errors",
        "load",
        "models",
        "project",
        "solve",
    }
    assert expected <= set(carom.__all__)


def test_every_public_name_is_documented():
    for name in carom.__all__:
        assert (getattr(carom, name).__doc__ or "").strip(), name


def imports() -> list[tuple[str, str, bool]]:
    """Module, what it imports, and whether inside a function; but for the eyes of type checkers."""
    root = Path(carom.__file__).parent
    files = {".".join(("carom", *p.relative_to(root).with_suffix("").parts)): p
             for p in root.rglob("*.py")}  # fmt: skip
    files = {name.removesuffix(".__init__"): path for name, path in files.items()}
    found = []

    def look(node, name, inside):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        asked = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            named = [f"{node.module}.{a.name}" for a in node.names]
            asked = [n if n in files else node.module for n in named]
        found.extend((name, there, inside) for there in asked if there in files)
        for child in ast.iter_child_nodes(node):
            look(child, name, inside or isinstance(node, ast.FunctionDef))

    for name, path in files.items():
        look(ast.parse(path.read_text(encoding="utf-8")), name, False)
    return found


def test_no_module_imports_itself_by_a_detour():
    """Imports inside functions counted."""
    graph = {}
    for here, there, _ in imports():
        graph.setdefault(here, set()).add(there)
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError


def test_lazy_imports_are_counted():
    """Inside a function an import hides from a reader: there are these, most to start quickly."""
    lazy = {(here, there) for here, there, inside in imports() if inside}
    slow = tuple(f"carom.{room}" for room in ("kernels", "pictures", "io", "fclib"))
    assert len(lazy) <= 55
    others = {line for line in lazy if not line[1].startswith(slow) and "command" not in line[0]}
    assert len(others) <= 18, others


def test_private_names_of_numba_in_one_place():
    """Without them it works too: tests/kernels/test_disk.py."""
    root = Path(carom.__file__).parent
    found = {p.name for p in root.rglob("*.py") if "numba.core" in p.read_text()}
    assert found == {"disk.py"}


def test_private_names_of_jax_in_one_place():
    """And there they say what they should."""
    import jax

    from carom import _jax

    root = Path(carom.__file__).parent
    private = ("jax._src", "BatchTracer")
    found = {p.name for p in root.rglob("*.py") if any(name in p.read_text() for name in private)}
    assert found == {"_jax.py"}
    seen = {}

    def look(name, x):
        seen[name] = _jax.nothing_traced(), _jax.is_batched(x)
        return x

    look("plain", 1.0)
    jax.jit(lambda x: look("jit", x))(1.0)
    jax.vmap(lambda x: look("vmap", x))(jax.numpy.ones(2))
    assert seen == {"plain": (True, False), "jit": (False, False), "vmap": (False, True)}
