"""Planar friction of two and three contacts, solved wherever an enumeration of modes solves it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import carom
from carom.projection.coulomb import coulomb
from carom.projection.metric import metric_of
from modes import KINDS, enumerated, problem, trial, violation

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("p", [2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_none_wrong_and_none_reported(kind, p):
    """Without modes 183 of 3600 such problems were reported as unconverged."""
    wrong, reported, _ = trial(kind, p, 100, 11)
    assert wrong == reported == 0


def test_a_batch_is_its_members():
    """Rough contacts, of which some need their modes."""
    rng = np.random.default_rng(3)
    problems = [problem(rng, "rough", 2) for _ in range(80)]
    problems = [one for one in problems if len(one[0]) == 3]

    def one(target, H, b, mu, mass):
        return coulomb(metric_of(mass), target, H, b, mu, jnp.ones(2, bool))

    data = [np.stack(x) for x in zip(*problems, strict=True)]
    batch = jax.jit(jax.vmap(one))(*data)
    alone = jax.jit(lambda *xs: jax.lax.map(lambda x: one(*x), xs))(*data)
    assert np.all(np.asarray(batch.status == carom.Status.ok))
    np.testing.assert_allclose(batch.point, alone.point, atol=1e-9, rtol=1e-9)
    slopes = jax.jit(jax.vmap(jax.jacobian(lambda *x: one(*x).point, argnums=0)))(*data)
    assert np.all(np.isfinite(slopes))


def test_joints_are_taken_out_before():
    """A coordinate that a joint holds is as good as one that is not there."""
    rng, held = np.random.default_rng(4), jnp.zeros((1, 2, 5)).at[0, 0, 4].set(1.0)
    solve = jax.jit(
        lambda t, H, b, mu, mass: coulomb(metric_of(mass), t, H, b, mu, jnp.ones(3, bool), joints=1)
    )
    for _ in range(40):
        while True:
            target, H, b, mu, mass = one = problem(rng, "rough_masses", 2)
            if len(target) == 4:
                break
        wide = jnp.concatenate([jnp.pad(H, ((0, 0), (0, 0), (0, 1))), held])
        found = solve(
            np.append(target, 0.0), wide, np.pad(b, ((0, 1), (0, 0))), np.append(mu, 0.0),
            np.append(mass, 1.0),
        )  # fmt: skip
        assert found.status == carom.Status.ok
        x, r = np.asarray(found.point)[:4], np.asarray(found.multipliers)[:2]
        assert violation(*one, x, r) < 2e-9
        assert enumerated(*one) is not None
