"""Configurations with what was measured of them, while they are chosen among.

Error codes of inverse kinematics, with the values of MoveIt (moveit_msgs/MoveItErrorCodes).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Pool:
    """Configurations with what was measured of them, row by row."""

    positions: FloatArray
    position_error: FloatArray
    orientation_error: FloatArray
    valid: npt.NDArray[np.bool_]
    expert: npt.NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.positions)

    def pick(self, rows: npt.NDArray[np.int64] | slice) -> Pool:
        return Pool(
            self.positions[rows],
            self.position_error[rows],
            self.orientation_error[rows],
            self.valid[rows],
            self.expert[rows],
        )

    def chosen(self) -> Pool:
        """The valid rows."""
        return self if self.valid.all() else self.pick(np.flatnonzero(self.valid))

    def joined(self, other: Pool) -> Pool:
        if not len(self) or not len(other):
            return other if len(other) else self
        return Pool.all_of([self, other])

    @classmethod
    def all_of(cls, pools: Sequence[Pool]) -> Pool:
        """Pools one after the other, at least one."""
        return cls(
            np.concatenate([pool.positions for pool in pools]),
            np.concatenate([pool.position_error for pool in pools]),
            np.concatenate([pool.orientation_error for pool in pools]),
            np.concatenate([pool.valid for pool in pools]),
            np.concatenate([pool.expert for pool in pools]),
        )

    def best(self) -> Pool:
        """The one row with the least error, 1 m counted as 1 rad."""
        if not len(self):
            return self
        return self.pick(np.array([np.argmin(self.position_error + self.orientation_error)]))


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
