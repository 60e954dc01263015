"""What contacts did between the records: blows at instants, and forces while contact lasts."""

from typing import Any, NamedTuple

import numpy as np

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

    @property
    def lasts(self) -> bool:
        """Whether there is more than impacts."""
        return bool(np.any(self.force > 0.0))

    @staticmethod
    def of(sol) -> "Pushes":
        """Of a Solution; without a table of impacts all of it is force."""
        t, impulse = np.asarray(sol.t, float), np.asarray(sol.impulse, float)
        table: Any = sol.impacts if sol._has_impacts() else np.zeros(0, [("time", float)])
        blow = np.zeros_like(impulse)
        if len(table):
            at = np.searchsorted(t, table["time"] - 1e-9 * float(sol.dt))
            np.add.at(blow, (np.minimum(at, len(t) - 1), table["constraint"]), table["impulse"])
            over = np.maximum(blow - impulse, 0.0)
            blow[1:] += over[:-1]
            blow = np.minimum(blow, impulse)
        rest = impulse - blow
        small = _ROUNDING * np.max(impulse, initial=0.0)
        rest[rest <= small] = 0.0
        h = np.maximum(np.diff(t), 1e-300)[:, None]
        friction = rubbed = None
        if sol.friction is not None:
            part = rest / np.where(impulse > 0.0, impulse, 1.0)
            rub = np.asarray(sol.friction, float)
            rub = rub if rub.ndim == 2 else np.linalg.norm(rub, axis=-1)
            friction, rubbed = (rub * part)[1:] / h, rub * (1.0 - part)
            rubbed[(blow == 0.0) | (np.abs(rubbed) <= small)] = 0.0
        names = ("time", "constraint", "impulse")
        struck = [table[n] if len(table) else np.zeros(0) for n in names]
        plane = np.ndim(sol.friction) == 2
        return Pushes(*struck, rest[1:] / h, friction, rubbed, plane)
