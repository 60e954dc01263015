"""What is recorded: named fields with their axes, units and meanings.

Memory, files and xarray are made from these: nothing else lists what a record holds.
"""

from typing import NamedTuple


class Field(NamedTuple):
    """Numbers of one kind, at every record."""

    name: str
    axes: tuple[str, ...]  # after time; the last ones may be missing
    unit: str  # "" where it is the user's
    meaning: str


def axes_of(fields: tuple[Field, ...]) -> dict[str, tuple[str, ...]]:
    """By name."""
    return {field.name: field.axes for field in fields}


def attributes(field: Field) -> dict[str, str]:
    """For a file."""
    told = {"long_name": field.meaning}
    return told | {"units": field.unit} if field.unit else told


# ---- of a world with the same contacts all the time ----

MOTION = (
    Field("q", ("coordinate",), "", "position"),
    Field("v", ("coordinate",), "", "velocity, right limit"),
    Field("gap", ("constraint",), "", "gap, negative means overlap"),
    Field("impulse", ("constraint",), "", "normal impulse since the record before"),
    Field("joint_impulse", ("joint",), "", "impulse of joints since the record before"),
    Field("friction", ("constraint", "tangent"), "", "tangential impulse since the record before"),
    Field(
        "velocity_before", ("constraint",), "", "normal velocity before the reaction of the step"
    ),
    Field("velocity_after", ("constraint",), "", "normal velocity after the reaction of the step"),
    Field("events", ("event", "field"), "", "impacts located inside the step, padded with -1"),
)

# ---- of spheres ----

SPHERES = (
    Field("x", ("sphere", "direction"), "m", "position, not folded back into the period"),
    Field("v", ("sphere", "direction"), "m/s", "velocity, right limit"),
    Field("radius", ("sphere",), "m", "radius"),
    Field("moved", ("sphere", "direction"), "m", "motion in the step that ends at the record"),
    Field("impulse", ("sphere", "direction"), "kg m/s", "from contacts, since the record before"),
    Field("wall_impulse", ("wall", "direction"), "kg m/s", "on walls, since the record before"),
    Field("work", (), "J", "of gravity and force, since the record before"),
    Field("push", (), "kg m/s", "sum of the impulses of contacts, since the record before"),
    Field("overlap", (), "m", "largest at the end of a step, since the record before"),
    Field("spin", ("sphere", "turn"), "rad/s", "angular velocity, right limit"),
    Field(
        "angular_impulse", ("sphere", "turn"), "kg m^2/s", "of friction, since the record before"
    ),
    Field("steps", (), "", "whole steps since t0 before the record"),
)

CONTACT = (  # after contact: the contacts that pushed in the step that ends at the record
    Field("pairs", ("side",), "", "two spheres; obstacle k is N + k, wall w is -1 - w"),
    Field("position", ("direction",), "m", "point of contact"),
    Field("normal", ("direction",), "", "unit, from the first to the second"),
    Field("impulse", (), "kg m/s", "in the step; the first receives -impulse normal"),
    Field("force", (), "N", "impulse over the length of the step"),
    Field("branch", ("direction",), "m", "from centre to centre, or from centre to wall"),
    Field("friction", ("direction",), "kg m/s", "tangential impulse; the first receives -friction"),
    Field("friction_force", ("direction",), "N", "friction over the length of the step"),
    Field("gamma", (), "kg m/s", "what glue remembers after the step, <= 0"),
    Field("couple", ("turn",), "kg m^2/s", "of rolling and twisting; the first has -couple"),
    Field("torque", ("turn",), "N m", "couple over the length of the step"),
)
