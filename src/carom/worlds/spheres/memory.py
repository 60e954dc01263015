"""What a run of spheres carries from step to step beside positions and velocities.

The list of near pairs and the last multipliers save time; contacts that pushed are closed to the
tolerance (``World.contacts``).  A run that goes on bit for bit needs both.

Where space repeats, a sphere may touch a Panel and its image, or up to eight of them.  Each has a
glue of its own: image k of wall w has the column w + W (k_x mod 2 + 2 (k_y mod 2) + 4 (k_z mod 2)),
for only images beside each other are touched at once.
"""

from dataclasses import dataclass, replace

import jax
import numpy as np

from carom import kernels
from carom.worlds.spheres.neighbours import PairList


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Glue:
    """gamma <= 0 (glued.py)."""

    pair: np.ndarray  # (P,) [kg m/s]
    wall: np.ndarray  # (N, W) likewise

    def of(self, i, source) -> np.ndarray:
        """(p,) of rows."""
        return _of_rows(self.pair, self.wall, i, source)

    def after(self, i, source, gamma) -> "Glue":
        """Of these rows; others have let go."""
        return Glue(*_by_place(self.pair, self.wall, i, source, gamma))


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
        return _of_rows(self.pair, self.wall, i, source)

    def after(self, i, source, lam) -> "Memory":
        """With the multipliers lam of these rows, and none of others."""
        if lam.ndim < self.pair.ndim:  # of normals alone
            lam = np.pad(lam[:, None], ((0, 0), (0, self.pair.shape[1] - 1)))
        pair, wall = _by_place(self.pair, self.wall, i, source, lam)
        return replace(self, pair=pair, wall=wall)


# Most rows are pairs: taking all of them for pairs, then the others, is faster than choosing.


def _of_rows(pair, wall, i, source):
    """(p, ...) of rows, from what each pair of the list and each wall has."""
    at, walls = np.maximum(source, 0), np.flatnonzero(source < 0)
    found = pair.take(at, axis=0) if len(pair) else np.zeros((len(at), *pair.shape[1:]))
    found[walls] = wall[i[walls], -1 - source[walls]]
    return found


def _by_place(pair, wall, i, source, values):
    """The way back: what each pair and each wall has, 0 where there is no row."""
    walls = np.flatnonzero(source < 0)
    at, made = source.copy(), np.zeros((len(pair) + 1, *pair.shape[1:]))
    at[walls] = len(pair)  # one place more, for what is no pair
    made[at] = values
    other = np.zeros_like(wall)
    other[i[walls], -1 - source[walls]] = values[walls]
    return made[:-1], other


def with_images(walls: tuple[int, ...], pile) -> tuple[int, ...]:
    """``walls``, the shape of what is known of walls, with a column for each image that matters."""
    kinds = pile.walls.at(pile.start)[0]
    several = pile.glue and np.any(pile.period > 0.0) and np.any(kinds == kernels.rows.PANEL)
    return (walls[0], 8 * walls[1], *walls[2:]) if several else walls


def places(source, point, kinds, data, cell) -> np.ndarray:
    """(p,) ``source`` with -1 - column for panels, whose images touch at ``point`` (p, 3)."""
    of, found = -1 - source, source.copy()
    panels = np.flatnonzero((source < 0) & (kinds[np.maximum(of, 0)] == kernels.rows.PANEL))
    corner, first, second = np.split(data[of[panels], :9], 3, axis=1)
    image = np.rint((point[panels] - corner - 0.5 * (first + second)) * cell.inverse)
    ends = np.abs(first) + np.abs(second) < cell.period  # else it goes on into its image
    found[panels] -= len(data) * (np.where(ends, image % 2, 0).astype(int) @ (1, 2, 4))
    return found


def glue_for(walls: tuple[int, ...], memory: Memory) -> Glue:
    """What is left of the glue of another run, which may have had other walls, or none."""
    if memory.glue is None:
        return Glue(np.zeros(len(memory.pairs.second)), np.zeros(walls))
    same = memory.glue.wall.shape == walls
    return memory.glue if same else Glue(memory.glue.pair, np.zeros(walls))
