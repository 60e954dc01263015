"""Energy of blows between spheres that spin: never gained with e = 0, or without friction."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import carom


def cluster(rng, d, n):
    """Centres and radii of n spheres, each touching one or two others, none overlapping."""
    x, r = [np.zeros(d)], [rng.uniform(0.5, 1.5)]
    while len(x) < n:
        k, j, radius, u = (*rng.integers(len(x), size=2), rng.uniform(0.5, 1.5), rng.normal(size=d))
        A, B, away = r[k] + radius, r[j] + radius, x[j] - x[k]
        D = np.linalg.norm(away)
        along = (D**2 + A**2 - B**2) / (2.0 * D) if k != j else np.inf
        if abs(along) < A:
            t = u - (u @ away) * away / D**2
            place = x[k] + along * away / D + np.sqrt(A**2 - along**2) * t / np.linalg.norm(t)
        else:
            place = x[k] + A * u / np.linalg.norm(u)
        if all(np.linalg.norm(place - y) >= radius + s - 1e-12 for y, s in zip(x, r, strict=True)):
            x.append(place)
            r.append(radius)
    return np.array(x), np.array(r)


def blow(seed, d, e, mu):
    """What a blow at random gains, of the energy before; and the run."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 8))
    x, r = cluster(rng, d, n)
    about = {"velocity": rng.normal(size=(n, d)), "mass": 10.0 ** rng.uniform(-1, 1, n)}
    about |= {"spin": rng.normal(size=n if d == 2 else (n, 3)), "tolerance": 1e-9}
    pile = carom.Spheres(x, r, restitution=e, friction=mu, **about)
    sol = carom.solve(pile, carom.Moreau(), t1=1e-9, dt=1e-9)

    def energy(v, w):
        turning = np.sum(pile.inertia * np.sum(np.reshape(w, (n, -1)) ** 2, axis=1))
        return 0.5 * (np.sum(pile.mass * np.sum(v**2, axis=1)) + turning)

    return energy(sol.v[-1], sol.spin[-1]) / energy(pile.velocity, pile.spin) - 1.0, sol


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([2, 3]), st.sampled_from([0.1, 0.5, 1.0, 10.0]))
def test_no_blow_gains_energy_without_restitution(seed, d, mu):
    """With b = 0, r . u+ <= 0, and DT = r . u+ - |Dv|^2 / 2."""
    assert blow(seed, d, 0.0, mu)[0] <= 1e-9


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([2, 3]), st.floats(0.0, 1.0))
def test_no_blow_gains_energy_without_friction(seed, d, e):
    assert blow(seed, d, e, 0.0)[0] <= 1e-8


@pytest.mark.slow
def test_newtons_law_with_friction_can_gain_some():
    """As Kane's pendulum does: measured, and told by the certificate."""
    gains = [blow(seed, 2, 0.9, 3.0) for seed in range(150)]
    assert max(gain for gain, _ in gains) > 0.01
    sol = gains[0][1]
    assert "can gain energy" in carom.certify(sol)["energy"].note
