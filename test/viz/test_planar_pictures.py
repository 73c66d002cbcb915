"""Pictures of the planar experiments: a panel for each learner, in its colour."""

import pytest
import torch
from matplotlib.image import imread

from eim_ros.distributions import GaussianMixture
from eim_ros.experiments.line_reaching import LEARNERS, LineFit, LineReachingResult
from eim_ros.experiments.obstacle import ObstacleFit, ObstacleResult
from eim_ros.planar import PlanarArm, line_task, point_task
from eim_ros.viz.line_reaching_picture import draw_line_reaching
from eim_ros.viz.obstacle_picture import draw_obstacle

ARM = PlanarArm(n_links=3)


def mixture() -> GaussianMixture:
    return GaussianMixture(torch.zeros(1), torch.zeros(1, 3), 0.3 * torch.eye(3).expand(1, 3, 3)).to(
        dtype=torch.float64
    )


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
    histogram = torch.full((50,), 0.02).double()
    fit = LineFit(mixture(), 0.5, 0.2, 0.7, histogram)
    fits = {(learner, count): fit for learner in LEARNERS for count in counts}
    task = line_task((2.0, -2.0), (2.0, 2.0))
    draw_line_reaching(LineReachingResult(ARM, task, torch.zeros(5, 3), histogram, fits), tmp_path / "picture.png")
    image = imread(tmp_path / "picture.png")[..., :3]
    below = image[int(image.shape[0] * 3.4 / 12.7) :]
    rows = [shares(below[i * len(below) // 3 : (i + 1) * len(below) // 3]) for i in range(3)]
    assert max(range(3), key=lambda row: rows[row]["orange"]) == 0
    assert max(range(3), key=lambda row: rows[row]["blue"]) == 1
    assert max(range(3), key=lambda row: rows[row]["green"]) == 2


def test_obstacle_has_a_panel_for_the_expert_and_each_learner(tmp_path):
    fits = {name: ObstacleFit(mixture(), 0.5, 0.1, 0.5) for name in ("EM", "EIM")}
    task = point_task((2.0, 0.0), (1.0, 1.0, 0.2))
    expert = torch.zeros(60, 3).double()
    draw_obstacle(ObstacleResult(ARM, task, expert, 0.0, 0.0, 0.5, fits), tmp_path / "picture.png")
    image = imread(tmp_path / "picture.png")[..., :3]
    thirds = [image[:, i * image.shape[1] // 3 : (i + 1) * image.shape[1] // 3] for i in range(3)]
    blue = [shares(part)["blue"] for part in thirds]
    orange = [shares(part)["orange"] for part in thirds]
    assert blue[2] > 2.0 * max(blue[:2])
    assert orange[1] > 2.0 * max(orange[0], orange[2])
