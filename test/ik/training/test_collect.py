"""Data of forward kinematics agree with pinocchio, are within limits and reproducible, and name their robot."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from ik.arms import ARMS, arm_and_oracle, arm_of

from eim_ros.core.data_set import DataSet, load_data_set, save_data_set
from eim_ros.core.errors import DataError, PoseError
from eim_ros.ik import collect
from eim_ros.ik.data import context_kind_of, robot_of
from eim_ros.kinematics import Robot, context_from_pose


@pytest.mark.parametrize("kind", ["position", "pose"])
@pytest.mark.parametrize("name", [*ARMS, "iiwa14"])
def test_contexts_are_what_the_configurations_reach(name: str, kind: str) -> None:
    robot, oracle = arm_and_oracle(name)
    data_set = collect(robot, 30, kind, 0)
    assert data_set.sample.shape == (30, robot.dof)
    assert robot.within_limits(data_set.sample).all()
    for context, q in zip(data_set.context, data_set.sample, strict=True):
        pose = oracle.forward(q)
        expected = pose[:3, 3] if kind == "position" else np.concatenate([pose[:3, 3], pose[:3, 0], pose[:3, 1]])
        assert np.allclose(context, expected, rtol=0, atol=1e-12)


def test_configurations_fill_the_limits_evenly() -> None:
    robot = arm_of("panda")
    share = (collect(robot, 20000, "position", 0).sample - robot.lower) / (robot.upper - robot.lower)
    quantiles = np.quantile(share, [0.1, 0.5, 0.9], axis=0)
    assert np.allclose(quantiles, np.array([[0.1], [0.5], [0.9]]), rtol=0, atol=0.02)  # five standard errors


def test_seed_decides_the_data() -> None:
    robot = arm_of("planar3")
    first, again, other = (collect(robot, 10, "pose", seed) for seed in (3, 3, 4))
    assert np.array_equal(first.sample, again.sample)
    assert np.array_equal(first.context, again.context)
    assert not np.array_equal(first.sample, other.sample)


def test_robot_comes_back_from_the_file(tmp_path) -> None:
    robot = arm_of("all_types")
    save_data_set(tmp_path / "d.npz", collect(robot, 3, "pose", 0))
    loaded = load_data_set(tmp_path / "d.npz")
    assert robot_of(loaded).fingerprint == robot.fingerprint
    assert robot_of(loaded).joint_names == robot.joint_names
    assert robot_of(loaded, robot) is robot
    assert context_kind_of(loaded) == "pose"


@pytest.mark.parametrize(("n", "seed", "reason"), [(0, 0, "at least 1, got 0"), (-1, 0, "-1"), (5, -1, "seed")])
def test_bad_numbers_are_refused(n: int, seed: int, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        collect(arm_of("planar3"), n, "position", seed)


def test_unknown_kind_of_context_is_refused() -> None:
    with pytest.raises(PoseError, match="position, pose"):
        collect(arm_of("planar3"), 5, "attitude", 0)


def test_data_of_another_robot_are_refused_by_both_names() -> None:
    with pytest.raises(DataError, match="robot 'planar3' .* which differs from robot 'gantry'"):
        robot_of(collect(arm_of("planar3"), 3, "position", 0), arm_of("gantry"))


def described(**changes: object) -> DataSet:
    data_set = collect(arm_of("planar3"), 3, "position", 0)
    return dataclasses.replace(data_set, description={**data_set.description, **changes})


@pytest.mark.parametrize("robot", [None, {}, "planar3", {"urdf": "<robot/>", "base_link": "a", "tip_link": "b"}])
def test_data_without_a_robot_are_refused(robot: object) -> None:
    with pytest.raises(DataError, match="data set has no valid robot description"):
        robot_of(described(robot=robot))


def test_data_with_columns_of_another_robot_are_refused() -> None:
    data_set = described()
    with pytest.raises(DataError, match="have 2 joints, but its robot 'planar3' has 3"):
        robot_of(dataclasses.replace(data_set, sample=data_set.sample[:, :2]))


@pytest.mark.parametrize("kind", [None, "pose", "attitude", ["position"], 3])
def test_data_whose_contexts_are_not_what_they_are_called_are_refused(kind: object) -> None:
    with pytest.raises(
        DataError, match=r"context kind .* with 3 columns, expected one of 'position' \(3 columns\), 'pose'"
    ):
        context_kind_of(described(context_kind=kind))


@pytest.mark.parametrize(("name", "kind"), [("panda", "pose"), ("iiwa14", "position"), ("ur5", "pose")])
def test_solutions_of_a_pose_reach_it_and_are_several(name: str, kind: str) -> None:
    robot = Robot(name)
    data = collect(robot, 120, kind, 3, solutions_per_pose=6)
    assert len(data) == 120
    assert robot.within_limits(data.sample).all()
    np.testing.assert_allclose(context_from_pose(robot.fk(data.sample), kind), data.context, atol=3e-6)
    poses = np.unique(data.context.round(9), axis=0)
    assert len(poses) == 20
    for pose in poses:
        solutions = data.sample[np.abs(data.context - pose).max(axis=1) < 1e-6]
        assert len(solutions) == 6
        assert np.ptp(solutions, axis=0).max() > 0.3


def test_solutions_are_drawn_the_same_way_for_a_seed() -> None:
    first, again = (collect(Robot("panda"), 24, "pose", 5, solutions_per_pose=4) for _ in range(2))
    np.testing.assert_array_equal(first.sample, again.sample)


def test_number_of_solutions_must_not_be_negative() -> None:
    with pytest.raises(DataError, match="solutions"):
        collect(Robot("panda"), 24, "pose", 5, solutions_per_pose=-1)
