"""A model serves robots of equal kinematics that have other names or limits, another base or tip, or a tool."""

from __future__ import annotations

import re

import numpy as np
import pytest
from ik.arms import ARMS, arm_of, broad_model, reachable_pose
from kinematics.described import mounted, prefixed, with_limits

from eim_ros.core.errors import ModelFileError
from eim_ros.ik import Constraints, ErrorCode, IKModel, Sampler
from eim_ros.kinematics import Robot, pose_from
from eim_ros.kinematics.matching import kinematics_check

TOOL = pose_from([0.0, 0.0, 0.1])
ENOUGH = 60.0  # timeout that is long enough for a slow machine [s]


def test_model_of_the_panda_serves_one_with_a_prefix_narrower_limits_and_a_tool() -> None:
    urdf = with_limits(prefixed(arm_of("panda").urdf, "left_"), 0.6)
    plain = Sampler.load("panda_pose", urdf)
    sampler = plain.with_tool(TOOL)
    robot = sampler.robot
    assert robot.joint_names == tuple(f"left_panda_joint{i}" for i in range(1, 8))
    rng, n_solved = np.random.default_rng(1), 0
    for q in robot.random(20, rng):
        pose = robot.fk(q)
        samples = sampler.sample(pose, 50, timeout=ENOUGH, seed=2)
        n_solved += samples.error_code == ErrorCode.SUCCESS
        assert samples and samples.valid.all() and robot.within_limits(samples.q).all()
        reached = plain.robot.fk(samples.q) @ TOOL
        np.testing.assert_allclose(reached, np.broadcast_to(pose, reached.shape), atol=2e-6)  # the tolerances
        assert np.isfinite(samples.log_prob).all()
    assert n_solved == 20


@pytest.mark.parametrize("kind", ["position", "pose"])
def test_proposals_are_those_for_the_tip_that_the_model_knows(kind: str) -> None:
    arm = arm_of("six_joints")
    model = broad_model(arm, kind)
    room = Robot(mounted(ARMS["six_joints"], "l0", "1 2 3", "0 0 1"), base="room")
    base = pose_from([1.0, 2.0, 3.0], [0.0, 0.0, np.sin(0.5), np.cos(0.5)])
    pose = reachable_pose(arm)
    asked = Constraints(position_only=False)
    expected = Sampler(model=model, constraints=asked).propose(pose, 20, seed=4)
    placed = Sampler(model=IKModel(model.content, room, kind, {}, kinematics_check(room, arm))).with_tool(TOOL)
    samples = placed.with_constraints(asked).propose(base @ pose @ TOOL, 20, seed=4)
    np.testing.assert_allclose(samples.q, expected.q, atol=1e-9)  # equal up to rounding
    np.testing.assert_allclose(samples.log_prob, expected.log_prob, atol=1e-6)
    np.testing.assert_allclose(samples.orientation_error, expected.orientation_error, atol=1e-6)


def test_with_a_tool_and_any_orientation_its_tip_reaches_the_position(tmp_path) -> None:
    """The model was trained without the tool, for a tip whose position depends on the free orientation of the tool."""
    arm = arm_of("six_joints")
    broad_model(arm, "position").save(tmp_path / "m.safetensors")
    sampler = Sampler.load(tmp_path / "m.safetensors").with_tool(TOOL)
    position = reachable_pose(sampler.robot, 3)[:3, 3]
    samples = sampler.sample(pose_from(position), 20, timeout=ENOUGH, seed=0)
    assert samples.error_code == ErrorCode.SUCCESS
    reached = (arm.fk(samples.q) @ TOOL)[:, :3, 3]
    assert np.linalg.norm(reached - position, axis=1).max() <= 1e-6
    turned = np.ptp(arm.fk(samples.q)[:, :3, 3], axis=0)
    assert turned.max() > 0.05  # [m]; positions are on a sphere with radius 0.1 m


def test_configurations_beyond_the_robots_own_limits_are_never_valid() -> None:
    """Raw samples of the model are also invalid beyond the limits of the robot."""
    sampler = Sampler.load("panda_pose", with_limits(arm_of("panda").urdf, 0.4))
    samples = sampler.with_constraints(position_tolerance=10.0, orientation_tolerance=4.0).propose(
        reachable_pose(sampler.robot), 200, seed=0
    )
    inside = sampler.robot.within_limits(samples.q)
    assert 0 < inside.sum() < len(samples)
    assert np.array_equal(samples.valid, inside)


def test_wider_limits_are_the_robots_and_hold() -> None:
    """In every solution of the pose, a joint is beyond the limits of the robot that the model was trained for."""
    robot = Robot(with_limits(ARMS["six_joints"], 1.2))
    narrow = Robot(ARMS["six_joints"])
    sampler = Sampler(
        model=IKModel(broad_model(narrow, "pose").content, robot, "pose", {}, kinematics_check(robot, narrow))
    )
    rng = np.random.default_rng(0)
    q = next(
        q for q in robot.random(200, rng) if not Sampler(narrow).sample(robot.fk(q), 1, timeout=0.0, seed=0).valid.any()
    )
    samples = sampler.sample(robot.fk(q), 5, timeout=ENOUGH, seed=0)
    assert samples.valid.any() and robot.within_limits(samples.q).all()


@pytest.mark.parametrize(
    ("urdf", "difference"),
    [
        (ARMS["continuous"], "joint 1 'j0' turns, but joint 1 'slide_100' of the model slides"),
        (ARMS["six_joints"], "the robot has 4 joints and 0 mimic joints instead of 3 joints and 0 mimic joints"),
        (ARMS["gantry"].replace('xyz="0 1 0"', 'xyz="0 1 0.1"'), "joint 2 'slide_010' is rotated by 0.09967 rad"),
    ],
)
def test_robot_of_other_kinematics_is_refused_with_what_differs(tmp_path, urdf: str, difference: str) -> None:
    broad_model(arm_of("gantry"), "position").save(tmp_path / "m.safetensors")
    with pytest.raises(
        ModelFileError, match=f"trained for robot 'gantry' .*not for .*{re.escape(difference)}.*; train a model"
    ):
        Sampler.load(tmp_path / "m.safetensors", urdf)


def test_model_is_not_saved_for_a_robot_with_another_tip(tmp_path) -> None:
    """A saved model would be mistaken for a model that was trained with this tip."""
    path = tmp_path / "m.safetensors"
    broad_model(arm_of("gantry"), "position").save(path)
    IKModel.load(path, prefixed(arm_of("gantry").urdf, "left_")).save(tmp_path / "left.safetensors")
    assert IKModel.load(tmp_path / "left.safetensors").robot.base_link == "left_l0"
    with pytest.raises(ModelFileError, match="another base or tip"):
        IKModel.load(path, arm_of("gantry").with_tool(TOOL)).save(path)
