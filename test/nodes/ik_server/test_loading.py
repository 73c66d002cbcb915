"""Tests of what `load_sampler` accepts and refuses, without ROS processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from eim_ros.core.errors import ConfigurationError, EimError, ModelFileError
from eim_ros.core.files import read_tensor_file, write_tensor_file
from eim_ros.kinematics import Robot
from eim_ros.learning.models.serialization import MODEL_KIND, MODEL_SCHEMA
from eim_ros.nodes.ik_server.node import load_sampler, name_of_model
from eim_ros.nodes.settings import IkServerSettings


def bad_file(kind: str, good: Path, path: Path) -> None:
    content = good.read_bytes()
    if kind == "truncated":
        path.write_bytes(content[: len(content) // 2])
    elif kind == "cut in its header":
        path.write_bytes(content[:100])
    elif kind == "empty":
        path.touch()
    elif kind == "of torch.save":
        torch.save({"experts": torch.zeros(3)}, path)
    elif kind == "of another schema":
        tensors, document = read_tensor_file(good, kind=MODEL_KIND, schema=MODEL_SCHEMA)
        write_tensor_file(path, tensors, document, kind=MODEL_KIND, schema=9)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("missing", "cannot read"),
        ("empty", "truncated"),
        ("truncated", "truncated"),
        ("cut in its header", "truncated"),
        ("of torch.save", "the only format that is loaded"),
        ("of another schema", "schema version 9"),
    ],
)
def test_bad_model_file_is_refused_with_its_reason(model: Path, tmp_path: Path, kind: str, reason: str) -> None:
    path = tmp_path / "model.safetensors"
    bad_file(kind, model, path)
    with pytest.raises(ModelFileError, match=reason):
        load_sampler(IkServerSettings(model=str(path)))


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"robot": "panda"}, "was trained for robot 'iiwa14'.*the axis of joint 2 'panda_joint2' is off by"),
        ({"tip_link": "link_5"}, ""),
        ({"base_link": "no_such_link"}, ""),
    ],
)
def test_model_for_another_robot_is_refused(model: Path, given: dict[str, str], reason: str) -> None:
    with pytest.raises(ModelFileError, match=f"(?s){reason}"):
        load_sampler(IkServerSettings(model=str(model), **given))


def test_unknown_robot_is_refused_with_its_name(model: Path) -> None:
    with pytest.raises(EimError, match="no_such_robot"):
        load_sampler(IkServerSettings(model=str(model), robot="no_such_robot"))


def test_device_is_no_setting_since_requests_are_served_on_the_cpu() -> None:
    with pytest.raises(ConfigurationError, match="unknown setting device"):
        IkServerSettings.from_mapping({"device": "cuda"})


@pytest.mark.parametrize(
    ("source", "with_model"),
    [("model", True), *((source, given) for source in ("name", "path", "description") for given in (True, False))],
)
def test_robot_may_come_from_each_source(model: Path, tmp_path: Path, source: str, with_model: bool) -> None:
    arm, path = Robot("iiwa14"), tmp_path / "arm.urdf"
    path.write_text(arm.urdf, encoding="utf-8")
    given = {"name": "iiwa14", "path": str(path)}.get(source, "")
    settings = IkServerSettings(
        model=str(model) if with_model else "none", robot=given, base_link=arm.base_link, tip_link=arm.tip_link
    )
    sampler = load_sampler(settings, arm.urdf if source == "description" else "")
    assert (sampler.robot.fingerprint, bool(sampler.n_experts)) == (arm.fingerprint, with_model)
    assert name_of_model(settings, sampler) == (str(model) if with_model else "none")


def test_neither_model_nor_robot_is_the_shipped_model_and_a_robot_alone_has_none() -> None:
    sampler = load_sampler(IkServerSettings())
    assert name_of_model(IkServerSettings(), sampler) == "iiwa14_pose"
    assert sampler.n_experts > 0
    assert load_sampler(IkServerSettings(robot="panda")).n_experts == 0


def test_no_model_needs_a_robot() -> None:
    with pytest.raises(EimError, match="there is neither a model nor a robot"):
        load_sampler(IkServerSettings(model="none"))


def test_server_of_a_linear_model_needs_no_torch() -> None:
    code = """
import sys
from eim_ros.nodes.ik_server.node import IkServer
from eim_ros.nodes.ik_server.node import load_sampler, name_of_model
from eim_ros.nodes.settings import IkServerSettings
sampler = load_sampler(IkServerSettings())
assert sampler.sample(sampler.robot.fk(sampler.robot.upper), 2, seed=0)
print(sorted({"torch", "matplotlib", "scipy.optimize"} & set(sys.modules)))
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert (result.returncode, result.stdout) == (0, "[]\n"), result.stderr
