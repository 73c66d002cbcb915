"""Pairs are collected from suitable joint states, other joint states are skipped, and training reads the pairs."""

from __future__ import annotations

import numpy as np
import pytest

from eim_ros.core.errors import DataError
from eim_ros.ik.data import PairCollector, context_kind_of, robot_of
from eim_ros.kinematics import Robot

ROBOT = Robot("planar3")
TURNER = (
    '<robot name="turner"><link name="base"/><link name="tip"/><joint name="turn" type="continuous">'
    '<parent link="base"/><child link="tip"/><axis xyz="0 0 1"/></joint></robot>'
)


def collector(robot: Robot = ROBOT, n_wanted: int = 100, min_distance: float = 0.1) -> PairCollector:
    return PairCollector(robot, "pose", n_wanted, min_distance)


@pytest.mark.parametrize(
    ("names", "positions", "reason"),
    [
        (ROBOT.joint_names, [0.0, 0.0, np.nan], "not finite"),
        (ROBOT.joint_names[:2], [0.0, 0.0], "without joint_3"),
        (("a", "b", "c"), [0.0, 0.0, 0.0], "other joints"),
        (ROBOT.joint_names, [0.0, 3.5, 0.0], "joint_2 exceeds its limits by 0.358"),
        (ROBOT.joint_names, [0.01, 0.05, 0.0], "closer than min_distance to the previous one"),
    ],
)
def test_unusable_joint_state_is_left_out_with_its_reason(names, positions, reason: str) -> None:
    pairs = collector()
    assert pairs.add_state(ROBOT.joint_names, [0.0, 0.0, 0.0])
    assert not pairs.add_state(names, positions)
    assert (len(pairs), pairs.n_dropped) == (1, 1)
    assert reason in pairs.problem
    assert pairs.add_state(ROBOT.joint_names, [0.0, 0.2, 0.0])
    assert pairs.problem == ""


def test_continuous_joint_is_brought_into_one_turn() -> None:
    pairs = collector(Robot(TURNER))
    assert pairs.add_state(["turn"], [7.0])
    assert np.allclose(pairs.data_set({}).sample, 7.0 - 2.0 * np.pi)


def test_sampling_ends_at_the_wanted_number() -> None:
    pairs = collector(n_wanted=70)
    for _ in range(3):
        pairs.sample(30, np.random.default_rng(len(pairs)))
    assert pairs.is_full
    data_set = pairs.data_set({"source": "test"})
    assert len(data_set) == 70
    assert robot_of(data_set, ROBOT) is ROBOT
    assert context_kind_of(data_set) == "pose"
    assert data_set.description["source"] == "test"


def test_nothing_makes_no_data_set() -> None:
    with pytest.raises(DataError, match="there are no pairs to write"):
        collector().data_set({})
