"""Every exception carom raises, each with the offending value and the remedy in its text.

Findings about the input are also a ``ValueError``.  Findings during a run are a ``RuntimeError``
and carry what was computed before them in ``error.solution``.
"""


class CaromError(Exception):
    """Root of all exceptions of carom."""

    solution = (
        None  # what a failed run had computed: a carom.Solution, or None before the first step
    )


class KindError(CaromError, TypeError):
    """An argument is not the kind of object that is wanted."""


class ShapeError(CaromError, ValueError):
    """An array or a function's result has the wrong shape."""


class RestitutionError(CaromError, ValueError):
    """A coefficient of restitution is outside [0, 1], or the scheme cannot use it."""


class FrictionError(CaromError, ValueError):
    """A coefficient of friction, or the sliding velocity it acts along, makes no sense."""


class MassError(CaromError, ValueError):
    """A mass is not symmetric positive definite."""


class AdmissibilityError(CaromError, ValueError):
    """The initial position is outside the admissible set K."""


class TimeError(CaromError, ValueError):
    """dt, t0, t1 or a recording time makes no sense."""


class RecordError(CaromError, ValueError):
    """What is asked of a solution was not recorded, or a Record contradicts itself."""


class PenaltyError(CaromError, ValueError):
    """The wall of Penalty is not described by one positive number."""


class DerivativeError(CaromError, ValueError):
    """A derivative was asked of a scheme whose derivative at impacts is wrong."""


class StudyError(CaromError, ValueError):
    """A study (carom.study) cannot be done as asked, or found nothing."""


class RunError(CaromError, RuntimeError):
    """A run could not go on."""


class NonFiniteError(RunError, ValueError):
    """A force, a gap or its gradient is not finite."""


class GradientError(RunError, ValueError):
    """The gradient of a gap vanishes where the gap is active: it gives no direction to push."""


class InfeasibleError(RunError):
    """No velocity (or position) satisfies the constraints of a step."""


class ConvergenceError(RunError):
    """A projection did not reach its tolerance."""


class ContractionError(RunError):
    """The fixed point of an implicit force does not contract at this dt."""
