"""Picture of the variational inference experiment: a run far above the others does not hide them."""

import numpy as np
from matplotlib.image import imread

from experiments.gmmvi import COLOURS, draw
from experiments.table import Header, ResultTable


def test_learning_curves_are_a_second_picture(tmp_path):
    curve = [[0.0, 900.0], [100.0, 20.0], [1000.0, 12.0]]
    row = {"target": "planar4", "method": "SAMTRON", "estimator": "known", "seed": 0, "elbo": -12.0, "curve": curve}
    paths = draw(ResultTable(Header("gmmvi", {}, {}), (row,)), tmp_path)
    assert [path.name for path in paths] == ["gmmvi.png", "gmmvi_curves.png"]
    image = imread(paths[1])[..., :3]
    assert 0.2 < height_of(image, COLOURS[0]) < 0.9


def drawn(tmp_path, **elbos):
    rows = tuple(
        {"target": "planar4", "method": word, "estimator": "known", "seed": 0, "elbo": elbo}
        for word, elbo in elbos.items()
    )
    (path,) = draw(ResultTable(Header("gmmvi", {}, {}), rows), tmp_path)
    return imread(path)[..., :3]


def height_of(image, colour):
    """Row of a colour's centre, 0 at the top and 1 at the bottom."""
    near = np.abs(image - np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])).max(-1) < 0.05
    assert near.any()
    return float(np.nonzero(near)[0].mean()) / len(image)


def test_runs_far_above_are_at_the_top_and_the_others_keep_their_scale(tmp_path):
    image = drawn(tmp_path, SAMTRON=-11.5, SEPYFUX=-96758.0, SAMYRON=-14.0)
    samtron, samyron, sepyfux = (height_of(image, colour) for colour in COLOURS[:3])
    assert sepyfux < 0.2  # out of the panel
    assert sepyfux < samyron < samtron - 0.1  # 14.0 is above 11.5 and well apart from it


def test_run_of_minus_infinity_is_drawn_at_the_top(tmp_path):
    assert height_of(drawn(tmp_path, SAMTRON=-11.5, SEPYFUX=-np.inf), COLOURS[2]) < 0.2
