"""Results of strategies: candidates for one pose, rows and outcomes for several poses, and error codes.

The error codes have the values of moveit_msgs/MoveItErrorCodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from eim_ros.core.arrays import BoolArray, FloatArray, IntArray
from eim_ros.ik.completeness import CompletenessReport
from eim_ros.solver import NO_EXPERT

Told: TypeAlias = tuple[str, CompletenessReport | None]


@dataclass(frozen=True, eq=False)
class Candidates:
    """Configurations and their errors, one per row. `Solutions` describes the columns."""

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
        """Return the candidates at `rows`."""
        return Candidates(
            self.q[rows], self.position_error[rows], self.orientation_error[rows], self.valid[rows], self.expert[rows]
        )

    def chosen(self) -> Candidates:
        """Return the valid rows."""
        return self if self.n_valid == len(self) else self.pick(np.flatnonzero(self.valid))

    def joined(self, other: Candidates) -> Candidates:
        """Return these candidates, followed by `other`."""
        if not len(self) or not len(other):
            return other if len(other) else self
        return Candidates.concatenate([self, other])

    @classmethod
    def concatenate(cls, parts: Sequence[Candidates]) -> Candidates:
        """Return the candidates of all parts in sequence. At least one part is needed."""
        return cls(
            np.concatenate([part.q for part in parts]),
            np.concatenate([part.position_error for part in parts]),
            np.concatenate([part.orientation_error for part in parts]),
            np.concatenate([part.valid for part in parts]),
            np.concatenate([part.expert for part in parts]),
        )

    def best(self) -> Candidates:
        """Return the candidate with the smallest sum of errors [m + rad]; empty if there are no candidates."""
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
    BUSY = -7  # MoveIt's PREEMPTED: the request was not served and can be sent again
    GOAL_IN_COLLISION = -12
    INVALID_GROUP_NAME = -15
    INVALID_GOAL_CONSTRAINTS = -16
    INVALID_ROBOT_STATE = -17
    INVALID_LINK_NAME = -18
    FRAME_TRANSFORM_FAILURE = -21
    NO_IK_SOLUTION = -31


class Outcome:
    """Outcome of the search for one pose. Its message and report are created when they are read.

    Parameters
    ----------
    code : ErrorCode or int
    told : (str, CompletenessReport or None), or callable
        Message and report, or a function that returns them.
    n_total : float
        See `Solutions.n_totals`.
    effective_sample_size : float
        See `Solutions.effective_sample_sizes`.
    attempt : (q, float, float), optional
        Best attempt (dof,) and its errors [m], [rad], if there is no solution.
    """

    __slots__ = ("_told", "attempt", "code", "effective_sample_size", "n_total")

    def __init__(
        self,
        code: int,
        told: Told | Callable[[], Told],
        n_total: float = math.nan,
        effective_sample_size: float = math.nan,
        attempt: tuple[FloatArray, float, float] | None = None,
    ) -> None:
        self.code, self.n_total, self.effective_sample_size = code, n_total, effective_sample_size
        self.attempt, self._told = attempt, told

    @property
    def message(self) -> str:
        """Outcome in words."""
        return self._read()[0]

    @property
    def report(self) -> CompletenessReport | None:
        """Self-motion components, if they are known."""
        return self._read()[1]

    def _read(self) -> Told:
        if not isinstance(self._told, tuple):
            self._told = self._told()
        return self._told

    def __reduce__(self) -> tuple[Any, ...]:
        return Outcome, (self.code, self._read(), self.n_total, self.effective_sample_size, self.attempt)


class Batch(NamedTuple):
    """Poses that are answered in one call, and the arguments that they share."""

    poses: FloatArray  # (m, 4, 4), checked
    seeds: Sequence[int | None]  # (m,): random seed of each pose; None selects a new one
    reference: FloatArray | None  # (dof,): configuration that solutions should be near
    deadline: float  # time of `perf_counter` [s]
    n_threads: int


class Rows(NamedTuple):
    """Solutions of the poses of a batch."""

    q: FloatArray  # (n, dof), rows of all poses in sequence
    errors: FloatArray  # (2, n) [m], [rad]
    counts: IntArray | None  # (m,): number of rows of each pose; None if there is only one pose
    outcomes: Sequence[Outcome | None]  # (m,); None for a pose that the solver did not finish, which has no rows
    valid: BoolArray | None = None  # (n,); None if all rows are valid
    expert: npt.NDArray[np.uint32] | None = None  # (n,); None if no row comes from an expert
    log_prob: FloatArray | None = None  # (n,) [nat]


class Solver(Protocol):
    """Solver for one kind of request that answers many poses in one compiled call."""

    def solve(self, batch: Batch) -> Rows:
        """Return solutions. Poses without an outcome are left to strategies that solve one pose at a time."""
        ...


def without_open(rows: Rows) -> Rows:
    """Return only the rows of poses that have an outcome."""
    is_open = np.array([each is None for each in rows.outcomes])
    if rows.counts is None:
        return rows._replace(q=rows.q[:0], errors=rows.errors[:, :0]) if is_open[0] else rows
    if not is_open.any():
        return rows
    kept = np.repeat(~is_open, rows.counts)
    columns = (rows.valid, rows.expert, rows.log_prob)
    valid, expert, log_prob = (None if column is None else column[kept] for column in columns)
    counts = np.where(is_open, 0, rows.counts)
    return Rows(rows.q[kept], rows.errors[:, kept], counts, rows.outcomes, valid, expert, log_prob)
