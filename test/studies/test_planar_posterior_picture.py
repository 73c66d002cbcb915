"""Picture of a planar robot's posterior: a panel for each goal, arms in the colours of their components."""

import torch
from matplotlib.image import imread

from eim_ros.learning.models import GaussianMixture
from experiments.targets import planar_robot
from experiments.targets.planar import draw_planar_posterior


def coloured(image) -> float:
    """Share of pixels that are no grey."""
    return float((image.max(-1) - image.min(-1) > 0.2).mean())


def test_arms_are_in_the_panels_of_the_goals_they_reach(tmp_path):
    """Two straight components, towards the first and the third goal."""
    means = torch.zeros(2, 10, dtype=torch.float64)
    means[1, 0] = torch.pi / 2
    factors = 0.02 * torch.eye(10, dtype=torch.float64).expand(2, 10, 10)
    mixture = GaussianMixture(torch.zeros(2, dtype=torch.float64), means, factors)
    draw_planar_posterior(planar_robot(), mixture, tmp_path / "picture.png", title="two arms")
    image = imread(tmp_path / "picture.png")[..., :3]
    width = image.shape[1] // 4
    shares = [coloured(image[:, i * width : (i + 1) * width]) for i in range(4)]
    assert min(shares[0], shares[2]) > 0.002
    assert shares[1] == shares[3] == 0.0


def test_single_goal_and_no_title_are_one_panel(tmp_path):
    mixture = GaussianMixture(
        *(torch.zeros(*s, dtype=torch.float64) for s in ((1,), (1, 10))), 0.1 * torch.eye(10)[None]
    )
    draw_planar_posterior(planar_robot(1), mixture.to(dtype=torch.float64), tmp_path / "picture.png")
    height, width, _ = imread(tmp_path / "picture.png").shape
    assert width < height
