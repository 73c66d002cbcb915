"""Every robot the kinematics tests run on, with its oracle: the shipped ones and those of `descriptions.py`."""

from __future__ import annotations

import functools

import pytest
from kinematics.descriptions import CASES
from kinematics.oracle import Oracle

from eim_ros.kinematics import SHIPPED_ROBOTS, Robot, share_path

__all__ = ["every_robot", "robot_and_oracle"]

every_robot = pytest.mark.parametrize("name", [*SHIPPED_ROBOTS, *CASES])


@functools.cache
def robot_and_oracle(name: str) -> tuple[Robot, Oracle]:
    """The robot and pinocchio's view of it."""
    if name in CASES:
        urdf, base, tip = CASES[name]
        robot = Robot.from_urdf(urdf, base, tip)
    else:
        robot, urdf = Robot.load(name), share_path(f"urdf/{name}.urdf").read_text()
    return robot, Oracle(urdf, robot)
