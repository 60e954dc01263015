"""What ``carom new`` writes: files to start from."""

from importlib import resources
from pathlib import Path

from carom.errors import CaromError

OWN = '''"""A block on a belt, held by a spring: the belt takes it along, and it breaks loose.

    carom run {name} --plot        its certificate, its result {stem}.nc, its picture {stem}.png

Run again with --force, which writes over the result.

Change what you like: the names below are what `carom run` looks for.
"""

import jax.numpy as jnp

import carom


def force(t, q, v):  # [N] M q'' = force(t, q, v)
    return jnp.array([-10.0 * q[0], -9.81])


def gap(t, q):  # [m] stays >= 0; one for each contact
    return q[1]


def slip(t, q, v):  # [m/s] how each contact slides: here over a belt of 0.5 m/s
    return v[0] - 0.5


problem = carom.System(
    mass=[1.0, 1.0],  # [kg]; a matrix or a function of q too
    force=force,
    gap=gap,
    restitution=0.0,  # what of the normal speed is left after an impact
    friction=0.3,  # leave friction and slip out where there is none
    slip=slip,
)
q0 = [0.0, 0.0]  # positions at the start
v0 = [0.0, 0.0]  # velocities at the start
t1 = 10.0  # [s] end
dt = 1e-3  # [s] length of a step
scheme = "Moreau"  # `carom schemes` lists them

# What `carom view {stem}.nc` draws, in the plane; without it, curves alone.
# from carom.looks import Disc, Segment
# looks = lambda t, q: [Segment(-0.5, 0.0, 1.0, 0.0), Disc(q[0], q[1] + 0.05, 0.05)]
'''


class StartError(CaromError, ValueError):
    """A file to start from cannot be written."""


def folder():
    """Of the examples: in the wheel beside the package, in a clone at its root."""
    inside = resources.files("carom").joinpath("examples")
    if inside.is_dir():
        return inside
    return Path(__file__).parents[3] / "examples"


def examples() -> list[str]:
    """Their names."""
    return sorted(f.name for f in folder().iterdir() if f.name.endswith((".py", ".toml")))


def text(path: Path, like: str | None) -> str:
    """What to write to ``path``: a System of one's own (.py), spheres (.toml), or an example."""
    if like is not None:
        if like not in examples():
            raise StartError(f"there is no example {like!r}. There are {', '.join(examples())}")
        if Path(like).suffix != path.suffix:
            raise StartError(f"{path}: it must end in {Path(like).suffix}, as {like} does")
        return folder().joinpath(like).read_text(encoding="utf-8")
    if path.suffix == ".py":
        return OWN.replace("{name}", path.name).replace("{stem}", path.stem)
    if path.suffix == ".toml":
        found = folder().joinpath("settling.toml").read_text(encoding="utf-8")
        return found.replace("examples/settling.toml", path.name).replace("settling", path.stem)
    raise StartError(f"{path}: it must end in .py (equations of your own) or .toml (spheres)")
