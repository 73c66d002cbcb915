"""Picture of the nonlinear experiment: a column per target, and colour where the density is."""

import numpy as np
from matplotlib.image import imread

from experiments.nonlinear import COURSE, TARGETS, draw
from experiments.table import Header, ResultTable


def test_picture_shows_each_target_above_its_models(tmp_path):
    context = np.linspace(-1.0, 1.0, 201)
    expert = {"mean": np.sin(2.5 * np.pi * context).tolist(), "deviation": [0.3] * 201}
    rows = tuple(
        {"target": name, "method": method, "estimator": "none", "seed": 0, "kl": 1.0, "kl_error": 0.1, "near": 0.5}
        | expert
        for name in TARGETS
        for method in ("EM", "EIM")
    )
    (path,) = draw(ResultTable(Header("nonlinear", {}, {}), rows), tmp_path)
    image = imread(path)[..., :3]
    height, width = image.shape[:2]
    assert (height, width) == (567, 900)
    thirds = [image[i * height // 3 : (i + 1) * height // 3] for i in range(3)]
    blue = [float(((part[..., 2] - part[..., 0]) > 0.3).mean()) for part in thirds]
    orange = [float(((part[..., 0] - part[..., 2]) > 0.3).mean()) for part in thirds]
    assert blue[1] > 0.05 > blue[0] + blue[2]
    assert orange[2] > 0.05 > orange[0] + orange[1]


def test_picture_of_the_course_has_samples_in_the_colours_of_their_weights(tmp_path):
    expert = {"mean": [0.0] * 201, "deviation": [0.3] * 201}
    record = {**expert, "contexts": [-0.5, 0.5] * 50, "samples": [0.5, -0.5] * 50, "weights": [0.6, 1.4] * 50}
    figures = {"kl": 1.0, "kl_error": 0.1, "near": 0.5, **expert}
    rows = (
        {"target": "sine", "method": "EIM", "estimator": "network", "seed": 0, **figures},
        {"target": "sine", "method": COURSE, "estimator": "network", "seed": 0, **figures}
        | {"course": [{"iteration": n, **record} for n in (1, 5)]},
    )
    paths = draw(ResultTable(Header("nonlinear", {}, {}), rows), tmp_path)
    assert [path.name for path in paths] == ["nonlinear.png", "course.png"]
    panels = imread(paths[1])[..., :3]
    panels = panels[:, : panels.shape[1] * 3 // 4]  # without the colour bar
    red, blue = panels[..., 0], panels[..., 2]
    assert ((red - blue) > 0.3).any()
    assert ((blue - red) > 0.3).any()
