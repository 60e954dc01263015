"""How a run, a step or a projection ended: a value that lives inside compiled and batched code."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from carom import errors


class Status(eqx.Enumeration):
    """Each text says what was found and what to do next."""

    ok = "ok"
    outside = (
        "q0 is outside the admissible set: a gap is negative at t0, or a joint is not 0. Move q0, "
        "or check the sign of the gap"
    )
    restitution = "the restitution is outside [0, 1]: bring it inside"
    friction = "the coefficient of friction is negative or not finite: make it 0 or larger"
    mass = (
        "the mass matrix is not positive definite here: check mass(q), or keep the motion away "
        "from where it degenerates"
    )
    nonfinite = (
        "a force, a gap, a joint, slip or a gradient of these is not finite here, or "
        "restitution(speed) not in [0, 1]: check force, gap, joint, slip and restitution at this "
        "state, or take a smaller dt"
    )
    gradient = (
        "the gradient of a gap vanishes where the gap is active, so there is no direction to "
        "push: write the gap so that its gradient is not zero on its boundary (r - R, not "
        "(r - R)**2)"
    )
    infeasible = (
        "no point satisfies all the constraints of this step: check that the gaps can be open, "
        "and the joints zero, at the same time, and take a smaller dt if they move or bend fast"
    )
    unconverged = (
        "a projection did not reach its tolerance: take a smaller dt, or a larger tolerance or "
        "iteration limit"
    )
    contraction = (
        "the implicit force of a step was not found: its fixed point does not contract: take "
        "a smaller dt"
    )
    unfinished = (
        "the run was stopped before its end: go on with `carom run --resume FILE`, or with "
        "Record(path, resume=True)"
    )
    unseen = (
        "a gap that was open, where it has no gradient (1 - |q| at q = 0), was passed within one "
        "step: take a smaller dt, or write the gap so that its gradient exists there"
    )
    error = "an error stopped the run: sol.error is what it was"
    loose = (
        "the run reached its end, but some of its steps were not solved to their tolerance: take a "
        "smaller dt, a larger tolerance or less friction"
    )


_EXCEPTIONS = {
    "outside": errors.AdmissibilityError,
    "restitution": errors.RestitutionError,
    "friction": errors.FrictionError,
    "mass": errors.MassError,
    "nonfinite": errors.NonFiniteError,
    "gradient": errors.GradientError,
    "infeasible": errors.InfeasibleError,
    "unconverged": errors.ConvergenceError,
    "contraction": errors.ContractionError,
    "unfinished": errors.RecordError,
    "unseen": errors.GradientError,
    "error": errors.RunError,
    "loose": errors.ConvergenceError,
}


def is_ok(status) -> bool:
    """Whether a concrete status, or every one of a batch, is ok; on the host, without a kernel."""
    (code,), (ok,) = jax.tree_util.tree_leaves(status), jax.tree_util.tree_leaves(Status.ok)
    return bool(np.all(np.asarray(code) == np.asarray(ok)))


# by code: NAMES[int(status._value)]
NAMES = tuple(sorted(("ok", *_EXCEPTIONS), key=lambda name: int(getattr(Status, name)._value)))


def name_of(status) -> str:
    """The name of one concrete status, such as ``"infeasible"``."""
    for name in NAMES:
        if bool(jnp.all(status == getattr(Status, name))):
            return name
    raise errors.CaromError(f"not one status: {status}. Index the batch first: sol[i].status")


def text_of(status) -> str:
    """The text of one concrete status."""
    return Status[getattr(Status, name_of(status))]


def exception_of(status) -> type[errors.CaromError]:
    """The exception class that stands for a status other than ok."""
    return _EXCEPTIONS[name_of(status)]


def first_failure(*statuses):
    """The first status that is not ok, else ok."""
    found = Status.ok
    for status in reversed([s for s in statuses if s is not Status.ok]):
        found = Status.where(status == Status.ok, found, status)
    return found


def failing(found, status):
    """``status`` where ``found`` holds, else ok."""
    return Status.where(found, status, Status.ok)
