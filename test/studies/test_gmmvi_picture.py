"""Picture of the variational inference experiment: a run far above the others does not hide them."""

import numpy as np
from matplotlib.image import imread

from experiments.gmmvi import COLOURS, draw
from experiments.table import Header, ResultTable


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
