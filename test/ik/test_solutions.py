"""Answers are sequences of rows with densities on access, tables in notebooks, and the error codes of MoveIt."""

from __future__ import annotations

import numpy as np
import pytest
from ik.arms import arm_of, reachable_pose, sampler_of

from eim_ros.ik import ErrorCode, Sampler


def test_answer_holds_results_and_shares_the_model() -> None:
    """An answer does not contain the conditional mixture of a thousand experts, because users may keep many answers."""
    sampler = Sampler.load("panda_pose")
    first, second = (sampler.sample(reachable_pose(sampler.robot, seed), 10, seed=seed) for seed in (0, 1))
    slots = (getattr(first, name) for name in first.__slots__)
    arrays = [value for value in slots if isinstance(value, np.ndarray)] + [first.densities[0].contexts]
    held = {id(array if array.base is None else array.base): array for array in arrays}
    kept = sum(array.nbytes if array.base is None else array.base.nbytes for array in held.values())
    assert len(arrays) >= 3
    assert kept < 16_000
    assert first.densities[0].evaluator is second.densities[0].evaluator


def test_density_is_computed_on_access_and_kept() -> None:
    sampler = Sampler.load("panda_pose")  # this model prefers no solutions
    samples = sampler.sample(reachable_pose(sampler.robot), 30, seed=0)
    assert samples._log_prob is None
    assert samples.seconds_of_log_prob > 0.0
    assert np.isfinite(samples.log_prob).all()
    assert samples.log_prob is samples.log_prob
    assert samples.seconds_of_log_prob == 0.0


@pytest.mark.parametrize("n", [2, 50])
def test_order_by_density_without_time_for_it_says_so(n: int) -> None:
    sampler, pose = sampler_of("iiwa14", "position"), reachable_pose(arm_of("iiwa14"))
    hurried = sampler.sample(pose, n, order="density", timeout=0.0, seed=0)
    assert hurried and hurried.valid.all()
    assert hurried._log_prob is None
    assert hurried.message.endswith("; there was no time to order them by density")
    unhurried = sampler.sample(pose, n, order="density", timeout=60.0, seed=0)
    assert unhurried.message == f"{n} of {n} distinct solutions"
    assert (np.diff(unhurried._log_prob) <= 0.0).all()


def test_one_configuration_is_not_ordered() -> None:
    samples = sampler_of("iiwa14", "position").sample(reachable_pose(arm_of("iiwa14")), 1, order="density", seed=0)
    assert samples._log_prob is None
    assert np.isfinite(samples.log_prob).all()


def test_error_codes_are_those_of_moveit() -> None:
    moveit = {
        "SUCCESS": 1,
        "FAILURE": 99999,
        "TIMED_OUT": -6,
        "BUSY": -7,  # MoveIt's PREEMPTED
        "GOAL_IN_COLLISION": -12,
        "INVALID_GROUP_NAME": -15,
        "INVALID_GOAL_CONSTRAINTS": -16,
        "INVALID_ROBOT_STATE": -17,
        "INVALID_LINK_NAME": -18,
        "FRAME_TRANSFORM_FAILURE": -21,
        "NO_IK_SOLUTION": -31,
    }
    assert {code.name: code.value for code in ErrorCode} == moveit


def test_answer_is_a_sequence_of_configurations() -> None:
    samples = sampler_of("planar3", "position").sample(reachable_pose(arm_of("planar3")), 6, seed=0)
    assert np.array_equal(list(samples), samples.q)
    assert np.array_equal(samples[2], samples.q[2])
    assert np.array_equal(samples[-2:].q, samples.q[-2:])
    assert len(samples[samples.valid]) == 6
    with pytest.raises(IndexError):
        samples[6]


def test_notebook_shows_a_row_for_each_of_the_first_configurations() -> None:
    samples = Sampler("panda").sample(reachable_pose(arm_of("panda")), 25, seed=0)
    table = samples._repr_html_()
    assert table.count("<tr>") == 7  # one header and six rows
    assert "panda_joint7" in table
    assert "6 of 25 are shown" in table
