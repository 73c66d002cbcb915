"""Conversions of poses, quaternions and contexts are invertible, agree with pinocchio, and refuse invalid input."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from scipy.spatial.transform import Rotation, Slerp

from eim_ros.core.errors import PoseError
from eim_ros.kinematics import (
    CONTEXT_KINDS,
    Robot,
    context_from_pose,
    pose_from,
    pose_from_context,
    quaternion_from_matrix,
)
from eim_ros.kinematics.poses import check_pose, straight_lines


def random_quaternions(n: int) -> np.ndarray:
    quaternions = np.random.default_rng(0).normal(size=(n, 4))
    return quaternions / np.linalg.norm(quaternions, axis=1, keepdims=True)


def test_quaternions_agree_with_pinocchio_both_ways() -> None:
    half_turns = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0.6, 0.8, 0, 0], [0, 0, 0, 1], [0, 0, 0, -1.0]])
    # tolerance of a few units in the last place, because our conversion normalises once more
    for quaternion in np.concatenate([random_quaternions(200), half_turns]):
        pose = pose_from([1, 2, 3], quaternion)
        np.testing.assert_allclose(pose[:3, :3], pin.Quaternion(quaternion).matrix(), rtol=0, atol=4e-15)
        np.testing.assert_array_equal(pose[:, 3], [1, 2, 3, 1])
        back = quaternion_from_matrix(pose)
        assert back[3] >= 0
        np.testing.assert_allclose(abs(back @ quaternion), 1, rtol=0, atol=1e-15)
        np.testing.assert_allclose(pose_from([1, 2, 3], back), pose, rtol=0, atol=1e-15)


def test_a_quaternion_within_a_thousandth_is_normalised_and_beyond_refused() -> None:
    quaternion = np.array([0.5, 0.5, 0.5, 0.5])
    rotation = pose_from(np.zeros(3), quaternion * 1.0009)[:3, :3]
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(3), rtol=0, atol=1e-15)
    for scale in (1.0011, 0.9989, 2.0, -1.1):
        with pytest.raises(PoseError, match="length"):
            pose_from(np.zeros(3), quaternion * scale)


@pytest.mark.parametrize(
    ("position", "quaternion", "message"),
    [
        ([0, 0, np.nan], None, "position must be finite"),
        ([np.inf, 0, 0], None, "position must be finite"),
        ([0, 0], None, r"position must be 3 numbers, got shape \(2,\)"),
        (["x", 0, 0], None, "position must be 3 numbers"),
        ([0, 0, 0], [0, 0, 0, 0], "quaternion is zero"),
        ([0, 0, 0], [0, 0, 0, np.nan], "quaternion xyzw must be finite"),
        ([0, 0, 0], [0, 0, 1], "quaternion xyzw must be 4 numbers"),
        ([0, 0, 0], [1e-200, 0, 0, 0], "length"),
        ([0, 0, 0], [1e200, 0, 0, 0], "length"),
    ],
)
def test_bad_poses_are_refused_and_named(position: list[float], quaternion: list[float] | None, message: str) -> None:
    with pytest.raises(PoseError, match=message):
        pose_from(position, quaternion)


def test_contexts_and_poses_are_one_to_one() -> None:
    robot = Robot("iiwa14")
    poses = robot.fk(robot.random(100, np.random.default_rng(1)))
    context = context_from_pose(poses, "pose")
    assert context.shape == (100, CONTEXT_KINDS["pose"])
    np.testing.assert_array_equal(context[:, :3], poses[:, :3, 3])
    np.testing.assert_array_equal(context[:, 3:6], poses[:, :3, 0])
    np.testing.assert_array_equal(context[:, 6:], poses[:, :3, 1])
    np.testing.assert_allclose(pose_from_context(context), poses, rtol=0, atol=1e-14)
    np.testing.assert_allclose(pose_from_context(context[3]), poses[3], rtol=0, atol=1e-14)

    position = context_from_pose(poses[0], "position")
    assert position.shape == (CONTEXT_KINDS["position"],)
    np.testing.assert_array_equal(pose_from_context(position)[:3, 3], poses[0, :3, 3])
    np.testing.assert_array_equal(pose_from_context(position)[:3, :3], np.eye(3))


def test_rough_rotation_columns_become_a_rotation() -> None:
    context = np.random.default_rng(2).normal(size=(50, 9))
    rotations = pose_from_context(context)[:, :3, :3]
    np.testing.assert_allclose(rotations @ rotations.transpose(0, 2, 1), np.tile(np.eye(3), (50, 1, 1)), atol=1e-14)
    np.testing.assert_allclose(np.linalg.det(rotations), 1, atol=1e-14)


def test_bad_contexts_are_refused() -> None:
    for context in (np.zeros(4), np.zeros(9), np.float64(3.0), np.full(9, np.nan), [0, 0, 0, 1, 0, 0, 2, 0, 0]):
        with pytest.raises(PoseError):
            pose_from_context(context)
    with pytest.raises(PoseError, match="position, pose"):
        context_from_pose(np.eye(4), "orientation")


@pytest.mark.parametrize("size", [1e-8, 1e-6, 3e-5])
def test_rotation_that_is_off_by_rounding_is_replaced_by_the_nearest(size: float) -> None:
    rng = np.random.default_rng(0)
    for quaternion in random_quaternions(20):
        exact = pose_from([1, 2, 3], quaternion)
        rough = exact.copy()
        rough[:3, :3] += rng.uniform(-size, size, (3, 3))
        pose = check_pose(rough)
        np.testing.assert_allclose(pose[:3, :3].T @ pose[:3, :3], np.eye(3), rtol=0, atol=1e-14)
        np.testing.assert_array_equal(pose[:, 3], exact[:, 3])
        # no rotation is nearer than the returned rotation, not even the exact one
        nearest = np.linalg.norm(pose[:3, :3] - rough[:3, :3])
        assert nearest <= np.linalg.norm(exact[:3, :3] - rough[:3, :3]) + 1e-15


@pytest.mark.parametrize(
    ("row", "column", "value", "told"),
    [
        (0, 0, 1.001, r"off by 0\.002, more than the 0\.0001"),
        (0, 1, 2e-4, r"off by 0\.0002, more than the 0\.0001"),
        (3, 0, 0.01, r"off by 0\.01, more than the 0\.0001"),
        (2, 2, -1.0, "left-handed"),
    ],
)
def test_rotation_that_is_farther_off_is_refused_with_how_far(row: int, column: int, value: float, told: str) -> None:
    pose = np.eye(4)
    pose[row, column] = value
    with pytest.raises(PoseError, match=told):
        check_pose(pose)


def test_straight_lines_are_those_of_scipy() -> None:
    rng = np.random.default_rng(0)
    corners = np.tile(np.eye(4), (4, 1, 1))
    corners[:, :3, :3], corners[:, :3, 3] = Rotation.random(4, rng).as_matrix(), rng.normal(size=(4, 3))
    corners[3] = corners[2]
    corners[1, :3, 3] = corners[0, :3, 3]  # this segment only turns
    found = straight_lines(corners, 0.1, 0.2, 1000)
    first = 0
    for start, end in zip(corners[:-1], corners[1:], strict=True):
        turn = (Rotation.from_matrix(start[:3, :3]).inv() * Rotation.from_matrix(end[:3, :3])).magnitude()
        n = max(1, int(np.ceil(max(np.linalg.norm(end[:3, 3] - start[:3, 3]) / 0.1, turn / 0.2))))
        shares, line = np.arange(1, n + 1) / n, found[first : first + n]
        between = Slerp([0.0, 1.0], Rotation.from_matrix([start[:3, :3], end[:3, :3]]))(shares)
        np.testing.assert_allclose(line[:, :3, :3], between.as_matrix(), atol=1e-7)  # less accurate near half a turn
        np.testing.assert_allclose(line[:, :3, 3], start[:3, 3] + shares[:, None] * (end - start)[:3, 3])
        first += n
    assert first == len(found)
    with pytest.raises(PoseError, match="at most 10 are allowed"):
        straight_lines(corners, 0.1, 0.2, 10)
