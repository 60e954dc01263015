"""The motion of a System as a page: what it looks like, its phase plane, and all against time."""

import base64
import json
from collections.abc import Callable

import numpy as np

from carom.errors import RecordError
from carom.looks import frames
from carom.pictures.loopback import template
from carom.pictures.plot import jumps
from carom.pictures.pushes import Pushes

_RECORDS = 5000  # that a page has; the impacts are always among them
_COLUMNS = 8  # coordinates, gaps
_FRAMES = 400  # of the mechanism


def system_page(sol, looks: Callable | None = None, name: str = "") -> str:
    """The page of a motion; ``looks(t, q)`` says how the mechanism looks (carom.looks)."""
    sol._need_single("view")
    if len(sol) < 2:
        raise RecordError("a view needs two records or more: use Record() or every=k")
    n, hit = len(sol.t), jumps(sol)
    kept = np.rint(np.linspace(0, n - 1, min(n, _RECORDS))).astype(int)
    kept = np.unique(np.concatenate([kept, hit[:_RECORDS], hit[:_RECORDS] + 1]))
    t = np.asarray(sol.t, float)
    fields = {key: np.asarray(getattr(sol, key), float) for key in ("q", "v", "gap")}
    shown = {key: _packed(x[kept][:, :_COLUMNS]) for key, x in fields.items()}
    pushes = Pushes.of(sol)
    since = np.concatenate([[0], kept[:-1] + 1])  # what came since the record before is summed
    blows = np.add.reduceat(pushes.blow[:, :_COLUMNS], since, axis=0)
    data = {
        "name": name or "motion",
        "scheme": str(sol.scheme).removesuffix("()"),
        "t": [float(f"{x:.9g}") for x in t[kept]],
        **shown,
        "impulse": _packed(blows) if np.any(blows) or not pushes.lasts else None,
        "force": _packed(_means(pushes.force, t, kept)) if pushes.lasts else None,
        "friction": None,
        "d": fields["q"].shape[1],
        "columns": min(_COLUMNS, fields["q"].shape[1]),
        "gaps": min(_COLUMNS, fields["gap"].shape[1]),
        "records": n,
        "jumps": [int(k) for k in np.searchsorted(kept, hit[:_RECORDS])],
        "impacts": len(sol.impacts) if sol._has_impacts() else None,
        "frames": [],
        "at": [],
    }
    if pushes.lasts and pushes.friction is not None:
        data["friction"] = _packed(_means(pushes.friction, t, kept))
    if looks is not None:
        at = np.linspace(t[0], t[-1], min(_FRAMES, max(2, n)))
        q = np.stack([np.interp(at, t, x) for x in fields["q"].T], axis=-1)
        data |= {"frames": frames(looks, at, q), "at": [float(f"{x:.9g}") for x in at]}
    return template("system.html", DATA=json.dumps(data))


def _means(force, t, kept) -> np.ndarray:
    """From each kept record to the next, of forces (n - 1, p) between all of them."""
    given = force[:, :_COLUMNS] * np.diff(t)[:, None]
    found = np.add.reduceat(given, kept[:-1], axis=0) / np.diff(t[kept])[:, None]
    return np.concatenate([found, found[-1:]])


def _packed(a) -> str:
    return base64.b64encode(np.ascontiguousarray(a, "<f4").tobytes()).decode()
