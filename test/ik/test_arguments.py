"""Malformed arguments of a request raise an error of the package that contains the wrong value."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from ik.arms import arm_of, reachable_pose, sampler_of

from eim_ros.core.errors import ConfigurationError, ConstraintError, JointStateError, PoseError
from eim_ros.ik.request import MAX_SOLUTIONS


def spoiled(row: int, column: int, value: float) -> np.ndarray:
    pose = np.eye(4)
    pose[row, column] = value
    return pose


@pytest.mark.parametrize(
    "pose",
    [
        spoiled(0, 3, np.nan),
        spoiled(1, 1, np.nan),
        spoiled(2, 3, np.inf),
        spoiled(0, 0, 1.1),
        spoiled(3, 0, 1.0),
        np.diag([1.0, 1.0, -1.0, 1.0]),  # a mirror
        np.zeros((4, 4)),
        np.eye(3),
        np.zeros(2),
        "no numbers",
        [[1.0], [2.0, 3.0]],
    ],
)
def test_what_is_no_pose_is_refused(pose: np.ndarray) -> None:
    with pytest.raises(PoseError, match="pose"):
        sampler_of("planar3", "position").sample(pose, 5, seed=0)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"n": 0}, "n must be at least 1"),
        ({"n": -3}, "n must be at least 1 and at most 1000000, got -3"),
        ({"n": MAX_SOLUTIONS + 1}, "n must be at least 1 and at most 1000000"),
        ({"n": 2**64}, "n must be at least 1 and at most 1000000"),
        ({"n": 1.5}, "n must be a whole number, got 1.5"),
        ({"n": math.inf}, "n must be a whole number, got inf"),
        ({"seed": 1.5}, "seed must be a whole number or None, got 1.5"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
        ({"timeout": "1"}, r"timeout must be a number \[s\], got '1'"),
        ({"timeout": -0.1}, "timeout must be at least 0, got -0.1"),
        ({"timeout": np.nan}, "timeout must be at least 0, got nan"),
    ],
)
def test_number_out_of_its_bounds_is_refused(arguments: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason) as caught:
        sampler_of("planar3", "position").sample(reachable_pose(arm_of("planar3")), **arguments)
    (value,) = arguments.values()
    assert caught.value.value is value


@pytest.mark.parametrize("name", ["position_tolerance", "orientation_tolerance"])
@pytest.mark.parametrize("value", [None, 0.0, -1e-6, np.nan])
def test_tolerance_that_is_none_is_refused(name: str, value: Any) -> None:
    with pytest.raises(ConstraintError, match=f"{name} must be positive and finite") as caught:
        sampler_of("planar3", "position").with_constraints(**{name: value})
    assert caught.value.value is value or np.isnan(value)


def test_narrow_integers_of_numpy_are_taken() -> None:
    sampler, pose = sampler_of("planar3", "position"), reachable_pose(arm_of("planar3"))
    narrow = sampler.sample(pose, np.int8(100), seed=np.uint8(200))
    np.testing.assert_array_equal(narrow.q, sampler.sample(pose, 100, seed=200).q)


@pytest.mark.parametrize("constraints", [{"joint_1": (0.0, 1.0)}, "none"])
def test_constraints_are_such(constraints: Any) -> None:
    with pytest.raises(ConfigurationError, match="constraints must be of type Constraints"):
        sampler_of("planar3", "position").with_constraints(constraints)


def test_posture_is_one_or_a_mapping() -> None:
    with pytest.raises(ConfigurationError, match="posture must map joint names to values"):
        sampler_of("planar3", "position").sample(np.eye(4), posture=[0.5])


def test_rotation_that_is_a_little_off_is_answered_for_the_nearest_rotation() -> None:
    robot = arm_of("panda")
    pose = reachable_pose(robot)
    rough = pose.copy()
    rough[:3, :3] += np.random.default_rng(0).uniform(-1e-5, 1e-5, (3, 3))
    found = sampler_of("panda", "pose").sample(rough, 10, seed=0, timeout=60.0)
    assert len(found) == 10 and found.valid.all()
    reached = robot.fk(found.q)
    np.testing.assert_allclose(reached, np.broadcast_to(pose, reached.shape), rtol=0, atol=3e-5)


@pytest.mark.parametrize(
    "near", [[0.0, np.nan, 0.0], [0.0, np.inf, 0.0], [0.0, 0.0], [0.0] * 4, [[0.0] * 3], 1.0, ["a", "b", "c"], "abc"]
)
def test_seed_configuration_of_another_shape_or_not_finite_is_refused(near: Any) -> None:
    with pytest.raises(
        JointStateError, match="needs 3 finite values, one for each of joint_1, joint_2, joint_3"
    ) as caught:
        sampler_of("planar3", "position").sample(reachable_pose(arm_of("planar3")), 5, near=near, seed=0)
    assert caught.value.value is near
