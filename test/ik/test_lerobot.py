"""Kinematics with LeRobot's methods work alone and, if LeRobot is installed, in its processors."""

from __future__ import annotations

import numpy as np
import pytest
from kinematics.short_arms import FIVE_JOINTS

from eim_ros.core.errors import ConfigurationError
from eim_ros.ik import Sampler
from eim_ros.ik.lerobot import LeRobotKinematics
from eim_ros.kinematics import Robot

MOTORS = ["j4", "j0", "j1", "j2", "j3"]  # in another order than the robot's joints
HOME = np.array([20.0, 10.0, 30.0, -40.0, 25.0, 55.0])  # the last value belongs to the gripper


@pytest.fixture(scope="module")
def kinematics() -> LeRobotKinematics:
    return LeRobotKinematics(Robot(FIVE_JOINTS), MOTORS, timeout=60.0)


def test_motors_are_matched_by_name_and_the_gripper_is_kept(kinematics: LeRobotKinematics) -> None:
    robot = kinematics.robot
    pose = kinematics.forward_kinematics(HOME)
    assert np.allclose(pose, robot.fk(np.deg2rad([10.0, 30.0, -40.0, 25.0, 20.0])))
    moved = HOME.copy()
    moved[:5] += [3.0, -4.0, 5.0, 2.0, -3.0]
    target = kinematics.forward_kinematics(moved)
    assert np.allclose(kinematics.inverse_kinematics(HOME, target, orientation_weight=1.0), moved, atol=1e-4)


def test_a_moving_target_gives_a_continuous_motion_to_the_nearest_poses(kinematics: LeRobotKinematics) -> None:
    """The target moves out of reach and returns. The arm has five joints, so it cannot reach the orientation."""
    pose, q = kinematics.forward_kinematics(HOME), HOME
    for number, step in enumerate(np.sin(np.linspace(0.0, np.pi, 60))):
        target = pose.copy()
        target[:3, 3] += step * np.array([0.3, 0.1, 0.1])
        new = kinematics.inverse_kinematics(q, target)
        assert np.abs(new - q).max() < 45.0  # the largest steps occur where the arm becomes straight
        assert kinematics.robot.within_limits(np.deg2rad(new[[1, 2, 3, 4, 0]])).all()
        q = new
        if number % 10 == 0:
            best = Sampler(kinematics.robot).solve_nearest_pose(target, (1.0, 0.01), seed=0, timeout=60.0)
            reached = kinematics.forward_kinematics(new)
            assert np.linalg.norm(reached[:3, 3] - target[:3, 3]) < best.position_error + 1e-3
    assert np.allclose(q, HOME, atol=0.1)


def test_wrong_joints_are_refused(kinematics: LeRobotKinematics) -> None:
    with pytest.raises(ConfigurationError, match="joint_names must contain the robot's joints"):
        LeRobotKinematics(kinematics.robot, ["j0", "j1"])
    with pytest.raises(ConfigurationError, match="expected at least 5 joint positions"):
        kinematics.forward_kinematics([1.0, 2.0])


def test_lerobot_processors_use_it(kinematics: LeRobotKinematics) -> None:
    pytest.importorskip("lerobot", reason="LeRobot is not installed")
    from lerobot.processor import TransitionKey
    from lerobot.robots.so_follower.robot_kinematic_processor import InverseKinematicsEEToJoints
    from scipy.spatial.transform import Rotation

    motors = [*MOTORS, "gripper"]
    step = InverseKinematicsEEToJoints(kinematics=kinematics, motor_names=motors)
    moved = HOME.copy()
    moved[:5] += [2.0, -3.0, 1.0, 2.0, -1.0]
    target = kinematics.forward_kinematics(moved)
    turn = Rotation.from_matrix(target[:3, :3]).as_rotvec()
    action = dict(zip(("ee.x", "ee.y", "ee.z", "ee.wx", "ee.wy", "ee.wz"), [*target[:3, 3], *turn], strict=True))
    done = step(
        {
            TransitionKey.OBSERVATION: {f"{name}.pos": value for name, value in zip(motors, HOME, strict=True)},
            TransitionKey.ACTION: {**action, "ee.gripper_pos": 70.0},
        }
    )[TransitionKey.ACTION]
    assert [done[f"{name}.pos"] for name in MOTORS] == pytest.approx(moved[:5].tolist(), abs=0.01)
    assert done["gripper.pos"] == 70.0
