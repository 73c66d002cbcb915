"""`eim collect`: what it writes and says, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from cli.command import Command, eim_process
from kinematics.descriptions import ALL_TYPES, random_urdf

from eim_ros.core.data_set import load_data_set
from eim_ros.kinematics import Robot


def test_json_tells_what_was_written(eim: Command, tmp_path: Path) -> None:
    path = tmp_path / "d.npz"
    outcome = eim("collect", "--robot", "iiwa14", "--samples", 50, "--context", "pose", "--output", path, "--json")
    assert (outcome.code, outcome.err) == (0, "")
    joint_names = list(Robot("iiwa14").joint_names)
    assert outcome.json == {"output": str(path), "n_samples": 50, "context": "pose", "joint_names": joint_names}
    data_set = load_data_set(path)
    assert data_set.context.shape == (50, 9)
    assert data_set.sample.shape == (50, 7)


def test_one_line_without_json(eim: Command, tmp_path: Path) -> None:
    outcome = eim("collect", "--robot", "planar3", "--samples", 5, "--output", tmp_path / "d.npz")
    assert outcome.out == f"wrote 5 pairs of planar3 (base_link to tip_link, 3 joints) to {tmp_path / 'd.npz'}\n"


def test_position_is_the_default_context(data: Path) -> None:
    data_set = load_data_set(data)
    reached = Robot("planar3").fk(data_set.sample)
    assert np.allclose(data_set.context, reached[:, :3, 3], rtol=0, atol=1e-12)


def test_any_urdf_with_base_and_tip(eim: Command, tmp_path: Path) -> None:
    urdf = tmp_path / "arm.urdf"
    urdf.write_text(random_urdf(2, 5))
    words = ("collect", "--robot", urdf, "--samples", 10, "--output", tmp_path / "d.npz")
    assert "--tip selects another link" in eim(*words).err
    outcome = eim(*words, "--base", "l1", "--tip", "l4", "--json")
    robot = Robot(urdf, "l4", base="l1")
    assert outcome.json["joint_names"] == list(robot.joint_names)
    assert np.allclose(
        load_data_set(tmp_path / "d.npz").context,
        robot.fk(load_data_set(tmp_path / "d.npz").sample)[:, :3, 3],
        rtol=0,
        atol=1e-12,
    )


def test_real_process_with_a_file_in_another_folder(tmp_path: Path) -> None:
    (tmp_path / "arm.urdf").write_text(ALL_TYPES)
    outcome = eim_process("collect", "--robot", "arm.urdf", "--samples", 3, "--output", "d.npz", folder=tmp_path)
    assert (outcome.code, outcome.err) == (0, "")
    assert len(load_data_set(tmp_path / "d.npz")) == 3
