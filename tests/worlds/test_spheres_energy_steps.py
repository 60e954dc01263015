"""Energy of piles with friction over many steps, with Coulomb's law and with the convex one.

With dc = M^-1 H^T r the change of velocities by contacts, dg = h g, u+ = H v1, and E = T - M g . x,
a step of each scheme is, to rounding,

    Moreau    DE = r . u+ - 1/2 |dc|^2_M + 1/2 |dg|^2_M                x1 = x + h v           (1)
    Maury     DE = r . u+ - 1/2 |v1 - v|^2_M + M dg . (v1 - u)         x1 = x + h u           (2)

Where walls rest, Coulomb's law (D >= 0 is what friction takes) and the convex one (D = 0) have

    Moreau    r . u+ = -D - e sum r_n u_n(v)                                                  (3)
    Maury     r . u+ = -D - sum r_n gap / h,                   e = 0, so that u = v1          (4)
              r . u+ = -D - e sum r_n u_n(v + dg),             e > 0                          (5)

So Maury without restitution gains nothing but by overlaps within the tolerance; Moreau at most
1/2 M g^2 h^2 a step, what its free flight gains; and Newton's law no more than its sum in (3), (5).
"""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import carom
from carom.spheres import Box

pytestmark = pytest.mark.slow
TOLERANCE, STEPS, H = 1e-8, 200, 0.01
SCHEMES = {"Moreau": carom.Moreau(), "Maury": carom.Maury()}
MU, SEEDS, NAMES = st.floats(0.1, 2.0), st.integers(0, 10**6), st.sampled_from(sorted(SCHEMES))


def pile(seed, d, e, mu, n=10):
    """Spheres in a box at rest, thrown about: radii 1 : 2, masses 1 : 10, spins."""
    rng = np.random.default_rng(seed)
    wide = 2 if d == 3 else 3
    cells = np.array([(*np.unravel_index(k, (wide,) * (d - 1)),) for k in range(wide ** (d - 1))])
    place = [(*cells[k % len(cells)], k // len(cells)) for k in range(n)]
    x = 1.05 * (np.array(place, float) + 0.5) + rng.uniform(-0.02, 0.02, (n, d))
    box = Box((0.0,) * d, (1.05 * wide,) * (d - 1) + (np.inf,))
    about = {"velocity": rng.normal(size=(n, d)), "mass": 10.0 ** rng.uniform(0, 1, n)}
    about |= {"spin": rng.normal(size=n if d == 2 else (n, 3)), "tolerance": TOLERANCE}
    down = -9.81 * np.eye(d)[-1]
    r = rng.uniform(0.25, 0.5, n)
    return carom.Spheres(x, r, walls=[box], gravity=down, restitution=e, friction=mu, **about)


def weighed(grains, v, w):
    """(n, d + 1 or d + 3) velocities and spins by the roots of masses: |.|^2 is twice T."""
    n = len(grains.mass)
    spin = np.sqrt(grains.inertia)[:, None] * np.reshape(w, (n, -1))
    return np.concatenate([np.sqrt(grains.mass)[:, None] * v, spin], axis=1)


class Steps:
    """What each step gains, and what it may by (1) to (5), both of weight times mean radius."""

    def __init__(self, grains, name):
        self.grains, self.name, self.gain, self.allowed = grains, name, [], []
        self.unit = np.sum(grains.mass) * 9.81 * np.mean(grains.radius)

    def add(self, before, after, push, newton):
        """``before``, ``after``: (x, v, w); ``push`` r_n, ``newton`` the sum in (3) to (5)."""
        grains, (x, v, w), (x1, v1, w1) = self.grains, before, after
        a, b = weighed(grains, v, w), weighed(grains, v1, w1)
        dg = weighed(grains, 0 * v + H * grains.gravity, 0 * w)
        fallen = np.sum(grains.mass @ ((x1 - x) * grains.gravity))
        gain = 0.5 * np.sum(b**2) - 0.5 * np.sum(a**2) - fallen
        if self.name == "Moreau":
            own = 0.5 * np.sum(dg**2) - 0.5 * np.sum((b - a - dg) ** 2)
        else:
            left = weighed(grains, v1 - (x1 - x) / H, 0 * w)
            own = np.sum(dg * left) - 0.5 * np.sum((b - a) ** 2)
        off = TOLERANCE * np.min(grains.radius) / H  # what velocities may be off by
        slack = 2.0 * off * np.sum(push) * (1.0 + np.max(grains.friction))
        self.gain.append(gain / self.unit)
        self.allowed.append((newton + own + slack) / self.unit + 1e-12)

    def checked(self):
        """(STEPS,) the gains, none of which is more than it may be."""
        gain, allowed = np.array(self.gain), np.array(self.allowed)
        assert len(gain) == STEPS
        assert np.max(gain - allowed) <= 0.0
        return gain


def coulomb(grains, name):
    """The steps of a run; None where one is not solved to the tolerance."""
    every = carom.Record(every=1)
    sol = carom.solve(grains, SCHEMES[name], t1=STEPS * H, dt=H, record=every, throw=False)
    if not sol.ok:
        return None
    found, e = Steps(grains, name), float(np.max(grains.restitution))
    for k in range(STEPS):
        table, v = sol.contacts[k + 1], sol.v[k] + H * (name == "Maury") * grains.gravity
        i, j = (np.where((b >= 0)[:, None], v[b], 0.0) for b in table.pairs.T)
        newton = -e * table.impulse @ np.einsum("ij,ij->i", j - i, table.normal)
        states = ((sol.x[n], sol.v[n], sol.spin[n]) for n in (k, k + 1))
        found.add(*states, table.impulse, newton)
    return found


@dataclass
class Posed:
    """What ``carom.fclib.of_step`` asks of a run, without a run, which would begin with a blow."""

    scheme: carom.Moreau | carom.Maury
    start: tuple
    dt: float = H
    t: tuple = (0.0,)

    def starting(self, record):
        return self.start


def convex(grains, name):
    """The same with the convex law: each step posed by the scheme, and solved as a problem.

    With e = 0 each has an answer, u = 0 for one; with e > 0 what is held in a corner has none.
    """
    found, d, scheme = Steps(grains, name), grains.position.shape[1], SCHEMES[name]
    x, v, w = grains.position, grains.velocity, grains.spin
    for _ in range(STEPS):
        turn = np.pad(w.reshape(len(x), -1), ((0, 0), (6 - 2 * d, 0)))
        wide = [np.pad(y, ((0, 0), (0, 3 - d))) for y in (x, v)]
        start = grains.world(0.0, H, H), 0.0, wide[0], np.concatenate([wide[1], turn], axis=1)
        try:
            problem = carom.fclib.of_step(Posed(scheme, start))
        except carom.errors.FrictionError:  # nothing touches
            push, newton, v1, w1 = np.zeros(1), 0.0, v + H * grains.gravity, w
        else:
            result = problem.solve(1e-8, convex=True)
            if result.status != carom.Status.ok:
                return None
            push, u = result.r[::3], result.v.reshape(len(x), 6)
            newton = -push @ problem.motion["w"][::3]
            v1, w1 = u[:, :d], u[:, 5] if d == 2 else u[:, 3:]
        x1 = x + H * (v1 if name == "Maury" else v)
        found.add((x, v, w), (x1, v1, w1), push, newton)
        x, v, w = x1, v1, w1
    return found


@settings(max_examples=8, deadline=None)
@given(SEEDS, st.sampled_from([2, 3]), MU)
def test_maury_never_gains_without_restitution(seed, d, mu):
    found = coulomb(pile(seed, d, 0.0, mu), "Maury")
    if found is not None:
        assert np.max(found.checked()) < 1e-6


@settings(max_examples=8, deadline=None)
@given(SEEDS, st.sampled_from([2, 3]), MU)
def test_moreau_gains_no_more_than_free_flight(seed, d, mu):
    grains = pile(seed, d, 0.0, mu)
    found = coulomb(grains, "Moreau")
    if found is not None:
        flight = 0.5 * np.sum(grains.mass) * (9.81 * H) ** 2 / found.unit
        assert np.max(found.checked()) <= flight + 1e-6


@settings(max_examples=8, deadline=None)
@given(SEEDS, st.sampled_from([0.3, 0.8]), MU, NAMES)
def test_newtons_law_gains_no_more_than_its_sum(seed, e, mu, name):
    found = coulomb(pile(seed, 2, e, mu), name)
    if found is not None:
        found.checked()


@settings(max_examples=3, deadline=None)
@given(SEEDS, MU)
def test_the_convex_law_with_maury(seed, mu):
    assert np.max(convex(pile(seed, 2, 0.0, mu, n=6), "Maury").checked()) < 1e-6


@settings(max_examples=3, deadline=None)
@given(SEEDS, st.sampled_from([0.0, 0.3, 0.8]), MU)
def test_the_convex_law_with_moreau(seed, e, mu):
    found = convex(pile(seed, 2, e, mu, n=6), "Moreau")
    assert found is not None or e > 0.0
    if found is not None:
        found.checked()


def test_nearly_all_are_solved():
    runs = [coulomb(pile(seed, 2, e, 0.7), "Moreau") for seed in range(3) for e in (0.0, 0.3, 0.8)]
    assert sum(run is not None for run in runs) >= 8
