"""Siconos' Moreau-Jean time-stepping on the bouncing ball; run by a Python that has Siconos.

Usage: python3 siconos_ball.py STEPS DT. Prints one JSON object: microseconds per step of the Python
loop that keeps every step, of the library's own loop (no recording), and the final state.
"""

import json
import sys
import time

import numpy as np
import siconos.kernel as sk

GRAVITY, RESTITUTION, HEIGHT = 9.81, 0.8, 1.0


def ball(steps, dt):
    """One degree of freedom above the floor: the simulation and the body."""
    body = sk.LagrangianLinearTIDS([HEIGHT], [0.0], [[1.0]])
    body.setFExtPtr([-GRAVITY])
    contact = sk.Interaction(sk.NewtonImpactNSL(RESTITUTION), sk.LagrangianLinearTIR([[1.0]]))
    model = sk.NonSmoothDynamicalSystem(0.0, steps * dt)
    model.insertDynamicalSystem(body)
    model.link(contact, body)
    simulation = sk.TimeStepping(
        model, sk.TimeDiscretisation(0.0, dt), sk.MoreauJeanOSI(0.5), sk.LCP()
    )
    return simulation, body, contact


def recorded(steps, dt):
    """The loop of Siconos' own examples: advance, keep t, q, v and the impulse."""
    simulation, body, contact = ball(steps, dt)
    data = np.zeros((steps, 4))
    begin = time.perf_counter()
    for row in data:
        simulation.computeOneStep()
        row[0], row[1], row[2] = simulation.nextTime(), body.q()[0], body.velocity()[0]
        row[3] = contact.lambda_(1)[0]
        simulation.nextStep()
    return time.perf_counter() - begin, data


def unrecorded(steps, dt):
    """The same steps with only computeOneStep and nextStep in the loop."""
    simulation, _, _ = ball(steps, dt)
    begin = time.perf_counter()
    for _ in range(steps):
        simulation.computeOneStep()
        simulation.nextStep()
    return time.perf_counter() - begin


def main():
    steps, dt = int(sys.argv[1]), float(sys.argv[2])
    seconds, data = recorded(steps, dt)
    bare = unrecorded(steps, dt)
    print(
        json.dumps(
            {
                "recorded_us": seconds / steps * 1e6,
                "unrecorded_us": bare / steps * 1e6,
                "q": data[-1, 1],
                "v": data[-1, 2],
            }
        )
    )


if __name__ == "__main__":
    main()
