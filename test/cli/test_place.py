"""`eim place`: the best bases as a table or JSON, poses from a file, obstacles in the world, exit codes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cli.command import Command

from eim_ros.ik.placement import base_grid
from eim_ros.kinematics import Robot, pose_from

FEW = ("place", "--robot", "ur5e", "--quiet", "--spacing", "0.4", "--refine", "1", "--x", "0.2", "1.4", "--y", "0", "0")
POSE = ("1", "0", "0.3", "1", "0", "0", "0")


def test_configurations_of_the_best_base_reach_the_poses(eim: Command, tmp_path: Path) -> None:
    (tmp_path / "poses.txt").write_text("1.0 0.1 0.3 1 0 0 0\n1.0,-0.1,0.3,1,0,0,0\n", encoding="utf-8")
    answer = eim(*FEW, "--poses", tmp_path / "poses.txt", "--json")
    best = answer.json["best"][0]
    assert (answer.code, answer.json["bases"], best["reached"]) == (0, 4, 2)
    *place, yaw = best["base"]
    reached = pose_from(place, rpy=(0.0, 0.0, yaw)) @ Robot("ur5e").fk(np.array(best["positions"]))
    assert reached[:, :3, 3] == pytest.approx(np.array([[1.0, 0.1, 0.3], [1.0, -0.1, 0.3]]), abs=2e-6)


def test_table_has_one_line_for_each_of_the_best(eim: Command) -> None:
    answer = eim(*FEW, "--pose", *POSE, "--top", "2")
    assert answer.code == 0
    assert answer.out.count("\n") == 3
    assert answer.out.splitlines()[1].split()[4] == "1/1"


def test_obstacle_of_the_world_makes_the_pose_unreachable(eim: Command) -> None:
    answer = eim(*FEW, "--pose", *POSE, "--box", "1", "0", "0.3", "0.2", "0.2", "0.2", "--json")
    assert (answer.code, answer.json["best"][0]["reached"]) == (1, 0)
    assert answer.json["best"][0]["positions"] == [None]


def test_grid_goes_as_far_as_the_arm_reaches(eim: Command) -> None:
    reach = Robot("ur5e").reach
    words = ("place", "--robot", "ur5e", "--quiet", "--spacing", "0.8", "--refine", "0", "--pose", *POSE, "--json")
    assert eim(*words).json["bases"] == len(base_grid((1.0 - reach, 1.0 + reach), (-reach, reach), 0.8))


def test_device_places_the_base_as_the_processor_and_refuses_obstacles(eim: Command) -> None:
    best = [eim(*FEW, "--pose", *POSE, *device, "--json").json["best"][0] for device in ((), ("--device", "cpu"))]
    assert best[0]["base"] == pytest.approx(best[1]["base"]) and best[0]["components"] == best[1]["components"]
    answer = eim(*FEW, "--pose", *POSE, "--device", "cpu", "--box", "1", "0", "0.3", "0.2", "0.2", "0.2")
    assert answer.code == 2 and "do not support obstacles" in answer.err
