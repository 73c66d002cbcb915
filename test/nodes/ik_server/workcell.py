"""Redundant arm like those of users: on a table, with a tool, fingers, a mimic joint and continuous joints."""

from __future__ import annotations

import functools

import numpy as np
from kinematics.descriptions import joint

from eim_ros.ik import Sampler
from eim_ros.kinematics import Robot
from eim_ros.nodes.common.messages import pose_message
from eim_ros.srv import GetPositionIK

GROUPS = "arm, manipulator=tool"
ENDS = ' effort="1" velocity="1"/>'
WIDE, NARROW = (f'<limit lower="-{end}" upper="{end}"{ENDS}' for end in (2.9, 2.1))
SHAPE = '<collision><geometry><sphere radius="0.05"/></geometry></collision>'
LINKS = ("world", "base", "l1", "l2", "l3", "l4", "l5", "l6", "flange", "tool", "left_finger", "right_finger", "cover")


def _hinge(i: int, parent: str, child: str, axis: str, xyz: str, kind: str = "revolute", limit: str = WIDE) -> str:
    return joint(f"j{i}", kind, parent, child, f'<origin xyz="{xyz}"/><axis xyz="{axis}"/>{limit}')


JOINTS = (
    joint("table", "fixed", "world", "base", '<origin xyz="0.5 -0.2 0.8" rpy="0 0 0.6"/>'),
    _hinge(1, "base", "l1", "0 0 1", "0 0 0.3", "continuous"),
    _hinge(2, "l1", "l2", "0 1 0", "0 0 0", limit=NARROW),
    _hinge(3, "l2", "l3", "0 0 1", "0 0 0.4"),
    _hinge(4, "l3", "l4", "0 -1 0", "0 0 0", limit=NARROW),
    _hinge(5, "l4", "l5", "0 0 1", "0 0 0.4"),
    _hinge(6, "l5", "l6", "0 1 0", "0 0 0", limit=NARROW),
    _hinge(7, "l6", "flange", "0 0 1", "0 0 0.1", "continuous"),
    joint("tool_mount", "fixed", "flange", "tool", '<origin xyz="0.05 0 0.15" rpy="0.2 0 0.3"/>'),
    joint("finger", "prismatic", "tool", "left_finger", f'<axis xyz="0 1 0"/><limit lower="0" upper="0.04"{ENDS}'),
    joint(
        "mirror", "prismatic", "tool", "right_finger",
        f'<axis xyz="0 -1 0"/><limit lower="0" upper="0.04"{ENDS}<mimic joint="finger"/>',
    ),
    joint("lid", "revolute", "base", "cover", f'{WIDE}<mimic joint="j2" multiplier="-2" offset="0.1"/>'),
)  # fmt: skip


def _text(shape: str) -> str:
    links = (f'<link name="{link}">{shape if link in ("base", "l4", "flange") else ""}</link>' for link in LINKS)
    return '<robot name="workcell">' + "".join([*links, *JOINTS]) + "</robot>"


@functools.cache
def sampler() -> Sampler:
    return Sampler(Robot(_text(SHAPE), "flange", base="base"))


@functools.cache
def sampler_without_shapes() -> Sampler:
    return Sampler(Robot(_text(""), "flange", base="base"))


def request_for(pose: np.ndarray, **state: float) -> GetPositionIK.Request:
    """Return a request for a pose (4, 4) of the flange in the base frame, near a state."""
    result = GetPositionIK.Request()
    result.ik_request.pose_stamped.pose = pose_message(pose)
    result.ik_request.robot_state.joint_state.name = list(state)
    result.ik_request.robot_state.joint_state.position = list(state.values())
    result.ik_request.timeout.sec = 20
    return result
