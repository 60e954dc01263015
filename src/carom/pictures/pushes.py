"""What contacts did between the records: blows at instants, and forces while contact lasts."""

from typing import Any, NamedTuple

import numpy as np

from carom.results.impacts import COLUMNS

_ROUNDING = 1e-9  # of the largest impulse: less is no contact


class Pushes(NamedTuple):
    """With I(k, i) received by gap i up to record k, B(k, i) of it by its impacts, R of friction,

        force = (I - B) / (t(k) - t(k-1)),   friction = R (I - B) / I / (t(k) - t(k-1)),    (1)
        rubbed = R B / I,                                                                   (2)

    so that a cone that holds R holds both parts.  An impact that a scheme spreads over two steps
    is more than its step received: what is left over is of the next.
    """

    time: np.ndarray  # (k,) [s] of the impacts
    gap: np.ndarray  # (k,) which was struck
    impulse: np.ndarray  # (k,) [N s]
    force: np.ndarray  # (n - 1, p) [N] between two records, in the mean
    friction: np.ndarray | None  # (n - 1, p) [N]; in space its size
    rubbed: np.ndarray | None  # (n, p) [N s] at impacts
    plane: bool  # whether friction has a sign
    blow: np.ndarray  # (n, p) [N s] of impacts, since the record before

    @property
    def lasts(self) -> bool:
        """Whether there is more than impacts."""
        return bool(np.any(self.force > 0.0))

    @staticmethod
    def of(sol) -> "Pushes":
        """Of a Solution; without a table of impacts all of it is force."""
        t, impulse = np.asarray(sol.t, float), np.asarray(sol.impulse, float)
        table: Any = sol.impacts if sol._has_impacts() else np.zeros(0, COLUMNS)
        blow = _blows(table, t + 1e-9 * float(sol.dt), impulse)
        small = _ROUNDING * np.max(impulse, initial=0.0)
        rest = np.where(impulse - blow <= small, 0.0, impulse - blow)
        h = np.maximum(np.diff(t), 1e-300)[:, None]
        struck = table["time"], table["constraint"], table["impulse"]
        if sol.friction is None:
            return Pushes(*struck, rest[1:] / h, None, None, True, blow)
        part, rub = rest / np.where(impulse > 0.0, impulse, 1.0), np.asarray(sol.friction, float)
        plane = rub.ndim == 2
        rub = rub if plane else np.linalg.norm(rub, axis=-1)
        rubbed = rub * (1.0 - part)
        rubbed[(blow == 0.0) | (np.abs(rubbed) <= small)] = 0.0
        return Pushes(*struck, rest[1:] / h, (rub * part)[1:] / h, rubbed, plane, blow)


def _blows(table, t, impulse) -> np.ndarray:
    """B (n, p) of (1), at most what was received."""
    blow = np.zeros_like(impulse)
    at = np.minimum(np.searchsorted(t, table["time"]), len(t) - 1)
    np.add.at(blow, (at, table["constraint"]), table["impulse"])
    over = np.maximum(blow - impulse, 0.0)
    blow[1:] += over[:-1]
    return np.minimum(blow, impulse)
