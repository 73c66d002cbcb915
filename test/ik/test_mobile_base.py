"""On paths with several free directions, such as those of arms on mobile bases, the extra joints move too."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from eim_ros.ik import Constraints, JointPath, Sampler
from eim_ros.ik.placement import place_base
from eim_ros.kinematics import Robot, Sphere, pose_from
from eim_ros.kinematics.collision import collisions

DOWNWARD = [1.0, 0.0, 0.0, 0.0]
ENOUGH = 60.0  # [s]


@functools.cache
def mobile(name: str) -> Robot:
    """Return an arm on a base that slides along x and y and turns about z."""
    arm = Robot(name)
    slide = '<limit lower="-2" upper="2" effort="1" velocity="1"/>'
    joints = (
        ("base_x", "prismatic", "1 0 0", "floor", "x_slide", slide),
        ("base_y", "prismatic", "0 1 0", "x_slide", "y_slide", slide),
        ("base_yaw", "continuous", "0 0 1", "y_slide", arm.base_link, ""),
    )
    text = '<link name="floor"/><link name="x_slide"/><link name="y_slide"/>' + "".join(
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
        f'<axis xyz="{axis}"/>{limit}</joint>'
        for name, kind, axis, parent, child, limit in joints
    )
    return Robot(arm.urdf.replace("</robot>", text + "</robot>"), arm.tip_link)


def wave(n: int, half: float = 1.5) -> np.ndarray:
    """Return poses (n, 4, 4) along a wave. By default, the wave is far longer than the reach of the arm."""
    return np.array([pose_from([x, 0.3 * np.sin(2.0 * x), 0.5], DOWNWARD) for x in np.linspace(-half, half, n)])


def assert_followed(robot: Robot, path: JointPath, poses: np.ndarray, position_only: bool = False) -> None:
    assert path, path.message
    off = robot.fk(path.q) - poses
    assert np.abs(off[:, :3, 3] if position_only else off).max() < 3e-6
    assert robot.within_limits(path.q).all()
    steps = np.abs(np.diff(path.q, axis=0))
    assert (steps <= np.where(robot.prismatic, 0.05, 0.3) + 1e-9).all()


@pytest.mark.parametrize("seed", [0, 1])
def test_arm_drives_along_a_path_longer_than_its_reach(seed: int) -> None:
    robot, poses = mobile("panda"), wave(91)
    path = Sampler(robot).follow(poses, seed=seed, timeout=ENOUGH)
    assert_followed(robot, path, poses)
    assert np.ptp(path.q[:, 0]) > 1.0


def test_path_begins_where_the_mobile_robot_is() -> None:
    robot, poses = mobile("panda"), wave(91)
    sampler = Sampler(robot)
    near = sampler.solve(poses[0], near={"base_x": -1.8, "panda_joint4": -1.5}, seed=0).q[0]
    path = sampler.follow(poses, near=near, seed=0, timeout=ENOUGH)
    assert_followed(robot, path, poses)
    assert (np.abs(path.q[0] - near) <= np.where(robot.prismatic, 0.05, 0.3)).all()


def test_mobile_robot_drives_around_an_obstacle() -> None:
    robot, poses = mobile("panda"), wave(61, 0.6)
    ball = Sphere((0.0, 0.0, 0.1), 0.15)
    path = Sampler(robot, constraints=Constraints(obstacles=[ball])).follow(poses, seed=0, timeout=ENOUGH)
    assert_followed(robot, path, poses)
    assert not any(collisions(robot, q, [ball], self_collision=False) for q in path.q[::4])


@pytest.mark.parametrize("name", ["panda", "iiwa14"])
def test_line_of_positions_is_followed(name: str) -> None:
    robot = Robot(name)
    poses = np.array([pose_from([0.45, y, 0.3], DOWNWARD) for y in np.linspace(-0.3, 0.4, 61)])
    path = Sampler(robot, constraints=Constraints(position_only=True)).follow(poses, seed=0, timeout=ENOUGH)
    assert_followed(robot, path, poses, position_only=True)


def test_samples_reach_poses_far_from_the_start() -> None:
    robot, pose = mobile("panda"), pose_from([1.9, -1.5, 0.6], DOWNWARD)
    found = Sampler(robot).sample(pose, 50, seed=0)
    assert len(found) == 50
    assert np.abs(robot.fk(found.q) - pose).max() < 3e-6


def test_mobile_base_and_its_placements_agree() -> None:
    """An arm on a mobile base with fixed joints has as many solutions as an arm whose base is placed there."""
    robot, poses = mobile("ur5e"), wave(3, 0.4)
    base = np.array([0.1, -0.5, 0.0, 0.3])
    found = place_base(Sampler("ur5e"), poses, base[None], n_refined=0)
    held = Sampler(robot, constraints=Constraints(fixed={"base_x": 0.1, "base_y": -0.5, "base_yaw": 0.3}))
    assert [len(held.solve_all(pose)) for pose in poses] == found.n_solutions[0].tolist()
