"""Mechanics with impacts.  Every public name, once."""

import jax as _jax

_jax.config.update("jax_enable_x64", True)  # impacts need double precision; see the README

from carom import errors, models  # noqa: E402
from carom.errors import CaromError  # noqa: E402
from carom.projection import project  # noqa: E402
from carom.record import Record  # noqa: E402
from carom.schemes.maury import Maury  # noqa: E402
from carom.schemes.moreau import Moreau  # noqa: E402
from carom.schemes.paoli_schatzman import PaoliSchatzman  # noqa: E402
from carom.solution import Solution, load  # noqa: E402
from carom.solve import solve  # noqa: E402
from carom.status import Status  # noqa: E402
from carom.system import Lagrangian, System  # noqa: E402

__all__ = [
    "CaromError",
    "Lagrangian",
    "Maury",
    "Moreau",
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
]
