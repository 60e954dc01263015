"""Whether a motion is a solution: each clause of the definition, measured on its records.

    M(q) dv = f(t, q, v) dt + sum_i grad g_i dLam_i,      q' = v,      v of bounded variation   (1)
    g_i(t, q) >= 0,     dLam_i >= 0,     dLam_i = 0 where g_i > 0                               (2)
    v+ = proj(v-, V) - e proj(v-, N*)   at every impact                                        (3)

(DMP09, Definition 1; several gaps and moving ones as in docs/schemes.md).  With the relative normal
velocity w = d_t g + grad g . v, the law (3) is, by the conditions of Kuhn and Tucker,

    w_i+ = -e_i w_i-  where gap i pushes,      w_i+ >= -e_i w_i-  where it is closed           (4)

Force, mass, gap and gradient are evaluated here; nothing is taken from the scheme but t, q, v and
the impulses.  A record holds q, the right limit v, and the impulse lam received since the record
before.  Over the step from record a to record b, of length h, Dx = x_b - x_a, and M, f, grad g
stand for the means of both ends.  What is allowed is what a scheme of first order may do: take each
argument of f, M and grad g anywhere in the step, and find an impact a step early or late.
docs/certificate.md has the bounds and where they come from.
"""

import math
import pkgutil

import jax.numpy as jnp
import numpy as np

from carom.arguments import suggesting
from carom.certificates.certificate import Certificate, Clause
from carom.certificates.clauses import AT_RECORDS, clauses_for, may_gain
from carom.certificates.error import stated
from carom.certificates.located import filled, refilled, with_impacts
from carom.certificates.measured import Measured, Options, records
from carom.certificates.rows import count
from carom.certificates.spans import in_chunks
from carom.contracts import Equations, Result, offers
from carom.errors import KindError, NonFiniteError, RecordError, ShapeError, TimeError
from carom.results.solution import scheme_text
from carom.schemes.named import scheme_of_text
from carom.schemes.scheme import NOT_KEPT, Scheme
from carom.shown import counted
from carom.status import name_of
from carom.worlds.system.system import System

_ROUNDING = 1e-12  # relative
_ASTRAY = 1e3  # times the largest position or velocity: an integration that has exploded
_SHOWN = "shown: Newton's law with friction may gain energy"
_FINER = 3  # times that a run is asked what it did between records with friction
_LASTS = 4  # resolutions, or steps: a contact longer than this is no impact, and may be cut


@suggesting
def certify(
    sol, system: System | None = None, *, q0=None, v0=None, resolution=None, tolerance=None
) -> Certificate:
    """Check a Solution, of any scheme, against the definition of a motion with impacts.

    ``system`` is needed where the solution does not carry it (after vmap, jit or load).  With
    ``q0``, ``v0`` the first record must follow from these data, through an impact at t0 if v0
    points out of the admissible set.

    ``resolution`` is the time that a contact with a yielding wall lasts; None is what the scheme
    says of itself (``Penalty.contact_duration``), and no such time for the others.  Records within
    a contact are taken together, and a wall may pull on what leaves it.  ``tolerance`` is the
    relative size of errors that have nothing to do with the step: rounding, or the tolerance of
    an integrator; None is the larger of 1e-12 and the ``rtol`` of the scheme.

    A run of Spheres is checked by clauses of its own (carom/certificates/spheres.py).

    Clauses that need every step are left open (``ok`` is None) where ``sol`` holds fewer records.
    For a motion from elsewhere see ``certify_arrays``.

    The answer is ``certificate.verdict``: a solution to within ``error``; not a solution; or too
    coarse to tell, with the ``dt`` that would.  ``ok`` is True for the first only.

    Examples
    --------
    >>> import carom
    >>> ball = carom.System(force=lambda t, q, v: 0 * q - 9.81, gap=lambda t, q: q, restitution=0.5)
    >>> sol = carom.solve(ball, carom.Moreau(), q0=[1.0], v0=[0.0], t1=2.0, dt=1e-3)
    >>> print(carom.certify(sol).verdict)
    a solution
    """
    if not offers(sol, Result):
        raise KindError(
            f"certify is given {type(sol).__name__}; give what solve returned, or take "
            "certify_arrays(system, t, q, v, impulse)"
        )
    if sol.certified_by is not None:
        given = {"system": system, "q0": q0, "v0": v0}
        given |= {"resolution": resolution, "tolerance": tolerance}
        if unused := [name for name, value in given.items() if value is not None]:
            raise KindError(f"the certificate of {sol!r} does not use {unused[0]}: leave it out")
        return pkgutil.resolve_name(sol.certified_by)(sol)
    given = sol.system if system is None else system
    if given is not None and not isinstance(given, Equations):
        raise KindError(
            f"the certificate integrates equations anew, and {type(given).__name__} is no System: "
            "look at sol.stats.residual, which is measured from the law, and at carom.refine"
        )
    if np.ndim(sol.t) != 1:
        raise RecordError("this is a batch of solutions: index it first, certify(sol[i], system)")
    system = sol.system if system is None else system
    if system is None:
        raise RecordError(
            "this solution carries no system (functions are lost by vmap, jit and load): "
            "certify(sol, system)"
        )
    _check_law(system)
    scheme = _scheme(sol)
    resolution, tolerance = _scales(scheme, system, resolution, tolerance)
    how = "" if sol.ok else f", stopped at t = {sol.t[-1]:g} ({name_of(sol.status)})"
    options = Options(
        title=f"{scheme_text(sol.scheme)}, dt = {float(sol.dt):.4g}{how}",
        sparse_dt=None if sol.velocity_before is not None else float(sol.dt),
        resolution=resolution,
        tolerance=tolerance,
        glued=getattr(sol.origin, "glued", None),
    )
    arrays = _checked(system, sol.t, sol.q, sol.v, sol.impulse, sol.friction, sol.joint_impulse)
    smooth = not arrays[4].shape[1]  # nothing but gaps
    options = options._replace(inside=_locates(scheme))
    if options.sparse_dt is None and _locates(scheme) and smooth and not _full(sol):
        table, found = filled(system, scheme, np.asarray(sol.impacts), *arrays[:4])
        threaded = with_impacts(system, table, *found)
        if _sane(threaded, found):
            arrays = *threaded, np.zeros((len(threaded[0]), 0))
            options = options._replace(located=True, inside=False)
    found = _certificate(system, arrays, q0, v0, options)
    for _ in range(_FINER if options.inside else 0):
        finer = found.coarse and refilled(system, scheme, 0.5 * found.dt, *arrays)
        if not finer:
            break
        found = _certificate(system, finer, q0, v0, options)
    return found


def _sane(threaded, arrays) -> bool:
    """Whether the certificate's own motion stays with the records; a stiff one does not."""
    return all(
        np.all(np.isfinite(x)) and np.max(np.abs(x)) <= _ASTRAY * (1e-300 + np.max(np.abs(y)))
        for x, y in zip(threaded[1:3], arrays[1:3], strict=True)
    )


def _check_law(system) -> None:
    """Refuse what no clause here knows: a verdict on it would be worth nothing."""
    if system.own_law is not None:
        raise KindError(
            f"the certificate knows Coulomb's law, and this system has law={system.own_law!r}: "
            "look at sol.stats.residual, which is measured from the law, and at carom.refine"
        )


def _scheme(sol) -> Scheme | None:
    """What the run was made with; a file has the text of it, which may be of another kind."""
    if not isinstance(sol.scheme, str):
        return sol.scheme
    try:
        return scheme_of_text(sol.scheme)
    except KindError:
        return None


def _locates(scheme):
    """Whether the table of impacts has their times."""
    return scheme is not None and scheme.located


def _full(sol):
    """Whether there were impacts that the table has no room for (inside jit and vmap)."""
    return int(sol.stats.unlisted) > 0


def certify_arrays(
    system: System,
    t,
    q,
    v,
    impulse=None,
    *,
    friction=None,
    joint_impulse=None,
    q0=None,
    v0=None,
    resolution=None,
    tolerance=_ROUNDING,
) -> Certificate:
    """Check a motion given by its records, dense enough to show every impact.

    Two records at one time are the two sides of a jump.  Clauses and answer are those of
    ``certify``.

    Parameters
    ----------
    system
        The System that moved.
    t
        (n,) [s], never less than before.
    q, v
        (n, d) positions and velocities, right limits.
    impulse
        (n, p) received since the record before.  None: none at all.
    friction
        (n, p), in space (n, p, 2), likewise along the slip.  None: none at all.
    joint_impulse
        (n, k), likewise.  None: none at all.
    q0, v0
        (d,) data from which the first record must follow.  None: not checked.
    resolution
        The time that a contact with a yielding wall lasts [s].  None: walls are rigid.
    tolerance
        Relative size of errors that have nothing to do with the step: rounding, or the tolerance of
        an integrator.
    """
    _check_law(system)
    if np.size(t) < 2:
        raise ShapeError(f"t has shape {np.shape(t)}; a motion has two records or more")
    resolution = None if resolution is None else float(resolution)
    options = Options(f"{np.size(t)} records", None, resolution, float(tolerance))
    arrays = _checked(system, t, q, v, impulse, friction, joint_impulse)
    return _certificate(system, arrays, q0, v0, options)


def _scales(scheme, system, resolution, tolerance) -> tuple[float | None, float]:
    """Resolution and tolerance: what was given, or else what the scheme says of itself."""
    own = 0.0 if scheme is None else scheme.tolerance_of_motion
    if tolerance is None:
        if own is NOT_KEPT:
            raise RecordError(
                "rtol was an argument of vmap or jit and is not kept: "
                "certify(sol, system, tolerance=rtol)"
            )
        tolerance = max(_ROUNDING, float(own))
    if resolution is None and scheme is not None:
        resolution = scheme.contact_duration(system)
    if resolution is NOT_KEPT:
        raise RecordError(
            "lam, or the duration of a contact, was an argument of vmap or jit and is not kept: "
            "certify(sol, system, resolution=duration)"
        )
    return None if resolution is None else float(resolution), float(tolerance)


def _certificate(system, arrays, q0, v0, options) -> Certificate:
    kept = None
    if options.sparse_dt is None:
        began = len(arrays[0])
        arrays = _with_start(system, arrays, q0, v0)
        if options.resolution is not None:
            kept = _kept(system, options.resolution, len(arrays[0]) - began, *arrays)
    measured = Measured(system, arrays, options, kept)
    one = len(set(measured.e)) <= 1 and not callable(system.restitution)
    rows = [r for r in clauses_for(system) if r.name != "passivity" or one]
    with np.errstate(over="ignore", invalid="ignore"):  # its own motion may explode, if stiff
        clauses = tuple(_clause(row, measured) for row in rows)
        if options.sparse_dt is not None:
            return Certificate(options.title, clauses)
        return Certificate(options.title, clauses, *stated(measured))


def _clause(row, measured) -> Clause:
    if measured.sparse_dt is None:
        shown = row.name == "passivity" and may_gain(measured)
        return _judged(row, *row.check(measured), note=_SHOWN if shown else "")
    if row.name in AT_RECORDS and not measured.system.glue:
        return _judged(row, *row.check(measured), note="at the records")
    nan = float("nan")
    return Clause(row.name, row.formula, row.bound, nan, nan, nan, None, "needs every step")


def _judged(row, value, allowed, t, note="") -> Clause:
    """The worst of a violation and its bound, (n,) or (n, p); the largest where nothing bounds."""
    if not np.size(value):
        return Clause(row.name, row.formula, row.bound, 0.0, 0.0, float("nan"), True, note)
    value, allowed = np.reshape(value, (len(t), -1)), np.reshape(allowed, (len(t), -1))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(value == 0.0, 0.0, value / allowed)
    worst = value if np.all(np.isposinf(allowed)) else ratio
    k, i = np.unravel_index(np.argmax(worst), ratio.shape)
    return Clause(
        row.name,
        row.formula,
        row.bound,
        value=float(value[k, i]) + 0.0,  # not -0
        allowed=float(allowed[k, i]),
        time=float(t[k]),
        ok=bool(np.all(value <= allowed)),
        note=note,
        t=t,
        ratio=np.max(ratio, axis=1),
    )


def _checked(system, t, q, v, lam, friction=None, joint_impulse=None):
    """t, q, v, lam, and the impulses of friction and joints (n, r), carom/certificates/rows.py."""
    t, q, v = (np.asarray(a, float) for a in (t, q, v))
    if t.ndim != 1 or q.ndim != 2 or v.shape != q.shape or len(q) != len(t) or not len(t):
        raise ShapeError(
            f"t has shape {t.shape}, q {q.shape}, v {v.shape}; they must be (n,), (n, d), (n, d)"
        )
    if np.any(np.diff(t) < 0.0):
        raise TimeError(f"t decreases after t = {t[np.argmax(np.diff(t) < 0.0)]}: sort the records")
    p = len(system.gaps(t[0], q[0]))
    lam = np.zeros((len(t), p)) if lam is None else np.asarray(lam, float)
    if lam.shape != (len(t), p):
        raise ShapeError(
            f"impulse has shape {lam.shape}; for {counted(p, 'gap')} it must be {(len(t), p)}"
        )
    s, k = count(system, t[0], jnp.asarray(q[0]))
    rubs = _impulses("friction", friction, (len(t), p) if s == 1 else (len(t), p, s), len(t))
    pulls = _impulses("joint_impulse", joint_impulse, (len(t), k), len(t))
    found = {"t": t, "q": q, "v": v, "impulse": lam, "friction": rubs, "joint_impulse": pulls}
    for name, x in found.items():
        if not np.all(np.isfinite(x)):
            raise NonFiniteError(f"{name} is not finite in every record: certify what comes before")
    return t, q, v, lam, np.concatenate([rubs, pulls], axis=1)


def _impulses(name, given, shape, n):
    """As (n, ...), flat; zero where none are given."""
    if given is None:
        return np.zeros((n, math.prod(shape[1:])))
    given = np.asarray(given, float)
    if given.shape != shape:
        raise ShapeError(f"{name} has shape {given.shape}; for this system it must be {shape}")
    return given.reshape(n, -1)


def _with_start(system, arrays, q0, v0):
    """With a step of no length at t0, for an impact there: v- is v0, or what lam implies."""
    t, q, v, lam, beside = arrays
    if q0 is None and v0 is None and not np.any(lam[0]) and not np.any(beside[0]):
        return arrays
    q0 = q[0] if q0 is None else np.asarray(q0, float)
    if v0 is None:
        at = in_chunks(records, system, (t[:1], q0[None], v[:1], lam[:1], beside[:1]))
        v0 = v[0] - at.kick[0]
    start = t[0], q0, np.asarray(v0, float), np.zeros(lam.shape[1]), np.zeros(beside.shape[1])
    return tuple(np.concatenate([[a], b]) for a, b in zip(start, arrays, strict=True))


def _kept(system, resolution, first, t, q, v, lam, beside):
    """Records at least ``resolution`` apart, not within a contact unless it lasts.

    Those up to ``first``, the sides of an impact at t0, are kept.
    """
    gap = in_chunks(records, system, (t, q, v, lam, beside)).gap
    push = lam != 0.0
    touching = (gap < 0.0) & (push | np.concatenate([push[1:], push[-1:]]))
    outside = np.flatnonzero(~np.any(touching, axis=1))
    kept = list(range(first + 1))
    while kept[-1] < len(t) - 1:
        now = kept[-1]
        early, late = np.searchsorted(t, t[now] + resolution * np.array([1.0, _LASTS]))
        found = outside[np.searchsorted(outside, max(early, now + 1)) :][:1]
        last = max(late, now + _LASTS)
        kept.append(min(found[0] if len(found) else last, last, len(t) - 1))
    return np.array(kept)
