"""With sliding joints without real limits, poses near and far from the base are solved, and no solution is lost."""

from __future__ import annotations

import numpy as np
import pytest
from kinematics.descriptions import chain_urdf, joint

from eim_ros import Sampler
from eim_ros.kinematics import Robot

X, Y, Z = "1 0 0", "0 1 0", "0 0 1"
N_POSES = 20


def moving(kind: str, axis: str, limit: float, xyz: str = "0 0 0") -> tuple[str, str]:
    extra = (
        f'<origin xyz="{xyz}"/><axis xyz="{axis}"/><limit lower="{-limit}" upper="{limit}" velocity="1" effort="1"/>'
    )
    return kind, extra


DRIVE = moving("prismatic", X, 999999.0)
STRAFE, LIFT = moving("prismatic", Y, 1e9), moving("prismatic", "0 0.6 0.8", 5000.0)
YAW = moving("revolute", Z, 3.1)
ARM = [
    moving("revolute", Z, 2.5, "0 0 0.4"),
    moving("revolute", Y, 2.0, "0.1 0 0"),
    moving("revolute", Y, 2.5, "0.3 0 0"),
    moving("revolute", X, 2.5, "0.1 0 0"),
    moving("revolute", Y, 2.0, "0.2 0 0"),
    moving("revolute", X, 2.5, "0.1 0 0"),
]
BASES = {
    "drive": [DRIVE],
    "turn_drive": [YAW, DRIVE],
    "plane": [DRIVE, STRAFE],
    "plane_turn": [DRIVE, STRAFE, YAW],
    "space": [DRIVE, STRAFE, LIFT],
    "drive_turn_drive": [DRIVE, YAW, DRIVE],
    "parallel": [DRIVE, DRIVE],
}


def robot_on(base: list[tuple[str, str]], arm: list[tuple[str, str]] = ARM) -> Robot:
    parts = [*base, *arm]
    joints = [joint(f"j{i}", kind, f"l{i}", f"l{i + 1}", extra) for i, (kind, extra) in enumerate(parts)]
    return Robot(chain_urdf(*joints))


def poses_of(robot: Robot, distance: float) -> np.ndarray:
    """Return poses of configurations in which unlimited slides move by at most `distance` [m]."""
    rng = np.random.default_rng(0)
    q = robot.random(N_POSES, rng)
    q[:, robot.unlimited_slides] = rng.uniform(-distance, distance, (N_POSES, len(robot.unlimited_slides)))
    return robot.fk(q)


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("distance", [1.0, 300.0])
def test_all_poses_are_solved_by_every_call(base: str, distance: float) -> None:
    robot = robot_on(BASES[base])
    assert len(robot.unlimited_slides) == sum(each[0] == "prismatic" for each in BASES[base])
    poses, sampler = poses_of(robot, distance), Sampler(robot)
    assert all(sampler.solve(pose, seed=0) for pose in poses)
    assert all(len(sampler.sample(pose, 3, seed=0)) == 3 for pose in poses)
    assert all(sampler.solve_all(pose, seed=0) for pose in poses[:2])
    assert (sampler.solve_batch(poses, seed=0).n_valid == 1).all()
    assert (sampler.sample_batch(poses, 3, seed=0).n_valid == 3).all()


@pytest.mark.parametrize("base", ["drive", "turn_drive", "plane", "plane_turn", "space"])
def test_limits_for_a_pose_contain_all_its_solutions(base: str) -> None:
    robot = robot_on(BASES[base])
    rng = np.random.default_rng(1)
    for distance in (0.0, 1.0, 50.0, 5000.0):
        q = robot.random(200, rng)
        q[:, robot.unlimited_slides] = rng.uniform(-distance, distance, (200, len(robot.unlimited_slides)))
        for row, pose in zip(q, robot.fk(q), strict=True):
            lower, upper = robot.reaching_limits(pose[None, :3, 3], 0.0, robot.lower, robot.upper)
            assert (lower <= row).all()
            assert (row <= upper).all()
            assert (robot.lower <= lower).all()
            assert (upper <= robot.upper).all()


def test_limits_for_a_pose_are_not_much_wider_than_its_distance() -> None:
    robot = robot_on(BASES["turn_drive"])
    lower, upper = robot.reaching_limits(np.array([[3.0, 0.0, 0.5]]), 0.0, robot.lower, robot.upper)
    assert upper[1] == -lower[1] < 2.0 * (3.1 + 1.3)  # twice the sum of the distance and the length of the arm
    others = np.arange(robot.dof) != 1
    np.testing.assert_array_equal(lower[others], robot.lower[others])


def test_few_joints_whose_slides_may_cancel_out_keep_their_limits() -> None:
    robot = robot_on(BASES["drive_turn_drive"], ARM[:3])
    lower, upper = robot.reaching_limits(np.zeros((1, 3)), 0.0, robot.lower, robot.upper)
    np.testing.assert_array_equal((lower, upper), (robot.lower, robot.upper))


def test_closed_form_of_an_arm_with_an_unlimited_slide_finds_what_one_with_wide_limits_finds() -> None:
    """Limits of 40 m are kept. Poses are only a few metres away, so no solution is beyond these limits."""
    wide, limited = (robot_on([moving("prismatic", X, limit)], ARM[:5]) for limit in (999999.0, 40.0))
    assert (len(wide.unlimited_slides), len(limited.unlimited_slides)) == (1, 0)
    for pose in poses_of(wide, 1.0)[:5]:
        found, expected = (Sampler(robot).solve_all(pose, seed=0) for robot in (wide, limited))
        assert len(found) == len(expected) > 0
        for row in found.q:
            assert np.abs(expected.q - row).max(axis=1).min() < 1e-5  # due to the pose tolerance of 1e-6


def test_slide_within_the_limits_of_a_request_keeps_them() -> None:
    robot = robot_on(BASES["drive"])
    sampler = Sampler(robot).with_constraints(limits={"j0": (0.2, 0.3)})
    q = robot.random(10, seed=2)
    q[:, 0] = 0.25
    for pose in robot.fk(q):
        found = sampler.solve(pose, seed=0)
        assert found
        assert 0.2 <= found.q[0, 0] <= 0.3


def test_path_and_nearest_pose_use_the_reachable_part() -> None:
    robot = robot_on(BASES["turn_drive"])
    q = np.linspace([0.1, 0.2, *[0.3] * 6], [0.3, 0.5, *[0.5] * 6], 5)
    assert Sampler(robot).follow(robot.fk(q), seed=0)
    nearest = Sampler(robot).solve_nearest_pose(robot.fk(q[0]), seed=0)
    assert nearest.is_exact
