"""Which point of the robot is to reach the poses of a request: its tip, a link fixed to it, a tool on either."""

from __future__ import annotations

from typing import Any

import numpy as np
from geometry_msgs.msg import Pose

from eim_ros.ik import ErrorCode, Sampler
from eim_ros.kinematics.attachments import fixed_links
from eim_ros.nodes.ik_server.fields import RequestError, pose_of

__all__ = ["reaching"]


def reaching(sampler: Sampler, request: Any) -> Sampler:
    """The sampler for the `tip_link` and the `tool` of a request; for one without these fields itself.

    Raises
    ------
    RequestError
        INVALID_LINK_NAME or INVALID_GOAL_CONSTRAINTS.
    """
    if not hasattr(request, "tip_link") or (not request.tip_link and _is_identity(request.tool)):
        return sampler
    robot, link = sampler.robot, str(request.tip_link)
    tool = pose_of(request.tool, "tool")
    if link and link != robot.tip_link:
        fixed = fixed_links(robot, robot.tip_link)
        if link not in fixed:
            raise RequestError(
                ErrorCode.INVALID_LINK_NAME,
                f"tip_link is {link!r}, expected {robot.tip_link!r}, a link that is fixed to it "
                f"({', '.join(list(fixed)[1:]) or 'there is none'}), or nothing",
                link,
            )
        tool = fixed[link] @ tool
    return sampler if np.array_equal(tool, np.eye(4)) else sampler.with_tool(tool)


def _is_identity(pose: Pose) -> bool:
    """Whether a message is the default, as most are; comparing numbers is ten times as fast as making a matrix."""
    p, r = pose.position, pose.orientation
    return p.x == p.y == p.z == r.x == r.y == r.z == 0.0 and r.w == 1.0
