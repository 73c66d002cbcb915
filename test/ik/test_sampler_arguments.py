"""Malformed arguments of a request raise an error of the package, which carries the offending value."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from ik.arms import arm_of, reachable_pose, sampler_of

from eim_ros.core.errors import ConfigurationError, EimError, JointStateError, PoseError
from eim_ros.ik.request import SampleRequest


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
        ({"n": 0}, "n must be at least 1, got 0"),
        ({"n": 1.5}, "n must be a whole number, got 1.5"),
        ({"n": math.inf}, "n must be a whole number, got inf"),
        ({"random_seed": 1.5}, "seed must be a whole number"),
        ({"timeout": "1"}, "timeout must be a number, got '1'"),
        ({"position_tolerance": None}, "position tolerance must be a number"),
        ({"n": -3}, "n must be at least 1, got -3"),
        ({"random_seed": -1}, "seed must be at least 0, got -1"),
        ({"position_tolerance": 0.0}, "position tolerance must be positive, got 0.0"),
        ({"position_tolerance": -1e-6}, "position tolerance must be positive"),
        ({"position_tolerance": np.nan}, "position tolerance must be positive, got nan"),
        ({"orientation_tolerance": -1.0}, "orientation tolerance must be positive"),
        ({"orientation_tolerance": np.nan}, "orientation tolerance must be positive"),
        ({"timeout": -0.1}, "timeout must not be negative, got -0.1"),
        ({"timeout": np.nan}, "timeout must not be negative, got nan"),
    ],
)
def test_number_out_of_its_bounds_is_refused(arguments: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason) as caught:
        sampler_of("planar3", "position").answer(SampleRequest(reachable_pose(arm_of("planar3")), **arguments))
    (value,) = arguments.values()
    assert caught.value.value is value


@pytest.mark.parametrize(
    "near", [[0.0, np.nan, 0.0], [0.0, np.inf, 0.0], [0.0, 0.0], [0.0] * 4, [[0.0] * 3], 1.0, ["a", "b", "c"], "abc"]
)
def test_seed_configuration_of_another_shape_or_not_finite_is_refused(near: Any) -> None:
    with pytest.raises(JointStateError, match="needs 3 finite values, of joint_1, joint_2, joint_3") as caught:
        sampler_of("planar3", "position").sample(reachable_pose(arm_of("planar3")), 5, near=near, seed=0)
    assert caught.value.value is near


def test_sampler_serves_on_after_refusals() -> None:
    sampler, pose = sampler_of("planar3", "position"), reachable_pose(arm_of("planar3"))
    before = sampler.sample(pose, 5, seed=0)
    with pytest.raises(EimError):
        sampler.sample(np.full((4, 4), np.nan), 5, seed=0)
    assert np.array_equal(sampler.sample(pose, 5, seed=0).q, before.q)
