"""How often each method asks for the force: what `carom.bench.METHODS` says, counted."""

import jax
import pytest

import carom
from carom import bench, models


def counted(problem, asked):
    """The problem, with a force that counts its calls."""
    system = problem.system

    def force(t, q, v):
        jax.debug.callback(lambda t: asked.append(0), t)
        return system.force(t, q, v)

    same = carom.System(force=force, gap=system.gap, restitution=system.restitution)
    return models.Problem(**{**vars(problem), "system": same})


@pytest.mark.slow
@pytest.mark.parametrize("name", bench.METHODS)
@pytest.mark.parametrize("model", ["impact_oscillator", "bouncing_ball"])
def test_evaluations_in_a_step(name, model):
    """Of fixed steps within the two that start and end a run; of others within a fifth."""
    asked, method = [], bench.METHODS[name]
    problem = counted(getattr(models, model)(), asked)
    exact = method.size == "steps"
    for size in (101, 503) if exact else method.sizes[1:4:2]:
        asked.clear()
        motion = method.advance(problem, size)
        jax.effects_barrier()
        said = motion.steps * method.evaluations
        assert abs(len(asked) - said) <= (4 if exact else 0.2 * said), (len(asked), motion.steps)
