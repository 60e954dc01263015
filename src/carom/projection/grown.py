"""Coulomb's law of few contacts whose impulses must grow far: the method of multipliers, traceable.

What projection/augmented_friction.py does for many.  In the scales of cones.py, with A = G G^T and
x = G^T y the motion, u = G x + w, and about a centre c,

    z = c - u / eps,     l = P(z),     F(x) = x - G^T l = 0                                   (1)

P is l_n = (z_n)_+, l_t = z_t within the disc of radius mu l_n.  Then c <- l.  A Newton step must
lessen |F|; where none does, c stays and eps rises, and where (1) is solved eps falls.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from carom.projection.cones import Contacts, length_of
from carom.projection.metric import solve_dense

_EPS, _FALL, _RISE = 0.1, 0.3, 5.0
_LEAST, _MOST = 1e-10, 10.0
_INNER, _TURNS = 20, 600  # Newton steps about a centre, and in all
_PARTS = np.array([1.0, 0.5, 0.25, 0.1, 0.03])  # of a step, of which the first that will do is made
_LESSENED = 0.1  # ... by this part of itself
_NEAR = 0.1  # of the residual of the law: (1) is solved well enough
_DONE = 1e-9  # of |w|: Newton's method of cones.py has it from there


def grown(contacts: Contacts, rows: Array, guess: Array, asked: Array) -> tuple[Array, Array]:
    """lam (p, m) and turns, from a guess (p, m) of it; that guess if it is not asked.

    ``rows`` (p, m, d) are G, in the scales of the contacts.
    """
    (p, m), c = contacts.w.shape, contacts
    G = rows.reshape(p * m, -1)
    enough = _DONE * jnp.sqrt(jnp.sum(c.w**2))

    def pushed(centre, eps, x):
        z = centre - ((G @ x).reshape(p, m) + c.w) / eps
        push = jnp.where(c.active, jnp.maximum(z[:, 0], 0.0), 0.0)
        reach, length = c.mu * push, length_of(z[:, 1:])
        part = jnp.where(length <= reach, 1.0, reach / jnp.where(length > 0.0, length, 1.0))
        return jnp.concatenate([push[:, None], part[:, None] * z[:, 1:]], axis=1)

    def off(y):  # of (4) of cones.py, which does not make a rounding of u_t mu times larger
        return jnp.linalg.norm(c.newton_map(y))

    def lack(centre, eps, x):
        return x - G.T @ pushed(centre, eps, x).reshape(-1)

    def about(centre, eps, x, goal):
        """x of (1), turns, and whether it is solved."""
        F = partial(lack, centre, eps)

        def further(loop):
            _, size, turns, stuck = loop
            return (size > goal) & (turns < _INNER) & ~stuck

        def newton(loop):
            x, size, turns, _ = loop
            step = solve_dense(jax.jacfwd(F)(x), -F(x))
            trials = x + _PARTS[:, None] * step
            sizes = jnp.linalg.norm(jax.vmap(F)(trials), axis=1)
            will_do = sizes < (1.0 - _LESSENED * _PARTS) * size
            first = jnp.argmax(will_do)
            found = will_do[first]
            x = jnp.where(found, trials[first], x)
            return x, jnp.where(found, sizes[first], size), turns + 1, ~found

        start = x, jnp.linalg.norm(F(x)), jnp.array(0), jnp.array(False)
        x, size, turns, _ = jax.lax.while_loop(further, newton, start)
        return x, turns, size <= goal

    def unfinished(loop):
        return asked & (loop[3] > enough) & (loop[4] < _TURNS)

    def turn(loop):
        y, x, eps, left, turns = loop
        x1, more, solved = about(y, eps, x, _NEAR * left)
        l = pushed(y, eps, x1)
        y, x = jnp.where(solved, l, y), jnp.where(solved, x1, x)
        left = jnp.where(solved, off(l), left)
        eps = jnp.clip(jnp.where(solved, _FALL, _RISE) * eps, _LEAST, _MOST)
        return y, x, eps, left, turns + more + 1

    y = guess * c.scale
    start = y, G.T @ y.reshape(-1), jnp.array(_EPS), off(y), jnp.array(0)
    y, _, _, _, turns = jax.lax.while_loop(unfinished, turn, start)
    return y / c.scale, turns
