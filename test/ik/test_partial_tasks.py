"""In partly constrained tasks, answers use exactly the freedom that the tolerances allow."""

from __future__ import annotations

import numpy as np
import pytest
from ik.arms import arm_and_oracle, arm_of, reachable_pose, sampler_of
from kinematics.free_flyer import difference

from eim_ros.ik import Constraints, ErrorCode

ENOUGH = 60.0  # [s]
FREE = np.inf
ABOUT_TOOL = Constraints(tolerances=(0.0, 0.0, 0.0, 0.0, 0.0, FREE))


@pytest.mark.parametrize("name", ["panda", "iiwa14", "six_joints"])
def test_free_turn_about_the_tool_points_it_exactly(name: str) -> None:
    robot, oracle = arm_and_oracle(name)
    pose = reachable_pose(robot)
    samples = sampler_of(name, "pose").with_constraints(ABOUT_TOOL).sample(pose, 100, timeout=ENOUGH, seed=0)
    assert samples.error_code == ErrorCode.SUCCESS, samples.message
    assert samples and samples.valid.all()
    turns = []
    for q in samples.q:
        reached = np.linalg.inv(pose) @ oracle.forward(q)
        assert np.linalg.norm(reached[:3, 3]) <= 1.001e-6
        assert np.hypot(reached[0, 2], reached[1, 2]) <= 1.001e-6
        assert reached[2, 2] > 0.0
        turns.append(np.arctan2(reached[1, 0], reached[0, 0]))
    assert np.ptp(turns) > 1.0


def test_free_turn_reaches_what_the_full_pose_cannot() -> None:
    """The last joint cannot turn far enough for the complete pose."""
    robot = arm_of("six_joints")
    pose = robot.fk(np.array([0.3, 0.5, 0.8, 0.2, 0.6, 2.5]))
    spin = np.eye(4)
    spin[:2, :2] = [[np.cos(0.6), -np.sin(0.6)], [np.sin(0.6), np.cos(0.6)]]
    beyond = pose @ spin  # the last joint would need 3.1 rad, but its limit is 2.5 rad
    limits = {name: (value - 0.4, value + 0.4) for name, value in (("j0", 0.3), ("j1", 0.5), ("j2", 0.8), ("j3", 0.2))}
    sampler = sampler_of("six_joints", "pose")
    full = sampler.with_constraints(limits=limits).sample(beyond, 5, timeout=ENOUGH, seed=0)
    free = sampler.with_constraints(limits=limits, tolerances=ABOUT_TOOL.tolerances).sample(
        beyond, 5, timeout=ENOUGH, seed=0
    )
    assert full.error_code == ErrorCode.NO_IK_SOLUTION
    assert free and free.valid.all()


def test_tolerances_of_position_are_along_the_axes_of_the_wanted_frame() -> None:
    robot, oracle = arm_and_oracle("iiwa14")
    pose = reachable_pose(robot, 2)
    constraints = Constraints(tolerances=(0.05, 0.0, 0.2, 0.1, 0.1, 0.1))
    samples = sampler_of("iiwa14", "pose").with_constraints(constraints).sample(pose, 200, timeout=ENOUGH, seed=0)
    offsets = np.array([(np.linalg.inv(pose) @ oracle.forward(q))[:3, 3] for q in samples.q])
    assert samples and samples.valid.all()
    assert (np.abs(offsets) <= np.array([0.05, 0.0, 0.2]) + 1.001e-6).all()
    assert np.abs(offsets[:, 2]).max() > 0.05


def test_out_of_reach_but_within_tolerance_is_reached() -> None:
    robot = arm_of("planar3")
    pose = robot.fk(np.zeros(3))
    pose[0, 3] = 3.5
    sampler = sampler_of("planar3", "position")
    assert sampler.sample(pose, 5, timeout=ENOUGH, seed=0).error_code == ErrorCode.NO_IK_SOLUTION
    near = sampler.with_constraints(tolerances=(0.6, 0, 0, 0, 0, 0)).sample(pose, 5, timeout=ENOUGH, seed=0)
    assert near and near.valid.all()
    assert not near.position_error[near.valid].max() > 1e-6
    far = sampler.with_constraints(tolerances=(0.4, 0, 0, 0, 0, 0)).sample(pose, 5, timeout=ENOUGH, seed=0)
    assert far.error_code == ErrorCode.NO_IK_SOLUTION
    assert far.best_attempt_error[0] == pytest.approx(0.1, abs=1e-3)


def test_raw_samples_are_measured_by_the_same_tolerances() -> None:
    robot, pose = arm_of("planar3"), reachable_pose(arm_of("planar3"))
    constraints = Constraints(tolerances=(1.0, 1.0, 0.0, FREE, FREE, FREE))
    raw = sampler_of("planar3", "pose").with_constraints(constraints).propose(pose, 500, seed=0)
    offsets = np.abs((robot.fk(raw.q) - pose)[:, :3, 3] @ pose[:3, :3])
    expected = (offsets <= [1.0, 1.0, 1e-6]).all(axis=1) & robot.within_limits(raw.q)
    assert 0 < expected.sum() < 500
    assert np.array_equal(raw.valid, expected)


@pytest.mark.parametrize(
    "tolerances", [ABOUT_TOOL.tolerances, (0.1, 0.0, FREE, 0.3, 0.2, 0.1), (0, 0, 0, 2.0, 0, FREE)]
)
def test_poses_for_the_model_are_within_the_tolerances(tolerances: tuple[float, ...]) -> None:
    robot = arm_of("panda")
    q = np.array([0.3, 0.2, -0.4, -1.5, 0.6, 1.2, 0.1])
    constraints = Constraints(tolerances=tolerances)
    poses = constraints.wanted(robot.fk(q), robot, 200, np.random.default_rng(0))
    assert np.allclose(poses[0], robot.fk(q), rtol=0, atol=1e-15)
    for pose in poses:
        beyond = difference(pose, poses[0], tolerances)
        assert max(beyond) < 1e-12
    turns = np.linalg.inv(poses[0]) @ poses
    assert np.ptp(np.arctan2(turns[:, 1, 0], turns[:, 0, 0])) > min(tolerances[5], 3.0)
