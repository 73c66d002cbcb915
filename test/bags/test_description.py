"""Imported motions get their joint limits from the robot descriptions in the bags."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
from bags.example_bags import Item, joint_state, label, write_own, write_sqlite, write_standard
from kinematics.descriptions import chain_urdf, joint

from eim_ros.bags.importing import MotionForm, import_motions
from eim_ros.bags.selection import BagReport, Selection
from eim_ros.core.data_set import DataSet
from eim_ros.core.errors import DataError
from eim_ros.kinematics import Robot

NAMES = ("wrist", "finger", "elbow")
LIMIT = '<limit lower="{}" upper="{}" effort="1" velocity="1"/>'


def urdf(elbow: tuple[float, float] = (-2.0, 1.5), finger: str = "finger") -> str:
    """Return the URDF of an arm with a continuous wrist, and with a finger and a tool on different branches."""
    return chain_urdf(
        joint("elbow", "revolute", "l0", "l1", LIMIT.format(*elbow)),
        joint("wrist", "continuous", "l1", "l2"),
        joint("flange", "fixed", "l2", "l3"),
        joint(finger, "prismatic", "l2", "l4", LIMIT.format(0.0, 0.04)),
    )


def described(text: str, topic: str = "/robot_description") -> Item:
    """Return the message of a robot description, which a latched topic delivers first."""
    return label(0.0, text, topic)


def moving(begin: float = 0.0, height: float = 1.0, first: float = 3.0) -> list[Item]:
    """Return a motion of 1 s in which the wrist turns by 1 rad from `first`. Its positions are wrapped at pi."""
    rows = []
    for time in np.arange(0.0, 1.0, 0.01):
        wrist = (first + time + np.pi) % (2.0 * np.pi) - np.pi
        rows.append(joint_state(begin + float(time), NAMES, [wrist, 0.04 * time, height * time]))
    return rows


def imported(*paths: Path, robot: Robot | None = None) -> tuple[DataSet, list[BagReport]]:
    return import_motions(paths, Selection(robot=robot), MotionForm(n_points=10))


@pytest.mark.parametrize("write", [write_own, write_standard, write_sqlite])
def test_description_in_the_bag_gives_the_limits(tmp_path: Path, write: Callable[[Path, Iterable[Item]], Path]) -> None:
    data_set, (report,) = imported(write(tmp_path / "bag", [described(urdf(), "/arm/robot_description"), *moving()]))
    about = data_set.description
    assert about["limits_source"] == "robot"
    assert (about["lower"], about["upper"]) == ([None, 0.0, -2.0], [None, 0.04, 1.5])  # one limit for each joint
    assert np.ptp(np.diff(data_set.sample.reshape(10, 3)[:, 0])) < 1e-9  # the wrist does not jump by a revolution
    assert report.notes == []


def test_motions_beyond_the_described_limits_are_left_out(tmp_path: Path) -> None:
    items = [described(urdf()), label(0.0, "a"), *moving(), label(1.0, "b"), *moving(1.0, height=1.6)]
    data_set, (report,) = imported(write_own(tmp_path / "bag", items))
    assert len(data_set) == 1
    assert "elbow exceeds its limits by 0.084" in report.segments[1].reason


def test_robot_has_priority_over_the_description(tmp_path: Path) -> None:
    arm = chain_urdf(joint("elbow", "revolute", "l0", "l1", LIMIT.format(-1.0, 1.0)))
    bag = write_own(tmp_path / "bag", [described(urdf()), *moving()])
    data_set, _ = imported(bag, robot=Robot(arm))
    assert (data_set.description["lower"], data_set.description["upper"]) == ([-1.0], [1.0])


def test_description_of_one_bag_holds_for_all(tmp_path: Path) -> None:
    first = write_own(tmp_path / "first", [described(urdf()), *moving()])
    data_set, _ = imported(write_own(tmp_path / "second", moving()), first)
    assert len(data_set) == 2
    assert data_set.description["upper"] == [None, 0.04, 1.5]


BROKEN = "/robot_description is not used: the robot description is not well-formed XML"


@pytest.mark.parametrize(
    ("texts", "note"),
    [
        ([], ""),
        (["<robot"], BROKEN),
        ([urdf(finger="thumb")], ""),
        ([urdf(elbow=(0.0, 0.0))], "the lower and upper limit of joint elbow on /robot_description are equal"),
        (
            [urdf(), urdf(elbow=(-1.0, 1.5))],
            "limits of joint elbow on /robot_description differ from",
        ),
    ],
)
def test_range_of_the_recording_replaces_limits_that_are_not_known(tmp_path: Path, texts: list[str], note: str) -> None:
    motion = moving(first=0.0)
    bags = [write_own(tmp_path / "bag", motion)]
    bags += [write_own(tmp_path / f"bag{i}", [described(text), *motion]) for i, text in enumerate(texts)]
    data_set, reports = imported(*bags)
    assert data_set.description["limits_source"] == "recording"
    assert data_set.description["upper"][2] == pytest.approx(0.99)
    assert [note in " ".join(report.notes) for report in reports][-1]
    assert len(data_set) == len(bags)


def test_damaged_bag_is_still_reported(tmp_path: Path) -> None:
    (tmp_path / "bad.mcap").write_bytes(b"")
    with pytest.raises(DataError, match="is empty"):
        imported(tmp_path / "bad.mcap")
