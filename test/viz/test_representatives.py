"""Groups of arms: known groups are recovered, sizes fall, and degenerate input has its groups too."""

from __future__ import annotations

import numpy as np

from eim_ros.viz.representatives import NO_GROUP, group_arms

SIZES = (12, 30, 18)


def bunches() -> tuple[np.ndarray, np.ndarray]:
    """Arms (60, 4, 3) in three bunches 1 m apart and 1 cm wide, and the bunch of each, in random order."""
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


def test_experts_are_grouped_whole_and_no_expert_has_no_group():
    arms, bunch = bunches()
    experts = 2 * bunch + np.arange(60) % 2  # two experts in each bunch
    experts[:5] = 99
    groups = group_arms(arms, 3, experts, no_expert=99)
    assert np.all(groups.labels[:5] == NO_GROUP)
    assert np.array_equal(bunch[groups.representatives][groups.labels[5:]], bunch[5:])
    assert groups.n_experts is not None
    assert groups.n_experts.tolist() == [2, 2, 2]


def test_equal_arms_are_one_group():
    groups = group_arms(np.ones((7, 4, 3)), 5)
    assert groups.representatives.shape == (1,)
    assert np.all(groups.labels == 0)


def test_no_arms_and_no_experts_have_no_groups():
    assert group_arms(np.empty((0, 4, 3)), 5).representatives.shape == (0,)
    groups = group_arms(np.ones((3, 4, 3)), 5, np.full(3, 99), no_expert=99)
    assert groups.representatives.shape == (0,)
    assert np.all(groups.labels == NO_GROUP)


def test_one_arm_stands_for_itself():
    groups = group_arms(np.ones((1, 4, 3)), 5)
    assert groups.representatives.tolist() == [0]
    assert groups.labels.tolist() == [0]
