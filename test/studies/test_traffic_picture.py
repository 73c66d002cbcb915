"""The picture of off-road shares: a line per method, a map per method in its colour, and no doubt about the data."""

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.image import imread

from experiments import traffic
from experiments.table import Header, ResultTable
from experiments.traffic import NGSIM, SYNTHETIC, TEST_DATA


def table(data: str) -> ResultTable:
    trajectories = np.random.default_rng(0).uniform(0.0, 40.0, (30, 12)).tolist()
    figures = {"data": data, "trajectories": trajectories, "off_road": 0.1}
    road = {"road": [[5, 10, 20, 25]] * 40, "road_corner": [0.0, 0.0, 1.0]}
    rows = [{"method": TEST_DATA, "estimator": "none", "n_components": 0, "seed": 0, **figures, **road}]
    for count in (5, 10):
        for method, ratio in (("EM", "none"), ("EIM", "residual"), ("EIM", "network"), ("EIM", "plug-in")):
            rows.append({"method": method, "estimator": ratio, "n_components": count, "seed": 0, **figures})
    return ResultTable(Header("traffic", {}, {}), tuple(rows))


@pytest.mark.parametrize(("data", "warned"), [(SYNTHETIC, True), (NGSIM, False)])
def test_picture_says_what_the_data_are(tmp_path, monkeypatch, data, warned):
    titles = []
    monkeypatch.setattr("matplotlib.figure.Figure.suptitle", lambda self, text, **_: titles.append(text))
    traffic.draw(table(data), tmp_path)
    assert data in titles[0]
    assert ("not measured traffic" in titles[0]) is warned


def test_each_method_has_its_colour_on_its_map(tmp_path):
    (path,) = traffic.draw(table(SYNTHETIC), tmp_path)
    image = imread(path)[..., :3]
    red, blue = image[..., 0], image[..., 2]
    height, width = red.shape
    maps = [  # in reading order, behind the panel of shares
        (slice(row * height // 2, (row + 1) * height // 2), slice(column * width // 3, (column + 1) * width // 3))
        for row, column in ((0, 1), (0, 2), (1, 0), (1, 1), (1, 2))
    ]
    orange, bluish = ([float((sign * (red - blue) > 0.15)[part].mean()) for part in maps] for sign in (1, -1))
    assert np.argmax(orange) == 1
    assert min(bluish[2:]) > 2.0 * max(bluish[:2])


def test_legend_names_methods_with_their_estimators(tmp_path, monkeypatch):
    labels = []
    legend = Axes.legend

    def kept(self, *args, **options):
        labels.extend(self.get_legend_handles_labels()[1])
        return legend(self, *args, **options)

    monkeypatch.setattr(Axes, "legend", kept)
    traffic.draw(table(SYNTHETIC), tmp_path)
    assert labels == [
        "EM",
        "EIM (plug-in + network)",
        "EIM (classifier)",
        "EIM (plug-in)",
        "vehicles of another set",
    ]
