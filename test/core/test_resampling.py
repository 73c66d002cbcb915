"""Values and poses between those recorded."""

from __future__ import annotations

import numpy as np
from scipy.spatial.transform import Rotation

from eim_ros.core.data_set import METHODS, interpolated, interpolated_poses


def test_both_methods_pass_through_the_values_and_stay_between_them() -> None:
    rng = np.random.default_rng(0)
    times = np.cumsum(rng.uniform(0.001, 0.3, 20))
    values = rng.normal(size=(20, 3))
    moments = np.linspace(times[0], times[-1], 500)
    for method in METHODS:
        assert np.allclose(interpolated(times, values, times, method), values, rtol=0, atol=1e-12)
        between = interpolated(times, values, moments, method)
        right = np.clip(np.searchsorted(times, moments), 1, 19)
        low, high = np.minimum(values[right - 1], values[right]), np.maximum(values[right - 1], values[right])
        assert ((between >= low - 1e-12) & (between <= high + 1e-12)).all()


def test_poses_turn_at_constant_speed_between_two() -> None:
    turn = Rotation.from_rotvec([0.0, 0.0, 1.2])
    poses = np.array([[0.0, 0, 0, 0, 0, 0, 1], [1.0, 0, 0, *-turn.as_quat()]])  # -q is the same rotation
    transforms, known = interpolated_poses(np.array([0.0, 1.0]), poses, np.array([0.25, 0.5, 1.5]), 2.0)
    assert known.tolist() == [True, True, False]
    assert np.allclose(transforms[:2, 0, 3], [0.25, 0.5])
    assert np.allclose(Rotation.from_matrix(transforms[:2, :3, :3]).as_rotvec()[:, 2], [0.3, 0.6])


def test_moments_in_a_gap_or_without_two_poses_are_not_known() -> None:
    poses = np.tile([0.0, 0, 0, 0, 0, 0, 1], (3, 1))
    times = np.array([0.0, 0.1, 1.0])
    _, known = interpolated_poses(times, poses, np.array([0.05, 0.5]), 0.2)
    assert known.tolist() == [True, False]
    assert interpolated_poses(np.array([0.0, 0.25]), poses[:2], np.array([0.1]), 0.25)[1].all()  # the longest gap
    assert not interpolated_poses(times[:1], poses[:1], np.array([0.0]), 0.2)[1].any()
