"""Model files restore mixture, robot and context. Damaged files and files of other robots are rejected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from ik.arms import ARMS, arm_of, broad_model

from eim_ros.core.errors import ModelFileError
from eim_ros.ik import IKModel
from eim_ros.ik.prior import describe_robot, robot_from_description
from eim_ros.kinematics import Robot
from eim_ros.learning.models import save_mixture_of_experts


@pytest.mark.parametrize("kind", ["position", "pose"])
@pytest.mark.parametrize("name", [*ARMS, "iiwa14"])
def test_model_comes_back(tmp_path, name: str, kind: str) -> None:
    model = broad_model(arm_of(name), kind)
    record = {"algorithm": "by hand", "seed": 3}
    IKModel(model.mixture, model.robot, kind, record).save(tmp_path / "m.safetensors")
    for loaded in (IKModel.load(tmp_path / "m.safetensors"), IKModel.load(tmp_path / "m.safetensors", model.robot)):
        for tensor_name, value in model.mixture.tensors().items():
            assert torch.equal(loaded.mixture.tensors()[tensor_name], value), tensor_name
        assert loaded.robot.fingerprint == model.robot.fingerprint
        assert loaded.robot.joint_names == model.robot.joint_names
        assert (loaded.context_kind, loaded.training) == (kind, record)


def test_same_arm_with_other_link_names_is_the_same_robot(tmp_path) -> None:
    broad_model(arm_of("gantry"), "position").save(tmp_path / "m.safetensors")
    renamed = Robot(ARMS["gantry"].replace('"l4"', '"flange"'))
    assert IKModel.load(tmp_path / "m.safetensors", renamed).robot is renamed


def saved(path: Path, robot: dict[str, Any] | Any, kind: Any = "position") -> Path:
    save_mixture_of_experts(
        path, broad_model(arm_of("gantry"), "position").mixture, {"robot": robot, "context_kind": kind}
    )
    return path


@pytest.mark.parametrize("key", ["urdf", "base_link", "tip_link", "fingerprint"])
def test_description_without_a_part_is_refused(tmp_path, key: str) -> None:
    robot = describe_robot(arm_of("gantry"))
    del robot[key]
    with pytest.raises(ModelFileError, match="no valid robot description"):
        IKModel.load(saved(tmp_path / "m.safetensors", robot))


@pytest.mark.parametrize("robot", [None, [], "gantry", 3])
def test_description_that_is_none_is_refused(tmp_path, robot: Any) -> None:
    with pytest.raises(ModelFileError, match="no valid robot description"):
        IKModel.load(saved(tmp_path / "m.safetensors", robot))


@pytest.mark.parametrize(
    "change",
    [
        {"urdf": "<robot"},
        {"urdf": ""},
        {"urdf": 5},
        {"tip_link": "hand"},
        {"tip_link": "l2"},
        {"fingerprint": "0" * 64},
        {"urdf": ARMS["gantry"].replace('lower="-1"', 'lower="-2"')},
    ],
)
def test_damaged_description_is_refused(tmp_path, change: dict[str, Any]) -> None:
    with pytest.raises(ModelFileError, match="no valid robot description|does not match its fingerprint"):
        IKModel.load(saved(tmp_path / "m.safetensors", describe_robot(arm_of("gantry")) | change))


def test_description_cannot_name_a_file(tmp_path) -> None:
    """A model may come from an untrusted source, so it must not choose which files are read."""
    robot = arm_of("gantry")
    (tmp_path / "gantry.urdf").write_text(robot.urdf)
    with pytest.raises(ModelFileError, match="its URDF is not XML"):
        robot_from_description(describe_robot(robot) | {"urdf": str(tmp_path / "gantry.urdf")}, "the model")


@pytest.mark.parametrize("kind", ["attitude", None, ["position"], 3])
def test_unknown_kind_of_context_is_refused(tmp_path, kind: Any) -> None:
    with pytest.raises(ModelFileError, match="not an inverse kinematics model: its context kind is"):
        IKModel.load(saved(tmp_path / "m.safetensors", describe_robot(arm_of("gantry")), kind))


def test_record_of_the_training_that_is_none_is_refused(tmp_path) -> None:
    model = broad_model(arm_of("gantry"), "position")
    description = {"context_kind": "position", "robot": describe_robot(model.robot), "training": [1]}
    save_mixture_of_experts(tmp_path / "m.safetensors", model.mixture, description)
    with pytest.raises(ModelFileError, match="no valid record of its training"):
        IKModel.load(tmp_path / "m.safetensors")


@pytest.mark.parametrize(("name", "kind"), [("gantry", "pose"), ("iiwa14", "position")])
def test_mixture_of_other_dimensions_than_the_robot_is_refused(tmp_path, name: str, kind: str) -> None:
    with pytest.raises(ModelFileError, match=r"has 3 joints and 3 context values, but its robot has"):
        IKModel.load(saved(tmp_path / "m.safetensors", describe_robot(arm_of(name)), kind))


def test_truncated_file_is_refused(tmp_path) -> None:
    path = saved(tmp_path / "m.safetensors", describe_robot(arm_of("gantry")))
    content = path.read_bytes()
    for length in range(0, len(content), 499):
        path.write_bytes(content[:length])
        with pytest.raises(ModelFileError, match=r"m\.safetensors"):
            IKModel.load(path)
