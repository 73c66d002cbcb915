"""`eim sample` and verbs like it: the fields of their JSON, validity by pinocchio, tables, pictures, exit codes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli.command import Command, eim_process, validity
from cli.conftest import sets
from kinematics.robots import robot_and_oracle

from eim_ros.cli.main import read_verb
from eim_ros.kinematics import Robot, share_path

FIELDS = {
    "joint_names", "positions", "log_prob", "position_error", "orientation_error", "valid", "expert", "elapsed",
}  # fmt: skip
CURVES = {"component_lengths", "component_closed", "component_traced", "confidence"}
OF_POSES = {"n_per_pose", "error_codes", "n_total", "effective_sample_size", "best_attempt"}
OF_POSES |= {"n_components", "missed_share", "complete", "certified"}
ALSO_IN_THE_RESPONSE = {"error_code", "n", *OF_POSES}
POSE = ("--pose", 1.5, 0.5, 0)
TURNED = ("--pose", 1.4, 0.6, 0, 0, 0, 0, 1)  # a pose that the planar arm reaches with the elbow up and down


def test_json_has_the_fields_of_the_response(eim: Command, model: Path) -> None:
    outcome = eim("sample", "--model", model, *POSE, "-n", 20, "--seed", 1, "--json")
    assert (outcome.code, outcome.err) == (0, "")
    answer = outcome.json
    assert set(answer) == FIELDS | ALSO_IN_THE_RESPONSE
    assert answer["joint_names"] == ["joint_1", "joint_2", "joint_3"]
    assert np.array(answer["positions"]).shape == (20, 3)
    assert all(len(answer[name]) == 20 for name in FIELDS - {"joint_names", "valid", "elapsed"})
    assert set(answer["error_code"]) == {"val", "message"}
    whole = eim("solve-all", "--robot", "panda", "--pose", 0.4, 0.1, 0.5, 1, 0, 0, 0, "--timeout", 60, "--json").json
    assert set(whole) == FIELDS | ALSO_IN_THE_RESPONSE | CURVES
    assert all(len(whole[name]) == whole["n_components"][0] for name in CURVES - {"confidence"})
    assert answer["n"] == 20
    assert validity(answer) == [True] * 20
    robot, oracle = robot_and_oracle("planar3")
    for q in answer["positions"]:
        assert np.linalg.norm(oracle.forward(np.array(q))[:3, 3] - [1.5, 0.5, 0.0]) <= 1e-6 + 1e-12
    assert robot.within_limits(answer["positions"]).all()


def test_draws_by_the_cost_of_a_posture(eim: Command) -> None:
    words = ("draw", "--robot", "panda", "--pose", 0.4, 0.1, 0.5, 1, 0, 0, 0, "-n", 50, "--seed", 1, "--json")
    cold = ("--set", "density.panda_joint1=0.5", "--set", "temperature=0.01")
    near, anywhere = eim(*words, *cold).json, eim(*words, "--set", "density=uniform").json
    assert near["effective_sample_size"] == anywhere["effective_sample_size"] == [50]
    spread = [np.abs(np.array(answer["positions"])[:, 0] - 0.5).mean() for answer in (near, anywhere)]
    assert spread[0] < 0.2 < 0.5 < spread[1]


def test_table_without_json(eim: Command, model: Path) -> None:
    outcome = eim("sample", "--model", model, *POSE, "-n", 12, "--seed", 1)
    lines = outcome.out.splitlines()
    assert (outcome.code, outcome.err) == (0, "")
    assert lines[0].startswith("12 of 12 configurations are valid, after ")
    assert lines[1].split()[:3] == ["joint_1", "joint_2", "joint_3"]
    assert lines[-1] == "... and 2 more; --json prints all"
    assert len(lines) == 2 + 10 + 1


def test_table_has_the_labels_of_branches(eim: Command) -> None:
    words = ("sample", "--robot", "ur5e", "--pose", 0.4, 0.1, 0.3, 1, 0, 0, 0)
    table = [line.split() for line in eim(*words, "--set", "branch.elbow=up").out.splitlines()[2:]]
    assert table[0][-3:] == ["shoulder", "elbow", "wrist"]
    assert len(table) == 5 and {row[-2] for row in table[1:]} == {"up"}
    assert {(row[-3], row[-1]) for row in table[1:]} == {
        (side, bend) for side in ("left", "right") for bend in ("flip", "no-flip")
    }


def test_quaternion_asks_for_the_whole_pose(eim: Command, model: Path) -> None:
    quarter = (0, 0, np.sin(np.pi / 8), np.cos(np.pi / 8))
    answer = eim("sample", "--model", model, "--pose", 1.4, 0.6, 0, *quarter, "-n", 5, "--json", "--timeout", 60).json
    headings = np.array(answer["positions"]).sum(axis=1)
    assert np.allclose(np.exp(1j * headings), np.exp(0.25j * np.pi), rtol=0, atol=2e-6)
    assert max(answer["orientation_error"]) <= 1e-6
    free = eim(
        "sample", "--model", model, "--pose", 1.4, 0.6, 0, *quarter, "-n", 20, "--json", "--set", "position_only=true"
    ).json
    assert np.ptp(np.array(free["positions"]).sum(axis=1)) > 0.1


def test_robot_may_come_first_and_angles_replace_the_quaternion(eim: Command) -> None:
    words = ("--seed", 1, "--json")
    angles = eim("solve", "panda", "--pose", 0.4, 0.1, 0.5, "--rpy", np.pi, 0, 0, *words)
    quaternion = eim("solve", "--robot", "panda", "--pose", 0.4, 0.1, 0.5, 1, 0, 0, 0, *words)
    assert (angles.code, angles.err) == (0, "")
    # the two poses differ only by rounding
    np.testing.assert_allclose(angles.json["positions"], quaternion.json["positions"], atol=1e-6)


def test_table_tells_how_many_there_are_where_fewer_differ(eim: Command) -> None:
    outcome = eim("sample", "--robot", "planar3", *TURNED, "-n", 50, "--timeout", 60)
    lines = outcome.out.splitlines()
    assert (outcome.code, outcome.err) == (0, "")
    assert lines[0].startswith("2 of 2 configurations are valid, after ")
    assert lines[1] == "2 of 50 distinct solutions, all that exist"
    assert len(lines) == 3 + 2


def test_table_tells_how_whole_the_answer_is(eim: Command) -> None:
    pose = ("--robot", "panda", "--pose", 0.4, 0.1, 0.5, 1, 0, 0, 0, "--seed", 1, "--timeout", 60)
    lines = eim("solve-all", *pose, *sets("guarantee.confidence=0.9", "guarantee.missed_share=0.01")).out.splitlines()
    assert lines[1] == "3 components, complete with 90 % confidence"
    assert eim("sample", *pose).out.splitlines()[1] == "3 components"
    assert eim("solve-all", *pose, *sets("guarantee={confidence: 1.0, missed_share: 0.01}")).code == 2


def test_pose_out_of_reach_has_a_nearest_one(eim: Command) -> None:
    words = ("solve-nearest-pose", "--robot", "panda", "--seed", 1, "--timeout", 60)
    far = eim(*words, "--pose", 2, 0, 0.4, 1, 0, 0, 0, "--json").json
    robot, _ = robot_and_oracle("panda")
    reached = robot.fk(far["positions"])[:3, 3]
    assert not far["exact"]
    assert abs(np.linalg.norm(reached - [2.0, 0.0, 0.4]) - far["position_error"]) <= 1e-6
    turned = eim(*words, "--pose", 2, 0, 0.4, 1, 0, 0, 0, *sets("priority=orientation"), "--json").json
    assert turned["orientation_error"] <= 1e-4
    assert turned["position_error"] > far["position_error"]
    within = eim(*words, "--pose", 0.4, 0.1, 0.5, 1, 0, 0, 0)
    assert (within.code, "a solution" in within.out) == (0, True)


def test_path_is_followed_without_jumps(eim: Command, tmp_path: Path) -> None:
    rows = [(0.4 + 0.01 * i, 0.1, 0.5, 1, 0, 0, 0) for i in range(5)]
    path = tmp_path / "poses.csv"
    path.write_text("".join(", ".join(map(str, row)) + "\n" for row in rows))
    answer = eim("follow", "--robot", "panda", "--poses", path, "--seed", 1, "--timeout", 60, "--json").json
    positions = np.array(answer["positions"])
    assert validity(answer) == [True] * 5
    assert np.abs(np.diff(positions, axis=0)).max() <= 0.3
    flags = [word for row in rows for word in ("--pose", *row)]
    again = eim("follow", "--robot", "panda", *flags, "--seed", 1, "--timeout", 60, "--json").json
    assert again["positions"] == answer["positions"]


def test_robot_alone_gives_all_its_solutions(eim: Command) -> None:
    robot, oracle = robot_and_oracle("panda")
    wanted = ("--pose", 0.4, 0.1, 0.5, 1, 0, 0, 0, "-n", 50, "--seed", 1, "--timeout", 60)
    answer = eim("sample", "--robot", "panda", *wanted, "--json").json
    positions = np.array(answer["positions"])
    assert validity(answer) == [True] * 50
    assert answer["log_prob"] == [None] * 50
    assert robot.within_limits(positions).all()
    for q in positions:
        np.testing.assert_allclose(oracle.forward(q)[:3, 3], [0.4, 0.1, 0.5], rtol=0, atol=1e-6 + 1e-12)
    path = share_path("urdf/panda.urdf")
    links = ("--base", robot.base_link, "--tip", robot.tip_link)
    assert eim("sample", "--robot", path, *links, *wanted, "--json").json["positions"] == answer["positions"]


def test_model_and_robot_that_agree_are_one(eim: Command, model: Path) -> None:
    words = ("sample", "--model", model, *POSE, "-n", 5, "--seed", 1, "--json")
    assert eim(*words, "--robot", "planar3").json["positions"] == eim(*words).json["positions"]


@pytest.mark.parametrize("tiny", ["-1e-05", "-1E-5", "-.00001", "-0.00001"])
def test_negative_numbers_in_any_notation_are_numbers(eim: Command, model: Path, tiny: str) -> None:
    outcome = eim("sample", "--model", model, "--pose", "-1", "0.5", tiny, "--near", tiny, "-1", tiny, "-n", 2,
                  "--set", "position_tolerance=1e-4", "--json")  # fmt: skip
    assert (outcome.code, outcome.err) == (0, "")


def test_near_ranks_by_distance(eim: Command, model: Path) -> None:
    answer = eim("sample", "--model", model, *POSE, "-n", 20, "--near", 0.5, 0.5, -0.5, "--json").json
    distance = np.linalg.norm(np.array(answer["positions"]) - [0.5, 0.5, -0.5], axis=1)
    assert (np.diff(distance) >= -1e-9).all()


def test_proposals_are_raw_and_draws_may_repeat(eim: Command, model: Path) -> None:
    pose = ("--model", model, "--pose", 1.4, 0.6, 0, 0, 0, 0, 1, "-n", 50, "--json", "--timeout", 60)
    assert eim("sample", *pose).json["n"] == 2
    eight = ("--robot", "ur5", "--pose", 0.4, 0.1, 0.5, 1, 0, 0, 0, "-n", 50, "--json", "--timeout", 60)
    assert (eim("sample", *eight).json["n"], eim("draw", *eight).json["n"]) == (8, 50)
    raw = eim("propose", "--model", model, *POSE, "-n", 30, *sets("position_tolerance=5"), "--json").json
    assert raw["n"] == 30
    assert max(raw["position_error"]) > 1e-3


def test_no_solution_is_exit_code_1_with_the_best_attempt(eim: Command, model: Path) -> None:
    outcome = eim("sample", "--model", model, "--pose", 5, 0, 0, "--json", "--timeout", 60)
    assert outcome.code == 1
    assert outcome.err.startswith("eim sample: NO_IK_SOLUTION: there is no solution, because the distance")
    assert "; the best attempt is off by 2 m" in outcome.err
    assert outcome.err.count("\n") == 1
    assert (outcome.json["n"], outcome.json["positions"], outcome.json["valid"]) == (0, [], [])
    assert len(outcome.json["best_attempt"]) == 3
    assert outcome.json["error_code"]["val"] == -31


def test_no_solution_is_no_table_but_a_warning_of_the_attempt(eim: Command, model: Path) -> None:
    outcome = eim("sample", "--model", model, "--pose", 5, 0, 0, "--timeout", 60)
    assert outcome.code == 1
    lines = outcome.out.splitlines()
    assert lines[0].startswith("0 of 0 configurations are valid, after ")
    assert lines[1] == "no solution was found; the following best attempt misses the pose, so do not execute it:"
    assert len(lines) == 4
    assert "valid" not in lines[2] + lines[3]
    assert len(lines[3].split()) == 3


def test_what_was_found_in_time_is_a_success_with_a_warning(eim: Command, model: Path) -> None:
    outcome = eim("sample", "--model", model, *POSE, "-n", 5000, "--timeout", 0, "--json")
    assert outcome.code == 0
    assert outcome.err.startswith("eim sample: TIMED_OUT: timed out: ")
    assert 0 < outcome.json["n"] < 5000


def test_real_process_prints_json_and_refuses_in_one_line(model: Path) -> None:
    outcome = eim_process("sample", "--model", model, *POSE, "-n", 4, "--seed", 3, "--json")
    assert (outcome.code, outcome.err) == (0, "")
    assert validity(outcome.json) == [True] * 4
    eim_process("sample", "--model", model, "--pose", 1, 0, 0, 0, 0, 0, 0).refused("quaternion is zero")


def test_constraints_by_flags_hold(eim: Command, model: Path) -> None:
    words = ("--fix", "joint_1=0.4", "--limit", "joint_2=-2:", "--self-collision")
    words += sets("obstacles=[{sphere: {centre: [9, 9, 9], radius: 0.1}}]")
    answer = eim("sample", "--model", model, *POSE, "-n", 20, "--seed", 1, "--json", *words).json
    positions = np.array(answer["positions"])
    assert all(validity(answer))
    assert (positions[:, 0] == 0.4).all()
    assert (positions[:, 1] >= -2.0).all()


def test_tolerance_and_order_by_flags(eim: Command, model: Path) -> None:
    words = sets("tolerances=0.2 0.1 0 inf inf inf", "order.limits=2", "order.manipulability=1")
    answer = eim("sample", "--model", model, *POSE, "-n", 50, "--seed", 1, "--json", *words).json
    robot, _ = robot_and_oracle("planar3")
    offsets = np.abs(robot.fk(answer["positions"])[:, :2, 3] - [1.5, 0.5])
    assert all(validity(answer))
    assert (offsets <= [0.2 + 1e-6, 0.1 + 1e-6]).all()
    assert offsets.max() > 0.05


def test_posture_and_diversity_by_flags(eim: Command, model: Path) -> None:
    words = sets("posture={positions: {joint_1: 0.4, joint_3: -0.2}, weights: {joint_3: 0.5}}", "diversity=1")
    answer = eim("sample", "--model", model, *POSE, "-n", 30, "--seed", 1, "--json", *words).json
    positions = np.array(answer["positions"])
    costs = (positions[:, 0] - 0.4) ** 2 + 0.5 * (positions[:, 2] + 0.2) ** 2
    assert all(validity(answer))
    assert (np.diff(costs) >= 0.0).all()
    plain = eim("sample", "--model", model, *POSE, "-n", 30, "--seed", 1, "--json").json
    others = np.array(plain["positions"])
    assert costs[0] < ((others[:, 0] - 0.4) ** 2 + 0.5 * (others[:, 2] + 0.2) ** 2).min()


def test_meshes_are_looked_for_in_the_given_folders() -> None:
    verb: Any = read_verb(
        ["solve", "panda", "--pose", "0.4", "0.1", "0.5", "--package-path", "/a", "--package-path", "/b"]
    )
    assert verb.source.sampler().robot.collision.package_paths == ("/a", "/b")


def test_everything_in_collision_is_searched_until_the_timeout(eim: Command, model: Path) -> None:
    box = ("--box", 1.5, 0.5, 0, 0.2, 0.2, 0.2)
    outcome = eim("sample", "--model", model, *POSE, "--seed", 1, "--timeout", 0.3, *box)
    assert outcome.code == 1
    assert re.search(r"TIMED_OUT: timed out: all \d+ configurations found that reach the pose collide", outcome.err)


def test_a_mesh_is_avoided_with_its_clearance(eim: Command, model: Path, tmp_path: Path) -> None:
    """The surface of the last link, which has a radius of 0.05 m, is 0.05 m below a tetrahedron."""
    mesh = tmp_path / "tetrahedron.obj"
    corners = "v 0 0 0\nv 0.2 0 0\nv 0 0.2 0\nv 0 0 0.2\n"
    mesh.write_text(f"{corners}f 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n")
    words = ("sample", "--model", model, *POSE, "-n", 5, "--seed", 1)
    words += sets(f"obstacles=[{{mesh: {{path: {mesh}, pose: [1.45, 0.45, 0.1, 0, 0, 0, 1]}}}}]")
    assert eim(*words, *sets("clearance=0.02")).code == 0
    outcome = eim(*words, *sets("clearance=0.08"), "--timeout", 0.3)
    assert outcome.code == 1
    assert "configurations found that reach the pose collide" in outcome.err


def test_settings_of_a_file_have_the_names_of_python(eim: Command, tmp_path: Path) -> None:
    path = tmp_path / "request.yaml"
    path.write_text(
        "order: manipulability\nn: 3\nlimits: {panda_joint1: [-1, 1]}\ntool: [0, 0, 0.1]\n"
        "obstacles: [{box: {size: [0.1, 0.1, 0.1], at: [0.9, 0, 0.1]}}]\n"
    )
    words = ("sample", "--robot", "panda", "--pose", 0.4, 0.1, 0.5, 1, 0, 0, 0, "--seed", 1, "--timeout", 60, "--json")
    answer = eim(*words, "--config", path, "-n", 5).json
    positions = np.array(answer["positions"])
    robot = Robot("panda").with_tool([0, 0, 0.1])
    assert len(positions) == 5  # flags take precedence over the file
    assert (np.abs(positions[:, 0]) <= 1.0).all()
    np.testing.assert_allclose(robot.fk(positions)[:, :3, 3], np.tile([0.4, 0.1, 0.5], (5, 1)), atol=2e-6)
    assert (np.diff(robot.manipulability(positions)) <= 1e-9).all()


@pytest.mark.parametrize(("name", "start"), [("arm.png", b"\x89PNG"), ("arm.svg", b"<?xml")])
def test_picture_has_the_form_of_its_name(eim: Command, name: str, start: bytes, tmp_path: Path) -> None:
    picture = tmp_path / name
    words = ("picture", "--robot", "panda", "--pose", 0.4, 0.1, 0.5, 1, 0, 0, 0, "-n", 20, "--output", picture)
    told = eim(*words, "--json").json
    assert picture.read_bytes().startswith(start)
    assert (told["n"], told["picture"]) == (20, str(picture))
