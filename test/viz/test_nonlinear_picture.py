"""Picture of the nonlinear experiment: a column per target, and colour where the density is."""

import torch
from matplotlib.image import imread

from eim_ros.experiments.nonlinear import TARGETS, NonlinearResult, TargetFits
from eim_ros.viz.nonlinear_picture import draw_nonlinear


def test_picture_shows_each_target_above_its_models(tmp_path):
    empty = torch.zeros(0, 1).double()
    fits = {
        name: TargetFits(target, target, {"EM": (1.0, 0.1), "EIM": (0.5, 0.1)}, {"EM": 0.5, "EIM": 0.9}, {}, 1.0)
        for name, target in TARGETS.items()
    }  # the targets stand in for their own fits
    draw_nonlinear(NonlinearResult(fits, dict.fromkeys(TARGETS, (empty, empty))), tmp_path / "picture.png")
    image = imread(tmp_path / "picture.png")[..., :3]
    height, width = image.shape[:2]
    assert (height, width) == (820, 1100)
    thirds = [image[i * height // 3 : (i + 1) * height // 3] for i in range(3)]
    blue = [float(((part[..., 2] - part[..., 0]) > 0.3).mean()) for part in thirds]
    orange = [float(((part[..., 0] - part[..., 2]) > 0.3).mean()) for part in thirds]
    assert blue[1] > 0.05 > blue[0] + blue[2]
    assert orange[2] > 0.05 > orange[0] + orange[1]
