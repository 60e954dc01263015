"""Ready problems, each with its exact motion.

Every function takes keyword parameters with defaults and returns a `Problem`.
"""

from carom.arguments import nearest_name, suggesting
from carom.models.ball import bouncing_ball
from carom.models.balls import row_of_balls, stack
from carom.models.bar import elastic_bar
from carom.models.beam import cantilever
from carom.models.billiard import disc, disc_polar, outside_disc, wedge
from carom.models.block import rocking_block
from carom.models.cam import cam_and_follower
from carom.models.cradle import newtons_cradle
from carom.models.dimer import dimer
from carom.models.grains import Scene, granular_gas, settling_spheres
from carom.models.lift_off import lift_off
from carom.models.oscillator import impact_oscillator, resonance, stopped_oscillator
from carom.models.pair import impact_pair
from carom.models.pendulum import double_pendulum
from carom.models.polar import line_polar
from carom.models.problem import ModelError, Problem
from carom.models.rubbing import (
    block_on_slope,
    dry_oscillator,
    painleve_rod,
    skidding_ball,
    stick_slip,
)
from carom.models.table import vibrating_table
from carom.models.toys import brake_squeal, woodpecker
from carom.models.uniqueness import nonunique
from carom.models.wall import wall

_MODELS = (
    bouncing_ball,
    stopped_oscillator,
    impact_oscillator,
    resonance,
    disc,
    disc_polar,
    outside_disc,
    wedge,
    lift_off,
    line_polar,
    vibrating_table,
    row_of_balls,
    stack,
    wall,
    nonunique,
    impact_pair,
    rocking_block,
    newtons_cradle,
    cam_and_follower,
    cantilever,
    double_pendulum,
    elastic_bar,
    block_on_slope,
    dry_oscillator,
    stick_slip,
    skidding_ball,
    painleve_rod,
    brake_squeal,
    woodpecker,
    dimer,
    granular_gas,
    settling_spheres,
)

__all__ = [
    "ModelError",
    "Problem",
    "Scene",
    "block_on_slope",
    "bouncing_ball",
    "brake_squeal",
    "cam_and_follower",
    "cantilever",
    "catalogue",
    "dimer",
    "disc",
    "disc_polar",
    "double_pendulum",
    "dry_oscillator",
    "elastic_bar",
    "granular_gas",
    "impact_oscillator",
    "impact_pair",
    "lift_off",
    "line_polar",
    "newtons_cradle",
    "nonunique",
    "outside_disc",
    "painleve_rod",
    "resonance",
    "rocking_block",
    "row_of_balls",
    "settling_spheres",
    "skidding_ball",
    "stack",
    "stick_slip",
    "stopped_oscillator",
    "vibrating_table",
    "wall",
    "wedge",
    "woodpecker",
]


globals().update({model.__name__: suggesting(model) for model in _MODELS})


def __getattr__(name: str):
    hint = nearest_name(name, __all__)
    raise AttributeError(f"carom.models has no {name!r}{hint} `carom models` lists them")


def catalogue() -> dict[str, str]:
    """Name of each model and what it is, in one line."""
    return {model.__name__: (model.__doc__ or "").partition("\n")[0] for model in _MODELS}
