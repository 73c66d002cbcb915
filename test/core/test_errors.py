"""Errors name a wrong keyword, suggest the right one, and shorten long values."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eim_ros
from eim_ros.core.checks import check_keywords, with_hints
from eim_ros.core.errors import LONGEST_MESSAGE, LONGEST_WORD, EimError, KeywordError, shortened
from eim_ros.ik import Constraints, Sampler
from eim_ros.kinematics import Robot, Sphere, pose_from

ROBOT = Robot("planar3")
SAMPLER = Sampler(ROBOT)
POSE = np.eye(4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: SAMPLER.stream(POSE[None], nera=1),
            "Sampler.stream of sample has no keyword 'nera', only n, .*; did you mean near",
        ),
        (lambda: SAMPLER.stream(POSE[None], timeoutt=1), "'timeoutt', only .*; did you mean timeout"),
        (lambda: SAMPLER.stream(POSE[None], colour=1), "'colour', only n, "),
        (
            lambda: SAMPLER.with_constraints(limmits={}),
            "Sampler.with_constraints has no .*'limmits', only .*; did you mean limits",
        ),
        (
            lambda: ROBOT.verify([0, 0, 0], POSE, position_onyl=True),
            "'position_onyl', only .*; did you mean position_only",
        ),
    ],
)
def test_wrong_keyword_of_changes_names_the_one_that_was_meant(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(KeywordError, match=message):
        call()


def test_keyword_error_is_an_error_of_both_kinds() -> None:
    with pytest.raises(KeywordError) as caught:
        check_keywords({"size": 1, "colour": 2}, ["size"], "Box")
    assert caught.value.value == "colour"
    assert isinstance(caught.value, EimError) and isinstance(caught.value, TypeError)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: SAMPLER.sample(POSE, sede=1),
            "Sampler.sample has no .* 'sede', only pose, n, .* did you mean seed?",
        ),
        (lambda: SAMPLER.follow(POSE[None], q0=[0, 0, 0]), "'q0', only poses, near, .* did you mean near?"),
        (lambda: SAMPLER.sample_batch(POSE[None], num_samples=3), "'num_samples', .* did you mean n?"),
        (lambda: SAMPLER.solve(POSE, fixed_joints={}), r"did you mean with_constraints\(fixed=...\)?"),
        (lambda: Sampler("planar3", ee_link="tip"), "Sampler has no keyword 'ee_link', .* did you mean tip?"),
        (lambda: Robot.from_urdf("planar3", base_link="base"), "Robot.from_urdf has no .* did you mean base?"),
        (lambda: Constraints(joint_limits={}), "Constraints has no keyword 'joint_limits', .* did you mean limits?"),
        (lambda: Sphere([0, 0, 0], r=1), "Sphere has no keyword 'r', only centre, radius, name; did you mean radius?"),
        (lambda: pose_from([0, 0, 0], euler=[0, 0, 0]), "pose_from has no keyword 'euler', only position, "),
    ],
)
def test_wrong_keyword_of_other_calls_names_the_one_that_was_meant(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(KeywordError, match=message) as caught:
        call()
    assert caught.value.__suppress_context__  # Python's message is less helpful


@pytest.mark.parametrize("name", sorted({*eim_ros.__all__} - {"EimError", "JointPath", "MotionPrior", "Solutions"}))
def test_exported_class_explains_unknown_keywords(name: str) -> None:
    shapes = dict.fromkeys(("Box", "Capsule", "Cylinder", "Mesh", "PointCloud", "Sphere"), [POSE])
    with pytest.raises(EimError, match="frobnicate"):
        getattr(eim_ros, name)(*{"GMMVI": [abs], **shapes}.get(name, []), frobnicate=1)


@pytest.mark.parametrize("method", [SAMPLER.solve, SAMPLER.solve_all, SAMPLER.sample, ROBOT.random, Robot.from_urdf])
def test_hints_keep_the_signature(method: Callable[..., Any]) -> None:
    kinds = {parameter.kind for parameter in inspect.signature(method).parameters.values()}
    assert not kinds & {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}


def test_other_type_errors_stay_as_they_are() -> None:
    @with_hints
    def add(first: int, second: int = 0) -> int:
        return first + second

    assert add(1, second=2) == 3
    with pytest.raises(TypeError, match="unsupported operand") as wrong:
        add(1, second="2")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="missing 1 required positional argument") as missing:
        add(second=2)  # type: ignore[call-arg]
    assert type(wrong.value) is type(missing.value) is TypeError


@pytest.mark.parametrize("value", [1_000_000 * "a", 1_000_000 * "a b ", 1_000_000 * "\n", 1000 * (400 * "é" + " ")])
def test_a_long_message_keeps_its_beginning_and_its_end(value: str) -> None:
    text = shortened(f"the frame is {value!r}, expected the base link")
    assert len(text) <= LONGEST_MESSAGE
    assert max(map(len, text.split(" "))) <= LONGEST_WORD
    assert text.startswith("the frame is ")
    assert text.endswith(", expected the base link")
    assert shortened(text) == text


@pytest.mark.parametrize("text", ["", "expected 3 joints", LONGEST_WORD * "a", (LONGEST_MESSAGE // 10) * "123456789 "])
def test_other_messages_stay_as_they_are(text: str) -> None:
    assert shortened(text) == text


def test_an_error_shortens_its_message_and_keeps_its_value() -> None:
    value = 1_000_000 * "a"
    error = EimError(f"the frame is {value}, expected the base link", value)
    assert len(str(error)) < LONGEST_MESSAGE
    assert error.value is value
