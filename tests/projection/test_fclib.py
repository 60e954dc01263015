"""Frictional contact problems as such: one contact, files, checks, problems of others."""

import os
from pathlib import Path

import h5py
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, sparse
from scipy.sparse import csgraph

import carom
import piles
from by_trait import STEPPING_WITH_FRICTION
from carom import fclib
from carom.fclib import Problem, load
from piles import measured

FOLDER = Path(os.environ.get("CAROM_FCLIB", Path(__file__).parents[3] / "shared" / "fclib"))
OTHERS = sorted(FOLDER.glob("*.npz"))
needs_folder = pytest.mark.skipif(not OTHERS, reason=f"no problems in {FOLDER}; set CAROM_FCLIB")


def of_others(path):
    z = np.load(path)
    W = sparse.csc_matrix((z["W_data"], z["W_indices"], z["W_indptr"]), shape=z["W_shape"])
    return W, z["q"], z["mu"], int(z["dim"])


def assert_solved(problem, tolerance=1e-8, **options):
    W, q, mu, dim = problem
    found = Problem(W=W, q=q, mu=mu, dim=dim).solve(tolerance, **options)
    s = 0.0 if options.get("convex") else 1.0
    assert found.status == carom.Status.ok
    assert measured(W, q, mu, dim, found.r, s) <= tolerance * (1 + 1e-6)
    assert np.allclose(found.u, W @ found.r + q, rtol=0, atol=1e-9 * np.max(np.abs(q)))
    return found


# One contact.


def one_contacts(rng, n, dim=3):
    for _ in range(n):
        B = rng.normal(size=(dim, dim)) * 10.0 ** rng.uniform(-1, 1)
        mu = rng.choice([0.0, 0.1, 0.5, 1.0, 3.0, 30.0])
        yield B @ B.T + 1e-3 * np.eye(dim), rng.normal(size=dim), np.array([mu]), dim


@pytest.mark.parametrize("dim", [2, 3])
def test_the_law_of_one_contact(dim):
    """Clause by clause: open, stick, or slip opposite to the impulse at the edge of the cone."""
    cases = {"open": 0, "stick": 0, "slip": 0}
    for W, q, mu, _ in one_contacts(np.random.default_rng(dim), 1500, dim):
        found = Problem(W=W, q=q, mu=mu, dim=dim).solve(1e-10)
        assert found.status == carom.Status.ok
        r, u, mu = found.r, found.u, mu[0]
        near = 1e-9 * max(1.0, np.linalg.norm(q))
        push = np.linalg.norm(W, 2) * r
        assert r[0] >= 0.0
        assert u[0] > -near
        assert np.linalg.norm(push[1:]) <= mu * push[0] + near
        if r[0] == 0.0:
            cases["open"] += 1
        elif np.linalg.norm(u[1:]) < near:
            cases["stick"] += 1
            assert abs(u[0]) < near
        else:
            cases["slip"] += 1
            assert abs(u[0]) < near
            slip = u[1:] / np.linalg.norm(u[1:])
            assert np.linalg.norm(push[1:] + mu * push[0] * slip) < 1e3 * near
    assert min(cases.values()) > 150, cases


def test_one_contact_against_brute_force():
    """The slip angle that a fine search finds, where the search finds one and no other."""
    rng, compared = np.random.default_rng(7), 0
    angle = np.linspace(0.0, 2 * np.pi, 20001)
    d = np.stack([np.cos(angle), np.sin(angle)])
    for W, q, mu, _ in one_contacts(rng, 2000):
        found = Problem(W=W, q=q, mu=mu).solve(1e-12)
        r = found.r
        if q[0] >= 0.0:
            assert np.all(r == 0.0)
            continue
        stick = np.linalg.solve(W, -q)
        if stick[0] >= 0 and np.linalg.norm(stick[1:]) <= mu[0] * stick[0]:
            assert np.allclose(r, stick, rtol=1e-8, atol=1e-10)
            continue
        # slip along d: r = r_n (1, -mu d), u_n = 0, u_t parallel to d
        below = W[0, 0] - mu[0] * (W[0, 1:] @ d)
        with np.errstate(divide="ignore", invalid="ignore"):
            rn = -q[0] / below
            ut = W[1:, :1] * rn - mu[0] * rn * (W[1:, 1:] @ d) + q[1:, None]
        across = ut[0] * d[1] - ut[1] * d[0]
        fits = (rn[:-1] > 0) & (rn[1:] > 0) & (across[:-1] * across[1:] <= 0)
        fits &= np.sum(ut * d, axis=0)[:-1] > 0
        roots = np.flatnonzero(fits)
        if len(roots) == 1 and mu[0] > 0.0:
            compared += 1
            own = np.arctan2(*(-r[2:0:-1])) % (2 * np.pi)
            apart = abs(own - angle[roots[0]])
            assert min(apart, 2 * np.pi - apart) < 1e-3
    assert compared > 300


# Files and checks.


@pytest.mark.parametrize("kind", ["local", "global"])
def test_a_file_gives_the_problem_back(tmp_path, kind):
    rng = np.random.default_rng(0)
    if kind == "local":
        W, q, mu, dim = piles.spheres(rng, 8, 2)
        problem = Problem(W=W, q=q, mu=mu, dim=dim)
    else:
        H = rng.normal(size=(6, 9))
        M = np.diag(rng.uniform(1, 2, 6)) + 0.1
        problem = Problem.from_global(M=M, H=H, f=rng.normal(size=6), w=rng.normal(size=9), mu=0.4)
        assert np.allclose(problem.W.toarray(), H.T @ np.linalg.solve(M, H))
    found = problem.solve()
    path = tmp_path / "problem.hdf5"
    problem.save(path, found, title="a test")
    again = load(path)
    assert (again.dim, again.contacts) == (problem.dim, problem.contacts)
    assert abs(again.W - problem.W).max() < 1e-15
    assert np.array_equal(again.mu, problem.mu)
    assert again.residual(found.r) == pytest.approx(found.residual, rel=1e-6, abs=1e-14)
    with h5py.File(path) as file:
        assert np.array_equal(file["solution/r"][()], found.r)
        assert ("v" in file["solution"]) == (kind == "global")


def test_triplets_rows_and_columns_are_read(tmp_path):
    W, q, mu, _ = piles.chain(np.random.default_rng(1), 3)
    Problem(W=W, q=q, mu=mu).save(tmp_path / "a.hdf5")
    C, R = sparse.coo_matrix(W), sparse.csr_matrix(W)
    for nz, p, i, x in ((C.nnz, C.col, C.row, C.data), (-2, R.indptr, R.indices, R.data)):
        with h5py.File(tmp_path / "a.hdf5", "r+") as file:
            group = file["fclib_local/W"]
            group["nz"][0] = nz
            for name, value in (("p", p), ("i", i), ("x", x)):
                del group[name]
                group[name] = value
        assert abs(load(tmp_path / "a.hdf5").W - W).max() == 0.0


def test_mistakes_are_named(tmp_path):
    I3, one = np.eye(3), np.ones(3)
    errors = carom.errors
    for wrong, error, text in [
        ({"W": np.eye(2)}, errors.ShapeError, "W has shape"),
        ({"q": np.ones(4), "W": np.eye(4)}, errors.ShapeError, "no multiple of dim"),
        ({"q": [np.nan, 1, 1]}, errors.NonFiniteError, r"q\[0\]"),
        ({"W": np.full((3, 3), np.inf)}, errors.NonFiniteError, "W has an entry"),
        ({"mu": -0.1}, errors.FrictionError, "mu=-0.1"),
        ({"mu": [0.1, 0.2]}, errors.ShapeError, "mu has shape"),
        ({"dim": 4}, errors.ShapeError, "dim=4"),
        ({"dim": np.array([3, 3])}, errors.ShapeError, "dim=array"),
        ({"W": "abc"}, errors.KindError, "W='abc'"),
        ({"W": 1j * I3}, errors.KindError, "real numbers"),
        ({"W": [[1, 2], [3]]}, errors.KindError, "real numbers"),
        ({"W": np.ones(3)}, errors.ShapeError, "two axes"),
        ({"q": 1j * one}, errors.KindError, "real numbers"),
        ({"q": None}, errors.KindError, "q='None'"),
        ({"mu": "x"}, errors.KindError, "mu='x'"),
        ({"friction": 0.5}, errors.KindError, "no argument 'friction'"),
    ]:
        with pytest.raises(error, match=text):
            Problem(**({"W": I3, "q": one, "mu": 0.5} | wrong))
    problem = Problem(W=I3, q=one, mu=0.5)
    with pytest.raises(errors.ShapeError, match="r has shape"):
        problem.residual(np.ones(4))
    for wrong in (0, -1.0, np.nan, np.inf, None, "a"):
        with pytest.raises(carom.CaromError, match="tolerance="):
            problem.solve(wrong)
    for wrong in (0, 2.5, None, np.nan):
        with pytest.raises(errors.KindError, match="limit="):
            problem.solve(limit=wrong)
    with pytest.raises(errors.ShapeError, match="start has shape"):
        problem.solve(start=[1.0])
    with pytest.raises(errors.MassError, match=r"M\[1, 1\] = -2"):
        Problem.from_global(M=np.diag([1.0, -2.0, 1.0]), H=I3, f=one, w=one, mu=0.5)
    with pytest.raises(errors.RecordError, match="no folder"):
        problem.save(tmp_path / "none" / "a.hdf5")
    with pytest.raises(errors.ShapeError, match="r of the result"):
        problem.save(tmp_path / "a.hdf5", Problem(W=np.eye(6), q=np.ones(6), mu=0.5).solve())
    with pytest.raises(errors.KindError, match="a solution"):
        fclib.of_step("a")
    with pytest.raises(errors.ShapeError, match=r"W\[0, 0\] = -1 is negative"):
        Problem(W=-I3, q=one, mu=0.5)
    with pytest.raises(errors.KindError, match="has no argument 'tol'; did you mean 'tolerance'"):
        problem.solve(tol=1e-4)
    with pytest.raises(errors.RecordError, match="no file"):
        load(tmp_path / "none.hdf5")
    with h5py.File(tmp_path / "other.hdf5", "w") as file:
        file["x"] = 1
    with pytest.raises(errors.RecordError, match="neither"):
        load(tmp_path / "other.hdf5")
    with pytest.warns(UserWarning, match="not symmetric"):
        Problem(W=I3 + np.diag([0.5, 0.5], 1), q=one, mu=0.5)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("vectors/q", None, "no fclib_local/vectors/q"),
        ("spacedim", None, "no fclib_local/spacedim"),
        ("W/x", None, "W/x"),
        ("W/i", [0, 1, 99], "row 99"),
        ("W/i", [0, -1, 2], "row -1"),
        ("W/p", [0, 5, 2, 3], "p of W"),
        ("W/p", [0, 1, 2], "p of W"),
        ("W/x", [1.0], "1 entries"),
        ("W/nz", [50], "50 are wanted"),
        ("W/nz", [-5], "nz=-5"),
        ("vectors/q", "a", "real numbers"),
    ],
)
def test_files_that_are_not_right(tmp_path, name, value, text):
    """None is read beyond its arrays."""
    path = tmp_path / "a.hdf5"
    Problem(W=np.eye(3), q=np.ones(3), mu=0.5).save(path)
    with h5py.File(path, "r+") as file:
        del file["fclib_local"][name]
        if value is not None:
            file["fclib_local"][name] = value
    with pytest.raises(carom.CaromError, match=text):
        load(path)
    path.write_text("no HDF5")
    with pytest.raises(carom.errors.RecordError, match="no HDF5 file"):
        load(path)


# Ends of the range.


def test_nothing_to_do():
    assert Problem(W=np.eye(3), q=np.zeros(3), mu=0.5).solve().residual == 0.0
    empty = Problem(W=np.zeros((0, 0)), q=np.zeros(0), mu=np.zeros(0)).solve()
    assert empty.status == carom.Status.ok
    opened = Problem(W=np.zeros((3, 3)), q=[1.0, 2.0, 0.0], mu=0.5).solve()
    assert opened.status == carom.Status.ok
    assert np.all(opened.r == 0.0)
    pushed = Problem(W=np.zeros((3, 3)), q=[-1.0, 0.0, 0.0], mu=0.5).solve(limit=50)
    assert pushed.status == carom.Status.unconverged
    assert pushed.residual == pytest.approx(1.0)


def test_a_part_of_w_is_zero():
    """A contact between bodies that nothing moves opens beside others that push."""
    W, q, mu, _ = piles.stack(np.random.default_rng(2), 2)
    W = sparse.block_diag([W, np.zeros((3, 3))]).tocsc()
    found = Problem(W=W, q=np.append(q, [0.1, 1.0, 0.0]), mu=np.append(mu, 0.5)).solve()
    assert found.status == carom.Status.ok
    assert np.all(found.r[-3:] == 0.0)


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("fault", ["none", "not symmetric", "indefinite"])
def test_scales_and_faults_of_w(scale, fault):
    rng = np.random.default_rng(3)
    W, q, mu, dim = piles.chain(rng, 20) if fault == "not symmetric" else piles.stack(rng, 4)
    if fault == "not symmetric":
        W = W.multiply(1.0 + 1e-3 * rng.normal(size=W.shape)).tocsc()
    if fault == "indefinite":
        W = (W - 1e-8 * sparse.eye(W.shape[0])).tocsc()
    assert_solved((W * scale, q * 1e3, mu, dim))


@pytest.mark.parametrize(("w", "v"), [(1e-200, 1e-200), (1e-200, 1.0), (1.0, 1e160), (1e160, 1.0)])
def test_what_cannot_be_squared_is_refused(w, v):
    """Before, r = 0 was an answer of residual 0 to a contact that is pushed."""
    with pytest.raises(carom.errors.CaromError, match="take other units"):
        Problem(W=w * np.eye(3), q=v * np.array([-1.0, 2.0, 0.0]), mu=0.5)


@pytest.mark.parametrize(("w", "v"), [(1e-60, 1e-60), (1e60, 1e-60), (1e-60, 1e60)])
def test_what_can_be_squared_is_solved(w, v):
    found = Problem(W=w * np.eye(3), q=v * np.array([-1.0, 2.0, 0.0]), mu=0.5).solve()
    assert found.status == carom.Status.ok
    assert np.allclose(found.r * w / v, [1.0, -0.5, 0.0], rtol=1e-7)


def test_without_friction_it_is_the_half_space_projection():
    """mu = 0 gives the velocities of carom.project on the normal rows."""
    W, q, mu, dim = piles.spheres(np.random.default_rng(4), 6)
    found = assert_solved((W, q, 0 * mu, dim), 1e-12)
    assert np.all(found.r.reshape(-1, 3)[:, 1:] == 0.0)
    n = np.arange(0, len(q), 3)
    A = W.toarray()[np.ix_(n, n)]
    root = np.linalg.cholesky(A + 1e-14 * np.eye(len(n)))
    nearest = carom.project(np.zeros(len(n)), root, q[n])
    assert np.allclose(found.u[n], root @ nearest.point + q[n], atol=1e-9)


def test_a_guess_is_used_and_not_needed():
    W, q, mu, dim = piles.stack(np.random.default_rng(5), 6)
    problem = Problem(W=W, q=q, mu=mu, dim=dim)
    cold = problem.solve(1e-8)
    warm = problem.solve(1e-8, start=cold.r)
    assert warm.iterations < cold.iterations / 2
    assert np.allclose(warm.u, cold.u, atol=1e-5)
    wild = problem.solve(1e-8, start=1e3 * np.random.default_rng(6).normal(size=len(q)))
    assert wild.status == carom.Status.ok


# Problems of others.


@needs_folder
@pytest.mark.parametrize("tolerance", [1e-4, 1e-8])
def test_problems_of_others(tolerance):
    for path in OTHERS:
        assert_solved(of_others(path), tolerance)


@needs_folder
def test_files_of_others():
    for path in sorted(FOLDER.glob("*.hdf5")):
        problem = load(path)
        W, q, _mu, dim = of_others(path.with_suffix(".npz"))
        assert problem.dim == dim
        assert abs(problem.W - W).max() < 1e-12 * abs(W).max()
        assert np.allclose(problem.q, q, rtol=1e-12, atol=1e-12 * np.max(np.abs(q)))
        assert problem.solve().status == carom.Status.ok


# Random problems and perturbed ones.

# Masses of 1 to 1e6 within a pile, or mu of 10 and more: some end with a status.
BEYOND = ("masses", "mu=10", "mu=1000")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_random_piles(seed):
    for name, problem in piles.families(np.random.default_rng(seed)):
        if not any(word in name for word in BEYOND):
            assert_solved(problem)


@pytest.mark.slow
def test_what_is_not_reached_is_said():
    """Beyond: the status and the residual are those of the answer that is given."""
    for name, (W, q, mu, dim) in piles.families(np.random.default_rng(3)):
        if "masses" in name and len(mu) < 60:
            found = Problem(W=W, q=q, mu=mu, dim=dim).solve(limit=500)
            assert found.residual == pytest.approx(
                measured(W, q, mu, dim, found.r),
                rel=1e-3,
                abs=1e-9,  # eps of r that grow
            )
            assert (found.status == carom.Status.ok) == (found.residual <= 1e-8)


WEDGED = "FrictionContactProblem00727", "mu x 2"  # has no answer: see the search below


@needs_folder
@pytest.mark.slow
def test_perturbed_problems_of_others():
    rng = np.random.default_rng(0)
    for path in OTHERS:
        W, q, mu, dim = of_others(path)
        order = rng.permutation(len(mu))
        rows = (dim * order[:, None] + np.arange(dim)).ravel()
        noise = 0.01 * rng.normal(size=len(q)) * np.linalg.norm(q) / np.sqrt(len(q))
        variants = {
            "mu / 2": (W, q, mu / 2, dim),
            "mu x 2": (W, q, mu * 2, dim),
            "noise": (W, q + noise, mu, dim),
            "permuted": (W[rows][:, rows].tocsc(), q[rows], mu[order], dim),
        }
        for name, problem in variants.items():
            if (path.stem, name) != WEDGED:
                assert_solved(problem)


def wild(W, q, mu, dim, rng):
    """Far from what the problems of others are."""
    n, spread = len(mu), np.linalg.norm(q) / np.sqrt(len(q))
    few = np.sort(rng.choice(n, max(1, n // 2), replace=False))
    rows = (dim * few[:, None] + np.arange(dim)).ravel()
    scale = np.repeat(10.0 ** rng.uniform(-2.0, 2.0, n), dim)
    scales = sparse.diags(scale)
    return {
        "mu x 10": (W, q, 10.0 * mu, dim),
        "mu = 1e-3": (W, q, 0.0 * mu + 1e-3, dim),
        "q x 1e3": (W, 1e3 * q, mu, dim),
        "noise 30 %": (W, q + 0.3 * spread * rng.normal(size=len(q)), mu, dim),
        "rows scaled": ((scales @ W @ scales).tocsc(), scale * q, mu, dim),
        "half of the contacts": (W[rows][:, rows].tocsc(), q[rows], mu[few], dim),
    }


@needs_folder
@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_wild_variants_of_problems_of_others(seed):
    rng = np.random.default_rng(seed)
    for path in OTHERS:
        for name, problem in wild(*of_others(path), rng).items():
            if (path.stem, name) != (WEDGED[0], "mu x 10"):
                assert_solved(problem)


@needs_folder
def test_where_sweeps_and_newton_end():
    """mu = 1000: sweeps and Newton's method stop at 2e-2, the path does not."""
    W, q, mu, dim = of_others(FOLDER / "Confeti-ex03-Fc3D-SBM.npz")
    assert_solved((W, q, 0.0 * mu + 1e3, dim), limit=500)


def modes_of_an_answer(W, q, mu):
    """A search over what planar contacts do (open, stick, slip either way), by linear programs
    with what is not decided left free: the modes of an answer, or None if there is none."""
    n, largest = len(mu), 1e5  # of r, where |q| is some 10 and W some 1

    def feasible(modes):
        above, equal, bounds = [], [], [(0.0, largest), (-largest, largest)] * n
        for k in range(n):
            normal, tangent, e = W[2 * k], W[2 * k + 1], np.eye(2 * n)[2 * k : 2 * k + 2]
            mode = modes.get(k)
            above.append((-normal, q[2 * k]))
            if mode == "open":
                bounds[2 * k] = bounds[2 * k + 1] = (0.0, 0.0)
            elif mode in (1, -1):  # slips that way
                equal += [(normal, -q[2 * k]), (e[1] + mode * mu[k] * e[0], 0.0)]
                above.append((-mode * tangent, mode * q[2 * k + 1]))
            else:
                above += [(side * e[1] - mu[k] * e[0], 0.0) for side in (1, -1)]
                if mode == "stick":
                    equal += [(normal, -q[2 * k]), (tangent, -q[2 * k + 1])]
        (A, b), (E, c) = zip(*above, strict=True), zip(*(equal or [(0.0 * q, 0.0)]), strict=True)
        return optimize.linprog(0.0 * q, np.array(A), b, np.array(E), c, bounds).status == 0

    def search(modes):
        if not feasible(modes):
            return None
        if len(modes) == n:
            return modes
        tried = ({**modes, len(modes): mode} for mode in ("open", "stick", 1, -1))
        return next((found for one in tried if (found := search(one)) is not None), None)

    return search({})


@needs_folder
@pytest.mark.slow
def test_twice_the_friction_wedges():
    """Twelve contacts of their own, with a restitution that drives them together, have answers
    with mu = 0.9 and none with 1.8 or 9, where some of them wedge.  W is rounded to 1e-8 there."""
    W, q, mu, _ = of_others(FOLDER / f"{WEDGED[0]}.npz")
    part = csgraph.connected_components(W)[1]
    k = np.flatnonzero(part == part[2 * 41])
    value, vector = np.linalg.eigh(W[k][:, k].toarray())
    W, mu = (vector * np.where(value > 1e-6, value, 0.0)) @ vector.T, mu[k[::2] // 2]
    assert len(mu) == 12
    assert modes_of_an_answer(W, q[k], mu) is not None
    assert modes_of_an_answer(W, q[k], 2.0 * mu) is None
    assert modes_of_an_answer(W, q[k], 10.0 * mu) is None


# Steps of a run.


@pytest.mark.parametrize("scheme", [*STEPPING_WITH_FRICTION, carom.Moreau(implicit=True)], ids=str)
def test_a_step_of_a_system(scheme, tmp_path):
    """Another solver finds the velocity that the step moved with (Maury) or ended at (Moreau)."""
    blocks = carom.System(
        mass=[1.0, 1.0, 2.0, 2.0],
        force=lambda t, q, v: jnp.array([-3.0 * q[0] - 0.5 * v[0], -9.81, 0.0, -19.62]),
        gap=lambda t, q: jnp.array([q[1], q[3]]),
        slip=lambda t, q, v: jnp.array([v[0] - 0.5, v[2]]),
        friction=[0.3, 0.2],
        restitution=0.4,
    )
    sol = carom.solve(blocks, scheme, [0, 0, 0, 0.1], [1.0, 0, 2.0, -1.0], t1=0.5, dt=1e-2)
    for record in (1000, 1.5, -1000):
        said = f"record={record}: a whole number from -51 to"
        with pytest.raises(carom.errors.KindError, match=said):
            fclib.of_step(sol, record)
    problem = fclib.of_step(sol, 30)
    problem.save(tmp_path / "step.hdf5")
    found = fclib.load(tmp_path / "step.hdf5").solve(1e-13)
    moved = (sol.q[31] - sol.q[30]) / sol.dt if "Maury" in str(scheme) else sol.v[31]
    np.testing.assert_allclose(found.v, moved, atol=1e-13)


@pytest.mark.parametrize(
    ("d", "scheme"), [(2, carom.Maury()), pytest.param(3, carom.Moreau(), marks=pytest.mark.slow)]
)
def test_a_step_of_spheres(d, scheme):
    pile = carom.spheres.lattice(
        (4, 4, 3)[:d],
        0.05,
        spacing=0.105,
        jitter=0.002,
        gravity=(0, 0, -9.81)[3 - d :],
        friction=0.5,
        walls=[carom.spheres.Box((0,) * d, (0.5,) * (d - 1) + (np.inf,))],
    )
    sol = carom.solve(pile, scheme, t1=0.2, dt=2e-3, record=carom.Record(every=1))
    for record in (60, 98):
        problem = fclib.of_step(sol, record)
        found = problem.solve(1e-10)
        assert found.status == carom.Status.ok
        assert problem.contacts > 10
        off = found.v.reshape(-1, 6)[:, :d] - sol.v[record + 1]
        assert np.max(np.abs(off)) < 3e-5  # the tolerance of the run: 1e-6 r / dt


def test_a_pyramid_of_discs_may_stand_or_fall():
    """Both obey Coulomb's law; the convex one, which has one velocity, lets stand what can."""
    r, mu = 0.5, 0.5
    x = [(r * (k + 2 * i), r * (1 + np.sqrt(3) * k)) for k in range(3) for i in range(3 - k)]
    floor = carom.Plane((0, 0), (0, 1))
    discs = carom.Spheres(x, r, friction=mu, walls=[floor], gravity=(0, -9.81))
    problem = fclib.of_step(carom.solve(discs, carom.Maury(), t1=5e-3, dt=5e-3), 0)
    convex, falls = problem.solve(1e-12, convex=True), problem.solve(1e-12)
    stands = problem.solve(1e-12, start=convex.r)
    moved = [np.max(np.abs(one.u)) / np.max(np.abs(problem.q)) for one in (convex, falls, stands)]
    assert problem.residual(stands.r) < 1e-12
    assert problem.residual(falls.r) < 1e-12
    assert moved[0] < 1e-11
    assert moved[2] < 1e-11
    assert moved[1] > 0.1


def test_steps_without_a_problem():
    ball = carom.System(force=lambda t, q, v: -9.81, gap=lambda t, q: q)
    sol = carom.solve(ball, carom.Moreau(), [1.0], [0.0], t1=0.1, dt=1e-2)
    with pytest.raises(carom.errors.FrictionError, match="no friction"):
        fclib.of_step(sol)


@pytest.mark.slow
@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("convex", [False, True])
def test_a_cone_without_width_ends_below(dim, convex):
    """mu = 0 and no sliding: what opens has no impulse, and lacks nothing."""
    q = np.zeros(2 * dim)
    q[0], q[dim] = 1.0, -1.0
    problem = fclib.Problem(W=np.eye(2 * dim), q=q, mu=[0.0, 0.0], dim=dim)
    found = problem.solve(tolerance=1e-10, convex=convex)
    assert problem.residual(found.r) <= 1e-10
    np.testing.assert_allclose(found.r, -np.minimum(q, 0.0), atol=1e-9)


def test_what_rounding_hides_is_no_answer():
    """Two jaws that close on a body from both sides: with huge impulses u = W r + q is lost."""
    W = np.kron([[1.0, -1.0], [-1.0, 1.0]], np.eye(2))
    problem = carom.fclib.Problem(W=W, q=np.array([-1.0, 0.3, -1.0, 0.2]), mu=0.5, dim=2)
    hidden = np.array([1e17, 0.0, 1e17, 0.0])  # r - P_K(r - rho u) = 0 in floating point
    assert problem.residual(hidden) > 1.0
    found = problem.solve(1e-8, start=hidden)
    assert found.status == carom.Status.unconverged
    assert found.residual > 0.1
