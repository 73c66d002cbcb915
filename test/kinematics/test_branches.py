"""Branch labels agree with labels from pinocchio's frames, and do not depend on the zeros of joints in the URDF."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from kinematics.branch_judge import ARMS, labels_of
from kinematics.six_joint_arms import URDFS, random_arm
from kinematics.six_revolute_arms import ARMS as SIX_REVOLUTE_ARMS

from eim_ros.core.errors import ConstraintError
from eim_ros.kinematics import Robot
from eim_ros.kinematics.branches import NAMES, checked_branch

MOVABLE = {"KUKA KR 6 R700": 6, "ABB IRB 120": 6, "Puma 560": 6, "UR5": 4}  # joints that the tests reverse
JOINT = (
    r'(<joint name="joint{}".*?<origin xyz="[^"]*")(/><axis xyz=")([^"]*)("/><limit lower=")([^"]*)(" upper=")([^"]*)'
)


def words(robot: Robot, q: np.ndarray) -> list[tuple[str, ...]]:
    labels = robot.branches.labels(q)
    return list(zip(*(labels[name].tolist() for name in NAMES), strict=True))


def reversed_at(urdf: str, joint: int) -> str:
    """Return the URDF of the same arm with the axis of a joint reversed."""

    def turned(found: re.Match[str]) -> str:
        axis = " ".join(str(-float(word)) for word in found[3].split())
        return f"{found[1]}{found[2]}{axis}{found[4]}{-float(found[7])}{found[6]}{-float(found[5])}"

    return re.sub(JOINT.format(joint), turned, urdf)


def zeroed_at(urdf: str, joint: int, zero: float) -> str:
    """Return the URDF of the same arm with the zero of a joint at another angle [rad]."""

    def turned(found: re.Match[str]) -> str:
        rpy = " ".join(str(zero * float(word)) for word in found[3].split())
        limits = float(found[5]) - zero, float(found[7]) - zero
        return f'{found[1]} rpy="{rpy}"{found[2]}{found[3]}{found[4]}{limits[0]}{found[6]}{limits[1]}'

    return re.sub(JOINT.format(joint), turned, urdf)


@pytest.mark.parametrize("name", ARMS)
def test_labels_are_those_of_the_judge(name: str) -> None:
    robot = Robot(ARMS[name].urdf)
    q = robot.random(300, seed=0)
    labels = words(robot, q)
    assert labels == labels_of(ARMS[name], q)
    assert set(labels) == set(itertools.product(*NAMES.values()))


@pytest.mark.parametrize("name", MOVABLE)
def test_labels_do_not_depend_on_the_zeros_and_directions_of_joints(name: str) -> None:
    robot = Robot(URDFS[name])
    q = robot.random(50, seed=1)
    labels = words(robot, q)
    for joint in range(6):
        other = q.copy()
        other[:, joint] *= -1.0
        if joint < MOVABLE[name]:
            assert words(Robot(reversed_at(URDFS[name], joint + 1)), other) == labels
        other = q.copy()
        other[:, joint] -= 0.7
        moved = Robot(zeroed_at(URDFS[name], joint + 1, 0.7))
        np.testing.assert_allclose(moved.fk(other), robot.fk(q), atol=1e-12)
        assert words(moved, other) == labels


def test_tool_does_not_change_labels() -> None:
    robot = Robot("ur5e")
    q = robot.random(50, seed=2)
    assert words(robot.with_tool([0.1, -0.2, -0.5, 0.6, 0.0, 0.0, 0.8]), q) == words(robot, q)


@pytest.mark.parametrize(
    ("source", "q", "name"),
    [
        (URDFS["KUKA KR 6 R700"], [0.3, 0.4, np.arctan2(0.035, 0.365), 0.5, 0.6, 0.7], "elbow"),
        ("iiwa14", [0.3, 0.4, 0.5, 0.0, 0.6, 0.7, 0.8], "elbow"),
        ("iiwa14", [0.3, 0.0, 0.5, 0.6, 0.7, 0.8, 0.9], "shoulder"),
        ("iiwa14", [0.3, 0.4, 0.5, 0.6, 0.7, 0.0, 0.9], "wrist"),
        ("ur5e", [0.3, -1.0, 0.0, 0.5, 0.6, 0.7], "elbow"),
        ("ur5e", [0.3, -1.0, 1.2, 0.5, np.pi, 0.7], "wrist"),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 10 else "",
)
def test_singular_configurations_have_no_label_and_are_in_no_branch(source: str, q: list[float], name: str) -> None:
    branches = Robot(source).branches
    labels = branches.labels([q])
    assert [key for key in labels if not labels[key][0]] == [name]
    assert not any(branches.matches([q], {name: label})[0] for label in NAMES[name])


def test_elbow_beside_a_vertical_line_from_shoulder_to_wrist_is_neither_up_nor_down() -> None:
    robot, bend = Robot("iiwa14"), -1.0
    vertical = np.arctan2(0.4 * np.sin(bend), 0.42 + 0.4 * np.cos(bend))  # angle at the shoulder [rad]
    labels = robot.branches.labels([[0.0, vertical + step, 0.0, bend, 0.0, 0.8, 0.0] for step in (-0.01, 0.0, 0.01)])
    assert labels["elbow"].tolist() == ["down", "", "up"]


@pytest.mark.parametrize(
    ("source", "names", "reason"),
    [
        ("panda", (), "first three axes, or its last three axes, do not meet"),
        ("fetch", (), "first three axes, or its last three axes, do not meet|all of them revolute"),
        ("planar3", (), "six or seven joints, all of them revolute"),
        (random_arm("spherical shoulder", 0), (), "last three axes do not meet in a point"),
        (random_arm("spherical wrist", 0), ("shoulder", "wrist"), "axes 2 and 3 are not parallel"),
    ],
    ids=["panda", "fetch", "planar3", "spherical shoulder", "spherical wrist"],
)
def test_arm_without_a_name_says_why(source: str, names: tuple[str, ...], reason: str) -> None:
    branches = Robot(source).branches
    assert branches.names == tuple(branches.labels(Robot(source).random(2, seed=0))) == names
    with pytest.raises(ConstraintError, match=f"'elbow' is not defined for robot '.*', because .*{reason}"):
        branches.matches([], {"elbow": "up"})


def test_calibrated_arms_have_names() -> None:
    """Labels of a calibrated arm and of the exact arm differ only near boundaries of branches."""
    exact = Robot(URDFS["UR5"])
    q = exact.random(300, seed=3)
    calibrated = Robot(SIX_REVOLUTE_ARMS["UR5, off by 0.001"]).branches.measures(q)
    for name, measures in exact.branches.measures(q).items():
        is_clear = np.abs(measures) > 0.1
        assert (np.sign(calibrated[name]) == np.sign(measures))[is_clear].all()


def test_gen3_whose_shoulder_axes_almost_meet_has_names() -> None:
    assert Robot("gen3").branches.names == tuple(NAMES)


@pytest.mark.parametrize(
    ("branch", "reason"),
    [
        ({"elbo": "up"}, "the branches are shoulder, elbow, wrist; did you mean elbow"),
        ({"elbow": "left"}, "'elbow' must be 'down' or 'up', got 'left'"),
        ({"wrist": True}, "'flip' or 'no-flip', got True"),
    ],
)
def test_wrong_branch_is_refused_with_the_known_ones(branch: dict, reason: str) -> None:
    with pytest.raises(ConstraintError, match=reason):
        checked_branch(branch)
