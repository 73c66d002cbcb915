"""The verbs with --service, in a process of their own, against a running node: what they print and how they exit."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from nodes.client_node import ClientNode, request
from nodes.server_process import PATIENCE, ServerProcess

from eim_ros.kinematics import Robot
from eim_ros.msg import ErrorCodes

POSITION = ("0.4", "0.1", "0.6")


@pytest.fixture(scope="module")
def server(start_server: Callable[..., ServerProcess]) -> Iterator[ServerProcess]:
    started = start_server()
    yield started
    assert started.stop() == 0, started.log


def eim(verb: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "eim_ros.cli.main", verb, "--service", "/ik_server", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)


def asked(server: ServerProcess, *words: str, verb: str = "sample") -> dict[str, list[float]]:
    result = eim(verb, *words, "--json", "--set", "wait=60")
    assert result.returncode == 0, (result.stderr, server.log)
    answer = json.loads(result.stdout)
    assert isinstance(answer, dict)
    return answer


def test_json_has_the_fields_of_the_response(server: ServerProcess) -> None:
    answer = asked(server, "--pose", *POSITION, "-n", "5", "--seed", "1")
    assert set(answer) >= {
        "joint_names", "positions", "log_prob", "position_error", "orientation_error", "valid", "expert", "elapsed",
        "error_code", "n_per_pose", "complete",
    }  # fmt: skip
    robot = Robot("iiwa14")
    assert answer["joint_names"] == list(robot.joint_names)
    positions = np.array(answer["positions"])
    assert positions.shape == (5, 7)
    errors = np.linalg.norm(robot.fk(positions)[:, :3, 3] - np.array(POSITION, dtype=float), axis=1)
    assert errors.max() <= 1e-6
    assert answer["valid"] == [True] * 5
    assert answer["positions"] == asked(server, "--pose", *POSITION, "-n", "5", "--seed", "1")["positions"]


def test_configurations_differ_but_draws_and_proposals_need_not(server: ServerProcess) -> None:
    """Within limits of a hundredth there is one configuration that differs from all others."""
    names = Robot("iiwa14").joint_names
    position = Robot("iiwa14").fk(np.full(7, 0.5))[:3, 3]
    words = ("--pose", *map(str, position), "-n", "10", *(w for n in names for w in ("--limit", f"{n}=0.496:0.504")))
    assert asked(server, *words)["n"] == 1
    raw = eim(
        "propose", "--pose", *POSITION, "-n", "10", "--json", "--set", "wait=60"
    )  # 0 or 1, as some happen to be valid
    assert json.loads(raw.stdout)["n"] == 10


def test_pose_out_of_reach_has_a_nearest_one(server: ServerProcess) -> None:
    answer = asked(server, "--pose", "2", "0", "0.4", "--seed", "1", "--timeout", "30", verb="solve-nearest-pose")
    reached = Robot("iiwa14").fk(np.array(answer["positions"]))[:3, 3]
    assert (answer["exact"], answer["in_time"]) == (False, True)
    assert abs(np.linalg.norm(reached - np.array([2.0, 0.0, 0.4])) - answer["position_error"]) <= 1e-6


def test_every_operation_has_its_request(server: ServerProcess) -> None:
    pose = ("--pose", *POSITION, "0", "1", "0", "0", "--seed", "1")
    near = ("--near", *["0.1"] * 7)
    closest = asked(server, *pose, *near, verb="solve")["positions"]
    every = asked(server, *pose, "--set", "max_spacing=0.5", verb="solve-all")
    draws = asked(server, *pose, "-n", "20", verb="draw")
    assert (len(closest), draws["n"], draws["effective_sample_size"]) == (1, 20, [20.0])
    distances = np.linalg.norm(np.array(every["positions"]) - 0.1, axis=1)
    assert np.linalg.norm(np.array(closest[0]) - 0.1) <= distances.min() + 1e-9
    assert every["component_lengths"]
    posture = ("--set", f"density.{Robot('iiwa14').joint_names[0]}=0.5", "--set", "temperature=0.01")
    cold = asked(server, *pose, "-n", "20", *posture, verb="draw")
    assert (
        np.abs(np.array(cold["positions"])[:, 0] - 0.5).mean() < np.abs(np.array(draws["positions"])[:, 0] - 0.5).mean()
    )


def test_path_is_followed_by_the_server(server: ServerProcess) -> None:
    rows = [w for i in range(4) for w in ("--pose", str(0.4 + 0.01 * i), "0.1", "0.6", "0", "1", "0", "0")]
    answer = asked(server, *rows, "--seed", "1", verb="follow")
    assert answer["valid"] == [True] * 4
    assert np.abs(np.diff(answer["positions"], axis=0)).max() <= 0.3


def test_quaternion_asks_for_the_whole_pose(server: ServerProcess) -> None:
    answer = asked(server, "--pose", *POSITION, "0", "1", "0", "0", "-n", "5")
    poses = Robot("iiwa14").fk(np.array(answer["positions"]))
    assert np.allclose(poses[:, :3, :3], np.diag([-1.0, 1.0, -1.0]), atol=1e-5)
    assert max(answer["orientation_error"]) <= 1e-6


@pytest.mark.parametrize("named", [False, True])
def test_near_ranks_by_distance(server: ServerProcess, named: bool) -> None:
    names = Robot("iiwa14").joint_names
    near = [f"{name}=0.5" for name in reversed(names)] if named else ["0.5"] * len(names)
    answer = asked(server, "--pose", *POSITION, "-n", "20", "--near", *near)
    distances = np.linalg.norm(np.array(answer["positions"]) - 0.5, axis=1)
    assert (np.diff(distances) >= -1e-9).all()


def test_posture_and_diversity_reach_the_server(server: ServerProcess) -> None:
    names = Robot("iiwa14").joint_names
    posture = f"posture={{positions: {{{names[0]}: 0.5, {names[3]}: -1}}, weights: {{{names[3]}: 0.3}}}}"
    words = ("--set", posture, "--set", "diversity=0.5")
    answer = asked(server, "--pose", *POSITION, "-n", "20", *words)
    plain = asked(server, "--pose", *POSITION, "-n", "20")
    costs, others = (
        (positions[:, 0] - 0.5) ** 2 + 0.3 * (positions[:, 3] + 1.0) ** 2
        for positions in (np.array(answer["positions"]), np.array(plain["positions"]))
    )
    assert (np.diff(costs) >= 0.0).all()
    assert costs[0] < others.min()


def test_table_is_printed_without_json(server: ServerProcess) -> None:
    result = eim("sample", "--pose", *POSITION, "-n", "20", "--set", "wait=60")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("20 valid of 20 configurations in ")


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (["--pose", "2", "0", "0.5"], 1, "NO_IK_SOLUTION"),
        (["--pose", *POSITION, "--set", "frame=map"], 1, "FRAME_TRANSFORM_FAILURE"),
        (["--pose", *POSITION, "-n", "100000"], 1, "INVALID_GOAL_CONSTRAINTS"),
        (["--pose", *POSITION, "--near", "elbow=1"], 1, "INVALID_ROBOT_STATE"),
        (["--pose", *POSITION, "--near", "1", "2"], 2, "--near needs 7 values"),
    ],
)
def test_refusal_is_one_line_and_an_exit_code(server: ServerProcess, words: list[str], code: int, reason: str) -> None:
    result = eim("sample", *words, "--set", "wait=60")
    assert result.returncode == code, (result.stderr, server.log)
    assert result.stderr.count("\n") == 1
    assert reason in result.stderr


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--pose", "nan", "0", "0"], "finite"),
        (["--pose", "0", "0"], "3 or 7"),
        (["--pose", *POSITION, "0", "0", "0", "0"], "quaternion is zero"),
        (["--pose", *POSITION, "-n", "0"], "must be between 1"),
        (["--pose", *POSITION, "--timeout", "-1"], "timeout must be"),
        (["--pose", *POSITION, "--robot", "panda"], "--service uses the robot of the node"),
        (["--pose", *POSITION, "--near", "here"], "--near needs a number for each joint"),
        (["--pose", *POSITION, "--near", "a=1", "2"], "--near needs a number for each joint"),
        (["--pose", *POSITION, "--service", "/nobody", "--set", "wait=0.2"], "did not appear within 0.2 s"),
        ([], "--pose"),
    ],
)
def test_bad_usage_is_one_line_and_the_code_of_its_kind(words: list[str], reason: str) -> None:
    result = eim("sample", *words)
    assert result.returncode == (4 if "/nobody" in words else 2)
    assert result.stderr.count("\n") == 1, result.stderr
    assert reason in result.stderr


def test_server_is_untouched_by_it_all(server: ServerProcess, client: ClientNode) -> None:
    assert client.sample(server, request()).error_code.val == ErrorCodes.SUCCESS
