"""Motions get time stamps and become trajectories."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from eim_ros.bags.importing import MotionForm, import_motions
from eim_ros.bags.selection import Selection
from eim_ros.core.errors import ConfigurationError, DataError
from eim_ros.motion import joint_trajectory, write_trajectories

NAMES = ("shoulder", "elbow")
MOTIONS = np.cumsum(np.random.default_rng(0).uniform(0.01, 0.1, (3, 11, 2)), axis=1)


def test_fields_are_those_of_the_message() -> None:
    messages = pytest.importorskip("trajectory_msgs.msg")
    fields = joint_trajectory(NAMES, MOTIONS[0], 2.5)
    assert set(fields) <= set(messages.JointTrajectory.get_fields_and_field_types())
    assert set(fields["points"][0]) <= set(messages.JointTrajectoryPoint.get_fields_and_field_types())
    point = messages.JointTrajectoryPoint()
    stamp = fields["points"][-1]["time_from_start"]
    point.time_from_start.sec, point.time_from_start.nanosec = stamp["sec"], stamp["nanosec"]
    assert (point.time_from_start.sec, point.time_from_start.nanosec) == (2, 500_000_000)


def test_stamps_are_equally_spaced_and_positions_unchanged() -> None:
    fields = joint_trajectory(NAMES, MOTIONS[0], 3.0)
    stamps = [point["time_from_start"] for point in fields["points"]]
    times = [stamp["sec"] + 1e-9 * stamp["nanosec"] for stamp in stamps]
    np.testing.assert_allclose(times, np.linspace(0.0, 3.0, 11), atol=1e-9)
    np.testing.assert_array_equal([point["positions"] for point in fields["points"]], MOTIONS[0])


def test_json_contains_each_trajectory(tmp_path: Path) -> None:
    write_trajectories(tmp_path / "drawn.json", NAMES, MOTIONS, 2.0)
    expected = [joint_trajectory(NAMES, motion, 2.0) for motion in MOTIONS]
    assert json.loads((tmp_path / "drawn.json").read_text()) == expected


def test_table_is_imported_as_the_same_motions(tmp_path: Path) -> None:
    path = tmp_path / "drawn.csv"
    write_trajectories(path, NAMES, MOTIONS, 1.0)
    data_set, _ = import_motions([path], Selection(), MotionForm(n_points=11))
    assert data_set.description["durations"] == pytest.approx([1.0] * 3)
    np.testing.assert_allclose(data_set.sample.reshape(MOTIONS.shape), MOTIONS, atol=1e-8)


@pytest.mark.parametrize(
    ("positions", "duration", "reason"),
    [
        (MOTIONS[:, :1], 1.0, "at least 2 points"),
        (MOTIONS[:, :, :1], 1.0, "2 joints"),
        (MOTIONS[0], 1.0, "3 axes"),
        (MOTIONS * np.nan, 1.0, "finite"),
        (MOTIONS, 0.0, "duration"),
        (MOTIONS, np.inf, "duration"),
    ],
)
def test_bad_motion_is_refused(tmp_path: Path, positions: np.ndarray, duration: float, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        write_trajectories(tmp_path / "drawn.json", NAMES, positions, duration)


def test_other_suffix_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"must end in \.json or \.csv"):
        write_trajectories(tmp_path / "drawn.txt", NAMES, MOTIONS, 1.0)
