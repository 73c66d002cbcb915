"""What moves with something else: links joined to another by fixed joints, on either side; joints that follow one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from eim_ros.errors import RobotError, did_you_mean
from eim_ros.kinematics.link_shapes import origin_transform
from eim_ros.kinematics.link_tree import Mimic
from eim_ros.kinematics.robot import Robot
from eim_ros.kinematics.urdf import parse_urdf

__all__ = ["fixed_links", "following_joints", "link_poses"]

FloatArray = npt.NDArray[np.float64]


@functools.lru_cache(maxsize=64)
def fixed_links(robot: Robot, link: str) -> MappingProxyType[str, FloatArray]:
    """Poses (4, 4), in the frame of a link of the robot's description, of the links that are fixed to it, itself first.

    Raises
    ------
    RobotError
        If the description has no such link.
    """
    tree = parse_urdf(robot.urdf)
    if link not in tree.links:
        raise RobotError(
            f"robot {robot.name!r} has no link {link!r}; its links: {', '.join(tree.links)}"
            f"{did_you_mean(link, tree.links)}",
            link,
        )
    across: dict[str, list[tuple[str, FloatArray]]] = {}
    for joint in (joint for joint in tree.joints if joint.kind == "fixed"):
        step = origin_transform(joint.origin_xyz, joint.origin_rpy)
        across.setdefault(joint.parent, []).append((joint.child, step))
        across.setdefault(joint.child, []).append((joint.parent, np.asarray(np.linalg.inv(step), dtype=np.float64)))
    found: dict[str, FloatArray] = {link: np.eye(4)}
    open_links = [link]
    while open_links:
        here = open_links.pop()
        for other, step in across.get(here, []):
            if other not in found:
                found[other] = found[here] @ step
                open_links.append(other)
    return MappingProxyType(found)


@functools.lru_cache(maxsize=64)
def link_poses(robot: Robot, link: str) -> Callable[[FloatArray], FloatArray]:
    """Forward kinematics of one link: from configurations (n, dof) to its poses (n, 4, 4) in the base frame.

    Raises
    ------
    RobotError
        If there is no such link, or joints move it that are not of the robot's chain.
    """
    fixed = fixed_links(robot, robot.base_link)
    if link in fixed:
        return lambda q: np.tile(fixed[link], (len(q), 1, 1))
    if link in (attached := fixed_links(robot, robot.tip_link)):
        return lambda q: robot.forward(q) @ attached[link]
    fixed_links(robot, link)  # refuses a link that there is not
    part = Robot.from_urdf(robot.urdf, robot.base_link, link)
    if foreign := [name for name in part.joint_names if name not in robot.joint_names]:
        raise RobotError(
            f"link {link!r} is moved by joint {foreign[0]!r}, which is none of the chain's: "
            f"{', '.join(robot.joint_names)}",
            link,
        )
    columns = [robot.joint_names.index(name) for name in part.joint_names]
    return lambda q: part.forward(q[:, columns])


@functools.lru_cache(maxsize=64)
def following_joints(robot: Robot) -> MappingProxyType[str, Mimic]:
    """Joints of the description, by name, that follow one of the robot's, in its chain or not."""
    joints = parse_urdf(robot.urdf).joints
    return MappingProxyType({j.name: j.mimic for j in joints if j.mimic and j.mimic.joint in robot.joint_names})
