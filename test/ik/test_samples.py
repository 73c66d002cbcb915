"""The answer as JSON, under the names of the service's response; error codes with the values of MoveIt."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from ik.arms import arm_of, reachable_pose, sampler_of

from eim_ros.ik import NO_EXPERT, ErrorCode
from eim_ros.ik.samples import to_mapping

SERVICE = Path(__file__).resolve().parents[2] / "srv" / "SampleIK.srv"


def response_lines() -> list[str]:
    text = SERVICE.read_text(encoding="utf-8").partition("\n---\n")[2]
    return [line.partition("#")[0].strip() for line in text.splitlines() if line.partition("#")[0].strip()]


def test_names_are_those_of_the_response() -> None:
    samples = sampler_of("planar3", "position").sample(reachable_pose(arm_of("planar3")), 4, 0)
    fields = [line.split()[1] for line in response_lines() if "=" not in line]
    assert list(to_mapping(samples)) == fields


def test_mapping_survives_json() -> None:
    samples = sampler_of("iiwa14", "position").sample(reachable_pose(arm_of("iiwa14")), 4, 0)
    answer = json.loads(json.dumps(to_mapping(samples), allow_nan=False))
    assert answer["n"] == len(samples) == 4
    assert np.array_equal(answer["positions"], samples.positions)
    for name in ("log_prob", "position_error", "orientation_error", "valid", "expert"):
        assert np.array_equal(answer[name], getattr(samples, name)), name
    assert answer["joint_names"] == list(samples.joint_names)
    assert answer["error_code"] == 1
    assert answer["elapsed"] == samples.elapsed


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
