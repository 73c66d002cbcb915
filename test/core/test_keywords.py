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
        ("q0", "did you mean near?"),
        ("start", "did you mean near?"),
        ("random_seed", "did you mean seed?"),
        ("limits", r"give sampler.with_constraints\(limits={joint: \(lower, upper\)}\)"),
        ("joint_limits", r"give sampler.with_constraints\(limits="),
        ("rpy", r"give an orientation within the pose, pose_from\(position, rpy=...\)"),
        ("num_samples", "did you mean n?"),
        ("time_limit", "did you mean timeout?"),
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
        (lambda: SAMPLER.follow(POSE[None], largest_step=1), "Sampler.follow has no keyword 'largest_step'.*max_step"),
        (lambda: SAMPLER.follow(POSE[None], q0=[0, 0, 0]), "'q0'; did you mean near?"),
        (lambda: SAMPLER.sample_batch(POSE[None], n_jobs=2), "'n_jobs'; did you mean n_threads?"),
        (lambda: SAMPLER.sample_batch(POSE[None], pose=POSE), "'pose'; did you mean poses?"),
        (lambda: Constraints(joint_limits={}), "Constraints has no keyword 'joint_limits'; did you mean limits?"),
        (lambda: Sphere(center=[0, 0, 0], radius=1), "Sphere has no keyword 'center'; did you mean centre?"),
        (lambda: ROBOT.solve(POSE, sed=0), "Robot.solve has no keyword 'sed'; did you mean seed?"),
        (lambda: ROBOT.solve(POSE, limits=0), "'limits'; did you mean lower and upper?"),
        (lambda: ROBOT.solve(POSE, q0=0), r"'q0'; give nothing: Robot.refine\(seeds, pose\) starts from given"),
        (lambda: ROBOT.refine(pose=POSE, seeds=[0, 0, 0], q0=0), "'q0'; did you mean seeds?"),
        (lambda: ROBOT.verify([0, 0, 0], POSE, position_onyl=True), "'position_onyl'; did you mean position_only"),
    ],
)
def test_wrong_keyword_of_other_calls_names_the_one_that_was_meant(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(KeywordError, match=message):
        call()


def test_signature_of_a_checked_class_stays() -> None:
    assert list(inspect.signature(Constraints).parameters)[:2] == ["limits", "fixed"]
    assert Constraints({}, {"joint_1": 0.1}).fixed == {"joint_1": 0.1}
