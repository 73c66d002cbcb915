"""Joint limits from robot descriptions in bags. Robots publish these URDF texts on topics `robot_description`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from eim_ros.bags.content import TABLE_SUFFIXES, TEXT
from eim_ros.bags.reader import open_bag
from eim_ros.core.arrays import BoolArray, FloatArray
from eim_ros.core.errors import DataError, RobotError
from eim_ros.kinematics import Robot, joint_limits

DESCRIPTION = "robot_description"  # last part of the topic names
Limits = dict[str, tuple[float, float]]
"""Lower and upper limit of joints by name [rad] or [m]; infinite for continuous joints."""


@dataclass(frozen=True, eq=False)
class Bounds:
    """Limits (n_joints,) of joints [rad] or [m]; infinite for continuous joints."""

    joint_names: tuple[str, ...]
    lower: FloatArray
    upper: FloatArray

    @classmethod
    def of_robot(cls, robot: Robot) -> Bounds:
        """Return the limits of the joints of a robot."""
        lower, upper = (
            np.where(robot.continuous, sign * np.inf, x) for sign, x in ((-1, robot.lower), (1, robot.upper))
        )
        return cls(robot.joint_names, lower, upper)

    @classmethod
    def described(cls, joint_names: Sequence[str], limits: Mapping[str, tuple[float, float]]) -> Bounds | None:
        """Return the limits of the joints in `joint_names`, or None if `limits` lacks one of the joints."""
        if not all(name in limits for name in joint_names):
            return None
        lower, upper = np.array([limits[name] for name in joint_names]).T
        return cls(tuple(joint_names), lower, upper)

    @property
    def continuous(self) -> BoolArray:
        return np.isinf(self.lower)


def described_limits(paths: Sequence[str | Path]) -> tuple[Limits, dict[str, list[str]]]:
    """Return the joint limits in the robot descriptions of bags, and notes about unused descriptions for each path.

    A joint is omitted if descriptions give different limits for it, or if its lower and upper limits are equal.
    """
    limits, contradicted, notes = Limits(), set[str](), dict[str, list[str]]()
    for path in paths:
        for topic, text in _texts(path).items():
            remarks = notes.setdefault(str(path), [])
            try:
                found = joint_limits(text)
            except RobotError as error:
                remarks.append(f"{topic} is not used: {error}")
                continue
            for name, (lower, upper) in found.items():
                if limits.setdefault(name, (lower, upper)) != (lower, upper):
                    remarks.append(f"the limits of joint {name} on {topic} differ from those of an earlier description")
                elif lower == upper:
                    remarks.append(f"the lower and upper limit of joint {name} on {topic} are equal")
                else:
                    continue
                contradicted.add(name)
    return {name: pair for name, pair in limits.items() if name not in contradicted}, notes


def _texts(path: str | Path) -> dict[str, str]:
    """Return the last message on each topic of robot descriptions."""
    if Path(path).suffix in TABLE_SUFFIXES:
        return {}
    try:
        with open_bag(path) as bag:
            topics = [topic for topic in bag.topics_of(TEXT) if topic.endswith(DESCRIPTION)]
            return {topic: message.data for topic, _, message in bag.messages(topics)} if topics else {}
    except (DataError, OSError):
        return {}  # the import reports why the bag cannot be read
