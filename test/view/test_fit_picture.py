"""Pictures of fits show the density where the model has mass, the data, the objective, and skipped iterations."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from matplotlib.image import imread

from eim_ros.core.errors import ConfigurationError, DataError
from eim_ros.learning import EIM, EM, FittedModel
from eim_ros.learning.models import GaussianMixture
from eim_ros.view import draw_fit

RNG = np.random.default_rng(0)
LINE, PLANE, SPACE = (RNG.normal(size=(200, n)) for n in (1, 2, 3))
# colours of the model and of skipped iterations
BLUE, ORANGE = np.array([0, 114, 178]) / 255.0, np.array([230, 159, 0]) / 255.0
WIDTH = 500  # width of a panel [pixel]


def picture(path, fit, data=None):
    draw_fit(fit, path / "fit.png", data)
    return imread(path / "fit.png")[..., :3]


def share(pixels, colour):
    return float((np.abs(pixels - colour).max(-1) < 0.1).mean())


def differs(first, second):
    return float((np.abs(first - second).max(-1) > 0.1).mean())


@pytest.mark.parametrize("data", [LINE, PLANE], ids=["line", "plane"])
def test_density_history_and_data_are_drawn(data, tmp_path):
    fit = EM(n_components=2, tolerance=0.0, n_iterations=20, seed=0).fit(data)
    drawn, alone = picture(tmp_path, fit, data), picture(tmp_path, FittedModel.of(fit.model), data)
    assert drawn.shape == (400, 2 * WIDTH, 3)
    assert alone.shape == (400, WIDTH, 3)
    assert share(drawn[:, WIDTH:], BLUE) > 0.0005
    assert share(alone, BLUE) > 0.0  # blue crosses
    assert differs(alone, picture(tmp_path, FittedModel.of(fit.model))) > 0.003  # measured with 200 points: 0.007


def test_density_is_highest_at_the_mode_and_limits_ignore_components_without_weight(tmp_path):
    means = torch.tensor([[0.0], [1000.0]]).double()
    model = GaussianMixture(torch.tensor([0.0, -50.0]).double(), means, torch.ones(2, 1, 1).double())
    pixels = picture(tmp_path, FittedModel.of(model))
    rows, columns = np.nonzero(np.abs(pixels - BLUE).max(-1) < 0.1)
    top = columns[rows < np.quantile(rows, 0.05)]
    assert abs(top.mean() - (columns.min() + columns.max()) / 2.0) < 0.05 * WIDTH
    assert columns.max() - columns.min() > 0.6 * WIDTH


@pytest.mark.parametrize("data", [SPACE, (LINE, PLANE)], ids=["three dimensions", "contexts"])
def test_only_the_history_is_drawn_of_other_models(data, tmp_path):
    fit = EM(n_components=1, n_iterations=5, seed=0).fit(data)
    assert picture(tmp_path, fit).shape == (400, WIDTH, 3)
    with pytest.raises(ConfigurationError, match="nothing to draw"):
        draw_fit(FittedModel.of(fit.model), tmp_path / "none.png")


def test_skipped_iterations_are_marked(tmp_path):
    settings = {"n_components": 1, "n_iterations": 3, "ratio.learning_rate": 0.0}
    used = EIM(seed=0, **settings, **{"ratio.estimator": "plug-in"}).fit(LINE, EM(n_components=1).fit(LINE + 2.0))
    skipped = EIM(seed=0, **settings, **{"ratio.estimator": "network"}).fit(LINE)
    assert (used.history.n_skipped, skipped.history.n_skipped) == (0, 3)
    assert share(picture(tmp_path, used), ORANGE) == 0.0
    assert share(picture(tmp_path, skipped), ORANGE) > 0.0005


@pytest.mark.parametrize(
    ("name", "data", "error", "message"),
    [
        ("fit.png", LINE, DataError, r"shape \(n, 2\), got shape \(200, 1\)"),
        ("fit.png", np.full((2, 2), np.nan), DataError, "the data must be finite"),
        ("fit.jpg", PLANE, ConfigurationError, r"must end in \.png or \.svg"),
    ],
)
def test_wrong_data_and_names_are_refused(name, data, error, message, tmp_path):
    with pytest.raises(error, match=message):
        draw_fit(EM(n_components=1, seed=0).fit(PLANE), tmp_path / name, data)
    assert not (tmp_path / name).exists()
