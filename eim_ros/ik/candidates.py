"""Candidates for an answer, with their errors, and the error codes of answers.

The error codes have the values of moveit_msgs/MoveItErrorCodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from eim_ros.core.arrays import FloatArray
from eim_ros.solver import NO_EXPERT


@dataclass(frozen=True, eq=False)
class Candidates:
    """Configurations and their errors, one row each; the columns are those of `Solutions`."""

    q: FloatArray
    position_error: FloatArray
    orientation_error: FloatArray
    valid: npt.NDArray[np.bool_]
    expert: npt.NDArray[np.uint32]

    @classmethod
    def solutions(cls, q: FloatArray, errors: FloatArray, expert: npt.NDArray[np.uint32] | None = None) -> Candidates:
        """Return verified solutions (n, dof) with errors (2, n) [m], [rad]; by default, no expert proposed them."""
        valid = np.empty(len(q), np.bool_)
        valid.fill(True)  # takes less time than np.full
        if expert is None:
            expert = np.empty(len(q), np.uint32)
            expert.fill(NO_EXPERT)
        return cls(q, errors[0], errors[1], valid, expert)

    def __len__(self) -> int:
        return len(self.q)

    @property
    def n_valid(self) -> int:
        """Number of valid rows."""
        return int(np.count_nonzero(self.valid))

    def pick(self, rows: npt.NDArray[np.int64] | slice) -> Candidates:
        """Return these rows."""
        return Candidates(
            self.q[rows], self.position_error[rows], self.orientation_error[rows], self.valid[rows], self.expert[rows]
        )

    def chosen(self) -> Candidates:
        """Return the valid rows."""
        return self if self.n_valid == len(self) else self.pick(np.flatnonzero(self.valid))

    def joined(self, other: Candidates) -> Candidates:
        """Return these rows, then those of `other`."""
        if not len(self) or not len(other):
            return other if len(other) else self
        return Candidates.concatenate([self, other])

    @classmethod
    def concatenate(cls, parts: Sequence[Candidates]) -> Candidates:
        """Return the rows of at least one part, in turn."""
        return cls(
            np.concatenate([part.q for part in parts]),
            np.concatenate([part.position_error for part in parts]),
            np.concatenate([part.orientation_error for part in parts]),
            np.concatenate([part.valid for part in parts]),
            np.concatenate([part.expert for part in parts]),
        )

    def best(self) -> Candidates:
        """Return the row with the smallest sum of errors [m + rad]; no row if there are no rows."""
        if not len(self):
            return self
        return self.pick(np.array([np.argmin(self.position_error + self.orientation_error)]))


class ErrorCode(IntEnum):
    """Outcome of a request.

    Examples
    --------
    >>> from eim_ros import Sampler
    >>> solutions = Sampler("panda").solve([2.0, 0.0, 0.5, 1.0, 0.0, 0.0, 0.0], seed=0)  # out of reach
    >>> bool(solutions), solutions.error_code.name
    (False, 'NO_IK_SOLUTION')
    """

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
