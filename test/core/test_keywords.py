"""A wrong keyword is refused with the one that was meant, by an error that is a `TypeError`, too."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from eim_ros.core.errors import EimError, KeywordError
from eim_ros.ik import Constraints, Sampler
from eim_ros.kinematics import Robot, Sphere

ROBOT = Robot("planar3")
SAMPLER = Sampler(ROBOT)
POSE = np.eye(4)

CALLS: dict[str, Callable[..., Any]] = {
    "Sampler.sample": lambda **given: SAMPLER.sample(POSE, **given),
    "Sampler.sample_batch": lambda **given: SAMPLER.sample_batch(POSE[None], **given),
    "Sampler.stream of sample": lambda **given: SAMPLER.stream(POSE[None], **given),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(
    ("keyword", "meant"),
    [
        ("nera", "did you mean near?"),
        ("limits", r"give sampler.with_constraints\(limits={joint: \(lower, upper\)}\)"),
        ("joint_limits", r"give sampler.with_constraints\(limits="),
        ("rpy", r"give one pose: \(position, quaternion\), or pose_from\(position, rpy=...\)"),
        ("timeoutt", "did you mean timeout?"),
        ("explore", "did you mean diversity?"),
        ("colour", "it has "),
    ],
)
def test_wrong_keyword_of_a_request_names_the_one_that_was_meant(name: str, keyword: str, meant: str) -> None:
    with pytest.raises(KeywordError, match=f"{name} has no keyword '{keyword}'; {meant}") as caught:
        CALLS[name](**{keyword: 1})
    assert caught.value.value == keyword
    assert isinstance(caught.value, EimError) and isinstance(caught.value, TypeError)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: SAMPLER.follow(POSE[None], max_stp=1), "Sampler.follow has no keyword 'max_stp'.*max_step"),
        (lambda: SAMPLER.follow(POSE[None], near=[0, 0, 0], q0=[0, 0, 0]), "'q0'; did you mean near?"),
        (lambda: SAMPLER.sample_batch(POSE[None], pose=POSE), "'pose'; did you mean poses?"),
        (lambda: Constraints(limmits={}), "Constraints has no keyword 'limmits'; did you mean limits?"),
        (lambda: Sphere(centre=[0, 0, 0], center=[0, 0, 0], radius=1), "'center'; did you mean centre?"),
        (lambda: ROBOT.solve(POSE, sed=0), "Robot.solve has no keyword 'sed'; did you mean seed?"),
        (lambda: ROBOT.solve(POSE, limits=0), "'limits'; did you mean lower and upper?"),
        (lambda: ROBOT.solve(POSE, q0=0), r"'q0'; give start configurations to Robot.refine\(seeds, pose\)"),
        (lambda: ROBOT.refine(pose=POSE, seeds=[0, 0, 0], q0=0), "'q0'; did you mean seeds?"),
        (lambda: ROBOT.verify([0, 0, 0], POSE, position_onyl=True), "'position_onyl'; did you mean position_only"),
    ],
)
def test_wrong_keyword_of_other_calls_names_the_one_that_was_meant(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(KeywordError, match=message):
        call()


def test_unambiguous_keywords_of_other_libraries_are_accepted() -> None:
    near = [0.3, 0.4, 0.5]
    pose = ROBOT.fk(near)
    expected = SAMPLER.sample(pose, 3, near=near, seed=4, timeout=9.0).q
    given: dict[str, Any] = {"num_samples": 3, "q0": near, "random_seed": 4, "time_limit": 9.0}
    np.testing.assert_array_equal(SAMPLER.sample(pose, **given).q, expected)
    assert Constraints(joint_limits={"joint_1": (0.0, 1.0)}).limits == {"joint_1": (0.0, 1.0)}
    assert Sphere(center=[1, 2, 3], radius=1).centre.tolist() == [1, 2, 3]


def test_signature_of_a_checked_class_stays() -> None:
    assert list(inspect.signature(Constraints).parameters)[:2] == ["limits", "fixed"]
    assert Constraints({}, {"joint_1": 0.1}).fixed == {"joint_1": 0.1}
