"""Sweeps over contacts that yield, against the definition of their problem."""

import numpy as np
import pytest

from carom.kernels import creeping, sliding
from carom.worlds.spheres import wedged


def problem(couples, seed, bodies=40, p=120):
    """Contacts of random spheres, more than their motions can do without; the last is a wall."""
    rng = np.random.default_rng(seed)
    i = rng.integers(0, bodies - 1, p).astype(np.int32)
    j = ((i + rng.integers(1, bodies, p)) % bodies).astype(np.int32)
    normal = rng.normal(size=(p, 3))
    normal /= np.linalg.norm(normal, axis=1)[:, None]
    size = rng.uniform(0.5, 2.0, bodies)
    arm = np.stack([size[i], size[j]], axis=1)
    inverse = np.stack([size**-3, 2.5 * size**-5], axis=1)
    inverse[-1] = 0.0
    mu = rng.uniform(0.0, 1.0, p)
    law = np.column_stack([mu, rng.uniform(0.0, 0.5, (p, 2)), arm[:, 0]]) if couples else mu
    b = np.zeros((p, 7 if couples else 4))
    b[:, 0] = rng.normal(size=p) * (rng.uniform(size=p) < 0.5)
    free = rng.normal(size=(bodies, 6))
    free[-1] = 0.0
    lam = np.zeros_like(b)
    start = np.array([0, p], np.int32)
    return start, i, j, normal, arm, b, law, inverse, free, lam, 1e-3, 0.03


def nearest(x, most):
    """The point of a disc of that radius nearest to each x (p, 3)."""
    length = np.linalg.norm(x, axis=1)
    return x * np.minimum(1.0, most / np.where(length > 0.0, length, 1.0))[:, None]


def off(rows, centre, eps):
    """How far lam is from (1) with Coulomb's law, by the definition."""
    _start, i, j, n, arm, b, law, inverse, free, lam, *_ = rows
    u = free.copy()
    P = lam[:, :1] * n + lam[:, 1:4]
    T = np.cross(n, lam[:, 1:4])
    for k in range(len(i)):
        for body, sign, r in ((i[k], -1.0, arm[k, 0]), (j[k], 1.0, arm[k, 1])):
            u[body, :3] += sign * inverse[body, 0] * P[k]
            u[body, 3:] -= r * inverse[body, 1] * T[k]
            if lam.shape[1] > 4:
                u[body, 3:] += sign * inverse[body, 1] * lam[k, 4:]
    spun = arm[:, 1:] * u[j, 3:] + arm[:, :1] * u[i, 3:]
    d = u[j, :3] - u[i, :3] - np.cross(spun, n)
    along = np.sum(d * n, axis=1)
    a_n = inverse[i, 0] + inverse[j, 0]
    a_t = a_n + arm[:, 0] ** 2 * inverse[i, 1] + arm[:, 1] ** 2 * inverse[j, 1]
    w_n = along + b[:, 0] + eps * a_n * (lam[:, 0] - centre[:, 0])
    w_t = d - along[:, None] * n + b[:, 1:4] + eps * a_t[:, None] * (lam - centre)[:, 1:4]
    mu = law if law.ndim == 1 else law[:, 0]
    slid = lam[:, 1:4] - nearest(lam[:, 1:4] - w_t, mu * lam[:, 0])
    parts = [np.minimum(w_n, lam[:, 0]), slid]
    if law.ndim == 2:
        a_r = inverse[i, 1] + inverse[j, 1]
        o = u[j, 3:] - u[i, 3:] + b[:, 4:] + eps * a_r[:, None] * (lam - centre)[:, 4:]
        twist = [np.sum(x * n, axis=1) for x in (lam[:, 4:], o)]
        roll = [x - t[:, None] * n for x, t in zip((lam[:, 4:], o), twist, strict=True)]
        most = law[:, 2] * lam[:, 0]
        parts.append(roll[0] - nearest(roll[0] - roll[1], law[:, 1] * lam[:, 0]))
        parts.append(twist[0] - np.clip(twist[0] - twist[1], -most, most))
    return max(np.max(np.abs(x)) for x in parts)


@pytest.mark.slow
@pytest.mark.parametrize("couples", [False, True])
def test_contacts_that_yield(couples):
    """Many sweeps solve the proximal problem about any centre."""
    for seed in range(5):
        rows = problem(couples, seed)
        start, i, j, normal, arm, b, law, inverse, free, lam, *_ = rows
        centre = np.random.default_rng(seed).uniform(0.0, 0.3, lam.shape)
        centre[:, 1:4] -= np.sum(centre[:, 1:4] * normal, axis=1)[:, None] * normal
        u, eps = free.copy(), 1.0
        sliding.push(start, i, j, normal, arm, inverse, lam, u)
        given = i, j, normal, arm, b, law, inverse, u, lam, centre
        before = creeping.lacks(*given, eps)
        creeping.sweeps(*given, eps, 2000)
        assert before > 1.0
        assert creeping.lacks(*given, eps) < 1e-10, seed
        assert off(rows, centre, eps) < 1e-9, seed
        assert np.max(wedged._lacking(rows)) > 1.0  # it is not the law's answer


@pytest.mark.slow
@pytest.mark.parametrize("couples", [False, True])
def test_large_blocks_are_solved_in_parts(monkeypatch, couples):
    """With hundreds counted as many: parts by Newton's method, and all contacts that yield."""
    monkeypatch.setattr(wedged, "_WHOLE", 60)
    monkeypatch.setattr(wedged, "_ROWS", 40)
    monkeypatch.setattr(wedged, "_NEAR", 40)
    for seed in range(5):
        rows = problem(couples, seed)
        still = np.zeros(len(rows[1]))
        done, fine = wedged.solved(rows, still, False, False, 10**6, (1e-3, 0.03))
        assert fine
        assert done > 0
        assert off(rows, rows[9], 0.0) < 3e-3, seed
