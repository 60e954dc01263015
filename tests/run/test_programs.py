"""What is compiled for a system goes with it."""

import gc
import weakref

import carom


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
