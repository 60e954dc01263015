"""Frictional problems and files that are not what they should be, or change under the hand."""

import h5py
import numpy as np
import pytest
from scipy import sparse

import carom
from carom.fclib import Problem, load

W, Q = np.eye(3), np.array([-1.0, 2.0, 0.0])


@pytest.mark.parametrize(
    "kind", [sparse.csc_matrix, sparse.csr_matrix, sparse.coo_matrix, np.array]
)
def test_what_was_given_may_change_later(kind):
    given = kind(W)
    problem = Problem(W=given, q=Q, mu=0.5)
    (given if isinstance(given, np.ndarray) else given.data)[...] *= 7.0
    found = problem.solve()
    assert max(found.residual, problem.residual(found.r)) <= 1e-8
    M, H = sparse.csc_matrix(W), sparse.csc_matrix(W)
    problem = Problem.from_global(M=M, H=H, f=np.zeros(3), w=Q, mu=0.5)
    M.data *= 9.0
    found = problem.solve()
    np.testing.assert_allclose(found.v + Q, found.u)


def test_what_was_given_is_left_alone():
    twice = sparse.csc_matrix((np.ones(4), [0, 1, 2, 2], [0, 1, 2, 4]), shape=(3, 3))
    twice.data.flags.writeable = False
    problem = Problem(W=twice, q=Q, mu=0.5)
    assert twice.nnz == 4
    assert problem.W[2, 2] == 2.0


def test_a_file_is_replaced_when_the_new_one_is_whole(tmp_path):
    path, problem = tmp_path / "one.hdf5", Problem(W=W, q=Q, mu=0.5)
    problem.save(path, problem.solve(), title="Würfel µ")
    np.testing.assert_array_equal(load(path).q, Q)
    before, found = path.read_bytes(), problem.solve()
    found.u = [object()]  # no array: it cannot be written
    with pytest.raises(TypeError):
        problem.save(path, found)
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["one.hdf5"]
    for name in (tmp_path, tmp_path / "a\0b"):
        with pytest.raises(carom.CaromError):
            problem.save(name)


def saved(tmp_path):
    path = tmp_path / "problem.hdf5"
    Problem(W=W, q=Q, mu=0.5).save(path)
    return path


SPOILED = {
    "W is numbers": ("W", np.ones(3)),
    "q is a group": ("vectors/q", None),
    "p is a group": ("W/p", None),
    "spacedim is a group": ("spacedim", None),
    "m is huge": ("W/m", np.array([1e30])),
    "an index between two": ("W/i", np.array([0.0, 1.5, 2.0])),
    "an index that is none": ("W/i", np.array([0.0, np.nan, 2.0])),
    "vectors is numbers": ("vectors", np.ones(3)),
}


@pytest.mark.parametrize("what", SPOILED)
def test_files_that_are_no_problem_are_named(what, tmp_path):
    path, (name, data) = saved(tmp_path), SPOILED[what]
    with h5py.File(path, "r+") as file:
        group = file["fclib_local"]
        del group[name]
        if data is None:
            group.create_group(name)
        else:
            group[name] = data
    with pytest.raises(carom.CaromError, match=r"problem\.hdf5"):
        load(path)


def test_a_local_problem_that_is_numbers_is_named(tmp_path):
    path = tmp_path / "problem.hdf5"
    with h5py.File(path, "w") as file:
        file["fclib_local"] = np.ones(3)
    with pytest.raises(carom.CaromError, match=r"problem\.hdf5"):
        load(path)
    with pytest.raises(carom.CaromError, match="there is no file"):
        load("a" * 5000)


def test_names_that_are_near_are_told():
    problem = Problem(W=W, q=Q, mu=0.5)
    for call in (
        lambda: Problem.from_global(M=W, H=W, f=Q, w=Q, mux=0.5),
        lambda: problem.residual(Q, convx=True),
        lambda: problem.save("problem.hdf5", titel="a"),
        lambda: load(pth="problem.hdf5"),
    ):
        with pytest.raises(carom.CaromError, match="has no argument"):
            call()
    for convex in ("False", np.array([1, 0]), 1):
        with pytest.raises(carom.CaromError, match="True or False"):
            problem.solve(convex=convex)
    assert problem.solve(convex=np.bool_(True)).status == carom.Status.ok
