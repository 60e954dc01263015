"""What a run of spheres carries from step to step beside positions and velocities.

The list of near pairs and the last multipliers save time; contacts that pushed are closed to the
tolerance (``World.contacts``).  A run that goes on bit for bit needs both.
"""

from dataclasses import dataclass, replace

import jax
import numpy as np

from carom.worlds.spheres.neighbours import PairList


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Glue:
    """gamma <= 0 (glued.py)."""

    pair: np.ndarray  # (P,) [kg m/s]
    wall: np.ndarray  # (N, W) likewise

    def of(self, i, source) -> np.ndarray:
        """(p,) of rows."""
        pair, found = source >= 0, np.zeros(len(source))
        found[pair] = self.pair[source[pair]]
        found[~pair] = self.wall[i[~pair], -1 - source[~pair]]
        return found

    def after(self, i, source, gamma) -> "Glue":
        """Of these rows; others have let go."""
        pair, wall, of_pair = np.zeros_like(self.pair), np.zeros_like(self.wall), source >= 0
        pair[source[of_pair]] = gamma[of_pair]
        wall[i[~of_pair], -1 - source[~of_pair]] = gamma[~of_pair]
        return Glue(pair, wall)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Memory:
    """P pairs in the list, W walls; the guesses are (..., 4) where spheres spin.

    With rolling resistance (..., 7).
    """

    pairs: PairList
    pair: np.ndarray  # (P,) multipliers of the step before [kg m/s]
    wall: np.ndarray  # (N, W) likewise
    rebuilds: np.ndarray  # () int, of the list
    glue: "Glue | None" = None  # what glue remembers

    @staticmethod
    def first(pairs: PairList, walls: tuple[int, ...], glue: bool = False) -> "Memory":
        """Of a run that starts: no guess; ``walls`` is the shape of ``wall``."""
        guess = np.zeros((len(pairs.second), *walls[2:])), np.zeros(walls)
        gamma = Glue(np.zeros(len(pairs.second)), np.zeros(walls)) if glue else None
        return Memory(pairs, *guess, np.array(1), gamma)

    def with_list(self, pairs: PairList) -> "Memory":
        """With a new list; what is known of a pair goes with it."""
        if self.pair.ndim == 1:
            guess = pairs.carried(self.pairs, self.pair)
        else:
            columns = [pairs.carried(self.pairs, one.copy()) for one in self.pair.T]
            guess = np.stack(columns, axis=1)
        glue = self.glue
        if glue is not None:
            glue = Glue(pairs.carried(self.pairs, glue.pair), glue.wall)
        return Memory(pairs, guess, self.wall, self.rebuilds + 1, glue)

    def blank(self) -> "Memory":
        """Without a guess."""
        return replace(self, pair=np.zeros_like(self.pair), wall=np.zeros_like(self.wall))

    def kept_through(self, other: "Memory") -> "Memory":
        """These guesses, with the list of another, that came of this one."""
        made = self if other.pairs is self.pairs else self.with_list(other.pairs)
        return replace(made, rebuilds=other.rebuilds)

    def guess(self, i, source) -> np.ndarray:
        """(p,) or (p, m) of rows: of body i with wall -1 - source, or of a place in the list."""
        pair, found = source >= 0, np.zeros((len(source), *self.pair.shape[1:]))
        found[pair] = self.pair[source[pair]]
        found[~pair] = self.wall[i[~pair], -1 - source[~pair]]
        return found

    def after(self, i, source, lam) -> "Memory":
        """With the multipliers lam of these rows, and none of others."""
        pair, walls = np.zeros_like(self.pair), np.zeros_like(self.wall)
        of_pair = source >= 0
        if lam.ndim < self.pair.ndim:  # of normals alone
            lam = np.pad(lam[:, None], ((0, 0), (0, self.pair.shape[1] - 1)))
        pair[source[of_pair]] = lam[of_pair]
        walls[i[~of_pair], -1 - source[~of_pair]] = lam[~of_pair]
        return replace(self, pair=pair, wall=walls)


def glue_for(walls: tuple[int, ...], memory: Memory) -> Glue:
    """What is left of the glue of another run, which may have had other walls, or none."""
    if memory.glue is None:
        return Glue(np.zeros(len(memory.pairs.second)), np.zeros(walls))
    same = memory.glue.wall.shape == walls
    return memory.glue if same else Glue(memory.glue.pair, np.zeros(walls))
