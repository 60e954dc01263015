"""The bouncing ball by Siconos' Moreau-Jean scheme; run by a Python that has Siconos.

Usage: python3 siconos_ball.py '{"q0": ..., "v0": ..., "weight": ..., "e": ..., "t1": ...,
"steps": ..., "record": true}'.  Prints one JSON object: the times of the loop and path (n, 4) of
t, q, v, impulse; without ``record`` the loop keeps nothing and path is its end only.
"""

import json
import sys
import time


def ball(data):
    """One degree of freedom above the floor: the simulation, the body and its contact."""
    import siconos.kernel as sk  # pyright: ignore[reportMissingImports]

    body = sk.LagrangianLinearTIDS([data["q0"]], [data["v0"]], [[1.0]])
    body.setFExtPtr([data["weight"]])
    contact = sk.Interaction(sk.NewtonImpactNSL(data["e"]), sk.LagrangianLinearTIR([[1.0]]))
    model = sk.NonSmoothDynamicalSystem(0.0, data["t1"])
    model.insertDynamicalSystem(body)
    model.link(contact, body)
    clock = sk.TimeDiscretisation(0.0, data["t1"] / data["steps"])
    return sk.TimeStepping(model, clock, sk.MoreauJeanOSI(0.5), sk.LCP()), body, contact


def recorded(steps, dt, simulation, body, contact):
    """The loop of Siconos' own examples: advance, keep t, q, v and the impulse."""
    path = [(0.0, body.q()[0], body.velocity()[0], 0.0)]
    for k in range(steps):
        simulation.computeOneStep()
        path.append(((k + 1) * dt, body.q()[0], body.velocity()[0], contact.lambda_(1)[0]))
        simulation.nextStep()
    return path


def unrecorded(steps, dt, simulation, body, contact):
    """The same steps with only computeOneStep and nextStep in the loop."""
    for _ in range(steps):
        simulation.computeOneStep()
        simulation.nextStep()
    return [(steps * dt, body.q()[0], body.velocity()[0], 0.0)]


def main(data):
    loop = recorded if data.get("record", True) else unrecorded
    made = ball(data)
    wall, cpu = time.perf_counter(), time.process_time()
    path = loop(data["steps"], data["t1"] / data["steps"], *made)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(json.dumps({"path": path, "wall": wall, "cpu": cpu}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
