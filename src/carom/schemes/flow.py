"""The smooth motion between events, with the contacts that last."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from carom.projection.metric import product
from carom.schemes.held import bent, is_held
from carom.schemes.resting import equal, reaction, second, stilled


class Flow(eqx.Module):
    """The smooth motion (1) with A fixed; y is q, v and the impulses of the contacts."""

    world: Any
    mode: Array
    window: Any  # times are taken to lie in it: between the jumps, none of which is looked at
    d: int

    def split(self, y):
        return y[: self.d], y[self.d : 2 * self.d], y[2 * self.d :]

    def settled(self, t, y, shift=0.0):
        """The same at t + shift, on the joints."""
        q, v, push = self.split(y)
        if is_held(self):
            q, v = self.world.settled(self.at(t + shift), q, v)
        return q, v, push

    def of_gaps(self, impulses):
        """Without those of joints."""
        return impulses[: self.mode.shape[0]] if is_held(self) else impulses

    def at(self, t):
        return jnp.clip(t, *self.window)

    def gaps(self, t, q):
        return self.world.gaps(self.at(t), q)

    def normals(self, t, q):
        return self.world.normals(self.at(t), q)

    def forces(self, t, q, v):
        return self.world.forces(self.at(t), q, v)

    def metric(self, q):
        return self.world.metric(q)

    def project(self, *args):
        return self.world.project(*args)

    def rate(self, t, y):
        q, v, _ = self.split(y)
        a, lam = self._accelerated(t, q, v)
        return jnp.concatenate([v, a, lam, *([self._pull(t, q, v, lam)] if is_held(self) else [])])

    def looked_at(self, times, x, rates):
        """Gaps and multipliers (m, p) at the times (m,), with states and rates there (m, n)."""
        gap = jax.vmap(lambda t, x: self.gaps(t, x[: self.d]))(times, x)
        return gap, rates[:, 2 * self.d : 2 * self.d + gap.shape[1]]

    @property
    def lasting(self):
        """(p,) bool: which functions are multipliers, and not gaps."""
        return self.mode

    def rounding(self, fine, path, t, q, v, h, tolerance):
        """(p,) below which a function has no sign, where that of numbers is ``fine``."""
        return fine

    def unseen(self, least, fine):
        """(p,) the fall of a function, over the end of a step, that says nothing."""
        return least

    def back_on(self, t, q, v):
        """Undo the drift of a lasting contact: g = 0 and d g/dt = 0 on A."""
        metric, contacts, mode = self.metric(q), self.normals(t, q), self.mode
        q = q - reaction(metric, contacts.rows, equal(metric, contacts.rows, contacts.gap, mode))
        return q, stilled(metric, self.normals(t, q), v, mode)

    def _pull(self, t, q, v, lam):
        """(k,) the forces of joints."""
        rows = self.world.world.normals(self.at(t), q).rows[: lam.shape[0]]
        return self.world.tension(self.at(t), q, v, lam, rows)

    def acceleration(self, t, q, v):
        return self._accelerated(t, q, v)[0]

    def _accelerated(self, t, q, v):
        metric = self.metric(q)
        free = metric.solve(self.forces(t, q, v))
        rows = self.normals(t, q).rows
        lam = -equal(metric, rows, second(self.gaps, t, q, v, free), self.mode)
        return free + reaction(metric, rows, lam), lam


def size_of(contacts, q):
    """(p,) the size of the terms of a gap."""
    return product(jnp.abs(contacts.rows), jnp.abs(q)) + jnp.abs(contacts.gap)


def speed_of(contacts, v):
    """(p,) the size of the terms of a normal velocity."""
    return product(jnp.abs(contacts.rows), jnp.abs(v)) + jnp.abs(contacts.rate)


def pressing(world, t, q, v, resting):
    """(4): which of the gaps at rest stay closed."""
    metric, contacts = world.metric(q), world.normals(t, q)
    free = metric.solve(world.forces(t, q, v))
    bend = bent(world, t, q, v, free, contacts.rows)
    metric, contacts, free, bend = jax.lax.stop_gradient((metric, contacts, free, bend))
    found = world.project(metric, free, contacts, bend, resting)
    return resting & (found.multipliers > 0.0)


def logged(s, t, before, after, blow):
    """The table of impacts with one more row for each gap that was struck, and their number."""
    hit = blow > 0.0
    row = jnp.sum(s.struck) + jnp.cumsum(hit) - 1
    row = jnp.where(hit, row, s.table.shape[0])  # beyond the table: not written
    times, gaps = jnp.full(blow.shape, t), jnp.arange(blow.shape[0], dtype=float)
    rows = jnp.stack([times, gaps, before, after, blow], axis=1)
    here = jnp.arange(s.table.shape[0])[:, None] == row  # (k, p); a scatter would leave the loop
    written = jnp.sum(jnp.where(here[:, :, None], rows, 0.0), axis=1)
    return jnp.where(jnp.any(here, axis=1)[:, None], written, s.table), s.struck + hit
