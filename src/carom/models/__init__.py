"""Ready problems, each with its exact motion.

Every function takes keyword parameters with defaults and returns a `Problem`.
"""

from carom.models.ball import bouncing_ball
from carom.models.balls import row_of_balls, stack
from carom.models.billiard import disc, disc_polar, outside_disc, wedge
from carom.models.lift_off import lift_off
from carom.models.oscillator import impact_oscillator, resonance, stopped_oscillator
from carom.models.polar import line_polar
from carom.models.problem import ModelError, Problem
from carom.models.table import vibrating_table

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
)

__all__ = [
    "ModelError",
    "Problem",
    "bouncing_ball",
    "catalogue",
    "disc",
    "disc_polar",
    "impact_oscillator",
    "lift_off",
    "line_polar",
    "outside_disc",
    "resonance",
    "row_of_balls",
    "stack",
    "stopped_oscillator",
    "vibrating_table",
    "wedge",
]


def catalogue() -> dict[str, str]:
    """Name of each model and what it is, in one line."""
    return {model.__name__: (model.__doc__ or "").partition("\n")[0] for model in _MODELS}
