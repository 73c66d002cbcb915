"""Pictures of the planar experiments: a panel for each method, in its colour."""

import pytest
import torch
from matplotlib.image import imread

from experiments import line_reaching, obstacle
from experiments.line_reaching import LineReachingConfig
from experiments.obstacle import ObstacleConfig
from experiments.table import Header, ResultTable

ROBOT = {"n_links": 3}
SAMPLES = (0.3 * torch.randn(60, 3, generator=torch.Generator().manual_seed(0))).tolist()


def shares(image) -> dict[str, float]:
    """How much of an image is blue, orange, green."""
    red, green, blue = (image[..., i] for i in range(3))
    return {
        "blue": float((blue - red > 0.15).mean()),
        "orange": float((red - blue > 0.15).mean()),
        "green": float(((green - red > 0.15) & (green - blue > 0.05)).mean()),
    }


@pytest.mark.parametrize("counts", [(1,), (1, 2, 3, 4, 5)])
def test_line_reaching_has_a_row_for_each_learner_in_its_colour(tmp_path, counts):
    settings = LineReachingConfig(n_components=counts, line_x=2.0, line_height=2.0, **ROBOT).to_mapping()
    figures = {"seed": 0, "distance": 0.5, "coverage": 0.7, "histogram": [0.02] * 50, "samples": SAMPLES}
    rows = [{"method": "expert", "estimator": "none", "n_components": 0, **figures}] + [
        {"method": learner, "estimator": "none" if learner == "EM" else "plug-in", "n_components": count, **figures}
        for count in counts
        for learner in ("EM", "EIM", "EIM + tip")
    ]
    (path,) = line_reaching.draw(ResultTable(Header("line-reaching", settings, {}), tuple(rows)), tmp_path)
    image = imread(path)[..., :3]
    below = image[int(image.shape[0] * 3.4 / 12.7) :]
    parts = [shares(below[i * len(below) // 3 : (i + 1) * len(below) // 3]) for i in range(3)]
    assert max(range(3), key=lambda row: parts[row]["orange"]) == 0
    assert max(range(3), key=lambda row: parts[row]["blue"]) == 1
    assert max(range(3), key=lambda row: parts[row]["green"]) == 2


def test_obstacle_has_a_panel_for_the_expert_and_each_method(tmp_path):
    settings = ObstacleConfig(goal_x=2.0, disc_x=1.0, disc_radius=0.2, **ROBOT).to_mapping()
    rows = tuple(
        {"method": method, "estimator": ratio, "seed": 0, "collisions": 0.5, "distance": 0.1, "samples": SAMPLES}
        for method, ratio in (("expert", "none"), ("EM", "none"), ("EIM", "plug-in"))
    )
    (path,) = obstacle.draw(ResultTable(Header("obstacle", settings, {}), rows), tmp_path)
    image = imread(path)[..., :3]
    thirds = [image[:, i * image.shape[1] // 3 : (i + 1) * image.shape[1] // 3] for i in range(3)]
    blue = [shares(part)["blue"] for part in thirds]
    orange = [shares(part)["orange"] for part in thirds]
    assert blue[2] > 2.0 * max(blue[:2])
    assert orange[1] > 2.0 * max(orange[0], orange[2])
