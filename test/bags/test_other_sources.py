"""Motions are also imported from trajectories in bags, and from tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bags.example_bags import SECOND, START, TYPES, Item, header, joint_state, label, write_own

from eim_ros.bags.content import TRAJECTORY
from eim_ros.bags.importing import MotionForm, PairForm, import_motions, import_pairs
from eim_ros.bags.selection import Selection
from eim_ros.core.errors import DataError
from eim_ros.kinematics import Robot

NAMES = ("j1", "j2")
TIMES = np.arange(0.0, 2.0, 0.01)
SWING = np.column_stack([np.sin(TIMES), 0.5 * TIMES])


def trajectory(time: float, moments: Sequence[float], positions: Any, names: Sequence[str] = NAMES) -> Item:
    """Return a trajectory whose points are at `moments` [s] after its start."""
    types, none = TYPES.types, np.zeros(0)
    points = []
    for moment, row in zip(moments, positions, strict=True):
        whole = int(moment)
        duration = types["builtin_interfaces/msg/Duration"](sec=whole, nanosec=round((moment - whole) * SECOND))
        point = types["trajectory_msgs/msg/JointTrajectoryPoint"](
            positions=np.array(row, dtype=float),
            velocities=none,
            accelerations=none,
            effort=none,
            time_from_start=duration,
        )
        points.append(point)
    stamp = START + round(time * SECOND)
    return "/plan", TRAJECTORY, stamp, types[TRAJECTORY](header=header(stamp), joint_names=list(names), points=points)


def test_each_trajectory_is_a_motion_with_its_own_times_and_label(tmp_path: Path) -> None:
    """Waypoints may be seconds apart, and a trajectory may be sent before the previous one has ended."""
    items = [
        label(0.1, "reach"),  # recorded at the same time as the trajectory
        trajectory(0.1, [0.0, 1.5, 4.0], [[0.0, 0.0], [1.0, 0.5], [2.0, -1.0]]),
        label(1.0, "return"),
        trajectory(1.1, [0.0, 2.0], [[-1.0, 2.0], [0.0, 0.0]], NAMES[::-1]),
    ]
    data_set, (report,) = import_motions([write_own(tmp_path / "bag", items)], Selection(), MotionForm(n_points=9))
    assert data_set.description["labels"] == ["reach", "return"]
    assert data_set.description["durations"] == pytest.approx([4.0, 2.0])
    moments = np.linspace(0.0, 4.0, 9)
    expected = np.column_stack([np.interp(moments, [0, 1.5, 4], v) for v in ([0, 1, 2], [0, 0.5, -1])])
    np.testing.assert_allclose(data_set.sample[0].reshape(9, 2), expected, atol=1e-6)
    np.testing.assert_allclose(data_set.sample[1].reshape(9, 2)[[0, -1]], [[2.0, -1.0], [0.0, 0.0]], atol=1e-9)
    assert report.n_used == 2


def test_joint_states_count_where_there_are_both_unless_trajectories_are_asked_for(tmp_path: Path) -> None:
    items = [joint_state(0.01 * i, NAMES, [0.01 * i, 0.0]) for i in range(100)]
    items.append(trajectory(0.5, [0.0, 1.0], [[0.0, 0.0], [1.0, 7.0]]))
    bag = write_own(tmp_path / "bag", sorted(items, key=lambda item: item[2]))
    assert import_motions([bag], Selection(), MotionForm())[0].sample.max() < 1.0
    assert import_motions([bag], Selection(joint_topics=("/plan",)), MotionForm())[0].sample.max() == pytest.approx(7.0)


@pytest.mark.parametrize(
    ("moments", "reason"),
    [([0.0], "1 with fewer than 2 points"), ([1.0, 0.5], "whose points are not in the order of their times")],
)
def test_bad_trajectories_are_left_out_with_their_reason(tmp_path: Path, moments: list[float], reason: str) -> None:
    bag = write_own(tmp_path / "bag", [trajectory(0.0, moments, [[0.0, 0.0]] * len(moments))])
    with pytest.raises(DataError, match=f"no usable trajectories: .*{reason}"):
        import_motions([bag], Selection(), MotionForm())


def write_csv(path: Path, rows: Sequence[Sequence[Any]], first: str = "time,j1,j2,label") -> Path:
    path.write_text("\n".join([first, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


def test_table_becomes_motions_by_its_labels(tmp_path: Path) -> None:
    labels = ["a"] * 100 + ["b"] * 100
    rows = [(t, *q, name) for t, q, name in zip(TIMES, SWING, labels, strict=True)]
    as_csv = write_csv(tmp_path / "motions.csv", rows)
    np.savez(tmp_path / "motions.npz", time=TIMES, positions=SWING, joint_names=NAMES, label=labels)
    for path in (as_csv, tmp_path / "motions.npz"):
        data_set, _ = import_motions([path], Selection(), MotionForm(n_points=100))
        assert data_set.description["labels"] == ["a", "b"]
        np.testing.assert_allclose(data_set.sample.reshape(200, 2), SWING, atol=1e-6)
        wanted, _ = import_motions([path], Selection(joint_names=("j2",)), MotionForm(n_points=100))
        np.testing.assert_allclose(wanted.sample.ravel(), SWING[:, 1], atol=1e-6)


def test_table_becomes_pairs(tmp_path: Path) -> None:
    robot = Robot("planar3")
    q = np.column_stack([TIMES, 1.0 - TIMES, np.sin(TIMES)])
    np.savez(tmp_path / "motions.npz", time=TIMES, positions=q, joint_names=robot.joint_names)
    poses, found, _ = import_pairs([tmp_path / "motions.npz"], Selection(robot=robot), PairForm())
    np.testing.assert_array_equal(found, q)
    np.testing.assert_array_equal(poses, robot.fk(q))


@pytest.mark.parametrize(
    ("first", "row", "reason"),
    [
        ("t,j1", (0.0, 1.0), "must contain the names of the columns, with a column 'time'"),
        ("time,j1,j1", (0.0, 1.0, 1.0), "several columns are named 'j1'"),
        ("time", (0.0,), "it has no column of a joint"),
        ("time,j1", (0.0, "x"), "line 2: could not convert"),
        ("time,j1", (0.0, 1.0, 2.0), "line 2 has 3 columns, but the first line has 2"),
        ("time,j1", (1.7e18, 1.0), "times must be in seconds"),
        ("time,j1", (0.0, "nan"), "no row with finite numbers only"),
        ("time,k1", (0.0, 1.0), "has no joint j1; its joints are k1"),
    ],
)
def test_bad_table_is_refused_with_its_cause(tmp_path: Path, first: str, row: tuple, reason: str) -> None:
    path = write_csv(tmp_path / "bad.csv", [row], first)
    with pytest.raises(DataError, match=reason):
        import_motions([path], Selection(joint_names=("j1",)), MotionForm())


def test_other_archive_is_told_what_it_lacks_and_a_table_has_no_topics(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", sample=TIMES, description=np.array("{}"))
    with pytest.raises(
        DataError, match="has no array time, positions, joint_names, .* a data set, which needs no import"
    ):
        import_motions([tmp_path / "x.npz"], Selection(), MotionForm())
    np.savez(tmp_path / "y.npz", time=TIMES, positions=SWING, joint_names=NAMES)
    with pytest.raises(DataError, match="is a table, which has no topics: leave out the topic /goal"):
        import_motions([tmp_path / "y.npz"], Selection(), MotionForm(contexts=("/goal",)))
