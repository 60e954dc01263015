"""Pictures: densities, legends, colour bars, walls as lines, films."""

import json
import re
import shutil
import subprocess

import matplotlib as mpl
import numpy as np
import pytest
import xarray

import carom
from carom.pictures.scene import wall_lines
from carom.spheres import Box
from carom.study.pictures import density, plot
from carom.worlds.spheres.walls import Cylinder, Panel, Plane, Shell

mpl.use("Agg")


def test_density_counts_and_hides_no_direction():
    states = np.zeros((1, 2, 10))
    states[0, 0] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    states[0, 1] = 1.0
    image, edges = density(states)
    up, down = image[:, 0, 3], image[:, 1, 3]
    (first, last) = (np.searchsorted(edges, x) - 1 for x in (0.0, 1.0))
    assert up[first] == 1.0
    assert up[last] == pytest.approx(0.3 + 0.7 / 3)
    assert np.flatnonzero(down).tolist() == [last + k for k in range(-2, 3)]  # no single pixel
    assert np.argmax(down) == last
    assert np.any(image[last, 0, :3] != image[last, 1, :3])


def test_force_chains_stand_out(pair):
    """The strongest drawn last, thickest, darkest; the colour bar is that of the forces."""
    axes = pair.plot(record=-1, forces=True)
    lines = [c for c in axes.collections if isinstance(c, mpl.collections.LineCollection)]
    (chains,) = [c for c in lines if c.get_array() is not None]  # the others are walls
    force, width, alpha = chains.get_array(), chains.get_linewidths(), chains.get_alpha()
    assert len(force) == len(pair.contacts[-1]) > 0
    for values in (force, width, alpha):
        assert np.all(np.diff(values) >= 0.0)
    labels = [axis.get_ylabel() for axis in axes.figure.axes]
    assert "contact force [N]" in labels
    assert "speed [m/s]" in [axis.get_ylabel() for axis in pair.plot().figure.axes]
    mpl.pyplot.close("all")


def test_a_bifurcation_diagram_has_its_legend_off_the_data():
    q = np.random.default_rng(1).random((2, 5, 8, 1))
    data = xarray.Dataset(
        {"strobe_q": (("direction", "w", "record", "coordinate"), q)},
        coords={"w": np.arange(5.0), "direction": ["up", "down"]},
        attrs={"study": "bifurcation", "parameter": "w"},
    )
    ax = plot(data)
    ax.figure.canvas.draw()
    legend = ax.get_legend().get_window_extent()
    assert legend.y0 >= ax.get_window_extent().y1 - 1
    low, high = ax.get_xlim()
    assert (low, high) == (-0.5, 4.5)


def test_walls_are_lines_within_the_room():
    low, high = np.zeros(3), np.ones(3)
    box = [piece for wall in [Box([0.1] * 3, [0.9] * 3)] for piece in wall.pieces(0.0)]
    kinds, data = zip(*box, strict=True)
    found = wall_lines(kinds, data, low, high)
    assert len(found) == 24  # six faces of four edges
    assert np.allclose(np.abs(found - 0.5), 0.4, atol=1e-5)
    for wall, on in (
        (Cylinder([0.5, 0.5, 0.0], [0, 0, 1], 0.4), lambda x: np.hypot(*(x[:, :2] - 0.5).T) - 0.4),
        (Shell([0.5] * 3, 0.3), lambda x: np.linalg.norm(x - 0.5, axis=1) - 0.3),
        (Panel([0, 0, 0.5], [1, 0, 0], [0, 1, 0]), lambda x: x[:, 2] - 0.5),
        (Plane([0, 0, 0.2], [0, 0.6, 0.8]), lambda x: x @ [0, 0.6, 0.8] - 0.16),
    ):
        ((kind, row),) = wall.pieces(0.0)
        points = wall_lines([kind], [row], low, high).reshape(-1, 3)
        assert len(points) >= 8
        assert np.max(np.abs(on(points))) < 1e-6
    ((kind, row),) = Plane([0.0, 0.3], [0.0, 1.0]).pieces(0.0)
    flat = wall_lines([kind], [row], low, np.array([1.0, 1.0, 0.0]))
    np.testing.assert_allclose(np.sort(flat[0], axis=0), [[0, 0.3, 0], [1, 0.3, 0]], atol=1e-6)


@pytest.fixture(scope="module")
def pair():
    pile = carom.Spheres(
        np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 3.0]]),
        radius=1.0,
        walls=[carom.Plane([0, 0, 0], [0, 0, 1])],
        gravity=[0.0, 0.0, -9.81],
    )
    return carom.solve(pile, carom.Maury(), t1=0.1, dt=0.01, record=carom.Record(every=1))


def test_a_picture_of_spheres_has_a_colour_bar(pair):
    axes = pair.plot()
    assert "speed [m/s]" in [other.get_ylabel() for other in axes.figure.axes]
    pair.plot(axes)
    assert len(axes.figure.axes) == 2  # beside given axes there is no second one


def test_the_page_of_spheres_from_memory_is_that_of_the_file(pair, tmp_path):
    path = tmp_path / "pair.vtkhdf"
    carom.solve(pair.pile, carom.Maury(), t1=0.1, dt=0.01, record=carom.Record(path, every=1))
    pages = [pair.view().html, carom.load(path).view().html]
    one, other = (json.loads(re.search(r"const D = (\{.*\});\n", p)[1]) for p in pages)
    for found in (one, other):
        found.pop("name")
    assert one == other
    assert one["walls"][0]


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="needs ffmpeg")
@pytest.mark.slow
def test_an_mp4_is_a_film(pair, tmp_path):
    from carom.pictures.animate import animate_spheres

    path = tmp_path / "pair.mp4"
    animate_spheres(pair, path, seconds=1.0)
    asked = ["ffprobe", "-v", "error", "-count_frames", "-select_streams", "v:0"]
    asked += ["-show_entries", "stream=nb_read_frames", "-of", "csv=p=0", str(path)]
    found = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    assert int(found.strip().rstrip(",")) == len(pair)


@pytest.mark.parametrize(
    ("wall", "size"),
    [
        (Box([-2.0, -1.0], [4.0, 5.0]), (6.0, 6.0)),
        (Shell([0.0, 0.0], 3.0), (6.0, 6.0)),
        (Panel([-3.0, -2.0], [4.0, 1.0]), (4.0, 1.0)),
    ],
)
def test_a_picture_of_spheres_shows_their_walls(wall, size):
    """The lines of a wall, all of it within the axes; an obstacle is a grey disk."""
    stone = carom.spheres.Obstacles([[-1.0, 1.0]], 0.25)
    pile = carom.Spheres([[0.0, 0.0]], 0.5, walls=[wall, stone])
    axes = carom.solve(pile, carom.Maury(), t1=0.02, dt=0.01).plot()
    lines, disks = axes.collections[:2]
    points = np.concatenate([path.vertices for path in lines.get_paths()])
    assert np.allclose(np.ptp(points, axis=0), size, rtol=2e-3)
    for limits, x in zip((axes.get_xlim(), axes.get_ylim()), points.T, strict=True):
        assert limits[0] < x.min() < x.max() < limits[1]
    assert np.allclose(disks.get_offsets(), [[-1.0, 1.0]])
    mpl.pyplot.close("all")
