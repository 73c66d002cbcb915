"""A tool on the tip of a robot: a further link, fixed to the tip link, that reaches poses in its place."""

from __future__ import annotations

import dataclasses
import math
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from eim_ros.errors import PoseError, RobotError
from eim_ros.kinematics.pose import check_pose, pose_from
from eim_ros.kinematics.robot import Robot
from eim_ros.numerics.arguments import expect, numbers_of

__all__ = ["tool_from", "with_tool"]

FloatArray = npt.NDArray[np.float64]


def tool_from(numbers: Sequence[float]) -> FloatArray:
    """Pose (4, 4) of a tool's tip in the frame of the tip link, from X Y Z [m], or X Y Z QX QY QZ QW.

    Raises
    ------
    PoseError
        If there are not 3 or 7 finite numbers, or the quaternion is not of unit length.
    """
    values = numbers_of(numbers, (None,), "a tool", PoseError)
    if len(values) not in (3, 7):
        raise PoseError(f"a tool needs 3 or 7 numbers (X Y Z [QX QY QZ QW]), got {len(values)}", numbers)
    return pose_from(values[:3], values[3:] if len(values) == 7 else None)


def with_tool(robot: Robot, tool: npt.ArrayLike) -> Robot:
    """The robot with a tool: its tip link is a new one, `<tip link>_tool`, fixed to the present one.

    Parameters
    ----------
    robot : Robot
    tool : (4, 4) array_like
        Pose of the tool's tip in the frame of the tip link [m]. The tool has no shape that collides.

    Raises
    ------
    PoseError
        If it is not a finite rigid transform.
    """
    expect(robot, Robot, "robot", RobotError)
    pose = check_pose(tool)
    description = ElementTree.fromstring(robot.urdf)
    taken = {link.get("name") for link in description.findall("link")}
    taken |= {joint.get("name") for joint in description.findall("joint")}
    name = f"{robot.tip_link}_tool"
    while name in taken:
        name += "_tool"
    ElementTree.SubElement(description, "link", name=name)
    joint = ElementTree.SubElement(description, "joint", name=name, type="fixed")
    ElementTree.SubElement(joint, "parent", link=robot.tip_link)
    ElementTree.SubElement(joint, "child", link=name)
    xyz, rpy = (" ".join(map(repr, values)) for values in (pose[:3, 3].tolist(), _roll_pitch_yaw(pose)))
    ElementTree.SubElement(joint, "origin", xyz=xyz, rpy=rpy)
    text = ElementTree.tostring(description, encoding="unicode")
    carrying = Robot.from_urdf(text, robot.base_link, name, robot.collision)
    return dataclasses.replace(carrying, folder=robot.folder)


def _roll_pitch_yaw(pose: FloatArray) -> list[float]:
    """Angles about the fixed axes x, y, z [rad], R = R_z(yaw) R_y(pitch) R_x(roll); yaw is 0 where it is free."""
    r = pose[:3, :3]
    level = math.hypot(r[0, 0], r[1, 0])  # cos pitch
    pitch = math.atan2(-r[2, 0], level)
    if level < 1e-8:  # only roll - yaw or roll + yaw is defined
        return [math.atan2(-r[1, 2], r[1, 1]), pitch, 0.0]
    return [math.atan2(r[2, 1], r[2, 2]), pitch, math.atan2(r[1, 0], r[0, 0])]
