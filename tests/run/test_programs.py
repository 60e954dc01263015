"""What is compiled for a system goes with it."""

import gc
import weakref

import jax
import jax.numpy as jnp
import pytest

import carom
from carom import _jax


def test_a_system_of_closures_is_let_go_of():
    def solved(g):
        system = carom.System(force=lambda t, q, v: 0.0 * q - g, gap=lambda t, q: q)
        assert carom.solve(system, carom.Moreau(), [1.0], [0.0], t1=0.1, dt=0.05).ok
        return weakref.ref(system.force), weakref.ref(system.gap)

    force, gap = solved(9.81)
    gc.collect()
    assert force() is None
    assert gap() is None


def test_what_is_alive_is_compiled_once():
    system = carom.System(force=lambda t, q, v: calls.append(0) or 0.0 * q - 1.0)
    calls = []
    first, second = (
        carom.solve(system, carom.Moreau(), [1.0], [0.0], t1=0.1, dt=0.05).q for _ in range(2)
    )
    traced = len(calls)
    carom.solve(system, carom.Moreau(), [2.0], [0.0], t1=0.1, dt=0.05)
    assert len(calls) == traced
    assert (first == second).all()


@pytest.mark.slow
def test_a_program_for_once_does_without_an_option_that_jax_does_not_know(monkeypatch):
    monkeypatch.setattr(_jax, "_ONCE", {"xla_cpu_no_such_option": False})
    twice = _jax.jit_for_once(lambda x: 2.0 * x)
    assert twice(jnp.ones(())) == 2.0
    assert twice(jnp.ones(2)).shape == (2,)


@pytest.mark.slow
def test_the_start_of_a_run_has_no_condition():
    """One costs a first call as much as the rest of what it starts with.

    PaoliSchatzman has one: its nearest point is looked for only from outside of K.
    """
    from carom.run.loop import Run, begin

    system = carom.System(force=lambda t, q, v: 0.0 * q - 1.0, gap=lambda t, q: q)
    for scheme, looks in ((carom.Moreau(), 0), (carom.Maury(), 0), (carom.PaoliSchatzman(), 1)):
        run = Run(system, scheme, jnp.array(0.0), jnp.array(0.1))
        program = str(jax.make_jaxpr(lambda q, v, run=run: begin(run, q, v))(*jnp.ones((2, 1))))
        assert program.count(" cond[") == looks
