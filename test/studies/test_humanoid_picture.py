"""Picture of a humanoid's postures: lines where its joints are, crosses at its goals."""

import torch
from kinematics.humanoids import TIPS, humanoid_urdf
from matplotlib.image import imread

from eim_ros.learning.models import GaussianMixture
from experiments.targets import humanoid
from experiments.targets.humanoid import draw_humanoid


def test_postures_are_in_all_three_views(tmp_path):
    target = humanoid(humanoid_urdf(), TIPS, base="pelvis", hand_goal=(0.3, 0.2, 1.0))
    n = target.n_dims
    mean, factor = torch.zeros(1, n).double(), 0.1 * torch.eye(n).double().unsqueeze(0)
    path = draw_humanoid(target, GaussianMixture(mean[:, 0], mean, factor), tmp_path / "picture.png", title="standing")
    image = imread(path)[..., :3]
    coloured = image.max(-1) - image.min(-1) > 0.2
    assert min(float(view.mean()) for view in torch.as_tensor(coloured).double().tensor_split(3, 1)) > 0.002
