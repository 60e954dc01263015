"""One contact with friction in the plane, against every mode of it; and what is no number."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import carom
from carom.projection.coulomb import coulomb
from carom.projection.metric import metric_of
from carom.status import Status


def _modes(A, w, mu):
    """The impulse of the mode that obeys the law best, by trying open, stick and both slips."""
    tried = [np.zeros(2)]
    if w[0] < 0.0:
        tried = [np.linalg.solve(A, -w)]
        for s in (1.0, -1.0):
            n = -w[0] / (A[0, 0] - mu * s * A[0, 1])
            tried.append(np.array([n, -mu * s * n]))

    def off(r):
        u, reach = A @ r + w, mu * max(r[0], 0.0)
        z = r - u
        along = np.clip(z[1], -mu * max(z[0], 0.0), mu * max(z[0], 0.0))
        return max(abs(min(r[0], u[0])), abs(r[1] - along), abs(r[1]) - reach)

    return min(tried, key=off)


@pytest.mark.parametrize("d", [2, 3, 7])
def test_one_contact_in_the_plane_is_its_best_mode(d):
    rng, count = np.random.default_rng(d), 300
    H, target = rng.normal(size=(count, 1, 2, d)), rng.normal(size=(count, d))
    b, mass = rng.normal(size=(count, 1, 2)), rng.uniform(0.5, 2.0, size=(count, d))
    mu = np.where(rng.random((count, 1)) < 0.1, 0.0, rng.uniform(0.0, 1.5, (count, 1)))
    on = np.ones((count, 1), bool)
    found = jax.jit(jax.vmap(lambda m, *data: coulomb(metric_of(m), *data)))(
        mass, target, H, b, mu, on
    )
    assert bool(jnp.all(found.status == Status.ok))
    assert float(jnp.max(found.residual)) < 1e-11
    for k in range(count):
        A = H[k, 0] / mass[k] @ H[k, 0].T
        if np.linalg.cond(A) > 1e3 or mu[k, 0] * abs(A[0, 1]) >= A[0, 0]:
            continue  # digits, or uniqueness, are lost
        r = _modes(A, H[k, 0] @ target[k] + b[k, 0], mu[k, 0])
        np.testing.assert_allclose(found.multipliers[k, 0], r, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("scheme", [carom.Moreau(), carom.Maury(), carom.PaoliSchatzman()])
@pytest.mark.parametrize("where", ["gap", "slip"])
def test_a_member_whose_gap_or_slip_is_no_number_says_so(scheme, where):
    if rubs := scheme.frictional:
        law = {"friction": 0.3}
    elif where == "slip":
        pytest.skip("it has no friction")

    def member(bad):
        def lost(name, t):
            return jnp.where((bad > 0.0) & (t > 0.05) & (where == name), jnp.nan, 0.0)

        def sliding(t, q, v):
            return jnp.where(jnp.isnan(lost("slip", t)), jnp.nan, v[:1])  # without a gradient

        slip = {"slip": sliding, **law} if rubs else {}
        system = carom.System(
            force=lambda t, q, v: jnp.array([0.0, -9.81]),
            gap=lambda t, q: q[1:] + lost("gap", t),
            **slip,
        )
        sol = carom.solve(system, scheme, q0=[0.0, 0.0], v0=[1.0, 0.0], t1=0.1, dt=1e-2)
        return sol.q, sol.status == Status.ok, sol.status == Status.nonfinite

    batch = jax.jit(jax.vmap(member))
    (q, ok, nonfinite), (calm, _, _) = (batch(jnp.array([0.0, bad])) for bad in (1.0, 0.0))
    assert ok.tolist() == [True, False]
    assert bool(nonfinite[1])
    np.testing.assert_array_equal(q[0], calm[0])
