"""Errors name a wrong keyword and suggest the right one, and shorten the values that they quote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from eim_ros.core.checks import check_keywords
from eim_ros.core.errors import LONGEST_MESSAGE, LONGEST_WORD, EimError, KeywordError, shortened
from eim_ros.ik import Constraints, Sampler
from eim_ros.kinematics import Robot, Sphere

ROBOT = Robot("planar3")
SAMPLER = Sampler(ROBOT)
POSE = np.eye(4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: SAMPLER.stream(POSE[None], nera=1),
            "Sampler.stream of sample has no keyword 'nera'; did you mean near",
        ),
        (lambda: SAMPLER.stream(POSE[None], timeoutt=1), "'timeoutt'; did you mean timeout"),
        (lambda: SAMPLER.stream(POSE[None], colour=1), "'colour'; it has n, "),
        (
            lambda: SAMPLER.with_constraints(limmits={}),
            "Sampler.with_constraints has no .*'limmits'; did you mean limits",
        ),
        (lambda: ROBOT.verify([0, 0, 0], POSE, position_onyl=True), "'position_onyl'; did you mean position_only"),
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
    ("call", "keyword"),
    [
        (lambda: SAMPLER.sample(POSE, sede=1), "sede"),
        (lambda: SAMPLER.follow(POSE[None], q0=[0, 0, 0]), "q0"),
        (lambda: SAMPLER.sample_batch(POSE[None], num_samples=3), "num_samples"),
        (lambda: Constraints(joint_limits={}), "joint_limits"),
        (lambda: Sphere([0, 0, 0], r=1), "r"),
    ],
)
def test_wrong_keyword_of_other_calls_is_named(call: Callable[[], Any], keyword: str) -> None:
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{keyword}'"):
        call()


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
