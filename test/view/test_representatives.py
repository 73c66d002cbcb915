"""Known clusters of arms are recovered, sizes are in descending order, and degenerate input works."""

from __future__ import annotations

import numpy as np

from eim_ros.ik import Sampler
from eim_ros.ik.components import component_labels, self_motion_components
from eim_ros.kinematics import Robot
from eim_ros.view.groups import NO_GROUP, group_arms, group_components

SIZES = (12, 30, 18)


def bunches() -> tuple[np.ndarray, np.ndarray]:
    """Return shuffled arms (60, 4, 3) from three clusters, 1 cm wide and 1 m apart, and the cluster of each arm."""
    rng = np.random.default_rng(0)
    bunch = rng.permutation(np.repeat(np.arange(3), SIZES))
    return 0.01 * rng.standard_normal((60, 4, 3)) + bunch[:, None, None], bunch


def test_separate_bunches_are_the_groups_and_the_largest_comes_first():
    arms, bunch = bunches()
    groups = group_arms(arms, 3)
    assert np.bincount(groups.labels).tolist() == sorted(SIZES, reverse=True)
    assert np.array_equal(bunch[groups.representatives], [1, 2, 0])
    assert np.array_equal(bunch[groups.representatives][groups.labels], bunch)
    assert np.array_equal(groups.labels[groups.representatives], [0, 1, 2])


def test_components_are_the_groups_and_the_smallest_may_have_none():
    robot = Robot("panda")
    pose = robot.fk(robot.random(1, np.random.default_rng(3)))[0]
    rows = Sampler(robot).sample(pose, 80, seed=0).q
    arms = robot.skeleton(rows)
    groups = group_components(robot, rows, arms, pose, 12)
    found = self_motion_components(robot, rows, pose)
    assert len(groups.representatives) == len(found) > 2
    sizes = np.bincount(groups.labels)
    assert (np.diff(sizes) <= 0).all() and sizes.sum() == 80
    for label, row in enumerate(groups.representatives):
        owner = component_labels(robot, found, rows[groups.labels == label])
        assert len(set(owner)) == 1
        assert groups.labels[row] == label
    two = group_components(robot, rows, arms, pose, 2)
    assert len(two.representatives) == 2
    np.testing.assert_array_equal(two.labels, np.where(groups.labels < 2, groups.labels, NO_GROUP))


def test_components_of_an_arm_with_branches_are_named_by_them():
    robot = Robot("ur5e")
    pose = robot.fk(robot.random(seed=3))
    rows = Sampler(robot).solve_all(pose).q
    groups = group_components(robot, rows, robot.skeleton(rows), pose, 12)
    assert len(groups.branches) == len(set(groups.branches)) == 8
    labels = robot.branches.labels(rows[groups.representatives])
    assert [name.split(", ") for name in groups.branches] == np.transpose(list(labels.values())).tolist()


def test_equal_arms_are_one_group():
    groups = group_arms(np.ones((7, 4, 3)), 5)
    assert groups.representatives.shape == (1,)
    assert np.all(groups.labels == 0)


def test_no_arms_have_no_groups():
    assert group_arms(np.empty((0, 4, 3)), 5).representatives.shape == (0,)
    robot = Robot("panda")
    nothing = group_components(robot, np.empty((0, 7)), np.empty((0, 4, 3)), np.eye(4), 5)
    assert nothing.representatives.shape == (0,)
