"""Motions are exported as a LeRobot data set. If LeRobot is installed, its library reads the data."""

from __future__ import annotations

import builtins
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from motion.demonstrated import JOINTS, positions_of, two_ways

from eim_ros.core.data_set import DataSet
from eim_ros.core.errors import ConfigurationError, DataError
from eim_ros.motion.lerobot import export_to_lerobot

needs_lerobot = pytest.mark.skipif(importlib.util.find_spec("lerobot") is None, reason="LeRobot is not installed")


def test_without_the_library_it_is_refused_with_the_cure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = builtins.__import__

    def without(name: str, *arguments: Any, **more: Any) -> Any:
        if name.startswith("lerobot"):
            raise ImportError("No module named 'lerobot'")
        return found(name, *arguments, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigurationError, match="LeRobot is not installed .*pip install lerobot"):
        export_to_lerobot(two_ways(3, 0), tmp_path / "set", 30)
    assert not (tmp_path / "set").exists()


def test_existing_folder_and_motions_of_unknown_duration_are_refused(tmp_path: Path) -> None:
    motions = two_ways(3, 0)
    with pytest.raises(ConfigurationError, match="exists, and data sets are never overwritten: give another folder"):
        export_to_lerobot(motions, tmp_path, 30)
    timeless = DataSet(motions.context, motions.sample, {**motions.description, "durations": None})
    with pytest.raises(DataError, match="does not contain the durations"):
        export_to_lerobot(timeless, tmp_path / "set", 30)
    with pytest.raises(ConfigurationError, match="fps must be a whole number"):
        export_to_lerobot(motions, tmp_path / "set", 0)


@needs_lerobot
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("fps", [10, 30])
def test_lerobot_reads_the_joint_values_at_exact_times(tmp_path: Path, fps: int) -> None:
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    motions = two_ways(4, 0)
    n_episodes, n_frames = export_to_lerobot(motions, tmp_path / "set", fps, "reach")
    found = LeRobotDataset("local/motions", root=tmp_path / "set")
    assert (found.num_episodes, found.num_frames, found.fps) == (n_episodes, n_frames, fps) == (4, len(found), fps)
    assert found.features["observation.state"]["names"] == list(JOINTS)
    row = 0
    for index, duration in enumerate(motions.description["durations"]):
        times = np.linspace(0.0, duration, positions_of(motions).shape[1])
        for frame in range(int(duration * fps) + 1):
            item = found[row]
            expected = [np.interp(frame / fps, times, values) for values in positions_of(motions)[index].T]
            np.testing.assert_allclose(item["observation.state"].numpy(), expected, atol=1e-6)
            assert float(item["timestamp"]) == np.float32(frame / fps)
            assert int(item["episode_index"]) == index
            assert item["task"] == "reach"
            row += 1
    assert row == n_frames
