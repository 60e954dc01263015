"""The table of impacts, read off the impulses of the steps."""

from typing import Any

import numpy as np

COLUMNS = [
    ("time", float),  # of the step in which the contact began
    ("constraint", int),  # index of the gap
    ("velocity_before", float),  # relative normal velocity, left limit, < 0
    ("velocity_after", float),  # right limit
    ("impulse", float),  # received
    ("step", int),
]


_ROUNDING = 1e-12


class ImpactLog:
    """Collects impacts from steps that come in pieces.

    An impact is the onset of a contact: a step with an impulse on a gap that had none in the step
    before.  A scheme may spread one impact over two steps (PaoliSchatzman does, and Maury at
    e = 0), so a second step in a row belongs to it; what follows is lasting contact, whose
    reaction is in ``sol.impulse`` and not here.  An impulse that is rounding beside the largest
    one so far is no contact.  A contact that is ``resting`` (p,) at the start goes on in the first
    step: it is no impact, unless another gap is struck in that step, which passes blows on.
    """

    def __init__(self, count: int, resting=None):
        self._resting = np.zeros(count, bool) if resting is None else resting
        self._held = _Steps.none(count)  # the last steps with an impulse
        self._largest = 0.0
        self._rows = []

    def feed(self, index, t, impulse, before, after, events=None) -> None:
        """Steps that follow the last ones: (n,), (n,), and three of shape (n, p).

        A scheme that locates its impacts inside the steps hands them over in ``events`` (n, k, 5),
        padded with -1; then they are the table.
        """
        if events is not None:
            self._take(index, t, impulse, before, after, events)
            return
        pushed = np.flatnonzero(np.any(impulse > 0.0, axis=1))  # few: the rest is free flight
        fields = (x[pushed] for x in (index, t, impulse, before, after))
        held = self._held
        steps = _Steps(*fields).after(held)
        self._emit(steps, first=len(held.t) - 1 if len(held.t) else 0, last=len(steps.t) - 1)
        self._held = steps.tail(2)

    def _take(self, index, t, impulse, before, after, events):
        if len(index) and index[0] == 0:  # an impact in the initial data
            i = np.flatnonzero(impulse[0] > 0.0)
            found = np.stack(
                [np.full(len(i), t[0]), i, before[0, i], after[0, i], impulse[0, i]], 1
            )
            steps = np.zeros(len(i), int)
        else:
            m, k = np.nonzero(events[:, :, 1] >= 0.0)
            found, steps = events[m, k], index[m]
        rows = np.zeros(len(found), COLUMNS)
        for column, (name, _) in enumerate(COLUMNS[:5]):
            rows[name] = found[:, column]
        rows["step"] = steps
        self._rows.append(rows)

    def table(self) -> np.recarray:
        """The impacts in order of time."""
        return listed(np.concatenate([*self._rows, self.rest()])).view(np.recarray)

    def rest(self) -> np.ndarray:
        """The impacts that begin in the last step: another step may belong to them."""
        n, end = len(self._held.t), ImpactLog(len(self._resting), self._resting)
        end._largest = self._largest
        if n:
            end._emit(self._held, first=n - 1, last=n)
        return end.drained()

    def drained(self) -> np.ndarray:
        """The impacts since the last call that no further step changes."""
        rows, self._rows = self._rows, []
        return np.concatenate([np.zeros(0, COLUMNS), *rows])

    # What the rest of the table depends on, for a run that is stopped and goes on.

    @property
    def largest(self) -> float:
        """Impulse so far."""
        return float(self._largest)

    def held(self) -> dict[str, np.ndarray]:
        """The last steps with an impulse, at most two."""
        return dict(zip(_Steps.NAMES, self._held._fields(), strict=True))

    @staticmethod
    def holding(count: int, held: dict, largest: float, resting=None) -> "ImpactLog":
        """One that goes on from there."""
        log = ImpactLog(count, resting)
        log._held, log._largest = _Steps(*(held[name] for name in _Steps.NAMES)), largest
        return log

    def _emit(self, steps, first, last):
        """Impacts that begin at positions first <= m < last of ``steps``."""
        largest = np.maximum.accumulate(np.max(steps.impulse, axis=1, initial=self._largest))
        contact = steps.impulse > _ROUNDING * largest[:, None]
        self._largest = largest[-1] if len(largest) else self._largest
        onset = contact.copy()
        onset[1:] &= ~(contact[:-1] & (np.diff(steps.index) == 1)[:, None])
        quiet = onset & self._resting & (steps.index == 1)[:, None]
        onset &= ~quiet | np.any(onset & ~quiet, axis=1, keepdims=True)
        m, i = np.nonzero(onset[first:last])
        m += first
        follow = np.minimum(m + 1, len(steps.t) - 1)
        second = (steps.index[follow] == steps.index[m] + 1) & contact[follow, i]
        rows = np.zeros(len(m), COLUMNS)
        rows["time"], rows["constraint"], rows["step"] = steps.t[m], i, steps.index[m]
        rows["velocity_before"] = steps.before[m, i]
        rows["velocity_after"] = steps.right[np.where(second, follow, m), i]
        rows["impulse"] = steps.impulse[m, i] + np.where(second, steps.impulse[follow, i], 0.0)
        if len(rows):
            self._rows.append(rows)


def resting(gap, after, v, tolerance: Any = _ROUNDING) -> np.ndarray:
    """Which gaps (p,) are closed, to the ``tolerance``, and neither close nor open further."""
    return (gap <= tolerance) & (np.abs(after) <= _ROUNDING * np.max(np.abs(v), initial=0.0))


def listed(table: np.ndarray) -> np.ndarray:
    """The table without what is rounding beside its largest impulse."""
    return table[table["impulse"] > _ROUNDING * np.max(table["impulse"], initial=0.0)]


class _Steps:
    """Steps with an impulse."""

    NAMES = ("index", "t", "impulse", "before", "right")

    def __init__(self, index, t, impulse, before, right):
        self.index, self.t = index, t
        self.impulse, self.before, self.right = impulse, before, right

    @staticmethod
    def none(p):
        return _Steps(np.zeros(0, int), np.zeros(0), *(np.zeros((0, p)) for _ in range(3)))

    def _fields(self):
        return self.index, self.t, self.impulse, self.before, self.right

    def after(self, held):
        return _Steps(
            *(np.concatenate(p) for p in zip(held._fields(), self._fields(), strict=True))
        )

    def tail(self, n):
        return _Steps(*(a[-n:] for a in self._fields()))
