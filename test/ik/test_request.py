"""One request: checked once, never changed afterwards, and the same asked again gives the same answer."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from ik.arms import arm_of, reachable_pose, sampler_of

from eim_ros.core.errors import ConfigurationError, PoseError
from eim_ros.ik import Posture
from eim_ros.ik.request import MAX_SOLUTIONS, SampleRequest

ENOUGH = 60.0  # [s]


def test_fields_cannot_be_set() -> None:
    request = SampleRequest(np.eye(4))
    for field in dataclasses.fields(request):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(request, field.name, None)


def test_what_the_caller_changes_later_changes_no_request() -> None:
    pose, near, posture = np.eye(4), np.zeros(3), {"joint_1": 0.5}
    request = SampleRequest(pose, near=near, posture=posture)
    pose[0, 3], near[0], posture["joint_1"] = 5.0, 5.0, 5.0
    np.testing.assert_array_equal(request.pose, np.eye(4))
    np.testing.assert_array_equal(request.near, np.zeros(3))
    assert isinstance(request.posture, Posture)
    assert request.posture.positions == {"joint_1": 0.5}


@pytest.mark.parametrize("name", ["pose", "near"])
def test_arrays_are_read_only(name: str) -> None:
    with pytest.raises(ValueError, match="read-only"):
        getattr(SampleRequest(np.eye(4), near=np.zeros(3)), name)[0] = 1.0


def test_same_request_gives_the_same_answer_as_the_call() -> None:
    sampler, pose = sampler_of("panda", "pose"), reachable_pose(arm_of("panda"))
    request = SampleRequest(pose, 20, 3, near=np.zeros(7), timeout=ENOUGH)
    called = sampler.sample(pose, 20, near=np.zeros(7), timeout=ENOUGH, seed=3)
    for _ in range(2):
        np.testing.assert_array_equal(sampler.answer(request).q, called.q)


def test_defaults_are_what_they_are_said_to_be() -> None:
    request = SampleRequest(np.eye(4))
    assert (request.n, request.random_seed, request.order, request.timeout) == (100, None, None, 1.0)
    assert request.distinct is True
    assert SampleRequest(np.eye(4), refine=False).distinct is False
    assert SampleRequest(np.eye(4), refine=False, distinct=True).distinct is True


def test_narrow_integers_of_numpy_are_taken() -> None:
    request = SampleRequest(np.eye(4), np.int8(100), np.uint8(200))
    assert (type(request.n), type(request.random_seed)) == (int, int)


@pytest.mark.parametrize("n", [0, MAX_SOLUTIONS + 1, 2**31, 2**64])
def test_number_of_configurations_has_bounds(n: int) -> None:
    with pytest.raises(ConfigurationError, match="n must be at"):
        SampleRequest(np.eye(4), n)


@pytest.mark.parametrize("constraints", [{"joint_1": (0.0, 1.0)}, "none"])
def test_constraints_are_such(constraints: object) -> None:
    with pytest.raises(ConfigurationError, match="constraints must be a Constraints object"):
        SampleRequest(np.eye(4), constraints=constraints)


def test_posture_is_one_or_a_mapping() -> None:
    with pytest.raises(ConfigurationError, match="posture must map joint names to values"):
        SampleRequest(np.eye(4), posture=[0.5])


def test_rotation_that_is_a_little_off_is_answered_for_the_nearest_rotation() -> None:
    robot = arm_of("panda")
    pose = reachable_pose(robot)
    rough = pose.copy()
    rough[:3, :3] += np.random.default_rng(0).uniform(-1e-5, 1e-5, (3, 3))
    request = SampleRequest(rough, 10, 0, timeout=ENOUGH)
    rotation = np.asarray(request.pose)[:3, :3]
    np.testing.assert_allclose(rotation.T @ rotation, np.eye(3), rtol=0, atol=1e-14)
    np.testing.assert_allclose(request.pose, pose, rtol=0, atol=3e-5)
    assert sampler_of("panda", "pose").answer(request).valid.all()


def test_rotation_that_is_farther_off_is_refused_with_how_far() -> None:
    pose = np.eye(4)
    pose[0, 0] = 1.001
    with pytest.raises(PoseError, match=r"it is off by 0\.002, at most 0\.0001 is taken for rounding"):
        SampleRequest(pose)
