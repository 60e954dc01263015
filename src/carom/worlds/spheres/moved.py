"""What a run asks of a world of spheres (contracts.Stepped)."""

from dataclasses import replace
from typing import Any

from carom import kernels
from carom.dump import arrays_of
from carom.errors import KindError, ShapeError
from carom.worlds.spheres import materials
from carom.worlds.spheres.checks import check_overlap, wide, with_spin
from carom.worlds.spheres.memory import Glue, Memory
from carom.worlds.spheres.neighbours import PairList
from carom.worlds.spheres.observer import Observer
from carom.worlds.spheres.solution import SpheresEnd

_REMEMBERED = ("pairs.radius", "pairs.margin", "pair", "wall", "rebuilds")


class Moved:
    """The part of World that its schemes do not need."""

    pile: Any
    dt: float
    N: int
    dimension: int
    cell: Any
    bodies: Any
    remembered: Any

    @property
    def format(self) -> str:
        """The ending of its files."""
        return self.pile.format

    def observer(self, clock) -> Observer:
        """What is recorded of a run."""
        return Observer(self, clock)

    def running(self) -> Any:
        """As many threads as so many spheres are worth."""
        return kernels.threads.enough_for(self.N)

    def check_start(self, scheme, t0: float) -> None:
        """Refuse overlaps that the scheme would not leave."""
        check_overlap(self, scheme, t0)

    def gone_on(self, before, scheme, t: float) -> tuple[Any, Any, Memory]:
        """Positions, velocities and memory at the end of the solution ``before``."""
        if not isinstance(before.end, SpheresEnd):
            raise KindError(f"start is {before!r}; give a solution of spheres, from solve or load")
        bodies, found = self.bodies(t, wide(self.pile.position)), arrays_of(before.end.state)
        q, v, listed = (found[f"state.{name}"] for name in ("q", "v", "memory.pairs.x"))
        if listed.shape != bodies.shape or q.shape != (self.N, 3):
            raise ShapeError(
                f"start= is a run of {len(q)} spheres, the pile has {self.N}, or their obstacles "
                "differ: go on with the pile that was moved"
            )
        left = 1.01 * before.stats.overlap
        check_overlap(self, scheme, t, q[:, : self.dimension], left)
        radius, margin, pair, wall, rebuilds = (found[f"state.memory.{n}"] for n in _REMEMBERED)
        made = PairList(listed, radius, margin, self.cell, self.N)
        gamma = [found.get(f"state.memory.glue.{n}") for n in ("pair", "wall")]
        glue = None if gamma[0] is None or gamma[1] is None else Glue(gamma[0], gamma[1])
        memory = self.remembered(Memory(made, pair, wall, rebuilds, glue))
        return q, with_spin(self.pile, v), memory

    def struck(self, state, contacts, lam) -> Any:
        """The state that a run starts from, after the impulses lam of an impact at t0."""
        if not self.pile.glue:
            return state
        return replace(state, memory=contacts.kept(lam))

    def about(self, residual: float, iterations: int) -> str:
        """What to say of a run that failed."""
        return (
            f" with a residual of {residual:.2e} smallest radii after {iterations} sweeps in all "
            f"(tolerance {self.pile.tolerance:g})"
        )

    def parts(self, t0: float) -> dict[str, Any]:
        """What must be the same for a run to go on."""
        pile = self.pile
        parts = {
            "the positions": pile.position,
            "the velocities": pile.velocity,
            "the masses": pile.mass,
            "the radii": pile.radius_at(t0),
            "the walls": [*pile.walls.at(t0), *pile.walls.obstacles_at(t0)],
            "gravity": pile.gravity,
            "the restitution": materials.listed(pile.restitution),
            "the period": pile.period,
            "the tolerance": [pile.tolerance, pile.iterations],
            "what is a function": sorted(pile.functions()),
        }
        if pile.spins:
            surfaces = pile.walls.surfaces_at(t0, self.dt)
            driven = pile.walls.obstacles_surface_at(t0, self.dt)
            parts |= {
                "the friction": materials.listed(pile.friction),
                "the spins": [pile.spin, pile.inertia],
                "the surfaces of walls": [*surfaces, *driven],
            }
        if pile.material is not None or any(isinstance(x, dict) for x in pile.coefficients):
            parts["the materials"] = materials.names(pile)
        if pile.rolls:
            resists = materials.listed(pile.rolling), materials.listed(pile.twisting)
            parts["the resistance to rolling"] = [*resists[0], "twisting", *resists[1]]
        if pile.glue:
            parts["the glue"] = ["glue"]
        return parts
