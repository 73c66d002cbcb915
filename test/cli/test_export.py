"""`eim export`: refused with the cause; what it writes is looked at in test/motion."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from cli.command import Command
from motion.demonstrated import two_ways

from eim_ros.core.data_set import save_data_set


@pytest.fixture
def motions(tmp_path: Path) -> Path:
    save_data_set(tmp_path / "motions.npz", two_ways(3, 0))
    return tmp_path / "motions.npz"


@pytest.mark.skipif(importlib.util.find_spec("lerobot") is not None, reason="LeRobot is installed")
def test_without_lerobot_the_cure_is_told(eim: Command, tmp_path: Path, motions: Path) -> None:
    eim("export", motions, "--lerobot", tmp_path / "set").refused("needs LeRobot's library", "pip install lerobot")
    assert not (tmp_path / "set").exists()


def test_bad_input_is_one_line(eim: Command, tmp_path: Path, motions: Path, data: Path) -> None:
    eim("export", motions, "--lerobot", tmp_path).refused("exists; name a new folder")
    eim("export", motions, "--lerobot", tmp_path / "set", "--fps", 0).refused("--fps")
    eim("export", data, "--lerobot", tmp_path / "set").refused("does not contain motions")
    eim("export", motions, "--lerobot", motions / "set").refused("cannot create folder")
