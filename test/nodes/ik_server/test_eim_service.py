"""Verbs with --service print the answers of a running node and exit with the right code.

test/cli/test_service.py tests the requests of each verb, and test/cli/mistakes.txt lists wrong commands.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
from nodes.client_node import ClientNode, request
from nodes.server_process import ServerProcess

from eim_ros.cli.main import main as eim
from eim_ros.kinematics import Robot
from eim_ros.msg import ErrorCodes

POSITION = ("0.4", "0.1", "0.6")
POSE = ("--pose", *POSITION, "0", "1", "0", "0", "--seed", "1")
ROBOT = Robot("iiwa14")
WAIT = ("--set", "wait=60")

Ask = Callable[..., dict[str, list[float]]]


@pytest.fixture(scope="module")
def server(start_server: Callable[..., ServerProcess]) -> ServerProcess:
    return start_server()


@pytest.fixture
def asked(server: ServerProcess, capsys: pytest.CaptureFixture[str]) -> Ask:
    def ask(*words: str, verb: str = "sample", code: int = 0) -> dict[str, list[float]]:
        found = eim([verb, "--service", "/ik_server", *words, "--json", *WAIT])
        told = capsys.readouterr()
        assert found == code, (told.err, server.log)
        answer = json.loads(told.out)
        assert isinstance(answer, dict)
        return answer

    return ask


def test_json_has_the_fields_of_the_response(asked: Ask) -> None:
    words = ("--pose", *POSITION, "-n", "5", "--seed", "1")
    answer = asked(*words)
    assert set(answer) >= {
        "joint_names", "positions", "log_prob", "position_error", "orientation_error", "valid", "expert", "elapsed",
        "error_code", "n_per_pose", "complete",
    }  # fmt: skip
    assert answer["joint_names"] == list(ROBOT.joint_names)
    positions = np.array(answer["positions"])
    assert positions.shape == (5, 7)
    errors = np.linalg.norm(ROBOT.fk(positions)[:, :3, 3] - np.array(POSITION, dtype=float), axis=1)
    assert errors.max() <= 1e-6
    assert answer["valid"] == [True] * 5
    assert answer["positions"] == asked(*words)["positions"]


def test_pose_out_of_reach_has_a_nearest_one(asked: Ask) -> None:
    answer = asked("--pose", "2", "0", "0.4", "--seed", "1", "--timeout", "30", verb="solve-nearest-pose")
    reached = ROBOT.fk(np.array(answer["positions"]))[:3, 3]
    assert (answer["exact"], answer["in_time"]) == (False, True)
    assert abs(np.linalg.norm(reached - np.array([2.0, 0.0, 0.4])) - answer["position_error"]) <= 1e-6


def test_every_operation_has_its_request(asked: Ask) -> None:
    closest = asked(*POSE, "--near", *["0.1"] * 7, verb="solve")["positions"]
    every = asked(*POSE, "--set", "max_spacing=0.5", verb="solve-all")
    draws = asked(*POSE, "-n", "20", verb="draw")
    assert (len(closest), draws["n"], draws["effective_sample_size"]) == (1, 20, [20.0])
    distances = np.linalg.norm(np.array(every["positions"]) - 0.1, axis=1)
    assert np.linalg.norm(np.array(closest[0]) - 0.1) <= distances.min() + 1e-9
    assert every["component_lengths"]
    posture = ("--set", f"density.{ROBOT.joint_names[0]}=0.5", "--set", "temperature=0.01")
    cold = asked(*POSE, "-n", "20", *posture, verb="draw")
    first, other = (np.abs(np.array(each["positions"])[:, 0] - 0.5).mean() for each in (cold, draws))
    assert first < other
    path = [word for x in (0.0, 0.01, 0.02) for word in ("--pose", str(0.4 + x), *POSITION[1:], "0", "1", "0", "0")]
    followed = asked(*path, "--seed", "1", verb="follow")
    assert followed["valid"] == [True] * 3
    assert np.abs(np.diff(followed["positions"], axis=0)).max() <= 0.3
    some_are_valid = (0, 1)
    raw = eim(["propose", "--service", "/ik_server", "--pose", *POSITION, "-n", "10", *WAIT])
    assert raw in some_are_valid


def test_table_is_printed_without_json(server: ServerProcess, capsys: pytest.CaptureFixture[str]) -> None:
    assert eim(["sample", "--service", "/ik_server", "--pose", *POSITION, "-n", "20", *WAIT]) == 0
    told = capsys.readouterr()
    assert told.err == ""
    assert told.out.startswith("20 of 20 configurations are valid, after ")


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (["--pose", "2", "0", "0.5"], 1, "NO_IK_SOLUTION"),
        (["--pose", *POSITION, "--set", "frame=map"], 1, "FRAME_TRANSFORM_FAILURE"),
        (["--pose", *POSITION, "-n", "100000"], 1, "INVALID_GOAL_CONSTRAINTS"),
        (["--pose", *POSITION, "--near", "elbow=1"], 1, "INVALID_ROBOT_STATE"),
        (["--pose", *POSITION, "--near", "1", "2"], 2, "--near needs 7 values"),
        (["--pose", *POSITION, "--service", "/nobody", "--set", "wait=0.2"], 4, "did not appear within 0.2 s"),
    ],
)
def test_refusal_is_one_line_and_an_exit_code_and_the_next_is_answered(
    server: ServerProcess,
    client: ClientNode,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    code: int,
    reason: str,
) -> None:
    assert eim(["sample", "--service", "/ik_server", *words, *(() if "/nobody" in words else WAIT)]) == code, server.log
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert reason in told
    assert client.sample(server, request()).error_code.val == ErrorCodes.SUCCESS
