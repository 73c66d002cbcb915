"""The first calls of `make fuzz`, and calls that once raised foreign errors, are answered or refused."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import fuzz_api
import numpy as np
import pytest

from eim_ros.core.errors import ConfigurationError, EimError, PoseError
from eim_ros.ik import CapabilityGrid, Sampler
from eim_ros.kinematics import Box, Robot, Sphere, quaternion_from_matrix
from eim_ros.kinematics.poses import check_poses

ROBOT = Robot("planar3")
SAMPLER = Sampler(ROBOT)
POSE = ROBOT.fk([0.3, 0.4, 0.5])


def test_malformed_calls_are_answered_or_refused() -> None:
    found = fuzz_api.tally(0, range(6000))
    assert not found.foreign
    assert found.counts["answered"] > 600  # enough values are valid to get answers
    assert found.counts["refused"] > 2000


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: SAMPLER.sample(([0.1, 0.2, 0.3], [[1.0], [1.0, 2.0]])), PoseError),
        (lambda: SAMPLER.sample([[0.1], [0.2, 0.3], 1.0]), PoseError),
        (lambda: SAMPLER.sample(SimpleNamespace(as_matrix=lambda needed: needed)), PoseError),
        (lambda: check_poses(np.array(b"abc")), PoseError),
        (lambda: quaternion_from_matrix(np.full((3, 3), 1e200)), PoseError),
        (lambda: SAMPLER.sample_batch(POSE[None], 2, order=np.zeros(0)), ConfigurationError),
        (lambda: SAMPLER.draw(POSE, 2, np.zeros(2)), ConfigurationError),
        (lambda: SAMPLER.sample(POSE, 2, near=np.array([1e308] * 3)), EimError),
        (lambda: SAMPLER.sample(POSE, 2, timeout=10**400), ConfigurationError),
        (lambda: CapabilityGrid(0.0, (1.0, 1.0, 1.0)), ConfigurationError),
        (lambda: ROBOT.fk(np.array([1, 2, 1j], dtype=object)), EimError),
        (lambda: Sphere([0.0, 0.0, 0.0], np.float16("nan")), EimError),
    ],
)
def test_reproducer_of_a_foreign_exception_is_refused(call: Callable[[], Any], error: type[EimError]) -> None:
    with pytest.raises(error):
        call()


def test_position_may_be_an_object_with_coordinates() -> None:
    place = POSE[:3, 3]
    point = SimpleNamespace(x=float(place[0]), y=float(place[1]), z=float(place[2]))
    samples = SAMPLER.sample(point, 2, seed=0)
    assert samples.valid.all() and len(samples) == 2


def test_shape_takes_every_form_of_a_pose() -> None:
    box = Box(([0.1, 0.2, 0.3], [0.0, 0.0, 0.0, 1.0]), [1, 1, 1])
    np.testing.assert_array_equal(np.asarray(box.pose)[:3, 3], [0.1, 0.2, 0.3])
