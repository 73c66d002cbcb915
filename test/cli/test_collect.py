"""`eim collect`: what it writes and says, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cli.command import Command, eim_process
from kinematics.descriptions import ALL_TYPES, random_urdf

from eim_ros.cli.main import ExitCode
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


def test_same_seed_writes_the_same_data(eim: Command, tmp_path: Path) -> None:
    sets = []
    for name, seed in (("a", 7), ("b", 7), ("c", 8)):
        eim("collect", "--robot", "planar3", "--samples", 20, "--seed", seed, "--output", tmp_path / name)
        sets.append(load_data_set(tmp_path / name))
    assert np.array_equal(sets[0].sample, sets[1].sample)
    assert not np.array_equal(sets[0].sample, sets[2].sample)
    assert sets[2].description["seed"] == 8


def test_missing_folder_is_created_and_nothing_else_is_left(eim: Command, tmp_path: Path) -> None:
    assert eim("collect", "--robot", "planar3", "--samples", 5, "--output", tmp_path / "new" / "d.npz").code == 0
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["d.npz"]


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


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--robot", "nobody"), "no shipped robot 'nobody': there are"),
        (("--robot", "arm/none.urdf"), "cannot read robot description 'arm/none.urdf': No such file"),
        (("--robot", "planar3", "--tip", "hand"), "no tip link 'hand'; its links:"),
        (("--robot", "planar3", "--base", "foot"), "no base link 'foot'"),
        (("--robot", "planar3", "--samples", "0"), "must be between 1 and"),
        (("--robot", "planar3", "--samples", "-5"), "must be between 1 and"),
        (("--robot", "planar3", "--samples", "many"), "expected a whole number, got 'many'"),
        (("--robot", "planar3", "--samples", "1e4"), "expected a whole number"),
        (("--robot", "planar3", "--samples", "1900000000"), "not enough memory"),
        (("--robot", "planar3", "--samples", "1" + 30 * "0"), "must be between 1 and"),
        (("--robot", "planar3", "--seed", "-1"), "must be between 0 and"),
        (("--robot", "planar3", "--context", "colour"), "invalid choice: 'colour'"),
    ],
)
def test_bad_input_is_one_line_and_no_file(eim: Command, tmp_path: Path, words: tuple[str, ...], reason: str) -> None:
    if "1900000000" in words and _memory() > 40e9:
        pytest.skip("this machine has the memory")
    outcome = eim("collect", *words, "--output", tmp_path / "d.npz")
    if reason == "not enough memory":
        assert (outcome.code, outcome.err.count("\n")) == (ExitCode.RESOURCES, 1) and reason in outcome.err
    else:
        outcome.refused(reason)
    assert not (tmp_path / "d.npz").exists()


@pytest.mark.parametrize(("text", "reason"), [("<robot", "XML"), ("", "XML"), ("<a/>", "must start with <robot>")])
def test_broken_urdf_is_one_line(eim: Command, tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "arm.urdf").write_text(text)
    eim("collect", "--robot", tmp_path / "arm.urdf", "--output", tmp_path / "d.npz").refused(reason)


def test_output_that_cannot_be_written_is_one_line(eim: Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    eim("collect", "--robot", "planar3", "--output", tmp_path / "file" / "d.npz").refused("cannot create folder")
    eim("collect", "--robot", "planar3", "--output", tmp_path).refused("is a folder")


def test_real_process_with_a_file_in_another_folder(tmp_path: Path) -> None:
    (tmp_path / "arm.urdf").write_text(ALL_TYPES)
    outcome = eim_process("collect", "--robot", "arm.urdf", "--samples", 3, "--output", "d.npz", folder=tmp_path)
    assert (outcome.code, outcome.err) == (0, "")
    assert len(load_data_set(tmp_path / "d.npz")) == 3


def _memory() -> float:
    """[byte]"""
    lines = Path("/proc/meminfo").read_text().splitlines()
    sizes = {line.partition(":")[0]: 1024.0 * float(line.split()[1]) for line in lines}
    return sizes["MemTotal"] + sizes["SwapTotal"]
