"""Robots with branches: frames, centre of mass and gradients agree with pinocchio and automatic differentiation."""

import numpy as np
import pinocchio
import pytest
import torch
from kinematics.humanoids import JOINTS, TIPS, humanoid_urdf

from eim_ros.core.errors import RobotError
from experiments.targets.tree import read_tree


@pytest.fixture(scope="module")
def tree():
    return read_tree(humanoid_urdf(), TIPS)


@pytest.fixture(scope="module")
def postures(tree) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(6, tree.n_joints, generator=generator, dtype=torch.float64)


@pytest.fixture(scope="module")
def reference(tree, postures):
    """Return pinocchio's tip poses (n, n_tips, 4, 4) and centres of mass (n, 3). The neck is at its lower limit."""
    model = pinocchio.buildModelFromXML(humanoid_urdf(), pinocchio.JointModelFreeFlyer())  # gives the pelvis a mass
    data = model.createData()
    poses, centres = [], []
    for q in postures.numpy():
        full = pinocchio.neutral(model)
        for name, value in [*zip(tree.joint_names, q, strict=True), ("neck", 0.3)]:
            joint = model.joints[model.getJointId(name)]
            continuous = joint.nq == 2
            full[joint.idx_q : joint.idx_q + joint.nq] = [np.cos(value), np.sin(value)] if continuous else [value]
        pinocchio.framesForwardKinematics(model, data, full)
        poses.append([data.oMf[model.getFrameId(tip)].homogeneous for tip in TIPS])
        centres.append(pinocchio.centerOfMass(model, data, full).copy())
    return np.array(poses), np.array(centres)


def test_joints_are_all_that_lead_to_a_tip(tree):
    assert sorted(tree.joint_names) == sorted(
        joint[0] for joint in JOINTS if joint[1] != "fixed" and joint[0] != "neck"
    )
    assert tree.level_sizes == (3, 4, 4)
    limits = dict(zip(tree.joint_names, zip(tree.lower.tolist(), tree.upper.tolist(), strict=True), strict=True))
    assert limits["left_reach"] == (0.0, 0.4)
    assert limits["left_ankle"] == (-np.inf, np.inf)


def test_tips_are_where_pinocchio_has_them(tree, postures, reference):
    frames = tree.forward(postures)
    for index in range(len(TIPS)):
        rotation, position = tree.tip(frames, index)
        np.testing.assert_allclose(rotation.numpy(), reference[0][:, index, :3, :3], atol=1e-12)
        np.testing.assert_allclose(position.numpy(), reference[0][:, index, :3, 3], atol=1e-12)


def test_centre_of_mass_is_pinocchios(tree, postures, reference):
    np.testing.assert_allclose(tree.centre_of_mass(tree.forward(postures)).numpy(), reference[1], atol=1e-12)


def test_gradient_by_forces_is_that_of_automatic_differentiation(tree, postures):
    """The differentiated function depends on the centre of mass and on the position of a tip."""
    generator = torch.Generator().manual_seed(1)
    on_centre, on_hand = torch.randn(2, len(postures), 3, generator=generator, dtype=torch.float64)
    leaf = postures.clone().requires_grad_(True)
    frames = tree.forward(leaf)
    hand = tree.tip(frames, 2)[1]
    value = (on_centre * tree.centre_of_mass(frames)).sum() + (on_hand * hand).sum()
    (expected,) = torch.autograd.grad(value, leaf)
    frames = tree.forward(postures)
    forces, torques = tree.force_on_centre(frames, on_centre)
    forces[:, tree.tip_frames[2]] += on_hand
    torques[:, tree.tip_frames[2]] += torch.linalg.cross(hand.detach(), on_hand)
    torch.testing.assert_close(tree.joint_gradient(frames, forces, torques), expected, rtol=1e-10, atol=1e-10)


def test_bad_trees_are_refused():
    urdf = humanoid_urdf()
    with pytest.raises(RobotError, match="at least one tip"):
        read_tree(urdf, ())
    with pytest.raises(RobotError, match="no tip link 'tail'"):
        read_tree(urdf, ("tail",))
    with pytest.raises(RobotError, match="no serial chain"):
        read_tree(urdf, ("left_foot",), base="torso")
    with pytest.raises(RobotError, match="no link of the robot has a mass"):
        read_tree(urdf.replace("<mass", "<mess"), TIPS)
    follower = urdf.replace(
        '<joint name="left_knee" type="revolute">', '<joint name="left_knee" type="revolute"><mimic joint="left_hip"/>'
    )
    with pytest.raises(RobotError, match="follows 'left_hip'"):
        read_tree(follower, TIPS)
