"""Stored references made anew: python -m carom.models.rebuild."""

import json
from pathlib import Path

import numpy as np

from carom.models.pendulum import double_pendulum_reference
from carom.models.references import DATA, Reference, stored


def save(name: str, parameters: dict, found: Reference) -> Path:
    """Into the folder of data; where it is."""
    path = DATA / f"{name}.npz"
    path.parent.mkdir(exist_ok=True)
    np.savez_compressed(path, parameters=json.dumps(parameters), **found._asdict())
    return path


def main():
    """All of them, with what has changed."""
    for name, request in {"double_pendulum": double_pendulum_reference}.items():
        parameters, t1, compute = request()
        found, before = compute(t1), stored(name, parameters, t1)
        size = save(name, parameters, found).stat().st_size
        print(f"{name}: {len(found.impact_times)} impacts, {size} bytes")
        if before is not None:
            t = np.linspace(0.0, t1, 2001)
            (q, v), (q1, v1) = before.exact(t1)(t), found.exact(t1)(t)
            print(f"  q moved by {np.abs(q1 - q).max():.1e}, v by {np.abs(v1 - v).max():.1e}")


if __name__ == "__main__":
    main()
