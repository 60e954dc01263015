"""
A bifurcation diagram of the impact oscillator
==============================================

An oscillator driven at the frequency w strikes a stop. For every frequency the states once a
period are drawn, after it has settled: one point where the motion repeats every period, two after
a doubling, a cloud where it is chaotic. Each frequency starts where the one before ended, once
upwards and once downwards.
"""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import carom
from carom import study


def oscillator(w):
    return carom.System(
        force=lambda t, q, v: jnp.cos(w * t) - q - 0.02 * v,
        gap=lambda t, q: -q,
        restitution=0.8,
    )


def period(w):
    return 2 * jnp.pi / w


diagram = study.bifurcation(
    oscillator,
    np.linspace(2.5, 3.0, 120),
    period=period,
    q0=[-0.3],
    v0=[0.0],
    steps=200,
    settle=100,
    keep=60,
)
axes = study.plot(diagram)
plt.show()

# %%
# One of the chaotic motions, in the phase plane, and moving. Where exactly the branch splits,
# and the exponents of the chaos, are computed in :doc:`/study`.

last = diagram.sel(direction="up").isel(w=-40, record=-1)
w = float(last.w)
sol = carom.solve(
    oscillator(w), carom.Moreau(), last.strobe_q.values, last.strobe_v.values, t1=40.0, dt=1e-3
)
sol.plot(kind="phase")
plt.show()
sol.animate("chaos.gif")
