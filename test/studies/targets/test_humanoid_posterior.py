"""Each cost of the humanoid agrees with a simple computation, and limits are soft."""

import numpy as np
import pytest
import scipy.stats
import torch
from kinematics.humanoids import TIPS, humanoid_urdf
from scipy.spatial.transform import Rotation
from studies.targets.examples import normals

from eim_ros.core.errors import DistributionError
from experiments.targets import HumanoidPosterior, humanoid
from experiments.targets.poses import soft_limits

FEET = ((0.1, 0.1, 0.0), (0.1, -0.1, 0.0))


@pytest.fixture(scope="module")
def target() -> HumanoidPosterior:
    return humanoid(humanoid_urdf(), TIPS, base="pelvis", hand_goal=(0.3, 0.2, 1.0), foot_goals=FEET)


def test_log_density_is_the_sum_of_its_costs(target):
    x = 0.3 * normals(4, target.n_dims)
    tree, n = target.tree, target.tree.n_joints
    frames = tree.forward(x[:, :n])
    turn = Rotation.from_euler("xyz", x[:, n + 3 :].numpy()).as_matrix()
    base = x[:, n : n + 3].numpy()
    q = x[:, :n].numpy()
    limits = scipy.stats.norm.logcdf((tree.upper.numpy() - q) / 0.05).sum(-1)
    limits += scipy.stats.norm.logcdf((q - tree.lower.numpy()) / 0.05).sum(-1)
    expected = limits
    tips = [[part.numpy() for part in tree.tip(frames, index)] for index in range(3)]
    places = [base + np.einsum("nij,nj->ni", turn, position) for _, position in tips]
    for place, goal in zip(places, (*FEET, (0.3, 0.2, 1.0)), strict=True):
        expected = expected + scipy.stats.norm(goal, 0.02).logpdf(place).sum(-1)
    for rotation, _ in tips[:2]:
        expected = expected + scipy.stats.norm(np.eye(3), 0.1).logpdf(turn @ rotation).sum((-2, -1))
    centre = base + np.einsum("nij,nj->ni", turn, tree.centre_of_mass(frames).numpy())
    away = (centre - places[0])[:, :2]
    expected = expected + (scipy.stats.norm.logcdf((0.14 - away) / 0.01)).sum(-1)
    expected = expected + (scipy.stats.norm.logcdf((away + 0.14) / 0.01)).sum(-1)
    np.testing.assert_allclose(target.log_prob(x).numpy(), expected, rtol=1e-10)


def test_bad_goals_are_refused(target):
    with pytest.raises(DistributionError, match="two feet and a hand"):
        HumanoidPosterior(target.tree, torch.zeros(2), target.foot_goals)
    with pytest.raises(DistributionError, match="two feet and a hand"):
        humanoid(humanoid_urdf(), TIPS[:2], base=None)


def test_skeleton_ends_at_joints_and_tips_in_the_world(target):
    x = 0.3 * normals(4, target.n_dims)
    tree, n = target.tree, target.tree.n_joints
    frames = tree.forward(x[:, :n])
    turn = Rotation.from_euler("xyz", x[:, n + 3 :].numpy()).as_matrix()
    lines = target.skeleton(x)
    assert lines.shape == (4, n + len(tree.tip_frames), 2, 3)
    for line, (parent, end) in enumerate(
        [(int(tree.parents[joint]), frames.origins[:, joint + 1]) for joint in range(n)]
        + [(frame, tree.tip(frames, tip)[1]) for tip, frame in enumerate(tree.tip_frames)]
    ):
        for place, own in ((0, frames.origins[:, parent]), (1, end)):
            expected = x[:, n : n + 3].numpy() + np.einsum("nij,nj->ni", turn, own.numpy())
            np.testing.assert_allclose(lines[:, line, place].numpy(), expected, atol=1e-12)


def test_soft_limits_are_flat_inside_half_at_the_limit_and_quadratic_outside():
    log_prob, slope = soft_limits(torch.tensor([[0.0], [1.0], [3.0]]).double(), -1.0, 1.0, 0.05)
    assert float(log_prob[0]) == pytest.approx(0.0, abs=1e-12)
    assert float(log_prob[1].exp()) == pytest.approx(0.5)
    assert float(slope[0]) == pytest.approx(0.0, abs=1e-12)
    assert float(slope[2]) == pytest.approx(-2.0 / 0.05**2, rel=0.01)
