"""The bouncing ball by Siconos' Moreau-Jean scheme; run by a Python that has Siconos.

Usage: python3 siconos_ball.py '{"q0": ..., "v0": ..., "weight": ..., "e": ..., "t1": ...,
"steps": ...}'.  Prints one JSON object: path (n, 4) of t, q, v, impulse, and the times of the loop.
"""

import json
import sys
import time


def main(data):
    import siconos.kernel as sk  # pyright: ignore[reportMissingImports]

    steps, dt = data["steps"], data["t1"] / data["steps"]
    body = sk.LagrangianLinearTIDS([data["q0"]], [data["v0"]], [[1.0]])
    body.setFExtPtr([data["weight"]])
    contact = sk.Interaction(sk.NewtonImpactNSL(data["e"]), sk.LagrangianLinearTIR([[1.0]]))
    model = sk.NonSmoothDynamicalSystem(0.0, data["t1"])
    model.insertDynamicalSystem(body)
    model.link(contact, body)
    simulation = sk.TimeStepping(
        model, sk.TimeDiscretisation(0.0, dt), sk.MoreauJeanOSI(0.5), sk.LCP()
    )
    path = [(0.0, data["q0"], data["v0"], 0.0)]
    wall, cpu = time.perf_counter(), time.process_time()
    for k in range(steps):
        simulation.computeOneStep()
        state = body.q()[0], body.velocity()[0], contact.lambda_(1)[0]
        path.append(((k + 1) * dt, *state))
        simulation.nextStep()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(json.dumps({"path": path, "wall": wall, "cpu": cpu}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
