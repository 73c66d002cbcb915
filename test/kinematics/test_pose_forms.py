"""All forms of a pose give the same transform. A position alone leaves the orientation free."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from eim_ros.core.errors import PoseError
from eim_ros.ik import Sampler
from eim_ros.kinematics import Robot, pose_from
from eim_ros.kinematics.poses import check_pose, check_poses

POSITION, QUATERNION = [0.4, 0.1, 0.5], [0.6, 0.0, 0.8, 0.0]
POSE = pose_from(POSITION, QUATERNION)
ROBOT = Robot("panda")


class Named(SimpleNamespace):
    """Object with fields, like a ROS message."""


def test_rows_of_seven_are_poses() -> None:
    rows = np.array([[*POSITION, *QUATERNION]] * 3)
    np.testing.assert_allclose(check_poses(rows), np.stack([POSE] * 3), rtol=0, atol=1e-15)
    assert Sampler(ROBOT).sample_batch(rows, 2, seed=0).n_per_pose.tolist() == [2, 2, 2]


def test_an_orientation_is_given_once() -> None:
    with pytest.raises(PoseError, match="the orientation is given twice"):
        pose_from([0, 0, 0], [0, 0, 0, 1], rpy=[0, 0, 0])


@pytest.mark.parametrize("position", [POSITION, tuple(POSITION), np.array(POSITION)])
def test_a_position_alone_leaves_the_orientation_open(position: Any) -> None:
    samples = Sampler(ROBOT).sample(position, 20, seed=0)
    assert len(samples) == 20
    tips = ROBOT.fk(samples.q)
    assert np.abs(tips[:, :3, 3] - POSITION).max() < 2e-6  # the distance has a tolerance of 1e-6
    assert np.ptp(tips[:, :3, 0], axis=0).max() > 0.5  # rotations are very different
    assert ROBOT.verify(samples.q, position)[1].all()


@pytest.mark.parametrize(
    ("pose", "words"),
    [
        (Named(header=Named(frame_id="camera"), pose=None), "transform it to the arm's base frame"),
        (POSITION, "a pose needs an orientation"),
        ([*POSITION, 0.0, 0.0, 0.0], "seven numbers"),
        ((POSITION, [1.0, 0.0]), "quaternion xyzw must be 4 numbers"),
        ((POSITION, 2.0 * POSE[:3, :3]), "must be orthonormal"),
        ("here", "transform"),
        (None, "transform"),
    ],
)
def test_what_is_no_pose_is_refused_with_what_would_be_one(pose: Any, words: str) -> None:
    with pytest.raises(PoseError, match=words):
        check_pose(pose)


def test_a_position_with_a_whole_pose_asked_is_refused() -> None:
    with pytest.raises(PoseError, match="position_only=False needs one"):
        Sampler("panda").with_constraints(position_only=False).sample(POSITION)


@pytest.mark.parametrize("seed", range(5))
def test_seven_numbers_are_the_pose_of_their_parts_bit_for_bit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    position, quaternion = rng.normal(size=3), rng.normal(size=4)
    quaternion *= rng.uniform(0.9999, 1.0001) / np.linalg.norm(quaternion)
    expected = pose_from(position, quaternion)
    for form in (np.concatenate([position, quaternion]), [*position.tolist(), *quaternion.tolist()]):
        np.testing.assert_array_equal(check_pose(form), expected)


@pytest.mark.parametrize(
    "numbers",
    [
        [0.4, 0.1, 0.5, 0.0, 0.0, 0.0, 0.0],
        [0.4, 0.1, 0.5, 2.0, 0.0, 0.0, 0.0],
        [0.4, 0.1, float("nan"), 1.0, 0.0, 0.0, 0.0],
        [0.4, 0.1, float("inf"), 1.0, 0.0, 0.0, 0.0],
        [0.4, 0.1, 10**400, 1, 0, 0, 0],
        [0.4, 0.1, 0.5, "1", 0.0, 0.0, 0.0],
    ],
)
def test_seven_numbers_that_are_no_pose_are_refused(numbers: list[Any]) -> None:
    with pytest.raises(PoseError):
        check_pose(numbers)
