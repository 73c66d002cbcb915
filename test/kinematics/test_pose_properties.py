"""For any pose, all forms give the same transform, and conversion to another form and back changes nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pinocchio
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from malformed_values import damaged, malformed
from scipy.spatial.transform import Rotation

from eim_ros.core.errors import EimError, PoseError
from eim_ros.kinematics import context_from_pose, pose_from, pose_from_context, quaternion_from_matrix
from eim_ros.kinematics.poses import check_pose, check_poses

ROUNDING = 1e-12  # rounding error of a few operations on numbers up to 10
number = st.floats(-10.0, 10.0, allow_subnormal=False)
angle = st.floats(-10.0, 10.0)
position = st.tuples(number, number, number)


@st.composite
def quaternions(draw: st.DrawFn) -> np.ndarray:
    values = np.array(draw(st.tuples(*[st.floats(-1.0, 1.0)] * 4)))
    assume(np.linalg.norm(values) > 0.01)
    return values / np.linalg.norm(values)


def point(values: Any, axes: str) -> SimpleNamespace:
    return SimpleNamespace(**dict(zip(axes, map(float, values), strict=True)))


@given(position, quaternions())
def test_every_form_of_a_pose_is_the_same_transform(place: tuple[float, ...], quaternion: np.ndarray) -> None:
    expected = np.eye(4)
    expected[:3, :3], expected[:3, 3] = Rotation.from_quat(quaternion).as_matrix(), place
    forms = {
        "transform": expected,
        "lists": expected.tolist(),
        "columns first": np.asfortranarray(expected),
        "pair": (place, quaternion),
        "pair of lists": [list(place), quaternion.tolist()],
        "arrays": (np.array(place), np.array(quaternion)),
        "position and matrix": (place, expected[:3, :3].tolist()),
        "seven numbers": [*place, *quaternion],
        "array of seven": np.array([*place, *quaternion]),
        "pinocchio": pinocchio.SE3(expected),
        "message of a pose": SimpleNamespace(position=point(place, "xyz"), orientation=point(quaternion, "xyzw")),
        "message of a transform": SimpleNamespace(translation=point(place, "xyz"), rotation=point(quaternion, "xyzw")),
        "spatialmath": SimpleNamespace(A=expected),  # like SE3 of spatialmath
        "scipy": SimpleNamespace(as_matrix=lambda: expected),  # old versions of scipy lack RigidTransform
        "pose_from": pose_from(place, quaternion),
        "opposite quaternion": pose_from(place, -quaternion),
    }
    for name, form in forms.items():
        np.testing.assert_allclose(check_pose(form), expected, rtol=0, atol=ROUNDING, err_msg=name)
    together = check_poses(list(forms.values()))
    assert np.abs(together - expected).max() <= ROUNDING


@given(position, st.tuples(angle, angle, angle))
def test_angles_turn_as_in_a_urdf(place: tuple[float, ...], rpy: tuple[float, ...]) -> None:
    expected = pinocchio.rpy.rpyToMatrix(np.array(rpy))
    np.testing.assert_allclose(pose_from(place, rpy=rpy)[:3, :3], expected, rtol=0, atol=ROUNDING)


@given(position, quaternions())
def test_conversions_are_undone_by_their_inverses(place: tuple[float, ...], quaternion: np.ndarray) -> None:
    pose = pose_from(place, quaternion)
    np.testing.assert_allclose(pose_from_context(context_from_pose(pose, "pose")), pose, rtol=0, atol=ROUNDING)
    back = quaternion_from_matrix(pose)
    assert back[3] >= 0.0
    # the square root amplifies rounding near 0
    assert min(np.abs(back - quaternion).max(), np.abs(back + quaternion).max()) <= 1e-9


@given(position, quaternions(), st.floats(-4e-4, 4e-4))
def test_rounding_is_taken_out_of_a_pose(place: tuple[float, ...], quaternion: np.ndarray, off: float) -> None:
    pose = check_pose((place, quaternion * (1.0 + off)))
    assert np.abs(pose[:3, :3].T @ pose[:3, :3] - np.eye(3)).max() <= ROUNDING


@settings(max_examples=300)
@given(st.integers(0, 2**32 - 1))
def test_what_is_no_pose_is_refused_and_what_is_one_is_rigid(seed: int) -> None:
    rng = np.random.default_rng(seed)
    right = [np.eye(4), ([0.1, 0.2, 0.3], [0.0, 0.0, 0.0, 1.0]), [0.1, 0.2, 0.3, 0.0, 0.0, 0.0, 1.0]]
    given_pose = damaged(right[seed % 3], rng) if rng.integers(2) else malformed(rng)
    try:
        pose = check_pose(given_pose)
    except PoseError as error:
        assert str(error)
        return
    assert pose.shape == (4, 4) and np.isfinite(pose).all()
    assert np.abs(pose[:3, :3].T @ pose[:3, :3] - np.eye(3)).max() <= 1e-8  # `EXACT` in poses.py


@pytest.mark.parametrize("call", [pose_from, quaternion_from_matrix, pose_from_context, check_poses])
@given(st.integers(0, 2**32 - 1))
def test_other_calls_refuse_what_they_cannot_take(call: Any, seed: int) -> None:
    try:
        answer = call(malformed(np.random.default_rng(seed)))
    except EimError as error:
        assert str(error)
    else:
        assert isinstance(answer, np.ndarray)
