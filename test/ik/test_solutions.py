"""The answer as JSON, under the names of the service's response; error codes with the values of MoveIt."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from ik.arms import arm_of, reachable_pose, sampler_of

from eim_ros.ik import ErrorCode, Sampler
from eim_ros.solver import NO_EXPERT

SERVICE = Path(__file__).resolve().parents[2] / "srv" / "SampleIK.srv"


def response_lines() -> list[str]:
    text = SERVICE.read_text(encoding="utf-8").partition("\n---\n")[2]
    return [line.partition("#")[0].strip() for line in text.splitlines() if line.partition("#")[0].strip()]


def test_names_are_those_of_the_response() -> None:
    samples = sampler_of("planar3", "position").sample(reachable_pose(arm_of("planar3")), 4, seed=0)
    fields = [line.split()[1] for line in response_lines() if "=" not in line]
    assert list(samples.to_dict()) == fields


def test_mapping_survives_json() -> None:
    samples = sampler_of("iiwa14", "position").sample(reachable_pose(arm_of("iiwa14")), 4, seed=0)
    answer = json.loads(json.dumps(samples.to_dict(), allow_nan=False))
    assert answer["n"] == len(samples) == 4
    assert np.array_equal(answer["positions"], samples.q)
    for name in ("log_prob", "position_error", "orientation_error", "valid", "expert"):
        assert np.array_equal(answer[name], getattr(samples, name)), name
    assert answer["joint_names"] == list(samples.joint_names)
    assert answer["error_code"] == 1
    assert answer["elapsed"] == samples.elapsed


def test_answer_holds_results_and_shares_the_model() -> None:
    """Not what the model says given the pose: that is a thousand experts, and answers are kept."""
    sampler = Sampler.load("panda_pose")
    first, second = (sampler.sample(reachable_pose(sampler.robot, seed), 10, seed=seed) for seed in (0, 1))
    arrays = [value for value in vars(first).values() if isinstance(value, np.ndarray)] + [first.density.contexts]
    held = {id(array if array.base is None else array.base): array for array in arrays}
    kept = sum(array.nbytes if array.base is None else array.base.nbytes for array in held.values())
    assert len(arrays) >= 6
    assert kept < 16_000
    assert first.density.proposal is second.density.proposal


def test_density_is_computed_on_access_and_kept() -> None:
    sampler = Sampler.load("panda_pose")  # which prefers nothing
    samples = sampler.sample(reachable_pose(sampler.robot), 30, seed=0)
    assert samples.known_log_prob is None
    assert samples.seconds_of_log_prob > 0.0
    assert np.isfinite(samples.log_prob).all()
    assert samples.log_prob is samples.log_prob
    assert samples.seconds_of_log_prob == 0.0


@pytest.mark.parametrize("n", [2, 50])
def test_order_by_density_without_time_for_it_says_so(n: int) -> None:
    sampler, pose = sampler_of("iiwa14", "position"), reachable_pose(arm_of("iiwa14"))
    hurried = sampler.sample(pose, n, order="density", timeout=0.0, seed=0)
    assert hurried and hurried.valid.all()
    assert hurried.known_log_prob is None
    assert hurried.message.endswith("; there was no time to order them by density")
    unhurried = sampler.sample(pose, n, order="density", timeout=60.0, seed=0)
    assert unhurried.message == f"{n} of {n} distinct solutions"
    assert (np.diff(unhurried.known_log_prob) <= 0.0).all()


def test_one_configuration_is_not_ordered() -> None:
    samples = sampler_of("iiwa14", "position").sample(reachable_pose(arm_of("iiwa14")), 1, order="density", seed=0)
    assert samples.known_log_prob is None
    assert np.isfinite(samples.log_prob).all()


def test_error_codes_are_those_of_moveit_and_of_the_service() -> None:
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
    constants = dict(line.split(maxsplit=1)[1].split("=") for line in response_lines() if "=" in line)
    served = {name.strip(): int(value) for name, value in constants.items()}
    assert served.pop("NO_EXPERT") == NO_EXPERT
    assert served == moveit


def test_answer_is_a_sequence_of_configurations() -> None:
    samples = sampler_of("planar3", "position").sample(reachable_pose(arm_of("planar3")), 6, seed=0)
    assert samples.q is samples.q
    assert np.array_equal(list(samples), samples.q)
    assert np.array_equal(samples[2], samples.q[2])
    assert np.array_equal(samples[-2:], samples.q[-2:])
    assert len(samples[samples.valid]) == 6
    with pytest.raises(IndexError):
        samples[6]


def test_notebook_shows_a_row_for_each_of_the_first_configurations() -> None:
    samples = Sampler("panda").sample(reachable_pose(arm_of("panda")), 25, seed=0)
    table = samples._repr_html_()
    assert table.count("<tr>") == 11  # a head and ten rows
    assert "panda_joint7" in table
    assert "10 of 25 are shown" in table
