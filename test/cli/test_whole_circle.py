"""Collect, train, evaluate, sample: with a shipped robot in real processes, and with a user's own URDF."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from cli.command import Command, eim_process, validity
from cli.conftest import FAST, FAST_EIM
from kinematics.descriptions import random_urdf
from kinematics.oracle import Oracle

from eim_ros.kinematics import Robot


def test_shipped_robot_trained_in_a_real_process(eim: Command, tmp_path: Path, data: Path) -> None:
    path = tmp_path / "m.safetensors"
    words = ("train", "--robot", "planar3", "--data", data, "--output", path, "--json", *FAST_EIM, "--iterations", 3)
    trained = eim_process(*words)
    assert (trained.code, trained.err, trained.json["algorithm"]) == (0, "", "eim-kinematics")
    assert eim("evaluate", "--model", path, "--data", data, "--json").json["rmse_position"] < 4.0
    answer = eim("sample", "--model", path, "--pose", 1, -1, 0, "-n", 30, "--timeout", 60, "--json").json
    assert validity(answer) == [True] * 30
    reached = Robot("planar3").fk(np.array(answer["positions"]))[:, :3, 3]
    assert np.allclose(reached, [1.0, -1.0, 0.0], rtol=0, atol=1e-6)


def test_urdf_of_a_user_with_base_and_tip(eim: Command, tmp_path: Path) -> None:
    """A tree with side branches, all kinds of joints and meshes that do not exist; the whole pose as context."""
    path = tmp_path / "arm.urdf"
    path.write_text(random_urdf(5, 8))
    flags = ("--robot", path, "--base", "l0", "--tip", "l8")
    data, model = tmp_path / "d.npz", tmp_path / "m.safetensors"
    assert eim("collect", *flags, "--samples", 300, "--context", "pose", "--output", data).code == 0
    trained = eim("train", *flags, "--data", data, "--algorithm", "em", "--output", model, "--iterations", 5, *FAST)
    assert trained.code == 0, trained.err
    figures = eim("evaluate", "--model", model, "--data", data, "--json").json
    assert 0.0 < figures["median_orientation"] <= np.pi
    path.unlink()  # the model knows its robot
    robot = Robot(random_urdf(5, 8), "l8", base="l0")
    q = robot.random(1, np.random.default_rng(0))[0]
    wanted = robot.fk(q)
    answer = eim("sample", "--model", model, "--pose", *wanted[:3, 3], "-n", 20, "--timeout", 60, "--json").json
    assert answer["joint_names"] == list(robot.joint_names)
    oracle = Oracle(random_urdf(5, 8), robot)
    errors = [oracle.errors(np.array(row), wanted)[0] for row in answer["positions"]]
    assert validity(answer) == [True] * len(errors)
    assert max(errors) <= 1e-6 + 1e-12


def test_robot_of_another_base_is_another_robot(eim: Command, tmp_path: Path) -> None:
    path = tmp_path / "arm.urdf"
    path.write_text(random_urdf(5, 8))
    data = tmp_path / "d.npz"
    assert eim("collect", "--robot", path, "--tip", "l8", "--samples", 20, "--output", data).code == 0
    eim("train", "--robot", path, "--base", "l2", "--tip", "l8", "--data", data, "--output", tmp_path / "m").refused(
        "(l0 to l8), not of", "(l2 to l8)"
    )
