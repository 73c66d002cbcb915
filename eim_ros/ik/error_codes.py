"""Error codes of inverse kinematics, with the values of MoveIt (moveit_msgs/MoveItErrorCodes)."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["ErrorCode"]


class ErrorCode(IntEnum):
    """Outcome of a request."""

    SUCCESS = 1
    FAILURE = 99999
    TIMED_OUT = -6
    BUSY = -7  # MoveIt's PREEMPTED: the request was not served, ask again
    GOAL_IN_COLLISION = -12
    INVALID_GROUP_NAME = -15
    INVALID_GOAL_CONSTRAINTS = -16
    INVALID_ROBOT_STATE = -17
    INVALID_LINK_NAME = -18
    FRAME_TRANSFORM_FAILURE = -21
    NO_IK_SOLUTION = -31
