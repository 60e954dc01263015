"""What carom asks of JAX, for the whole process; said in the README."""

import functools
import os

# XLA runs the body of a loop on the CPU as a list of separate kernels unless the loop is "small",
# by default 1 kB: a step of a small system then costs microseconds instead of some ten
# nanoseconds.  This size takes in every single trajectory and batches of some hundred members;
# larger batches keep their threads, and derivatives of event-driven runs, which would compile half
# as long again as one kernel, stay lists.  It has an effect if carom is imported before JAX first
# compiles something.
_SMALL_LOOPS = "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=262144"

if "xla_backend_extra_options" not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_SMALL_LOOPS}".strip()

from collections.abc import Callable  # noqa: E402
from typing import Any, TypeVar, cast  # noqa: E402

import jax  # noqa: E402

jax.config.update("jax_enable_x64", True)  # distances of 1e-12 and impact times need it


# XLA writes each kernel outside of a loop with care, some 15 ms of it: twice what such a program
# takes to compile without, and nothing is gained where it runs once.
_ONCE = {"xla_cpu_use_fusion_emitters": False}


def jit_for_once(function: Callable) -> Callable:
    """``jax.jit`` for what runs once; a JAX that has no such option does without."""
    program = jax.jit(function, compiler_options=_ONCE)

    def called(*args):
        nonlocal program
        try:
            return program(*args)
        except jax.errors.JaxRuntimeError as error:
            if "No such compile option" not in str(error):
                raise
            program = jax.jit(function)
            return program(*args)

    return called


# ---- what JAX has no public name for: here and nowhere else (tests/house/test_import.py) ----


def nothing_traced() -> bool:
    """Whether JAX traces nothing at all, which saves 3 ms a call; False where it does not say."""
    try:
        from jax._src.core import trace_state_clean
    except ImportError:
        return False
    return trace_state_clean()


def is_batched(x) -> bool:
    """Whether a value is one of many, under jax.vmap."""
    return type(x).__name__ == "BatchTracer"


# ---- and of Equinox ----

_F = TypeVar("_F")


class _Plain:
    def __init__(self, function):
        self.function = function
        self.__doc__ = function.__doc__

    def __get__(self, thing: Any, kind: Any = None) -> Any:
        return self.function if thing is None else functools.partial(self.function, thing)


def plain(method: _F) -> _F:
    """A method of a Module that is called and never handed on: Equinox makes a tree of every other
    one when it is asked for, which takes as long as a thousand steps."""
    return cast(_F, _Plain(method))
