"""`eim map` writes a map, its picture and its figures. `eim list` lists every included robot and model."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from cli.command import Command

from eim_ros.ik import CapabilityMap
from eim_ros.ik.prior import SHIPPED_MODELS
from eim_ros.kinematics import SHIPPED_ROBOTS

SMALL = ("--robot", "panda", "--spacing", 0.3, "--box", 0.2, -0.3, 0.1, 0.8, 0.3, 0.7)
FEW = ("--approaches", 4, "--rolls", 1, "--seeds", 16, "--quiet")


def test_map_and_picture_are_written(eim: Command, tmp_path: Path) -> None:
    path, picture = tmp_path / "map.npz", tmp_path / "map.png"
    told = eim("map", *SMALL, *FEW, "--output", path, "--picture", picture, "--json").json
    found = CapabilityMap.load(path)
    assert told["poses"] == found.n_components.size == 32
    assert told["reached"] == pytest.approx((found.n_components > 0).mean(), abs=1e-4)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_every_robot_and_model_is_listed(eim: Command) -> None:
    listed = eim("list", "--json").json
    assert [robot["name"] for robot in listed["robots"]] == list(SHIPPED_ROBOTS)
    assert [model["name"] for model in listed["models"]] == list(SHIPPED_MODELS)
    panda = next(robot for robot in listed["robots"] if robot["name"] == "panda")
    assert panda == {"name": "panda", "joints": 7, "base": "panda_link0", "tip": "panda_link8"}


def test_one_kind_may_be_asked_for(eim: Command) -> None:
    robots, models = eim("list", "robots").out, eim("list", "models").out
    assert robots.count("\n") == 1 + len(SHIPPED_ROBOTS) and "models" not in robots
    assert "panda_pose       panda, given a pose: 1000 experts by eim-kinematics" in models


def test_device_maps_the_same_reach_and_a_missing_one_is_told_in_one_line(eim: Command, tmp_path: Path) -> None:
    words = ("map", "--robot", "ur5e", *SMALL[2:], "--quiet", "--approaches", 4, "--rolls", 1, "--seeds", 256)
    output = ("--output", tmp_path / "map.npz", "--json")
    told = [eim(*words, *device, *output).json for device in ((), ("--device", "cpu"))]
    assert told[0]["reached"] == told[1]["reached"] > 0.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "cuda.bindings", None)
        missing = eim(*words, "--device", "cuda", "--output", tmp_path / "other.npz")
    assert missing.code == 5 and missing.err.count("\n") == 1 and "[cuda]" in missing.err
    assert [path.name for path in tmp_path.iterdir()] == ["map.npz"]
