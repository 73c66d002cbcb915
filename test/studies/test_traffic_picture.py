"""The picture of off-road shares: a line per method, a map per method in its colour, and no doubt about the data."""

import numpy as np
import pytest

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
