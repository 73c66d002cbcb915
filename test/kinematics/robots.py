"""Robots of the kinematics tests and their oracles: the included robots and the robots of `descriptions.py`."""

from __future__ import annotations

import functools
import re

import pytest
from kinematics.descriptions import CASES
from kinematics.oracle import Oracle

from eim_ros.kinematics import SHIPPED_ROBOTS, Robot, share_path

__all__ = ["every_robot", "resized", "robot_and_oracle"]

every_robot = pytest.mark.parametrize("name", [*SHIPPED_ROBOTS, *CASES])


@functools.cache
def robot_and_oracle(name: str) -> tuple[Robot, Oracle]:
    """Return the robot and its oracle."""
    if name in CASES:
        urdf, base, tip = CASES[name]
        robot = Robot(urdf, tip, base=base)
    else:
        robot, urdf = Robot(name), share_path(f"urdf/{name}.urdf").read_text()
    return robot, Oracle(urdf, robot)


def resized(name: str, factor: float) -> Robot:
    """Return an included robot with all lengths multiplied by a factor."""

    def origin(match: re.Match[str]) -> str:
        return '<origin xyz="' + " ".join(str(factor * float(x)) for x in match.group(1).split()) + '"'

    return Robot(re.sub(r'<origin xyz="([^"]*)"', origin, share_path(f"urdf/{name}.urdf").read_text()))
