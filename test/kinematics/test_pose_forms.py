"""A pose in whatever form people have it is the same pose; a position alone leaves the orientation open."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from scipy.spatial.transform import Rotation

from eim_ros.core.errors import PoseError
from eim_ros.ik import Sampler
from eim_ros.kinematics import Robot, pose_from
from eim_ros.kinematics.poses import check_pose, check_poses

POSITION, QUATERNION = [0.4, 0.1, 0.5], [0.6, 0.0, 0.8, 0.0]
POSE = pose_from(POSITION, QUATERNION)
ROBOT = Robot("panda")


class Named(SimpleNamespace):
    """Something with fields, as the messages of ROS are."""


def message(names: tuple[str, str]) -> Any:
    parts = Named(**dict(zip("xyz", POSITION, strict=True))), Named(**dict(zip("xyzw", QUATERNION, strict=True)))
    return Named(**dict(zip(names, parts, strict=True)))


FORMS = {
    "lists": POSE.tolist(),
    "position and quaternion": (POSITION, QUATERNION),
    "arrays": [np.array(POSITION), np.array(QUATERNION)],
    "position and rotation": (POSITION, POSE[:3, :3]),
    "seven numbers": [*POSITION, *QUATERNION],
    "array of seven": np.array([*POSITION, *QUATERNION]),
    "pinocchio": pin.SE3(POSE),
    "a pose message": message(("position", "orientation")),
    "a transform message": message(("translation", "rotation")),
    "spatialmath": Named(A=POSE),  # its SE3 keeps the transform there
    "scipy": Named(as_matrix=lambda: POSE),  # RigidTransform, which is new in scipy
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_the_same_pose(form: str) -> None:
    np.testing.assert_allclose(check_pose(FORMS[form]), POSE, rtol=0, atol=1e-15)  # one rounding
    np.testing.assert_allclose(check_poses([FORMS[form]] * 2), np.stack([POSE, POSE]), rtol=0, atol=1e-15)


def test_rows_of_seven_are_poses() -> None:
    rows = np.array([[*POSITION, *QUATERNION]] * 3)
    np.testing.assert_allclose(check_poses(rows), np.stack([POSE] * 3), rtol=0, atol=1e-15)
    assert Sampler(ROBOT).sample_batch(rows, 2, seed=0).n_per_pose.tolist() == [2, 2, 2]


def test_rpy_turns_about_the_fixed_axes_in_this_order() -> None:
    for angles in np.random.default_rng(0).uniform(-3.0, 3.0, (20, 3)):
        expected = Rotation.from_euler("xyz", angles).as_matrix()  # lower case: about fixed axes
        np.testing.assert_allclose(pose_from([0, 0, 0], rpy=angles)[:3, :3], expected, rtol=0, atol=1e-15)
    with pytest.raises(PoseError, match="not as both"):
        pose_from([0, 0, 0], [0, 0, 0, 1], rpy=[0, 0, 0])


@pytest.mark.parametrize("position", [POSITION, tuple(POSITION), np.array(POSITION)])
def test_a_position_alone_leaves_the_orientation_open(position: Any) -> None:
    samples = Sampler(ROBOT).sample(position, 20, seed=0)
    assert len(samples) == 20
    tips = ROBOT.fk(samples.q)
    assert np.abs(tips[:, :3, 3] - POSITION).max() < 2e-6  # the tolerance is 1e-6 along the distance
    assert np.ptp(tips[:, :3, 0], axis=0).max() > 0.5  # turned every way
    assert ROBOT.verify(samples.q, position)[1].all()


@pytest.mark.parametrize(
    ("pose", "words"),
    [
        (Named(header=Named(frame_id="camera"), pose=None), "bring it into the arm's base frame"),
        (POSITION, "a position leaves the orientation open"),
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
    with pytest.raises(PoseError, match="position_only=False asks for"):
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
