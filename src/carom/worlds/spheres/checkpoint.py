"""All that the rest of a run depends on, as arrays: with it a run goes on bit for bit.

Taken at a record, where the sums between records start anew.  The list of near pairs follows from
the positions it was made at; multipliers of the last step are the first guess of the next.
"""

import io

import numpy as np

from carom.schemes.scheme import State
from carom.worlds.spheres.neighbours import PairList


def most_bytes(spheres: int, obstacles: int, contacts: int, spins: bool = False) -> int:
    """How long ``saved`` can be."""
    each = 16 + 24 * spins
    return 8192 + (48 + 24 * spins) * spheres + 40 * (spheres + obstacles) + each * contacts


def saved(run) -> bytes:
    """The state of a run of spheres."""
    world, buffer = run.world, io.BytesIO()
    pairs = world._pairs
    pair, wall = np.flatnonzero(world._pair_guess), np.flatnonzero(world._wall_guess)
    slid = {}
    if world.pile.spins:
        slid = {
            "pair_slide": world._pair_slide[pair],
            "wall_slide": world._wall_slide.reshape(-1, 3)[wall],
        }
    np.savez(
        buffer,
        counts=[run.step, run.iterations, world.rebuilds],
        worst=[run.residual, run.overlap],
        q=run.state.q,
        v=run.state.v,
        list_x=pairs.x,
        list_radius=pairs.radius,
        list_margin=pairs.margin,
        pair=pair,
        pair_guess=world._pair_guess[pair],
        wall=wall,
        wall_guess=world._wall_guess.ravel()[wall],
        **slid,
    )
    return buffer.getvalue()


def restore(run, data: bytes) -> None:
    """Put a run where it was."""
    world = run.world
    with np.load(io.BytesIO(data)) as found:
        step, run.iterations, world.rebuilds = (int(n) for n in found["counts"])
        run.residual, run.overlap = (float(x) for x in found["worst"])
        margin = found["list_margin"]
        world._pairs = PairList(found["list_x"], found["list_radius"], margin, world.cell, world.N)
        world._pair_guess = np.zeros(len(world._pairs.second))
        world._pair_guess[found["pair"]] = found["pair_guess"]
        world._wall_guess[:] = 0.0
        there = found["wall"] < world._wall_guess.size
        world._wall_guess.ravel()[found["wall"][there]] = found["wall_guess"][there]
        if world.pile.spins:
            world._pair_slide = np.zeros((len(world._pair_guess), 3))
            world._wall_slide[:] = 0.0
        if world.pile.spins and "pair_slide" in found:
            world._pair_slide[found["pair"]] = found["pair_slide"]
            world._wall_slide.reshape(-1, 3)[found["wall"][there]] = found["wall_slide"][there]
        run.step, run.state = step, State(run.t0 + step * world.dt, found["q"], found["v"])
