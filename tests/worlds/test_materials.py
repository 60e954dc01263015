"""Coefficients by pairs of materials."""

import numpy as np
import pytest

import carom
from by_trait import WITH_FRICTION
from carom import errors
from carom.app import runfile
from stopping import Stopped, stopping_after

G, GLASS = 9.81, carom.Plane((0, 0, 0), (0, 0, 1), material="glass")
EVERY = carom.Record(every=1)
TABLE = {("glass", "steel"): 0.9, ("rubber", "glass"): 0.4, ("steel", "rubber"): 0.1}
SLIDES = {("a", "glass"): 0.1, ("b", "glass"): 0.3, ("glass", "c"): 0.6, None: 1.0}


def two(**options):
    """A ball of steel and one of rubber, each 1 m above glass."""
    x, made = [[0, 0, 1.5], [3, 0, 1.5]], {"material": ["steel", "rubber"], "walls": [GLASS]}
    return carom.Spheres(x, 0.5, gravity=(0, 0, -G), **(made | options))


@pytest.mark.slow
@pytest.mark.parametrize("scheme", WITH_FRICTION, ids=str)
def test_each_pair_has_its_own_restitution(scheme):
    sol = carom.solve(two(restitution=TABLE), scheme, t1=0.9, dt=2e-3, record=EVERY)
    for k, e in enumerate((0.9, 0.4)):
        top = np.searchsorted(sol.t, np.sqrt(2.0 / G) * (1.0 + e))
        assert sol.x[top, k, 2] - 0.5 == pytest.approx(e * e, abs=8e-3)
    assert carom.certify(sol).ok in (True, None)


def test_spheres_of_two_materials_meet():
    """Equal masses, head on: the relative velocity turns by -e of the pair, either way round."""
    for materials in (["steel", "rubber"], ["rubber", "steel"]):
        pile = carom.Spheres(
            [[0, 0], [2, 0]],
            0.5,
            velocity=[[1, 0], [0, 0]],
            material=materials,
            restitution={("rubber", "steel"): 0.25},
        )
        sol = carom.solve(pile, carom.Moreau(), t1=2.0, dt=1e-2)
        np.testing.assert_allclose(sol.v[-1, :, 0], [0.375, 0.625], rtol=1e-9)


@pytest.mark.slow
def test_a_number_is_what_a_table_of_it_is():
    """To the bit, so that nothing else depends on how it is said."""
    given = {"t1": 1.0, "dt": 1e-2}
    one = carom.solve(two(restitution=0.6), carom.Maury(), **given)
    by_pairs = carom.solve(two(restitution={None: 0.6}), carom.Maury(), **given)
    np.testing.assert_array_equal(one.x, by_pairs.x)
    np.testing.assert_array_equal(one.v, by_pairs.v)


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"restitution": {("steel", "glass"): 0.3}}, errors.RestitutionError, "rubber.*steel"),
        ({"restitution": TABLE, "walls": [carom.Plane((0, 0, 0), (0, 0, 1))]}, None, "walls.0."),
        ({"restitution": TABLE, "material": None}, errors.RestitutionError, "no material"),
        ({"restitution": {"steel": 0.3}}, errors.RestitutionError, "a pair of materials"),
        ({"restitution": {}}, errors.RestitutionError, "without entries"),
        ({"restitution": {None: 1.5}}, errors.RestitutionError, "1.5"),
        ({"friction": {("steel", "glass"): -1.0}}, errors.FrictionError, "steel.*-1.0"),
        ({"friction": {("a", "b"): 0.1, ("b", "a"): 0.2}}, errors.FrictionError, "the same pair"),
        ({"material": ["steel"]}, errors.KindError, "2 spheres"),
        ({"material": 3}, errors.KindError, "a name"),
    ],
)
def test_refused(options, kind, text):
    with pytest.raises(kind or errors.RestitutionError, match=text):
        two(**options)


def test_one_restitution_where_a_scheme_has_one():
    with pytest.raises(errors.RestitutionError, match="PaoliSchatzman has one e"):
        carom.solve(two(restitution=TABLE), carom.PaoliSchatzman(), t1=0.1, dt=1e-2)


def test_recorded_and_resumed(tmp_path, monkeypatch):
    """To the same bits, the materials and their table read from the file; another table refused."""
    given, path = {"t1": 1.0, "dt": 5e-3}, tmp_path / "two.vtkhdf"
    pile = two(restitution=TABLE)
    whole = carom.solve(pile, carom.Maury(), **given, record=carom.Record(every=10))
    with monkeypatch.context() as patch:
        stopping_after(patch, 200)
        with pytest.raises(Stopped):
            carom.solve(pile, carom.Maury(), **given, record=carom.Record(path, every=10))
    resumed = carom.Record(path, every=10, resume=True)
    for name, other in (
        ("the restitution", two(restitution=TABLE | {("glass", "steel"): 0.8})),
        ("the materials", two(restitution=TABLE, material=["rubber", "steel"])),
    ):
        with pytest.raises(carom.CaromError, match=name):
            carom.solve(other, carom.Maury(), **given, record=resumed)
    carom.solve(pile, carom.Maury(), **given, record=resumed)
    found = carom.load(path)
    np.testing.assert_array_equal(found.x, whole.x)
    assert list(found.pile.material) == ["steel", "rubber"]
    assert found.pile.restitution == pile.restitution
    assert found.pile.walls.walls[0].material == "glass"


def test_a_run_file_has_them(tmp_path):
    path = tmp_path / "run.toml"
    text = """
spheres = "lattice"
dt = 1e-3
t1 = 0.1
[parameters]
shape = [4, 5]
radius = 0.5
material = {shares = [["steel", 0.25], ["glass", 0.75]]}
friction = {steel.steel = 0.1, steel.glass = 0.2, others = 0.5}
restitution = 0.3
[[walls]]
kind = "Plane"
point = [0.0, -1.0]
normal = [0.0, 1.0]
material = "wood"
"""
    path.write_text(text)
    pile = runfile.read(path).problem
    assert sorted(set(pile.material)) == ["glass", "steel"]
    assert list(pile.material).count("steel") == 5
    assert pile.friction == {("steel", "steel"): 0.1, ("glass", "steel"): 0.2, None: 0.5}
    assert pile.walls.walls[0].material == "wood"
    path.write_text(text.replace(", others = 0.5", ""))
    with pytest.raises(
        runfile.RunFileError, match=r"friction: has no entry for \('glass', 'glass'"
    ):
        runfile.read(path)
    path.write_text(text.replace("steel.steel = 0.1", "wood = 0.1"))
    with pytest.raises(runfile.RunFileError, match=r"line 9.*name the other material"):
        runfile.read(path)


# ---- friction -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("scheme", WITH_FRICTION, ids=str)
def test_blocks_of_three_materials_on_a_slope(scheme):
    """g (sin a - mu cos a) each by its own mu, and rest where mu > tan a, at order 1."""
    angle, x = 0.4, np.array([[0, 0, 0.5], [3, 0, 0.5], [6, 0, 0.5]])
    gravity = G * np.array([np.sin(angle), 0.0, -np.cos(angle)])
    pile = carom.Spheres(
        *(x, 0.5),
        inertia=1e9,  # blocks: they do not roll
        walls=[GLASS],
        gravity=gravity,
        material=list("abc"),
        friction=SLIDES,
    )
    exact = [0.5 * G * max(np.sin(angle) - mu * np.cos(angle), 0.0) for mu in (0.1, 0.3, 0.6)]
    off = []
    for dt in (2e-3, 1e-3):
        sol = carom.solve(pile, scheme, t1=1.0, dt=dt)
        off.append(np.max(np.abs(sol.x[-1, :, 0] - x[:, 0] - exact)))
        assert carom.certify(sol).ok in (True, None)
    assert off[1] < 2e-3
    assert 1.9 < off[0] / off[1] < 2.1


def mixed_pile(seed, d, mu):
    rng = np.random.default_rng(seed)
    x = carom.spheres.lattice(
        (4,) * d if d == 3 else (8, 8), 0.5, spacing=1.25, jitter=0.1, seed=seed
    )
    x = x.position - x.position.min(axis=0)
    low, high = (-0.6,) * d, (*(x.max(axis=0)[:-1] + 0.6), np.inf)
    return carom.Spheres(
        *(x, rng.uniform(0.4, 0.5, len(x))),
        walls=[carom.spheres.Box(low, high, material="w")],
        gravity=(0.0,) * (d - 1) + (-G,),
        material=list(rng.choice(["a", "b"], len(x))),
        friction={("a", "a"): mu[0], ("a", "b"): mu[1], ("b", "b"): mu[2], None: mu[3]},
    )


@pytest.mark.slow
@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("mu", [(0.1, 0.4, 0.8, 0.5), (0.0, 0.5, 2.0, 0.3)])
def test_piles_of_two_materials(d, mu):
    """Solved to the tolerance in every step, also where sweeps do not end, and certified."""
    for seed in range(3):
        sol = carom.solve(mixed_pile(seed, d, mu), carom.Maury(), t1=2.0, dt=5e-3)
        assert sol.stats.residual <= 1e-6
        assert carom.certify(sol).ok


@pytest.mark.slow
def test_a_planted_friction_of_another_pair_is_found():
    """What slides with the mu of one pair does not obey that of another."""
    pile = mixed_pile(0, 2, (0.1, 0.4, 0.8, 0.5))
    sol = carom.solve(pile, carom.Maury(), t1=1.0, dt=5e-3)
    assert carom.certify(sol).ok
    names = [{"a": "b", "b": "a"}[m] for m in pile.material]
    sol.pile = pile.replaced(material=names)
    faults = [clause.name for clause in carom.certify(sol).clauses if clause.ok is False]
    assert {"cone", "slip"} & set(faults)


def test_how_much_of_its_friction_each_contact_uses():
    """A ball that rolls down a slope needs 2/7 of the pull along it; one that slides uses all."""
    slope, mu = 0.5, (0.05, 0.3, 0.6)
    table = {(name, "glass"): m for name, m in zip("abc", mu, strict=True)} | {None: 0.0}
    pile = carom.Spheres(
        [[0, 0, 0.5], [0, 3, 0.5], [0, 6, 0.5], [0, 9, 0.5]],
        0.5,
        material=[*"abc", "d"],
        friction=table,
        walls=[GLASS],
        gravity=(G * np.sin(slope), 0, -G * np.cos(slope)),
    )
    sol = carom.solve(pile, carom.Maury(), t1=0.1, dt=1e-3, record=carom.Record(every=50))
    needed = 2 / 7 * np.tan(slope)
    for contacts, used in zip(sol.contacts[1:], sol.mobilisation()[1:], strict=True):
        order = np.argsort(contacts.pairs[:, 0])
        assert used[order][:3] == pytest.approx(np.minimum(needed / np.array(mu), 1.0), rel=1e-4)
        assert np.isnan(used[order][3])


def test_a_material_that_nobody_has_is_told(recwarn):
    """A typo would leave its pairs to the value of all others without a word."""
    with pytest.warns(UserWarning, match=r"friction .*'steal'.*did you mean 'steel'"):
        two(friction={("steal", "glass"): 0.9, None: 0.1})
    recwarn.clear()
    two(friction={("steel", "glass"): 0.9, None: 0.1})
    assert not recwarn.list
