"""
A bouncing ball, through its accumulation
=========================================

A ball falls from 1 m and keeps 80 % of its speed at each bounce. It bounces infinitely often
before t = 4.0637 and rests from then on. Moreau's scheme steps through this without noticing: no
threshold says when bouncing ends and resting begins.
"""

import jax.numpy as jnp
import numpy as np

import carom

ball = carom.System(
    force=lambda t, q, v: jnp.array([-9.81]),  # M q'' = force, with unit mass
    gap=lambda t, q: q,  # the height above the floor
    restitution=0.8,
)
sol = carom.solve(ball, carom.Moreau(), q0=[1.0], v0=[0.0], t1=5.0, dt=1e-3)
print(sol)

# %%
# The figure: height, velocity, gap, and the impulses of the floor.

axes = sol.plot()

# %%
# The exact motion is known, and so is the error.

exact = carom.models.bouncing_ball(e=0.8, t1=5.0)
print(f"largest |q - exact|: {np.max(np.abs(sol.q - exact.exact(sol.t)[0])):.1e} m")
print(carom.certify(sol).verdict)

# %%
# The motion:

sol.animate("bouncing_ball.gif")
